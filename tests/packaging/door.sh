#!/usr/bin/env bash
# ./dev has a help text, refuses unknown arguments with exit status 64, and needs neither root nor
# apt if no package is missing. Argument: source folder.
set -euo pipefail
dev=$1/dev
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

fail() { echo "$*"; exit 1; }

"$dev" --help >"$work/all"
for command in run build test bench sim fuzz coverage package image fmt lint; do
    grep -qE "^  $command  +[A-Za-z]" "$work/all" || fail "./dev --help does not name $command"
    "$dev" "$command" --help >"$work/help"
    grep -q "^./dev $command" "$work/help" || fail "./dev $command --help does not say how"
done
for words in "nonsense" "build --nonsense" "build --preset nonsense" "run x" "test x" "fmt x" \
    "lint x" "package x" "image x" "fuzz --seconds x" "coverage x"; do
    status=0
    # shellcheck disable=SC2086 # several words, by design
    "$dev" $words >"$work/out" 2>"$work/err" || status=$?
    [[ $status == 64 && -s $work/err ]] || fail "./dev $words: exit status $status, not 64"
done

# If every package is installed, ./dev calls neither apt-get nor sudo, which would fail here.
printf '#!/bin/sh\nexit 99\n' >"$work/apt-get"
printf '#!/bin/sh\necho ii\n' >"$work/dpkg-query"
cp "$work/apt-get" "$work/sudo"
chmod +x "$work/apt-get" "$work/sudo" "$work/dpkg-query"
mkdir "$work/tree"
cp "$dev" "$1/packages" "$1/.clang-format" "$work/tree"
PATH=$work:$PATH "$work/tree/dev" fmt --check >"$work/out" ||
    fail "all is installed, and ./dev fmt --check fails"

# If a package is missing and cannot be installed, ./dev names it and stops.
printf '#!/bin/sh\ncase "$*" in *spin*) exit 1 ;; esac\necho ii\n' >"$work/dpkg-query"
status=0
PATH=$work:$PATH "$work/tree/dev" fmt --check >"$work/out" 2>"$work/err" </dev/null || status=$?
[[ $status == 1 ]] || fail "a package that cannot be installed: exit status $status, not 1"
grep -q spin "$work/err" || fail "a package that cannot be installed is not named"
echo "the door is good"
