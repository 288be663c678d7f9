/*
 * The tools of the comparison (tests/bench/peers): the histogram against sorted values, the check
 * of exclusion with locks that exclude and locks that do not, the results, and the comparison of
 * two runs.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../suite_main.h"
#include "compare.h"
#include "load.h"
#include "results.h"
#include "results_targets.h"

/* ---- histogram ---- */

START_TEST(a_bucket_holds_values_within_a_thousandth)
{
    uint32_t last = 0;
    ck_assert_uint_eq(histogram_index(-5), 0);
    for (int64_t value = 0; value < INT64_C(1) << HISTOGRAM_VALUE_BITS; value += value / 3000 + 1) {
        uint32_t index = histogram_index(value);
        ck_assert_uint_lt(index, HISTOGRAM_BUCKETS);
        ck_assert_uint_ge(index, last);
        last = index;
        ck_assert_int_ge(histogram_highest(index), value);
        ck_assert_int_le(histogram_highest(index) - value, value / 1000);
        ck_assert(index == 0 || histogram_highest(index - 1) < value);
    }
    ck_assert_uint_eq(histogram_index(INT64_MAX), HISTOGRAM_BUCKETS - 1);
}
END_TEST

START_TEST(shares_are_those_of_the_sorted_values)
{
    struct histogram *histogram = calloc(1, sizeof(*histogram));
    struct histogram *sum = calloc(1, sizeof(*sum));
    ck_assert_ptr_nonnull(histogram);
    ck_assert_ptr_nonnull(sum);
    ck_assert_int_eq(histogram_at(histogram, 0.5), 0);
    for (int64_t value = 1; value <= 1000; value++) {
        histogram_record(histogram, value);
    }
    ck_assert_int_eq(histogram_at(histogram, 0.5), 500);
    ck_assert_int_eq(histogram_at(histogram, 0.99), 990);
    ck_assert_int_eq(histogram_at(histogram, 0.999), 999);
    ck_assert_int_eq(histogram_at(histogram, 1.0), 1000);
    histogram_record(sum, 5000000);
    histogram_add(sum, histogram);
    ck_assert_uint_eq(sum->total, 1001);
    ck_assert_int_eq(sum->max_ns, 5000000);
    ck_assert_int_eq(histogram_at(sum, 1.0), 5000000);
    free(sum);
    free(histogram);
}
END_TEST

/* ---- locks that do not exclude ---- */

static int fake_start(struct peer_run *run)
{
    (void)run;
    return 0;
}

static void fake_stop(struct peer_run *run)
{
    (void)run;
}

static int fake_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    (void)host;
    *out_client = run;
    return 0;
}

static void fake_leave(void *handle)
{
    (void)handle;
}

static int fake_open(void *client, const char *name, void **out_lock)
{
    (void)name;
    *out_lock = client;
    return 0;
}

static int fake_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    (void)lock;
    (void)mode;
    (void)timeout_ns;
    *out_token = 7; /* this token never rises */
    return PEER_OK;
}

static int fake_release(void *lock)
{
    (void)lock;
    usleep(1); /* lets other workers run in between */
    return PEER_OK;
}

static int hasty_release(void *lock)
{
    (void)lock;
    return PEER_OK;
}

#define FAKE                                                                                       \
    .hosts = 1, .start = fake_start, .stop = fake_stop, .connect = fake_connect,                   \
    .disconnect = fake_leave, .open = fake_open, .close = fake_leave, .acquire = fake_acquire

/* A lock that does not exclude and does not sleep. Workers take and release it so often that two
 * processors read and write a lock's sum at the same time. */
static const struct peer_kind hasty = {
    .name = "hasty",
    .title = "a lock that does not lock, and does nothing else either",
    .release = hasty_release,
    FAKE,
};

static const struct peer_kind fake = {
    .name = "fake",
    .title = "a lock that does not lock",
    .release = fake_release,
    FAKE,
};

static struct load_result *run_given(const struct peer_kind *kind, const struct load *load)
{
    char below[] = "/tmp/holdfast-peers.XXXXXX";
    struct peer_run run;
    struct load_result *result = calloc(1, sizeof(*result));
    ck_assert_ptr_nonnull(result);
    ck_assert_ptr_nonnull(mkdtemp(below));
    ck_assert_int_eq(peer_start(&run, kind, below, 2000000000), 0);
    ck_assert_int_eq(load_run(&run, load, result), 0);
    peer_stop(&run);
    ck_assert_int_eq(rmdir(below), 0);
    return result;
}

/* On a busy machine a worker may not run at all during the 0.2 s of a load. The test then repeats
 * the load, at most this often. */
enum { TRIES_MAX = 50 };

static struct load_result *run_load(const struct peer_kind *kind, uint32_t readers, double rate)
{
    const struct load load = {
        .workers = 4,
        .hosts = 1,
        .names = LOAD_SAME,
        .reader_percent = readers,
        .rate = rate,
        .warm_ns = 20000000,
        .measure_ns = 200000000,
        .tag = "same",
    };
    return run_given(kind, &load);
}

START_TEST(a_token_that_does_not_rise_is_seen)
{
    uint64_t found = 0;
    for (int tries = 0; tries < TRIES_MAX && found == 0; tries++) {
        struct load_result *result = run_load(&fake, 0, 0);
        found = result->tokens_not_rising;
        free(result);
    }
    ck_assert_uint_gt(found, 0);
}
END_TEST

START_TEST(a_file_lock_excludes)
{
    const struct peer_kind *kind = peer_find("flock");
    for (uint32_t readers = 0; readers <= 50; readers += 50) {
        uint64_t pairs = 0;
        for (int tries = 0; tries < TRIES_MAX && pairs == 0; tries++) {
            struct load_result *result = run_load(kind, readers, 0);
            pairs = result->pairs;
            ck_assert_uint_le(result->least, result->most);
            ck_assert_uint_eq(result->strangers, 0);
            ck_assert_uint_eq(result->lost_updates, 0);
            ck_assert_uint_eq(result->wait.total, result->pairs);
            free(result);
        }
        ck_assert_uint_gt(pairs, 0);
    }
}
END_TEST

START_TEST(an_open_loop_makes_as_many_pairs_as_were_asked_for)
{
    struct load_result *result = run_load(peer_find("flock"), 0, 400);
    ck_assert_uint_eq(result->pair.total, 80); /* 400 pairs a second for 0.2 s */
    free(result);
}
END_TEST

START_TEST(an_alternating_load_does_not_keep_the_lock)
{
    const struct load load = {
        .workers = 3,
        .hosts = 1,
        .names = LOAD_SAME,
        .alternate = true,
        .warm_ns = 20000000,
        .measure_ns = 200000000,
        .tag = "same",
    };
    uint64_t handovers = 0;
    for (int tries = 0; tries < TRIES_MAX && handovers == 0; tries++) {
        struct load_result *result = run_given(peer_find("flock"), &load);
        handovers = result->handovers;
        ck_assert_uint_le(result->pairs, 2 * result->handovers + 2 * (uint64_t)load.workers);
        ck_assert_uint_eq(result->strangers + result->lost_updates, 0);
        free(result);
    }
    ck_assert_uint_gt(handovers, 0);
}
END_TEST

/* The guard counts a stranger if a worker enters or leaves while another worker is inside, and the
 * lock should keep these two apart. */
START_TEST(a_stranger_inside_is_seen)
{
    struct guard guard = {0};
    struct guard_findings findings = {0, 0, 0};
    guard_enter(&guard, 0, PEER_EXCLUSIVE, 1, &findings);
    guard_leave(&guard, 0, PEER_EXCLUSIVE, &findings);
    guard_enter(&guard, 1, PEER_EXCLUSIVE, 2, &findings);
    ck_assert_uint_eq(findings.strangers, 0);
    ck_assert_uint_eq(findings.handovers, 1);
    guard_enter(&guard, 2, PEER_EXCLUSIVE, 3, &findings); /* the exclusive holder 1 is inside */
    ck_assert_uint_eq(findings.strangers, 1);
    guard_leave(&guard, 1, PEER_EXCLUSIVE, &findings); /* worker 1 leaves while worker 2 is
                                                        * inside */
    ck_assert_uint_eq(findings.strangers, 2);
    guard = (struct guard){0};
    guard_enter(&guard, 0, PEER_SHARED, 0, &findings);
    guard_enter(&guard, 1, PEER_SHARED, 0, &findings);
    ck_assert_uint_eq(findings.strangers, 2);
    guard_enter(&guard, 2, PEER_EXCLUSIVE, 1, &findings); /* readers are inside */
    ck_assert_uint_eq(findings.strangers, 3);
    guard_leave(&guard, 0, PEER_SHARED, &findings); /* a writer is inside */
    ck_assert_uint_eq(findings.strangers, 4);
    ck_assert_uint_eq(findings.tokens_not_rising, 0);
}
END_TEST

START_TEST(a_lock_that_does_not_lock_is_seen)
{
    uint64_t broken = 0;
    for (int tries = 0; tries < TRIES_MAX && broken == 0;
         tries++) { /* one processor may need several tries */
        struct load_result *result = run_load(&fake, 30, 0);
        broken = result->strangers + result->lost_updates;
        free(result);
    }
    ck_assert_uint_gt(broken, 0);
}
END_TEST

START_TEST(a_lost_update_is_seen)
{
    /* one processor alone may lose no update, so the test checks nothing on one processor */
    uint64_t lost = sysconf(_SC_NPROCESSORS_ONLN) < 2 ? 1 : 0;
    for (int tries = 0; tries < TRIES_MAX && lost == 0; tries++) {
        struct load_result *result = run_load(&hasty, 0, 0);
        lost = result->lost_updates;
        free(result);
    }
    ck_assert_uint_gt(lost, 0);
}
END_TEST

/* ---- results ---- */

/* Writes a run with three values of a quantity for which lower is better. */
static void write_run(char path[], double a, double b, double c)
{
    struct results *results = results_create();
    const double values[] = {a, b, c};
    ck_assert_ptr_nonnull(results);
    results_case(results, "alone", "one \"client\"");
    for (size_t i = 0; i < 3; i++) {
        results_add(results, "alone", "flock(2)", "pair p50", "ns", BETTER_LOWER, values[i]);
        results_add(results, "alone", "flock(2)", "broken", "", BETTER_LOWER, 0);
    }
    results_word(results, "alone", "other", "pair p50", "left out");
    ck_assert_int_eq(close(mkstemp(path)), 0);
    ck_assert_int_eq(results_json(results, path), 0);
    results_destroy(results);
}

/* Returns the output of the comparison of two runs. The caller frees it. */
static char *compare_texts(const char *before, const char *after, int expected)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(compare_runs(before, after, out), expected);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

START_TEST(only_what_leaves_the_spread_is_a_change)
{
    char before[] = "/tmp/holdfast-run.XXXXXX";
    char within[] = "/tmp/holdfast-run.XXXXXX";
    char beyond[] = "/tmp/holdfast-run.XXXXXX";
    write_run(before, 100, 110, 120);
    write_run(within, 115, 125, 135);
    write_run(beyond, 2000, 2010, 2020);
    char *text = compare_texts(before, within, COMPARE_OK);
    ck_assert_ptr_nonnull(strstr(text, "; 0 changed"));
    free(text);
    text = compare_texts(before, beyond, COMPARE_OK);
    ck_assert_ptr_nonnull(strstr(text, "110 ns -> 2.01 us (x 18.27) worse"));
    ck_assert_ptr_nonnull(strstr(text, "; 1 changed"));
    free(text);
    text = compare_texts(beyond, before, COMPARE_OK);
    ck_assert_ptr_nonnull(strstr(text, "better"));
    free(text);
    free(compare_texts(before, "/nowhere/at-all.json", COMPARE_UNREADABLE));
    ck_assert_int_eq(truncate(within, 200), 0);
    free(compare_texts(before, within, COMPARE_UNREADABLE));
    unlink(before);
    unlink(within);
    unlink(beyond);
}
END_TEST

START_TEST(markdown_has_a_median_and_its_range)
{
    char *text = NULL;
    size_t size = 0;
    struct results *results = results_create();
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(results);
    ck_assert_ptr_nonnull(out);
    results_case(results, "alone", "a case");
    results_add(results, "alone", "p", "rate", "/s", BETTER_HIGHER, 5000);
    results_add(results, "alone", "p", "rate", "/s", BETTER_HIGHER, 1000000);
    results_add(results, "alone", "p", "rate", "/s", BETTER_HIGHER, 40);
    results_word(results, "alone", "q", "rate", "no");
    results_note(results, "alone", "q", "why %d", 1);
    results_markdown(results, out);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_ptr_nonnull(strstr(text, "| p | 5.00 k/s (40.0/s to 1.00 M/s) |"));
    ck_assert_ptr_nonnull(strstr(text, "| q | no |"));
    ck_assert_ptr_nonnull(strstr(text, "- q: why 1\n"));
    free(text);
    results_destroy(results);
}
END_TEST

/* ---- targets ---- */

/* Adds three repetitions of a peer's quantity. */
static void add_three(struct results *results, const char *name, const char *peer,
                      const char *quantity, enum results_better better, const double values[3])
{
    for (size_t i = 0; i < 3; i++) {
        results_add(results, name, peer_find(peer) != NULL ? peer_find(peer)->title : peer,
                    quantity, better == BETTER_LOWER ? "ns" : "/s", better, values[i]);
    }
}

/* Returns the printed targets. The caller frees them. */
static char *print_targets(const struct results *results)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    results_targets(results, out);
    ck_assert_int_eq(fclose(out), 0);
    return text;
}

#define THREE(a, b, c)                                                                             \
    (const double[3])                                                                              \
    {                                                                                              \
        a, b, c                                                                                    \
    }

START_TEST(a_target_is_met_by_the_median_of_paired_repetitions)
{
    struct results *results = results_create();
    const char *const ours = "holdfast3";
    ck_assert_ptr_nonnull(results);
    add_three(results, "names", ours, "pairs", BETTER_HIGHER, THREE(600, 500, 1000));
    add_three(results, "names", "etcd3", "pairs", BETTER_HIGHER, THREE(100, 125, 200));
    add_three(results, "names", "zookeeper3", "pairs", BETTER_HIGHER, THREE(100, 125, 250));
    add_three(results, "names", "redlock3-aof", "pairs", BETTER_HIGHER, THREE(300, 260, 500));
    add_three(results, "names", "redlock3", "pairs", BETTER_HIGHER, THREE(3000, 2500, 5000));
    add_three(results, "leader", ours, "longest wait", BETTER_LOWER, THREE(1e6, 2e6, 3e6));
    add_three(results, "leader", "etcd3", "longest wait", BETTER_LOWER, THREE(9e6, 2e7, 4e7));
    char *text = print_targets(results);
    /* The ratios 6, 4 and 5 have the median 5, which meets the target. The ratios 6, 4 and 4 have
     * the median 4, which does not. */
    ck_assert_ptr_nonnull(strstr(text, "three members | 5 x (4 to 6): 600/s beside 125/s | yes |"));
    ck_assert_ptr_nonnull(strstr(text, "three servers | 4 x (4 to 6): 600/s beside 125/s | no |"));
    /* Holdfast takes 0.5, 0.52 and 0.5 of the time that the peer with a disk takes, and five times
     * the time that the peer in memory takes. */
    ck_assert_ptr_nonnull(
        strstr(text, "always | 0.500 x (0.500 to 0.520): 600/s beside 300/s | y"));
    ck_assert_ptr_nonnull(strstr(text, "in memory | 5 x: 600/s beside 3.00 k/s | - |"));
    ck_assert_ptr_nonnull(strstr(text, "| 10 x (9 to 13.3): 2.00 ms beside 20.0 ms | yes |"));
    ck_assert_ptr_null(strstr(text, "| hosts |"));
    free(text);
    results_destroy(results);
}
END_TEST

START_TEST(first_is_who_has_nobody_ahead)
{
    struct results *results = results_create();
    ck_assert_ptr_nonnull(results);
    add_three(results, "alone", "holdfast1", "pairs", BETTER_HIGHER, THREE(2e6, 2e6, 2e6));
    add_three(results, "alone", "holdfast3", "pairs", BETTER_HIGHER, THREE(1e6, 1e6, 1e6));
    add_three(results, "alone", "flock", "pairs", BETTER_HIGHER, THREE(1e5, 1.5e6, 1e7));
    add_three(results, "alone", "other", "pairs", BETTER_HIGHER, THREE(1e3, 1e3, 1e3));
    results_word(results, "alone", "none", "pairs", "no names");
    char *text = print_targets(results);
    ck_assert_ptr_nonnull(strstr(text, "| pairs: first | 2.00 M/s | yes |"));
    ck_assert_ptr_nonnull(
        strstr(text, "| pairs: first | 1.00 M/s; ahead: flock(2) 1.50 M/s | no |"));
    ck_assert_ptr_nonnull(strstr(text, "Redis, in memory | the other was not measured | - |"));
    free(text);
    add_three(results, "restart", "holdfast3", "lost of 10", BETTER_LOWER, THREE(0, 0, 1));
    text = print_targets(results);
    ck_assert_ptr_nonnull(strstr(text, "| lost of 10: none | 1 | no |"));
    free(text);
    results_destroy(results);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peers");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_bucket_holds_values_within_a_thousandth);
    tcase_add_test(tcase, shares_are_those_of_the_sorted_values);
    tcase_add_test(tcase, a_token_that_does_not_rise_is_seen);
    tcase_add_test(tcase, a_stranger_inside_is_seen);
    tcase_add_test(tcase, a_lock_that_does_not_lock_is_seen);
    tcase_add_test(tcase, a_lost_update_is_seen);
    tcase_add_test(tcase, a_file_lock_excludes);
    tcase_add_test(tcase, an_alternating_load_does_not_keep_the_lock);
    tcase_add_test(tcase, an_open_loop_makes_as_many_pairs_as_were_asked_for);
    tcase_add_test(tcase, only_what_leaves_the_spread_is_a_change);
    tcase_add_test(tcase, markdown_has_a_median_and_its_range);
    tcase_add_test(tcase, a_target_is_met_by_the_median_of_paired_repetitions);
    tcase_add_test(tcase, first_is_who_has_nobody_ahead);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
