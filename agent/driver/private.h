/*
 * The state and the functions that the files of the driver share.
 *
 *   driver.c     messages, batches, events from outside
 *   session.c    the session, and which voters answer
 *   record.c     the record of voters that this agent uses
 *   ending.c     handing over before the end of the process
 *   gossip.c     events and actions of gossip
 *   admission.c  which sender may send which message
 *   counts.c     counters for display
 *   create.c     makes and frees the driver
 *   keep.c       keeps the session while the host core is held up
 *
 * Only one thread at a time may be in these files. Once driver_failed() reports a failure, the
 * driver does nothing more.
 */
#ifndef AGENT_DRIVER_PRIVATE_H
#define AGENT_DRIVER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/log_limit.h"
#include "core/base/succession.h"
#include "driver/batch.h"
#include "driver/driver.h"

enum { FAILED_MAX = 1024 };

/* An event for the host core. */
struct inbox_item {
    enum host_event_kind kind;
    uint32_t client;
    struct message message; /* if kind is HOST_MESSAGE: the message. session.c takes a RENEW_ACK or
                             * HELLO_ACK; the host core takes the others */
};

struct driver {
    struct driver_config config;
    struct actions quorum_actions;
    struct host_actions host_actions;
    struct gossip_actions gossip_actions;
    struct message_partitions owned; /* the partitions that gossip last published */
    struct fifo quorum_inbox;        /* holds items of struct message */
    struct fifo host_inbox;          /* holds items of struct inbox_item */
    struct driver_batch batches[2];
    struct driver_batch *open;   /* the batch that collects new rows */
    struct driver_batch *flying; /* the batch that is being written; NULL: none is */
    struct driver_batch later;   /* only its waiting queue is used, for messages that are not
                                  * urgent */
    int64_t later_ns;            /* when to send the messages in `later`, if there are any */
    bool handing_over;           /* operations.commit() is being called */
    bool landed;                 /* the flying batch is durable */
    bool astray;                 /* the clock is astray: see driver_clock() */
    bool started;
    int64_t open_since_ns; /* since when `open` has only rows for which nothing waits; 0: it has
                            * none, or is handed over at once */
    uint64_t commit;       /* the last commit's number */
    uint64_t commits;
    int64_t flying_since_ns;
    struct driver_counts counts;
    int64_t last_ns;
    int64_t turn_ns; /* when the turn began, or its last stall was found; 0: no turn is measured */
    /* The session as this driver last reported it to the host core. */
    struct host_lease notified;
    enum renewal_state notified_state;
    uint32_t next_epoch; /* not 0: this epoch is being made durable */
    /* Sets of voters, one bit for each. */
    uint32_t voters_up; /* this set and the next two: as in the last HOST_VOTERS event */
    uint32_t voters_answering;
    uint32_t voters_refused;
    uint32_t links_down;
    uint32_t links_new; /* the links that have come up since the last HOST_VOTERS event */
    uint32_t refusing;
    /* The status of each voter that has reported that it may not vote. The status is valid until
     * that voter acknowledges a renewal, or its link changes. */
    uint8_t statuses[MESSAGE_VOTERS_MAX];
    int64_t started_ns;
    /* when each voter became a voter, as far as this process knows: started_ns or later */
    int64_t voters_since_ns[MESSAGE_VOTERS_MAX];
    struct message_voters record;    /* config.voters and the sets of voters above belong to it */
    bool record_new;                 /* the host core does not use `record` yet */
    struct log_limit conflict_limit; /* limits the log lines about a second cell */
    int64_t written_ns;              /* when this agent last asked a voter that is in the
                                      * configuration but not in the record */
    uint32_t written_turn;           /* counts these questions: selects the next voter to ask */
    int64_t asked_ns;           /* when this observer last asked for a newer record; 0: never */
    uint32_t asked_turn;        /* which voter it asks next for a newer record */
    struct log_limits refusals; /* limits the log lines of driver_admits() */
    /* A copy of the item or message that a step is reading. */
    struct inbox_item item;
    struct message message;
    struct message request;  /* a message that is being sent */
    struct host_action late; /* the refusal that is sent in place of a late reply */
    /* The state of keep.c, and the work that keep.c leaves for the loop's thread. */
    bool keeping;
    bool receiving;         /* see driver_receiving() */
    bool session_later;     /* call driver_see_session() when receiving ends */
    bool voters_later;      /* call driver_see_voters() when receiving ends */
    bool kept;              /* driver_keep() has run, and the host core does not know the present
                             * lease yet */
    int64_t promised_ns;    /* the last promised deadline of the session in `notified` */
    struct fifo kept_inbox; /* holds items of struct message: RENEWs of this agent to its own voter,
                             * and their answers */
    struct fifo kept_links; /* holds items of struct kept_link */
    char failed[FAILED_MAX];
};

/* ---- driver.c ---- */

/* Makes the driver fail: it does nothing more. Keeps the first reason, for driver_failed(). */
void driver_fail(struct driver *driver, const char *what, const char *why);
/* Returns good. If good is false, the driver has run out of memory, and fails. */
bool driver_kept(struct driver *driver, bool good);

/* Returns the time, which never goes back. */
int64_t driver_clock_ns(struct driver *driver);
uint64_t driver_draw(struct driver *driver);

/* Makes a step of the host core with the event (fills in now_ns and random), and carries out the
 * actions. */
void driver_step_host(struct driver *driver, struct host_event *event);

/* Makes a step of the quorum core, if this agent has one, and carries out the actions. */
void driver_step_quorum(struct driver *driver, struct quorum_event *event);

/* Gives the cores all messages that wait for them, and the messages that result. */
void driver_drain(struct driver *driver);

/* Copies a message of the host core, or a message to pass on, with this agent's header. Without
 * a quorum core the header reports no commit (core/quorum/members_stores.c). The copy is valid
 * until the next call. */
struct message *driver_with_header(struct driver *driver, const struct message *message);

/* Carries out the actions of the quorum core or of the renewal, which are in quorum_actions. */
void driver_take_actions(struct driver *driver);

static inline bool same_agent(const struct message_agent *a, const struct message_agent *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool driver_is_self(const struct driver *driver, const struct message_agent *agent)
{
    return same_agent(agent, &driver->config.self);
}

/* Returns the agent's index among the voters; voter_count if it is not a voter. */
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

/* Returns whether driver_keep() handles this message, which the agent sends to itself. */
static inline bool driver_keeps(const struct driver *driver, const struct message *message)
{
    return driver->keeping &&
           (message->kind == MESSAGE_RENEW || message->kind == MESSAGE_RENEW_ACK);
}

void driver_keep_own(struct driver *driver, const struct message *message);
void driver_keep_received(struct driver *driver, const struct message *message);
void driver_keep_link(struct driver *driver, const struct message_agent *agent, bool up);
/* Handles the changes of links that keep.c has kept. Called by the loop's thread at the end of a
 * turn. */
void driver_take_kept_links(struct driver *driver);

/* ---- admission.c ---- */

/* Returns whether this agent's configuration names the agent as a voter. The configuration may be
 * older than the record of voters. If the record does not name the agent, the agent is trusted only
 * in messages about the record. */
bool driver_is_written(const struct driver *driver, const struct message_agent *agent);

/* Returns whether the sender may send this message. A message that breaks these rules is logged.
 * The sender of a request is normally the agent that it is for. A voter may also pass on another
 * agent's request, but only if this agent is the last receiver. If this agent is to relay the
 * request, the sender must be the agent that it is for: the last receiver trusts the voter that
 * relays, so that voter has to check. */
bool driver_admits(struct driver *driver, const struct message *message);

/* ---- counts.c ---- */

/* Counts an action of the quorum core. */
void driver_count_action(struct driver *driver, const struct action *action);

/* ---- session.c ---- */

/* Notifies the host core of changes of the session, and begins a new session after a loss. */
void driver_see_session(struct driver *driver);

/* Starts the session of that epoch, which is durable already. adopted: the previous agent's session
 * goes on. */
void driver_start_session(struct driver *driver, uint32_t epoch, bool adopted);

/* Notifies the host core which voters answer and which refuse this agent, if that changed. */
void driver_see_voters(struct driver *driver);
/* Returns quorum_missing(); 0: this agent is no voter. */
uint32_t driver_missing(const struct driver *driver);
/* Called when the quorum core has handled a HELLO: notes the sender's status. voter: voter_count if
 * the sender is no voter. */
void driver_note_status(struct driver *driver, uint32_t voter);

/* Handles a RENEW_ACK or HELLO_ACK. Ignores the message if its sender is not a voter. */
void driver_take_answer(struct driver *driver, const struct message *message);

/* ---- record.c ---- */

/* Returns whether messages of this kind are about the record of voters. They go to the quorum core,
 * or to driver_record_message() if this agent has none. */
static inline bool driver_is_of_record(enum message_kind kind)
{
    return kind == MESSAGE_VOTERS || kind == MESSAGE_ASK_VOTERS || kind == MESSAGE_LEARN;
}

/* For an agent without a quorum core: handles a message about the record of voters. */
void driver_record_message(struct driver *driver, const struct message *message);
/* For an agent without a quorum core: asks for a newer record if the message's sender uses one. */
void driver_compare_record(struct driver *driver, const struct message *message);
/* Called when the connection to an agent was made. Asks it for a newer record in two cases: it is a
 * voter, and this agent is an observer that is not sure of its record; or it is a voter only in the
 * configuration. In the second case the other agent may know a record of which this agent knows no
 * voter. */
void driver_ask_linked(struct driver *driver, const struct message_agent *agent);

/* For an agent that is no voter: asks from time to time whether its record is complete. */
void driver_record_tick(struct driver *driver);

/* Switches to that record of voters, and reorders the tables that are indexed by voter. Does
 * nothing if the record is not newer than the present one. The host core gets the record before its
 * next step. Appends actions to quorum_actions. */
void driver_take_record(struct driver *driver, const struct message_voters *record);

/* ---- gossip.c: these do nothing if gossip is NULL ---- */

/* Makes a step of gossip with the event (fills in now_ns and random), and carries out the
 * actions. */
void driver_gossip_step(struct driver *driver, struct gossip_event *event);
/* address: NULL if it is not known. */
void driver_gossip_peer(struct driver *driver, const struct message_agent *agent,
                        const char *address, bool up);
void driver_gossip_session(struct driver *driver, const struct message_agent *agent, uint32_t epoch,
                           enum gossip_session state);
/* Publishes the partitions that this voter's heartbeat names. */
void driver_gossip_owned(struct driver *driver, const struct message *heartbeat);
void driver_gossip_start(struct driver *driver, uint32_t epoch);
/* Publishes whether this agent is a voter, and adds the new voters as peers. Call it when the
 * configuration has the voters of the new record; succession->from has their old indexes. */
void driver_gossip_record(struct driver *driver, const struct succession *succession);

#endif
