#!/usr/bin/env bash
# The README's C program compiles without a warning, and links with the shared and with the static
# library. pkg-config finds them in the build folder, and after an installation under a prefix that
# only `cmake --install` named. Each header compiles by itself, as C and as C++, and includes only
# what it documents. Arguments: source folder, build folder, C compiler, C++ compiler, and an option
# for both compilers (a cross compiler's --sysroot).
set -euo pipefail
source=$1 build=$2 cc=$3 cxx=$4
options=("${@:5}")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$source/README.md" \
    >"$work/readme.c"
grep -q hf_connect "$work/readme.c"
printf '#include <holdfast/holdfast.h>\n#include <stdio.h>\nint main(void)\n{\n    puts(%s);\n}\n' \
    'hf_version()' >"$work/version.c"
cat >"$work/admin.c" <<'EOF'
#include <holdfast/admin.h>
static int see(const struct hf_lock_info *info, void *arg)
{
    (void)arg;
    return info->holder_count > 0 ? (int)info->holders[0]->mode : 0;
}
int main(void)
{
    hf_client *client = NULL;
    return hf_connect(NULL, &client) == 0 && hf_list(client, "", see, NULL) == 0 ? 0 : 69;
}
EOF
version=$(sed -n 's/^Version: //p' "$build/lib/pkgconfig/holdfast.pc")

# expect WHAT COMMAND...: the program that was linked prints the library's version.
expect() {
    local what=$1 got
    shift
    got=$("$@")
    [[ $got == "$version" ]] || { echo "$what: prints '$got', not '$version'"; exit 1; }
    echo "$what: good"
}

# link PKG-CONFIG-DIR OUTPUT SOURCE PKG-CONFIG-OPTION...
link() {
    local dir=$1 output=$2 program=$3 flags
    shift 3
    flags=$(PKG_CONFIG_PATH=$dir pkg-config "$@" --cflags --libs holdfast)
    # shellcheck disable=SC2086 # several words, by design
    "$cc" "${options[@]}" -std=gnu11 -Wall -Wextra -Werror "$program" $flags -o "$output"
}

link "$build/lib/pkgconfig" "$work/readme" "$work/readme.c"
link "$build/lib/pkgconfig" "$work/version" "$work/version.c"
expect "from the build folder" "$work/version"

# A program for an earlier version of the interface compiles unchanged. Two warnings are allowed: the
# kinds of events grow (holdfast.h says so), so a compiler may name the new ones in a switch. The
# options of a call grow, too, so it may name a member that an initialiser without names leaves out.
here=$source/tests/packaging
options+=(-Wno-error=switch -Wno-error=missing-field-initializers)
link "$build/lib/pkgconfig" "$work/before" "$here/program_of_before.c"
status=0
LD_LIBRARY_PATH=$build/lib "$work/before" "$work/no-agent.sock" >"$work/printed" 2>/dev/null ||
    status=$?
[[ $status == 69 && $(<"$work/printed") == "$version" ]] ||
    { echo "the earlier program: exit status $status, expected 69"; exit 1; }
"$cxx" "${options[@]}" -std=c++17 -Wall -Wextra -Werror -I"$source/include" -c \
    "$here/program_of_before.cpp" -o "$work/before.o"
unset 'options[-1]'
unset 'options[-1]'
echo "an earlier program: good"

cmake --install "$build" --prefix "$work/prefix" >/dev/null
pc=$(find "$work/prefix" -name holdfast.pc)
lib=$(cd -- "$(dirname -- "$pc")/.." && pwd)
link "${pc%/*}" "$work/readme" "$work/readme.c"
link "${pc%/*}" "$work/admin" "$work/admin.c"
link "${pc%/*}" "$work/version" "$work/version.c"
expect "installed, shared" env LD_LIBRARY_PATH="$lib" "$work/version"
rm -f "$lib"/libholdfast.so*
link "${pc%/*}" "$work/version" "$work/version.c" --static
expect "installed, static" "$work/version"
[[ -x $work/prefix/bin/holdfast && -x $work/prefix/bin/holdfastd ]]
grep -q "^ExecStart=$work/prefix/bin/holdfastd " "$work/prefix/lib/systemd/system/holdfastd.service"

printf '#include <holdfast/holdfast.h>\nint main()\n{\n    return hf_version() == nullptr;\n}\n' \
    >"$work/version.cpp"
"$cxx" "${options[@]}" -std=c++11 -Wall -Wextra -Wpedantic -Werror -I"$source/include" -c "$work/version.cpp" \
    -o "$work/version.o"
for header in holdfast.h admin.h; do
    printf '#include <holdfast/%s>\nint main(void) { return 0; }\n' "$header" |
        "$cc" "${options[@]}" -x c -std=c99 -Wall -Wextra -Wpedantic -Werror -I"$source/include" -c - \
            -o "$work/alone.o"
    printf '#include <holdfast/%s>\nint main() { return 0; }\n' "$header" |
        "$cxx" "${options[@]}" -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror \
            -I"$source/include" -c - -o "$work/alone.o"
done
if printf '#include <holdfast/holdfast.h>\nstruct hf_status status;\nint main(void) { return 0; }\n' |
    "$cc" "${options[@]}" -x c -I"$source/include" -c - -o "$work/alone.o" 2>/dev/null; then
    echo "holdfast.h declares what admin.h is for"
    exit 1
fi
echo "each header by itself, and as C++: good"
