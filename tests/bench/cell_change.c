/*
 * Replaces a voter of a cell under load by another host. The bench reports how long the replacement
 * takes, and the longest wait of any client during it, next to the longest wait of the undisturbed
 * cell. In each round an observer takes the place of a voter, and the voter becomes the observer of
 * the next round.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cell_load.h"
#include "cell_preload.h"
#include "figures.h"

enum { ROUNDS = 6, ROUNDS_QUICK = 2 };
enum { REGISTERS = 100000, REGISTERS_QUICK = 5000 };
enum { NEWCOMER = CELL_HOSTS, REPLACED = CELL_HOSTS - 1 };

static const int64_t warm_up_ns = INT64_C(500000000);
/* About as long as a replacement. An undisturbed cell has stalls, too, every few seconds, which a
 * shorter window would miss. */
static const int64_t window_ns = INT64_C(20000000000);
static const int64_t window_quick_ns = INT64_C(3000000000);
static const int64_t settle_ns = INT64_C(2000000000);
static const int64_t second_ns = INT64_C(1000000000);

/* The times of one replacement, in s. */
struct replacement {
    double copied_s;  /* until the newcomer has what the voters have */
    double decided_s; /* until the record with the newcomer is in force */
    double took_s;    /* until the old voter may be switched off */
};

static int launch_newcomer(const struct cell *cell, struct agent *newcomer)
{
    char config[CELL_CONFIG_MAX];
    snprintf(config, sizeof(config),
             "[agent]\nname = host-d\ncell = bench\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\nrole = observer\n"
             "[cell]\nsession_ttl = %s\nlisten = tcp://127.0.0.1:%u\n"
             "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
             "host-c = tcp://127.0.0.1:%u\n",
             cell->ttl, cell->ports[NEWCOMER], cell->ports[0], cell->ports[1], cell->ports[2]);
    return agent_launch(newcomer, config) == 0 ? agent_await_answer(newcomer) : -1;
}

/* Runs `holdfast member replace` on host 0, and notes the times at which the command prints its
 * stages. */
static int replace(const struct cell *cell, uint32_t old, uint32_t new, struct replacement *out)
{
    char program[AGENT_PATH_MAX];
    char command[3 * AGENT_PATH_MAX];
    char line[256];
    char last[256] = "";
    if (agent_program("holdfast", program, sizeof(program)) != 0) {
        return -1;
    }
    snprintf(command, sizeof(command),
             "exec %s -s %s member replace host-%c host-%c tcp://127.0.0.1:%u --wait 60s 2>&1",
             program, cell->agents[0].socket, 'a' + (int)old, 'a' + (int)new, cell->ports[new]);
    int64_t start_ns = now_ns();
    FILE *pipe = popen(command, "re");
    if (pipe == NULL) {
        return complain("%s: %s", command, strerror(errno));
    }
    *out = (struct replacement){.took_s = 0};
    while (fgets(line, sizeof(line), pipe) != NULL) {
        double seconds = (double)(now_ns() - start_ns) / (double)second_ns;
        if (out->copied_s == 0 && strstr(line, "the voters decide") != NULL) {
            out->copied_s = seconds;
        }
        if (out->copied_s == 0 && strstr(line, "decided; the cell settles") != NULL) {
            out->copied_s = seconds; /* the copying was too short to be printed */
        }
        if (out->decided_s == 0 && strstr(line, "decided; the cell settles") != NULL) {
            out->decided_s = seconds;
        }
        snprintf(last, sizeof(last), "%s", line);
    }
    int status = pclose(pipe);
    out->took_s = (double)(now_ns() - start_ns) / (double)second_ns;
    return status == 0 ? 0 : complain("status %x: %s", (unsigned)status, last);
}

/* The waits of the clients in one round. */
struct waits {
    struct load_window quiet;  /* before the replacement */
    struct load_window during; /* the whole replacement */
    struct load_window after;  /* of the replacement: from when the newcomer has the registers */
};

/* Measures a quiet window and then a replacement, under one load. */
static int replace_once(struct cell *cell, uint32_t round, int64_t quiet_ns, struct waits *waits,
                        struct replacement *times)
{
    static struct load load;
    uint32_t old = round % 2 == 0 ? REPLACED : NEWCOMER;
    uint32_t new = round % 2 == 0 ? NEWCOMER : REPLACED;
    int result = load_start(&load, cell, 0, round);
    pause_ns(warm_up_ns);
    int64_t start_ns = now_ns();
    pause_ns(quiet_ns);
    int64_t asked_ns = now_ns();
    if (result == 0) {
        result = replace(cell, old, new, times);
    }
    int64_t end_ns = now_ns();
    if (load_stop(&load) != 0) {
        result = -1;
    }
    if (result == 0) {
        result = load_look(&load, start_ns, asked_ns, CELL_HOSTS, &waits->quiet);
    }
    if (result == 0) {
        result = load_look(&load, asked_ns, end_ns, CELL_HOSTS, &waits->during);
    }
    if (result == 0) {
        int64_t copied_ns = asked_ns + (int64_t)(times->copied_s * (double)second_ns);
        result = load_look(&load, copied_ns, end_ns, CELL_HOSTS, &waits->after);
    }
    load_free(&load);
    return result;
}

/* Restarts the host that was replaced. Its agent then empties its store, so that the host may
 * become a voter again. */
static int empty(struct cell *cell, struct agent *newcomer, uint32_t round)
{
    pause_ns(settle_ns); /* by then the agent has stored that its removal is complete */
    if (round % 2 != 0) {
        agent_end(newcomer);
        return launch_newcomer(cell, newcomer);
    }
    agent_end(&cell->agents[REPLACED]);
    return cell_launch(cell, REPLACED) == 0 ? agent_await_answer(&cell->agents[REPLACED]) : -1;
}

/* Starts a cell whose stores have many registers. Also starts the newcomer. */
static int begin(const struct bench *bench, const char *ttl, uint32_t registers, struct cell *cell,
                 struct agent *newcomer)
{
    int result = cell_preload(cell, bench->directory, ttl, registers);
    for (uint32_t i = 0; result == 0 && i < CELL_HOSTS; i++) {
        result = cell_launch(cell, i);
    }
    if (result == 0) {
        result = cell_await(cell);
    }
    if (result == 0) {
        result = agent_prepare(newcomer, bench->directory);
    }
    return result == 0 ? launch_newcomer(cell, newcomer) : -1;
}

static void end(struct cell *cell, struct agent *newcomer)
{
    agent_stop(newcomer);
    cell_stop(cell);
}

/* Measures a replacement without load. */
static int replace_at_rest(const struct bench *bench, const char *ttl, uint32_t registers,
                           struct replacement *times)
{
    struct cell cell;
    struct agent newcomer = {.pid = 0};
    int result = begin(bench, ttl, registers, &cell, &newcomer);
    if (result == 0) {
        result = replace(&cell, REPLACED, NEWCOMER, times);
    }
    end(&cell, &newcomer);
    return result;
}

int figure_cell_replaced(const struct bench *bench, struct figure *figure)
{
    struct cell cell;
    struct agent newcomer = {.pid = 0};
    struct replacement rest = {.took_s = 0};
    struct replacement slow = {.took_s = 0};
    uint32_t rounds = bench->effort.quick ? ROUNDS_QUICK : ROUNDS;
    uint32_t registers = bench->effort.quick ? REGISTERS_QUICK : REGISTERS;
    int64_t quiet_ns = bench->effort.quick ? window_quick_ns : window_ns;
    struct side *longest = figure_side(figure, "longest wait during a replacement", "ms", 1);
    struct side *tail = figure_side(figure, "  p99.9 during it", "ms", 1);
    struct side *after = figure_side(figure, "  longest wait once it is copied", "ms", 1);
    struct side *quiet_longest = figure_side(figure, "  longest wait, undisturbed", "ms", 1);
    struct side *quiet_tail = figure_side(figure, "  p99.9 undisturbed", "ms", 1);
    struct side *copied = figure_side(figure, "until the newcomer has the registers", "s", 2);
    struct side *decided = figure_side(figure, "until the newcomer is a voter", "s", 2);
    struct side *took = figure_side(figure, "until the replacement is complete", "s", 2);
    struct side *rest_decided = figure_side(figure, "no load: until it is a voter", "s", 2);
    struct side *rest_took = figure_side(figure, "no load: until complete", "s", 2);
    struct side *slow_took = figure_side(figure, "no load, session_ttl 5 s: until complete", "s",
                                         2);
    int result = begin(bench, "1s", registers, &cell, &newcomer);
    for (uint32_t i = 0; result == 0 && i < rounds; i++) {
        struct waits waits;
        struct replacement times;
        result = interrupted() ? -1 : replace_once(&cell, i, quiet_ns, &waits, &times);
        if (result == 0) {
            series_add(&longest->series, waits.during.longest_us / 1e3);
            series_add(&tail->series, waits.during.tail_us / 1e3);
            series_add(&after->series, waits.after.longest_us / 1e3);
            series_add(&quiet_longest->series, waits.quiet.longest_us / 1e3);
            series_add(&quiet_tail->series, waits.quiet.tail_us / 1e3);
            series_add(&copied->series, times.copied_s);
            series_add(&decided->series, times.decided_s);
            series_add(&took->series, times.took_s);
            result = empty(&cell, &newcomer, i);
        }
    }
    end(&cell, &newcomer);
    if (result == 0) {
        result = replace_at_rest(bench, "1s", registers, &rest);
        series_add(&rest_decided->series, rest.decided_s);
        series_add(&rest_took->series, rest.took_s);
    }
    if (result == 0) {
        result = replace_at_rest(bench, "5s", registers, &slow);
        series_add(&slow_took->series, slow.took_s);
    }
    figure_verdict(figure, "longest wait / undisturbed p99.9",
                   series_median(&longest->series) / series_median(&quiet_tail->series),
                   BOUND_AT_MOST, 2);
    figure_verdict(figure, "s until complete, no load", rest.took_s, BOUND_AT_MOST, 5);
    figure_verdict(figure, "s, the same with session_ttl 5 s", series_median(&slow_took->series),
                   BOUND_AT_MOST, 5);
    snprintf(figure->note, sizeof(figure->note),
             "%u replacements in a cell of 3 voters and %u registers, session_ttl 1 s, %d clients "
             "on all hosts that use new names; undisturbed are the %.0f s before each",
             rounds, registers, LOAD_CLIENTS, (double)quiet_ns / (double)second_ns);
    return result;
}
