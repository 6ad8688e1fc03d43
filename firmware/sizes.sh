#!/usr/bin/env bash
# text,data,bss of an ELF file. The heap and the chip are sections of their own and in none of the three.
set -euo pipefail
if command -v readelf >/dev/null; then reader=readelf; else reader=llvm-readelf; fi
$reader -SW "$1" | sed 's/^ *\[ *[0-9]*\] *//' | awk '
    function hex(digits,   n, i) {
        n = 0
        for (i = 1; i <= length(digits); i++) n = n * 16 + index("0123456789abcdef", tolower(substr(digits, i, 1))) - 1
        return n
    }
    $1 == ".vector_table" || $1 == ".text" || $1 == ".rodata" || $1 ~ /^\.ARM\.ex/ {text += hex($5)}
    $1 == ".data" {data += hex($5)}
    $1 == ".bss" {bss += hex($5)}
    END {print text "," data + 0 "," bss + 0}'
