/*
 * A host's clock (CLOCK_BOOTTIME). It runs at a rate within max_drift of true time. The rate
 * changes now and then, and each boot begins with a new clock. The last segments of the clock
 * (times of one rate) are kept, so that a checker can find the true time at which a deadline
 * passed.
 *
 * In a cell of one host the clock is true time, because there is no other clock to differ from.
 */
#include "sim.h"

static const int64_t MILLION = 1000000;

static struct clock_segment *last_of(struct host_clock *clock)
{
    return &clock->segments[(clock->count - 1) % CLOCK_SEGMENTS];
}

static int64_t local_at(const struct clock_segment *segment, int64_t true_ns)
{
    return segment->local_ns + (true_ns - segment->true_ns) * segment->rate_ppm / MILLION;
}

/* Returns the true time at which the clock shows local_ns. It is rounded up, so that the clock
 * shows at least local_ns at that time. */
static int64_t true_at(const struct clock_segment *segment, int64_t local_ns)
{
    int64_t ahead_ns = local_ns - segment->local_ns;
    return segment->true_ns + (ahead_ns * MILLION + segment->rate_ppm - 1) / segment->rate_ppm;
}

static int64_t draw_rate(void)
{
    static const int64_t bound = SIM_DRIFT_PERCENT * 10000;
    if (world.agent_count == 1 || world.faults.drift == 0) {
        return MILLION;
    }
    /* half of the draws give an extreme rate, because errors of deadlines are greatest there */
    uint32_t which = sim_draw(4);
    return MILLION + (which == 0   ? bound
                      : which == 1 ? -bound
                                   : (int64_t)sim_draw((uint32_t)(2 * bound + 1)) - bound);
}

void clock_boot(struct sim_agent *agent)
{
    struct host_clock *clock = &agent->clock;
    struct clock_segment next = {.true_ns = sim_now(), .boot = ++clock->boot};
    next.local_ns = world.agent_count == 1 ? sim_now() : (1 + sim_draw(1000000)) * SIM_MS;
    next.rate_ppm = draw_rate();
    clock->count++;
    *last_of(clock) = next;
}

void clock_drift(struct sim_agent *agent)
{
    struct host_clock *clock = &agent->clock;
    struct clock_segment next = *last_of(clock);
    next.local_ns = clock_now(agent);
    next.true_ns = sim_now();
    next.rate_ppm = draw_rate();
    clock->count++;
    *last_of(clock) = next;
    sim_tell("the clock of host %u goes at %lld ppm", agent->index, (long long)next.rate_ppm);
    fiber_disturb(&agent->fiber);
    fiber_tell(&agent->fiber);
    for (uint32_t i = 0; i < world.process_count; i++) {
        if (world.processes[i].agent == agent) {
            fiber_disturb(&world.processes[i].fiber);
            fiber_tell(&world.processes[i].fiber);
        }
    }
}

int64_t clock_now(const struct sim_agent *agent)
{
    const struct host_clock *clock = &agent->clock;
    return local_at(&clock->segments[(clock->count - 1) % CLOCK_SEGMENTS], sim_now());
}

int64_t clock_true(const struct sim_agent *agent, int64_t local_ns)
{
    const struct host_clock *clock = &agent->clock;
    if (local_ns == INT64_MAX) {
        return INT64_MAX;
    }
    uint32_t kept = clock->count < CLOCK_SEGMENTS ? clock->count : CLOCK_SEGMENTS;
    for (uint32_t i = 0; i < kept; i++) { /* the newest segment comes first */
        const struct clock_segment *segment =
            &clock->segments[(clock->count - 1 - i) % CLOCK_SEGMENTS];
        if (segment->boot != clock->boot) {
            break;
        }
        if (segment->local_ns <= local_ns) {
            return local_ns - segment->local_ns > INT64_MAX / (2 * MILLION)
                       ? INT64_MAX
                       : true_at(segment, local_ns);
        }
    }
    return 0;
}

int64_t clock_at(const struct sim_agent *agent, int64_t true_ns)
{
    const struct host_clock *clock = &agent->clock;
    uint32_t kept = clock->count < CLOCK_SEGMENTS ? clock->count : CLOCK_SEGMENTS;
    for (uint32_t i = 0; i < kept; i++) { /* the newest segment comes first */
        const struct clock_segment *segment =
            &clock->segments[(clock->count - 1 - i) % CLOCK_SEGMENTS];
        if (segment->boot == clock->boot && segment->true_ns <= true_ns) {
            return local_at(segment, true_ns);
        }
    }
    return 0;
}
