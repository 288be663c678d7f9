/* The effects of the session on all locks: see lease.h. */
#include "lease.h"

#include "attend.h"
#include "clients.h"
#include "handles.h"
#include "locks.h"
#include "openings.h"
#include "pending.h"
#include "requests.h"
#include "ringing.h"
#include "spaces.h"
#include "survey.h"
#include "watches.h"

/* The simulator sets a shorter time. */
#ifndef HOST_IDLE_AGE_MS
#define HOST_IDLE_AGE_MS (60 * 1000)
#endif

enum {
    IDLE_AGE_MS = HOST_IDLE_AGE_MS,
    IDLE_AGES = 10, /* a grant whose lock no process has open goes back after IDLE_AGES ages */
    IDLE_MAX = 64,  /* the most grants that go back in one pass over all locks */
};

struct lease {
    int64_t aged_ns; /* the time up to which `idle` is counted */
    /* By namespace and slot: the number of ages (of IDLE_AGE_MS) for which the lock has been
     * granted and no process has had it open. */
    uint8_t *idle[HOST_NAMESPACES_MAX];
};

struct lease *lease_lay_out(struct arena *arena, const struct host_config *config)
{
    struct lease *state = arena_take(arena, 1, sizeof(*state));
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        ARENA_TAKE(arena, state, idle[i], config->limits.locks);
    }
    return state;
}

void lease_start(struct host *host, const struct host_lease *lease)
{
    host->lease = *lease;
    host->lease_state->aged_ns = host->now_ns;
}

void lease_leave(struct host *host, struct lock_ref at)
{
    host->lease_state->idle[at.space][at.slot] = 0;
}

/* Returns whether a process of this host holds the lock. */
static bool lock_is_held(const struct host *host, struct lock_ref at)
{
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word);
    return (holder != 0 && holder != HFI_HOLDER_AGENT) ||
           ((word & HFI_W_CELLS) &&
            hfi_has_readers(space_region(host, at.space), at.slot, HFI_SEAT_NONE));
}

/* A recovery of the cell ends a session before its deadline (docs/PROTOCOL.md, rule 38). Then the
 * regions must not show that deadline any more. This changes the regions before any lock's word
 * changes. So no process sees that its hold is lost while the session seems to go on. */
static void end_lease(struct host *host)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (space_is_used(host, i)) {
            space_end_lease(host, i);
        }
    }
}

/* Ends all grants of the session, which is over. Returns how many holds ended; a shared hold with
 * several readers counts once. */
static uint64_t revoke_all(struct host *host)
{
    uint64_t before = host->counts.losses[HOST_LOSS_LAPSE];
    requests_end_all(host);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        for (uint32_t slot = 0; space_is_used(host, i) && slot < locks_end(host, i); slot++) {
            struct lock_ref at = {i, slot};
            if (lock_is_named(host, at) && lock_state(host, at) != LOCK_IDLE) {
                host->counts.losses[HOST_LOSS_LAPSE] += lock_is_held(host, at);
                /* A lock that was closed opens on this host. From now on the quorum counts the
                 * lock-delay (docs/PROTOCOL.md, rule 20), so a give-back in the next session need
                 * not wait for it. */
                lock_revoke(host, at, HFI_GRANT_NONE, HFI_ENDING_SESSION);
                lock_set_state(host, at, LOCK_IDLE);
                lock_set_mode(host, at, HFI_GRANT_NONE);
                lock_set_recalled(host, at, false);
                lock_set_version(host, at, (struct message_order){0});
                watch_changed(host, at);
            }
        }
    }
    openings_forget(host);
    return host->counts.losses[HOST_LOSS_LAPSE] - before;
}

static void notify_loss(struct host *host, struct host_actions *actions)
{
    uint64_t ended = revoke_all(host);
    clients_poke_all(host);
    host->counts.sessions_lost++;
    hub_log(actions, "session_lost", host->lease.epoch);
    if (ended > 0) {
        hub_log(actions, "holds_lost", (int64_t)ended)->as.log.reason = "session_lost";
    }
}

/* Adds `ages` to the lock's idle time. Returns whether no process has had the lock open for long.
 * The caller then gives the grant back, so that its register can be deleted. */
static bool grant_is_idle(struct host *host, struct lock_ref at, uint32_t ages)
{
    uint8_t *idle = &host->lease_state->idle[at.space][at.slot];
    if (lock_state(host, at) != LOCK_GRANTED || lock_handles(host, at) != NONE) {
        *idle = 0;
        return false;
    }
    *idle = *idle + ages < UINT8_MAX ? (uint8_t)(*idle + ages) : UINT8_MAX;
    /* One age more than IDLE_AGES, because the first age may have been shorter than IDLE_AGE_MS. */
    return *idle > IDLE_AGES;
}

void lease_mark_wanted(struct host *host)
{
    uint32_t ages = (uint32_t)((host->now_ns - host->lease_state->aged_ns) / (IDLE_AGE_MS * MS));
    uint32_t idle = 0;
    host->counts.looks++;
    host->lease_state->aged_ns += (int64_t)ages * (IDLE_AGE_MS * MS);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        for (uint32_t slot = 0; space_is_used(host, i) && slot < locks_end(host, i); slot++) {
            struct lock_ref at = {i, slot};
            lock_set_full(host, at, false);
            if (!lock_is_named(host, at)) {
                continue;
            }
            survey_ages(host, at);
            bool look = attend_word_is_awaited(host, at) || lock_state(host, at) == LOCK_ADOPTED;
            if (grant_is_idle(host, at, ages) && idle < IDLE_MAX && !clients_unknown(host)) {
                hfi_recall(space_actor(host, i), slot, 0);
                look = true;
                idle++;
            }
            if (look) {
                ringing_look_soon(host, at);
            }
        }
    }
    for (uint32_t i = 0; i < pending_end(host); i++) {
        struct pending_open open;
        if (pending_read(host, i, &open) && !open.ready) {
            ringing_look_soon(host, handle_lock(host, open.handle));
        }
    }
}

void lease_changed(struct host *host, const struct host_lease *lease, struct host_actions *actions)
{
    bool was_safe = hub_lease_is_safe(host);
    if (lease->lost) {
        bool was_lost = host->lease.lost;
        host->lease = *lease;
        if (!was_lost) {
            end_lease(host);
            notify_loss(host, actions);
        }
        return;
    }
    bool other = lease->epoch != host->lease.epoch || host->lease.lost;
    host->lease = *lease;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (space_is_used(host, i)) {
            space_publish(host, i);
        }
    }
    /* At every renewal the agent looks at all locks, because a ring may have been lost. Otherwise a
     * process could wait for ever, for example after a refused request, or for a range of tokens
     * that was used up while no agent ran. */
    handles_settle_delays(host);
    if (hub_lease_is_safe(host)) {
        lease_mark_wanted(host);
    }
    if (was_safe && !hub_lease_is_safe(host)) {
        /* otherwise the clients would notice only later, by their own timers */
        clients_poke_all(host);
    }
    if (!was_safe && hub_lease_is_safe(host)) {
        if (host->started && !other) {
            clients_poke_all(host);
        }
        hub_log(actions, "session_safe", lease->epoch);
    }
}
