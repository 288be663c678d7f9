/*
 * holdfast-sim: a cell in virtual time, from a seed. Each seed draws the cell and its faults, and
 * lets processes and agents run with these faults for some turns. After that it heals all faults,
 * and every process must be served. For a seed that fails it prints the command that plays the seed
 * again.
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

void sim_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("seed %llu, turn %llu, %.6f ms: ", (unsigned long long)world.run.seed,
           (unsigned long long)world.turn, (double)sim_now() / 1e6);
    vprintf(format, arguments);
    printf("\nreplay: ");
    va_end(arguments);
    run_print(&world.run);
    fflush(stdout);
    exit(1);
}

void hfi_check_failed(const char *what, const char *file, int line)
{
    const char *base = strrchr(file, '/');
    sim_fail("%s:%d: %s", base ? base + 1 : file, line, what);
}

/* ---- one run ---- */

/* Writes each change of a lock word into the story (sim_tell()). */
static void tell_words(void)
{
    static uint64_t before[AGENTS][SLOTS];
    for (uint32_t i = 0; i < world.agent_count; i++) {
        const struct sim_agent *agent = &world.agents[i];
        for (uint32_t slot = 0; agent->region_count > 0 && slot < SLOTS; slot++) {
            const struct hfi_region *region = &agent->regions[agent->region_count - 1].region;
            uint64_t word = region->words ? (uint64_t)region->words[slot].word : 0;
            if (word != before[i][slot]) {
                before[i][slot] = word;
                sim_tell("host %u slot %u: word %016llx, tokens to %llx", i, slot,
                         (unsigned long long)word,
                         (unsigned long long)(region->slots ? region->slots[slot].token_top : 0));
            }
        }
    }
}

void sim_turn(void)
{
    int64_t next_ns = faults_start_due();
    int64_t net_ns = net_work();
    int64_t starve_ns = faults_starve();
    next_ns = net_ns < next_ns ? net_ns : next_ns;
    next_ns = starve_ns < next_ns ? starve_ns : next_ns;
    if (world.healing && !world.run.starved && !fibers_runnable(world.fibers, world.fiber_count)) {
        check_quiet();
    }
    (void)fibers_step(world.fibers, world.fiber_count, next_ns);
    world.turn++;
    if (world.verbose) {
        tell_words();
    }
}

static bool all_done(void)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        if (!world.processes[i].done) {
            return false;
        }
    }
    return voters_are_done();
}

/* Prints the seats of a slot, for the report of a failure. */
static void tell_seats(const struct sim_agent *agent, const struct hfi_region *region,
                       uint32_t slot)
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
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct sim_process *process = &world.processes[i];
        for (uint32_t k = 0; k < HANDLES && process->agent == agent; k++) {
            const struct sim_handle *handle = &process->handles[k];
            bool here = handle->open && handle->slot == slot;
            bool on_seat = here && handle->seat != HFI_SEAT_NONE &&
                           process->fiber.futex == &hfi_seat(region, handle->seat)->wake;
            if (here) {
                sim_tell("process %u: fiber %d, holder id %u, seat %d, ticket %llx, served %d%s", i,
                         process->fiber.state, handle->holder, (int)handle->seat,
                         (unsigned long long)handle->ticket, handle->served,
                         on_seat ? ", asleep on its seat" : "");
            }
        }
    }
}

/* Prints the voters' registers of a lock, for the report of a failure. */
static void tell_registers(uint32_t lock)
{
    for (uint32_t i = 0; i < world.agent_count; i++) {
        const struct sim_agent *agent = &world.agents[i];
        const struct disk_register *row = &agent->disk.registers[lock];
        const struct message_value *value = &row->reg.value;
        if (!row->used) {
            sim_tell("voter %u has no register of lock %u", i, lock);
            continue;
        }
        sim_tell("voter %u: lock %u at %llx.%llu: mode %u, version %llx.%llu, owner %.*s epoch %u, "
                 "%u shares",
                 i, lock, (unsigned long long)row->reg.accepted.ballot,
                 (unsigned long long)row->reg.accepted.sequence, value->mode,
                 (unsigned long long)value->version.ballot,
                 (unsigned long long)value->version.sequence, value->owner.length,
                 value->owner.text, value->epoch, value->share_count);
        for (uint32_t k = 0; k < value->share_count; k++) {
            const struct message_share *share = &value->shares[k];
            sim_tell("  %.*s epoch %u, version %llx.%llu", share->agent.length, share->agent.text,
                     share->epoch, (unsigned long long)share->version.ballot,
                     (unsigned long long)share->version.sequence);
        }
    }
    for (uint32_t i = 0; i < world.agent_count; i++) {
        sim_tell("host %u: epoch %u, marked %u %u %u", i, world.agents[i].disk.epoch,
                 world.agents[0].disk.marks[i].epoch,
                 world.agents[1 % world.voters].disk.marks[i].epoch,
                 world.agents[2 % world.voters].disk.marks[i].epoch);
    }
}

static void fail_handle(const struct sim_process *process, const struct sim_handle *handle)
{
    const struct sim_agent *agent = process->agent;
    const struct hfi_region *region = &agent->regions[handle->region].region;
    const struct connection *line = &process->connection;
    tell_seats(agent, region, handle->slot);
    tell_registers(handle->lock);
    sim_fail("process %u of host %u is never served lock %u: slot %u, holder id %u, seat %d, fiber "
             "%d, word %016llx; connection broken %d, welcomed %d, to the agent %u, to it %u, "
             "asking %s; agent's fiber %d, serving %d, lease for %lld us",
             process->index, agent->index, handle->lock, handle->slot, handle->holder,
             (int)handle->seat, process->fiber.state,
             (unsigned long long)region->words[handle->slot].word, line->broken, line->welcomed,
             line->to_agent.count, line->to_client.count,
             process->asking ? hfi_frame_name(process->asking) : "nothing", agent->fiber.state,
             agent->serving,
             (long long)(hfi_lease_deadline_ns(region->header->lease) - clock_now(agent)) / 1000);
}

static void fail_unserved(void)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct sim_process *process = &world.processes[i];
        for (uint32_t k = 0; k < HANDLES; k++) {
            const struct sim_handle *handle = &process->handles[k];
            if (!process->done && handle->open && !handle->served) {
                fail_handle(process, handle);
            }
        }
        if (!process->done) {
            sim_fail("process %u of host %u never comes to its end (asking %s)", i,
                     process->agent->index,
                     process->asking ? hfi_frame_name(process->asking) : "nothing");
        }
    }
    voters_tell();
    for (uint32_t i = 0; i < world.agent_count; i++) {
        if (!voters_has(voters_newest(), &world.agents[i])) {
            continue;
        }
        if (!world.agents[i].up || world.agents[i].quorum == NULL ||
            quorum_voter_status(world.agents[i].quorum) != MESSAGE_STATUS_VOTING) {
            sim_fail("voter %u never votes again: status %d", i,
                     world.agents[i].up && world.agents[i].quorum != NULL
                         ? (int)quorum_voter_status(world.agents[i].quorum)
                         : -1);
        }
    }
    if (!voters_are_done()) {
        sim_fail("number %u is never complete", voters_newest()->number);
    }
    sim_fail("it never ends");
}

static void world_clear(void)
{
    bool verbose = world.verbose;
    net_free();
    for (uint32_t i = 0; i < world.agent_count; i++) {
        agent_free(&world.agents[i]);
    }
    for (uint32_t i = 0; i < world.process_count; i++) {
        fiber_free(&world.processes[i].fiber);
    }
    memset(&world, 0, sizeof(world));
    world.verbose = verbose;
}

static void draw_scheduler(uint64_t seed)
{
    static const uint32_t bursts[] = {1, 2, 4, 16, 64};
    static const int64_t paces[] = {200, 2000, 20000, 200000};
    fibers_reset(seed, 1, 2);
    faults_draw_cell();
    uint32_t burst = bursts[sim_draw(5)];
    int64_t pace = paces[sim_draw(world.agent_count == 1 ? 4 : 3)];
    fibers_reset(seed ^ UINT64_C(0x5bd1e995), burst, pace / world.agent_count + 2);
}

static void world_make(const struct run *run)
{
    world_clear();
    world.run = *run;
    draw_scheduler(run->seed);
    faults_draw();
    check_reset();
    watch_reset();
    order_reset();
    net_reset();
    recovery_reset();
    for (uint32_t i = 0; i < world.agent_count; i++) {
        struct sim_agent *agent = &world.agents[i];
        char text[16];
        int size = snprintf(text, sizeof(text), "host-%02u", i);
        agent->index = i;
        message_agent_set(&agent->name, text, (size_t)size);
        clock_boot(agent);
        disk_new(agent);
        world.fibers[i] = &agent->fiber;
    }
    voters_reset();
    if (world.faults.high_tokens) {
        disk_preset_tokens();
    }
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct sim_process *process = &world.processes[i];
        process->index = i;
        process->agent = &world.agents[i < world.agent_count ? i : sim_draw(world.agent_count)];
        world.fibers[world.agent_count + i] = &process->fiber;
    }
    world.fiber_count = world.agent_count + world.process_count;
    sim_tell("%u voters, %u observers, %u processes, %u locks", world.voters,
             world.agent_count - world.voters, world.process_count, world.lock_count);
}

/* Plays a run. Returns how many holds there were. */
static uint64_t play(struct run run)
{
    world_make(&run);
    for (uint64_t step = 0; step < run.steps; step++) {
        faults_inject();
        sim_turn();
    }
    faults_heal();
    int64_t until_ns = sim_now() + SERVED_WITHIN_NS;
    for (uint64_t step = 0; step < HEALED_STEPS_MAX && !all_done(); step++) {
        sim_turn();
        if (sim_now() > until_ns) {
            fail_unserved();
        }
    }
    if (!all_done()) {
        fail_unserved();
    }
    if (line_is_drawn()) {
        line_play();
    }
    return world.holds;
}

/* ---- the command line ---- */

static void help(FILE *out)
{
    fprintf(out,
            "usage: holdfast-sim [--seed N] [--seeds COUNT] [OPTION...]\n"
            "\n"
            "Plays Holdfast cells in virtual time: the real driver, cores and lock word; hosts,\n"
            "agents and processes that are killed, stopped and cut off at any atomic step;\n"
            "clocks that drift, disks that are lost. Everything follows from the seed.\n"
            "\n"
            "  --seed N         the first seed (default 1)\n"
            "  --seeds COUNT    play that many seeds from there on (default 1)\n"
            "  --cell N         cells of N voters: 1, 3, 5, 7 (default: drawn); 1: one host\n"
            "  --observers N    so many agents that are no voters, at most 20\n"
            "  --processes N    so many processes, at most %d\n"
            "  --locks N        so many locks, at most %d\n"
            "  --off NAME,...   without these faults:",
            PROCESSES, LOCKS);
    for (uint32_t i = 0; fault_name(i) != NULL; i++) {
        fprintf(out, "%s%s", i % 9 == 0 ? "\n                    " : " ", fault_name(i));
    }
    fprintf(out,
            "\n"
            "  --often NAME,... with these faults in each run, and often\n"
            "  --steps K        scheduler turns with faults before all heals (default %d)\n"
            "  --break RULE     break a rule of the protocol on purpose:",
            STEPS_DEFAULT);
    for (uint32_t i = 0; break_names[i] != NULL; i++) {
        fprintf(out, "%s%s", i % 5 == 0 ? "\n                    " : " ", break_names[i]);
    }
    fprintf(out,
            "\n"
            "  --starved        all agents run for 10 to 59 ms after each pause of 100 to 549 ms,\n"
            "                   to the end, and must serve everybody all the same\n"
            "  --rolling HOW    a rolling restart with a line of waiters at the end of each cell:\n"
            "                   stop (agents end on a signal) or kill\n"
            "  --shrink         make the run smaller as long as it fails\n"
            "  --verbose        tell the story\n"
            "\n"
            "Exit status: 0 all is well; 1 a check failed: the line before says how to play it\n"
            "again; 64 bad usage.\n");
}

struct arguments {
    struct run run;
    uint64_t seeds;
    bool shrink;
};

static bool number(const char *text, uint64_t limit, uint64_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *out <= limit;
}

static bool small(const char *text, uint32_t limit, uint32_t *out)
{
    uint64_t value = 0;
    bool good = number(text, limit, &value);
    *out = (uint32_t)value;
    return good;
}

static bool faults(const char *text, uint64_t *out)
{
    while (*text != '\0') {
        size_t size = strcspn(text, ",");
        uint32_t i = 0;
        while (fault_name(i) != NULL &&
               (strlen(fault_name(i)) != size || memcmp(fault_name(i), text, size) != 0)) {
            i++;
        }
        if (fault_name(i) == NULL) {
            return false;
        }
        *out |= UINT64_C(1) << i;
        text += size + (text[size] == ',');
    }
    return true;
}

static bool rolling(const char *text, struct run *out)
{
    out->rolling = true;
    out->rolling_orderly = strcmp(text, "stop") == 0;
    return out->rolling_orderly || strcmp(text, "kill") == 0;
}

static bool option_with_value(const char *name, const char *value, struct arguments *out)
{
    struct run *run = &out->run;
    if (strcmp(name, "--seed") == 0) {
        return number(value, UINT64_MAX, &run->seed);
    }
    if (strcmp(name, "--seeds") == 0) {
        return number(value, UINT64_MAX, &out->seeds);
    }
    if (strcmp(name, "--steps") == 0) {
        return number(value, UINT64_MAX, &run->steps);
    }
    if (strcmp(name, "--cell") == 0) {
        run->observers_set = run->observers_set || strcmp(value, "1") == 0;
        return small(value, MESSAGE_VOTERS_MAX, &run->voters) && run->voters % 2 == 1;
    }
    if (strcmp(name, "--observers") == 0) {
        run->observers_set = true;
        return small(value, AGENTS - MESSAGE_VOTERS_MAX, &run->observers);
    }
    if (strcmp(name, "--processes") == 0) {
        return small(value, PROCESSES, &run->processes);
    }
    if (strcmp(name, "--locks") == 0) {
        return small(value, LOCKS, &run->locks);
    }
    if (strcmp(name, "--off") == 0) {
        return faults(value, &run->off);
    }
    if (strcmp(name, "--often") == 0) {
        return faults(value, &run->often);
    }
    if (strcmp(name, "--rolling") == 0) {
        return rolling(value, run);
    }
    return strcmp(name, "--break") == 0 && breaks_choose(value);
}

/* Reads one option. Returns false if it is invalid. *used becomes the number of its arguments. */
static bool option(int left, char **arguments, struct arguments *out, int *used)
{
    *used = 1;
    if (strcmp(arguments[0], "--verbose") == 0) {
        world.verbose = true;
        return true;
    }
    if (strcmp(arguments[0], "--shrink") == 0) {
        out->shrink = true;
        return true;
    }
    if (strcmp(arguments[0], "--starved") == 0) {
        out->run.starved = true;
        return true;
    }
    *used = 2;
    return left >= 2 && option_with_value(arguments[0], arguments[1], out);
}

int main(int count, char **arguments)
{
    struct arguments all = {.run = {.seed = 1, .steps = STEPS_DEFAULT}, .seeds = 1};
    uint64_t holds = 0;
    for (int i = 1, used = 0; i < count; i += used) {
        if (strcmp(arguments[i], "--help") == 0) {
            help(stdout);
            return 0;
        }
        if (!option(count - i, arguments + i, &all, &used)) {
            fprintf(stderr, "holdfast-sim: %s: not an option, or not its value\n", arguments[i]);
            help(stderr);
            return 64;
        }
    }
    if (all.shrink) {
        return shrink(all.run, play);
    }
    struct run run = all.run;
    for (uint64_t i = 0; i < all.seeds; i++, run.seed++) {
        holds += play(run);
    }
    printf("%llu seeds from %llu: all is well (%llu holds)\n", (unsigned long long)all.seeds,
           (unsigned long long)all.run.seed, (unsigned long long)holds);
    return 0;
}
