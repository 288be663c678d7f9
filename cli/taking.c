/*
 * Takes the locks: see taking.h.
 *
 * A signal does not end the wait of hf_acquire_all(). So a second thread waits for signals, and
 * calls hf_cancel() when one arrives. hf_cancel() ends only waits that have begun, and
 * hf_acquire_all() waits for one lock after the other. So the thread repeats hf_cancel() until
 * hf_acquire_all() has returned.
 */
#include "taking.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum { CANCEL_REPEAT_MS = 10 };

struct listener {
    const struct held *held;
    int signal_fd;
    int stop_fd;       /* an eventfd, readable when the take has ended */
    int signal_number; /* written by the thread, read only after pthread_join() */
};

/* The signals that end the wait. */
static void taking_signals(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGHUP);
    sigaddset(out, SIGINT);
    sigaddset(out, SIGQUIT);
    sigaddset(out, SIGTERM);
}

static void *listener_run(void *arg)
{
    struct listener *listener = arg;
    struct pollfd fds[2] = {
        {.fd = listener->stop_fd, .events = POLLIN},
        {.fd = listener->signal_fd, .events = POLLIN},
    };
    struct signalfd_siginfo info;

    while (poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    if ((fds[1].revents & POLLIN) == 0 ||
        read(listener->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return NULL;
    }
    listener->signal_number = (int)info.ssi_signo;
    do {
        for (size_t index = 0; index < listener->held->count; index++) {
            (void)hf_cancel(listener->held->locks[index]);
        }
    } while (poll(fds, 1, CANCEL_REPEAT_MS) <= 0);
    return NULL;
}

static int take(struct held *held, enum hf_mode mode, int64_t timeout_ns)
{
    struct timespec now;
    int error = held->count == 1
                    ? hf_acquire(held->locks[0], mode, timeout_ns, held->holds)
                    : hf_acquire_all(held->locks, held->count, mode, timeout_ns, held->holds);

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    held->had_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    return error;
}

int taking_undo(struct held *held, size_t *lost)
{
    int error = 0;

    for (size_t index = held->count; index > 0; index--) {
        if (hf_release(held->locks[index - 1]) == HF_ELOST) {
            error = HF_ELOST;
            *lost = index - 1;
        }
    }
    return error;
}

int taking_run(struct held *held, enum hf_mode mode, int64_t timeout_ns, int *signal_number)
{
    struct listener listener = {.held = held, .signal_fd = -1, .stop_fd = -1};
    uint64_t one = 1;
    pthread_t thread;
    sigset_t signals;
    int error = HF_ENOMEM;

    *signal_number = 0;
    taking_signals(&signals);
    listener.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC);
    listener.stop_fd = eventfd(0, EFD_CLOEXEC);
    if (listener.signal_fd < 0 || listener.stop_fd < 0 ||
        pthread_create(&thread, NULL, listener_run, &listener) != 0) {
        goto out;
    }
    error = take(held, mode, timeout_ns);
    if (write(listener.stop_fd, &one, sizeof(one)) != (ssize_t)sizeof(one)) {
        /* never happens, because the counter of a new eventfd is not full */
        (void)pthread_cancel(thread);
    }
    (void)pthread_join(thread, NULL);
    *signal_number = listener.signal_number;
    if (error == 0 && *signal_number != 0) {
        (void)taking_undo(held, &(size_t){0});
        error = HF_ECANCELED;
    }
out:
    if (listener.signal_fd >= 0) {
        (void)close(listener.signal_fd);
    }
    if (listener.stop_fd >= 0) {
        (void)close(listener.stop_fd);
    }
    return error;
}
