/*
 * Makes the tables of `holdfast top`: see top_rows.h.
 */
#include "top_rows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lock_cells.h"
#include "text.h"

enum { STEPS_MAX = 64 }; /* a longer chain of waits is not followed */

/* ---- the columns ---- */

enum {
    LOCK_NAME,
    LOCK_MODE,
    LOCK_HOLDER,
    LOCK_HOST,
    LOCK_HELD,
    LOCK_WAITERS,
    LOCK_WAIT,
    LOCK_RATE
};
enum {
    WAIT_LOCK,
    WAIT_WAITER,
    WAIT_HOST,
    WAIT_TIME,
    WAIT_MODE,
    WAIT_FOR,
    WAIT_FOR_HOST,
    WAIT_NEXT
};
enum {
    HOST_NAME,
    HOST_ROLE,
    HOST_STATE,
    HOST_HOLDS,
    HOST_WAITS,
    HOST_PARTITIONS,
    HOST_TRIP,
    HOST_ADDRESS
};

static const struct table_column lock_columns[] = {
    [LOCK_NAME] = {"LOCK", 12},   [LOCK_MODE] = {"MODE", 9},    [LOCK_HOLDER] = {"HOLDER", 6},
    [LOCK_HOST] = {"HOST", 4},    [LOCK_HELD] = {"HELD", 4},    [LOCK_WAITERS] = {"WAITERS", 0},
    [LOCK_WAIT] = {"LONGEST", 0}, [LOCK_RATE] = {"HOLDS/S", 0},
};
static const struct table_column wait_columns[] = {
    [WAIT_LOCK] = {"LOCK", 12},  [WAIT_WAITER] = {"WAITER", 6},
    [WAIT_HOST] = {"HOST", 4},   [WAIT_TIME] = {"WAITS", 0},
    [WAIT_MODE] = {"MODE", 0},   [WAIT_FOR] = {"FOR", 6},
    [WAIT_FOR_HOST] = {"ON", 4}, [WAIT_NEXT] = {"WHICH WAITS FOR", 5},
};
static const struct table_column host_columns[] = {
    [HOST_NAME] = {"HOST", 8},       [HOST_ROLE] = {"ROLE", 4},
    [HOST_STATE] = {"STATE", 4},     [HOST_HOLDS] = {"HOLDS", 4},
    [HOST_WAITS] = {"WAITS", 4},     [HOST_PARTITIONS] = {"PARTITIONS", 4},
    [HOST_TRIP] = {"ROUND TRIP", 4}, [HOST_ADDRESS] = {"ADDRESS", 4},
};

enum { CELLS = 8 };

static const struct table_column *const view_columns[TOP_VIEW_COUNT] = {
    [TOP_LOCKS] = lock_columns, [TOP_WAITS] = wait_columns, [TOP_HOSTS] = host_columns};

void top_write_rate(FILE *out, int64_t milli)
{
    if (milli < 0) {
        fputc('-', out);
    } else if (milli == 0) {
        fputc('0', out);
    } else if (milli < 10) {
        fputs("<0.01", out);
    } else if (milli < 10000) {
        fprintf(out, "%" PRId64 ".%02" PRId64, milli / 1000, milli % 1000 / 10);
    } else if (milli < 1000000) {
        fprintf(out, "%" PRId64 ".%" PRId64, milli / 1000, milli % 1000 / 100);
    } else {
        fprintf(out, "%" PRId64, milli / 1000);
    }
}

static void write_duration(FILE *out, int64_t value_ns)
{
    char text[TEXT_DURATION_SIZE];

    fputs(value_ns < 0 ? "-" : text_duration(text, value_ns), out);
}

static void write_count(FILE *out, int64_t count)
{
    if (count < 0) {
        fputc('-', out);
    } else {
        fprintf(out, "%" PRId64, count);
    }
}

static void write_text(FILE *out, const char *text)
{
    (void)text_write_clean(out, text != NULL ? text : "?", 0);
}

/* Writes a text such as "4242 (app): ./job". */
static void write_process(FILE *out, const struct hf_party *party)
{
    if (party->pid >= 0) {
        fprintf(out, "%" PRId64, party->pid);
    } else {
        fputc('?', out);
    }
    if (party->uid >= 0) {
        fputs(" (", out);
        text_write_user(out, party->uid);
        fputc(')', out);
    }
    if (party->command != NULL) {
        fputs(": ", out);
        write_text(out, party->command);
    }
}

static void write_lock_cell(FILE *out, int cell, const struct top_lock *lock)
{
    const struct hf_lock_info *info = &lock->info;

    switch (cell) {
    case LOCK_NAME:
        write_text(out, info->name);
        break;
    case LOCK_MODE:
        lock_write_mode(out, info);
        break;
    case LOCK_HOLDER:
        lock_write_holder(out, info);
        break;
    case LOCK_HOST:
        lock_write_host(out, info);
        break;
    case LOCK_HELD:
        write_duration(out, lock->oldest_hold_ns);
        break;
    case LOCK_WAITERS:
        write_count(out, (int64_t)info->waiter_count);
        break;
    case LOCK_WAIT:
        write_duration(out, lock->longest_wait_ns);
        break;
    default:
        top_write_rate(out, lock->holds_milli);
    }
}

/* Writes the process that has the lock for which this row's process waits. If no single process has
 * the lock, writes the number of holders, or how long the lock-delay still lasts. */
static void write_waited_for(FILE *out, const struct top_row *row)
{
    const struct hf_lock_info *info = &row->lock->info;
    char duration[TEXT_DURATION_SIZE];

    if (info->holder_count == 1) {
        write_process(out, info->holders[0]);
    } else if (info->holder_count > 1) {
        fprintf(out, "%zu holders", info->holder_count);
    } else if (info->closed_ns > 0) {
        fprintf(out, "lock-delay, %s", text_duration(duration, info->closed_ns));
    } else {
        fputs(info->age_ns < 0 ? "?" : "-", out);
    }
}

static void write_next(FILE *out, const struct top_rows *rows, const struct top_row *row)
{
    const struct top_lock *further;
    bool circle;

    (void)top_wait_follow(rows, row, &further, &circle);
    if (further == NULL) {
        fputs(circle ? "circle: itself" : "-", out);
        return;
    }
    fputs(circle ? "circle: " : "", out);
    write_text(out, further->info.name);
}

static void write_wait_cell(FILE *out, int cell, const struct top_rows *rows,
                            const struct top_row *row)
{
    switch (cell) {
    case WAIT_LOCK:
        write_text(out, row->lock->info.name);
        break;
    case WAIT_WAITER:
        write_process(out, row->waiter);
        break;
    case WAIT_HOST:
        write_text(out, row->waiter->agent);
        break;
    case WAIT_TIME:
        write_duration(out, row->waiter->elapsed_ns);
        break;
    case WAIT_MODE:
        fputs(text_mode(row->waiter->mode), out);
        break;
    case WAIT_FOR:
        write_waited_for(out, row);
        break;
    case WAIT_FOR_HOST:
        lock_write_host(out, &row->lock->info);
        break;
    default:
        write_next(out, rows, row);
    }
}

static void write_host_cell(FILE *out, int cell, const struct top_host *host)
{
    static const char *const roles[] = {
        [TOP_VOTER] = "voter", [TOP_OBSERVER] = "observer", [TOP_UNKNOWN] = "?"};

    switch (cell) {
    case HOST_NAME:
        write_text(out, host->name);
        break;
    case HOST_ROLE:
        fputs(roles[host->role], out);
        break;
    case HOST_STATE:
        fputs(host->role == TOP_UNKNOWN ? "?" : text_voter(host->state), out);
        break;
    case HOST_HOLDS:
        write_count(out, (int64_t)host->holds);
        break;
    case HOST_WAITS:
        write_count(out, (int64_t)host->waits);
        break;
    case HOST_PARTITIONS:
        write_count(out, host->partitions);
        break;
    case HOST_TRIP:
        write_duration(out, host->round_trip_ns);
        break;
    default:
        write_text(out, host->address != NULL ? host->address : "-");
    }
}

/* ---- who waits for whom ---- */

/* Orders processes by host and process ID. A result of 0 means the same process only if both are
 * known (is_known()). */
static int compare_processes(const struct hf_party *one, const struct hf_party *other)
{
    int order = strcmp(one->agent != NULL ? one->agent : "",
                       other->agent != NULL ? other->agent : "");

    return order != 0 ? order : one->pid < other->pid ? -1 : one->pid > other->pid;
}

static bool is_known(const struct hf_party *party)
{
    return party->agent != NULL && party->pid >= 0;
}

static int compare_waiters(const void *one, const void *other)
{
    const struct top_row *first = one;
    const struct top_row *second = other;
    int order = compare_processes(first->waiter, second->waiter);

    return order != 0 ? order : first->place < second->place ? -1 : first->place > second->place;
}

/* Returns the first wait of a known process, or NULL. */
static const struct top_row *wait_of(const struct top_rows *rows, const struct hf_party *process)
{
    size_t low = 0;
    size_t high = rows->by_process_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare_processes(rows->by_process[middle].waiter, process) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < rows->by_process_count &&
                   compare_processes(rows->by_process[low].waiter, process) == 0
               ? &rows->by_process[low]
               : NULL;
}

/* Returns whether the process waits in that row, or is an outer command of a process that does. */
static bool waits_in(const struct top_rows *rows, const struct hf_party *process,
                     const struct top_row *row)
{
    const struct top_row *end = rows->by_process + rows->by_process_count;

    if (is_known(row->waiter) && compare_processes(process, row->waiter) == 0) {
        return true;
    }
    for (const struct top_row *at = wait_of(rows, process);
         at != NULL && at < end && compare_processes(at->waiter, process) == 0; at++) {
        if (at->inner == row->waiter) {
            return true;
        }
    }
    return false;
}

static const struct hf_party *only_holder(const struct top_row *row)
{
    const struct hf_lock_info *info = &row->lock->info;

    return info->holder_count == 1 && is_known(info->holders[0]) ? info->holders[0] : NULL;
}

const struct hf_party *top_wait_follow(const struct top_rows *rows, const struct top_row *row,
                                       const struct top_lock **further, bool *circle)
{
    const struct hf_party *first = only_holder(row);
    const struct hf_party *holder = first;

    *further = NULL;
    *circle = false;
    for (int step = 0; step < STEPS_MAX && holder != NULL; step++) {
        const struct top_row *next;

        if (waits_in(rows, holder, row)) {
            *circle = true;
            break;
        }
        next = wait_of(rows, holder);
        if (step == 0 && next != NULL) {
            *further = next->lock;
        }
        holder = next != NULL ? only_holder(next) : NULL;
    }
    return first;
}

/* ---- the order of the rows ---- */

static const struct {
    const char *word;
    char key;
    bool views[TOP_VIEW_COUNT];
} orders[TOP_ORDER_COUNT] = {
    [TOP_BY_WAITERS] = {"waiters", 'W', {[TOP_LOCKS] = true, [TOP_HOSTS] = true}},
    [TOP_BY_HOLDS] = {"holds", 'H', {[TOP_LOCKS] = true}},
    [TOP_BY_WAIT] = {"wait", 'L', {[TOP_LOCKS] = true, [TOP_WAITS] = true}},
    [TOP_BY_AGE] = {"held", 'O', {[TOP_LOCKS] = true, [TOP_HOSTS] = true}},
    [TOP_BY_NAME] = {"name", 'N', {[TOP_LOCKS] = true, [TOP_WAITS] = true, [TOP_HOSTS] = true}},
};

bool top_view_has(enum top_view view, enum top_order order)
{
    return orders[order].views[view];
}

const char *top_order_word(enum top_order order)
{
    return orders[order].word;
}

char top_order_key(enum top_order order)
{
    return orders[order].key;
}

const char *top_view_word(enum top_view view)
{
    static const char *const words[] = {
        [TOP_LOCKS] = "locks", [TOP_WAITS] = "waits", [TOP_HOSTS] = "hosts"};

    return words[view];
}

/* Rows are sorted by these numbers. Rows with higher numbers come first; the second number counts
 * if the first ones are equal. */
struct top_rank {
    int64_t first;
    int64_t second;
};

static struct top_rank rank_lock(const struct top_lock *lock, enum top_order order)
{
    int64_t waiters = (int64_t)lock->info.waiter_count;

    switch (order) {
    case TOP_BY_WAITERS:
        return (struct top_rank){waiters, lock->holds_milli};
    case TOP_BY_HOLDS:
        return (struct top_rank){lock->holds_milli, waiters};
    case TOP_BY_WAIT:
        return (struct top_rank){lock->longest_wait_ns, waiters};
    case TOP_BY_AGE:
        return (struct top_rank){lock->oldest_hold_ns, waiters};
    default:
        return (struct top_rank){0, 0};
    }
}

static struct top_rank rank_host(const struct top_host *host, enum top_order order)
{
    switch (order) {
    case TOP_BY_WAITERS:
        return (struct top_rank){(int64_t)host->waits, (int64_t)host->holds};
    case TOP_BY_AGE:
        return (struct top_rank){(int64_t)host->holds, (int64_t)host->waits};
    default:
        return (struct top_rank){-(int64_t)host->role, 0};
    }
}

static struct top_rank rank_row(const struct top_row *row, enum top_order order)
{
    if (row->host != NULL) {
        return rank_host(row->host, order);
    }
    if (row->waiter != NULL) {
        return (struct top_rank){order == TOP_BY_WAIT ? row->waiter->elapsed_ns : 0, 0};
    }
    return rank_lock(row->lock, order);
}

struct top_sorting {
    enum top_order order;
    bool reverse;
};

static int compare_rows(const void *one, const void *other, void *arg)
{
    const struct top_sorting *sorting = arg;
    const struct top_row *first = one;
    const struct top_row *second = other;
    struct top_rank a = rank_row(first, sorting->order);
    struct top_rank b = rank_row(second, sorting->order);
    int order = first->place < second->place ? -1 : first->place > second->place;

    if (a.first != b.first) {
        order = a.first > b.first ? -1 : 1;
    } else if (a.second != b.second) {
        order = a.second > b.second ? -1 : 1;
    }
    return sorting->reverse ? -order : order;
}

/* ---- the rows ---- */

static size_t count_waits(const struct top_reading *reading)
{
    size_t count = 0;

    for (size_t index = 0; index < reading->lock_count; index++) {
        count += reading->locks[index].info.waiter_count;
    }
    return count;
}

static void row_add(struct top_rows *rows, struct top_row row)
{
    row.place = rows->count;
    rows->rows[rows->count++] = row;
}

/* A free lock is also shown while its rate of holds is above 0. */
static void add_locks(const struct top_reading *reading, struct top_rows *rows)
{
    for (size_t index = 0; index < reading->lock_count; index++) {
        const struct top_lock *lock = &reading->locks[index];

        if (lock->in_use || lock->holds_milli > 0) {
            row_add(rows, (struct top_row){.lock = lock});
        }
    }
}

static void add_waits(const struct top_reading *reading, struct top_rows *rows)
{
    for (size_t index = 0; index < reading->lock_count; index++) {
        const struct top_lock *lock = &reading->locks[index];

        for (size_t waiter = 0; waiter < lock->info.waiter_count; waiter++) {
            row_add(rows, (struct top_row){.lock = lock, .waiter = lock->info.waiters[waiter]});
        }
    }
}

static void add_nested(const struct top_reading *reading, struct top_rows *rows)
{
    for (size_t index = 0; index < reading->nested_count; index++) {
        const struct top_nested *nested = &reading->nested[index];

        rows->by_process[rows->by_process_count] = (struct top_row){
            .lock = &reading->locks[nested->lock],
            .waiter = nested->outer,
            .inner = nested->inner,
            .place = rows->by_process_count,
        };
        rows->by_process_count++;
    }
}

int top_rows_make(const struct top_reading *reading, enum top_view view, enum top_order order,
                  bool reverse, struct top_rows *out)
{
    struct top_sorting sorting = {.order = order, .reverse = reverse};
    size_t most = view == TOP_LOCKS   ? reading->lock_count
                  : view == TOP_HOSTS ? reading->host_count
                                      : count_waits(reading);

    *out = (struct top_rows){.view = view, .rows = calloc(most + 1, sizeof(*out->rows))};
    if (out->rows == NULL) {
        return HF_ENOMEM;
    }
    if (view == TOP_LOCKS) {
        add_locks(reading, out);
    } else if (view == TOP_WAITS) {
        add_waits(reading, out);
        out->by_process = calloc(most + reading->nested_count + 1, sizeof(*out->by_process));
        if (out->by_process == NULL) {
            top_rows_free(out);
            return HF_ENOMEM;
        }
        memcpy(out->by_process, out->rows, out->count * sizeof(*out->rows));
        out->by_process_count = out->count;
        add_nested(reading, out);
        qsort(out->by_process, out->by_process_count, sizeof(*out->by_process), compare_waiters);
    } else {
        for (size_t index = 0; index < reading->host_count; index++) {
            row_add(out, (struct top_row){.host = &reading->hosts[index]});
        }
    }
    qsort_r(out->rows, out->count, sizeof(*out->rows), compare_rows, &sorting);
    return 0;
}

void top_rows_free(struct top_rows *rows)
{
    free(rows->rows);
    free(rows->by_process);
    *rows = (struct top_rows){.rows = NULL};
}

/* ---- the cells of the rows ---- */

static char *cell_make(const struct top_rows *rows, const struct top_row *row, int cell)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    if (rows->view == TOP_LOCKS) {
        write_lock_cell(out, cell, row->lock);
    } else if (rows->view == TOP_WAITS) {
        write_wait_cell(out, cell, rows, row);
    } else {
        write_host_cell(out, cell, row->host);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Makes the cells of `count` rows. cells has room for them. Returns 0 or HF_ENOMEM. */
static int cells_make(const struct top_rows *rows, size_t first, size_t count, char **cells)
{
    for (size_t index = 0; index < count * CELLS; index++) {
        cells[index] = cell_make(rows, &rows->rows[first + index / CELLS], (int)(index % CELLS));
        if (cells[index] == NULL) {
            return HF_ENOMEM;
        }
    }
    return 0;
}

int top_rows_write(const struct top_rows *rows, size_t first, size_t count, size_t width, FILE *out)
{
    struct table table;
    char **cells;
    int error;

    first = first < rows->count ? first : rows->count;
    count = count < rows->count - first ? count : rows->count - first;
    cells = calloc(count * CELLS + 1, sizeof(*cells));
    error = cells == NULL ? HF_ENOMEM : cells_make(rows, first, count, cells);
    table_init(&table, view_columns[rows->view], CELLS);
    for (size_t index = 0; index < count && error == 0; index++) {
        table_measure(&table, &cells[index * CELLS]);
    }
    if (error == 0) {
        if (width > 0) {
            table_fit_width(&table, width);
        }
        table_write_titles(&table, out);
    }
    for (size_t index = 0; index < count && error == 0; index++) {
        table_write_row(&table, &cells[index * CELLS], out);
    }
    for (size_t index = 0; cells != NULL && index < count * CELLS; index++) {
        free(cells[index]);
    }
    free(cells);
    return error;
}
