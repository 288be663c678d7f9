#!/usr/bin/env bash
# smoke.sh PROGRAM: runs the comparison with the peers that need no package. Every case measures
# something, exclusion holds, no file or process is left, and a run shows no change compared with
# itself.
set -euo pipefail

program=$1
work=$(mktemp -d /tmp/holdfast-smoke.XXXXXX)
trap 'rm -rf -- "$work"' EXIT
fail() { printf 'smoke: %s\n' "$*" >&2; exit 1; }

mkdir "$work/disk"
"$program" --quick --dir "$work/disk" --json "$work/a.json" \
    --peer flock --peer ofd --peer mutex --peer holdfast1 \
    --case alone --case names --case crowd --case readers >"$work/a.md" 2>"$work/err" ||
    { cat "$work/err" >&2; fail "a run of what needs no package failed"; }

for row in 'flock(2)' 'fcntl(2), OFD lock' 'robust pthread mutex' 'Holdfast, one host'; do
    [[ $(grep -cF "| $row |" "$work/a.md") -ge 4 ]] || fail "no row for $row"
done
grep -q '^### alone: ' "$work/a.md" || fail "no table for the case alone"
! grep -q 'EXCLUSION BROKEN\|failed in' "$work/a.md" || { cat "$work/a.md"; fail "broken"; }
[[ -z $(ls -A "$work/disk") ]] || fail "a folder was left behind"

# The cases of faults: a holder is killed, a service is restarted.
"$program" --quick --dir "$work/disk" --json "$work/b.json" --peer flock --peer holdfast1 \
    --case holder --case restart >"$work/b.md" 2>"$work/err" ||
    { cat "$work/err" >&2; fail "a run of what goes wrong failed"; }
[[ $(grep -cF '| Holdfast, one host |' "$work/b.md") -ge 3 ]] || fail "no rows of what goes wrong"
awk -F' *[|] *' '/^### restart/ { here = 1 } here && $2 == "Holdfast, one host" {
    seen = 1; bad = $4 + $5 + $7 + $8 } END { exit !seen || bad }' "$work/b.md" ||
    { cat "$work/b.md"; fail "a restart lost holds"; }
[[ -z $(ls -A "$work/disk") ]] || fail "a folder was left behind"

"$program" compare "$work/a.json" "$work/a.json" >"$work/out" || fail "compare failed"
grep -q '; 0 changed' "$work/out" || fail "a run differs from itself"
status=0
"$program" compare "$work/a.json" "$work/none.json" >/dev/null 2>&1 || status=$?
[[ $status == 66 ]] || fail "a file that is not there: exit status $status, not 66"
status=0
"$program" --peer nobody >/dev/null 2>&1 || status=$?
[[ $status == 64 ]] || fail "an unknown peer: exit status $status, not 64"
echo "the comparison measures"
