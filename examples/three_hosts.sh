#!/usr/bin/env bash
# Three hosts, one lock: what happens when a coordinator is killed and when a holder's host is cut off.
#
# The hosts are network namespaces on this machine, joined by a bridge (for root), or only three
# ports of the loopback interface. Each has an agent of its own and a worker that takes the lock
# `ledger` again and again through `holdfast lock`. The script prints each fault that it makes,
# checks that the cell does what it should, and leaves nothing behind. It takes about half a minute.
#
# `./dev demo` builds and runs it; tests run it too. HOLDFAST_BIN_DIR says where the programs are.
set -euo pipefail

SELF=$(readlink -f -- "${BASH_SOURCE[0]}")
BIN=$(cd -- "${HOLDFAST_BIN_DIR:-$(dirname -- "$SELF")/../build/bin}" && pwd)
HOSTS=(a b c)
LOCK=ledger
TTL_MS=2000 # session_ttl and grace_period; the lock-delay is the default, 1 s
GUARD_S=20  # nothing here takes that long unless something is wrong

# ---- messages and events, with times by the machine's clock

now_ms() { local t=${EPOCHREALTIME/[.,]/}; echo $((t / 1000)); }

# seconds MS: prints milliseconds as seconds, such as "1.2".
seconds() { printf '%d.%d' $(($1 / 1000)) $(($1 % 1000 / 100)); }

# Prints one line about what happens, with the time since the beginning, in one write.
tell() {
    local ms=$(($(now_ms) - DEMO_BEGUN_MS))
    printf '%6s s  %s\n' "$(seconds "$ms")" "$*"
}

explain() { printf '\n'; printf '%s\n' "$@"; }

# Appends an event for await() to a file: TIME_MS HOST WHAT TOKEN.
note() { printf '%s %s %s %s\n' "$(now_ms)" "$1" "$2" "${3:--}" >>"$DEMO_DIR/events"; }

die() {
    printf 'demo: %s\n' "$*" >&2
    tail -n 5 "$DEMO_DIR"/host-*.log >&2 || true
    exit 1
}

# ---- the workers; this script calls itself for them

# Runs as the command under the lock.
work() {
    local host=$1
    note "$host" holds "$HOLDFAST_TOKEN"
    tell "    $host holds \`$LOCK\`, token $HOLDFAST_TOKEN"
    if [[ -e $DEMO_DIR/long ]]; then
        rm "$DEMO_DIR/long"
        note "$host" long "$HOLDFAST_TOKEN"
        sleep 60 # `holdfast lock` ends it long before
    else
        sleep 0.6
    fi
    note "$host" is-done "$HOLDFAST_TOKEN"
}

# The worker of each host: takes the lock again and again.
worker() {
    local host=$1 status
    export DEMO_HOST=$host HOLDFAST_SOCKET=$DEMO_DIR/$host/agent.sock
    until [[ -e $DEMO_DIR/stop ]]; do
        status=0
        setpriv --pdeathsig KILL -- holdfast lock "$LOCK" -- work 2>>"$DEMO_DIR/$host.worker.log" || status=$?
        if ((status == 76)); then
            note "$host" ended
            tell "    $host's work is ended by \`holdfast lock\`: its hold has run out (exit status 76)"
        fi
        sleep 0.1
    done
}

case ${1:-} in
--work) work "$DEMO_HOST"; exit ;;
--worker) worker "$2"; exit ;;
--loopback) NAMESPACES=no ;;
'') NAMESPACES=yes ;;
*) printf 'usage: %s [--loopback]\n' "$0" >&2; exit 64 ;;
esac

# ---- hosts

PROCESSES=() # to be ended with the script: keepers of namespaces, workers
declare -A AGENT KEEPER ADDRESS

# Starts a command in the background. The kernel kills it when this script ends for any reason.
tied() { setpriv --pdeathsig KILL -- "$@" & PROCESSES+=($!); }

# on HOST COMMAND...: runs the command in the host's network.
on() {
    local host=$1
    shift
    if [[ $NAMESPACES == yes ]]; then nsenter -t "${KEEPER[$host]}" -n -- "$@"; else "$@"; fi
}

# Waits until a process is in another network namespace than this script.
await_namespace() {
    local tries own its
    own=$(readlink /proc/self/ns/net)
    for ((tries = 0; tries < 200; tries++)); do
        its=$(readlink "/proc/$1/ns/net" || true)
        [[ -n $its && $its != "$own" ]] && return 0
        sleep 0.02
    done
    die "no namespace"
}

make_namespaces() {
    local name index=0 host
    for name in bridge "${HOSTS[@]}"; do
        tied unshare --net sleep 600
        KEEPER[$name]=$!
        await_namespace "${KEEPER[$name]}"
    done
    on bridge ip link add name switch type bridge
    on bridge ip link set switch up
    for host in "${HOSTS[@]}"; do
        index=$((index + 1))
        on bridge ip link add "port$index" type veth peer name eth0 netns "${KEEPER[$host]}"
        on bridge ip link set "port$index" master switch up
        on "$host" ip link set lo up
        on "$host" ip addr add "10.78.0.$index/24" dev eth0
        on "$host" ip link set eth0 up
        ADDRESS[$host]=10.78.0.$index:7411
    done
}

# Chooses three ports without a listener, below those that tests/free_port.h and the kernel give
# away.
choose_ports() {
    local host port=$((10000 + RANDOM % 9000))
    for host in "${HOSTS[@]}"; do
        port=$((port + 1))
        while (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done
        ADDRESS[$host]=127.0.0.1:$port
    done
}

can_make_namespaces() {
    [[ $(id -u) == 0 ]] && command -v ip >/dev/null && unshare --net true 2>/dev/null
}

agent_start() {
    local host=$1 enter=()
    if [[ $NAMESPACES == yes ]]; then enter=(nsenter -t "${KEEPER[$host]}" -n --); fi
    setpriv --pdeathsig KILL -- "${enter[@]}" \
        "$BIN/holdfastd" --config "$DEMO_DIR/host-$host/holdfast.conf" \
        2>>"$DEMO_DIR/host-$host.log" &
    AGENT[$host]=$!
    disown
}

agents_make() {
    local host other
    for host in "${HOSTS[@]}"; do
        mkdir "$DEMO_DIR/host-$host"
        {
            printf '[agent]\nname = host-%s\ncell = %s\n' "$host" "$CELL"
            printf 'state_dir = %s/host-%s/state\n' "$DEMO_DIR" "$host"
            printf 'socket = %s/host-%s/agent.sock\n' "$DEMO_DIR" "$host"
            printf '[cell]\nsession_ttl = %sms\ngrace_period = %sms\n' $TTL_MS $TTL_MS
            printf 'insecure = yes\n[voters]\n' # the hosts have a network of their own
            for other in "${HOSTS[@]}"; do
                printf 'host-%s = tcp://%s\n' "$other" "${ADDRESS[$other]}"
            done
        } >"$DEMO_DIR/host-$host/holdfast.conf"
        agent_start "$host"
    done
    for host in "${HOSTS[@]}"; do agent_await "$host"; done
}

# Waits until the agent's session is safe.
agent_await() {
    local tries
    for ((tries = 0; tries < GUARD_S * 20; tries++)); do
        if ask "$1" status >/dev/null 2>&1; then return; fi
        sleep 0.05
    done
    die "the agent of host-$1 does not answer"
}

cut_off() {
    if [[ $NAMESPACES == yes ]]; then
        on "$1" ip link set eth0 down
    else
        kill -STOP "${AGENT[$1]}"
    fi
}

reconnect() {
    if [[ $NAMESPACES == yes ]]; then
        on "$1" ip link set eth0 up
    else
        kill -CONT "${AGENT[$1]}"
    fi
}

clean_up() {
    local pid
    trap - EXIT INT TERM HUP
    touch "$DEMO_DIR/stop"
    for pid in "${PROCESSES[@]}" "${AGENT[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true
        kill -KILL "$pid" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    rm -rf -- /dev/shm/holdfast."$CELL".*
    rm -rf -- "$DEMO_DIR"
}

# ---- looking

# ask HOST WORD...: runs the command `holdfast` on that host.
ask() { holdfast -s "$DEMO_DIR/host-$1/agent.sock" "${@:2}"; }

# Prints the host that coordinates the lock, as host a reports it.
coordinator() {
    local tries name=''
    for ((tries = 0; tries < GUARD_S * 20; tries++)); do
        name=$(ask a --json show "$LOCK" | sed -n 's/.*"coordinator": *"host-\([a-c]\)".*/\1/p')
        if [[ -n $name ]]; then echo "$name"; return; fi
        sleep 0.05
    done
    die "nobody says who coordinates $LOCK"
}

SEEN=0 # events that the story has used
FOUND=''

skip_events() { SEEN=$(wc -l <"$DEMO_DIR/events"); }

# await PATTERN [WHAT]: waits for the next event that matches, and puts it into FOUND.
await() {
    local tries line
    for ((tries = 0; tries < GUARD_S * 50; tries++)); do
        line=$(tail -n "+$((SEEN + 1))" "$DEMO_DIR/events" | grep -nE -m 1 "$1" || true)
        if [[ -n $line ]]; then
            SEEN=$((SEEN + ${line%%:*}))
            FOUND=${line#*:}
            return
        fi
        sleep 0.02
    done
    die "${2:-nobody gets the lock any more}"
}

field() { cut -d ' ' -f "$1" <<<"$FOUND"; }

# ---- the story

act_turns() {
    local host
    explain "Each host has a worker that wants the lock \`$LOCK\` again and again. They take turns:"
    for host in "${HOSTS[@]}"; do tied "$SELF" --worker "host-$host"; done
    for _ in 1 2 3 4; do await ' holds '; done
    explain "As host-a sees it:  \$ holdfast show $LOCK"
    ask a show "$LOCK" | sed 's/^/    /'
    echo
    for _ in 1 2; do await ' holds '; done
}

act_coordinator() {
    local victim left_ms
    victim=$(coordinator)
    explain "Which host gets \`$LOCK\` next is decided by its coordinator, which has each decision" \
        "confirmed by a majority of the three. It is host-$victim. What if it dies, while another" \
        "host holds the lock and others wait?"
    skip_events
    await " host-[^$victim] holds "
    kill -KILL "${AGENT[$victim]}"
    tell ">>> the agent of host-$victim is killed (kill -9)"
    await ' is-done '
    left_ms=$(field 1)
    await ' holds '
    tell "    ... that was $(($(field 1) - left_ms)) ms after the release: another host coordinates" \
        "now, nobody lost anything"
    for _ in 1 2; do await ' holds '; done
    agent_start "$victim"
    tell ">>> the agent of host-$victim is started again"
    agent_await "$victim"
    tell "    host-$victim has caught up with the others"
    await " host-$victim holds " "host-$victim does not take part again"
}

act_cut_off() {
    local victim cut_ms ended_ms next_ms how='its network link is taken down'
    explain "Now the worst case: the host of whoever holds the lock is cut off. Nobody can ask it" \
        "whether it still works. Its hold is a lease: it ends $((TTL_MS / 1000)) s after its last" \
        "renewal, on its own clock; the others wait longer than that, then the lock-delay of 1 s."
    [[ $NAMESPACES == yes ]] ||
        how='its agent is stopped: without root, its network cannot be cut'
    skip_events
    touch "$DEMO_DIR/long"
    await ' long '
    victim=$(field 2)
    tell "    $victim intends to work for a minute"
    sleep 1
    cut_ms=$(now_ms)
    cut_off "${victim#host-}"
    tell ">>> $victim is cut off ($how)"
    await "$victim ended" "$victim's work went on beyond its lease"
    ended_ms=$(field 1)
    await ' holds '
    next_ms=$(field 1)
    ((next_ms >= ended_ms)) || die "two held the lock at once"
    tell "    ... $(seconds $((next_ms - cut_ms))) s after the cut, $(seconds $((next_ms - ended_ms)))" \
        "s after the work there had ended: never two at once"
    for _ in 1 2; do await ' holds '; done
    reconnect "${victim#host-}"
    tell ">>> $victim is back"
    await " $victim holds " "$victim does not take part again"
}

# Checks that the token of each holder is higher than that of the holder before.
check_tokens() {
    local tokens
    tokens=$(awk '$3 == "holds" { print $4 }' "$DEMO_DIR/events" | paste -sd ' ')
    awk '$3 == "holds" { if ($4 <= last) bad = 1; last = $4 } END { exit bad }' \
        "$DEMO_DIR/events" || die "the tokens did not rise: $tokens"
    explain "Every holder had a higher token than all before it, through all of this:" "    $tokens" \
        "A resource that remembers the highest one can refuse whoever comes late." ""
}

main() {
    DEMO_DIR=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-demo.XXXXXX")
    DEMO_BEGUN_MS=$(now_ms)
    CELL=demo-$$
    export DEMO_DIR DEMO_BEGUN_MS
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    touch "$DEMO_DIR/events"
    printf '#!/bin/sh\nexec "%s" --work\n' "$SELF" >"$DEMO_DIR/work"
    chmod +x "$DEMO_DIR/work"
    export PATH=$DEMO_DIR:$BIN:$PATH
    if [[ $NAMESPACES == yes ]] && can_make_namespaces; then
        explain "Three hosts on this machine: host-a, host-b, host-c, network namespaces with an" \
            "address each, joined by a bridge. On each of them, an agent:"
        make_namespaces
    else
        NAMESPACES=no
        explain "Three hosts on this machine, so to say: host-a, host-b, host-c are agents at three" \
            "ports of the loopback interface (as root they get networks of their own)."
        choose_ports
    fi
    agents_make
    tell "    the agents have found each other, and each has a session with a majority of them"
    act_turns
    act_coordinator
    act_cut_off
    check_tokens
}

main
