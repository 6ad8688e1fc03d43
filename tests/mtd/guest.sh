#!/bin/busybox sh
# What runs in the virtual machine: nandsim under every ECC, killed writers, dumps, SQLite, a block device.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
cd /tmp || exit 1

fail() {
    echo "FAILED: $*"
    poweroff -f
}

# Loads what a module needs, but not the module itself where it takes parameters.
load() {
    for file in $(grep -v "^$1.ko" "/modules/$1.list"); do insmod "/modules/$file" 2>/dev/null; done
}

# nandsim with these parameters; mtd0 are its first 96 blocks.
chip() {
    rmmod nandsim 2>/dev/null
    insmod /modules/nandsim.ko parts=96 "$@" || fail "nandsim $*"
    [ -e /dev/mtd0 ] || sleep 1
}
slc="id_bytes=0x20,0xa2,0x00,0x15"
mlc="id_bytes=0xec,0xd5,0x14,0xb6"

seq 1 1500 | awk '{ k = $1 * 7919 % 10007; print k "," $1 * 3 }' > records
sort -n -t, records > sorted

# Fills an index and finds all of it again.
live() {
    at="--device /dev/mtd0 --index $1"
    nandex device format $at --overwrite > /dev/null || fail "$name: format $1"
    nandex device import $at records > /dev/null || fail "$name: import $1"
    whole "$1" "$at"
}

# An index holds the records and is sound.
whole() {
    nandex device export $2 > found || fail "$name: export $1"
    cmp -s found sorted || fail "$name: $1 does not hold what was put in"
    nandex device check $2 > /dev/null || fail "$name: check $1"
}

# Every index under one ECC: name, parameters.
ecc() {
    name=$1
    shift
    chip "$@"
    live mu; live plow; live bplus
    nandex device info --device /dev/mtd0 | sed -n 's/^a dump of it: //p; s/^for an index/  &/p'
    nandex device stats --device /dev/mtd0 --index bplus > stats || fail "$name: stats"
    echo "ok $name"
}

test_hamming() { ecc hamming $slc; }
test_bch4() { ecc bch4 $slc bch=4; }
test_bch8() { ecc bch8 $slc bch=8; }
test_mlc() { ecc mlc $mlc; }

# Bad, weak and flipping cells: page programs and block erases that fail, bits that flip in reads.
test_ageing() {
    ecc ageing $slc bch=4 badblocks=5,9 weakblocks=20:1,30:2,31:2 weakpages=641:1,1990:1,2500:1 bitflips=1
    nandex device info --device /dev/mtd0 | grep "bad blocks:" || fail "no bad blocks"
}

# The writer is killed: what it acknowledged is there.
test_killed() {
    for index in mu plow bplus; do
        chip $slc
        at="--device /dev/mtd0 --index $index"
        nandex device format $at > /dev/null || fail "killed: format $index"
        for round in 1 2; do
            seq 1 4000 | awk -v r=$round '{ print $1 * 2 + r "," $1 }' > many
            # Emptied here: what the round before left must not count.
            : > acks
            nandex device import $at --acknowledge many >> acks 2> why &
            writer=$!
            while [ "$(wc -l < acks)" -lt $((round * 90)) ]; do
                kill -0 $writer || fail "killed: $index: $(cat why)"
                usleep 100000
            done
            kill -9 $writer
            wait $writer 2> /dev/null
            nandex device export $at | cut -d, -f1 | sort > found
            sort acks > sent
            lost=$(comm -23 sent found | wc -l)
            [ "$lost" = 0 ] || fail "killed: $index lost $lost of $(wc -l < sent)"
            nandex device check $at > /dev/null || fail "killed: check $index"
            echo "  killed $index after $(wc -l < sent) acknowledged: all there"
        done
    done
    echo "ok killed"
}

# Two owners of a node: of two who write one is refused, and nobody looks at what is being written.
test_owners() {
    many=12000
    for index in mu plow bplus; do
        chip $slc
        at="--device /dev/mtd0 --index $index"
        nandex device format $at > /dev/null || fail "owners: format $index"
        seq 1 $many | awk '{ print $1 * 2 + 1 "," $1 }' > odd
        seq 1 400 | awk '{ print $1 * 2 "," $1 }' > even
        : > acks
        nandex device import $at --acknowledge odd >> acks 2> why &
        writer=$!
        while [ ! -s acks ]; do
            kill -0 $writer || fail "owners: $index: $(cat why)"
            usleep 10000
        done
        for other in "import $at even" "put $at 2=1" "export $at" "check $at" "info --device /dev/mtd0" "dump --device /dev/mtd0 d.bin"; do
            if nandex device $other > /dev/null 2> refused; then
                [ "$(wc -l < acks)" -lt $many ] || fail "owners: $index: the writer ended before $other began"
                fail "owners: $index: $other went beside a writer"
            fi
            grep -q "in use" refused || fail "owners: $index: $other: $(cat refused)"
        done
        wait $writer || fail "owners: $index: $(cat why)"
        nandex device import $at even > /dev/null || fail "owners: $index: import after"
        [ "$(nandex device export $at | wc -l)" = $((many + 400)) ] || fail "owners: $index: records are missing"
        nandex device check $at > /dev/null || fail "owners: check $index"
    done
    echo "ok owners"
}

# Dumps: ours and nanddump's are the same, are opened, changed and put back.
test_dump() {
    name=dump
    chip $slc badblocks=7
    live mu
    nandex device dump --device /dev/mtd0 d.bin || fail "dump"
    nanddump -q -o -n --bb=dumpbad -f n.bin /dev/mtd0 || fail "nanddump"
    cmp d.bin n.bin || fail "our dump is not nanddump's"
    here="--geometry 2048+64x64 --spare 2+38 --index mu"
    whole mu "--image n.bin $here"
    nandex device put --image n.bin --copy c.bin $here 5=99 || fail "put into a copy"
    cmp -s n.bin d.bin || fail "the dump was changed"
    [ "$(nandex device get --image c.bin $here 5)" = 5,99 ] || fail "the copy lacks what was put"
    chip $slc badblocks=7
    nandex device restore --image c.bin --geometry 2048+64x64 --spare 2+38 --device /dev/mtd0 || fail "restore"
    at="--device /dev/mtd0 --index mu"
    [ "$(nandex device get $at 5)" = 5,99 ] || fail "the device lacks what was put"
    nandex device mount $at || fail "mount"
    nandex device remove $at 5 || fail "remove"
    grep -q ^5, sorted && nandex device put $at "$(grep ^5, sorted | tr , =)"
    whole mu "$at"
    # The way of the other tools.
    chip $slc badblocks=7
    flash_erase -q /dev/mtd0 0 0 2> /dev/null
    nandwrite -q -o -n -N /dev/mtd0 n.bin || fail "nandwrite"
    whole mu "$at"
    echo "ok dump"
}

# The recipes of README.md and docs/linux.md, taken from them.
test_recipes() {
    chip $slc
    sh -e /readme > told 2>&1 || fail "README: $(cat told)"
    [ "$(nandex device get --device /dev/mtd0 --index mu 7)" = 7,77 ] || fail "README: 7 is not there"
    chip $slc
    rm -f ./*.bin
    sh -e /recipes > told 2>&1 || fail "recipes: $(cat told)"
    tail -n 1 told | grep -q '^1,2$' || fail "recipes: $(cat told)"
    grep -q '^7,78$' told || fail "recipes: $(cat told)"
    echo "ok recipes"
}

test_sqlite() {
    chip $slc
    mtd-sqlite /dev/mtd0 write 300 || fail "sqlite write"
    mtd-sqlite /dev/mtd0 check 300 || fail "sqlite check"
    nandex device info --device /dev/mtd0 > told || fail "sqlite info: $(cat told)"
    grep -q "^  rows.db " told && grep -q "^  sound: every page" told || fail "sqlite info: $(cat told)"
    # A block with rows in it goes.
    flash_erase -q /dev/mtd0 $((5 * 131072)) 1 || fail "sqlite erase"
    nandex device info --device /dev/mtd0 > told && fail "sqlite: an erased block was not told"
    grep -q "^  damaged: rows.db, page " told || fail "sqlite info: $(cat told)"
    echo "ok sqlite"
}

# SQLite on this volume, on UBIFS and on ext4 over mtdblock, on the same part. Not a test: run by its name. The time is that of the
# processor, as the machine's clock has it, and that of the part by what was done to it: 25 us a read, 200 us a program, 2 ms an erase.
test_beside() {
    mount -t debugfs debug /sys/kernel/debug
    mount -t tracefs trace /sys/kernel/tracing 2> /dev/null
    for module in deflate lzo zstd ubifs mtdblock crc32c_generic ext4; do load $module; done
    for module in crc16 deflate lzo zstd ubi ubifs mtd_blkdevs mtdblock crc32c_generic mbcache jbd2 ext4; do
        insmod /modules/$module.ko 2> /dev/null
    done
    mkdir -p /mnt
    for per in 1 100; do
        for way in nandex ubifs-DELETE ubifs-WAL; do beside $way $per 20000; done
        for way in ext4-DELETE ext4-WAL; do beside $way $per $((per * 100)); done
    done
    echo "ok beside"
}

# One line: way, rows a commit, rows.
beside() {
    chip $slc bch=4 parts=256
    place=/mnt/rows.db journal=${1#*-}
    case $1 in
    nandex) place=/dev/mtd0 journal=DELETE ;;
    ubifs-*)
        ubiattach -p /dev/mtd0 > /dev/null || fail "beside: attach"
        [ -e /dev/ubi0 ] || sleep 1
        ubimkvol /dev/ubi0 -N rows -m > /dev/null || fail "beside: volume"
        mount -t ubifs ubi0:rows /mnt || fail "beside: UBIFS"
        ;;
    ext4-*)
        mkfs.ext4 -q -b 2048 /dev/mtdblock0 || fail "beside: mkfs.ext4"
        mount -t ext4 /dev/mtdblock0 /mnt || fail "beside: ext4"
        ;;
    esac
    mtd-sqlite $place write 0 1 "$journal" > /dev/null || fail "beside: $1"
    sync
    echo > /sys/kernel/tracing/kprobe_events
    for call in $calls; do
        echo "p:$call $call" >> /sys/kernel/tracing/kprobe_events || fail "beside: no probe of $call"
        echo 1 > "/sys/kernel/tracing/events/kprobes/$call/enable"
    done
    mtd-sqlite $place write "$3" "$2" "$journal" > told || fail "beside: $1"
    sync
    each=$(sed -n 's/.*rows, \([0-9]*\) us each.*/\1/p' told)
    awk -v way="$1, $2 rows a commit, $3 rows" -v rows="$3" -v each="$each" '{ n[$1] = $2 } END {
        read = n["nand_read_page_raw"]; program = n["nand_write_page_raw"]; erase = n["nand_erase_op"]
        part = (25 * read + 200 * program + 2000 * erase) / rows
        printf "  %s: %d us a row (processor %d, part %d); a row %.2f reads, %.2f programs; 1,000 rows %.1f erases\n",
            way, each + part, each, part, read / rows, program / rows, erase * 1000 / rows
    }' /sys/kernel/tracing/kprobe_profile
    for call in $calls; do echo 0 > "/sys/kernel/tracing/events/kprobes/$call/enable"; done
    [ "$1" = nandex ] || umount /mnt
    [ "${1%-*}" != ubifs ] || ubidetach -p /dev/mtd0 > /dev/null
}
# The kernel's own calls count what is done to the part, whoever does it.
calls="nand_read_page_raw nand_write_page_raw nand_erase_op"

# A block device whose writes are logged; the host cuts the power at each of them.
test_blocks() {
    load virtio_pci; insmod /modules/virtio_pci.ko 2> /dev/null
    load virtio_blk; insmod /modules/virtio_blk.ko 2> /dev/null
    load dm-log-writes; insmod /modules/dm-log-writes.ko
    for _ in 1 2 3 4 5; do [ -e /dev/vdb ] || sleep 1; done
    dmsetup create logged --noudevsync --table "0 $(blockdev --getsz /dev/vda) log-writes /dev/vda /dev/vdb" ||
        fail "dm-log-writes"
    [ -e /dev/mapper/logged ] || dmsetup mknodes
    rm -f lines acks
    mkfifo lines acks || fail "blocks: pipes"
    for index in mu plow bplus; do
        at="--device /dev/mapper/logged --index $index"
        dmsetup message logged 0 mark leave || fail "blocks: mark"
        nandex device format $at --overwrite > /dev/null || fail "blocks: format $index"
        dmsetup message logged 0 mark "index-$index" || fail "blocks: mark"
        nandex device import $at --acknowledge - < lines > acks &
        exec 3> lines 4< acks
        for key in $(seq 1 40); do
            echo "$((key * 37 % 101)),$key" >&3
            read -r acknowledged <&4
            dmsetup message logged 0 mark "key-$acknowledged" || fail "blocks: mark"
        done
        exec 3>&-
        wait
        exec 4<&-
        nandex device check $at || fail "blocks: check $index"
    done
    # SQLite in an image: the device is one, where it begins with zeros.
    for journal in DELETE WAL; do
        dmsetup message logged 0 mark leave || fail "blocks: mark"
        dd if=/dev/zero of=/dev/mapper/logged bs=64k count=1 conv=fsync 2> /dev/null || fail "blocks: dd"
        mtd-sqlite /dev/mapper/logged acknowledge $journal < lines > acks &
        exec 3> lines 4< acks
        # The first row makes the image and the table.
        for row in 1000 $(seq 1 60); do
            echo "$row" >&3
            read -r acknowledged <&4
            [ "$row" = 1000 ] && dmsetup message logged 0 mark "index-sqlite-$journal"
            dmsetup message logged 0 mark "key-$acknowledged" || fail "blocks: mark"
        done
        exec 3>&-
        wait
        exec 4<&-
    done
    dmsetup message logged 0 mark leave
    dmsetup remove --noudevsync logged
    sync
    echo "ok blocks"
}

# The firmware left something on this line.
echo
load nandsim
tests=$(cat /tests)
for test in ${tests:-hamming bch4 bch8 mlc ageing killed owners dump recipes sqlite blocks}; do "test_$test"; done
read -r up _ < /proc/uptime
echo "GUEST PASSED after $up s"
poweroff -f
