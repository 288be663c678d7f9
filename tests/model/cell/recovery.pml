/*
 * A recovery: the stores of a majority are lost, and the cell begins anew with one store
 * (docs/PROTOCOL.md, "Recovery"; agent/io/store/recover.c, agent/core/quorum/members_recover.c).
 *
 * There are three voters. A host has a session with them, and a lock; it does not give the lock
 * back. At some instant voters 1 and 2 are lost, and voter 0 is stopped. Later it starts with the
 * new store, as the only voter of the new generation. It may be started again at any time. Voter 1
 * may come back with its old store after the recovery. Voter 1 and the host learn of the recovery
 * late or never. Another host asks for the lock in the new generation.
 *
 * Time and clocks are as in session.pml: the host's clock is slow, the voters' clocks are fast, and
 * each start of voter 0 has its own clock. A renewal goes to all voters, and may reach each of them
 * at any later time. Its answer arrives at once, because a later answer makes no lease longer. The
 * host counts only answers to renewals of its own generation.
 *
 * Promised, in every state:
 *   p1  the other host gets the lock only when the first host's lease has ended, and then the
 *       lock-delay has passed, in true time
 *   p2  its token is above every token that any voter handed out before
 *
 * Rules, each broken by a -D (mutants/):
 *   r0  (the operator's duty) no majority of the old voters runs after the recovery
 *   r37 the new store's floor is above every token of the old generation, even above tokens that
 *       the old store has not seen
 *   r38 the new store acknowledges no session of the old generation, and a host that learns of the
 *       recovery ends its session
 *   r39 from each of its starts the only voter waits for a ttl and a lock-delay, counted long,
 *       before it votes
 */
#define V 3
#ifndef TMAX
#define TMAX 8
#endif
#define HOST_LEASE 2 /* the ttl is three ticks, counted short by the host */
#define LONG_TTL 4   /* and long by a voter */
#define DELAY 1      /* the lock-delay in true ticks, and long by a voter's clock */
#define LONG_DELAY 2

#if defined(BREAK_R39_NO_WAIT)
#define WAIT 0
#elif defined(BREAK_R39_NO_DELAY)
#define WAIT LONG_TTL
#elif defined(BREAK_R39_NOT_LONG)
#define WAIT 4 /* 3 + 1 */
#else
#define WAIT (LONG_TTL + LONG_DELAY)
#endif

byte now;
byte phase;
byte host_clock;
byte voter_clock;

/* 0: the old cell runs; 1: a majority is lost, voter 0 is stopped; 2: voter 0 has its new store */
byte stage;
byte started;  /* voter 0's clock at the start that counts */
byte restarts;
byte ahead;    /* the clock of voter 0's present boot is ahead of voter_clock */
bit votes;     /* voter 0 votes in the new generation */
bit back;      /* voter 1 is back with its old store */
bit told;      /* voter 1 has learned of the recovery */

/* Tokens of the old generation are 1 and 2. Those of the new one begin at 4. */
byte handed = 1; /* the highest that a voter handed out */
byte stored = 1; /* the highest that voter 0 knows */

byte sent;    /* the host's clock + 1 when it sent its last renewal; 0: none */
byte sent_of; /* the host's generation then */
byte extended[V]; /* as in session.pml */
byte deadline;
byte renewals;

byte knows;     /* the host's generation */
bit ended;      /* the host has ended its session of the old generation */
byte over;      /* true time + 1 at which the host's lease was first seen ended; 0: it has not */
bit granted;    /* the other host has the lock */

#define SAFE (!ended && host_clock < deadline)
#define CHECK assert(!(granted && SAFE))

#define SEE_END                                                                                    \
    if                                                                                             \
    :: SAFE -> over = 0                                                                            \
    :: !SAFE && over == 0 -> over = now + 1                                                        \
    :: else                                                                                        \
    fi

#define TIME                                                                                       \
    :: d_step { now < TMAX ->                                                                      \
            now++;                                                                                 \
            phase = (phase + 1) % 3;                                                               \
            voter_clock = voter_clock + 1 + (phase == 0);                                          \
            host_clock = host_clock + (phase != 0);                                                \
            SEE_END;                                                                               \
            CHECK }

/* ---- The session ---- */

#define RENEW /* to all voters; each may receive it at any time until the next renewal */          \
    :: d_step { renewals < 2 && !ended ->                                                          \
            renewals++; sent = host_clock + 1; sent_of = knows }

#ifdef BREAK_R0_LOST_MAJORITY_RUNS
#define RUNS_OLD(v) (stage == 0 || stage == 2 && (v) >= 1)
#else
#define RUNS_OLD(v) (stage == 0 || (v) == 1 && back && !told)
#endif
#ifdef BREAK_R38_ACKNOWLEDGES_OLD
#define RUNS_NEW(v) ((v) == 0 && votes)
#else
#define RUNS_NEW(v) ((v) == 0 && votes && sent_of == 1)
#endif
#define ANSWERS(v) (RUNS_OLD(v) && sent_of == 0 || RUNS_NEW(v))

#define AS_LATE(i) ((extended[0] >= extended[i]) + (extended[1] >= extended[i]) + \
                    (extended[2] >= extended[i]))
/* In the new generation voter 0 is the only voter. */
#define ENOUGH(i) (extended[i] > 0 && (knows == 1 && (i) == 0 || knows == 0 && AS_LATE(i) >= 2))
#define COUNT(i)                                                                                   \
    if                                                                                             \
    :: ENOUGH(i) && extended[i] - 1 + HOST_LEASE > deadline ->                                     \
        deadline = extended[i] - 1 + HOST_LEASE                                                    \
    :: else                                                                                        \
    fi
#define RENEWED(v) /* the renewal arrives at the voter, and the answer at the host */              \
    :: d_step { !ended && sent > extended[v] && sent_of == knows && ANSWERS(v) ->                  \
            extended[v] = sent;                                                                    \
            COUNT(0); COUNT(1); COUNT(2);                                                          \
            SEE_END;                                                                               \
            CHECK }

#ifdef BREAK_R38_HOST_GOES_ON
#define END_SESSION
#else
#define END_SESSION ended = 1;
#endif
#define HEARS /* the host learns of the recovery; old answers do not count any more */             \
    :: d_step { stage == 2 && knows == 0 ->                                                        \
            knows = 1; sent = 0; END_SESSION extended[0] = 0; extended[1] = 0; extended[2] = 0; SEE_END }

/* ---- The loss and the recovery ---- */

#ifdef BREAK_R0_LOST_MAJORITY_RUNS
#define HANDS_ON (stage == 0 || stage == 2)
#else
#define HANDS_ON (stage == 0)
#endif
#define HAND /* a majority hands out the next range of tokens; voter 0 may not see it */           \
    :: d_step { HANDS_ON && handed < 2 -> handed++ }                                               \
    :: d_step { stage == 0 && stored < handed -> stored = handed }

#ifdef BREAK_R39_GOES_ON
#define COUNT_ANEW
#else
#define COUNT_ANEW started = voter_clock + ahead
#endif
#define LOSE :: d_step { stage == 0 -> stage = 1 }
#define RECOVER :: d_step { stage == 1 -> stage = 2; started = voter_clock }
#define RESTART :: d_step { stage == 2 && !votes && restarts < 1 ->                                \
            restarts++; ahead = 4; COUNT_ANEW }
#define VOTE :: d_step { stage == 2 && !votes && voter_clock + ahead >= started + WAIT ->          \
            votes = 1 }
#define COME_BACK :: d_step { stage == 2 && !back -> back = 1 }
#define HEAR_BACK :: d_step { back && !told -> told = 1 }

#ifdef BREAK_R37_FLOOR
#define FIRST_TOKEN (stored + 1)
#else
#define FIRST_TOKEN 4
#endif
#define GRANT /* to the other host, whose session belongs to the new generation */                 \
    :: d_step { votes && !granted ->                                                               \
            granted = 1;                                                                           \
            assert(FIRST_TOKEN > handed); /* p2 */                                                 \
            assert(over != 0 && now >= over - 1 + DELAY); /* p1 */                                 \
            CHECK }

active proctype world()
{
    d_step {
        host_clock = 1; voter_clock = 1;
        /* all voters have just extended the host's session */
        extended[0] = 2; extended[1] = 2; extended[2] = 2; deadline = 1 + HOST_LEASE
    }
    if :: phase = 0 :: phase = 1 :: phase = 2 fi;
    do
    TIME HAND LOSE RECOVER RESTART VOTE COME_BACK HEAR_BACK HEARS GRANT
    RENEW RENEWED(0) RENEWED(1) RENEWED(2)
    od
}
