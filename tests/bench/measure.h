/*
 * Shared by all comparisons of the bench: the clock, a series of measured values, the rounds that
 * alternate between two contenders, and a figure with its verdicts, printed as text or JSON.
 *
 * A figure is a ratio of two things measured in one run, in short alternating rounds, so that a
 * busy neighbour or a changing clock rate hits both sides alike. It compares medians: they ignore
 * the few rounds in which something else ran. The bench reports; it never passes or fails.
 *
 * Everything here runs on the main thread of the bench unless a comment says otherwise.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(at, first) __attribute__((format(printf, at, first)))

enum {
    SERIES_MAX = 64,
    SIDES_MAX = 10,
    VERDICTS_MAX = 2,
    NOTE_MAX = 480,
    VERDICT_TEXT_MAX = 80,
};

/* The measured values of one side of a comparison, one a round. */
struct series {
    double values[SERIES_MAX];
    size_t count;
};

void series_add(struct series *series, double value);
double series_min(const struct series *series);
double series_median(const struct series *series);
double series_max(const struct series *series);

/* Sorts the values and returns the value at that fraction of them (0.5: the median). Returns 0
 * without values. */
double percentile(double *values, size_t count, double share);

/* One line of a figure's table. decimals: how many are worth printing. */
struct side {
    const char *label;
    const char *unit;
    int decimals;
    struct series series;
};

enum bound_kind { BOUND_AT_MOST, BOUND_AT_LEAST };

/* A value against its target. */
struct verdict {
    char text[VERDICT_TEXT_MAX]; /* the meaning of the value: "holdfast / floor" */
    double value;
    enum bound_kind kind;
    double bound;
};

struct figure {
    const char *name; /* the name for --only */
    const char *what;
    struct side sides[SIDES_MAX];
    size_t side_count;
    struct verdict verdicts[VERDICTS_MAX];
    size_t verdict_count;
    char note[NOTE_MAX]; /* what a reader must know beside the values; "" is none */
};

/* Adds a side to the figure and returns it: the figure owns it. label and unit are static. */
struct side *figure_side(struct figure *figure, const char *label, const char *unit, int decimals);
void figure_verdict(struct figure *figure, const char *text, double value, enum bound_kind kind,
                    double bound);
bool verdict_met(const struct verdict *verdict);

/* The length of a measurement, as the command line sets it. */
struct effort {
    bool quick;
    size_t rounds;
    int64_t round_ns;
};

/* The input of a comparison. */
struct bench {
    const char *directory; /* on the disk that is to be measured; agents keep their state below */
    struct effort effort;
};

/* CLOCK_BOOTTIME in nanoseconds. Any thread. */
int64_t now_ns(void);

/* Sleeps for that long, or until the bench is interrupted. */
void pause_ns(int64_t duration_ns);

/* Does its operation that many times. Returns 0, or -1 after complain(). */
typedef int repeat_fn(void *arg, uint64_t times);

struct contender {
    repeat_fn *repeat;
    void *arg;
    struct series *out; /* gets nanoseconds an operation, one value a round */
};

/*
 * Measures the contenders in alternating rounds of effort.round_ns each; every other round begins
 * with the second contender. Returns 0, or -1 after complain().
 */
int measure_in_turns(struct contender contenders[2], struct effort effort) MUST_CHECK;

/* Prints one line on stderr, "holdfast-bench: ...". Returns -1, so that a caller can return its
 * result. Any thread. */
int complain(const char *format, ...) PRINTF_LIKE(1, 2);

/* Prints the last lines of a program's log on stderr, to show why it failed. */
void log_show_end(const char *program, const char *path);

/* From this call on, SIGINT and SIGTERM end the run only at the next round, so that agents are
 * stopped and files removed. */
int catch_interrupts(void) MUST_CHECK;
bool interrupted(void);

void figure_print_text(const struct figure *figure);
void figure_print_json(const struct figure *figure);

#endif
