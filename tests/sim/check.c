/*
 * Invariants of holds. The checks are outside of the code that must keep these invariants.
 *
 * A hold counts as its process sees it. It begins when HELD is returned. It ends when the process
 * calls release, or when the last deadline that the process knows has passed by its host's clock. A
 * hold may also end without a release: by death, hang-up, its own limit, or the session's end. In
 * this case the lock must stay closed for its lock-delay. Within one session the host's clock
 * measures the lock-delay; otherwise true time does. Each new hold is compared with every other
 * hold of that lock, on any host.
 *
 * Tokens are checked for the whole cell and by true time. An exclusive hold has a higher token than
 * every hold before it. A shared hold has at least the token of every exclusive hold before it. If
 * one take returns before another take begins, the later hold's token is not lower than the earlier
 * hold's (check_takes()).
 */
#include <string.h>

#include "sim.h"

/* a little less than the time after which a host repeats its request */
static const int64_t TRIED_NS_MAX = 240 * SIM_MS;
/* by this time after the start each partition of a cell without faults has its coordinator */
static const int64_t SETTLED_NS = 5000 * SIM_MS;

enum hold_end { HOLD_RUNS = 0, HOLD_RELEASING, HOLD_RELEASED, HOLD_FORGOTTEN };

struct hold_note {
    bool used;
    uint64_t number; /* counts all holds of the run */
    int64_t began_ns;
    enum hold_end end;
    bool shared;
    bool hung_up;
    const struct sim_agent *agent;
    uint32_t boot;  /* the boot of the holder's host when the hold began */
    uint32_t epoch; /* the epoch of the holder's session */
    uint32_t process;
    uint32_t generation;
    uint32_t lock;
    uint64_t token;
    int64_t told_until_ns; /* the latest deadline that the holder knows, by its host's clock */
    int64_t vanished_ns;   /* when the holder died or hung up, in true time; INT64_MAX: the
                            * holder did neither */
    int64_t delay_ns;
};

static struct hold_note notes[HOLDS_MAX];
static uint64_t highest[LOCKS];  /* the highest token of exclusive holds */
static uint32_t breaking[LOCKS]; /* how many hosts are doing a break now */
static int64_t broken_ns[LOCKS]; /* when a host last did a break */
static int64_t opened_ns[LOCKS]; /* when a host last did a break without a lock-delay */
static uint64_t read_at[LOCKS];  /* the highest token of shared holds; two overlapping takes may
                                 * return in any order */

void check_reset(void)
{
    memset(notes, 0, sizeof(notes));
    memset(highest, 0, sizeof(highest));
    memset(breaking, 0, sizeof(breaking));
    memset(broken_ns, 0, sizeof(broken_ns));
    memset(opened_ns, 0, sizeof(opened_ns));
    memset(read_at, 0, sizeof(read_at));
}

/* Returns whether a host has done a break of the lock since the hold began. The break may then have
 * ended the hold before a note of it was made. */
static bool maybe_broken(const struct hold_note *note)
{
    return breaking[note->lock] > 0 || broken_ns[note->lock] >= note->began_ns;
}

static int64_t remaining(struct sim_process *process, struct sim_handle *handle, bool *gone)
{
    const struct hfi_region *region = &process->agent->regions[handle->region].region;
    struct hfi_request request = {.slot = handle->slot,
                                  .seat = handle->seat,
                                  .limit_ns = handle->limit_ns,
                                  .barging = handle->barging};
    return hfi_remaining_ns(region, &request, handle->holder, &handle->held,
                            clock_now(process->agent), gone);
}

/* Returns how much of the hold is left at the end of this call. Time passes in the call, and the
 * process may be stopped in it. */
static int64_t left_after(struct sim_process *process, struct sim_handle *handle, bool *gone)
{
    int64_t until_ns = clock_now(process->agent);
    until_ns += remaining(process, handle, gone);
    return until_ns - clock_now(process->agent);
}

/* Returns the true time at which the hold ended, or will end, without a release. */
static int64_t ends_ns(const struct hold_note *note)
{
    int64_t until_ns = note->boot == note->agent->clock.boot
                           ? clock_true(note->agent, note->told_until_ns)
                           : note->vanished_ns; /* no process survives a reboot */
    return note->vanished_ns < until_ns ? note->vanished_ns : until_ns;
}

/* Returns how much of the lock-delay is left; 0 or less means that it is over. Within one session
 * both holders are on one host, so that host's clock measures the lock-delay. After a session's end
 * a coordinator measures it by its own clock, with a margin for a fast clock. So the lock-delay has
 * also passed in true time before the next hold. */
static int64_t too_early_ns(const struct hold_note *note, const struct sim_agent *agent,
                            uint32_t epoch, int64_t over_ns)
{
    if (note->agent == agent && note->epoch == epoch && note->boot == agent->clock.boot) {
        return clock_at(agent, over_ns) + note->delay_ns - clock_now(agent);
    }
    return over_ns + note->delay_ns - sim_now();
}

/* Returns a free note. Notes that can no longer matter become free. */
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

void check_takes(struct sim_handle *handle)
{
    uint64_t read = read_at[handle->lock];
    handle->token_floor = highest[handle->lock] > read ? highest[handle->lock] : read;
}

/* Checks that a try got its answer before its host would repeat the request, if nothing is lost and
 * no process is killed. */
void check_tried(const struct sim_process *process, const struct sim_handle *handle,
                 int64_t began_ns, bool refused)
{
    int64_t took_ns = sim_now() - began_ns;
    if (took_ns >= TRIED_NS_MAX && sim_now() > SETTLED_NS && !world.healing && faults_are_none()) {
        sim_fail("process %u tried lock %u for %lld us%s", process->index, handle->lock,
                 (long long)took_ns / 1000, refused ? " before it was refused" : "");
    }
}

/* Checks the token of a hold that has just begun. */
static void check_token(const struct sim_process *process, const struct sim_handle *handle,
                        bool shared)
{
    uint64_t token = handle->held.token;
    uint64_t above = highest[handle->lock];
    if (shared ? token < above : token <= above || token <= read_at[handle->lock]) {
        sim_fail("token %llx of lock %u after %llx, %llx (shared)", (unsigned long long)token,
                 handle->lock, (unsigned long long)above,
                 (unsigned long long)read_at[handle->lock]);
    }
    if (token < handle->token_floor) {
        sim_fail("process %u of host %u reads lock %u under token %llx, and began after another's "
                 "hold of token %llx",
                 process->index, process->agent->index, handle->lock, (unsigned long long)token,
                 (unsigned long long)handle->token_floor);
    }
    uint64_t *seen = shared ? read_at : highest;
    seen[handle->lock] = token > seen[handle->lock] ? token : seen[handle->lock];
}

/* Returns whether the process of that hold still finds that it holds the lock. */
static bool counts_now(uint32_t hold)
{
    const struct hold_note *note = &notes[hold];
    struct sim_process *process = &world.processes[note->process];
    for (uint32_t i = 0; i < HANDLES; i++) {
        struct sim_handle *handle = &process->handles[i];
        bool gone = false;
        if (process->alive && process->generation == note->generation && handle->holds &&
            handle->hold == hold && remaining(process, handle, &gone) > 0 && !gone) {
            return true;
        }
    }
    return false;
}

uint32_t check_held(struct sim_process *process, struct sim_handle *handle)
{
    bool gone = false;
    int64_t since_ns = sim_now();
    int64_t until_ns = clock_now(process->agent);
    until_ns += remaining(process, handle, &gone); /* time passes in this call */
    int64_t left_ns = until_ns - clock_now(process->agent);
    int64_t now_ns = sim_now();
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
        if (maybe_broken(note) && note->end == HOLD_RUNS && !counts_now(i)) {
            continue;
        }
        int64_t over_ns = ends_ns(note);
        bool broke = breaking[note->lock] > 0 || broken_ns[note->lock] >= since_ns;
        if (now_ns < over_ns && broke && (left_after(process, handle, &gone) <= 0 || gone)) {
            return UINT32_MAX; /* the process was stopped during this function, and a break has
                                * ended its hold meanwhile */
        }
        if (now_ns < over_ns) {
            sim_fail("process %u holds lock %u while process %u does (%s, token %llx, until %lld "
                     "us, end %d)",
                     process->index, note->lock, note->process,
                     note->shared ? "shared" : "exclusively", (unsigned long long)note->token,
                     (long long)over_ns / 1000, note->end);
        }
        int64_t early_ns = too_early_ns(note, process->agent, handle->held.epoch, over_ns);
        if (early_ns > 0 && breaking[note->lock] == 0 && opened_ns[note->lock] < over_ns) {
            sim_fail("process %u of host %u holds lock %u, %lld us before the lock-delay behind "
                     "process %u of host %u is over",
                     process->index, process->agent->index, note->lock, (long long)early_ns / 1000,
                     note->process, note->agent->index);
        }
    }
    if (world.faults.breaks != 0 && (left_after(process, handle, &gone) <= 0 || gone)) {
        /* a break has ended the hold since the first look, or the process was stopped during this
         * second look for longer than its hold's limit */
        return UINT32_MAX;
    }
    watch_held(process->agent, handle->lock, handle->held.epoch);
    check_token(process, handle, shared);
    world.holds++;
    struct hold_note *note = note_new();
    *note = (struct hold_note){.used = true,
                               .number = world.holds,
                               .began_ns = now_ns,
                               .shared = shared,
                               .agent = process->agent,
                               .boot = process->agent->clock.boot,
                               .epoch = handle->held.epoch,
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
    const struct hfi_region *region = &process->agent->regions[handle->region].region;
    int64_t now_ns = clock_now(process->agent);
    int64_t left_ns = remaining(process, handle, &gone);
    uint64_t lease = region->header->lease;
    if (region->trust->disbelieved != 0) {
        sim_fail("process %u took its agent's lease for one that is forged", process->index);
    }
    if (left_ns > 0) {
        int64_t until_ns = now_ns + left_ns;
        note->told_until_ns = until_ns > note->told_until_ns ? until_ns : note->told_until_ns;
        return true;
    }
    if (gone && !note->hung_up && !maybe_broken(note) && handle->limit_ns == 0 &&
        hfi_lease_epoch(lease) == handle->held.epoch &&
        hfi_lease_deadline_ns(lease) > clock_now(process->agent)) {
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
    /* While a host does a break, the process may notice the end of its hold before check.c notes
     * it. */
    notes[hold].end = maybe_broken(&notes[hold]) ? HOLD_RELEASED : HOLD_FORGOTTEN;
}

void check_broken(uint32_t hold, bool now, int64_t step_ns)
{
    struct hold_note *note = &notes[hold];
    int64_t over_ns = clock_true(note->agent, step_ns);
    note->vanished_ns = over_ns < note->vanished_ns ? over_ns : note->vanished_ns;
    note->hung_up = true; /* the process may find that its hold is over */
    note->delay_ns = now ? 0 : note->delay_ns;
}

void check_breaking(uint32_t lock, bool begins, bool now)
{
    breaking[lock] += begins ? 1 : UINT32_MAX; /* wraps around: minus one */
    broken_ns[lock] = sim_now();
    opened_ns[lock] = now ? sim_now() : opened_ns[lock];
}

void check_breaks(struct check_break *before, uint32_t lock)
{
    before->lock = lock;
    for (uint32_t i = 0; i < HOLDS_MAX; i++) {
        const struct hold_note *note = &notes[i];
        bool counts = note->used && note->lock == lock && note->end == HOLD_RUNS &&
                      sim_now() < ends_ns(note);
        before->numbers[i] = counts ? note->number : 0;
    }
}

void check_break_done(const struct check_break *before)
{
    for (uint32_t i = 0; i < HOLDS_MAX; i++) {
        const struct hold_note *note = &notes[i];
        if (before->numbers[i] != 0 && note->number == before->numbers[i] &&
            note->end == HOLD_RUNS && sim_now() < ends_ns(note) && counts_now(i) &&
            note->number == before->numbers[i] && note->end == HOLD_RUNS) {
            sim_fail("lock %u was broken, but process %u of host %u still has its earlier hold",
                     before->lock, note->process, note->agent->index);
        }
    }
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
            if (dead) { /* it is unknown whether a release that the dead process had begun took
                         * place */
                note->end = note->end == HOLD_RUNS ? HOLD_FORGOTTEN : HOLD_RELEASED;
            }
        }
    }
}

void check_reboots(const struct sim_agent *agent)
{
    for (uint32_t i = 0; i < HOLDS_MAX; i++) {
        struct hold_note *note = &notes[i];
        if (note->used && note->agent == agent) {
            int64_t over_ns = ends_ns(note);
            note->vanished_ns = sim_now() < over_ns ? sim_now() : over_ns;
        }
    }
}

/* Returns whether a living process sleeps on that seat. */
static bool sleeps_on(const struct hfi_region *region, uint32_t seat)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct sim_process *process = &world.processes[i];
        if (process->alive && process->fiber.state == FIBER_ASLEEP &&
            process->fiber.futex == &hfi_seat(region, seat)->wake) {
            return true;
        }
    }
    return false;
}

/* Returns whether the word names a handle whose process sleeps on its seat. If so, a wake-up was
 * lost. */
static bool names_sleeper(const struct sim_agent *agent, const struct hfi_region *region,
                          uint32_t slot, uint64_t word)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct sim_process *process = &world.processes[i];
        for (uint32_t k = 0; process->agent == agent && process->alive && k < HANDLES; k++) {
            const struct sim_handle *handle = &process->handles[k];
            /* only the region in use is checked: words of abandoned regions name no holder */
            bool here = handle->open && handle->region == (int32_t)agent->region_count - 1;
            if (here && handle->slot == slot && handle->seat != HFI_SEAT_NONE &&
                handle->holder == hfi_word_holder(word) && sleeps_on(region, handle->seat)) {
                return true;
            }
        }
    }
    return false;
}

static void check_slot(const struct sim_agent *agent, const struct hfi_region *region,
                       uint32_t slot)
{
    uint64_t word = region->words[slot].word;
    uint64_t top = region->slots[slot].token_top & HFI_W_TOKEN;
    uint32_t seat = 0;
    if (names_sleeper(agent, region, slot, word)) {
        sim_fail("slot %u of host %u names a waiter that nobody woke", slot, agent->index);
    }
    if (hfi_word_mode(word) != HFI_GRANT_EXCLUSIVE ||
        (word & (HFI_W_HOLDER | HFI_W_CLOSED | HFI_W_RECALL)) || (word & HFI_W_TOKEN) >= top ||
        hfi_queue(region, slot, &seat, 1) == 0) {
        return;
    }
    uint64_t wait = *hfi_seat_wait(region, seat);
    if (!(wait & HFI_WAIT_BARGING) && sleeps_on(region, seat) &&
        !hfi_has_readers(region, slot, HFI_SEAT_NONE)) {
        sim_fail("slot %u of host %u is free and nobody wakes seat %u, which waits for it (word "
                 "%llx, cell %llx, admitted %x, wake %u)",
                 slot, agent->index, seat, (unsigned long long)word, (unsigned long long)wait,
                 region->slots[slot].admit, hfi_seat(region, seat)->wake);
    }
}

void check_quiet(void)
{
    for (uint32_t a = 0; a < world.agent_count; a++) {
        const struct sim_agent *agent = &world.agents[a];
        if (!agent->up || !agent->serving || agent->region_count == 0) {
            continue;
        }
        const struct hfi_region *region = &agent->regions[agent->region_count - 1].region;
        if (hfi_lease_deadline_ns(region->header->lease) <= clock_now(agent)) {
            continue;
        }
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            check_slot(agent, region, slot);
        }
    }
}
