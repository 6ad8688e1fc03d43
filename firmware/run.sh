#!/usr/bin/env bash
# Builds the firmware once for each index, runs each in QEMU, prints the sizes and compares them with sizes.csv.
#
#   run.sh                   all of it; ends with 1 where a text has grown by more than 5 % or a run is wrong
#   run.sh --keep            writes sizes.csv anew
#   run.sh --only mu,plow    these only
#   run.sh --immediate       panics without any code (the Debian route only); compares nothing
#   run.sh --if-there        skips with a word where the tools are missing
#   run.sh --c               builds the C library for a Cortex-M4, one index at a time, prints what each takes linked, and stops
#   run.sh --boards          builds the examples for two boards with an SPI NAND part (boards/), and stops
#   run.sh --core            builds the engine for Cortex-M0, which has no atomic instructions, and stops
set -euo pipefail
cd "$(dirname "$0")"
all="mu wandering vmtree bplus-page-map bplus-dftl sbits r-tree plow"
keep= if_there= immediate= core= boards= c=
while [ $# -gt 0 ]; do
    case $1 in
        --keep) keep=1 ;;
        --only) all=${2//,/ }; shift ;;
        --immediate) immediate=1 ;;
        --if-there) if_there=1 ;;
        --core) core=1 ;;
        --boards) boards=1 ;;
        --c) c=1 ;;
        *) echo "$0: what is $1?" >&2; exit 2 ;;
    esac
    shift
done

skip() {
    echo "firmware: skipped: $1"
    [ -n "$if_there" ] && exit 0
    exit 1
}

words=$(./toolchain.sh 2>&1) || skip "$words"
[ -n "$c$boards$core" ] || command -v qemu-system-arm >/dev/null || skip "no qemu-system-arm (apt-get install qemu-system-arm)"
value() { sed -n "s/^$1=//p" <<<"$words"; }
host=$(rustc -vV | sed -n 's/^host: //p')
linker="$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld"
[ -x "$linker" ] || linker=$(command -v ld.lld || command -v rust-lld) || skip "no lld"
route=$(value route)
standard=()
if [ "$route" = debian ]; then
    RUSTC=$(value rustc)
    LD_LIBRARY_PATH=$(value library)
    RUSTC_BOOTSTRAP=1
    export RUSTC LD_LIBRARY_PATH RUSTC_BOOTSTRAP
    standard=(-Z build-std=core,alloc)
fi
# Functions that came out alike are linked once: of generic code there are many.
flags="-C linker=$linker -C linker-flavor=ld.lld -C link-arg=--icf=all"
if [ -n "$immediate" ]; then
    [ "$route" = debian ] || skip "panics are taken out by building core anew"
    standard+=(-Z panic-immediate-abort)
fi
# Of its own, whatever the caller builds with: other flags would be other sizes.
for name in $(compgen -e | grep '^CARGO_PROFILE_' || true); do unset "$name"; done
if [ -n "$immediate" ]; then export CARGO_PROFILE_RELEASE_PANIC=immediate-abort; fi
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR="$PWD/target${immediate:+/immediate}"
export CARGO_TARGET_THUMBV7EM_NONE_EABI_RUSTFLAGS=$flags

if [ -n "$core" ]; then
    cargo build --quiet --locked --release "${standard[@]}" --target thumbv6m-none-eabi -p nandex
    echo "firmware: the engine builds for thumbv6m-none-eabi"
    exit 0
fi

# Builds an example of C for the board with Debian's compiler and runs it: the records are there after a mount.
run_c() {
    local name=$1 library=$2 example=store image="$CARGO_TARGET_DIR/c-$1-example.elf"
    if [ "$name" = r-tree ]; then example=places; fi
    arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=soft -Os -Wall -Wextra -DFIRMWARE -ffunction-sections -nostartfiles \
        --specs=nosys.specs -Wl,--gc-sections,-z,noexecstack -T c/board.ld -I ../crates/nandex-c/include \
        c/board.c "../crates/nandex-c/examples/c/$example.c" "$library" -o "$image"
    timeout 100 qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none \
        -semihosting-config "enable=on,target=native,arg=$example,arg=$name" -kernel "$image"
}

if [ -n "$c" ]; then
    board=1
    for tool in arm-none-eabi-gcc qemu-system-arm; do command -v "$tool" >/dev/null || board=; done
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
    export CARGO_PROFILE_RELEASE_PANIC=abort CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=false
    calls=" nandex_new nandex_format nandex_mount nandex_put nandex_get nandex_remove nandex_scan nandex_sync nandex_close"
    calls+=" nandex_check nandex_free nandex_use_arena nandex_on_panic nandex_last_message"
    for index in $all; do
        name=${index/bplus-page-map/bplus} called=$calls
        if [ "$name" = r-tree ]; then called=${calls//nandex_/nandex_map_} called=${called/nandex_map_scan/nandex_map_window}; fi
        called=${called/nandex_map_use_arena/nandex_use_arena} called=${called/nandex_map_on_panic/nandex_on_panic}
        called=${called/nandex_map_put/nandex_map_insert} called=${called/nandex_map_get/nandex_map_nearest} called=${called/ nandex_map_sync/}
        (cd .. && cargo rustc --quiet --locked --release "${standard[@]}" --target thumbv7em-none-eabi -p nandex-c --lib \
            --crate-type staticlib --no-default-features --features "firmware,$name")
        library="$CARGO_TARGET_DIR/thumbv7em-none-eabi/release/libnandex_c.a"
        "$linker" -flavor gnu --gc-sections --icf=all -e nandex_mount ${called// / -u } "$library" -o "$CARGO_TARGET_DIR/c-$name.elf"
        echo "c: $name, text,data,bss: $(./sizes.sh "$CARGO_TARGET_DIR/c-$name.elf")"
        if [ -n "$board" ]; then run_c "$name" "$library"; fi
    done
    [ -n "$board" ] || echo "c: skipped: the examples were not run (apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm)"
    exit 0
fi

if [ -n "$boards" ]; then
    export CARGO_TARGET_THUMBV6M_NONE_EABI_RUSTFLAGS=$flags
    for board in rp2040:thumbv6m-none-eabi stm32f4:thumbv7em-none-eabi; do
        name=${board%%:*} target=${board#*:}
        (cd boards && cargo build --quiet --locked --release "${standard[@]}" --target "$target" --bin "$name")
        echo "firmware: $name, text,data,bss: $(./sizes.sh "$CARGO_TARGET_DIR/$target/release/$name")"
    done
    exit 0
fi

table=$(mktemp)
trap 'rm -f "$table"' EXIT
echo "index,text,data,bss,heap_peak,stack_peak" >"$table"
wrong=
for index in $all; do
    cargo build --quiet --locked --release "${standard[@]}" --target thumbv7em-none-eabi --features "$index"
    image="$CARGO_TARGET_DIR/thumbv7em-none-eabi/release/nandex-firmware"
    cp "$image" "$CARGO_TARGET_DIR/$index.elf"
    told=$(timeout 100 qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none \
        -semihosting-config enable=on,target=native -kernel "$image" 2>&1) || {
        echo "firmware: $index: the run is wrong: $told" >&2
        wrong=1
    }
    told_of() { sed -n "s/^$1=//p" <<<"$told"; }
    # text: what goes into the flash for code and constants; the heap and the chip are no part of bss.
    sizes=$(./sizes.sh "$image")
    echo "$index,$sizes,$(told_of heap_peak),$(told_of stack_peak)" >>"$table"
done
expand -t 18 < <(tr ',' '\t' <"$table")
[ -z "$wrong" ] || exit 1
if [ -n "$immediate" ]; then exit 0; fi
if [ -n "$keep" ]; then
    cp "$table" sizes.csv
    exit 0
fi
awk -F, 'FNR == 1 {next} FNR == NR {kept[$1] = $2; next}
    !($1 in kept) {print "firmware: " $1 " is not in sizes.csv: make firmware-keep"; bad = 1; next}
    $2 > kept[$1] * 1.05 {print "firmware: the text of " $1 " has grown from " kept[$1] " to " $2 " bytes, more than 5 %"; bad = 1}
    $2 < kept[$1] * 0.95 {print "firmware: the text of " $1 " has shrunk from " kept[$1] " to " $2 " bytes: make firmware-keep"}
    END {exit bad}' sizes.csv "$table"
