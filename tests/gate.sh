#!/usr/bin/env bash
# The gate or the nightly run, part by part; at the end where the time went, by part and by test program.
#
#   tests/gate.sh gate       what every change must pass
#   tests/gate.sh nightly    the long forms: all strides, campaigns, audits
#   tests/gate.sh time       the table of the last run
set -uo pipefail
cd "$(dirname "$0")/.."
kind=${1:-gate}
target=${CARGO_TARGET_DIR:-target}
cargo=${CARGO:-cargo}
table=$target/time.txt
log=$target/tests.log

# Seconds by the wall and of processor of one part, in a line of the table. The first part that fails ends the run.
part() {
    local name=$1 status
    shift
    echo "== $name"
    local TIMEFORMAT="%0R %0U %0S"
    { time "$@" >&3 2>&4; } 3>&1 4>&2 2> "$target/part.txt"
    status=$?
    read -r wall user system < <(tail -n 1 "$target/part.txt")
    printf '%-34s %6s %6s\n' "$name" "$wall" "$((user + system))" >> "$table"
    if [ $status != 0 ]; then
        echo "== $name failed"
        show
        exit $status
    fi
}

# The table, and the test programs that took longest.
show() {
    echo
    printf '%-34s %6s %6s   (seconds by the wall, of processor)\n' "part" wall cpu
    cat "$table"
    awk '{ wall += $(NF - 1); cpu += $NF } END { printf "%-34s %6d %6d\n", "all", wall, cpu }' "$table"
    [ ! -s "$log" ] || slowest
}

slowest() {
    echo
    echo "test programs that took longest (seconds by the wall)"
    # Cargo names the crate in the file of its unit tests alone, which run before its other tests.
    awk '/^ +Running / {
             file = $NF; sub(/.*\//, "", file); sub(/-[0-9a-f]+\)$/, "", file)
             if ($2 == "unittests") { crate = file ($3 == "src/main.rs" ? " (program)" : ""); name = crate ": unit tests" }
             else { name = crate ": " file }
         }
         /^ +Doc-tests / { name = $2 ": doctests" }
         /^test result: / { seconds = $NF; sub(/s$/, "", seconds); printf "%8.1f  %s\n", seconds, name }' "$log" |
        sort -rn | head -n 15
}

# Examples are linted with everything else; programs are made of those alone that have tests.
programs=(--workspace --locked --lib --bins --tests --example custom_index)

tests() {
    local status=0
    "$cargo" test "${programs[@]}" --no-fail-fast 2>&1 | tee "$log" || status=1
    "$cargo" test --workspace --locked --no-fail-fast --doc 2>&1 | tee -a "$log" || status=1
    return $status
}

linux_devices() {
    if sh tests/mtd/run.sh ready; then
        "$cargo" build --profile test --locked -p nandex-sqlite --example mtd-sqlite && sh tests/mtd/run.sh "$target/debug"
    fi
}

# A tool of its own that is not everywhere.
optional() {
    local what=$1
    shift
    if "$cargo" "$what" --version > /dev/null 2>&1; then part "$what" "$cargo" "$@"; else
        echo "== $what: skipped, it is not here (cargo install cargo-$what)"
    fi
}

lints() {
    part "formatting and lints" make --no-print-directory lint
    part "rustdoc" make --no-print-directory doc
}

gate() {
    lints
    part "build of the tests" "$cargo" test "${programs[@]}" --no-run
    part "tests" tests
    part "engine without features" "$cargo" check -p nandex --locked --no-default-features
    part "literature without features" "$cargo" check -p nandex-papers --locked --no-default-features
    part "firmware, if QEMU is there" make --no-print-directory firmware-if-there
    part "Linux devices, if QEMU is there" linux_devices
}

nightly() {
    lints
    export NANDEX_NIGHTLY=1
    part "build of the tests" "$cargo" test "${programs[@]}" --no-run
    part "tests, all strides" tests
    part "tests of each tier" make --no-print-directory test-tiers
    part "pages on adding, applied" make --no-print-directory test-adding
    part "campaigns" make --no-print-directory campaigns
    part "Linux devices, if QEMU is there" linux_devices
    part "beside other stores" make --no-print-directory peers
    if "$cargo" +nightly miri --version > /dev/null 2>&1; then part "miri" make --no-print-directory miri; else
        echo "== miri: skipped, no nightly compiler is here (rustup toolchain install nightly --component miri)"
    fi
    # Names are on no registry yet: the public items are compared with those of the last tag.
    optional semver-checks semver-checks -p nandex --baseline-rev "$(git describe --tags --abbrev=0 || echo HEAD)"
    optional deny deny check
}

mkdir -p "$target"
case $kind in
    time) [ -s "$table" ] && show || echo "no run yet: make test" ;;
    gate | nightly)
        : > "$table"
        : > "$log"
        "$kind"
        show
        ;;
    *) echo "tests/gate.sh: '$kind' is none of gate, nightly, time"; exit 2 ;;
esac
