#!/usr/bin/env bash
# Tries the OCI image that ./dev image made. Arguments: the image's folder, the folder of the
# packages.
#
# First it checks the image's files, also with skopeo and umoci if they are here. Then it runs three
# containers of the image with runc, as root: an agent, and two others, called a and b, which have
# their own pid, mount, ipc and network namespaces and their own /dev/shm. They share with the agent
# the folder of its socket and nothing else. It runs them twice: the agent is first in the machine's
# pid namespace, then in one of its own. At last it runs two containers of docs/KUBERNETES.md: the
# script that writes the agent's configuration, and an agent with --dev.
#
# Without root, runc or gcc it runs no container, says so, and ends with exit status 77.
#
# "The machine" is a pid and a mount namespace of this test's own. With it end all processes and
# mounts of the containers. The outer process then removes their cgroups and the work folder.
set -euo pipefail

self=$(readlink -f -- "${BASH_SOURCE[0]}")
here=$(dirname -- "$self")
source=$(cd -- "$here/../.." && pwd)
machine='' # the process that has started the machine
user=10001     # whom the agent's configuration names
stranger=10002 # whom it does not name
delay=3        # seconds: the lock-delay

fail() { printf 'image: %s\n' "$*" >&2; exit 1; }
step() { printf '  %s\n' "$*"; }

# -------------------------------------------------------------------------- the outer process

# Checks that skopeo and umoci can read the image, if they are here.
tools_check() {
    local name
    name=$(python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["manifests"][0]["annotations"][
    "org.opencontainers.image.ref.name"])' "$image/index.json")
    if command -v skopeo >/dev/null; then
        skopeo inspect --config "oci-archive:$image.tar" >"$work/inspected" 2>&1 ||
            fail "skopeo cannot read $image.tar: $(cat "$work/inspected")"
        grep -q '/usr/bin/holdfastd' "$work/inspected" || fail "skopeo sees no entrypoint"
        skopeo --insecure-policy copy --quiet "oci-archive:$image.tar" "dir:$work/copied" \
            >"$work/log" 2>&1 || fail "skopeo cannot copy $image.tar: $(cat "$work/log")"
        step "skopeo reads and copies it"
    else
        step "not tried, it is not here: skopeo"
    fi
    # umoci allows no colon in a name, so its copy of the image gets another one
    if command -v umoci >/dev/null && [[ $(id -u) == 0 ]]; then
        mkdir "$work/umoci"
        cp -r "$image" "$work/umoci/image"
        sed -i "s/\"$name\"/\"tried\"/" "$work/umoci/image/index.json"
        umoci unpack --image "$work/umoci/image:tried" "$work/umoci/bundle" >"$work/log" 2>&1 ||
            fail "umoci cannot unpack it: $(cat "$work/log")"
        diff -r --no-dereference "$work/root" "$work/umoci/bundle/rootfs" ||
            fail "umoci unpacks something else"
        step "umoci unpacks it"
    else
        step "not tried, it is not here or needs root: umoci"
    fi
}

# Prints why the containers cannot run. Prints nothing if they can.
missing() {
    local name
    [[ $(id -u) == 0 ]] || { echo "this needs root"; return; }
    for name in runc gcc unshare pkg-config; do
        command -v "$name" >/dev/null || { echo "there is no $name"; return; }
    done
    unshare --mount --pid --fork --mount-proc true 2>/dev/null || echo "no namespaces can be made"
}

# Removes the cgroups, which do not end with a namespace.
cgroups_remove() {
    local found left=0
    while read -r found; do
        find "$found" -depth -type d -exec rmdir {} + 2>/dev/null || left=1
    done < <(find /sys/fs/cgroup -maxdepth 3 -type d -name "holdfast-image-$$-*" 2>/dev/null)
    return "$left"
}

outer_end() {
    local status=$? tries
    trap - EXIT INT TERM HUP
    if [[ -n $machine ]]; then kill -KILL "$machine" 2>/dev/null || true; fi
    for ((tries = 0; tries < 50; tries++)); do
        if cgroups_remove; then break; fi
        sleep 0.1
    done
    if ((tries == 50)); then
        echo "image: cgroups holdfast-image-$$-* are left below /sys/fs/cgroup" >&2
        status=1
    fi
    rm -rf --one-file-system -- "$work"
    exit "$status"
}

# Builds the C program with the library of the packages, against which the image's library runs it.
program_make() {
    local sdk=$work/sdk flags
    mkdir "$work/programs"
    dpkg-deb -x "$packages"/libholdfast-dev_*.deb "$sdk"
    dpkg-deb -x "$packages"/libholdfast0_*.deb "$sdk"
    read -ra flags < <(PKG_CONFIG_PATH=$(echo "$sdk"/usr/lib/*/pkgconfig) \
        pkg-config --cflags --libs holdfast)
    gcc -Wall -Wextra -Werror "$here/region.c" "${flags[@]}" -o "$work/programs/region"
}

# literal KEY: prints the text of `KEY: |` in the ConfigMap of docs/KUBERNETES.md.
literal() {
    awk -v key="  $1: |" '$0 == key { on = 1; next } on && !/^    / && !/^$/ { exit } on' \
        "$source/docs/KUBERNETES.md" | sed 's/^    //'
}

# Makes the files that the page mounts into its init container: the script, the template, and
# certificates made by the recipe of docs/TLS.md.
page_make() {
    mkdir "$work/template" "$work/tls" "$work/root/template" "$work/root/tls"
    literal write >"$work/template/write"
    literal holdfastd.ini >"$work/template/holdfastd.ini"
    awk '/^```sh$/ { on = 1; next } /^```$/ { if (on) exit } on' "$source/docs/TLS.md" |
        sed 's/^for host in .*; do/for host in node-b; do/' >"$work/recipe.sh"
    (cd "$work/tls" && bash -e "$work/recipe.sh") >"$work/log" 2>&1 || fail "$(cat "$work/log")"
}

outer() {
    local why checked
    work=$(mktemp -d)
    trap outer_end EXIT
    trap 'exit 130' INT TERM HUP
    checked=$(python3 "$here/image_check.py" "$image") || exit 1
    step "digests, sizes and files are right"
    mapfile -t checked <<<"$checked"
    mkdir -m 755 "$work/root"
    chmod 755 "$work"
    tar -C "$work/root" -xzf "${checked[0]}"
    tools_check
    why=$(missing)
    if [[ -n $why ]]; then
        echo "image: NOT TRIED: containers of the image, because $why" >&2
        exit 77
    fi
    program_make
    page_make
    machine_run agent machine
    machine_run agent own
    machine_run page own
    cgroups_remove || fail "runc left cgroups"
}

# machine_run WHAT machine|own: runs what_WHAT on a new machine. The second argument says whose pid
# namespace the agent is in.
machine_run() {
    local status=0
    mkdir "$work/$1-$2"
    unshare --mount --propagation private --pid --fork --kill-child=KILL --mount-proc \
        "$self" inner "$1" "$2" "$work" "${checked[1]}" "holdfast-image-$$-$1-$2" </dev/null &
    machine=$!
    wait "$machine" || status=$?
    machine=''
    ((status == 0)) || exit "$status"
}

# -------------------------------------------------------------------------- the machine

container() { runc --root "$folder/runc" "$@"; }

# start NAME OPTION... [-- ARG...]: starts a container in the background.
start() {
    local name=$1 bundle=$folder/$1
    shift
    python3 "$here/bundle.py" "$configuration" "$work/root" "$bundle" --cgroup "$cgroup-$name" \
        --mount "$folder/socket:/run/holdfast:$([[ $name == agent ]] && echo rw || echo ro)" \
        --mount "$work/programs:/home:ro" "$@"
    container run --detach --bundle "$bundle" "$name" </dev/null >>"$bundle.log" 2>&1 ||
        fail "runc cannot start $name: $(cat "$bundle.log")"
}

# within NAME ARG...: runs a command in a running container.
within() { container exec "$@" </dev/null; }

# expect STATUS WHAT COMMAND...: runs the command, which must have this exit status.
expect() {
    local wanted=$1 what=$2 status=0
    shift 2
    "$@" >"$work/said" 2>&1 || status=$?
    ((status == wanted)) ||
        fail "$what: exit status $status, expected $wanted: $(cat "$work/said" "$folder"/*.log)"
    step "$what"
}

# until_true COMMAND...: repeats the command until it succeeds. The time-out is against hanging.
until_true() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    fail "does not come true: $*: $(cat "$folder"/*.log)"
}

agent_start() {
    local options=()
    [[ $pids == own ]] || options+=(--host-pid)
    start agent "${options[@]}" --shm "$folder/shm" \
        --mount "$folder/etc:/etc/holdfast:ro" --mount "$folder/state:/var/lib/holdfast:rw"
    until_true within agent holdfast status
}

# remove NAME: kills a container with SIGKILL, and removes it.
remove() {
    container kill "$1" KILL
    container delete --force "$1"
}

holder() { within agent holdfast show --json "$1"; }
token() { holder job | grep -o '"token":[^,}]*' | head -n 1; }
held() { holder "$1" | grep -q '"token"'; }

# Container a holds the lock `job` by its first process.
a_start() {
    start a --user "$user" -- holdfast lock --lock-delay "${delay}s" job -- sleep 1000
    until_true held job
}

namespaces_check() {
    local kind
    for kind in pid mnt ipc net; do
        [[ $(within a readlink "/proc/self/ns/$kind") != $(
            within b readlink "/proc/self/ns/$kind") ]] || fail "a and b share a namespace: $kind"
    done
    for name in a b; do
        [[ -z $(within "$name" ls /dev/shm) ]] || fail "$name has files in /dev/shm"
        [[ $(within "$name" stat -c %d /dev/shm) != $(within agent stat -c %d /dev/shm) ]] ||
            fail "$name has the agent's /dev/shm"
    done
    [[ -n $(within agent ls /dev/shm) ]] || fail "the agent has no region in its /dev/shm"
    step "a, b and the agent have nothing in common but the folder of the socket"
}

# Checks the pid that the agent shows for the holder.
pid_check() {
    local shown expected
    shown=$(holder job | sed -n 's/.*"pid":\([^,}]*\).*/\1/p' | head -n 1)
    expected=null
    [[ $pids == own ]] || expected=$(container state a | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p')
    [[ $shown == "$expected" ]] || fail "the agent shows the pid '$shown', expected $expected"
    step "the agent shows the holder's pid as: $shown"
}

region_check() {
    expect 0 "b: a C program takes a lock 1000 times" within b /home/region ledger
    grep -q '^region .*holdfast\.' "$work/said" || fail "b: no region: $(cat "$work/said")"
    start keeper --user "$user" -- /home/region ledger keep
    until_true held ledger
    expect 75 "b: a C program of another container has it" within b /home/region ledger
    remove keeper
    until_true within b /home/region ledger
    step "b: takes it when that container has been killed"
}

killed_check() {
    local before after
    before=$(date +%s%N)
    remove a
    expect 0 "b: takes the lock after a was killed" within b holdfast lock --wait 60s job -- true
    after=$(date +%s%N)
    ((after - before >= delay * 1000000000)) ||
        fail "b had the lock $(((after - before) / 1000000)) ms after a was killed, not $delay s"
    step "b: had it $(((after - before) / 1000000)) ms after, with a lock-delay of $delay s"
}

what_page() {
    local bundle=$folder/write
    python3 "$here/bundle.py" "$configuration" "$work/root" "$bundle" --cgroup "$cgroup-write" \
        --env NODE=node-b.example.org --env IP=10.0.0.2 \
        --mount "$work/template:/template:ro" --mount "$work/tls:/tls:ro" \
        --mount "$folder/etc:/etc/holdfast:rw" --mount "$folder/state:/var/lib/holdfast:rw" \
        --mount "$folder/socket:/run/holdfast:rw" -- sh /template/write
    expect 0 "the script of docs/KUBERNETES.md writes a configuration" \
        container run --bundle "$bundle" write
    grep -qxF "name = node-b" "$folder/etc/holdfastd.ini" ||
        fail "no name in the configuration: $(cat "$folder/etc/holdfastd.ini")"

    start agent -- /usr/bin/holdfastd --dev
    until_true within agent holdfast status
    expect 0 "an agent with --dev serves its own container" \
        within agent holdfast lock demo -- true
    remove agent
}

what_agent() {
    mount -t tmpfs -o mode=1777,size=256m shm "$folder/shm"
    printf '[agent]\nname = node\ncell = image\nusers = %s\n[cell]\nsession_ttl = 30s\n' "$user" \
        >"$folder/etc/holdfastd.ini"
    printf '  the agent in the pid namespace of %s:\n' \
        "$([[ $pids == own ]] && echo "its container" || echo "the machine")"
    agent_start
    a_start
    start b --user "$user" -- sleep 1000
    namespaces_check
    expect 75 "b: does not get the lock of a" within b holdfast lock -n job -- true
    expect 77 "b: a user whom the configuration does not name is refused" \
        within --user "$stranger" b holdfast lock -n other -- true
    pid_check
    container pause a
    expect 75 "b: does not get the lock of a while a is paused" \
        within b holdfast lock -n job -- true
    container resume a
    before=$(token)
    remove agent
    agent_start
    [[ $(token) == "$before" ]] || fail "a has lost its hold: $(holder job)"
    expect 75 "b: does not get the lock of a after the agent was killed and started again" \
        within b holdfast lock -n job -- true
    region_check
    killed_check
    for name in b agent; do remove "$name"; done
}

inner() {
    mkdir -m 711 "$folder/socket"
    mkdir -m 700 "$folder"/{state,etc,runc}
    mkdir "$folder/shm"
    "what_$1"
}

if [[ $1 == inner ]]; then
    pids=$3 work=$4 configuration=$5 cgroup=$6 folder=$4/$2-$3
    inner "$2"
else
    image=$(cd -- "$1" && pwd) packages=$(cd -- "$2" && pwd)
    outer
fi
