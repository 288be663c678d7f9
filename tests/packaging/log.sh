#!/usr/bin/env bash
# docs/LOG.md names every event that the agent can log, and none that it cannot.
#
# Usage: log.sh SOURCE_DIR
set -euo pipefail
cd "$1"

# Names of two words and more are events, but for the keys of log lines, and for what belongs to the
# configuration, the store and system calls; single words are events where a line is begun with them.
in_code=$(
    {
        find agent -name '*.c' ! -name 'config.c' ! -name 'store*.c' ! -name 'message.c' ! -name 'sandbox.c' ! -name 'facts.c' ! -name 'metrics.c' -print0 |
            xargs -0 grep -hoE '(.{0,8})"[a-z]+(_[a-z]+)+"' |
            grep -vE '(line|text|"), "[a-z_]+"$' | grep -oE '[a-z]+(_[a-z]+)+"$' || true
        find agent -name '*.c' -print0 |
            xargs -0 grep -hoE '(LOG_LEVEL_[A-Z]+|emit_log\(actions), "[a-z]+"' |
            grep -oE '[a-z]+"$' || true
    } | tr -d '"' | sort -u
)
in_page=$(grep -E '^\| `' docs/LOG.md | cut -d'|' -f2 | grep -oE '[a-z_]+' | sort -u)

wrong=$(comm -3 <(printf '%s\n' "$in_code") <(printf '%s\n' "$in_page") |
    sed -e 's/^\t/docs LOG.md only: /' -e '/^docs/!s/^/the code only: /')
count=$(wc -l <<<"$in_page")
if [[ $count -lt 40 ]]; then
    echo "found $count events in docs/LOG.md, expected its table" >&2
    exit 1
fi
if [[ -n $wrong ]]; then
    printf '%s\n' "$wrong" >&2
    exit 1
fi
echo "$count events"
