#!/bin/sh
# The ledger (ledger.c) under the lock for 30 seconds, or for the seconds given: its sum must be
# exact. Then without the lock for a few: its sum must be wrong, else this example shows nothing.
set -eu
. "$(dirname "$0")/agent.sh"

"$HOLDFAST_EXAMPLES_DIR/ledger" --seconds "${1:-30}" "$work/ledger"

status=0
"$HOLDFAST_EXAMPLES_DIR/ledger" --no-lock --seconds 4 "$work/ledger-without-lock" || status=$?
if [ "$status" -ne 1 ]; then
    echo "expected exit status 1 (money lost) without the lock, got $status" >&2
    exit 1
fi
