/*
 * The parts that all comparisons of the bench share: the clock, a series of measured values, rounds
 * that alternate between two contenders, and a figure with its verdicts, printed as text or JSON.
 *
 * Most figures compare two things that one run measures in short alternating rounds. So a busy
 * neighbour or a changing clock rate affects both things equally. A figure compares medians, which
 * ignore the few rounds in which something else ran. The bench reports; it never passes or fails.
 *
 * Only the bench's main thread may call these functions unless a comment says otherwise.
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
    SIDES_MAX = 12,
    VERDICTS_MAX = 3,
    NOTE_MAX = 480,
    VERDICT_TEXT_MAX = 80,
};

/* The measured values of one side of a comparison, one value for each round. */
struct series {
    double values[SERIES_MAX];
    size_t count;
};

void series_add(struct series *series, double value);
double series_median(const struct series *series);
double series_max(const struct series *series);

/* Sorts the values and returns the value at the fraction `share` of them (0.5: the median). Returns
 * 0 if there are no values. */
double percentile(double *values, size_t count, double share);

/* One line of a figure's table. `decimals` is the number of decimals to print. */
struct side {
    const char *label;
    const char *unit;
    int decimals;
    struct series series;
};

enum bound_kind { BOUND_AT_MOST, BOUND_AT_LEAST };

/* A value and the target that it is compared with. */
struct verdict {
    char text[VERDICT_TEXT_MAX]; /* what the value is: "holdfast / floor" */
    double value;
    enum bound_kind kind;
    double bound;
};

struct figure {
    const char *name; /* the word after --only */
    const char *what;
    struct side sides[SIDES_MAX];
    size_t side_count;
    struct verdict verdicts[VERDICTS_MAX];
    size_t verdict_count;
    char note[NOTE_MAX]; /* what a reader must know to understand the values; "" if nothing */
};

/* Adds a side to the figure, which owns it, and returns it. label and unit are static texts. */
struct side *figure_side(struct figure *figure, const char *label, const char *unit, int decimals);
void figure_verdict(struct figure *figure, const char *text, double value, enum bound_kind kind,
                    double bound);
bool verdict_met(const struct verdict *verdict);

/* How long a comparison measures, from the command line. */
struct effort {
    bool quick;
    size_t rounds;
    int64_t round_ns;
};

/* The input of a comparison. */
struct bench {
    const char *directory; /* on the measured disk; agents keep their state below it */
    struct effort effort;
};

/* Returns the time of CLOCK_BOOTTIME in ns. Any thread may call this function. */
int64_t now_ns(void);

/* Sleeps for duration_ns, or until the bench is interrupted. */
void pause_ns(int64_t duration_ns);

/* Does the contender's operation `times` times. Returns 0, or -1 after complain(). */
typedef int repeat_fn(void *arg, uint64_t times);

struct contender {
    repeat_fn *repeat;
    void *arg;
    struct series *out; /* gets one value a round: nanoseconds per operation */
};

/*
 * Measures the contenders in alternating rounds of effort.round_ns each; every other round begins
 * with the second contender. Returns 0, or -1 after complain().
 */
int measure_in_turns(struct contender contenders[2], struct effort effort) MUST_CHECK;

/* Prints one line "holdfast-bench: ..." on stderr. Always returns -1, so that a caller can write
 * `return complain(...)`. Any thread may call this function. */
int complain(const char *format, ...) PRINTF_LIKE(1, 2);

/* Prints the last lines of a program's log on stderr, to show why it failed. */
void log_show_end(const char *program, const char *path);

/* From this call on, SIGINT and SIGTERM end the run only after the present round, so that the bench
 * can stop its agents and remove its files. */
int catch_interrupts(void) MUST_CHECK;
bool interrupted(void);

void figure_print_text(const struct figure *figure);
void figure_print_json(const struct figure *figure);

#endif
