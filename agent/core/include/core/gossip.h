/*
 * Gossip: people's view of the cell. Holders and waiters on other hosts, sessions that are safe,
 * coordinators, addresses of agents. Nothing here is ever a ground for a decision about a lock: an
 * agent that lies, or a packet from yesterday, can only show people something wrong.
 *
 * Each agent is the author of what it says: an item each for itself, for each lock that somebody on
 * its host holds or waits for, and (voters) for what it coordinates and which sessions are over. An
 * item has a number that rises with each change; all of an author have the incarnation of its
 * process. A higher incarnation replaces all of a lower one. An author that receives an incarnation
 * of its own above its present one (it came back and does not remember) takes a higher one and
 * publishes everything anew.
 *
 *   rumours       each ROUND new items go to FANOUT random peers, in one packet; an agent to which
 *                 an item is new does the same, each item REPEATS times
 *   anti-entropy  each EXCHANGE one hash per author goes to EXCHANGE_PEERS random peers; a peer
 *                 with another hash answers with its hashes of that author's 256 buckets, and gets
 *                 the buckets that differ. It repairs what rumours missed, and brings signs of life
 *
 * Costs, for n agents. An agent sends, whatever n is:
 *   in rest       EXCHANGE_PEERS / EXCHANGE = 4 digests a second, and answers as many: 8 messages;
 *   when the cell changes all the time: FANOUT / ROUND = 30 rumours a second more, and to each of
 *   the 8 digests at most one message of hashes and REPAIR_PACKETS of items.
 * No packet is larger than 8 KiB. A digest takes about 35 bytes an author, and begins where the
 * last one ended if there are more than fit: so no step's work is more than n, or one packet's. A
 * rumour reaches about (1 + FANOUT) times as many agents each round: n agents in log4(n) rounds
 * (100: 3.3, 1000: 5). It misses an agent with probability e^-(FANOUT * REPEATS * (1 - loss)): at
 * 20 % loss 7e-5. (Epidemics: A. Demers et al., "Epidemic algorithms for replicated database
 * maintenance", 1987.) Peers are the VIEW agents that rendezvous hashing ranks highest for this one
 * among those alive, and this agent answers any sender: so an agent dials about 2 * VIEW others,
 * not n. Now and then one that was silent for long is tried, so that the halves of a parted cell
 * meet again.
 *
 * An agent without a peer sends nothing and wants no tick.
 *
 * Pure, as quorum.h says: time and randomness come with the event, memory is one block of the
 * caller's. Full tables: foreign tombstones go first, then foreign items, the oldest first; own
 * ones never. One thread.
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
    GOSSIP_FORGET_MS = 600000, /* an agent without a sign of life for so long is forgotten */
    /* The room that must be left before each step. */
    GOSSIP_STEP_ACTIONS = 64,
    GOSSIP_STEP_OUTPUT = (GOSSIP_REPAIR_PACKETS + 2) * GOSSIP_PACKET_MAX,
};

struct gossip_limits {
    uint32_t agents; /* at most 65000, this one included */
    uint32_t items;
    uint32_t chunks; /* of 60 bytes, for the items' bodies: an ordinary lock takes two */
};

struct gossip_config {
    struct gossip_limits limits;
    struct message_agent self;
    bool voter;
    char address[MESSAGE_ADDRESS_MAX]; /* where this agent listens; "": nowhere */
    int64_t silent_ns; /* session_ttl + grace: items of an agent that was silent for longer are not
                        * shown any more */
};

enum gossip_event_kind {
    GOSSIP_START = 1, /* first, once */
    GOSSIP_TICK,      /* at gossip_next_tick_ns() or later */
    GOSSIP_RECEIVED,  /* a packet of agent */
    GOSSIP_PEER,      /* an agent that this one can send to: a voter of the configuration, one that
                         renewed here; or its connection is there, or broken */
    GOSSIP_UNREACHABLE, /* nobody answers at the agent's address (GOSSIP_ADDRESS), and nothing is
                         * sent there any more; the address comes anew if it is wanted */
    GOSSIP_SESSION, /* agent == self: its session's epoch or state changed (that an older epoch is
                         over is no news); else (a voter): a session of agent is over */
};

struct gossip_event {
    enum gossip_event_kind kind;
    int64_t now_ns;             /* CLOCK_BOOTTIME, never less than in the event before */
    uint64_t random;            /* fresh for each event */
    struct message_agent agent; /* RECEIVED: the sender; PEER, SESSION: the agent */
    union {
        uint32_t epoch; /* START: of the session; restarts of this agent with a higher one are
                           believed at once, others after the first answer */
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
    GOSSIP_SEND = 1, /* bytes to an agent; may be lost */
    GOSSIP_ADDRESS,  /* where an agent listens: it will be sent to */
};

struct gossip_action {
    enum gossip_action_kind kind;
    struct message_agent agent;
    union {
        struct {
            uint32_t offset; /* in gossip_actions.output; several actions may share it */
            uint32_t size;
        } send;
        char address[MESSAGE_ADDRESS_MAX];
    } as;
};

/* The driver's list. It empties it (count = output_used = 0) when all is done. */
struct gossip_actions {
    struct gossip_action *items;
    uint32_t count;
    uint32_t capacity;
    unsigned char *output;
    size_t output_used;
    size_t output_size;
};

/* Bytes of memory for these limits. Most of it is not touched before it is used. */
size_t gossip_size(const struct gossip_limits *limits);

/* Makes the state in memory (zeroed, gossip_size() bytes, aligned to 8; borrowed for good). seed:
 * random. config is copied. */
struct gossip *gossip_init(void *memory, const struct gossip_config *config, uint64_t seed);

/* One step. A packet that makes no sense changes nothing. */
void gossip_step(struct gossip *gossip, const struct gossip_event *event,
                 struct gossip_actions *actions);

/* When the next TICK is wanted; INT64_MAX: never. */
int64_t gossip_next_tick_ns(const struct gossip *gossip);

/* ---- what this agent has to say ---- */

/* Whether there is another agent: else nothing need be sampled. */
bool gossip_active(const struct gossip *gossip);

/* This host's present knowledge of one lock. A higher age alone is no change. false: full, try
 * again later. After START. */
bool gossip_put_lock(struct gossip *gossip, const struct gossip_lock *lock, int64_t now_ns)
    __attribute__((warn_unused_result));

/* A voter: the partitions that it coordinates now. */
void gossip_put_owned(struct gossip *gossip, const struct message_partitions *owned,
                      int64_t now_ns);

/* ---- what is known ---- */

/* The voter that says that it coordinates that partition, the latest word counting; false: none is
 * known. */
bool gossip_owner(const struct gossip *gossip, uint32_t partition, struct message_agent *out);

/* The first lock name behind `after` (size 0: from the start) in byte order that begins with prefix
 * and of which another agent has an item. */
bool gossip_lock_after(const struct gossip *gossip, const void *prefix, size_t prefix_size,
                       const void *after, size_t after_size, struct message_name *out);

/* One other host's item for a lock. Times are as of now. */
struct gossip_view {
    struct message_agent agent;
    int64_t age_ns; /* since the agent's last sign of life */
    bool valid;     /* false: its session is over, or it was silent for too long */
    struct gossip_lock lock;
};

/* The next of them; *at is 0 at first. false: that was all. */
bool gossip_lock_next(const struct gossip *gossip, const void *name, size_t size, int64_t now_ns,
                      uint32_t *at, struct gossip_view *out);

/* How long ago the last sign of life was of that agent which was silent for longest, among those
 * that are not silent for too long; -1: nobody else is known. */
int64_t gossip_age_ns(const struct gossip *gossip, int64_t now_ns);

struct gossip_agent_view {
    struct message_agent name;
    int64_t age_ns; /* since its last sign of life; -1: there was none yet */
    bool silent;    /* for too long */
    bool dead;      /* a voter says that this session is over */
    struct gossip_agent agent;
};

/* The agents known, this one first; *at is 0 at first. false: that was all. */
bool gossip_agent_next(const struct gossip *gossip, int64_t now_ns, uint32_t *at,
                       struct gossip_agent_view *out);

/* A lock with news from other hosts since it was last returned here; taken off the list. An empty
 * name: some were missed, look at everything. false: there is none. */
bool gossip_changed(struct gossip *gossip, struct message_name *out);
bool gossip_has_changed(const struct gossip *gossip);

/* For tests and the simulator: HF_CHECK fails if the state contradicts itself. */
void gossip_check_invariants(const struct gossip *gossip);

#endif
