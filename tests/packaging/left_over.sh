#!/usr/bin/env bash
# The loop in docs/OPERATIONS.md lists regions in /dev/shm that no process has open. If /proc hides
# some processes, it says so in one line, however often fuser reports it.
#
# Usage: left_over.sh SOURCE_DIR
set -euo pipefail
page=$1/docs/OPERATIONS.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/bin" "$dir/shm"
touch "$dir/shm/holdfast.open" "$dir/shm/holdfast.left"

awk '/^```/ { if (on && text ~ /fuser/) print text; on = !on; text = ""; next } on { text = text $0 "\n" }' \
    "$page" | sed "s|/dev/shm|$dir/shm|g" >"$dir/loop"
[[ -s $dir/loop ]] || { echo "found no loop with fuser in $page" >&2; exit 1; }

cat >"$dir/bin/fuser" <<'EOF'
#!/bin/sh
for n in $(seq 300); do
    echo "Cannot stat file /proc/1/fd/$n: Permission denied" >&2
    echo "Cannot stat file /proc/77/fd/$n: Permission denied" >&2
done
case $2 in *.open) exit 0 ;; *) exit 1 ;; esac
EOF
printf '#!/bin/sh\necho 0\n' >"$dir/bin/id"
chmod +x "$dir/bin/fuser" "$dir/bin/id"

# check WHAT FOUND EXPECTED
check() {
    [[ $2 == "$3" ]] || { printf '%s: found %.300s, expected %s\n' "$1" "$2" "$3" >&2; exit 1; }
}
PATH=$dir/bin:$PATH sh "$dir/loop" >"$dir/out" 2>"$dir/err"
check 'left over' "$(cat "$dir/out")" "$dir/shm/holdfast.left"
check 'not seen' "$(cat "$dir/err")" 'processes that could not be looked into: 1 77'

rm "$dir/shm/holdfast.left" "$dir/shm/holdfast.open"
check 'nothing there' "$(PATH=$dir/bin:$PATH sh "$dir/loop" 2>&1)" ''

touch "$dir/shm/holdfast.left"
printf '#!/bin/sh\necho 1000\n' >"$dir/bin/id"
PATH=$dir/bin:$PATH sh "$dir/loop" >"$dir/out" 2>"$dir/err" || true
check 'not root' "$(cat "$dir/out")" ''
check 'not root, lines' "$(wc -l <"$dir/err")" 1
