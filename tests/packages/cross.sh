#!/usr/bin/env bash
# ./dev package --arch arm64: builds the packages for arm64 the way Debian cross-builds packages:
# with the compilers for arm64, and with arm64's libraries installed. They are installed in a
# separate tree, so this machine's dpkg gets no foreign architecture. Then it checks the packages
# with lintian and with contents.sh. Needs root.
#
#   cross.sh RELEASE BUILD FOLDER [AGAIN]
#
# RELEASE is bookworm or trixie. FOLDER is a copy of the source, below the folder BUILD; the
# packages come beside it. AGAIN is another copy: its packages must be the same, byte for byte.
#
# tests/platform/tree.sh makes the tree, in ~/.cache/holdfast/cross-RELEASE. The tree of ./dev test
# --on arm64 is of no use here, because its libraries are only unpacked: its dpkg does not know
# which package a library is in, so the built packages could not say what they depend on.
set -euo pipefail

die() { printf 'cross: %s\n' "$*" >&2; exit 1; }

# shellcheck source=../platform/tree.sh
. "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../platform/tree.sh"

apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@"
}

# Inside the tree: installs what the build needs, unless all of it is installed.
inside_prepare() {
    local name missing=''
    for name in aarch64-linux-gnu-g++ fakeroot lintian qemu-aarch64-static dpkg-checkbuilddeps; do
        command -v "$name" >/dev/null || missing+=" $name"
    done
    if [[ -z $missing ]] && dpkg-checkbuilddeps -B -a arm64 -P cross,nocheck; then return; fi
    # dpkg does not wait for the disk, because the tree can be made again after a crash of the
    # machine.
    echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/holdfast
    dpkg --add-architecture arm64
    apt_get update
    apt_get install build-essential crossbuild-essential-arm64 fakeroot lintian qemu-user-static
    apt_get build-dep --host-architecture arm64 --arch-only -P cross,nocheck ./
}

inside_build() {
    env -u SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS="parallel=$HOLDFAST_JOBS nocheck" \
        dpkg-buildpackage --no-sign --build=any --host-arch arm64 -Pcross,nocheck
}

inside_check() {
    lintian --allow-root --fail-on error ../*.changes || die "lintian"
    bash /src/tests/packages/contents.sh .. /src arm64 || die "contents"
}

# inside FUNCTION FOLDER: runs this script's function in a folder, inside the tree.
inside() { tree_run bash /src/tests/packages/cross.sh --inside "$1" "/src/build/${2#"$BUILD/"}"; }

# logged WORDS FUNCTION FOLDER: does the same as inside, and writes the output to a log.
logged() {
    local started=$SECONDS log=$3.$2.log
    printf '%s ... ' "$1"
    if inside "$2" "$3" >"$log" 2>&1; then
        echo "done, $((SECONDS - started)) s"
        return
    fi
    echo "failed"
    tail -n 40 "$log" >&2
    die "the whole log: $log"
}

sums() { (cd -- "$1" && sha256sum -- *.deb); }

compare() {
    local first second
    first=$(sums "$1") second=$(sums "$2")
    if [[ $first == "$second" ]]; then
        echo "built twice: the same bytes"
        return
    fi
    diff <(echo "$first") <(echo "$second") >&2 || true
    die "built twice: the packages differ ($1 and $2)"
}

main() {
    local release=$1 folder again=${4:-}
    [[ $(id -u) == 0 ]] || die "needs root: the tree is entered by chroot"
    BUILD=$(cd -- "$2" && pwd)
    folder=$(cd -- "$3" && pwd)
    TREE=$CACHE/cross-$release
    tree_make "$release"
    logged "installing what a build for arm64 needs, in the tree" inside_prepare "$folder"
    logged "building packages for arm64 in $3" inside_build "$folder"
    inside inside_check "$folder"
    [[ -n $again ]] || return 0
    logged "building packages for arm64 in $again" inside_build "$(cd -- "$again" && pwd)"
    compare "${folder%/*}" "$(cd -- "$again/.." && pwd)"
}

if [[ ${1:-} == --inside ]]; then
    cd -- "$3"
    "$2"
else
    main "$@"
fi
