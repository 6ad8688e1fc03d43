# Everything runs from here; `make help` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help run test public test-tiers test-adding nightly time campaigns miri test-look tools lint doc book bench repro fuzz soak test-mtd test-py test-beside peers field demo-sqlite sqlite-extension sqlite-speedtest sqlite-suite c c-arm firmware firmware-keep firmware-if-there

CARGO ?= cargo

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

tools: ## check that rustc, cargo, clippy and rustfmt are there
	@command -v $(CARGO) >/dev/null || { echo "Rust 1.90 or newer is needed: https://rustup.rs"; exit 1; }
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy
	@command -v cc >/dev/null || { echo "a C compiler is needed (zstd, SQLite): apt install gcc"; exit 1; }

run: tools ## the main job: compare all indexes on the bundled real trace in every durability class, write report.html
	$(CARGO) build --release --locked -p nandex-cli
	"$(RELEASE)/nandex" compare --index all --report report.html

test: tools ## everything the gate tests; prints where its time goes
	@CARGO="$(CARGO)" tests/gate.sh gate

nightly: tools ## the long forms: all strides, campaigns, Miri and audits where they are there (hours)
	@CARGO="$(CARGO)" tests/gate.sh nightly

time: ## where the time of the last `make test` or `make nightly` went
	@tests/gate.sh time

# The engine's unit tests with as little as a tier has, and words, which tests of refusals read. The gate runs them with
# all features.
test-tiers: ## unit tests of engine and literature in each tier of features: tiny, embedded and full, each without std
	for tier in tiny embedded full; do for crate in nandex nandex-papers; do \
		$(CARGO) test -p $$crate --lib --locked --no-default-features --features $$tier,messages || exit 1; done; done

test-adding: tools ## the pages on adding an index and an FTL, applied to a copy of the sources and compiled
	CARGO="$(CARGO)" sh tests/adding.sh

RELEASE = $${CARGO_TARGET_DIR:-target}/release
# The program with debug assertions.
CAMPAIGN = $${CARGO_TARGET_DIR:-target}/campaign

test-mtd: ## devices of Linux on a stock kernel in QEMU, skipped where that is missing (MTD_INSTALL=1 installs it)
	@if sh tests/mtd/run.sh ready; then \
		$(CARGO) build --release --locked -p nandex-cli && \
		$(CARGO) build --release --locked -p nandex-sqlite --example mtd-sqlite && \
		sh tests/mtd/run.sh $(RELEASE); fi

test-py: ## the package for Python: its wheel, all its tests with Dask, pandas and the notebook (python3; the rest from PyPI)
	crates/nandex-py/test.sh

test-beside: ## nandex-sqlite in one program with the newest rusqlite, diesel and sqlx (from the registry)
	tests/beside/run.sh

# The crate stands apart: nobody who builds Nandex builds the peers, nor does the gate.
peers: ## other stores and Nandex on the same simulated chips: results/peers.csv, docs/peers.md (QUICK=1: a minute)
	for what in test build; do $(CARGO) $$what --release --locked --manifest-path peers/Cargo.toml \
		--target-dir $${CARGO_TARGET_DIR:-target}/peers || exit 1; done
	QUICK=$(QUICK) $${CARGO_TARGET_DIR:-target}/peers/release/nandex-peers $(ONLY)

FIELD = "$(RELEASE)/nandex" compare --index all --record 8/8 --threads 2
LOCAL = --workload local --set records=3000 --set range_percent=1 --set stay=60000 --set get=0 --set insert=0 --set update=100

field: tools ## what a device meets after its first day, all indexes: results/field.csv and the pages that show it
	$(CARGO) build --release --locked -p nandex-cli
	rm -rf target/field && mkdir -p target/field
	for workload in uniform local; do \
		$(FIELD) --workload $$workload --set records=50000 --ops 30000 --ram 640KiB --durability every-sync --sync-every 100 \
			--json target/field/$$workload.json; test $$? -le 1 || exit 1; done
	$(FIELD) --chip results/field-chip.toml $(LOCAL) --ops 60000 --ram 128KiB --durability every-operation \
		--json target/field/hot.json; test $$? -le 1
	"$(RELEASE)/nandex" list indexes --chip mlc-64m --record 8/8 --json >target/field/needs.json
	NANDEX_BLESS=1 NANDEX_FIELD="$$PWD/target/field" $(CARGO) test --locked -p nandex-lab --test suite field_docs::

test-look: ## the page of `nandex serve` in headless Chromium: plays, steps back, cuts the power; skipped where that is missing
	@if sh tests/look/run.sh ready; then $(CARGO) build --release --locked -p nandex-cli && \
		sh tests/look/run.sh "$(RELEASE)/nandex serve"; fi

lint: ## formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --profile test --workspace --all-targets --locked --features nandex-py/python -- -D warnings

public: ## the items that nandex promises without its feature `unstable`: 150 at most
	$(CARGO) doc --profile test -p nandex --lib --no-deps --locked --quiet
	@items=$$(grep -o '<li><a href="[a-z]' $${CARGO_TARGET_DIR:-target}/doc/nandex/all.html | wc -l); \
	echo "public items of nandex: $$items, 150 at most"; [ $$items -le 150 ]

doc: public ## rustdoc, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --profile test --workspace --no-deps --locked --quiet

book: ## the pages of docs/ as a book with search, in target/book (installs mdbook where it is missing)
	@command -v mdbook >/dev/null || $(CARGO) install --locked mdbook --version ^0.4
	mdbook build

firmware: ## each index as firmware for a Cortex-M4: built, run in QEMU, its size compared with firmware/sizes.csv
	firmware/toolchain.sh --get >/dev/null
	firmware/run.sh

firmware-keep: ## the same; the sizes become the ones that are compared with, in the tables of README and docs too
	firmware/run.sh --keep
	NANDEX_BLESS=1 $(CARGO) test --locked -p nandex --test suite firmware_docs::
	NANDEX_BLESS=1 $(CARGO) test --locked -p nandex-stacks --test suite ram_docs::

# Where core for the target and QEMU are there already: nothing is downloaded.
firmware-if-there:
	@firmware/run.sh --if-there
	@firmware/run.sh --if-there --boards
	@firmware/run.sh --if-there --c --only mu

bench: ## benchmarks of chip, FTL and indexes
	$(CARGO) bench --workspace

repro: ## every claim of every paper at full size: papers.html and the rows behind its scorecard (under an hour)
	$(CARGO) build --release --locked -p nandex-cli
	mkdir -p results
	./target/release/nandex repro --all --keep results/kept --report papers.html --csv results/scorecard.csv

demo-sqlite: ## what an insert into SQLite costs on raw flash: safe and unsafe ways, on chips and on an image
	$(CARGO) run --release --locked -p nandex-sqlite --example demo-sqlite

sqlite-speedtest: sqlite-extension ## SQLite's own load, speedtest1, on raw flash and on an ordinary file, with the SQLite of the distribution
	tests/sqlite/speedtest.sh $(RELEASE)/libnandex_sqlite.so

sqlite-suite: sqlite-extension ## Python's own tests of sqlite3 on raw flash; skipped where Python comes without them (libpython3-testsuite)
	python3 tests/sqlite/suite.py $(RELEASE)/libnandex_sqlite.so || [ $$? = 77 ]

sqlite-extension: ## the extension that any SQLite loads: target/release/libnandex_sqlite.so
	$(CARGO) build --release --locked -p nandex-sqlite --no-default-features --features extension

# A build of the C library for firmware: optimised for size, without an operating system, unwinding or debug assertions.
C_PROFILE = CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
	CARGO_PROFILE_RELEASE_PANIC=abort CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=false
C_INDEXES ?= all-indexes
C_TARGET_DIR ?= target/c
C_BUILD = $(C_PROFILE) $(CARGO) rustc --release --locked -p nandex-c --lib --crate-type staticlib --target-dir $(C_TARGET_DIR) \
	--no-default-features --features firmware,$(C_INDEXES)

c: ## the static library for C, for firmware (C_INDEXES=mu for one index alone); runs the example with it
	$(C_BUILD)
	cc -Os -Wall -Wextra -Wno-unused-function -ffunction-sections -Wl,--gc-sections -DFIRMWARE -Icrates/nandex-c/include \
		crates/nandex-c/examples/c/store.c $(C_TARGET_DIR)/release/libnandex_c.a -o $(C_TARGET_DIR)/store
	for index in $(if $(filter all-indexes,$(C_INDEXES)),mu wandering vmtree bplus bplus-dftl sbits plow,$(C_INDEXES)); do \
		$(C_TARGET_DIR)/store $$index || exit 1; done
	@size $(C_TARGET_DIR)/store
	@ls -l $(C_TARGET_DIR)/release/libnandex_c.a

c-arm: ## the same for a Cortex-M4: how large each index is linked; the examples run in QEMU (where core for the target is at hand)
	@firmware/run.sh --if-there --c

fuzz: ## fuzz each target for a minute (needs cargo-fuzz and a nightly toolchain)
	for target in $$(cd fuzz && cargo fuzz list); do (cd fuzz && mkdir -p corpus/$$target && \
		cargo +nightly fuzz run $$target corpus/$$target seeds/$$target -- -max_total_time=60) || exit 1; done

soak: tools ## the tests with new inputs, and the campaigns with a new seed
	seed=$${NANDEX_SEED:-$$(date +%s)}; echo "NANDEX_SEED=$$seed"; NANDEX_NIGHTLY=1 NANDEX_SEED=$$seed $(CARGO) test --workspace --locked && \
		$(MAKE) campaigns SEED=$$seed

MINUTES ?= 60
SEED ?= 1
# Power cuts at every operation of long runs, hours of lives, geometry and damage, with debug assertions.
campaigns: ## MINUTES=60 of each campaign over all subjects, with debug assertions, from SEED
	$(CARGO) build --profile campaign --locked -p nandex-sqlite --no-default-features --features extension
	$(CARGO) build --profile campaign --locked -p nandex-cli --features sqlite
	for index in $$($(CAMPAIGN)/nandex list indexes | awk '/^[a-z]/ {print $$1}'); do \
		$(CAMPAIGN)/nandex crash --index $$index --ops 2000 --cuts all || exit 1; done
	$(CAMPAIGN)/nandex crash --ftl page-map --ops 2000 --cuts all
	for kind in "" --until-death --damage --geometry; do \
		$(CAMPAIGN)/nandex torture --index all --ftl all --spatial all --minutes $(MINUTES) --seed $(SEED) $$kind || exit 1; done
	$(CAMPAIGN)/nandex torture --sqlite --minutes $(MINUTES) --seed $(SEED)

miri: ## the modules with unsafe code under Miri (a nightly compiler with Miri)
	$(CARGO) +nightly miri test -p nandex-c --lib ffi
