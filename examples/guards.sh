#!/bin/sh
# Runs four processes of guards.cpp beside each other. Each adds 1 to the number in one file 200
# times, under two locks. In the end the number must be 800.
set -eu
. "$(dirname "$0")/agent.sh"

pids=
for _ in 1 2 3 4; do
    "$HOLDFAST_EXAMPLES_DIR/guards" 200 "$work/number" &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid"
done
number=$(cat "$work/number")
if [ "$number" -ne 800 ]; then
    echo "expected 800, got $number: two processes had the locks at once" >&2
    exit 1
fi
echo "four processes added 800 times: $number"
