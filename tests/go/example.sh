#!/bin/sh
# Builds the example as a user's module does, and runs its script.
set -eu
. "$(dirname "$0")/environment.sh"
exec "$(dirname "$0")/../../examples/shift.sh"
