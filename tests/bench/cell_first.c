/*
 * In a cell of three, one host takes locks that no other host wants: a name that the host used
 * before, and names that nobody ever used. The coordinator of the new names is either that host or
 * another host.
 */
#include <stdio.h>

#include "cell.h"
#include "figures.h"
#include "floors.h"

enum { OPERATIONS = 32, OPERATIONS_QUICK = 8, WARM_UP = 64 };

static const uint64_t pairs = 1000000;
static const uint64_t pairs_quick = 100000;

/*
 * ---- cached ----
 *
 * A pair sends no message, but a grant has a range of tokens, and the host asks for the next range
 * before the last token is used (docs/PROTOCOL.md, rule 23). Ranges grow by a quarter each time, so
 * a run that follows a run of the same length needs at most four more ranges. A range costs at most
 * five messages.
 */
enum { MESSAGES_MAX = 4 * 5 };

static const int64_t settle_ns = INT64_C(200000000);

static int64_t repeat_pairs(hf_lock *lock, uint64_t count)
{
    int64_t start_ns = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        struct hf_hold hold;
        int error = hf_acquire(lock, HF_EXCLUSIVE, -1, &hold);
        if (error == 0) {
            error = hf_release(lock);
        }
        if (error != 0) {
            return complain("acquire or release: %s", hf_strerror(error));
        }
    }
    return now_ns() - start_ns;
}

static int measure_cached(struct cell *cell, const struct bench *bench, struct figure *figure)
{
    uint64_t count = bench->effort.quick ? pairs_quick : pairs;
    char name[CELL_NAME_SIZE];
    struct cell_traffic before;
    struct cell_traffic after;
    struct side *pair = figure_side(figure, "acquire + release", "ns", 1);
    struct side *sent = figure_side(figure, "messages for locks, all agents", "", 0);
    struct side *other = figure_side(figure, "messages meanwhile: renewals, heartbeats, gossip", "",
                                     0);
    cell_new_name(cell, 1, name);
    hf_client *client = cell_connect(cell, 0);
    hf_lock *lock = client == NULL ? NULL : cell_take(client, name);
    int result = lock != NULL && hf_release(lock) == 0 ? 0 : -1;
    if (result == 0 && repeat_pairs(lock, count) < 0) { /* lets the token ranges grow */
        result = -1;
    }
    /* During this pause the third voter, whose answer the grant did not need, gets the value. */
    pause_ns(settle_ns);
    if (result == 0 && (result = cell_traffic_sum(cell, &before)) == 0) {
        int64_t took_ns = repeat_pairs(lock, count);
        result = took_ns < 0 ? -1 : cell_traffic_sum(cell, &after);
        series_add(&pair->series, (double)took_ns / (double)count);
    }
    if (result == 0) {
        series_add(&sent->series, (double)(after.for_locks - before.for_locks));
        series_add(&other->series, (double)(after.renewals + after.background - before.renewals -
                                            before.background));
        figure_verdict(figure, "messages for that many pairs",
                       (double)(after.for_locks - before.for_locks), BOUND_AT_MOST, MESSAGES_MAX);
        snprintf(figure->note, sizeof(figure->note),
                 "%llu pairs after as many; the name is coordinated on another host",
                 (unsigned long long)count);
    }
    hf_close(lock);
    hf_disconnect(client);
    return result;
}

int figure_cell_cached(const struct bench *bench, struct figure *figure)
{
    struct cell cell;
    int result = cell_start(&cell, bench->directory, "5s");
    if (result == 0) {
        result = measure_cached(&cell, bench, figure);
    }
    cell_stop(&cell);
    return result;
}

/* ---- first ---- */

struct first_run {
    struct cell cell;
    struct floors floors;
    hf_client *client; /* a client of host 0 */
    struct series *here, *there;
    struct series *socket, *transport, *flush, *flush_3;
    struct series *floor_here, *floor_there;
};

/* Measures the median time of open + acquire, in us, for new names of the given coordinator. */
static int first_acquires(struct first_run *run, uint32_t coordinator, uint32_t operations,
                          double *out)
{
    double times[WARM_UP];
    for (uint32_t i = 0; i < operations; i++) {
        char name[CELL_NAME_SIZE];
        cell_new_name(&run->cell, coordinator, name);
        int64_t start_ns = now_ns();
        hf_lock *lock = cell_take(run->client, name);
        times[i] = (double)(now_ns() - start_ns) / 1e3;
        bool good = lock != NULL && hf_release(lock) == 0;
        hf_close(lock);
        if (!good) {
            return complain("%s: not taken", name);
        }
    }
    *out = percentile(times, operations, 0.5);
    return 0;
}

static int first_round(struct first_run *run, uint32_t operations)
{
    struct floor_times floor;
    double here;
    double there;
    if (first_acquires(run, 0, operations, &here) != 0 ||
        floors_measure(&run->floors, operations, 0, &floor) != 0 ||
        first_acquires(run, 1, operations, &there) != 0) {
        return -1;
    }
    series_add(run->here, here);
    series_add(run->there, there);
    series_add(run->socket, floor.socket);
    series_add(run->transport, floor.transport);
    series_add(run->flush, floor.flush);
    series_add(run->flush_3, floor.flush_3);
    series_add(run->floor_here, floor.socket + floor.transport + floor.flush_3);
    series_add(run->floor_there, floor.socket + 2 * floor.transport + floor.flush_3);
    return 0;
}

static int measure_first(struct first_run *run, const struct bench *bench)
{
    uint32_t operations = bench->effort.quick ? OPERATIONS_QUICK : OPERATIONS;
    double warm_up;
    if (first_acquires(run, 0, operations, &warm_up) != 0 ||
        first_acquires(run, 1, operations, &warm_up) != 0) {
        return -1;
    }
    for (size_t round = 0; round < bench->effort.rounds; round++) {
        if (interrupted() || first_round(run, operations) != 0) {
            return -1;
        }
    }
    return 0;
}

int figure_cell_first(const struct bench *bench, struct figure *figure)
{
    struct first_run run = {.client = NULL};
    run.here = &figure_side(figure, "new name, coordinated on this host", "us", 1)->series;
    run.floor_here = &figure_side(figure, "  the floors' sum", "us", 1)->series;
    run.there = &figure_side(figure, "new name, coordinated on another", "us", 1)->series;
    run.floor_there = &figure_side(figure, "  the floors' sum", "us", 1)->series;
    run.socket = &figure_side(figure, "floor: round trip over a socket", "us", 1)->series;
    run.transport = &figure_side(figure, "floor: round trip between inboxes", "us", 1)->series;
    run.flush = &figure_side(figure, "flush of one store alone", "us", 1)->series;
    run.flush_3 = &figure_side(figure, "floor: flush with three at once", "us", 1)->series;

    int result = floors_start(&run.floors, bench->directory);
    if (result == 0) {
        result = cell_start(&run.cell, bench->directory, "5s");
    }
    if (result == 0) {
        run.client = cell_connect(&run.cell, 0);
        result = run.client == NULL ? -1 : measure_first(&run, bench);
    }
    hf_disconnect(run.client);
    cell_stop(&run.cell);
    floors_stop(&run.floors);
    figure_verdict(figure, "coordinated here / its floors",
                   series_median(run.here) / series_median(run.floor_here), BOUND_AT_MOST, 1.3);
    figure_verdict(figure, "coordinated elsewhere / its floors",
                   series_median(run.there) / series_median(run.floor_there), BOUND_AT_MOST, 1.3);
    snprintf(figure->note, sizeof(figure->note),
             "each value is the median of %d; elsewhere: one more round trip between inboxes",
             bench->effort.quick ? OPERATIONS_QUICK : OPERATIONS);
    return result;
}
