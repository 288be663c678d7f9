/*
 * The steps of taking and releasing a lock that nobody else wants, as inline functions. lockword.c
 * uses them for its calls, and libholdfast for its fast path, so that only this file determines the
 * order of the steps. The caller passes a clock: libholdfast an inline reading of the vDSO, other
 * callers an injected one. lockword.h has the rules.
 *
 * An exclusive take calls hfi_take_look(), hfi_take_swap() and hfi_take_check(). The caller may do
 * other work between these calls. After a successful swap the caller must call hfi_take_check(), or
 * release the word.
 */
#ifndef PROTO_LOCKTAKE_H
#define PROTO_LOCKTAKE_H

#include "proto/lockword.h"

/* A clock. It returns CLOCK_BOOTTIME in ns. arg is the arg of struct hfi_kernel. */
typedef int64_t hfi_clock(void *arg);

static inline _Atomic uint64_t *word_of(const struct hfi_actor *actor, uint32_t slot)
{
    return &actor->region->words[slot].word;
}

static inline uint32_t since_now(int64_t now_ns)
{
    return (uint32_t)((uint64_t)now_ns >> HFI_LEASE_UNIT_SHIFT);
}

/*
 * Returns why the word cannot be taken, or HFI_HELD if it can. Does not look at the waiters bit,
 * which the caller must check.
 */
static inline enum hfi_outcome obstacle(const struct hfi_region *region, uint32_t slot,
                                        uint64_t word, bool shared)
{
    enum hfi_grant mode = hfi_word_mode(word);
    if (mode == HFI_GRANT_RETIRED) {
        return HFI_RETIRED;
    }
    if (word & HFI_W_CLOSED) {
        return HFI_CLOSED;
    }
    if (mode == HFI_GRANT_NONE || (word & HFI_W_RECALL) || (mode == HFI_GRANT_SHARED && !shared)) {
        return HFI_UNGRANTED;
    }
    if (word & HFI_W_HOLDER) {
        return HFI_OCCUPIED;
    }
    if (!shared) {
        /* relaxed: the caller has loaded the word with acquire order; token_top only rises while
         * the grant lasts */
        uint64_t top = atomic_load_explicit(&region->slots[slot].token_top, memory_order_relaxed);
        if ((word & HFI_W_TOKEN) >= (top & HFI_W_TOKEN)) {
            return HFI_UNGRANTED;
        }
    }
    return HFI_HELD;
}

/* Returns whether a reader may enter now: nobody waits, or admit_readers() has admitted its
 * ticket. */
static inline bool admitted(const struct hfi_region *region, uint32_t slot, uint64_t word,
                            uint64_t place)
{
    if (!(word & HFI_W_WAITERS)) {
        return true;
    }
    if (!place || (place & HFI_WAIT_BARGING)) {
        return false;
    }
    /* seq_cst: pairs with the raise in admit_readers(). The difference is signed because tickets
     * wrap. */
    uint32_t admit = atomic_load(&region->slots[slot].admit);
    return (int32_t)(admit - (uint32_t)(place >> HFI_WAIT_TICKET_SHIFT)) >= 0;
}

/* Returns whether this word can be taken exclusively, by one comparison. top is the slot's
 * token_top. If it returns false, obstacle() finds the reason. */
static inline bool hfi_take_clear(uint64_t word, uint64_t top)
{
    return __builtin_expect(
        (word & (HFI_W_MODE | HFI_W_HOLDER | HFI_W_RECALL | HFI_W_WAITERS | HFI_W_CLOSED)) ==
                (uint64_t)HFI_GRANT_EXCLUSIVE << HFI_W_MODE_SHIFT &&
            (word & HFI_W_TOKEN) < (top & HFI_W_TOKEN),
        1);
}

/*
 * Looks at the word before a swap, and sets *seen to it. Returns HFI_HELD if the word can be taken
 * without waiting. *in_queue: the handle's wait cell is not clear, so the handle takes the lock
 * only through the queue (rule 4). The function reads the word before the cell. If the handle takes
 * a place in the queue in between, the word changes, and the swap fails.
 */
static inline enum hfi_outcome hfi_take_look(const struct hfi_actor *actor,
                                             const struct hfi_request *request, uint64_t *seen,
                                             bool *in_queue)
{
    const struct hfi_region *region = actor->region;
    /* acquire: pairs with the agent's swap in hfi_grant(); every later swap of the word continues
     * the release sequence of that swap. So the token_top that is loaded below belongs to the grant
     * in this word, or to a later range of the same grant. */
    *seen = atomic_load_explicit(word_of(actor, request->slot), memory_order_acquire);
    *in_queue = request->seat != HFI_SEAT_NONE && atomic_load(hfi_seat_wait(region, request->seat));
    /* relaxed: token_top only rises while the grant lasts; a thread that reads an old value takes
     * the slow path */
    uint64_t top = atomic_load_explicit(&region->slots[request->slot].token_top,
                                        memory_order_relaxed);
    if (hfi_take_clear(*seen, top)) {
        return HFI_HELD; /* the common case needs one comparison */
    }
    enum hfi_outcome why = obstacle(region, request->slot, *seen, false);
    return why == HFI_HELD && (*seen & HFI_W_WAITERS) ? HFI_OCCUPIED : why;
}

/* Returns the free word `seen` with the actor as its holder and the next token. */
static inline uint64_t hfi_take_word(const struct hfi_actor *actor, uint64_t seen)
{
    return seen + 1 + ((uint64_t)actor->holder << HFI_W_HOLDER_SHIFT);
}

static inline bool hfi_take_swap(const struct hfi_actor *actor, uint32_t slot, uint64_t *seen,
                                 uint64_t mine)
{
    /* seq_cst (at least acquire: pairs with the release of the last holder's swap) */
    return atomic_compare_exchange_strong(word_of(actor, slot), seen, mine);
}

/* The addresses that a take reads after the swap. They are computed before the swap, because the
 * processor executes no other instruction during a swap. */
struct hfi_aim {
    _Atomic uint64_t *word;
    const _Atomic uint64_t *lease;
    struct hfi_slot *slot;
    const struct hfi_trust *trust;
};

static inline struct hfi_aim hfi_aim(const struct hfi_actor *actor, uint32_t slot)
{
    return (struct hfi_aim){.word = word_of(actor, slot),
                            .lease = &actor->region->header->lease,
                            .slot = &actor->region->slots[slot],
                            .trust = actor->region->trust};
}

/*
 * To be called after the swap. Checks whether the take is a hold. Returns HFI_HELD or HFI_DRAINING
 * (see hfi_try_exclusive()). Any other result says why there is no hold, and means that the word
 * does not name the actor any more.
 */
static inline enum hfi_outcome hfi_take_check(const struct hfi_actor *actor,
                                              const struct hfi_request *request, struct hfi_aim aim,
                                              uint64_t mine, hfi_clock *clock,
                                              struct hfi_held *held)
{
    struct hfi_region *region = actor->region;
    uint32_t slot = request->slot;
    /* seq_cst: the scan comes before the second look at the word (rule 6). The agent closes the
     * word before it clears a dead reader's cell, so a take that misses the cell sees the closed
     * word. */
    bool readers = (mine & HFI_W_CELLS) && hfi_has_readers(region, slot, HFI_SEAT_NONE);
    /* seq_cst: this load follows the swap. It pairs with hfi_publish(), which stores the lease
     * after the agent has changed the words. */
    uint64_t lease = atomic_load(aim.lease);
    int64_t now_ns = clock(actor->kernel->arg);
    uint64_t again = atomic_load(aim.word);
    if (request->limit_ns) {
        /* the agent must learn of the hold's limit, to end the hold in time */
        hfi_ring(actor, slot);
    }
    held->token = hfi_token(atomic_load_explicit(&aim.slot->token_top, memory_order_relaxed), mine);
    held->cell = 0;
    held->epoch = hfi_lease_epoch(lease);
    held->deadline_ns = hfi_lease_deadline_ns(lease);
    if (!hfi_word_names(again, actor->holder, held->token)) {
        return HFI_OCCUPIED; /* the agent has taken the word away since the swap */
    }
    if (hfi_lease_left_ns(region->trust, lease, now_ns) <= 0) {
        hfi_release(actor, slot, held->token);
        return HFI_NO_LEASE;
    }
    if (request->limit_ns) {
        int64_t own_ns = (int64_t)atomic_load(&hfi_seat(region, request->seat)->deadline_ns);
        held->deadline_ns = own_ns < held->deadline_ns ? own_ns : held->deadline_ns;
        if (now_ns >= own_ns) {
            /* this process was stopped between the swap and now, for longer than the limit */
            hfi_release(actor, slot, held->token);
            return HFI_OCCUPIED;
        }
    }
    /* relaxed: `since` is only shown to people. It is stored only if it changes, because the next
     * swap waits for a store, but not for a load. */
    _Atomic uint32_t *since = &aim.slot->since;
    if (atomic_load_explicit(since, memory_order_relaxed) != since_now(now_ns)) {
        atomic_store_explicit(since, since_now(now_ns), memory_order_relaxed);
    }
    if (mine & HFI_W_WATCHED) {
        hfi_ring(actor, slot);
    }
    return readers || (again & HFI_W_CLOSED) ? HFI_DRAINING : HFI_HELD;
}

/*
 * The check after the swap in the common case: there is no reader's cell, nobody watches, the hold
 * has no limit, and the word has not changed since the swap. *lease: the lease of the hold. Returns
 * false if the caller must call hfi_take_check().
 */
static inline bool hfi_take_plain(struct hfi_aim aim, uint64_t mine, hfi_clock *clock,
                                  uint64_t *lease)
{
    if (mine & (HFI_W_CELLS | HFI_W_WATCHED)) {
        return false;
    }
    /* seq_cst: as in hfi_take_check() */
    *lease = atomic_load(aim.lease);
    int64_t now_ns = clock(NULL);
    if (!hfi_lease_counts(aim.trust, *lease, now_ns) || atomic_load(aim.word) != mine) {
        return false;
    }
    /* relaxed: `since` is only shown to people. It is stored only if it changes, because the next
     * swap waits for a store, but not for a load. */
    if (atomic_load_explicit(&aim.slot->since, memory_order_relaxed) != since_now(now_ns)) {
        atomic_store_explicit(&aim.slot->since, since_now(now_ns), memory_order_relaxed);
    }
    return true;
}

/* Frees the word if it names this holder with this token, and nobody waits for a change of the
 * word. Otherwise changes nothing and returns false; the caller must then call
 * hfi_release_slowly(). */
static inline bool hfi_free(_Atomic uint64_t *word, uint32_t holder, uint64_t token)
{
    /* relaxed, because the swap checks this value */
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    return hfi_word_names(seen, holder, token) &&
           !(seen & (HFI_W_WAITERS | HFI_W_RECALL | HFI_W_BARGERS | HFI_W_WATCHED)) &&
           /* seq_cst (at least release): pairs with the acquire of the next take */
           atomic_compare_exchange_strong(word, &seen, seen & ~HFI_W_HOLDER);
}

/* Releases the hold like hfi_release(), for a word that hfi_free() does not free. */
enum hfi_outcome hfi_release_slowly(const struct hfi_actor *actor, uint32_t slot, uint64_t token);

/* Clears a counted reader's cell. Returns false if the cell was not counted, or has changed. */
static inline bool hfi_clear_cell(struct hfi_seat *seat, uint64_t cell)
{
    uint64_t cleared = cell & ~(HFI_CELL_COUNT | HFI_CELL_SEQUENCE << HFI_CELL_SEQUENCE_SHIFT);
    uint64_t sequence = (cell >> HFI_CELL_SEQUENCE_SHIFT) + 1;
    cleared |= (sequence & HFI_CELL_SEQUENCE) << HFI_CELL_SEQUENCE_SHIFT;
    /* seq_cst: the reader clears its cell before it looks at the word (rule 6) */
    return (cell & HFI_CELL_COUNT) && atomic_compare_exchange_strong(&seat->reader, &cell, cleared);
}

/* To be called when a reader has cleared its cell, and the word shows a writer, a recall or a
 * watch. Wakes the writer. Rings for the agent if there is a recall or a watch, or if the writer is
 * a polled waiter. */
void hfi_reader_left(const struct hfi_actor *actor, uint32_t slot, uint64_t word);

/* Releases a shared hold. This is the inline form of hfi_release_shared(). */
static inline enum hfi_outcome hfi_free_shared(const struct hfi_actor *actor, uint32_t slot,
                                               uint32_t seat, uint64_t cell)
{
    if (!hfi_clear_cell(hfi_seat(actor->region, seat), cell)) {
        return HFI_GONE;
    }
    /* seq_cst: this load follows the change of the cell. A writer that holds the word has either
     * seen the cell cleared in its scan, or is woken here. */
    uint64_t word = atomic_load(word_of(actor, slot));
    if (word & (HFI_W_HOLDER | HFI_W_RECALL | HFI_W_WATCHED)) {
        hfi_reader_left(actor, slot, word);
    }
    return HFI_RELEASED;
}

/* The inline form of hfi_try_shared(), for a reader that may have a place in the queue (`place` is
 * 0 if it has none). */
static inline enum hfi_outcome hfi_take_shared(const struct hfi_actor *actor,
                                               const struct hfi_request *request, uint64_t place,
                                               hfi_clock *clock, struct hfi_held *held)
{
    struct hfi_region *region = actor->region;
    uint32_t slot = request->slot;
    struct hfi_seat *seat = hfi_seat(region, request->seat);
    _Atomic uint64_t *word = word_of(actor, slot);
    /* relaxed, because the word is loaded again below */
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    enum hfi_outcome why = obstacle(region, slot, before, true);
    if (why != HFI_HELD || !admitted(region, slot, before, place)) {
        return why == HFI_HELD ? HFI_OCCUPIED : why;
    }
    uint64_t old = atomic_load_explicit(&seat->reader, memory_order_relaxed);
    if ((old & HFI_CELL_COUNT) || !(before & HFI_W_CELLS)) {
        /* the cell still has a hold, or the word is damaged: the agent sets the cells bit before it
         * gives a reader a seat */
        return HFI_UNGRANTED;
    }
    uint64_t lease = atomic_load(&region->header->lease);
    if (request->limit_ns) {
        int64_t end = clock(actor->kernel->arg) + request->limit_ns;
        atomic_store(&seat->deadline_ns, (uint64_t)end);
    }
    uint64_t sequence = ((old >> HFI_CELL_SEQUENCE_SHIFT) + 1) & HFI_CELL_SEQUENCE;
    uint64_t cell = (uint64_t)hfi_lease_epoch(lease) << HFI_CELL_EPOCH_SHIFT |
                    sequence << HFI_CELL_SEQUENCE_SHIFT | 1;
    /* seq_cst: stores the cell before it loads the word; pairs with a writer's scan after its swap
     * (rule 6) */
    if (!atomic_compare_exchange_strong(&seat->reader, &old, cell)) {
        return HFI_OCCUPIED;
    }
    uint64_t after = atomic_load(word);
    why = obstacle(region, slot, after, true);
    if (why == HFI_HELD && !admitted(region, slot, after, place)) {
        why = HFI_OCCUPIED;
    }
    uint64_t lease_after = atomic_load(&region->header->lease);
    int64_t now_ns = clock(actor->kernel->arg);
    if (why == HFI_HELD && (hfi_lease_epoch(lease_after) != hfi_lease_epoch(lease) ||
                            hfi_lease_left_ns(region->trust, lease_after, now_ns) <= 0)) {
        why = HFI_NO_LEASE;
    }
    if (why == HFI_HELD && atomic_load(&seat->reader) != cell) {
        return HFI_OCCUPIED; /* the agent has taken the cell away since the swap */
    }
    if (why != HFI_HELD) {
        hfi_release_shared(actor, slot, request->seat, cell);
        return why;
    }
    /* relaxed, both: `since` is only shown to people */
    if (atomic_load_explicit(&seat->since, memory_order_relaxed) != since_now(now_ns)) {
        atomic_store_explicit(&seat->since, since_now(now_ns), memory_order_relaxed);
    }
    held->token = hfi_token(
        atomic_load_explicit(&region->slots[slot].token_top, memory_order_relaxed), after);
    held->cell = cell;
    held->epoch = hfi_lease_epoch(lease_after);
    held->deadline_ns = hfi_lease_deadline_ns(lease_after);
    if (request->limit_ns) {
        int64_t own_ns = (int64_t)atomic_load(&seat->deadline_ns);
        held->deadline_ns = own_ns < held->deadline_ns ? own_ns : held->deadline_ns;
        /* the agent must learn of the hold's limit, to end the hold in time */
        hfi_ring(actor, slot);
    }
    if (after & HFI_W_WATCHED) {
        hfi_ring(actor, slot);
    }
    return HFI_HELD;
}

#endif
