#!/usr/bin/env bash
# ./dev test --on arm64: the build for arm64 by Debian's cross compiler, and its tests under qemu's
# user mode. Needs root. The arguments are those of ctest.
#
#   arm64.sh [CTEST-ARGUMENT...]   everything but what emulation cannot run (UNABLE, below)
#   arm64.sh --build               the build only
#
# The arm64 libraries are unpacked, not installed: the machine's own packages stay as they are. They
# lie in $XDG_CACHE_HOME/holdfast/arm64 (else ~/.cache); remove it to have it made anew. The programs
# that tests start are arm64's too, so the kernel must know what runs them (binfmt_misc): if it does
# not, it is told for as long as the tests run.
#
# qemu translates for this machine's processor, whose memory order is stronger than Arm's: what passes
# here shows that the code builds and computes the same, not that its orders are strong enough. That is
# tests/model/weak's part (docs/MEMORY_ORDER.md).
set -euo pipefail

ROOT=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/holdfast
TREE=$CACHE/arm64
MIRROR=${HOLDFAST_MIRROR:-http://deb.debian.org/debian}
BUILD=$ROOT/build/arm64
EMULATOR=$(command -v qemu-aarch64-static || true)
BINFMT=/proc/sys/fs/binfmt_misc

die() { printf 'arm64: %s\n' "$*" >&2; exit 1; }

# The libraries among what the file `packages` lists, by the names this Debian has.
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

# Unpacks what debootstrap finds and checks; nothing of it is run. Only a tree that is complete has the
# name that is looked for.
tree_make() {
    local log=$CACHE/arm64.log made suite folder
    [[ ! -d $TREE ]] || return 0
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
        --include="libc6-dev,libstdc++-12-dev,$(libraries)" "$suite" "$made" "$MIRROR" &&
        find "$made/var/cache/apt/archives" -name '*.deb' -print0 |
        xargs -0 -n 1 sh -c 'dpkg-deb -x "$2" "$1"' sh "$made"; } >"$log" 2>&1; then
        rm -rf --one-file-system -- "$made"
        tail -n 5 "$log" >&2
        die "it failed; the log: $log"
    fi
    rm -rf -- "$made/var/cache/apt/archives"
    mv -T -- "$made" "$TREE"
    echo "done"
}

build() {
    local log=$BUILD/dev-build.log
    mkdir -p "$BUILD"
    printf 'building build/arm64 ... '
    if ! { cmake -S "$ROOT" -B "$BUILD" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DCMAKE_TOOLCHAIN_FILE="$ROOT/tests/platform/arm64.cmake" -DHF_ARM64_TREE="$TREE" &&
        cmake --build "$BUILD" --parallel "${HOLDFAST_JOBS:-$(nproc)}"; } >"$log" 2>&1; then
        echo "failed"
        grep -v '^\[[0-9]*/[0-9]*\] ' "$log" | head -n 60 >&2
        die "the whole log: $log"
    fi
    echo "done"
}

main() {
    [[ $(id -u) == 0 ]] || die "needs root: debootstrap, and to tell the kernel what runs arm64"
    [[ -n $EMULATOR ]] || die "needs qemu-user-static"
    tree_make
    build
    [[ ${1:-} != --build ]] || return 0
}

main "$@"
