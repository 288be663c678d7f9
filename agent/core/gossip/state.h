/*
 * The gossip core's state, and what its files do for each other.
 *
 *   gossip.c   making it, events, ticks, what this agent has to say
 *   authors.c  agents: who is known, alive, sent to
 *   items.c    what authors said, kept within bounds
 *   spread.c   rumours, digests, repair: what is sent and what an arrived packet does
 *   look.c     what is known, for people
 *
 * Indexes: an author is a u16 (0: this agent), an item, a topic (a lock name that items are about)
 * and a chunk (a part of a body) a u32 from 1; 0 is none.
 */
#ifndef GOSSIP_STATE_H
#define GOSSIP_STATE_H

#include "core/base/names.h"
#include "core/base/order.h"
#include "core/gossip.h"

#define MS_NS INT64_C(1000000)
#define NEVER_HEARD INT64_MIN

enum {
    SELF = 0,
    NOBODY = 0xffff, /* as the index of an author */
    CHUNK_BYTES = 60,
    FULL_MS = 30000,    /* an item that found no room is not asked for again so soon */
    SWEEP_ITEMS = 1024, /* tombstones taken away at once */
    REASKS_MAX = 8,     /* continued repairs in one EXCHANGE */
    DROPS_MAX = 4096,   /* rumours that all know, taken away in a round */
    SILENT_EVERY = 8,   /* each so many exchanges go to an agent that is silent, too */
    GENERATION_SHIFT = 31,
};

struct link {
    uint32_t next;
    uint32_t previous;
};

struct list {
    uint32_t first;
    uint32_t last;
};

enum { BY_AGE = 0, BY_RUMOUR, LINKS };

/* Which list an item's BY_AGE link is in: each from the oldest to the youngest. */
enum age_list { AGE_OWN = 0, AGE_OWN_TOMBSTONE, AGE_FOREIGN, AGE_FOREIGN_TOMBSTONE, AGE_LISTS };

struct item {
    uint64_t number;
    uint64_t key;     /* hash of its kind and what it is about */
    uint64_t content; /* own: hash of what it says, ages left out */
    int64_t put_ns;   /* when it was as it says; by this agent's clock */
    struct link links[LINKS];
    uint32_t topic; /* LOCK */
    uint32_t chunk; /* first of the body's; free item: the next free one */
    uint32_t bucket_next;
    uint32_t topic_next;
    uint16_t author;
    uint16_t size; /* of the body */
    uint8_t kind;
    uint8_t age_list;
    uint8_t repeats; /* how often it is still to be passed on: stands in rumours[repeats] */
};

struct chunk {
    uint32_t next;
    uint8_t bytes[CHUNK_BYTES];
};

struct topic {
    uint32_t name;  /* id in names; free topic: the next free one */
    uint32_t items; /* first */
    uint32_t changed_next;
    uint32_t foreign; /* how many of its items are another agent's and no tombstones */
    bool changed;     /* stands in the list of changes */
};

struct author {
    struct message_agent name; /* length 0: free */
    char address[MESSAGE_ADDRESS_MAX];
    uint64_t incarnation; /* 0: nothing is known of it yet */
    uint64_t beat_ms;     /* its age at its last sign of life */
    int64_t heard_ns;     /* when that was */
    int64_t made_ns;
    int64_t full_until_ns; /* some of its items found no room */
    uint64_t hash;         /* of its items */
    struct message_partitions owned;
    int64_t owned_ns; /* when it said so */
    uint32_t epoch;   /* of its session, as it says */
    uint32_t dead_epoch;
    uint32_t state;
    uint32_t item_count;
    uint32_t mark;      /* of the digest that mentioned it */
    uint16_t hash_next; /* in its bucket of author_heads */
    uint16_t known;     /* bit i: view[i] has its items as they are here */
    bool voter;
    bool peer;                      /* the driver can send to it */
    bool down;                      /* its connection is broken */
    bool told;                      /* the driver has its address */
    bool silent;                    /* for too long, when last looked at */
    bool hears;                     /* owned counts */
    uint32_t first[GOSSIP_BUCKETS]; /* item */
    uint32_t hashes[GOSSIP_BUCKETS];
};

struct gossip {
    struct gossip_config config;
    struct names *names;
    struct order order; /* topics with foreign items */
    struct author *authors;
    struct item *items;
    struct chunk *chunks;
    struct topic *topics;
    uint16_t *author_heads;
    uint32_t author_heads_count; /* a power of two */
    uint32_t authors_used;       /* from here on never used */
    uint32_t items_used;
    uint32_t items_free;
    uint32_t chunks_used;
    uint32_t chunks_free;
    uint32_t chunks_left; /* free and never used ones together */
    uint32_t topics_used;
    uint32_t topics_free;
    struct list ages[AGE_LISTS];
    struct list rumours[GOSSIP_REPEATS + 1];
    struct list changed; /* topics, by changed_next */
    bool missed;         /* changes were dropped */
    bool started;
    bool view_stale;
    uint32_t view_count;
    uint16_t view[GOSSIP_VIEW];
    uint16_t greet; /* an agent that just came: the next digest goes to it too */
    int64_t now_ns;
    int64_t start_ns;
    int64_t round_due_ns;
    int64_t exchange_due_ns;
    uint64_t random;
    uint64_t number; /* of the own item that changed last */
    uint32_t exchanges;
    uint32_t digest_at; /* where the next digest begins */
    uint32_t mark;
    uint32_t reasks; /* left in this EXCHANGE */
};

/* ---- gossip.c ---- */

uint64_t gossip_mix(uint64_t hash);
uint64_t gossip_hash(uint64_t seed, const void *bytes, size_t size);
uint64_t gossip_random(struct gossip *gossip);
/* Own age: how long this process has been saying things. */
uint64_t gossip_beat_ms(const struct gossip *gossip);
uint32_t gossip_age_ms(int64_t now_ns, int64_t then_ns);
/* Another process of this agent shows in the items: publishes everything anew, as a later one. */
void gossip_outbid(struct gossip *gossip, uint64_t incarnation);

/* ---- authors.c ---- */

uint16_t author_find(const struct gossip *gossip, const struct message_agent *name);
/* It is not there. NOBODY: the table is full of agents that live. */
uint16_t author_make(struct gossip *gossip, const struct message_agent *name);
/* A session of that agent is over. */
void author_dead(struct gossip *gossip, const struct gossip_dead *dead);
/* An agent's digest shows that it has the items of that author just as they are here. */
void author_known_by(struct gossip *gossip, uint16_t index, uint16_t by);
/* The digests of all that this agent sends to show that. */
bool author_is_known(const struct gossip *gossip, const struct author *author);
/* It was alive then, as that incarnation. false: a later one of it is known. */
bool author_heard(struct gossip *gossip, uint16_t index, uint64_t incarnation, uint64_t beat_ms,
                  int64_t then_ns);
void author_set_address(struct gossip *gossip, uint16_t index, const char *address);
/* Its items may be shown. */
bool author_is_valid(const struct gossip *gossip, const struct author *author);
bool author_is_silent(const struct gossip *gossip, const struct author *author, int64_t now_ns);
/* Its locks look different now. */
void author_changed(struct gossip *gossip, uint16_t index);
/* Looks at all of them: which fell silent, which are forgotten. */
void authors_sweep(struct gossip *gossip);
/* Hands the driver its address, if it does not have it yet. false: nobody knows how to reach it. */
bool author_reach(struct gossip *gossip, uint16_t index, struct gossip_actions *actions);
/* Chooses the agents to send to anew, if anything has changed. */
void view_refresh(struct gossip *gossip, struct gossip_actions *actions);

/* ---- items.c ---- */

void list_append(struct gossip *gossip, struct list *list, int which, uint32_t index);
void list_remove(struct gossip *gossip, struct list *list, int which, uint32_t index);
uint64_t item_key(const struct gossip_item *item);
bool item_is_tombstone(const struct gossip_item *item);
uint32_t item_find(const struct gossip *gossip, uint16_t author, const struct gossip_item *item);
/*
 * Keeps the author's item of this number; it is passed on from now on. index: the item that it
 * replaces, 0: none. false: no room; the old item stays.
 */
bool item_put(struct gossip *gossip, uint16_t author, uint32_t index,
              const struct gossip_item *item, const struct gossip_stamp *stamp, const void *body,
              size_t size);
/* Gives it a new number, as if it had changed. */
void item_renumber(struct gossip *gossip, uint32_t index);
void item_free(struct gossip *gossip, uint32_t index);
void items_of_author_free(struct gossip *gossip, uint16_t author);
void item_rumour(struct gossip *gossip, uint32_t index, uint32_t repeats);
/* Copies the body out; bytes has room for GOSSIP_BODY_MAX. */
size_t item_body(const struct gossip *gossip, uint32_t index, uint8_t *bytes);
void item_stamp(const struct gossip *gossip, uint32_t index, struct gossip_stamp *out);
void tombstones_sweep(struct gossip *gossip);
uint32_t topic_find(const struct gossip *gossip, const void *name, size_t size);
void topic_changed(struct gossip *gossip, uint32_t index);
order_name_fn topic_name;

/* ---- spread.c ---- */

void spread_rumours(struct gossip *gossip, struct gossip_actions *actions);
void spread_digests(struct gossip *gossip, struct gossip_actions *actions);
void spread_received(struct gossip *gossip, const struct gossip_event *event,
                     struct gossip_actions *actions);
/* An own item came from somebody: it is older than what is so, or of no process that remembers. */
void spread_defend(struct gossip *gossip, const struct gossip_stamp *stamp,
                   const struct gossip_item *item);

#endif
