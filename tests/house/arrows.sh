#!/usr/bin/env bash
# Which module may include which other one (tests/house/modules), compared with the code; and the
# same as a drawing.
#
#   tests/house/arrows.sh          compares, also the drawing; prints what is wrong, and fails then
#   tests/house/arrows.sh --draw   draws docs/plots/modules.svg anew
set -euo pipefail
cd -- "$(dirname -- "$0")/../.."
# The parts of tests/house/modules; the first has no name.
mapfile -t parts < <(echo; sed -n 's/^\[\(.*\)\]$/\1/p' tests/house/modules)
mapfile -t files < <(find agent text proto libclient cli include -name '*.[ch]' -o -name '*.hpp' | sort)
# arrows DRAW PART
arrows() {
    awk -v draw="$1" -v room="$2" -v files="${files[*]}" -f tests/house/arrows.awk \
        tests/house/modules "${files[@]}"
}
# drawing PART: its file
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
