#!/usr/bin/env bash
# Compares the #include lines of the code with tests/house/modules, which says which module may
# include which other one. It can also draw that file.
#
#   tests/house/arrows.sh          compares the code and the drawings; prints each difference, and
#                                  fails if there is one
#   tests/house/arrows.sh --draw   draws docs/plots/modules*.svg again
set -euo pipefail
cd -- "$(dirname -- "$0")/../.."
# The names of the parts of tests/house/modules. The first part has an empty name.
mapfile -t parts < <(echo; sed -n 's/^\[\(.*\)\]$/\1/p' tests/house/modules)
mapfile -t files < <(find agent text proto libclient cli include -name '*.[ch]' -o -name '*.hpp' | sort)
# arrows DRAW PART: compares one part (DRAW is 0), or prints its drawing (DRAW is 1)
arrows() {
    awk -v draw="$1" -v room="$2" -v files="${files[*]}" -f tests/house/arrows.awk \
        tests/house/modules "${files[@]}"
}
# drawing PART: prints the file of the part's drawing
drawing() { echo "docs/plots/modules${1:+-${1##*/}}.svg"; }

status=0
for part in "${parts[@]}"; do
    case ${1:-} in
    --draw) arrows 1 "$part" >"$(drawing "$part")" ;;
    '')
        arrows 0 "$part" || status=1
        if ! arrows 1 "$part" | cmp -s - "$(drawing "$part")"; then
            echo "$(drawing "$part") is not what tests/house/modules says: tests/house/arrows.sh --draw"
            status=1
        fi
        ;;
    *) echo "arrows.sh: unknown argument '$1', expected --draw or nothing" >&2; exit 64 ;;
    esac
done
exit "$status"
