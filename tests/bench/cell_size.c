/*
 * The cost of a cell with many locks: the renewals of a session with one lock and with many locks,
 * a voter's memory with a million registers, and the time of its restart with these registers.
 */
#include <pthread.h>
#include <stdio.h>

#include "cell_preload.h"
#include "figures.h"

enum {
    HOLDERS = 16,
    LOCKS = 100000,
    LOCKS_QUICK = 2000,
    REGISTERS = 1000000,
    REGISTERS_QUICK = 50000,
};

static const int64_t window_ns = INT64_C(6000000000);
static const int64_t load_limit_ns = INT64_C(45000000000);
static const int64_t settle_ns = INT64_C(1000000000);

/* ---- renewals ---- */

/* A client that takes every HOLDERS-th lock from `first` on, below `end`, and keeps them. */
struct holder {
    pthread_t thread;
    hf_client *client;
    uint32_t first, end;
    uint32_t held;
    int64_t until_ns;
};

static void *holder_main(void *arg)
{
    struct holder *holder = arg;
    for (uint32_t i = holder->first; i < holder->end && now_ns() < holder->until_ns; i += HOLDERS) {
        char name[CELL_NAME_SIZE];
        snprintf(name, sizeof(name), "bench/held/%u", i);
        if (interrupted() || cell_take(holder->client, name) == NULL) {
            break; /* the caller's hf_disconnect() ends the handles */
        }
        holder->held++;
    }
    return NULL;
}

/* Takes `count` locks on host 0, or as many as it can in load_limit_ns. Returns how many are
 * held. */
static uint32_t hold_many(const struct cell *cell, struct holder holders[HOLDERS], uint32_t count)
{
    uint32_t held = 0;
    uint32_t started = 0;
    for (uint32_t i = 0; i < HOLDERS; i++) {
        holders[i] = (struct holder){.client = cell_connect(cell, 0),
                                     .first = i,
                                     .end = count,
                                     .until_ns = now_ns() + load_limit_ns};
    }
    while (started < HOLDERS && holders[started].client != NULL &&
           pthread_create(&holders[started].thread, NULL, holder_main, &holders[started]) == 0) {
        started++;
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(holders[i].thread, NULL);
        held += holders[i].held;
    }
    return held;
}

/* Measures the renewals and the packets of a second, for all agents together, and the share of a
 * processor that an agent uses on average, in percent. */
static int measure_rest(const struct cell *cell, double *renewals, double *packets, double *cpu)
{
    struct cell_traffic before;
    struct cell_traffic after;
    if (cell_traffic_sum(cell, &before) != 0) {
        return -1;
    }
    int64_t start_ns = now_ns();
    pause_ns(window_ns);
    double seconds = (double)(now_ns() - start_ns) / 1e9;
    if (interrupted() || cell_traffic_sum(cell, &after) != 0) {
        return -1;
    }
    *renewals = (double)(after.renewals - before.renewals) / seconds;
    *packets = (double)(after.packets - before.packets) / seconds;
    *cpu = (double)(after.cpu_ns - before.cpu_ns) / 1e7 / seconds / CELL_HOSTS;
    return 0;
}

int figure_cell_renewals(const struct bench *bench, struct figure *figure)
{
    static struct holder holders[HOLDERS];
    struct cell cell;
    uint32_t wanted = bench->effort.quick ? LOCKS_QUICK : LOCKS;
    uint32_t held = 0;
    double values[6] = {0};
    struct side *one = figure_side(figure, "renewals and answers, 1 lock held", "/s", 2);
    struct side *many = figure_side(figure, "renewals and answers, many held", "/s", 2);
    struct side *packets_one = figure_side(figure, "packets of all kinds, 1 lock held", "/s", 1);
    struct side *packets_many = figure_side(figure, "packets of all kinds, many held", "/s", 1);
    struct side *cpu_one = figure_side(figure, "an agent's processor, 1 lock held", "% of a core",
                                       2);
    struct side *cpu_many = figure_side(figure, "an agent's processor, many held", "% of a core",
                                        2);
    int result = cell_start(&cell, bench->directory, "2s");
    if (result == 0) {
        held = hold_many(&cell, holders, 1);
        pause_ns(settle_ns);
        result = held == 1 ? measure_rest(&cell, &values[0], &values[2], &values[4]) : -1;
        for (uint32_t i = 0; i < HOLDERS; i++) {
            hf_disconnect(holders[i].client);
        }
    }
    if (result == 0) {
        held = hold_many(&cell, holders, wanted);
        /* during this pause gossip carries news of the locks to the other agents */
        pause_ns(4 * settle_ns);
        result = held > 1 ? measure_rest(&cell, &values[1], &values[3], &values[5]) : -1;
        for (uint32_t i = 0; i < HOLDERS; i++) {
            hf_disconnect(holders[i].client);
        }
    }
    cell_stop(&cell);
    series_add(&one->series, values[0]);
    series_add(&many->series, values[1]);
    series_add(&packets_one->series, values[2]);
    series_add(&packets_many->series, values[3]);
    series_add(&cpu_one->series, values[4]);
    series_add(&cpu_many->series, values[5]);
    figure_verdict(figure, "renewals, many / 1 lock", values[1] / values[0], BOUND_AT_MOST, 1.1);
    snprintf(figure->note, sizeof(figure->note),
             "%u of %u locks held (as many as %.0f s were enough for), session_ttl 2 s, %.0f s of "
             "counting; three agents",
             held, wanted, (double)load_limit_ns / 1e9, (double)window_ns / 1e9);
    return result;
}

/* ---- a million registers ---- */

static int start_all(struct cell *cell)
{
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        if (cell_launch(cell, i) != 0) {
            return -1;
        }
    }
    return cell_await(cell);
}

/* Measures the memory of an agent in an empty cell, its regions excluded. */
static int measure_empty(const struct bench *bench, double *own)
{
    struct cell cell;
    struct agent_memory memory = {0};
    int result = cell_start(&cell, bench->directory, "5s");
    if (result == 0) {
        result = agent_memory_read(&cell.agents[0], &memory);
    }
    cell_stop(&cell);
    *own = memory.own;
    return result;
}

int figure_cell_million(const struct bench *bench, struct figure *figure)
{
    struct cell cell;
    struct agent_memory memory = {0};
    double empty = 0;
    double took_s = 0;
    uint32_t registers = bench->effort.quick ? REGISTERS_QUICK : REGISTERS;
    struct side *each = figure_side(figure, "a voter's memory for a register", "bytes", 1);
    struct side *restart = figure_side(figure, "killed and started: until it serves", "s", 2);
    if (measure_empty(bench, &empty) != 0) {
        return -1;
    }
    int result = cell_preload(&cell, bench->directory, "5s", registers);
    if (result == 0) {
        result = start_all(&cell);
    }
    if (result == 0) {
        result = agent_memory_read(&cell.agents[0], &memory);
    }
    if (result == 0) {
        agent_kill(&cell.agents[0]);
        int64_t start_ns = now_ns();
        result = cell_launch(&cell, 0) == 0 ? agent_await_answer(&cell.agents[0]) : -1;
        took_s = (double)(now_ns() - start_ns) / 1e9;
    }
    cell_stop(&cell);
    series_add(&each->series, (memory.own - empty) / registers);
    series_add(&restart->series, took_s);
    figure_verdict(figure, "bytes a register", (memory.own - empty) / registers, BOUND_AT_MOST,
                   300);
    figure_verdict(figure, "s until it serves", took_s, BOUND_AT_MOST, 3);
    snprintf(figure->note, sizeof(figure->note),
             "%u registers of 23-byte names in each store; %.1f MiB with them, %.1f without",
             registers, memory.own / 1048576, empty / 1048576);
    return result;
}
