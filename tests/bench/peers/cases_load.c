/*
 * Cases 1 to 6: the cost of a lock and of its hand-overs while nothing goes wrong.
 *
 * A closed loop measures how many pairs (acquire and release) are possible. An open loop measures
 * latencies, at half of the rate of the closed loop just before, but at most at lone_rate_max or
 * crowd_rate_max. So a slower peer gets a slower load. The table shows the rate of the load.
 *
 * The contended locks (cases 4 and 5) have no open loop: in a queue that is never empty, only the
 * hand-over has a meaning. The time of a hand-over begins when one client calls release(), and
 * ends when the other client's acquire() returns.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"

/* the greatest rate, in pairs per second, of an open loop with one client; this client waits by
 * polling the clock */
static const double lone_rate_max = 10000;
/* the greatest rate for each of several clients, which sleep between their pairs */
static const double crowd_rate_max = 100;
static const double second = 1e9;

struct shape {
    const char *name;
    uint32_t workers; /* 0: one worker on each host, and the workers alternate */
    enum load_names names;
    uint32_t reader_percent;
    bool across_hosts;
    bool open_loop;
};

static void report_faults(struct results *results, const struct shape *shape,
                          const struct peer_run *run, const struct load_result *result)
{
    uint64_t broken = result->strangers + result->lost_updates + result->tokens_not_rising;
    if (broken != 0) {
        results_note(results, shape->name, run->kind->title,
                     "EXCLUSION BROKEN: %llu strangers inside, %llu updates lost, %llu tokens "
                     "that did not rise",
                     (unsigned long long)result->strangers,
                     (unsigned long long)result->lost_updates,
                     (unsigned long long)result->tokens_not_rising);
    }
    if (result->timeouts + result->holds_lost != 0) {
        results_note(results, shape->name, run->kind->title,
                     "%llu acquires given up after 20 s, %llu holds lost before their release",
                     (unsigned long long)result->timeouts, (unsigned long long)result->holds_lost);
    }
    results_add(results, shape->name, run->kind->title, "broken", "", BETTER_LOWER, (double)broken);
}

static void add_percentiles(struct results *results, const struct shape *shape, const char *peer,
                            const char *what, const struct histogram *histogram)
{
    static const struct {
        const char *word;
        double share;
    } shares[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}};
    for (size_t i = 0; histogram->total > 0 && i < sizeof(shares) / sizeof(shares[0]); i++) {
        char name[40];
        snprintf(name, sizeof(name), "%s %s", what, shares[i].word);
        results_add(results, shape->name, peer, name, "ns", BETTER_LOWER,
                    (double)histogram_at(histogram, shares[i].share));
    }
    if (histogram->total > 0) {
        results_histogram(results, shape->name, peer, what, histogram);
    }
}

static void report_closed(struct results *results, const struct shape *shape,
                          const struct peer_run *run, const struct load_result *result)
{
    const char *peer = run->kind->title;
    double seconds = (double)result->took_ns / second;
    double pairs = (double)result->pairs;
    bool contended = shape->names == LOAD_SAME && shape->reader_percent == 0;
    if (contended) {
        results_add(results, shape->name, peer, "hand-overs", "/s", BETTER_HIGHER,
                    (double)result->handovers / seconds);
    }
    results_add(results, shape->name, peer, "pairs", "/s", BETTER_HIGHER, pairs / seconds);
    if (shape->names == LOAD_SAME) {
        add_percentiles(results, shape, peer, contended ? "hand-over" : "wait",
                        contended ? &result->handover : &result->wait);
        results_add(results, shape->name, peer, "least / most served", "", BETTER_HIGHER,
                    result->most == 0 ? 0 : (double)result->least / (double)result->most);
    }
    if ((run->kind->features & PEER_IS_SERVICE) != 0 && result->pairs != 0) {
        double each = (double)result->cpu_ns / (contended ? (double)result->handovers : pairs);
        results_add(results, shape->name, peer,
                    contended ? "server time a hand-over" : "server time a pair", "ns",
                    BETTER_LOWER, each);
    }
}

static int measure_open(const struct bench_plan *plan, struct peer_run *run,
                        const struct shape *shape, struct load *load, double closed_rate,
                        struct load_result *result, struct results *results)
{
    double rate_max = load->workers == 1 ? lone_rate_max : crowd_rate_max * load->workers;
    load->rate = closed_rate / 2 < rate_max ? closed_rate / 2 : rate_max;
    if (load->rate * (double)plan->measure_ns / second < load->workers) {
        results_note(results, shape->name, run->kind->title, "too slow for an open loop");
        return 0;
    }
    if (load_run(run, load, result) != 0) {
        return -1;
    }
    results_add(results, shape->name, run->kind->title, "at rate", "/s", BETTER_NEITHER,
                load->rate);
    add_percentiles(results, shape, run->kind->title, "pair", &result->pair);
    report_faults(results, shape, run, result);
    return 0;
}

/* Adds the columns in their order, because the peer that is measured first may have no value for
 * some of them. */
static void place_columns(struct results *results, const struct shape *shape)
{
    static const char *const columns[] = {"hand-overs",
                                          "pairs",
                                          "at rate",
                                          "pair p50",
                                          "pair p99",
                                          "pair p99.9",
                                          "hand-over p50",
                                          "wait p50",
                                          "hand-over p99",
                                          "wait p99",
                                          "hand-over p99.9",
                                          "wait p99.9",
                                          "least / most served",
                                          "server time a pair",
                                          "server time a hand-over",
                                          "broken"};
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        results_column(results, shape->name, columns[i]);
    }
}

static int measure_shape(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                         const struct shape *shape, struct results *results)
{
    char tag[64];
    /* on the heap: its histograms are too large for a stack */
    struct load_result *result = malloc(sizeof(*result));
    struct load load = {
        .workers = shape->workers,
        .hosts = shape->across_hosts ? run->kind->hosts : 1,
        .names = shape->names,
        .reader_percent = shape->reader_percent,
        .alternate = shape->workers == 0,
        .warm_ns = plan->warm_ns,
        .measure_ns = plan->measure_ns,
        .tag = tag,
    };
    snprintf(tag, sizeof(tag), "%s-closed-%u", shape->name, repetition);
    place_columns(results, shape);
    if (load.workers == 0) {
        load.workers = run->kind->hosts;
    }
    if (result == NULL) {
        return complain("no memory");
    }
    int status = load_run(run, &load, result);
    if (status == 0) {
        report_closed(results, shape, run, result);
        report_faults(results, shape, run, result);
    }
    if (status == 0 && shape->open_loop) {
        double closed_rate = (double)result->pairs * second / (double)result->took_ns;
        snprintf(tag, sizeof(tag), "%s-open-%u", shape->name, repetition);
        status = measure_open(plan, run, shape, &load, closed_rate, result, results);
    }
    free(result);
    return status;
}

static int measure_alone(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                         struct results *results)
{
    static const struct shape shape = {"alone", 1, LOAD_OWN, 0, false, true};
    return measure_shape(plan, run, repetition, &shape, results);
}

static int measure_sixteen(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                           struct results *results)
{
    static const struct shape shape = {"sixteen", 16, LOAD_OWN, 0, true, true};
    return measure_shape(plan, run, repetition, &shape, results);
}

static bool has_no_names(const struct peer_run *run, const char *name, struct results *results)
{
    if ((run->kind->features & PEER_NO_NAMES) == 0) {
        return false;
    }
    results_word(results, name, run->kind->title, "pairs", "no names");
    return true;
}

/* One client measures the time of a pair; sixteen clients measure how many pairs are possible. */
static int measure_names(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                         struct results *results)
{
    static const struct shape shape = {"names", 1, LOAD_FRESH, 0, false, true};
    return has_no_names(run, shape.name, results)
               ? 0
               : measure_shape(plan, run, repetition, &shape, results);
}

static int measure_names16(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                           struct results *results)
{
    static const struct shape shape = {"names16", 16, LOAD_FRESH, 0, true, false};
    return has_no_names(run, shape.name, results)
               ? 0
               : measure_shape(plan, run, repetition, &shape, results);
}

static int measure_crowd(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                         struct results *results)
{
    static const struct shape shape = {"crowd", 8, LOAD_SAME, 0, false, false};
    return measure_shape(plan, run, repetition, &shape, results);
}

static int measure_hosts(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                         struct results *results)
{
    static const struct shape shape = {"hosts", 0, LOAD_SAME, 0, true, false};
    return measure_shape(plan, run, repetition, &shape, results);
}

static int measure_readers(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                           struct results *results)
{
    static const struct shape shape = {"readers", 8, LOAD_SAME, 90, false, false};
    return measure_shape(plan, run, repetition, &shape, results);
}

const struct bench_case bench_cases_load[] = {
    {"alone", "1. one client, its own lock, again and again", 0, false, measure_alone},
    {"sixteen", "2. sixteen clients, each its own lock", 0, false, measure_sixteen},
    {"names", "3. names never used before, one client", 0, false, measure_names},
    {"names16", "3b. names never used before, sixteen clients", 0, false, measure_names16},
    {"crowd", "4. eight clients on one lock of one host", 0, false, measure_crowd},
    {"hosts", "5. clients on two hosts (Holdfast: on three) alternating on one lock",
     PEER_ACROSS_HOSTS, false, measure_hosts},
    {"readers", "6. eight clients, readers and writers 90:10 on one lock", PEER_HAS_SHARED, false,
     measure_readers},
    {NULL, NULL, 0, false, NULL},
};
