/*
 * The pure parts of `holdfast top`: readings, rates, rows, the screen, keys, JSON. No process, no
 * agent and no terminal.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "text/utf8.h"
#include "top_frame.h"
#include "top_json.h"
#include "top_reading.h"
#include "top_rows.h"
#include "top_screen.h"

enum { TEXT_MAX = 65536 };

static const int64_t second_ns = 1000000000;

static struct hf_party holder_of(const char *agent, int64_t pid, uint64_t token)
{
    return (struct hf_party){.agent = agent,
                             .pid = pid,
                             .uid = -1,
                             .command = "job",
                             .mode = HF_EXCLUSIVE,
                             .token = token,
                             .elapsed_ns = 2 * second_ns,
                             .remaining_ns = second_ns};
}

static struct hf_party waiter_of(const char *agent, int64_t pid, int64_t waited_ns)
{
    return (struct hf_party){.agent = agent,
                             .pid = pid,
                             .uid = -1,
                             .mode = HF_EXCLUSIVE,
                             .elapsed_ns = waited_ns,
                             .remaining_ns = -1};
}

/* Adds a lock with at most one holder (pid -2: none) and at most two waiters. */
static void add(struct top_reading *reading, const char *name, struct hf_party holder,
                struct hf_party first, struct hf_party second)
{
    const struct hf_party *holders[1] = {&holder};
    const struct hf_party *waiters[2] = {&first, &second};
    struct hf_lock_info info = {
        .name = name,
        .state = holder.pid == -2 ? HF_STATE_FREE : HF_STATE_EXCLUSIVE,
        .coordinator = "a",
        .holders = holders,
        .holder_count = holder.pid != -2,
        .waiters = waiters,
        .waiter_count = (size_t)(first.pid != -2) + (size_t)(second.pid != -2),
    };

    ck_assert_int_eq(top_reading_lock(reading, &info, reading->at_ns), 0);
}

static const struct hf_party none = {.pid = -2};

static struct top_reading *begin(int64_t at_ns)
{
    struct top_reading *reading = top_reading_create(at_ns);

    ck_assert_ptr_nonnull(reading);
    return reading;
}

/* Returns a reading of one lock, compared with the reading `before`, which is destroyed. Token 0:
 * the lock has no holder. */
static struct top_reading *next_of(struct top_reading *before, int64_t at_ns, const char *agent,
                                   uint64_t token, int64_t age_ns)
{
    struct top_reading *reading = begin(at_ns);
    struct hf_party holder = holder_of(agent, 1, token);
    const struct hf_party *holders[1] = {&holder};
    struct hf_lock_info info = {.name = "x",
                                .state = token == 0 ? HF_STATE_FREE : HF_STATE_EXCLUSIVE,
                                .age_ns = age_ns,
                                .holders = holders,
                                .holder_count = token == 0 ? 0 : 1};

    ck_assert_int_eq(top_reading_lock(reading, &info, at_ns), 0);
    top_reading_finish(reading, before);
    top_reading_destroy(before);
    return reading;
}

/* ---- rates ---- */

START_TEST(test_rate)
{
    struct top_reading *reading = next_of(NULL, 10 * second_ns, "a", 100, 0);

    ck_assert_int_eq(reading->locks[0].holds_milli, -1);
    ck_assert_int_eq(reading->holds_milli, -1);
    reading = next_of(reading, 12 * second_ns, "a", 150, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, 25000);
    ck_assert_int_eq(reading->holds_milli, 25000);
    /* without a holder the last rate stays, and the next one counts from the last holder */
    reading = next_of(reading, 14 * second_ns, "a", 0, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, 25000);
    reading = next_of(reading, 16 * second_ns, "a", 190, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, 10000);
    reading = next_of(reading, 26 * second_ns, "a", 190, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, 0);
    /* after half a minute without a holder the rate is unknown */
    reading = next_of(reading, 57 * second_ns, "a", 0, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, -1);
    top_reading_destroy(reading);
}
END_TEST

/* The age in another host's report tells when the report was made. */
START_TEST(test_rate_of_old_reports)
{
    struct top_reading *reading = next_of(NULL, 10 * second_ns, "a", 100, second_ns / 2);

    reading = next_of(reading, 12 * second_ns, "a", 300, second_ns / 2 + second_ns);
    ck_assert_int_eq(reading->locks[0].holds_milli, 200000);
    /* the same report again, two seconds older: the rate stays, and does not become 0 */
    reading = next_of(reading, 14 * second_ns, "a", 300, second_ns / 2 + 3 * second_ns);
    ck_assert_int_eq(reading->locks[0].holds_milli, 200000);
    top_reading_destroy(reading);
}
END_TEST

/* A lock that moves to another host may skip tokens; an agent may report anything. */
START_TEST(test_rate_unknown)
{
    struct top_reading *reading = next_of(NULL, 10 * second_ns, "a", 100, 0);

    reading = next_of(reading, 11 * second_ns, "b", 100 + 4095, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, 4095000);
    reading = next_of(reading, 12 * second_ns, "a", 4195 + 4096, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, -1);
    reading = next_of(reading, 13 * second_ns, "a", 8291 + 1000000, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, 1000000000);
    reading = next_of(reading, 14 * second_ns, "a", 7, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, -1);
    reading = next_of(reading, 15 * second_ns, "a", UINT64_MAX, 0);
    ck_assert_int_eq(reading->locks[0].holds_milli, -1);
    ck_assert_int_eq(reading->holds_milli, -1);
    top_reading_destroy(reading);
}
END_TEST

/* Locks come and go between two readings. */
START_TEST(test_rate_finds_the_lock)
{
    struct top_reading *before = begin(10 * second_ns);
    struct top_reading *after = begin(11 * second_ns);

    add(before, "a", holder_of("a", 1, 1), none, none);
    add(before, "c", holder_of("a", 1, 10), none, none);
    add(before, "d", holder_of("a", 1, 20), none, none);
    top_reading_finish(before, NULL);
    add(after, "b", holder_of("a", 1, 50), none, none);
    add(after, "c", holder_of("a", 1, 13), none, none);
    add(after, "e", holder_of("a", 1, 70), none, none);
    top_reading_finish(after, before);
    ck_assert_int_eq(after->locks[0].holds_milli, -1);
    ck_assert_int_eq(after->locks[1].holds_milli, 3000);
    ck_assert_int_eq(after->locks[2].holds_milli, -1);
    ck_assert_int_eq(after->holds_milli, 3000);
    top_reading_destroy(before);
    top_reading_destroy(after);
}
END_TEST

START_TEST(test_rate_text)
{
    static const struct {
        int64_t milli;
        const char *text;
    } cases[] = {
        {-1, "-"},         {0, "0"},
        {9, "<0.01"},      {10, "0.01"},
        {250, "0.25"},     {9999, "9.99"},
        {10000, "10.0"},   {999999, "999.9"},
        {1000000, "1000"}, {123456789, "123456"},
    };

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        char text[64] = "";
        FILE *out = fmemopen(text, sizeof(text), "w");

        top_write_rate(out, cases[index].milli);
        fclose(out);
        ck_assert_str_eq(text, cases[index].text);
    }
}
END_TEST

START_TEST(test_pause)
{
    ck_assert_int_eq(top_next_ns(100, 5, 200), 300);
    ck_assert_int_eq(top_next_ns(100, 50, 200), 1100);
    ck_assert(top_is_passing(HF_ENOAGENT) && top_is_passing(HF_EPROTO));
    ck_assert(!top_is_passing(HF_EACCES));
}
END_TEST

/* ---- rows ---- */

/* A reading with four locks in use, four waits and five hosts. */
static struct top_reading *sample(void)
{
    static const struct hf_voter_info voters[] = {
        {"v1", "tcp://10.0.0.1:7411", HF_VOTER_UP},
        {"v3", NULL, HF_VOTER_DOWN},
        {"v2", "tcp://10.0.0.2:7411", HF_VOTER_REFUSED},
    };
    static const struct hf_voter_info *const list[] = {&voters[0], &voters[1], &voters[2]};
    const struct hf_status status = {
        .agent = "v1",
        .cell = "prod",
        .role = "voter",
        .version = "9.8.7",
        .session_epoch = 12,
        .session_remaining_ns = 4 * second_ns,
        .voters = list,
        .voter_count = 3,
        .clients = 21,
        .locks_held = 22,
        .waiters = 23,
    };
    static const struct hf_fact facts[] = {
        {NULL, "judgement", 1, "degraded"},
        {"v3", "reason_voter_down", 1, "it is silent\33[31m"},
        {NULL, "reason_http_down", 1, "the port is taken"},
        {"v1", "partitions", 128, NULL},
        {"v1", "round_trip_ns", 2000000, NULL},
        {"nobody", "partitions", 1, NULL},
        {NULL, "observers", 3, NULL},
        {"obs-1", "observer", 1, "tcp://10.0.0.9:7411"},
        {"obs-2", "observer", 0, NULL},
    };
    struct top_reading *reading = begin(100 * second_ns);

    ck_assert_int_eq(top_reading_status(reading, &status), 0);
    for (size_t index = 0; index < sizeof(facts) / sizeof(facts[0]); index++) {
        ck_assert_int_eq(top_reading_fact(reading, &facts[index]), 0);
    }
    add(reading, "busy", holder_of("v1", 10, 5), waiter_of("v1", 11, 3 * second_ns),
        waiter_of("v2", 12, second_ns));
    add(reading, "idle", none, none, none);
    add(reading, "left", holder_of("v1", 20, 5), waiter_of("stray", 21, 9 * second_ns), none);
    add(reading, "odd", none, waiter_of(NULL, -1, -1), none);
    add(reading, "right", holder_of("obs-1", 30, 5), none, none);
    reading->locks[0].holds_milli = 1000;
    reading->locks[2].holds_milli = 5000;
    reading->locks[4].oldest_hold_ns = 60 * second_ns;
    top_reading_finish(reading, NULL);
    return reading;
}

/* Returns the first letters of the rows. */
static const char *letters_of(const struct top_reading *reading, enum top_view view,
                              enum top_order order, bool reverse)
{
    static char letters[32];
    struct top_rows rows;

    ck_assert_int_eq(top_rows_make(reading, view, order, reverse, &rows), 0);
    for (size_t index = 0; index < rows.count; index++) {
        const struct top_row *row = &rows.rows[index];

        letters[index] = view == TOP_HOSTS ? row->host->name[strlen(row->host->name) - 1]
                                           : row->lock->info.name[0];
    }
    letters[rows.count] = '\0';
    top_rows_free(&rows);
    return letters;
}

START_TEST(test_rows_and_orders)
{
    static const struct {
        enum top_view view;
        enum top_order order;
        const char *letters;
        const char *reversed;
    } cases[] = {
        {TOP_LOCKS, TOP_BY_NAME, "blor", "rolb"},
        {TOP_LOCKS, TOP_BY_WAITERS, "blor", "rolb"},
        {TOP_LOCKS, TOP_BY_HOLDS, "lbor", "robl"},
        {TOP_LOCKS, TOP_BY_WAIT, "lbor", "robl"},
        {TOP_LOCKS, TOP_BY_AGE, "rblo", "olbr"},
        {TOP_WAITS, TOP_BY_WAIT, "lbbo", "obbl"},
        {TOP_WAITS, TOP_BY_NAME, "bblo", "olbb"},
        /* the last letters of v1, v2, v3, obs-1, obs-2 and stray */
        {TOP_HOSTS, TOP_BY_NAME, "12312y", "y21321"},
        {TOP_HOSTS, TOP_BY_WAITERS, "1y2123", "3212y1"},
        {TOP_HOSTS, TOP_BY_AGE, "11y223", "322y11"},
    };
    struct top_reading *reading = sample();

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        ck_assert(top_view_has(cases[index].view, cases[index].order));
        ck_assert_msg(strcmp(letters_of(reading, cases[index].view, cases[index].order, false),
                             cases[index].letters) == 0,
                      "%zu: %s", index,
                      letters_of(reading, cases[index].view, cases[index].order, false));
        ck_assert_str_eq(letters_of(reading, cases[index].view, cases[index].order, true),
                         cases[index].reversed);
    }
    ck_assert_uint_eq(reading->in_use, 4);
    ck_assert_uint_eq(reading->held, 3);
    ck_assert_uint_eq(reading->awaited, 3);
    ck_assert_uint_eq(reading->closed, 0);
    /* a free lock that was often held lately is shown, too */
    reading->locks[1].holds_milli = 1;
    ck_assert_str_eq(letters_of(reading, TOP_LOCKS, TOP_BY_NAME, false), "bilor");
    top_reading_destroy(reading);
}
END_TEST

/* Returns a table without its titles. */
static const char *table_of(const struct top_reading *reading, enum top_view view,
                            enum top_order order)
{
    static char text[TEXT_MAX];
    struct top_rows rows;
    FILE *out = fmemopen(text, sizeof(text), "w");

    ck_assert_int_eq(top_rows_make(reading, view, order, false, &rows), 0);
    ck_assert_int_eq(top_rows_write(&rows, 0, rows.count, 0, out), 0);
    fclose(out);
    top_rows_free(&rows);
    return strchr(text, '\n') + 1;
}

START_TEST(test_cells)
{
    struct top_reading *reading = sample();

    ck_assert_str_eq(table_of(reading, TOP_LOCKS, TOP_BY_NAME),
                     "busy   exclusive  ?: job  v1     2.0 s     2        3.0 s    1.00\n"
                     "left   exclusive  ?: job  v1     2.0 s     1        9.0 s    5.00\n"
                     "odd    free       -       -      -         1        -        -\n"
                     "right  exclusive  ?: job  obs-1  1 m 00 s  0        -        -\n");
    ck_assert_str_eq(table_of(reading, TOP_WAITS, TOP_BY_NAME),
                     "busy  11      v1     3.0 s  exclusive  10: job  v1  -\n"
                     "busy  12      v2     1.0 s  exclusive  10: job  v1  -\n"
                     "left  21      stray  9.0 s  exclusive  20: job  v1  -\n"
                     "odd   ?       ?      -      exclusive  -        -   -\n");
    ck_assert_str_eq(
        table_of(reading, TOP_HOSTS, TOP_BY_NAME),
        "v1     voter     up       2      1      128         2 ms        tcp://10.0.0.1:7411\n"
        "v2     voter     refused  0      1      -           -           tcp://10.0.0.2:7411\n"
        "v3     voter     down     0      0      -           -           -\n"
        "obs-1  observer  up       1      0      -           -           tcp://10.0.0.9:7411\n"
        "obs-2  observer  down     0      0      -           -           -\n"
        "stray  ?         ?        0      1      -           -           -\n");
    top_reading_destroy(reading);
}
END_TEST

/* ---- who waits for whom ---- */

/* Checks the last column of the row about the wait of process `pid`. */
static void check_next(const struct top_reading *reading, int64_t pid, const char *expected,
                       bool circle)
{
    struct top_rows rows;

    ck_assert_int_eq(top_rows_make(reading, TOP_WAITS, TOP_BY_NAME, false, &rows), 0);
    for (size_t index = 0; index < rows.count; index++) {
        const struct top_lock *further;
        bool found;

        if (rows.rows[index].waiter->pid != pid) {
            continue;
        }
        (void)top_wait_follow(&rows, &rows.rows[index], &further, &found);
        ck_assert_int_eq(found, circle);
        ck_assert_msg(expected == NULL
                          ? further == NULL
                          : further != NULL && strcmp(further->info.name, expected) == 0,
                      "%d", (int)pid);
        top_rows_free(&rows);
        return;
    }
    ck_abort_msg("process %d does not wait", (int)pid);
}

/* Each of two commands runs inside the CMD of an outer command, and waits for the lock of the other
 * outer command, so they form a circle. A third such command waits for one of these locks, and is
 * in no circle. */
START_TEST(test_nested_circle)
{
    struct top_reading *reading = begin(second_ns);

    add(reading, "n1", holder_of("a", 21, 1), waiter_of("a", 32, 1), waiter_of("a", 33, 1));
    add(reading, "n2", holder_of("a", 22, 1), waiter_of("a", 31, 1), none);
    for (size_t lock = 0; lock < reading->lock_count; lock++) {
        const struct hf_lock_info *info = &reading->locks[lock].info;

        for (size_t index = 0; index < info->waiter_count; index++) {
            /* 31 runs inside 21, 32 inside 22, and 33 inside 23 */
            int64_t outer = info->waiters[index]->pid - 10;

            ck_assert_int_eq(top_reading_nested(reading, lock, info->waiters[index], outer), 0);
        }
    }
    top_reading_finish(reading, NULL);
    check_next(reading, 31, "n1", true);
    check_next(reading, 32, "n2", true);
    check_next(reading, 33, "n2", false);
    top_reading_destroy(reading);
}
END_TEST

START_TEST(test_chain_and_circle)
{
    struct top_reading *reading = begin(second_ns);

    /* 3 waits for 2, which waits for 1, which waits for nobody */
    add(reading, "c1", holder_of("a", 1, 1), waiter_of("a", 2, 1), none);
    add(reading, "c2", holder_of("a", 2, 1), waiter_of("a", 3, 1), none);
    /* 11, 12 and 13 in a circle through two hosts; 14 waits for one of them */
    add(reading, "r1", holder_of("a", 11, 1), waiter_of("b", 12, 1), waiter_of("b", 14, 1));
    add(reading, "r2", holder_of("b", 12, 1), waiter_of("a", 13, 1), none);
    add(reading, "r3", holder_of("a", 13, 1), waiter_of("a", 11, 1), none);
    /* 12 of host a is another process than 12 of host b */
    add(reading, "s", holder_of("a", 12, 1), waiter_of("b", 15, 1), none);
    /* 16 waits for itself; unknown processes do not count as one process */
    add(reading, "t", holder_of("a", 16, 1), waiter_of("a", 16, 1), none);
    add(reading, "u", holder_of(NULL, -1, 1), waiter_of(NULL, -1, 1), none);
    top_reading_finish(reading, NULL);
    check_next(reading, 3, "c1", false);
    check_next(reading, 2, NULL, false);
    check_next(reading, 11, "r2", true);
    check_next(reading, 12, "r3", true);
    check_next(reading, 13, "r1", true);
    check_next(reading, 14, "r3", false);
    check_next(reading, 15, NULL, false);
    check_next(reading, 16, NULL, true);
    check_next(reading, -1, NULL, false);
    ck_assert_ptr_nonnull(strstr(table_of(reading, TOP_WAITS, TOP_BY_NAME), "circle: r2\n"));
    ck_assert_ptr_nonnull(strstr(table_of(reading, TOP_WAITS, TOP_BY_NAME), "circle: itself\n"));
    top_reading_destroy(reading);
}
END_TEST

/* ---- bounds ---- */

START_TEST(test_too_many_locks)
{
    struct top_reading *reading = begin(second_ns);
    struct top_news news = {.reading = reading, .now_ns = second_ns};
    struct hf_lock_info info = {.name = "x", .state = HF_STATE_FREE};
    char text[TEXT_MAX] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    for (size_t count = 0; count < TOP_LOCKS_MAX; count++) {
        ck_assert_int_eq(top_reading_lock(reading, &info, second_ns), 0);
    }
    ck_assert(!reading->cut);
    ck_assert_int_eq(top_reading_lock(reading, &info, second_ns), TOP_FULL);
    ck_assert_uint_eq(reading->lock_count, TOP_LOCKS_MAX);
    top_summary_write(&news, 0, out);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(text, "(only the first 16384 locks are read: name a PREFIX)"));
    top_reading_destroy(reading);
}
END_TEST

START_TEST(test_too_many_hosts)
{
    struct top_reading *reading = begin(second_ns);
    struct hf_fact fact = {.key = "observer", .value = 1};
    char name[32];

    for (int count = 0; count < TOP_HOSTS_MAX + 10; count++) {
        snprintf(name, sizeof(name), "h%d", count);
        fact.subject = name;
        ck_assert_int_eq(top_reading_fact(reading, &fact), 0);
    }
    ck_assert_uint_eq(reading->host_count, TOP_HOSTS_MAX);
    for (size_t index = 1; index < reading->host_count; index++) {
        ck_assert_int_lt(strcmp(reading->hosts[index - 1].name, reading->hosts[index].name), 0);
    }
    top_reading_destroy(reading);
}
END_TEST

/* ---- the screen ---- */

static char frame[TEXT_MAX];

/* Makes a screen. Returns the number of the line with the titles. */
static int draw(const struct top_news *news, struct top_ui *ui, size_t width, size_t height)
{
    FILE *out = fmemopen(frame, sizeof(frame), "w");
    int title;

    ck_assert_int_eq(top_frame_write(news, ui, width, height, &title, out), 0);
    fclose(out);
    return title;
}

/* Returns a line of the screen, which ends with a newline. */
static const char *line_at(int number)
{
    const char *line = frame;

    for (; number > 0; number--) {
        line = strchr(line, '\n') + 1;
    }
    return line;
}

static size_t count_lines(void)
{
    size_t count = 0;

    for (const char *at = frame; *at != '\0'; at++) {
        count += *at == '\n';
    }
    return count;
}

static bool begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

START_TEST(test_frame)
{
    struct top_reading *reading = sample();
    struct top_news news = {.reading = reading, .now_ns = reading->at_ns};
    struct top_ui ui;

    top_ui_init(&ui, 2 * second_ns);
    ck_assert_int_eq(draw(&news, &ui, 100, 24), 7);
    ck_assert(begins(line_at(0), "holdfast top  "));
    ck_assert_ptr_nonnull(
        strstr(frame, "  every 2.0 s  agent v1 (voter) of cell prod, version 9.8.7\n"));
    ck_assert_ptr_nonnull(strstr(frame, "state     degraded: voter_down v3: it is silent?[31m (and "
                                        "1 more: see holdfast status)\n"));
    ck_assert_ptr_nonnull(
        strstr(frame, "locks     4 in use: 3 held, 3 awaited, 0 closed; 6.00 holds/s\n"));
    ck_assert_ptr_nonnull(strstr(frame, "session   safe, epoch 12, 4.0 s left; here 21 clients, "
                                        "22 locks held, 23 waiters\n"));
    ck_assert_ptr_nonnull(strstr(frame, "voters    v1 up, v2 refused, v3 down\n"));
    ck_assert_ptr_nonnull(
        strstr(frame, "observers 1 up, 1 down: obs-2; 1 more are only counted\n"));
    ck_assert(begins(line_at(6), "locks by waiters, 4; h: help\n"));
    ck_assert(begins(line_at(7), "LOCK "));
    ck_assert(begins(line_at(8), "busy "));
    ck_assert_uint_eq(count_lines(), 12);
    ck_assert_ptr_null(strchr(frame, '\33'));
    top_reading_destroy(reading);
}
END_TEST

/* At every size, the screen does not have too many lines, and has all of the most important
 * lines. */
START_TEST(test_frame_sizes)
{
    struct top_reading *reading = sample();
    struct top_news news = {.reading = reading, .now_ns = reading->at_ns};
    struct top_ui ui;

    top_ui_init(&ui, 2 * second_ns);
    for (size_t height = 1; height <= 30; height++) {
        for (unsigned view = 0; view < TOP_VIEW_COUNT; view++) {
            int title;

            ui.view = (enum top_view)view;
            title = draw(&news, &ui, 70, height);
            ck_assert_uint_le(count_lines(), height);
            ck_assert(begins(frame, "holdfast top"));
            ck_assert_int_eq(title >= 0, height >= 3);
            if (title >= 0) {
                ck_assert(begins(line_at(title), view == TOP_HOSTS ? "HOST " : "LOCK "));
                ck_assert_uint_eq(ui.page, count_lines() > (size_t)title + 1
                                               ? height - (size_t)title - 1
                                               : ui.page);
            }
            for (int line = title; line >= 0 && line < (int)count_lines(); line++) {
                ck_assert_uint_le(strcspn(line_at(line), "\n"), 75); /* some characters have 3
                                                                      * bytes */
            }
        }
    }
    ck_assert_int_eq(draw(&news, &ui, 1, 10), 7); /* a screen of any width can be drawn */
    top_reading_destroy(reading);
}
END_TEST

START_TEST(test_frame_without_an_answer)
{
    struct top_reading *reading = sample();
    struct top_news news = {
        .now_ns = 200 * second_ns, .error = HF_ENOAGENT, .failed_ns = 188 * second_ns};
    struct top_ui ui;

    top_ui_init(&ui, second_ns);
    ck_assert_int_eq(draw(&news, &ui, 80, 24), -1);
    ck_assert(begins(line_at(1), "no answer fake error -9, for 12.0 s\n"));
    ck_assert_uint_eq(count_lines(), 2);
    news.reading = reading;
    ck_assert_int_eq(draw(&news, &ui, 80, 24), 8);
    ck_assert(begins(line_at(1), "no answer fake error -9, for 12.0 s; the rest is of "));
    news.error = 0;
    news.asked_ns = 199500 * (second_ns / 1000);
    ck_assert_int_eq(draw(&news, &ui, 80, 24), 7); /* an answer may take half a second */
    news.asked_ns = 195 * second_ns;
    ck_assert_int_eq(draw(&news, &ui, 80, 24), 8);
    ck_assert(begins(line_at(1), "no answer the agent has not answered for 5.0 s; the rest is "));
    top_reading_destroy(reading);
}
END_TEST

/* ---- keys ---- */

static struct top_reading *many_locks(size_t count)
{
    struct top_reading *reading = begin(second_ns);
    char name[32];

    for (size_t index = 0; index < count; index++) {
        snprintf(name, sizeof(name), "lock-%03zu", index);
        add(reading, name, holder_of("a", 1, 1), none, none);
    }
    top_reading_finish(reading, NULL);
    return reading;
}

/* Presses a key, draws, and returns the first row. */
static const char *press(const struct top_news *news, struct top_ui *ui, int key)
{
    int title;

    ck_assert_int_eq(top_ui_key(ui, key), TOP_DRAW);
    title = draw(news, ui, 80, 20);
    return line_at(title + 1);
}

START_TEST(test_scrolling)
{
    struct top_reading *reading = many_locks(100);
    struct top_news news = {.reading = reading, .now_ns = second_ns};
    struct top_ui ui;

    top_ui_init(&ui, second_ns);
    ck_assert_int_eq(draw(&news, &ui, 80, 20), 7);
    ck_assert_uint_eq(ui.page, 12);
    ck_assert(begins(press(&news, &ui, TOP_KEY_UP), "lock-000"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_DOWN), "lock-001"));
    ck_assert_ptr_nonnull(strstr(frame, "locks by waiters, from 2 of 100; h: help"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_PAGE_DOWN), "lock-013"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_UP), "lock-012"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_END), "lock-088"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_DOWN), "lock-088"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_PAGE_DOWN), "lock-088"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_PAGE_UP), "lock-076"));
    ck_assert(begins(press(&news, &ui, 'R'), "lock-023"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_HOME), "lock-099"));
    top_reading_destroy(reading);
    /* the first row that was shown does not exist any more */
    reading = many_locks(5);
    news.reading = reading;
    ui.first = 76;
    ck_assert(begins(press(&news, &ui, TOP_KEY_DOWN), "lock-004"));
    top_reading_destroy(reading);
}
END_TEST

START_TEST(test_keys)
{
    struct top_reading *reading = sample();
    struct top_news news = {.reading = reading, .now_ns = reading->at_ns};
    struct top_ui ui;

    top_ui_init(&ui, second_ns);
    ck_assert_int_eq(top_ui_key(&ui, ' '), TOP_READ);
    ck_assert_int_eq(top_ui_key(&ui, TOP_KEY_ENTER), TOP_READ);
    ck_assert_int_eq(top_ui_key(&ui, 'x'), TOP_DRAW);
    ck_assert(begins(press(&news, &ui, 'O'), "right"));
    ck_assert(begins(press(&news, &ui, 'H'), "left"));
    ck_assert(begins(press(&news, &ui, 'W'), "busy"));
    ck_assert(begins(press(&news, &ui, 'L'), "left"));
    ck_assert(begins(press(&news, &ui, 'N'), "busy"));
    ck_assert_int_eq(ui.orders[TOP_LOCKS], TOP_BY_NAME);
    (void)press(&news, &ui, '>');
    ck_assert_int_eq(ui.orders[TOP_LOCKS], TOP_BY_WAITERS);
    (void)press(&news, &ui, '<');
    (void)press(&news, &ui, '<');
    ck_assert_int_eq(ui.orders[TOP_LOCKS], TOP_BY_AGE);
    ck_assert(begins(press(&news, &ui, '2'), "left"));
    (void)press(&news, &ui, 'O');
    ck_assert_ptr_nonnull(strstr(frame, "waits are not sorted by held\n"));
    (void)press(&news, &ui, '>');
    ck_assert_int_eq(ui.orders[TOP_WAITS], TOP_BY_NAME);
    ck_assert_ptr_null(strstr(frame, "not sorted"));
    ck_assert(begins(press(&news, &ui, '\t'), "v1"));
    ck_assert(begins(press(&news, &ui, TOP_KEY_RIGHT), "right")); /* the locks, by age */
    ck_assert(begins(press(&news, &ui, TOP_KEY_LEFT), "v1"));
    ck_assert(begins(press(&news, &ui, '1'), "right"));
    (void)press(&news, &ui, 'h');
    ck_assert(begins(frame, "holdfast top: keys\n"));
    ck_assert(begins(press(&news, &ui, 'N'), "right")); /* the key only ends the help */
    (void)press(&news, &ui, '?');
    ck_assert_int_eq(top_ui_key(&ui, 'q'), TOP_QUIT);
    top_reading_destroy(reading);
}
END_TEST

static enum top_action type(struct top_ui *ui, const char *text)
{
    for (; *text != '\0'; text++) {
        ck_assert_int_eq(top_ui_key(ui, *text), TOP_DRAW);
    }
    return top_ui_key(ui, TOP_KEY_ENTER);
}

START_TEST(test_delay)
{
    static const char *const bad[] = {"2", "99ms", "25h", "q", "1.5s", "99999999999999999999"};
    struct top_reading *reading = sample();
    struct top_news news = {.reading = reading, .now_ns = reading->at_ns};
    struct top_ui ui;

    top_ui_init(&ui, second_ns);
    for (size_t index = 0; index < sizeof(bad) / sizeof(bad[0]); index++) {
        ck_assert_int_eq(top_ui_key(&ui, 'd'), TOP_DRAW);
        ck_assert_int_eq(type(&ui, bad[index]), TOP_DRAW);
        ck_assert_int_eq(ui.delay_ns, second_ns);
        (void)draw(&news, &ui, 80, 20);
        ck_assert_ptr_nonnull(strstr(frame, "is no delay: expected 100ms to 24h, such as 2s\n"));
    }
    (void)press(&news, &ui, 's');
    ck_assert_ptr_nonnull(strstr(frame, "delay between readings, such as 500ms or 2s: _\n"));
    (void)press(&news, &ui, '3');
    (void)press(&news, &ui, '5');
    (void)press(&news, &ui, TOP_KEY_ERASE);
    ck_assert_ptr_nonnull(strstr(frame, ": 3_\n"));
    ck_assert_int_eq(type(&ui, "00ms"), TOP_READ);
    ck_assert_int_eq(ui.delay_ns, 300000000);
    ck_assert_int_eq(top_ui_key(&ui, 's'), TOP_DRAW);
    ck_assert_int_eq(top_ui_key(&ui, TOP_KEY_ERASE), TOP_DRAW);
    ck_assert_int_eq(top_ui_key(&ui, TOP_KEY_ENTER), TOP_DRAW); /* nothing typed: no change */
    ck_assert_int_eq(top_ui_key(&ui, 's'), TOP_DRAW);
    ck_assert_int_eq(top_ui_key(&ui, '5'), TOP_DRAW);
    ck_assert_int_eq(top_ui_key(&ui, TOP_KEY_ESCAPE), TOP_DRAW);
    ck_assert_int_eq(ui.delay_ns, 300000000);
    ck_assert_int_eq(top_ui_key(&ui, 'q'), TOP_QUIT); /* the input of a delay has ended, so `q` is a
                                                       * command again */
    top_reading_destroy(reading);
}
END_TEST

/* ---- JSON ---- */

START_TEST(test_json)
{
    struct top_reading *reading = sample();
    struct top_news news = {.reading = reading, .now_ns = reading->at_ns};
    char text[TEXT_MAX] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    ck_assert_int_eq(top_json_write(&news, out), 0);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(
        text, "\"error\":null,\"agent\":\"v1\",\"cell\":\"prod\",\"role\":\"voter\",\"version\":"
              "\"9.8.7\",\"session\":{\"state\":\"safe\",\"epoch\":12,\"remaining_ms\":4000},"
              "\"clients\":21,\"locks_held\":22,\"waiters\":23,\"judgement\":\"degraded\","
              "\"reasons\":[{\"name\":\"voter_down\",\"subject\":\"v3\","));
    ck_assert_ptr_nonnull(strstr(text, "\"observer_count\":3,\"hosts\":[{\"name\":\"obs-1\","
                                       "\"role\":\"observer\",\"state\":\"up\",\"address\":"
                                       "\"tcp://10.0.0.9:7411\",\"partitions\":null,"
                                       "\"round_trip_ms\":null,\"holds\":1,\"waits\":0},"));
    ck_assert_ptr_nonnull(
        strstr(text, "{\"name\":\"stray\",\"role\":null,\"state\":null,\"address\":null,"));
    ck_assert_ptr_nonnull(strstr(text, "],\"holds_per_s\":6.000,\"cut\":false,\"locks\":[{\"name\":"
                                       "\"busy\",\"mode\":\"exclusive\",\"holders\":[{"));
    ck_assert_ptr_nonnull(strstr(text, "\"longest_wait_ms\":3000,\"holds_per_s\":1.000}"));
    ck_assert_ptr_nonnull(strstr(
        text,
        "\"waits\":[{\"name\":\"left\",\"agent\":\"stray\",\"pid\":21,\"mode\":"
        "\"exclusive\",\"waited_ms\":9000,\"holder\":{\"agent\":\"v1\",\"pid\":20,"
        "\"uid\":null,\"command\":\"job\",\"note\":null},\"holder_waits_for\":null,\"circle\":"
        "false},"));
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    memset(text, 0, sizeof(text));
    news.error = HF_ENOAGENT;
    out = fmemopen(text, sizeof(text), "w");
    ck_assert_int_eq(top_json_write(&news, out), 0);
    fclose(out);
    ck_assert_ptr_nonnull(strstr(text, "\",\"error\":\"fake error -9\"}\n"));
    top_reading_destroy(reading);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("top");

    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_rate);
    tcase_add_test(tests, test_rate_of_old_reports);
    tcase_add_test(tests, test_rate_unknown);
    tcase_add_test(tests, test_rate_finds_the_lock);
    tcase_add_test(tests, test_rate_text);
    tcase_add_test(tests, test_pause);
    tcase_add_test(tests, test_rows_and_orders);
    tcase_add_test(tests, test_cells);
    tcase_add_test(tests, test_nested_circle);
    tcase_add_test(tests, test_chain_and_circle);
    tcase_add_test(tests, test_too_many_locks);
    tcase_add_test(tests, test_too_many_hosts);
    tcase_add_test(tests, test_frame);
    tcase_add_test(tests, test_frame_sizes);
    tcase_add_test(tests, test_frame_without_an_answer);
    tcase_add_test(tests, test_scrolling);
    tcase_add_test(tests, test_keys);
    tcase_add_test(tests, test_delay);
    tcase_add_test(tests, test_json);
    return suite_main("cli_top_rows", tests);
}
