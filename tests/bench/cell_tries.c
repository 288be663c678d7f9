/*
 * Measures a try (an acquire with a timeout of 0) on a lock that a process of another host holds:
 * the time until the try fails. One case uses an open handle. The other case opens a name that is
 * new to the trying host.
 */
#include <stdio.h>

#include "cell.h"
#include "figures.h"

enum { TRIES = 200, TRIES_QUICK = 40 };

struct tries_run {
    struct cell cell;
    hf_client *holder; /* a client of host 0 */
    hf_client *other;  /* a client of host 1 */
};

static int try_once(hf_lock *lock)
{
    int error = hf_acquire(lock, HF_EXCLUSIVE, 0, NULL);
    return error == HF_EBUSY ? 0 : complain("a try of a held lock: %s", hf_strerror(error));
}

/* Opens a name and tries it again and again. Stores the times in ms; *first has the time of the
 * open and the first try. */
static int try_held(struct tries_run *run, const char *name, uint32_t tries, double *first,
                    double *times)
{
    hf_lock *lock = NULL;
    int64_t start_ns = now_ns();
    int error = hf_open(run->other, name, NULL, &lock);
    int result = error == 0 ? try_once(lock) : complain("%s: %s", name, hf_strerror(error));
    *first = (double)(now_ns() - start_ns) / 1e6;
    for (uint32_t i = 0; result == 0 && i < tries; i++) {
        start_ns = now_ns();
        result = try_once(lock);
        times[i] = (double)(now_ns() - start_ns) / 1e6;
    }
    hf_close(lock);
    return result;
}

/* Tries one name of each coordinator. The coordinator is the holder's host, the trying host or the
 * third host. */
static int tries_round(struct tries_run *run, uint32_t tries, struct series out[3])
{
    double firsts[CELL_HOSTS];
    double times[CELL_HOSTS * TRIES];
    for (uint32_t coordinator = 0; coordinator < CELL_HOSTS; coordinator++) {
        char name[CELL_NAME_SIZE];
        cell_new_name(&run->cell, coordinator, name);
        hf_lock *held = cell_take(run->holder, name);
        int result = held == NULL ? -1
                                  : try_held(run, name, tries, &firsts[coordinator],
                                             &times[(size_t)coordinator * tries]);
        if (held != NULL && hf_release(held) != 0) {
            result = complain("%s: lost while it was tried", name);
        }
        hf_close(held);
        if (result != 0) {
            return -1;
        }
    }
    series_add(&out[0], percentile(times, (size_t)CELL_HOSTS * tries, 0.5));
    series_add(&out[1], percentile(times, (size_t)CELL_HOSTS * tries, 0.99));
    series_add(&out[2], percentile(firsts, CELL_HOSTS, 1.0));
    return 0;
}

int figure_cell_tries(const struct bench *bench, struct figure *figure)
{
    static struct tries_run run;
    uint32_t tries = bench->effort.quick ? TRIES_QUICK : TRIES;
    struct side *median = figure_side(figure, "a try until it is refused, p50", "ms", 2);
    struct side *tail = figure_side(figure, "  p99", "ms", 2);
    struct side *first = figure_side(figure, "open of a new name and try, longest of 3", "ms", 2);
    struct series out[3] = {{.count = 0}, {.count = 0}, {.count = 0}};
    run = (struct tries_run){.holder = NULL};
    int result = cell_start(&run.cell, bench->directory, "5s");
    if (result == 0) {
        run.holder = cell_connect(&run.cell, 0);
        run.other = cell_connect(&run.cell, 1);
        result = run.holder == NULL || run.other == NULL ? -1 : 0;
    }
    for (size_t i = 0; result == 0 && i < bench->effort.rounds; i++) {
        result = interrupted() ? -1 : tries_round(&run, tries, out);
    }
    median->series = out[0];
    tail->series = out[1];
    first->series = out[2];
    hf_disconnect(run.other);
    hf_disconnect(run.holder);
    cell_stop(&run.cell);
    figure_verdict(figure, "ms until a try is refused, p50", series_median(&median->series),
                   BOUND_AT_MOST, 5);
    figure_verdict(figure, "ms until a try is refused, p99", series_median(&tail->series),
                   BOUND_AT_MOST, 20);
    snprintf(figure->note, sizeof(figure->note),
             "each round has %u tries on a name of each of the three coordinators; a process of "
             "another host holds the lock all the time, and keeps it",
             tries);
    return result;
}
