/* The thread that closes descriptors: see io/late_close.h. */
#include "io/late_close.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WAITING_MAX = 1 << 16, /* more descriptors of this kind than an agent has */
    PER_USER_MAX = 64,     /* more than these wait only for a user that makes closes slow: the
                            * thread does this many honest closes in less than a ms */
};

struct late_fd {
    int fd;
    uid_t uid;
    bool watched;
};

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t given;
    bool started;
    uint32_t first; /* the index of the first item, which is being closed; items is a ring buffer */
    uint32_t count;
    struct late_fd items[WAITING_MAX];
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER};

/* Waits until the kernel has called the callbacks of all epoll entries of the pidfd. A poll with a
 * timeout waits for the lock of the pidfd's queue, as a removal of the epoll entry would. But the
 * poll does not hold the mutex of the epoll set, so the set delivers events meanwhile. (A poll
 * without a timeout takes no lock.) */
static void await_queue(int pidfd)
{
    struct pollfd pollfd = {.fd = pidfd, .events = POLLIN};
    (void)!poll(&pollfd, 1, 1);
}

/*
 * Receives everything that is unread in a socket. Once the unread packets fill a quarter of the
 * peer's SO_SNDBUF or less, the kernel walks, for each of them, all epoll entries with which the
 * peer watches its end. A close would do all of these walks in one call, which keeps a processor
 * from every other thread until it ends. Between two receives other threads can run. A pidfd is not
 * a socket, so the first call fails for it.
 */
static void empty(int fd)
{
    bool there = shutdown(fd, SHUT_RDWR) == 0 || errno == ENOTCONN; /* nothing more can arrive */
    /* this loop ends, because the queue is bounded */
    while (there) {
        union {
            struct cmsghdr header;
            /* tells an empty packet from the end of the stream */
            char space[CMSG_SPACE(sizeof(struct ucred))];
        } control;
        struct msghdr message = {.msg_control = control.space,
                                 .msg_controllen = sizeof(control.space)};
        ssize_t size = recvmsg(fd, &message, MSG_TRUNC | MSG_DONTWAIT);
        /* A socket returns its error once, before the packets behind it. */
        there = size < 0 ? errno == ECONNRESET || errno == EINTR
                         : size > 0 || message.msg_controllen > 0;
    }
}

static void *run(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&own.mutex);
    for (;;) { /* runs until the process ends */
        while (own.count == 0) {
            pthread_cond_wait(&own.given, &own.mutex);
        }
        struct late_fd one = own.items[own.first];
        pthread_mutex_unlock(&own.mutex);
        if (one.watched) {
            await_queue(one.fd);
        }
        empty(one.fd);
        close(one.fd);
        pthread_mutex_lock(&own.mutex);
        own.first = (own.first + 1) % WAITING_MAX;
        own.count--;
    }
    return NULL;
}

bool late_close_start(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        errno = error;
        return false;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the loop's thread gets the signals */
    error = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    own.started = error == 0;
    errno = error;
    return own.started;
}

static void give(const struct late_fd *one)
{
    bool waits = false;
    if (one->fd < 0) {
        return;
    }
    pthread_mutex_lock(&own.mutex);
    if (own.started && own.count < WAITING_MAX) {
        own.items[(own.first + own.count++) % WAITING_MAX] = *one;
        pthread_cond_signal(&own.given);
        waits = true;
    }
    pthread_mutex_unlock(&own.mutex);
    if (!waits) {
        close(one->fd);
    }
}

void late_close(int fd, uid_t uid)
{
    give(&(struct late_fd){.fd = fd, .uid = uid});
}

void late_close_watched(int pidfd, uid_t uid)
{
    give(&(struct late_fd){.fd = pidfd, .uid = uid, .watched = true});
}

bool late_close_is_busy(uid_t uid)
{
    uint32_t found = 0;
    pthread_mutex_lock(&own.mutex);
    for (uint32_t i = 0; own.count >= PER_USER_MAX && i < own.count && found < PER_USER_MAX; i++) {
        found += own.items[(own.first + i) % WAITING_MAX].uid == uid;
    }
    pthread_mutex_unlock(&own.mutex);
    return found >= PER_USER_MAX;
}
