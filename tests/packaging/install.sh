#!/usr/bin/env bash
# `cmake --install` under a prefix of its own: a user's program builds against it with pkg-config
# and with CMake, and runs with an rpath. The sample configuration is valid, completion works, and
# the files are where their readers look for them. Arguments: source folder, build folder, C
# compiler.
set -euo pipefail
source=$1 build=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

fail() { echo "$*"; exit 1; }

cmake --install "$build" --prefix "$work/local" >/dev/null
for file in lib/systemd/system/holdfastd.service lib/sysusers.d/holdfast.conf \
    lib/tmpfiles.d/holdfast.conf share/man/man1/holdfast.1 share/man/man3/hf_connect.3 \
    share/bash-completion/completions/holdfast share/zsh/site-functions/_holdfast \
    share/fish/vendor_completions.d/holdfast.fish share/doc/holdfast/examples/holdfastd.ini; do
    [[ -s $work/local/$file ]] || fail "not installed: $file"
done

# The sample names the service's folders. They may belong to another user on this host, and then the
# exit status would be 69. So the test names other folders.
status=0
sed "s|/var/lib/holdfast|$work/state|; s|/run/holdfast|$work/run|" \
    "$work/local/share/doc/holdfast/examples/holdfastd.ini" >"$work/sample.ini"
"$work/local/bin/holdfastd" --config "$work/sample.ini" --check-config >/dev/null ||
    fail "the sample configuration is not good"
"$work/local/bin/holdfastd" --config "$work/none.ini" 2>"$work/err" || status=$?
[[ $status == 78 && $(wc -l <"$work/err") == 1 ]] || fail "no configuration: exit status $status"
grep -q "none.ini: No such file or directory. Write it: \`holdfast setup\` " "$work/err" ||
    fail "$(<"$work/err")"

printf '#include <holdfast/holdfast.h>\n#include <stdio.h>\nint main(void)\n{\n    puts(%s);\n}\n' \
    'hf_version()' >"$work/program.c"
version=$(sed -n 's/^Version: //p' "$build/lib/pkgconfig/holdfast.pc")
pc=$(dirname -- "$(find "$work/local" -name holdfast.pc)")
read -ra flags < <(PKG_CONFIG_PATH=$pc pkg-config --cflags --libs holdfast)
"$cc" "$work/program.c" "${flags[@]}" -Wl,-rpath,"${pc%/*}" -o "$work/program"
cmake -G Ninja -S "$source/tests/packages/program" -B "$work/cmake" -DPROGRAM="$work/program.c" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$work/local" >"$work/log" 2>&1 &&
    cmake --build "$work/cmake" >>"$work/log" 2>&1 || fail "find_package: $(<"$work/log")"
for program in program cmake/program cmake/program_static; do
    [[ $("$work/$program") == "$version" ]] || fail "$program does not print $version"
done

# Installs into /usr/local, where a program finds the library without an rpath. Needs root. A mount
# namespace has an empty /usr/local and a copy of /etc.
local_install() {
    mount -t tmpfs none /usr/local && cp -a /etc "$work/etc" && mount --bind "$work/etc" /etc &&
        mount -t tmpfs none /var/cache/ldconfig || return 77
    cmake --install "$build" --prefix /usr/local >/dev/null
    "$cc" "$work/program.c" -I/usr/local/include -L/usr/local/lib -lholdfast -o "$work/found"
    [[ $("$work/found") == "$version" ]] || fail "/usr/local: a program does not find the library"
    [[ $(/usr/local/bin/holdfast --version) == holdfast* ]]
}
if [[ $(id -u) == 0 ]] && unshare --mount true 2>/dev/null; then
    export work build cc version
    export -f local_install fail
    status=0
    unshare --mount --propagation private bash -euo pipefail -c local_install || status=$?
    [[ $status == 0 || $status == 77 ]] || fail "installed into /usr/local: exit status $status"
    [[ $status == 0 ]] || echo "not tried: /usr/local itself"
fi

# complete WORD...: prints what bash offers as the last word.
complete_words() {
    # shellcheck disable=SC1091 # just installed
    PATH=$work/local/bin:$PATH bash -c '
        source "$1"; shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _holdfast
        printf "%s\n" "${COMPREPLY[@]}"' bash \
        "$work/local/share/bash-completion/completions/holdfast" "$@" | sort | paste -sd' '
}
offers() {
    local want=$1 got
    shift
    got=$(complete_words "$@")
    [[ $got == "$want" ]] || fail "bash offers '$got' for '$*', not '$want'"
}
offers "setup show status" holdfast s
offers "--self" holdfast setup --se
offers "--wait" holdfast lock --wai
offers "--socket" holdfast lock --so
offers "--now" holdfast break --no
offers "rejoin remove replace" holdfast member r
offers "" holdfast member remove r
offers "$work/local" holdfast member backup "$work/loc"
[[ " $(complete_words holdfast '') " == *" lock "* ]] || fail "bash does not offer the commands"
for shell in zsh fish; do
    command -v $shell >/dev/null || continue
    $shell -n "$(find "$work/local/share/$shell" -type f)" ||
        fail "$shell cannot read its completion"
done
if command -v fish >/dev/null; then
    got=$(HOME=$work PATH=$work/local/bin:$PATH fish --no-config -c "
        source $work/local/share/fish/vendor_completions.d/holdfast.fish
        complete -C 'holdfast lock --wai'; complete -C 'holdfast doc'
        complete -C 'holdfast -s /none stat'; complete -C 'holdfast member rej'
        complete -C 'holdfast member remove rej'
        complete -C 'holdfast lock x -- cmak' | grep '^cmake'" | cut -f1 | paste -sd' ')
    [[ $got == "--wait doctor status rejoin cmake"* ]] || fail "fish offers '$got'"
    got=$(HOME=$work PATH=$work/local/bin:$PATH fish --no-config -c "
        source $work/local/share/fish/vendor_completions.d/holdfast.fish
        complete -C 'holdfast mem'" | paste -sd' ')
    [[ $got == $'member\tlist'* ]] || fail "fish offers '$got'"
fi

# zsh_offers WORD LINE: zsh offers the word behind the line. zsh completes only on a terminal.
zsh_offers() {
    PATH=$work/local/bin:$PATH TERM=dumb HOME=$work timeout 60 zsh -f -c '
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z "fpath=($1 \$fpath); autoload -U compinit; compinit -u -D" \
            "bindkey \"^I\" list-choices; print IS\"\"READY"
        zpty -r -m z out "*ISREADY*"
        zpty -w -n z "$3"$'"'\t'"'
        zpty -r -m z out "*[[:space:]m]${2}[[:space:]]*"
        zpty -d z' zsh "$work/local/share/zsh/site-functions" "$1" "$2" ||
        fail "zsh does not offer '$1' for '$2'"
}
if command -v zsh >/dev/null; then
    zsh_offers status "holdfast "
    zsh_offers --wait "holdfast lock --wai"
    zsh_offers replace "holdfast member "
fi
