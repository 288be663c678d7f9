#!/usr/bin/env bash
# ./dev test --on trixie: builds and tests inside a tree of Debian 13, and tests a cell with agents
# of both Debians. Needs root. The arguments are those of ./dev test.
#
#   trixie.sh [ARGUMENT...]      everything
#   trixie.sh --both             only the cell of both Debians, with the present builds
#   trixie.sh --shell [COMMAND]  a command, or a shell, inside the tree
#
# debootstrap makes the tree once, in $XDG_CACHE_HOME/holdfast/trixie (else ~/.cache). Remove the
# tree to have it made again. HOLDFAST_MIRROR is the mirror. Inside the tree, /src is this source,
# and /src/build is its build/trixie. All mounts are in their own mount namespace and all processes
# in their own pid namespace. Both namespaces end with the command, whatever its result is.
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
TREE=$CACHE/trixie
# The mirror of this machine's own release.
MIRROR=${HOLDFAST_MIRROR:-$(apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
    awk 'found == "" && $2 !~ /-/ { found = $1 } END { print found }')}
MULTIARCH=$(gcc -print-multiarch)

die() { printf 'trixie: %s\n' "$*" >&2; exit 1; }

# Only a complete tree gets the name $TREE.
tree_make() {
    local log=$CACHE/trixie.log made
    [[ ! -d $TREE ]] || return 0
    command -v debootstrap >/dev/null || die "needs debootstrap"
    mkdir -p "$CACHE"
    made=$(mktemp -d "$CACHE/trixie.XXXXXX")
    chmod 755 "$made"
    printf 'making a tree of Debian 13 in %s ... ' "$TREE"
    if ! debootstrap --variant=minbase --include=ca-certificates trixie "$made" "$MIRROR" \
        >"$log" 2>&1; then
        rm -rf --one-file-system -- "$made"
        tail -n 5 "$log" >&2
        die "debootstrap failed; its log: $log"
    fi
    mkdir -p "$made/src"
    mv -T -- "$made" "$TREE"
    echo "done"
}

# Runs in its own namespaces: mounts the source, the machine's devices and a new /dev/shm in the
# tree, then makes the tree the root.
# shellcheck disable=SC2016 # expanded by the inner shell
ENTER='
    set -e
    tree=$1; root=$2
    shift 2
    mount --bind "$tree" "$tree"
    mount --rbind /dev "$tree/dev"
    mount -t tmpfs -o mode=1777 shm "$tree/dev/shm"
    mount --rbind /sys "$tree/sys"
    mount -t proc proc "$tree/proc"
    mount --bind "$root" "$tree/src"
    mount --bind "$root/build/trixie" "$tree/src/build"
    # Not only chroot: a process that enters this mount namespace, as tests do, starts in its
    # root directory.
    cd "$tree"
    pivot_root . mnt
    exec chroot . sh -c "umount -l /mnt && exec \"\$@\"" sh "$@"'

# Runs a command inside the tree.
tree_run() {
    mkdir -p "$ROOT/build/trixie" "$TREE/src"
    cp -L /etc/resolv.conf /etc/hosts "$TREE/etc/"
    apt-config dump | grep -i '^Acquire::.*proxy' >"$TREE/etc/apt/apt.conf.d/90host" || true
    unshare --mount --propagation private --pid --fork --kill-child \
        bash -c "$ENTER" trixie "$TREE" "$ROOT" \
        env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        HOLDFAST_JOBS="${HOLDFAST_JOBS:-$(nproc)}" "$@"
}

# Writes a program holdfastd that starts the tree's agent here, with the tree's own libraries.
both_program() {
    local folder=$ROOT/build/trixie/both
    mkdir -p "$folder"
    cat >"$folder/holdfastd" <<PROGRAM
#!/bin/sh
exec '$TREE/lib64/ld-linux-x86-64.so.2' --library-path \
'$TREE/usr/lib/$MULTIARCH:$TREE/lib/$MULTIARCH' '$ROOT/build/trixie/bin/holdfastd' "\$@"
PROGRAM
    chmod 755 "$folder/holdfastd"
    "$folder/holdfastd" --version
}

# Tests a cell in which some hosts have this Debian's agent and others have the tree's agent.
both_run() {
    printf '\n== a cell of both\n'
    both_program
    (cd -- "$ROOT" && cmake --preset release >/dev/null &&
        cmake --build build --target holdfastd holdfast_cli test_cluster_cell_both) >/dev/null ||
        die "this Debian's build failed: ./dev build"
    HOLDFAST_BIN_DIR=$ROOT/build/bin HOLDFAST_OTHER_AGENT=$ROOT/build/trixie/both/holdfastd \
        "$ROOT/build/tests/test_cluster_cell_both"
}

main() {
    local status=0
    [[ $(id -u) == 0 ]] || die "needs root: a tree of another Debian is entered by chroot"
    [[ $(uname -m) == x86_64 ]] || die "needs an x86-64 host"
    tree_make
    case ${1:-} in
    --shell) shift; tree_run "${@:-bash}"; return ;;
    --both) both_run; return ;;
    esac
    tree_run /src/dev test "$@" || status=$?
    both_run || status=1
    return "$status"
}

main "$@"
