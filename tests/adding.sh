#!/bin/sh
# Puts the blocks of docs/adding-an-index.md and docs/adding-an-ftl.md into a copy of the sources, compiles the copy,
# and runs the index and the FTL `echo` that come of them.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}/adding" && cd "${CARGO_TARGET_DIR:-target}/adding" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z | xargs -0 cp --parents -t "$copy"

# `<!-- new file: PATH -->` and a block: the file. `<!-- in PATH, before: TEXT -->` and a block: the block goes before the
# first line that begins with the text.
apply() {
    awk -v root="$copy" '
        function put(   at, line, done, out) {
            if (text == "") { printf "%s" , block > (root "/" path); close(root "/" path); return }
            at = root "/" path; out = ""; done = 0
            while ((getline line < at) > 0) {
                if (!done && index(line, text) == 1) { out = out block; done = 1 }
                out = out line "\n"
            }
            close(at)
            if (!done) { print FILENAME ": no line of " path " begins with: " text > "/dev/stderr"; exit 1 }
            printf "%s", out > at; close(at)
        }
        /^<!-- new file: .* -->$/ { path = substr($0, 16, length($0) - 19); text = ""; is_next = 1; blocks++
                                    system("mkdir -p \"$(dirname \"" root "/" path "\")\""); next }
        /^<!-- in .*, before: .* -->$/ { rest = substr($0, 9, length($0) - 12); at = index(rest, ", before: ")
                                         path = substr(rest, 1, at - 1); text = substr(rest, at + 10); is_next = 1; blocks++; next }
        is_next && /^```rust/ { is_block = 1; is_next = 0; block = ""; next }
        is_block && /^```$/ { is_block = 0; put(); next }
        is_block { block = block $0 "\n" }
        END { if (!blocks) { print FILENAME ": no block to apply" > "/dev/stderr"; exit 1 } }
    ' "$1"
}
apply docs/adding-an-index.md
apply docs/adding-an-ftl.md

cd "$copy"
export CARGO_TARGET_DIR="$target" CARGO_INCREMENTAL=0
"$cargo" build --locked -p nandex-cli
nandex=$target/debug/nandex
for list in indexes ftls; do
    "$nandex" list $list | grep -q "^echo" || { echo "list $list does not have echo"; exit 1; }
done
"$nandex" compare --index echo,bplus --ops 500
"$nandex" crash --index echo --ops 100 --cuts 20
"$nandex" crash --ftl echo --ops 100 --cuts 20
"$nandex" counts --ftl echo
