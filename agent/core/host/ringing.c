/* Which locks are to be looked at: see ringing.h. */
#include "ringing_private.h"

#include "locks.h"
#include "spaces.h"

enum { PAUSE_MS = 5 };

struct ringing *ringing_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct ringing));
}

/* ---- the kernel as the agent's own changes of words see it ---- */

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    const struct ringing *ringing = arg;
    ringing->outer->wake(ringing->outer->arg, word, count);
}

static int64_t kernel_now_ns(void *arg)
{
    const struct ringing *ringing = arg;
    return ringing->outer->now_ns(ringing->outer->arg);
}

/* Notes that the agent itself has set a dirty bit in some region. */
static void kernel_ring(void *arg)
{
    ((struct ringing *)arg)->rang = true;
}

void ringing_init(struct host *host, const struct hfi_kernel *outer)
{
    host->ringing->outer = outer;
    host->ringing->kernel = (struct hfi_kernel){
        .wake = kernel_wake, .now_ns = kernel_now_ns, .ring = kernel_ring, .arg = host->ringing};
}

const struct hfi_kernel *ringing_kernel(const struct host *host)
{
    return &host->ringing->kernel;
}

int64_t ringing_clock_ns(const struct host *host)
{
    return kernel_now_ns(host->ringing);
}

/* ---- ringing ---- */

void ring_arrived(struct host *host, uint32_t space)
{
    host->ringing->spaces[space].dirty = true;
}

void rings_arrived(struct host *host, uint64_t spaces)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (spaces >> i & 1) {
            ring_arrived(host, i);
        }
    }
}

void rings_arrived_all(struct host *host)
{
    rings_arrived(host, UINT64_MAX);
}

void ringing_look_later(struct host *host, struct lock_ref at)
{
    const struct hfi_region *region = space_region(host, at.space);
    atomic_fetch_or(&region->dirty[at.slot / 64], UINT64_C(1) << (at.slot % 64));
}

void ringing_look_soon(struct host *host, struct lock_ref at)
{
    ringing_look_later(host, at);
    ring_arrived(host, at.space);
}

bool ringing_is_cause(const struct host *host)
{
    return host->ringing->is_cause;
}

void ringing_gather(struct host *host)
{
    if (host->ringing->rang) {
        rings_arrived_all(host);
    }
    host->ringing->rang = false;
}

bool ringing_is_left(const struct host *host, uint32_t space)
{
    return space_is_used(host, space) && host->ringing->spaces[space].dirty;
}

static bool is_paused(const struct host *host, uint32_t space)
{
    return host->ringing->spaces[space].pause_ns > host->now_ns;
}

bool ringing_is_left_anywhere(const struct host *host)
{
    bool left = host->ringing->rang;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        left = left || (ringing_is_left(host, i) && !is_paused(host, i));
    }
    return left;
}

int64_t ringing_due_ns(const struct host *host)
{
    int64_t due_ns = INT64_MAX;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        int64_t pause_ns = host->ringing->spaces[i].pause_ns;
        due_ns = ringing_is_left(host, i) && pause_ns < due_ns ? pause_ns : due_ns;
    }
    return due_ns;
}

void ringing_tick(struct host *host)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        host->ringing->spaces[i].attended = 0;
    }
}

void ringing_leave(struct host *host, uint32_t space)
{
    host->ringing->spaces[space].hand = 0;
    host->ringing->spaces[space].dirty = false;
}

void ringing_work(struct host *host, uint32_t index,
                  void (*look)(struct host *, struct lock_ref, struct host_actions *),
                  struct host_actions *actions)
{
    struct ringing_space *space = &host->ringing->spaces[index];
    const struct hfi_region *region = space_region(host, index);
    uint32_t words = (region->slot_count + 63) / 64;
    if (is_paused(host, index)) {
        return;
    }
    /* In the first word, the bits below the hand come last. */
    for (uint32_t looked = 0; looked <= words; looked++) {
        uint32_t word = space->hand / 64;
        /* seq_cst: pairs with the fetch_or in hfi_ring(). So look() sees the change for which the
         * bit was set. */
        uint64_t bits = atomic_load(&region->dirty[word]);
        bits &= UINT64_MAX << space->hand % 64;
        for (; bits != 0; bits &= bits - 1) {
            struct lock_ref at = {index, word * 64 + (uint32_t)__builtin_ctzll(bits)};
            space->hand = at.slot;
            if (space->attended >= HUB_PIECES_MAX) {
                space->pause_ns = host->now_ns + PAUSE_MS * MS;
                return; /* space->dirty stays set */
            }
            if (!hub_has_room(actions)) {
                return;
            }
            uint32_t walked = host->walked;
            atomic_fetch_and(&region->dirty[word], ~(UINT64_C(1) << at.slot % 64));
            space->causes++;
            if (at.slot < locks_end(host, index)) {
                host->ringing->is_cause = true;
                look(host, at, actions);
                host->ringing->is_cause = false;
            }
            space->attended += hub_pieces(host, walked);
        }
        space->hand = word + 1 < words ? (word + 1) * 64 : 0;
    }
    space->dirty = false;
}

uint64_t host_causes(const struct host *host, uint64_t regions)
{
    uint64_t causes = 0;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        causes += regions >> i & 1 ? host->ringing->spaces[i].causes : 0;
    }
    return causes;
}
