/*
 * The lock word's protocol: taking without waiting, handing over, releasing. lockwait.c has the
 * waiting, and lockagent.c has the steps that only the agent takes. The rules are in lockword.h.
 *
 * Every operation on a lock word, a wait cell and a reader's cell is seq_cst: in rules 3 to 6 both
 * sides store and then load, and no weaker order keeps a store before a later load. On x86-64 a
 * seq_cst load is a plain load, and every compare-and-swap is a full barrier, so seq_cst costs
 * nothing on the fast path. docs/MEMORY_ORDER.md has the table of pairs.
 */
#include "lockword_private.h"

/* SCANS_MAX bounds the scans of queue_first(). UNHANDED_MAX bounds how often in a row a process
 * fails to hand the lock to the first waiter, or admits readers none of which enters. If a process
 * has overwritten the queue, its first waiter may be one that can never be served. After
 * UNHANDED_MAX failures the process asks the agent to serve the queue, because the agent has its
 * own copy of the chains and owners. */
enum { SCANS_MAX = 8, UNHANDED_MAX = 1000 };

static struct pick queue_scan(const struct hfi_region *region, uint32_t slot, bool writers_only)
{
    struct pick best = {0};
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && block <= region->block_count; steps++) {
        if (steps > region->block_count) {
            break; /* the chain is a loop, because a process has overwritten it */
        }
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            /* seq_cst: pairs with the store of the cell in queue_join() (rule 3) */
            uint64_t value = atomic_load(&region->blocks[block - 1].wait[place]);
            if (!wait_counts(value) || (value & HFI_WAIT_BARGING) ||
                (writers_only && (value & HFI_WAIT_SHARED))) {
                continue;
            }
            if (!best.found || ticket_before(wait_ticket(value), wait_ticket(best.value))) {
                best = (struct pick){true, (block - 1) * HFI_BLOCK_SEATS + place, value};
            }
        }
        block = next_block(region, block - 1);
    }
    return best;
}

/*
 * Finds the waiter to serve first. A scan is not a snapshot: while it goes on, two waiters may
 * join, and it may find only the later one. So if the ticket that a scan finds was drawn after the
 * scan began, the function scans again. The second scan sees all waiters with earlier tickets. A
 * third scan is necessary only if the first waiter joined and left during the second scan.
 */
struct pick queue_first(const struct hfi_region *region, uint32_t slot, bool writers_only)
{
    struct pick best = {0};
    for (unsigned scans = 0; scans < SCANS_MAX; scans++) {
        /* seq_cst: this load comes before the loads of the cells; it pairs with the fetch_add in
         * queue_join() */
        uint32_t drawn = atomic_load_explicit(&region->slots[slot].ticket_next,
                                              memory_order_seq_cst);
        best = queue_scan(region, slot, writers_only);
        if (!best.found || ticket_before(wait_ticket(best.value), drawn)) {
            break;
        }
    }
    return best;
}

bool hfi_has_readers(const struct hfi_region *region, uint32_t slot, uint32_t except)
{
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && block <= region->block_count; steps++) {
        if (steps > region->block_count) {
            break;
        }
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + place;
            /* seq_cst: pairs with the reader's store of its cell (rule 6) */
            if (seat != except && (atomic_load(&hfi_seat(region, seat)->reader) & HFI_CELL_COUNT)) {
                return true;
            }
        }
        block = next_block(region, block - 1);
    }
    return false;
}

void wake_seat(const struct hfi_actor *actor, uint32_t seat)
{
    _Atomic uint32_t *wake = &hfi_seat(actor->region, seat)->wake;
    /* seq_cst: pairs with the fetch_or in sleep_on_seat(). Either this thread sees the sleeper's
     * bit, or the sleeper sees the new count. */
    if (atomic_fetch_add(wake, 2) & 1) {
        actor->kernel->wake(actor->kernel->arg, wake, 1);
    }
}

void wake_slot(const struct hfi_actor *actor, uint32_t slot, int count)
{
    _Atomic uint32_t *wake = &actor->region->slots[slot].wake;
    /* seq_cst: pairs with a sleeper's load of slot.wake before its last load of the word */
    atomic_fetch_add(wake, 1);
    actor->kernel->wake(actor->kernel->arg, wake, count);
}

void hfi_ring(const struct hfi_actor *actor, uint32_t slot)
{
    /* seq_cst: this operation follows the change that the agent must see; it pairs with the agent's
     * exchange of the dirty bits */
    atomic_fetch_or(&actor->region->dirty[slot / 64], UINT64_C(1) << (slot % 64));
    actor->kernel->ring(actor->kernel->arg);
}

/* Tries to take the lock for a handle whose wait cell is not clear. Another process may still hand
 * the lock to this handle, so the handle has to join the queue again (rule 4). */
static enum hfi_outcome try_through_queue(const struct hfi_actor *actor,
                                          const struct hfi_request *request, struct hfi_held *held)
{
    const struct hfi_wait_limit none = {0};
    uint64_t place = 0;
    enum hfi_outcome outcome = hfi_wait_exclusive(actor, request, &none, &place, held);
    hfi_leave(actor, request, &place);
    return outcome == HFI_TIMED_OUT || outcome == HFI_GONE ? HFI_OCCUPIED : outcome;
}

enum hfi_outcome hfi_try_exclusive(const struct hfi_actor *actor, const struct hfi_request *request,
                                   struct hfi_held *held)
{
    uint64_t seen;
    bool in_queue;
    enum hfi_outcome why = hfi_take_look(actor, request, &seen, &in_queue);
    if (in_queue) {
        return try_through_queue(actor, request, held);
    }
    if (why != HFI_HELD) {
        return why;
    }
    if (request->limit_ns) {
        /* the deadline is stored before the swap, so that the agent can end the hold from its
         * beginning */
        int64_t end = actor->kernel->now_ns(actor->kernel->arg) + request->limit_ns;
        atomic_store(&hfi_seat(actor->region, request->seat)->deadline_ns, (uint64_t)end);
    }
    uint64_t mine = hfi_take_word(actor, seen);
    struct hfi_aim aim = hfi_aim(actor, request->slot);
    if (!hfi_take_swap(actor, request->slot, &seen, mine)) {
        why = obstacle(actor->region, request->slot, seen, false);
        return why == HFI_HELD ? HFI_OCCUPIED : why;
    }
    return hfi_take_check(actor, request, aim, mine, actor->kernel->now_ns, held);
}

bool clear_cell(struct hfi_seat *seat, uint64_t cell)
{
    return hfi_clear_cell(seat, cell);
}

enum hfi_outcome hfi_release_shared(const struct hfi_actor *actor, uint32_t slot, uint32_t seat,
                                    uint64_t cell)
{
    return hfi_free_shared(actor, slot, seat, cell);
}

/* Returns whether `holder` is a polled waiter of the slot. No thread sleeps for a polled waiter. */
static bool is_polled_holder(const struct hfi_region *region, uint32_t slot, uint32_t holder)
{
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && block <= region->block_count; steps++) {
        if (steps > region->block_count) {
            break;
        }
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + place;
            if (hfi_is_polled(region, seat) && seat_holder(region, seat) == holder) {
                return true;
            }
        }
        block = next_block(region, block - 1);
    }
    return false;
}

void hfi_reader_left(const struct hfi_actor *actor, uint32_t slot, uint64_t word)
{
    if (word & HFI_W_HOLDER) {
        wake_slot(actor, slot, INT32_MAX);
    }
    if ((word & (HFI_W_RECALL | HFI_W_WATCHED)) ||
        ((word & HFI_W_HOLDER) && is_polled_holder(actor->region, slot, hfi_word_holder(word)))) {
        hfi_ring(actor, slot);
    }
}

enum hfi_outcome try_shared_from(const struct hfi_actor *actor, const struct hfi_request *request,
                                 uint64_t place, struct hfi_held *held)
{
    return hfi_take_shared(actor, request, place, actor->kernel->now_ns, held);
}

enum hfi_outcome hfi_try_shared(const struct hfi_actor *actor, const struct hfi_request *request,
                                struct hfi_held *held)
{
    return try_shared_from(actor, request, 0, held);
}

static bool is_stray(const struct hfi_actor *actor, uint32_t seat)
{
    uint32_t owner = seat_holder(actor->region, seat);
    return owner == 0 || owner > HFI_HOLDER_MAX;
}

/*
 * Returns whether the seat has a stray: a wait cell with a place in the queue, in a seat that
 * belongs to no handle. Either its process goes on waiting although the agent regards it as ended,
 * or a process has overwritten the cell. A stray can never be served. Only the agent knows for
 * certain the owner of each seat. So the agent removes the stray from the queue, and wakes the
 * process that may sleep on the seat; that process then gets a new seat.
 */
static bool unseat_stray(const struct hfi_actor *actor, uint32_t seat)
{
    bool stray = is_stray(actor, seat);
    if (stray && actor->holder == HFI_HOLDER_AGENT) {
        hfi_bury_waiter(actor, seat);
        wake_seat(actor, seat);
    }
    return stray;
}

/* Raises slot.admit to the ticket. Returns false if slot.admit was at least as high already. */
static bool raise_admit(const struct hfi_actor *actor, uint32_t slot, uint32_t ticket)
{
    _Atomic uint32_t *admit = &actor->region->slots[slot].admit;
    uint32_t seen = atomic_load(admit);
    while (ticket_before(seen, ticket)) { /* the loop ends, because admit only rises */
        if (atomic_compare_exchange_weak(admit, &seen, ticket)) {
            return true;
        }
    }
    return false;
}

/*
 * Admits the readers at the head of the queue, and wakes them. Returns false if there are none. It
 * admits no reader behind the first writer. It also admits no ticket that was drawn after the
 * search for that writer began, because the search may miss a writer that joins meanwhile. A reader
 * with such a ticket finds the word free and serves the queue itself.
 *
 * A client that admits a polled reader notifies the agent (hfi_ring()). If the agent admits a
 * polled reader, it notifies itself only if it has raised slot.admit. Without this limit it would
 * notify itself for ever while the reader's process does nothing, because it looks for polled
 * waiters whenever it looks at a lock.
 */
static bool admit_readers(const struct hfi_actor *actor, uint32_t slot)
{
    struct hfi_region *region = actor->region;
    bool any = false;
    bool polled = false;
    bool raised = false;
    /* seq_cst: this load comes before the loads of the cells; it pairs with the fetch_add in
     * queue_join() */
    uint32_t end = atomic_load_explicit(&region->slots[slot].ticket_next, memory_order_seq_cst);
    struct pick writer = queue_first(region, slot, true);
    if (writer.found && ticket_before(wait_ticket(writer.value), end)) {
        end = wait_ticket(writer.value);
    }
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && block <= region->block_count; steps++) {
        if (steps > region->block_count) {
            break;
        }
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint64_t value = atomic_load(&region->blocks[block - 1].wait[place]);
            uint32_t ticket = wait_ticket(value);
            if (!wait_counts(value) || !(value & HFI_WAIT_SHARED) || (value & HFI_WAIT_BARGING) ||
                !ticket_before(ticket, end) ||
                unseat_stray(actor, (block - 1) * HFI_BLOCK_SEATS + place)) {
                continue;
            }
            raised = raise_admit(actor, slot, ticket) || raised;
            uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + place;
            wake_seat(actor, seat);
            polled = polled ||
                     ((value & HFI_WAIT_POLLED) && seat_holder(region, seat) != actor->holder);
            any = true;
        }
        block = next_block(region, block - 1);
    }
    if (polled && (raised || actor->holder != HFI_HOLDER_AGENT)) {
        hfi_ring(actor, slot);
    }
    return any;
}

/*
 * To be called if the word was freed for readers that had left the queue while the word was still
 * held. Those readers did not serve the waiters behind them. So this function takes the word again,
 * to serve these waiters. Returns false if another process has the word, or if nobody waits.
 */
static bool take_again(const struct hfi_actor *actor, uint32_t slot, uint64_t *mine)
{
    _Atomic uint64_t *word = word_of(actor, slot);
    for (unsigned tries = 0; may_retry(actor, &tries);) {
        uint64_t seen = atomic_load(word);
        if (!(seen & HFI_W_WAITERS) || obstacle(actor->region, slot, seen, false) != HFI_HELD) {
            return false;
        }
        *mine = seen + 1 + ((uint64_t)actor->holder << HFI_W_HOLDER_SHIFT);
        /* seq_cst, like every take */
        if (atomic_compare_exchange_strong(word, &seen, *mine)) {
            return true;
        }
    }
    return false;
}

/*
 * To be called after the word was freed for readers; `first` is the first of them. Returns true if
 * none of these readers waits any more, and this function has taken the word again to serve the
 * waiters behind them.
 */
static bool readers_left(const struct hfi_actor *actor, uint32_t slot, const struct pick *first,
                         uint64_t *mine)
{
    if (admit_readers(actor, slot)) {
        return false; /* the last of these readers that enters serves the next waiter */
    }
    if (actor->holder != HFI_HOLDER_AGENT && is_stray(actor, first->seat)) {
        hfi_ring(actor, slot); /* the stray stays first in the queue until the agent removes it */
        return false;
    }
    return take_again(actor, slot, mine);
}

/* The result of an attempt to hand a lock to a waiter. */
enum handing { HANDED, NOT_HANDED, HANDED_TO_NOBODY };

/* To be called after a swap that named a waiter. Returns whether the waiter had left the queue. In
 * that case this process must pass the lock on. */
static bool pass_claimed(_Atomic uint64_t *wait)
{
    /* seq_cst: this load follows the swap of the word; pairs with the store of LEFT in hfi_leave()
     * and with the exchange in queue_join() (rules 4, 5) */
    uint64_t value = atomic_load(wait);
    return (value & HFI_WAIT_LEFT) &&
           atomic_compare_exchange_strong(wait, &value,
                                          (value & ~(uint64_t)HFI_WAIT_LEFT) | HFI_WAIT_PASSED);
}

/*
 * Claims an entry of the actor's holder record for the waiter to which the actor hands a lock (rule
 * 5). Returns NULL if other threads use all entries, which they will clear soon. Also returns NULL
 * if the actor is the agent. The agent needs no entry, because only the agent reuses holder ids,
 * and it does not do so during a hand-over.
 */
static _Atomic uint32_t *record_claim(const struct hfi_actor *actor, uint32_t target)
{
    if (actor->holder >= actor->region->holder_count) {
        return NULL;
    }
    struct hfi_holder *holder = &actor->region->holders[actor->holder];
    for (unsigned i = 0; i < HFI_HANDINGS; i++) {
        uint32_t none = 0;
        /* seq_cst: this swap comes before the load of the waiter's cell; it pairs with the agent,
         * which marks the cell LEFT and then reads the records */
        if (atomic_compare_exchange_strong(&holder->handing_to[i], &none, target)) {
            return &holder->handing_to[i];
        }
    }
    return NULL;
}

/*
 * Hands the word over to a waiter by one swap, with the next token. `seen` is the word before the
 * swap: it is free, or names the holder whose hold ends. Rule 5 determines the order of the steps.
 */
static enum handing hand_to(const struct hfi_actor *actor, uint32_t slot, uint64_t seen,
                            const struct pick *pick, uint64_t *next)
{
    struct hfi_region *region = actor->region;
    uint32_t target = seat_holder(region, pick->seat);
    struct hfi_seat *seat = hfi_seat(region, pick->seat);
    _Atomic uint64_t *wait = hfi_seat_wait(region, pick->seat);
    if (unseat_stray(actor, pick->seat)) {
        return NOT_HANDED;
    }
    _Atomic uint32_t *record = record_claim(actor, target);
    if (!record && actor->holder != HFI_HOLDER_AGENT) {
        return NOT_HANDED;
    }
    enum handing result = NOT_HANDED;
    if ((atomic_load(wait) | HFI_WAIT_JOINING | HFI_WAIT_WAITING) ==
        (pick->value | HFI_WAIT_JOINING | HFI_WAIT_WAITING)) {
        int64_t now_ns = actor->kernel->now_ns(actor->kernel->arg);
        uint64_t limit_ns = atomic_load_explicit(&seat->limit_ns, memory_order_relaxed);
        if (limit_ns) {
            /* The deadline is stored before the swap, so that the agent can end the hold at any
             * time. The deadline only rises: this process may have been stopped for a while, and
             * must not shorten a hold that has begun meanwhile. */
            uint64_t end_ns = (uint64_t)now_ns + limit_ns;
            uint64_t old_ns = atomic_load(&seat->deadline_ns);
            while ((int64_t)old_ns < (int64_t)end_ns && /* ends: the deadline only rises */
                   !atomic_compare_exchange_weak(&seat->deadline_ns, &old_ns, end_ns)) {
            }
        }
        *next = ((seen & ~HFI_W_HOLDER) + 1) | (uint64_t)target << HFI_W_HOLDER_SHIFT |
                HFI_W_WAITERS;
        /* seq_cst (at least release): pairs with the next holder's load of the word, so that the
         * next holder sees what this holder has written */
        if (atomic_compare_exchange_strong(word_of(actor, slot), &seen, *next)) {
            result = HANDED;
            atomic_store_explicit(&region->slots[slot].since, since_now(now_ns),
                                  memory_order_relaxed); /* `since` is only shown to people */
            HF_PROBE4(hand_over, slot, actor->holder, target, *next & HFI_W_TOKEN);
            if (pass_claimed(wait)) {
                result = HANDED_TO_NOBODY;
            } else {
                wake_seat(actor, pick->seat);
                if (limit_ns || (seen & HFI_W_WATCHED) ||
                    ((pick->value & HFI_WAIT_POLLED) && target != actor->holder)) {
                    /* The agent must learn of three things: the hold's limit, so that the agent
                     * ends the hold in time; a change of a watched word; and the turn of a polled
                     * waiter. */
                    hfi_ring(actor, slot);
                }
            }
        }
    }
    if (record) {
        /* release: this store follows the swap and the last load of the cell; it pairs with the
         * agent's load of the record */
        atomic_store_explicit(record, 0, memory_order_release);
    }
    return result;
}

/*
 * Clears the waiters bit, because the holder found nobody in the queue. The function swaps in a
 * word without the bit, with the actor's id and the next token, and then scans the queue once more
 * (rule 3). Another process may be releasing the same word, if both pass on a word that named a
 * waiter which had left. Because of the new token, the other process cannot free the word between
 * the two scans. Returns false if the word had changed before the swap.
 */
static bool clear_waiters_bit(const struct hfi_actor *actor, uint32_t slot, uint64_t seen,
                              uint64_t *mine)
{
    _Atomic uint64_t *word = word_of(actor, slot);
    *mine = ((seen & ~(HFI_W_WAITERS | HFI_W_HOLDER)) + 1) | (uint64_t)actor->holder
                                                                 << HFI_W_HOLDER_SHIFT;
    if (!atomic_compare_exchange_strong(word, &seen, *mine)) {
        return false;
    }
    if (queue_first(actor->region, slot, false).found) {
        /* this actor still holds the word, so no process has overtaken the waiter */
        atomic_fetch_or(word, HFI_W_WAITERS);
    }
    return true;
}

/*
 * Returns whether a recalled lock may be handed to one more local waiter. The hand-over is counted
 * before the swap, because after the swap the next holder may already hand the lock on. *counted:
 * this release has already counted its hand-over.
 */
static bool may_hand_over(const struct hfi_actor *actor, uint32_t slot, uint64_t word,
                          bool *counted)
{
    _Atomic uint32_t *left = &actor->region->slots[slot].handovers_left;
    if (!(word & HFI_W_RECALL) || *counted) {
        return true;
    }
    /* relaxed: no other memory depends on this number */
    uint32_t count = atomic_load_explicit(left, memory_order_relaxed);
    /* The loop ends, because the count only falls after a recall, and a grant has one recall. */
    while (count > 0 && !atomic_compare_exchange_weak_explicit(
                            left, &count, count - 1, memory_order_relaxed, memory_order_relaxed)) {
    }
    *counted = count > 0;
    return *counted;
}

enum hfi_outcome release_as(const struct hfi_actor *actor, uint32_t slot, uint32_t holder,
                            uint64_t token)
{
    _Atomic uint64_t *word = word_of(actor, slot);
    uint64_t top = atomic_load_explicit(&actor->region->slots[slot].token_top,
                                        memory_order_relaxed);
    uint64_t seen = atomic_load(word);
    uint64_t watched = 0;
    bool counted = false;
    unsigned unhanded = 0;
    enum hfi_outcome result = HFI_GONE;
    for (unsigned tries = 0; may_scan_again(actor, &tries); seen = atomic_load(word)) {
        if (!hfi_word_names(seen, holder, token)) {
            break;
        }
        watched |= seen; /* the agent may set the watched bit between two tries */
        bool usable = !(seen & HFI_W_CLOSED) && (seen & HFI_W_TOKEN) < (top & HFI_W_TOKEN);
        struct pick pick = {0};
        /* The agent scans even without the waiters bit, because it may act for a process that died
         * after clearing the bit and before its second scan. */
        if ((seen & HFI_W_WAITERS) || actor->holder == HFI_HOLDER_AGENT) {
            pick = queue_first(actor->region, slot, false);
        }
        if ((seen & HFI_W_WAITERS) && !pick.found && usable) {
            uint64_t mine = 0;
            if (clear_waiters_bit(actor, slot, seen, &mine)) {
                holder = actor->holder;
                token = hfi_token(top, mine);
                result = HFI_RELEASED;
            }
            continue;
        }
        if (pick.found && usable && !(pick.value & HFI_WAIT_SHARED) && unhanded < UNHANDED_MAX &&
            may_hand_over(actor, slot, seen, &counted)) {
            uint64_t next = 0;
            enum handing handing = hand_to(actor, slot, seen, &pick, &next);
            if (handing == NOT_HANDED) {
                unhanded++;
                continue;
            }
            if (handing == HANDED) {
                return HFI_RELEASED; /* hand_to() has rung the agent if the word is watched */
            }
            result = HFI_RELEASED;
            /* the waiter had left the queue, so this process releases the word for it */
            holder = hfi_word_holder(next);
            token = hfi_token(top, next);
            continue;
        }
        /* Frees the word, because nobody waits, or readers wait, or the agent has to act first. */
        uint64_t freed = (seen & ~(HFI_W_HOLDER | HFI_W_BARGERS)) |
                         (pick.found ? HFI_W_WAITERS : 0);
        /* seq_cst (at least release): pairs with the acquire of the next take */
        if (!atomic_compare_exchange_strong(word, &seen, freed)) {
            continue;
        }
        result = HFI_RELEASED;
        if (seen & HFI_W_BARGERS) {
            wake_slot(actor, slot, 1);
        }
        if (pick.found && usable && !(seen & HFI_W_RECALL) && unhanded < UNHANDED_MAX) {
            uint64_t mine = 0;
            if (readers_left(actor, slot, &pick, &mine)) {
                unhanded++;
                holder = actor->holder;
                token = hfi_token(top, mine);
                continue;
            }
        } else if (pick.found || (seen & (HFI_W_RECALL | HFI_W_WAITERS))) {
            hfi_ring(actor, slot);
        }
        break;
    }
    if (watched & HFI_W_WATCHED) {
        hfi_ring(actor, slot);
    }
    return result;
}

enum hfi_outcome hfi_release(const struct hfi_actor *actor, uint32_t slot, uint64_t token)
{
    return hfi_free(word_of(actor, slot), actor->holder, token)
               ? HFI_RELEASED
               : hfi_release_slowly(actor, slot, token);
}

enum hfi_outcome hfi_release_slowly(const struct hfi_actor *actor, uint32_t slot, uint64_t token)
{
    return release_as(actor, slot, actor->holder, token);
}

void hfi_serve(const struct hfi_actor *actor, uint32_t slot)
{
    struct hfi_region *region = actor->region;
    _Atomic uint64_t *word = word_of(actor, slot);
    unsigned unhanded = 0;
    for (unsigned tries = 0; may_scan_again(actor, &tries);) {
        uint64_t seen = atomic_load(word);
        if (obstacle(region, slot, seen, true) != HFI_HELD) {
            return;
        }
        bool writable = obstacle(region, slot, seen, false) == HFI_HELD;
        struct pick pick = queue_first(region, slot, false);
        if (pick.found && (pick.value & HFI_WAIT_SHARED)) {
            /* A waiter that leaves meanwhile serves the next waiter, because it finds the word
             * free. */
            if (admit_readers(actor, slot)) {
                return;
            }
            if (actor->holder != HFI_HOLDER_AGENT) {
                if (is_stray(actor, pick.seat)) {
                    hfi_ring(actor, slot);
                }
                return;
            }
            continue; /* the waiters were strays, and have been removed */
        }
        if (!pick.found && !(seen & HFI_W_WAITERS)) {
            return;
        }
        if (!writable || unhanded == UNHANDED_MAX) {
            /* the grant is shared, no tokens are left, or the queue is damaged: the agent has to
             * act */
            if (actor->holder != HFI_HOLDER_AGENT) {
                hfi_ring(actor, slot);
            }
            return;
        }
        uint64_t next = 0;
        if (!pick.found) {
            /* nobody waits: takes the word for a moment to clear the waiters bit (rule 3) */
            next = seen + 1 + ((uint64_t)actor->holder << HFI_W_HOLDER_SHIFT);
            if (atomic_compare_exchange_strong(word, &seen, next)) {
                release_as(actor, slot, actor->holder, hfi_token(0, next));
                return;
            }
            continue;
        }
        enum handing handing = hand_to(actor, slot, seen, &pick, &next);
        if (handing == HANDED) {
            return;
        }
        if (handing == HANDED_TO_NOBODY) {
            release_as(actor, slot, hfi_word_holder(next), hfi_token(0, next));
            return;
        }
        unhanded++;
    }
}

int64_t hfi_remaining_ns(const struct hfi_region *region, const struct hfi_request *request,
                         uint32_t holder, const struct hfi_held *held, int64_t now_ns, bool *gone)
{
    uint64_t lease = atomic_load(&region->header->lease);
    uint64_t cell = held->cell ? atomic_load(&hfi_seat(region, request->seat)->reader) : 0;
    uint64_t word = atomic_load(&region->words[request->slot].word);
    int64_t deadline_ns = hfi_lease_deadline_ns(lease);
    bool over = hfi_lease_epoch(lease) != held->epoch || cell != held->cell ||
                (!held->cell && !hfi_word_names(word, holder, held->token));
    if (!over && request->limit_ns) {
        int64_t own_ns = (int64_t)atomic_load(&hfi_seat(region, request->seat)->deadline_ns);
        own_ns = own_ns > 0 ? own_ns : 0; /* another process may have written any value */
        over = own_ns <= now_ns;
        deadline_ns = own_ns < deadline_ns ? own_ns : deadline_ns;
    }
    if (gone) {
        *gone = over;
    }
    int64_t lease_ns = hfi_lease_left_ns(region->trust, lease, now_ns);
    int64_t left_ns = lease_ns <= 0 ? lease_ns : deadline_ns - now_ns;
    return over && left_ns > 0 ? 0 : left_ns;
}
