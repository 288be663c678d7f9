# shellcheck shell=bash disable=SC2154
# Trees of other Debians, in which this source is built. The scripts that need one source this file,
# and set TREE, the tree's folder, and BUILD, the folder that the tree has as /src/build.
#
# debootstrap makes a tree once, in $CACHE ($XDG_CACHE_HOME/holdfast, else ~/.cache/holdfast).
# Remove the tree to have it made again. HOLDFAST_MIRROR is the mirror. Inside the tree, /src is
# this source. All mounts are in their own mount namespace and all processes in their own pid
# namespace. Both namespaces end when the command ends.

ROOT=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
# The mirror of this machine's own release.
MIRROR=${HOLDFAST_MIRROR:-$(
    apt-get indextargets --format '$(SITE) $(RELEASE)' 'Created-By: Packages' |
        awk 'found == "" && $2 !~ /-/ { found = $1 } END { print found }')}

# tree_make RELEASE: debootstrap makes the tree. Only a complete tree gets the name $TREE.
tree_make() {
    local release=$1 log=$TREE.log made
    [[ ! -d $TREE ]] || return 0
    command -v debootstrap >/dev/null || die "needs debootstrap"
    mkdir -p "$CACHE"
    made=$(mktemp -d "$TREE.XXXXXX")
    chmod 755 "$made"
    printf 'making a tree of Debian %s in %s ... ' "$release" "$TREE"
    if ! debootstrap --variant=minbase --include=ca-certificates "$release" "$made" "$MIRROR" \
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
    tree=$1; root=$2; build=$3
    shift 3
    mount --bind "$tree" "$tree"
    mount --rbind /dev "$tree/dev"
    mount -t tmpfs -o mode=1777 shm "$tree/dev/shm"
    mount --rbind /sys "$tree/sys"
    mount -t proc proc "$tree/proc"
    mount --bind "$root" "$tree/src"
    mount --bind "$build" "$tree/src/build"
    # Not only chroot: a process that enters this mount namespace, as tests do, starts in its
    # root directory.
    cd "$tree"
    pivot_root . mnt
    exec chroot . sh -c "umount -l /mnt && exec \"\$@\"" sh "$@"'

# Runs a command inside the tree.
tree_run() {
    mkdir -p "$BUILD" "$TREE/src"
    cp -L /etc/resolv.conf /etc/hosts "$TREE/etc/"
    apt-config dump | grep -i '^Acquire::.*proxy' >"$TREE/etc/apt/apt.conf.d/90host" || true
    unshare --mount --propagation private --pid --fork --kill-child \
        bash -c "$ENTER" tree "$TREE" "$ROOT" "$BUILD" \
        env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        HOLDFAST_JOBS="${HOLDFAST_JOBS:-$(nproc)}" "$@"
}
