/*
 * The clock, the series, the alternating rounds and the printing of measure.h.
 *
 * To find how many operations fill a round, the bench doubles their number until a trial lasts long
 * enough to be trusted. Then it scales that number to the round's length. The trial is also the
 * warm-up.
 */
#include "measure.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t second_ns = INT64_C(1000000000);
static volatile sig_atomic_t interrupt_seen;

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double percentile(double *values, size_t count, double share)
{
    if (count == 0) {
        return 0.0;
    }
    qsort(values, count, sizeof(values[0]), compare_doubles);
    size_t at = (size_t)(share * (double)count);
    return values[at < count ? at : count - 1];
}

void series_add(struct series *series, double value)
{
    if (series->count < SERIES_MAX) {
        series->values[series->count++] = value;
    }
}

/* Returns the value at that fraction of the sorted series. Between two values it returns their
 * mean. */
static double series_at(const struct series *series, double fraction)
{
    if (series->count == 0) {
        return 0.0;
    }
    struct series sorted = *series;
    qsort(sorted.values, sorted.count, sizeof(sorted.values[0]), compare_doubles);
    double place = fraction * (double)(sorted.count - 1);
    size_t below = (size_t)place;
    size_t above = below + (place > (double)below ? 1 : 0);
    return (sorted.values[below] + sorted.values[above]) / 2.0;
}

static double series_min(const struct series *series)
{
    return series_at(series, 0.0);
}

double series_median(const struct series *series)
{
    return series_at(series, 0.5);
}

double series_max(const struct series *series)
{
    return series_at(series, 1.0);
}

struct side *figure_side(struct figure *figure, const char *label, const char *unit, int decimals)
{
    if (figure->side_count == SIDES_MAX) {
        abort();
    }
    struct side *side = &figure->sides[figure->side_count++];
    *side = (struct side){.label = label, .unit = unit, .decimals = decimals};
    return side;
}

void figure_verdict(struct figure *figure, const char *text, double value, enum bound_kind kind,
                    double bound)
{
    if (figure->verdict_count == VERDICTS_MAX) {
        abort();
    }
    struct verdict *verdict = &figure->verdicts[figure->verdict_count++];
    *verdict = (struct verdict){.value = value, .kind = kind, .bound = bound};
    snprintf(verdict->text, sizeof(verdict->text), "%s", text);
}

bool verdict_met(const struct verdict *verdict)
{
    return verdict->kind == BOUND_AT_MOST ? verdict->value <= verdict->bound
                                          : verdict->value >= verdict->bound;
}

int64_t now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
        abort();
    }
    return (int64_t)now.tv_sec * second_ns + now.tv_nsec;
}

void pause_ns(int64_t duration_ns)
{
    struct timespec left = {duration_ns / second_ns, duration_ns % second_ns};
    while (!interrupted() && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Measures the time of `times` operations. Returns -1 after complain(). */
static int time_operations(const struct contender *contender, uint64_t times, int64_t *out_ns)
{
    int64_t start_ns = now_ns();
    int result = contender->repeat(contender->arg, times);
    *out_ns = now_ns() - start_ns;
    return result;
}

/* Finds how many operations fill a round of round_ns. */
static int calibrate(const struct contender *contender, int64_t round_ns, uint64_t *out)
{
    const int64_t trial_ns = round_ns / 4;
    uint64_t times = 1;
    for (int doubling = 0; doubling < 40; doubling++) {
        int64_t took_ns = 0;
        if (time_operations(contender, times, &took_ns) != 0) {
            return -1;
        }
        if (took_ns >= trial_ns) {
            double wanted = (double)times * (double)round_ns / (double)took_ns;
            *out = wanted < 1.0 ? 1 : (uint64_t)wanted;
            return 0;
        }
        times *= 2;
    }
    return complain("an operation takes no measurable time");
}

int measure_in_turns(struct contender contenders[2], struct effort effort)
{
    uint64_t times[2];
    for (size_t i = 0; i < 2; i++) {
        if (calibrate(&contenders[i], effort.round_ns, &times[i]) != 0) {
            return -1;
        }
    }
    for (size_t round = 0; round < effort.rounds; round++) {
        for (size_t turn = 0; turn < 2; turn++) {
            size_t i = (turn + round) % 2;
            int64_t took_ns = 0;
            if (time_operations(&contenders[i], times[i], &took_ns) != 0) {
                return -1;
            }
            series_add(contenders[i].out, (double)took_ns / (double)times[i]);
        }
        if (interrupted()) {
            return complain("interrupted");
        }
    }
    return 0;
}

int complain(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "holdfast-bench: %s\n", text);
    return -1;
}

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupt_seen = 1;
}

void log_show_end(const char *program, const char *path)
{
    char text[1600];
    FILE *log = fopen(path, "re");
    if (log == NULL) {
        return;
    }
    if (fseek(log, -(long)sizeof(text) + 1, SEEK_END) != 0) {
        rewind(log);
    }
    size_t size = fread(text, 1, sizeof(text) - 1, log);
    text[size] = '\0';
    fclose(log);
    fprintf(stderr, "---- %s says:\n%s----\n", program, text);
}

int catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    if (sigaction(SIGINT, &action, NULL) != 0 || sigaction(SIGTERM, &action, NULL) != 0) {
        return complain("sigaction: %s", strerror(errno));
    }
    return 0;
}

bool interrupted(void)
{
    return interrupt_seen != 0;
}

static const char *bound_word(enum bound_kind kind)
{
    return kind == BOUND_AT_MOST ? "at most" : "at least";
}

void figure_print_text(const struct figure *figure)
{
    printf("%s: %s\n", figure->name, figure->what);
    printf("  %-40s %-12s %12s %12s %12s\n", "", "", "min", "median", "max");
    for (size_t i = 0; i < figure->side_count; i++) {
        const struct side *side = &figure->sides[i];
        printf("  %-40s %-12s %12.*f %12.*f %12.*f\n", side->label, side->unit, side->decimals,
               series_min(&side->series), side->decimals, series_median(&side->series),
               side->decimals, series_max(&side->series));
    }
    for (size_t i = 0; i < figure->verdict_count; i++) {
        const struct verdict *verdict = &figure->verdicts[i];
        printf("  %s = %.3g; target %s %g: %s\n", verdict->text, verdict->value,
               bound_word(verdict->kind), verdict->bound, verdict_met(verdict) ? "met" : "MISSED");
    }
    if (figure->note[0] != '\0') {
        printf("  Note: %s\n", figure->note);
    }
    printf("\n");
    fflush(stdout);
}

/* Escapes quotes and backslashes only: all strings of a figure come from the bench, and have no
 * other character that JSON escapes. */
static void print_json_string(const char *text)
{
    putchar('"');
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            putchar('\\');
        }
        putchar(*c);
    }
    putchar('"');
}

static void print_json_side(const struct side *side)
{
    printf("{\"label\":");
    print_json_string(side->label);
    printf(",\"unit\":");
    print_json_string(side->unit);
    printf(",\"min\":%.6g,\"median\":%.6g,\"max\":%.6g,\"rounds\":%zu}", series_min(&side->series),
           series_median(&side->series), series_max(&side->series), side->series.count);
}

void figure_print_json(const struct figure *figure)
{
    printf("{\"name\":");
    print_json_string(figure->name);
    printf(",\"what\":");
    print_json_string(figure->what);
    printf(",\"sides\":[");
    for (size_t i = 0; i < figure->side_count; i++) {
        printf("%s", i == 0 ? "" : ",");
        print_json_side(&figure->sides[i]);
    }
    printf("],\"verdicts\":[");
    for (size_t i = 0; i < figure->verdict_count; i++) {
        const struct verdict *verdict = &figure->verdicts[i];
        printf("%s{\"value_of\":", i == 0 ? "" : ",");
        print_json_string(verdict->text);
        printf(",\"value\":%.6g,\"target\":{\"%s\":%g},\"met\":%s}", verdict->value,
               verdict->kind == BOUND_AT_MOST ? "at_most" : "at_least", verdict->bound,
               verdict_met(verdict) ? "true" : "false");
    }
    printf("],\"note\":");
    print_json_string(figure->note);
    printf("}");
}
