#!/bin/sh
# The page of `nandex serve` in headless Chromium. `run.sh ready` says whether it can be opened here, and what is
# missing; `run.sh SERVER` opens it. CHROMIUM names another browser of its kind.
set -e
cd "$(dirname "$0")/../.."
for tool in "${CHROMIUM:-chromium}" python3; do
	if ! command -v "$tool" >/dev/null; then echo "skipped: $tool is not installed, the page was not opened"; exit 1; fi
done
[ "$1" = ready ] || exec python3 tests/look/browser.py "$1"
