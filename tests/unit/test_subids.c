/* The account to which a user's number belongs, by the table /etc/subuid. */
#include <check.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/subids.h"

enum { WRONG_MAX = 64 };

static char file[64];
static unsigned wrong[WRONG_MAX]; /* the lines that were reported */
static unsigned wrong_count;

static void set_up(void)
{
    snprintf(file, sizeof(file), "%s/subids-XXXXXX", suite_folder());
    int fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void tear_down(void)
{
    unlink(file);
}

static void on_wrong(void *arg, unsigned line, const char *why)
{
    ck_assert_ptr_eq(arg, file);
    ck_assert_ptr_nonnull(why);
    ck_assert_uint_lt(wrong_count, WRONG_MAX);
    wrong[wrong_count++] = line;
}

static void load(const char *text)
{
    FILE *out = fopen(file, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    ck_assert_int_eq(fclose(out), 0);
    wrong_count = 0;
    ck_assert(subids_load(file, on_wrong, file));
}

START_TEST(a_range_is_its_owners)
{
    load("65534:100000:65536\n2000:300000:10\nnobody:165536:2\n\n# said nothing\n1999:200000:1");
    ck_assert_uint_eq(wrong_count, 0);
    ck_assert_uint_eq(subids_account(99999), 99999);
    ck_assert_uint_eq(subids_account(100000), 65534);
    ck_assert_uint_eq(subids_account(165535), 65534);
    ck_assert_uint_eq(subids_account(165536), getpwnam("nobody")->pw_uid);
    ck_assert_uint_eq(subids_account(165538), 165538);
    /* the last line of the file has no line feed */
    ck_assert_uint_eq(subids_account(200000), 1999);
    ck_assert_uint_eq(subids_account(300000), 2000);
    ck_assert_uint_eq(subids_account(300009), 2000);
    ck_assert_uint_eq(subids_account(300010), 300010);
    ck_assert_uint_eq(subids_account(65534), 65534);
    ck_assert_uint_eq(subids_account(0), 0);
    ck_assert_uint_eq(subids_account((uid_t)-1), (uid_t)-1);
}
END_TEST

START_TEST(lines_that_make_no_sense_are_told_and_left_out)
{
    static const char *const lines[] = {
        "nobody",
        "nobody:1000000",
        "nobody:1000000:",
        "nobody::5",
        ":1000000:5",
        "nobody:1000000:5:6",
        "nobody:x:5",
        "nobody:1000000:-5",
        "nobody: 1000000:5",
        "nobody:+1:5",
        "nobody:1000000:0",
        "nobody:1000000:5 ",
        "nobody:0x10:5",
        "nobody:4294967295:1",
        "nobody:4294967294:2",
        "nobody:1:4294967295",
        "nobody:99999999999999999999:1",
        "there-is-no-such-user:1000000:5",
    };
    enum { LINES = sizeof(lines) / sizeof(lines[0]) };
    char text[4096] = "1:500000:1\n";
    for (unsigned i = 0; i < LINES; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof(text) - used, "%s\n", lines[i]);
    }
    size_t used = strlen(text);
    memset(text + used, '7', 1000); /* this line is longer than a line may be */
    snprintf(text + used + 1000, sizeof(text) - used - 1000, "\n2:500001:1\n");
    load(text);
    ck_assert_uint_eq(wrong_count, LINES + 1);
    for (unsigned i = 0; i <= LINES; i++) {
        ck_assert_uint_eq(wrong[i], i + 2);
    }
    ck_assert_uint_eq(subids_account(500000), 1);
    ck_assert_uint_eq(subids_account(500001), 2);
    ck_assert_uint_eq(subids_account(1000000), 1000000);
    ck_assert_uint_eq(subids_account(16), 16);
    ck_assert_uint_eq(subids_account(4294967294), 4294967294);
}
END_TEST

START_TEST(the_first_line_has_what_two_have)
{
    load("1:1100:100\n2:1000:1000\n3:1150:1\n1:1050:100\n4:1900:200\n");
    /* line 4 overlaps lines 1 and 2; line 1 has the same owner as line 4 */
    ck_assert_uint_eq(wrong_count, 4);
    ck_assert_uint_eq(wrong[0], 2);
    ck_assert_uint_eq(wrong[1], 3);
    ck_assert_uint_eq(wrong[2], 4);
    ck_assert_uint_eq(wrong[3], 5);
    ck_assert_uint_eq(subids_account(999), 999);
    ck_assert_uint_eq(subids_account(1000), 2);
    ck_assert_uint_eq(subids_account(1099), 2);
    ck_assert_uint_eq(subids_account(1100), 1);
    ck_assert_uint_eq(subids_account(1150), 1);
    ck_assert_uint_eq(subids_account(1199), 1);
    ck_assert_uint_eq(subids_account(1200), 2);
    ck_assert_uint_eq(subids_account(1999), 2);
    ck_assert_uint_eq(subids_account(2000), 4);
    ck_assert_uint_eq(subids_account(2099), 4);
    ck_assert_uint_eq(subids_account(2100), 2100);
}
END_TEST

/* Each range of root is an account of its own: root's account has no limit, and root may have many
 * containers. */
START_TEST(roots_ranges_are_an_account_a_container)
{
    load("root:1000:1\nroot:1000000:1000000000\n0:60000:10000\n5:0:10\n");
    ck_assert_uint_eq(wrong_count, 0);
    ck_assert_uint_eq(subids_account(1000), 1000);
    ck_assert_uint_eq(subids_account(60000), 60000);
    ck_assert_uint_eq(subids_account(65535), 65535);
    ck_assert_uint_eq(subids_account(65537), 65536);
    ck_assert_uint_eq(subids_account(1000000), 1000000);
    ck_assert_uint_eq(subids_account(1065535), 1000000);
    ck_assert_uint_eq(subids_account(1065536), 1065536);
    ck_assert_uint_eq(subids_account(1065599), 1065536);
    ck_assert_uint_eq(subids_account(0), 0);
    ck_assert_uint_eq(subids_account(9), 5);
}
END_TEST

START_TEST(without_a_file_each_is_its_own)
{
    load("1:1000:10\n");
    ck_assert_int_eq(unlink(file), 0);
    ck_assert(subids_load(file, on_wrong, file));
    ck_assert_uint_eq(subids_account(1005), 1005);
    ck_assert_int_eq(mkdir(file, 0700), 0);
    ck_assert(!subids_load(file, on_wrong, file)); /* EISDIR: a folder is no table */
    ck_assert_uint_eq(subids_account(1005), 1005);
    ck_assert_int_eq(rmdir(file), 0);
}
END_TEST

START_TEST(too_many_ranges_are_told)
{
    FILE *out = fopen(file, "w");
    ck_assert_ptr_nonnull(out);
    for (unsigned i = 0; i <= SUBIDS_RANGES_MAX; i++) {
        fprintf(out, "7:%u:1\n", 4000000 - 2 * i);
    }
    ck_assert_int_eq(fclose(out), 0);
    wrong_count = 0;
    ck_assert(subids_load(file, on_wrong, file));
    ck_assert_uint_eq(wrong_count, 1);
    ck_assert_uint_eq(wrong[0], SUBIDS_RANGES_MAX + 1);
    ck_assert_uint_eq(subids_account(4000000), 7);
    ck_assert_uint_eq(subids_account(4000000 - 2 * SUBIDS_RANGES_MAX + 2), 7);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("subids");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_range_is_its_owners);
    tcase_add_test(tests, lines_that_make_no_sense_are_told_and_left_out);
    tcase_add_test(tests, the_first_line_has_what_two_have);
    tcase_add_test(tests, roots_ranges_are_an_account_a_container);
    tcase_add_test(tests, without_a_file_each_is_its_own);
    tcase_add_test(tests, too_many_ranges_are_told);
    return suite_main("subids", tests);
}
