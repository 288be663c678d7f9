/*
 * holdfast-sim: a cell in virtual time, from a seed. Each seed draws which faults there are, lets
 * processes and agents run through them for some turns, then heals everything; then everybody must
 * be served. A seed that fails prints the command that plays it again.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "sim.h"

enum { STEPS_DEFAULT = 20000, HEALED_STEPS_MAX = 4000000 };
static const int64_t SERVED_WITHIN_NS = 60000 * SIM_MS;

struct sim_world world;

void sim_tell(const char *format, ...)
{
    if (!world.verbose) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    printf("%12.6f ms  ", (double)sim_now() / 1e6);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

/* Says which command plays it again. */
static void say_replay(void)
{
    printf("replay: holdfast-sim --seed %llu --steps %llu", (unsigned long long)world.seed,
           (unsigned long long)world.steps);
    if (broken != BREAK_NOTHING) {
        printf(" --break %s", break_names[broken]);
    }
    printf(" --verbose\n");
    fflush(stdout);
}

void sim_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("seed %llu, turn %llu, %.6f ms: ", (unsigned long long)world.seed,
           (unsigned long long)world.turn, (double)sim_now() / 1e6);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    say_replay();
    exit(1);
}

void hfi_check_failed(const char *what, const char *file, int line)
{
    const char *base = strrchr(file, '/');
    sim_fail("%s:%d: %s", base ? base + 1 : file, line, what);
}

/* ---- a seed ---- */

/* The chance of a fault, drawn; half of them are off. */
static uint32_t rarely(uint32_t in)
{
    return sim_draw(2) == 0 ? 0 : in / 2 + sim_draw(in * 2);
}

static void draw_faults(void)
{
    struct faults *faults = &world.faults;
    *faults = (struct faults){
        .kill = rarely(600),
        .stop = rarely(600),
        .hang_up = rarely(1500),
        .cancel = rarely(300),
        .disturb = rarely(100),
        .crash = rarely(1500),
        .stall = rarely(2000),
        .reboot = sim_draw(4) == 0 ? 6000 : 0,
        .recall = rarely(40),
        .down_ns_max = (1 + sim_draw(4000)) * SIM_MS,
        .stop_ns_max = (1 + sim_draw(3000)) * SIM_MS,
        .shared = sim_draw(2) == 0,
        .upgrade = sim_draw(2) == 0,
        .downgrade = sim_draw(2) == 0,
        .barging = sim_draw(3) == 0,
        .limits = sim_draw(3) == 0,
        .no_delay = sim_draw(2) == 0,
        .timeouts = sim_draw(2) == 0,
        .high_tokens = sim_draw(4) == 0,
    };
}

static void inject(void)
{
    const struct faults *faults = &world.faults;
    struct sim_process *process = &world.processes[sim_draw(PROCESSES)];
    struct sim_agent *agent = &world.agents[sim_draw(AGENTS)];
    if (sim_chance(faults->kill)) {
        process_kill(process, sim_draw(100) * SIM_MS);
    }
    if (sim_chance(faults->stop) && process->alive) {
        int64_t for_ns = (int64_t)(sim_random() % (uint64_t)faults->stop_ns_max);
        sim_tell("process %u is stopped for %lld us", process->index, (long long)for_ns / 1000);
        fiber_stop(&process->fiber, for_ns);
    }
    process->hung_up = process->hung_up || sim_chance(faults->hang_up);
    if (sim_chance(faults->cancel)) {
        process_cancel(process);
    }
    if (sim_chance(faults->disturb)) {
        fiber_disturb(&process->fiber);
    }
    if (sim_chance(faults->crash)) {
        int64_t most_ns = sim_draw(2) == 0 ? faults->down_ns_max : 50 * SIM_MS;
        agent_crash(agent, (int64_t)(sim_random() % (uint64_t)most_ns));
    }
    if (sim_chance(faults->stall) && agent->up) {
        agent->stalled_ns = sim_now();
        fiber_stop(&agent->fiber, (int64_t)(sim_random() % (uint64_t)faults->stop_ns_max));
    }
    if (sim_chance(faults->reboot)) {
        sim_tell("the host reboots");
        for (uint32_t i = 0; i < PROCESSES; i++) {
            process_kill(&world.processes[i], sim_draw(100) * SIM_MS);
        }
        agent_reboot(agent, sim_draw(200) * SIM_MS);
    }
}

/* Starts what is down and whose time has come; INT64_MAX, or when the next one's comes. */
static int64_t start_what_is_due(void)
{
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; i < AGENTS; i++) {
        struct sim_agent *agent = &world.agents[i];
        if (!agent->up && agent->starts_ns <= sim_now()) {
            agent_start(agent);
        } else if (!agent->up) {
            next_ns = agent->starts_ns < next_ns ? agent->starts_ns : next_ns;
        }
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct sim_process *process = &world.processes[i];
        if (!process->alive && process->starts_ns <= sim_now()) {
            process_start(process);
        } else if (!process->alive) {
            next_ns = process->starts_ns < next_ns ? process->starts_ns : next_ns;
        }
    }
    return next_ns;
}

/* The story of the lock words. */
static void tell_words(void)
{
    static uint64_t before[SLOTS], top_before[SLOTS];
    const struct sim_agent *agent = &world.agents[0];
    for (uint32_t slot = 0; agent->region_count > 0 && slot < SLOTS; slot++) {
        const struct hfi_region *region = &agent->regions[agent->region_count - 1].region;
        uint64_t word = region->words ? (uint64_t)region->words[slot].word : 0;
        uint64_t top = region->slots ? (uint64_t)region->slots[slot].token_top : 0;
        if (word != before[slot] || top != top_before[slot]) {
            before[slot] = word;
            top_before[slot] = top;
            sim_tell("slot %u: word %016llx, tokens to %llx", slot, (unsigned long long)word,
                     (unsigned long long)top);
        }
    }
}

/* One turn of the scheduler. */
static void run_turn(void)
{
    int64_t next_ns = start_what_is_due();
    if (world.healing && !fibers_runnable(world.fibers, AGENTS + PROCESSES)) {
        check_quiet();
    }
    (void)fibers_step(world.fibers, AGENTS + PROCESSES, next_ns);
    world.turn++;
    if (world.verbose) {
        tell_words();
    }
}

static void heal(void)
{
    sim_tell("everything heals");
    world.healing = true;
    world.faults = (struct faults){0};
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct sim_process *process = &world.processes[i];
        process->fiber.resumes_ns = sim_now();
        process->starts_ns = sim_now();
        for (uint32_t k = 0; k < HANDLES; k++) {
            process->handles[k].served = false;
        }
        process_cancel(process);
    }
    for (uint32_t i = 0; i < AGENTS; i++) {
        world.agents[i].fiber.resumes_ns = sim_now();
        world.agents[i].starts_ns = sim_now();
    }
}

static bool all_done(void)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        if (!world.processes[i].done) {
            return false;
        }
    }
    return true;
}

/* What the seats of a slot say. */
static void tell_seats(const struct hfi_region *region, uint32_t slot)
{
    uint32_t block = region->slots[slot].blocks;
    for (uint32_t i = 0; block != 0 && i < BLOCKS; i++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + place;
            sim_tell("seat %u: holder id %u, reader %llx, wait %llx", seat,
                     hfi_seat(region, seat)->holder,
                     (unsigned long long)hfi_seat(region, seat)->reader,
                     (unsigned long long)*hfi_seat_wait(region, seat));
        }
        block = region->blocks[block - 1].next;
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct sim_process *process = &world.processes[i];
        for (uint32_t k = 0; k < HANDLES; k++) {
            const struct sim_handle *handle = &process->handles[k];
            bool here = handle->open && handle->slot == slot;
            bool on_seat = here && handle->seat != HFI_SEAT_NONE &&
                           process->fiber.futex == &hfi_seat(region, handle->seat)->wake;
            bool on_slot = here && process->fiber.futex == &region->slots[slot].wake;
            if (here) {
                sim_tell("process %u: fiber %d, holder id %u, seat %d, ticket %llx, served %d%s%s",
                         i, process->fiber.state, handle->holder, (int)handle->seat,
                         (unsigned long long)handle->ticket, handle->served,
                         on_seat ? ", asleep on its seat" : "",
                         on_slot ? ", asleep on the slot" : "");
            }
        }
    }
}

static void fail_unserved(void)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        const struct sim_process *process = &world.processes[i];
        for (uint32_t k = 0; k < HANDLES; k++) {
            const struct sim_handle *handle = &process->handles[k];
            if (!process->done && handle->open && !handle->served) {
                const struct sim_agent *agent = &world.agents[process->index % AGENTS];
                const struct hfi_region *region = &agent->regions[handle->region].region;
                const struct connection *line = &process->connection;
                tell_seats(region, handle->slot);
                uint64_t wait = handle->seat != HFI_SEAT_NONE ? *hfi_seat_wait(region, handle->seat)
                                                              : 0;
                sim_fail("process %u is never served lock %u: slot %u, holder id %u, seat %d "
                         "(wait %llx), fiber %d, word %016llx; connection broken %d, welcomed %d, "
                         "to the agent %u, to it %u, asking %s; agent's fiber %d, serving %d",
                         i, handle->lock, handle->slot, handle->holder, (int)handle->seat,
                         (unsigned long long)wait, process->fiber.state,
                         (unsigned long long)region->words[handle->slot].word, line->broken,
                         line->welcomed, line->to_agent.count, line->to_client.count,
                         process->asking ? hfi_frame_name(process->asking) : "nothing",
                         agent->fiber.state, agent->serving);
            }
        }
    }
    sim_fail("a process never comes to its end");
}

static void world_make(uint64_t seed)
{
    bool verbose = world.verbose;
    uint64_t steps = world.steps;
    for (uint32_t i = 0; i < AGENTS; i++) {
        agent_free(&world.agents[i]);
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        fiber_free(&world.processes[i].fiber);
    }
    memset(&world, 0, sizeof(world));
    world.seed = seed;
    world.steps = steps;
    world.verbose = verbose;
    fibers_reset(seed, 1, 2);
    static const uint32_t bursts[] = {1, 2, 4, 16, 64};
    uint32_t burst = bursts[sim_draw(5)];
    static const int64_t paces[] = {200, 2000, 20000, 200000};
    int64_t pace = paces[sim_draw(4)];
    fibers_reset(seed ^ UINT64_C(0x5bd1e995), burst, pace);
    draw_faults();
    check_reset();
    for (uint32_t i = 0; i < AGENTS; i++) {
        world.agents[i].index = i;
        world.fibers[i] = &world.agents[i].fiber;
        if (world.faults.high_tokens) {
            disk_preset_tokens(&world.agents[i].disk);
        }
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        world.processes[i].index = i;
        world.fibers[AGENTS + i] = &world.processes[i].fiber;
    }
}

/* Plays one seed; returns how many holds there were. */
static uint64_t play(uint64_t seed)
{
    world_make(seed);
    for (uint64_t step = 0; step < world.steps; step++) {
        inject();
        run_turn();
    }
    heal();
    int64_t until_ns = sim_now() + SERVED_WITHIN_NS;
    for (uint64_t step = 0; step < HEALED_STEPS_MAX && !all_done(); step++) {
        run_turn();
        if (sim_now() > until_ns) {
            fail_unserved();
        }
    }
    if (!all_done()) {
        fail_unserved();
    }
    return world.holds;
}

/* ---- the command line ---- */

static void help(FILE *out)
{
    fprintf(out,
            "usage: holdfast-sim [--seed N] [--seeds COUNT] [--steps K] [--verbose]\n"
            "\n"
            "Plays a Holdfast cell of one host in virtual time: the real cores and the real lock\n"
            "word, processes and an agent that are killed, stopped and cut off at any atomic\n"
            "step. Everything follows from the seed.\n"
            "\n"
            "  --seed N       the first seed (default 1)\n"
            "  --seeds COUNT  play that many seeds from there on (default 1)\n"
            "  --steps K      scheduler turns with faults before all heals (default %d)\n"
            "  --verbose      tell the story\n"
            "\n"
            "Exit status: 0 all is well; 1 a check failed: the line before says how to play it\n"
            "again; 64 bad usage.\n",
            STEPS_DEFAULT);
}

static bool number(const char *text, uint64_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

/* One option; false: it makes no sense. *used: how many arguments it took. */
static bool option(int left, char **arguments, uint64_t *seed, uint64_t *seeds, int *used)
{
    const char *name = arguments[0];
    *used = 2;
    if (strcmp(name, "--verbose") == 0) {
        world.verbose = true;
        *used = 1;
        return true;
    }
    if (left < 2) {
        return false;
    }
    if (strcmp(name, "--seed") == 0) {
        return number(arguments[1], seed);
    }
    if (strcmp(name, "--seeds") == 0) {
        return number(arguments[1], seeds);
    }
    if (strcmp(name, "--steps") == 0) {
        return number(arguments[1], &world.steps);
    }
    return strcmp(name, "--break") == 0 && breaks_choose(arguments[1]);
}

int main(int count, char **arguments)
{
    uint64_t seed = 1;
    uint64_t seeds = 1;
    uint64_t holds = 0;
    world.steps = STEPS_DEFAULT;
    for (int i = 1, used = 0; i < count; i += used) {
        if (strcmp(arguments[i], "--help") == 0) {
            help(stdout);
            return 0;
        }
        if (!option(count - i, arguments + i, &seed, &seeds, &used)) {
            fprintf(stderr, "holdfast-sim: %s: not an option, or not its value\n", arguments[i]);
            help(stderr);
            return 64;
        }
    }
    for (uint64_t i = 0; i < seeds; i++) {
        holds += play(seed + i);
    }
    printf("%llu seeds from %llu: all is well (%llu holds)\n", (unsigned long long)seeds,
           (unsigned long long)seed, (unsigned long long)holds);
    return 0;
}
