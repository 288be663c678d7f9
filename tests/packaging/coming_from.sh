#!/usr/bin/env bash
# Runs docs/COMING_FROM.md: every command of its console blocks, and every line of its C blocks,
# from the first to the last, with an agent of its own. Compares what they print and return with
# what the page says. Fails if the page has a command that would not be run, or a command without
# its result.
#
# Usage: coming_from.sh SOURCE_DIR BUILD_DIR CC [CC_OPTION...]
#
# In a block marked `console`:
#   # TEXT          what the reader types today: not run, but a command must follow
#   $ COMMAND       is run by a shell; `> TEXT` continues it
#   exit status N   ends what the command prints (stdout and stderr), and is required
#   held: NAME      takes its place if COMMAND ends with &: the job holds the lock NAME. The job
#                   ends with the block
# In what a command prints, `...` stands for some text within a line, and a line of nothing but
# `...` for one or more lines.
#
# All blocks marked `c` are one function. Its lines run one after the other, without a branch.
# Each assert() is counted, so that the test knows that all of them were run.
set -euo pipefail
source=$1 build=$2 cc=$3
options=("${@:4}")
page=$source/docs/COMING_FROM.md

export HOLDFAST_BIN_DIR=$build/bin
unset HOLDFAST_LOCK HOLDFAST_TOKEN HOLDFAST_SEQUENCER \
    HOLDFAST_OUTER_LOCK HOLDFAST_OUTER_TOKEN HOLDFAST_OUTER_SEQUENCER
# shellcheck source=../../examples/agent.sh
. "$source/examples/agent.sh"
# As in its systemd unit, so that other work on a busy machine does not cost a lease. Without the
# right to do so, the agent runs with the test's priority.
renice -n -10 -p "$agent_pid" >/dev/null 2>&1 || true
mkdir "$work/here"
cd "$work/here"

line_number=0
fail() {
    printf '%s:%d: %s\n' "$page" "$line_number" "$*" >&2
    exit 1
}

# ------------------------------------------------------------------------------ console blocks

# pattern_of TEXT: prints the regular expression for what the page shows.
pattern_of() {
    local line separator='' pattern=''
    while IFS= read -r line; do
        if [[ $line == ... ]]; then
            pattern+="$separator.+"
        else
            line=$(sed -e 's/[][\\.*^$+?(){}|]/\\&/g' -e 's/\\\.\\\.\\\./[^\n]+/g' <<<"$line")
            pattern+=$separator$line
        fi
        separator=$'\n'
    done <<<"$1"
    printf '%s' "$pattern"
}

# compare SHOWN GOT: checks that GOT was printed as the page shows it. Lines about waiting do not
# count: only a busy machine causes them. Nor does the end of a line that names the agent that was
# asked: the page is for the system's agent.
compare() {
    local pattern got
    pattern=$(pattern_of "$1")
    got=$(grep -v '^holdfast lock: .*: waiting: ' <<<"$2" |
        sed "s| (asked: $HOLDFAST_SOCKET, from HOLDFAST_SOCKET, cell dev)\$||" || true)
    [[ $got =~ ^$pattern$ ]] || fail "the page shows:
$1
this was printed:
$2"
}

# The jobs of this block in the background.
jobs=()
end_jobs() {
    local job
    for job in "${jobs[@]}"; do
        kill "$job" 2>/dev/null || true
        wait "$job" || true # 143, or another status if the page broke the hold
    done
    jobs=()
}
trap 'end_jobs; stop_agent' EXIT

await_held() { # NAME
    local tries=0
    until holdfast show --json "$1" | grep -qE '"mode": ?"(exclusive|shared)"'; do
        tries=$((tries + 1))
        ((tries < 600)) || fail "no process holds $1 after a minute: $(<"$work/job")"
        sleep 0.1
    done
}

# finish EXPECTED: runs the complete command in $command, which must end as the page says: `exit
# status N` or `held: NAME`.
finish() {
    local status=0 name
    if [[ $command == *'&' ]]; then
        name=${1#held: }
        [[ $name != "$1" && -z $shown ]] || fail "'held: NAME' must follow: $command"
        bash -c "exec ${command%&}" >"$work/job" 2>&1 </dev/null 3<&- &
        jobs+=($!)
        await_held "$name"
    else
        [[ $1 == 'exit status '* ]] || fail "'exit status N' must follow: $command"
        bash -c "$command" >"$work/got" 2>&1 </dev/null 3<&- || status=$?
        compare "$shown" "$(<"$work/got")"
        [[ "exit status $status" == "$1" ]] ||
            fail "the page says '$1', found $status: $command: $(<"$work/got")"
    fi
    ran=$((ran + 1))
    command='' shown=''
}

# read_console LINE: one line within a console block
read_console() {
    case $1 in
    '# '*)
        [[ -z $command ]] || fail "'exit status N' or 'held: NAME' must come before: $1"
        pending=$1
        ;;
    '$ '*)
        [[ -z $command ]] || fail "'exit status N' or 'held: NAME' must come before: $1"
        command=${1#'$ '} pending=''
        ;;
    '> '*)
        [[ -n $command && -z $shown ]] || fail "continues no command: $1"
        command+=$'\n'${1#'> '}
        ;;
    'exit status '* | 'held: '*)
        [[ -n $command ]] || fail "belongs to no command: $1"
        finish "$1"
        ;;
    *)
        [[ -n $command ]] || fail "belongs to no command: $1"
        shown+=${shown:+$'\n'}$1
        ;;
    esac
}

end_console() {
    [[ -z $command ]] || fail "the block ends without the exit status of: $command"
    [[ -z $pending ]] || fail "no command takes the place of: $pending"
    end_jobs
}

# ------------------------------------------------------------------------------ C blocks

# read_c LINE: one line within a C block. Nothing may be skipped, and no result be ignored.
read_c() {
    local words='if|else|for|do|switch|case|goto|return|break|continue|exit|abort'
    [[ ! $1 =~ ^[^/]*(^|[^a-z_])($words)([^a-z_]|$) && $1 != '#'* ]] || fail "branches: $1"
    [[ ! $1 =~ ^(hf_[a-z_]+)\( || ${BASH_REMATCH[1]} =~ ^hf_(close|disconnect)$ ]] ||
        fail "ignores the result: $1"
    [[ ! $1 =~ ^assert\( ]] || asserted=$((asserted + 1))
    printf '#line %d "COMING_FROM.md"\n%s\n' "$line_number" "$1" >>"$work/lines.c"
}

run_c() {
    local flags
    cat - "$work/lines.c" >"$work/page.c" <<'END'
#include <holdfast/admin.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int held;
static void check(int good, int line, const char *what)
{
    if (!good) {
        fprintf(stderr, "line %d does not hold: %s\n", line, what);
        exit(1);
    }
    held++;
}
#define assert(what) check(what, __LINE__, #what)
int main(void)
{
END
    printf 'printf("%%d\\n", held);\nreturn 0;\n}\n' >>"$work/page.c"
    flags=$(PKG_CONFIG_PATH=$build/lib/pkgconfig pkg-config --cflags --libs holdfast)
    # shellcheck disable=SC2086 # several words, by design
    "$cc" "${options[@]}" -std=gnu11 -Wall -Wextra -Werror "$work/page.c" $flags -o "$work/page"
    "$work/page" >"$work/held" || fail "its program in C failed"
    [[ $(<"$work/held") == "$asserted" ]] ||
        fail "its program in C has $asserted assertions, but ran $(<"$work/held")"
}

# ------------------------------------------------------------------------------ the page

# read_text LINE: one line outside of the blocks
read_text() {
    case $1 in
    '```console' | '```c') block=${1#'```'} ;;
    '```'*) fail "expected a block marked console or c: $1" ;;
    *)
        [[ ! $1 =~ \`[^\`]*holdfast\ [a-z]+\ [^\`]*\` ]] ||
            fail "a command outside of the console blocks is not run: ${BASH_REMATCH[0]}"
        ;;
    esac
}

block='' command='' shown='' pending=''
ran=0 asserted=0
: >"$work/lines.c"
while IFS= read -r line <&3; do
    line_number=$((line_number + 1))
    if [[ $block == '' ]]; then
        read_text "$line"
    elif [[ $line == '```' ]]; then
        [[ $block == c ]] || end_console
        block=''
    else
        "read_$block" "$line"
    fi
done 3<"$page"
[[ -z $block ]] || fail "the last block does not end"
run_c

# Counted in another way: all commands of the page were run.
# shellcheck disable=SC2016 # the page's $
((ran == $(grep -c '^\$ ' "$page") && ran >= 40)) || fail "ran $ran commands"
((asserted == $(grep -c '^assert(' "$page") && asserted >= 40)) || fail "ran $asserted assertions"
echo "$ran commands, $asserted assertions"
