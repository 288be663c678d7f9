/* A client: it takes, waits, gives up, holds and releases, once or twice. It may be killed between
 * any two steps. */

/* hfi_reader_left(). It rings the bell if the writer is polled, because a polled writer has no
 * sleeping thread. */
#define WAKE_OF_READER() \
    ps = word & HOLDER; \
    if \
    :: ps && (word & RECALL) -> slot_woken = 1; bell = 1 \
    :: ps && !(word & RECALL) -> slot_woken = 1 \
    :: !ps && (word & RECALL) -> bell = 1 \
    :: else \
    fi
#if defined(POLLED) && !defined(BREAK_POLLED_READER_DOES_NOT_RING)
#define READER_LEFT() \
    atomic { WAKE_OF_READER() } \
    atomic { \
        if \
        :: ps >= 1 && ps <= N && COUNTS(cell[ps]) && (cell[ps] & POLLS) -> bell = 1 \
        :: else \
        fi; \
        ps = 0 \
    }
#else
#define READER_LEFT() atomic { WAKE_OF_READER(); ps = 0 }
#endif

#define SELF_NAMED(w) (((w) & HOLDER) == me)

proctype client(byte me) {
    LOCALS;
    byte rounds = 1 + ((TWICE >> me) & 1);
    bool patient; /* in this round the client waits for ever; otherwise it may give up at any
                   * time */
    bool shared;
    bool readers; /* drain() has seen readers inside */
    short place;
    short seen;
    short first;
BIRTH:
    {
        skip;
ROUND:
    atomic {
        sv = 0; seen = 0; first = 0; place = 0; patient = 0; shared = 0; ret = 0;
        readers = 0;
        woken[me] = 0;
#ifdef POLLED
        poked[me] = 0; /* an extra POKE causes one useless check */
#endif
        if
        :: rounds == 0 -> goto FINISHED
        :: rounds -> rounds--
        fi;
        if
        :: patient = 1
        :: (GIVES_UP & (1 << me)) -> patient = 0
        fi;
        if
#ifdef READERS
        :: me <= READERS -> shared = 1; goto TRY_SHARED
#endif
#ifndef READERS_ONLY_READ
        :: 1 -> shared = 0
#else
        :: me > READERS -> shared = 0
#endif
        fi
    }

    /* hfi_try_exclusive() */
    atomic {
        seen = word;
        if
        :: !USABLE(seen, 0) || (seen & WAITERS) -> goto JOIN
        :: else
        fi
    }
#ifndef BREAK_RULE_4_TAKES_WITH_DIRTY_CELL
    atomic {
        if
        :: cell[me] -> goto JOIN
        :: else
        fi
    }
#endif
    atomic {
        if
#ifndef BREAK_RULE_1_STORES_BLINDLY
        :: word != seen -> seen = 0; goto JOIN
#endif
        :: else -> NOBODY_WAITS(); word = (seen + TOKEN) | me; first = TOKEN_OF(word)
        fi;
        seen = 0
    }
#ifdef TRY_LOOKS_BEFORE_SCAN
    atomic { seen = word; k = 1 }
#endif
#ifdef READERS
    do
    :: atomic { k < N && !reader[k] -> k++ }
    :: atomic { reader[k] -> k = 1; seen = 0; goto JOIN } /* there are still readers inside */
    :: atomic { k == N && !reader[k] -> k = 1; break }
    od;
#endif
    atomic {
#ifndef TRY_LOOKS_BEFORE_SCAN
        seen = word;
#endif
        k = 1;
        assert(NAMES(seen, me, first));
        if
        :: seen & CLOSED -> seen = 0; goto JOIN
        :: else -> seen = 0
        fi;
        if
        :: NOW_WRITER(first); goto RELEASE_HELD
#ifdef UNDO
        :: !patient -> goto UNDO_TAKE /* the lease is over */
#endif
        fi
    }

    /* queue_join() */
JOIN:
    atomic { ticket_next++; place = (ticket_next - 1) * TICKET | (shared -> SHARED : 0)
#ifdef POLLED
             ; place = place | (IS_POLLED(me) -> POLLS : 0)
#endif
    }
    atomic { /* the exchange of the cell */
        seen = cell[me];
        cell[me] = place | JOINING;
        JOINED_ANEW();
        if
#ifndef BREAK_RULE_5_JOIN_IGNORES_PASSED
        :: (seen & PASSED) -> seen = 0
#endif
        :: else -> seen = 0; goto JOIN_BIT
        fi
    }
    atomic {
        if
        :: SELF_NAMED(word) -> rh = me; rt = TOKEN_OF(word); ret = 1; goto RELEASE
        :: else
        fi
    }
JOIN_BIT:
#ifndef BREAK_RULE_3_NO_BIT
    if
    :: atomic { !(word & WAITERS) }
       atomic { word = word | WAITERS }
    :: atomic { (word & WAITERS) -> skip }
    fi;
#endif
    atomic {
        place = place | WAITING;
        cell[me] = place;
        if
        :: shared -> goto WAIT_SHARED
        :: else
        fi
    }

WAIT: /* hfi_wait_exclusive() */
    atomic { woken[me] = 0 }
    atomic {
        seen = word;
        if
        :: SELF_NAMED(seen) -> seen = 0; goto SETTLE
        :: USABLE(seen, 0) && (seen & WAITERS) -> ret = 2; goto SERVE
        :: else -> goto WAIT_ONCE
        fi
    }
SERVED:
    atomic {
        if
        :: word != seen -> seen = 0; goto WAIT
        :: else
        fi
    }
WAIT_ONCE: /* wait_once(), also of a shared wait; `seen` becomes what keeps the client from going
            * on */
    atomic {
        if
        :: !patient -> seen = 0; goto LEAVE
        :: 1
        fi
    }
    if
    :: atomic { !(word & WAITERS) -> seen = 0 }
       atomic { word = word | WAITERS }
       goto WAIT_AGAIN
    :: atomic { (word & WAITERS) -> if
       :: UNGRANTED(seen) && seen != first -> first = seen
       :: else -> seen = 0
       fi }
    fi;
    if
    :: atomic { seen -> seen = 0; bell = 1 }
    :: atomic { !seen -> skip }
    fi;
    /* the client sleeps, or its polled wait ends its step */
    if
#ifdef POLLED
    :: atomic { IS_POLLED(me) && poked[me] -> poked[me] = 0 }
    :: atomic { !IS_POLLED(me) && woken[me] -> skip }
#else
    :: atomic { woken[me] -> skip }
#endif
    :: atomic { !patient -> goto LEAVE }
    fi;
WAIT_AGAIN:
    if
    :: shared -> goto WAIT_SHARED
    :: !shared -> goto WAIT
    fi;

SETTLE: /* settle(), drain() */
    atomic { first = TOKEN_OF(word); if :: !SELF_NAMED(word) -> first = 0; goto WAIT :: else fi }
DRAIN:
    atomic { slot_woken = 0; k = 1 }
#if defined(READERS) && !defined(BREAK_RULE_6_NO_SCAN)
    do
    :: atomic { k < N && !reader[k] -> k++ }
    :: atomic { reader[k] -> readers = 1; break }
    :: atomic { k == N && !reader[k] -> k = 1; break }
    od;
#endif
    atomic { /* reads the word again after the readers have gone */
        k = 1;
        seen = word;
        if
        :: !NAMES(seen, me, first) -> seen = 0; first = 0; readers = 0; goto WAIT
        :: NAMES(seen, me, first) && !readers && !(seen & CLOSED) -> seen = 0
        :: else -> seen = 0; readers = 0; goto DRAIN_SLEEP
        fi
    }
#ifndef BREAK_RULE_4_ACCEPT_KEEPS_CELL
    atomic { place = 0; cell[me] = 0 }
#endif
    atomic { /* hfi_remaining_ns(): from here on the caller has the hold */
        assert(NAMES(word, me, first));
        NOW_WRITER(first);
        slot_woken = 0; woken[me] = 0; goto RELEASE_HELD
    }
    goto RELEASE_HELD;
DRAIN_SLEEP:
    if
#ifdef POLLED
    :: atomic { IS_POLLED(me) && poked[me] -> poked[me] = 0; first = 0; goto WAIT }
    :: atomic { !IS_POLLED(me) && slot_woken -> goto DRAIN }
#else
    :: atomic { slot_woken -> goto DRAIN }
#endif
    :: atomic { !patient -> first = 0; goto LEAVE }
    fi;

    atomic {
        skip;
RELEASE_HELD:
        rh = me; rt = first; first = 0; ret = 3; goto RELEASE }
UNDO_TAKE:
    atomic { rh = me; rt = first; first = 0; ret = 4;
#ifdef BREAK_RULE_7_UNDO_JUST_FREES
             word = word & ~HOLDER; rh = 0; rt = 0; goto ROUND
#else
             goto RELEASE
#endif
    }

LEAVE: /* hfi_leave() */
#ifdef BREAK_RULE_4_LEAVE_CLEARS
    atomic { cell[me] = 0; place = 0; first = 0 }
#else
    atomic { cell[me] = (place & ~(JOINING | WAITING)) | LEFT; place = 0; first = 0 }
#endif
#ifndef BREAK_RULE_4_LEAVE_WITHOUT_LOOK
    atomic {
        if
        :: SELF_NAMED(word) -> rh = me; rt = TOKEN_OF(word); ret = 4; goto RELEASE
#ifdef BREAK_RULE_8_LAST_READER_DOES_NOT_SERVE
        :: !SELF_NAMED(word) && hold[me] -> goto LEFT_QUEUE
#endif
#ifdef BREAK_RULE_8_LAST_READER_DOES_NOT_SERVE
        :: !SELF_NAMED(word) && (word & WAITERS) && !hold[me] -> ret = 4; goto SERVE
#else
        :: !SELF_NAMED(word) && (word & WAITERS) -> ret = 4; goto SERVE
#endif
        :: else
        fi
    }
#endif
LEFT_QUEUE:
    if
    :: hold[me] == SHARED_HOLD -> goto HOLD_SHARED
    :: hold[me] != SHARED_HOLD -> goto ROUND
    fi;

#ifdef READERS
WAIT_SHARED: /* hfi_wait_shared() */
    atomic { woken[me] = 0 }
    atomic {
        if
        :: SELF_NAMED(word) -> rh = me; rt = TOKEN_OF(word); ret = 5; goto RELEASE
        :: else
        fi
    }
TRY_SHARED: /* try_shared_from() */
    atomic {
        seen = word;
        if
        :: !USABLE(seen, 1) -> goto NOT_SHARED
        :: USABLE(seen, 1) && !(seen & WAITERS) -> seen = 0; goto ENTER
        :: USABLE(seen, 1) && (seen & WAITERS) && !place -> goto NOT_SHARED
        :: else
        fi
    }
    atomic {
        if
        :: admit < TICKET_OF(place) -> goto NOT_SHARED
        :: else -> seen = 0
        fi
    }
ENTER:
#ifndef BREAK_RULE_6_WORD_BEFORE_CELL
    atomic { reader[me] = 1 }
#endif
    atomic {
        seen = word;
        if
        :: !USABLE(seen, 1) -> goto BACK_OUT
        :: USABLE(seen, 1) && (seen & WAITERS) && !place -> goto BACK_OUT
        :: USABLE(seen, 1) && (seen & WAITERS) && place -> goto ENTER_ADMITTED
        :: else -> NOBODY_WAITS(); seen = 0; NOW_READER()
        fi;
        goto ENTERED
    }
ENTER_ADMITTED:
    atomic {
        if
        :: admit < TICKET_OF(place) -> goto BACK_OUT
        :: else -> seen = 0; NOW_READER()
        fi
    }
ENTERED:
#ifdef BREAK_RULE_6_WORD_BEFORE_CELL
    atomic { reader[me] = 1 }
#endif
    if
    :: place -> goto LEAVE
    :: !place -> goto HOLD_SHARED
    fi;
BACK_OUT:
    atomic { reader[me] = 0 }
    READER_LEFT();
NOT_SHARED:
    atomic {
        if
        :: !place && !patient -> goto ROUND /* a try does not wait */
        :: !place -> seen = 0; goto JOIN
        :: place && !UNGRANTED(seen) && !(seen & CLOSED) -> ret = 6; goto SERVE
        :: else -> goto WAIT_ONCE
        fi
    }
SERVED_SHARED:
    atomic {
        if
        :: !(word & HOLDER) && ((word & WAITERS) -> admit >= TICKET_OF(place) : 1) ->
            seen = 0; goto WAIT_SHARED
        :: else -> goto WAIT_ONCE
        fi
    }

HOLD_SHARED: /* hfi_release_shared() */
    atomic { assert(reader[me]); reader[me] = 0; hold[me] = 0 }
#ifndef BREAK_RULE_6_READER_DOES_NOT_WAKE
    READER_LEFT();
#else
    atomic {
        if
        :: !(word & HOLDER) && (word & RECALL) -> bell = 1
        :: else
        fi
    }
#endif
    goto ROUND;
#else
WAIT_SHARED:
HOLD_SHARED:
    assert(0);
#endif

#include "handover.pml"
        if
        :: ret == 1 -> ret = 0; goto JOIN_BIT
        :: ret == 2 -> ret = 0; goto SERVED
        :: ret == 3 -> assert(!hold[me]); goto ROUND
        :: ret == 4 -> ret = 0; goto LEFT_QUEUE
#ifdef READERS
        :: ret == 5 -> ret = 0; goto TRY_SHARED
        :: ret == 6 -> ret = 0; goto SERVED_SHARED
#endif
        fi
    }
    } unless { dead[me] }
    atomic { /* a killed client's private variables are reset */
        sv = 0; nx = 0; ps = 0; pv = 0; k = 1; serving = 0; handed = 0; rh = 0; rt = 0;
        ret = 0; patient = 0; shared = 0; readers = 0; place = 0; seen = 0; first = 0;
#ifdef POLLED
        polled = 0; raised = 0; poked[me] = 0;
#endif
        NOT_EARLY();
        rounds = 1; down[me] = 1
    }
#if REBIRTHS
    if
    :: !dead[me] -> goto BIRTH /* another process begins with the same numbers */
    :: dead[me] == 2
    fi;
#endif
FINISHED:
    done++
}
