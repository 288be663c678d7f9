#!/usr/bin/env bash
# libholdfast.a defines exactly the global names that the headers declare. So a program may have
# functions with the names that the library uses within itself. Arguments: source folder, build
# folder, C compiler, nm, and options for the compiler: a cross compiler's --sysroot, the build's
# -fsanitize.
set -euo pipefail
source=$1 build=$2 cc=$3 nm=$4
options=("${@:5}")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

sed -nE 's/^(int|void|int64_t|void \*|const char \*) ?(hf_[a-z_]+)\(.*/\2/p' \
    "$source/include/holdfast/holdfast.h" "$source/include/holdfast/admin.h" | sort -u >"$work/declared"
if [[ $(wc -l <"$work/declared") -lt 20 ]]; then
    echo "found only these in the headers: $(paste -sd' ' "$work/declared")"
    exit 1
fi
# A program that has probes of its own (sys/sdt.h) defines `_.stapsdt.base`, too, and the linker
# keeps one of the definitions.
"$nm" -g --defined-only "$build/lib/libholdfast.a" |
    awk 'NF == 3 && $3 != "_.stapsdt.base" { print $3 }' | sort -u >"$work/global"
if ! diff "$work/declared" "$work/global"; then
    echo "^ < declared in the headers, > global in libholdfast.a"
    exit 1
fi

# This program's functions would end the program if the library called them.
cat >"$work/program.c" <<'EOF2'
#include <holdfast/holdfast.h>
#include <stdio.h>
#include <stdlib.h>
int socket_send(void);
int socket_send(void)
{
    abort();
}
int client_reach(void);
int client_reach(void)
{
    abort();
}
int hfi_frame_encode(void);
int hfi_frame_encode(void)
{
    abort();
}
int main(int count, char **words)
{
    struct hf_options options = HF_OPTIONS_INIT;
    options.socket = words[1];
    options.connect_timeout_ns = 1;
    hf_client *client = NULL;
    int error = hf_connect(&options, &client);
    printf("%d\n", error);
    if (count > 2) { /* never true; so the compiler keeps the three functions */
        return socket_send() + client_reach() + hfi_frame_encode();
    }
    return error == HF_ENOAGENT ? 0 : 1;
}
EOF2
"$nm" "$build/lib/libholdfast.a" >"$work/all"
for name in socket_send client_reach hfi_frame_encode; do
    grep -q " t $name\$" "$work/all" ||
        { echo "the library has no $name any more: choose another function for this test"; exit 1; }
done
libraries=$(sed -n 's/^Libs.private: //p' "$build/lib/pkgconfig/holdfast.pc")
# shellcheck disable=SC2086 # several words, by design
"$cc" "${options[@]}" -std=gnu11 -Wall -Wextra -Werror -I"$source/include" "$work/program.c" \
    "$build/lib/libholdfast.a" $libraries -o "$work/program"
"$work/program" "$work/no-agent.sock" >/dev/null ||
    { echo "the program with names of its own: exit status $?, expected 0"; exit 1; }
echo "a program with names of its own: good"
