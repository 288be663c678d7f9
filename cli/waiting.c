/*
 * Reports why a command waits for its locks: see waiting.h.
 */
#include "waiting.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "why.h"

enum {
    FIRST_MS = 1000,
    FIRST_VERBOSE_MS = 50, /* with -v; taking a free lock needs less time, so it gets no line */
    AGAIN_MS = 1000,
};

struct waiting {
    struct held held; /* a copy, because the thread may go on after the caller's struct is gone */
    enum waiting_lines lines;
    bool json;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects the fields below; also held while a line is written */
    pthread_cond_t ended;  /* signalled when `over` becomes true */
    bool over;             /* the wait is over */
    bool asking;           /* the thread is in hf_why(), without the mutex */
};

/* Sleeps for pause_ms. Returns false as soon as the wait for the locks is over. The caller holds
 * the mutex. */
static bool goes_on(struct waiting *waiting, int pause_ms)
{
    struct timespec until;
    int problem = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += pause_ms / 1000;
    until.tv_nsec += (long)(pause_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (!waiting->over && problem == 0) {
        problem = pthread_cond_timedwait(&waiting->ended, &waiting->mutex, &until);
    }
    return !waiting->over;
}

/* Returns whether a line can be written without blocking. The thread writes under the mutex, which
 * waiting_end() needs, so it must not block when nobody reads the lines. */
static bool has_room(bool json)
{
    struct pollfd out = {.fd = json ? fileno(cli_json_stream()) : STDERR_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) == 1;
}

/* Returns whether the newer reason differs so much that it needs a line of its own. */
static bool is_change(const struct hf_reason *before, const struct hf_reason *now)
{
    return before->kind != now->kind || before->pid != now->pid || before->uid != now->uid ||
           strcmp(before->agent, now->agent) != 0;
}

/* Asks for the reason. The caller holds the mutex, which this function unlocks while it asks.
 * Returns the result of why_find(). */
static size_t ask(struct waiting *waiting, struct hf_reason *out)
{
    size_t index;

    waiting->asking = true;
    (void)pthread_mutex_unlock(&waiting->mutex);
    index = why_find(&waiting->held, out);
    (void)pthread_mutex_lock(&waiting->mutex);
    waiting->asking = false;
    return index;
}

static void *run(void *arg)
{
    struct waiting *waiting = arg;
    struct hf_reason before = HF_REASON_INIT;
    size_t count = waiting->held.count;
    size_t index_before = count;
    bool all = waiting->lines == WAITING_ALL;
    int pause_ms = all ? FIRST_VERBOSE_MS : FIRST_MS;

    (void)pthread_mutex_lock(&waiting->mutex);
    while (goes_on(waiting, pause_ms)) {
        struct hf_reason reason = HF_REASON_INIT;
        size_t index = ask(waiting, &reason);

        pause_ms = AGAIN_MS;
        if (waiting->over || index == count || reason.kind == HF_WHY_NOTHING ||
            (index == index_before && !is_change(&before, &reason)) || !has_room(waiting->json)) {
            continue;
        }
        why_waiting(&waiting->held, index, &reason, waiting->json);
        if (!all) {
            break;
        }
        before = reason;
        index_before = index;
    }
    (void)pthread_mutex_unlock(&waiting->mutex);
    return NULL;
}

/* Starts the thread with all signals blocked, because only the main thread handles signals, now and
 * later in guard.c. */
static bool start(struct waiting *waiting)
{
    sigset_t all;
    sigset_t mask;
    bool started;

    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
    started = pthread_create(&waiting->thread, NULL, run, waiting) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
    return started;
}

static void waiting_free(struct waiting *waiting)
{
    (void)pthread_cond_destroy(&waiting->ended);
    (void)pthread_mutex_destroy(&waiting->mutex);
    free(waiting);
}

struct waiting *waiting_begin(const struct held *held, enum waiting_lines lines, bool json)
{
    struct waiting *waiting = lines == WAITING_NONE ? NULL : calloc(1, sizeof(*waiting));
    pthread_condattr_t attributes;

    if (waiting == NULL) {
        return NULL;
    }
    waiting->held = *held;
    waiting->lines = lines;
    waiting->json = json;
    (void)pthread_mutex_init(&waiting->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&waiting->ended, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (!start(waiting)) {
        waiting_free(waiting);
        return NULL;
    }
    return waiting;
}

void waiting_end(struct waiting *waiting)
{
    if (waiting != NULL) {
        (void)pthread_mutex_lock(&waiting->mutex);
        waiting->over = true;
        (void)pthread_cond_signal(&waiting->ended);
        (void)pthread_mutex_unlock(&waiting->mutex);
    }
}

bool waiting_join(struct waiting **waiting)
{
    bool asking;

    if (*waiting == NULL) {
        return true;
    }
    (void)pthread_mutex_lock(&(*waiting)->mutex);
    asking = (*waiting)->asking; /* the thread does not begin to ask after waiting_end() */
    (void)pthread_mutex_unlock(&(*waiting)->mutex);
    if (asking) {
        return false;
    }
    /* returns at once, because the thread has nothing more to do */
    (void)pthread_join((*waiting)->thread, NULL);
    waiting_free(*waiting);
    *waiting = NULL;
    return true;
}

bool waiting_close(struct waiting *waiting)
{
    bool joined = waiting_join(&waiting);

    if (!joined) {
        (void)pthread_detach(waiting->thread);
    }
    return joined;
}
