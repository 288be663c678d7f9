#!/bin/sh
# Builds shift.go, and runs three processes of it beside each other. The first one that works is
# killed, the hold of the second one is broken by an administrator, the third one is asked to end.
# Each time another process must work, and no line of the journal may have a lower token than the
# line before it.
set -eu
if ! command -v go >/dev/null; then
    echo "there is no go (Debian: golang-go)"
    exit 77
fi
. "$(dirname "$0")/agent.sh"
here=$(cd "$(dirname "$0")" && pwd)

# The package is not on the network: the program's module names the folder in which it is.
mkdir "$work/module"
cp "$here/shift.go" "$work/module/main.go"
cat >"$work/module/go.mod" <<MODULE
module example/shift

go 1.19

require holdfast v0.1.0

replace holdfast => ${HOLDFAST_GO_DIR:-$here/../go/holdfast}
MODULE
export PKG_CONFIG_PATH="${PKG_CONFIG_PATH:-$HOLDFAST_BIN_DIR/../lib/pkgconfig}"
(cd "$work/module" && go build -o "$work/shift" .)

journal="$work/journal"
touch "$journal"
pids=
for name in a b c; do
    "$work/shift" "$name" "$journal" &
    pids="$pids $!"
    echo $! >"$work/pid.$name"
done
stop_all() {
    # shellcheck disable=SC2086 # several words, by design
    kill -9 $pids 2>/dev/null || true
    stop_agent
}
trap stop_all EXIT

# Sets $name and $token to those of a worker with a token above the one given.
await_worker() {
    tries=0
    while :; do
        read -r token name <<LINE
$(tail -n 1 "$journal")
LINE
        [ "${token:-0}" -le "$1" ] || return 0
        tries=$((tries + 1))
        if [ "$tries" -ge 600 ]; then
            echo "nobody works after token $1:" >&2
            cat "$journal" >&2
            exit 1
        fi
        sleep 0.1
    done
}

await_worker 0
kill -9 "$(cat "$work/pid.$name")"
killed=$name
await_worker "$token"
[ "$name" != "$killed" ] || { echo "$name was killed and works" >&2; exit 1; }
holdfast break shift
await_worker "$token"
kill -TERM "$(cat "$work/pid.$name")"
wait "$(cat "$work/pid.$name")"
await_worker "$token"

cut -d' ' -f1 "$journal" | sort -n -c || { echo "an old worker wrote late" >&2; exit 1; }
echo "four times one process worked, each time with a higher token"
