#!/bin/sh
# Runs three processes of leader.py beside each other. The first leader is killed, the hold of the
# second one is broken by an administrator, the third one is asked to end. Each time another process
# must lead, and no line of the journal may have a lower token than the line before it.
set -eu
if ! command -v python3 >/dev/null; then
    echo "there is no python3"
    exit 77
fi
. "$(dirname "$0")/agent.sh"
. "$(dirname "$0")/three.sh"
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH="$HOLDFAST_BIN_DIR/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

three_take_turns leader leads "$here/leader.py"
echo "four times one process led, each time with a higher token"
