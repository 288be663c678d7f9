#!/usr/bin/env bash
# libholdfast.so needs only libc and msgpack-c, and exports exactly the functions that its headers
# declare. Arguments: source folder, build folder.
set -euo pipefail
source=$1 library=$2/lib/libholdfast.so
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' >"$work/needed"
if grep -vE '^(libc\.so\.|ld-linux.*\.so\.|libmsgpack-?c\.so\.)' "$work/needed"; then
    echo "^ libholdfast.so needs more than libc and msgpack-c"
    exit 1
fi
if ! grep -q '^libc\.so\.' "$work/needed"; then
    echo "libholdfast.so does not even need libc: this looked at the wrong file"
    exit 1
fi

sed -nE 's/^(int|void|int64_t|void \*|const char \*) ?(hf_[a-z_]+)\(.*/\2/p' \
    "$source/include/holdfast/holdfast.h" "$source/include/holdfast/admin.h" | sort -u >"$work/declared"
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$work/shown"
if [[ $(wc -l <"$work/declared") -lt 20 ]]; then
    echo "found only these in the headers: $(paste -sd' ' "$work/declared")"
    exit 1
fi
# The Debian package's symbols file lists exactly the declared functions, and the library exports
# exactly these.
sed -n 's/^ \(hf_[a-z_]*\)@.*/\1/p' "$source/debian/libholdfast0.symbols" | sort -u >"$work/symbols"
if ! diff "$work/declared" "$work/symbols"; then
    echo "^ < declared in the headers, > in debian/libholdfast0.symbols"
    exit 1
fi
if ! diff "$work/declared" "$work/shown"; then
    echo "^ < declared in the headers, > shown by libholdfast.so"
    exit 1
fi
