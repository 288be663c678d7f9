/*
 * The quorum core of a voter: acceptor, coordinator and the voters' side of sessions, as one pure
 * state machine.
 *
 *   quorum_step(state, event) -> actions
 *
 * Time (CLOCK_BOOTTIME) and a random number come with the event. Nothing else comes from outside,
 * and the only effects are the actions. An action to persist stands in the list before every send
 * that depends on it. So the driver may carry out the actions of many steps together, if it keeps
 * three rules:
 *
 *   1. It makes the rows to persist durable, in order, each batch in one transaction.
 *   2. If quorum_waits_for_disk() is true for a message, it sends the message only when every row
 *      that was to be persisted before the message is durable. It may send any other message at
 *      once.
 *   3. It gives a message that is addressed to this agent itself to a later step (or to the host
 *      core, if message_is_for_host()), under the same rule: this voter's own vote is counted only
 *      when it is durable, like any other vote. Such messages are neither lost nor reordered. All
 *      other messages may be lost, repeated and reordered.
 *
 * If persisting fails, no message of that batch may be sent, and the process must end, because its
 * memory is ahead of its disk.
 *
 * A cell of one host is a quorum of one: it runs the same code.
 *
 * The memory is one block that the caller provides. If a table is full, the answer is
 * MESSAGE_REFUSED_FULL.
 *
 * For registers instead of a log, see D. Rystsov, "CASPaxos: Replicated State Machines without
 * logs" (2018). For leases, see M. Trencseni et al., "PaxosLease" (2012).
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
    /* The most actions that a step appends to struct actions. */
    QUORUM_STEP_ACTIONS = 256,
    /* Inside the core an agent's index is a u16. */
    QUORUM_AGENTS_MAX = 65000,
    /* QUORUM_HEARTBEAT_MS is the time between two heartbeats of a voter. QUORUM_TAKEOVER_MS is the
     * shortest suspicion timeout: how long a silent voter still counts as alive. */
    QUORUM_HEARTBEAT_MS = 100,
    QUORUM_TAKEOVER_MS = 400,
    /* In quorum_config.self: the agent is not among the voters. */
    QUORUM_NO_VOTER = MESSAGE_VOTERS_MAX,
    /* The longest suspicion timeout. The timeout grows from QUORUM_TAKEOVER_MS up to this bound if
     * a majority is slow. */
    QUORUM_SUSPICION_MAX_MS = 5000,
};

struct quorum_limits {
    uint32_t registers; /* lock names with a value */
    uint32_t agents;    /* names of agents in the table; at most QUORUM_AGENTS_MAX */
    uint32_t requests;  /* requests of hosts without an answer yet */
    uint32_t shares;    /* parts of shared grants, one for each host, of all locks together */
};

struct quorum_config {
    struct quorum_limits limits;
    uint32_t membership;
    uint32_t voter_count; /* 1 to 7 */
    /* index in voters; QUORUM_NO_VOTER: this store's voter was removed, or this store is a learner
     * (members.h) */
    uint32_t self;
    struct message_agent name; /* this agent's name, if it is not among the voters */
    struct message_agent voters[MESSAGE_VOTERS_MAX]; /* in ascending order of their names */
    /* Where each voter listens; "": not known. The record of number 2 is made with these addresses.
     * Before that, each agent uses the addresses of its own configuration. */
    char addresses[MESSAGE_VOTERS_MAX][MESSAGE_ADDRESS_MAX];
    /* The voters in the configuration, which may differ from those of the record of voters. This
     * agent accepts a newer record from them, and from the voters of its present record. */
    uint32_t trusted_count;
    struct message_agent trusted[MESSAGE_VOTERS_MAX];
    /* The number that each voter has in its ballots. No other voter of the cell ever had the same
     * number. 0: the voter has been there since the cell began, and its number is its index + 1. */
    uint16_t ballot_ids[MESSAGE_VOTERS_MAX];
    uint64_t store_id[2];
    bool rejoin; /* the store must start over, and has not done so yet; this is durable */
    /* An operator has recovered the cell with this store. This voter is the only one, and it must
     * wait this long after its start before it votes (docs/PROTOCOL.md, "Recovery"). This is
     * durable until ACTION_PERSIST_RECOVERED. 0: there is nothing to wait for. */
    int64_t recovery_wait_ns;
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent; /* at most 50 */
    char advertise[MESSAGE_ADDRESS_MAX];
    char release[MESSAGE_RELEASE_MAX]; /* this agent's release, sent to hosts for display */
    char page[MESSAGE_ADDRESS_MAX];    /* sent likewise: the URL of this agent's status page */
};

enum quorum_event_kind {
    QUORUM_START = 1, /* the first event, once, after all durable rows were loaded */
    QUORUM_MESSAGE,   /* a message arrived that is not for the host core */
    QUORUM_TICK,      /* at quorum_next_tick_ns() or later */
    QUORUM_STALLED,   /* this process did not run for a while, until now */
    /* the clock's rate is, or was until now, off by more than max_drift; repeated while it is
     * off */
    QUORUM_ASTRAY,
    QUORUM_LINK,    /* the connection to another voter was made, or broke */
    QUORUM_REACHED, /* the connection to an agent was made; messages sent to it before are lost */
    QUORUM_RESIGN,  /* this process will end soon: other voters have to take over its partitions */
};

struct quorum_event {
    enum quorum_event_kind kind;
    int64_t now_ns;  /* CLOCK_BOOTTIME, never less than in the last event */
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

/* Returns how many bytes of memory quorum_init() needs with these limits. Memory that no entry uses
 * is never touched. */
size_t quorum_size(const struct quorum_limits *limits);

/* Returns NULL if the configuration is valid, otherwise what is wrong with it (a static string). */
const char *quorum_config_error(const struct quorum_config *config)
    __attribute__((warn_unused_result));

/*
 * Makes the state in `memory`, which must be zeroed, quorum_size() bytes long and aligned to 8. The
 * core borrows the memory for good. config must have no error (quorum_config_error()). names is
 * borrowed, and shared with the host core.
 */
struct quorum *quorum_init(void *memory, const struct quorum_config *config, struct names *names);

/* Before START, and before all other rows: load the record of voters, and the row of the register
 * in which the next record is decided. The record replaces the voters of the configuration. Without
 * a stored record, the agent uses the record of number 1, which is made from the configuration. */
bool quorum_load_voters(struct quorum *quorum, const struct message_voters *voters)
    __attribute__((warn_unused_result));
bool quorum_load_change(struct quorum *quorum, const struct quorum_change *change)
    __attribute__((warn_unused_result));

/* Before START: load a durable row. Return false if the row does not fit the limits, or has a value
 * that no quorum core writes. */
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

/* One step. Appends at most QUORUM_STEP_ACTIONS actions, for which there must be room. An invalid
 * message changes nothing. */
void quorum_step(struct quorum *quorum, const struct quorum_event *event, struct actions *actions);

/* Handles a RENEW message, and does nothing else that a step does. The function does not touch the
 * names that the two cores share. So one thread may call it while another thread is in a step of
 * the host core. The message must be valid. */
void quorum_renew(struct quorum *quorum, const struct quorum_event *event, struct actions *actions);

/* Returns when the next TICK is wanted; INT64_MAX: never. */
int64_t quorum_next_tick_ns(const struct quorum *quorum);

/* Returns whether a message of this kind may be sent only when all rows that were to be persisted
 * before it are durable. Such a message makes a promise, or reports something that must be on the
 * disk. */
static inline bool quorum_waits_for_disk(enum message_kind kind)
{
    return kind == MESSAGE_PREPARE || kind == MESSAGE_PROMISE || kind == MESSAGE_VALUE ||
           kind == MESSAGE_ACCEPTED || kind == MESSAGE_POLLED || kind == MESSAGE_MARKED ||
           kind == MESSAGE_RENEW_ACK || kind == MESSAGE_HELLO || kind == MESSAGE_HELLO_ACK ||
           kind == MESSAGE_SYNCED || kind == MESSAGE_CHECKPOINTED ||
           kind == MESSAGE_CHANGE_PREPARE || kind == MESSAGE_CHANGE_PROMISE ||
           kind == MESSAGE_CHANGE_ACCEPTED || kind == MESSAGE_VOTERS || kind == MESSAGE_LEARNED ||
           kind == MESSAGE_MEMBERED;
}

/* Returns the voter that coordinates a partition while all voters are alive, by rendezvous hashing.
 * The result is the same on every host. */
uint32_t quorum_preferred(const struct message_agent *voters, uint32_t voter_count,
                          uint32_t partition);

/* Returns whether a majority echoes this voter's heartbeats, and every partition that this voter
 * coordinates is prepared and complete, so that a name without a register here needs no read. */
bool quorum_ready(const struct quorum *quorum);

/* For a voter that resigned (RESIGN). quorum_handed_over() returns whether other voters have
 * claimed every partition that this voter coordinated, and have received the requests that waited
 * at this voter. quorum_resigned() returns whether nothing is left to do: all is handed over, or no
 * other voter can take over. Both functions may return false for ever. */
bool quorum_handed_over(const struct quorum *quorum);
bool quorum_resigned(const struct quorum *quorum);

/* quorum_voter_status() returns this voter's status. quorum_voter_status_of() returns the status
 * that another voter last reported of itself; 0: it has reported none yet. */
enum message_voter_status quorum_voter_status(const struct quorum *quorum);
enum message_voter_status quorum_voter_status_of(const struct quorum *quorum, uint32_t voter);

/* Returns how long this voter waits because its cell was recovered; 0: it does not wait. */
int64_t quorum_recovery_left_ns(const struct quorum *quorum);

/* Returns, as bits, the voters from which no heartbeat comes any more, if the other voters are no
 * majority; otherwise 0. It shows a lost majority earlier than unanswered renewals do. For
 * display. */
uint8_t quorum_missing(const struct quorum *quorum);

/* Fills in the cell's rules as this voter is configured with them. */
void quorum_rules(const struct quorum_config *config, struct message_rules *rules);

/* Returns how long the only voter of a recovered cell has to wait: a session_ttl, a grace period
 * and the longest lock-delay, all counted long. */
int64_t quorum_recovery_wait_ns(const struct message_rules *rules);

/* The name of the agent with that index. */
const struct message_agent *quorum_agent_name(const struct quorum *quorum, uint32_t index);

/* Fills in the value that this voter's acceptor has for a name, chosen or not. Returns false if
 * there is none. */
bool quorum_look(const struct quorum *quorum, uint32_t name, struct quorum_register *out);

/* Returns whether this voter has nothing to decide, except perhaps requests for that name. */
bool quorum_decides_only(const struct quorum *quorum, const struct message_name *name);

/* Returns the record of voters that this agent uses. */
const struct message_voters *quorum_voters(const struct quorum *quorum);

/* Fills in the header for messages of this agent, also those of the host core: from, membership,
 * store_id, commit, and number and digest of the record of voters. The rest of *message is zeroed.
 * The membership changes with the record of stores, number and digest with the record of voters.
 * All messages of a packet share one header, so a message made after such a change goes into
 * another packet. */
void quorum_header(const struct quorum *quorum, enum message_kind kind, struct message *message);

/* Sets the last durable commit, which messages carry. The driver calls this after each commit. The
 * first call comes before START, with the commit that the store had before this process committed
 * anything. */
void quorum_set_commit(struct quorum *quorum, uint64_t commit);

/* Notes that the driver has begun a commit of all rows persisted so far. Rows persisted from now on
 * go into the next commit. The commit is under way until quorum_set_commit() is called. */
void quorum_committing(struct quorum *quorum);

/* Fills in the row that an agent without a quorum core commits with its new epoch, unless its store
 * has such a row. `commit` is the commit that the store had when it was opened. The agent gives the
 * row to its core, if it gets one (quorum_load_seen()). See members_stores.c. */
void quorum_opened_row(const struct message_agent *agent, const uint64_t store_id[2],
                       uint64_t commit, struct quorum_seen *row);
/* Call this before START, if the driver commits something before START (a new epoch). Fills in a
 * row that must be in that commit, which is the first of this process. Returns false if there is no
 * such row. If it returns true, the core counts the row as persisted. See members_stores.c. */
bool quorum_keep_opened(struct quorum *quorum, struct quorum_seen *row)
    __attribute__((warn_unused_result));

/* Returns the commit that messages report. members_stores.c says when it is not the last durable
 * commit. */
uint64_t quorum_reported_commit(const struct quorum *quorum);

/* Counts of this voter's work since it started, for people. */
struct quorum_counts {
    uint64_t taken_over;     /* how often this voter began to coordinate a partition */
    uint64_t left;           /* how often this voter ceased to coordinate a partition */
    uint64_t sessions_ended; /* sessions that this voter ended, by a majority's marks */
    uint64_t grants;         /* grants that this voter made */
    /* The times from a request to its grant. The time that the request waited at earlier
     * coordinators is included. */
    struct histogram wait;
};
/* The present state in figures, for people. */
struct quorum_survey {
    uint32_t partitions; /* partitions that this voter coordinates */
    uint32_t incomplete; /* how many of these partitions are not complete yet */
    uint32_t registers;  /* lock names with a value; registers_max is the limit */
    uint32_t registers_max;
    uint32_t agents;   /* names of agents in the table */
    uint32_t requests; /* hosts' requests at this voter that are not answered yet */
    bool votes;
    bool majority;        /* this voter exchanges messages with a majority, itself included */
    int64_t suspicion_ns; /* the suspicion timeout */
};
const struct quorum_counts *quorum_counts(const struct quorum *quorum);
void quorum_survey(const struct quorum *quorum, struct quorum_survey *out);

/* Walks the whole state; fails (HF_CHECK) if it contradicts itself. For tests and the simulator. */
void quorum_check_invariants(const struct quorum *quorum);

#endif
