/*
 * What a region says against what the agent knows is put right.
 *
 * The users of one namespace trust each other for its region, and whoever wrote rubbish into it may
 * be gone: then nothing of that stays. The agent's own numbers count: the tokens that it was
 * granted, until when a lock is closed, whose a seat is, which mode is in force. A lock's word is
 * looked at whenever the lock is (repair_word), and a pass over all locks looks at everything, five
 * times in each session_ttl, in pieces. What asks to be looked at is, with it: a ring may be lost.
 *
 * What cannot be told from the truth stays for as long as the process lasts in whose name it is: a
 * word that names a handle of a living process, with a token that may be; a reader's cell or a
 * place in the queue in such a handle's seat. An administrator's break ends these.
 *
 * Clients act at any time. What is written here over a word or a cell is written by a swap of what
 * was seen, or changes bits that any process may set at any time (docs/MEMORY_ORDER.md has the
 * rows); and nothing is taken from an honest process: docs/REGION.md says of each field why not.
 */
#include "state.h"

enum {
    PASSES = 5,            /* in each session_ttl */
    PIECE_MS = 5,          /* between two pieces of a pass */
    PIECE_SLOTS = 2048,    /* slots, or seats of one slot, looked at in a piece, at least */
    PIECES_MAX = 64,       /* of a pass over all slots */
    ENTRY_SHIFT = 3,       /* so many entries of the index (its logarithm) cost as much as a slot */
    MARGIN_MS = 10 * 1000, /* behind a lock-delay, in which it may count for a give-back */
};

/* What is adopted need not be as it should: the agent before was stopped at any moment. */
static void mended(struct host *host, struct lock_ref at)
{
    host->spaces[at.space].repairs += host->started;
    host->counts.repairs += host->started;
}

/* ---- the word ---- */

/* What the word's mode has to be. */
static enum hfi_grant mode_in_force(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    bool in_force = lock_is_granted(lock) ? lock_guard(host, at)->in_force
                                          : lock->state == LOCK_ADOPTED;
    return in_force ? (enum hfi_grant)lock->mode : HFI_GRANT_NONE;
}

static struct hfi_range range_of(const struct host *host, struct lock_ref at)
{
    return (struct hfi_range){.floor = lock_guard(host, at)->floor,
                              .last = lock_at(host, at)->token_last & HFI_W_TOKEN};
}

uint64_t lock_token_used(const struct host *host, struct lock_ref at)
{
    struct hfi_range range = range_of(host, at);
    uint64_t last = lock_at(host, at)->token_last;
    uint64_t token = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    return token >= range.floor && token <= range.last ? hfi_token(last, token) : last;
}

/* A token that was not handed out: whoever had the lock has lost it, by whoever wrote that. */
static void repair_token(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct hfi_range range = range_of(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if ((word & HFI_W_TOKEN) < range.floor || (word & HFI_W_TOKEN) > range.last) {
        uint32_t holder = hfi_word_holder(word);
        uint32_t delay_ms = holder == 0 ? 0 : lock_delay_of(host, at, holder);
        if (lock_use_up(host, at, &range, delay_ms, actions)) {
            mended(host, at);
        }
    }
    word = atomic_load(lock_word(host, at)) & HFI_W_TOKEN;
    if (word >= range.floor && word <= range.last) {
        lock_guard(host, at)->floor = word;
    }
}

/* Closed is what the agent closed, and for as long as it did. */
static void repair_closing(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    _Atomic uint64_t *told = &host->spaces[at.space].region.slots[at.slot].closed_until_ns;
    uint64_t word = atomic_load(lock_word(host, at));
    int64_t until_ns = lock_closed_until_ns(host, at);
    int64_t told_ns = (int64_t)(atomic_load(told) & INT64_MAX);
    int64_t now_ns = host->outer->now_ns(host->outer->arg); /* as hfi_evict() goes by */
    bool closed = until_ns > now_ns;
    if (told_ns != until_ns && (closed || told_ns > now_ns)) {
        /* Told without the bit by a closing that came to nothing, too: a hold that ended by itself.
         * seq_cst: before the bit. */
        atomic_store(told, (uint64_t)until_ns);
        if (word & HFI_W_CLOSED) {
            mended(host, at);
        }
    }
    if (closed && !(word & HFI_W_CLOSED)) {
        atomic_fetch_or(lock_word(host, at), HFI_W_CLOSED); /* as hfi_evict_reader() does */
        mended(host, at);
    }
    if (closed && !opening_is_due(host, at)) {
        opening_add(host, at, until_ns);
    } else if (!closed && (word & HFI_W_CLOSED)) {
        hfi_open(lock_actor(host, at), at.slot);
        if (until_ns != 0) {
            lock_log(host, actions, "lock_opened", at, 0, 0);
        } else {
            mended(host, at);
        }
        watch_changed(host, at);
    }
}

/* Bits that stand for ever, or until they are taken away here. */
static void repair_bits(struct host *host, struct lock_ref at)
{
    const struct guard *guard = lock_guard(host, at);
    const struct lock *lock = lock_at(host, at);
    uint64_t bits = (guard->cells ? HFI_W_CELLS : 0) | (guard->watched ? HFI_W_WATCHED : 0);
    if (lock->state == LOCK_ADOPTED && lock->mode != HFI_GRANT_NONE) {
        bits |= HFI_W_RECALL; /* nobody new gets in */
    }
    if (bits & ~atomic_load(lock_word(host, at))) {
        atomic_fetch_or(lock_word(host, at), bits); /* seq_cst: as where they were set first */
        mended(host, at);
    }
}

void repair_word(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct lock *lock = lock_at(host, at);
    enum hfi_grant mode = lock->state == LOCK_RETIRED ? HFI_GRANT_RETIRED : mode_in_force(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock->state == LOCK_FREE) {
        return;
    }
    if (mode == HFI_GRANT_NONE || mode == HFI_GRANT_RETIRED) {
        if (hfi_word_mode(word) != mode || (word & HFI_W_HOLDER)) {
            lock_revoke(host, at, mode); /* nobody can have it */
            mended(host, at);
        }
    } else {
        if (hfi_set_mode(lock_actor(host, at), at.slot, mode)) {
            mended(host, at);
        }
        if (lock_guard(host, at)->in_force) {
            repair_token(host, at, actions);
        }
        word = atomic_load(lock_word(host, at));
        if (mode == HFI_GRANT_SHARED && (word & HFI_W_HOLDER)) { /* nobody can have that */
            lock_evict(host, at, hfi_word_holder(word), word & HFI_W_TOKEN,
                       lock_delay_of(host, at, hfi_word_holder(word)), HOST_LOSS_DEATH, actions);
            mended(host, at);
        }
    }
    if (lock_is_named(lock)) {
        repair_closing(host, at, actions);
        repair_bits(host, at);
    }
}

void repair_adopt(struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    const struct lock *lock = lock_at(host, at);
    (void)hfi_index_mend(&host->spaces[at.space].region, at.slot, lock_hash(host, at));
    const struct hfi_slot *shared = &host->spaces[at.space].region.slots[at.slot];
    uint64_t word = atomic_load(lock_word(host, at));
    enum hfi_grant mode = hfi_word_mode(word);
    int64_t until_ns = (int64_t)(atomic_load(&shared->closed_until_ns) & INT64_MAX);
    int64_t latest_ns = host->now_ns + (int64_t)delay_ms * MS;
    *lock_guard(host, at) = (struct guard){
        .in_force = lock_is_granted(lock) &&
                    (mode == HFI_GRANT_SHARED || mode == HFI_GRANT_EXCLUSIVE),
        .cells = (word & HFI_W_CELLS) != 0,
    };
    if (!(word & HFI_W_CLOSED)) {
        latest_ns = host->now_ns; /* what is over may count for a give-back */
        until_ns = until_ns > latest_ns ? 0 : until_ns;
    }
    if (until_ns > host->now_ns - MARGIN_MS * MS) {
        lock_close_told(host, at, until_ns < latest_ns ? until_ns : latest_ns);
    }
}

/* ---- what lies beside the word ---- */

static void repair_number(struct host *host, struct lock_ref at, _Atomic uint32_t *field,
                          uint32_t value)
{
    /* seq_cst: written by nobody but the agent, with this value */
    if (atomic_load(field) != value) {
        atomic_store(field, value);
        mended(host, at);
    }
}

static void repair_slot(struct host *host, struct lock_ref at)
{
    struct space *space = &host->spaces[at.space];
    struct hfi_slot *shared = &space->region.slots[at.slot];
    const struct lock *lock = lock_at(host, at);
    repair_number(host, at, &shared->blocks, space->slot_blocks[at.slot]);
    if (lock_is_granted(lock) && lock_guard(host, at)->in_force &&
        atomic_load(&shared->token_top) != lock->token_last) {
        atomic_store(&shared->token_top, lock->token_last); /* seq_cst: as in hfi_grant() */
        mended(host, at);
    }
    if ((atomic_load(lock_word(host, at)) & HFI_W_RECALL) &&
        atomic_load(&shared->handovers_left) > HANDOVERS_BEFORE_RECALL) {
        atomic_store(&shared->handovers_left, HANDOVERS_BEFORE_RECALL); /* no recall has more */
        mended(host, at);
    }
    if (hfi_index_mend(&space->region, at.slot, lock_hash(host, at))) {
        mended(host, at);
    }
}

/* What the seats of a lock say together. */
struct queued {
    bool any;
    uint32_t ticket; /* the last */
    uint64_t bits;   /* that the word has to have */
};

static void look_at_place(struct queued *queued, uint64_t wait)
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

/* Whether the cell is none that its owner can read under: of no session that is, or not as any
 * reader writes it. */
static bool cell_is_rubbish(const struct host *host, struct lock_ref at, uint64_t cell)
{
    uint64_t epoch = cell >> HFI_CELL_EPOCH_SHIFT;
    uint64_t lease = host->spaces[at.space].lease;
    return (cell & HFI_CELL_COUNT) > 1 || ((cell & HFI_CELL_COUNT) && lease != 0 &&
                                           !host->lease.lost && epoch != hfi_lease_epoch(lease));
}

/* A seat of nobody, or of one that is dead: nobody waits and reads there. */
static void repair_empty_seat(struct host *host, struct lock_ref at, uint32_t seat,
                              struct host_actions *actions)
{
    const struct space *space = &host->spaces[at.space];
    const struct hfi_actor *actor = lock_actor(host, at);
    uint64_t wait = atomic_load(hfi_seat_wait(&space->region, seat));
    uint32_t id = space->seat_holder[seat];
    if (wait & (HFI_WAIT_JOINING | HFI_WAIT_WAITING)) {
        hfi_bury_waiter(actor, seat);
        hfi_wake_named(actor, seat); /* who waits there after all is told to ask anew */
        mended(host, at);
    }
    if (atomic_load(&hfi_seat(&space->region, seat)->reader) & HFI_CELL_COUNT) {
        mended(host, at);
        if (id != 0) {
            lock_evict_reader(host, at, seat, 0, lock_delay_of(host, at, id), HOST_LOSS_DEATH,
                              actions);
        } else {
            (void)hfi_evict_reader(actor, at.slot, seat, 0, 0);
        }
    }
}

static void repair_seat(struct host *host, struct lock_ref at, uint32_t seat, struct queued *queued,
                        struct host_actions *actions)
{
    const struct space *space = &host->spaces[at.space];
    struct hfi_seat *shared = hfi_seat(&space->region, seat);
    uint32_t id = space->seat_holder[seat];
    uint32_t handle = space->seat_handle[seat];
    repair_number(host, at, &shared->holder, id);
    if (id == 0 || (handle != NONE && (host->handles[handle].flags & HANDLE_ZOMBIE) &&
                    !client_may_use_closed(host, host->handles[handle].client))) {
        repair_empty_seat(host, at, seat, actions);
        return;
    }
    uint64_t cell = atomic_load(&shared->reader);
    if (cell_is_rubbish(host, at, cell)) { /* whoever read there has lost its hold by that */
        lock_evict_reader(host, at, seat, cell, lock_delay_of(host, at, id), HOST_LOSS_DEATH,
                          actions);
        mended(host, at);
    }
    uint64_t wait = atomic_load(hfi_seat_wait(&space->region, seat));
    look_at_place(queued, wait);
    if ((wait & HFI_WAIT_WAITING) && hfi_word_holder(atomic_load(lock_word(host, at))) == id) {
        hfi_wake_named(lock_actor(host, at), seat); /* it has the lock, and may not know */
    }
}

/*
 * The seats of a lock, so many at most, from that block on (0: the first). Where it goes on; 0: all
 * were looked at.
 */
static uint32_t repair_seats(struct host *host, struct lock_ref at, uint32_t block, uint32_t most,
                             struct queued *queued, struct host_actions *actions)
{
    const struct space *space = &host->spaces[at.space];
    struct seats walk = seats_of(host, at);
    if (block != 0 && block <= space->blocks_used && space->block_slot[block - 1] == at.slot + 1) {
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
            struct hfi_block *shared = &space->region.blocks[walk.seat / HFI_BLOCK_SEATS];
            repair_number(host, at, &shared->slot, at.slot + 1);
            repair_number(host, at, &shared->next, walk.next_block);
        }
        repair_seat(host, at, walk.seat, queued, actions);
        looked++;
    }
    return walk.next_block;
}

/* What the places in the queue ask of word and slot. */
static void repair_queue(struct host *host, struct lock_ref at, const struct queued *queued)
{
    if (!queued->any) {
        return;
    }
    if (hfi_order_queue(lock_actor(host, at), at.slot, queued->ticket)) {
        mended(host, at);
    }
    if (queued->bits & ~atomic_load(lock_word(host, at))) {
        /* seq_cst: in the stead of who waits, as ensure_bit() does. It may be about to, or have
         * left since: a bit too many is what the next release takes away. */
        atomic_fetch_or(lock_word(host, at), queued->bits);
        hfi_rouse(lock_actor(host, at), at.slot); /* it may have been free while they slept */
    }
}

/* Whether the word names somebody who cannot hold: see attend_holder(). *walked: handles. */
static bool holder_is_nobody(const struct host *host, struct lock_ref at, uint32_t holder,
                             uint32_t *walked)
{
    uint32_t client = client_of_id(host, holder);
    uint32_t handle = lock_at(host, at)->handles;
    if (client == NONE || !client_lives(host, client)) {
        return true;
    }
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        if (host->handles[handle].holder == holder) {
            return false;
        }
        handle = host->handles[handle].lock_next;
        ++*walked;
    }
    return !(host->clients[client].flags & CLIENT_SURVIVOR);
}

/* Whether the agent has to act, after all was put right. */
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
    repair_word(host, at, actions);
    repair_slot(host, at);
    (void)repair_seats(host, at, 0, UINT32_MAX, &queued, actions);
    repair_queue(host, at, &queued);
}

/* ---- the pass ---- */

static void repair_header(struct space *space)
{
    struct hfi_header *header = space->region.header;
    if (space->lease != 0 && atomic_load(&header->lease) != space->lease) {
        hfi_publish(&space->actor, hfi_lease_deadline_ns(space->lease),
                    hfi_lease_epoch(space->lease), space->lease);
        space->repairs++;
    }
    if (atomic_load(&header->abandoned) != 0) {
        atomic_store(&header->abandoned, 0); /* seq_cst: it is served */
        space->repairs++;
    }
}

/* A piece of a lock, all of most. What it cost. */
static uint32_t pass_slot(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct space *space = &host->spaces[at.space];
    struct queued queued = {0};
    uint64_t before = space->repairs;
    uint32_t cost = 1;
    uint32_t first = host->repair_block;
    host->repair_block = 0;
    if (!lock_is_named(&space->locks[at.slot])) {
        repair_word(host, at, actions); /* used up: whoever has it open is to open its name again */
        host->repair_slot++;
        return cost;
    }
    if (first == 0) {
        repair_word(host, at, actions);
        repair_slot(host, at);
    }
    if (space->slot_blocks[at.slot] != 0) {
        host->repair_block = repair_seats(host, at, first, PIECE_SLOTS, &queued, actions);
        repair_queue(host, at, &queued);
        cost += host->repair_block != 0 ? PIECE_SLOTS : HFI_BLOCK_SEATS;
    }
    if (first != 0 || host->repair_block != 0) {
        queued.any = true; /* only a part was looked at */
    }
    if (wants_attention(host, at, &queued, &cost) || space->repairs != before) {
        lock_attend(host, at, actions);
    }
    host->repair_slot += host->repair_block == 0;
    return cost;
}

/* Entries of the index that name slots of nobody. What it cost. */
static uint32_t pass_index(struct space *space, uint32_t *entry)
{
    uint32_t end = *entry + (64U << ENTRY_SHIFT);
    end = end < space->region.index_count ? end : space->region.index_count;
    for (; *entry < end; ++*entry) {
        uint32_t slot = 0;
        if (hfi_index_entry(&space->region, *entry, &slot) &&
            (slot >= space->slots_used || !lock_is_named(&space->locks[slot]))) {
            hfi_index_drop(&space->region, *entry);
            space->repairs++;
        }
    }
    return 64;
}

static void pass_next_space(struct host *host, struct host_actions *actions)
{
    struct space *space = &host->spaces[host->repair_space];
    if (space->repairs > 0) {
        hub_log(actions, "region_repaired", (int64_t)space->repairs);
        actions->items[actions->count - 1].as.log.region = host->repair_space;
        actions->items[actions->count - 1].as.log.whole = true;
        space->repairs = 0;
    }
    host->repair_space++;
    host->repair_slot = 0;
    host->repair_block = 0;
    host->repair_entry = 0;
}

static uint32_t pass_piece(struct host *host, struct host_actions *actions)
{
    struct space *space = &host->spaces[host->repair_space];
    if (!space->used || space->given_up || space->slots_used == 0) {
        pass_next_space(host, actions);
        return 1;
    }
    if (host->repair_slot == 0 && host->repair_block == 0) {
        repair_header(space);
        space->dirty = true; /* whose ring was lost is not left for longer than a pass */
    }
    if (host->repair_slot < space->slots_used) {
        return pass_slot(host, (struct lock_ref){host->repair_space, host->repair_slot}, actions);
    }
    if (host->repair_entry < space->region.index_count) {
        return pass_index(space, &host->repair_entry);
    }
    pass_next_space(host, actions);
    return 1;
}

/* How many slots there are to look at. */
static uint64_t slots_in_use(const struct host *host)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        slots += host->spaces[i].used ? host->spaces[i].slots_used : 0;
    }
    return slots;
}

int64_t repair_due_ns(const struct host *host)
{
    return host->started && slots_in_use(host) > 0 ? host->repair_due_ns : INT64_MAX;
}

void repair_work(struct host *host, struct host_actions *actions)
{
    if (repair_due_ns(host) > host->now_ns) {
        return;
    }
    if (host->repair_space == 0 && host->repair_slot == 0 && host->repair_block == 0) {
        host->repair_began_ns = host->now_ns;
    }
    uint64_t piece = slots_in_use(host) / PIECES_MAX;
    piece = piece > PIECE_SLOTS ? piece : PIECE_SLOTS;
    for (uint64_t cost = 0; cost < piece && hub_has_room(actions);) {
        cost += pass_piece(host, actions);
        if (host->repair_space == host->config.namespace_count) {
            host->repair_space = 0;
            host->repair_due_ns = host->repair_began_ns + host->config.session_ttl_ns / PASSES;
            if (host->repair_due_ns <= host->now_ns) {
                host->repair_due_ns = host->now_ns + PIECE_MS * MS;
            }
            return;
        }
    }
    host->repair_due_ns = host->now_ns + PIECE_MS * MS;
}
