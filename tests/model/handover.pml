/*
 * The part of the model that every actor runs: release_as(), hfi_serve(), hand_to(), queue_first(),
 * clear_waiters_bit() and admit_readers() as one machine. Each proctype includes it into its body,
 * because Promela has no calls. The caller sets `ret`, and `rh` and `rt` (whose hold it is, and its
 * token), and goes to RELEASE or SERVE. The machine continues at RETURN. Where the C code calls
 * itself, the model has a tail call.
 *
 * One atomic {} is one atomic operation of the code together with the private steps after it.
 */

RELEASE: /* release_as(): frees or hands over the word that names rh with the token rt */
    atomic {
        sv = word; serving = 0; ps = 0; k = 1;
        if
        :: !NAMES(sv, rh, rt) -> goto DONE
#ifdef AGENT_TRUSTS_BIT
        :: NAMES(sv, rh, rt) && !(sv & WAITERS) -> goto FREE
#else
        :: NAMES(sv, rh, rt) && !(sv & WAITERS) && me != AGENT -> goto FREE
#endif
        :: else -> SEEN_EARLY()
        fi
    }
SCAN: /* queue_first(): one look at each cell, in the order of the chain */
    do
    :: atomic { k < N -> LOOK_AT(k, ps, pv, 0); k++ }
    :: atomic { k == N -> LOOK_AT(k, ps, pv, 0); k = 1; goto SCANNED }
    od;
    atomic {
        skip;
SCANNED:
        if
        :: serving -> goto SERVE_PICKED
        :: !serving && !ps && !(sv & WAITERS) -> goto FREE
#ifdef CLEAR_KEEPS_TOKEN
        :: !serving && !ps && (sv & WAITERS) -> goto CLEAR
#else
        :: !serving && !ps && (sv & WAITERS) && HAS_TOKENS(sv) -> goto CLEAR
        :: !serving && !ps && (sv & WAITERS) && !HAS_TOKENS(sv) -> goto FREE
#endif
        :: !serving && ps && !(sv & CLOSED) && HAS_TOKENS(sv) && !(pv & SHARED) ->
            if
            :: !(sv & RECALL) -> goto HAND
            :: (sv & RECALL) && handovers > 0 -> handovers--; goto HAND
            :: else -> goto FREE
            fi
        :: else -> goto FREE
        fi
    }

CLEAR: /* clear_waiters_bit() (rule 3); its new token makes all other actors fail */
    atomic {
#ifdef BREAK_RULE_3_CLEAR_WHEN_FREE
        nx = sv & ~(WAITERS | HOLDER);
#else
#ifdef CLEAR_KEEPS_TOKEN
        nx = sv & ~WAITERS;
#else
        nx = ((sv & ~(WAITERS | HOLDER)) + TOKEN) | me;
#endif
#endif
        if
        :: word != sv -> goto RELEASE
        :: else ->
            END_OF_HOLD(rh);
            word = nx;
#ifdef BREAK_RULE_3_CLEAR_WHEN_FREE
            goto DONE
#else
#ifndef CLEAR_KEEPS_TOKEN
            rh = me; rt = TOKEN_OF(nx)
#endif
#endif
        fi
    }
#ifndef BREAK_RULE_3_NO_RESCAN
    do
    :: atomic { k < N -> LOOK_AT(k, ps, pv, 0); k++ }
    :: atomic { k == N -> LOOK_AT(k, ps, pv, 0); k = 1; break }
    od;
    if
    :: atomic { ps -> word = word | WAITERS }
    :: else
    fi;
#endif
    goto RELEASE;

HAND: /* hand_to() (rule 5), from RELEASE or from SERVE */
    atomic {
#ifndef BREAK_RULE_5_NO_RECORD
        if
        :: me != AGENT -> record[me] = ps
        :: else
        fi;
#endif
        handed = 0
    }
    atomic { /* hand_to() looks at the cell again */
        if
#ifndef BREAK_RULE_5_NO_LOOK
        :: (cell[ps] | JOINING | WAITING) != (pv | JOINING | WAITING) -> goto HAND_END
#endif
        :: else
        fi
    }
    atomic {
        if
        :: word != sv -> goto HAND_END
        :: else ->
            IN_ORDER(ps, pv);
            if
            :: !serving -> END_OF_HOLD(rh)
            :: else
            fi;
            nx = ((sv & ~HOLDER) + TOKEN) | ps | WAITERS;
            word = nx;
            rt = TOKEN_OF(nx);
            handed = 1
        fi
    }
#ifndef BREAK_RULE_5_NO_PASSED
    atomic { /* pass_claimed() */
        pv = cell[ps];
        if
        :: !(pv & LEFT) -> goto HAND_WAKE
        :: else
        fi
    }
    atomic {
        if
        :: cell[ps] == pv -> cell[ps] = (pv & ~LEFT) | PASSED; handed = 2; goto HAND_END
        :: else
        fi
    }
#endif
HAND_WAKE:
    atomic { woken[ps] = 1 }
#if defined(POLLED) && !defined(BREAK_POLLED_HAND_OVER_DOES_NOT_RING)
    atomic {
        if
        :: (pv & POLLS) && ps != me -> bell = 1
        :: else
        fi
    }
#endif
HAND_END:
    atomic {
        if
        :: me != AGENT -> record[me] = 0
        :: else
        fi;
        if
        :: handed == 1 -> goto DONE
        :: handed == 2 -> rh = ps; goto RELEASE /* that client had left, so its hold is passed on
                                                 * in its place */
        :: !handed && serving -> goto SERVE
        :: else -> goto RELEASE
        fi
    }

FREE:
    atomic {
        if
        :: word != sv -> goto RELEASE
        :: else ->
            END_OF_HOLD(rh);
            word = sv & ~HOLDER;
            if
            :: ps -> word = word | WAITERS
            :: else
            fi;
            if
            :: ps && !(sv & (CLOSED | RECALL)) && HAS_TOKENS(sv) -> goto SERVE
            :: (ps && ((sv & CLOSED) || !HAS_TOKENS(sv))) || (sv & RECALL) -> goto RING
            :: else -> goto DONE
            fi
        fi
    }
RING:
    atomic { bell = 1; goto DONE }

SERVE: /* hfi_serve() */
    atomic {
        sv = word; serving = 1; ps = 0; k = 1;
        if
        :: (sv & (CLOSED | RECALL | HOLDER)) || !(sv & MODE) -> goto DONE
        :: else -> SEEN_EARLY(); goto SCAN
        fi
    }
    atomic {
        skip;
SERVE_PICKED:
        if
        :: ps && (pv & SHARED) -> ps = 0; goto ADMIT
        :: !ps && !(sv & WAITERS) -> goto DONE
        :: !HAS_TOKENS(sv) && (ps || (sv & WAITERS)) && !(ps && (pv & SHARED)) -> goto RING
        :: ps && !(pv & SHARED) && HAS_TOKENS(sv) -> goto HAND
        :: else -> /* no client waits: holds the word for a moment to clear the bit (rule 3) */
#ifdef BREAK_RULE_3_CLEAR_WHEN_FREE
            nx = sv & ~WAITERS;
#else
            nx = (sv + TOKEN) | me;
#endif
            if
            :: word != sv -> goto SERVE
            :: else ->
                word = nx;
                rh = me; rt = TOKEN_OF(nx);
                goto RELEASE
            fi
        fi
    }

ADMIT: /* admit_readers() (rule 8): finds the writer after the run of readers, and then admits
        * the run */
    atomic { sv = ticket_next } /* clients that join from here on do not belong to the run */
    do
    :: atomic { k < N -> LOOK_AT(k, ps, pv, 1); k++ }
    :: atomic { k == N -> LOOK_AT(k, ps, pv, 1); k = 1; break }
    od;
    do
    :: atomic { k > N -> k = 1; break }
    :: atomic {
        k <= N ->
        if
        :: COUNTS(cell[k]) && (cell[k] & SHARED) &&
           TICKET_OF(cell[k]) < sv && (!ps || TICKET_OF(cell[k]) < TICKET_OF(pv)) ->
            nx = TICKET_OF(cell[k])
#ifdef POLLED
            ; polled = polled || ((cell[k] & POLLS) && k != me)
#endif
        :: else -> nx = 0; k++
        fi
       }
       if
       :: atomic { nx && admit < nx -> admit = nx
#ifdef POLLED
                ; raised = 1
#endif
       } /* the swap that raises `admit` */
       :: else
       fi;
       if
       :: atomic { nx -> woken[k] = 1; k++ }
       :: else
       fi
    od;
#ifdef POLLED
    atomic {
        if
#if defined(BREAK_POLLED_ADMISSION_DOES_NOT_RING)
        :: 0 -> bell = 1
#else
        :: polled && (raised || me != AGENT) -> bell = 1
#endif
        :: else
        fi;
        polled = 0; raised = 0
    }
#endif

    atomic {
        skip;
DONE: /* the actor continues in the same step */
        sv = 0; nx = 0; ps = 0; pv = 0; k = 1; serving = 0; handed = 0; rh = 0; rt = 0;
        NOT_EARLY();
