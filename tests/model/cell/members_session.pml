/*
 * Changing the voters, one at a time: a session's lease and its end while the voters change
 * (docs/PROTOCOL.md, "Changing the voters"; agent/core/quorum/sessions.c, change.c).
 *
 * Time, clocks and leases are as in session.pml. As in members_lock.pml, number 1 is {0, 1, 2},
 * number 2 adds voter 3, and number 3 removes voter 2. With -DFIVE two of five voters are removed,
 * one after the other. With -DAGAIN voter 2 of three is removed and added again, with its store or
 * with an empty one. There is one session, and one renewal, which the host sends to all voters. It
 * may reach each of them at any later time, under each number that the voter uses by then. The
 * answer arrives at once, because a later answer makes no lease longer. Once the host has its
 * lease, no more renewals arrive, because they would only delay marks.
 *
 * The promise is that of session.pml: once a majority of the voters of one number has marked the
 * session under that number, the host has no lease, then or later.
 *
 * Rules, each broken by a -D (mutants/):
 *   m5  a voter that knows n + 1 acknowledges nothing under n
 *   m7  n + 2 begins only when n + 1 is complete
 *   m14 n + 1 is complete only when a majority of n + 1 is guarded. A voter is guarded when it has
 *       counted the session as just renewed after a majority of n used n + 1, or when a ttl,
 *       counted long, has passed since then
 *   m15 n + 1 is complete only when the marks are settled: a majority of n + 1 has the mark, or a
 *       guarded majority of n + 1 has answered under n + 1 that it has no mark. As always, a voter
 *       sets the mark only if the session has lapsed by its own clock. It copies no mark.
 *   m16 answers of different numbers are not counted together
 *
 * A voter that begins to vote treats every session as just renewed. The promise does not depend on
 * that: it also holds with -DNEW_VOTER_LAPSES -DPHASE=0.
 */
#ifdef FIVE
#define VOTERS 5
#define SET1 31 /* number 1: all */
#define SET2 30 /* number 2: 0 was removed */
#define SET3 28 /* number 3: 1 was removed */
#elif defined(AGAIN)
#define VOTERS 3
#define SET1 7 /* number 1: all */
#define SET2 3 /* number 2: 2 was removed */
#define SET3 7 /* number 3: 2 was added again */
#else
#define VOTERS 4
#define SET1 7  /* number 1: voters 0, 1, 2 */
#define SET2 15 /* number 2: 3 was added */
#define SET3 11 /* number 3: 2 was removed */
#endif
#ifndef TMAX
#define TMAX 6
#endif
#define HOST_LEASE 2
#define VOTER_WAIT 4

#define SET(n) ((n) == 1 -> SET1 : ((n) == 2 -> SET2 : SET3))
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1) + (((m) >> 3) & 1) +             \
                  (((m) >> 4) & 1))
#define IN(m, v) (((m) >> (v)) & 1)
#define IS_MAJORITY(m, n) (2 * COUNT((m) & SET(n)) > COUNT(SET(n)))

byte now;        /* true time */
byte phase;      /* as in session.pml */
byte host_clock;
byte voter_clock;

byte newest = 1; /* the newest number that is known to be chosen */
bit complete;    /* number 2 is complete */
byte since;      /* a voter's clock when it knew that no majority votes under number 1 any more */
byte clean;      /* bits of the guarded voters that have answered that they have no mark */

/* Voters. */
byte knows[VOTERS];  /* the number that it uses */
byte seen[VOTERS];   /* its clock when it last counted a renewal, or at its start */
byte marked[VOTERS]; /* the number under which it marked the session; 0: it has not */

/* Host: its only renewal goes to all voters. */
bit sent;
byte sent_at;       /* the host's clock then */
byte acked[4];      /* by number: bits of the voters that acknowledged under it */
byte deadline;

/* A voter that has set a mark reports it under each number that it uses from then on. */
#define REPORTED(v, n) ((marked[v] != 0 && marked[v] <= n && n <= knows[v]) << v)
#if VOTERS == 5
#define ALL(X, n) (X(0, n) | X(1, n) | X(2, n) | X(3, n) | X(4, n))
#elif VOTERS == 3
#define ALL(X, n) (X(0, n) | X(1, n) | X(2, n))
#else
#define ALL(X, n) (X(0, n) | X(1, n) | X(2, n) | X(3, n))
#endif
#define IS_DEAD(n) IS_MAJORITY(ALL(REPORTED, n), n)
#define DEAD (IS_DEAD(1) || IS_DEAD(2) || IS_DEAD(3))
#define SAFE (host_clock < deadline)
#define CHECK assert(!(DEAD && SAFE))
/* The search ends with the lease of the only renewal. Nothing later can break the promise. */
#define GOES_ON (!sent || host_clock < sent_at + HOST_LEASE)

/* Times that are long past are equivalent. */
#define AGE(v) seen[v] = (voter_clock >= seen[v] + VOTER_WAIT -> 0 : seen[v])
#if VOTERS == 5
#define AGE_ALL AGE(0); AGE(1); AGE(2); AGE(3); AGE(4)
#elif VOTERS == 3
#define AGE_ALL AGE(0); AGE(1); AGE(2)
#else
#define AGE_ALL AGE(0); AGE(1); AGE(2); AGE(3)
#endif
#define TIME                                                                                       \
    :: d_step { GOES_ON && now < TMAX ->                                                           \
            now++;                                                                                 \
            phase = (phase + 1) % 3;                                                               \
            voter_clock = voter_clock + 1 + (phase == 0);                                          \
            host_clock = host_clock + (phase != 0);                                                \
            AGE_ALL;                                                                               \
            since = (since != 0 && voter_clock >= since + VOTER_WAIT -> 1 : since);                \
            CHECK }

/* ---- Numbers ---- */

#ifdef BREAK_M7_TWO_AT_ONCE
#define MAY_BEGIN 1
#else
#define MAY_BEGIN (newest == 1 || complete)
#endif
#ifdef NEW_VOTER_LAPSES
#define BEGINS(v)
#else
#define BEGINS(v)                                                                                  \
    if                                                                                             \
    :: !IN(SET(knows[v]), v) && IN(SET(knows[v] + 1), v) -> seen[v] = voter_clock                  \
    :: else                                                                                        \
    fi;
#endif
/* The model counts the ttl from the earliest moment that the rules allow. If a voter begins to
 * count later, or again, this only completes the number later. */
#define KNOWS(v, n) ((knows[v] >= n) << v)
#define MAJORITY_OF_1_KNOWS_2 IS_MAJORITY(ALL(KNOWS, 2), 1)
#ifdef BREAK_M14_COUNTS_FROM_THE_CHOICE
#define MAY_COUNT (newest == 2)
#else
#define MAY_COUNT (newest == 2 && MAJORITY_OF_1_KNOWS_2)
#endif
#define COUNT_TTL                                                                                  \
    if                                                                                             \
    :: since == 0 && !complete && MAY_COUNT -> since = voter_clock                                 \
    :: else                                                                                        \
    fi
#define CHOSEN :: d_step { GOES_ON && newest < 3 && MAY_BEGIN -> newest++; COUNT_TTL }
#define LEARN(v)                                                                                   \
    :: d_step { GOES_ON && knows[v] < newest -> BEGINS(v) knows[v]++; COUNT_TTL; CHECK }

#if defined(BREAK_M14_NOT_LONG)
#define WAIT 3
#else
#define WAIT VOTER_WAIT
#endif
#define WAITED (since != 0 && voter_clock >= since + WAIT && MAJORITY_OF_1_KNOWS_2)
#ifdef BREAK_M15_MARKS_LEFT_BEHIND
#define HAS_NO_MARK(v) 1
#else
#define HAS_NO_MARK(v) (marked[v] == 0)
#endif
#ifdef BREAK_M14_GUARDED_TOO_EARLY
#define MAY_GUARD 1
#else
#define MAY_GUARD MAJORITY_OF_1_KNOWS_2
#endif
#ifdef BREAK_M14_NO_GUARD
#define RENEW(v)
#else
#define RENEW(v) seen[v] = (marked[v] == 0 -> voter_clock : seen[v]);
#endif
/* The voter reports in the same step that it has no mark. A later report could miss a mark that the
 * voter sets after this step, but it sets such a mark only a ttl after it was guarded. */
#define GUARD(v)                                                                                   \
    :: d_step { GOES_ON && !complete && knows[v] == 2 && IN(SET2, v) && !IN(clean, v) &&           \
                HAS_NO_MARK(v) && MAY_GUARD ->                                                     \
            RENEW(v) clean = clean | (1 << v) }                                                    \
    :: d_step { GOES_ON && !complete && knows[v] == 2 && IN(SET2, v) && !IN(clean, v) &&           \
                HAS_NO_MARK(v) && WAITED ->                                                        \
            clean = clean | (1 << v) }
#define SETTLED (IS_MAJORITY(clean, 2) || IS_DEAD(2))
#define COMPLETE                                                                                   \
    :: d_step { GOES_ON && newest == 2 && !complete && MAJORITY_OF_1_KNOWS_2 && SETTLED ->         \
            complete = 1; since = 0; clean = 0 }

/* ---- Session ---- */

#define SEND :: d_step { !sent -> sent = 1; sent_at = host_clock }

#ifdef BREAK_M5_GOES_ON_UNDER_OLD
#define ACKS_UNDER(v, n) (IN(SET(n), v) && knows[v] >= n)
#else
#define ACKS_UNDER(v, n) (IN(SET(n), v) && knows[v] == n)
#endif
#if defined(BREAK_M16_COUNTS_ANY_NUMBER) /* the host counts answers of all numbers together */
#define IS_LEASE(n) (2 * COUNT((acked[1] | acked[2] | acked[3]) & SET(n)) > COUNT(SET(n)))
#else
#define IS_LEASE(n) IS_MAJORITY(acked[n], n)
#endif
#define ACK(v, n) /* the renewal arrives at the voter, and the answer at the host */               \
    :: d_step { GOES_ON && sent && deadline == 0 && marked[v] == 0 &&                              \
                ACKS_UNDER(v, n) && !IN(acked[n], v) ->                                            \
            seen[v] = voter_clock;                                                                 \
            acked[n] = acked[n] | (1 << v);                                                        \
            if                                                                                     \
            :: IS_LEASE(1) || IS_LEASE(2) || IS_LEASE(3) ->                                        \
                deadline = sent_at + HOST_LEASE;                                                   \
                acked[1] = 0; acked[2] = 0; acked[3] = 0                                           \
            :: else                                                                                \
            fi;                                                                                    \
            CHECK }

#ifdef BREAK_M15_MARKS_COPIED /* a voter copies another voter's mark, whatever its own clock is */
#define IS_MARKED(v, n) (marked[v] != 0)
#define MAY_MARK(v) (voter_clock >= seen[v] + VOTER_WAIT ||                                        \
                     (knows[v] == 2 && ALL(IS_MARKED, 0) != 0))
#else
#define MAY_MARK(v) (voter_clock >= seen[v] + VOTER_WAIT)
#endif
#define MARK(v)                                                                                    \
    :: d_step { GOES_ON && marked[v] == 0 && IN(SET(knows[v]), v) && MAY_MARK(v) ->                \
            marked[v] = knows[v]; seen[v] = 0; CHECK }

#ifdef AGAIN
#define EMPTY :: d_step { knows[2] == 2 && complete && marked[2] != 0 -> marked[2] = 0; CHECK }
#else
#define EMPTY
#endif

#define VOTER(v) LEARN(v) GUARD(v) ACK(v, 1) ACK(v, 2) ACK(v, 3) MARK(v)

active proctype world()
{
    d_step {
        host_clock = 1; voter_clock = 1;
        knows[0] = 1; knows[1] = 1; knows[2] = 1;
        seen[0] = 1; seen[1] = 1; seen[2] = 1;
#if VOTERS >= 4
        knows[3] = 1; seen[3] = 1;
#endif
#if VOTERS == 5
        knows[4] = 1; seen[4] = 1
#endif
    }
#ifdef PHASE
    phase = PHASE;
#else
    if :: phase = 0 :: phase = 1 :: phase = 2 fi;
#endif
    do
    TIME CHOSEN COMPLETE SEND EMPTY
    VOTER(0) VOTER(1) VOTER(2)
#if VOTERS >= 4
    VOTER(3)
#endif
#if VOTERS == 5
    VOTER(4)
#endif
    od
}
