/*
 * The driver: gives events to the cores and carries out what they want, in an order that keeps
 * every promise durable before it is made.
 *
 *   an event -> host core -> requests -> quorum core -> actions -> other agents, this host, disk
 *
 * Rows to persist collect in a batch. A batch is handed over whole to be made durable
 * (driver_operations.commit) while the loop goes on; the next one collects meanwhile. Only one is
 * on its way to the disk at a time, so all rows that came up during a flush share the next.
 *
 * A message that depends on the disk waits for the batch that was open when it came up: messages
 *   that quorum_waits_for_disk(), also those to the own quorum core; GIVE_BACK; frames to clients,
 *   their records, logs and whatever else the host core wants done behind a row of its own; grants
 *   and amendments for the own host core.
 * All else goes at once: a proposal goes out to the other voters while the own disk is being
 * written with it. (One that comes up during another flush goes out when that is done.) What was
 * chosen without a voter is sent to it some ms later, together with others. A batch that nothing
 * waits for is handed over some ms later, with the next one that something waits for.
 *
 * If the store fails, nothing that waits is carried out and driver_failed() says so: the process
 * must end, its memory is ahead of its disk.
 *
 * It also keeps the session: it notifies the host core of each change of the lease, and begins a
 * new epoch (durable first) when one is lost. An observer has no quorum core: quorum is NULL.
 *
 * One thread; time, randomness, network and disk come from its operations, so that the simulator
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
    DRIVER_SLOT,       /* slot of a region <-> name */
    DRIVER_NO_SLOT,
    DRIVER_EPOCH, /* of the next session */
};

struct driver_record {
    enum driver_record_kind kind;
    union {
        struct action action; /* of a register's value only share_count shares are there */
        struct {
            uint32_t region;
            uint32_t slot;
            struct message_name name;
        } slot;
        uint32_t epoch;
    } as;
};

/* Records in order. For driver_operations.commit. */
struct driver_batch;
uint32_t driver_batch_count(const struct driver_batch *batch);
/* The record at *at (0 at first), which moves on. NULL: that was all. */
const struct driver_record *driver_batch_next(const struct driver_batch *batch, size_t *at);

/* Whether nothing is under way here but the one name of the batch: while it is flushed, no request
 * to the quorum can come up here but one that waits for this very flush too. Work without the disk
 * still can: a client that opens a known name, a ring, a renewal. */
bool driver_is_alone(const struct driver *driver, const struct driver_batch *batch);

struct driver_operations {
    /* Carries out a HOST_REPLY (bytes: its frame), WELCOMED, HANG_UP, FORGET, ALIAS, LOG or TELL.
     * May call driver_post(), nothing else. After a FORGET no event bears that client's number. */
    void (*act)(void *arg, const struct host_action *action, const unsigned char *bytes);
    /* Sends to another agent, by name. May be lost; the header fields are filled in. */
    void (*send)(void *arg, const struct message_agent *to, const struct message *message);
    void (*send_gossip)(void *arg, const struct message_agent *to, const void *bytes, size_t size);
    /* An agent says where it listens (RENEW, HELLO, gossip). */
    void (*address)(void *arg, const struct message_agent *agent, const char *address);
    /* Begins to make a batch durable; driver_committed() reports it, also from within this call.
     * The batch is the driver's and stays as it is until then. */
    void (*commit)(void *arg, const struct driver_batch *batch);
    /* For people. */
    void (*log)(void *arg, const struct action_log *log);
    /* Called before anybody gets this deadline. */
    void (*promise)(void *arg, uint32_t epoch, int64_t deadline_ns);
    /* For people: the session's state changed. */
    void (*session)(void *arg, enum renewal_state state, uint32_t epoch);
    /* For people: a turn has lasted too long, which is a stall. Only with driver_turn(). */
    void (*stalled)(void *arg, int64_t turn_ns);
    int64_t (*now_ns)(void *arg); /* CLOCK_BOOTTIME */
    uint64_t (*random)(void *arg);
    void *arg;
};

struct driver_config {
    struct host *host;     /* all borrowed */
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

/* Starts the cores and the session: epoch is durable; adopted: it continues. */
void driver_start(struct driver *driver, uint32_t epoch, bool adopted);

/* An event for the host core; now_ns and random are filled in. */
void driver_event(struct driver *driver, struct host_event *event);

/* HANGUP, DIED or DRAINED of a client, from within act(): done soon, before flush returns. */
void driver_post(struct driver *driver, enum host_event_kind kind, uint32_t client);

/* Timers that are due. */
void driver_tick(struct driver *driver);

/* This process stood still. Before anything else that happened meanwhile. */
void driver_stalled(struct driver *driver);

/*
 * A turn of the loop begins: messages since since_ns may be unread until the next one. 0: it is
 * over, or nobody counts. A turn that has lasted for more than a third of the ttl, be it that this
 * process stood still within it, is a stall: no step of the voter is made later in it before every
 * session counts as just renewed. true (only with 0): that was found at its end, and there may be
 * something to flush.
 */
bool driver_turn(struct driver *driver, int64_t since_ns);

/* This process is about to end in order: what it coordinates is for others from now on. Whether
 * that is done, or cannot be; it may never be. Whether it is done. Everything else goes on
 * meanwhile. */
void driver_resign(struct driver *driver);
bool driver_resigned(const struct driver *driver);
bool driver_handed_over(const struct driver *driver);

/* The clock runs at another rate than max_drift allows (astray): tell it at least four times a ttl
 * for as long as it does, and once when it is over. Nothing happens if it was well and is. */
void driver_clock(struct driver *driver, bool astray);

/* A message of another agent arrived. */
void driver_received(struct driver *driver, const struct message *message);
void driver_received_gossip(struct driver *driver, const struct message_agent *from,
                            const void *bytes, size_t size);
/* The connection to an agent is there, or broken. */
void driver_link(struct driver *driver, const struct message_agent *agent, bool up);
/* It is not dialled any more: nobody answered where it was said to be. */
void driver_unreachable(struct driver *driver, const struct message_agent *agent);

/* The batch is durable, as commit number `commit`; or error (not NULL): it is not. */
void driver_committed(struct driver *driver, uint64_t commit, const char *error);

/* The end of a loop turn: hands the batch over to be committed, if none is on its way. */
void driver_flush(struct driver *driver);

/* When driver_tick() is wanted; INT64_MAX: never. */
int64_t driver_next_ns(const struct driver *driver);

/* How many batches were committed so far. */
uint64_t driver_commits(const struct driver *driver);

/* Whether that voter's configuration is known to be another one than this agent's. */
bool driver_rules_differ(const struct driver *driver, uint32_t voter);
/* Whether that voter says that it starts over (`holdfast member rejoin`) and does not vote yet. */
bool driver_starts_over(const struct driver *driver, uint32_t voter);

/* For people: counts since the start, */
struct driver_counts {
    uint64_t promises; /* rows on their way to the disk, by what they are */
    uint64_t accepts;
    uint64_t marks;
    uint64_t refused[MESSAGE_REFUSED_QUOTA + 1]; /* sent to hosts, by enum message_refusal */
    struct histogram flush; /* from the handing over of a batch until it is durable and known so */
};
/* and what waits now. */
struct driver_queues {
    uint32_t inbox;   /* messages to the own cores */
    uint32_t records; /* rows that collect, and those that are being written: */
    uint32_t flying;
    uint32_t waiting; /* the messages that wait for either */
    uint32_t later;   /* messages that are sent with others */
};
/* The voters, bit by index: those that answer and are linked (one that never answered is not);
 * those that may not vote, or refuse this agent. */
struct driver_voters {
    uint32_t up;
    uint32_t refused;
};
void driver_voters(const struct driver *driver, struct driver_voters *out);
const struct driver_counts *driver_counts(const struct driver *driver);
void driver_queues(const struct driver *driver, struct driver_queues *out);

/* NULL, or why the process must end. */
const char *driver_failed(const struct driver *driver);

#endif
