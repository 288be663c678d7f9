#!/bin/sh
# libholdfast.so needs only libc and msgpack-c, and exports exactly what its headers declare.
# Arguments: the library, the headers.
set -eu
library=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' >"$dir/needed"
if grep -Ev '^(libc\.so\.6|libmsgpack-?c\.so\..*|ld-linux.*)$' "$dir/needed"; then
    echo "libholdfast.so needs the libraries above; expected libc and msgpack-c only" >&2
    exit 1
fi
grep -q '^libc\.so\.6$' "$dir/needed" || { echo "$library: no NEEDED entries" >&2; exit 1; }

nm -D --defined-only "$library" | sed -n 's/.* [A-Z] \(hf[a-z_0-9]*\)@.*/\1/p' |
    sort >"$dir/exported"
nm -D --defined-only "$library" | sed -n '/ A HOLDFAST_0/d; s/.* [A-Za-z] //p' |
    sed 's/@.*//' | sort >"$dir/all"
# A declaration begins at the start of a line and is no typedef. The name is before the parenthesis.
sed -n '/^typedef/d; s/^[a-z].*[ *]\(hf_[a-z_]*\)(.*/\1/p' "$@" | sort >"$dir/declared"
diff "$dir/declared" "$dir/exported" >&2 || {
    echo "exported symbols (right) are not what the headers declare (left)" >&2
    exit 1
}
diff "$dir/all" "$dir/exported" >&2 || {
    echo "libholdfast.so exports more than hf_..." >&2
    exit 1
}
