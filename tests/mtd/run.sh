#!/bin/sh
# The MTD driver and `nandex device` on a stock Debian kernel: nandsim and block devices in a virtual machine.
#
#   tests/mtd/run.sh ready      whether tools and kernel are there; MTD_INSTALL=1 installs packages and fetches the kernel (Debian)
#   tests/mtd/run.sh FOLDER     FOLDER has nandex and examples/mtd-sqlite
#
# Where something is missing it says so and does nothing: `ready` then ends with 1, the test with 0.
# WORK (target/mtd) keeps the kernel; NANDEX_MTD_TESTS names the tests to run [default: all that guest.sh has].
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bins=$1
work=${WORK:-$here/../../target/mtd}
packages="qemu-system-x86 busybox-static cpio kmod mtd-utils dmsetup e2fsprogs python3-minimal"

skip() {
    echo "test-mtd: skipped: $1 (MTD_INSTALL=1 make test-mtd installs what is missing on Debian)"
    [ "$bins" != ready ] || exit 1
    exit 0
}

if [ -n "${MTD_INSTALL:-}" ]; then
    apt-get update -q
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $packages
fi
for tool in qemu-system-x86_64 busybox cpio modprobe depmod nanddump nandwrite flash_erase dmsetup mkfs.ext4 python3; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null || skip "there is no $tool"
done
PATH=$PATH:/usr/sbin:/sbin

# The kernel: whatever the newest stock one depends on, since its number moves.
mkdir -p "$work"
work=$(cd "$work" && pwd)
if [ ! -d "$work/kernel/boot" ]; then
    [ -n "${MTD_INSTALL:-}" ] || skip "there is no kernel in $work/kernel"
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1)
    (cd "$work" && apt-get download "$package" && dpkg -x "$package"_*.deb kernel && rm -f "$package"_*.deb)
fi
version=$(ls "$work/kernel/lib/modules")
[ -e "$work/kernel/lib/modules/$version/modules.dep" ] || depmod -b "$work/kernel" "$version"

[ "$bins" != ready ] || exit 0

root=$work/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/tmp"
cp "$(command -v busybox)" "$root/bin/busybox"
for program in "$bins/nandex" "$bins/examples/mtd-sqlite" "$(command -v nanddump)" "$(command -v nandwrite)" \
    "$(command -v flash_erase)" "$(command -v dmsetup)" "$(command -v ubiattach)" "$(command -v ubimkvol)" \
    "$(command -v ubidetach)" "$(command -v mkfs.ext4)"; do
    [ -x "$program" ] || { echo "test-mtd: $program is not there: build it first"; exit 1; }
    cp "$program" "$root/bin/"
    ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\).*/\1/p' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
done
for module in nandsim virtio_pci virtio_blk dm-log-writes deflate lzo zstd ubifs mtdblock crc32c_generic ext4; do
    modprobe -d "$work/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p' |
        while read -r file; do
            cp -n "$file" "$root/modules/" 2>/dev/null || true
            basename "$file"
        done > "$root/modules/$module.list"
done
cp "$here/guest.sh" "$root/init"
chmod +x "$root/init"
echo "${NANDEX_MTD_TESTS:-}" > "$root/tests"
# What the documentation tells to type is typed.
sed -n '/^```sh$/,/^```$/p' "$here/../../docs/linux.md" | grep -v '^```' > "$root/recipes"
grep '^nandex device' "$here/../../README.md" > "$root/readme"
(cd "$root" && find . | cpio -o -H newc --quiet) > "$work/initrd"

# Disks: the data of the block device test, and the log of its writes.
truncate -s 0 "$work/data.img" "$work/log.img"
truncate -s 16M "$work/data.img"
truncate -s 128M "$work/log.img"
# Where times are compared, the machine's clock is that of its own instructions, 500 million a second, whatever else runs here.
clock=
case " ${NANDEX_MTD_TESTS:-} " in *" beside "*) clock="-icount shift=1,sleep=off" ;; esac
# shellcheck disable=SC2086
timeout "${MTD_TIMEOUT:-600}" qemu-system-x86_64 -accel tcg $clock -cpu max -m 1024 -kernel "$work/kernel/boot/vmlinuz-$version" \
    -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1 no_timer_check" \
    -drive "file=$work/data.img,format=raw,if=virtio" -drive "file=$work/log.img,format=raw,if=virtio" \
    -nographic -no-reboot -nodefaults -serial stdio < /dev/null | tr -d '\r' |
    tee "$work/console.log" | grep -aE '^(ok |  |FAILED|GUEST|nandex:)' || true
grep -aq '^GUEST PASSED' "$work/console.log" || { echo "test-mtd: failed in the machine"; exit 1; }
if grep -aq '^ok blocks' "$work/console.log"; then
    python3 "$here/cuts.py" "$bins" "$work/log.img" "$work/cut.img" 16777216
fi
echo "test-mtd: passed"
