/*
 * The quorum core of a voter: acceptor, coordinator and the voters' side of sessions, as one pure
 * state machine.
 *
 *   quorum_step(state, event) -> actions
 *
 * Time (CLOCK_BOOTTIME) and randomness come with the event; nothing else comes from outside, and
 * the only effects are the actions. An action to persist stands before every action to send that
 * depends on it. So the driver may take the actions of many steps together, if it
 *
 *   1. makes everything to be persisted durable, in order, each batch in one transaction;
 *   2. sends what quorum_waits_for_disk() only when everything that was to be persisted before it
 *      is durable, and whatever else at once;
 *   3. gives a message to itself to a later step (or to the host core, if message_is_for_host()),
 *      under the same rule: an own vote counts when it is durable, like any other's. Such messages
 *      are neither lost nor reordered. All others may be lost, repeated and reordered.
 *
 * If persisting fails, nothing of that batch may be sent, and the process must end: the state here
 * is ahead of the disk.
 *
 * A cell of one host is a quorum of one: it runs through the same code.
 *
 * Memory is one block of the caller's. A full table is an answer (MESSAGE_REFUSED_FULL).
 *
 * Registers instead of a log: D. Rystsov, "CASPaxos: Replicated State Machines without logs"
 * (2018). Leases: M. Trencseni et al., "PaxosLease" (2012).
 */
#ifndef CORE_QUORUM_H
#define CORE_QUORUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/action.h"
#include "core/base/histogram.h"
#include "core/base/message_check.h"
#include "core/base/names.h"
#include "proto/message.h"

struct quorum;

enum {
    /* The room that must be left in struct actions before each step. */
    QUORUM_STEP_ACTIONS = 256,
    /* An agent is a u16 index inside the core. */
    QUORUM_AGENTS_MAX = 65000,
    /* Between voters: how often each tells the others what it coordinates, and how long the last
     * beat of a coordinator counts. */
    QUORUM_BEAT_MS = 100,
    QUORUM_TAKEOVER_MS = 400,
    /* It counts for up to so long where a majority of the voters is slow. */
    QUORUM_PATIENCE_MAX_MS = 5000,
};

struct quorum_limits {
    uint32_t registers; /* lock names with a value */
    uint32_t agents;    /* agents ever heard of, at most QUORUM_AGENTS_MAX */
    uint32_t requests;  /* requests of hosts that are not answered yet */
    uint32_t shares;    /* hosts' parts of shared grants, all locks together */
};

struct quorum_config {
    struct quorum_limits limits;
    uint32_t membership;
    uint32_t voter_count; /* 1, 3, 5 or 7 */
    uint32_t self;        /* index in voters; voter ids in ballots are index + 1 */
    struct message_agent voters[MESSAGE_VOTERS_MAX]; /* the same order at every voter */
    uint64_t store_id[2];
    bool rejoin; /* this store was told to start over (durable), and is not done with it */
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent; /* at most 50 */
    char advertise[MESSAGE_ADDRESS_MAX];
    char release[MESSAGE_RELEASE_MAX]; /* told to hosts, for people */
};

enum quorum_event_kind {
    QUORUM_START = 1, /* first, once, after everything durable was loaded */
    QUORUM_MESSAGE,   /* one arrived that is not for the host core */
    QUORUM_TICK,      /* at quorum_next_tick_ns() or later */
    QUORUM_STALLED,   /* this process stood still for a while, until now */
    QUORUM_ASTRAY,    /* the clock is out of max_drift, or was until now; tell it again and again */
    QUORUM_LINK,      /* the connection to another voter is there, or broken */
    QUORUM_REACHED,   /* the connection to another agent is there; what was sent before is lost */
    QUORUM_RESIGN,    /* this process is about to end: others are to coordinate */
};

struct quorum_event {
    enum quorum_event_kind kind;
    int64_t now_ns;  /* CLOCK_BOOTTIME, never less than in the event before */
    uint64_t random; /* fresh for each event */
    union {
        const struct message *message; /* borrowed for the step */
        struct {
            uint32_t voter;
            bool up;
        } link;                              /* LINK */
        const struct message_agent *reached; /* borrowed for the step */
    } as;
};

/* Bytes of memory for these limits. Most of it is not touched before it is used. */
size_t quorum_size(const struct quorum_limits *limits);

/* NULL if the configuration makes sense, else what is wrong with it (static). */
const char *quorum_config_error(const struct quorum_config *config)
    __attribute__((warn_unused_result));

/*
 * Makes the state in memory (zeroed, quorum_size() bytes, aligned to 8; borrowed for good) from
 * a configuration that has no error. names is borrowed, and shared with the host core.
 */
struct quorum *quorum_init(void *memory, const struct quorum_config *config, struct names *names);

/* Loads a durable row, before START. false: it does not fit the limits, or makes no sense (a value
 * that no quorum core writes). */
bool quorum_load_round(struct quorum *quorum, uint32_t round) __attribute__((warn_unused_result));
bool quorum_load_promise(struct quorum *quorum, const struct quorum_promise *promise)
    __attribute__((warn_unused_result));
bool quorum_load_register(struct quorum *quorum, const struct quorum_register *reg)
    __attribute__((warn_unused_result));
bool quorum_load_mark(struct quorum *quorum, const struct message_session *mark)
    __attribute__((warn_unused_result));
bool quorum_load_checkpoint(struct quorum *quorum, const struct quorum_checkpoint *checkpoint)
    __attribute__((warn_unused_result));
bool quorum_load_member(struct quorum *quorum, const struct quorum_member *member)
    __attribute__((warn_unused_result));
bool quorum_load_seen(struct quorum *quorum, const struct quorum_seen *seen)
    __attribute__((warn_unused_result));

/* One step. Appends at most QUORUM_STEP_ACTIONS actions; that much room must be there. A message
 * that makes no sense changes nothing. */
void quorum_step(struct quorum *quorum, const struct quorum_event *event, struct actions *actions);

/* When the next TICK is wanted; INT64_MAX: never. */
int64_t quorum_next_tick_ns(const struct quorum *quorum);

/* Whether a message of this kind may be sent only when everything that was to be persisted before
 * it is durable: it promises or tells something that is on the disk. */
static inline bool quorum_waits_for_disk(enum message_kind kind)
{
    return kind == MESSAGE_PREPARE || kind == MESSAGE_PROMISE || kind == MESSAGE_VALUE ||
           kind == MESSAGE_ACCEPTED || kind == MESSAGE_POLLED || kind == MESSAGE_MARKED ||
           kind == MESSAGE_RENEW_ACK || kind == MESSAGE_HELLO || kind == MESSAGE_HELLO_ACK ||
           kind == MESSAGE_PULLED || kind == MESSAGE_CHECKPOINTED;
}

/* The voter that coordinates a partition while all voters are alive: by rendezvous hashing, the
 * same on every host. */
uint32_t quorum_preferred(const struct message_agent *voters, uint32_t voter_count,
                          uint32_t partition);

/* The voter that coordinates this partition by what is heard here; voter_count: nobody. */
uint32_t quorum_coordinator(const struct quorum *quorum, uint32_t partition);

/* Whether everything that this voter coordinates is prepared, and complete: a name that it does
 * not know needs no read. */
bool quorum_ready(const struct quorum *quorum);

/* After RESIGN: whether what this voter coordinated is claimed by others, and they have heard who
 * waits; whether there is nothing more to be done, as it is so or nobody is there to hear it. That
 * may never be. */
bool quorum_handed_over(const struct quorum *quorum);
bool quorum_resigned(const struct quorum *quorum);

/* This voter's standing in the cell; what another said last of its own (0: nothing yet); and
 * whether it is heard. */
enum message_standing quorum_standing(const struct quorum *quorum);
enum message_standing quorum_standing_of(const struct quorum *quorum, uint32_t voter);
bool quorum_hears(const struct quorum *quorum, uint32_t voter);

/* The rules of the cell as this voter has them. */
void quorum_rules(const struct quorum_config *config, struct message_rules *rules);

/* The index of an agent, made if it is new. false: the table is full. */
bool quorum_agent(struct quorum *quorum, const struct message_agent *agent, uint32_t *index)
    __attribute__((warn_unused_result));
const struct message_agent *quorum_agent_name(const struct quorum *quorum, uint32_t index);

/* The value that this voter's acceptor has for a name, chosen or not; false: none. */
bool quorum_look(const struct quorum *quorum, uint32_t name, struct quorum_register *out);

/* Whether this voter has nothing to decide but, maybe, what concerns that name. */
bool quorum_decides_only(const struct quorum *quorum, const struct message_name *name);

/* Ready-made header fields for messages of this agent (the host core's): from, membership,
 * store_id, commit. The rest of *message is zeroed. The membership changes when the record of
 * stores does. A packet says what is so when its first message is made, and has no messages from
 * after a change. */
void quorum_header(const struct quorum *quorum, enum message_kind kind, struct message *message);

/* The last commit that the driver knows durable; messages tell it. The first time, before START:
 * the one that the store had when it was opened, before this process committed anything. */
void quorum_set_commit(struct quorum *quorum, uint64_t commit);

/* Everything persisted so far is on its way to the disk, in one commit; what is persisted from now
 * on goes with the one behind it. Until quorum_set_commit(). */
void quorum_committing(struct quorum *quorum);

/* Before START: what has to be durable with the first commit of this process, if it makes one
 * before START (a new epoch). false: nothing; else it counts as kept. See members.c. */
bool quorum_keep_opened(struct quorum *quorum, struct quorum_seen *row)
    __attribute__((warn_unused_result));

/* The commit that messages tell: not always the last one (members.c). */
uint64_t quorum_told_commit(const struct quorum *quorum);

/* For people: what this voter did since it began, */
struct quorum_counts {
    uint64_t taken_over;   /* partitions that it began to coordinate, each time counted */
    uint64_t left;         /* that it ceased to */
    uint64_t deaths;       /* sessions that it had marked as dead by a majority */
    uint64_t grants;       /* that it made */
    struct histogram wait; /* of them, from the arrival of the request here to the grant; what the
                              host had waited elsewhere before is counted */
};
/* and what there is now. */
struct quorum_survey {
    uint32_t partitions; /* that it coordinates */
    uint32_t incomplete; /* of them, those whose registers are not all here yet */
    uint32_t registers;  /* lock names with a value, of the limit: */
    uint32_t registers_max;
    uint32_t agents;   /* names of agents that it knows */
    uint32_t requests; /* of hosts, waiting or under way here */
    bool votes;
    bool majority;       /* enough voters hear it, and are heard */
    int64_t patience_ns; /* for how long it bears that a voter is silent */
};
const struct quorum_counts *quorum_counts(const struct quorum *quorum);
void quorum_survey(const struct quorum *quorum, struct quorum_survey *out);

/* Walks the whole state; HF_CHECK fails if it contradicts itself. For tests and the simulator. */
void quorum_check_invariants(const struct quorum *quorum);

#endif
