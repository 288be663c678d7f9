/* Holds with a limit: see limits.h. */
#include "limits_private.h"

#include "clients.h"
#include "handles.h"
#include "holds.h"
#include "locks.h"
#include "ringing.h"
#include "seats.h"
#include "spaces.h"

struct limits *limits_lay_out(struct arena *arena, const struct host_config *config)
{
    struct limits *limits = arena_take(arena, 1, sizeof(*limits));
    size_t groups = config->limits.handles / LIMITED_GROUP + 1;
    ARENA_TAKE(arena, limits, groups, groups);
    ARENA_TAKE(arena, limits, group_due_ns, groups);
    return limits;
}

void limits_init(struct host *host)
{
    host->limits->due_ns = INT64_MAX;
}

int64_t limits_due_ns(const struct host *host)
{
    return host->limits->due_ns;
}

void limit_forget(struct host *host, uint32_t handle)
{
    if (handle_flags(host, handle) & HANDLE_LIMITED) {
        host->limits->groups[handle / LIMITED_GROUP] &= ~(UINT64_C(1) << (handle % LIMITED_GROUP));
        host->limits->count--;
        handle_clear(host, handle, HANDLE_LIMITED);
    }
}

/* Notes that the agent has to look at the handle no later than due_ns. */
static void limit_due(struct host *host, uint32_t handle, int64_t due_ns)
{
    int64_t *group_ns = &host->limits->group_due_ns[handle / LIMITED_GROUP];
    *group_ns = due_ns < *group_ns ? due_ns : *group_ns;
    host->limits->due_ns = due_ns < host->limits->due_ns ? due_ns : host->limits->due_ns;
}

void limit_begin(struct host *host, uint32_t handle)
{
    uint32_t group = handle / LIMITED_GROUP;
    if (!(handle_flags(host, handle) & HANDLE_LIMITED)) {
        if (host->limits->groups[group] == 0) {
            host->limits->group_due_ns[group] = INT64_MAX;
        }
        handle_set(host, handle, HANDLE_LIMITED);
        host->limits->groups[group] |= UINT64_C(1) << (handle % LIMITED_GROUP);
        host->limits->count++;
    }
    limit_due(host, handle, host->now_ns + LIMIT_IDLE_CHECK_MS * MS);
}

/*
 * Returns until when the hold in the handle's seat may last, as the seat says. The process stored
 * that time before it took the lock, so the time lies at most limit_ms ahead of now. A time that
 * lies farther ahead is rubbish, and is overwritten with now + limit_ms. If it were not
 * overwritten, each look would read it as now + limit_ms, and the hold would never end.
 */
static int64_t limit_of_seat(const struct host *host, uint32_t handle)
{
    uint32_t space = handle_lock(host, handle).space;
    struct hfi_seat *seat = hfi_seat(space_region(host, space), handle_seat(host, handle));
    uint64_t deadline_ns = atomic_load(&seat->deadline_ns);
    uint64_t limit_ns = (uint64_t)handle_limit_ms(host, handle) * MS;
    uint64_t latest_ns = (uint64_t)ringing_clock_ns(host) + limit_ns;
    /* seq_cst, as in hf_progress(). If the process has just changed the deadline, the swap fails,
     * and deadline_ns is the process's new value. The next look limits it in the seat, if
     * necessary. */
    if (deadline_ns > latest_ns &&
        atomic_compare_exchange_strong(&seat->deadline_ns, &deadline_ns, latest_ns)) {
        deadline_ns = latest_ns;
    }
    deadline_ns = deadline_ns < latest_ns ? deadline_ns : latest_ns;
    return deadline_ns > 0 ? (int64_t)deadline_ns : 1;
}

/* Returns the deadline of the handle's hold, or 0 if the handle does not hold the lock. Sets *cell
 * to the reader's cell (0: the hold is exclusive), and *token to the word's token. */
static int64_t limit_deadline(const struct host *host, uint32_t handle, uint64_t *cell,
                              uint64_t *token)
{
    struct lock_ref at = handle_lock(host, handle);
    const struct hfi_region *region = space_region(host, at.space);
    const struct hfi_seat *seat = hfi_seat(region, handle_seat(host, handle));
    /* Reads the word before the deadline. The process stores the deadline before it takes the lock.
     * So this deadline is that of the hold with the word's token, or of a later hold. A later hold
     * has another token, so the caller does not end it. */
    uint64_t word = atomic_load(lock_word(host, at));
    *token = word & HFI_W_TOKEN;
    uint64_t reader = atomic_load(&seat->reader);
    *cell = reader & HFI_CELL_COUNT ? reader : 0;
    if (!*cell && hfi_word_holder(word) != handle_holder(host, handle)) {
        return 0;
    }
    return limit_of_seat(host, handle);
}

void limit_attend(struct host *host, uint32_t handle)
{
    uint32_t flags = handle_flags(host, handle);
    uint64_t cell = 0;
    uint64_t token = 0;
    if ((flags & HANDLE_LIMITED) && !(flags & HANDLE_ZOMBIE)) {
        int64_t deadline_ns = limit_deadline(host, handle, &cell, &token);
        if (deadline_ns > 0) {
            limit_due(host, handle, deadline_ns);
        }
    }
}

static void limit_find(struct host *host, struct lock_ref at, uint32_t seat)
{
    const struct hfi_seat *shared = hfi_seat(space_region(host, at.space), seat);
    uint32_t id = seat_holder(host, at.space, seat);
    uint32_t client = client_of_id(host, id);
    bool holds = hfi_word_holder(atomic_load(lock_word(host, at))) == id ||
                 (atomic_load(&shared->reader) & HFI_CELL_COUNT);
    uint64_t deadline_ns = atomic_load(&shared->deadline_ns);
    if (id == 0 || !holds || deadline_ns == 0 || client == NONE || !client_lives(host, client) ||
        seat_handle(host, at.space, seat) != NONE) {
        return;
    }
    uint32_t handle = handle_new(host, client, at);
    if (handle == NONE) {
        return; /* the client's own handle has the limit once the client has opened it again */
    }
    uint64_t limit_ms = atomic_load(&shared->limit_ns) / (uint64_t)MS + 1;
    int64_t left_ms = ((int64_t)(deadline_ns & INT64_MAX) - host->now_ns) / MS + 1;
    limit_ms = left_ms > 0 && (uint64_t)left_ms > limit_ms ? (uint64_t)left_ms : limit_ms;
    handle_set_holder(host, handle, id);
    handle_set_seat(host, handle, seat);
    handle_set(host, handle, HANDLE_FOUND);
    handle_set_limit_ms(host, handle, limit_ms < UINT32_MAX ? (uint32_t)limit_ms : UINT32_MAX);
    handle_set_delay_ms(host, handle, lock_covered_ms(host, at));
    seat_set_handle(host, at.space, seat, handle);
    limit_begin(host, handle);
}

void limits_find(struct host *host, struct lock_ref at)
{
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        limit_find(host, at, walk.seat);
    }
}

void limits_attend(struct host *host, struct lock_ref at)
{
    uint32_t handle = lock_handles(host, at);
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        limit_attend(host, handle);
        handle = handle_next(host, handle);
        hub_walk(host, 1);
    }
}

static enum host_loss loss_of_limit(const struct host *host, uint32_t handle)
{
    return handle_flags(host, handle) & HANDLE_STALLS ? HOST_LOSS_STALL : HOST_LOSS_LEASE;
}

/* Ends the handle's hold if its time is over. Returns when to look at the handle next. */
static int64_t limit_check(struct host *host, uint32_t handle, struct host_actions *actions)
{
    struct lock_ref at = handle_lock(host, handle);
    uint32_t holder = handle_holder(host, handle);
    uint32_t seat = handle_seat(host, handle);
    uint32_t delay_ms = handle_delay_ms(host, handle);
    uint64_t cell = 0;
    uint64_t token = 0;
    int64_t deadline_ns = handle_flags(host, handle) & HANDLE_ZOMBIE
                              ? 0
                              : limit_deadline(host, handle, &cell, &token);
    if (deadline_ns > host->now_ns) {
        return deadline_ns;
    }
    if (deadline_ns > 0 && !hub_has_room(actions)) {
        return host->now_ns;
    }
    if (deadline_ns > 0 && cell) {
        hold_evict_reader(host, at, seat, cell, delay_ms, loss_of_limit(host, handle), actions);
    } else if (deadline_ns > 0) {
        uint64_t word = atomic_load(lock_word(host, at));
        /* if the word names another token, the process has a newer hold */
        if (hfi_word_names(word, holder, token)) {
            hold_evict(host, at, holder, token, delay_ms, loss_of_limit(host, handle), actions);
        }
    }
    return host->now_ns + LIMIT_IDLE_CHECK_MS * MS;
}

/* Ends those holds of the group's handles whose time is over. Returns when to look at the group
 * next. */
static int64_t limits_check_group(struct host *host, uint32_t group, struct host_actions *actions)
{
    int64_t next_ns = INT64_MAX;
    for (uint64_t bits = host->limits->groups[group]; bits != 0; bits &= bits - 1) {
        uint32_t handle = group * LIMITED_GROUP + (uint32_t)__builtin_ctzll(bits);
        int64_t due_ns = limit_check(host, handle, actions);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
        hub_walk(host, 1);
    }
    return next_ns;
}

void limits_end_due(struct host *host, struct host_actions *actions)
{
    int64_t next_ns = INT64_MAX;
    uint32_t groups = host->limits->count > 0 ? handles_end(host) / LIMITED_GROUP + 1 : 0;
    uint32_t before = host->walked;
    uint32_t first = host->limits->hand;
    bool left = false;
    host->limits->due_ns = INT64_MAX;
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t group = (first + i) % groups;
        int64_t *due_ns = &host->limits->group_due_ns[group];
        if (host->limits->groups[group] == 0) {
            continue;
        }
        if (*due_ns <= host->now_ns && host->walked - before < LIMITS_LOOK_MAX &&
            hub_has_room(actions)) {
            /* reset before the look, because a hand-over during the look may set it again */
            *due_ns = INT64_MAX;
            int64_t looked_ns = limits_check_group(host, group, actions);
            *due_ns = looked_ns < *due_ns ? looked_ns : *due_ns;
        } else if (*due_ns <= host->now_ns && !left) {
            left = true;
            host->limits->hand = group;
        }
        next_ns = *due_ns < next_ns ? *due_ns : next_ns;
    }
    host->limits->due_ns = next_ns < host->limits->due_ns ? next_ns : host->limits->due_ns;
}

void limits_check(const struct host *host)
{
    const struct limits *limits = host->limits;
    uint32_t limited = 0;
    for (uint32_t i = 0; i < handles_end(host); i++) {
        bool is_limited = handle_flags(host, i) & HANDLE_LIMITED;
        limited += is_limited;
        bool listed = limits->groups[i / LIMITED_GROUP] >> (i % LIMITED_GROUP) & 1;
        int64_t due_ns = limits->group_due_ns[i / LIMITED_GROUP];
        HF_CHECK(listed == is_limited);
        HF_CHECK(!listed || (due_ns != INT64_MAX && limits->due_ns <= due_ns));
    }
    HF_CHECK(limited == limits->count);
}
