#!/bin/sh
# Runs the resource server that refuses a stale holder (resource.c). Without a rule the server
# accepts the stale write. With either rule it refuses the write.
set -eu
. "$(dirname "$0")/agent.sh"

for rule in none token local; do
    "$HOLDFAST_EXAMPLES_DIR/resource" "$rule" "$work/$rule.sock"
done
