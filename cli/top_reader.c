/*
 * The thread that asks the agent: see top_reader.h.
 */
#include "top_reader.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "top_nested.h"

enum top_asked { ASKED_NOTHING, ASKED_READING, ASKED_END };

struct top_reader {
    hf_client *client;  /* borrowed */
    const char *prefix; /* borrowed */
    int fd;             /* an eventfd: counts answers */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t moved;
    enum top_asked asked;
    bool busy; /* the thread is in a call of the library */
    bool done; /* the answer has arrived */
    const struct top_reading *before;
    struct top_reading *answer;
    int error;
};

/* Takes one reading. The caller holds the mutex, which this function releases while it asks the
 * agent. */
static void read_once(struct top_reader *reader)
{
    const struct top_reading *before = reader->before;
    struct top_reading *answer = NULL;
    int error;

    reader->asked = ASKED_NOTHING;
    reader->busy = true;
    pthread_mutex_unlock(&reader->mutex);
    error = top_reading_take(reader->client, reader->prefix, before, &answer);
    if (error == 0) {
        top_nested_find(answer);
    }
    pthread_mutex_lock(&reader->mutex);
    reader->busy = false;
    reader->done = true;
    reader->answer = answer;
    reader->error = error;
    (void)eventfd_write(reader->fd, 1);
}

static void *reader_run(void *arg)
{
    struct top_reader *reader = arg;

    pthread_mutex_lock(&reader->mutex);
    while (reader->asked != ASKED_END) {
        if (reader->asked == ASKED_READING) {
            read_once(reader);
        } else {
            pthread_cond_wait(&reader->moved, &reader->mutex);
        }
    }
    pthread_mutex_unlock(&reader->mutex);
    return NULL;
}

/* Starts the thread with all signals blocked, so that the caller's thread gets them. */
static int thread_start(struct top_reader *reader)
{
    sigset_t all;
    sigset_t before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&reader->thread, NULL, reader_run, reader);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void reader_free(struct top_reader *reader)
{
    top_reading_destroy(reader->answer);
    pthread_cond_destroy(&reader->moved);
    pthread_mutex_destroy(&reader->mutex);
    (void)close(reader->fd);
    free(reader);
}

struct top_reader *top_reader_create(hf_client *client, const char *prefix)
{
    struct top_reader *reader = calloc(1, sizeof(*reader));

    if (reader == NULL) {
        return NULL;
    }
    reader->client = client;
    reader->prefix = prefix;
    reader->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&reader->mutex, NULL);
    pthread_cond_init(&reader->moved, NULL);
    if (reader->fd < 0 || thread_start(reader) != 0) {
        reader_free(reader);
        return NULL;
    }
    return reader;
}

int top_reader_fd(const struct top_reader *reader)
{
    return reader->fd;
}

void top_reader_ask(struct top_reader *reader, const struct top_reading *before)
{
    pthread_mutex_lock(&reader->mutex);
    reader->before = before;
    reader->asked = ASKED_READING;
    pthread_cond_signal(&reader->moved);
    pthread_mutex_unlock(&reader->mutex);
}

bool top_reader_get(struct top_reader *reader, struct top_reading **out, int *error)
{
    eventfd_t count;
    bool done;

    pthread_mutex_lock(&reader->mutex);
    done = reader->done;
    if (done) {
        (void)eventfd_read(reader->fd, &count);
        *out = reader->answer;
        *error = reader->error;
        reader->answer = NULL;
        reader->done = false;
    }
    pthread_mutex_unlock(&reader->mutex);
    return done;
}

bool top_reader_close(struct top_reader *reader)
{
    bool busy;

    pthread_mutex_lock(&reader->mutex);
    reader->asked = ASKED_END;
    busy = reader->busy;
    pthread_cond_signal(&reader->moved);
    pthread_mutex_unlock(&reader->mutex);
    if (busy) {
        return false;
    }
    pthread_join(reader->thread, NULL);
    reader_free(reader);
    return true;
}
