/*
 * What the files of the driver share: its state, and how one calls another.
 *
 *   driver.c          messages, batches, events from outside
 *   session.c  the session, and which voters are there
 *   gossip.c   what gossip is told, and what it wants
 *   admission.c     who may say what, and what is passed on
 *   counts.c   counts and figures for people
 *
 * All of it is on the driver's thread. Once driver_failed() says something, nothing more is done.
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

/* Something for the host core. */
struct inbox_item {
    enum host_event_kind kind;
    uint32_t client;
    struct message message; /* MESSAGE; also RENEW_ACK, which is for the renewal */
};

struct driver {
    struct driver_config config;
    struct actions quorum_actions;
    struct host_actions host_actions;
    struct gossip_actions gossip_actions;
    struct message_partitions owned; /* as gossip has it */
    struct fifo quorum_inbox;        /* struct message */
    struct fifo host_inbox;          /* struct inbox_item */
    struct driver_batch batches[2];
    struct driver_batch *open;   /* new rows go into it */
    struct driver_batch *flying; /* on its way to the disk; NULL: none is */
    struct driver_batch later;   /* only its queue: messages that need not go at once */
    int64_t later_ns;            /* when they go, if there are any */
    bool handing_over;           /* within operations.commit() */
    bool landed;                 /* the flying one is durable */
    bool astray;                 /* the clock is: see driver_clock() */
    bool started;
    int64_t open_since_ns; /* open was found with rows for which nothing waits; 0: it was not */
    uint64_t commit;       /* the last one's number */
    uint64_t commits;
    int64_t flying_since_ns;
    struct driver_counts counts;
    int64_t last_ns;
    int64_t turn_ns; /* since when the turn, or what is left of it after a stall, lasts; 0: none */
    /* The host core's knowledge of the session. */
    struct host_lease told;
    enum renewal_state told_state;
    uint32_t next_epoch; /* not 0: being made durable */
    /* The voters, by bit: as the host core has them; those whose link broke; those that refuse us
     * for our rules. */
    uint32_t voters_up; /* as of the last HOST_VOTERS */
    uint32_t voters_heard;
    uint32_t voters_refused;
    uint32_t links_down;
    uint32_t refusing;
    uint8_t standings[MESSAGE_VOTERS_MAX]; /* the status of those that may not vote, until they
                                            * answer */
    int64_t started_ns;
    struct log_limits refusals; /* see driver_may_say() */
    /* Where messages and items are while a step reads them. */
    struct inbox_item item;
    struct message message;
    struct message request;  /* on its way out */
    struct host_action late; /* the answer in place of a reply that came too late */
    char failed[FAILED_MAX];
};

/* ---- driver.c ---- */

/* It goes no further than this: the first reason is kept, for driver_failed(). */
void driver_fail(struct driver *driver, const char *what, const char *why);
/* false: out of memory, which is a failure of the driver. Returns good. */
bool driver_kept(struct driver *driver, bool good);

/* Never earlier than what it returned before. */
int64_t driver_clock_ns(struct driver *driver);
uint64_t driver_draw(struct driver *driver);

/* An event for the host core (now_ns and random are filled in), and what it wants of it. */
void driver_step_host(struct driver *driver, struct host_event *event);

/* Carries out quorum_actions, of the quorum core or of the renewal. */
void driver_take_actions(struct driver *driver);

static inline bool same_agent(const struct message_agent *a, const struct message_agent *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool driver_is_self(const struct driver *driver, const struct message_agent *agent)
{
    return same_agent(agent, &driver->config.self);
}

/* Which voter an agent is; voter_count: none. */
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

/* ---- admission.c ---- */

/* Whether its sender may send that; if not, the log says so. A request is made in the sender's own
 * name. Only a voter may have it from another agent, and then not for a third one: the next voter
 * believes a voter that passes a request on, also the name of the asking host. */
bool driver_may_say(struct driver *driver, const struct message *message);

/* ---- counts.c ---- */

/* The quorum core wants this done. */
void driver_count_action(struct driver *driver, const struct action *action);

/* ---- session.c ---- */

/* Notifies the host core of changes of the session, and begins a new one after a loss. */
void driver_see_session(struct driver *driver);

/* epoch is durable; adopted: it continues. */
void driver_start_session(struct driver *driver, uint32_t epoch, bool adopted);

/* Notifies the host core which voters are there and which refuse it, if that changed. */
void driver_see_voters(struct driver *driver);
/* The quorum core was given a HELLO of that agent (voter_count: of no voter). */
void driver_see_standing(struct driver *driver, uint32_t voter);

/* RENEW_ACK or HELLO_ACK; ignored if it is no voter's. */
void driver_take_answer(struct driver *driver, const struct message *message);

/* ---- gossip.c: nothing is done if there is no gossip ---- */

/* An event for gossip; now_ns and random are filled in. */
void driver_gossip_step(struct driver *driver, struct gossip_event *event);
/* address may be NULL: not known. */
void driver_gossip_peer(struct driver *driver, const struct message_agent *agent,
                        const char *address, bool up);
void driver_gossip_session(struct driver *driver, const struct message_agent *agent, uint32_t epoch,
                           enum gossip_session state);
/* A voter's partitions stand in its heartbeats. */
void driver_gossip_owned(struct driver *driver, const struct message *beat);
void driver_gossip_start(struct driver *driver, uint32_t epoch);

#endif
