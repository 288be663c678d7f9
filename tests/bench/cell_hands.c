/*
 * Hand-overs of a lock between hosts. In one figure two hosts alternate and nobody waits. In the
 * other figure one host already waits when the other host releases.
 */
#include <pthread.h>
#include <stdio.h>

#include "cell.h"
#include "figures.h"
#include "floors.h"

enum { TURNS = 24, TURNS_QUICK = 6, TURNS_MAX = 24 };

static const int64_t wait_settles_ns = INT64_C(8000000);
static const int64_t timeout_ns = INT64_C(20000000000);

struct hands_run {
    struct cell cell;
    struct floors floors;
    hf_client *clients[CELL_HOSTS];
    hf_lock *locks[CELL_HOSTS]; /* handles on one name */
};

static int run_start(struct hands_run *run, const struct bench *bench)
{
    *run = (struct hands_run){.clients = {NULL}};
    if (floors_start(&run->floors, bench->directory) != 0 ||
        cell_start(&run->cell, bench->directory, "5s") != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        run->clients[i] = cell_connect(&run->cell, i);
        if (run->clients[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

static void run_stop(struct hands_run *run)
{
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        hf_close(run->locks[i]);
        hf_disconnect(run->clients[i]);
    }
    cell_stop(&run->cell);
    floors_stop(&run->floors);
}

/* On hosts 0 and 1, opens a new name that the given host coordinates. */
static int open_locks(struct hands_run *run, uint32_t coordinator)
{
    char name[CELL_NAME_SIZE];
    cell_new_name(&run->cell, coordinator, name);
    for (uint32_t i = 0; i < 2; i++) {
        hf_close(run->locks[i]);
        run->locks[i] = NULL;
        int error = hf_open(run->clients[i], name, NULL, &run->locks[i]);
        if (error != 0) {
            return complain("%s: %s", name, hf_strerror(error));
        }
    }
    return 0;
}

/* ---- alternating ---- */

/* Measures the median time of an acquire + release. Before each acquire the other host has the
 * lock. */
static int alternate(struct hands_run *run, uint32_t turns, double *out)
{
    double times[TURNS_MAX];
    for (uint32_t i = 0; i < turns; i++) {
        hf_lock *lock = run->locks[i % 2];
        int64_t start_ns = now_ns();
        int error = hf_acquire(lock, HF_EXCLUSIVE, timeout_ns, NULL);
        if (error == 0) {
            error = hf_release(lock);
        }
        times[i] = (double)(now_ns() - start_ns) / 1e3;
        if (error != 0) {
            return complain("alternating: %s", hf_strerror(error));
        }
    }
    *out = percentile(times, turns, 0.5);
    return 0;
}

/*
 * Measures one round. The coordinator is one of the two hosts that alternate, or the third host.
 *
 * The floor of a hand-over has three parts. Request, recall, give-back and grant are messages
 * between the hosts and the coordinator: each message to another host costs a hop. The accept round
 * costs a round trip and its flush. The client costs a round trip to its agent.
 */
static int alternate_round(struct hands_run *run, uint32_t turns, struct series *taken,
                           struct series *floor, struct series *third)
{
    double sum = 0;
    double floor_sum = 0;
    for (uint32_t coordinator = 0; coordinator < CELL_HOSTS; coordinator++) {
        struct floor_times times;
        double took = 0;
        double hops = coordinator < 2 ? 2 : 4;
        if (open_locks(run, coordinator) != 0 || alternate(run, turns, &took) != 0 ||
            floors_measure(&run->floors, turns, 0, &times) != 0) {
            return -1;
        }
        sum += took;
        floor_sum += times.socket + (hops / 2 + 1) * times.transport + times.flush_3;
        if (coordinator == 2) {
            series_add(third, took);
        }
    }
    series_add(taken, sum / CELL_HOSTS);
    series_add(floor, floor_sum / CELL_HOSTS);
    return 0;
}

int figure_cell_alternate(const struct bench *bench, struct figure *figure)
{
    static struct hands_run run;
    uint32_t turns = bench->effort.quick ? TURNS_QUICK : TURNS;
    struct side *taken = figure_side(figure, "acquire + release, by turns", "us", 1);
    struct side *floor = figure_side(figure, "the serial path: hops and flush", "us", 1);
    struct side *third = figure_side(figure, "  coordinated on the third host", "us", 1);
    int result = run_start(&run, bench);
    for (size_t i = 0; result == 0 && i < bench->effort.rounds; i++) {
        result = interrupted()
                     ? -1
                     : alternate_round(&run, turns, &taken->series, &floor->series, &third->series);
    }
    run_stop(&run);
    double median = series_median(&taken->series);
    figure_verdict(figure, "serial path / by turns", series_median(&floor->series) / median,
                   BOUND_AT_LEAST, 0.7);
    snprintf(figure->note, sizeof(figure->note),
             "%.0f hand-overs a second; mean over names of the three coordinators",
             median > 0 ? 1e6 / median : 0);
    return result;
}

/* ---- to a host that waits ---- */

struct waiter {
    hf_lock *lock;
    int error;
    int64_t had_ns;
};

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;
    waiter->error = hf_acquire(waiter->lock, HF_EXCLUSIVE, timeout_ns, NULL);
    waiter->had_ns = now_ns();
    return NULL;
}

/* Measures the time in us from the release on one host until the acquire on the other host
 * returns. */
static int hand_over(hf_lock *from, hf_lock *to, double *out)
{
    struct waiter waiter = {.lock = to};
    pthread_t thread;
    if (pthread_create(&thread, NULL, waiter_main, &waiter) != 0) {
        return complain("no thread");
    }
    pause_ns(wait_settles_ns);
    int64_t start_ns = now_ns();
    int error = hf_release(from);
    pthread_join(thread, NULL);
    *out = (double)(waiter.had_ns - start_ns) / 1e3;
    if (error != 0 || waiter.error != 0) {
        return complain("handing over: %s", hf_strerror(error != 0 ? error : waiter.error));
    }
    return 0;
}

/* Measures a round of hand-overs. Adds to `costs` the messages and the flushes of one hand-over. */
static int waiting_round(struct hands_run *run, uint32_t coordinator, uint32_t turns,
                         struct series *out, struct series costs[2])
{
    double times[TURNS_MAX];
    struct cell_traffic before;
    struct cell_traffic after;
    if (open_locks(run, coordinator) != 0) {
        return -1;
    }
    int error = hf_acquire(run->locks[0], HF_EXCLUSIVE, timeout_ns, NULL);
    if (error == 0 && cell_traffic_sum(&run->cell, &before) != 0) {
        return -1;
    }
    for (uint32_t i = 0; error == 0 && i < turns; i++) {
        if (hand_over(run->locks[i % 2], run->locks[(i + 1) % 2], &times[i]) != 0) {
            return -1;
        }
    }
    if (error == 0 && cell_traffic_sum(&run->cell, &after) != 0) {
        return -1;
    }
    if (error == 0) {
        series_add(&costs[0], (double)(after.for_locks - before.for_locks) / turns);
        series_add(&costs[1], (double)(after.commits - before.commits) / turns);
        error = hf_release(run->locks[turns % 2]);
    }
    series_add(out, percentile(times, turns, 0.5));
    return error == 0 ? 0 : complain("waiting: %s", hf_strerror(error));
}

/* Measures the steps of a hand-over that must follow one another: give-back and grant, if they
 * leave the coordinator's host; the accept round with its flush; and the client's round trip to its
 * agent. A period_ns above 0 puts a pause before each operation, as before each hand-over; 0 means
 * no pauses. */
static int waiting_floor(struct hands_run *run, uint32_t coordinator, uint32_t turns,
                         int64_t period_ns, struct series *out)
{
    struct floor_times times;
    double hops = coordinator < 2 ? 1 : 2;
    if (floors_measure(&run->floors, turns, period_ns, &times) != 0) {
        return -1;
    }
    series_add(out, times.socket + (hops / 2 + 1) * times.transport + times.flush_3);
    return 0;
}

int figure_cell_waiting(const struct bench *bench, struct figure *figure)
{
    static struct hands_run run;
    uint32_t turns = bench->effort.quick ? TURNS_QUICK : TURNS;
    struct side *taken = figure_side(figure, "release to acquired, another host", "us", 1);
    struct side *floor = figure_side(figure, "its serial path, after rests too", "us", 1);
    struct side *in_a_row = figure_side(figure, "  the same in a row", "us", 1);
    struct series costs[2] = {{.count = 0}, {.count = 0}};
    int result = run_start(&run, bench);
    for (size_t i = 0; result == 0 && i < bench->effort.rounds; i++) {
        uint32_t at = (uint32_t)i % CELL_HOSTS;
        if (interrupted() || waiting_round(&run, at, turns, &taken->series, costs) != 0 ||
            waiting_floor(&run, at, turns, wait_settles_ns, &floor->series) != 0 ||
            waiting_floor(&run, at, turns, 0, &in_a_row->series) != 0) {
            result = -1;
        }
    }
    run_stop(&run);
    figure_verdict(figure, "ms from release to acquired, p50", series_median(&taken->series) / 1e3,
                   BOUND_AT_MOST, 0.7);
    snprintf(figure->note, sizeof(figure->note),
             "serial path / measured = %.2f; rounds take turns between names of the three "
             "coordinators; %.1f messages and %.1f flushes for one, all agents",
             series_median(&floor->series) / series_median(&taken->series),
             series_median(&costs[0]), series_median(&costs[1]));
    return result;
}
