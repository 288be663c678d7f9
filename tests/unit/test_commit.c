/* The commit thread: a batch is durable when it says so, and the loop goes on meanwhile. */
#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/commit.h"

enum { WAIT_MS = 20000 };

static char folder[64];
static char path[96];
static struct store *store;
static struct store_meta meta;
static struct committer *committer;
static int gate[2]; /* put() waits for a byte if the batch says so */

struct batch {
    bool wait;
    bool fail;
    uint32_t epoch;
};

static bool put(void *arg, struct store *its, const void *bytes)
{
    const struct batch *batch = bytes;
    char byte;
    sigset_t blocked;
    ck_assert_ptr_eq(arg, &meta);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    ck_assert_int_eq(sigismember(&blocked, SIGTERM), 1); /* signals are the loop's */
    if (batch->wait) {
        ck_assert_int_eq(read(gate[0], &byte, 1), 1);
    }
    return !batch->fail && store_put_session_epoch(its, batch->epoch);
}

static struct store *open_store(void)
{
    struct store_identity identity = {.cell = {.length = 0}};
    char error[STORE_ERROR_MAX];
    message_agent_set(&identity.cell, "prod", 4);
    message_agent_set(&identity.agent, "host-a", 6);
    struct store *opened = store_open(path, &identity, &meta, error);
    ck_assert_msg(opened != NULL, "%s", error);
    return opened;
}

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "/tmp/holdfast-commit.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/holdfast.db", folder);
    ck_assert_int_eq(pipe(gate), 0);
    store = open_store();
    struct committer_config config = {.store = store, .put = put, .arg = &meta};
    committer = committer_open(&config);
    ck_assert_ptr_nonnull(committer);
}

static void tear_down(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    char name[128];
    committer_close(committer);
    store_close(store);
    for (size_t i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        unlink(name);
    }
    rmdir(folder);
    close(gate[0]);
    close(gate[1]);
}

static bool is_readable(int timeout_ms)
{
    struct pollfd fd = {.fd = committer_fd(committer), .events = POLLIN};
    return poll(&fd, 1, timeout_ms) == 1;
}

START_TEST(a_batch_is_durable_when_it_says_so)
{
    struct batch batch = {.wait = true, .epoch = 7};
    const char *error = NULL;
    uint64_t commit = 0;
    uint64_t first = meta.commit;
    ck_assert(!committer_wait(committer));
    ck_assert(!committer_finish(committer, &commit, &error));
    committer_begin(committer, &batch);
    ck_assert(!is_readable(10));
    ck_assert(!committer_finish(committer, &commit, &error));
    ck_assert_int_eq(write(gate[1], "x", 1), 1);
    ck_assert(is_readable(WAIT_MS));
    ck_assert(committer_finish(committer, &commit, &error));
    ck_assert_ptr_null(error);
    ck_assert_uint_eq(commit, first + 1);
    ck_assert(!is_readable(0));
    ck_assert(!committer_finish(committer, &commit, &error)); /* told once */
    committer_close(committer);
    committer = NULL;
    store_close(store);
    store = open_store();
    ck_assert_uint_eq(meta.session_epoch, 7);
}
END_TEST

START_TEST(many_batches_and_checkpoints)
{
    const char *error = NULL;
    uint64_t commit = 0;
    for (uint32_t i = 1; i <= 200; i++) {
        struct batch batch = {.epoch = i};
        committer_begin(committer, &batch);
        if (i % 50 == 0) {
            committer_idle(committer);
        }
        ck_assert(committer_wait(committer));
        ck_assert(committer_finish(committer, &commit, &error));
        ck_assert_ptr_null(error);
    }
    ck_assert_ptr_null(committer_idle_error(committer));
}
END_TEST

START_TEST(a_failed_batch_says_why)
{
    struct batch batch = {.fail = true};
    const char *error = NULL;
    uint64_t commit = 0;
    committer_begin(committer, &batch);
    ck_assert(committer_wait(committer));
    ck_assert(committer_finish(committer, &commit, &error));
    ck_assert_ptr_nonnull(error);
}
END_TEST

START_TEST(closing_waits_for_the_batch)
{
    struct batch batch = {.epoch = 9};
    committer_begin(committer, &batch);
    committer_close(committer);
    committer = NULL;
    store_close(store);
    store = open_store();
    ck_assert_uint_eq(meta.session_epoch, 9);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("commit");
    TCase *thread = tcase_create("thread");
    tcase_add_checked_fixture(thread, set_up, tear_down);
    tcase_set_timeout(thread, 60);
    tcase_add_test(thread, a_batch_is_durable_when_it_says_so);
    tcase_add_test(thread, many_batches_and_checkpoints);
    tcase_add_test(thread, a_failed_batch_says_why);
    tcase_add_test(thread, closing_waits_for_the_batch);
    suite_add_tcase(suite, thread);
    return suite_run(suite);
}
