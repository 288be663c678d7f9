/*
 * One lock's register in a cell of three voters and two hosts. Two of the voters coordinate. The
 * model has ballots and sequences, take-over, catch-up, restarts, and grants and give-backs by
 * version.
 *
 * Messages are not queued. What was sent stays readable, so each message may arrive late, twice or
 * never, in any order. A proposal is a row of a table, whose index is its order (ballot, sequence).
 * An acceptor may take the proposal from the table at any time. `took` records which acceptors
 * reported that they accepted it.
 *
 * A grant leases one token. A host that gets a grant issues the grant's token at once, so a grant
 * in force is a hold. session.pml models the end of sessions. Here each host's session may die
 * once, and from then on its grants are not in force, as session.pml promises.
 *
 * Promised, in every state:
 *   - no two hosts have a grant in force at one instant of true time;
 *   - each grant that comes into force has a higher token than all before;
 *   - every later proposal follows from the value that a majority accepted at an order. So no
 *     chosen value is forgotten. The two promises above show that, and so does the check at each choice.
 *
 * Rules, each broken by a -D (mutants/):
 *   g1  a ballot needs the promises of a majority          g2  an acceptor refuses lower ballots
 *   g3  promises and values are durable before the answer  g4  a restarted coordinator uses a new round
 *   g5  a value that a coordinator read is accepted again before it is used
 *   g6  one round at a time: the next value follows from a chosen one
 *   g7  a give-back applies only to the version that the register has
 *   g8  a host refuses grants at or below a version that it gave back
 *   g9  after a death the next token is above the leased one
 *   g10 catch-up only takes newer values
 *   g11 a coordinator's own vote counts when it is durable
 *
 * A host requests the lock again only when its give-back was acknowledged. That is modelled, but it
 * is no rule of safety, because g8 suffices. Without it the coordinator might answer the request
 * with the grant that the host refuses, and the host would wait for ever.
 */
#define V 3
#ifndef ROUNDS
#define ROUNDS 3 /* ballots are 1..ROUNDS; the odd ones are coordinator 0's, the even ones
                  * coordinator 1's */
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
#define NOBODY 0 /* an owner is a host's number + 1 */

/* Proposals. The index is the order. */
byte p_owner[ORDERS];
byte p_version[ORDERS];
byte p_token[ORDERS]; /* the leased token, or the next one to be leased */
byte took[ORDERS];    /* bits of the acceptors that reported that they accepted it */

/* Acceptors. */
byte promised[V];
byte accepted[V]; /* an order; 0: none */

/* Coordinators (0 and 1). */
mtype = { down, preparing, reading, ready, proposing };
mtype state[2];
byte ballot[2];
byte sequence[2];
byte answered[2];  /* bits of the acceptors that answered in this phase */
byte newest[2]; /* the newest order that was read; later the order of the known value */
bit known[2];   /* a majority has the value under this ballot, or there is no value */
byte rounds_used; /* the highest ballot of all; a new ballot is above it */
byte restarts;

/* Hosts. */
byte asking[2];  /* 0: no, 1: yes */
byte in_force[2]; /* version + 1 of the grant in force */
byte returning[2]; /* version + 1 of the grant that was given back, until the acknowledgement */
byte refuses[2]; /* the host refuses grants at or below this version */
bit dead[2];
bit death_known; /* the coordinators know that a majority marked the session */
byte deaths;
byte issued; /* the highest token that any host issued */
bit gave_any[2];
bit gave[ORDERS];  /* a give-back of that version is on its way */
bit acked[ORDERS]; /* an acknowledgement of that give-back is on its way */
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
    answered[c] = 0;                                                                                  \
    o = 0

/* What the coordinator knows. newest 0 means that the name was never used. */
#define TOKEN_NOW(c) (newest[c] == 0 -> 1 : p_token[newest[c]])
#define OWNER_NOW(c) (newest[c] == 0 -> NOBODY : p_owner[newest[c]])
#define VERSION_NOW(c) (newest[c] == 0 -> 0 : p_version[newest[c]])

/* Sends a chosen or known value: the grant to its owner, and an acknowledgement of every give-back
 * of another version. */
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

/* The coordinator's next own ballot that is above all used ones. */
#define NEXT_ROUND(c) (rounds_used + 1 + ((rounds_used + 1) % 2 == (c)))

#define TAKE_OVER(c) /* takes the partition over with a new ballot */                              \
    :: d_step { NEXT_ROUND(c) <= ROUNDS ->                                                         \
            ballot[c] = NEXT_ROUND(c);                                                             \
            rounds_used = ballot[c];                                                               \
            sequence[c] = 0; answered[c] = 0; newest[c] = 0; known[c] = 0; state[c] = preparing       \
        }

#define PROMISE(c, a) /* an acceptor promises, and its answer arrives */                           \
    :: d_step { state[c] == preparing && ballot[c] >= promised[a] && !((answered[c] >> a) & 1) ->     \
            promised[a] = ballot[c];                                                               \
            answered[c] = answered[c] | (1 << a);                                                        \
            if                                                                                     \
            :: COUNT(answered[c]) >= MAJORITY -> state[c] = reading; answered[c] = 0                     \
            :: else                                                                                \
            fi                                                                                     \
        }

#ifdef BREAK_G5_ACTS_ON_WHAT_IT_READ
#define HAS_READ(c) known[c] = 1; TELL(c)
#else
#define HAS_READ(c) known[c] = (newest[c] == 0)
#endif
#define READ(c, a) /* an acceptor reports its value */                                             \
    :: d_step { state[c] == reading && ballot[c] >= promised[a] && !((answered[c] >> a) & 1) ->       \
            promised[a] = ballot[c];                                                               \
            answered[c] = answered[c] | (1 << a);                                                        \
            if :: accepted[a] > newest[c] -> newest[c] = accepted[a] :: else fi;                   \
            if                                                                                     \
            :: COUNT(answered[c]) >= MAJORITY -> state[c] = ready; answered[c] = 0; HAS_READ(c)          \
            :: else                                                                                \
            fi                                                                                     \
        }

#define CHOSEN(c) /* a majority has accepted the value */                                          \
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
#define TAKE_BACK(c, h) /* takes a grant back, for the next owner or for none */                   \
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
#define BESIDE(c, h) /* proposes a second value while the first is on its way */                   \
    :: d_step { state[c] == proposing && sequence[c] < SEQUENCES && OWNER_NOW(c) == NOBODY &&      \
                asking[h] -> PROPOSE(c, h + 1, 0, TOKEN_NOW(c)) }                                  \
    :: d_step { sequence[c] > 1 && p_owner[ORDER(ballot[c], sequence[c] - 1)] == h + 1 &&          \
                COUNT(took[ORDER(ballot[c], sequence[c] - 1)]) >= MAJORITY ->                      \
            granted[ORDER(ballot[c], sequence[c] - 1)] = 1 }
#else
#define BESIDE(c, h)
#endif

#ifdef BREAK_G4_BALLOT_AGAIN
#define AFTER_KILL(c) state[c] = preparing; sequence[c] = 0; answered[c] = 0; newest[c] = 0; known[c] = 0
#else
#define AFTER_KILL(c) state[c] = down
#endif
#if defined(BREAK_G3_VALUE_FORGOTTEN)
#define AFTER_LOSS(c) accepted[c] = 0
#elif defined(BREAK_G3_PROMISE_FORGOTTEN)
#define AFTER_LOSS(c) promised[c] = (accepted[c] > 0 -> BALLOT(accepted[c]) : 0)
#elif defined(BREAK_G11_OWN_VOTE_EARLY) /* the vote was counted before it was on the disk */
#define AFTER_LOSS(c)                                                                              \
    if                                                                                             \
    :: accepted[c] > 0 && BALLOT(accepted[c]) == ballot[c] -> accepted[c] = 0                      \
    :: else                                                                                        \
    fi
#else
#define AFTER_LOSS(c) skip
#endif
#define KILL(c) /* a restart: knowledge is lost, and the acceptor's state comes from its disk */   \
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

#define DIES(h) /* a session ends, and its grants are no longer in force */                        \
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
