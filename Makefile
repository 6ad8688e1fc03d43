# Everything runs from here; `make help` lists the targets.
.DEFAULT_GOAL := help
.PHONY: help run test tools lint doc bench repro fuzz soak

CARGO ?= cargo
TRACE := data/kernel_compile.ops.zst

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

tools: ## check that rustc, cargo, clippy and rustfmt are there
	@command -v $(CARGO) >/dev/null || { echo "Rust 1.90 or newer is needed: https://rustup.rs"; exit 1; }
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy
	@command -v cc >/dev/null || { echo "a C compiler is needed (zstd): apt install gcc"; exit 1; }

run: tools ## the main job: compare the indexes on the bundled real trace, write report.html
	$(CARGO) build --release --locked -p nandex-cli
	./target/release/nandex compare --trace $(TRACE) --ram 128KiB --report report.html

test: tools lint doc ## everything the gate tests
	$(CARGO) test --workspace --locked
	$(CARGO) build -p nandex --locked --no-default-features

lint: ## formatting and lints, warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

doc: ## rustdoc, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet

bench: ## benchmarks of chip, FTL and indexes
	$(CARGO) bench --workspace

repro: ## the scorecard of the mu-Tree paper at full size (minutes)
	$(CARGO) run --release --locked -p nandex-cli -- repro --paper mu

fuzz: ## fuzz each target for a minute (needs cargo-fuzz and a nightly toolchain)
	for target in $$(cd fuzz && cargo fuzz list); do (cd fuzz && cargo +nightly fuzz run $$target -- -max_total_time=60) || exit 1; done

soak: ## power cuts at every physical operation of long runs (minutes to hours)
	for index in mu wandering bplus; do \
		$(CARGO) run --release --locked -p nandex-cli -- crash --index $$index --ops 2000 --cuts all || exit 1; done
	$(CARGO) run --release --locked -p nandex-cli -- crash --ftl page-map --ops 2000 --cuts all
