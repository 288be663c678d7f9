/*
 * A session's lease and its end by a majority, with drifting clocks, lost and late messages, and
 * restarts.
 *
 * There are three voters, one host and one epoch. True time advances in ticks. The host's clock is
 * slow (two local ticks for three true ones), and the voters' clocks are fast (four for three).
 * That is the worst that max_drift allows. Any better clock only makes the lease end earlier or the
 * wait longer. The ttl is three ticks: the host counts it short (2), a voter counts it long (4).
 *
 * The promise: once a majority of marks says that the session has expired, the host's lease does
 * not count, then and ever after. So no grant of an expired session is in force. grants.pml models
 * what happens to the grants.
 *
 * Rules (agent/core/quorum/sessions.c, sessions_end.c, core/session/renewal.c), each broken by a -D
 * (mutants/):
 *   s1  the host counts from the sending of the renewal that was acknowledged
 *   s2  the host counts the ttl short   s3  a voter counts it long
 *   s4  a mark is set only if the session has lapsed by the voter's clock at that instant
 *   s5  a voter that has marked a session acknowledges no renewal of it
 *   s6  a mark is on the disk before the voter reports it
 *   s7  a voter that starts takes every session for just renewed
 *   s8  a majority of marks ends a session
 *   s9  a majority of acknowledgements is a lease
 *
 * In the code a renewal counts only with a fresh echo. The model leaves that out: here every
 * renewal that arrives counts, however late. So the echo is no rule of safety. Without the echo a
 * host that receives nothing would keep its session for ever. The simulator checks the echo with
 * one-way links.
 */
#define V 3
#define MAJORITY 2
#ifndef TMAX
#define TMAX 6
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef RENEWALS
#define RENEWALS 2
#endif

#ifdef BREAK_S2_HOST_NOT_SHORT
#define HOST_LEASE 3
#else
#define HOST_LEASE 2
#endif
#ifdef BREAK_S3_VOTER_NOT_LONG
#define VOTER_WAIT 3
#else
#define VOTER_WAIT 4
#endif

byte now;        /* true time */
byte phase;      /* which of three ticks the host's clock skips and the voters' clocks double */
byte host_clock;
byte voter_clock;

/* A renewal on its way to each voter, and each voter's answer on its way. A later message
 * overwrites, and so loses, the earlier one, and each may take any time. The value is the host's
 * clock + 1 when it sent the renewal; 0: none. */
byte renewal[V];
byte answer[V];

/* Voters. */
byte seen[V]; /* the voter's clock when it last counted a renewal, or at its start */
bit marked[V];
bit reported[V];   /* the voter has reported its mark */
byte restarts;

/* Host. */
byte extended[V]; /* the host's clock + 1 when it sent the latest renewal that was acknowledged */
byte deadline;    /* by the host's clock */
byte renewals;

#define MARKS (reported[0] + reported[1] + reported[2])
#ifdef BREAK_S8_ONE_MARK
#define DEAD (MARKS >= 1)
#else
#define DEAD (MARKS >= MAJORITY)
#endif
#define SAFE (host_clock < deadline)

#define AS_LATE(i) ((extended[0] >= extended[i]) + (extended[1] >= extended[i]) + \
                    (extended[2] >= extended[i]))
#ifdef BREAK_S9_ONE_ACK
#define ENOUGH(i) (extended[i] > 0)
#else
#define ENOUGH(i) (extended[i] > 0 && AS_LATE(i) >= MAJORITY)
#endif
#define COUNT(i)                                                                                   \
    if                                                                                             \
    :: ENOUGH(i) && extended[i] - 1 + HOST_LEASE > deadline ->                                     \
        deadline = extended[i] - 1 + HOST_LEASE                                                    \
    :: else                                                                                        \
    fi

#define TIME /* time passes */                                                                     \
    :: d_step { now < TMAX ->                                                                      \
            now++;                                                                                 \
            phase = (phase + 1) % 3;                                                               \
            voter_clock = voter_clock + 1 + (phase == 0);                                          \
            host_clock = host_clock + (phase != 0);                                                \
            assert(!(DEAD && SAFE))                                                                \
        }

#define RENEW(v) /* the host sends a renewal to a voter */                                         \
    :: d_step { renewals < RENEWALS -> renewals++; renewal[v] = host_clock + 1 }

#ifdef BREAK_S5_ACKS_AFTER_MARK
#define MAY_ACK(v) 1
#else
#define MAY_ACK(v) (!marked[v])
#endif
#define RENEWED(v) /* the renewal arrives */                                                       \
    :: d_step { renewal[v] > 0 && MAY_ACK(v) ->                                                    \
            answer[v] = renewal[v]; seen[v] = voter_clock; renewal[v] = 0 }

#ifdef BREAK_S1_FROM_ANSWER
#define EXTEND(v) extended[v] = host_clock + 1
#else
#define EXTEND(v) extended[v] = (answer[v] > extended[v] -> answer[v] : extended[v])
#endif
#define ACKED(v) /* the answer arrives */                                                          \
    :: d_step { answer[v] > 0 ->                                                                   \
            EXTEND(v);                                                                             \
            COUNT(0); COUNT(1); COUNT(2);                                                          \
            answer[v] = 0;                                                                         \
            assert(!(DEAD && SAFE))                                                                \
        }

#ifdef BREAK_S4_MARK_UNCONDITIONAL /* the session had lapsed at an earlier poll, any time ago */
#define LAPSED(v) (voter_clock > VOTER_WAIT)
#else
#define LAPSED(v) (voter_clock >= seen[v] + VOTER_WAIT)
#endif
#define MARK(v) /* a coordinator asks the voter to mark the session */                             \
    :: d_step { !marked[v] && LAPSED(v) -> marked[v] = 1 }

#define MARKED(v) /* the voter reports its mark, once it is on the disk */                         \
    :: d_step { marked[v] && !reported[v] -> reported[v] = 1; assert(!(DEAD && SAFE)) }

#ifdef BREAK_S6_MARK_NOT_FLUSHED
#define LOSE(v) marked[v] = 0
#else
#define LOSE(v) marked[v] = (reported[v] -> marked[v] : 0)
#endif
#ifdef BREAK_S7_START_IS_NOT_FRESH
#define SEEN_AT_START 0
#else
#define SEEN_AT_START voter_clock
#endif
#define RESTART(v) /* the voter is killed and starts again from its disk */                        \
    :: d_step { restarts < RESTARTS -> restarts++; LOSE(v); seen[v] = SEEN_AT_START }

#define VOTER(v) RENEW(v) RENEWED(v) ACKED(v) MARK(v) MARKED(v) RESTART(v)

active proctype world()
{
    d_step { host_clock = 1; voter_clock = 1; seen[0] = 1; seen[1] = 1; seen[2] = 1 }
    if :: phase = 0 :: phase = 1 :: phase = 2 fi;
    do
    TIME VOTER(0) VOTER(1) VOTER(2)
    od
}
