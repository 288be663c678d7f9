/*
 * The lock word's protocol (proto/lockword.c, lockwait.c, lockagent.c; rules in
 * proto/include/proto/lockword.h) as spin checks it: N clients and the agent on one lock.
 *
 * Each atomic operation of the code is one step here; everything else is private to its process
 * and belongs to the step before it. All operations that are modelled are seq_cst in the code, so
 * interleaving is what the hardware may do. A client may be killed between any two steps; the agent
 * then does what it has to do, step by step, while the others run on.
 *
 * Left out: leases and epochs (a lapse is an undo, UNDO), limits, bargers, retired slots, futex
 * timeouts. Tickets and tokens do not wrap. A handle, its holder id and its seat are one number.
 *
 * What is asserted (hold[] and the others below are ghosts: no decision looks at them):
 *   - a writer's hold excludes every other, from its last look at the word to the swap that ends
 *     it, or, if its process dies, to the swap by which the agent takes it away
 *   - no hold begins between such a swap that closes the lock and hfi_open()
 *   - each exclusive hold has a higher token than any before it
 *   - nobody's hold is taken from it while it lives
 *   - nobody takes the lock past a cell that says WAITING; no hand-over overtakes one (FIFO)
 *   - nobody sleeps for ever: no end state but "all done", everybody's last hold released
 *   - at the end the word is free, open, and no ticket is left behind
 *
 * What is varied by -D: N clients, TWICE, GIVES_UP, READERS, KILLS, REBIRTHS, RECALLS, UNDO, TOKENS.
 * -DBREAK_... leaves out a step that the rules ask for: mutants/ lists them, and spin has to find
 * each. run.sh is the driver.
 */
#ifndef N
#define N 3
#endif
#ifndef TWICE
#define TWICE 0 /* bit i: client i comes a second time */
#endif
#ifndef GIVES_UP
#define GIVES_UP 14 /* bit i: client i may give up */
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef REBIRTHS
#define REBIRTHS 0
#endif
#ifndef RECALLS
#define RECALLS 0
#endif
#ifndef TOKENS
#define TOKENS 100
#endif

#define AGENT (N + 1)

/* The word: holder, bits, token. */
#define HOLDER 7
#define WAITERS 8
#define CLOSED 16
#define RECALL 32
#define MODE 64
#define TOKEN 256
#define TOKEN_OF(w) ((w) >> 8)
#define NAMES(w, h, t) (((w) & HOLDER) == (h) && TOKEN_OF(w) == (t))
#define HAS_TOKENS(w) (TOKEN_OF(w) < top)

/* A place in the queue: flags, ticket. */
#define JOINING 1
#define WAITING 2
#define LEFT 4
#define PASSED 8
#define SHARED 16
#define TICKET 32
#define TICKET_OF(c) ((c) >> 5)
#define COUNTS(c) ((c) & (JOINING | WAITING))

/* Why the word cannot be taken: obstacle() */
#define USABLE(w, shared) \
    (!((w) & (CLOSED | RECALL | HOLDER)) && ((w) & MODE) && ((shared) || HAS_TOKENS(w)))
#define UNGRANTED(w) (!((w) & CLOSED) && (((w) & RECALL) || !((w) & MODE) || \
                      (!((w) & HOLDER) && !HAS_TOKENS(w))))

short word = MODE;
short top = TOKENS;
short cell[AGENT + 1];  /* hfi_block.wait */
bool reader[AGENT + 1]; /* hfi_seat.reader: its count */
byte record[AGENT + 1]; /* hfi_holder.handing_to */
bool woken[AGENT + 1];  /* hfi_seat.wake changed since it was last read by its sleeper */
bool slot_woken;        /* hfi_slot.wake, the same: only the draining writer sleeps on it */
bool bell;
byte ticket_next = 1;
byte admit;
byte handovers;

/* Ghosts. */
#define EXCLUSIVE 1
#define SHARED_HOLD 2
byte hold[AGENT + 1];
bool delay;       /* closed behind a hold that was lost */
byte token_last;
byte dead[AGENT + 1]; /* 1: killed, 2: and no process will have its numbers again */
bool down[AGENT + 1];  /* its process has stopped: what it knew is forgotten */
bool buried[AGENT + 1];
byte done;
byte kills = KILLS;
#ifdef FIFO
byte early[AGENT + 1]; /* by scanner: who was WAITING when its scan began */
#endif

#define LOOK_AT(i, seat, value, writers_only) \
    if \
    :: COUNTS(cell[i]) && !(writers_only && (cell[i] & SHARED)) && \
       (!seat || TICKET_OF(cell[i]) < TICKET_OF(value)) -> seat = i; value = cell[i] \
    :: else \
    fi

/* Whose word is given away: nobody but its holder does it, or the agent after its death. */
#define END_OF_HOLD(i) \
    if \
    :: i <= N && hold[i] == EXCLUSIVE && !serving -> \
        assert(i == me || (me == AGENT && dead[i])); \
        hold[i] = 0 \
    :: else \
    fi

/* The step in which an actor sees that it holds. */
#define NOW_WRITER(token) \
    FREE_FOR_WRITER(); \
    assert(token > token_last); \
    token_last = token; \
    hold[me] = EXCLUSIVE
#define NOW_READER() \
    FREE_FOR_READER(); \
    hold[me] = SHARED_HOLD

#define OTHERS_WAIT(i) ((cell[i] & WAITING) && i != me && !dead[i] && !hold[i])
#if N == 2
#define NOBODY_WAITS() assert(!OTHERS_WAIT(1) && !OTHERS_WAIT(2))
#define FREE_FOR_WRITER() assert(!hold[1] && !hold[2] && !delay)
#define FREE_FOR_READER() assert(hold[1] != EXCLUSIVE && hold[2] != EXCLUSIVE && !delay)
#else
#define NOBODY_WAITS() assert(!OTHERS_WAIT(1) && !OTHERS_WAIT(2) && !OTHERS_WAIT(3))
#define FREE_FOR_WRITER() assert(!hold[1] && !hold[2] && !hold[3] && !delay)
#define FREE_FOR_READER() assert(hold[1] != EXCLUSIVE && hold[2] != EXCLUSIVE && \
                                 hold[3] != EXCLUSIVE && !delay)
#endif

#ifdef FIFO
#define EARLY_BIT(i) ((COUNTS(cell[i]) & WAITING) && !dead[i] && !hold[i] -> 1 << i : 0)
#if N == 2
#define SEEN_EARLY() early[me] = EARLY_BIT(1) | EARLY_BIT(2)
#else
#define SEEN_EARLY() early[me] = EARLY_BIT(1) | EARLY_BIT(2) | EARLY_BIT(3)
#endif
#define NOT_EARLY() early[me] = 0
#define AHEAD(i, value) ((early[me] & (1 << i)) && (cell[i] & WAITING) && !dead[i] && \
                         TICKET_OF(cell[i]) < TICKET_OF(value))
#if N == 2
#define IN_ORDER(seat, value) assert(!AHEAD(1, value) && !AHEAD(2, value))
#define JOINED_ANEW() d_step { early[1] = early[1] & ~(1 << me); early[2] = early[2] & ~(1 << me); \
                               early[AGENT] = early[AGENT] & ~(1 << me) }
#else
#define IN_ORDER(seat, value) assert(!AHEAD(1, value) && !AHEAD(2, value) && !AHEAD(3, value))
#define JOINED_ANEW() d_step { early[1] = early[1] & ~(1 << me); early[2] = early[2] & ~(1 << me); \
                               early[3] = early[3] & ~(1 << me); \
                               early[AGENT] = early[AGENT] & ~(1 << me) }
#endif
#else
#define SEEN_EARLY() skip
#define NOT_EARLY() skip
#define IN_ORDER(seat, value) skip
#define JOINED_ANEW() skip
#endif

/* Private to each actor; set back when a procedure is over, so that states fall together. */
#define LOCALS \
    short sv; short nx; byte ps; short pv; byte k = 1; bool serving; byte handed; byte rh; \
    short rt; byte ret

#include "client.pml"
#include "agent.pml"

init {
    atomic {
        byte i = 1;
        run agent(AGENT);
        do
        :: i <= N -> run client(i); i++
        :: else -> break
        od;
        i = 0
    }
#if KILLS
    do /* kills anybody at any instruction */
    :: atomic { kills -> kills--; if
#ifdef VICTIM
       :: !dead[VICTIM] -> dead[VICTIM] = 1
#else
       :: !dead[1] -> dead[1] = 1
       :: !dead[2] -> dead[2] = 1
#if N > 2
       :: !dead[3] -> dead[3] = 1
#endif
#endif
       fi }
    :: atomic { kills -> kills = 0; break } /* or does not */
    :: atomic { !kills -> break }
    od;
#endif
}
