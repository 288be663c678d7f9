/* The HTTP server's thread: see io/http_thread.h. The agent's loop and the thread's loop share one
 * answer, under a mutex. */
#include "io/http_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/clock.h"

enum {
    END_MS = 1000
}; /* how long http_thread_shut() waits for the thread; the wait is bounded, because a client can
    * delay a call of the thread for as long as it likes */

enum phase { NOTHING, ASKED, ANSWERED };

struct http_thread {
    /* Once the thread runs, only the thread uses these fields. */
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_timer_t timer;
    uv_async_t end;
    struct http_server *server;
    /* Only the agent's loop uses these fields. */
    struct http_handler handler;
    uv_async_t asked;
    pthread_t thread;
    bool gone; /* the thread has ended */
    /* The mutex protects these fields. */
    pthread_mutex_t mutex;
    pthread_cond_t answered;
    enum phase phase;
    bool ending;
    char path[HTTP_REQUEST_MAX + 1];
    struct http_answer answer;
    unsigned char *body; /* a copy of the answer's body */
};

/* ---- on the thread ---- */

static void on_turn(void *arg)
{
    (void)arg; /* the agent does not measure the turns of this loop */
}

/* Lets the agent's loop write the answer, and waits for it. */
static void ask(void *arg, const char *path, struct http_answer *out)
{
    struct http_thread *self = arg;
    pthread_mutex_lock(&self->mutex);
    snprintf(self->path, sizeof(self->path), "%s", path);
    self->answer = *out;
    self->phase = self->ending ? NOTHING : ASKED;
    if (self->phase == ASKED) {
        uv_async_send(&self->asked);
    }
    while (self->phase == ASKED && !self->ending) {
        pthread_cond_wait(&self->answered, &self->mutex);
    }
    if (self->phase == ANSWERED) {
        *out = self->answer;
    }
    self->phase = NOTHING;
    pthread_mutex_unlock(&self->mutex);
}

static void on_timer(uv_timer_t *timer)
{
    struct http_thread *self = timer->data;
    if (self->server != NULL) {
        http_tick(self->server, clock_boottime_ns());
    }
}

/* Sets the timer. libuv calls this before the loop sleeps. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct http_thread *self = prepare->data;
    int64_t due_ns = self->server != NULL ? http_next_tick_ns(self->server) : INT64_MAX;
    if (due_ns == INT64_MAX) {
        uv_timer_stop(&self->timer);
        return;
    }
    int64_t left_ns = due_ns - clock_boottime_ns();
    uv_timer_start(&self->timer, on_timer, left_ns > 0 ? (uint64_t)left_ns / 1000000 + 1 : 0, 0);
}

static void on_end(uv_async_t *end)
{
    struct http_thread *self = end->data;
    http_shut(self->server);
    self->server = NULL;
    uv_close((uv_handle_t *)&self->prepare, NULL);
    uv_close((uv_handle_t *)&self->timer, NULL);
    uv_close((uv_handle_t *)&self->end, NULL);
}

static void *run(void *arg)
{
    struct http_thread *self = arg;
    uv_run(&self->loop, UV_RUN_DEFAULT); /* runs until libuv has closed all handles of this loop */
    return NULL;
}

/* ---- on the agent's loop ---- */

static void on_asked(uv_async_t *asked)
{
    struct http_thread *self = asked->data;
    self->handler.turn(self->handler.arg);
    pthread_mutex_lock(&self->mutex);
    if (self->phase == ASKED && !self->ending) {
        struct http_answer *answer = &self->answer;
        self->handler.answer(self->handler.arg, self->path, answer);
        unsigned char *copy = answer->size > 0 ? realloc(self->body, answer->size) : NULL;
        if (copy != NULL) {
            memcpy(copy, answer->body, answer->size);
            self->body = copy;
        } else if (answer->size > 0) {
            *answer = (struct http_answer){.status = 503, .type = answer->type};
        }
        answer->body = self->body;
        self->phase = ANSWERED;
        pthread_cond_signal(&self->answered);
    }
    pthread_mutex_unlock(&self->mutex);
}

static bool start(struct http_thread *self)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the agent's loop gets all signals */
    int error = pthread_create(&self->thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        (void)pthread_setname_np(self->thread, "holdfastd-http");
    }
    errno = error;
    return error == 0;
}

/* Makes the handles of the thread's loop. The calls after uv_async_init() take no resource, so they
 * cannot fail. */
static bool fill_loop(struct http_thread *self)
{
    if (uv_async_init(&self->loop, &self->end, on_end) != 0) {
        return false;
    }
    uv_timer_init(&self->loop, &self->timer);
    uv_prepare_init(&self->loop, &self->prepare);
    uv_prepare_start(&self->prepare, on_prepare);
    self->end.data = self->timer.data = self->prepare.data = self;
    return true;
}

static void on_asked_gone(uv_handle_t *asked)
{
    free(asked->data);
}

/* Undoes what http_thread_open() has done, after an error. */
static void end_here(struct http_thread *self, bool filled)
{
    if (filled) {
        on_end(&self->end);
        uv_run(&self->loop, UV_RUN_DEFAULT);
    }
    (void)uv_loop_close(&self->loop);
}

struct http_thread *http_thread_open(uv_loop_t *loop, const struct http_address *address,
                                     const struct http_handler *handler, char *error)
{
    struct http_thread *self = calloc(1, sizeof(*self));
    snprintf(error, HTTP_ERROR_MAX, "out of memory");
    if (self == NULL || uv_loop_init(&self->loop) != 0) {
        free(self);
        return NULL;
    }
    const struct http_handler own = {
        .name = handler->name, .answer = ask, .turn = on_turn, .arg = self};
    self->handler = *handler;
    self->asked.data = self;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->answered, NULL);
    bool filled = fill_loop(self);
    self->server = filled ? http_open(&self->loop, address, &own, error) : NULL;
    if (self->server != NULL && uv_async_init(loop, &self->asked, on_asked) == 0) {
        if (start(self)) {
            return self;
        }
        snprintf(error, HTTP_ERROR_MAX, "%s", strerror(errno));
        end_here(self, filled);
        uv_close((uv_handle_t *)&self->asked, on_asked_gone);
        return NULL;
    }
    end_here(self, filled);
    free(self);
    return NULL;
}

void http_thread_shut(struct http_thread *self)
{
    struct timespec until;
    if (self == NULL) {
        return;
    }
    pthread_mutex_lock(&self->mutex);
    self->ending = true;
    pthread_cond_signal(&self->answered);
    pthread_mutex_unlock(&self->mutex);
    uv_async_send(&self->end);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += END_MS / 1000;
    self->gone = pthread_timedjoin_np(self->thread, NULL, &until) == 0;
    uv_close((uv_handle_t *)&self->asked, NULL);
}

void http_thread_close(struct http_thread *self)
{
    if (self == NULL || !self->gone) {
        return; /* a thread that has not ended goes on using this memory until the process ends */
    }
    (void)uv_loop_close(&self->loop);
    pthread_mutex_destroy(&self->mutex);
    pthread_cond_destroy(&self->answered);
    free(self->body);
    free(self);
}
