#!/usr/bin/env bash
# ./dev test --on trixie: builds and tests inside a tree of Debian 13, and tests a cell with agents
# of both Debians. Needs root. The arguments are those of ./dev test.
#
#   trixie.sh [ARGUMENT...]      everything
#   trixie.sh --both             only the cell of both Debians, with the present builds
#   trixie.sh --shell [COMMAND]  a command, or a shell, inside the tree
#
# tree.sh makes the tree, in ~/.cache/holdfast/trixie. Its /src/build is build/trixie here.
set -euo pipefail

die() { printf 'trixie: %s\n' "$*" >&2; exit 1; }

# shellcheck source=tree.sh
. "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/tree.sh"
TREE=$CACHE/trixie
BUILD=$ROOT/build/trixie
MULTIARCH=$(gcc -print-multiarch)

# Writes a program holdfastd that starts the tree's agent here, with the tree's own libraries.
both_program() {
    local folder=$BUILD/both
    mkdir -p "$folder"
    cat >"$folder/holdfastd" <<PROGRAM
#!/bin/sh
exec '$TREE/lib64/ld-linux-x86-64.so.2' --library-path \
'$TREE/usr/lib/$MULTIARCH:$TREE/lib/$MULTIARCH' '$BUILD/bin/holdfastd' "\$@"
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
    HOLDFAST_BIN_DIR=$ROOT/build/bin HOLDFAST_OTHER_AGENT=$BUILD/both/holdfastd \
        "$ROOT/build/tests/test_cluster_cell_both"
}

main() {
    local status=0
    [[ $(id -u) == 0 ]] || die "needs root: a tree of another Debian is entered by chroot"
    [[ $(uname -m) == x86_64 ]] || die "needs an x86-64 host"
    tree_make trixie
    case ${1:-} in
    --shell) shift; tree_run "${@:-bash}"; return ;;
    --both) both_run; return ;;
    esac
    tree_run /src/dev test "$@" || status=$?
    both_run || status=1
    return "$status"
}

main "$@"
