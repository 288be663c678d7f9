#!/usr/bin/env bash
# The table "Where is...?" of docs/ARCHITECTURE.md names a file and a function in each row. Prints
# each row whose file does not define the function, and each other function that the page names but
# no file defines. Fails if it has printed any.
#
#   tests/house/where.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
page=docs/ARCHITECTURE.md

# one line "FILE FUNCTION" for each row
rows=$(sed -nE 's/^\| .* \| ([^ |]+\.[ch]) \| `([a-z0-9_]+)\(\)` \|$/\1 \2/p' "$page")
if [[ $(wc -l <<<"$rows") -lt 40 ]]; then
    echo "$page: found too few rows 'question | file | function', expected 40 at least"
    exit 1
fi
status=0
# Finds rows with a function that do not name exactly one file.
if sed -nE '/^\| .* \| `[a-z0-9_]+\(\)` \|$/p' "$page" |
    grep -vE '^\| .* \| [^ |]+\.[ch] \| `[a-z0-9_]+\(\)` \|$'; then
    echo "$page: expected one file and one function in each row"
    status=1
fi
while read -r file function; do
    if ! grep -qsE "^[A-Za-z].*\b$function\(" "$file"; then
        echo "$page: $file does not have $function()"
        status=1
    fi
done <<<"$rows"
named=$(grep -oE '`[a-z0-9_]+\(\)`' "$page" | tr -d '`()' | sort -u)
defined=$(grep -rhE --include='*.[ch]' '^[A-Za-z].*\(' agent cli include libclient proto text |
    grep -oE '[a-z0-9_]+\(' | tr -d '(' | sort -u)
while read -r function; do
    echo "$page: no file has $function()"
    status=1
done < <(comm -23 <(echo "$named") <(echo "$defined"))
exit "$status"
