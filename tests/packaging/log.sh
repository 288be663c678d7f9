#!/usr/bin/env bash
# docs/LOG.md lists every event that the agent can log, every error of the library with its text,
# every exit status and every message of the programs, each with advice. It lists nothing that does
# not exist.
#
# Usage: log.sh SOURCE_DIR
set -euo pipefail
cd "$1"
page=docs/LOG.md

# compare WHAT IN_CODE IN_PAGE
compare() {
    local wrong
    wrong=$(comm -3 <(sort -u <<<"$2") <(sort -u <<<"$3") |
        sed -e "s/^\t/$1, the page only: /" -e "/^$1/!s/^/$1, the code only: /")
    if [[ -n $wrong ]]; then
        printf '%s\n' "$wrong" >&2
        exit 1
    fi
}
# section TITLE: prints its rows, without the heads of its tables.
section() {
    awk -v title="## $1" '/^## / { on = $0 == title } on && /^\| / && !/^\| (---|event|error|status|message) /' \
        "$page"
}

# Names of two or more words are events. The keys of log lines are not. Nor are the names of the
# configuration, the store, facts, metrics and system calls, whose files are left out. (The test
# `metrics` checks the reasons of the judgement against METRICS.md.) A single word is an event if a
# log line begins with it.
in_code=$(
    {
        find agent -name '*.c' ! -name 'config.c' ! -path 'agent/io/store/[mrsv]*.c' ! -name 'message.c' \
            ! -name 'sandbox.c' ! -name 'facts.c' ! -name 'metrics.c' ! -name 'judgement.c' -print0 |
            xargs -0 grep -hoE '(.{0,8})"[a-z]+(_[a-z]+)+"' |
            grep -vE '(line|text|"), "[a-z_]+"$' | grep -oE '[a-z]+(_[a-z]+)+"$' || true
        find agent -name '*.c' -print0 |
            xargs -0 grep -hoE '(LOG_LEVEL_[A-Z]+|hub_log\(actions), "[a-z]+"' |
            grep -oE '[a-z]+"$' || true
    } | tr -d '"' | sort -u
)
# The reason why a hold ended is the value of `reason`. The page lists these values in tables of
# their own.
reasons_in_code=$(sed -n '/^static const char \*reason_of(/,/^}/p' agent/core/host/holds.c |
    grep -oE '"[a-z_]+"' | tr -d '"' | sort -u)
[[ $(wc -l <<<"$reasons_in_code") -ge 6 ]] || { echo "found too few reasons" >&2; exit 1; }
# shellcheck disable=SC2016 # backquotes of the page
reasons_in_page=$(section Reasons | sed -nE 's/^\| `([a-z_]+)` \|.*/\1/p' | sort -u)
missing=$(comm -23 <(echo "$reasons_in_code") <(echo "$reasons_in_page"))
[[ -z $missing ]] || { echo "reasons that the page lacks: $missing" >&2; exit 1; }
in_page=$(section "The agent's log" | cut -d'|' -f2 | grep -oE '[a-z_]+')
# Some reasons are also events.
events_in_code=$(comm -23 <(echo "$in_code") \
    <(comm -23 <(echo "$reasons_in_code") <(sort -u <<<"$in_page")))
count=$(wc -l <<<"$in_page")
if [[ $count -lt 40 ]]; then
    echo "found $count events in $page, expected its table" >&2
    exit 1
fi
compare event "$events_in_code" "$in_page"

# "HF_EBUSY -1 the lock cannot be taken now"
errors_in_code=$(
    grep -oE 'HF_E[A-Z]+ = -[0-9]+' include/holdfast/holdfast.h | sed 's/ = / /' | sort |
        join - <(sed -n 's/^ *{\(HF_E[A-Z]*\), "\(.*\)"},$/\1 \2/p' libclient/error.c | sort)
)
# shellcheck disable=SC2016 # backquotes of the page
errors_in_page=$(section 'Errors of the library' |
    sed -E 's/^\| `(HF_E[A-Z]+)` (-[0-9]+) \| ([^|]*) \|.*/\1 \2 \3/')
compare error "$errors_in_code" "$errors_in_page"
[[ $(wc -l <<<"$errors_in_code") -ge 18 ]] || { echo "found too few errors" >&2; exit 1; }

# A message is each text of more than one word in the sources, in any call, so that the check finds
# each new message. (A single word that is a part of a message is not checked.) These files are left
# out:
exempt_files=(
    cli/help.c        # --help
    cli/text.c        # what show, ls and watch print of a lock
    cli/setup_report.c # what setup prints when it has succeeded
    cli/top_frame.c   # what top prints
    cli/top_rows.c    # likewise
    'cli/doctor*.c'   # each finding prints what was expected and what to do
    'agent/observe/page*.c'   # the status page
    agent/observe/html.c      # likewise
    agent/observe/judgement.c # the text of a reason, whose name has its row in METRICS.md
    agent/observe/metrics.c   # what /metrics says of each figure
)
exempt=$(
    sed 's/^ *//; s/ *#.*//' <<'LIST'
    ^agent/io/store.*\t(SELECT|REPLACE|INSERT|DELETE|CREATE|PRAGMA|BEGIN|ALTER|DROP|UPDATE) # SQL
    ^agent/io/store/rows\.c\t[a-z_]+(, [a-z_]+)+$                   # columns
    ^agent/io/store/(rows|voters)\.c\t([a-z_]+=[^ ]* ?)+$           # the rules and the record as they are kept
    ^agent/io/store/client_record\.c\t(pid \.\.\. uid |holder \.\.\.$)    # what a record holds
    ^agent/observe/facts\.c\t\.+ \(pid \.\.\., uid \.\.\.\)$                   # who a client is, for doctor
    ^agent/(io/http/http|observe/web)\.c\t(HTTP/1\.1 |Allow: |text/)             # headers
    ^agent/main\.c\tholdfastd: the lock agent of this host             # --help
    ^agent/main\.c\tholdfastd \.\.\.$                                  # --version
    ^cli/run\.c\tholdfast \.\.\.$                                       # --version
    ^cli/cli\.c\tholdfast(\.\.\.)* ?\.\.\.:$                            # the beginning of any error
    ^cli/status\.c\t(agent|state|reason|session|voter|clients)  +\.\.\.             # what status prints
    ^cli/status\.c\tobserver (and )?\.\.\.                              # likewise
    ^cli/(status|member)\.c\tat$                                    # what status and member print
    ^cli/setup_(cell|fit)\.c\t(; |role = |users = |state_dir = |\[cell\] |\[tls\] )  # what setup writes
    ^cli/setup\.c\t(name =|its folder|a path)$                       # parts of a line
    ^cli/setup_certificate\.c\t/CN=                                 # a name in a certificate
    ^cli/lock_cells\.c\t\.\.\. holders$                              # what ls and top print
    ^libclient/client\.h\tmovq                                       # an instruction
LIST
)
not=()
for file in "${exempt_files[@]}"; do not+=(! -path "$file"); done
# The library's errors are in a table of their own, which is compared above.
messages_in_code=$(
    find agent cli libclient proto include -name '*.[ch]' "${not[@]}" -print0 |
        xargs -0 awk -f tests/packaging/strings.awk | grep -P '\t.*[a-z]{2}' | grep -P '\t.* ' |
        grep -vP "$(paste -sd'|' <<<"$exempt")" | cut -f2 |
        grep -vxFf <(cut -d' ' -f3- <<<"$errors_in_code") | sort -u
)
messages_in_page=$(
    awk '/^## / { on = $0 == "## Messages, word by word" }
         on && /^\| `/ { sub(/^\| /, ""); sub(/ \| .*/, ""); print }' "$page" |
        grep -oE '`[^`]+`' | tr -d '`' | sort -u
)
if [[ $(wc -l <<<"$messages_in_code") -lt 400 ]]; then
    echo "found $(wc -l <<<"$messages_in_code") messages in the sources, expected some hundreds" >&2
    exit 1
fi
compare message "$messages_in_code" "$messages_in_page"

# The exit statuses of both programs.
status_in_code=$(
    {
        sed -n '/CLI_OK = 0/,/};/p' cli/cli.h | grep -oE '= [0-9]+'
        sed -n '/AGENT_EXIT_OK = 0/,/};/p' agent/agent.h | grep -oE '= [0-9]+'
    } | tr -d '= '
)
status_in_page=$(section 'Exit statuses' | sed -E 's/^\| ([0-9]+) \|.*/\1/')
compare status "$status_in_code" "$status_in_page"

# Each row has a text in each column. The last column is the advice.
for title in "The agent's log:5" 'Errors of the library:5' 'Exit statuses:3' \
    'Messages, word by word:3'; do
    bad=$(section "${title%:*}" | awk -F' [|] ' -v want="${title#*:}" \
        '{ sub(/ \|$/, ""); sub(/^\| /, "") } NF != want { print; next } { for (i = 1; i <= NF; i++) if ($i ~ /^ *$/) { print; break } }')
    if [[ -n $bad ]]; then
        printf 'found a row without as many columns as there are, or with an empty one, in "%s":\n%s\n' \
            "${title%:*}" "$bad" >&2
        exit 1
    fi
done
echo "$count events, $(wc -l <<<"$errors_in_code") errors"
