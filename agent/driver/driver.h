/*
 * The driver: gives events to the cores and carries out their actions, in an order that makes every
 * promise durable before it is sent.
 *
 *   an event -> host core -> requests -> quorum core -> actions -> other agents, this host, disk
 *
 * Rows to persist collect in a batch. The driver hands over a whole batch to be made durable
 * (driver_operations.commit), and the loop goes on; meanwhile the next batch collects. Only one
 * batch at a time is on its way to the disk, so all rows that arise during a flush share the next
 * one.
 *
 * A message that depends on the disk waits for the batch that was open when the message arose.
 * These messages wait: those that quorum_waits_for_disk(), also to the own quorum core; GIVE_BACK;
 * grants and amendments for the own host core; and whatever the host core wants done after a row of
 * its own (frames to clients, their records, log lines). All others go at once: a proposal reaches
 * the other voters while this agent's disk still writes it. (A proposal that arises during another
 * flush goes out after that flush.) A voter that a round left out gets the chosen value some
 * milliseconds later, together with others. A batch for which nothing waits is handed over some
 * milliseconds later, or with the next rows for which something waits.
 *
 * If the store fails, nothing that waits is carried out, and driver_failed() reports it. The
 * process must then end: its memory is ahead of its disk.
 *
 * The driver also keeps the session: it notifies the host core of each change of the lease. When a
 * session is lost it begins a new epoch, which it makes durable first. An observer has no quorum
 * core: quorum is NULL.
 *
 * One thread. Time, randomness, network and disk come from its operations, so that the simulator
 * runs this very code.
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
    DRIVER_SLOT,       /* which name a slot of a region has */
    DRIVER_NO_SLOT,
    DRIVER_EPOCH, /* the next session's epoch */
};

struct driver_record {
    enum driver_record_kind kind;
    union {
        struct action action; /* of a value only the first share_count shares are there */
        struct {
            uint32_t region;
            uint32_t slot;
            struct message_name name;
        } slot;
        uint32_t epoch;
    } as;
};

/* Records in order, for driver_operations.commit. */
struct driver_batch;
uint32_t driver_batch_count(const struct driver_batch *batch);
/* The record at *at, which is 0 at first and moves on. Returns NULL after the last record. */
const struct driver_record *driver_batch_next(const struct driver_batch *batch, size_t *at);

/* Returns whether only the batch's one lock name is under way here. Then, while the batch is
 * flushed, a request to the quorum can arise here only if it waits for the same flush. Events that
 * need no disk can still come: a client opens a known name, a ring, a renewal. */
bool driver_is_alone(const struct driver *driver, const struct driver_batch *batch);

struct driver_operations {
    /* Carries out a HOST_REPLY (bytes is its frame), WELCOMED, HANG_UP, FORGET, ALIAS, LOG or TELL.
     * May call driver_post(), no other function of the driver. After a FORGET no event may have
     * that client's number. */
    void (*act)(void *arg, const struct host_action *action, const unsigned char *bytes);
    /* Sends to another agent, by name. The message may be lost. Its header is filled in. */
    void (*send)(void *arg, const struct message_agent *to, const struct message *message);
    void (*send_gossip)(void *arg, const struct message_agent *to, const void *bytes, size_t size);
    /* An agent reported where it listens (in RENEW, HELLO or gossip). */
    void (*address)(void *arg, const struct message_agent *agent, const char *address);
    /* Begins to make a batch durable. driver_committed() reports the end, perhaps from within this
     * call. The batch is the driver's, and does not change until then. */
    void (*commit)(void *arg, const struct driver_batch *batch);
    /* A log line. */
    void (*log)(void *arg, const struct action_log *log);
    /* Called before anybody else gets this deadline of the lease. */
    void (*promise)(void *arg, uint32_t epoch, int64_t deadline_ns);
    /* The session's state changed. For people. */
    void (*session)(void *arg, enum renewal_state state, uint32_t epoch);
    /* A turn lasted so long that it is a stall. For people; only if driver_turn() is used. */
    void (*stalled)(void *arg, int64_t turn_ns);
    /* Called around each step of the host core. Such a step may be held up for long in memory that
     * clients share. Meanwhile another thread may keep the session, see driver_keep(). NULL: no
     * thread does. */
    void (*lend)(void *arg);
    void (*take_back)(void *arg);
    /* Called by driver_keep() only: the lease ends later now, and the host core cannot publish
     * that. */
    void (*prolong)(void *arg, uint32_t epoch, int64_t deadline_ns);
    int64_t (*now_ns)(void *arg); /* CLOCK_BOOTTIME */
    uint64_t (*random)(void *arg);
    void *arg;
};

struct driver_config {
    struct host *host;     /* this and the next three are borrowed */
    struct quorum *quorum; /* NULL: an observer */
    struct renewal *renewal;
    struct gossip *gossip; /* NULL: none */
    struct message_agent self;
    uint64_t store_id[2];
    uint32_t voter_count;
    struct message_agent voters[MESSAGE_VOTERS_MAX];
    struct message_rules rules; /* of the cell, as configured here; voter_count 0: not compared */
    struct driver_operations operations;
};

struct driver *driver_create(const struct driver_config *config);
void driver_destroy(struct driver *driver);

/* Starts the cores and the session. epoch is durable. adopted: the session continues. */
void driver_start(struct driver *driver, uint32_t epoch, bool adopted);

/* An event for the host core. This call fills in now_ns and random. */
void driver_event(struct driver *driver, struct host_event *event);

/* HANGUP, DIED or DRAINED of a client, for use within act(). It is handled before driver_flush()
 * returns. */
void driver_post(struct driver *driver, enum host_event_kind kind, uint32_t client);

/* Handles the timers that are due. */
void driver_tick(struct driver *driver);

/* This process did not run for a while. Call this before any event that happened meanwhile. */
void driver_stalled(struct driver *driver);

/*
 * A turn of the loop begins: messages that arrived since since_ns may be unread until the next one.
 * since_ns 0: the turn is over, or is not measured. A turn that has lasted for more than a third of
 * the session time-to-live is a stall, also if this process stopped within it. Before the voter's
 * next step all sessions then count as just renewed. Returns true, only with since_ns 0, if the
 * stall was found at the turn's end; there may be something to flush then.
 */
bool driver_turn(struct driver *driver, int64_t since_ns);

/* This process is about to end in order: other voters should coordinate from now on.
 * driver_handed_over(): whether they do. driver_resigned(): whether they do, or cannot. Either may
 * never happen. Everything else goes on meanwhile. */
void driver_resign(struct driver *driver);
bool driver_resigned(const struct driver *driver);
bool driver_handed_over(const struct driver *driver);

/* The clock runs at another rate than max_drift allows (astray). Call it at least four times per
 * session time-to-live while astray, and once afterwards. If the clock was right before and is
 * right now, the call does nothing. */
void driver_clock(struct driver *driver, bool astray);

/* A message, or gossip, from another agent arrived. */
void driver_received(struct driver *driver, const struct message *message);
void driver_received_gossip(struct driver *driver, const struct message_agent *from,
                            const void *bytes, size_t size);
/* The connection to an agent was made, or broke. */
void driver_link(struct driver *driver, const struct message_agent *agent, bool up);
/* Nobody answers at the agent's address, and it is not dialled any more. */
void driver_unreachable(struct driver *driver, const struct message_agent *agent);

/* The batch is durable with that commit number; or, if error is not NULL, it is not. */
void driver_committed(struct driver *driver, uint64_t commit, const char *error);

/* Ends a loop turn: hands the batch over to be committed, if none is on its way. */
void driver_flush(struct driver *driver);

/*
 * Keep the session while the host core is held up. Between lend() and take_back() another thread
 * may call these functions, and between them driver_received(), driver_link() and
 * driver_received_gossip(). The caller ensures that only one thread at a time is in the driver.
 * These calls touch only what the host core does not: the session, the voter's side of sessions,
 * the queues of the driver.
 *
 * This agent's renewals are sent and answered, and those of others are answered. Other messages
 * that arrive are dropped, which the protocol allows; changes of links are kept for later. The own
 * voter's answer does not wait for the disk, because it depends on nothing that was to be persisted
 * (a voter that starts counts each session as just renewed). The host core learns of the new
 * deadline before its next step.
 */
void driver_keep_begin(struct driver *driver);
void driver_keep(struct driver *driver);
void driver_keep_end(struct driver *driver);
/* Returns when the session is to be renewed next. */
int64_t driver_renewal_ns(const struct driver *driver);

/* Messages of other agents arrive (on), until a call with on false. The host core makes no step
 * meanwhile, so that a step that is held up does not hold up the receiving. */
void driver_receiving(struct driver *driver, bool on);

/* Returns when to call driver_tick(); INT64_MAX: never. */
int64_t driver_next_ns(const struct driver *driver);

/* Returns how many batches were committed so far. */
uint64_t driver_commits(const struct driver *driver);

/* Returns whether that voter's configuration is known to differ from this agent's. */
bool driver_rules_differ(const struct driver *driver, uint32_t voter);
/* Returns whether that voter reports that it starts over (`holdfast member rejoin`) and does not
 * vote yet. */
bool driver_starts_over(const struct driver *driver, uint32_t voter);

/* Counters since the start. For people. */
struct driver_counts {
    uint64_t promises; /* rows handed to the disk, by kind */
    uint64_t accepts;
    uint64_t marks;
    uint64_t refused[MESSAGE_REFUSED_END]; /* sent to hosts, by enum message_refusal */
    struct histogram flush; /* from handing a batch over until it is known to be durable */
};
/* What waits in the driver now. */
struct driver_queues {
    uint32_t inbox;   /* messages to the own cores */
    uint32_t records; /* rows that collect, and rows that are being written */
    uint32_t flying;
    uint32_t waiting; /* messages that wait for either */
    uint32_t later;   /* messages that are sent later, with others */
};
/* Voters by bit: those that answer and are linked (not those that never answered); those that may
 * not vote, or refuse this agent. */
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
