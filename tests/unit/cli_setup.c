/*
 * The parts of `holdfast setup`: addresses and voters of a cell, its record, and files that are
 * written whole or not at all. tests/cluster/setup.sh runs the command.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"
#include "setup_cell.h"
#include "setup_file.h"
#include "setup_fit.h"
#include "tool.h"

static const struct {
    const char *spec;
    const char *address; /* NULL: the spec is refused */
    const char *part;
} specs[] = {
    {"a=10.0.0.1", "tls+tcp://10.0.0.1:7411", "10.0.0.1"},
    {"a=10.0.0.1:99", "tls+tcp://10.0.0.1:99", "10.0.0.1"},
    {"a=host.example", "tls+tcp://host.example:7411", "host.example"},
    {"a=[fd00::1]", "tls+tcp://[fd00::1]:7411", "fd00::1"},
    {"a=[fd00::1]:99", "tls+tcp://[fd00::1]:99", "fd00::1"},
    {"a=tls+tcp://h:1", "tls+tcp://h:1", "h"},
    {"a=tcp://h:1", "tcp://h:1", "h"}, /* holdfastd refuses this address, and says why */
    {"abcdefghijklmnopqrstuvwxyz-_0123=h", "tls+tcp://h:7411", "h"},
    {"abcdefghijklmnopqrstuvwxyz-_01234=h", NULL, NULL},
    {"a", NULL, NULL},
    {"a=", NULL, NULL},
    {"=h", NULL, NULL},
    {"A=h", NULL, NULL},
    {"../a=h", NULL, NULL},
    {"a=h\nb", NULL, NULL},
    {"a=\x7f", NULL, NULL},
};

START_TEST(test_specs)
{
    struct setup_cell cell = {.host_count = 0};
    char part[SETUP_ADDRESS_SIZE];
    int status = setup_cell_add(&cell, specs[_i].spec);

    ck_assert_int_eq(status, specs[_i].address == NULL ? 64 : 0);
    ck_assert_uint_eq(cell.host_count, specs[_i].address == NULL ? 0 : 1);
    if (specs[_i].address != NULL) {
        ck_assert_str_eq(cell.hosts[0].address, specs[_i].address);
        ck_assert_str_eq(setup_host_part(&cell.hosts[0], part), specs[_i].part);
    }
}
END_TEST

/* A text that is too long for an address is refused, and not cut. */
START_TEST(test_long_address)
{
    struct setup_cell cell = {.host_count = 0};
    char spec[SETUP_ADDRESS_SIZE + 8] = "a=";

    memset(spec + 2, 'h', SETUP_ADDRESS_SIZE);
    ck_assert_int_eq(setup_cell_add(&cell, spec), 64);
}
END_TEST

START_TEST(test_elect)
{
    static const size_t voters[] = {0, 1, 1, 3, 3, 5, 5, 7, 7, 7};
    struct setup_cell cell = {.host_count = 0};
    char spec[32];

    for (int host = 1; host <= 9; host++) {
        size_t count = 0;
        snprintf(spec, sizeof(spec), "h%d=10.0.0.%d", host, host);
        ck_assert_int_eq(setup_cell_add(&cell, spec), 0);
        setup_cell_elect(&cell);
        for (size_t index = 0; index < cell.host_count; index++) {
            ck_assert(!cell.hosts[index].votes || index == count);
            count += cell.hosts[index].votes ? 1 : 0;
        }
        ck_assert_uint_eq(count, voters[host]);
    }
}
END_TEST

START_TEST(test_full)
{
    struct setup_cell cell = {.host_count = 0};
    char spec[32];

    for (int host = 0; host <= SETUP_HOSTS_MAX; host++) {
        snprintf(spec, sizeof(spec), "h%d=10.0.0.%d", host, host);
        ck_assert_int_eq(setup_cell_add(&cell, spec), host < SETUP_HOSTS_MAX ? 0 : 64);
    }
}
END_TEST

/* A later run reads only three things of the cell from the record: its name, users and voters. */
START_TEST(test_record)
{
    struct setup_cell cell = {.name = "prod", .users = "alice, @ops"};
    struct setup_cell again = {.host_count = 0};

    ck_assert_int_eq(setup_cell_add(&cell, "a=10.0.0.1"), 0);
    ck_assert_int_eq(setup_cell_add(&cell, "b=[fd00::2]:99"), 0);
    setup_cell_elect(&cell);
    char *text = setup_cell_record(&cell);
    ck_assert_ptr_nonnull(text);
    ck_assert(setup_cell_read(&again, text));
    free(text);
    ck_assert(again.recorded);
    ck_assert_str_eq(again.name, "prod");
    ck_assert_str_eq(again.users, "alice, @ops");
    ck_assert_uint_eq(again.host_count, 1);
    ck_assert(again.hosts[0].votes && !again.hosts[0].wanted);
    ck_assert_ptr_null(setup_cell_find(&again, "a"));

    ck_assert_int_eq(setup_cell_add(&again, "a=10.0.0.9"), 64);
    ck_assert_int_eq(setup_cell_add(&again, "a=10.0.0.1"), 0);
    ck_assert_int_eq(setup_cell_add(&again, "a=10.0.0.1"), 64);
    ck_assert_int_eq(setup_cell_add(&again, "c=10.0.0.1"), 64);
    ck_assert_int_eq(setup_cell_add(&again, "c=10.0.0.3"), 0);
    ck_assert_ptr_eq(setup_cell_find(&again, "a"), &again.hosts[0]);
    ck_assert(!setup_cell_find(&again, "c")->votes);
}
END_TEST

static const char *const bad_records[] = {
    "",
    "cell = prod\n",
    "cell = prod\n[voters]\na\n",
    "cell = Prod\n[voters]\na = tls+tcp://h:1\n",
    "[voters]\na = tls+tcp://h:1\n",
    "cell = prod\n[voters]\n../a = tls+tcp://h:1\n",
    "cell = prod\n[voters]\na = tls+tcp://h:1\nb = tls+tcp://h:1\n",
};

START_TEST(test_bad_record)
{
    struct setup_cell cell = {.host_count = 0};
    char text[128];

    snprintf(text, sizeof(text), "%s", bad_records[_i]);
    ck_assert(!setup_cell_read(&cell, text));
}
END_TEST

static unsigned mode_of(const char *path)
{
    struct stat status;

    ck_assert_int_eq(stat(path, &status), 0);
    return status.st_mode & 07777;
}

static void holds(const char *path, const char *text)
{
    char *there = setup_file_read(path);

    ck_assert_ptr_nonnull(there);
    ck_assert_str_eq(there, text);
    free(there);
}

START_TEST(test_write)
{
    char path[256];
    char kept[300];
    char backup[SETUP_PATH_MAX];
    struct setup_file file = {
        .path = path, .text = "one\n", .mode = 0640, .owner = (uid_t)-1, .group = (gid_t)-1};

    umask(077);
    snprintf(path, sizeof(path), "%s/file", suite_folder());
    ck_assert_int_eq(setup_file_absent(path, false), 0);
    ck_assert_int_eq(setup_file_write(&file, false, backup), 0);
    ck_assert_uint_eq(mode_of(path), 0640);
    holds(path, "one\n");
    ck_assert_int_eq(setup_file_absent(path, false), 70);
    ck_assert_int_eq(setup_file_absent(path, true), 0);

    ck_assert_int_eq(setup_file_write(&file, false, backup), 0); /* the same text again */
    file.text = "two\n";
    file.mode = 0600;
    ck_assert_int_eq(setup_file_write(&file, false, backup), 70);
    holds(path, "one\n");
    ck_assert_int_eq(setup_file_write(&file, true, backup), 0);
    snprintf(kept, sizeof(kept), "%s.bak-1", path);
    ck_assert_str_eq(backup, kept);
    holds(path, "two\n");
    holds(kept, "one\n");
    ck_assert_uint_eq(mode_of(path), 0600);

    file.text = "three\n";
    ck_assert_int_eq(setup_file_write(&file, true, backup), 0);
    snprintf(kept, sizeof(kept), "%s.bak-2", path);
    ck_assert_str_eq(backup, kept);
    holds(kept, "two\n");
    snprintf(kept, sizeof(kept), "%s.bak-1", path);
    holds(kept, "one\n");
}
END_TEST

/* A symbolic link in the way is not followed. */
START_TEST(test_in_the_way)
{
    char path[256];
    char other[256];
    char backup[SETUP_PATH_MAX];
    struct setup_file file = {
        .path = path, .text = "text\n", .mode = 0600, .owner = (uid_t)-1, .group = (gid_t)-1};

    snprintf(path, sizeof(path), "%s/link", suite_folder());
    snprintf(other, sizeof(other), "%s/other", suite_folder());
    ck_assert_int_eq(symlink(other, path), 0);
    ck_assert_int_eq(setup_file_write(&file, false, backup), 70);
    ck_assert_int_ne(access(other, F_OK), 0);
    snprintf(path, sizeof(path), "%s/none/file", suite_folder());
    ck_assert_int_eq(setup_file_write(&file, false, backup), 70);
}
END_TEST

START_TEST(test_own_folder)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/folder", suite_folder());
    ck_assert_int_eq(setup_folder_make(path, 0700), 0);
    ck_assert_int_eq(setup_folder_make(path, 0700), 0);
    ck_assert_int_eq(setup_folder_is_own(path), 0);
    ck_assert_int_eq(chmod(path, 0770), 0);
    ck_assert_int_eq(setup_folder_is_own(path), 70);
}
END_TEST

START_TEST(test_tool)
{
    static const char *const reads[] = {"sh", "-c", "cat /proc/self/fd/0 >&2; exit 3", NULL};
    static const char *const dies[] = {"sh", "-c", "kill -9 $$", NULL};
    static const char *const talks[] = {
        "sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo word >&2; i=$((i+1)); done", NULL};
    static const char *const none[] = {"/nonexistent", NULL};
    static const char *const missing[] = {"sh", "-c", "exit 127", NULL};
    char said[TOOL_SAID_MAX];

    ck_assert_int_eq(tool_run(reads, "the text", said), 3);
    ck_assert_str_eq(said, "the text");
    ck_assert_int_eq(tool_run(reads, NULL, said), 3);
    ck_assert_str_eq(said, "");
    ck_assert_int_eq(tool_run(dies, NULL, said), 137);
    ck_assert_int_eq(tool_run(talks, NULL, said), 0);
    ck_assert_uint_eq(strlen(said), TOOL_SAID_MAX - 1);
    ck_assert_int_eq(tool_run(none, NULL, said), -1);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(tool_run(missing, NULL, said), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* The paths of a host's folder become those of the place where it is installed. */
static const struct {
    const char *text;
    const char *state_dir; /* NULL: the place has none */
    const char *fitted;
} fits[] = {
    {"; [tls]\n[agent]\nname = b\nstate_dir = /x/s\nsocket = /x/s/agent.sock\n\n[tls]\n"
     "ca = /x/ca.pem\ncert = /x/b.pem\nkey = /x/b.key\n",
     NULL,
     "; [tls]\n[agent]\nname = b\nstate_dir = /x/s\nsocket = /x/s/agent.sock\n\n[tls]\n"
     "ca = /y/ca.pem\ncert = /y/b.pem\nkey = /y/b.key\n"},
    {"[agent]\nname = b\nstate_dir = /x/s\nsocket = /x/s/agent.sock\n[cell]\nsocket = z\n", "/y/s",
     "[agent]\nstate_dir = /y/s\nsocket = /y/s/agent.sock\nname = b\n[cell]\nsocket = z\n"},
    {"[agent]\nname = b", "/y/s",
     "[agent]\nstate_dir = /y/s\nsocket = /y/s/agent.sock\nname = b\n"},
    /* A person edited these lines. */
    {"[tls]\nca=/x/ca.pem ; ours\ncert = /own/node.pem\nkey = /x/c.key\n", NULL,
     "[tls]\nca = /y/ca.pem\ncert = /own/node.pem\nkey = /x/c.key\n"},
    /* Only [tls] has these keys. */
    {"[agent]\ncert = /x/b.pem\n[voters]\nca = tcp://ca.pem\nkey = /x/b.key\n", NULL,
     "[agent]\ncert = /x/b.pem\n[voters]\nca = tcp://ca.pem\nkey = /x/b.key\n"},
    {"", "/y/s", ""},
};

START_TEST(test_fits)
{
    const struct setup_place place = {.folder = "/y", .state_dir = fits[_i].state_dir};
    char *fitted = setup_fit(fits[_i].text, "b", &place);

    ck_assert_ptr_nonnull(fitted);
    ck_assert_str_eq(fitted, fits[_i].fitted);
    free(fitted);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_setup");
    TCase *parts = tcase_create("parts");

    tcase_add_loop_test(parts, test_specs, 0, sizeof(specs) / sizeof(specs[0]));
    tcase_add_test(parts, test_long_address);
    tcase_add_test(parts, test_elect);
    tcase_add_test(parts, test_full);
    tcase_add_test(parts, test_record);
    tcase_add_loop_test(parts, test_bad_record, 0, sizeof(bad_records) / sizeof(bad_records[0]));
    tcase_add_loop_test(parts, test_fits, 0, sizeof(fits) / sizeof(fits[0]));
    tcase_add_test(parts, test_write);
    tcase_add_test(parts, test_in_the_way);
    tcase_add_test(parts, test_own_folder);
    tcase_add_test(parts, test_tool);
    suite_add_tcase(suite, parts);
    return suite_run(suite);
}
