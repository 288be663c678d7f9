/*
 * Two figures. The first is the effect on the other hosts, under load, when the bench kills a voter
 * that coordinates a third of the names. The second is how long a lock stays closed after its
 * holder's host is gone.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cell_load.h"
#include "cell_preload.h"
#include "figures.h"

enum { KILLS = 5, KILLS_QUICK = 2, DEATHS = 3, DEATHS_QUICK = 1 };
enum { REGISTERS = 100000, REGISTERS_QUICK = 5000 };

static const int64_t warm_up_ns = INT64_C(500000000);
static const int64_t window_ns = INT64_C(1500000000);
static const int64_t timeout_ns = INT64_C(20000000000);

/* Puts load on the two other hosts. Measures a quiet window, kills the victim, and measures another
 * window. Then starts the victim again. */
static int kill_once(struct cell *cell, uint32_t victim, uint32_t series, struct load_window *quiet,
                     struct load_window *after)
{
    static struct load load;
    int result = load_start(&load, cell, 1U << victim, series);
    pause_ns(warm_up_ns);
    int64_t start_ns = now_ns();
    pause_ns(window_ns);
    int64_t killed_ns = now_ns();
    if (result == 0) {
        agent_kill(&cell->agents[victim]);
    }
    pause_ns(window_ns);
    int64_t end_ns = now_ns();
    if (load_stop(&load) != 0) {
        result = -1;
    }
    if (result == 0) {
        result = load_look(&load, start_ns, killed_ns, victim, quiet);
    }
    if (result == 0) {
        result = load_look(&load, killed_ns, end_ns, victim, after);
    }
    load_free(&load);
    if (result == 0 && cell_launch(cell, victim) == 0) {
        return cell_await(cell);
    }
    return -1;
}

int figure_cell_killed(const struct bench *bench, struct figure *figure)
{
    struct cell cell;
    uint32_t kills = bench->effort.quick ? KILLS_QUICK : KILLS;
    uint32_t registers = bench->effort.quick ? REGISTERS_QUICK : REGISTERS;
    struct side *longest = figure_side(figure, "longest wait beyond the usual (p50)", "ms", 1);
    struct side *usual = figure_side(figure, "  the usual, undisturbed p50", "ms", 2);
    struct side *before = figure_side(figure, "  longest wait, undisturbed", "ms", 1);
    struct side *tail = figure_side(figure, "others' names, p99.9 after a kill", "ms", 1);
    struct side *tail_before = figure_side(figure, "  p99.9 undisturbed", "ms", 1);
    int result = cell_preload(&cell, bench->directory, "5s", registers);
    for (uint32_t i = 0; result == 0 && i < CELL_HOSTS; i++) {
        result = cell_launch(&cell, i);
    }
    if (result == 0) {
        result = cell_await(&cell);
    }
    for (uint32_t i = 0; result == 0 && i < kills; i++) {
        struct load_window quiet;
        struct load_window after;
        result = interrupted() ? -1 : kill_once(&cell, i % CELL_HOSTS, i, &quiet, &after);
        if (result == 0) {
            series_add(&longest->series, (after.longest_us - quiet.median_us) / 1e3);
            series_add(&usual->series, quiet.median_us / 1e3);
            series_add(&before->series, quiet.longest_us / 1e3);
            series_add(&tail->series, after.tail_us / 1e3);
            series_add(&tail_before->series, quiet.tail_us / 1e3);
        }
    }
    cell_stop(&cell);
    figure_verdict(figure, "ms that a client waits beyond its usual", series_max(&longest->series),
                   BOUND_AT_MOST, 200);
    figure_verdict(figure, "others' p99.9 / the largest undisturbed",
                   series_median(&tail->series) / series_max(&tail_before->series), BOUND_AT_MOST,
                   1);
    snprintf(figure->note, sizeof(figure->note),
             "%u kills of a voter that coordinates a third of the names, %u registers, %d clients "
             "on the two other hosts; undisturbed is the window before each",
             kills, registers, LOAD_CLIENTS);
    return result;
}

/* ---- the holder's host is gone ---- */

/* Measures the time in s from the kill of host 0 until host 1 has the lock that host 0 held. */
static int lose_once(struct cell *cell, uint32_t coordinator, double *out)
{
    char name[CELL_NAME_SIZE];
    hf_client *holder = cell_connect(cell, 0);
    hf_client *next = cell_connect(cell, 1);
    hf_lock *lock = NULL;
    hf_lock *wanted = NULL;
    int64_t lost_ns = 0;
    int error = HF_ENOAGENT;
    cell_new_name(cell, coordinator, name);
    if (holder != NULL && next != NULL) {
        lock = cell_take(holder, name);
        error = lock == NULL ? HF_ENOAGENT : hf_open(next, name, NULL, &wanted);
    }
    if (error == 0) {
        agent_kill(&cell->agents[0]);
        lost_ns = now_ns();
        error = hf_acquire(wanted, HF_EXCLUSIVE, timeout_ns, NULL);
        *out = (double)(now_ns() - lost_ns) / 1e9;
    }
    if (error == 0) {
        error = hf_release(wanted);
    }
    hf_close(wanted);
    hf_disconnect(next);
    hf_close(lock);
    hf_disconnect(holder);
    if (error != 0) {
        return complain("%s: %s", name, hf_strerror(error));
    }
    return cell_launch(cell, 0) == 0 ? cell_await(cell) : -1;
}

int figure_cell_vanished(const struct bench *bench, struct figure *figure)
{
    static const double ttl_s = 2;
    static const double delay_s = 1;
    struct cell cell;
    uint32_t deaths = bench->effort.quick ? DEATHS_QUICK : DEATHS;
    struct side *closed = figure_side(figure, "from the host's end to the next holder", "s", 2);
    int result = cell_start(&cell, bench->directory, "2s");
    for (uint32_t i = 0; result == 0 && i < deaths; i++) {
        double took_s = 0;
        result = interrupted() ? -1 : lose_once(&cell, 1 + i % 2, &took_s);
        series_add(&closed->series, took_s);
    }
    cell_stop(&cell);
    figure_verdict(figure, "longest / (session_ttl + lock-delay)",
                   series_max(&closed->series) / (ttl_s + delay_s), BOUND_AT_MOST, 1.3);
    snprintf(figure->note, sizeof(figure->note),
             "session_ttl %.0f s, lock-delay %.0f s, max_drift 10 %%; the agent is killed, another "
             "host waits",
             ttl_s, delay_s);
    return result;
}
