/*
 * The agent's steps on the region when a client dies, when a lock-delay is over, when the quorum
 * recalls the grant and gives it again, and when a client rings. The order of its steps at a
 * client's death is the contract with agent/core/host:
 *
 *   1. It clears the dead client's record, and marks its place in the queue LEFT.
 *   2. It takes away the dead client's reader cell, and then its exclusive hold, or a word that
 *      names it.
 *   3. It passes the word on if the word names a client whose cell says LEFT or PASSED.
 *   4. It wakes sleepers, and serves the lock.
 *   5. Once neither a record nor the word names the dead client, it clears that client's cell, and
 *      another process may get the client's numbers.
 */

#if N == 2
#define SEEN_TO (kills == 0 && !(dead[1] && !buried[1]) && !(dead[2] && !buried[2]))
#else
#define SEEN_TO (kills == 0 && !(dead[1] && !buried[1]) && !(dead[2] && !buried[2]) && \
                 !(dead[3] && !buried[3]))
#endif

proctype agent(byte me) {
    LOCALS;
    byte who;        /* the dead client that the agent handles */
    bool again;      /* hfi_evict() runs once more, and then step 5 comes */
    short seen;
    short value;
    bool recalled;   /* the grant is recalled, and the recall not retracted yet */
    bool retracted;
    bool look;       /* whether the agent tries to retract the recall */
    byte recalls = RECALLS;
    byte births = REBIRTHS;
IDLE:
end_idle:
    if
#if KILLS
    :: atomic { dead[1] && !buried[1] -> who = 1 } goto DEATH
    :: atomic { dead[2] && !buried[2] -> who = 2 } goto DEATH
#if N > 2
    :: atomic { dead[3] && !buried[3] -> who = 3 } goto DEATH
#endif
#if REBIRTHS
    :: atomic { dead[1] == 1 && buried[1] && down[1] -> who = 1 } goto RECORDS
    :: atomic { dead[2] == 1 && buried[2] && down[2] -> who = 2 } goto RECORDS
#if N > 2
    :: atomic { dead[3] == 1 && buried[3] && down[3] -> who = 3 } goto RECORDS
#endif
#endif
    :: atomic { (word & CLOSED) -> word = word & ~CLOSED; delay = 0; look = 1 } /* hfi_open() */
       if
#ifdef POLLED
       :: atomic { (word & HOLDER) -> slot_woken = 1; goto ATTEND }
#else
       :: atomic { (word & HOLDER) -> slot_woken = 1 }
#endif
       :: atomic { !(word & HOLDER) -> ret = 1; goto SERVE }
       fi
#endif
#if RECALLS
    :: atomic { recalls && !recalled && !retracted && done < N -> recalls--;
                if :: handovers = 0 :: handovers = 1 fi } /* hfi_recall() */
       atomic { word = word | RECALL; recalled = 1; look = 1 }
    :: atomic { recalled && look -> look = 0; goto RETRACT }
    :: atomic { retracted -> word = (word & ~RECALL) | MODE; retracted = 0; ret = 1 } goto SERVE
#endif
#if TOKENS < 100
    :: atomic { top < 100 && !HAS_TOKENS(word) -> top = 100; ret = 1 } goto SERVE
#endif
    :: atomic { bell -> bell = 0;
                if
                :: recalled -> look = 1
#ifdef POLLED
                   ; goto ATTEND
#endif
                :: else -> ret = 1; goto SERVE
                fi }
    :: atomic {
        done == N && !bell && !(word & CLOSED) && !recalled && !retracted && SEEN_TO ->
        assert(!(word & HOLDER) && !delay);
        assert(!hold[1] && !hold[2] && !reader[1] && !reader[2]);
        assert(!COUNTS(cell[1]) && !COUNTS(cell[2]));
#if N > 2
        assert(!hold[3] && !reader[3] && !COUNTS(cell[3]));
#endif
        goto FINISHED
       }
    fi;
    goto IDLE;

#ifdef POLLED
ATTEND: /* polled_attend(), hfi_polled_may_go_on() */
    do
    :: atomic { k <= N -> value = cell[k] }
       atomic {
        seen = word;
        if
        :: (value & POLLS) && COUNTS(value) &&
           ((seen & HOLDER) == k ||
            ((value & SHARED) && USABLE(seen, 1) &&
             (!(seen & WAITERS) || admit >= TICKET_OF(value)))) -> poked[k] = 1
        :: else
        fi;
        seen = 0; value = 0; k++
       }
    :: atomic { k > N -> k = 1; break }
    od;
    goto IDLE;
#else
#define ATTEND IDLE
#endif

#if KILLS
DEATH:
    atomic { record[who] = 0 }
    atomic { /* hfi_bury_waiter() */
        if
#ifndef BREAK_RULE_4_DEAD_NOT_BURIED
        :: COUNTS(cell[who]) -> cell[who] = (cell[who] & ~(JOINING | WAITING)) | LEFT
#endif
        :: else
        fi
    }
    /* hfi_evict_reader() */
    if
    :: atomic { reader[who] ->
        if
        :: word = word | CLOSED; delay = (hold[who] -> 1 : delay)
        :: 1 /* without a lock-delay */
        fi }
       atomic { reader[who] = 0;
        if
        :: hold[who] == SHARED_HOLD -> hold[who] = 0
        :: else
        fi }
       atomic { slot_woken = 1 }
    :: atomic { !reader[who] ->
        if
        :: hold[who] == SHARED_HOLD -> hold[who] = 0
        :: else
        fi }
    fi;
EVICT: /* hfi_evict() */
    atomic {
        seen = word;
        if
        :: (seen & HOLDER) != who ->
            assert(hold[who] != EXCLUSIVE); seen = 0; goto EVICTED
        :: (seen & HOLDER) == who -> value = 0; k = 1
        :: (seen & HOLDER) == who -> rh = who; rt = TOKEN_OF(seen); seen = 0; ret = 2;
                                     goto RELEASE /* without a lock-delay */
        fi
    }
#ifndef AGENT_TRUSTS_BIT
    do
    :: atomic { k < N -> value = (COUNTS(cell[k]) -> WAITERS : value); k++ }
    :: atomic { k == N -> value = (COUNTS(cell[k]) -> WAITERS : value); k = 1; break }
    od;
#endif
    atomic {
        if
        :: word != seen -> seen = 0; value = 0; goto EVICT
        :: else ->
            word = (seen & ~HOLDER) | CLOSED | value;
            delay = (hold[who] -> 1 : delay);
            hold[who] = 0; seen = 0; value = 0
        fi
    }
EVICTED:
#if REBIRTHS
    if
    :: again -> goto BIRTH
    :: !again
    fi;
#endif
#ifndef BREAK_RULE_5_AGENT_DOES_NOT_PASS_ON
PASS_ON: /* hfi_pass_on() of the word, if the client that it names has gone */
    atomic {
        seen = word;
        if
        :: !(seen & HOLDER) || (seen & HOLDER) == AGENT || dead[seen & HOLDER] ->
            seen = 0; goto ROUSE
        :: else -> ps = seen & HOLDER
        fi
    }
    atomic {
        value = cell[ps];
        if
        :: !(value & (LEFT | PASSED)) -> goto NOT_PASSED
        :: else
        fi
    }
#ifndef PASS_ON_LOOKS_AT_WORD_FIRST
    atomic { /* once more: the word may name another client that has gone */
        seen = word;
        if
        :: (seen & HOLDER) != ps -> goto NOT_PASSED
        :: else
        fi
    }
#endif
    atomic {
        if
        :: cell[ps] != value -> goto NOT_PASSED
        :: else -> cell[ps] = (value & ~LEFT) | PASSED
        fi;
        rh = ps; rt = TOKEN_OF(seen); seen = 0; value = 0; ret = 3; goto RELEASE
    }
    atomic {
        skip;
NOT_PASSED:
        ps = 0; value = 0; seen = 0 }
#endif
ROUSE: /* hfi_rouse() */
    do
    :: atomic { k < N -> if :: COUNTS(cell[k]) -> woken[k] = 1 :: else fi; k++ }
    :: atomic { k == N -> if :: COUNTS(cell[k]) -> woken[k] = 1 :: else fi; k = 1; break }
    od;
    atomic { slot_woken = 1; ret = 4; look = 1; goto SERVE }
BURIED:
    atomic {
        buried[who] = 1;
#if REBIRTHS
        if
        :: births -> births--
        :: !births -> dead[who] = 2
        fi;
#endif
        who = 0
    }
    goto ATTEND;
#endif

#if REBIRTHS
RECORDS: /* the numbers are free once no record of a hand-over names them */
#ifndef BREAK_RULE_5_NUMBERS_GIVEN_AWAY_AT_ONCE
    do
    :: atomic { k < N && record[k] != who -> k++ }
    :: atomic { k == N && record[k] != who -> k = 1; break }
    od;
#endif
    atomic { again = 1; goto EVICT } /* the word may name the dead client again */
BIRTH:
    atomic { again = 0; cell[who] = 0 }
    atomic { buried[who] = 0; down[who] = 0; dead[who] = 0; who = 0 }
    goto IDLE;
#endif

#if RECALLS
RETRACT: /* hfi_retract() */
    atomic {
        seen = word;
        if
        :: !(seen & RECALL) || (seen & (HOLDER | CLOSED)) -> seen = 0; goto IDLE
        :: else
        fi
    }
    do
    :: atomic { k < N && !reader[k] -> k++ }
    :: atomic { reader[k] -> k = 1; seen = 0; goto IDLE }
    :: atomic { k == N && !reader[k] -> k = 1; break }
    od;
    atomic {
        if
        :: word != seen -> seen = 0; goto RETRACT
        :: else -> word = seen & ~(MODE | RECALL); seen = 0; recalled = 0; retracted = 1;
                   assert(!hold[1] && !hold[2])
#if N > 2
                   ; assert(!hold[3])
#endif
        fi
    }
    goto IDLE;
#endif

#include "handover.pml"

        if
        :: ret == 1 -> ret = 0; goto ATTEND
#if KILLS
        :: ret == 2 -> ret = 0; goto EVICT
        :: ret == 3 -> ret = 0; goto ROUSE
        :: ret == 4 -> ret = 0; goto BURIED
#endif
        fi
    }
FINISHED:
    skip
}
