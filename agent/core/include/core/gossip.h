/*
 * Gossip: what people see of the cell: holders and waiters on other hosts, which sessions are safe,
 * coordinators, addresses of agents. No decision about a lock depends on gossip: an agent that
 * lies, or a packet from yesterday, can only show people something wrong.
 *
 * Each agent is the author of its own items. It has an item about itself, and one about each lock
 * that somebody on its host holds or waits for. A voter also has items about the partitions that it
 * coordinates and the sessions that are over. An item has a number that rises with each change. All
 * items of an author have the incarnation of its process, and items of a higher incarnation replace
 * all items of a lower one. An agent that restarted does not remember its last incarnation. If it
 * receives its own items with an incarnation above its present one, it takes a still higher
 * incarnation and publishes everything anew.
 *
 *   rumours       In each ROUND an agent sends its new items to FANOUT random peers, in one packet.
 *                 A peer to which an item is new passes the item on in the same way. Each agent
 *                 sends an item in REPEATS rounds
 *   anti-entropy  In each EXCHANGE an agent sends one hash per author to EXCHANGE_PEERS random
 *                 peers. A peer that has another hash for an author answers with the hashes of the
 *                 author's 256 buckets, and gets the items of the buckets that differ. This repairs
 *                 what rumours missed, and brings signs of life
 *
 * Costs in a cell of n agents. Whatever n is, an agent sends:
 *   when nothing changes: EXCHANGE_PEERS / EXCHANGE = 4 digests a second, and answers to 4 digests,
 *   which makes 8 messages;
 *   when the cell changes all the time: 30 rumours a second more (FANOUT / ROUND), and for each of
 *   the 8 digests at most one message of hashes and REPAIR_PACKETS messages of items.
 * No packet is larger than 8 KiB. A digest takes about 35 bytes for each author. If there are more
 * authors than fit, the next digest begins where the last one ended. So a tick looks at no more
 * than n authors, and any other step at one packet. A rumour reaches about (1 + FANOUT) times as
 * many agents each round: n agents in log4(n) rounds (100: 3.3, 1000: 5). It misses an agent with
 * probability e^-(FANOUT * REPEATS * (1 - loss)): at 20 % loss 7e-5. (Epidemics: A. Demers et al.,
 * "Epidemic algorithms for replicated database maintenance", 1987.) An agent's peers are the VIEW
 * living agents that rendezvous hashing ranks highest for that agent. An agent answers any sender.
 * So it has connections to about 2 * VIEW other agents, not to n. Now and then an agent also sends
 * to an agent that has been silent for long. So the halves of a cell that was split meet again.
 *
 * An agent without peers sends nothing and needs no TICK.
 *
 * Pure, as quorum.h says: time and randomness come with the event, memory is one block of the
 * caller's. If a table is full, other authors' tombstones are evicted first, and then other
 * authors' items, the oldest first. An agent's own items are never evicted. One thread.
 */
#ifndef CORE_GOSSIP_H
#define CORE_GOSSIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/gossip.h"
#include "proto/message.h"

struct gossip;

enum {
    GOSSIP_ROUND_MS = 100,
    GOSSIP_FANOUT = 3,
    GOSSIP_REPEATS = 4,
    GOSSIP_EXCHANGE_MS = 500,
    GOSSIP_EXCHANGE_PEERS = 2,
    GOSSIP_REPAIR_PACKETS = 4,
    GOSSIP_VIEW = 16,
    GOSSIP_TOMBSTONE_MS = 60000,
    GOSSIP_FORGET_MS = 600000, /* an agent without a sign of life for this time is forgotten */
    /* The room that a step needs in struct gossip_actions. */
    GOSSIP_STEP_ACTIONS = 64,
    GOSSIP_STEP_OUTPUT = (GOSSIP_REPAIR_PACKETS + 2) * GOSSIP_PACKET_MAX,
};

struct gossip_limits {
    uint32_t agents; /* at most 65000, this agent included */
    uint32_t items;
    uint32_t chunks; /* chunks of 60 bytes for the items' bodies; a lock's body usually takes two */
};

struct gossip_config {
    struct gossip_limits limits;
    struct message_agent self;
    bool voter;
    char address[MESSAGE_ADDRESS_MAX]; /* where this agent listens; "": nowhere */
    /* session_ttl + grace. The items of an agent that was silent for longer are no longer shown. */
    int64_t silent_ns;
};

enum gossip_event_kind {
    GOSSIP_START = 1, /* the first event, once */
    GOSSIP_TICK,      /* at gossip_next_tick_ns() or later */
    GOSSIP_RECEIVED,  /* a packet from `agent` arrived */
    /* This agent can send to `agent`, because `agent` is a configured voter, or because this agent
     * is a voter and got the address of `agent` in a RENEW or HELLO. The event is repeated when the
     * connection to `agent` is made or breaks. */
    GOSSIP_PEER,
    /* Nobody answers at the address of `agent` (GOSSIP_ADDRESS), so the driver no longer sends to
     * `agent`. If gossip needs `agent` again, it gives the driver the address again. */
    GOSSIP_UNREACHABLE,
    /* If `agent` is this agent: the epoch or the state of its session changed. The end of an older
     * epoch is not reported. If `agent` is another agent: this agent is a voter, and a session of
     * `agent` is over. */
    GOSSIP_SESSION,
};

struct gossip_event {
    enum gossip_event_kind kind;
    int64_t now_ns;  /* CLOCK_BOOTTIME, never less than in the last event */
    uint64_t random; /* fresh for each event */
    /* RECEIVED: the sender; PEER, UNREACHABLE, SESSION: the agent concerned */
    struct message_agent agent;
    union {
        /* START: the epoch of this agent's session. If the epoch is higher than before a restart,
         * other agents accept this agent's items at once. Otherwise they accept the items only when
         * this agent has seen the incarnation that they remember, and has taken a higher one. */
        uint32_t epoch;
        struct {
            const unsigned char *bytes; /* borrowed for the step */
            size_t size;
        } received;
        struct {
            const char *address; /* NULL: not known; borrowed for the step */
            bool up;             /* false: the connection is known to be broken */
        } peer;
        struct {
            uint32_t epoch;
            enum gossip_session state;
        } session;
    } as;
};

enum gossip_action_kind {
    GOSSIP_SEND = 1, /* bytes for an agent; they may be lost */
    /* the address at which an agent listens; comes before the first GOSSIP_SEND to it */
    GOSSIP_ADDRESS,
};

struct gossip_action {
    enum gossip_action_kind kind;
    struct message_agent agent;
    union {
        struct {
            /* an offset in gossip_actions.output; several actions may share bytes */
            uint32_t offset;
            uint32_t size;
        } send;
        char address[MESSAGE_ADDRESS_MAX];
    } as;
};

/* The driver's list. The driver empties it (count = output_used = 0) after it has carried out the
 * actions. */
struct gossip_actions {
    struct gossip_action *items;
    uint32_t count;
    uint32_t capacity;
    unsigned char *output;
    size_t output_used;
    size_t output_size;
};

/* Returns how many bytes of memory gossip_init() needs with these limits. Memory that no entry uses
 * is never touched. */
size_t gossip_size(const struct gossip_limits *limits);

/* Makes the state in `memory`, which must be zeroed, gossip_size() bytes long and aligned to 8.
 * Gossip borrows the memory for good. seed must be random. config is copied. */
struct gossip *gossip_init(void *memory, const struct gossip_config *config, uint64_t seed);

/* One step. An invalid packet changes nothing. */
void gossip_step(struct gossip *gossip, const struct gossip_event *event,
                 struct gossip_actions *actions);

/* Returns when the next TICK is wanted; INT64_MAX: never. */
int64_t gossip_next_tick_ns(const struct gossip *gossip);

/* ---- what this agent publishes ---- */

/* Returns whether this agent knows any other agent. If it knows none, the caller need not collect
 * anything to publish. */
bool gossip_active(const struct gossip *gossip);

/* Publishes what this host knows of a lock now. Does nothing if only ages differ from what this
 * agent published last. Returns false if there is no room: try again later. Call it after START. */
bool gossip_put_lock(struct gossip *gossip, const struct gossip_lock *lock, int64_t now_ns)
    __attribute__((warn_unused_result));

/* Publishes whether this agent is a voter, when that has changed. An agent that is no voter any
 * more publishes that it coordinates no partition. */
void gossip_set_voter(struct gossip *gossip, bool voter, int64_t now_ns);

/* For a voter: publishes the partitions that it coordinates now. */
void gossip_put_owned(struct gossip *gossip, const struct message_partitions *owned,
                      int64_t now_ns);

/* ---- what is known ---- */

/* Finds the voter that coordinates the partition, by the latest report. Returns false if no such
 * voter is known. */
bool gossip_owner(const struct gossip *gossip, uint32_t partition, struct message_agent *out);

/* Finds the first lock name that comes after `after` in byte order (size 0: the very first), begins
 * with prefix, and is the subject of another agent's item. */
bool gossip_lock_after(const struct gossip *gossip, const void *prefix, size_t prefix_size,
                       const void *after, size_t after_size, struct message_name *out);

/* One other agent's item about a lock. Its times are as of now. */
struct gossip_view {
    struct message_agent agent;
    int64_t age_ns; /* the time since the agent's last sign of life */
    bool valid;     /* false: the agent's session is over, or it was silent for too long */
    struct gossip_lock lock;
};

/* Fills in the next agent's item about the lock. *at is 0 at first. Returns false after the last
 * one. */
bool gossip_lock_next(const struct gossip *gossip, const void *name, size_t size, int64_t now_ns,
                      uint32_t *at, struct gossip_view *out);

/* Returns the time since the last sign of life of the other agent that has been silent longest.
 * Leaves out agents that have been silent for too long. Returns -1 if no other agent remains. */
int64_t gossip_age_ns(const struct gossip *gossip, int64_t now_ns);

struct gossip_agent_view {
    struct message_agent name;
    int64_t age_ns; /* the time since the agent's last sign of life; -1: there was none yet */
    bool silent;    /* the agent was silent for too long */
    bool expired;   /* a voter reported that the agent's session is over */
    struct gossip_agent agent;
};

/* Fills in the next known agent; this agent comes first. *at is 0 at first. Returns false after the
 * last one. */
bool gossip_agent_next(const struct gossip *gossip, int64_t now_ns, uint32_t *at,
                       struct gossip_agent_view *out);

/* Takes one lock out of the list of locks about which other hosts had news, and sets *out to its
 * name. An empty name means that changes were missed: look at all locks. Returns false if the list
 * is empty. */
bool gossip_changed(struct gossip *gossip, struct message_name *out);
bool gossip_has_changed(const struct gossip *gossip);

/* Fails (HF_CHECK) if the state contradicts itself. For tests and the simulator. */
void gossip_check_invariants(const struct gossip *gossip);

#endif
