#!/bin/sh
# nandex-sqlite in one program with the newest rusqlite, diesel and sqlx that the registry has: each resolves, with our bundled SQLite and
# without, builds, and commits to a simulated chip through the SQLite of the other crate.
#
#   tests/beside/run.sh [rusqlite|diesel|sqlx]...
set -eu
cd "$(dirname "$0")"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/../../target}/beside" CARGO_PROFILE_DEV_DEBUG=0
[ $# -gt 0 ] || set -- */
for crate in "$@"; do
    crate=${crate%/}
    # The features that are off are resolved, too.
    (cd "$crate" && cargo update --quiet && cargo run --quiet)
    versions=$(awk -F'"' -v crate="$crate" '/^name = /{name = $2} /^version = / && (name == crate || name == "rusqlite" || name == "libsqlite3-sys") {
        printf " %s %s", name, $2}' "$crate/Cargo.lock")
    echo "beside-$crate: well, beside$versions"
done
