/*
 * The lock word's protocol (proto/lockword.c, lockwait.c, lockagent.c; its rules are in
 * proto/include/proto/lockword.h) as spin checks it: N clients and the agent use one lock.
 *
 * Each atomic operation of the code is one step here. Everything else is private to its process and
 * belongs to the step before it. All modelled operations are seq_cst in the code, so interleavings
 * are all that the hardware may do. A client may be killed between any two steps. After that the
 * agent does its part, step by step, while the others run on.
 *
 * The model leaves out leases and epochs (a lapse is an undo, UNDO), limits, barging clients,
 * retired slots and futex timeouts. Tickets and tokens do not wrap. A handle, its holder id and its
 * seat have one number.
 *
 * It asserts the following rules. For that it uses hold[] and other ghost variables, which no
 * decision of the model reads.
 *   - A writer's hold excludes every other hold. It lasts from the writer's last look at the word
 *     to the swap that ends it, or to the swap by which the agent takes it from a dead process.
 *   - If such a swap of the agent closes the lock, no hold begins before hfi_open().
 *   - Each exclusive hold has a higher token than any hold before it.
 *   - No actor takes a hold away from a living client.
 *   - No client takes the lock past a cell that says WAITING, and no hand-over skips one (FIFO).
 *   - No client sleeps for ever: in the only end state all are done and every hold is released.
 *   - At the end the word is free and open, and no ticket is left.
 *
 * A polled client (POLLED) never sleeps in the region: it goes on when the agent pokes it.
 *
 * -D varies N (clients), TWICE, GIVES_UP, READERS, KILLS, REBIRTHS, RECALLS, UNDO, TOKENS and
 * POLLED (bit i: client i is polled).
 * -DBREAK_... leaves out a step that the rules require. mutants/ lists these, and spin must find
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

/* A cell: a place in the queue, with flags and a ticket. */
#define JOINING 1
#define WAITING 2
#define LEFT 4
#define PASSED 8
#define SHARED 16
#ifdef POLLED
#define POLLS 32
#define TICKET 64
#define TICKET_OF(c) ((c) >> 6)
#define IS_POLLED(i) ((POLLED & (1 << (i))) != 0)
#else
#define TICKET 32
#define TICKET_OF(c) ((c) >> 5)
#endif
#define COUNTS(c) ((c) & (JOINING | WAITING))

/* What keeps a client from taking the word: obstacle(). */
#define USABLE(w, shared) \
    (!((w) & (CLOSED | RECALL | HOLDER)) && ((w) & MODE) && ((shared) || HAS_TOKENS(w)))
#define UNGRANTED(w) (!((w) & CLOSED) && (((w) & RECALL) || !((w) & MODE) || \
                      (!((w) & HOLDER) && !HAS_TOKENS(w))))

short word = MODE;
short top = TOKENS;
short cell[AGENT + 1];  /* hfi_block.wait */
bool reader[AGENT + 1]; /* the count in hfi_seat.reader */
byte record[AGENT + 1]; /* hfi_holder.handing_to */
bool woken[AGENT + 1];  /* hfi_seat.wake has changed since its sleeper last read it */
bool slot_woken;        /* the same for hfi_slot.wake, on which only the draining writer sleeps */
bool bell;
#ifdef POLLED
bool poked[AGENT + 1]; /* the agent has sent the client a POKE */
#endif
byte ticket_next = 1;
byte admit;
byte handovers;

/* Ghosts: only assertions read them. */
#define EXCLUSIVE 1
#define SHARED_HOLD 2
byte hold[AGENT + 1];
bool delay;       /* the lock is closed because a hold was lost */
byte token_last;
byte dead[AGENT + 1]; /* 1: killed; 2: killed, and no later process gets its numbers */
bool down[AGENT + 1];  /* the killed process has stopped, and its private variables are reset */
bool buried[AGENT + 1];
byte done;
byte kills = KILLS;
#ifdef FIFO
byte early[AGENT + 1]; /* for each scanner: which clients were WAITING when its scan began */
#endif

#define LOOK_AT(i, seat, value, writers_only) \
    if \
    :: COUNTS(cell[i]) && !(writers_only && (cell[i] & SHARED)) && \
       (!seat || TICKET_OF(cell[i]) < TICKET_OF(value)) -> seat = i; value = cell[i] \
    :: else \
    fi

/* Called where a word that names client i is given away. Only client i may do that, or the agent
 * after its death. */
#define END_OF_HOLD(i) \
    if \
    :: i <= N && hold[i] == EXCLUSIVE && !serving -> \
        assert(i == me || (me == AGENT && dead[i])); \
        hold[i] = 0 \
    :: else \
    fi

/* The step in which an actor sees that it has an exclusive hold. */
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

/* Private variables of each actor. They are reset after each procedure, so that equal states
 * merge. */
#ifdef POLLED
#define POLLED_LOCALS bool polled; bool raised;
#else
#define POLLED_LOCALS
#endif
#define LOCALS \
    POLLED_LOCALS \
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
    do /* kills a client at any step */
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
    :: atomic { kills -> kills = 0; break } /* kills no further client */
    :: atomic { !kills -> break }
    od;
#endif
}
