#!/usr/bin/env bash
# Each rule of docs/PROTOCOL.md has a line "Code" and a line "Test":
#
#   - Code: FILE (`function()`, `name`); FILE; ...      without a folder: in agent/core/quorum
#   - Test: KIND NAME, NAME; KIND NAME. Any more sentences.
#
# Prints each file that does not exist, each function that its file does not define, each other name
# that its file does not have, and each test that does not exist. Also prints each function that the
# page names anywhere but no file defines. Fails if it has printed any.
#
#   tests/house/protocol.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
page=docs/PROTOCOL.md
status=0
say() {
    echo "$page: $*"
    status=1
}

# one line "RULE|Code|text" or "RULE|Test|text" for each block, without its line ends
blocks=$(awk '
    function flush() { if (kind != "") print rule "|" kind "|" text; kind = "" }
    /^\*\*[0-9]+\. / { flush(); rule = substr($1, 3) + 0; rules++ }
    /^- (Code|Test): / { flush(); kind = substr($2, 1, 4); text = substr($0, 9); next }
    /^  [^ ]/ && kind != "" { text = text " " substr($0, 3); next }
    { flush() }
    END { flush(); print rules "|rules|" }' "$page")

has_function() { # FILE FUNCTION
    grep -E "^[A-Za-z].*\b$2\(" "$1" | grep -qvE ';$' # a line that ends in ; only declares it
}

check_code() { # RULE TEXT
    local rule=$1 part file word
    while IFS= read -r part; do
        file=${part%% *}
        [[ $file == */* ]] || file=agent/core/quorum/$file
        if [[ ! -f $file ]]; then
            say "rule $rule: there is no file $file (expected FILE (\`function()\`, ...); ...)"
            continue
        fi
        while read -r word; do
            if [[ $word == *'()' ]]; then
                has_function "$file" "${word%'()'}" || say "rule $rule: $file does not have $word"
            else
                grep -qwF -- "$word" "$file" || say "rule $rule: $file does not have $word"
            fi
        done < <(grep -oE '`[^`]+`' <<<"$part" | tr -d '`')
    done < <(sed -E 's/\.$//; s/; /\n/g' <<<"$2")
}

# Collects "unit NAME" or "cluster NAME" for each test of Check.
declare -A checks=()
while IFS=/:'()' read -r _ kind _ _ name _; do
    checks[$kind $name]=yes
done < <(grep -roE '^START_TEST\([a-z0-9_]+\)' tests/unit tests/cluster)

has_test() { # KIND NAME
    case $1 in
    unit | cluster) [[ ${checks[$1 $2]:-} ]] ;;
    model) [[ -f tests/model/mutants/$2 || -f tests/model/cell/mutants/$2 ]] ;;
    sim) grep -qE "^ .*\"$2\"," tests/sim/breaks.c ;;
    fuzz) [[ -f tests/fuzz/fuzz_$2.c ]] ;;
    litmus) grep -qx "test $2" tests/model/weak/rows.litmus ;;
    *) return 1 ;;
    esac
}

check_test() { # RULE TEXT
    local rule=$1 part kind name
    while read -r kind part; do
        while read -r name; do
            has_test "$kind" "$name" || say "rule $rule: there is no test $kind $name"
        done < <(sed 's/, */\n/g' <<<"$part")
    done < <(sed -E 's/ \([^)]*\)//g; s/\.( .*)?$//; s/; /\n/g' <<<"$2")
}

rules=$(sed -n 's/|rules|$//p' <<<"$blocks")
for kind in Code Test; do
    count=$(grep -c "^[0-9]*|$kind|" <<<"$blocks" || true)
    [[ $rules -ge 30 && $count -eq $rules ]] || say "found $count lines '$kind' for $rules rules"
done
while IFS='|' read -r rule kind text; do
    case $kind in
    Code) check_code "$rule" "$text" ;;
    Test) check_test "$rule" "$text" ;;
    esac
done <<<"$blocks"

named=$(grep -oE '`[a-z0-9_]+\(\)`' "$page" | tr -d '`()' | sort -u)
defined=$(grep -rhE --include='*.[ch]' '^[A-Za-z].*\(' agent cli include libclient proto text \
    tests/sim | grep -oE '[a-z0-9_]+\(' | tr -d '(' | sort -u)
while read -r function; do
    say "no file has $function()"
done < <(comm -23 <(echo "$named") <(echo "$defined"))
exit "$status"
