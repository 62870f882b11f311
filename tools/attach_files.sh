#!/usr/bin/env bash
# Attach the files of the whole book (make pdf, make epub) to the release of a tag, which is made if there is none:
#   bash tools/attach_files.sh v1.2.3
set -euo pipefail
tag=$1
for form in pdf epub; do
    [ -f "_build/files/d2lbert.$form" ] || { echo "_build/files/d2lbert.$form is not there: make $form first" >&2; exit 1; }
done
gh release view "$tag" >/dev/null 2>&1 || gh release create "$tag" --verify-tag --generate-notes
gh release upload "$tag" --clobber "_build/files/d2lbert.pdf#The whole book, to print" \
    "_build/files/d2lbert.epub#The whole book, for e-readers"
