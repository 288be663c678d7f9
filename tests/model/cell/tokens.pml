/*
 * Tokens of one lock between two hosts. Host 0 has the lock exclusively, shares it, has it
 * exclusively again, or gets more tokens. It has readers, and its agent may be restarted at any
 * time. Host 1 only reads. grants.pml models ballots. Here the register changes at once, by
 * whichever message of host 0 arrives. Messages may arrive late, many times and in any order, as
 * long as the register has the version that they name.
 *
 * A take is one step, so its call begins when it returns. That is the strictest order of calls.
 *
 * Promised, in every state:
 *   - an exclusive hold's token is above that of all holds before;
 *   - a shared hold's token is not below that of any hold before, on either host;
 *   - no process writes while a process of the other host reads.
 *
 * Rules, each broken by a -D (mutants/):
 *   t1  a grant that is made shared has the last token that was used, not the range's last
 *   t2  a message that makes the grant shared names that token, which must be in the present range
 *   t3  a word that was made shared is exclusive again only with higher tokens
 *   t4  a host whose word was shared when its agent restarted gives the lock back once it is free
 *   t5  the tokens that are given back begin above the used ones
 * If no token of the range was used yet, a message that makes the grant shared names the range's
 * first token. That is no rule of safety: with an older token the message would change nothing, and
 * the other host would wait until the readers have gone.
 */
#ifndef TOKENS
#define TOKENS 9 /* the model uses no higher tokens */
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#define RANGE 2  /* the size of a first range */
#define LARGER 3 /* the size of a range that follows a used-up one */
#define TOP (TOKENS + LARGER + 2)

mtype = { none, exclusive, shared };
mtype = { nothing, sharing, upgrading, extending };

/* The register of the coordinator. */
mtype r_mode = none;
byte r_first = 1; /* exclusive: the range's first token; shared: the token; none: the first token
                   * of the next range */
byte r_last;
bit r_share[2];

/* Host 0: what its agent knows, the word, and what its processes do. */
mtype mode = none;
byte first, last;
byte word;
mtype asked = nothing;
bit adopted; /* after a restart no new hold begins until the agent has asked the register */
bit reads, writes;
byte restarts;

/* Host 1, whose processes only read. */
bit share_there, reads_there;
byte token_there;

byte highest; /* the highest token of all holds so far */

/* Messages on their way that name the register's present version. */
bit share_sent[TOP];   /* index: the last used token */
bit upgrade_sent[TOP]; /* index: the shared token */
bit more_sent[TOP];    /* index: the range's last token */
byte share_last[TOP];  /* used by the mutant of t2 only */

byte n; /* scratch */

#define HIGHER(a, b) ((a) > (b) -> (a) : (b))

#define FORGET /* the version ends, and the messages that name it are void */                      \
    n = 0;                                                                                         \
    do                                                                                             \
    :: n < TOP ->                                                                                  \
        share_sent[n] = 0; upgrade_sent[n] = 0; more_sent[n] = 0; share_last[n] = 0; n++           \
    :: else -> break                                                                               \
    od;                                                                                            \
    n = 0

#define LEASE(from, size) r_first = from; r_last = (from) + (size) - 1

#define SEND_SHARE                                                                                 \
    share_sent[word] = 1;                                                                          \
    share_last[word] = last;                                                                       \
    asked = sharing

/* Host 0 takes over the register's state, as the answer to its message. */
#ifdef BREAK_T3_EXCLUSIVE_AGAIN
#define STAYS_SHARED 0
#else
#define STAYS_SHARED (mode == shared && r_mode == exclusive && word >= r_first)
#endif
#define ANSWER                                                                                     \
    asked = nothing;                                                                               \
    adopted = 0;                                                                                   \
    if                                                                                             \
    :: STAYS_SHARED -> first = r_first; last = r_last                                              \
    :: !STAYS_SHARED && r_mode == exclusive ->                                                     \
        mode = exclusive; first = r_first; last = r_last; word = HIGHER(word, r_first - 1)         \
    :: r_mode == shared -> mode = shared; first = r_first; last = r_first;                         \
        word = HIGHER(word, r_first)                                                               \
    :: else                                                                                        \
    fi

#ifdef BREAK_T5_GIVEN_BACK_AS_LEASED
#define NEXT_AFTER(used) r_first
#else
#define NEXT_AFTER(used) HIGHER(r_first, (used) + 1)
#endif
#define GIVE_BACK(used)                                                                            \
    if                                                                                             \
    :: r_mode == exclusive -> r_first = NEXT_AFTER(used); r_mode = none                            \
    :: r_mode == shared && !r_share[1] -> r_first = r_first + 1; r_mode = none                     \
    :: else                                                                                        \
    fi;                                                                                            \
    r_share[0] = 0; mode = none; asked = nothing; adopted = 0;                                     \
    FORGET

/* Whether the message's token is in the present range. */
#ifdef BREAK_T2_BY_THE_LAST_OF_THE_RANGE
#define OF_THE_RANGE(u) (share_last[u] == r_last)
#else
#define OF_THE_RANGE(u) ((u) >= r_first && (u) <= r_last)
#endif
#ifdef BREAK_T1_TOP_OF_THE_RANGE
#define SHARED_TOKEN(u) r_last
#else
#define SHARED_TOKEN(u) (u)
#endif
#define SHARE_ARRIVES(u) /* the message arrives; the answer may be lost */                         \
    :: d_step { share_sent[u] && r_mode == exclusive && OF_THE_RANGE(u) ->                         \
            r_first = SHARED_TOKEN(u); r_mode = shared; r_share[0] = 1 }

#define UPGRADE_ARRIVES(t)                                                                         \
    :: d_step { upgrade_sent[t] && r_mode == shared && r_first == t && r_share[0] &&               \
                !r_share[1] ->                                                                     \
            r_mode = exclusive; r_share[0] = 0; LEASE((t) + 1, RANGE) }

#define MORE_ARRIVES(l)                                                                            \
    :: d_step { more_sent[l] && r_mode == exclusive && r_last == l ->                              \
            LEASE((l) + 1, LARGER) }

#define ARRIVES(x) SHARE_ARRIVES(x) UPGRADE_ARRIVES(x) MORE_ARRIVES(x)

#ifdef BREAK_T4_TAKES_WHAT_WAS_SHARED
#define EMPTY_GOES_ON 1
#else
#define EMPTY_GOES_ON (mode == exclusive)
#endif

init {
    do
    /* Host 0 gets the grant. */
    :: d_step { mode == none && r_mode == none && r_first < TOKENS ->
            LEASE(r_first, RANGE); r_mode = exclusive;
            mode = exclusive; first = r_first; last = r_last; word = HIGHER(word, r_first - 1) }
    /* Host 0's processes. */
    :: d_step { mode == exclusive && !adopted && !reads && !writes && word < last ->
            word++;
            assert(word > highest);
            assert(!reads_there);
            highest = word; writes = 1 }
    :: d_step { writes -> writes = 0 }
    :: d_step { mode != none && !adopted && !reads && !writes ->
            assert(word >= highest);
            highest = word; reads = 1 }
    :: d_step { reads -> reads = 0 }
    /* Host 0's agent. */
    :: d_step { mode == exclusive && !adopted && asked == nothing && reads && !writes ->
            word = HIGHER(word, first); mode = shared; SEND_SHARE }
    :: d_step { mode == shared && !adopted && asked == nothing && reads && last < TOKENS ->
            upgrade_sent[last] = 1; more_sent[last] = 1; asked = upgrading }
    :: d_step { mode == exclusive && !adopted && asked == nothing && word == last &&
                last < TOKENS ->
            more_sent[last] = 1; asked = extending }
    :: d_step { mode == shared && !adopted && asked == sharing && r_mode == shared -> ANSWER }
    :: d_step { asked == upgrading || asked == extending -> ANSWER } /* the message may have been
                                                                      * refused */
    :: d_step { mode == shared && asked == sharing -> asked = nothing } /* the message was
                                                                         * refused */
    :: d_step { mode != none && !adopted && asked == nothing && !reads && !writes ->
            GIVE_BACK(word) }
    :: d_step { restarts < RESTARTS && mode != none ->
            restarts++; asked = nothing; adopted = 1 }
    :: d_step { adopted && !reads && !writes && !EMPTY_GOES_ON -> GIVE_BACK(r_last) }
    :: d_step { adopted && !reads && !writes && EMPTY_GOES_ON && mode == shared ->
            mode = none; ANSWER }
    :: d_step { adopted && !(EMPTY_GOES_ON && mode == shared && !reads) &&
                (reads || writes || mode == exclusive) ->
            ANSWER;
            if
            :: mode == shared && r_mode == exclusive -> SEND_SHARE
            :: else
            fi }
    /* Host 1's agent and processes. */
    :: d_step { !share_there && r_mode == shared ->
            r_share[1] = 1; share_there = 1; token_there = r_first }
    :: d_step { !share_there && r_mode == none && r_first > 1 ->
            r_mode = shared; r_first = r_first - 1; r_share[1] = 1; share_there = 1;
            token_there = r_first }
    :: d_step { share_there && !reads_there ->
            assert(token_there >= highest);
            assert(!writes);
            highest = token_there; reads_there = 1 }
    :: d_step { reads_there -> reads_there = 0 }
    :: d_step { share_there && !reads_there ->
            share_there = 0; r_share[1] = 0; token_there = 0;
            if
            :: !r_share[0] -> r_mode = none; r_first = r_first + 1
            :: else
            fi }
    /* Messages arrive, with each possible token. */
    ARRIVES(1) ARRIVES(2) ARRIVES(3) ARRIVES(4) ARRIVES(5) ARRIVES(6) ARRIVES(7) ARRIVES(8)
    ARRIVES(9) ARRIVES(10) ARRIVES(11) ARRIVES(12)
    od
}
