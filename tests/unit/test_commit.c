/* The commit thread: a batch is durable when the thread reports it. Meanwhile the loop goes on. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/commit.h"

enum {
    WAIT_MS = 60000,
    LEISURE_US = 50000
}; /* LEISURE_US: how long a test waits to see that something does not happen */

static char folder[64];
static char path[96];
static struct store *store;
static struct store_meta meta;
static struct committer *committer;
static int gate[2]; /* put() waits for a byte here if batch.wait is set */

struct batch {
    bool wait;
    bool fail;
    uint32_t epoch;
};

/*
 * The loop does what it reads in `orders`. 'w': writes `stuck`, and is replaced meanwhile. 'f':
 * finishes the batch on which the other thread is stuck. 'b': has the other thread write `next`.
 * 'i': asks for a checkpoint. 's': sends a signal to the process, and waits for it. 'e': ends.
 *
 * In `news` the loop reports each order that it has done. It reports 'm' when it begins on the
 * test's thread, 'o' when it begins on the other thread, and 'r' when it was replaced.
 */
static int orders[2];
static int news[2];
static pthread_t tester;
static volatile sig_atomic_t signalled; /* the number of the signal that came */
static volatile sig_atomic_t on_tester; /* whether the signal came on the test's thread */
static struct batch stuck;
static struct batch next;

static void tell(char what)
{
    ck_assert_int_eq(write(news[1], &what, 1), 1);
}

static char read_byte(int fd)
{
    char byte = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&ready, 1, WAIT_MS), 1);
    ck_assert_int_eq(read(fd, &byte, 1), 1);
    return byte;
}

static void open_gate(void)
{
    ck_assert_int_eq(write(gate[1], "x", 1), 1);
}

static bool is_notified(void)
{
    const char *error = NULL;
    uint64_t commit = 0;
    bool told = committer_wait(committer) && committer_finish(committer, &commit, &error);
    ck_assert_ptr_null(error);
    return told;
}

/* Writes the batch as soon as the other thread rests. After a slow batch, committer_write() refuses
 * until other batches have shown that the disk is fast again. */
static enum committer_wrote write_soon(const struct batch *batch)
{
    static const struct batch quick = {.epoch = 4};
    enum committer_wrote wrote = COMMITTER_BUSY;
    for (unsigned i = 0; i < WAIT_MS && wrote == COMMITTER_BUSY; i++) {
        wrote = committer_write(committer, batch);
        if (wrote == COMMITTER_BUSY) {
            committer_begin(committer, &quick);
            ck_assert(is_notified());
            usleep(1000);
        }
    }
    return wrote;
}

static bool is_blocked(int number)
{
    sigset_t blocked;
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &blocked), 0);
    return sigismember(&blocked, number) == 1;
}

static void on_signal(int number)
{
    signalled = number;
    on_tester = pthread_equal(pthread_self(), tester) != 0;
}

static void send_signal(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    signalled = 0;
    ck_assert_int_eq(sigaction(SIGTERM, &action, NULL), 0);
    ck_assert_int_eq(kill(getpid(), SIGTERM), 0);
    for (unsigned i = 0; i < WAIT_MS && signalled == 0; i++) {
        usleep(1000);
    }
    ck_assert_int_eq(signalled, SIGTERM);
}

static bool loop(void *arg)
{
    ck_assert_ptr_eq(arg, &meta);
    ck_assert(!is_blocked(SIGTERM));
    tell(pthread_equal(pthread_self(), tester) ? 'm' : 'o');
    for (;;) {
        char what = read_byte(orders[0]);
        if (what == 'e') {
            return true;
        }
        if (what == 'w') {
            ck_assert_int_eq(write_soon(&stuck), COMMITTER_REPLACED);
            tell('r');
            return false;
        }
        if (what == 'f') {
            ck_assert(is_notified());
        } else if (what == 's') {
            send_signal();
        } else if (what == 'b') {
            committer_begin(committer, &next);
        } else {
            committer_idle(committer);
        }
        tell(what);
    }
}

static bool put(void *arg, struct store *its, const void *bytes)
{
    const struct batch *batch = bytes;
    char byte;
    ck_assert_ptr_eq(arg, &meta);
    ck_assert(is_blocked(SIGTERM)); /* only the loop's thread gets signals */
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
    snprintf(folder, sizeof(folder), "%s/commit.XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/holdfast.db", folder);
    ck_assert_int_eq(pipe(gate), 0);
    ck_assert_int_eq(pipe(orders), 0);
    ck_assert_int_eq(pipe(news), 0);
    tester = pthread_self();
    stuck = (struct batch){.wait = true, .epoch = 5};
    next = (struct batch){.wait = true, .epoch = 6};
    store = open_store();
    struct committer_config config = {.store = store, .put = put, .loop = loop, .arg = &meta};
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
    for (size_t i = 0; i < 2; i++) {
        close(gate[i]);
        close(orders[i]);
        close(news[i]);
    }
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
    ck_assert(!committer_finish(committer, &commit, &error)); /* the result is returned only once */
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

START_TEST(a_failed_batch_is_the_last_that_the_store_sees)
{
    struct batch batch = {.wait = true, .fail = true};
    const char *error = NULL;
    uint64_t commit = 0;
    committer_begin(committer, &batch);
    committer_idle(committer); /* no checkpoint can be made while the gate is closed */
    open_gate();
    ck_assert(committer_wait(committer));
    ck_assert(committer_finish(committer, &commit, &error));
    ck_assert_ptr_nonnull(error);
    usleep(LEISURE_US);
    ck_assert_ptr_null(committer_idle_error(committer));
}
END_TEST

static void tell_loop(const char *what)
{
    size_t size = strlen(what);
    ck_assert_int_eq(write(orders[1], what, size), size);
}

/* Reads the loop's reports, which must be those in arg. At a '+' it opens the gate; at a '.' it
 * waits for LEISURE_US. */
static void *follow(void *arg)
{
    for (const char *at = arg; *at != '\0'; at++) {
        if (*at == '+') {
            open_gate();
        } else if (*at == '.') {
            usleep(LEISURE_US);
        } else {
            ck_assert_int_eq(read_byte(news[0]), *at);
        }
    }
    return NULL;
}

/* Gets this thread stuck in a write of `stuck`. The other thread continues the loop, which does the
 * orders in `what`, until one of the two threads ends the loop. `says` is for follow(). */
static void get_stuck(const char *what, char *says)
{
    pthread_t helper;
    tell_loop(what);
    ck_assert_int_eq(pthread_create(&helper, NULL, follow, says), 0);
    ck_assert_int_eq(write_soon(&stuck), COMMITTER_REPLACED);
    committer_stand_by(committer);
    ck_assert(!is_blocked(SIGTERM));
    pthread_join(helper, NULL);
}

/* Writes the batch on this thread. If the disk stands still meanwhile, takes the loop back. */
static void write_here(const struct batch *batch)
{
    if (write_soon(batch) == COMMITTER_REPLACED) {
        ck_assert_int_eq(read_byte(news[0]), 'o');
        tell_loop("e");
        committer_stand_by(committer);
    }
    ck_assert(is_notified());
}

START_TEST(who_has_the_loop_writes_a_batch_itself)
{
    struct batch batch = {.epoch = 3};
    struct batch other = {.epoch = 4};
    uint64_t commit = 0;
    const char *error = NULL;
    if (write_soon(&batch) == COMMITTER_REPLACED) { /* the disk of this machine stood still */
        tell_loop("e");
        committer_stand_by(committer);
        ck_assert(is_notified());
    } else {
        ck_assert(committer_finish(committer, &commit, &error));
        ck_assert_ptr_null(error);
        ck_assert_uint_gt(commit, meta.commit);
        ck_assert(!is_readable(0));
        struct pollfd taken = {.fd = news[0], .events = POLLIN};
        /* no other thread has taken the loop */
        ck_assert_int_eq(poll(&taken, 1, LEISURE_US / 1000), 0);
    }
    ck_assert(!committer_finish(committer, &commit, &error)); /* the result is returned only once */
    committer_begin(committer, &other);                       /* the other thread can still write */
    ck_assert(is_notified());
}
END_TEST

START_TEST(a_slow_disk_is_the_other_threads)
{
    struct batch slow = {.wait = true, .epoch = 3};
    struct batch batch = {.epoch = 4};
    committer_begin(committer, &slow);
    usleep(LEISURE_US);
    open_gate();
    ck_assert(is_notified());
    usleep(LEISURE_US); /* meanwhile the other thread begins to rest */
    ck_assert_int_eq(committer_write(committer, &batch), COMMITTER_BUSY);
}
END_TEST

START_TEST(nothing_is_written_beside_a_checkpoint)
{
    static const struct batch quick = {.epoch = 4};
    static const struct batch batch = {.epoch = 3};
    for (int i = 0; i < 50; i++) {
        committer_begin(committer, &quick);
        ck_assert(is_notified());
        usleep(1000); /* meanwhile the other thread begins to rest */
        committer_idle(committer);
        write_here(&batch);
    }
}
END_TEST

/* ---- other work on the store ---- */

static volatile sig_atomic_t piece_runs; /* whether a piece runs now */
static unsigned pieces;

/* Uses the store like a batch, and takes a while. */
static void piece(void *arg)
{
    uint64_t commit;
    ck_assert_ptr_eq(arg, &pieces);
    ck_assert(is_blocked(SIGTERM));
    piece_runs = 1;
    ck_assert(store_begin(store) && store_put_session_epoch(store, 40) &&
              store_commit(store, &commit));
    usleep(LEISURE_US / 50);
    piece_runs = 0;
    pieces++;
}

START_TEST(a_piece_waits_for_the_batch)
{
    struct batch batch = {.wait = true, .epoch = 7};
    committer_begin(committer, &batch);
    committer_piece(committer, piece, &pieces);
    usleep(LEISURE_US);
    ck_assert_uint_eq(pieces, 0);
    ck_assert(!committer_piece_done(committer));
    open_gate();
    ck_assert(is_notified());
    while (!committer_piece_done(committer)) {
        ck_assert(is_readable(WAIT_MS)); /* the descriptor becomes readable at the right time */
        ck_assert(!is_notified());
    }
    ck_assert_uint_eq(pieces, 1);
    ck_assert(!committer_piece_done(committer)); /* the result is returned only once */
}
END_TEST

START_TEST(no_batch_is_written_beside_a_piece)
{
    static const struct batch quick = {.epoch = 4};
    static const struct batch batch = {.epoch = 3};
    for (unsigned i = 1; i <= 50; i++) {
        committer_begin(committer, &quick);
        ck_assert(is_notified());
        usleep(1000); /* lets the other thread begin to rest */
        committer_piece(committer, piece, &pieces);
        write_here(&batch);
        ck_assert_int_eq(piece_runs, 0);
        ck_assert_uint_eq(pieces, i);
        ck_assert(committer_piece_done(committer));
    }
}
END_TEST

START_TEST(closing_leaves_a_piece_undone)
{
    struct batch batch = {.wait = true, .epoch = 7};
    committer_begin(committer, &batch);
    committer_piece(committer, piece, &pieces);
    open_gate();
    committer_close(committer);
    committer = NULL;
    ck_assert_uint_le(pieces, 1);
}
END_TEST

START_TEST(a_loop_that_stands_still_is_gone_on_with)
{
    /* The other thread gets the loop, finishes the batch, and ends the loop. */
    static char says[] = "o+f";
    get_stuck("fe", says);
    /* Now this thread has the loop again, and the other thread writes batches. */
    struct batch batch = {.epoch = 6};
    committer_begin(committer, &batch);
    ck_assert(is_notified());
    write_here(&batch);
}
END_TEST

/* A signal must not wait for a disk that stands still: a thread that is not stuck handles it. */
START_TEST(a_signal_comes_while_the_other_thread_is_stuck)
{
    static char says[] = "os+f";
    get_stuck("sfe", says);
    ck_assert(!on_tester);
}
END_TEST

START_TEST(each_thread_takes_the_loop_from_the_other)
{
    /* This thread gets stuck, and the other thread continues the loop. Then the other thread gets
     * stuck, and this thread continues the loop and ends it. */
    static char says[] = "o+fm+r";
    get_stuck("fwe", says);
    ck_assert(is_notified()); /* the batch in which the other thread was stuck */
}
END_TEST

/* The thread that has the loop ends it while the other thread writes. No work is done twice. */
START_TEST(a_loop_ends_while_a_batch_is_written)
{
    static char says[] = "o+fb.+";
    get_stuck("fbe", says);
    ck_assert(is_notified());
}
END_TEST

START_TEST(a_loop_ends_while_a_checkpoint_waits_for_the_batch)
{
    static char says[] = "oi.+";
    get_stuck("ie", says);
    ck_assert(is_notified());
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
    tcase_add_test(thread, a_failed_batch_is_the_last_that_the_store_sees);
    tcase_add_test(thread, who_has_the_loop_writes_a_batch_itself);
    tcase_add_test(thread, a_slow_disk_is_the_other_threads);
    tcase_add_test(thread, nothing_is_written_beside_a_checkpoint);
    tcase_add_test(thread, a_piece_waits_for_the_batch);
    tcase_add_test(thread, no_batch_is_written_beside_a_piece);
    tcase_add_test(thread, closing_leaves_a_piece_undone);
    tcase_add_test(thread, a_loop_that_stands_still_is_gone_on_with);
    tcase_add_test(thread, a_signal_comes_while_the_other_thread_is_stuck);
    tcase_add_test(thread, each_thread_takes_the_loop_from_the_other);
    tcase_add_test(thread, a_loop_ends_while_a_batch_is_written);
    tcase_add_test(thread, a_loop_ends_while_a_checkpoint_waits_for_the_batch);
    tcase_add_test(thread, closing_waits_for_the_batch);
    suite_add_tcase(suite, thread);
    return suite_run(suite);
}
