#!/bin/bash
# Runs in a clean Debian that container.sh has booted. Does with the packages what an administrator
# does, from the installation to the purge, and holds locks during the upgrade.
set -Eeuo pipefail # E: the trap below holds in functions, too
export DEBIAN_FRONTEND=noninteractive LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
packages=/packages-test/packages given=/packages-test/given
config=/etc/holdfast/holdfastd.ini
work=$(mktemp -d)
chmod 755 "$work"
echo 1 >/results/status

step() { printf '  %s\n' "$*"; }
fail() {
    printf 'FAILED: %s\n' "$*"
    tail -n 5 "$work/apt.log" 2>/dev/null || true
    journalctl --no-pager -n 12 -u holdfastd 2>/dev/null || true
    exit 1
}
trap 'fail "line $LINENO: $BASH_COMMAND"' ERR

# apt_get WORD...: its output goes to apt.log. The mirror may be slow, so apt-get tries again.
apt_get() {
    apt-get -q -y --no-install-recommends --allow-downgrades -o Acquire::Retries=5 \
        -o APT::Sandbox::User=root "$@" >"$work/apt.log" 2>&1
}

# wait_for SECONDS COMMAND...
wait_for() {
    local tries=$(($1 * 10))
    shift
    for (( ; tries > 0; tries--)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    fail "did not come: $*"
}

property() { systemctl show -P "$1" holdfastd.service; }
starts() { journalctl --no-pager -o cat -u holdfastd | grep -c 'event=serving' || true; }
token() { holdfast lock "$1" -- sh -c 'echo $HOLDFAST_TOKEN'; }
is_failed() { [[ $(property ActiveState) == failed ]]; }

# answer true|false: preseeds the answer to the installation's question.
answer() { echo "holdfast holdfast/one-host boolean $1" | debconf-set-selections; }

# The question is declined, so the host gets no configuration.
fresh_install() {
    apt_get update
    answer false
    apt_get install "$packages"/holdfast_*.deb
    grep -q "^holdfast: to write $config: holdfast setup" "$work/apt.log" ||
        fail "the installation says not what to do"
    [[ $(property UnitFileState) == enabled ]] || fail "the unit is $(property UnitFileState)"
    [[ $(property ActiveState) == inactive ]] || fail "the unit is $(property ActiveState)"
    holdfast --version | grep -q holdfast
    for page in man1/holdfast.1 man1/holdfast-lock.1 man5/holdfastd.ini.5 man8/holdfastd.8; do
        [[ -s /usr/share/man/$page.gz ]] || fail "no page $page"
    done
}

without_configuration() {
    systemctl start holdfastd 2>/dev/null && fail "an agent without a configuration starts"
    wait_for 10 is_failed
    sleep 1
    [[ $(property NRestarts) == 0 ]] || fail "the unit loops: $(property NRestarts) restarts"
    [[ $(property ExecMainStatus) == 78 ]] || fail "exit status $(property ExecMainStatus), not 78"
    journalctl --no-pager -o cat -u holdfastd _COMM=holdfastd >"$work/said"
    [[ $(wc -l <"$work/said") == 1 ]] || fail "it says $(wc -l <"$work/said") lines, not 1"
    grep -q "$config: No such file or directory. Write it: \`holdfast setup\`" "$work/said" ||
        fail "it says: $(<"$work/said")"
}

# Without a configuration, the commands recommend `holdfast setup`. They do not recommend to start
# the service, which would fail.
first_step() {
    local command
    for command in "lock --no-wait demo true" doctor; do
        # shellcheck disable=SC2086 # words
        holdfast $command >"$work/said" 2>&1 && fail "holdfast $command finds an agent"
        grep -q 'holdfast setup' "$work/said" || fail "holdfast $command: $(<"$work/said")"
        ! grep -q 'systemctl start' "$work/said" || fail "holdfast $command: $(<"$work/said")"
    done
}

# One answer on a terminal is enough for a first lock.
one_question() {
    printf '\n' | script -qec "holdfast setup" /dev/null >"$work/said"
    [[ $(holdfast lock demo -- echo mine) == mine ]] || fail "no lock: $(<"$work/said")"
    systemctl stop holdfastd
    rm -rf "$config" /var/lib/holdfast/*
}

# Does what the agent's line on the journal said, and then what that command says.
first_lock() {
    holdfast setup --one-host --self clean >"$work/said"
    grep -qx '  systemctl enable --now holdfastd' "$work/said" || fail "$(<"$work/said")"
    [[ $(stat -c '%a %U' "$config") == '644 root' ]] || fail "$(stat -c '%a %U' "$config")"
    systemctl enable --now holdfastd
    [[ $(holdfast lock demo -- echo mine) == mine ]]
    [[ $(property User) == holdfast ]]
    # The sample configuration is valid without a change.
    runuser -u holdfast -- holdfastd --check-config \
        --config /usr/share/doc/holdfast/examples/holdfastd.ini >/dev/null
    useradd worker
    echo 'users = worker' >>"$config"
    systemctl restart holdfastd
    [[ $(runuser -u worker -- holdfast lock demo -- echo mine) == mine ]]
    holdfast status >/dev/null
}

all_packages() {
    apt_get install "$packages"/{libholdfast0,libholdfast-dev,python3-holdfast}_*.deb \
        "$packages"/{golang-holdfast-dev,holdfast-doc}_*.deb
    "$given/program" | grep -q 'I hold it, token [1-9]' || fail "a program with the library"
    runuser -u worker -- python3 -c '
import holdfast
with holdfast.Client() as client, client.lock("python") as hold: print("token", hold.token)
' | grep -q '^token [1-9]' || fail "a Python program"
}

# hold NAME: holds a lock in the background. Its sequencer is in a file.
hold() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    setsid runuser -u worker -- holdfast lock "$1" -- \
        sh -c 'echo "$HOLDFAST_SEQUENCER" >"$1.new"; mv "$1.new" "$1"; exec sleep 1000' \
        sh "$work/held/$1" >>"$work/held.log" 2>&1 &
}

# Checks that each lock still has the hold that it had at the beginning.
all_held() {
    local name
    for name in "${names[@]}"; do
        [[ $(holdfast check "$(<"$work/held/$name")") == held ]] || fail "$name was lost: $1"
    done
    [[ ! -s $work/held.log ]] || fail "a holder says: $(<"$work/held.log")"
}

is_awaited() { holdfast show --json "$1" | grep -q '"waiters": *\[{'; }

hold_all() {
    local name
    mkdir -p "$work/held"
    chmod 777 "$work/held"
    names=()
    for ((index = 0; index < 20; index++)); do
        names+=("job$index")
        hold "job$index"
    done
    for name in "${names[@]}"; do wait_for 20 test -s "$work/held/$name"; done
}

upgrade() {
    local pid started waiter
    hold_all
    runuser -u worker -- holdfast lock job0 -- touch "$work/held/served" &
    waiter=$!
    wait_for 20 is_awaited job0
    all_held "before the upgrade"
    pid=$(property MainPID)
    started=$(starts)
    apt_get install "$given"/upgrade/*.deb
    [[ $(dpkg-query -W -f '${Version}' holdfast) == *+upgrade ]] || fail "it is no upgrade"
    [[ $(property MainPID) != "$pid" ]] || fail "the agent was not restarted"
    wait_for 10 holdfast status
    all_held "by the upgrade"
    sleep 6 # longer than the lease
    all_held "after the upgrade"
    [[ $(starts) == $((started + 1)) ]] ||
        fail "the agent was started $(($(starts) - started)) times"
    [[ $(property NRestarts) == 0 ]] || fail "the agent ended by itself"
    journalctl --no-pager -o cat -u holdfastd | grep 'event=session_continued' >/dev/null ||
        fail "the session did not go on"
    # The waiting process has kept its place in the queue.
    [[ ! -e $work/held/served ]] || fail "the waiter was served beside the holder"
    pkill_of job0
    wait "$waiter"
    [[ -e $work/held/served ]]
    unset 'names[0]'
}

# Ends the holder of a lock.
pkill_of() {
    kill "$(holdfast show --json "$1" | sed -n 's/.*"holders": *\[{[^}]*"pid": *\([0-9]*\).*/\1/p')"
}

# A configuration that the new program does not accept must not end the running agent.
upgrade_refused() {
    local pid
    pid=$(property MainPID)
    cp "$config" "$work/good.ini"
    echo 'nonsense = 1' >>"$config"
    apt_get install --reinstall "$given"/upgrade/holdfast_*.deb
    grep -q 'nonsense' "$work/apt.log" || fail "the upgrade does not say what is wrong"
    [[ $(property MainPID) == "$pid" ]] || fail "the agent did not go on"
    cp "$work/good.ini" "$config"
    all_held "with a wrong configuration"
}

# If an administrator has stopped the agent, an upgrade does not start it.
upgrade_stopped() {
    systemctl stop holdfastd
    apt_get install --reinstall "$given"/upgrade/holdfast_*.deb
    [[ $(property ActiveState) == inactive ]] || fail "an upgrade starts a stopped agent"
    systemctl start holdfastd
    wait_for 10 holdfast status
}

remove() {
    local before after
    before=$(token counter)
    apt_get remove holdfast
    [[ ! -e /usr/bin/holdfastd && -s $config && -s /var/lib/holdfast/holdfast.db ]]
    [[ -z $(pgrep_agent) ]] || fail "the agent still runs"
    apt_get install "$packages"/holdfast_*.deb
    wait_for 10 holdfast status
    after=$(token counter)
    ((after > before)) || fail "token $after after $before"
}

pgrep_agent() { grep -lsx holdfastd /proc/[0-9]*/comm || true; }

purge() {
    apt_get purge holdfast libholdfast0 libholdfast-dev python3-holdfast golang-holdfast-dev \
        holdfast-doc
    find / -xdev \( -path /proc -o -path /sys -o -path /results -o -path /packages-test -o \
        -path "$work" -o -path /var/log \) -prune -o -name '*holdfast*' -print >"$work/left"
    find /run /dev/shm -name '*holdfast*' >>"$work/left"
    [[ ! -s $work/left ]] || fail "a purge leaves: $(paste -sd' ' "$work/left")"
    systemctl daemon-reload
    [[ $(systemctl is-enabled holdfastd 2>&1) != enabled ]] || fail "the unit is enabled"
}

# With the default answer, one command line installs the package and takes a lock.
one_line() {
    [[ -z $(debconf-show holdfast) ]] || fail "the purge keeps: $(debconf-show holdfast)"
    useradd --create-home installer 2>/dev/null || true
    cp "$packages"/{holdfast,libholdfast0}_*.deb "$work"
    (cd "$work" && apt-get install -q -y -o APT::Sandbox::User=root ./holdfast_*.deb \
        >"$work/apt.log" 2>&1 && holdfast lock demo -- echo mine) >"$work/said"
    [[ $(<"$work/said") == mine ]] || fail "the line says: $(<"$work/said")"
    [[ $(property ActiveState) == active && $(property UnitFileState) == enabled ]]
    grep -q "^holdfast: wrote $config" "$work/apt.log" || fail "it says not what it wrote"
    [[ $(stat -c '%a %U' "$config") == '644 root' ]] || fail "$(stat -c '%a %U' "$config")"
}

# An upgrade, and an installation after a removal, ask nothing and change nothing.
one_line_again() {
    local before
    before=$(sha256sum "$config")
    answer false
    apt_get install "$given"/upgrade/{holdfast,libholdfast0}_*.deb
    wait_for 10 holdfast status
    apt_get remove holdfast
    rm "$config"
    answer true
    apt_get install "$packages"/{holdfast,libholdfast0}_*.deb
    [[ ! -e $config ]] || fail "a second installation writes a configuration beside a store"
    ! grep -q 'Begin with a cell' "$work/apt.log" || fail "it asks again"
    apt_get purge holdfast
    [[ -z $(debconf-show holdfast) ]] || fail "the purge keeps: $(debconf-show holdfast)"
    mkdir -p /etc/holdfast
    printf '; mine\n' >"$config"
    before=$(sha256sum "$config")
    answer true
    apt_get install "$packages"/holdfast_*.deb
    [[ $(sha256sum "$config") == "$before" ]] || fail "it changes a configuration"
    apt_get purge holdfast
}

# On a terminal there is one question. With the default answer, the user of sudo may take locks. The
# test repeats the answer, because input before the question may be dropped.
asked_once() {
    local line="DEBIAN_FRONTEND=teletype SUDO_USER=installer apt-get install -q -y"
    line+=" -o APT::Sandbox::User=root $packages/holdfast_*.deb"
    { while sleep 1 && echo yes 2>/dev/null; do :; done |
        script -qec "$line" /dev/null >"$work/said" 2>&1; } || true
    [[ $(property ActiveState) == active ]] || fail "$(tail -n 5 "$work/said")"
    [[ $(grep -c 'Begin with a cell of this one host?' "$work/said") == 1 ]] ||
        fail "it asks: $(grep -n '?' "$work/said")"
    [[ $(runuser -u installer -- holdfast lock demo -- echo mine) == mine ]] ||
        fail "the user of sudo: $(runuser -u installer -- holdfast status 2>&1)"
    apt_get purge holdfast libholdfast0
    userdel -r installer 2>/dev/null || true
}

# The files that `cmake --install` puts into /usr/local, without packages, run as a service, too.
usr_local() {
    [[ -d $given/local ]] || { step "(no build of this source for this Debian: left out)"; return; }
    cp -a "$given/local/usr/local/." /usr/local
    ldconfig
    systemd-sysusers
    systemd-tmpfiles --create /usr/local/lib/tmpfiles.d/holdfast.conf
    systemctl daemon-reload
    mkdir -p /etc/holdfast
    cp /usr/local/share/doc/holdfast/examples/holdfastd.ini "$config"
    systemctl start holdfastd
    [[ $(property FragmentPath) == /usr/local/lib/systemd/system/holdfastd.service ]]
    [[ $(/usr/local/bin/holdfast lock demo -- echo mine) == mine ]]
    "$given/program" | grep -q 'I hold it, token [1-9]' || fail "a program with the library"
}

for part in fresh_install without_configuration first_step one_question first_lock all_packages \
    upgrade upgrade_refused upgrade_stopped remove purge one_line one_line_again asked_once \
    usr_local; do
    step "$part"
    "$part"
done
echo 0 >/results/status
echo "installed, used, upgraded with 20 locks held, removed, purged"
