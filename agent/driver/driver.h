/*
 * The driver: gives events to the cores and carries out their actions, in an order that makes every
 * promise durable before it is sent.
 *
 *   an event -> host core -> requests -> quorum core -> actions -> other agents, this host, disk
 *
 * Rows to persist collect in a batch. The driver hands over a whole batch to be made durable
 * (driver_operations.commit), and the loop goes on while the next batch collects. Only one batch at
 * a time is being written, so all rows that arise during a flush share the next batch.
 *
 * A message that depends on the disk waits for the batch that was open when the message arose.
 * These messages and actions wait:
 *
 *   - a message of a kind for which quorum_waits_for_disk() returns true, even if it goes to this
 *     agent's own quorum core
 *   - GIVE_BACK
 *   - a grant or an amendment for this agent's own host core, and later messages for that core, so
 *     that none overtakes it
 *   - SYNC of an observer that learns
 *   - every action of the host core that follows a row of its own (frames to clients, their
 *     records, log lines)
 *
 * All other messages go at once: a proposal reaches the other voters while this agent's disk still
 * writes it. (A proposal that arises during another flush goes out after that flush.) A voter that
 * a round left out gets the chosen value some milliseconds later, together with other values. A
 * batch for which nothing waits is handed over some milliseconds later, or with the next rows for
 * which something waits.
 *
 * If the store fails, nothing that waits is carried out, and driver_failed() reports the failure.
 * The process must then end, because its memory is ahead of its disk.
 *
 * The driver also keeps the session: it notifies the host core of each change of the lease. When a
 * session is lost, the driver begins a new epoch, and makes the epoch durable first. An observer
 * that does not learn (to become a voter) has no quorum core: quorum is NULL.
 *
 * Only one thread at a time may be in the driver. Time, randomness, network and disk come from its
 * operations, so that the simulator runs the same code.
 */
#ifndef AGENT_DRIVER_H
#define AGENT_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/gossip.h"
#include "core/host.h"
#include "core/quorum.h"
#include "core/session/renewal.h"

struct driver;

enum driver_record_kind {
    DRIVER_ACTION = 1, /* an ACTION_PERSIST_... of the quorum core */
    DRIVER_SLOT,       /* the lock name that a slot of a region has */
    DRIVER_NO_SLOT,
    DRIVER_EPOCH, /* the next session's epoch */
};

struct driver_record {
    enum driver_record_kind kind;
    union {
        struct action action; /* only the first share_count shares of a value exist */
        struct {
            uint32_t region;
            uint32_t slot;
            struct message_name name;
        } slot;
        uint32_t epoch;
    } as;
};

/* The records of a batch, in order, for driver_operations.commit. */
struct driver_batch;
/* Returns the record at *at, and moves *at on. *at is 0 at first. Returns NULL after the last
 * record. */
const struct driver_record *driver_batch_next(const struct driver_batch *batch, size_t *at);

/* Returns whether the batch is about one lock name, and nothing about another name is under way
 * here. If so, the caller loses little by waiting for the flush: a request to the quorum that
 * arises meanwhile would wait for the same flush. Events that need no disk can still come: a client
 * opens a known name, or sends a RING frame, or a renewal arrives. */
bool driver_is_alone(const struct driver *driver, const struct driver_batch *batch);

struct driver_operations {
    /* Carries out a HOST_REPLY (bytes is its frame), WELCOMED, HANG_UP, FORGET, ALIAS, LOG, FACTS
     * or BACKUP. May call driver_post(), and no other function of the driver. After a FORGET the
     * driver must get no event of that client. */
    void (*act)(void *arg, const struct host_action *action, const unsigned char *bytes);
    /* Sends to another agent, by name. The message may be lost. Its header is complete. */
    void (*send)(void *arg, const struct message_agent *to, const struct message *message);
    void (*send_gossip)(void *arg, const struct message_agent *to, const void *bytes, size_t size);
    /* Called when an agent has reported where it listens (in RENEW, HELLO or gossip). */
    void (*address)(void *arg, const struct message_agent *agent, const char *address);
    /* Begins to make a batch durable. driver_committed() reports the end, perhaps from within this
     * call. Until then the driver does not change the batch. */
    void (*commit)(void *arg, const struct driver_batch *batch);
    /* Writes a log line. */
    void (*log)(void *arg, const struct action_log *log);
    /* Called before anybody else learns of this deadline of the lease. */
    void (*promise)(void *arg, uint32_t epoch, int64_t deadline_ns);
    /* Called when the agent uses another record of voters. The function may not call the driver.
     * The pointer is valid for the driver's life, and the record's contents until the next such
     * call. */
    void (*record)(void *arg, const struct message_voters *record);
    /* Called when it is durable that this record of voters is complete. The agent uses the record,
     * or has used it. */
    void (*complete)(void *arg, uint32_t number);
    /* Called when the voter may also be dialled at that address, for a while. If `seek` itself is
     * NULL, no voter is dialled at a second address. */
    void (*seek)(void *arg, const struct message_agent *voter, const char *address);
    /* Called when a voter asks this observer to learn, so that it can become a voter. Makes a
     * quorum core that uses the present record and has not received any event. Returns NULL if it
     * cannot. If `learn` itself is NULL, this agent never becomes a voter. */
    struct quorum *(*learn)(void *arg);
    /* Called when the session's state has changed; for display only. */
    void (*session)(void *arg, enum renewal_state state, uint32_t epoch);
    /* Called when a turn has lasted so long that it is a stall; for display only. Never called if
     * driver_turn() is not used. */
    void (*stalled)(void *arg, int64_t turn_ns);
    /* Called around each step of the host core. Such a step may be held up for long in memory that
     * clients share. Meanwhile another thread may keep the session: see driver_keep(). NULL: no
     * other thread keeps the session. */
    void (*lend)(void *arg);
    void (*take_back)(void *arg);
    /* Called by driver_keep() only: the lease has a later deadline, which the held-up host core
     * cannot publish. */
    void (*prolong)(void *arg, uint32_t epoch, int64_t deadline_ns);
    int64_t (*now_ns)(void *arg); /* CLOCK_BOOTTIME */
    uint64_t (*random)(void *arg);
    void *arg;
};

struct driver_config {
    struct host *host;     /* host, quorum, renewal and gossip are borrowed */
    struct quorum *quorum; /* NULL: this agent is an observer that does not learn */
    struct renewal *renewal;
    struct gossip *gossip; /* NULL: this agent has no gossip */
    struct message_agent self;
    uint64_t store_id[2];
    /* The record of voters that the agent uses at its start. Number 0: the agent knows no record,
     * and its voters do not change. */
    struct message_voters record;
    /* The record was made from an observer's configuration, not from durable data. So a voter may
     * know another record of the same number. */
    bool record_unsure;
    /* The voters in the configuration. An observer accepts another record from them, and from the
     * voters of its record. */
    uint32_t written_count;
    struct message_agent written[MESSAGE_VOTERS_MAX];
    uint32_t voter_count;
    struct message_agent voters[MESSAGE_VOTERS_MAX];
    struct message_rules rules; /* the rules of the cell, as configured here; voter_count 0: they
                                 * are not compared */
    struct driver_operations operations;
};

struct driver *driver_create(const struct driver_config *config);
void driver_destroy(struct driver *driver);

/* Starts the cores and the session. epoch is durable already. adopted: the previous agent's session
 * goes on. */
void driver_start(struct driver *driver, uint32_t epoch, bool adopted);

/* Gives an event to the host core. This call fills in now_ns and random. */
void driver_event(struct driver *driver, struct host_event *event);

/* Queues an event of a client that has no further contents, such as HANGUP or DIED; may be called
 * within act(). The event is handled before driver_flush() returns. */
void driver_post(struct driver *driver, enum host_event_kind kind, uint32_t client);

/* Handles the timers that are due. */
void driver_tick(struct driver *driver);

/* Tells the quorum core that this process did not run for a while. Must be called before any event
 * that happened meanwhile. */
void driver_stalled(struct driver *driver);

/*
 * Begins a turn of the loop: messages that arrived after since_ns may be unread until the next
 * turn. since_ns 0: the turn is over, or is not measured.
 *
 * A turn that has lasted for more than a third of session_ttl is a stall, also if this process
 * stopped within the turn. After a stall, the voter takes all sessions for just renewed before its
 * next step. Returns true if the previous turn, up to this call, was a stall that no step has found
 * yet. If this call ends a turn and returns true, the caller flushes again.
 */
bool driver_turn(struct driver *driver, int64_t since_ns);

/* This process is about to end in order: driver_resign() asks the other voters to coordinate from
 * now on. driver_handed_over() returns whether they do. driver_resigned() returns whether they do,
 * or whether no other voter could. Both results may stay false for ever. Meanwhile the driver goes
 * on with everything else. */
void driver_resign(struct driver *driver);
bool driver_resigned(const struct driver *driver);
bool driver_handed_over(const struct driver *driver);

/* Tells the cores whether the clock is astray: whether its rate is out of max_drift. Must be called
 * at least four times per session_ttl while the clock is astray, and once afterwards. Calls for a
 * clock that stays right do nothing. */
void driver_clock(struct driver *driver, bool astray);

/* Takes a message, or gossip, that arrived from another agent. */
void driver_received(struct driver *driver, const struct message *message);
void driver_received_gossip(struct driver *driver, const struct message_agent *from,
                            const void *bytes, size_t size);
/* Notes that the connection to an agent was made or broke. */
void driver_link(struct driver *driver, const struct message_agent *agent, bool up);
/* Tells gossip that nobody has answered at the agent's address, which is not dialled any more. */
void driver_unreachable(struct driver *driver, const struct message_agent *agent);

/* Reports the end of the batch: it is durable with that commit number or, if error is not NULL, it
 * failed. */
void driver_committed(struct driver *driver, uint64_t commit, const char *error);

/* Ends a turn of the loop: hands the open batch over to be committed, unless another batch is being
 * written. */
void driver_flush(struct driver *driver);

/*
 * Keep the session while the host core is held up. Between lend() and take_back() another thread
 * may call these three functions. Between driver_keep_begin() and driver_keep_end() it may call
 * driver_received(), driver_link() and driver_received_gossip() too. The caller ensures that only
 * one thread at a time is in the driver. These calls touch only what the host core does not touch:
 * the session, the voter's side of sessions, the queues of the driver.
 *
 * driver_keep() sends this agent's renewals. Answers to them, and renewals of other agents, are
 * handled as they arrive. Other messages are dropped, which the protocol allows; changes of links
 * are kept for later. The answer of this agent's own voter does not wait for the disk, because it
 * depends on no row that is still to be persisted (a voter that starts takes each session for just
 * renewed). The host core learns of the new deadline before its next step.
 */
void driver_keep_begin(struct driver *driver);
void driver_keep(struct driver *driver);
void driver_keep_end(struct driver *driver);
/* Returns when the session has to be renewed next. */
int64_t driver_renewal_ns(const struct driver *driver);

/* A call with `on` true announces that messages of other agents are about to arrive. A call with
 * `on` false says that they have arrived. Between the two calls the host core makes no step, so
 * that a held-up step does not hold up the receiving. */
void driver_receiving(struct driver *driver, bool on);

/* Returns when to call driver_tick(); INT64_MAX: never. */
int64_t driver_next_ns(const struct driver *driver);

/* Returns how many batches were committed so far. */
uint64_t driver_commits(const struct driver *driver);

/* Returns whether that voter's rules are known to differ from this agent's. */
bool driver_rules_differ(const struct driver *driver, uint32_t voter);
/* Returns whether that voter reports that it starts over (`holdfast member rejoin`) and that it
 * does not vote yet. */
bool driver_starts_over(const struct driver *driver, uint32_t voter);

/* Counters since the start, for display. */
struct driver_counts {
    uint64_t promises;                     /* promises that were handed to the disk */
    uint64_t accepts;                      /* accepted values that were handed to the disk */
    uint64_t refused[MESSAGE_REFUSED_END]; /* refusals sent to hosts, by enum message_refusal */
    struct histogram flush; /* the time from handing a batch over until it is known to be durable */
};
/* The messages and actions that wait in the driver now, for display. */
struct driver_queues {
    uint32_t inbox;   /* messages to this agent's own cores */
    uint32_t records; /* rows in the open batch */
    uint32_t flying;
    uint32_t waiting; /* messages and actions that wait for a batch */
    uint32_t later;   /* messages that are kept to be sent together */
};
/* Sets of voters, one bit for each. up: the voter answers renewals, its link is up, and it is not
 * missing (quorum_missing()). refused: the voter may not vote, or refuses this agent. */
struct driver_voters {
    uint32_t up;
    uint32_t refused;
};
void driver_voters(const struct driver *driver, struct driver_voters *out);
const struct driver_counts *driver_counts(const struct driver *driver);
void driver_queues(const struct driver *driver, struct driver_queues *out);

/* Returns why the process must end; NULL if it need not. */
const char *driver_failed(const struct driver *driver);

#endif
