/*
 * The region: the shared memory in which the processes of one host settle the locks of one
 * namespace. This file is its layout and nothing else; lockword.h is the protocol on it.
 *
 * Every process that maps the region can change each byte of it (the users of one namespace trust
 * each other). So the agent treats its contents as hostile: it keeps its own copy of every count,
 * chain and owner (struct hfi_region), and checks each number that it reads here before it uses it.
 * There is no pointer and no pthread object in it.
 *
 *   header   one page: what this is, where the parts are, the lease
 *   words    one cache line a lock: the lock word, and a note that is written when a hold is taken
 *            away (ending.h)
 *   slots    48 bytes a lock: what only the slow path needs
 *   index    name hash -> slot, for hf_check_sequencer_local
 *   dirty    one bit a lock: the agent is asked to look at it (by a RING)
 *   holders  one cache line a holder id: whom it is handing locks to at this moment
 *   blocks   512 bytes: seats for seven handles of one lock, chained to its slot on demand
 *
 * A seat is what a handle needs beyond the lock word: a place in the queue, a reader's cell, and a
 * deadline of its own. A handle that only ever takes a free lock has none.
 *
 * The layout is versioned; a change of anything asserted below is a new HFI_REGION_VERSION. Magic
 * and version are the first bytes of every layout. An agent serves one layout, and does not start
 * while processes may hold locks in regions of another (agent/run/start_store.c).
 */
#ifndef PROTO_REGION_H
#define PROTO_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HFI_REGION_MAGIC UINT64_C(0x31545341464c4f48) /* "HOLFAST1" as bytes */

enum {
    HFI_REGION_VERSION = 1,
    HFI_HEADER_SIZE = 4096,
    HFI_LINE = 64,
    HFI_BLOCK_SEATS = 7,
    HFI_HANDINGS = 16,
    HFI_NAME_MAX = 255,
    HFI_LABEL_MAX = 32, /* a cell, an agent, a namespace */
};

/*
 * The lock word.
 *
 *   bit  0..39  low 40 bits of the token of the latest exclusive hold; never falls, never repeats
 *        40..55 holder id of the exclusive holder, 0 if there is none
 *        56..57 mode that is granted to this host
 *        58     recall: the quorum wants the grant back; nobody takes it past the queue
 *        59     waiters: a seat may be queued; nobody takes the lock past the queue
 *        60     closed: nobody takes it until the agent opens it
 *        61     cells: a reader's cell may exist; a writer scans
 *        62     bargers: somebody sleeps on slot.wake
 *        63     watched: every change rings
 */
#define HFI_W_TOKEN UINT64_C(0x000000ffffffffff)
#define HFI_W_HOLDER UINT64_C(0x00ffff0000000000)
#define HFI_W_MODE UINT64_C(0x0300000000000000)
#define HFI_W_RECALL UINT64_C(0x0400000000000000)
#define HFI_W_WAITERS UINT64_C(0x0800000000000000)
#define HFI_W_CLOSED UINT64_C(0x1000000000000000)
#define HFI_W_CELLS UINT64_C(0x2000000000000000)
#define HFI_W_BARGERS UINT64_C(0x4000000000000000)
#define HFI_W_WATCHED UINT64_C(0x8000000000000000)

enum { HFI_W_HOLDER_SHIFT = 40, HFI_W_MODE_SHIFT = 56, HFI_TOKEN_LOW_BITS = 40 };

enum hfi_grant {
    HFI_GRANT_NONE = 0,
    HFI_GRANT_SHARED = 1,
    HFI_GRANT_EXCLUSIVE = 2,
    HFI_GRANT_RETIRED = 3, /* the slot is used up: open the name again */
};

enum {
    HFI_HOLDER_NONE = 0,
    HFI_HOLDER_AGENT = 0xffff, /* the agent itself, for a moment */
    HFI_HOLDER_MAX = 0xfffe,
};

/*
 * The lease of the session that all grants in this region belong to, one atomic word: deadline in
 * units of 2^20 ns of CLOCK_BOOTTIME, rounded down, in the high 40 bits, epoch in the low 24.
 */
enum { HFI_LEASE_EPOCH_BITS = 24, HFI_LEASE_UNIT_SHIFT = 20 };
#define HFI_LEASE_EPOCH_MASK UINT64_C(0xffffff)

/* A reader's cell: epoch 24 bits, sequence 24 bits (changes with every change), count 16 bits. */
enum { HFI_CELL_SEQUENCE_SHIFT = 16, HFI_CELL_EPOCH_SHIFT = 40 };
#define HFI_CELL_COUNT UINT64_C(0xffff)
#define HFI_CELL_SEQUENCE UINT64_C(0xffffff)

/* A place in the queue: ticket in the high 32 bits (they wrap: compare by difference), flags. */
enum {
    HFI_WAIT_JOINING = 1, /* has its ticket; the waiters bit may not be set yet */
    HFI_WAIT_WAITING = 2, /* nobody overtakes it */
    HFI_WAIT_LEFT = 4,    /* the waiter gave up, or its process ended: a word that names it belongs
                           * to nobody, and is passed on */
    HFI_WAIT_PASSED = 8,  /* the waiter left, and another process is passing on a word that named
                           * it */
    HFI_WAIT_SHARED = 16,
    HFI_WAIT_BARGING = 32, /* the waiter is not handed the lock, and sleeps on slot.wake */
    HFI_WAIT_TRYING = 64,  /* the waiter waits only for an idle grant to come from another host */
    HFI_WAIT_TICKET_SHIFT = 32,
};

struct hfi_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_size;
    uint64_t size; /* of the whole region, bytes */
    uint32_t slot_count;
    uint32_t index_count; /* a power of two */
    uint32_t holder_count;
    uint32_t block_count;
    uint64_t words_offset;
    uint64_t slots_offset;
    uint64_t index_offset;
    uint64_t dirty_offset;
    uint64_t holders_offset;
    uint64_t blocks_offset;
    uint64_t grace_ns;    /* past the deadline, until a hold is lost for good */
    uint64_t incarnation; /* drawn at random when the region was made */
    uint8_t store_id[16];
    uint8_t boot_id[16];
    char cell[HFI_LABEL_MAX + 1];
    char agent[HFI_LABEL_MAX + 1];
    char namespace_name[HFI_LABEL_MAX + 1];
    /* The fields that change, on lines of their own. */
    _Alignas(HFI_LINE) _Atomic uint64_t lease;
    _Alignas(HFI_LINE) _Atomic uint32_t lease_wake; /* futex: counts publications */
    _Atomic uint32_t lease_sleepers; /* how many processes may sleep on it; the number may be too
                                      * high */
    _Atomic uint32_t abandoned;      /* not 0: the agent serves another region now */
    _Atomic uint64_t commit; /* unused; earlier releases kept the store's last commit here */
};

/* Why the agent last took a hold of the lock away: ending.h. Earlier releases never write it. */
struct hfi_ending_note {
    _Atomic uint64_t hold; /* which one; 0: a reader's, see its seat */
    _Atomic uint64_t what; /* the kind, and the user */
    _Atomic uint64_t at_ns;
    _Atomic uint64_t agent[HFI_LABEL_MAX / 8]; /* a name, filled up with zeros */
};

struct hfi_word {
    _Alignas(HFI_LINE) _Atomic uint64_t word;
    struct hfi_ending_note ending;
};

struct hfi_slot {
    _Atomic uint64_t token_top;       /* last token of the range: 23 fixed high bits, 40 low */
    _Atomic uint64_t closed_until_ns; /* BOOTTIME; counts while the word says closed */
    _Atomic uint64_t name_hash;       /* 0: the slot is free */
    _Atomic uint32_t ticket_next;
    _Atomic uint32_t admit;  /* readers with a ticket up to this one enter past the waiters bit */
    _Atomic uint32_t wake;   /* futex: a draining writer, bargers */
    _Atomic uint32_t blocks; /* first block of seats + 1, or 0 */
    _Atomic uint32_t since;  /* when the exclusive hold began, units of 2^20 ns; to be shown only */
    _Atomic uint32_t handovers_left; /* with a recall pending: how many may still go first */
};

/* The holder ids to which the threads that act under this id are handing locks; 0 is a free
 * entry. */
struct hfi_holder {
    _Alignas(HFI_LINE) _Atomic uint32_t handing_to[HFI_HANDINGS];
};

struct hfi_seat {
    _Alignas(HFI_LINE) _Atomic uint64_t reader; /* the reader's cell */
    _Atomic uint64_t deadline_ns; /* of the present hold, if it has one of its own; else 0 */
    _Atomic uint64_t limit_ns;    /* how long a hold may last from when it is handed over, or 0 */
    _Atomic uint32_t wake;        /* futex: bit 0 "sleeps", counts by 2 */
    _Atomic uint32_t holder;      /* holder id of its handle; 0: the seat is free */
    _Atomic uint32_t since;       /* reading or waiting since, units of 2^20 ns; shown only */
    _Atomic uint32_t upgrade;     /* which hold of this reader waits for a grant to write under: see
                               * hfi_ask_upgrade() */
    /* The place in the queue of a try that the agent has answered: the lock is in use elsewhere.
     * Earlier releases never write it, and let a try wait. */
    _Atomic uint64_t refused;
    /* The reader's cell that the agent last took away here, and why: ending.h. Earlier releases
     * never write them. */
    _Atomic uint64_t ended;
    _Atomic uint64_t ending;
};

struct hfi_block {
    _Alignas(HFI_LINE) _Atomic uint32_t slot; /* index + 1 of the lock it belongs to, 0 free */
    _Atomic uint32_t next;                    /* block index + 1, 0 is the end */
    _Atomic uint64_t wait[HFI_BLOCK_SEATS];
    struct hfi_seat seats[HFI_BLOCK_SEATS];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "lock-free atomics");
_Static_assert(sizeof(_Atomic uint64_t) == 8 && sizeof(_Atomic uint32_t) == 4, "plain words");
_Static_assert(sizeof(struct hfi_header) <= HFI_HEADER_SIZE, "header fits its page");
_Static_assert(offsetof(struct hfi_header, slot_count) == 24, "header");
_Static_assert(offsetof(struct hfi_header, lease) == 256, "lease is where version 1 has it");
_Static_assert(offsetof(struct hfi_header, lease_wake) == 320, "lease futex");
_Static_assert(sizeof(struct hfi_word) == 64, "a word has a cache line");
_Static_assert(offsetof(struct hfi_word, ending) == 8, "a note, in what was room before");
_Static_assert(sizeof(struct hfi_slot) == 48, "a slot has 48 bytes");
_Static_assert(offsetof(struct hfi_slot, wake) == 32, "slot");
_Static_assert(sizeof(struct hfi_holder) == 64, "a holder has a cache line");
_Static_assert(sizeof(struct hfi_seat) == 64, "a seat has a cache line");
_Static_assert(offsetof(struct hfi_seat, wake) == 24, "seat");
_Static_assert(offsetof(struct hfi_seat, upgrade) == 36, "seat, in what was room before");
_Static_assert(offsetof(struct hfi_seat, refused) == 40, "seat, in what was room before");
_Static_assert(offsetof(struct hfi_seat, ended) == 48, "seat, in what was room before");
_Static_assert(sizeof(struct hfi_block) == 512, "a block is eight cache lines");
_Static_assert(offsetof(struct hfi_block, wait) == 8 && offsetof(struct hfi_block, seats) == 64,
               "block");

/* The sizes of a region's parts. */
struct hfi_region_sizes {
    uint32_t slot_count;   /* 1 .. 2^22 */
    uint32_t holder_count; /* ids 1 .. holder_count - 1; at most 65535 */
    uint32_t block_count;  /* 1 .. 2^20 */
};

/*
 * How far a client trusts the lease word. Every process of its namespace can write that word, and
 * while no agent runs, no process corrects it. This struct is in the client's own memory.
 *
 * The agent publishes a deadline of at most ttl after it sent the renewal that the deadline rests
 * on, rounded down. A clock that is read after the lease word shows a later time than that sending.
 * So a deadline further ahead than ttl is not the agent's. (The rounding needs no allowance, since
 * it only shortens.) Such a word is remembered: its deadline comes nearer, and would look right
 * later, when the session has long ended.
 */
struct hfi_trust {
    _Atomic int64_t ahead_max_ns; /* the session's ttl, from WELCOME */
    _Atomic uint64_t disbelieved; /* the lease word that was refused because it was further ahead;
                                   * 0: none */
    int64_t (*now_ns)(void *arg); /* CLOCK_BOOTTIME */
    void *arg;
};

/*
 * A mapped region, as one process sees it: private memory, checked once. The agent also gives it
 * its own copies of the chains and owners (own_...), which then are used instead of the shared
 * ones; for a client they are NULL.
 */
struct hfi_region {
    struct hfi_header *header;
    struct hfi_word *words;
    struct hfi_slot *slots;
    _Atomic uint32_t *index;
    _Atomic uint64_t *dirty;
    struct hfi_holder *holders;
    struct hfi_block *blocks;
    uint32_t slot_count;
    uint32_t index_count;
    uint32_t holder_count;
    uint32_t block_count;
    uint64_t size;
    struct hfi_trust *trust;         /* NULL: every lease is trusted, since the agent itself wrote
                                      * it */
    const uint32_t *own_slot_blocks; /* by slot: first block + 1 */
    const uint32_t *own_block_next;  /* by block: next block + 1 */
    const uint16_t *own_seat_holder; /* by seat number */
};

/* Returns the size in bytes of a region with these parts; 0: they are out of range. */
uint64_t hfi_region_size(const struct hfi_region_sizes *sizes);

/* The identity of a region; written at its creation, compared when it is opened again. */
struct hfi_region_identity {
    uint8_t store_id[16];
    uint8_t boot_id[16];
    char cell[HFI_LABEL_MAX + 1];
    char agent[HFI_LABEL_MAX + 1];
    char namespace_name[HFI_LABEL_MAX + 1];
    uint64_t grace_ns;
    uint64_t incarnation;
};

/* Writes the header of a new region into size zeroed bytes at memory. */
void hfi_region_format(void *memory, const struct hfi_region_sizes *sizes,
                       const struct hfi_region_identity *identity);

/*
 * Checks the header of size bytes at memory and fills in *out (trust and own_... NULL). Every
 * offset and count is checked against size before it is used. Returns NULL if all is well;
 * otherwise the fault as a static text: what was found, and what was expected.
 */
const char *hfi_region_attach(void *memory, uint64_t size, struct hfi_region *out);

/* FNV-1a of the name, never 0. It is the key of the index, and what hf_check_sequencer_local
 * compares. */
uint64_t hfi_name_hash(const char *name, size_t size);

/* The first adds the slot to the index under its name_hash, and returns false if the index is full;
 * the second removes it. Only the agent may call these. */
bool hfi_index_put(const struct hfi_region *region, uint32_t slot, uint64_t hash);
void hfi_index_remove(const struct hfi_region *region, uint32_t slot, uint64_t hash);

/* Repairs the index for a slot with that hash. Returns false if the slot can be found already. Only
 * the agent may call it. */
bool hfi_index_mend(const struct hfi_region *region, uint32_t slot, uint64_t hash);
/* Returns the slot that an entry of the index names; false: it names none. */
bool hfi_index_entry(const struct hfi_region *region, uint32_t entry, uint32_t *slot);
/* Removes an entry that names an unused slot. Only the agent may call it. */
void hfi_index_drop(const struct hfi_region *region, uint32_t entry);

/* Returns the highest token seen of the lock with that name hash; 0: it is not known here. Any
 * thread may call this. */
uint64_t hfi_index_token(const struct hfi_region *region, uint64_t hash);

/* Returns a seat's number: block * HFI_BLOCK_SEATS + index in the block. HFI_SEAT_NONE: no seat. */
#define HFI_SEAT_NONE UINT32_MAX

static inline struct hfi_seat *hfi_seat(const struct hfi_region *region, uint32_t seat)
{
    return &region->blocks[seat / HFI_BLOCK_SEATS].seats[seat % HFI_BLOCK_SEATS];
}

static inline _Atomic uint64_t *hfi_seat_wait(const struct hfi_region *region, uint32_t seat)
{
    return &region->blocks[seat / HFI_BLOCK_SEATS].wait[seat % HFI_BLOCK_SEATS];
}

static inline int64_t hfi_lease_deadline_ns(uint64_t lease)
{
    return (int64_t)((lease >> HFI_LEASE_EPOCH_BITS) << HFI_LEASE_UNIT_SHIFT);
}

static inline uint32_t hfi_lease_epoch(uint64_t lease)
{
    return (uint32_t)(lease & HFI_LEASE_EPOCH_MASK);
}

static inline uint64_t hfi_lease(int64_t deadline_ns, uint32_t epoch)
{
    return ((uint64_t)deadline_ns >> HFI_LEASE_UNIT_SHIFT) << HFI_LEASE_EPOCH_BITS |
           (epoch & HFI_LEASE_EPOCH_MASK);
}

/* Returns whether that lease is in force at now_ns. Also returns false if now_ns was read before
 * the word and is too old to decide; hfi_lease_left_ns() then reads the clock again. */
static inline bool hfi_lease_counts(const struct hfi_trust *trust, uint64_t lease, int64_t now_ns)
{
    int64_t left_ns = hfi_lease_deadline_ns(lease) - now_ns;
    /* relaxed, both: a thread that does not see yet what another one found out checks itself */
    return left_ns > 0 &&
           (trust == NULL ||
            (left_ns <= atomic_load_explicit(&trust->ahead_max_ns, memory_order_relaxed) &&
             lease != atomic_load_explicit(&trust->disbelieved, memory_order_relaxed)));
}

/* Does what hfi_lease_left_ns() does, for a lease that seems to be too far ahead. Remembers the
 * lease word if it is. */
int64_t hfi_lease_doubt(struct hfi_trust *trust, uint64_t lease);

/* Returns how long the lease is still in force; 0 or less: it is not. */
static inline int64_t hfi_lease_left_ns(struct hfi_trust *trust, uint64_t lease, int64_t now_ns)
{
    int64_t left_ns = hfi_lease_deadline_ns(lease) - now_ns;
    return left_ns <= 0 || hfi_lease_counts(trust, lease, now_ns) ? left_ns
                                                                  : hfi_lease_doubt(trust, lease);
}

static inline uint32_t hfi_word_holder(uint64_t word)
{
    return (uint32_t)((word & HFI_W_HOLDER) >> HFI_W_HOLDER_SHIFT);
}

static inline enum hfi_grant hfi_word_mode(uint64_t word)
{
    return (enum hfi_grant)((word & HFI_W_MODE) >> HFI_W_MODE_SHIFT);
}

/* Returns whether the word names this holder with this token (its low bits are compared). */
static inline bool hfi_word_names(uint64_t word, uint32_t holder, uint64_t token)
{
    return (word & (HFI_W_HOLDER | HFI_W_TOKEN)) ==
           ((uint64_t)holder << HFI_W_HOLDER_SHIFT | (token & HFI_W_TOKEN));
}

static inline uint64_t hfi_token(uint64_t token_top, uint64_t word)
{
    return (token_top & ~HFI_W_TOKEN) | (word & HFI_W_TOKEN);
}

#endif
