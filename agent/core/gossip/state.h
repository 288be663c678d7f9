/*
 * The gossip core's state, and the functions that its files share. A file calls only files below it
 * in this list:
 *
 *   gossip.c   memory, events, ticks, what this agent publishes
 *   look.c     what is known, for people
 *   spread.c   rumours, digests, repair: packets sent and packets that arrive
 *   authors.c  the table of agents: known, alive, sent to
 *   items.c    the items of all authors, kept within bounds
 *   step.c     hashes, random numbers, ages
 *
 * No rule of docs/PROTOCOL.md rests on gossip, because gossip decides nothing (core/gossip.h).
 *
 * Invariants: each item has one author, and is in one of the lists BY_AGE. The hash of an author is
 * that of all its items. The tables never have more entries than config.limits.
 * gossip_check_invariants() checks these.
 *
 * Indexes: the index of an author is a u16, and 0 is this agent. The index of an item, of a topic
 * (a lock name that items are about) or of a chunk (a part of a body) is a u32 from 1; 0 means
 * none.
 */
#ifndef GOSSIP_STATE_H
#define GOSSIP_STATE_H

#include "core/base/names.h"
#include "core/base/order.h"
#include "core/gossip.h"

#define MS_NS INT64_C(1000000)
#define NEVER_SEEN INT64_MIN

enum {
    SELF = 0,
    NOBODY = 0xffff, /* an author's index that means: no author */
    CHUNK_BYTES = 60,
    FULL_MS = 30000,    /* how long this agent does not ask again for items that found no room */
    SWEEP_ITEMS = 1024, /* the most tombstones of one list that a tick removes */
    REASKS_MAX = 8,     /* the most cut-off repairs that continue in one EXCHANGE */
    DROPS_MAX = 4096,   /* the most rumours that one call of drop_known_rumours() looks at */
    SILENT_EVERY = 8,   /* one exchange in SILENT_EVERY goes also to a silent agent */
    GENERATION_SHIFT = 31,
};

struct link {
    uint32_t next;
    uint32_t previous;
};

struct item_list {
    uint32_t first;
    uint32_t last;
};

enum { BY_AGE = 0, BY_RUMOUR, LINKS };

/* The lists that items are linked into BY_AGE. Each list runs from the oldest item to the
 * youngest. */
enum age_list { AGE_OWN = 0, AGE_OWN_TOMBSTONE, AGE_FOREIGN, AGE_FOREIGN_TOMBSTONE, AGE_LISTS };

struct item {
    uint64_t number;
    uint64_t key;     /* the hash of the item's kind and subject */
    uint64_t content; /* own items: the hash of the contents without ages */
    int64_t put_ns;   /* when the item's contents were true, by this agent's clock */
    struct link links[LINKS];
    uint32_t topic; /* LOCK: the lock's topic */
    uint32_t chunk; /* the first chunk of the body; in a free item: the next free item */
    uint32_t bucket_next;
    uint32_t topic_next;
    uint16_t author;
    uint16_t size; /* the body's size in bytes */
    uint8_t kind;
    uint8_t age_list;
    uint8_t repeats; /* how often this agent will still pass the item on; also the index of its list
                      * in rumours */
};

struct chunk {
    uint32_t next;
    uint8_t bytes[CHUNK_BYTES];
};

struct topic {
    uint32_t name;  /* id in names; in a free topic: the next free topic */
    uint32_t items; /* the first item about this name */
    uint32_t changed_next;
    uint32_t foreign; /* the number of items about this name from other agents, without
                       * tombstones */
    bool changed;     /* the topic is in the list of changes */
};

struct author {
    struct message_agent name; /* length 0: the entry is free */
    char address[MESSAGE_ADDRESS_MAX];
    uint64_t incarnation;  /* 0: nothing is known of the agent yet */
    uint64_t heartbeat_ms; /* how long the agent's process had run by `seen_ns` */
    int64_t seen_ns;       /* when the agent gave its last sign of life */
    int64_t made_ns;
    /* until this time, this agent asks for no items of the author, because some items found no
     * room */
    int64_t full_until_ns;
    uint64_t hash; /* the hash of all items of the author */
    struct message_partitions owned;
    int64_t owned_ns; /* when the author published `owned` */
    uint32_t epoch;   /* the epoch of the agent's session, as the agent reports it */
    uint32_t ended_epoch;
    uint32_t state;
    uint32_t item_count;
    uint32_t mark;      /* gossip.mark when a packet last mentioned the author */
    uint16_t hash_next; /* the next author in the same bucket of author_heads */
    uint16_t known;     /* bit i: view[i] has the same items of the author as this agent */
    bool voter;
    bool peer;                      /* the driver can send to the agent */
    bool down;                      /* the connection to the agent is broken */
    bool notified;                  /* the driver has the agent's address */
    bool silent;                    /* the agent had been silent for too long at the last check */
    bool owned_counts;              /* `owned` was published by the author's present process */
    uint32_t first[GOSSIP_BUCKETS]; /* the first item of each bucket */
    uint32_t hashes[GOSSIP_BUCKETS];
};

struct gossip {
    struct gossip_config config;
    struct names *names;
    struct order order; /* the topics with foreign items, by name */
    struct author *authors;
    struct item *items;
    struct chunk *chunks;
    struct topic *topics;
    uint16_t *author_heads;
    uint32_t author_heads_count; /* a power of two */
    uint32_t authors_used;       /* entries from this index on were never used */
    uint32_t items_used;
    uint32_t items_free;
    uint32_t chunks_used;
    uint32_t chunks_free;
    uint32_t chunks_left; /* free chunks and never used ones together */
    uint32_t topics_used;
    uint32_t topics_free;
    struct item_list ages[AGE_LISTS];
    struct item_list rumours[GOSSIP_REPEATS + 1];
    struct item_list changed; /* topics with changes, linked by changed_next */
    bool missed;              /* changes were dropped unread */
    bool started;
    bool view_stale;
    uint32_t view_count;
    uint16_t view[GOSSIP_VIEW];
    uint16_t greet; /* an agent that has just connected; the next digest is also sent to it */
    int64_t now_ns;
    int64_t start_ns;
    int64_t round_due_ns;
    int64_t exchange_due_ns;
    uint64_t random;
    uint64_t number; /* the number of the own item that changed last */
    uint32_t exchanges;
    uint32_t digest_at; /* the author with which the next digest begins */
    uint32_t mark;
    uint32_t reasks; /* the number of cut-off repairs that may still continue in this EXCHANGE */
};

/* ---- step.c ---- */

uint64_t gossip_mix(uint64_t hash);
uint64_t gossip_hash(uint64_t seed, const void *bytes, size_t size);
uint64_t gossip_random(struct gossip *gossip);
/* Returns how long this process has been publishing, in milliseconds. */
uint64_t gossip_heartbeat_ms(const struct gossip *gossip);
uint32_t gossip_age_ms(int64_t now_ns, int64_t then_ns);

/* ---- authors.c ---- */

uint16_t author_find(const struct gossip *gossip, const struct message_agent *name);
/* Adds an agent that is not in the table. Returns NOBODY if the table is full, and each agent in it
 * is a peer or has given a sign of life lately. */
uint16_t author_make(struct gossip *gossip, const struct message_agent *name);
/* Gives this agent a new incarnation, which is higher than those of all smaller generations. */
void author_begin(struct gossip *gossip, uint64_t generation);
/* Notes a voter's report that a session of that agent is over. */
void author_expired(struct gossip *gossip, const struct gossip_expired *expired);
/* Notes that a digest of the agent `by` shows the same items of the author as this agent has. */
void author_known_by(struct gossip *gossip, uint16_t index, uint16_t by);
/* Returns whether all agents in the view are known to have the same items of the author as this
 * agent. */
bool author_is_known(const struct gossip *gossip, const struct author *author);
/* Notes that the author gave a sign of life at then_ns, with that incarnation. Returns false if a
 * higher incarnation of the author is known. */
bool author_refresh(struct gossip *gossip, uint16_t index, uint64_t incarnation,
                    uint64_t heartbeat_ms, int64_t then_ns);
void author_set_address(struct gossip *gossip, uint16_t index, const char *address);
/* Returns whether the author's items may be shown. */
bool author_is_valid(const struct gossip *gossip, const struct author *author);
bool author_is_silent(const struct gossip *gossip, const struct author *author, int64_t now_ns);
/* Notes which authors have fallen silent. Removes authors that have been silent for
 * GOSSIP_FORGET_MS; if the agent is connected, removes only its items. */
void authors_expire(struct gossip *gossip);
/* Tells the driver the author's address, if the driver does not have it yet. Returns false if
 * gossip does not know the address either. */
bool author_reach(struct gossip *gossip, uint16_t index, struct gossip_actions *actions);
/* Chooses the agents to send to (gossip->view) anew, if view_stale is set. */
void view_refresh(struct gossip *gossip, struct gossip_actions *actions);

/* ---- items.c ---- */

uint64_t item_key(const struct gossip_item *item);
bool item_is_tombstone(const struct gossip_item *item);
uint32_t item_find(const struct gossip *gossip, uint16_t author, const struct gossip_item *item);
/*
 * Stores the author's item with the stamp's number, and begins to pass it on. index is the old item
 * that the new one replaces, or 0. Returns false if there is no room. The old item then stays.
 */
bool item_put(struct gossip *gossip, uint16_t author, uint32_t index,
              const struct gossip_item *item, const struct gossip_stamp *stamp, const void *body,
              size_t size);
/* Gives an own item a new number, as if it had changed. */
void item_renumber(struct gossip *gossip, uint32_t index);
void items_of_author_free(struct gossip *gossip, uint16_t author);
void item_rumour(struct gossip *gossip, uint32_t index, uint32_t repeats);
/* Copies the body to `bytes`, which has room for GOSSIP_BODY_MAX bytes. Returns the body's size. */
size_t item_body(const struct gossip *gossip, uint32_t index, uint8_t *bytes);
void item_stamp(const struct gossip *gossip, uint32_t index, struct gossip_stamp *out);
void tombstones_expire(struct gossip *gossip);
uint32_t topic_find(const struct gossip *gossip, const void *name, size_t size);
void topic_changed(struct gossip *gossip, uint32_t index);
order_name_fn topic_name;

/* ---- spread.c ---- */

void spread_rumours(struct gossip *gossip, struct gossip_actions *actions);
void spread_digests(struct gossip *gossip, struct gossip_actions *actions);
void spread_received(struct gossip *gossip, const struct gossip_event *event,
                     struct gossip_actions *actions);

#endif
