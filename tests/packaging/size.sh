#!/usr/bin/env bash
# holdfastd without its symbols and debug information has at most 1.5 MiB, so that it fits an
# embedded node (docs/LIMITS.md).
#
# Usage: size.sh HOLDFASTD STRIP
set -euo pipefail
MOST=$((3 * 512 * 1024))

stripped=$(mktemp)
trap 'rm -f -- "$stripped"' EXIT
"$2" -o "$stripped" "$1"
size=$(stat -c %s "$stripped")
echo "$1: $size bytes stripped, expected at most $MOST"
((size <= MOST))
