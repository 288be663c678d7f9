/*
 * The steps that only the agent takes on a region. Each function is a few atomic operations. Their
 * order lets the next agent finish the work of a killed one: closed_until_ns is stored before the
 * closed bit, the closed bit before a cell or a holder is removed, and the words before the header.
 *
 * The agent does not trust the region, so no loop here waits until a word has a certain value.
 */
#include "lockword_private.h"

/* Stores the time until which the lock is closed. The agent never reads this value, because it has
 * its own copy. */
static void close_until(const struct hfi_actor *agent, uint32_t slot, int64_t until_ns)
{
    /* seq_cst: this store comes before the closed bit is set */
    atomic_store(&agent->region->slots[slot].closed_until_ns, (uint64_t)until_ns);
}

bool hfi_evict(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint64_t token,
               int64_t closed_until_ns)
{
    _Atomic uint64_t *word = word_of(agent, slot);
    if (closed_until_ns <= agent->kernel->now_ns(agent->kernel->arg)) {
        return release_as(agent, slot, holder, token) == HFI_RELEASED;
    }
    /* If the holder died after it had cleared the waiters bit and before its second scan, the bit
     * is missing. So the agent scans. One scan is enough, because a waiter that joins later sets
     * the bit itself. */
    uint64_t waiters = queue_first(agent->region, slot, false).found ? HFI_W_WAITERS : 0;
    for (unsigned tries = 0; may_retry(agent, &tries);) {
        uint64_t seen = atomic_load(word);
        if (!hfi_word_names(seen, holder, token)) {
            return false;
        }
        close_until(agent, slot, closed_until_ns);
        uint64_t closed = (seen & ~HFI_W_HOLDER) | HFI_W_CLOSED | waiters;
        /* seq_cst: the swap compares holder and token, so it ends no other hold */
        if (atomic_compare_exchange_strong(word, &seen, closed)) {
            if (seen & HFI_W_CELLS) {
                /* the holder may be asleep, because it waits until the readers have left */
                wake_slot(agent, slot, INT32_MAX);
            }
            return true;
        }
    }
    return false;
}

bool hfi_evict_reader(const struct hfi_actor *agent, uint32_t slot, uint32_t seat, uint64_t cell,
                      int64_t closed_until_ns)
{
    struct hfi_seat *shared = hfi_seat(agent->region, seat);
    _Atomic uint64_t *word = word_of(agent, slot);
    uint64_t reader = atomic_load(&shared->reader);
    if (!(reader & HFI_CELL_COUNT) || (cell && reader != cell)) {
        return false;
    }
    if (closed_until_ns > agent->kernel->now_ns(agent->kernel->arg)) {
        close_until(agent, slot, closed_until_ns);
        /* the closed bit is set before the cell is cleared, so that a draining writer sees the
         * bit */
        atomic_fetch_or(word, HFI_W_CLOSED);
    }
    bool cleared = clear_cell(shared, reader);
    wake_slot(agent, slot, INT32_MAX);
    return cleared;
}

void hfi_open(const struct hfi_actor *agent, uint32_t slot)
{
    uint64_t before = atomic_fetch_and(word_of(agent, slot), ~HFI_W_CLOSED);
    if (before & HFI_W_HOLDER) {
        /* wakes a writer that waits until the readers have left */
        wake_slot(agent, slot, INT32_MAX);
        return;
    }
    if (before & HFI_W_BARGERS) {
        wake_slot(agent, slot, INT32_MAX);
    }
    hfi_serve(agent, slot);
}

/* Returns the place in the queue in the form in which the waiting process remembers it: WAITING,
 * also while the cell says JOINING. */
static uint64_t settled_place(uint64_t value)
{
    return (value & ~(uint64_t)HFI_WAIT_JOINING) | HFI_WAIT_WAITING;
}

/* Marks the seat's wait cell LEFT if the cell has this place. With place 0, any place counts. */
static void bury(const struct hfi_actor *agent, uint32_t seat, uint64_t place)
{
    _Atomic uint64_t *wait = hfi_seat_wait(agent->region, seat);
    uint64_t value = atomic_load(wait);
    for (unsigned tries = 0; wait_counts(value) && (!place || settled_place(value) == place) &&
                             may_retry(agent, &tries);) {
        uint64_t left = (value & ~(uint64_t)(HFI_WAIT_JOINING | HFI_WAIT_WAITING)) | HFI_WAIT_LEFT;
        /* seq_cst: after a client's death, this swap comes before the agent's loads of the words
         * and of the holder records (rule 5) */
        if (atomic_compare_exchange_strong(wait, &value, left)) {
            return;
        }
    }
}

void hfi_bury_waiter(const struct hfi_actor *agent, uint32_t seat)
{
    bury(agent, seat, 0);
}

void hfi_unseat(const struct hfi_actor *agent, uint32_t slot, uint32_t seat, uint32_t holder,
                uint64_t token)
{
    /* seq_cst, both: the cell is read before the word. So if the word names this hold, the word was
     * handed to this place, or the process has taken the word without a place. */
    uint64_t value = atomic_load(hfi_seat_wait(agent->region, seat));
    if (wait_counts(value) && hfi_word_names(atomic_load(word_of(agent, slot)), holder, token)) {
        bury(agent, seat, settled_place(value));
    }
}

bool hfi_pass_on(const struct hfi_actor *agent, uint32_t slot, uint32_t holder, uint32_t seat)
{
    _Atomic uint64_t *wait = hfi_seat_wait(agent->region, seat);
    /* The cell is read before the word. So if the word names this waiter, the word was handed over
     * to the wait that the waiter has left, not to an earlier wait. */
    uint64_t value = atomic_load(wait);
    uint64_t word = atomic_load(word_of(agent, slot));
    if (!(value & (HFI_WAIT_LEFT | HFI_WAIT_PASSED)) || hfi_word_holder(word) != holder) {
        return false;
    }
    if (value & HFI_WAIT_LEFT) {
        uint64_t passed = (value & ~(uint64_t)HFI_WAIT_LEFT) | HFI_WAIT_PASSED;
        if (!atomic_compare_exchange_strong(wait, &value, passed)) {
            return false;
        }
    } else if (atomic_load(wait) != value) {
        return false;
    }
    return release_as(agent, slot, holder, hfi_token(0, word)) == HFI_RELEASED;
}

void hfi_rouse(const struct hfi_actor *agent, uint32_t slot)
{
    const struct hfi_region *region = agent->region;
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && steps <= region->block_count; steps++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            if (wait_counts(atomic_load(&region->blocks[block - 1].wait[place]))) {
                wake_seat(agent, (block - 1) * HFI_BLOCK_SEATS + place);
            }
        }
        block = next_block(region, block - 1);
    }
    wake_slot(agent, slot, INT32_MAX);
}

void hfi_recall(const struct hfi_actor *agent, uint32_t slot, uint32_t handovers)
{
    atomic_store(&agent->region->slots[slot].handovers_left, handovers);
    atomic_fetch_or(word_of(agent, slot), HFI_W_RECALL); /* seq_cst: after handovers_left */
}

void hfi_forget_waiters(const struct hfi_actor *agent, uint32_t slot)
{
    _Atomic uint64_t *word = word_of(agent, slot);
    uint64_t seen = atomic_load(word);
    if (hfi_word_mode(seen) != HFI_GRANT_SHARED || !(seen & HFI_W_WAITERS) ||
        (seen & (HFI_W_RECALL | HFI_W_CLOSED)) || queue_first(agent->region, slot, false).found) {
        return;
    }
    /* Between the two scans no process can take the lock, because the recall bit prevents that as a
     * hold would (rule 3). */
    uint64_t shut = (seen & ~HFI_W_WAITERS) | HFI_W_RECALL;
    if (!atomic_compare_exchange_strong(word, &seen, shut)) {
        /* another process has changed the word; that process rings the agent, or the agent looks
         * again after the next renewal */
        return;
    }
    if (queue_first(agent->region, slot, false).found) {
        atomic_fetch_or(word, HFI_W_WAITERS);
    }
    atomic_fetch_and(word, ~HFI_W_RECALL);
    hfi_serve(agent, slot);
    /* wakes the bargers, which could not take the lock because of the waiters bit */
    wake_slot(agent, slot, INT32_MAX);
}

bool hfi_retract(const struct hfi_actor *agent, uint32_t slot)
{
    _Atomic uint64_t *word = word_of(agent, slot);
    for (unsigned tries = 0; may_retry(agent, &tries);) {
        uint64_t seen = atomic_load(word);
        if (!(seen & HFI_W_RECALL) || (seen & (HFI_W_HOLDER | HFI_W_CLOSED))) {
            return false;
        }
        /* The recall bit is set. If this scan misses a reader's cell, that reader sees the bit, and
         * clears its cell again (rule 6). */
        if ((seen & HFI_W_CELLS) && hfi_has_readers(agent->region, slot, HFI_SEAT_NONE)) {
            return false;
        }
        /* A barger sets the bargers bit when it begins to wait, and never clears it. So the agent
         * clears the bit, and wakes the bargers. A barger that still waits sets the bit again. */
        uint64_t gone = seen & ~(HFI_W_MODE | HFI_W_RECALL | HFI_W_BARGERS);
        if (atomic_compare_exchange_strong(word, &seen, gone)) {
            if (seen & HFI_W_BARGERS) {
                wake_slot(agent, slot, INT32_MAX);
            }
            return true;
        }
    }
    return false;
}

bool hfi_share(const struct hfi_actor *agent, uint32_t slot, uint64_t token_first)
{
    _Atomic uint64_t *word = word_of(agent, slot);
    uint64_t first = token_first & HFI_W_TOKEN;
    for (unsigned tries = 0; may_retry(agent, &tries);) {
        uint64_t seen = atomic_load(word);
        if (hfi_word_mode(seen) != HFI_GRANT_EXCLUSIVE || (seen & (HFI_W_HOLDER | HFI_W_CLOSED)) ||
            !(seen & HFI_W_CELLS) || !hfi_has_readers(agent->region, slot, HFI_SEAT_NONE)) {
            return false;
        }
        uint64_t token = (seen & HFI_W_TOKEN) > first ? seen & HFI_W_TOKEN : first;
        uint64_t shared = (seen & ~(HFI_W_MODE | HFI_W_RECALL | HFI_W_TOKEN)) | token |
                          (uint64_t)HFI_GRANT_SHARED << HFI_W_MODE_SHIFT;
        /* seq_cst: after this swap no process takes the lock exclusively. The agent sends its
         * message to the quorum only afterwards. */
        if (atomic_compare_exchange_strong(word, &seen, shared)) {
            hfi_serve(agent, slot);
            return true;
        }
    }
    return false;
}

void hfi_grant(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode,
               uint64_t token_first, uint64_t token_last)
{
    _Atomic uint64_t *word = word_of(agent, slot);
    /* seq_cst: the range is stored before the mode that allows processes to take tokens from it */
    atomic_store(&agent->region->slots[slot].token_top, token_last);
    uint64_t floor = (token_first - 1) & HFI_W_TOKEN;
    uint64_t last = token_last & HFI_W_TOKEN;
    for (unsigned tries = 0; may_retry(agent, &tries);) {
        uint64_t seen = atomic_load(word);
        uint64_t token = (seen & HFI_W_TOKEN) > floor ? seen & HFI_W_TOKEN : floor;
        /* if a process has written a token that is too high, all tokens of the range count as
         * used */
        token = token < last ? token : last;
        uint64_t next = (seen & ~(HFI_W_MODE | HFI_W_TOKEN)) | token |
                        (uint64_t)mode << HFI_W_MODE_SHIFT;
        if (seen & HFI_W_HOLDER) {
            /* a hold that the agent adopted from an earlier agent keeps its token */
            next = (next & ~HFI_W_TOKEN) | (seen & HFI_W_TOKEN);
        }
        if (atomic_compare_exchange_strong(word, &seen, next)) {
            break;
        }
    }
    if (atomic_load(word) & HFI_W_BARGERS) {
        wake_slot(agent, slot, INT32_MAX);
    }
    hfi_serve(agent, slot);
}

bool hfi_use_up(const struct hfi_actor *agent, uint32_t slot, const struct hfi_range *range,
                int64_t closed_until_ns, uint64_t *before)
{
    _Atomic uint64_t *word = word_of(agent, slot);
    bool closes = closed_until_ns > agent->kernel->now_ns(agent->kernel->arg);
    /* One scan is enough, because a waiter that joins later sets the waiters bit itself. */
    uint64_t waiters = queue_first(agent->region, slot, false).found ? HFI_W_WAITERS : 0;
    for (unsigned tries = 0; may_retry(agent, &tries);) {
        uint64_t seen = atomic_load(word);
        uint64_t token = seen & HFI_W_TOKEN;
        if (token >= range->floor && token <= range->last) {
            return false;
        }
        uint64_t next = (seen & ~(HFI_W_HOLDER | HFI_W_TOKEN)) | range->last | waiters;
        if ((seen & HFI_W_HOLDER) && closes) {
            close_until(agent, slot, closed_until_ns);
            next |= HFI_W_CLOSED;
        }
        /* seq_cst, like every change of the word: a process that has read the damaged word fails
         * with its own swap */
        if (atomic_compare_exchange_strong(word, &seen, next)) {
            *before = seen;
            wake_slot(agent, slot, INT32_MAX);
            return true;
        }
    }
    return false;
}

bool hfi_set_mode(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode)
{
    _Atomic uint64_t *word = word_of(agent, slot);
    for (unsigned tries = 0; may_retry(agent, &tries);) {
        uint64_t seen = atomic_load(word);
        if (hfi_word_mode(seen) == mode) {
            return false;
        }
        /* seq_cst, like every change of the word */
        if (atomic_compare_exchange_strong(
                word, &seen, (seen & ~HFI_W_MODE) | (uint64_t)mode << HFI_W_MODE_SHIFT)) {
            return true;
        }
    }
    return false;
}

bool hfi_order_queue(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket)
{
    struct hfi_slot *shared = &agent->region->slots[slot];
    /* seq_cst: this load follows the loads of the cells, whose tickets were drawn earlier */
    uint32_t next = atomic_load(&shared->ticket_next);
    bool mended = false;
    if (!ticket_before(last_ticket, next)) {
        mended = atomic_compare_exchange_strong(&shared->ticket_next, &next, last_ticket + 1);
    }
    uint32_t admit = atomic_load(&shared->admit);
    /* this load follows the load of `admit`, so `next` is not below an undamaged `admit` */
    next = atomic_load(&shared->ticket_next);
    if (ticket_before(next, admit)) {
        /* a ticket that is not drawn yet must not be admitted; readers that were admitted are
         * admitted again when the queue is served */
        mended = atomic_compare_exchange_strong(&shared->admit, &admit, next - 1) || mended;
    }
    return mended;
}

void hfi_wake_named(const struct hfi_actor *agent, uint32_t seat)
{
    _Atomic uint32_t *wake = &hfi_seat(agent->region, seat)->wake;
    /* seq_cst: as in wake_seat(). This function always wakes, because a process may have cleared
     * the bit of a sleeper. */
    atomic_fetch_add(wake, 2);
    agent->kernel->wake(agent->kernel->arg, wake, 1);
}

void hfi_revoke(const struct hfi_actor *agent, uint32_t slot, enum hfi_grant mode)
{
    const struct hfi_region *region = agent->region;
    _Atomic uint64_t *word = word_of(agent, slot);
    for (unsigned tries = 0; may_retry(agent, &tries);) {
        uint64_t seen = atomic_load(word);
        uint64_t next = (seen & ~(HFI_W_MODE | HFI_W_HOLDER | HFI_W_RECALL | HFI_W_CLOSED)) |
                        (uint64_t)mode << HFI_W_MODE_SHIFT;
        if (atomic_compare_exchange_strong(word, &seen, next)) {
            break;
        }
    }
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && steps <= region->block_count; steps++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            struct hfi_seat *seat = &region->blocks[block - 1].seats[place];
            clear_cell(seat, atomic_load(&seat->reader));
        }
        block = next_block(region, block - 1);
    }
    hfi_rouse(agent, slot);
}

/* The largest possible difference between readings of one clock on two processors. */
static const int64_t lease_margin_ns = INT64_C(1) << HFI_LEASE_UNIT_SHIFT;

void hfi_publish(const struct hfi_actor *agent, int64_t deadline_ns, uint32_t epoch,
                 uint64_t before)
{
    struct hfi_header *header = agent->region->header;
    /* seq_cst: this store follows the changes of the words. It pairs with the load of the lease
     * that follows the swap by which a process takes a lock (rule 2). */
    atomic_store(&header->lease, hfi_lease(deadline_ns, epoch));
    atomic_fetch_add(&header->lease_wake, 1);
    /* A sleeper that follows the protocol has read its clock, and has found the previous lease
     * over, before this addition: the futex compares lease_wake. So if the previous lease is not
     * over now, no such process sleeps, and no wake is needed. The agent avoids needless wakes,
     * because a hostile process can make them costly. */
    if (hfi_lease_deadline_ns(before) >
        agent->kernel->now_ns(agent->kernel->arg) + lease_margin_ns) {
        return;
    }
    if (atomic_load(&header->lease_sleepers)) {
        agent->kernel->wake(agent->kernel->arg, &header->lease_wake, INT32_MAX);
    }
}

void hfi_prolong(struct hfi_header *header, const struct hfi_kernel *kernel, int64_t deadline_ns,
                 uint32_t epoch)
{
    const uint64_t lease = hfi_lease(deadline_ns, epoch);
    uint64_t before = atomic_load(&header->lease);
    do {
        if (hfi_lease_epoch(before) != hfi_lease_epoch(lease) || before >= lease) {
            return;
        }
        /* seq_cst: as in hfi_publish(). The session is the same, so no word had to be changed
         * before this store. */
    } while (!atomic_compare_exchange_weak(&header->lease, &before, lease));
    atomic_fetch_add(&header->lease_wake, 1);
    if (hfi_lease_deadline_ns(before) <= kernel->now_ns(kernel->arg) + lease_margin_ns &&
        atomic_load(&header->lease_sleepers)) {
        kernel->wake(kernel->arg, &header->lease_wake, INT32_MAX);
    }
}

enum hfi_grant hfi_wanted(const struct hfi_region *region, uint32_t slot)
{
    struct pick pick = queue_first(region, slot, false);
    uint32_t seat = 0;
    if (!pick.found && hfi_queue(region, slot, &seat, 1) > 0) {
        pick = (struct pick){true, seat, atomic_load(hfi_seat_wait(region, seat))};
    }
    return !pick.found                    ? HFI_GRANT_NONE
           : pick.value & HFI_WAIT_SHARED ? HFI_GRANT_SHARED
                                          : HFI_GRANT_EXCLUSIVE;
}

size_t hfi_queue(const struct hfi_region *region, uint32_t slot, uint32_t *seats, size_t size)
{
    size_t count = 0;
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && block <= region->block_count; steps++) {
        if (steps > region->block_count) {
            break;
        }
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint64_t value = atomic_load(&region->blocks[block - 1].wait[place]);
            if (!(value & HFI_WAIT_WAITING)) {
                /* this waiter is still joining, so a later waiter may overtake it */
                continue;
            }
            uint32_t ticket = wait_ticket(value);
            /* inserts the seat in the order of the tickets, and keeps the `size` earliest seats */
            size_t at = count < size ? count : size;
            for (; at > 0; at--) {
                uint32_t other = wait_ticket(atomic_load(hfi_seat_wait(region, seats[at - 1])));
                if (!ticket_before(ticket, other)) {
                    break;
                }
                if (at < size) {
                    seats[at] = seats[at - 1];
                }
            }
            if (at < size) {
                seats[at] = (block - 1) * HFI_BLOCK_SEATS + place;
            }
            count++;
        }
        block = next_block(region, block - 1);
    }
    return count;
}

bool hfi_is_queued(const struct hfi_region *region, uint32_t seat)
{
    /* seq_cst: the agent closed the lock before this load. A process clears its place after it has
     * seen the lock open. */
    return wait_counts(atomic_load(hfi_seat_wait(region, seat)));
}

bool hfi_is_polled(const struct hfi_region *region, uint32_t seat)
{
    uint64_t value = atomic_load(hfi_seat_wait(region, seat));
    return (value & HFI_WAIT_POLLED) && wait_counts(value);
}

bool hfi_polled_may_go_on(const struct hfi_region *region, uint32_t slot, uint32_t seat)
{
    /* seq_cst, both: these loads follow the agent's clearing of the dirty bit. The place was stored
     * before the swap that names its waiter. */
    uint64_t value = atomic_load(hfi_seat_wait(region, seat));
    uint64_t word = atomic_load(&region->words[slot].word);
    uint32_t owner = seat_holder(region, seat);
    if (!(value & HFI_WAIT_POLLED) || !wait_counts(value) || owner == 0) {
        return false;
    }
    uint64_t place = settled_place(value);
    return hfi_word_holder(word) == owner || hfi_word_mode(word) == HFI_GRANT_RETIRED ||
           ((value & HFI_WAIT_SHARED) && obstacle(region, slot, word, true) == HFI_HELD &&
            admitted(region, slot, word, place)) ||
           ((value & HFI_WAIT_TRYING) && atomic_load(&hfi_seat(region, seat)->refused) == place);
}

/* If a waiter uses the seat, adds it to *awaited. */
static void note_awaited(const struct hfi_region *region, uint32_t seat,
                         struct hfi_awaited *awaited)
{
    uint64_t value = atomic_load(hfi_seat_wait(region, seat));
    if (!wait_counts(value) || seat_holder(region, seat) == 0) {
        return;
    }
    if (!(value & HFI_WAIT_TRYING)) {
        awaited->waits = true;
    } else if (atomic_load(&hfi_seat(region, seat)->refused) != settled_place(value)) {
        uint32_t ticket = wait_ticket(value);
        bool later = !awaited->tries || ticket_before(awaited->last, ticket);
        awaited->last = later ? ticket : awaited->last;
        awaited->tries = true;
    }
}

struct hfi_awaited hfi_awaited(const struct hfi_region *region, uint32_t slot)
{
    struct hfi_awaited awaited = {0};
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && steps <= region->block_count; steps++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            note_awaited(region, (block - 1) * HFI_BLOCK_SEATS + place, &awaited);
        }
        block = next_block(region, block - 1);
    }
    return awaited;
}

static bool seat_upgrades(const struct hfi_region *region, uint32_t seat)
{
    const struct hfi_seat *shared = hfi_seat(region, seat);
    uint64_t cell = atomic_load(&shared->reader);
    /* relaxed: the process stored the note before it rang the agent, and the ring published the
     * note */
    return (cell & HFI_CELL_COUNT) && seat_holder(region, seat) != 0 &&
           atomic_load_explicit(&shared->upgrade, memory_order_relaxed) == upgrade_note(cell);
}

bool hfi_has_upgrades(const struct hfi_region *region, uint32_t slot)
{
    uint32_t block = first_block(region, slot);
    for (uint32_t steps = 0; block != 0 && steps <= region->block_count; steps++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            if (seat_upgrades(region, (block - 1) * HFI_BLOCK_SEATS + place)) {
                return true;
            }
        }
        block = next_block(region, block - 1);
    }
    return false;
}

static void refuse_try(const struct hfi_actor *agent, uint32_t seat, uint32_t last_ticket)
{
    uint64_t value = atomic_load(hfi_seat_wait(agent->region, seat));
    _Atomic uint64_t *refused = &hfi_seat(agent->region, seat)->refused;
    if (!wait_counts(value) || !(value & HFI_WAIT_TRYING) ||
        ticket_before(last_ticket, wait_ticket(value)) ||
        atomic_load(refused) == settled_place(value)) {
        return;
    }
    /* seq_cst: this store comes before the increase of the wake count. The waiter reads the wake
     * count before it reads `refused`. */
    atomic_store(refused, settled_place(value));
    hfi_wake_named(agent, seat);
}

void hfi_refuse_tries(const struct hfi_actor *agent, uint32_t slot, uint32_t last_ticket)
{
    const struct hfi_region *region = agent->region;
    uint32_t block = first_block(region, slot);
    bool bargers = atomic_load(word_of(agent, slot)) & HFI_W_BARGERS;
    for (uint32_t steps = 0; block != 0 && steps <= region->block_count; steps++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            refuse_try(agent, (block - 1) * HFI_BLOCK_SEATS + place, last_ticket);
        }
        block = next_block(region, block - 1);
    }
    if (bargers) { /* a barging waiter that only tries sleeps on slot.wake */
        wake_slot(agent, slot, INT32_MAX);
    }
}
