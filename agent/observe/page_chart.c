/* The charts of the status page: see page_parts.h. */
#include "observe/page_parts.h"

enum {
    BAR_WIDTH = 5, /* one unit of this width is the space between two bars */
    HEIGHT = 60,
    GAP_HEIGHT = 4, /* the mark of an interval in which the agent did not look */
};

static const int64_t second_ns = 1000000000;

struct series {
    const char *title;
    const char *unit; /* what the sum or the maximum counts */
    uint32_t (*value)(const struct history_point *point);
    bool adds; /* the values of the points can be added */
};

static uint32_t handovers(const struct history_point *point)
{
    return point->handovers;
}

static uint32_t awaited(const struct history_point *point)
{
    return point->awaited;
}

/* Returns how much time all points cover. */
static int64_t covered_s(const struct history *history)
{
    return history->interval_ns / second_ns * HISTORY_POINTS;
}

static void sum_up(const struct history *history, const struct series *series, uint32_t *most,
                   uint64_t *sum)
{
    *most = 0;
    *sum = 0;
    for (uint32_t i = 0; i < history->count; i++) {
        uint32_t value = history->points[i].known ? series->value(&history->points[i]) : 0;
        *most = value > *most ? value : *most;
        *sum += value;
    }
}

/* Adds a path. It has a bar for each known point, or, if `gaps` is true, a mark for each gap. The
 * newest point is at the right end. */
static void bars(struct html *html, const struct history *history, const struct series *series,
                 uint32_t most, bool gaps)
{
    html_add(html, "<path%s d=\"", gaps ? " class=\"gap\"" : "");
    for (uint32_t i = 0; i < history->count; i++) {
        const struct history_point *point = &history->points[i];
        uint32_t value = point->known ? series->value(point) : 0;
        /* A value that is not 0 is at least two units high, so that it can be seen. */
        uint32_t height = most > 0 ? (uint32_t)((uint64_t)value * HEIGHT / most) : 0;
        height = value > 0 && height < 2 ? 2 : height;
        height = gaps ? GAP_HEIGHT : height;
        if (point->known != gaps && height > 0) {
            html_add(html, "M%u %uh%dV%uh-%dz",
                     (HISTORY_POINTS - history->count + i) * (unsigned)BAR_WIDTH, HEIGHT - height,
                     BAR_WIDTH - 1, (unsigned)HEIGHT, BAR_WIDTH - 1);
        }
    }
    html_add(html, "\"/>");
}

static void figure(struct html *html, const struct history *history, const struct series *series)
{
    uint32_t most;
    uint64_t sum;
    sum_up(history, series, &most, &sum);
    html_add(html, "<figure><figcaption><strong>%s</strong><br>", series->title);
    if (most == 0) {
        html_add(html, "none");
    } else if (series->adds) {
        html_count(html, sum, false);
        html_add(html, " in all, at most ");
        html_count(html, most, false);
        html_add(html, " in one bar");
    } else {
        html_add(html, "at most ");
        html_count(html, most, false);
        html_add(html, " at once");
    }
    html_add(html,
             "</figcaption>\n<svg class=\"plot\" viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\""
             " role=\"img\" aria-label=\"%s: ",
             HISTORY_POINTS * BAR_WIDTH, HEIGHT, series->title);
    html_count(html, series->adds ? sum : most, false);
    html_add(html, " %s\">", series->unit);
    bars(html, history, series, most, false);
    bars(html, history, series, most, true);
    html_add(html, "</svg>\n<div class=\"axis\" aria-hidden=\"true\"><span>");
    html_seconds(html, covered_s(history));
    html_add(html, " ago</span><span>now</span></div></figure>\n");
}

void page_history(struct html *html, const struct history *history)
{
    static const struct series both[] = {
        {"Hand-overs to other hosts", "in all", handovers, true},
        {"Awaited locks", "at most", awaited, false},
    };
    html_add(html, "<section aria-labelledby=\"h-history\">\n<h2 id=\"h-history\">This host, the "
                   "last ");
    html_seconds(html, covered_s(history));
    html_add(html, "</h2>\n<div class=\"two\">\n");
    figure(html, history, &both[0]);
    figure(html, history, &both[1]);
    html_add(html, "</div>\n<p class=\"soft\">Each bar covers ");
    html_seconds(html, history->interval_ns / second_ns);
    html_add(html,
             ". A low grey mark: the agent did not look at its locks in that time.%s</p>\n"
             "</section>\n",
             history->count < HISTORY_POINTS ? " Where nothing is drawn, the agent did not run yet."
                                             : "");
}
