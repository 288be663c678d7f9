/*
 * A client whose memory never comes (fuse_page.h): with it, it makes every call that it can on what
 * it has of the agent. As root, who can have such memory and be another user; else skipped.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "fuse_page.h"
#include "require.h"

static struct fuse_page page;

/* ---- the memory itself ---- */

static pid_t start_writer(int to)
{
    pid_t pid = fork_tied();
    REQUIRE(pid >= 0, "%s", strerror(errno));
    if (pid == 0) {
        _exit(write(to, page.memory, 1) == -1 && errno == EFAULT ? 3 : 4);
    }
    return pid;
}

/* Whoever writes it waits until it is killed, or until the server ends. */
START_TEST(such_memory_keeps_its_writer)
{
    int status = 0;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t writer = start_writer(ends[1]);
    fuse_page_await(&page);
    sleep_ms(50);
    ck_assert_int_eq(waitpid(writer, &status, WNOHANG), 0);
    kill_process(writer);
    writer = start_writer(ends[1]);
    sleep_ms(50);
    fuse_page_abort(&page);
    ck_assert_int_eq(wait_for(writer), 3 << 8);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

static void have_page(void)
{
    ck_assert(fuse_page_create(&page));
}

static void leave_page(void)
{
    fuse_page_destroy(&page);
}

int main(void)
{
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: only root can have memory of a FUSE server of its own\n");
        return 77;
    }
    if (!fuse_page_create(&page)) {
        return 77;
    }
    fuse_page_destroy(&page);
    TCase *tests = tcase_create("page_never_comes");
    tcase_add_checked_fixture(tests, have_page, leave_page);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, such_memory_keeps_its_writer);
    return suite_main("page_never_comes", tests);
}
