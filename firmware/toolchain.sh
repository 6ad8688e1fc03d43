#!/usr/bin/env bash
# Says with what the firmware is built: prints lines `name=value` for `run.sh`, or a reason and exit status 3 where there is nothing.
#
# Two ways to a `core` for Cortex-M, the first that works:
#   1. rustup has the target installed (`rustup target add thumbv7em-none-eabi thumbv6m-none-eabi`).
#   2. Debian's compiler with its source, unpacked beside the build and not installed: `toolchain.sh --get` downloads about 140 MB.
#      It builds `core` and `alloc` itself, which also lets panics be taken out whole.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
deb="${NANDEX_FIRMWARE_TOOLS:-$here/target/toolchain}"

unpack() {
    mkdir -p "$deb/packages"
    local library
    library=$(apt-cache depends libstd-rust-web-dev | sed -n 's/^ *Depends: \(libstd-rust-web-[0-9.]*\)$/\1/p' | head -1)
    (cd "$deb/packages" && apt-get download rustc-web rust-web-src libstd-rust-web-dev "$library" libllvm22 >&2)
    for package in "$deb"/packages/*.deb; do dpkg -x "$package" "$deb"; done
    rm -r "$deb/packages"
}

if [ "${1:-}" = --get ] && [ ! -d "$deb/usr" ]; then
    command -v apt-get >/dev/null || { echo "this is no Debian: take 'rustup target add thumbv7em-none-eabi thumbv6m-none-eabi'" >&2; exit 3; }
    unpack
fi

if rustup target list --installed 2>/dev/null | grep -q '^thumbv7em-none-eabi$'; then
    echo "route=rustup"
    exit 0
fi
rustc="$deb/usr/bin/rustc"
library=$(dirname "$(find "$deb/usr/lib" -name 'libLLVM*.so*' 2>/dev/null | head -1)")
if [ -x "$rustc" ] && LD_LIBRARY_PATH="$library" "$rustc" --version >/dev/null 2>&1; then
    echo "route=debian"
    echo "rustc=$rustc"
    echo "library=$library"
    exit 0
fi
echo "no core for thumbv7em-none-eabi: 'rustup target add thumbv7em-none-eabi thumbv6m-none-eabi', or on Debian 'firmware/toolchain.sh --get'" >&2
exit 3
