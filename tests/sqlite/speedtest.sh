#!/bin/sh
# SQLite's own load, speedtest1, on raw flash: the same statements on an ordinary file and on an image of a chip, with the SQLite of the
# distribution. Both must give the same results (its option --verify hashes them), and the database on the chip must be sound.
#
#   tests/sqlite/speedtest.sh EXTENSION [SIZE]     SIZE is speedtest1's, 20 unless told
#
# The source of speedtest1 comes from the distribution's source package of SQLite; it is compiled and not kept. Skipped with a word where
# something is missing.
set -eu
extension=$(realpath "$1")
size=${2:-20}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
    echo "sqlite-speedtest: skipped: $1"
    exit 0
}
for tool in apt-get cc sqlite3 tar; do
    command -v "$tool" >/dev/null || skip "$tool is missing"
done
[ -f /usr/include/sqlite3.h ] || skip "sqlite3.h is missing (apt install libsqlite3-dev)"

# Lists of source packages of this run alone.
mkdir -p "$work/sources" "$work/lists/partial"
for list in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
    [ -f "$list" ] || continue
    sed -e 's/^Types: deb$/Types: deb-src/' -e 's/^deb /deb-src /' "$list" >"$work/sources/$(basename "$list")"
done
[ -f "$work/sources/sources.list" ] && mv "$work/sources/sources.list" "$work/sources/source.list"
apt() {
    apt-get -qq -o "Dir::Etc::sourceparts=$work/sources" -o Dir::Etc::sourcelist=/dev/null \
        -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root "$@"
}
cd "$work"
{ apt update && apt --download-only source sqlite3; } >log 2>&1 || skip "no source package of sqlite3: $(tail -1 log)"
archive=$(ls sqlite3_*.orig.tar.* | head -1)
tar xf "$archive" --wildcards --strip-components=2 '*/test/speedtest1.c'
cc -O2 -w -Dmain=speedtest1_main -c speedtest1.c -o load.o
cc -O2 -Wall "$here/speedtest.c" load.o -lsqlite3 -o speedtest

# Times differ, results may not.
results() {
    sed -e 's/[0-9]*\.[0-9]*s$//' -e '/^--/!s/ *$//' "$1" | grep -v -e TOTAL -e '^-- Speedtest1' || true
}
device="file:speed.db?vfs=nandex&device=$work/chip.img&size=512M"
./speedtest --size "$size" --verify "file:$work/plain.db" >plain.txt
NANDEX_SQLITE=$extension ./speedtest --size "$size" --verify "$device" >flash.txt
results plain.txt >plain.results
results flash.txt >flash.results
cmp plain.results flash.results
sound=$(sqlite3 :memory: ".load $extension" ".open $device" "PRAGMA integrity_check")
[ "$sound" = ok ] || { echo "integrity_check: $sound"; exit 1; }
echo "speedtest1 --size $size: $(grep -c '^ *[0-9]' flash.results) groups of statements, the same results on an ordinary file and on the chip; integrity_check ok"
grep TOTAL plain.txt | sed 's/^/ordinary file: /'
grep TOTAL flash.txt | sed 's/^/on the chip:   /'
sqlite3 :memory: ".load $extension" ".open $device" "PRAGMA nandex_stats"
