/*
 * The region is the shared memory with the locks of one namespace on one host. This file has only
 * its layout. lockword.h has the protocol by which processes use it.
 *
 * Every process that maps the region can change each byte of it, because the users of one namespace
 * trust each other. The agent does not trust them. It keeps its own copy of every count, chain and
 * owner (struct hfi_region), and checks each number that it reads in the region before it uses the
 * number. The region contains no pointer and no pthread object.
 *
 *   header   one page: magic and version, the offsets of the parts, the lease
 *   words    one cache line for each lock: the lock word, and a note that the agent writes when it
 *            takes a hold away (ending.h)
 *   slots    48 bytes for each lock: what only the slow path needs
 *   index    from name hash to slot, for hf_check_sequencer_local
 *   dirty    one bit for each lock: after a RING the agent looks at the locks whose bit is set
 *   holders  one cache line for each holder id: the holder ids to which it is handing locks
 *   blocks   512 bytes each: seats for seven handles of one lock, chained to its slot on demand
 *
 * A seat has what a handle needs besides the lock word: a place in the queue, a reader's cell, and
 * a deadline of its own. A handle that has only taken free locks has no seat.
 *
 * A change of any size or offset that is asserted below needs a new HFI_REGION_VERSION. Magic and
 * version are the first bytes in every version. An agent serves one version, and does not start
 * while processes may hold locks in regions of another version (agent/run/start_store.c).
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
    HFI_LABEL_MAX = 32, /* bytes of the name of a cell, an agent or a namespace */
};

/*
 * The lock word.
 *
 *   bit  0..39  low 40 bits of the token of the latest exclusive hold; never falls, never repeats
 *        40..55 holder id of the exclusive holder, 0 if there is none
 *        56..57 mode that is granted to this host
 *        58     recall: the quorum wants the grant back; a take must go through the queue
 *        59     waiters: a seat may be queued; a take must go through the queue
 *        60     closed: no process takes the lock until the agent opens it
 *        61     cells: a reader's cell may exist; a writer scans the cells
 *        62     bargers: a barger may sleep on slot.wake
 *        63     watched: each process that changes the word rings
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
    HFI_HOLDER_AGENT = 0xffff, /* the agent itself, during one of its steps */
    HFI_HOLDER_MAX = 0xfffe,
};

/*
 * The lease of the session to which all grants in this region belong, as one atomic word. The high
 * 40 bits have the deadline on CLOCK_BOOTTIME in units of 2^20 ns, rounded down. The low 24 bits
 * have the epoch.
 */
enum { HFI_LEASE_EPOCH_BITS = 24, HFI_LEASE_UNIT_SHIFT = 20 };
#define HFI_LEASE_EPOCH_MASK UINT64_C(0xffffff)

/* A reader's cell: from the top, 24 bits of epoch, 24 bits of a sequence that each change of the
 * cell changes, and 16 bits of count. A count that is not 0 is a hold. */
enum { HFI_CELL_SEQUENCE_SHIFT = 16, HFI_CELL_EPOCH_SHIFT = 40 };
#define HFI_CELL_COUNT UINT64_C(0xffff)
#define HFI_CELL_SEQUENCE UINT64_C(0xffffff)

/* A place in the queue: the ticket in the high 32 bits, and these flags. Tickets wrap, so compare
 * them by their difference. */
enum {
    HFI_WAIT_JOINING = 1, /* the waiter has its ticket; the waiters bit may not be set yet */
    HFI_WAIT_WAITING = 2, /* no other waiter can overtake this one */
    /* the waiter left the queue, or its process ended. If the lock word names this waiter, another
     * process passes the lock on */
    HFI_WAIT_LEFT = 4,
    /* after LEFT: another process is passing on a word that named the waiter */
    HFI_WAIT_PASSED = 8,
    HFI_WAIT_SHARED = 16,
    /* a barger, to which the lock is not handed over; it sleeps on slot.wake */
    HFI_WAIT_BARGING = 32,
    HFI_WAIT_TRYING = 64, /* the waiter waits only for an idle grant to come from another host */
    /* no thread sleeps: instead of a wake-up, a process calls hfi_ring(), and the agent sends a
     * POKE */
    HFI_WAIT_POLLED = 128,
    HFI_WAIT_TICKET_SHIFT = 32,
};

struct hfi_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_size;
    uint64_t size; /* the size of the whole region in bytes */
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
    uint64_t grace_ns;    /* the time after the deadline in which a hold may count again */
    uint64_t incarnation; /* a random number from the creation of the region */
    uint8_t store_id[16];
    uint8_t boot_id[16];
    char cell[HFI_LABEL_MAX + 1];
    char agent[HFI_LABEL_MAX + 1];
    char namespace_name[HFI_LABEL_MAX + 1];
    /* The fields that change have cache lines of their own. */
    _Alignas(HFI_LINE) _Atomic uint64_t lease;
    /* a futex: counts how often the lease was published */
    _Alignas(HFI_LINE) _Atomic uint32_t lease_wake;
    /* the number of processes that may sleep on lease_wake; it may be too high */
    _Atomic uint32_t lease_sleepers;
    /* not 0: the agent serves another region instead of this one */
    _Atomic uint32_t abandoned;
    _Atomic uint64_t commit; /* unused; earlier releases kept the store's last commit here */
};

/* A note about the last hold of the lock that the agent took away: ending.h. Agents of earlier
 * releases never write it. */
struct hfi_ending_note {
    _Atomic uint64_t hold; /* identifies the hold; 0: a shared hold, whose note is in its seat */
    _Atomic uint64_t what; /* the kind of the ending, and the user */
    _Atomic uint64_t at_ns;
    _Atomic uint64_t agent[HFI_LABEL_MAX / 8]; /* the agent's name, padded with zeros */
};

struct hfi_word {
    _Alignas(HFI_LINE) _Atomic uint64_t word;
    struct hfi_ending_note ending;
};

struct hfi_slot {
    /* the last token of the range, all 63 bits; only its low 40 bits vary */
    _Atomic uint64_t token_top;
    _Atomic uint64_t closed_until_ns; /* CLOCK_BOOTTIME; valid while the word's closed bit is set */
    _Atomic uint64_t name_hash;       /* 0: the slot is free */
    _Atomic uint32_t ticket_next;
    /* readers with a ticket up to this one may enter in spite of the waiters bit */
    _Atomic uint32_t admit;
    _Atomic uint32_t wake;   /* a futex for a draining writer and for bargers */
    _Atomic uint32_t blocks; /* the index of the first block of seats + 1; 0: none */
    /* when the exclusive hold began, in units of 2^20 ns; only shown to people */
    _Atomic uint32_t since;
    /* during a recall: how many local hand-overs may still come first */
    _Atomic uint32_t handovers_left;
};

/* The holder ids to which threads with this holder id are handing locks over (rule 5 of
 * lockword.h). 0 is a free entry. */
struct hfi_holder {
    _Alignas(HFI_LINE) _Atomic uint32_t handing_to[HFI_HANDINGS];
};

struct hfi_seat {
    _Alignas(HFI_LINE) _Atomic uint64_t reader; /* the reader's cell */
    _Atomic uint64_t deadline_ns; /* the end of the present hold by its own limit; 0: no limit */
    /* the limit of a hold that is handed over to this seat; 0: none */
    _Atomic uint64_t limit_ns;
    /* a futex: bit 0 is set while the handle sleeps; the other bits count wakes */
    _Atomic uint32_t wake;
    _Atomic uint32_t holder; /* the holder id of the seat's handle; 0: the seat is free */
    /* since when the handle reads or waits, in units of 2^20 ns; only shown to people */
    _Atomic uint32_t since;
    /* if this reader waits for an exclusive grant, identifies its hold: see hfi_ask_upgrade() */
    _Atomic uint32_t upgrade;
    /* The agent writes a try's place in the queue here to tell the try that the lock is in use
     * elsewhere. Agents of earlier releases never write it, so with them a try waits. */
    _Atomic uint64_t refused;
    /* The reader's cell of the hold that the agent last took away in this seat, and the reason
     * (ending.h). Agents of earlier releases never write these two fields. */
    _Atomic uint64_t ended;
    _Atomic uint64_t ending;
};

struct hfi_block {
    _Alignas(HFI_LINE) _Atomic uint32_t slot; /* the slot's index + 1; 0: the block is free */
    /* the index of the next block + 1; 0: the end of the chain */
    _Atomic uint32_t next;
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
 * How far a client trusts the lease word. Every process of the namespace can write that word, and
 * without an agent no process corrects it. This struct is in the client's own memory.
 *
 * The agent publishes a deadline that is at most one ttl after it sent the renewal, rounded down. A
 * client reads its clock after the lease word, so it reads a time after that of the renewal.
 * So a deadline that is more than one ttl ahead was not written by the agent. (The rounding only
 * makes the deadline earlier, so the comparison need not allow for it.) The client remembers such a
 * word, because later its deadline would be less than one ttl ahead, and would seem valid.
 */
struct hfi_trust {
    _Atomic int64_t ahead_max_ns; /* the ttl of the session, from WELCOME */
    /* the lease word that was refused because its deadline was too far ahead; 0: none */
    _Atomic uint64_t disbelieved;
    int64_t (*now_ns)(void *arg); /* CLOCK_BOOTTIME */
    void *arg;
};

/*
 * One process's view of a mapped region. The struct is in private memory, and its contents were
 * checked once. The agent also sets own_..., which are its own copies of chains and owners; the
 * protocol uses them instead of the shared ones. In a client they are NULL.
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
    /* NULL in the agent, which trusts every lease because it writes them itself */
    struct hfi_trust *trust;
    const uint32_t *own_slot_blocks; /* for each slot: its first block + 1 */
    const uint32_t *own_block_next;  /* for each block: the next block + 1 */
    const uint16_t *own_seat_holder; /* for each seat: its holder id */
};

/* Returns the size in bytes of a region with parts of these sizes, or 0 if a size is out of its
 * range. */
uint64_t hfi_region_size(const struct hfi_region_sizes *sizes);

/* The identity of a region. The agent writes it when it makes the region, and compares it when it
 * opens the region again. */
struct hfi_region_identity {
    uint8_t store_id[16];
    uint8_t boot_id[16];
    char cell[HFI_LABEL_MAX + 1];
    char agent[HFI_LABEL_MAX + 1];
    char namespace_name[HFI_LABEL_MAX + 1];
    uint64_t grace_ns;
    uint64_t incarnation;
};

/* Writes the header of a new region into `memory`, which has hfi_region_size() zeroed bytes. */
void hfi_region_format(void *memory, const struct hfi_region_sizes *sizes,
                       const struct hfi_region_identity *identity);

/*
 * Checks the header of the region in `memory`, which has size bytes, and fills in *out, with NULL
 * for trust and own_... . Checks every offset and count against size before it uses it. Returns
 * NULL if the header is valid, otherwise a static text that says what was found, and what was
 * expected.
 */
const char *hfi_region_attach(void *memory, uint64_t size, struct hfi_region *out);

/* Returns the hash of the name by FNV-1a, which is never 0. It is the key of the index, and
 * hf_check_sequencer_local finds the lock by it. */
uint64_t hfi_name_hash(const char *name, size_t size);

/* hfi_index_put() adds the slot to the index under its name_hash, and returns false if the index is
 * full. hfi_index_remove() removes it. Only the agent may call these functions. */
bool hfi_index_put(const struct hfi_region *region, uint32_t slot, uint64_t hash);
void hfi_index_remove(const struct hfi_region *region, uint32_t slot, uint64_t hash);

/* Makes sure that the index has the slot under that hash. Returns false if it had the slot already.
 * Only the agent may call this function. */
bool hfi_index_mend(const struct hfi_region *region, uint32_t slot, uint64_t hash);
/* Sets *slot to the slot in an entry of the index. Returns false if the entry has no slot. */
bool hfi_index_entry(const struct hfi_region *region, uint32_t entry, uint32_t *slot);
/* Removes an entry of the index whose slot is not in use. Only the agent may call this function. */
void hfi_index_drop(const struct hfi_region *region, uint32_t entry);

/* Returns the highest known token of the lock with that name hash, or 0 if the region does not have
 * the lock. Any thread may call this. */
uint64_t hfi_index_token(const struct hfi_region *region, uint64_t hash);

/* The number of a seat is block * HFI_BLOCK_SEATS + its index in the block. HFI_SEAT_NONE means no
 * seat. */
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

/* Returns whether the lease is in force at now_ns. If the caller read the clock before the lease
 * word, the result may be false for a valid lease, so hfi_lease_left_ns() reads the clock again
 * after a result of false. */
static inline bool hfi_lease_counts(const struct hfi_trust *trust, uint64_t lease, int64_t now_ns)
{
    int64_t left_ns = hfi_lease_deadline_ns(lease) - now_ns;
    /* relaxed, both: another thread may just have stored `disbelieved`. A thread that does not see
     * the new value checks the lease itself. */
    return left_ns > 0 &&
           (trust == NULL ||
            (left_ns <= atomic_load_explicit(&trust->ahead_max_ns, memory_order_relaxed) &&
             lease != atomic_load_explicit(&trust->disbelieved, memory_order_relaxed)));
}

/* Does hfi_lease_left_ns() for a lease whose deadline seems too far ahead, with a new reading of
 * the clock. If the deadline is too far ahead, remembers the lease word and returns 0. */
int64_t hfi_lease_doubt(struct hfi_trust *trust, uint64_t lease);

/* Returns for how long the lease is still in force; 0 or less if it is not in force. */
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

/* Returns whether the word names this holder with the low 40 bits of this token. */
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
