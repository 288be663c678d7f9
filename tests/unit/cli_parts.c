/*
 * The parts of the command that need no process: durations, options, names, JSON, text.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "json.h"
#include "options.h"
#include "table.h"
#include "text.h"
#include "text/utf8.h"

static const char *const good_durations[] = {"0s", "1ms",  "250ms",           "90s",     "5m",
                                             "1h", "007s", "9223372036854ms", "2562047h"};
static const int64_t good_values[] = {0,
                                      1000000,
                                      250000000,
                                      90000000000,
                                      300000000000,
                                      3600000000000,
                                      7000000000,
                                      9223372036854000000,
                                      INT64_C(2562047) * 3600000000000};

START_TEST(test_duration_good)
{
    int64_t value = -1;

    ck_assert_int_eq(duration_parse(good_durations[_i], &value), DURATION_GOOD);
    ck_assert_int_eq(value, good_values[_i]);
}
END_TEST

static const char *const bad_durations[] = {"",
                                            "s",
                                            "5",
                                            "-1s",
                                            "+1s",
                                            " 1s",
                                            "1 s",
                                            "1s ",
                                            "1.5s",
                                            "1S",
                                            "1ns",
                                            "1us",
                                            "1d",
                                            "0x1s",
                                            "1e3s",
                                            "1sec",
                                            "2562048h",
                                            "9223372036855ms",
                                            "99999999999999999999s"};

START_TEST(test_duration_bad)
{
    int64_t value = -1;

    ck_assert_int_ne(duration_parse(bad_durations[_i], &value), DURATION_GOOD);
}
END_TEST

START_TEST(test_options_mixed)
{
    struct cli cli = {.socket = NULL};
    struct arguments words;
    int64_t wait_ns = 0;
    int status = 0;
    bool flag = false;
    const struct option_spec specs[] = {{"wait", '\0', OPTION_DURATION, &wait_ns},
                                        {"code", 'E', OPTION_STATUS, &status},
                                        {"now", '\0', OPTION_FLAG, &flag}};
    char *argv[] = {(char *)"a",  (char *)"--wait=3s", (char *)"-E7",    (char *)"b",
                    (char *)"-s", (char *)"/x",        (char *)"--json", (char *)"--now",
                    (char *)"-",  (char *)"--",        (char *)"cmd",    (char *)"--json2",
                    NULL};

    ck_assert_int_eq(options_parse(&cli, "t", specs, 3, 12, argv, &words), 0);
    ck_assert_int_eq(wait_ns, 3000000000);
    ck_assert_int_eq(status, 7);
    ck_assert(flag);
    ck_assert(cli.json);
    ck_assert_str_eq(cli.socket, "/x");
    ck_assert_uint_eq(words.plain_count, 3);
    ck_assert_str_eq(words.plain[0], "a");
    ck_assert_str_eq(words.plain[1], "b");
    ck_assert_str_eq(words.plain[2], "-");
    ck_assert_uint_eq(words.after_count, 2);
    ck_assert_str_eq(words.after[1], "--json2");
}
END_TEST

static char *const bad_options[][3] = {
    {(char *)"--nope"},           {(char *)"-x"},
    {(char *)"--wait"},           {(char *)"--wait", (char *)"--"},
    {(char *)"--wait=1"},         {(char *)"-E", (char *)"256"},
    {(char *)"-E", (char *)"-1"}, {(char *)"-E", (char *)""},
    {(char *)"--json=1"},         {(char *)"--wai", (char *)"1s"},
};

START_TEST(test_options_bad)
{
    struct cli cli = {.socket = NULL};
    struct arguments words;
    int64_t wait_ns = 0;
    int status = 0;
    const struct option_spec specs[] = {{"wait", '\0', OPTION_DURATION, &wait_ns},
                                        {"code", 'E', OPTION_STATUS, &status}};
    char *argv[3];
    int argc = bad_options[_i][1] == NULL ? 1 : 2;

    memcpy(argv, bad_options[_i], sizeof(argv));
    ck_assert_int_eq(options_parse(&cli, "t", specs, 2, argc, argv, &words), CLI_USAGE);
}
END_TEST

START_TEST(test_names)
{
    char longest[257];

    memset(longest, 'x', 256);
    longest[256] = '\0';
    ck_assert_int_eq(name_check("t", longest), CLI_USAGE);
    longest[255] = '\0';
    ck_assert_int_eq(name_check("t", longest), 0);
    ck_assert_int_eq(name_check("t", ""), CLI_USAGE);
    ck_assert_int_eq(prefix_check("t", ""), 0);
    ck_assert_int_eq(name_check("t", "orders/42 \xc3\xbc\xf0\x9f\x94\x92"), 0);
    ck_assert_int_eq(name_check("t", "a\nb"), CLI_USAGE);
    ck_assert_int_eq(name_check("t", "a\x7f"), CLI_USAGE);
    ck_assert_int_eq(name_check("t", "a\xc2\x85"), CLI_USAGE);        /* NEL, a C1 control */
    ck_assert_int_eq(name_check("t", "a\xff"), CLI_USAGE);            /* this byte never occurs in
                                                                       * UTF-8 */
    ck_assert_int_eq(name_check("t", "\xc0\xaf"), CLI_USAGE);         /* an overlong form */
    ck_assert_int_eq(name_check("t", "\xed\xa0\x80"), CLI_USAGE);     /* a surrogate */
    ck_assert_int_eq(name_check("t", "\xf4\x90\x80\x80"), CLI_USAGE); /* above 0x10FFFF */
    ck_assert_int_eq(name_check("t", "\xe2\x82"), CLI_USAGE);         /* cut off */
}
END_TEST

START_TEST(test_json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct json json;

    ck_assert_ptr_nonnull(out);
    json_init(&json, out);
    json_open_object(&json, NULL);
    json_text(&json, "t", "q\" b\\ n\n e\x1b d\x7f c\xc2\x9b \xc3\xbc \xf0\x9f\x94\x92 x\xff\xc3");
    /* In the text: a right-to-left override, a zero-width space, and a tag character, which JSON
     * escapes as a surrogate pair. */
    json_text(&json, "u",
              "a\xe2\x80\xae"
              "b\xe2\x80\x8b"
              "c\xf3\xa0\x81\x81"
              "d");
    json_text(&json, "none", NULL);
    json_open_array(&json, "list");
    json_unsigned(&json, NULL, UINT64_MAX);
    json_open_object(&json, NULL);
    json_close_object(&json);
    json_open_array(&json, NULL);
    json_close_array(&json);
    json_close_array(&json);
    json_signed_or_null(&json, "a", -1);
    json_signed_or_null(&json, "b", 0);
    json_ms_or_null(&json, "c", -1);
    json_ms_or_null(&json, "d", -5000000);
    json_ms_or_null(&json, "e", 1999999);
    json_bool(&json, "f", true);
    json_close_object(&json);
    fclose(out);
    ck_assert_str_eq(text, "{\"t\":\"q\\\" b\\\\ n\\u000a e\\u001b d\\u007f c\\u009b \xc3\xbc "
                           "\xf0\x9f\x94\x92 x\xef\xbf\xbd\xef\xbf\xbd\","
                           "\"u\":\"a\\u202eb\\u200bc\\udb40\\udc41d\",\"none\":null,"
                           "\"list\":[18446744073709551615,{},[]],"
                           "\"a\":null,\"b\":0,\"c\":null,\"d\":0,\"e\":1,\"f\":true}");
    free(text);
}
END_TEST

START_TEST(test_text_duration)
{
    static const struct {
        int64_t value_ns;
        const char *text;
    } cases[] = {
        {-1, "?"},
        {-2, "0 s"},
        {0, "0 s"},
        {1, "<1 ms"},
        {999999999, "999 ms"},
        {4990000000, "4.9 s"},
        {123000000000, "2 m 03 s"},
        {INT64_C(18600) * 1000000000, "5 h 10 m"},
        {INT64_C(273600) * 1000000000, "3 d 04 h"},
    };
    char text[TEXT_DURATION_SIZE];

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        ck_assert_str_eq(text_duration(text, cases[index].value_ns), cases[index].text);
    }
}
END_TEST

START_TEST(test_text_clean)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(text_write_clean(out, "a\x1b[2J\xff\xc2\x9b\xc3\xbc", 0), 8);
    ck_assert_uint_eq(text_write_clean(out, "|abcdef", 4), 7);
    fclose(out);
    ck_assert_str_eq(text, "a?[2J??\xc3\xbc|abc...");
    free(text);
}
END_TEST

/* Invisible characters, and characters that change the direction of writing, are shown as escapes.
 * Their neighbours in Unicode are shown as they are. */
START_TEST(test_text_unseen)
{
    static const uint32_t unseen[] = {0x202A, 0x202E, 0x2066,  0x2069,  0x200E, 0x200F, 0x61C,
                                      0x200B, 0x200D, 0x2028,  0x2029,  0x2060, 0xFEFF, 0xAD,
                                      0xFE0F, 0x3164, 0xE0001, 0xE01EF, 0x180E};
    static const uint32_t seen[] = {' ',    0xA0,   0xAC,   0xAE,   0x61B,  0x61D,   0x200A,
                                    0x2010, 0x2027, 0x202F, 0x205F, 0x2070, 0x1F512, 0xFFFD};
    for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
        ck_assert_msg(hfi_utf8_is_unseen(unseen[i]), "U+%04X", (unsigned)unseen[i]);
    }
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
        ck_assert_msg(!hfi_utf8_is_unseen(seen[i]), "U+%04X", (unsigned)seen[i]);
    }
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(text_write_clean(out,
                                       "a\xe2\x80\xae"
                                       "b\xe2\x81\xa6\xd8\x9c|",
                                       0),
                      6);
    fclose(out);
    ck_assert_str_eq(text, "a?b??|");
    free(text);
}
END_TEST

/* Widths are those of the terminal, a long text is cut, and a name with several spaces cannot look
 * like two columns. */
START_TEST(test_table)
{
    static const struct table_column columns[] = {{"NAME", 4}, {"HOST", 0}};
    static const struct {
        const char *name;
        size_t width; /* the first column's width; 0: as wide as the name needs */
        const char *line;
    } cases[] = {
        {"jobs", 0, "jobs  a\n"},
        {"job", 0, "job   a\n"},
        {"日本語", 0, "日本語  a\n"},         /* 2 columns each */
        {"Ze\u0301ro", 0, "Ze\u0301ro  a\n"}, /* the accent has no column of its own */
        {"x  y   z", 0, "x ␣y ␣␣z  a\n"},
        {"x\u00A0\u3000y", 0, "x␣␣y  a\n"},
        {"abcdefgh", 5, "abcd…  a\n"},
        {"日本語", 5, "日本…  a\n"},
        {"日本語", 4, "日…   a\n"}, /* there is no room for the second character */
    };
    struct table table;

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        char name[32];
        char host[] = "a";
        char *row[] = {name, host};
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        (void)snprintf(name, sizeof(name), "%s", cases[index].name);
        table_init(&table, columns, 2);
        table_measure(&table, row);
        if (cases[index].width > 0) {
            table.widths[0] = cases[index].width;
        }
        table_write_row(&table, row, out);
        fclose(out);
        ck_assert_str_eq(text, cases[index].line);
        free(text);
    }
}
END_TEST

START_TEST(test_exit_codes)
{
    static const struct {
        int error;
        int status;
    } cases[] = {
        {0, 0},           {HF_EBUSY, 75},        {HF_ETIMEDOUT, 75},
        {HF_ELOST, 76},   {HF_ENOAGENT, 69},     {HF_EACCES, 77},
        {HF_EINVAL, 64},  {HF_ENAMETOOLONG, 64}, {HF_EFULL, 70},
        {HF_EPROTO, 70},  {HF_EVERSION, 70},     {HF_ENOMEM, 70},
        {HF_EDEADLK, 70},
    };

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        ck_assert_int_eq(cli_exit_code(cases[index].error), cases[index].status);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_parts");
    TCase *parts = tcase_create("parts");

    tcase_add_loop_test(parts, test_duration_good, 0,
                        sizeof(good_durations) / sizeof(good_durations[0]));
    tcase_add_loop_test(parts, test_duration_bad, 0,
                        sizeof(bad_durations) / sizeof(bad_durations[0]));
    tcase_add_test(parts, test_options_mixed);
    tcase_add_loop_test(parts, test_options_bad, 0, sizeof(bad_options) / sizeof(bad_options[0]));
    tcase_add_test(parts, test_names);
    tcase_add_test(parts, test_json);
    tcase_add_test(parts, test_text_duration);
    tcase_add_test(parts, test_text_clean);
    tcase_add_test(parts, test_text_unseen);
    tcase_add_test(parts, test_table);
    tcase_add_test(parts, test_exit_codes);
    suite_add_tcase(suite, parts);
    return suite_run(suite);
}
