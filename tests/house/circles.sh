#!/usr/bin/env bash
# No files of agent/core call each other in a circle, except for the pairs in tests/house/circles.
# Prints each call that is part of a circle, and each pair that is none any more, and fails then.
#
#   tests/house/circles.sh
set -euo pipefail
cd -- "$(dirname -- "$0")/../.."
mapfile -t files < <(find agent/core -name '*.c' | sort)
awk -v pairs=tests/house/circles -f tests/house/circles.awk "${files[@]}" "${files[@]}"
