#!/usr/bin/env bash
# Files of agent/core must not call each other in a circle, except for the pairs in
# tests/house/circles. Prints each call that is part of another circle, and each listed pair that no
# longer is a circle. Fails if it has printed any.
#
#   tests/house/circles.sh
set -euo pipefail
cd -- "$(dirname -- "$0")/../.."
mapfile -t files < <(find agent/core -name '*.c' | sort)
awk -v pairs=tests/house/circles -f tests/house/circles.awk "${files[@]}" "${files[@]}"
