/* The repairs outside the locks' words, and the pass over all of a region: see repair.h. */
#include "repair.h"

#include "attend.h"
#include "clients.h"
#include "grants.h"
#include "handles.h"
#include "holds.h"
#include "locks.h"
#include "ringing.h"
#include "seats.h"
#include "spaces.h"
#include "words.h"

enum {
    PASSES = 5,              /* the passes over each region in one session_ttl */
    PASS_MAX_MS = 60 * 1000, /* a pass begins at least so often: lock_closed_until_ns() needs it */
    PIECE_MS = 5,            /* the time between two pieces of a pass */
    PIECE_SLOTS = 2048,      /* the least number of slots, or of seats of one slot, in one piece */
    PIECES_MAX = 64,         /* the most pieces of a pass over all slots */
    ENTRY_SHIFT = 3,         /* 1 << ENTRY_SHIFT entries of the index count as one slot */
    INDEX_PASSES = 8,        /* with many slots, each pass looks at this part of the index */
};

struct repair {
    int64_t due_ns;
    int64_t began_ns;     /* when the pass that is under way began */
    struct lock_ref hand; /* where the pass continues */
    /* the block of the slot at which the pass continues, plus 1; 0: the slot's first block */
    uint32_t block;
    uint32_t entry; /* the next entry of the index, which follows after all slots */
    uint32_t pass;  /* counts the passes */
    uint64_t slots; /* how many slots there are to look at, in all namespaces */
};

struct repair *repair_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct repair));
}

/* Returns how many slots there are to look at. */
static uint64_t slots_in_use(const struct host *host)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        slots += space_is_used(host, i) ? locks_end(host, i) : 0;
    }
    return slots;
}

/*
 * Returns whether this pass looks at that part of the index. With many slots a look at the index
 * is most of the work of a pass, because each entry is elsewhere in memory than its slot. A wrong
 * entry endangers no lock (docs/REGION.md says what it does). So it may stay for a few passes.
 */
static bool is_index_due(const struct host *host, uint32_t part)
{
    return host->repair->slots <= PIECE_SLOTS ||
           part % INDEX_PASSES == host->repair->pass % INDEX_PASSES;
}

/* ---- what lies beside the word ---- */

static void repair_number(struct host *host, struct lock_ref at, _Atomic uint32_t *field,
                          uint32_t value)
{
    /* seq_cst: only the agent writes this field, so this store only restores its value */
    if (atomic_load(field) != value) {
        atomic_store(field, value);
        word_mended(host, at);
    }
}

static void repair_slot(struct host *host, struct lock_ref at, bool with_index)
{
    const struct hfi_region *region = space_region(host, at.space);
    struct hfi_slot *shared = &region->slots[at.slot];
    repair_number(host, at, &shared->blocks, seats_first_block(host, at));
    if (lock_is_granted(host, at) && lock_in_force(host, at) &&
        atomic_load(&shared->token_top) != lock_token_last(host, at)) {
        atomic_store(&shared->token_top,
                     lock_token_last(host, at)); /* seq_cst: as in hfi_grant() */
        word_mended(host, at);
    }
    if ((atomic_load(lock_word(host, at)) & HFI_W_RECALL) &&
        atomic_load(&shared->handovers_left) > GRANT_HANDOVERS) {
        /* no recall allows more hand-overs */
        atomic_store(&shared->handovers_left, GRANT_HANDOVERS);
        word_mended(host, at);
    }
    if (with_index && hfi_index_mend(region, at.slot, lock_hash(host, at))) {
        word_mended(host, at);
    }
}

/* What the seats of a lock say about its queue. */
struct queued {
    bool any;
    uint32_t ticket; /* the highest ticket of a waiter */
    uint64_t bits;   /* the bits that the word has to have */
};

static void look_at_wait(struct queued *queued, uint64_t wait)
{
    uint32_t ticket = (uint32_t)(wait >> HFI_WAIT_TICKET_SHIFT);
    if (!(wait & (HFI_WAIT_JOINING | HFI_WAIT_WAITING))) {
        return;
    }
    queued->ticket = !queued->any || (int32_t)(ticket - queued->ticket) > 0 ? ticket
                                                                            : queued->ticket;
    queued->any = true;
    queued->bits |= wait & HFI_WAIT_BARGING ? HFI_W_BARGERS : HFI_W_WAITERS;
}

/* Returns whether no reader can have written the cell: it names another session than the present
 * one, or has a value that no reader writes. */
static bool cell_is_rubbish(const struct host *host, struct lock_ref at, uint64_t cell)
{
    uint64_t epoch = cell >> HFI_CELL_EPOCH_SHIFT;
    uint64_t lease = space_lease(host, at.space);
    return (cell & HFI_CELL_COUNT) > 1 || ((cell & HFI_CELL_COUNT) && lease != 0 &&
                                           !host->lease.lost && epoch != hfi_lease_epoch(lease));
}

/* Corrects a seat that is free, or whose handle is closed and no longer used by its process: the
 * seat must neither wait nor read. */
static void repair_empty_seat(struct host *host, struct lock_ref at, uint32_t seat,
                              struct host_actions *actions)
{
    const struct hfi_region *region = space_region(host, at.space);
    const struct hfi_actor *actor = lock_actor(host, at);
    uint64_t wait = atomic_load(hfi_seat_wait(region, seat));
    uint32_t id = seat_holder(host, at.space, seat);
    if (wait & (HFI_WAIT_JOINING | HFI_WAIT_WAITING)) {
        hfi_bury_waiter(actor, seat);
        /* if a process does wait at this seat, it wakes up and joins the queue again */
        hfi_wake_named(actor, seat);
        word_mended(host, at);
    }
    if (atomic_load(&hfi_seat(region, seat)->reader) & HFI_CELL_COUNT) {
        word_mended(host, at);
        if (id != 0) {
            hold_evict_reader(host, at, seat, 0, hold_delay_ms(host, at, id), HOST_LOSS_DEATH,
                              actions);
        } else {
            (void)hfi_evict_reader(actor, at.slot, seat, 0, 0);
        }
    }
}

static void repair_seat(struct host *host, struct lock_ref at, uint32_t seat, struct queued *queued,
                        struct host_actions *actions)
{
    const struct hfi_region *region = space_region(host, at.space);
    struct hfi_seat *shared = hfi_seat(region, seat);
    uint32_t id = seat_holder(host, at.space, seat);
    uint32_t handle = seat_handle(host, at.space, seat);
    repair_number(host, at, &shared->holder, id);
    if (id == 0 || (handle != NONE && (handle_flags(host, handle) & HANDLE_ZOMBIE) &&
                    !client_may_use_closed(host, handle_client(host, handle)))) {
        repair_empty_seat(host, at, seat, actions);
        return;
    }
    uint64_t cell = atomic_load(&shared->reader);
    /* A reader whose cell is rubbish has lost its hold. */
    if (cell_is_rubbish(host, at, cell)) {
        hold_evict_reader(host, at, seat, cell, hold_delay_ms(host, at, id), HOST_LOSS_DAMAGE,
                          actions);
        word_mended(host, at);
    }
    uint64_t wait = atomic_load(hfi_seat_wait(region, seat));
    look_at_wait(queued, wait);
    if ((wait & HFI_WAIT_WAITING) && hfi_word_holder(atomic_load(lock_word(host, at))) == id) {
        /* the process holds the lock, but may not have noticed */
        hfi_wake_named(lock_actor(host, at), seat);
    }
}

/*
 * Corrects seats of a lock, from block `block` - 1 on (0: from the lock's first block). Stops at
 * the end of a block, after at least `most` seats. Returns the next `block`, or 0 after the last
 * block.
 */
static uint32_t repair_seats(struct host *host, struct lock_ref at, uint32_t block, uint32_t most,
                             struct queued *queued, struct host_actions *actions)
{
    struct seat_walk walk = seats_of(host, at);
    if (seats_block_is_of(host, at, block)) {
        walk.next_block = block;
    }
    uint32_t looked = 0;
    while (hub_has_room(actions)) {
        if (walk.seat % HFI_BLOCK_SEATS == HFI_BLOCK_SEATS - 1 && looked >= most) {
            break;
        }
        if (!seats_next(&walk)) {
            return 0;
        }
        if (walk.seat % HFI_BLOCK_SEATS == 0) {
            struct hfi_block *shared =
                &space_region(host, at.space)->blocks[walk.seat / HFI_BLOCK_SEATS];
            repair_number(host, at, &shared->slot, at.slot + 1);
            repair_number(host, at, &shared->next, walk.next_block);
        }
        repair_seat(host, at, walk.seat, queued, actions);
        looked++;
    }
    return walk.next_block;
}

/* Corrects the word and the slot so that they agree with the seats in the queue. */
static void repair_queue(struct host *host, struct lock_ref at, const struct queued *queued)
{
    if (!queued->any) {
        return;
    }
    if (hfi_order_queue(lock_actor(host, at), at.slot, queued->ticket)) {
        word_mended(host, at);
    }
    if (queued->bits & ~atomic_load(lock_word(host, at))) {
        /* seq_cst: this sets a bit that the waiting process sets by ensure_bit(). The process may
         * be about to set the bit, or may have left the queue. In the second case the next release
         * clears the bit again, so this does no harm. */
        atomic_fetch_or(lock_word(host, at), queued->bits);
        /* the lock may be free although the waiters sleep */
        hfi_rouse(lock_actor(host, at), at.slot);
    }
}

/* Returns whether `holder`, which the word names, cannot hold the lock: see attend_holder(). Adds
 * to *walked the number of handles that this function looked at. */
static bool holder_is_nobody(const struct host *host, struct lock_ref at, uint32_t holder,
                             uint32_t *walked)
{
    uint32_t client = client_of_id(host, holder);
    uint32_t handle = lock_handles(host, at);
    if (client == NONE || !client_lives(host, client)) {
        return true;
    }
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        if (handle_holder(host, handle) == holder) {
            return false;
        }
        handle = handle_next(host, handle);
        ++*walked;
    }
    return !(client_flags(host, client) & CLIENT_SURVIVOR);
}

/* Returns whether the agent has to attend to the lock after the repair. Adds to *walked the number
 * of handles that this function looked at. */
static bool wants_attention(const struct host *host, struct lock_ref at,
                            const struct queued *queued, uint32_t *walked)
{
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word);
    bool waits = word & (HFI_W_WAITERS | HFI_W_BARGERS);
    return (word & HFI_W_RECALL) || (waits && (!queued->any || holder == 0)) ||
           (holder != 0 && holder_is_nobody(host, at, holder, walked));
}

void repair_lock(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct queued queued = {0};
    word_repair(host, at, actions);
    repair_slot(host, at, true);
    (void)repair_seats(host, at, 0, UINT32_MAX, &queued, actions);
    repair_queue(host, at, &queued);
}

/* ---- the pass ---- */

static void repair_header(struct host *host, uint32_t space)
{
    struct hfi_header *header = space_region(host, space)->header;
    if (space_mend_lease(host, space)) {
        words_count_repair(host, space);
    }
    if (atomic_load(&header->abandoned) != 0) {
        /* This agent serves the region, so it is not abandoned: a process has written the field.
         * seq_cst, as in mark_abandoned(). */
        atomic_store(&header->abandoned, 0);
        words_count_repair(host, space);
    }
}

/* Repairs what the region has of the next lock. If the lock has many seats, looks at some of them
 * only. Returns the cost, in slots. */
static uint32_t pass_slot(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct queued queued = {0};
    uint64_t before = words_repairs(host, at.space);
    uint32_t cost = 1;
    uint32_t first = host->repair->block;
    host->repair->block = 0;
    if (!lock_is_named(host, at)) {
        /* if the slot is retired, its word must say so, because then processes open the name
         * again */
        word_repair(host, at, actions);
        host->repair->hand.slot++;
        return cost;
    }
    if (first == 0) {
        word_repair(host, at, actions);
        repair_slot(host, at, is_index_due(host, at.slot));
    }
    if (seats_first_block(host, at) != 0) {
        host->repair->block = repair_seats(host, at, first, PIECE_SLOTS, &queued, actions);
        repair_queue(host, at, &queued);
        cost += host->repair->block != 0 ? PIECE_SLOTS : HFI_BLOCK_SEATS;
    }
    if (first != 0 || host->repair->block != 0) {
        queued.any = true; /* some seats were not looked at, so the queue may have waiters */
    }
    if (wants_attention(host, at, &queued, &cost) || words_repairs(host, at.space) != before) {
        attend_lock(host, at, actions);
    }
    host->repair->hand.slot += host->repair->block == 0;
    return cost;
}

/* Removes entries of the index that name slots without a lock. Returns the cost, in slots. */
static uint32_t pass_index(struct host *host, uint32_t index, uint32_t *entry)
{
    const struct hfi_region *region = space_region(host, index);
    uint32_t end = *entry + (64U << ENTRY_SHIFT);
    bool due = is_index_due(host, *entry / (64U << ENTRY_SHIFT));
    end = end < region->index_count ? end : region->index_count;
    if (!due) {
        *entry = end;
        return 1;
    }
    for (; *entry < end; ++*entry) {
        struct lock_ref at = {index, 0};
        if (hfi_index_entry(region, *entry, &at.slot) &&
            (at.slot >= locks_end(host, index) || !lock_is_named(host, at))) {
            hfi_index_drop(region, *entry);
            words_count_repair(host, index);
        }
    }
    return 64;
}

static void pass_next_space(struct host *host, struct host_actions *actions)
{
    uint32_t space = host->repair->hand.space;
    if (words_repairs(host, space) > 0) {
        hub_log(actions, "region_repaired", (int64_t)words_repairs(host, space));
        actions->items[actions->count - 1].as.log.region = space;
        actions->items[actions->count - 1].as.log.whole = true;
        words_forget_repairs(host, space);
    }
    host->repair->hand.space++;
    host->repair->hand.slot = 0;
    host->repair->block = 0;
    host->repair->entry = 0;
}

static uint32_t pass_piece(struct host *host, struct host_actions *actions)
{
    uint32_t space = host->repair->hand.space;
    if (!space_is_used(host, space) || space_is_given_up(host, space) ||
        locks_end(host, space) == 0) {
        pass_next_space(host, actions);
        return 1;
    }
    if (host->repair->hand.slot == 0 && host->repair->block == 0) {
        repair_header(host, space);
        ring_arrived(host, space); /* a ring of this namespace may have been lost */
    }
    if (host->repair->hand.slot < locks_end(host, space)) {
        return pass_slot(host, host->repair->hand, actions);
    }
    if (host->repair->entry < space_region(host, space)->index_count) {
        return pass_index(host, space, &host->repair->entry);
    }
    pass_next_space(host, actions);
    return 1;
}

int64_t repair_due_ns(const struct host *host)
{
    return host->started && slots_in_use(host) > 0 ? host->repair->due_ns : INT64_MAX;
}

void repair_work(struct host *host, struct host_actions *actions)
{
    if (repair_due_ns(host) > host->now_ns) {
        return;
    }
    if (host->repair->hand.space == 0 && host->repair->hand.slot == 0 && host->repair->block == 0) {
        host->repair->began_ns = host->now_ns;
    }
    host->repair->slots = slots_in_use(host);
    uint64_t piece = host->repair->slots / PIECES_MAX;
    piece = piece > PIECE_SLOTS ? piece : PIECE_SLOTS;
    for (uint64_t cost = 0; cost < piece && hub_has_room(actions);) {
        cost += pass_piece(host, actions);
        if (host->repair->hand.space == host->config.namespace_count) {
            host->repair->hand.space = 0;
            host->repair->pass++;
            int64_t apart_ns = host->config.session_ttl_ns / PASSES;
            apart_ns = apart_ns < PASS_MAX_MS * MS ? apart_ns : PASS_MAX_MS * MS;
            host->repair->due_ns = host->repair->began_ns + apart_ns;
            if (host->repair->due_ns <= host->now_ns) {
                host->repair->due_ns = host->now_ns + PIECE_MS * MS;
            }
            return;
        }
    }
    host->repair->due_ns = host->now_ns + PIECE_MS * MS;
}
