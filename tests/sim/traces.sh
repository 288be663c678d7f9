#!/usr/bin/env bash
# Compares the simulator's traces of two builds, seed by seed, byte for byte.
#
#   tests/sim/traces.sh BEFORE AFTER [COUNT [STEPS]]
#
# BEFORE and AFTER are two holdfast-sim programs. A change that only moves code leaves every trace as
# it was. Exit status: 0 all are the same; 1 some are not: the first seeds that differ are printed.
set -euo pipefail
before=${1:?BEFORE and AFTER, two holdfast-sim programs} after=${2:?AFTER, a holdfast-sim program}
count=${3:-2000} steps=${4:-20000}
export before after steps

# A run ends with status 1 when a check fails; the trace says so, and is compared like any other.
trace() { "$1" --seed "$2" --steps "$steps" --verbose 2>&1 | sha256sum; }
compare() { [[ $(trace "$before" "$1") == "$(trace "$after" "$1")" ]] || echo "seed $1 differs"; }
export -f trace compare

differing=$(seq "$count" | xargs -P "$(nproc)" -I{} bash -c 'compare {}' | sort -V)
if [[ -n $differing ]]; then
    head -5 <<<"$differing"
    echo "$(wc -l <<<"$differing") of $count traces differ"
    exit 1
fi
echo "$count traces are the same"
