/*
 * The cost in tokens of a hand-over to another host: how many leased tokens no hold ever gets, and
 * how many ranges the host leased for the holds before the hand-over. docs/TIMEOUTS.md, "How long
 * tokens last", has the budget.
 */
#include <stdio.h>

#include "cell.h"
#include "figures.h"

enum { TURNS = 8, TURNS_QUICK = 2, MANY = 10000 };

/* The number of tokens that may be lost if the holder's host is killed after MANY holds: a quarter
 * of the used tokens and 13,312 (docs/TIMEOUTS.md). */
static const double lost_max = MANY / 4.0 + 13312;
static const int64_t timeout_ns = INT64_C(20000000000);

/* Takes the lock `holds` times. Returns the tokens of the first and the last hold. */
static int hold_often(hf_lock *lock, uint32_t holds, uint64_t *first, uint64_t *last)
{
    for (uint32_t i = 0; i < holds; i++) {
        struct hf_hold hold;
        int error = hf_acquire(lock, HF_EXCLUSIVE, timeout_ns, &hold);
        error = error == 0 ? hf_release(lock) : error;
        if (error != 0) {
            return complain("tokens: %s", hf_strerror(error));
        }
        *first = i == 0 ? hold.token : *first;
        *last = hold.token;
    }
    return 0;
}

/* Calls hold_often(), and counts the token ranges that the host leased for these holds. */
static int hold_and_count(const struct cell *cell, hf_lock *lock, uint32_t holds, uint64_t *last,
                          double *ranges)
{
    struct cell_traffic before;
    struct cell_traffic after;
    uint64_t first = 0;
    /* hf_open() leased the first range before this reading. The 1 below counts that range. */
    int result = cell_read_traffic(cell, 0, &before);
    result = result == 0 ? hold_often(lock, holds, &first, last) : result;
    result = result == 0 ? cell_read_traffic(cell, 0, &after) : result;
    *ranges = result == 0 ? 1 + (double)(after.token_ranges - before.token_ranges) : 0;
    return result;
}

/* The cost of a hand-over: the tokens that no hold got, and the ranges leased before it. */
struct cost {
    double lost;
    double ranges;
};

/* Host 0 takes a new lock `holds` times, and is killed if `unclean`. Then `next` takes the lock.
 * The loss is the gap between the last token of host 0 and the first token of `next`. */
static int pass_once(struct cell *cell, hf_client *next, uint32_t holds, bool unclean,
                     struct cost *cost)
{
    char name[CELL_NAME_SIZE];
    uint64_t last = 0;
    uint64_t after = 0;
    hf_lock *lock = NULL;
    hf_lock *wanted = NULL;
    hf_client *holder = cell_connect(cell, 0);
    cell_new_name(cell, 1, name);
    int result = holder == NULL ? -1 : 0;
    if (result == 0 &&
        (hf_open(holder, name, NULL, &lock) != 0 || hf_open(next, name, NULL, &wanted) != 0)) {
        result = complain("tokens: %s cannot be opened", name);
    }
    result = result == 0 ? hold_and_count(cell, lock, holds, &last, &cost->ranges) : result;
    if (result == 0 && unclean) {
        agent_kill(&cell->agents[0]);
    }
    result = result == 0 ? hold_often(wanted, 1, &after, &after) : result;
    cost->lost = (double)(after - last - 1);
    hf_close(wanted);
    hf_close(lock);
    hf_disconnect(holder);
    if (result == 0 && unclean) {
        result = cell_launch(cell, 0) == 0 ? cell_await(cell) : -1;
    }
    return result;
}

int figure_cell_tokens(const struct bench *bench, struct figure *figure)
{
    static const struct {
        const char *label;
        uint32_t holds;
        bool unclean;
    } kinds[] = {
        {"given back after 1 hold", 1, false},
        {"given back after 10,000", MANY, false},
        {"agent killed after 1 hold", 1, true},
        {"agent killed after 10,000", MANY, true},
    };
    struct cell cell;
    uint32_t turns = bench->effort.quick ? TURNS_QUICK : TURNS;
    int result = cell_start(&cell, bench->directory, "2s");
    hf_client *next = result == 0 ? cell_connect(&cell, 1) : NULL;
    double worst = 0;
    result = next == NULL ? -1 : result;
    for (uint32_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
        struct side *lost = figure_side(figure, kinds[kind].label, "tokens", 0);
        struct side *ranges = figure_side(figure, "  ranges leased for that", "", 0);
        for (uint32_t i = 0; result == 0 && i < turns; i++) {
            struct cost cost = {0};
            result = interrupted()
                         ? -1
                         : pass_once(&cell, next, kinds[kind].holds, kinds[kind].unclean, &cost);
            series_add(&lost->series, cost.lost);
            series_add(&ranges->series, cost.ranges);
            worst = cost.lost > worst ? cost.lost : worst;
        }
    }
    hf_disconnect(next);
    cell_stop(&cell);
    figure_verdict(figure, "most tokens lost / a quarter of those used, and 13,312",
                   worst / lost_max, BOUND_AT_MOST, 1);
    snprintf(figure->note, sizeof(figure->note),
             "%u hand-overs of each kind; lost: leased and never handed out", turns);
    return result;
}
