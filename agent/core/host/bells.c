/* Which locks are to be looked at: see bells.h. */
#include "bells_private.h"

#include "state.h"

enum { PAUSE_MS = 5 };

struct bells *bells_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct bells));
}

/* ---- the kernel as the agent's own changes of words see it ---- */

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    const struct bells *bells = arg;
    bells->outer->wake(bells->outer->arg, word, count);
}

static int64_t kernel_now_ns(void *arg)
{
    const struct bells *bells = arg;
    return bells->outer->now_ns(bells->outer->arg);
}

/* We rang ourselves: the dirty bit is set, so it only has to be looked for. */
static void kernel_bell(void *arg)
{
    ((struct bells *)arg)->rang = true;
}

void bells_init(struct host *host, const struct hfi_kernel *outer)
{
    host->bells->outer = outer;
    host->bells->kernel = (struct hfi_kernel){
        .wake = kernel_wake, .now_ns = kernel_now_ns, .bell = kernel_bell, .arg = host->bells};
}

const struct hfi_kernel *bells_kernel(const struct host *host)
{
    return &host->bells->kernel;
}

int64_t bells_clock_ns(const struct host *host)
{
    return kernel_now_ns(host->bells);
}

/* ---- ringing ---- */

void bell_rang(struct host *host, uint32_t space)
{
    host->bells->spaces[space].dirty = true;
}

void bells_rang(struct host *host, uint64_t spaces)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (spaces >> i & 1) {
            bell_rang(host, i);
        }
    }
}

void bells_rang_all(struct host *host)
{
    bells_rang(host, UINT64_MAX);
}

void bell_look_later(struct host *host, struct lock_ref at)
{
    const struct hfi_region *region = &host->spaces[at.space].region;
    atomic_fetch_or(&region->dirty[at.slot / 64], UINT64_C(1) << (at.slot % 64));
}

void bell_look_soon(struct host *host, struct lock_ref at)
{
    bell_look_later(host, at);
    bell_rang(host, at.space);
}

bool bell_is_ringing(const struct host *host)
{
    return host->bells->ringing;
}

void bells_gather(struct host *host)
{
    if (host->bells->rang) {
        bells_rang_all(host);
    }
    host->bells->rang = false;
}

bool bell_is_left(const struct host *host, uint32_t space)
{
    return host->spaces[space].used && host->bells->spaces[space].dirty;
}

static bool is_paused(const struct host *host, uint32_t space)
{
    return host->bells->spaces[space].pause_ns > host->now_ns;
}

bool bells_are_left(const struct host *host)
{
    bool left = host->bells->rang;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        left = left || (bell_is_left(host, i) && !is_paused(host, i));
    }
    return left;
}

int64_t bells_due_ns(const struct host *host)
{
    int64_t due_ns = INT64_MAX;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        int64_t pause_ns = host->bells->spaces[i].pause_ns;
        due_ns = bell_is_left(host, i) && pause_ns < due_ns ? pause_ns : due_ns;
    }
    return due_ns;
}

void bells_tick(struct host *host)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        host->bells->spaces[i].attended = 0;
    }
}

void bells_leave(struct host *host, uint32_t space)
{
    host->bells->spaces[space].hand = 0;
    host->bells->spaces[space].dirty = false;
}

void bells_work(struct host *host, uint32_t index,
                void (*look)(struct host *, struct lock_ref, struct host_actions *),
                struct host_actions *actions)
{
    struct bell_space *space = &host->bells->spaces[index];
    const struct hfi_region *region = &host->spaces[index].region;
    uint32_t words = (region->slot_count + 63) / 64;
    if (is_paused(host, index)) {
        return;
    }
    for (uint32_t looked = 0; looked <= words; looked++) { /* the first word's lower bits at last */
        uint32_t word = space->hand / 64;
        /* seq_cst: pairs with the fetch_or in hfi_ring(); what rang it is seen below */
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
            if (at.slot < host->spaces[index].slots_used) {
                host->bells->ringing = true;
                look(host, at, actions);
                host->bells->ringing = false;
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
        causes += regions >> i & 1 ? host->bells->spaces[i].causes : 0;
    }
    return causes;
}
