#!/bin/bash
# Plays seeds with one rule broken until the check that is there for that rule says so.
#
#   breaks.sh SIMULATOR RULE WORDS SEEDS [OPTION...]
#
# WORDS is what that check says (an extended regular expression). Other checks may notice the rule
# first, mostly as somebody who is never served: such a seed is passed over. Exit status 0: the check
# spoke; 1: it did not in so many seeds.
set -u
simulator=$1 rule=$2 words=$3 seeds=$4
shift 4

first=1
while ((first <= seeds)); do
    said=$("$simulator" "$@" --seed "$first" --seeds "$((seeds - first + 1))" --break "$rule" 2>&1)
    if grep -Eq "$words" <<<"$said"; then
        grep -E "$words" <<<"$said"
        exit 0
    fi
    failed=$(sed -n 's/^seed \([0-9]*\),.*/\1/p' <<<"$said" | tail -1)
    [[ -n $failed ]] || break # all the rest are well
    printf 'passed over: %s\n' "$(grep -m 1 "^seed $failed," <<<"$said")"
    first=$((failed + 1))
done
echo "nothing says \"$words\" in $seeds seeds with the rule broken: $rule" >&2
exit 1
