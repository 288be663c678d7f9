/*
 * One step of the host core, as all its modules see it: the actions that the step emits, how much
 * room it has left, whether the lease is safe.
 *
 * A step emits a bounded number of actions. Work that may be too much for one step (watchers to
 * notify, handles of an ended client to close) is noted, and done in pieces as long as
 * hub_has_room(). One piece needs at most HUB_PIECE_ACTIONS and HUB_PIECE_OUTPUT.
 *
 * The hub is below all other modules. tests/house/modules says which module may call which, and
 * the lint checks that. The modules from the top down:
 *
 *   host                                          steps, timers, dispatch
 *   adoption regions opens remote operator breaks repair answers
 *                                                 each changes locks for a reason of its own
 *   burials lease                                 the ends of handles, clients and sessions
 *   attend                                        what the agent does when it looks at a lock
 *   grants limits words                           a lock's grant, its limited holds, its word
 *   holds slots requests pending                  ends of holds, slots of names, requests, OPENs
 *   handles watches openings kept delays behind polled
 *                                                 tables; pokes of polled waiters
 *   locks seats clients ringing routes ids listing spaces full notes
 *
 * The modules look, merge, publish, inspect, overview, survey and invariants stand beside these and
 * decide nothing. The module tally counts what other hosts answer to a break.
 *
 * The quorum core has a header reactions.h for calls that go up. The host core needs none, because
 * only one call goes up: ringing calls attend_lock(), which host.c passes to ringing_work().
 *
 * Invariants: nothing is emitted without room for it (HF_CHECK), and no module does I/O. struct
 * host has what all modules read: the configuration, the time, the session, the number of the last
 * request, and how many handles and seats were looked at. Only host.c, lease.c and hub.c write
 * these. (overview.c changes the time while it describes one lock, and then sets it back.) Any
 * module may raise the counters for display. struct host also points to each module's own struct.
 *
 * Indexes are 32-bit; NONE is no index.
 */
#ifndef HOST_HUB_H
#define HOST_HUB_H

#include <string.h>

#include "core/host.h"
#include "core/quorum.h"
#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "proto/probe.h"

/* No index. */
#define NONE UINT32_MAX

static const int64_t MS = 1000000;

enum {
    HUB_HOLDER_IDS = 65535, /* ids 1 .. 65534 */
    HUB_PIECE_ACTIONS = 24, /* the most actions that one piece of work emits */
    HUB_PIECE_OUTPUT = 1024,
    /* The most pieces of each kind of work, for each namespace, from one tick to the next. A bound
     * for each step is not enough, because the driver may do thousands of steps between two
     * ticks. */
    HUB_PIECES_MAX = 4096,
    /* the most handles that may be looked at between two ticks (which are some milliseconds
     * apart) */
    HUB_WALK_MAX = 1 << 20,
    /* the number of handles that count as one piece */
    HUB_WALK_PIECE = HUB_WALK_MAX / HUB_PIECES_MAX,
};

/* Returns the lowest number above all holder ids. */
static inline uint32_t hub_id_end(const struct host_config *config)
{
    return config->limits.holders != 0 ? config->limits.holders + 1 : HUB_HOLDER_IDS;
}

/* Names a lock by its namespace and its slot in that namespace's region. */
struct lock_ref {
    uint32_t space;
    uint32_t slot;
};

/* The host core's memory: one block, in which each module has a struct that no other module looks
 * into. */
struct host {
    struct host_config config;
    struct names *names;   /* shared with the quorum core */
    struct gossip *gossip; /* NULL: none */
    int64_t now_ns;
    bool started;
    struct host_lease lease; /* the session; its epoch is the epoch of all grants */
    struct host_counts counts;
    uint64_t last_request; /* the number of the last message that expects an answer */
    uint32_t walked;       /* the number of handles and seats looked at since the last tick */
    struct work *work;
    struct spaces *spaces;
    struct locks *locks;
    struct handles *handles;
    struct notes *notes;
    struct clients *clients;
    struct seats *seats;
    struct openings *openings;
    struct ringing *ringing;
    struct limits *limits;
    struct pending *pending;
    struct words *words;
    struct grants *grants;
    struct lease *lease_state;
    struct burials *burials;
    struct attend *attend;
    struct opens *opens;
    struct repair *repair;
    struct routes *routes;
    struct listing *listing;
    struct publish *publish;
    struct watches *watches;
    struct breaks *breaks;
    struct tallies *tallies;
    struct remote *remote;
    struct operator_asks *operator_asks;
    struct delays *delays;
    struct requests *requests;
    struct kept *kept;
    struct behind *behind;
    struct full *full;
};

/* Emits an action and returns it. The caller fills it in. */
struct host_action *hub_emit(struct host_actions *actions, enum host_action_kind kind);
/* Emits a message to the voter `to` (or HOST_TO_AGENT) and returns it. The caller fills it in. */
struct message *hub_send(struct host_actions *actions, enum message_kind kind, uint32_t to,
                         uint8_t relay);
/* Emits a line of the log that is about no lock, and returns it. */
struct host_action *hub_log(struct host_actions *actions, const char *event, int64_t number);
/* Returns whether one more piece of work fits in this step. */
bool hub_has_room(const struct host_actions *actions);
/* Returns whether the session's lease counts now. The host asks for grants, and amends grants, only
 * while the lease counts. */
bool hub_lease_is_safe(const struct host *host);
/* Returns the epoch of the session. Before START, that is the session which this agent
 * continues. */
uint32_t hub_session(const struct host *host);
/* Returns by how much this host counts a lock-delay of delay_ms longer, because the clock of
 * another host may run at another rate (max_drift). */
int64_t hub_counted_long_ns(const struct host *host, uint32_t delay_ms);
/* Adds to the number of handles and seats that were looked at since the last tick. */
void hub_walk(struct host *host, uint32_t looked_at);
/* Call it when some work is done. `before` is host->walked when the work began. Returns the number
 * of pieces that the work counts as, and sets host->walked back to `before`, because these pieces
 * include the handles that were looked at. */
uint32_t hub_pieces(struct host *host, uint32_t before);
/* Returns the number of the next message that expects an answer. */
uint64_t hub_next_request(struct host *host);
/* Returns the size of a text, which ends with a zero byte, or after `max` bytes. */
uint32_t hub_text_size(const char *text, size_t max);

#endif
