/*
 * One lock's register in a cell of three voters, two of which coordinate, and two hosts: ballots and
 * sequences, take-over, catch-up, restarts, grants and give-backs by version.
 *
 * Messages are not queued: what was sent stays where it is read from, so each may arrive late, twice,
 * or never, in any order. A proposal is a row of a table by its order (ballot, sequence); an
 * acceptor may take it from there at any time. `took` remembers who ever told that it accepted.
 *
 * A grant leases one token, and being granted is holding: a host that has a grant in force issues
 * that token at once. What ends a session is session.pml's affair: here a host's session may die
 * once, and by then its grants are not in force (that is what session.pml promises).
 *
 * Promised, in every state:
 *   - no two hosts have a grant in force (at one instant of true time);
 *   - the token of each grant put in force is above all before;
 *   - what a majority accepted at an order is what every later proposal follows from: no chosen
 *     value is forgotten (seen by the two above, and by the check at each choice).
 *
 * Rules (each broken by a -D, mutants/):
 *   g1  a ballot needs the promises of a majority          g2  an acceptor refuses lower ballots
 *   g3  promises and values are durable before the answer  g4  a restarted coordinator uses a new round
 *   g5  a value that was read is accepted again before anybody acts on it
 *   g6  one round at a time: the next value follows from a chosen one
 *   g7  a give-back applies only to the version that the register has
 *   g8  a host refuses grants at or below a version that it gave back
 *   g9  after a death the next token is above the leased one
 *   g10 catch-up only ever takes newer values
 *   g11 an own vote counts when it is durable
 *
 * That a host asks again only when its give-back was acknowledged is no rule of safety here (g8 is
 * enough): without it its request may be answered with the grant that it refuses, and nobody asks
 * again. It is modelled as it is.
 */
#define V 3
#ifndef ROUNDS
#define ROUNDS 3 /* ballots 1..ROUNDS; odd ones are coordinator 0's, even ones coordinator 1's */
#endif
#ifndef SEQUENCES
#define SEQUENCES 3
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#define ORDERS ((ROUNDS + 1) * 4)
#define ORDER(b, s) ((b) * 4 + (s))
#define BALLOT(o) ((o) / 4)
#ifdef BREAK_G1_NO_MAJORITY
#define MAJORITY 1
#else
#define MAJORITY 2
#endif
#define NOBODY 0 /* owners are host + 1 */

/* Proposals, by order. */
byte p_owner[ORDERS];
byte p_version[ORDERS];
byte p_token[ORDERS]; /* leased, or to be leased next */
byte took[ORDERS];    /* bits: acceptors that said that they accepted it */

/* Acceptors. */
byte promised[V];
byte accepted[V]; /* an order; 0: none */

/* Coordinators (0 and 1). */
mtype = { down, preparing, reading, ready, proposing };
mtype state[2];
byte ballot[2];
byte sequence[2];
byte heard[2];  /* bits: acceptors that answered in this phase */
byte newest[2]; /* the newest order that was read; then: the order of what is known */
bit known[2];   /* a majority has it, under this ballot (or nothing at all) */
byte rounds_used; /* the highest ballot of anybody: a new one is above what its owner heard of */
byte restarts;

/* Hosts. */
byte asking[2];  /* 0 no, 1 yes */
byte in_force[2]; /* version + 1 of the grant in force */
byte returning[2]; /* version + 1 of the grant given back and not acknowledged */
byte refuses[2]; /* grants at or below this version */
bit dead[2];
bit death_known; /* that a majority marked it */
byte deaths;
byte issued; /* the highest token of all */
bit gave_any[2];
bit gave[ORDERS];  /* a give-back of that version is on its way */
bit acked[ORDERS]; /* an acknowledgement of it is */
bit granted[ORDERS]; /* the grant of that version is on its way to its owner */

#define COUNT(mask) ((mask & 1) + ((mask >> 1) & 1) + ((mask >> 2) & 1))

byte o, n; /* scratch, 0 between steps */

#define PROPOSE(c, owner, version, token)                                                          \
    sequence[c]++;                                                                                 \
    o = ORDER(ballot[c], sequence[c]);                                                             \
    p_token[o] = token;                                                                            \
    p_version[o] = ((version) == 0 && (owner) != NOBODY -> o : (version));                         \
    p_owner[o] = owner;                                                                            \
    took[o] = 0;                                                                                   \
    state[c] = proposing;                                                                          \
    known[c] = 0;                                                                                  \
    heard[c] = 0;                                                                                  \
    o = 0

/* What the coordinator knows; newest 0: a name never used. */
#define TOKEN_NOW(c) (newest[c] == 0 -> 1 : p_token[newest[c]])
#define OWNER_NOW(c) (newest[c] == 0 -> NOBODY : p_owner[newest[c]])
#define VERSION_NOW(c) (newest[c] == 0 -> 0 : p_version[newest[c]])

/* A chosen (or known) value is told: the grant to its owner, and every give-back of another version
 * is acknowledged. */
#define TELL(c)                                                                                    \
    if                                                                                             \
    :: OWNER_NOW(c) != NOBODY -> granted[VERSION_NOW(c)] = 1                                       \
    :: else                                                                                        \
    fi;                                                                                            \
    n = 4;                                                                                         \
    do                                                                                             \
    :: n < ORDERS ->                                                                               \
        acked[n] = acked[n] || (gave[n] && (OWNER_NOW(c) == NOBODY || n != VERSION_NOW(c)));       \
        n++                                                                                        \
    :: else -> break                                                                               \
    od;                                                                                            \
    n = 0

/* ---- coordinators ---- */

/* The next round of its own, above all that were used. */
#define NEXT_ROUND(c) (rounds_used + 1 + ((rounds_used + 1) % 2 == (c)))

#define TAKE_OVER(c) /* takes the partition up under a new ballot */                               \
    :: d_step { NEXT_ROUND(c) <= ROUNDS ->                                                         \
            ballot[c] = NEXT_ROUND(c);                                                             \
            rounds_used = ballot[c];                                                               \
            sequence[c] = 0; heard[c] = 0; newest[c] = 0; known[c] = 0; state[c] = preparing       \
        }

#define PROMISE(c, a) /* an acceptor promises, and the answer arrives */                           \
    :: d_step { state[c] == preparing && ballot[c] >= promised[a] && !((heard[c] >> a) & 1) ->     \
            promised[a] = ballot[c];                                                               \
            heard[c] = heard[c] | (1 << a);                                                        \
            if                                                                                     \
            :: COUNT(heard[c]) >= MAJORITY -> state[c] = reading; heard[c] = 0                     \
            :: else                                                                                \
            fi                                                                                     \
        }

#ifdef BREAK_G5_ACTS_ON_WHAT_IT_READ
#define HAS_READ(c) known[c] = 1; TELL(c)
#else
#define HAS_READ(c) known[c] = (newest[c] == 0)
#endif
#define READ(c, a) /* an acceptor tells what it has */                                             \
    :: d_step { state[c] == reading && ballot[c] >= promised[a] && !((heard[c] >> a) & 1) ->       \
            promised[a] = ballot[c];                                                               \
            heard[c] = heard[c] | (1 << a);                                                        \
            if :: accepted[a] > newest[c] -> newest[c] = accepted[a] :: else fi;                   \
            if                                                                                     \
            :: COUNT(heard[c]) >= MAJORITY -> state[c] = ready; heard[c] = 0; HAS_READ(c)          \
            :: else                                                                                \
            fi                                                                                     \
        }

#define CHOSEN(c) /* a majority accepted */                                                        \
    :: d_step { state[c] == proposing &&                                                           \
                COUNT(took[ORDER(ballot[c], sequence[c])]) >= MAJORITY ->                          \
            newest[c] = ORDER(ballot[c], sequence[c]);                                             \
            state[c] = ready; known[c] = 1; TELL(c)                                                \
        }

#define READY(c) (state[c] == ready && sequence[c] < SEQUENCES)

#define AS_READ(c)                                                                                 \
    :: d_step { READY(c) && !known[c] -> PROPOSE(c, OWNER_NOW(c), VERSION_NOW(c), TOKEN_NOW(c)) }

#define GRANT(c, h)                                                                                \
    :: d_step { READY(c) && OWNER_NOW(c) == NOBODY && asking[h] && !dead[h] ->                     \
            PROPOSE(c, h + 1, 0, TOKEN_NOW(c)) }

#ifdef BREAK_G7_GIVE_BACK_OF_ANY_VERSION
#define GIVEN_BACK(c, h) (OWNER_NOW(c) == h + 1 && gave_any[h])
#else
#define GIVEN_BACK(c, h) (OWNER_NOW(c) == h + 1 && gave[VERSION_NOW(c)])
#endif
#define TAKE_BACK(c, h) /* and in the same accept the next one has it, or nobody */                \
    :: d_step { READY(c) && GIVEN_BACK(c, h) -> PROPOSE(c, NOBODY, 0, TOKEN_NOW(c) + 1) }          \
    :: d_step { READY(c) && GIVEN_BACK(c, h) && asking[1 - h] && !dead[1 - h] ->                   \
            PROPOSE(c, 2 - h, 0, TOKEN_NOW(c) + 1) }

#ifdef BREAK_G9_TOKEN_AFTER_DEATH
#define TOKEN_AFTER_DEATH(c) TOKEN_NOW(c)
#else
#define TOKEN_AFTER_DEATH(c) (TOKEN_NOW(c) + 1)
#endif
#define END_DEAD(c, h)                                                                             \
    :: d_step { READY(c) && OWNER_NOW(c) == h + 1 && dead[h] && death_known ->                     \
            PROPOSE(c, NOBODY, 0, TOKEN_AFTER_DEATH(c)) }

#ifdef BREAK_G6_BESIDE
#define BESIDE(c, h) /* while a value is on its way, another from the one before */                \
    :: d_step { state[c] == proposing && sequence[c] < SEQUENCES && OWNER_NOW(c) == NOBODY &&      \
                asking[h] -> PROPOSE(c, h + 1, 0, TOKEN_NOW(c)) }                                  \
    :: d_step { sequence[c] > 1 && p_owner[ORDER(ballot[c], sequence[c] - 1)] == h + 1 &&          \
                COUNT(took[ORDER(ballot[c], sequence[c] - 1)]) >= MAJORITY ->                      \
            granted[ORDER(ballot[c], sequence[c] - 1)] = 1 }
#else
#define BESIDE(c, h)
#endif

#ifdef BREAK_G4_BALLOT_AGAIN
#define AFTER_KILL(c) state[c] = preparing; sequence[c] = 0; heard[c] = 0; newest[c] = 0; known[c] = 0
#else
#define AFTER_KILL(c) state[c] = down
#endif
#if defined(BREAK_G3_VALUE_FORGOTTEN)
#define AFTER_LOSS(c) accepted[c] = 0
#elif defined(BREAK_G3_PROMISE_FORGOTTEN)
#define AFTER_LOSS(c) promised[c] = (accepted[c] > 0 -> BALLOT(accepted[c]) : 0)
#elif defined(BREAK_G11_OWN_VOTE_EARLY) /* it was counted, and was not on the disk yet */
#define AFTER_LOSS(c)                                                                              \
    if                                                                                             \
    :: accepted[c] > 0 && BALLOT(accepted[c]) == ballot[c] -> accepted[c] = 0                      \
    :: else                                                                                        \
    fi
#else
#define AFTER_LOSS(c) skip
#endif
#define KILL(c) /* what it knew is gone; its acceptor is on its disk */                            \
    :: d_step { restarts < RESTARTS && state[c] != down ->                                         \
            restarts++; AFTER_LOSS(c); AFTER_KILL(c) }

/* ---- acceptors ---- */

#ifdef BREAK_G2_ACCEPTS_LOWER
#define MAY_ACCEPT(a, x) 1
#else
#define MAY_ACCEPT(a, x) (BALLOT(x) >= promised[a])
#endif
#define ACCEPT(a, x)                                                                               \
    :: d_step { x < ORDERS && p_token[x] > 0 && MAY_ACCEPT(a, x) && x > accepted[a] ->             \
            accepted[a] = x;                                                                       \
            if :: BALLOT(x) > promised[a] -> promised[a] = BALLOT(x) :: else fi;                   \
            took[x] = took[x] | (1 << a)                                                           \
        }

#ifdef BREAK_G10_CATCH_UP_TAKES_ANY
#define NEWER(x, a) (accepted[x] > 0 && accepted[x] != accepted[a])
#else
#define NEWER(x, a) (accepted[x] > accepted[a])
#endif
#define CATCH_UP(a, x)                                                                             \
    :: d_step { NEWER(x, a) ->                                                                     \
            accepted[a] = accepted[x];                                                             \
            if                                                                                     \
            :: BALLOT(accepted[a]) > promised[a] -> promised[a] = BALLOT(accepted[a])              \
            :: else                                                                                \
            fi                                                                                     \
        }

/* ---- hosts ---- */

#define ASK(h)                                                                                     \
    :: d_step { !dead[h] && !asking[h] && !in_force[h] && !returning[h] -> asking[h] = 1 }

#ifdef BREAK_G8_TAKES_OLD_GRANTS
#define NOT_REFUSED(h, x) 1
#else
#define NOT_REFUSED(h, x) (x > refuses[h])
#endif
#define GRANTED(h, x) /* a grant arrives, perhaps again */                                         \
    :: d_step { x < ORDERS && granted[x] && p_owner[x] == h + 1 && !dead[h] && asking[h] &&        \
                NOT_REFUSED(h, x) ->                                                               \
            in_force[h] = x + 1;                                                                   \
            asking[h] = 0;                                                                         \
            assert(!in_force[1 - h]);                                                              \
            assert(p_token[x] > issued);                                                           \
            issued = p_token[x]                                                                    \
        }

#define GIVE_BACK(h)                                                                               \
    :: d_step { in_force[h] && !dead[h] ->                                                         \
            returning[h] = in_force[h];                                                            \
            refuses[h] = in_force[h] - 1;                                                          \
            gave[in_force[h] - 1] = 1;                                                             \
            gave_any[h] = 1;                                                                       \
            in_force[h] = 0                                                                        \
        }

#define ACKED(h) :: d_step { returning[h] && acked[returning[h] - 1] -> returning[h] = 0 }

#define DIES(h) /* its session ends; what it had is in force no more */                            \
    :: d_step { deaths < DEATHS && !dead[h] ->                                                     \
            deaths++; dead[h] = 1; in_force[h] = 0; asking[h] = 0; returning[h] = 0 }

#define EACH_ORDER(X, i) X(i, 5) X(i, 6) X(i, 7) X(i, 9) X(i, 10) X(i, 11) X(i, 13) X(i, 14) X(i, 15)
#define COORDINATOR(c)                                                                             \
    TAKE_OVER(c) PROMISE(c, 0) PROMISE(c, 1) PROMISE(c, 2) READ(c, 0) READ(c, 1) READ(c, 2)        \
    CHOSEN(c) AS_READ(c) GRANT(c, 0) GRANT(c, 1) TAKE_BACK(c, 0) TAKE_BACK(c, 1) END_DEAD(c, 0)    \
    END_DEAD(c, 1) BESIDE(c, 0) BESIDE(c, 1) KILL(c)
#define HOST(h) ASK(h) EACH_ORDER(GRANTED, h) GIVE_BACK(h) ACKED(h) DIES(h)

active proctype cell()
{
    d_step { state[0] = down; state[1] = down }
    do
    COORDINATOR(0) COORDINATOR(1)
    EACH_ORDER(ACCEPT, 0) EACH_ORDER(ACCEPT, 1) EACH_ORDER(ACCEPT, 2)
    CATCH_UP(0, 1) CATCH_UP(0, 2) CATCH_UP(1, 0) CATCH_UP(1, 2) CATCH_UP(2, 0) CATCH_UP(2, 1)
    HOST(0) HOST(1)
    :: d_step { (dead[0] || dead[1]) && !death_known -> death_known = 1 }
    od
}
