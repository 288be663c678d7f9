#!/bin/sh
# Runs the program that waits for two locks without a thread (worker.c). While another process holds
# one of the locks, the worker gets the other one and answers its input. When that process ends, the
# worker gets the second lock, too.
set -eu
. "$(dirname "$0")/agent.sh"

await() { # TEXT
    tries=0
    until grep -q "$1" "$work/said"; do
        tries=$((tries + 1))
        if [ "$tries" -ge 300 ]; then
            echo "the worker never said \"$1\":" >&2
            cat "$work/said" >&2
            exit 1
        fi
        sleep 0.1
    done
}

mkfifo "$work/input" "$work/held"
holdfast lock slow -- sh -c "echo held; cat '$work/held'" >"$work/holder" &
holder=$!
until grep -q held "$work/holder"; do
    sleep 0.05
done
: >"$work/said"
"$HOLDFAST_EXAMPLES_DIR/worker" "$HOLDFAST_SOCKET" slow quick <"$work/input" >"$work/said" &
worker=$!
exec 3>"$work/input"
await '^quick: mine'
echo "hello" >&3
await '^still waiting for 1: hello'
if grep -q '^slow: mine' "$work/said"; then
    echo "the worker had a lock that another process held" >&2
    exit 1
fi
: >"$work/held" # ends the holder
wait "$holder"
await '^slow: mine'
wait "$worker"
cat "$work/said"
