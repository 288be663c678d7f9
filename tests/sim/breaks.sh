#!/bin/bash
# Plays seeds with one rule broken, until that rule's own check fails.
#
#   breaks.sh SIMULATOR RULE WORDS SEEDS [OPTION...]
#
# WORDS is an extended regular expression for the message of that check. In some seeds another check
# fails first, mostly because a process is never served. These seeds are passed over. Exit status 0:
# the check has failed, as it should; 1: it did not fail in SEEDS seeds. SEEDS is the last seed, or
# FIRST-LAST: with the draws of today, FIRST shows the fault.
set -u
simulator=$1 rule=$2 words=$3 seeds=$4
shift 4

first=1
[[ $seeds != *-* ]] || first=${seeds%-*} seeds=${seeds#*-}
while ((first <= seeds)); do
    said=$("$simulator" "$@" --seed "$first" --seeds "$((seeds - first + 1))" --break "$rule" 2>&1)
    if grep -Eq "$words" <<<"$said"; then
        grep -E "$words" <<<"$said"
        exit 0
    fi
    failed=$(sed -n 's/^seed \([0-9]*\),.*/\1/p' <<<"$said" | tail -1)
    [[ -n $failed ]] || break # no check fails in the other seeds
    printf 'passed over: %s\n' "$(grep -m 1 "^seed $failed," <<<"$said")"
    first=$((failed + 1))
done
echo "nothing says \"$words\" in $seeds seeds with the rule broken: $rule" >&2
exit 1
