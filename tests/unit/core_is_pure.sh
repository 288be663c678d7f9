#!/bin/sh
# The pure core (agent/core) must call nothing but mem* and the assertion hook: no I/O, no clock, no
# allocation. Asked of the symbols that its archive leaves open: core_is_pure.sh NM ARCHIVE
#
# bcmp is what clang makes of a memcmp whose sign nobody asks for. What one file leaves open another
# may define.
set -eu
nm=$1
archive=$2
defined=$("$nm" --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort -u)
[ -n "$defined" ] || { echo "core_is_pure: $archive defines nothing" >&2; exit 1; }
open=$("$nm" -u "$archive" | awk '$1 == "U" { print $2 }' | sort -u)
bad=
for symbol in $open; do
    case $symbol in
    memcpy | memmove | memset | memcmp | memchr | bcmp) continue ;;
    hfi_check_failed | _GLOBAL_OFFSET_TABLE_) continue ;;
    esac
    printf '%s\n' "$defined" | grep -qxF -- "$symbol" || bad="$bad $symbol"
done
if [ -n "$bad" ]; then
    echo "core_is_pure: $archive calls$bad; it may call mem* and hfi_check_failed only" >&2
    exit 1
fi
# Nothing that lives from one step to the next outside of the caller's memory.
globals=$("$nm" "$archive" | awk '$2 ~ /^[bBdDcC]$/ { print $3 }')
if [ -n "$globals" ]; then
    echo "core_is_pure: $archive has variables:" $globals >&2
    exit 1
fi
