/* The log's lines: escaping, sizes, and the limit on lines that strangers cause. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../suite_main.h"
#include "observe/log.h"

static int ends[2];

static void set_up(void)
{
    ck_assert_int_eq(pipe(ends), 0);
    log_open(ends[1], false);
}

static void tear_down(void)
{
    close(ends[0]);
    close(ends[1]);
}

/* Returns the lines that were written since the previous call. */
static const char *written(void)
{
    static char text[16 * LOG_LINE_MAX];
    ssize_t size = read(ends[0], text, sizeof(text) - 1);
    ck_assert_int_ge(size, 0);
    text[size] = '\0';
    return text;
}

START_TEST(a_line_is_words_and_numbers)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_INFO, "client_known");
    log_unsigned(&line, "client", 3);
    log_number(&line, "pid", -1);
    log_text(&line, "who", "sh");
    log_seconds(&line, "left", 1500000000);
    log_seconds(&line, "past", -1);
    log_end(&line);
    ck_assert_str_eq(written(), "level=info event=client_known client=3 pid=-1 who=sh "
                                "left=1.500 past=0.000\n");
}
END_TEST

/* Without log_set_level(), lines of level debug are not written, not counted as missing, and use up
 * no limit. */
START_TEST(debug_is_written_if_wanted)
{
    struct log_line line;
    struct log_limit limit = {0};
    struct log_missing before = log_missing();
    for (unsigned i = 0; i <= LOG_BURST; i++) {
        log_begin_limited(&line, LOG_LEVEL_DEBUG, "x", &limit, 1);
        log_end(&line);
        log_simple(LOG_LEVEL_DEBUG, "y", "no");
    }
    log_simple(LOG_LEVEL_INFO, "z", "yes");
    ck_assert_str_eq(written(), "level=info event=z text=yes\n");
    ck_assert_uint_eq(log_missing().left_out, before.left_out);
    log_set_level(LOG_LEVEL_DEBUG);
    log_begin_limited(&line, LOG_LEVEL_DEBUG, "x", &limit, 1);
    log_end(&line);
    log_set_level(LOG_LEVEL_INFO);
    ck_assert_str_eq(written(), "level=debug event=x\n");
}
END_TEST

START_TEST(what_would_break_a_line_is_escaped)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_WARN, "x");
    log_text(&line, "a", "two words");
    log_text(&line, "b", "");
    log_text(&line, "c", "q\"b\\n\nt\te\x1b[31m");
    log_text(&line, "d", "a=b");
    log_bytes(&line, "e", "nul\0in", 6);
    log_text(&line, "f", "gr\xc3\xbc\xc3\x9f");
    log_text(&line, "g",
             "a\xe2\x80\xae"
             "b"); /* U+202E, which writes from right to left */
    log_text(&line, "h",
             "a\xc3"
             "b\xc2\x85"); /* a byte that is not UTF-8, and a control character */
    log_end(&line);
    ck_assert_str_eq(written(),
                     "level=warn event=x a=\"two words\" b=\"\" c=\"q\\\"b\\\\n\\nt\\te\\x1b[31m\" "
                     "d=\"a=b\" e=\"nul\\x00in\" f=gr\xc3\xbc\xc3\x9f "
                     "g=\"a\\xe2\\x80\\xaeb\" h=\"a\\xc3b\\xc2\\x85\"\n");
}
END_TEST

START_TEST(a_line_is_cut_but_stays_one)
{
    char *huge = malloc(100000);
    struct log_line line;
    ck_assert_ptr_nonnull(huge);
    for (unsigned round = 0; round < 2; round++) {
        memset(huge, round == 0 ? 'x' : '\n', 99999);
        huge[99999] = '\0';
        log_begin(&line, LOG_LEVEL_ERROR, "x");
        log_text(&line, "a", huge);
        log_text(&line, "b", huge);
        log_number(&line, "c", 1);
        log_end(&line);
        const char *text = written();
        ck_assert_uint_le(strlen(text), LOG_LINE_MAX);
        ck_assert_uint_ge(strlen(text), LOG_LINE_MAX - 8);
        ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    }
    free(huge);
}
END_TEST

START_TEST(a_flood_is_cut_and_counted)
{
    struct log_limit limit = {.spent = 0};
    struct log_line line;
    const int64_t start_ns = 5000000000;
    unsigned lines = 0;
    for (unsigned i = 0; i < 1000; i++) {
        log_begin_limited(&line, LOG_LEVEL_WARN, "rules", &limit, start_ns + i);
        log_end(&line);
    }
    for (const char *at = written(); (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    ck_assert_uint_eq(lines, LOG_BURST);
    log_begin_limited(&line, LOG_LEVEL_WARN, "rules", &limit,
                      start_ns + LOG_INTERVAL_MS * INT64_C(1000000));
    log_end(&line);
    ck_assert_str_eq(written(), "level=warn event=rules left_out=950\n");
    /* After a quiet time another burst is possible, not larger than the first one. */
    for (unsigned i = 0; i < 1000; i++) {
        log_begin_limited(&line, LOG_LEVEL_WARN, "rules", &limit, start_ns + 3600000000000);
        log_end(&line);
    }
    lines = 0;
    for (const char *at = written(); (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    ck_assert_uint_eq(lines, LOG_BURST);
}
END_TEST

START_TEST(a_time_stands_before_it_if_asked_for)
{
    log_open(ends[1], true);
    log_simple(LOG_LEVEL_INFO, "x", "y");
    const char *text = written();
    ck_assert_int_eq(strncmp(text, "time=20", 7), 0);
    ck_assert_ptr_nonnull(strstr(text, "Z level=info event=x text=y\n"));
}
END_TEST

/* If the reader of the agent's log does not read, the agent loses lines, but does not block. */
START_TEST(a_full_pipe_costs_lines_not_time)
{
    char text[LOG_LINE_MAX / 2 + 1] = {0};
    memset(text, 'x', sizeof(text) - 1);
    for (unsigned i = 0; i < 1000; i++) {
        log_simple(LOG_LEVEL_INFO, "x", text);
    }
    ck_assert_int_eq(strncmp(written(), "level=info event=x text=xxx", 27), 0);
}
END_TEST

START_TEST(a_line_that_cannot_be_written_is_counted)
{
    uint64_t before = log_missing().lost;
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(full, 0);
    log_simple(LOG_LEVEL_INFO, "x", "there");
    ck_assert_uint_eq(log_missing().lost, before);
    log_open(full, false);
    log_simple(LOG_LEVEL_INFO, "x", "gone");
    ck_assert_uint_eq(log_missing().lost, before + 1);
    close(full);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *lines = tcase_create("lines");
    tcase_add_checked_fixture(lines, set_up, tear_down);
    tcase_add_test(lines, a_line_is_words_and_numbers);
    tcase_add_test(lines, debug_is_written_if_wanted);
    tcase_add_test(lines, what_would_break_a_line_is_escaped);
    tcase_add_test(lines, a_line_is_cut_but_stays_one);
    tcase_add_test(lines, a_flood_is_cut_and_counted);
    tcase_add_test(lines, a_time_stands_before_it_if_asked_for);
    tcase_add_test(lines, a_full_pipe_costs_lines_not_time);
    tcase_add_test(lines, a_line_that_cannot_be_written_is_counted);
    suite_add_tcase(suite, lines);
    return suite_run(suite);
}
