#!/bin/bash
# Runs the litmus tests, and makes sure that each row of docs/MEMORY_ORDER.md names one that exists.
#
#   run.sh PROGRAM    the program `weak`
set -u

here=$(cd "$(dirname "$0")" && pwd)
page=$here/../../../docs/MEMORY_ORDER.md
status=0

"${1:?the program}" "$here/rows.litmus" || status=1
rows=0
while read -r names; do
    rows=$((rows + 1))
    for name in ${names//,/ }; do
        if [[ $name != none ]] && ! grep -qx "test $name" "$here/rows.litmus"; then
            echo "$page: a row's last column names '$name', which is no test in rows.litmus"
            status=1
        fi
    done
    [[ -n $names ]] || { echo "$page: a row without a litmus test"; status=1; }
done < <(awk -F'|' '/^\| location/ { orders = $(NF - 1) ~ /litmus/ } # other tables have none
    /^\|/ && !/^\| (location|---)/ && orders {
    gsub(/^ +| +$/, "", $(NF - 1)); print $(NF - 1) }' "$page")
echo "$rows rows of MEMORY_ORDER.md"
((rows > 0)) || status=1
exit "$status"
