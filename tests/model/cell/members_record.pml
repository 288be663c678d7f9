/*
 * Changing the voters, one at a time: how the record of the voters is decided (docs/PROTOCOL.md,
 * "Changing the voters"; agent/core/quorum/change.c).
 *
 * A number (1, 2, 3) has one record, a set of voters. Here number 1 is {0, 1, 2}. Number 2 adds
 * voter 3, and number 3 removes voter 2. Another operator competes with other records: number 2
 * without voter 2, and number 3 without voter 0. Number n + 1 is decided in a register of its own,
 * by the voters of n and of n + 1. members_lock.pml models what the voters decide under the
 * numbers, and members_session.pml the leases.
 *
 * Messages are not queued. A message stays readable once it is sent, so it may arrive late, twice
 * or never, in any order. A ballot is a row of a table. No process belongs to it, so the next step
 * of a ballot may happen at any time, or never. This covers proposers that crash. A voter that
 * crashes and comes back with its disk is a voter that takes no step for a while.
 *
 * Promised, in every state:
 *   p2  at most one record of a number is chosen, and all voters that use a number have the same
 *       record of it
 *   p3  some voters are lost, but each number in use has a majority without them. (A number is in
 *       use from its choice until its successor is complete.) Then the other voters include a
 *       majority that votes under the newest number that one of them knows. So the cell can still
 *       decide.
 *   p4  a voter is added only if its store has accepted the record that adds it. So a newcomer that
 *       never came, or died before, leaves the cell as it was
 *
 * Rules, each broken by a -D (mutants/):
 *   m1  a record is proposed to a majority of n and accepted by a majority of n and one of n + 1
 *   m2  a record counts only when it is known to be chosen. A voter that merely accepted it goes on
 *       under n
 *   m7  n + 2 begins only when n + 1 is complete
 *   m10 a ballot that has read a record proposes this record
 *   m11 the newcomer accepts its record before the voters of n do
 *
 * For p2 alone it would be enough if one of the two majorities accepted, because each of the two
 * intersects the majority of n that promised. p3 needs both: with a majority of n alone, a newcomer
 * that never came could be counted as a voter.
 */
#define VOTERS 4
#ifndef FIRST
#define FIRST 1 /* the number in the beginning */
#endif
#ifndef LAST
#define LAST 3 /* the last number */
#endif
#ifndef BALLOTS
#define BALLOTS 2 /* ballots of each register; the odd ones are the first operator's */
#endif

/* Records by index. Bit a of a set is voter a. B is the other operator's record of a number. */
#define R1 1  /* number 1: {0, 1, 2} */
#define R2A 2 /* number 2: 3 was added */
#define R2B 3 /* number 2: 2 was removed */
#define R3A 4 /* number 3: 2 was removed after 3 was added */
#define R3B 5 /* number 3: 0 was removed after 3 was added */
#define SET(r) ((r) == R1 -> 7 : ((r) == R2A -> 15 : ((r) == R2B -> 3 : ((r) == R3A -> 11 : 14))))
#define NUMBER(r) ((r) == R1 -> 1 : ((r) <= R2B -> 2 : 3))
#define OLD(k) ((k) == 2 -> R1 : R2A) /* the record that number k follows */
#define ADDED(r) ((r) == R2A -> 8 : 0)

#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1) + (((m) >> 3) & 1))
#define IN(m, a) (((m) >> (a)) & 1)
#define IS_MAJORITY(m, r) (2 * COUNT((m) & SET(r)) > COUNT(SET(r)))

/* Ballots of the registers of number 2 and number 3. */
#define AT(k, e) (((k) - 2) * BALLOTS + (e) - 1)
byte promised[2 * BALLOTS]; /* the voters that promised it */
byte read[2 * BALLOTS];     /* the newest ballot that they had accepted; 0: none */
byte record[2 * BALLOTS];   /* the record that it proposes; 0: none yet */
byte took[2 * BALLOTS];     /* the voters that accepted it */

/* Voters. */
#define V(k, a) (((k) - 2) * VOTERS + (a))
byte promise[2 * VOTERS];  /* the ballot of that register that the voter promised */
byte accepted[2 * VOTERS]; /* the ballot that it accepted last */
byte knows[VOTERS];        /* the record that it uses */

byte chosen[4]; /* by number: the record that a proposer saw chosen */
byte fact[4];   /* by number: the record that was chosen, whether anybody saw it or not */
bit complete;   /* number 2 is complete */

byte d, i, n, w; /* scratch, 0 between steps */

#ifdef BREAK_M2_ACCEPTED_STOPS_VOTING
#define VOTES(a) (NUMBER(knows[a]) == 3 || accepted[V(NUMBER(knows[a]) + 1, a)] == 0)
#else
#define VOTES(a) 1
#endif
/* Whether number k is not chosen yet, or has a majority without the voters d. */
#define STANDS(k) (fact[k] == 0 || IS_MAJORITY(15 - d, fact[k]))
#define IN_USE_STAND ((complete || STANDS(1)) && STANDS(2) && STANDS(3))
#define NEWER(a) n = (!IN(d, a) && knows[a] > n -> knows[a] : n)
#define CHECK_LIVES /* p3 */                                                                       \
    d = 0;                                                                                         \
    do                                                                                             \
    :: d < 16 ->                                                                                   \
        if                                                                                         \
        :: IN_USE_STAND ->                                                                         \
            n = 0; NEWER(0); NEWER(1); NEWER(2); NEWER(3);                                         \
            w = (15 - d) & (VOTES(0) | VOTES(1) << 1 | VOTES(2) << 2 | VOTES(3) << 3);             \
            assert(n != 0 && IS_MAJORITY(w, n))                                                    \
        :: else                                                                                    \
        fi;                                                                                        \
        d++                                                                                        \
    :: else -> break                                                                               \
    od;                                                                                            \
    d = 0; n = 0; w = 0

/* p2 */
#define ONE_RECORD(a, x) (NUMBER(knows[a]) != NUMBER(knows[x]) || knows[a] == knows[x])
#define CHECK_ONE                                                                                  \
    assert(ONE_RECORD(0, 1) && ONE_RECORD(0, 2) && ONE_RECORD(0, 3) && ONE_RECORD(1, 2) &&         \
           ONE_RECORD(1, 3) && ONE_RECORD(2, 3))

/* ---- Proposing a record ---- */

#ifdef BREAK_M7_TWO_AT_ONCE
#define MAY_BEGIN(k) 1
#else
#define MAY_BEGIN(k) (k == 2 || complete)
#endif

#ifdef BREAK_M1_MAJORITY_OF_NEW_ONLY
#define IS_PREPARED(k, e) IS_MAJORITY(promised[AT(k, e)], OWN(k, e))
#else
#define IS_PREPARED(k, e) IS_MAJORITY(promised[AT(k, e)], OLD(k))
#endif
#define PROMISE(k, e, a)                                                                           \
    :: d_step { MAY_BEGIN(k) && knows[a] == OLD(k) && IN(SET(OLD(k)), a) &&                        \
                e > promise[V(k, a)] && !IS_PREPARED(k, e) ->                                      \
            promise[V(k, a)] = e;                                                                  \
            promised[AT(k, e)] = promised[AT(k, e)] | (1 << a);                                    \
            if                                                                                     \
            :: accepted[V(k, a)] > read[AT(k, e)] -> read[AT(k, e)] = accepted[V(k, a)]            \
            :: else                                                                                \
            fi                                                                                     \
        }

#define OWN(k, e) ((k) * 2 - 2 + (e + 1) % 2)
#ifdef BREAK_M10_OVER_WHAT_WAS_ACCEPTED
#define RECORD_OF(k, e) OWN(k, e)
#else
#define RECORD_OF(k, e) (read[AT(k, e)] == 0 -> OWN(k, e) : record[AT(k, read[AT(k, e)])])
#endif
#define PROPOSE(k, e)                                                                              \
    :: d_step { record[AT(k, e)] == 0 && IS_PREPARED(k, e) ->                                      \
            record[AT(k, e)] = RECORD_OF(k, e) }

#ifdef BREAK_M11_NEWCOMER_LAST
#define IN_TURN(k, e, a) 1
#else
/* A record that was read needs no check: the newcomer accepted it before any voter of n did. */
#define IN_TURN(k, e, a) (read[AT(k, e)] != 0 || IN(ADDED(record[AT(k, e)]), a) ||                 \
                          (ADDED(record[AT(k, e)]) & (15 - took[AT(k, e)])) == 0)
#endif
#define BOTH(k, e) (IS_MAJORITY(took[AT(k, e)], OLD(k)) &&                                         \
                    IS_MAJORITY(took[AT(k, e)], record[AT(k, e)]))
#define ACCEPT(k, e, a)                                                                            \
    :: d_step { record[AT(k, e)] != 0 && IN(SET(OLD(k)) | SET(record[AT(k, e)]), a) &&             \
                knows[a] == OLD(k) && e >= promise[V(k, a)] && !IN(took[AT(k, e)], a) &&           \
                IN_TURN(k, e, a) ->                                                                \
            promise[V(k, a)] = e;                                                                  \
            accepted[V(k, a)] = e;                                                                 \
            took[AT(k, e)] = took[AT(k, e)] | (1 << a);                                            \
            if                                                                                     \
            :: BOTH(k, e) ->                                                                       \
                assert(fact[k] == 0 || fact[k] == record[AT(k, e)]); /* p2 */                      \
                assert(ADDED(record[AT(k, e)]) == 0 || accepted[V(k, 3)] != 0); /* p4 */           \
                fact[k] = record[AT(k, e)]                                                         \
            :: else                                                                                \
            fi;                                                                                    \
            CHECK_LIVES                                                                            \
        }

#if defined(BREAK_M1_MAJORITY_OF_NEW_ONLY)
#define IS_CHOSEN(k, e) IS_MAJORITY(took[AT(k, e)], record[AT(k, e)])
#elif defined(BREAK_M1_MAJORITY_OF_OLD_ONLY)
#define IS_CHOSEN(k, e) IS_MAJORITY(took[AT(k, e)], OLD(k))
#else
#define IS_CHOSEN(k, e) BOTH(k, e)
#endif
#define CHOSEN(k, e) /* its proposer sees that the record is chosen */                             \
    :: d_step { record[AT(k, e)] != 0 && IS_CHOSEN(k, e) && chosen[k] != record[AT(k, e)] ->       \
            assert(chosen[k] == 0); /* p2 */                                                       \
            chosen[k] = record[AT(k, e)] }

/* ---- Learning ---- */

#ifdef BREAK_M2_ACCEPTED_COUNTS
#define IS_TOLD(k, a, r) (chosen[k] == r || took[AT(k, 1)] != 0 && record[AT(k, 1)] == r &&        \
                          IN(took[AT(k, 1)], a) || BALLOTS > 1 && record[AT(k, BALLOTS)] == r &&   \
                          IN(took[AT(k, BALLOTS)], a))
#else
#define IS_TOLD(k, a, r) (chosen[k] == r)
#endif
#define LEARN(k, a, r) /* a voter or learner learns that record r is chosen */                     \
    :: d_step { knows[a] == OLD(k) && IS_TOLD(k, a, r) -> knows[a] = r; CHECK_ONE; CHECK_LIVES }

#define KNOW_2 ((knows[0] >= R2A) | (knows[1] >= R2A) << 1 | (knows[2] >= R2A) << 2 |              \
                (knows[3] >= R2A) << 3)
#define COMPLETE /* members_lock.pml has the other conditions */                                   \
    :: d_step { FIRST == 1 && !complete && chosen[2] == R2A && IS_MAJORITY(KNOW_2, R1) &&          \
                IS_MAJORITY(KNOW_2, R2A) -> complete = 1; CHECK_LIVES }

#define EACH_VOTER(X, k, e) X(k, e, 0) X(k, e, 1) X(k, e, 2) X(k, e, 3)
#define BALLOT(k, e) PROPOSE(k, e) CHOSEN(k, e) EACH_VOTER(PROMISE, k, e) EACH_VOTER(ACCEPT, k, e)
#define LEARNS(k, r) LEARN(k, 0, r) LEARN(k, 1, r) LEARN(k, 2, r) LEARN(k, 3, r)

active proctype cell()
{
    d_step {
#if FIRST == 1
        fact[1] = R1; knows[0] = R1; knows[1] = R1; knows[2] = R1; knows[3] = R1
#else
        fact[2] = R2A; chosen[2] = R2A; complete = 1;
        knows[0] = R2A; knows[1] = R2A; knows[2] = R2A; knows[3] = R2A
#endif
    }
    do
#if FIRST == 1
    BALLOT(2, 1)
    LEARNS(2, R2A)
#if BALLOTS >= 2
    BALLOT(2, 2)
    LEARNS(2, R2B)
#endif
#if BALLOTS >= 3
    BALLOT(2, 3)
#endif
    COMPLETE
#endif
#if LAST == 3
    BALLOT(3, 1)
    LEARNS(3, R3A)
#if BALLOTS >= 2
    BALLOT(3, 2)
    LEARNS(3, R3B)
#endif
#if BALLOTS >= 3
    BALLOT(3, 3)
#endif
#endif
    od
}
