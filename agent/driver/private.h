/*
 * What the files of the driver share: its state and functions.
 *
 *   driver.c     messages, batches, events from outside
 *   session.c    the session, and which voters answer
 *   gossip.c     events and actions of gossip
 *   admission.c  which sender may send which message
 *   counts.c     counters for people
 *   create.c     makes and frees the driver
 *   keep.c       keeps the session while the host core is held up
 *
 * Only one thread at a time runs any of it. Once driver_failed() reports a failure, nothing more
 * is done.
 */
#ifndef AGENT_DRIVER_PRIVATE_H
#define AGENT_DRIVER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/log_limit.h"
#include "driver/batch.h"
#include "driver/driver.h"

enum { FAILED_MAX = 1024 };

/* An event for the host core. */
struct inbox_item {
    enum host_event_kind kind;
    uint32_t client;
    struct message message; /* MESSAGE; also RENEW_ACK and HELLO_ACK, which go to session.c */
};

struct driver {
    struct driver_config config;
    struct actions quorum_actions;
    struct host_actions host_actions;
    struct gossip_actions gossip_actions;
    struct message_partitions owned; /* the partitions that gossip last published */
    struct fifo quorum_inbox;        /* of struct message */
    struct fifo host_inbox;          /* of struct inbox_item */
    struct driver_batch batches[2];
    struct driver_batch *open;   /* new rows go into this batch */
    struct driver_batch *flying; /* the batch on its way to the disk; NULL: none is */
    struct driver_batch later;   /* only its queue is used: messages that are not urgent */
    int64_t later_ns;            /* when to send those, if there are any */
    bool handing_over;           /* within operations.commit() */
    bool landed;                 /* the flying batch is durable */
    bool astray;                 /* the clock is astray: see driver_clock() */
    bool started;
    int64_t open_since_ns; /* since when nothing waits for rows in open; 0: open has none */
    uint64_t commit;       /* the last commit's number */
    uint64_t commits;
    int64_t flying_since_ns;
    struct driver_counts counts;
    int64_t last_ns;
    int64_t turn_ns; /* when the turn began, or its last stall was found; 0: no turn */
    /* The session as the host core last received it. */
    struct host_lease notified;
    enum renewal_state notified_state;
    uint32_t next_epoch; /* not 0: this epoch is being made durable */
    /* The voters, by bit: as the host core last received them; those whose link broke; those that
     * refuse this agent because its rules differ. */
    uint32_t voters_up; /* the three masks of the last HOST_VOTERS */
    uint32_t voters_heard;
    uint32_t voters_refused;
    uint32_t links_down;
    uint32_t refusing;
    /* The status of each voter that reports that it may not vote, until it answers. */
    uint8_t statuses[MESSAGE_VOTERS_MAX];
    int64_t started_ns;
    struct log_limits refusals; /* limits log lines, see driver_admits() */
    /* Copies of messages and items while a step reads them. */
    struct inbox_item item;
    struct message message;
    struct message request;  /* a message on its way out */
    struct host_action late; /* the refusal sent in place of a reply that came too late */
    /* keep.c, and what it leaves for the thread of the loop. */
    bool keeping;
    bool receiving;         /* see driver_receiving() */
    bool voters_later;      /* driver_see_voters() is to be called when that is over */
    bool kept;              /* the session was kept: the host core is to learn of it */
    int64_t promised_ns;    /* the last deadline that was promised, of the session in `notified` */
    struct fifo kept_inbox; /* struct message: RENEW to the own voter, and its answers */
    struct fifo kept_links; /* struct kept_link */
    char failed[FAILED_MAX];
};

/* ---- driver.c ---- */

/* The driver failed and does nothing more. Keeps the first reason, for driver_failed(). */
void driver_fail(struct driver *driver, const char *what, const char *why);
/* Returns good. false means out of memory, which is a failure of the driver. */
bool driver_kept(struct driver *driver, bool good);

/* The time; never less than what it returned before. */
int64_t driver_clock_ns(struct driver *driver);
uint64_t driver_draw(struct driver *driver);

/* Steps the host core with an event (fills in now_ns and random), and carries out the actions. */
void driver_step_host(struct driver *driver, struct host_event *event);

/* Carries out quorum_actions, which come from the quorum core or the renewal. */
void driver_take_actions(struct driver *driver);

static inline bool same_agent(const struct message_agent *a, const struct message_agent *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool driver_is_self(const struct driver *driver, const struct message_agent *agent)
{
    return same_agent(agent, &driver->config.self);
}

/* The index of the voter that an agent is; voter_count if it is none. */
static inline uint32_t driver_find_voter(const struct driver *driver,
                                         const struct message_agent *agent)
{
    uint32_t voter = 0;
    while (voter < driver->config.voter_count &&
           !same_agent(agent, &driver->config.voters[voter])) {
        voter++;
    }
    return voter;
}

static inline bool driver_has_failed(const struct driver *driver)
{
    return driver->failed[0] != '\0';
}

/* ---- keep.c ---- */

struct kept_link {
    struct message_agent agent;
    bool up;
};

/* A message to this agent itself that driver_keep() takes. */
static inline bool driver_keeps(const struct driver *driver, const struct message *message)
{
    return driver->keeping &&
           (message->kind == MESSAGE_RENEW || message->kind == MESSAGE_RENEW_ACK);
}

void driver_keep_own(struct driver *driver, const struct message *message);
void driver_keep_received(struct driver *driver, const struct message *message);
void driver_keep_link(struct driver *driver, const struct message_agent *agent, bool up);
/* The links that changed meanwhile. By the thread of the loop, at the end of a turn. */
void driver_take_kept_links(struct driver *driver);

/* ---- admission.c ---- */

/* Returns whether the message's sender may send it; if not, logs that. An agent makes requests in
 * its own name. Only a voter may bring another agent's request, and only to this agent, not to be
 * relayed to a third one. The reason: if a voter passes a request on, the next voter believes the
 * request's name. */
bool driver_admits(struct driver *driver, const struct message *message);

/* ---- counts.c ---- */

/* Counts an action of the quorum core. */
void driver_count_action(struct driver *driver, const struct action *action);

/* ---- session.c ---- */

/* Notifies the host core of changes of the session, and begins a new session after a loss. */
void driver_see_session(struct driver *driver);

/* Starts the session of that epoch, which is durable. adopted: it continues. */
void driver_start_session(struct driver *driver, uint32_t epoch, bool adopted);

/* Notifies the host core which voters answer and which refuse this agent, if that changed. */
void driver_see_voters(struct driver *driver);
/* The quorum core has handled a HELLO of that voter (voter_count: of another agent). */
void driver_note_status(struct driver *driver, uint32_t voter);

/* Handles a RENEW_ACK or HELLO_ACK. Ignores it if no voter sent it. */
void driver_take_answer(struct driver *driver, const struct message *message);

/* ---- gossip.c: does nothing if there is no gossip ---- */

/* Steps gossip with an event (fills in now_ns and random), and carries out the actions. */
void driver_gossip_step(struct driver *driver, struct gossip_event *event);
/* address is NULL if it is not known. */
void driver_gossip_peer(struct driver *driver, const struct message_agent *agent,
                        const char *address, bool up);
void driver_gossip_session(struct driver *driver, const struct message_agent *agent, uint32_t epoch,
                           enum gossip_session state);
/* Publishes the partitions that this voter's heartbeat names. */
void driver_gossip_owned(struct driver *driver, const struct message *heartbeat);
void driver_gossip_start(struct driver *driver, uint32_t epoch);

#endif
