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
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
export LD_LIBRARY_PATH="$HOLDFAST_BIN_DIR/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

journal="$work/journal"
touch "$journal"
pids=
for name in a b c; do
    "$here/leader.py" "$name" "$journal" &
    pids="$pids $!"
    echo $! >"$work/pid.$name"
done
stop_all() {
    # shellcheck disable=SC2086 # several words, by design
    kill -9 $pids 2>/dev/null || true
    stop_agent
}
trap stop_all EXIT

# Sets $name and $token to those of a leader with a token above the one given.
await_leader() {
    tries=0
    while :; do
        read -r token name <<LINE
$(tail -n 1 "$journal")
LINE
        [ "${token:-0}" -le "$1" ] || return 0
        tries=$((tries + 1))
        if [ "$tries" -ge 600 ]; then
            echo "nobody leads after token $1:" >&2
            cat "$journal" >&2
            exit 1
        fi
        sleep 0.1
    done
}

await_leader 0
kill -9 "$(cat "$work/pid.$name")"
killed=$name
await_leader "$token"
[ "$name" != "$killed" ] || { echo "$name was killed and leads" >&2; exit 1; }
holdfast break leader
await_leader "$token"
kill -TERM "$(cat "$work/pid.$name")"
wait "$(cat "$work/pid.$name")"
await_leader "$token"

cut -d' ' -f1 "$journal" | sort -n -c || { echo "an old leader wrote late" >&2; exit 1; }
echo "four times one process led, each time with a higher token"
