#!/usr/bin/env bash
# `holdfast setup` with real agents: for one host, for a cell of three hosts, and with a host that
# joins later. The agents start with the files that it wrote. It also refuses what it has to refuse.
#
# Usage: setup.sh BIN_DIR
set -euo pipefail
umask 022
bin=$1
holdfast=$bin/holdfast
dir=$(mktemp -d)
chmod 755 "$dir"
cell=setup$$ # of its own: what its agents leave in /dev/shm bears this name
agents=()
cleanup() {
    for agent in "${agents[@]}"; do kill "$agent" 2>/dev/null || true; done
    wait
    rm -rf "$dir" /dev/shm/holdfast."$cell".*
}
trap cleanup EXIT
fail() {
    printf '%s\n' "$*" >&2
    exit 1
}
# expect STATUS TEXT COMMAND...: checks that the command ends with that status, and that its stderr
# contains TEXT.
expect() {
    local want=$1 text=$2 status=0
    shift 2
    "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
    [[ $status == "$want" ]] || fail "status $status, not $want: $* $(cat "$dir/err")"
    [[ -z $text ]] || grep -qF -- "$text" "$dir/err" ||
        fail "'$*' says not '$text' but: $(cat "$dir/err")"
}
says() { grep -qF -- "$1" "$dir/out" || fail "not said: $1; but: $(cat "$dir/out")"; }
mode() { stat -c %a "$1"; }
await() { # FILE TEXT
    for _ in $(seq 1800); do
        grep -q "$2" "$1" && return
        sleep 0.1
    done
    fail "not in $1: $2
$(cat "$1")"
}
start() { # NAME: an agent with the configuration in the folder of that name
    "$bin/holdfastd" --config "$dir/$1/holdfastd.ini" 2>"$dir/$1.log" &
    agents+=($!)
}
takes_a_lock() { # NAME
    [[ $("$holdfast" -s "$dir/$1/state/agent.sock" lock "x-$1" -- echo held) == held ]] ||
        fail "$1: no lock"
}
# own NAME: the options for an agent with all its files in the folder of that name
own() { printf '%s\n' --output "$dir/$1/holdfastd.ini" --state-dir "$dir/$1/state"; }
# Prints every file and folder with its mode and time of change, except those that agents and this
# test write.
listing() {
    find "$dir" -mindepth 1 ! -path "$dir/out" ! -path "$dir/err" ! -path "$dir/printed" \
        ! -path '*/state*' ! -name '*.log' -printf '%p %T@ %m\n' | sort
}
unset SUDO_USER

one_host() {
    local one before
    mapfile -t one < <(own one)
    one+=(--one-host --cell "$cell" --self one)
    before=$(listing)
    expect 0 "" "$holdfast" setup "${one[@]}" --print
    cp "$dir/out" "$dir/printed"
    [[ $(listing) == "$before" ]] || fail "--print has written something"
    expect 0 "" "$holdfast" setup "${one[@]}"
    says "holdfastd --config $dir/one/holdfastd.ini"
    says "one, a cell of one host. Only root may take locks (\`users\` there names others)"
    [[ $(mode "$dir/one/holdfastd.ini") == 644 ]] || fail "mode $(mode "$dir/one/holdfastd.ini")"
    [[ $(ls "$dir/one") == holdfastd.ini ]] || fail "left over: $(ls "$dir/one")"
    cmp "$dir/printed" "$dir/one/holdfastd.ini"
    start one
    await "$dir/one.log" 'state=safe'
    takes_a_lock one

    before=$(listing)
    expect 70 "one/holdfastd.ini: the file exists" "$holdfast" setup "${one[@]}" --users root
    expect 64 'users: found "a,,b", expected names separated by commas' \
        "$holdfast" setup "${one[@]}" --users a,,b --force
    expect 64 'expected 1 to 32 of a-z' "$holdfast" setup "${one[@]}" --self Me
    expect 64 'expected --one-host, or --host' "$holdfast" setup
    [[ $(listing) == "$before" ]] || fail "a refused setup has changed a file"
    cp "$dir/one/holdfastd.ini" "$dir/printed"
    expect 0 "" "$holdfast" setup "${one[@]}" --users root --force --json
    says "\"backup\":\"$dir/one/holdfastd.ini.bak-1\""
    cmp "$dir/printed" "$dir/one/holdfastd.ini.bak-1"
    expect 0 "" "$holdfast" setup "${one[@]}" --users daemon,root --force
    says "one, a cell of one host. Root may take locks, and so may daemon,root (\`users\` there)"
    expect 0 "" "$holdfast" setup "${one[@]}" --users root --force
    grep -qx 'users = root' "$dir/one/holdfastd.ini" || fail "$(cat "$dir/one/holdfastd.ini")"
    expect 0 "" env SUDO_USER=daemon "$holdfast" setup "${one[@]}" --print
    if [[ $(id -u) == 0 ]]; then says 'users = daemon'; fi
}

# If a tool is missing or a folder is forbidden, setup ends before it has written anything.
without() {
    local before
    mkdir "$dir/alone" "$dir/closed"
    cp "$holdfast" "$dir/alone/"
    before=$(listing)
    expect 69 'holdfastd cannot be run' env PATH=/nowhere \
        "$dir/alone/holdfast" setup --one-host --output "$dir/alone/c.ini"
    expect 69 'openssl cannot be run' env PATH=/nowhere \
        "$holdfast" setup --host a=127.0.0.1 --self a --output "$dir/alone/c.ini"
    local person=()
    if [[ $(id -u) == 0 ]]; then person=(setpriv --reuid 65534 --regid 65534 --clear-groups); fi
    chmod 555 "$dir/closed"
    expect 77 'c.ini: Permission denied: run it as root' \
        "${person[@]}" "$holdfast" setup --one-host --output "$dir/closed/c.ini"
    chmod 755 "$dir/closed"
    [[ $(listing) == "$before" ]] || fail "a setup that fails has written something"
}

# Each host has a loopback address of its own, with the default port.
address() { printf '127.%d.%d.%d' $((64 + $1)) $(($$ / 256 % 256)) $(($$ % 256)); }

cell_of_three() {
    local hosts=() a
    hosts=(--host host-a="$(address 1)" --host host-b="$(address 2)" --host host-c="$(address 3)")
    mapfile -t a < <(own host-a)
    expect 64 'expected --self NAME' "$holdfast" setup "${a[@]}" "${hosts[@]}"
    expect 64 '--self: found "host-x"' "$holdfast" setup "${a[@]}" "${hosts[@]}" --self host-x
    [[ ! -e $dir/host-a ]] || fail "a refused setup has made a folder"
    expect 0 "" "$holdfast" setup "${a[@]}" "${hosts[@]}" --cell "$cell" --self host-a --users root
    says "setup --from host-b"
    certificates=$dir/host-a/certificates
    [[ $(mode "$certificates") == 700 ]] || fail "the certificates' mode: $(mode "$certificates")"
    while read -r key; do
        [[ $(mode "$key") == 600 ]] || fail "$key has mode $(mode "$key")"
    done < <(find "$dir" -name '*.key')
    [[ $(find "$dir" -name '*.key' | wc -l) == 5 ]] || fail "not 5 keys"
    # Other users may not read a file that openssl has made, either.
    [[ $(mode "$certificates/ca.srl") == 600 ]] || fail "$(ls -l "$certificates")"
    for host in host-b host-c; do install_from $host; done
    for host in host-a host-b host-c; do start $host; done
    for host in host-a host-b host-c; do await "$dir/$host.log" 'state=safe'; done
    for host in host-a host-b host-c; do takes_a_lock $host; done
    for _ in $(seq 1800); do
        "$holdfast" -s "$dir/host-b/state/agent.sock" member >"$dir/out"
        [[ $(grep -c ' up at tls+tcp://.*:7411$' "$dir/out") != 3 ]] || return 0
        sleep 0.1
    done
    fail "not all voters are up: $(cat "$dir/out")"
}

# Installs a host's folder. All hosts are on this machine here, so each host has paths of its own,
# and not those of host-a, which made the folder.
install_from() { # HOST
    cp -r "$certificates/$1" "$dir/brought-$1"
    expect 0 "" "$holdfast" setup --from "$dir/brought-$1" --output "$dir/$1/holdfastd.ini" \
        --state-dir "$dir/$1/state"
    ! grep -F "$dir/host-a/" "$dir/$1/holdfastd.ini" || fail "a path of host-a"
    says "rm -r $dir/brought-$1"
    says "holdfast --socket $dir/$1/state/agent.sock status" # it is no service
    ! grep -q 'as whom the service runs' "$dir/err" || fail "$(cat "$dir/err")"
    [[ $(mode "$dir/$1/$1.key") == 600 ]] || fail "$1.key has mode $(mode "$dir/$1/$1.key")"
}

# A host that is added has a certificate of the same CA. Nothing else changes.
joins_later() {
    local before output=(--output "$dir/host-a/holdfastd.ini" --state-dir "$dir/host-a/state")
    before=$(cd "$certificates" && find . -type f ! -name ca.srl -exec sha256sum {} + | sort)
    expect 64 'found the address of host-c' \
        "$holdfast" setup "${output[@]}" --host "host-d=$(address 3)"
    expect 64 'the voters of a cell stay as they are' \
        "$holdfast" setup "${output[@]}" --host "host-c=$(address 4)"
    expect 64 'found the name host-d twice' \
        "$holdfast" setup "${output[@]}" --host "host-d=$(address 4)" --host "host-d=$(address 5)"
    expect 64 "expected $cell, whose certificates" \
        "$holdfast" setup "${output[@]}" --cell other --host "host-d=$(address 4)"
    expect 64 'advertise: found "tls+tcp://there:7411", expected an IP address' \
        "$holdfast" setup "${output[@]}" --host host-d=there
    expect 64 'expected tcp://HOST:PORT' \
        "$holdfast" setup "${output[@]}" --host "host-d=$(address 4):99999"
    [[ ! -e $certificates/host-d ]] || fail "a refused setup has made a folder"
    mv "$certificates/ca.key" "$dir/kept"
    expect 70 'but not its ca.key' "$holdfast" setup "${output[@]}" --host "host-d=$(address 4)"
    mv "$dir/kept" "$certificates/ca.key"
    # A host that was set up before may be named again.
    expect 0 "" "$holdfast" setup "${output[@]}" --host "host-d=$(address 4)" \
        --host "host-b=$(address 2)"
    [[ $(cd "$certificates" && find . -type f ! -name ca.srl ! -path './host-d/*' \
        -exec sha256sum {} + | sort) == "$before" ]] || fail "another file has changed"
    grep -qx 'role = observer' "$certificates/host-d/holdfastd.ini"
    grep -qx 'users = root' "$certificates/host-d/holdfastd.ini"
    install_from host-d
    start host-d
    await "$dir/host-d.log" 'state=safe'
    takes_a_lock host-d
    expect 70 'host-d/holdfastd.ini: the file exists' \
        "$holdfast" setup --from "$dir/brought-host-d" --output "$dir/host-d/holdfastd.ini"
}

# Prints a checksum of each file, except in the folder of host-b and except those that agents and
# this test write.
sums() {
    (cd "$dir" && find . \( -path ./host-a/certificates/host-b -o -name 'state*' \) -prune -o \
        -type f ! -name '*.log' ! -name ca.srl ! -name out ! -name err -exec sha256sum {} + | sort)
}
# If a host's folder was removed, setup makes it again, with another key, and changes no other file.
made_anew() {
    local before
    before=$(sums)
    mv "$certificates/host-b" "$dir/kept-b"
    expect 0 "" "$holdfast" setup --output "$dir/host-a/holdfastd.ini" \
        --state-dir "$dir/host-a/state" --host "host-b=$(address 2)" --self -
    cmp "$certificates/host-b/holdfastd.ini" "$dir/kept-b/holdfastd.ini"
    ! cmp -s "$certificates/host-b/host-b.key" "$dir/kept-b/host-b.key" || fail "the old key"
    openssl verify -CAfile "$dir/host-a/ca.pem" "$certificates/host-b/host-b.pem" >/dev/null
    rm -r "$dir/kept-b"
    [[ $(sums) == "$before" ]] || fail "another file has changed"
}

# A folder with another host's certificate is not installed, and nothing of it stays on the host.
# Above all, no key stays.
wrong_folder() {
    cp -r "$dir/brought-host-b" "$dir/wrong"
    cp "$dir/wrong/host-b.pem" "$dir/kept"
    cp "$certificates/host-c/host-c.pem" "$dir/wrong/host-b.pem"
    expect 69 'not written, because holdfastd refuses the configuration of host-b: [tls]:' \
        "$holdfast" setup --from "$dir/wrong" --output "$dir/other/holdfastd.ini"
    [[ ! -e $dir/other/holdfastd.ini ]] || fail "a wrong configuration was written"
    [[ -z $(ls -A "$dir/other") ]] || fail "left behind: $(ls -A "$dir/other")"
}

# A folder that is installed at another path than the one that its configuration names, although
# files of the same names are at that path. Its state_dir stays, so this host must have that folder.
other_paths() {
    local other=$dir/elsewhere folder=$dir/moved
    cp -r "$certificates/host-b" "$folder"
    cp "$folder"/host-b.* "$dir/host-a/" # of an earlier installation
    sed -i "s|^state_dir = .*|state_dir = $dir/lacking/state|" "$folder/holdfastd.ini"
    sed -i "s|^socket = .*|socket = $dir/lacking/state/agent.sock|" "$folder/holdfastd.ini"
    expect 64 "$folder/holdfastd.ini: found state_dir $dir/lacking/state, expected a folder in \
$dir/lacking, which this host lacks: give --state-dir DIR" \
        "$holdfast" setup --from "$folder" --output "$other/holdfastd.ini"
    [[ ! -e $other ]] || fail "a refused setup has written something"
    mkdir "$dir/lacking"
    expect 0 "" "$holdfast" setup --from "$folder" --output "$other/holdfastd.ini"
    grep -qx "state_dir = $dir/lacking/state" "$other/holdfastd.ini"
    for line in "ca = $other/ca.pem" "cert = $other/host-b.pem" "key = $other/host-b.key"; do
        grep -qxF "$line" "$other/holdfastd.ini" || fail "not '$line': $(cat "$other/holdfastd.ini")"
    done
    "$bin/holdfastd" --config "$other/holdfastd.ini" --check-config >/dev/null
    rm -r "$other" "$folder" "$dir/host-a/host-b.pem" "$dir/host-a/host-b.key"
    expect 64 'expected only --output, --state-dir or --force with it' \
        "$holdfast" setup --from "$certificates/host-b" --output "$other/c.ini" --users root
}

even_number() {
    expect 0 'of two hosts only x votes' "$holdfast" setup --host x=127.1.1.1 --host y=127.1.1.2 \
        --self x --output "$dir/two.ini" --print
    [[ $(grep -c '^x = ' "$dir/out") == 2 && $(grep -c '^y = ' "$dir/out") == 0 ]] ||
        fail "$(cat "$dir/out")"
    # shellcheck disable=SC2046 # words
    expect 64 'given more than 64 times' "$holdfast" setup $(printf -- '--host h=h %.0s' {1..65})
}

# On a terminal, one question is enough for one host, and its answer may be empty.
asked() {
    local there
    mapfile -t there < <(own asked)
    printf '\n' | script -qec "$holdfast setup ${there[*]}" /dev/null >"$dir/out"
    says 'Hosts that share the locks'
    [[ $(grep -c ']: \|): ' "$dir/out") == 1 ]] || fail "not one question: $(cat "$dir/out")"
    grep -qx 'cell = home' "$dir/asked/holdfastd.ini" || fail "$(cat "$dir/out")"
    printf '%s\n' 'p=127.1.1.1, q=127.1.1.2 r=127.1.1.3:7000' asked q no |
        script -qec "$holdfast setup --output $dir/no/c.ini" /dev/null >"$dir/out" || true
    says 'nothing was written'
    [[ ! -e $dir/no ]] || fail "'no' has written something"
    printf '%s\n' 'p=127.1.1.1, q=127.1.1.2 r=127.1.1.3:7000' asked q yes |
        script -qec "$holdfast setup --output $dir/yes/c.ini" /dev/null >"$dir/out"
    grep -qx 'name = q' "$dir/yes/c.ini" || fail "$(cat "$dir/out")"
    grep -qx 'cell = asked' "$dir/yes/c.ini"
    grep -qx 'r = tls+tcp://127.1.1.3:7000' "$dir/yes/c.ini"
}

# On a terminal, a wrong answer leads to the same question again. At the end of the answers nothing
# is written.
asked_again() {
    printf '%s\n' p 'p=127.1.1.1 P=127.1.1.2' 'p=127.1.1.1 q=127.1.1.2 r=127.1.1.3' \
        'No Name' "$(printf 'n%.0s' {1..40})" again s q perhaps yes |
        script -qec "$holdfast setup --output $dir/again/c.ini" /dev/null >"$dir/out" ||
        fail "a wrong answer ended it: $(cat "$dir/out")"
    says 'found "p", expected NAME=ADDRESS'
    says 'Found 40 bytes, expected at most 33'
    says 'found "s", expected the NAME of a --host'
    says 'Found "perhaps", expected yes or no'
    grep -qx 'name = q' "$dir/again/c.ini" || fail "$(cat "$dir/out")"
    grep -qx 'cell = again' "$dir/again/c.ini"
    local status=0
    printf '%s\n' p 'p=127.1.1.1 q=127.1.1.2 r=127.1.1.3' 'No Name' |
        script -qec "$holdfast setup --output $dir/ended/c.ini" /dev/null >"$dir/out" || status=$?
    [[ $status == 64 && ! -e $dir/ended ]] || fail "status $status: $(cat "$dir/out")"
    says 'nothing was written'
    # An empty answer after a wrong one means this host alone.
    printf '%s\n' p=127.1.1.1,P=x '' |
        script -qec "$holdfast setup --output $dir/alone/d.ini --state-dir $dir/alone/state" \
            /dev/null >"$dir/out"
    grep -qx 'cell = home' "$dir/alone/d.ini" || fail "$(cat "$dir/out")"
}

# Root writes the files of the service: the key belongs to the service's user, and the rest to root.
# A mount namespace has a copy of /etc with that user.
in_service() {
    mount --bind "$dir/etc" /etc || return 77
    rm -rf /etc/holdfast
    sed -i '/^holdfast:/d' /etc/passwd
    echo 'holdfast:x:4242:4242::/:/usr/sbin/nologin' >>/etc/passwd
    expect 0 "" "$holdfast" setup --host x=127.1.1.1 --host y=127.1.1.2 --host z=127.1.1.3 --self x
    says '  systemctl enable --now holdfastd'
    says "ssh -t 127.1.1.2 'sudo holdfast setup --from y && sudo systemctl enable --now holdfastd'"
    [[ $(stat -c '%a %u' /etc/holdfast/x.key) == '600 4242' ]] || fail "$(ls -ln /etc/holdfast)"
    [[ $(stat -c '%a %u' /etc/holdfast/holdfastd.ini) == '644 0' ]]
    [[ $(stat -c '%a %u' /etc/holdfast/certificates/ca.key) == '600 0' ]]
    setpriv --reuid 4242 --regid 4242 --clear-groups "$dir/alone/holdfastd" \
        --config /etc/holdfast/holdfastd.ini --check-config
    ! setpriv --reuid 4242 --regid 4242 --clear-groups ls /etc/holdfast/certificates 2>/dev/null
    in_terminal
}
# If a person answers the questions, the service runs at the end. `holdfast setup` starts no service
# for a script, without systemd, or in place of a running service. It shows a failure of systemctl.
in_terminal() {
    local started=$dir/started
    mkdir -p "$dir/path"
    # shellcheck disable=SC2016 # expanded by the script
    printf '#!/bin/sh\necho "$@" >>"$STARTED"\necho it says >&2\nexit "${FAILS:-0}"\n' \
        >"$dir/path/systemctl"
    chmod 755 "$dir/path/systemctl"
    export STARTED=$started PATH=$dir/path:$PATH
    mount -t tmpfs holdfast /run
    in_terminal_once() {
        rm -rf /etc/holdfast "$started"
        printf '\n' | script -qec "$holdfast setup" /dev/null >"$dir/out" || fail "$(cat "$dir/out")"
    }
    in_terminal_once
    says '  systemctl enable --now holdfastd'
    [[ ! -e $started ]] || fail "it starts a service without systemd"
    mkdir -p /run/systemd/system
    in_terminal_once
    says '  holdfast lock demo -- echo mine'
    [[ $(<"$started") == 'enable --now holdfastd' ]] || fail "it has not started the service"
    ! grep -q 'it says\|Next' "$dir/out" || fail "$(cat "$dir/out")"
    FAILS=1 in_terminal_once
    says 'it says'
    says '  systemctl enable --now holdfastd'
    printf '\n' | script -qec "$holdfast setup --force --users root" /dev/null >"$dir/out"
    says '  systemctl restart holdfastd'
    rm -rf /etc/holdfast
    expect 0 "" "$holdfast" setup --one-host
    says '  systemctl enable --now holdfastd'
    [[ $(<"$started") == 'enable --now holdfastd' ]] || fail "it starts the service: $(<"$started")"
}
service() {
    local status=0
    [[ $(id -u) == 0 ]] && unshare --mount true 2>/dev/null || return 0
    cp -a /etc "$dir/etc"
    cp "$bin/holdfastd" "$dir/alone/"
    export dir holdfast
    export -f in_service in_terminal expect says fail
    unshare --mount --propagation private bash -euo pipefail -c in_service || status=$?
    [[ $status == 0 || $status == 77 ]] || fail "as a service: exit status $status"
}

for part in one_host without cell_of_three joins_later made_anew wrong_folder other_paths even_number \
    asked asked_again service; do
    "$part"
    echo "$part"
done
