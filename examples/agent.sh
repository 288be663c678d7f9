# The example scripts source this file. It starts an agent in a new folder, and stops the agent when
# the script ends. It needs holdfastd and holdfast in $HOLDFAST_BIN_DIR (default: build/bin of this
# checkout). It sets $work to a folder for the script's files, and HOLDFAST_SOCKET to the agent's
# socket.

: "${HOLDFAST_BIN_DIR:=$(cd "$(dirname "$0")/.." && pwd)/build/bin}"
: "${HOLDFAST_EXAMPLES_DIR:=$HOLDFAST_BIN_DIR/../examples}"
PATH="$HOLDFAST_BIN_DIR:$PATH"

work=$(mktemp -d)
holdfastd --dev --state-dir "$work/state" 2>"$work/agent.log" &
agent_pid=$!

stop_agent() {
    # A stopped agent leaves its regions for the next agent, but here no other agent follows.
    regions=$(grep -o '/dev/shm/holdfast[.][A-Za-z0-9._-]*' "/proc/$agent_pid/maps" 2>/dev/null |
        sort -u || true)
    kill "$agent_pid" 2>/dev/null || true
    wait "$agent_pid" 2>/dev/null || true
    rm -rf "$work"
    for region in $regions; do
        rm -rf "$region"
    done
}
trap stop_agent EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

export HOLDFAST_SOCKET="$work/state/agent.sock"
tries=0
until holdfast status >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -ge 50 ] || ! kill -0 "$agent_pid" 2>/dev/null; then
        echo "the agent did not start:" >&2
        cat "$work/agent.log" >&2
        exit 1
    fi
    sleep 0.1
done
