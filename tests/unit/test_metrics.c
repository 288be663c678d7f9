/* The metrics as text: Prometheus can read them, and docs/METRICS.md names every one of them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "observe/metrics.h"

enum { NAMES_MAX = 256, PAGE_MAX = 65536 };

static char text[METRICS_TEXT_MAX];
static struct host_counts host;
static struct host_survey here;
static struct quorum_counts quorum;
static struct quorum_survey voting;
static struct driver_counts driver;
static struct histogram durations;
static struct judgement judgement;

/* Fills in all metrics with the longest possible numbers. */
static struct metrics filled(void)
{
    struct metrics metrics = {.version = "0.1.0",
                              .cell = "prod",
                              .agent = "host-a",
                              .role = "voter",
                              .judgement = &judgement,
                              .tls_end_s = INT64_MAX,
                              .host = &host,
                              .here = &here,
                              .quorum = &quorum,
                              .voting = &voting,
                              .driver = &driver,
                              .round_trip = &durations,
                              .turn = &durations,
                              .voter_count = MESSAGE_VOTERS_MAX};
    memset(&host, 0xff, sizeof(host));
    memset(&here, 0x7f, sizeof(here));
    memset(&quorum, 0xff, sizeof(quorum));
    memset(&voting, 0x7f, sizeof(voting));
    voting.votes = voting.majority = true;
    memset(&driver, 0xff, sizeof(driver));
    memset(&durations, 0xff, sizeof(durations));
    for (uint32_t i = 0; i < MESSAGE_VOTERS_MAX; i++) {
        metrics.voters[i] = (struct metrics_voter){
            .name = "a-name-of-a-voter-that-is-so-long", .self = i == 3, .answer_age_ns = 1500};
    }
    return metrics;
}

/* Copies a sample's name without a histogram's ending. */
static void family_of(const char *line, char out[128])
{
    static const char *const endings[] = {"_bucket", "_sum", "_count"};
    size_t length = strcspn(line, "{ ");
    ck_assert_uint_lt(length, 128);
    memcpy(out, line, length);
    out[length] = '\0';
    for (size_t i = 0; i < 3; i++) {
        size_t end = strlen(endings[i]);
        if (length > end && strcmp(out + length - end, endings[i]) == 0) {
            out[length - end] = '\0';
        }
    }
}

/* Collects the names in the order of the text. Each line must be a HELP, the TYPE of the same name,
 * or a sample of that name. */
static size_t parse(char names[NAMES_MAX][128])
{
    size_t count = 0;
    char current[128] = "";
    char type[16] = "";
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char name[128];
        if (strncmp(line, "# HELP ", 7) == 0) {
            ck_assert_int_eq(sscanf(line, "# HELP %127s", current), 1);
            strcpy(names[count++], current);
            type[0] = '\0';
            continue;
        }
        if (line[0] == '#') {
            ck_assert_int_eq(sscanf(line, "# TYPE %127s %15s", name, type), 2);
            ck_assert_str_eq(name, current);
            continue;
        }
        char *end;
        family_of(line, name);
        ck_assert_msg(strcmp(name, current) == 0 || strncmp(line, current, strlen(current)) == 0,
                      "%s under %s", line, current);
        ck_assert_str_ne(type, "");
        bool counts = strcmp(type, "counter") == 0;
        ck_assert_msg(!counts || strcmp(name + strlen(name) - 6, "_total") == 0, "%s", line);
        const char *value = strrchr(line, ' ');
        (void)strtod(value + 1, &end);
        ck_assert_msg(*end == '\0', "%s", line);
    }
    return count;
}

START_TEST(every_line_is_one_that_prometheus_reads)
{
    static char names[NAMES_MAX][128];
    struct metrics metrics = filled();
    text[metrics_text(&metrics, text)] = '\0';
    size_t count = parse(names);
    ck_assert_uint_gt(count, 60);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            ck_assert_str_ne(names[i], names[k]);
        }
    }
}
END_TEST

START_TEST(every_metric_is_in_the_documentation_and_no_other)
{
    static char names[NAMES_MAX][128];
    static char page[PAGE_MAX];
    struct metrics metrics = filled();
    FILE *file = fopen(HF_METRICS_PAGE, "r");
    ck_assert_ptr_nonnull(file);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    fclose(file);
    text[metrics_text(&metrics, text)] = '\0';
    char *types = strdup(text);
    size_t count = parse(names);
    size_t rows = 0;
    for (const char *at = strstr(page, "\n| `holdfast_"); at != NULL;
         at = strstr(at + 1, "\n| `holdfast_")) {
        rows++;
    }
    for (size_t i = 0; i < count; i++) {
        char row[256];
        char type[160];
        snprintf(type, sizeof(type), "# TYPE %.127s ", names[i]);
        const char *is = strstr(types, type) + strlen(type);
        snprintf(row, sizeof(row), "\n| `%.127s` | %.*s | ", names[i], (int)strcspn(is, "\n"), is);
        ck_assert_msg(strstr(page, row) != NULL, "docs/METRICS.md has no row%s", row);
    }
    ck_assert_uint_eq(rows, count);
    free(types);
}
END_TEST

START_TEST(a_duration_falls_into_the_bucket_that_ends_at_it_or_above)
{
    struct histogram histogram = {.count = 0};
    histogram_add(&histogram, 10000);
    histogram_add(&histogram, 10001);
    histogram_add(&histogram, -5);
    histogram_add(&histogram, INT64_C(100000000001));
    ck_assert_uint_eq(histogram.counts[0], 2);
    ck_assert_uint_eq(histogram.counts[1], 1);
    ck_assert_uint_eq(histogram.counts[HISTOGRAM_BOUNDS], 1);
    ck_assert_uint_eq(histogram.count, 4);
    ck_assert_uint_eq(histogram.sum_ns, 100000020002);
    struct metrics metrics = filled();
    metrics.turn = &histogram;
    text[metrics_text(&metrics, text)] = '\0';
    const char *name = "holdfast_loop_turn_seconds";
    char expected[128];
    snprintf(expected, sizeof(expected), "\n%s_bucket{le=\"2.5e-05\"} 3\n", name);
    ck_assert_ptr_nonnull(strstr(text, expected));
    snprintf(expected, sizeof(expected), "\n%s_bucket{le=\"+Inf\"} 4\n", name);
    ck_assert_ptr_nonnull(strstr(text, expected));
    for (uint32_t i = 1; i < HISTOGRAM_BOUNDS; i++) {
        ck_assert_int_gt(histogram_bound_ns(i), histogram_bound_ns(i - 1));
    }
}
END_TEST

/* docs/METRICS.md has a row for each reason, found by the reason's name. */
START_TEST(every_reason_is_in_the_documentation)
{
    static char page[PAGE_MAX];
    FILE *file = fopen(HF_METRICS_PAGE, "re");
    ck_assert_ptr_nonnull(file);
    page[fread(page, 1, sizeof(page) - 1, file)] = '\0';
    ck_assert(feof(file));
    fclose(file);
    for (unsigned i = 0; i < REASON_KINDS; i++) {
        char row[128];
        snprintf(row, sizeof(row), "\n| `%s` | %s | ", reason_name((enum reason_kind)i),
                 judgement_word(reason_level((enum reason_kind)i)));
        ck_assert_msg(strstr(page, row) != NULL, "docs/METRICS.md has no row%s", row);
    }
}
END_TEST

START_TEST(an_observer_tells_nothing_of_votes)
{
    struct metrics metrics = filled();
    metrics.quorum = NULL;
    metrics.voting = NULL;
    metrics.tls_end_s = 0;
    text[metrics_text(&metrics, text)] = '\0';
    ck_assert_ptr_null(strstr(text, "holdfast_voting"));
    ck_assert_ptr_nonnull(strstr(text, "holdfast_voter_up"));
}
END_TEST

START_TEST(the_judgement_is_in_the_metrics)
{
    struct metrics metrics = filled();
    judgement.level = JUDGEMENT_DEGRADED;
    judgement.count = 1;
    judgement.reasons[0] = (struct reason){
        .kind = REASON_VOTER_REFUSED, .subject = "host-c", .text = "it does not vote"};
    text[metrics_text(&metrics, text)] = '\0';
    ck_assert_ptr_nonnull(strstr(text, "\nholdfast_judgement{state=\"well\"} 0\n"
                                       "holdfast_judgement{state=\"degraded\"} 1\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\nholdfast_reasons{state=\"degraded\",reason=\"voter_refused\"} 1\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "\nholdfast_reasons{state=\"failing\",reason=\"session_lost\"} 0\n"));
}
END_TEST

START_TEST(the_end_of_the_certificate_is_known_if_there_is_one)
{
    struct metrics metrics = filled();
    metrics.tls_end_s = 1800000000;
    text[metrics_text(&metrics, text)] = '\0';
    ck_assert_ptr_nonnull(
        strstr(text, "\nholdfast_certificate_end_timestamp_seconds 1800000000\n"));
    metrics.tls_end_s = 0;
    text[metrics_text(&metrics, text)] = '\0';
    ck_assert_ptr_null(strstr(text, "holdfast_certificate_end_timestamp_seconds"));
}
END_TEST

/* The state is the one that the judgement and the status page show. */
START_TEST(the_session_has_its_state)
{
    static const struct {
        enum renewal_state session;
        bool was_safe;
        uint64_t lost;
        const char *state;
    } cases[] = {
        {RENEWAL_SAFE, true, 0, "safe"},      {RENEWAL_JEOPARDY, true, 1, "jeopardy"},
        {RENEWAL_LOST, true, 0, "lost"},      {RENEWAL_JEOPARDY, false, 1, "lost"},
        {RENEWAL_JEOPARDY, false, 0, "none"},
    };
    char line[64];
    struct metrics metrics = filled();
    metrics.session = cases[_i].session;
    metrics.was_safe = cases[_i].was_safe;
    host.sessions_lost = cases[_i].lost;
    text[metrics_text(&metrics, text)] = '\0';
    snprintf(line, sizeof(line), "\nholdfast_session_state{state=\"%s\"} 1\n", cases[_i].state);
    ck_assert_msg(strstr(text, line) != NULL, "%s", cases[_i].state);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("metrics");
    tcase_add_test(tests, every_line_is_one_that_prometheus_reads);
    tcase_add_test(tests, every_metric_is_in_the_documentation_and_no_other);
    tcase_add_test(tests, a_duration_falls_into_the_bucket_that_ends_at_it_or_above);
    tcase_add_test(tests, every_reason_is_in_the_documentation);
    tcase_add_test(tests, an_observer_tells_nothing_of_votes);
    tcase_add_test(tests, the_judgement_is_in_the_metrics);
    tcase_add_test(tests, the_end_of_the_certificate_is_known_if_there_is_one);
    tcase_add_loop_test(tests, the_session_has_its_state, 0, 5);
    return suite_main("metrics", tests);
}
