#!/usr/bin/env bash
# docs/METRICS.md lists every probe of the library and the agent with its place, and no other probe.
#
# Usage: probes.sh SOURCE_DIR BUILD_DIR
# Exit status 77: built without <sys/sdt.h>, or there is no readelf.
set -euo pipefail
source_dir=$1
build_dir=$2
command -v readelf >/dev/null || exit 77
grep -q '^HF_HAVE_SDT:INTERNAL=1$' "$build_dir/CMakeCache.txt" || exit 77

# Prints the names of the notes of provider holdfast in a file.
probes_of() {
    readelf -n "$1" | awk '$1 == "Provider:" { ours = $2 == "holdfast" }
        $1 == "Name:" && ours { print $2 }' | sort -u
}

# Prints the probes in the page whose place is one of the given places.
documented() {
    awk -F'|' -v places="$1" '$2 ~ /^ `[a-z_]+` $/ && $3 ~ "^ (" places ") $" {
        gsub(/[ `]/, "", $2); print $2 }' "$source_dir/docs/METRICS.md" | sort -u
}

# compare FILE PLACES
compare() {
    local differ
    [[ $(probes_of "$1" | wc -l) -ge 9 ]] || { echo "$1 has hardly any probes" >&2; exit 1; }
    differ=$(comm -3 <(probes_of "$1") <(documented "$2") |
        sed -e 's/^\t/docs METRICS.md only: /' -e '/^docs/!s/^/the program only: /')
    [[ -z $differ ]] || { printf '%s:\n%s\n' "$1" "$differ" >&2; exit 1; }
}

compare "$build_dir/lib/libholdfast.so" 'library|both'
compare "$build_dir/bin/holdfastd" 'agent|both'
