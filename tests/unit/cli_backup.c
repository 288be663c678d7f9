/* `holdfast member backup`: the file is either complete or absent, and the command replaces a file
 * only if asked to. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"
#include "cli_run.h"

static const char content[] = "what a store looks like";
static char folder[64];
static char path[80];
static struct ran ran;

static void setup(void)
{
    snprintf(folder, sizeof folder, "%s/backup-XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/copy", folder);
}

/* Returns how many files are in the folder. */
static unsigned count_files(void)
{
    DIR *files = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;

    while ((entry = readdir(files)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    closedir(files);
    return count;
}

static void teardown(void)
{
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* nothing else is left */
}

static void run(const char *fake, const char *options, int status)
{
    char line[256];

    snprintf(line, sizeof line, "member backup %s %s", options, path);
    run_command(fake, line, &ran);
    ck_assert_msg(ran.status == status, "%d: %s", ran.status, ran.err);
}

static void put(const char *text)
{
    FILE *file = fopen(path, "w");

    fputs(text, file);
    fclose(file);
}

static void expect(const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");

    ck_assert_ptr_nonnull(file);
    found[fread(found, 1, sizeof found - 1, file)] = '\0';
    fclose(file);
    ck_assert_str_eq(found, text);
}

START_TEST(the_copy_becomes_a_file)
{
    struct stat status;

    run("", "", 0);
    expect(content);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_int_eq(status.st_mode & 07777, 0600);
    ck_assert_ptr_nonnull(strstr(ran.out, "as of commit 8123, with 412 lock names"));
    ck_assert_str_eq(ran.err, ""); /* stderr is no terminal, so no progress is shown */
    run("", "--force --json", 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"commit\":8123,\"locks\":412,\"bytes\":23}"));
}
END_TEST

START_TEST(no_file_is_replaced_unasked)
{
    put("dear");
    run("", "", 70);
    expect("dear");
    ck_assert_ptr_nonnull(strstr(ran.err, "exists, and is left as it is"));
    ck_assert_ptr_null(strstr(ran.log, "backup")); /* the command did not ask the agent */
    run("", "--force", 0);
    expect(content);
}
END_TEST

START_TEST(nothing_is_left_of_a_failure)
{
    run("backup_text=state_dir is full", "", 70);
    ck_assert_ptr_nonnull(strstr(ran.err, "the agent has made none: state_dir is full"));
    run("backup_short", "", 70);
    ck_assert_ptr_nonnull(strstr(ran.err, "found 23 bytes, expected 24"));
    run("backup=-10", "", 77); /* HF_EACCES */
    run("connect=-9", "", 69); /* HF_ENOAGENT */
    ck_assert_uint_eq(count_files(), 0);
    put("dear");
    run("backup_short", "--force", 70);
    expect("dear");
}
END_TEST

START_TEST(usage)
{
    run_command("", "member backup", &ran);
    ck_assert_int_eq(ran.status, 64);
    run_command("", "member backup a b", &ran);
    ck_assert_int_eq(ran.status, 64);
    run_command("", "member --force", &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_ptr_nonnull(strstr(ran.err, "expected it after backup"));
    run_command("", "member backup --yes a", &ran);
    ck_assert_int_eq(ran.status, 64);
    run("", "", 0);
    run_command("", "member backup /nowhere/at/all", &ran);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_ptr_nonnull(strstr(ran.err, "No such file"));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cli_backup");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_copy_becomes_a_file);
    tcase_add_test(tests, no_file_is_replaced_unasked);
    tcase_add_test(tests, nothing_is_left_of_a_failure);
    tcase_add_test(tests, usage);
    return suite_main("cli_backup", tests);
}
