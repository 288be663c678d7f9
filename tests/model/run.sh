#!/bin/bash
# Checks the models with spin: of the lock word (lockword.pml), and of the cell: a session's end
# (cell/session.pml), one lock's register (cell/grants.pml), changes of the voters
# (cell/members_*.pml), and a recovery (cell/recovery.pml).
#
#   run.sh check NAME    checks that the configuration NAME (below) keeps every promise
#   run.sh mutant NAME   checks that spin finds the broken rule of mutants/NAME
#   run.sh list          prints the names of the configurations and of the mutants
#
# With HOLDFAST_TEST_DEEP=1 (or HF_DEEP=1) set, the build registers the configurations named -deep
# too, and the bounds on time and memory are wider.
# Exit status: 0 if the result is as expected, 1 if it is not, 2 if spin could not run.
set -u

here=$(cd "$(dirname "$0")" && pwd)
deep=${HOLDFAST_TEST_DEEP:-${HF_DEEP:-0}}

# name | "deep" if only the deep run has it, "large" if it has millions of states | the model, if it is
# not lockword.pml, and its -D flags
configurations() {
    cat <<'LIST'
queue      |      | -DN=3 -DGIVES_UP=4
order      |      | -DN=3 -DGIVES_UP=0 -DFIFO
again      |      | -DN=2 -DTWICE=6 -DUNDO
death      |      | -DN=2 -DKILLS=1 -DVICTIM=1 -DGIVES_UP=4
rebirth    |      | -DN=2 -DKILLS=1 -DVICTIM=1 -DREBIRTHS=1 -DGIVES_UP=0
readers    |      | -DN=2 -DREADERS=1 -DREADERS_ONLY_READ
dead-reader|      | -DN=2 -DREADERS=1 -DREADERS_ONLY_READ -DKILLS=1 -DVICTIM=1 -DGIVES_UP=0
recall     |      | -DN=2 -DRECALLS=1 -DGIVES_UP=0
recall-gives-up-deep|deep | -DN=2 -DRECALLS=1 -DGIVES_UP=2
recall-readers-deep|deep | -DN=2 -DREADERS=1 -DREADERS_ONLY_READ -DRECALLS=1 -DGIVES_UP=0
tokens     |      | -DN=2 -DTOKENS=2
polled     |      | -DN=2 -DPOLLED=6 -DTWICE=4 -DGIVES_UP=4
polled-readers|   | -DN=2 -DPOLLED=6 -DREADERS=1 -DREADERS_ONLY_READ -DGIVES_UP=0
polled-readers-deep|deep | -DN=2 -DPOLLED=6 -DREADERS=1 -DREADERS_ONLY_READ -DGIVES_UP=4
polled-death|     | -DN=2 -DPOLLED=4 -DKILLS=1 -DVICTIM=1 -DGIVES_UP=0
polled-recall|    | -DN=2 -DPOLLED=6 -DRECALLS=1 -DGIVES_UP=0
queue-deep |deep  | -DN=3 -DUNDO
twice-deep |deep  | -DN=2 -DTWICE=6 -DKILLS=1
death-deep |deep  | -DN=3 -DKILLS=1 -DVICTIM=1 -DGIVES_UP=4
readers-deep|deep | -DN=3 -DREADERS=2 -DREADERS_ONLY_READ -DGIVES_UP=0
session    |large | cell/session.pml
session-deep|deep | cell/session.pml -DRENEWALS=3
grants     |large | cell/grants.pml -DROUNDS=2 -DSEQUENCES=2 -DDEATHS=1 -DRESTARTS=0
take-over  |large | cell/grants.pml -DROUNDS=3 -DSEQUENCES=1 -DDEATHS=0 -DRESTARTS=1
shared-tokens |  | cell/tokens.pml
shared-tokens-deep|deep | cell/tokens.pml -DTOKENS=10 -DRESTARTS=2
grants-deep|deep  | cell/grants.pml -DROUNDS=2 -DSEQUENCES=3 -DDEATHS=0 -DRESTARTS=0
take-over-deep|deep | cell/grants.pml -DROUNDS=3 -DSEQUENCES=2 -DDEATHS=0 -DRESTARTS=1
members-record |  | cell/members_record.pml -DLAST=2
members-rivals |  | cell/members_record.pml -DFIRST=2
members-lock   |  | cell/members_lock.pml -DCARRIED=0
members-adopted|   | cell/members_lock.pml -DADOPTED -DCATCH_UPS -DCARRIED=0
members-same-id|   | cell/members_lock.pml -DSAME_ID=2 -DNUMBERS=132 -DCARRIED=0
members-carried|large| cell/members_lock.pml -DROWS=2 -DNUMBERS=12 -DCARRIED=1
members-carried-two| | cell/members_lock.pml -DROWS=2 -DNUMBERS=13
members-carried-back|| cell/members_lock.pml -DROWS=2 -DNUMBERS=21
members-carried-read|| cell/members_lock.pml -DROWS=2 -DNUMBERS=12 -DCARRIED=1 -DREADS_AGAIN -DADOPTED
members-carried-deep|deep| cell/members_lock.pml -DNUMBERS=123 -DCARRIED=1
members-carried-same-deep|deep| cell/members_lock.pml -DROWS=2 -DNUMBERS=11
members-session|  | cell/members_session.pml
members-five   |  | cell/members_session.pml -DTMAX=3 -DPHASE=0 -DFIVE
members-five-deep|deep| cell/members_session.pml -DFIVE
members-again  |  | cell/members_lock.pml -DAGAIN
members-emptied|large| cell/members_lock.pml -DAGAIN -DEMPTIED
members-again-session| | cell/members_session.pml -DAGAIN
recovery       |  | cell/recovery.pml
LIST
}

fail() { printf '%s\n' "$*" >&2; exit 1; }

list() {
    configurations | awk -F'|' '{ gsub(/ /, "", $1); print "check", $1 }'
    for file in "$here"/mutants/* "$here"/cell/mutants/*; do
        printf 'mutant %s\n' "$(basename "$file")"
    done
}

# search SECONDS BOUND... -- COMPILER OPTION...: compiles pan.c, and writes pan's report. Fails if
# pan.c does not compile. The limit is of processor time, because on a busy machine a search takes
# longer.
search() {
    local seconds=$1 bounds=()
    shift
    while [[ $1 != -- ]]; do bounds+=("$1"); shift; done
    shift
    "$@" -w -DSAFETY -DNOFAIR -DVECTORSZ=2048 -DMEMLIM=$((deep ? 12000 : 3000)) -o pan pan.c ||
        return 1
    (ulimit -t "$seconds"; exec ./pan "${ends[@]}" "${bounds[@]}") >report 2>&1
    return 0
}

# Succeeds if the search saw every state, or found a fault.
is_complete() {
    ! grep -Eq 'Search not completed|max search depth|memory limit|out of memory' report ||
        grep -q 'errors: [1-9]' report
}

# explore FLAG...: writes pan's report to $work/report. A search that did not finish is an error.
explore() {
    work=$(mktemp -d) || exit 2
    trap 'rm -rf "$work"' EXIT
    cd "$work" || exit 2
    local model=lockword.pml
    if [[ $1 == *.pml ]]; then
        model=$1
        shift
    fi
    spin -a "$@" "$here/$model" >spin.log 2>&1 || { cat spin.log >&2; exit 2; }
    # -E: the cell's models end when nothing is left to do, which is not a deadlock
    local ends=()
    [[ $model == cell/* ]] && ends=(-E)
    # The states of the cell's models are small: compressed, they take more time and more memory.
    local how=(-O1 -DCOLLAPSE)
    [[ $model == cell/* ]] && how=(-O1)
    if [[ ${mutant-} ]]; then
        # The search begins at the end that finds most mutants soon.
        # A mutant's file says "search: forward" if the usual order finds it sooner.
        if ! grep -q '^# search: forward$' "$file"; then
            if [[ $model == cell/* ]]; then how+=(-DT_REVERSE); fi
            if [[ $model == lockword.pml && $* != *REBIRTHS* ]]; then how+=(-DREVERSE); fi
        fi
        # tcc compiles in a tenth of gcc's time. A small table and a short stack are soon cleared.
        # If this search does not find the fault within seconds, the usual search follows.
        if command -v tcc >/dev/null && search 14 -m100000 -w20 -- tcc "${how[@]:1}" &&
            grep -q 'errors: [1-9]' report; then
            return
        fi
    elif [[ $size != large ]] && command -v tcc >/dev/null; then
        # gcc takes ten seconds for the lock word's program, and most searches take less
        if search 12 -m1000000 -- tcc "${how[@]:1}" && grep -q 'errors: ' report && is_complete; then
            return
        fi
    fi
    search "$((deep ? 3000 : 240))" -m1000000 -- gcc "${how[@]}" || exit 2
    is_complete || { cat report >&2; exit 2; }
    grep -q 'errors: ' report || { tail -3 report >&2; echo "out of time" >&2; exit 2; }
}

# size_of NAME: prints "large", "deep" or nothing.
size_of() {
    configurations | awk -F'|' -v want="$1" '{ name = $1; gsub(/ /, "", name); gsub(/ /, "", $2) }
        name == want { print $2 }'
}

flags_of() {
    configurations | awk -F'|' -v want="$1" '{ name = $1; gsub(/ /, "", name) }
        name == want { print $3; found = 1 } END { exit !found }'
}

case ${1-} in
list) list ;;
check)
    flags=$(flags_of "${2-}") || fail "no configuration ${2-}: see run.sh list"
    read -ra flags <<<"$flags"
    size=$(size_of "$2")
    explore "${flags[@]}"
    if ! grep -q 'errors: 0' report; then
        model=lockword.pml
        if [[ ${flags[0]} == *.pml ]]; then
            model=${flags[0]}
            flags=("${flags[@]:1}")
        fi
        spin -t -k ./*.trail -p "${flags[@]}" "$here/$model" | tail -120
        grep '^pan:' report
        fail "the model breaks a promise: spin -a ${flags[*]} $model"
    fi
    grep 'states, stored' report
    ;;
mutant)
    file=$here/mutants/${2-}
    [[ -f $file ]] || file=$here/cell/mutants/${2-}
    [[ -f $file ]] || fail "no mutant ${2-}: see run.sh list"
    read -ra flags < <(grep -v '^#' "$file" | tr '\n' ' ')
    mutant=yes explore "${flags[@]}"
    grep -q 'errors: [1-9]' report || fail "spin does not notice ${flags[*]}"
    grep '^pan:1' report
    ;;
*) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
