/*
 * Draws the results with gnuplot: one SVG for each case with histograms (latency by percentile,
 * with logarithmic axes, like the plots of HdrHistogram), and one for each case with time lines.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "results_store.h"

static const char preamble[] =
    "set terminal svg size 900,640 dynamic noenhanced font 'sans-serif,13' background rgb 'white'\n"
    "set key below Left reverse samplen 3\nset grid\nset logscale y\nset ylabel 'latency'\n"
    "set format y '%.0s %cs'\n"; /* the values are seconds, shown as "1 ms" or "10 us" */

static bool has_histogram(const struct results_row *row)
{
    return row->histogram_count > 0 && row->histograms[0]->total > 0;
}

/* Writes the points (1/(1-fraction), seconds). A point that is less than a twentieth further right
 * than the previous one is left out, so that a plot stays small. */
static void plot_histogram(FILE *gnuplot, const char *label, size_t at,
                           const struct histogram *histogram)
{
    uint64_t seen = 0;
    double drawn = 0;
    fprintf(gnuplot, "$data%zu << END\n", at);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->counts[i];
        double left = (double)histogram->total - (double)seen + (double)histogram->counts[i] / 2;
        double place = left > 0 ? (double)histogram->total / left : 0;
        if (histogram->counts[i] != 0 && place > drawn * 1.05) {
            fprintf(gnuplot, "%.5g %.4g\n", place, (double)histogram_highest(i) / 1e9);
            drawn = place;
        }
    }
    fprintf(gnuplot, "END\nlabel%zu = '%s'\n", at, label);
}

/* Finds the next instant after after_ns that has points, and the highest value of these points. */
static bool next_instant(const struct results_row *row, int64_t after_ns, int64_t *out_at_ns,
                         int64_t *out_value_ns)
{
    bool any = false;
    for (size_t p = 0; p < row->point_count; p++) {
        const struct results_point *point = &row->points[p];
        if (point->at_ns <= after_ns || (any && point->at_ns > *out_at_ns)) {
            continue;
        }
        bool is_earlier = !any || point->at_ns < *out_at_ns;
        *out_value_ns = is_earlier || point->value_ns > *out_value_ns ? point->value_ns
                                                                      : *out_value_ns;
        *out_at_ns = point->at_ns;
        any = true;
    }
    return any;
}

/* Draws all time lines of the row as one line: for each instant, the longest wait of all
 * repetitions. */
static void plot_points(FILE *gnuplot, const struct results_row *row, size_t at)
{
    int64_t at_ns = -1;
    int64_t value_ns = 0;
    fprintf(gnuplot, "$data%zu << END\n", at);
    /* the loop ends, because each instant is later than the previous one */
    while (next_instant(row, at_ns, &at_ns, &value_ns)) {
        fprintf(gnuplot, "%.6f %.9f\n", (double)at_ns / 1e9, (double)value_ns / 1e9);
    }
    fprintf(gnuplot, "END\nlabel%zu = '%s'\n", at, row->peer);
}

/* There are seven colours; further lines are dashed. Holdfast is drawn last, so it is on top. Its
 * line is thick, and red (one host) or black (three hosts). */
static void plot_all(FILE *gnuplot, const bool *is_holdfast, size_t count, bool time_line)
{
    static const char *const colours[] = {"#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd",
                                          "#8c564b", "#17becf", "#e377c2"};
    enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };
    for (size_t i = 0; i < count; i++) {
        bool own = is_holdfast[i];
        const char *colour = !own ? colours[i % COLOURS] : i + 1 == count ? "black" : "#d00000";
        fprintf(gnuplot, "%s $data%zu using 1:2 with ", i == 0 ? "plot" : ",", i);
        if (time_line) {
            fprintf(gnuplot, "linespoints pointtype 7 pointsize 0.3 linewidth %d dashtype %zu",
                    own ? 3 : 1, own ? 1 : 1 + i / COLOURS);
        } else {
            fprintf(gnuplot, "lines linewidth %d dashtype %zu", own ? 4 : 2,
                    own ? 1 : 1 + i / COLOURS);
        }
        fprintf(gnuplot, " linecolor rgb '%s' title label%zu", colour, i);
    }
    fputs("\n", gnuplot);
}

static int plot_table(const struct results_table *table, const char *directory, bool time_line)
{
    bool is_holdfast[RESULTS_ROWS_MAX] = {false};
    size_t count = 0;
    for (size_t r = 0; r < table->row_count; r++) {
        const struct results_row *row = &table->rows[r];
        is_holdfast[count] = strncmp(row->peer, "Holdfast", 8) == 0;
        count += (time_line ? row->point_count > 0 : has_histogram(row)) ? 1 : 0;
    }
    if (count == 0) {
        return 0;
    }
    FILE *gnuplot = popen("gnuplot", "we");
    if (gnuplot == NULL) {
        return complain("gnuplot: %s", strerror(errno));
    }
    fputs(preamble, gnuplot);
    fprintf(gnuplot, "set output '%s/%s%s.svg'\nset title '%s'\n", directory, table->name,
            time_line ? "-time" : "", table->what);
    fputs(time_line ? "set xlabel 'seconds; killed at 0.5' offset 0,0.5\n"
                    : "set logscale x\nset xlabel 'percentile' offset 0,0.5\n"
                      "set xtics ('0' 1, '50' 2, '90' 10, '99' 100, '99.9' 1000, '99.99' 10000)\n",
          gnuplot);
    count = 0;
    for (size_t r = 0; r < table->row_count; r++) {
        const struct results_row *row = &table->rows[r];
        if (time_line && row->point_count > 0) {
            plot_points(gnuplot, row, count++);
        } else if (!time_line && has_histogram(row)) {
            plot_histogram(gnuplot, row->peer, count++, row->histograms[0]);
        }
    }
    plot_all(gnuplot, is_holdfast, count, time_line);
    int status = pclose(gnuplot);
    return status == 0 ? 0 : complain("gnuplot failed for %s (is it there?)", table->name);
}

int results_plot(const struct results *results, const char *directory)
{
    int result = 0;
    if (mkdir(directory, 0755) != 0 && errno != EEXIST) {
        return complain("%s: %s", directory, strerror(errno));
    }
    for (size_t t = 0; t < results->table_count; t++) {
        if (plot_table(&results->tables[t], directory, false) != 0 ||
            plot_table(&results->tables[t], directory, true) != 0) {
            result = -1;
        }
    }
    return result;
}
