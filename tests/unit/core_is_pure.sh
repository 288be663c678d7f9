#!/bin/sh
# The pure core (agent/core) must call only mem*, the assertion hook, and functions of proto/
# (hfi_*: the lock word's protocol, the frames): no I/O, no clock, no allocation. proto/ and text/
# must call only functions on memory and strings, so that they bring nothing else into the core. The
# script checks the undefined symbols of the archives: core_is_pure.sh NM CORE PROTO TEXT
#
# clang replaces a memcmp() whose sign is not used by bcmp(). A symbol that one file does not define
# may be defined in another file. proto's check.o is the assertion hook itself.
set -eu
nm=$1
core=$2
proto=$3
text=$4

defined_by() {
    "$nm" --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u
}

# Prints the functions that ARCHIVE calls and that neither the file of known symbols nor the pattern
# contains.
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
# gcc's call for an atomic operation on arm64, which checks which instructions the processor has.
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
# No variable may live from one step to the next outside of the caller's memory.
globals=$("$nm" "$core" | awk '$2 ~ /^[bBdDcC]$/ { print $3 }')
if [ -n "$globals" ]; then
    echo "core_is_pure: $core has variables:" $globals >&2
    exit 1
fi
