/* The host's record of the lock in each slot: see locks.h. */
#include "locks.h"

#include "spaces.h"

/* What the agent knows of a slot's lock. No process sees this. */
struct lock {
    uint64_t ballot : 48; /* with `sequence`: lock_version() */
    uint64_t lock_delay_ms : 16;
    uint64_t sequence : 40;
    uint64_t state : 3; /* enum lock_state */
    uint64_t mode : 2;  /* enum hfi_grant */
    uint64_t full : 1;
    uint64_t recalled : 1;
    uint64_t request : 16;
    uint64_t token_last;
    uint32_t name; /* id in names; free slot: next free slot + 1 */
    uint32_t handles;
};
_Static_assert(sizeof(struct lock) == 32, "a lock costs 32 bytes");

/* What the agent knows of the lock's word. No process sees this. */
struct word_guard {
    uint64_t floor : 40;
    /* the time until which the lock is closed, in units that wrap (see closed_units()); 0: it is
     * not closed */
    uint64_t closed : 21;
    uint64_t in_force : 1;
    uint64_t cells : 1;
    uint64_t watched : 1;
};
_Static_assert(sizeof(struct word_guard) == 8, "a guard costs 8 bytes");

/* One namespace's locks, by slot. */
struct locks_space {
    struct lock *locks;
    struct word_guard *guards;
    uint64_t *token_first;
    uint32_t end;
    uint32_t free; /* the first free slot + 1; 0: none is free */
    uint32_t free_count;
};

struct locks {
    struct locks_space spaces[HOST_NAMESPACES_MAX];
};

/*
 * By state: the states that may follow it. GRANTED and AMENDING end by an answer of the quorum, by
 * a give-back (RETURNING), or with the session.
 */
#define TO(state) (1U << (state))
static const uint8_t transitions[] = {
    [LOCK_FREE] = TO(LOCK_IDLE) | TO(LOCK_RETIRED),
    [LOCK_IDLE] = TO(LOCK_FREE) | TO(LOCK_ASKING) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED) |
                  TO(LOCK_GRANTED) | /* before START: this agent's own store knows the grant */
                  TO(LOCK_ADOPTED),
    [LOCK_ASKING] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
    [LOCK_GRANTED] = TO(LOCK_IDLE) | TO(LOCK_AMENDING) | TO(LOCK_RETURNING),
    [LOCK_AMENDING] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
    [LOCK_RETURNING] = TO(LOCK_IDLE),
    [LOCK_RETIRED] = TO(LOCK_FREE),
    [LOCK_ADOPTED] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
};

struct locks *locks_lay_out(struct arena *arena, const struct host_config *config)
{
    struct locks *locks = arena_take(arena, 1, sizeof(*locks));
    uint32_t slots = config->limits.locks;
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        ARENA_TAKE(arena, locks, spaces[i].locks, slots);
        ARENA_TAKE(arena, locks, spaces[i].guards, slots);
        ARENA_TAKE(arena, locks, spaces[i].token_first, slots);
    }
    return locks;
}

static struct lock *lock_at(const struct host *host, struct lock_ref at)
{
    return &host->locks->spaces[at.space].locks[at.slot];
}

static struct word_guard *guard_at(const struct host *host, struct lock_ref at)
{
    return &host->locks->spaces[at.space].guards[at.slot];
}

/* ---- names ---- */

uint32_t lock_name_id(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->name;
}

const uint8_t *lock_name_bytes(const struct host *host, struct lock_ref at, size_t *size)
{
    return names_bytes(host->names, lock_at(host, at)->name, size);
}

void lock_name(const struct host *host, struct lock_ref at, struct message_name *out)
{
    size_t size = 0;
    const uint8_t *bytes = lock_name_bytes(host, at, &size);
    memset(out, 0, sizeof(*out));
    out->length = (uint8_t)size;
    memcpy(out->bytes, bytes, size);
}

uint64_t lock_hash(const struct host *host, struct lock_ref at)
{
    size_t size = 0;
    const uint8_t *bytes = lock_name_bytes(host, at, &size);
    return hfi_name_hash((const char *)bytes, size);
}

/* names.h keeps the slot and the namespace of a name's lock as 32 bits that are not 0. */
enum { SPACE_SHIFT = 22 };

static uint32_t pack(struct lock_ref at)
{
    return (at.space << SPACE_SHIFT | at.slot) + 1;
}

bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct lock_ref *at)
{
    uint32_t id = names_find(host->names, name, size);
    uint32_t packed = id == NAMES_NONE ? 0 : names_lock(host->names, id);
    if (packed == 0) {
        return false;
    }
    *at = (struct lock_ref){(packed - 1) >> SPACE_SHIFT,
                            (packed - 1) & ((UINT32_C(1) << SPACE_SHIFT) - 1)};
    return space_is_used(host, at->space); /* a region that was given up is not used: regions.c */
}

/* ---- slots ---- */

uint32_t locks_end(const struct host *host, uint32_t space)
{
    return host->locks->spaces[space].end;
}

uint32_t locks_free(const struct host *host, uint32_t space)
{
    return host->locks->spaces[space].free_count;
}

uint32_t lock_take_slot(struct host *host, uint32_t space, bool unknown)
{
    struct locks_space *own = &host->locks->spaces[space];
    uint32_t slot = own->free - 1;
    if (own->free != 0) {
        own->free = own->locks[slot].name;
        own->free_count--;
        return slot;
    }
    struct lock_ref at = {space, own->end};
    uint32_t count = space_region(host, space)->slot_count;
    while (unknown && at.slot < count &&
           hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_RETIRED) {
        lock_adopt_retired(host, at);
        at.slot = ++own->end;
    }
    return at.slot < count ? own->end++ : NONE;
}

void lock_make(struct host *host, struct lock_ref at, uint32_t name)
{
    struct locks_space *own = &host->locks->spaces[at.space];
    HF_CHECK(lock_state(host, at) == LOCK_FREE);
    *lock_at(host, at) = (struct lock){.name = name, .handles = NONE};
    lock_set_state(host, at, LOCK_IDLE);
    own->end = at.slot < own->end ? own->end : at.slot + 1;
    names_set_lock(host->names, name, pack(at));
}

void lock_move(struct host *host, struct lock_ref from, struct lock_ref to)
{
    struct lock *lock = lock_at(host, to);
    lock_set_state(host, to, LOCK_IDLE);
    struct lock moved = *lock_at(host, from);
    moved.state = lock->state;
    moved.handles = NONE;
    moved.token_last = 0;
    *lock = moved;
    names_set_lock(host->names, lock->name, pack(to));
}

void lock_retire(struct host *host, struct lock_ref at)
{
    lock_set_state(host, at, LOCK_RETIRED);
    lock_at(host, at)->name = 0;
}

void lock_adopt_free(struct host *host, struct lock_ref at)
{
    struct locks_space *own = &host->locks->spaces[at.space];
    HF_CHECK(lock_state(host, at) == LOCK_FREE);
    *lock_at(host, at) = (struct lock){.handles = NONE, .name = own->free};
    own->free = at.slot + 1;
    own->free_count++;
}

void lock_free(struct host *host, struct lock_ref at)
{
    lock_forget_word(host, at);
    lock_set_state(host, at, LOCK_FREE);
    lock_adopt_free(host, at);
}

void lock_adopt_retired(struct host *host, struct lock_ref at)
{
    /* The slot may be RETIRED already: the adoption also walks over slots that it has retired. */
    HF_CHECK(!lock_is_named(host, at));
    *lock_at(host, at) = (struct lock){.handles = NONE};
    lock_set_state(host, at, LOCK_RETIRED);
}

void lock_leave(struct host *host, struct lock_ref at)
{
    if (lock_is_named(host, at) && lock_state(host, at) != LOCK_IDLE) {
        lock_set_state(host, at, LOCK_IDLE);
    }
    if (lock_state(host, at) != LOCK_FREE) {
        lock_set_state(host, at, LOCK_FREE);
    }
    *lock_at(host, at) = (struct lock){0};
    lock_forget_word(host, at);
}

void locks_leave(struct host *host, uint32_t space)
{
    struct locks_space *own = &host->locks->spaces[space];
    own->end = 0;
    own->free = 0;
    own->free_count = 0;
}

/* ---- what a lock is ---- */

enum lock_state lock_state(const struct host *host, struct lock_ref at)
{
    return (enum lock_state)lock_at(host, at)->state;
}

void lock_set_state(struct host *host, struct lock_ref at, enum lock_state to)
{
    struct lock *lock = lock_at(host, at);
    HF_CHECK(transitions[lock->state] & TO(to));
    lock->state = to;
}

bool lock_is_named(const struct host *host, struct lock_ref at)
{
    enum lock_state state = lock_state(host, at);
    return state != LOCK_FREE && state != LOCK_RETIRED;
}

bool lock_is_granted(const struct host *host, struct lock_ref at)
{
    enum lock_state state = lock_state(host, at);
    return state == LOCK_GRANTED || state == LOCK_AMENDING;
}

uint32_t lock_handles(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->handles;
}

void lock_set_handles(struct host *host, struct lock_ref at, uint32_t handle)
{
    lock_at(host, at)->handles = handle;
}

uint32_t lock_request(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->request;
}

void lock_set_request(struct host *host, struct lock_ref at, uint32_t request)
{
    lock_at(host, at)->request = (uint16_t)request;
}

/* ---- a lock's grant ---- */

struct message_order lock_version(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    return (struct message_order){lock->ballot, lock->sequence};
}

void lock_set_version(struct host *host, struct lock_ref at, struct message_order version)
{
    struct lock *lock = lock_at(host, at);
    lock->ballot = version.ballot & (MESSAGE_BALLOT_LIMIT - 1);
    lock->sequence = version.sequence & (MESSAGE_SEQUENCE_LIMIT - 1);
}

bool lock_has_version(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->ballot != 0 || lock_at(host, at)->sequence != 0;
}

enum hfi_grant lock_mode(const struct host *host, struct lock_ref at)
{
    return (enum hfi_grant)lock_at(host, at)->mode;
}

void lock_set_mode(struct host *host, struct lock_ref at, enum hfi_grant mode)
{
    lock_at(host, at)->mode = mode;
}

uint32_t lock_covered_ms(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->lock_delay_ms;
}

void lock_set_covered_ms(struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    lock_at(host, at)->lock_delay_ms = (uint16_t)delay_ms;
}

uint64_t lock_token_first(const struct host *host, struct lock_ref at)
{
    return host->locks->spaces[at.space].token_first[at.slot];
}

uint64_t lock_token_last(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->token_last;
}

void lock_set_tokens(struct host *host, struct lock_ref at, uint64_t first, uint64_t last)
{
    host->locks->spaces[at.space].token_first[at.slot] = first;
    lock_at(host, at)->token_last = last;
}

bool lock_is_full(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->full;
}

void lock_set_full(struct host *host, struct lock_ref at, bool full)
{
    lock_at(host, at)->full = full;
}

bool lock_is_recalled(const struct host *host, struct lock_ref at)
{
    return lock_at(host, at)->recalled;
}

void lock_set_recalled(struct host *host, struct lock_ref at, bool recalled)
{
    lock_at(host, at)->recalled = recalled;
}

/* ---- a lock's guard ---- */

_Atomic uint64_t *lock_word(const struct host *host, struct lock_ref at)
{
    return &space_region(host, at.space)->words[at.slot].word;
}

const struct hfi_actor *lock_actor(const struct host *host, struct lock_ref at)
{
    return space_actor(host, at.space);
}

void lock_forget_word(struct host *host, struct lock_ref at)
{
    *guard_at(host, at) = (struct word_guard){0};
}

bool lock_in_force(const struct host *host, struct lock_ref at)
{
    return guard_at(host, at)->in_force;
}

void lock_set_in_force(struct host *host, struct lock_ref at, bool in_force)
{
    guard_at(host, at)->in_force = in_force;
}

uint64_t lock_floor(const struct host *host, struct lock_ref at)
{
    return guard_at(host, at)->floor;
}

void lock_set_floor(struct host *host, struct lock_ref at, uint64_t floor)
{
    guard_at(host, at)->floor = floor & HFI_W_TOKEN;
}

bool lock_has_cells(const struct host *host, struct lock_ref at)
{
    return guard_at(host, at)->cells;
}

void lock_set_cells(struct host *host, struct lock_ref at)
{
    guard_at(host, at)->cells = 1;
}

bool lock_is_watched(const struct host *host, struct lock_ref at)
{
    return guard_at(host, at)->watched;
}

void lock_set_watched(struct host *host, struct lock_ref at, bool watched)
{
    guard_at(host, at)->watched = watched;
}

void lock_revoke(struct host *host, struct lock_ref at, enum hfi_grant mode,
                 enum hfi_ending_kind why)
{
    const struct hfi_ending ending = {.kind = why, .at_ns = host->now_ns, .uid = -1};
    lock_set_in_force(host, at, false);
    if (why != HFI_ENDING_NONE) {
        hfi_ending_note_all(lock_actor(host, at)->region, at.slot, &ending);
    }
    hfi_revoke(lock_actor(host, at), at.slot, mode);
    lock_close_and_write(host, at, 0);
}

/* ---- closed ---- */

/*
 * The agent keeps its own record of the time until which a lock is closed. It stores the low bits
 * of that time, in units of 2^17 ns. These bits can express a time up to two minutes from now,
 * before or after. That is enough: a lock-delay has a minute at most, and word_repair() forgets a
 * time that is over for half a minute. Each lock has a word_repair() at least once in a minute or
 * two, in the pass over all locks (repair.c). Without that, the time would seem to lie ahead again
 * 214 s later. The region has the same time, for processes and for the next agent. This agent reads
 * the region's time only in adoption.
 */
enum { CLOSED_SHIFT = 17, CLOSED_BITS = 21 };
static const int64_t CLOSED_AHEAD_MAX_MS = MESSAGE_LOCK_DELAY_MAX_MS + 1000;

/* Returns the time in units, rounded up. The bits that are stored are never all 0, because 0 means
 * "not closed". */
static uint64_t closed_units(int64_t until_ns)
{
    uint64_t units = ((uint64_t)until_ns + (UINT64_C(1) << CLOSED_SHIFT) - 1) >> CLOSED_SHIFT;
    return units + !(units & ((UINT64_C(1) << CLOSED_BITS) - 1));
}

int64_t lock_closed_until_ns(const struct host *host, struct lock_ref at)
{
    const uint32_t above = 32 - CLOSED_BITS;
    const int64_t ahead_max = (CLOSED_AHEAD_MAX_MS * MS) >> CLOSED_SHIFT;
    uint32_t closed = guard_at(host, at)->closed;
    uint64_t now = (uint64_t)host->now_ns >> CLOSED_SHIFT;
    int64_t ahead = (int32_t)((closed - (uint32_t)now) << above) / (1 << above);
    if (closed != 0 && ahead > ahead_max) {
        /* The agent may have stood still in this step, before it closed the lock: the lock-delay
         * counts from then. */
        const struct hfi_kernel *kernel = lock_actor(host, at)->kernel;
        now = (uint64_t)kernel->now_ns(kernel->arg) >> CLOSED_SHIFT;
        ahead = (int32_t)((closed - (uint32_t)now) << above) / (1 << above);
    }
    if (closed == 0 || ahead > ahead_max) {
        /* No lock is closed for so long. Such a time is over, but seems to lie ahead, because the
         * agent was stopped for a while and the bits have wrapped around. (If it was stopped for
         * 214 s to 275 s, the lock is closed once more, for at most 61 s.) */
        return 0;
    }
    return ((int64_t)now + ahead) << CLOSED_SHIFT;
}

void lock_close(struct host *host, struct lock_ref at, int64_t until_ns)
{
    const uint64_t mask = (UINT64_C(1) << CLOSED_BITS) - 1;
    guard_at(host, at)->closed = until_ns > 0 ? closed_units(until_ns) & mask : 0;
}

void lock_write_closing(struct host *host, struct lock_ref at)
{
    atomic_store(&space_region(host, at.space)->slots[at.slot].closed_until_ns,
                 (uint64_t)lock_closed_until_ns(host, at));
}

void lock_close_and_write(struct host *host, struct lock_ref at, int64_t until_ns)
{
    lock_close(host, at, until_ns);
    lock_write_closing(host, at);
}

int64_t lock_closing_end_ns(int64_t until_ns)
{
    return (int64_t)(closed_units(until_ns) << CLOSED_SHIFT);
}

struct host_action *lock_log(struct host *host, struct host_actions *actions, const char *event,
                             struct lock_ref at, uint64_t token, int64_t number)
{
    struct host_action *action = hub_emit(actions, HOST_LOG);
    action->as.log.event = event;
    action->as.log.region = at.space;
    action->as.log.slot = at.slot;
    action->as.log.token = token;
    action->as.log.number = number;
    if (lock_is_named(host, at)) {
        lock_name(host, at, &action->as.log.name);
    }
    return action;
}

static void check_lock(const struct host *host, struct lock_ref at)
{
    struct lock_ref found = {0};
    if (lock_state(host, at) == LOCK_FREE) {
        HF_CHECK(lock_handles(host, at) == NONE);
    }
    if (!lock_is_named(host, at)) {
        return; /* a lock without a name: the checks below are about the name */
    }
    size_t size = 0;
    const uint8_t *name = lock_name_bytes(host, at, &size);
    HF_CHECK(lock_find(host, name, size, &found));
    HF_CHECK(found.space == at.space && found.slot == at.slot);
    if (lock_is_granted(host, at)) {
        HF_CHECK(lock_mode(host, at) != HFI_GRANT_NONE && lock_token_last(host, at) != 0);
        HF_CHECK(lock_version(host, at).ballot != 0 && lock_version(host, at).sequence != 0);
    }
}

void locks_check(const struct host *host, uint32_t space)
{
    const struct locks_space *own = &host->locks->spaces[space];
    uint32_t free = 0;
    uint32_t chained = 0;
    HF_CHECK(own->end <= space_region(host, space)->slot_count);
    for (uint32_t slot = 0; slot < own->end; slot++) {
        free += own->locks[slot].state == LOCK_FREE;
        check_lock(host, (struct lock_ref){space, slot});
    }
    for (uint32_t slot = own->free; slot != 0; slot = own->locks[slot - 1].name) {
        HF_CHECK(slot <= own->end && own->locks[slot - 1].state == LOCK_FREE);
        HF_CHECK(++chained <= own->free_count);
    }
    HF_CHECK(chained == own->free_count);
    HF_CHECK(!host->started || free == chained);
}
