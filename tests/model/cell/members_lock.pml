/*
 * Changing the voters, one at a time: a lock's register while the voters change (docs/PROTOCOL.md,
 * "Changing the voters"; agent/core/quorum/change.c, members_voters.c).
 *
 * Number 1 is {0, 1, 2}, number 2 adds voter 3, number 3 removes voter 2. members_record.pml models
 * how the record of a number is decided. Here a number is chosen in one step, as early as it may
 * be, and each voter learns of it later or never.
 *
 * Messages are not queued. A message stays readable once it is sent, so it may arrive late, twice
 * or never, in any order. A ballot is a row of a table. No process belongs to it, so the next step
 * of a ballot may happen at any time, or never. This covers coordinators that crash or lag behind.
 * A voter that crashes and comes back with its disk is a voter that takes no step for a while. An
 * acceptor's step and the arrival of its answer are one step: a coordinator only collects answers,
 * so it makes no difference when they come. A coordinator counts no more promises than it needs.
 * (One more promise would only restrict its acceptor. Its answer is counted in another run, in
 * which it is one of the promises that are needed.)
 *
 * Each register decides one value here. grants.pml models the order of values.
 *
 * Promised, in every state:
 *   p1  a register has at most one value that a majority accepted under one ballot, whatever the
 *       ballots and their numbers are. So nothing that was chosen is lost, and no two majorities
 *       decide differently.
 *
 * Rules, each broken by a -D (mutants/):
 *   m3  a number has one voter more than the one before, or one less
 *   m4  answers count only if they come from a voter of the number. Those of a learner or of a
 *       removed voter do not count
 *   m5  a voter that knows n + 1 neither promises nor accepts under n
 *   m6  a voter's number is durable before the voter acts on it
 *   m7  n + 2 begins only when n + 1 is complete
 *   m8  n + 1 is complete only when a ballot was prepared at a majority of n + 1 under n + 1, and
 *       what it read or proposed is at a majority of n + 1
 *   m9  a ballot belongs to the number under which a majority promised it. It may be used under the
 *       next number too, and under a later one only when a majority of the next one has promised it
 *       under that number
 *   m17 no two voters of a number and of the next one have the same id, so no ballot is used twice
 *
 * With -DADOPTED, "is at a majority of n + 1" means that these voters copied the value with its old
 * ballot, or have a newer value. They need not accept it anew. -DCATCH_UPS lets every voter and
 * learner copy what another one has accepted, at any time. -DSAME_ID=b gives ballot b the order of
 * ballot b - 1, as if the id of a removed voter had been used again. run.sh checks that p1 holds
 * with each of the first two, and with the third if the two ballots began under n and n + 2.
 *
 * With -DAGAIN number 2 removes voter 2, and number 3 adds it again. The voter keeps its store.
 * With -DEMPTIED it may lose its store once it knows that its removal is complete (rule 48):
 *   m18 a store is emptied only when its voter knows the number that removes it
 *
 * A ballot is carried when it goes on under the next number. The model allows that as soon as any
 * voter uses the next number, and the ballot may also go on under its own number. Real coordinators
 * do less. When a majority of the next number has promised the ballot, it belongs to that number.
 * Its coordinator needs no further reads, because it has read enough before. With -DREADS_AGAIN it
 * reads these voters again, if it has not proposed anything yet. With -DCARRIED=b only ballot b is
 * carried.
 *
 * There are three ballots, one for each number in which it began, in any order. With -DROWS=2 or
 * -DANY_NUMBERS each ballot may have any number.
 */
#define VOTERS 4
#ifdef AGAIN
#define SET1 7 /* number 1: voters 0, 1, 2 */
#define SET2 3 /* number 2: 2 was removed */
#define SET3 7 /* number 3: 2 was added again */
#endif
#ifndef ROWS
#define ROWS 3 /* ballots of the lock's register */
#endif
#ifndef SET1
#define SET1 7  /* number 1: voters 0, 1, 2 */
#define SET2 15 /* number 2: voter 3 was added */
#define SET3 11 /* number 3: voter 2 was removed */
#endif
#define SET(n) ((n) == 1 -> SET1 : ((n) == 2 -> SET2 : SET3))
#define COUNT(m) (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1) + (((m) >> 3) & 1))
#define IN(m, a) (((m) >> (a)) & 1)
#define IS_MAJORITY(m, n) (2 * COUNT((m) & SET(n)) > COUNT(SET(n)))

byte knows[VOTERS]; /* the number that the voter uses */
byte newest_number = 1; /* the newest number that is known to be chosen */
bit complete;       /* number 2 is complete */

/* Ballots. The index is the order, except with -DSAME_ID. */
byte number[ROWS + 1];   /* the number under which the ballot is, or is to be, prepared */
byte promised[ROWS + 1]; /* the voters that promised it under that number */
byte read[ROWS + 1];     /* the newest row that they had accepted; 0: none */
byte value[ROWS + 1];    /* what it proposes; 0: nothing yet */
byte took[ROWS + 1];     /* the voters that accepted it under that number */
/* the same, under the next number */
byte promised_next[ROWS + 1];
byte read_next[ROWS + 1];
byte took_next[ROWS + 1];
#ifdef BREAK_M9_BALLOT_KEPT
bit kept[ROWS + 1];
#endif

byte promise[VOTERS];  /* the order that the voter promised */
byte accepted[VOTERS]; /* the row that it accepted last */
byte decided;          /* the value that a majority chose; 0: none */
byte restarts;

#ifdef SAME_ID
#define ORDER(b) ((b) == 0 -> 0 : (b) - ((b) >= SAME_ID))
#else
#define ORDER(b) (b)
#endif

/* ---- Numbers ---- */

#ifdef BREAK_M7_TWO_AT_ONCE
#define MAY_BEGIN 1
#else
#define MAY_BEGIN (newest_number == 1 || complete)
#endif
#define CHOSEN :: d_step { newest_number < 3 && MAY_BEGIN -> newest_number++ }

#define LEARN(a) :: d_step { knows[a] < newest_number -> knows[a]++ }

#ifdef BREAK_M6_FORGETS_WHAT_IT_KNOWS
#define RESTART(a) :: d_step { restarts < 1 && knows[a] == 2 -> restarts++; knows[a] = 1 }
#else
#define RESTART(a)
#endif

/* ---- The register ---- */

#if defined(BREAK_M4_LEARNER_COUNTS)
#define VOTES(a, n) (IN(SET(n), a) || (n) == 1 && (a) == 3)
#elif defined(BREAK_M4_REMOVED_COUNTS)
#define VOTES(a, n) (IN(SET(n), a) || (n) == 3 && (a) == 2)
#else
#define VOTES(a, n) IN(SET(n), a)
#endif
#define IS_ENOUGH(m, n) (2 * COUNT(m) > COUNT(SET(n))) /* every voter in m VOTES */

#ifdef BREAK_M5_GOES_ON_UNDER_OLD
#define SAME_NUMBER(a, n) (knows[a] >= (n))
#else
#define SAME_NUMBER(a, n) (knows[a] == (n))
#endif
#define MAY_VOTE(b, a, n) (VOTES(a, n) && SAME_NUMBER(a, n))

#ifdef BREAK_M9_BALLOT_KEPT
#define IS_PREPARED(b) (kept[b] || IS_ENOUGH(promised[b], number[b]))
#define KEEP(b) /* the ballot goes on under the next number, and keeps its promises */             \
    :: d_step { IS_PREPARED(b) && value[b] == 0 && number[b] < newest_number ->                    \
            number[b]++; kept[b] = 1; promised_next[b] = 0; read_next[b] = 0 }
#else
#define IS_PREPARED(b) IS_ENOUGH(promised[b], number[b])
#define KEEP(b)
#endif

#define PROMISE(b, a)                                                                              \
    :: d_step { MAY_VOTE(b, a, number[b]) && !IS_PREPARED(b) && ORDER(b) >= promise[a] &&          \
                !IN(promised[b], a) ->                                                             \
            promise[a] = ORDER(b);                                                                 \
            promised[b] = promised[b] | (1 << a);                                                  \
            if                                                                                     \
            :: ORDER(accepted[a]) > ORDER(read[b]) -> read[b] = accepted[a]                        \
            :: else                                                                                \
            fi                                                                                     \
        }

#ifndef CARRIED
#define MAY_CARRY(b) 1
#else
#define MAY_CARRY(b) ((b) == CARRIED)
#endif
#define IS_CARRIED(b, a)                                                                           \
    (MAY_CARRY(b) && IS_PREPARED(b) && number[b] < 3 && MAY_VOTE(b, a, number[b] + 1))
#define CONFIRM(b, a) /* a voter promises the carried ballot */                                    \
    :: d_step { IS_CARRIED(b, a) && ORDER(b) >= promise[a] && !IN(promised_next[b], a) ->          \
            promise[a] = ORDER(b);                                                                 \
            promised_next[b] = promised_next[b] | (1 << a);                                        \
            READ_NEXT(b, a) }
#ifdef READS_AGAIN
#define READ_NEXT(b, a)                                                                            \
            if                                                                                     \
            :: value[b] == 0 && ORDER(accepted[a]) > ORDER(read_next[b]) ->                        \
                read_next[b] = accepted[a]                                                         \
            :: else                                                                                \
            fi
#define USE_READ_NEXT(b) read[b] = (value[b] == 0 -> read_next[b] : read[b]);
#else
#define READ_NEXT(b, a)
#define USE_READ_NEXT(b)
#endif
#define CONFIRMS(b) IS_ENOUGH(promised_next[b], number[b] + 1)
#define NEXT_NUMBER(b) /* the ballot now belongs to the next number */                             \
    number[b]++;                                                                                   \
    promised[b] = promised_next[b]; promised_next[b] = 0;                                          \
    took[b] = took_next[b]; took_next[b] = 0;                                                      \
    read_next[b] = 0
#define GO_ON(b)                                                                                   \
    :: d_step { promised_next[b] != 0 && CONFIRMS(b) -> USE_READ_NEXT(b) NEXT_NUMBER(b) }

#define PROPOSE(b) /* proposes the value that was read, or a new one */                            \
    :: d_step { value[b] == 0 && IS_PREPARED(b) -> value[b] = (read[b] == 0 -> b : value[read[b]]) }

#define ACCEPTED(b, a, by, n)                                                                      \
    promise[a] = ORDER(b);                                                                         \
    accepted[a] = b;                                                                               \
    by = by | (1 << a);                                                                            \
    if                                                                                             \
    :: IS_ENOUGH(by, n) ->                                                                         \
        assert(decided == 0 || decided == value[b]); /* p1 */                                      \
        decided = value[b]                                                                         \
    :: else                                                                                        \
    fi
#define ACCEPT(b, a)                                                                               \
    :: d_step { value[b] != 0 && MAY_VOTE(b, a, number[b]) && ORDER(b) >= promise[a] &&            \
                !IN(took[b], a) -> ACCEPTED(b, a, took[b], number[b]) }                            \
    :: d_step { value[b] != 0 && IS_CARRIED(b, a) && ORDER(b) >= promise[a] &&                     \
                !IN(took_next[b], a) -> ACCEPTED(b, a, took_next[b], number[b] + 1) }

#ifdef CATCH_UPS
#define CATCH_UP(a, x) /* a voter or learner copies what another one has accepted */               \
    :: d_step { ORDER(accepted[x]) > ORDER(accepted[a]) ->                                         \
            accepted[a] = accepted[x];                                                             \
            promise[a] = (ORDER(accepted[a]) > promise[a] -> ORDER(accepted[a]) : promise[a]) }
#else
#define CATCH_UP(a, x)
#endif

#ifdef EMPTIED
#ifdef BREAK_M18_EMPTIED_WHILE_IT_VOTES
#define MAY_EMPTY (knows[2] == 1)
#else
#define MAY_EMPTY (knows[2] == 2 && complete)
#endif
#define EMPTY /* the agent of the removed voter starts again, as an observer */                    \
    :: d_step { MAY_EMPTY && (promise[2] != 0 || accepted[2] != 0) ->                              \
            promise[2] = 0; accepted[2] = 0 }
#else
#define EMPTY
#endif

/* ---- Complete ---- */

#define KNOW_2                                                                                     \
    ((knows[0] >= 2) | (knows[1] >= 2) << 1 | (knows[2] >= 2) << 2 | (knows[3] >= 2) << 3)
#ifdef ADOPTED
#ifdef BREAK_M8_WHAT_IT_PROPOSED
#define NEWEST(b) ORDER(read[b])
#else
#define NEWEST(b) (value[b] != 0 -> ORDER(b) : ORDER(read[b]))
#endif
#define HAS(b, a) ((ORDER(accepted[a]) >= NEWEST(b)) << a)
#define STORED(b) (HAS(b, 0) | HAS(b, 1) | HAS(b, 2) | HAS(b, 3))
#else
#define STORED(b) took[b]
#endif
#define IS_STORED(b) (read[b] == 0 && value[b] == 0 || IS_MAJORITY(STORED(b), 2))
#if defined(BREAK_M8_NOTHING_PREPARED)
#define IS_COMPLETE(b) (IS_MAJORITY(KNOW_2, 1) && IS_MAJORITY(KNOW_2, 2))
#elif defined(BREAK_M8_NOT_STORED)
#define IS_COMPLETE(b) (number[b] == 2 && IS_PREPARED(b))
#elif defined(BREAK_M8_AN_OLD_BALLOT)
#define IS_COMPLETE(b) (number[b] == 1 && IS_PREPARED(b) && IS_STORED(b) &&                        \
                        IS_MAJORITY(KNOW_2, 1) && IS_MAJORITY(KNOW_2, 2))
#else
#define IS_COMPLETE(b) (number[b] == 2 && IS_PREPARED(b) && IS_STORED(b))
#endif
#define COMPLETE(b) :: d_step { !complete && newest_number == 2 && IS_COMPLETE(b) -> complete = 1 }

#define IS_THERE(n) (number[1] == n || number[2] == n || number[3] == n || number[ROWS] == n)
#ifdef AGAIN
#define EACH_VOTER(X, p) X(p, 0) X(p, 1) X(p, 2)
#define LEARN_3
#else
#define EACH_VOTER(X, p) X(p, 0) X(p, 1) X(p, 2) X(p, 3)
#define LEARN_3 LEARN(3) RESTART(3)
#endif
#define ROW(b)                                                                                     \
    PROPOSE(b) COMPLETE(b) KEEP(b) GO_ON(b)                                                        \
    EACH_VOTER(PROMISE, b) EACH_VOTER(CONFIRM, b) EACH_VOTER(ACCEPT, b)

active proctype cell()
{
    d_step { knows[0] = 1; knows[1] = 1; knows[2] = 1; knows[3] = 1 }
#ifdef NUMBERS
    /* the last digit is that of ballot ROWS */
#if ROWS == 2
    d_step { number[1] = NUMBERS / 10; number[2] = NUMBERS % 10 }
#else
    d_step { number[1] = NUMBERS / 100; number[2] = NUMBERS / 10 % 10; number[3] = NUMBERS % 10 }
#endif
#else
    if :: number[1] = 1 :: number[1] = 2 :: number[1] = 3 fi;
    if :: number[2] = 1 :: number[2] = 2 :: number[2] = 3 fi;
#if ROWS >= 3
    if :: number[3] = 1 :: number[3] = 2 :: number[3] = 3 fi;
#endif
#if ROWS >= 4
    if :: number[4] = 1 :: number[4] = 2 :: number[4] = 3 fi;
#endif
#if ROWS >= 3 && !defined(ANY_NUMBERS)
    IS_THERE(1) && IS_THERE(2) && IS_THERE(3);
#endif
#endif
    do
    CHOSEN
    LEARN(0) LEARN(1) LEARN(2) LEARN_3
    RESTART(0) RESTART(1) RESTART(2)
    EMPTY
    ROW(1) ROW(2)
#if ROWS >= 3
    ROW(3)
#endif
#if ROWS >= 4
    ROW(4)
#endif
    EACH_VOTER(CATCH_UP, 0) EACH_VOTER(CATCH_UP, 1) EACH_VOTER(CATCH_UP, 2)
#ifndef AGAIN
    EACH_VOTER(CATCH_UP, 3)
#endif
    od
}
