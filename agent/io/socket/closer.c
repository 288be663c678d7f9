/* The process that closes sockets: see io/closer.h. */
#include "io/closer.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/beside.h"
#include "io/sandbox.h"
#include "proto/check.h"

enum {
    JOBS_MAX = 65536,      /* a process usually has fewer descriptors */
    HAND_OVER_TRIES = 500, /* how many tries, of one or two milliseconds each */
    SPARE_FDS = 16,        /* the standard streams, BESIDE_FD and a few more */
};

/* An order of the agent to the process, sent together with a socket. */
struct closer_order {
    uid_t uid; /* the user of the socket's peer */
    bool keep; /* the socket stays open until the process ends */
};

/* A notice of the process to the agent: too many sockets wait, and this user has most of them
 * (`count`). count 0: no longer too many. */
struct closer_notice {
    uid_t uid;
    uint32_t count;
};

/* ---- the process ---- */

struct closer_job {
    int socket;
    uid_t uid;
};

struct closer_child {
    pid_t pid; /* children[] has the oldest child first */
    uid_t uid;
    bool killed;
};

static struct {
    int kept; /* the socket of the order with `keep`; -1: none */
    uint32_t room;
    /* how many sockets the process can take: it has no descriptors or entries in jobs[] for more */
    uint32_t most;
    bool full; /* this process reported to the agent that too many sockets wait */
    uint32_t job_count;
    uint32_t child_count;
    struct closer_job jobs[JOBS_MAX];
    struct closer_child children[CLOSER_CHILDREN];
} own;

static uint32_t children_of(uid_t uid)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own.child_count; i++) {
        count += own.children[i].uid == uid;
    }
    return count;
}

static void on_end(pid_t pid)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < own.child_count; i++) {
        if (own.children[i].pid != pid) {
            own.children[kept++] = own.children[i];
        }
    }
    own.child_count = kept;
}

static void kill_oldest(uid_t uid)
{
    for (uint32_t i = 0; i < own.child_count; i++) {
        struct closer_child *child = &own.children[i];
        if (child->uid == uid && !child->killed) {
            child->killed = true;
            (void)kill(child->pid, SIGKILL);
            return;
        }
    }
}

/*
 * Receives one packet and throws it away. Returns false if nothing is left. recvmsg() returns 0 for
 * an empty packet and at the end of the stream. It sets MSG_CTRUNC for a packet only, because there
 * is no room for the credentials of a packet's sender (SO_PASSCRED). If the peer has gone,
 * recvmsg() fails once with ECONNRESET, before it returns what the peer had sent.
 */
static bool throw_away_one(int socket)
{
    struct msghdr message = {.msg_iovlen = 0};
    ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC);
    return size > 0 || (size == 0 && (message.msg_flags & MSG_CTRUNC) != 0) ||
           (size < 0 && errno == ECONNRESET);
}

/* Throws away everything that the socket has received, so that the kernel closes the descriptors in
 * it. That may wait for ever, so only a child calls this. The loop ends, because nothing more can
 * arrive. Nothing may be left: the process that started the child may make the socket's last
 * close. */
static void empty(int socket)
{
    while (throw_away_one(socket)) {
    }
}

__attribute__((noreturn)) static void be_child(uid_t uid)
{
    close(BESIDE_FD); /* Only the closer itself may have this socket open: the agent notices the
                       * closer's end because the socket closes. */
    if (own.kept >= 0) {
        close(own.kept);
    }
    for (uint32_t i = 0; i < own.job_count; i++) {
        if (own.jobs[i].uid != uid) {
            /* another child or the process itself handles this socket */
            close(own.jobs[i].socket);
        }
    }
    for (uint32_t i = 0; i < own.job_count; i++) {
        if (own.jobs[i].uid == uid) {
            empty(own.jobs[i].socket);
        }
    }
    _exit(0);
}

/* Starts a child that gets all sockets of that user. The process closes its own copies afterwards,
 * so that the child makes the last close of a socket that is not empty. Returns false if no child
 * can be made now. */
static bool start_child(uid_t uid)
{
    uint32_t left = 0;
    pid_t pid = fork();
    if (pid < 0) {
        return false;
    }
    if (pid == 0) {
        be_child(uid);
    }
    own.children[own.child_count++] = (struct closer_child){.pid = pid, .uid = uid};
    for (uint32_t i = 0; i < own.job_count; i++) {
        if (own.jobs[i].uid == uid) {
            close(own.jobs[i].socket);
        } else {
            own.jobs[left++] = own.jobs[i];
        }
    }
    own.job_count = left;
    return true;
}

/* Starts children for the sockets that wait. Returns false if the caller must try again after a
 * pause, because no event will come. */
static bool start_children(void)
{
    uint32_t at = 0;
    /* each iteration passes a job, or removes jobs */
    while (at < own.job_count && own.child_count < CLOSER_CHILDREN) {
        uid_t uid = own.jobs[at].uid;
        if (children_of(uid) >= CLOSER_PER_USER) {
            at++;
        } else if (!start_child(uid)) {
            return false;
        }
    }
    return true;
}

static struct closer_notice find_most(void)
{
    struct closer_notice most = {.count = 0};
    for (uint32_t i = 0; i < own.job_count; i++) {
        uint32_t count = 0;
        for (uint32_t j = i; j < own.job_count; j++) {
            count += own.jobs[j].uid == own.jobs[i].uid;
        }
        if (count > most.count) {
            most = (struct closer_notice){.uid = own.jobs[i].uid, .count = count};
        }
    }
    return most;
}

/* Notifies the agent when too many sockets wait, and when no longer too many wait. Returns false if
 * the caller must try again after a pause, because no event will come. */
static bool note_room(void)
{
    bool full = own.job_count >= own.room;
    if (full != own.full) {
        struct closer_notice most = {.count = 0};
        if (full) {
            most = find_most();
        }
        if (send(BESIDE_FD, &most, sizeof(most), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            return false;
        }
        own.full = full;
    }
    return true;
}

/* Ends the process after the agent has ended. The kernel closes the remaining sockets at this
 * process's end, and that may wait for ever as well. */
__attribute__((noreturn)) static void end(void)
{
    for (uint32_t i = 0; i < own.child_count; i++) {
        (void)kill(own.children[i].pid, SIGKILL);
    }
    _exit(0);
}

/* Takes an order, which may come without a socket. The caller has checked that a descriptor for the
 * socket is free: without one, the kernel would close the socket in this process. */
static void take_order(void)
{
    struct closer_order order;
    int fds[BESIDE_FDS];
    ssize_t size = beside_receive(BESIDE_FD, &order, sizeof(order), fds);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        end();
    }
    if (size != (ssize_t)sizeof(order) || fds[0] < 0) {
        return;
    }
    if (order.keep) {
        own.kept = fds[0];
        return;
    }
    own.jobs[own.job_count++] = (struct closer_job){.socket = fds[0], .uid = order.uid};
    if (children_of(order.uid) >= CLOSER_PER_USER) {
        kill_oldest(order.uid);
    }
}

__attribute__((noreturn)) static void serve(void)
{
    for (;;) {
        beside_reap(on_end);
        bool done = start_children();
        done = note_room() && done;
        bool takes = own.job_count < own.most;
        if (beside_wait(takes, !done)) {
            if (!takes) { /* the agent has ended */
                end();
            }
            take_order();
        }
    }
}

static bool prepare(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= SPARE_FDS) {
        return false;
    }
    own.kept = -1;
    own.room = limit.rlim_cur / 2 < CLOSER_SOCKETS ? (uint32_t)limit.rlim_cur / 2 : CLOSER_SOCKETS;
    own.most = limit.rlim_cur - SPARE_FDS < JOBS_MAX ? (uint32_t)limit.rlim_cur - SPARE_FDS
                                                     : JOBS_MAX;
    return true;
}

/* ---- the agent's side ---- */

struct closer {
    int fd;
    bool ended;
    uint32_t room;
    uint32_t count;
    struct closer_notice most;
    struct {
        int socket;
        struct closer_order order;
    } waiting[];
};

struct closer *closer_open(uint32_t room, char **arguments)
{
    static const struct beside process = {.name = "holdfastd-close",
                                          .prepare = prepare,
                                          .filter = sandbox_filter_closer,
                                          .serve = serve};
    struct closer *closer = calloc(1, sizeof(*closer) + room * sizeof(closer->waiting[0]));
    int fd = closer != NULL ? beside_start(&process, arguments) : -1;
    if (fd < 0) {
        free(closer);
        return NULL;
    }
    closer->fd = fd;
    closer->room = room;
    return closer;
}

/* Sends the socket to the process, and closes it here. Returns false if the process has no room
 * now. */
static bool hand_over(struct closer *closer, int socket, struct closer_order order)
{
    if (!closer->ended && !beside_send(closer->fd, &order, sizeof(order), &socket, 1)) {
        if (errno != EPIPE && errno != ECONNRESET && errno != ENOTCONN && errno != ECONNREFUSED) {
            /* The process has no room, or so many of this agent's descriptors are in transit that
             * the kernel takes no more. */
            return false;
        }
        closer->ended = true;
    }
    close(socket); /* if the process has ended, this is the socket's last close */
    return true;
}

bool closer_push(struct closer *closer)
{
    struct closer_notice said;
    uint32_t done = 0;
    while (done < closer->count &&
           hand_over(closer, closer->waiting[done].socket, closer->waiting[done].order)) {
        done++;
    }
    closer->count -= done;
    memmove(closer->waiting, closer->waiting + done, closer->count * sizeof(closer->waiting[0]));
    while (recv(closer->fd, &said, sizeof(said), MSG_DONTWAIT) == (ssize_t)sizeof(said)) {
        closer->most = said; /* the last notice counts; the process sends few, so the loop ends */
    }
    return closer->ended || (closer->count == 0 && closer->most.count == 0);
}

static void add(struct closer *closer, int socket, struct closer_order order)
{
    HF_CHECK(closer->count < closer->room);
    closer->waiting[closer->count].socket = socket;
    closer->waiting[closer->count++].order = order;
}

void closer_give(struct closer *closer, int socket, uid_t uid)
{
    add(closer, socket, (struct closer_order){.uid = uid});
}

void closer_keep(struct closer *closer, int socket)
{
    add(closer, socket, (struct closer_order){.uid = geteuid(), .keep = true});
}

uid_t closer_most(const struct closer *closer, uint32_t *count)
{
    *count = closer->most.count > 0 ? closer->most.count : closer->count;
    return closer->most.count > 0 ? closer->most.uid : closer->waiting[0].order.uid;
}

bool closer_ended(const struct closer *closer)
{
    return closer->ended;
}

void closer_close(struct closer *closer)
{
    if (closer == NULL) {
        return;
    }
    struct pollfd pollfd = {.fd = closer->fd, .events = POLLOUT};
    (void)!closer_push(closer);
    for (unsigned i = 0; i < HAND_OVER_TRIES && closer->count > 0; i++) {
        const struct timespec pause = {.tv_nsec = 1000000};
        /* Even if the socket is writable, too many descriptors may still be in transit. */
        (void)!poll(&pollfd, 1, 1);
        nanosleep(&pause, NULL);
        (void)!closer_push(closer);
    }
    close(closer->fd); /* sockets that still wait here are closed when this process ends */
    free(closer);
}
