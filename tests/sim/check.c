/*
 * What must be true, told from outside of the code that is to make it so.
 *
 * A hold counts as its process sees it: from the return of HELD until it calls release, or until
 * the deadline that it was last told has passed. If it ends in any other way than by release
 * (death, hang-up, its own limit, the session's end), the lock must stay closed for its lock-delay
 * from then on. Each new hold is compared with every other of that lock.
 */
#include <string.h>

#include "sim.h"

enum hold_end { HOLD_RUNS = 0, HOLD_RELEASING, HOLD_RELEASED, HOLD_FORGOTTEN };

struct hold_note {
    bool used;
    enum hold_end end;
    bool shared;
    bool hung_up;
    uint32_t process;
    uint32_t generation;
    uint32_t lock;
    uint64_t token;
    int64_t told_until_ns; /* the latest deadline that its process knows */
    int64_t vanished_ns;   /* death, hang-up; INT64_MAX */
    int64_t delay_ns;
};

static struct hold_note notes[HOLDS_MAX];
static uint64_t highest[LOCKS]; /* of exclusive holds */
static uint64_t read_at[LOCKS]; /* what readers were told; they may return in another order */

void check_reset(void)
{
    memset(notes, 0, sizeof(notes));
    memset(highest, 0, sizeof(highest));
    memset(read_at, 0, sizeof(read_at));
}

static int64_t remaining(struct sim_process *process, struct sim_handle *handle, bool *gone)
{
    const struct hfi_region *region =
        &world.agents[process->index % AGENTS].regions[handle->region].region;
    struct hfi_request request = {handle->slot, handle->seat, handle->limit_ns, handle->barging};
    return hfi_remaining_ns(region, &request, handle->holder, &handle->held, sim_now(), gone);
}

/* When the hold ended without a release, or will. */
static int64_t ends_ns(const struct hold_note *note)
{
    return note->vanished_ns < note->told_until_ns ? note->vanished_ns : note->told_until_ns;
}

/* A note that can matter no more makes room. */
static struct hold_note *note_new(void)
{
    for (uint32_t i = 0; i < HOLDS_MAX; i++) {
        struct hold_note *note = &notes[i];
        if (!note->used || note->end == HOLD_RELEASED ||
            (ends_ns(note) + note->delay_ns < sim_now() && note->end == HOLD_FORGOTTEN)) {
            return note;
        }
    }
    sim_fail("more holds at once than there are handles");
}

uint32_t check_held(struct sim_process *process, struct sim_handle *handle)
{
    bool gone = false;
    int64_t now_ns = sim_now();
    int64_t until_ns = now_ns + remaining(process, handle, &gone); /* time passes meanwhile */
    int64_t left_ns = until_ns - sim_now();
    now_ns = sim_now();
    if (left_ns <= 0) {
        return UINT32_MAX;
    }
    bool shared = handle->held.cell != 0;
    for (uint32_t i = 0; i < HOLDS_MAX; i++) {
        const struct hold_note *note = &notes[i];
        if (!note->used || note->end == HOLD_RELEASED || note->end == HOLD_RELEASING ||
            note->lock != handle->lock || (shared && note->shared)) {
            continue;
        }
        if (now_ns < ends_ns(note)) {
            sim_fail("process %u holds lock %u while process %u does (%s, token %llx, known until "
                     "%lld us, vanished %lld us, end %d)",
                     process->index, note->lock, note->process,
                     note->shared ? "shared" : "exclusively", (unsigned long long)note->token,
                     (long long)note->told_until_ns / 1000, (long long)note->vanished_ns / 1000,
                     note->end);
        }
        if (now_ns < ends_ns(note) + note->delay_ns) {
            sim_fail("process %u holds lock %u, %lld us before the lock-delay behind process %u "
                     "is over",
                     process->index, note->lock,
                     (long long)(ends_ns(note) + note->delay_ns - now_ns) / 1000, note->process);
        }
    }
    uint64_t token = handle->held.token;
    uint64_t above = highest[handle->lock];
    if (shared ? token < above : token <= above || token <= read_at[handle->lock]) {
        sim_fail("token %llx of lock %u after %llx, %llx (shared)", (unsigned long long)token,
                 handle->lock, (unsigned long long)above,
                 (unsigned long long)read_at[handle->lock]);
    }
    uint64_t *seen = shared ? read_at : highest;
    seen[handle->lock] = token > seen[handle->lock] ? token : seen[handle->lock];
    world.holds++;
    struct hold_note *note = note_new();
    *note = (struct hold_note){.used = true,
                               .shared = shared,
                               .process = process->index,
                               .generation = process->generation,
                               .lock = handle->lock,
                               .token = handle->held.token,
                               .told_until_ns = until_ns,
                               .vanished_ns = INT64_MAX,
                               .delay_ns = handle->delay_ms * SIM_MS};
    return (uint32_t)(note - notes);
}

bool check_looked(struct sim_process *process, struct sim_handle *handle)
{
    struct hold_note *note = &notes[handle->hold];
    bool gone = false;
    const struct hfi_region *region =
        &world.agents[process->index % AGENTS].regions[handle->region].region;
    int64_t now_ns = sim_now();
    int64_t left_ns = remaining(process, handle, &gone);
    uint64_t lease = region->header->lease;
    if (left_ns > 0) {
        int64_t until_ns = now_ns + left_ns;
        note->told_until_ns = until_ns > note->told_until_ns ? until_ns : note->told_until_ns;
        return true;
    }
    if (gone && !note->hung_up && handle->limit_ns == 0 &&
        hfi_lease_epoch(lease) == handle->held.epoch && hfi_lease_deadline_ns(lease) > sim_now()) {
        sim_fail("process %u lost lock %u although its session lives", process->index,
                 handle->lock);
    }
    return !gone;
}

void check_releases(uint32_t hold)
{
    notes[hold].end = HOLD_RELEASING;
}

void check_released(uint32_t hold)
{
    notes[hold].end = HOLD_RELEASED;
}

void check_gave_up(uint32_t hold)
{
    notes[hold].end = HOLD_FORGOTTEN;
}

void check_changed_mode(uint32_t hold, bool shared, uint64_t token)
{
    notes[hold].shared = shared;
    notes[hold].token = token;
}

void check_vanished(const struct sim_process *process, bool dead)
{
    for (uint32_t i = 0; i < HOLDS_MAX; i++) {
        struct hold_note *note = &notes[i];
        if (note->used && note->end < HOLD_RELEASED && note->process == process->index &&
            note->generation == process->generation) {
            note->vanished_ns = sim_now() < note->vanished_ns ? sim_now() : note->vanished_ns;
            note->hung_up = true;
            if (dead) { /* whether a release that it had begun took place is not known */
                note->end = note->end == HOLD_RUNS ? HOLD_FORGOTTEN : HOLD_RELEASED;
            }
        }
    }
}

/* Whether a place in the queue is of a living process that sleeps on it. */
static bool sleeps_on(const struct hfi_region *region, uint32_t seat)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct sim_process *process = &world.processes[i];
        if (process->alive && process->fiber.state == FIBER_ASLEEP &&
            process->fiber.futex == &hfi_seat(region, seat)->wake) {
            return true;
        }
    }
    return false;
}

/* Whether the word names a handle whose process sleeps on its seat: nobody told it. */
static bool names_sleeper(const struct hfi_region *region, uint32_t slot, uint64_t word)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct sim_process *process = &world.processes[i];
        for (uint32_t k = 0; process->alive && k < HANDLES; k++) {
            const struct sim_handle *handle = &process->handles[k];
            if (handle->open && handle->slot == slot && handle->seat != HFI_SEAT_NONE &&
                handle->holder == hfi_word_holder(word) && sleeps_on(region, handle->seat)) {
                return true;
            }
        }
    }
    return false;
}

void check_quiet(void)
{
    for (uint32_t a = 0; a < AGENTS; a++) {
        const struct sim_agent *agent = &world.agents[a];
        if (!agent->up || !agent->serving || agent->region_count == 0) {
            continue;
        }
        const struct hfi_region *region = &agent->regions[agent->region_count - 1].region;
        if (hfi_lease_deadline_ns(region->header->lease) <= sim_now()) {
            continue;
        }
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            uint64_t word = region->words[slot].word;
            uint64_t top = region->slots[slot].token_top & HFI_W_TOKEN;
            uint32_t seat = 0;
            if (names_sleeper(region, slot, word)) {
                sim_fail("slot %u names a waiter that nobody woke", slot);
            }
            if (hfi_word_mode(word) != HFI_GRANT_EXCLUSIVE ||
                (word & (HFI_W_HOLDER | HFI_W_CLOSED | HFI_W_RECALL)) ||
                (word & HFI_W_TOKEN) >= top || hfi_queue(region, slot, &seat, 1) == 0) {
                continue;
            }
            uint64_t wait = *hfi_seat_wait(region, seat);
            if (!(wait & HFI_WAIT_BARGING) && sleeps_on(region, seat) &&
                !hfi_has_readers(region, slot, HFI_SEAT_NONE)) {
                sim_fail("slot %u is free and nobody wakes seat %u, which waits for it (word %llx, "
                         "cell %llx, admitted %x, wake %u)",
                         slot, seat, (unsigned long long)word, (unsigned long long)wait,
                         region->slots[slot].admit, hfi_seat(region, seat)->wake);
            }
        }
    }
}
