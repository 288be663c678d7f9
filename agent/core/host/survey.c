/* Counts and figures for people: see survey.h. */
#include "survey.h"

#include "clients.h"
#include "handles.h"
#include "locks.h"
#include "look.h"
#include "requests.h"
#include "seats.h"
#include "spaces.h"
#include "watches.h"

const struct host_counts *host_counts(const struct host *host)
{
    return &host->counts;
}

/* A time in a region may be any number, even a time in the future. An age above this bound counts
 * as 0. */
#define AGE_MAX_NS (INT64_C(366) * 24 * 3600 * 1000000000)

static int64_t age(int64_t now_ns, uint32_t since)
{
    int64_t elapsed_ns = look_elapsed_ns(now_ns, since);
    return elapsed_ns <= AGE_MAX_NS ? elapsed_ns : 0;
}

/* The number of waiters of one lock, and the ages of its exclusive hold and its first wait; -1:
 * there is none. */
struct ages {
    uint64_t waiters;
    int64_t hold_ns; /* how long the exclusive hold has lasted */
    int64_t wait_ns;
};

static struct ages look(const struct host *host, struct lock_ref at, int64_t now_ns)
{
    const struct hfi_region *region = space_region(host, at.space);
    struct ages ages = {.hold_ns = -1, .wait_ns = -1};
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word);
    if (holder != 0 && holder != HFI_HOLDER_AGENT) {
        ages.hold_ns = age(now_ns, atomic_load(&region->slots[at.slot].since));
    }
    if (word & (HFI_W_WAITERS | HFI_W_BARGERS)) {
        uint32_t first = 0;
        ages.waiters = hfi_queue(region, at.slot, &first, 1);
        if (ages.waiters > 0) {
            ages.wait_ns = age(now_ns, atomic_load(&hfi_seat(region, first)->since));
        }
    }
    return ages;
}

void survey_ages(struct host *host, struct lock_ref at)
{
    struct ages ages = look(host, at, host->now_ns);
    if (ages.hold_ns >= 0) {
        histogram_add(&host->counts.hold_age, ages.hold_ns);
    }
    if (ages.wait_ns >= 0) {
        histogram_add(&host->counts.wait_age, ages.wait_ns);
    }
}

static void survey_lock(const struct host *host, struct lock_ref at, int64_t now_ns,
                        struct host_survey *out)
{
    const struct hfi_region *region = space_region(host, at.space);
    uint64_t word = atomic_load(lock_word(host, at));
    struct ages ages = look(host, at, now_ns);
    bool read = (word & HFI_W_CELLS) && hfi_has_readers(region, at.slot, HFI_SEAT_NONE);
    out->locks++;
    out->granted += lock_is_granted(host, at);
    out->held += ages.hold_ns >= 0 || read;
    out->waiters += ages.waiters;
    out->closed += (word & HFI_W_CLOSED) != 0;
    out->oldest_hold_ns = ages.hold_ns > out->oldest_hold_ns ? ages.hold_ns : out->oldest_hold_ns;
    out->oldest_wait_ns = ages.wait_ns > out->oldest_wait_ns ? ages.wait_ns : out->oldest_wait_ns;
}

static void survey_space(const struct host *host, uint32_t index, int64_t now_ns,
                         struct host_survey *out)
{
    const struct hfi_region *region = space_region(host, index);
    out->slots += region->slot_count;
    out->slots_used += locks_end(host, index) - locks_free(host, index);
    out->seats += (uint64_t)region->block_count * HFI_BLOCK_SEATS;
    out->seats_used += (region->block_count - seats_free_blocks(host, index)) * HFI_BLOCK_SEATS;
    for (uint32_t slot = 0; slot < locks_end(host, index); slot++) {
        struct lock_ref at = {index, slot};
        if (lock_is_named(host, at)) {
            survey_lock(host, at, now_ns, out);
        }
    }
}

void host_survey(const struct host *host, int64_t now_ns, struct host_survey *out)
{
    *out = (struct host_survey){.clients = clients_connected(host),
                                .handles = handles_count(host),
                                .watches = watches_count(host),
                                .requests = requests_count(host)};
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (space_is_used(host, i)) {
            survey_space(host, i, now_ns, out);
        }
    }
}
