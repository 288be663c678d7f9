/* The committer: see io/commit.h. Here "the thread with the loop" is the thread that runs the loop
 * now, and "the thread without the loop" is the second of the committer's two threads. The two
 * exchange their roles. */
#include "io/commit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "proto/check.h"

/* How long the loop may stand still while its thread writes. This is less than any other wait of
 * the agent. */
static const int64_t timeout_ns = 5000000;
/* If the last batch took longer than this, the thread with the loop does not write the next one. */
static const int64_t fast_ns = 1000000;
static const int64_t second_ns = 1000000000;

struct committer {
    struct committer_config config;
    int done_fd;
    pthread_t thread;
    sigset_t signals;      /* the signals that were blocked when committer_open() was called */
    pthread_mutex_t mutex; /* protects all fields below */
    pthread_cond_t changed;
    const void *batch; /* the batch that the thread without the loop has to write, or is writing */
    bool begun;        /* a batch is under way; committer_finish() clears this */
    bool done;
    bool idle;
    void (*piece)(void *arg); /* other work on the store; NULL: there is none */
    void *piece_arg;
    bool piece_done;
    bool idle_failed;
    bool end;
    int64_t took_ns;    /* how long the last batch took */
    int64_t writing_ns; /* when the thread with the loop began to write; 0: it does not write */
    uint64_t writes;    /* batches that the thread with the loop has written */
    uint64_t seen;      /* the value of `writes` when the thread without the loop last looked */
    bool replaced;      /* the writing thread has lost the loop */
    bool resting;       /* the thread without the loop waits for work */
    bool watching;      /* the resting thread wakes by itself, to see whether the loop stands
                         * still */
    bool ended;         /* the loop has ended on the committer's thread, so the thread that opened
                         * the committer must go on */
    uint64_t commit;
    bool failed;
    char error[STORE_ERROR_MAX];
    char idle_error[STORE_ERROR_MAX];
};

static void keep_error(struct committer *committer, char *error)
{
    const char *text = store_error(committer->config.store);
    size_t length = strnlen(text, STORE_ERROR_MAX - 1);
    memcpy(error, text, length);
    error[length] = '\0';
}

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * second_ns + now.tv_nsec;
}

/* Writes the batch. The caller holds the mutex, which is unlocked during the write. */
static void put_batch(struct committer *committer, const void *batch)
{
    const struct committer_config *config = &committer->config;
    int64_t start_ns = monotonic_ns();
    uint64_t commit = 0;
    pthread_mutex_unlock(&committer->mutex);
    bool good = store_begin(config->store) && config->put(config->arg, config->store, batch) &&
                store_commit(config->store, &commit);
    int64_t end_ns = monotonic_ns();
    pthread_mutex_lock(&committer->mutex);
    if (!good) {
        committer->failed = true;
        keep_error(committer, committer->error);
    }
    committer->took_ns = end_ns - start_ns;
    committer->commit = commit;
    committer->done = true;
}

/* Wakes the thread with the loop. The caller holds the mutex, which is unlocked for the wake: a
 * woken thread that found it locked would sleep again and have to be woken once more. */
static void notify_done(struct committer *committer)
{
    uint64_t one = 1;
    pthread_cond_broadcast(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
    HF_CHECK(write(committer->done_fd, &one, sizeof(one)) == sizeof(one));
    pthread_mutex_lock(&committer->mutex);
}

static void write_batch(struct committer *committer)
{
    put_batch(committer, committer->batch);
    committer->batch = NULL;
    notify_done(committer);
}

static void make_checkpoint(struct committer *committer)
{
    pthread_mutex_unlock(&committer->mutex);
    bool good = store_idle(committer->config.store);
    pthread_mutex_lock(&committer->mutex);
    committer->idle = false;
    if (!good) {
        committer->idle_failed = true;
        keep_error(committer, committer->idle_error);
        notify_done(committer);
    }
}

static void do_piece(struct committer *committer)
{
    void (*piece)(void *arg) = committer->piece;
    pthread_mutex_unlock(&committer->mutex);
    piece(committer->piece_arg);
    pthread_mutex_lock(&committer->mutex);
    committer->piece = NULL;
    committer->piece_done = true;
    notify_done(committer);
}

/* Lets the thread without the loop wait for work. The caller holds the mutex, which is unlocked
 * during the wait. Returns true if the loop has stood still for too long. */
static bool rest(struct committer *committer)
{
    bool writing = committer->writing_ns != 0;
    int64_t until_ns = (writing ? committer->writing_ns : monotonic_ns()) + timeout_ns;
    if (writing && monotonic_ns() >= until_ns) {
        return true;
    }
    committer->resting = true;
    if (writing || committer->writes != committer->seen) {
        /* After each write the thread without the loop watches for one more time-out. So while
         * writes follow each other, no write has to wake that thread. */
        struct timespec until = {until_ns / second_ns, until_ns % second_ns};
        committer->seen = committer->writes;
        committer->watching = true;
        (void)pthread_cond_timedwait(&committer->changed, &committer->mutex, &until);
        committer->watching = false;
    } else {
        pthread_cond_wait(&committer->changed, &committer->mutex);
    }
    committer->resting = false;
    return false;
}

/* Unblocks the signals on the thread that gets the loop, so that pending signals are handled before
 * the loop's next turn (SIGCONT tells the loop that the process was stopped). Some of the signals
 * are pending for this thread alone, such as SIGXFSZ from its own write. */
static void take_signals(const struct committer *committer)
{
    HF_CHECK(pthread_sigmask(SIG_SETMASK, &committer->signals, NULL) == 0);
}

static void leave_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    HF_CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
}

/* Runs the loop on this thread. The caller holds the mutex, which is unlocked meanwhile. */
static void take_over(struct committer *committer)
{
    committer->replaced = true;
    committer->writing_ns = 0;
    pthread_mutex_unlock(&committer->mutex);
    take_signals(committer);
    bool ended = committer->config.loop(committer->config.arg);
    leave_signals();
    pthread_mutex_lock(&committer->mutex);
    if (ended) {
        committer->ended = true;
        pthread_cond_broadcast(&committer->changed);
    }
}

/* Does one step of the work of the thread without the loop, on that thread. The caller holds the
 * mutex. */
static void do_next(struct committer *committer)
{
    if (committer->batch != NULL) {
        write_batch(committer);
    } else if (committer->idle && !committer->failed) { /* after a failed write the transaction may
                                                         * still be open, so no checkpoint is
                                                         * made */
        make_checkpoint(committer);
    } else if (committer->piece != NULL && !committer->end) {
        do_piece(committer);
    } else if (rest(committer)) {
        take_over(committer);
    }
}

static void *run(void *arg)
{
    struct committer *committer = arg;
    pthread_mutex_lock(&committer->mutex);
    while (committer->batch != NULL || !committer->end) {
        do_next(committer);
        /* If the loop ended on this thread, the thread that opened the committer may be doing the
         * work that is left. */
        while (committer->ended) {
            pthread_cond_wait(&committer->changed, &committer->mutex);
        }
    }
    pthread_mutex_unlock(&committer->mutex);
    return NULL;
}

void committer_stand_by(struct committer *committer)
{
    leave_signals();
    pthread_mutex_lock(&committer->mutex);
    while (!committer->ended) {
        do_next(committer);
    }
    committer->ended = false;
    pthread_cond_broadcast(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
    take_signals(committer);
}

/* Starts the thread with all signals blocked, because the loop's thread handles them. */
static bool start_thread(struct committer *committer)
{
    sigset_t all;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &committer->signals) != 0) {
        return false;
    }
    int error = pthread_create(&committer->thread, NULL, run, committer);
    pthread_sigmask(SIG_SETMASK, &committer->signals, NULL);
    errno = error;
    return error == 0;
}

struct committer *committer_open(const struct committer_config *config)
{
    struct committer *committer = calloc(1, sizeof(*committer));
    if (committer == NULL) {
        return NULL;
    }
    committer->config = *config;
    committer->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (committer->done_fd < 0) {
        free(committer);
        return NULL;
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&committer->mutex, NULL);
    pthread_cond_init(&committer->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!start_thread(committer)) {
        int error = errno;
        pthread_cond_destroy(&committer->changed);
        pthread_mutex_destroy(&committer->mutex);
        close(committer->done_fd);
        free(committer);
        errno = error;
        return NULL;
    }
    return committer;
}

void committer_close(struct committer *committer)
{
    if (committer == NULL) {
        return;
    }
    pthread_mutex_lock(&committer->mutex);
    committer->end = true;
    pthread_cond_broadcast(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
    pthread_join(committer->thread, NULL);
    pthread_cond_destroy(&committer->changed);
    pthread_mutex_destroy(&committer->mutex);
    close(committer->done_fd);
    free(committer);
}

int committer_fd(const struct committer *committer)
{
    return committer->done_fd;
}

void committer_begin(struct committer *committer, const void *batch)
{
    pthread_mutex_lock(&committer->mutex);
    HF_CHECK(!committer->begun && batch != NULL);
    committer->batch = batch;
    committer->begun = true;
    committer->done = false;
    pthread_mutex_unlock(&committer->mutex);
    pthread_cond_broadcast(&committer->changed); /* called after the unlock, so that the woken
                                                  * thread finds the mutex free */
}

enum committer_wrote committer_write(struct committer *committer, const void *batch)
{
    pthread_mutex_lock(&committer->mutex);
    HF_CHECK(!committer->begun && batch != NULL);
    if (committer->config.loop == NULL || !committer->resting || committer->idle ||
        committer->piece != NULL || committer->took_ns > fast_ns) {
        pthread_mutex_unlock(&committer->mutex);
        return COMMITTER_BUSY;
    }
    committer->begun = true;
    committer->done = false;
    committer->writing_ns = monotonic_ns();
    committer->writes++;
    if (!committer->watching) {
        pthread_cond_broadcast(&committer->changed);
    }
    /* A signal that arrives during the write goes to the thread that takes the loop over, because a
     * thread that the disk blocks handles no signals. */
    leave_signals();
    put_batch(committer, batch);
    bool replaced = committer->replaced;
    committer->replaced = false;
    committer->writing_ns = 0;
    if (replaced) {
        notify_done(committer);
    } else {
        take_signals(committer);
    }
    pthread_mutex_unlock(&committer->mutex);
    return replaced ? COMMITTER_REPLACED : COMMITTER_WRITTEN;
}

bool committer_finish(struct committer *committer, uint64_t *commit, const char **error)
{
    uint64_t count;
    /* Reads the descriptor first, so that a later notice makes it readable again. Reads it in any
     * case, because the notice may come after committer_wait() has seen that the batch is done. */
    (void)!read(committer->done_fd, &count, sizeof(count));
    pthread_mutex_lock(&committer->mutex);
    bool finished = committer->begun && committer->done;
    if (finished) {
        committer->begun = false;
        *commit = committer->commit;
        *error = committer->failed ? committer->error : NULL;
    }
    pthread_mutex_unlock(&committer->mutex);
    return finished;
}

bool committer_wait(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    bool begun = committer->begun;
    while (begun && !committer->done) {
        pthread_cond_wait(&committer->changed, &committer->mutex);
    }
    pthread_mutex_unlock(&committer->mutex);
    return begun;
}

void committer_idle(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    committer->idle = true;
    pthread_cond_broadcast(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
}

const char *committer_idle_error(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    bool failed = committer->idle_failed;
    committer->idle_failed = false;
    pthread_mutex_unlock(&committer->mutex);
    return failed ? committer->idle_error : NULL;
}

void committer_piece(struct committer *committer, void (*piece)(void *arg), void *arg)
{
    pthread_mutex_lock(&committer->mutex);
    HF_CHECK(committer->piece == NULL);
    committer->piece = piece;
    committer->piece_arg = arg;
    committer->piece_done = false;
    pthread_cond_broadcast(&committer->changed);
    pthread_mutex_unlock(&committer->mutex);
}

bool committer_piece_done(struct committer *committer)
{
    pthread_mutex_lock(&committer->mutex);
    bool done = committer->piece_done;
    committer->piece_done = false;
    pthread_mutex_unlock(&committer->mutex);
    return done;
}
