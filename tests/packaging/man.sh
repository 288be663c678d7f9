#!/usr/bin/env bash
# Each command, each call and the configuration has its man page. The pages contain the text of
# --help, and neither man nor mandoc finds a fault in them. Arguments: source folder, build folder.
set -euo pipefail
source=$1 bin=$2/bin pages=$2/man/pages
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
failed=0

complain() { echo "$*"; failed=1; }

# Prints a page as a person sees it, as one line, without the hyphens of broken words.
shown() {
    if command -v mandoc >/dev/null; then
        mandoc -T utf8 -O width=500 "$1" | sed 's/.\x08//g'
    else
        MANWIDTH=500 MAN_KEEP_FORMATTING='' man -l "$1" | sed 's/.\x08//g'
    fi | tr -s ' \n' ' '
}

# page NAME.SECTION FILE TITLE COMMAND...: checks that `COMMAND... --help` prints the text that FILE
# has under that title, and that the page has each option of that text, and its phrases.
page() {
    local page=$pages/man${1##*.}/$1 option
    "${@:4}" --help >"$work/said"
    awk -v want="@ $3" '/^@ / { inside = $0 == want; next } inside' "$2" >"$work/text"
    cmp "$work/said" "$work/text" || complain "$1: its text is not that of ${*:4} --help"
    [[ -s $page ]] || { complain "there is no page $1"; return; }
    shown "$page" >"$work/shown"
    while read -r option; do
        grep -qE -- "(^|[ ,])$option([][ ,=]|\$)" "$work/shown" || complain "$1 lacks $option"
    done < <(grep -oE '^  +(-[a-zA-Z], )?-(-[a-z-]+|[a-zA-Z])' "$work/said" |
        grep -oE -- '-[-a-zA-Z]+')
    while read -r option; do
        grep -qF -- "$option" "$work/shown" || complain "$1 lacks: $option"
    done < <(grep -oE '[a-z]{4,} [a-z]+ [a-z]{4,}' "$work/said")
}

cat "$source"/cli/*.c | awk -f "$source/man/help_text.awk" >"$work/cli"
awk -f "$source/man/help_text.awk" "$source/agent/main.c" >"$work/agent"
page holdfast.1 "$work/cli" program_help "$bin/holdfast"
page holdfastd.8 "$work/agent" help "$bin/holdfastd"
commands=$("$bin/holdfast" --help | awk '/^$/ { part++ } part == 1 && /^  holdfast / { print $2 }')
[[ $(wc -l <<<"$commands") -ge 9 ]] || complain "holdfast --help lists only: $commands"
for command in $commands; do
    page "holdfast-$command.1" "$work/cli" "${command}_help" "$bin/holdfast" "$command"
    grep -q "holdfast-$command(1)" <(shown "$pages/man1/holdfast.1") ||
        complain "holdfast(1) does not name holdfast-$command(1)"
done

sed -n 's/^ *\(hf_[a-z_]*\);$/\1/p' "$source/libclient/holdfast.map" >"$work/calls"
# Each call that the library exports has a page. It contains the prototype, explains each error in
# words, and leads to the pages of the calls that it names.
calls=0
while read -r call; do
    calls=$((calls + 1))
    [[ -s $pages/man3/$call.3 ]] || { complain "there is no page $call.3"; continue; }
    grep -q "$call(" <(shown "$pages/man3/$call.3") || complain "$call.3 has no prototype"
    grep -q "$call(3)" <(shown "$pages/man3/libholdfast.3") || complain "libholdfast(3) lacks $call"
    shown "$pages/man3/$call.3" >"$work/shown"
    ! grep -oE 'HF_E[A-Z]+ = -[0-9]+,' <(sed 's/ TYPES .*//' "$work/shown") ||
        complain "^ $call.3 explains an error by its number"
    while read -r other; do
        grep -qE "SEE ALSO.* $other\(3\)|NAME [a-z_, ]*\b$other .*SYNOPSIS" "$work/shown" ||
            complain "$call.3 does not lead to $other(3)"
    done < <(sed 's/.* DESCRIPTION //; s/ \(ERRORS\|TYPES\|SEE ALSO\) .*//' "$work/shown" |
        grep -oE '\bhf_[a-z_]+' | sort -u | grep -xFf "$work/calls" | grep -vx "$call")
done <"$work/calls"
((calls >= 20)) || complain "libclient/holdfast.map names only $calls calls"

# Each key of the configuration is in its page.
shown "$pages/man5/holdfastd.ini.5" >"$work/shown"
keys=0
while read -r key; do
    keys=$((keys + 1))
    grep -qE "(^| )$key " "$work/shown" || complain "holdfastd.ini(5) lacks $key"
done < <(sed -n 's/^| `\([a-z_]*\)`.*/\1/p' "$source/docs/CONFIG.md" | sort -u)
((keys >= 20)) || complain "docs/CONFIG.md names only $keys keys"

# Each exit status of docs/LOG.md is in a page.
shown "$pages/man7/holdfast.7" >"$work/shown"
while read -r status; do
    grep -qE " $status(,| [a-z+])" "$work/shown" || complain "holdfast(7) lacks exit status $status"
done < <(sed -n 's/^| \([0-9][0-9]*\) | .*/\1/p' "$source/docs/LOG.md")

for page in "$pages"/man*/*; do
    if command -v mandoc >/dev/null; then
        (cd "$pages" && mandoc -T lint "$page") || complain "^ mandoc, $page"
    fi
    if command -v man >/dev/null; then
        MANROFFSEQ='' MANWIDTH=80 man --warnings -E UTF-8 -l "$page" >/dev/null 2>"$work/warned" ||
            complain "man cannot show $page"
        [[ ! -s $work/warned ]] || complain "man, $page: $(<"$work/warned")"
    fi
done
exit $failed
