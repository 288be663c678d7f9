#!/usr/bin/env bash
# ./dev test --on arm64: builds for arm64 with Debian's cross compiler, and runs the tests in qemu's
# user mode. Needs root. The arguments are those of ctest.
#
#   arm64.sh [CTEST-ARGUMENT...]   everything but what emulation cannot run (UNABLE, below)
#   arm64.sh --build [TARGET...]   the build only, or only these targets of it
#
# The arm64 libraries are unpacked, not installed: the machine's own packages stay unchanged. The
# tree is in $XDG_CACHE_HOME/holdfast/arm64 (else ~/.cache). It is made again if `packages` lists
# other libraries; remove it to get newer versions. The programs that tests start are arm64
# programs, too, so the kernel must know their interpreter (binfmt_misc). If it does not, this
# script registers qemu while the tests run.
#
# qemu translates to this machine's instructions, whose memory order is stronger than Arm's. So
# these tests show that the code builds and computes the same results. They do not show that its
# memory orders are strong enough: tests/model/weak does (docs/MEMORY_ORDER.md).
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
TREE=$CACHE/arm64
# The mirror of this machine's own release.
MIRROR=${HOLDFAST_MIRROR:-$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
    awk 'found == "" && $2 !~ /-/ { found = $1 } END { print found }')}
BUILD=$ROOT/build/arm64
EMULATOR=$(command -v qemu-aarch64-static || true)
BINFMT=/proc/sys/fs/binfmt_misc
# The path at which the tests see the tree. Other users can read it: some tests run agents as other
# users.
SEEN=/opt/holdfast-arm64
LOCK=/run/lock/holdfast-arm64

# The tests that qemu's user mode cannot run, or not in time (regular expressions), and the reason.
declare -A UNABLE=(
    ['model_(check|mutant)_.*']="searches models: nothing in it is arm64's"
    ['cluster_(cell_(member_kills|members|links|deaths|disk|begun_anew)|member_places|recover_alive)']="\
several agents for minutes, which take ten times as long here; cluster_cell_smoke, cluster_cell_view, \
cluster_members and cluster_recovery run"
)

# Parts that tests leave out by themselves when they notice the emulation.
PARTS=(
    "lib_calls, lib_failure, lib_rings, lib_starts, cluster_traps, cluster_exclusion: what the child of \
a fork is told: qemu takes MADV_WIPEONFORK and does nothing"
    "region_file: holes that are filled: qemu takes MADV_POPULATE_WRITE and does nothing"
    "cli_lock: orphans that are waited for, and signals that the command is started to ignore: qemu \
refuses PR_SET_CHILD_SUBREAPER, and forgets such signals when a program starts"
    "cluster_hostile, cluster_borrowed: descriptors that a client sends unasked: qemu leaves them open"
    "cluster_closer: the process that closes them: qemu refuses PR_SET_CHILD_SUBREAPER"
    "cluster_guard_deaths: qemu refuses PR_SET_CHILD_SUBREAPER"
    "cluster_rings, cluster_costly: how much processor time an agent takes: the emulator's is in it"
    "cluster_sleepers: costly wakes: qemu has no futex_waitv"
    "cluster_planted: an agent that is killed while it starts: qemu refuses filters of system calls"
    "cluster_cell_abuse: how much memory agents have: the code that qemu makes of them is in it"
    "cluster_cell_links, cluster_cell_traps, cluster_torture: links that are slow or rough: qemu \
knows no options of packet sockets"
    "cluster_torture: no memory, no descriptors: the emulator would lack them"
    "sim: fewer seeds, and of the broken rules those of one host: nothing in the others is arm64's"
    "sandbox: qemu refuses filters of system calls; so agents run without one"
    "crash (not built but for x86-64), store_migrate: what is killed at each step: qemu does not \
emulate ptrace"
)

die() { printf 'arm64: %s\n' "$*" >&2; exit 1; }

# Prints the libraries in the file `packages`, by the names that this Debian has.
libraries() {
    local line name
    sed -e '/^\[/,$d' -e 's/#.*//' -e 's/[[:space:]]//g' "$ROOT/packages" |
        grep -E '(^|\|)(lib[^|]*-dev|systemtap-sdt-dev|check)($|\|)' | grep -v libclang |
        while read -r line; do
            for name in ${line//|/ }; do
                if [[ $(apt-cache policy "$name") =~ Candidate:\ [^\(] ]]; then
                    echo "$name"
                    break
                fi
            done
        done | paste -sd,
}

# Unpacks the packages that debootstrap downloads and checks; runs no program of them. Only a
# complete tree gets the name $TREE, and the list of its libraries.
tree_make() {
    local log=$CACHE/arm64.log wanted made suite folder
    wanted=$(libraries)
    if [[ -d $TREE && (-z $wanted || $(cat "$TREE/holdfast-libraries" 2>&1) == "$wanted") ]]; then
        return 0
    fi
    mkdir -p "$CACHE"
    made=$(mktemp -d "$CACHE/arm64.XXXXXX")
    chmod 755 "$made"
    # shellcheck source=/dev/null
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    printf 'unpacking the arm64 libraries of %s in %s ... ' "$suite" "$TREE"
    for folder in bin lib sbin; do
        mkdir -p "$made/usr/$folder"
        ln -s "usr/$folder" "$made/$folder"
    done
    if ! { debootstrap --arch=arm64 --variant=minbase --download-only \
        --include="libc6-dev,libstdc++-12-dev,$wanted" "$suite" "$made" "$MIRROR" &&
        find "$made/var/cache/apt/archives" -name '*.deb' -print0 |
        xargs -0 -n 1 sh -c 'dpkg-deb -x "$2" "$1"' sh "$made"; } >"$log" 2>&1; then
        rm -rf --one-file-system -- "$made"
        tail -n 5 "$log" >&2
        die "it failed; the log: $log"
    fi
    rm -rf -- "$made/var/cache/apt/archives"
    echo "$wanted" >"$made/holdfast-libraries"
    rm -rf --one-file-system -- "$TREE"
    mv -T -- "$made" "$TREE"
    rm -f -- "$BUILD/CMakeCache.txt" # it knows what the tree before had
    echo "done"
}

# build [TARGET...]
build() {
    local log=$BUILD/dev-build.log
    mkdir -p "$BUILD"
    printf 'building build/arm64 ... '
    if ! { cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_TOOLCHAIN_FILE="$ROOT/tests/platform/arm64.cmake" -DHF_ARM64_TREE="$TREE" &&
        cmake --build "$BUILD" --parallel "${HOLDFAST_JOBS:-$(nproc)}" ${1:+--target "$@"}; } \
        >"$log" 2>&1; then
        echo "failed"
        grep -v '^\[[0-9]*/[0-9]*\] ' "$log" | head -n 60 >&2
        die "the whole log: $log"
    fi
    echo "done"
}

# Registers qemu as the interpreter of arm64 programs, unless the kernel has one. UNDO lists what
# must be undone.
UNDO=()
undo() {
    local path
    for path in "${UNDO[@]}"; do
        if [[ $path == "$BINFMT" ]]; then umount "$BINFMT"; else echo -1 >"$path"; fi
    done
    rmdir "$SEEN" 2>/dev/null || true
}

binfmt_tell() {
    local magic mask
    if [[ ! -e $BINFMT/register ]]; then
        mount -t binfmt_misc binfmt_misc "$BINFMT" || die "the kernel has no binfmt_misc"
        UNDO=("$BINFMT")
    fi
    trap undo EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    ! grep -qs '^interpreter.*qemu-aarch64' "$BINFMT"/* || return 0
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    # F: the kernel opens the interpreter now, so it need not exist in a root to which a test
    # changes.
    printf '%s' ":holdfast-arm64:M::$magic:$mask:$EMULATOR:F" >"$BINFMT/register"
    UNDO=("$BINFMT/holdfast-arm64" "${UNDO[@]}")
}

test_all() {
    local name part unable='' status=0
    for name in "${!UNABLE[@]}"; do unable+="${unable:+|}^$name\$"; done
    # One run at a time on this machine, whatever its cache is, because a run that ends removes the
    # interpreter and $SEEN.
    exec 9>"$LOCK"
    flock -n 9 || { echo "waiting for another run to end" && flock 9; }
    binfmt_tell
    # qemu prefers a file of the tree to the machine's: with an empty /proc there, no process would
    # seem to run.
    [[ ! -d $TREE/proc ]] || rmdir -- "$TREE/proc"
    mkdir -p "$SEEN"
    export QEMU_LD_PREFIX=$SEEN CK_TIMEOUT_MULTIPLIER=5
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --propagation private \
        sh -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' sh "$TREE" "$SEEN" \
        ctest --test-dir "$BUILD" --output-on-failure --no-tests=error \
        --parallel "${HOLDFAST_JOBS:-$(nproc)}" -E "$unable" "$@" 9>&- || status=$?
    printf '\nNot run under emulation:\n'
    for name in "${!UNABLE[@]}"; do printf '  %s: %s\n' "$name" "${UNABLE[$name]}"; done
    for part in "${PARTS[@]}"; do printf '  %s\n' "$part"; done
    return "$status"
}

main() {
    case ${1:-} in
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" && return ;;
    esac
    [[ $(id -u) == 0 ]] || die "needs root: debootstrap, and to tell the kernel what runs arm64"
    [[ -n $EMULATOR ]] || die "needs qemu-user-static"
    tree_make
    if [[ ${1:-} == --build ]]; then
        build "${@:2}"
        return
    fi
    build
    test_all "$@"
}

main "$@"
