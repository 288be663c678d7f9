/*
 * The agent notices whether its socket's file still exists, even if it could not open the file at
 * once.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../suite_main.h"
#include "observe/files.h"

static struct agent *agent;

static void make_file(void)
{
    int fd = open(agent->config.socket, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void set_up(void)
{
    agent = calloc(1, sizeof(*agent));
    ck_assert_ptr_nonnull(agent);
    snprintf(agent->config.socket, sizeof(agent->config.socket), "%s/files.sock", suite_folder());
    agent->state_fd = open(suite_folder(), O_PATH | O_CLOEXEC);
    ck_assert(files_open(agent));
    make_file();
    files_open_socket(agent);
    ck_assert(files_socket_known(agent));
    ck_assert(!files_socket_gone(agent));
}

static void tear_down(void)
{
    (void)unlink(agent->config.socket);
    files_close(agent);
    close(agent->state_fd);
    free(agent);
}

/* Makes the file anew while no descriptor is free, so files.c cannot open the file. */
static void make_again_unseen(void)
{
    struct rlimit limit;
    ck_assert_int_eq(unlink(agent->config.socket), 0);
    ck_assert(files_socket_gone(agent));
    make_file();
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    files_open_socket(agent);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert(!files_socket_known(agent));
    ck_assert(!files_socket_gone(agent));
}

START_TEST(a_socket_that_could_not_be_opened_is_opened_later)
{
    make_again_unseen();
    files_open_socket_late(agent);
    ck_assert(files_socket_known(agent));
    ck_assert(!files_socket_gone(agent));
    ck_assert_int_eq(unlink(agent->config.socket), 0);
    ck_assert(files_socket_gone(agent));
}
END_TEST

START_TEST(a_socket_that_is_removed_before_that_is_gone)
{
    make_again_unseen();
    ck_assert_int_eq(unlink(agent->config.socket), 0);
    files_open_socket_late(agent);
    ck_assert(files_socket_known(agent));
    ck_assert(files_socket_gone(agent));
    make_file();
    files_open_socket(agent); /* the agent makes this call after it has made its socket again */
    ck_assert(!files_socket_gone(agent));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("files");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_socket_that_could_not_be_opened_is_opened_later);
    tcase_add_test(tests, a_socket_that_is_removed_before_that_is_gone);
    return suite_main("files", tests);
}
