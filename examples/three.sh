# leader.sh and shift.sh source this file, behind agent.sh. It runs three processes of a program
# beside each other, of which one at a time has a lock and works.

# three_take_turns LOCK LEADS COMMAND: starts `COMMAND NAME JOURNAL` three times. Each process waits
# for the lock LOCK. While it has the lock, it writes lines "TOKEN NAME" into the journal. The first
# process that has the lock is killed, the hold of the second one is broken by an administrator, the
# third one is asked to end. Each time another process must get the lock, and no line of the journal
# may have a lower token than the line before it. LEADS is the verb for what the process does then.
three_take_turns() {
    journal="$work/journal"
    touch "$journal"
    pids=
    for name in a b c; do
        "$3" "$name" "$journal" &
        pids="$pids $!"
        echo $! >"$work/pid.$name"
    done
    trap three_stop EXIT

    three_await 0 "$2"
    kill -9 "$(cat "$work/pid.$name")"
    killed=$name
    three_await "$token" "$2"
    [ "$name" != "$killed" ] || { echo "$name was killed and $2" >&2; exit 1; }
    holdfast break "$1"
    three_await "$token" "$2"
    kill -TERM "$(cat "$work/pid.$name")"
    wait "$(cat "$work/pid.$name")"
    three_await "$token" "$2"

    cut -d' ' -f1 "$journal" | sort -n -c || { echo "an old process wrote late" >&2; exit 1; }
}

three_stop() {
    # shellcheck disable=SC2086 # several words, by design
    kill -9 $pids 2>/dev/null || true
    stop_agent
}

# three_await TOKEN LEADS: sets $name and $token to those of a process with a token above TOKEN.
three_await() {
    tries=0
    while :; do
        read -r token name <<LINE
$(tail -n 1 "$journal")
LINE
        [ "${token:-0}" -le "$1" ] || return 0
        tries=$((tries + 1))
        if [ "$tries" -ge 600 ]; then
            echo "nobody $2 after token $1:" >&2
            cat "$journal" >&2
            exit 1
        fi
        sleep 0.1
    done
}
