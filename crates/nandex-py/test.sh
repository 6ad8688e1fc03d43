#!/bin/sh
# Builds the wheel, measures it, and runs every test of the package in a fresh environment with the libraries
# that it works with: 200 cells with a worker killed, here and on Dask, the notebook, the types.
#   test.sh            all of it, and a table as Parquet; what is missing comes from PyPI
#   test.sh if-there   nothing where maturin is not installed already, and nothing is downloaded
set -eu
cd "$(dirname "$0")"
limit=$((5 * 1024 * 1024))
venv=${NANDEX_PY_VENV:-$(pwd)/../../target/py-venv}

if [ "${1:-}" = if-there ]; then
    if ! [ -x "$venv/bin/maturin" ]; then
        echo "skipped: no environment with maturin in target/py-venv; make test-py makes one"
        exit 0
    fi
else
    command -v python3 >/dev/null || { echo "python3 is needed: apt install python3 python3-venv"; exit 1; }
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet "maturin>=1.7,<2" "dask[distributed]" pandas pyarrow polars matplotlib mypy
fi

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$venv/bin/maturin" build --profile wheel --locked --out "$wheels" --interpreter "$venv/bin/python"
wheel=$(ls "$wheels"/*.whl)
bytes=$(wc -c <"$wheel")
echo "$(basename "$wheel"): $bytes bytes, at most $limit"
[ "$bytes" -le "$limit" ] || { echo "the wheel is too large"; exit 1; }
"$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"

here=$(pwd)
cd "$wheels"
NANDEX_PY_FULL=1 "$venv/bin/python" -W ignore::DeprecationWarning -m unittest discover -s "$here/tests/python"
# Parquet as another reader sees it.
cargo run --quiet --release --locked --manifest-path "$here/../nandex-cli/Cargo.toml" --features parquet -- \
    sweep "$here/tests/grid.toml" --store "$wheels/kept" --out "$wheels/table.parquet"
cargo run --quiet --release --locked --manifest-path "$here/../nandex-cli/Cargo.toml" --features parquet -- \
    sweep "$here/tests/grid.toml" --store "$wheels/kept" --resume --out "$wheels/table.csv"
"$venv/bin/python" - "$wheels" <<'PY'
import sys
import pandas as pd

folder = sys.argv[1]
columns, text = pd.read_parquet(f"{folder}/table.parquet"), pd.read_csv(f"{folder}/table.csv")
pd.testing.assert_frame_equal(columns, text, check_dtype=False)
assert columns["page_reads"].dropna().min() >= 0 and columns["option.records"].dtype.kind in "if", columns.dtypes
print(f"table.parquet: {len(columns)} rows, {len(columns.columns)} columns, equal to table.csv")
PY
if [ -x "$venv/bin/mypy" ]; then
    "$venv/bin/mypy" --ignore-missing-imports -p nandex
    "$venv/bin/python" -m mypy.stubtest --ignore-missing-stub nandex._native
fi
