#!/bin/sh
# The pure core (agent/core) must call nothing but mem*, the assertion hook, and what proto/ defines
# (hfi_*: the lock word's protocol, the frames): no I/O, no clock, no allocation. And proto/ and
# text/ must call nothing but functions on memory and strings, so that nothing comes in by way of
# them. Asked of the symbols that the archives leave open: core_is_pure.sh NM CORE PROTO TEXT
#
# bcmp is what clang makes of a memcmp whose sign nobody asks for. What one file leaves open another
# may define. proto's check.o is the hook itself.
set -eu
nm=$1
core=$2
proto=$3
text=$4

defined_by() {
    "$nm" --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u
}

# Prints what ARCHIVE calls that is neither in the file of known symbols nor of the given pattern.
strangers() {
    "$nm" -u "$1" | awk -v skip="$2" '
        /:$/ { member = $0 }
        $1 == "U" && member !~ skip { print $2 }' | sort -u | grep -vxF -f "$known" |
        grep -vxE "$3" || true
}

known=$(mktemp)
trap 'rm -f "$known"' EXIT
[ -n "$(defined_by "$core")" ] || { echo "core_is_pure: $core defines nothing" >&2; exit 1; }
defined_by "$core" "$proto" "$text" >"$known"

memory='memcpy|memmove|memset|memcmp|memchr|bcmp|hfi_check_failed|_GLOBAL_OFFSET_TABLE_'
# What gcc makes of an atomic operation on arm64: it looks which instructions there are.
memory="$memory|__aarch64_(cas|swp|ld[a-z]*)[0-9]+_[a-z_]*"
bad=$(strangers "$core" '^$' "$memory")
if [ -n "$bad" ]; then
    echo "core_is_pure: $core calls" $bad "; it may call mem*, hfi_check_failed and proto/ only" >&2
    exit 1
fi
strings='str[a-z]*|(__)?v?snprintf(_chk)?|__stack_chk_(fail|guard)|__mem[a-z]*_chk|__str[a-z]*_chk'
sanitizers='__(asan|ubsan|tsan)_.*'
for archive in "$proto" "$text"; do
    bad=$(strangers "$archive" 'check' "$memory|$strings|$sanitizers")
    if [ -n "$bad" ]; then
        echo "core_is_pure: $archive calls" $bad "; only functions on memory and strings may be" >&2
        exit 1
    fi
done
# Nothing that lives from one step to the next outside of the caller's memory.
globals=$("$nm" "$core" | awk '$2 ~ /^[bBdDcC]$/ { print $3 }')
if [ -n "$globals" ]; then
    echo "core_is_pure: $core has variables:" $globals >&2
    exit 1
fi
