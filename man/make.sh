#!/bin/sh
# Makes the man pages: those of the commands from the texts of --help, those of the C interface from
# the comments of its headers, holdfastd.ini(5) from docs/CONFIG.md, holdfast(7) from holdfast.7.md.
# So a page cannot differ from its source. The scripts are awk, because each build has it.
#
# Usage: make.sh SOURCE_DIR OUT_DIR VERSION DATE
set -eu
source=$1 out=$2 version=$3 date=$4
here=$source/man
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

fail() { echo "man/make.sh: $*" >&2; exit 1; }

# Collects the texts of --help. Those of `holdfast` may be in any file of cli/.
texts_read() {
    cat "$source"/cli/*.c | awk -f "$here/help_text.awk" >"$work/cli"
    awk -f "$here/help_text.awk" "$source/agent/main.c" >"$work/agent"
}

# text cli|agent NAME: prints the text of the string constant NAME.
text() { awk -v want="@ $2" '/^@ / { inside = $0 == want; next } inside' "$work/$1"; }

# write AWK-SCRIPT PAGE BRIEF [INPUT...]: makes the page PAGE, such as holdfast-lock.1.
write() {
    script=$1 page=$2 brief=$3
    shift 3
    section=${page##*.}
    LC_ALL=C awk -v name="${page%.*}" -v section="$section" -v brief="$brief" -v see="$see" \
        -v version="$version" -v date="$date" -f "$here/roff.awk" -f "$here/$script" "$@" \
        >"$new/man$section/$page"
    [ -s "$new/man$section/$page" ] || fail "$page is empty"
}

# Prints each command and its meaning, separated by a tab, from the list in `holdfast --help`.
commands() {
    text cli program_help |
        awk '/^$/ { part++ }
             part == 1 && /^  holdfast [a-z]/ {
                 brief = $0; sub(/^  .*[^ ]   +/, "", brief); print $2 "\t" brief }'
}

make_commands() {
    commands >"$work/commands"
    [ -s "$work/commands" ] || fail "cli/help.c has no list of commands"
    see="holdfast(1) holdfast(7) holdfastd(8)"
    while IFS="$(printf '\t')" read -r command brief; do
        text cli "${command}_help" >"$work/text"
        [ -s "$work/text" ] || fail "cli/ has no text ${command}_help"
        write command.awk "holdfast-$command.1" "$brief" "$work/text"
    done <"$work/commands"
    see="$(sed 's/^\([a-z]*\).*/holdfast-\1(1)/' "$work/commands" | paste -sd' ' -)"
    see="$see libholdfast(3) holdfast(7) holdfastd(8)"
    text cli program_help >"$work/text"
    write command.awk holdfast.1 "$(sed -n '1s/^holdfast: //p' "$work/text")" "$work/text"
    see="holdfast(1) holdfastd.ini(5) holdfast(7)"
    text agent help >"$work/text"
    write command.awk holdfastd.8 "$(sed -n '1s/^holdfastd: //p' "$work/text")" "$work/text"
}

make_calls() {
    set -- "$source/include/holdfast/holdfast.h" "$source/include/holdfast/admin.h"
    awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' "$source/README.md" \
        >"$work/example.c"
    see="libholdfast(3) holdfast(7)"
    awk -v call=list -f "$here/roff.awk" -f "$here/header.awk" "$@" >"$work/calls"
    [ -s "$work/calls" ] || fail "holdfast.h declares nothing"
    while read -r call first; do
        if [ "$call" = "$first" ]; then
            LC_ALL=C awk -v call="$call" -v see="$see" -v version="$version" -v date="$date" \
                -f "$here/roff.awk" -f "$here/header.awk" "$@" >"$new/man3/$call.3"
        else
            ln -s "$first.3" "$new/man3/$call.3"
        fi
    done <"$work/calls"
    see="holdfast(1) holdfast(7) holdfastd(8)"
    LC_ALL=C awk -v call=libholdfast -v example="$work/example.c" -v see="$see" \
        -v version="$version" -v date="$date" -f "$here/roff.awk" -f "$here/header.awk" "$@" \
        >"$new/man3/libholdfast.3"
}

make_others() {
    see="holdfast(7) holdfastd(8)"
    write markdown.awk holdfastd.ini.5 "the configuration of the lock agent" \
        "$source/docs/CONFIG.md"
    see="holdfast(1) libholdfast(3) holdfastd.ini(5) holdfastd(8)"
    write markdown.awk holdfast.7 "named locks for one host, or for many" "$here/holdfast.7.md"
}

new=$work/man
mkdir -p "$new/man1" "$new/man3" "$new/man5" "$new/man7" "$new/man8"
texts_read
make_commands
make_calls
make_others
# All or nothing: a failure leaves the pages as they were.
rm -rf -- "$out"
mkdir -p -- "$(dirname -- "$out")"
cp -R -- "$new" "$out"
