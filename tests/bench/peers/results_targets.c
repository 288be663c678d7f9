/*
 * See results_targets.h. A target compares a quantity of Holdfast in one case with the same
 * quantity of one peer, or of all peers. The array `targets` lists them. An entry names a peer by
 * its `name`; the tables of results name a peer by its title.
 */
#include "results_targets.h"

#include <math.h>
#include <string.h>

#include "peer.h"
#include "results_store.h"

enum { MEASURED_MAX = 400, AHEAD_MAX = 3 };

enum target_kind {
    TARGET_FIRST, /* no other service has a better median than Holdfast */
    TARGET_NONE,  /* Holdfast's value is 0 in every repetition */
    /* Holdfast has at least `factor` times the peer's rate, or at most 1/factor of its time */
    TARGET_FASTER,
    /* the time of a pair, computed from the rate of pairs, is at most `factor` times the peer's */
    TARGET_TIME,
    TARGET_DISTANCE /* like TARGET_TIME, but without a verdict: the table shows only the ratio */
};

struct target {
    enum target_kind kind;
    const char *name; /* the name of the case */
    const char *ours;
    const char *quantity;
    const char *theirs; /* NULL: all peers */
    double factor;
};

static const char one_host[] = "holdfast1";
static const char three_hosts[] = "holdfast3";

static const struct target targets[] = {
    {TARGET_FIRST, "alone", one_host, "pairs", NULL, 0},
    {TARGET_FIRST, "alone", three_hosts, "pairs", NULL, 0},
    {TARGET_FASTER, "alone", one_host, "pairs", "redis", 1000},
    {TARGET_FASTER, "alone", three_hosts, "pairs", "redis", 1000},
    {TARGET_FIRST, "sixteen", one_host, "pairs", NULL, 0},
    {TARGET_FIRST, "sixteen", three_hosts, "pairs", NULL, 0},
    {TARGET_FASTER, "names", one_host, "pairs", "etcd1", 5},
    {TARGET_FASTER, "names", three_hosts, "pairs", "etcd3", 5},
    {TARGET_FASTER, "names", three_hosts, "pairs", "zookeeper3", 5},
    {TARGET_TIME, "names", three_hosts, "pairs", "redlock3-aof", 0.5},
    {TARGET_DISTANCE, "names", three_hosts, "pairs", "redlock3", 0},
    {TARGET_FASTER, "names16", one_host, "pairs", "etcd1", 5},
    {TARGET_FASTER, "names16", three_hosts, "pairs", "etcd3", 5},
    {TARGET_FASTER, "names16", three_hosts, "pairs", "zookeeper3", 5},
    {TARGET_FIRST, "crowd", one_host, "hand-overs", NULL, 0},
    {TARGET_FIRST, "crowd", three_hosts, "hand-overs", NULL, 0},
    {TARGET_FIRST, "hosts", three_hosts, "hand-overs", NULL, 0},
    {TARGET_FASTER, "hosts", three_hosts, "hand-overs", "etcd1", 5},
    {TARGET_FASTER, "hosts", three_hosts, "hand-overs", "etcd3", 5},
    {TARGET_FASTER, "hosts", three_hosts, "hand-overs", "zookeeper3", 5},
    {TARGET_FIRST, "leader", three_hosts, "longest wait", NULL, 0},
    {TARGET_FASTER, "leader", three_hosts, "longest wait", "etcd3", 10},
    {TARGET_FIRST, "stopped", three_hosts, "let in, asks awake", NULL, 0},
    {TARGET_FIRST, "stopped", three_hosts, "let in, asked before", NULL, 0},
    {TARGET_NONE, "restart", one_host, "lost of 10", NULL, 0},
    {TARGET_NONE, "restart", one_host, "lost of 10, in order", NULL, 0},
    {TARGET_NONE, "restart", three_hosts, "lost of 10", NULL, 0},
    {TARGET_NONE, "restart", three_hosts, "lost of 10, in order", NULL, 0},
    {TARGET_FIRST, "restart", three_hosts, "lost of 10", NULL, 0},
    {TARGET_FIRST, "held", one_host, "memory a lock", NULL, 0},
    {TARGET_FIRST, "held", three_hosts, "memory a lock", NULL, 0},
    {TARGET_FIRST, "held", one_host, "servers' time", NULL, 0},
    {TARGET_FIRST, "held", three_hosts, "servers' time", NULL, 0},
    {TARGET_FIRST, "held", three_hosts, "TCP segments", NULL, 0},
    {TARGET_FIRST, "held", one_host, "written a second", NULL, 0},
    {TARGET_FIRST, "held", three_hosts, "written a second", NULL, 0},
};

/* ---- finding the measured values ---- */

static const struct results_table *find_table(const struct results *results, const char *name)
{
    for (size_t t = 0; t < results->table_count; t++) {
        if (strcmp(results->tables[t].name, name) == 0) {
            return &results->tables[t];
        }
    }
    return NULL;
}

static const struct results_row *find_row(const struct results_table *table, const char *title)
{
    for (size_t r = 0; r < table->row_count; r++) {
        if (strcmp(table->rows[r].peer, title) == 0) {
            return &table->rows[r];
        }
    }
    return NULL;
}

/* Returns the index of the quantity's column, or -1 if there is no such column. */
static int find_column(const struct results_table *table, const char *quantity)
{
    for (size_t c = 0; c < table->column_count; c++) {
        if (strcmp(table->columns[c].name, quantity) == 0) {
            return (int)c;
        }
    }
    return -1;
}

static const char *title_of(const char *word)
{
    const struct peer_kind *kind = peer_find(word);
    return kind == NULL ? word : kind->title;
}

/* Returns the row's cell in the column. Returns NULL if the cell has no values, or has a word in
 * their place. */
static const struct results_cell *cell_with_values(const struct results_row *row, int column)
{
    const struct results_cell *cell = row == NULL || column < 0 ? NULL : &row->cells[column];
    return cell == NULL || cell->count == 0 || cell->word[0] != '\0' ? NULL : cell;
}

/* ---- arithmetic ---- */

/* Computes ours / theirs for each repetition, or theirs / ours if is_inverse. */
static void ratios(const struct results_cell *ours, const struct results_cell *theirs,
                   bool is_inverse, struct results_cell *out)
{
    *out = (struct results_cell){.count = 0};
    for (size_t i = 0; i < ours->count && i < theirs->count; i++) {
        double above = is_inverse ? theirs->values[i] : ours->values[i];
        double below = is_inverse ? ours->values[i] : theirs->values[i];
        out->values[out->count++] = below != 0 ? above / below : above != 0 ? INFINITY : 1;
    }
}

static bool is_better(double left, double right, enum results_better better)
{
    return better == BETTER_HIGHER ? left > right : left < right;
}

/* ---- the text of a row ---- */

static const char *add_text(char *text, size_t size, size_t *used, const char *more)
{
    int needed = snprintf(text + *used, size - *used, "%s", more);
    if (needed > 0 && (size_t)needed < size - *used) {
        *used += (size_t)needed;
    }
    return text;
}

/* Writes a text like "3.31 x (2.90 to 4.12)". */
static void format_ratio(char *text, size_t size, const struct results_cell *ratio)
{
    char median[32];
    char least[32];
    char most[32];
    results_format(median, sizeof(median), cell_median(ratio), "");
    results_format(least, sizeof(least), cell_least(ratio), "");
    results_format(most, sizeof(most), cell_most(ratio), "");
    if (strcmp(least, most) == 0) {
        snprintf(text, size, "%s x", median);
    } else {
        snprintf(text, size, "%s x (%s to %s)", median, least, most);
    }
}

/* Writes a peer's name and value ("Redis, in memory 28 bytes"). In the case of held locks it adds
 * how many the peer held. */
static void name_one(const struct results_table *table, const struct results_row *row,
                     const struct results_cell *cell, int column, char *text, size_t size)
{
    char value[48];
    char held[64] = "";
    const struct results_cell *locks = cell_with_values(row, find_column(table, "locks held"));
    results_format(value, sizeof(value), cell_median(cell), table->columns[column].unit);
    if (locks != NULL) {
        snprintf(held, sizeof(held), " (%.0f locks)", cell_median(locks));
    }
    snprintf(text, size, "%s %s%s", row->peer, value, held);
}

/* Returns the row with the best value that is better than `mine` and not named yet, or NULL. */
static const struct results_row *next_ahead(const struct results_table *table, int column,
                                            double mine, const bool *is_named)
{
    enum results_better better = table->columns[column].better;
    const struct results_row *best = NULL;
    for (size_t r = 0; r < table->row_count; r++) {
        const struct results_row *row = &table->rows[r];
        const struct results_cell *cell = cell_with_values(row, column);
        if (cell == NULL || is_named[r] || strcmp(row->peer, title_of(one_host)) == 0 ||
            strcmp(row->peer, title_of(three_hosts)) == 0 ||
            !is_better(cell_median(cell), mine, better)) {
            continue;
        }
        if (best == NULL ||
            is_better(cell_median(cell), cell_median(&best->cells[column]), better)) {
            best = row;
        }
    }
    return best;
}

/* Writes Holdfast's value and the peers that are better. Sets *out_met if Holdfast is first. */
static void measure_first(const struct results_table *table, const struct results_row *own,
                          int column, char *text, size_t size, bool *out_met)
{
    bool is_named[RESULTS_ROWS_MAX] = {false};
    const struct results_row *row;
    const struct results_cell *cell = cell_with_values(own, column);
    double mine = cell_median(cell);
    char one[160];
    size_t used = 0;
    size_t ahead = 0;
    name_one(table, own, cell, column, one, sizeof(one));
    add_text(text, size, &used, strstr(one, own->peer) == one ? one + strlen(own->peer) + 1 : one);
    /* the loop ends, because each round names one row */
    while ((row = next_ahead(table, column, mine, is_named)) != NULL) {
        if (ahead < AHEAD_MAX) {
            name_one(table, row, &row->cells[column], column, one, sizeof(one));
            add_text(text, size, &used, ahead == 0 ? "; ahead: " : ", ");
            add_text(text, size, &used, one);
        }
        is_named[row - table->rows] = true;
        ahead++;
    }
    if (ahead > AHEAD_MAX) {
        snprintf(one, sizeof(one), " and %zu more", ahead - AHEAD_MAX);
        add_text(text, size, &used, one);
    }
    *out_met = ahead == 0;
}

static void measure_ratio(const struct target *target, const struct results_column *column,
                          const struct results_cell *ours, const struct results_cell *theirs,
                          char *text, size_t size, bool *out_met)
{
    struct results_cell ratio;
    bool is_time = target->kind != TARGET_FASTER;
    char our_text[48];
    char their_text[48];
    char ratio_text[128];
    ratios(ours, theirs, is_time || column->better == BETTER_LOWER, &ratio);
    results_format(our_text, sizeof(our_text), cell_median(ours), column->unit);
    results_format(their_text, sizeof(their_text), cell_median(theirs), column->unit);
    format_ratio(ratio_text, sizeof(ratio_text), &ratio);
    snprintf(text, size, "%s: %s beside %s", ratio_text, our_text, their_text);
    *out_met = is_time ? cell_median(&ratio) <= target->factor
                       : cell_median(&ratio) >= target->factor;
}

static void describe_target(const struct target *target, char *text, size_t size)
{
    const char *theirs = target->theirs == NULL ? "" : title_of(target->theirs);
    switch (target->kind) {
    case TARGET_FIRST:
        snprintf(text, size, "%s: first", target->quantity);
        break;
    case TARGET_NONE:
        snprintf(text, size, "%s: none", target->quantity);
        break;
    case TARGET_FASTER:
        snprintf(text, size, "%s: at least %g x better than %s", target->quantity, target->factor,
                 theirs);
        break;
    case TARGET_TIME:
        snprintf(text, size, "time of a pair: at most %g x that of %s", target->factor, theirs);
        break;
    case TARGET_DISTANCE:
        snprintf(text, size, "(no target) time of a pair beside %s", theirs);
        break;
    }
}

/* Returns the text of the column "met": yes, no, or "-" if the values allow no verdict. */
static const char *measure_target(const struct target *target, const struct results_table *table,
                                  const struct results_row *own, int column, char *text,
                                  size_t size)
{
    const struct results_cell *ours = cell_with_values(own, column);
    const struct results_cell *theirs = NULL;
    bool met = false;
    if (ours == NULL) {
        snprintf(text, size, "not measured");
        return "-";
    }
    if (target->theirs != NULL) {
        theirs = cell_with_values(find_row(table, title_of(target->theirs)), column);
        if (theirs == NULL) {
            snprintf(text, size, "the other was not measured");
            return "-";
        }
    }
    if (target->kind == TARGET_FIRST) {
        measure_first(table, own, column, text, size, &met);
    } else if (target->kind == TARGET_NONE) {
        results_format(text, size, cell_most(ours), "");
        met = cell_most(ours) == 0;
    } else {
        measure_ratio(target, &table->columns[column], ours, theirs, text, size, &met);
    }
    return target->kind == TARGET_DISTANCE ? "-" : met ? "yes" : "no";
}

void results_targets(const struct results *results, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        const struct target *target = &targets[i];
        const struct results_table *table = find_table(results, target->name);
        const struct results_row *own = table == NULL ? NULL
                                                      : find_row(table, title_of(target->ours));
        char wanted[160];
        char measured[MEASURED_MAX] = "";
        if (own == NULL) {
            continue;
        }
        const char *met = measure_target(target, table, own, find_column(table, target->quantity),
                                         measured, sizeof(measured));
        describe_target(target, wanted, sizeof(wanted));
        if (!any) {
            fputs("\n### targets: what Holdfast was to reach, by the tables below\n\n"
                  "| case | who | target | measured | met |\n| --- | --- | --- | --- | --- |\n",
                  out);
            any = true;
        }
        fprintf(out, "| %s | %s | %s | %s | %s |\n", target->name, own->peer, wanted, measured,
                met);
    }
}
