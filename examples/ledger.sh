#!/bin/sh
# Runs the ledger (ledger.c) under the lock for 30 seconds, or for the seconds given: the sum of the
# accounts must be exact. Then runs it without the lock for a few seconds: the sum must be wrong, or
# this example would show nothing.
set -eu
. "$(dirname "$0")/agent.sh"

"$HOLDFAST_EXAMPLES_DIR/ledger" --seconds "${1:-30}" "$work/ledger"

# Checks that the program reports a missing agent once, not once for each of its processes.
status=0
HOLDFAST_SOCKET="$work/none/agent.sock" "$HOLDFAST_EXAMPLES_DIR/ledger" "$work/ledger" \
    2>"$work/said" || status=$?
if [ "$status" -ne 2 ] || [ "$(grep -c 'no agent answers' "$work/said")" -ne 1 ] ||
    [ "$(wc -l <"$work/said")" -ne 1 ]; then
    echo "expected exit status 2 and one line without an agent, got $status and:" >&2
    cat "$work/said" >&2
    exit 1
fi

status=0
"$HOLDFAST_EXAMPLES_DIR/ledger" --no-lock --seconds 4 "$work/ledger-without-lock" || status=$?
if [ "$status" -ne 1 ]; then
    echo "expected exit status 1 (money lost) without the lock, got $status" >&2
    exit 1
fi
