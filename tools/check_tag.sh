#!/usr/bin/env bash
# Check that a tag such as v0.1.0 is the version in dist/, so that no release has another's number: bash tools/check_tag.sh v0.1.0
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1#v}
for file in "dist/d2lbert-$version-py3-none-any.whl" "dist/d2lbert-$version.tar.gz"; do
    if [ ! -f "$file" ]; then
        echo "the tag is $1, but there is no $file: set __version__ in d2lbert/__init__.py" >&2
        exit 1
    fi
done
