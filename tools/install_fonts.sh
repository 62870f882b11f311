#!/usr/bin/env bash
# Fonts for the Chinese and Korean letters of the book, which `make pdf` takes from the system; for Debian and Ubuntu.
set -euo pipefail
run() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
run apt-get update -qq
run apt-get install -y -qq --no-install-recommends fonts-droid-fallback
