#!/usr/bin/env bash
# Files of agent/core must not call each other in a circle, except for the pairs in
# tests/house/circles. Where a header of agent/core lists the files of its folder, each of them calls
# only files below it in that list. Prints each call that is part of another circle, each call that
# goes up in such a list, and each listed pair that no longer is a circle. Fails if it has printed
# any.
#
#   tests/house/circles.sh
set -euo pipefail
cd -- "$(dirname -- "$0")/../.."
mapfile -t files < <(find agent/core -name '*.c' | sort)
mapfile -t lists < <(grep -rl --include='*.h' 'A file calls only files below it' agent/core | sort)
awk -v pairs=tests/house/circles -v lists="${lists[*]}" -f tests/house/circles.awk "${files[@]}" "${files[@]}"
