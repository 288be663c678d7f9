#!/bin/sh
# A resource server that refuses a former holder (resource.c): without a rule the stale write is
# accepted; each of the two rules refuses it.
set -eu
. "$(dirname "$0")/agent.sh"

for rule in none token local; do
    "$HOLDFAST_EXAMPLES_DIR/resource" "$rule" "$work/$rule.sock"
done
