/* The process that closes: see io/closer.h. */
#include "io/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/sandbox.h"
#include "proto/check.h"

enum {
    RETRY_MS = 1000,       /* a fork that failed, an agent that does not listen */
    JOBS_MAX = 65536,      /* of descriptors there are fewer */
    HAND_OVER_TRIES = 500, /* of a millisecond or two */
    OWN_FD = 3,
    INHERITED_MAX = 65536, /* the highest descriptor that is looked for */
    SPARE_FDS = 16,        /* the standard streams, OWN_FD and a few more */
};

static const char process_name[] = "holdfastd-close";

/* What is said to it, with the socket. */
struct order {
    uid_t uid; /* whose it is */
    bool keep; /* it stays open until the process ends */
};

/* What it says: of this user so many wait, and all together are too many; count 0: no more. */
struct notice {
    uid_t uid;
    uint32_t count;
};

/* ---- the process ---- */

struct job {
    int socket;
    uid_t uid;
};

struct child {
    pid_t pid; /* the oldest first */
    uid_t uid;
    bool killed;
};

static struct {
    int fd;   /* the agent's other end is closed: it ends */
    int kept; /* what was ordered so; -1: nothing */
    uint32_t room;
    uint32_t most; /* it can have no more: no descriptor is left, or no place in jobs[] */
    bool full;     /* and the agent was told */
    uint32_t job_count;
    uint32_t child_count;
    struct job jobs[JOBS_MAX];
    struct child children[CLOSER_CHILDREN];
} own;

static uint32_t children_of(uid_t uid)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own.child_count; i++) {
        count += own.children[i].uid == uid;
    }
    return count;
}

static void reap(void)
{
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) { /* no more than there are */
        uint32_t kept = 0;
        for (uint32_t i = 0; i < own.child_count; i++) {
            if (own.children[i].pid != pid) {
                own.children[kept++] = own.children[i];
            }
        }
        own.child_count = kept;
    }
}

static void kill_oldest(uid_t uid)
{
    for (uint32_t i = 0; i < own.child_count; i++) {
        struct child *child = &own.children[i];
        if (child->uid == uid && !child->killed) {
            child->killed = true;
            (void)kill(child->pid, SIGKILL);
            return;
        }
    }
}

/* false: nothing is left. Of a packet, also of an empty one, the kernel says that there was no room
 * for who sent it (SO_PASSCRED); of the end it does not. That the peer is gone is told once, before
 * what it sent. */
static bool throw_away_one(int socket)
{
    struct msghdr message = {.msg_iovlen = 0};
    ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_TRUNC);
    return size > 0 || (size == 0 && (message.msg_flags & MSG_CTRUNC) != 0) ||
           (size < 0 && errno == ECONNRESET);
}

/* In a child: may wait for ever. The kernel closes what is thrown away. Nothing more can come, so
 * this ends; were anything left, the process itself might be the one that has to close it. */
static void empty(int socket)
{
    while (throw_away_one(socket)) {
    }
}

__attribute__((noreturn)) static void be_child(uid_t uid)
{
    close(own.fd); /* if the process ends the agent is to notice */
    if (own.kept >= 0) {
        close(own.kept);
    }
    for (uint32_t i = 0; i < own.job_count; i++) {
        if (own.jobs[i].uid != uid) {
            close(own.jobs[i].socket); /* another child's, or the process's still */
        }
    }
    for (uint32_t i = 0; i < own.job_count; i++) {
        if (own.jobs[i].uid == uid) {
            empty(own.jobs[i].socket);
        }
    }
    _exit(0);
}

/* A child gets all that there is of that user's. Only then it is closed here: what is not empty by
 * then is the child's still. false: no process can be made now. */
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
    own.children[own.child_count++] = (struct child){.pid = pid, .uid = uid};
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

/* false: it has to be tried again without any event. */
static bool start_children(void)
{
    uint32_t at = 0;
    while (at < own.job_count && own.child_count < CLOSER_CHILDREN) { /* it goes on or takes away */
        uid_t uid = own.jobs[at].uid;
        if (children_of(uid) >= CLOSER_PER_USER) {
            at++;
        } else if (!start_child(uid)) {
            return false;
        }
    }
    return true;
}

static struct notice find_most(void)
{
    struct notice most = {.count = 0};
    for (uint32_t i = 0; i < own.job_count; i++) {
        uint32_t count = 0;
        for (uint32_t j = i; j < own.job_count; j++) {
            count += own.jobs[j].uid == own.jobs[i].uid;
        }
        if (count > most.count) {
            most = (struct notice){.uid = own.jobs[i].uid, .count = count};
        }
    }
    return most;
}

/* Says when too many wait, and when no more. false: as above. */
static bool note_room(void)
{
    bool full = own.job_count >= own.room;
    if (full != own.full) {
        struct notice most = {.count = 0};
        if (full) {
            most = find_most();
        }
        if (send(own.fd, &most, sizeof(most), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            return false;
        }
        own.full = full;
    }
    return true;
}

/* The agent is gone. What is left goes with this process, whose end may wait for ever as well. */
__attribute__((noreturn)) static void end(void)
{
    for (uint32_t i = 0; i < own.child_count; i++) {
        (void)kill(own.children[i].pid, SIGKILL);
    }
    _exit(0);
}

/* One socket, or none. There must be a descriptor for it: what the kernel cannot give, it closes,
 * in this process. */
static void take_order(void)
{
    struct order order;
    struct iovec part = {.iov_base = &order, .iov_len = sizeof(order)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    ssize_t size = recvmsg(own.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        end();
    }
    if (size != (ssize_t)sizeof(order) || header == NULL || header->cmsg_type != SCM_RIGHTS) {
        return;
    }
    int socket;
    memcpy(&socket, CMSG_DATA(header), sizeof(int));
    if (order.keep) {
        own.kept = socket;
        return;
    }
    own.jobs[own.job_count++] = (struct job){.socket = socket, .uid = order.uid};
    if (children_of(order.uid) >= CLOSER_PER_USER) {
        kill_oldest(order.uid);
    }
}

static void on_child(int number)
{
    (void)number; /* it ends ppoll() */
}

__attribute__((noreturn)) static void serve(void)
{
    sigset_t all_but_one;
    sigfillset(&all_but_one);
    sigdelset(&all_but_one, SIGCHLD);
    for (;;) {
        const struct timespec soon = {.tv_sec = RETRY_MS / 1000};
        reap();
        bool done = start_children();
        done = note_room() && done;
        bool takes = own.job_count < own.most;
        struct pollfd pollfd = {.fd = own.fd, .events = takes ? POLLIN : 0};
        if (ppoll(&pollfd, 1, done ? NULL : &soon, &all_but_one) > 0) {
            if (!takes) { /* it hung up */
                end();
            }
            take_order();
        }
    }
}

/* Whatever the agent was started with, and the agent's end of the pair: it would never hear that
 * the agent is gone. */
static void close_others(void)
{
    if (syscall(SYS_close_range, OWN_FD + 1, UINT_MAX, 0) == 0) {
        return;
    }
    for (int fd = OWN_FD + 1; fd < INHERITED_MAX; fd++) { /* before Linux 5.9 */
        close(fd);
    }
}

/* What the agent has, it has not: standard streams, signals, a folder, its name, system calls. */
__attribute__((noreturn)) static void become_closer(int fd, char **arguments)
{
    const struct sigaction action = {.sa_handler = on_child};
    struct rlimit limit;
    sigset_t all;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) != 0 || sigaction(SIGCHLD, &action, NULL) != 0 ||
        getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur <= SPARE_FDS || null < 0 ||
        dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(fd, OWN_FD) < 0 ||
        chdir("/") != 0) {
        _exit(1);
    }
    own.fd = OWN_FD;
    own.kept = -1;
    own.room = limit.rlim_cur / 2 < CLOSER_SOCKETS ? (uint32_t)limit.rlim_cur / 2 : CLOSER_SOCKETS;
    own.most = limit.rlim_cur - SPARE_FDS < JOBS_MAX ? (uint32_t)limit.rlim_cur - SPARE_FDS
                                                     : JOBS_MAX;
    close_others();
    (void)prctl(PR_SET_NAME, process_name);
    if (arguments != NULL) {
        char *last = arguments[0];
        for (char **each = arguments; *each != NULL; each++) {
            last = *each + strlen(*each); /* they lie behind each other */
        }
        size_t room = (size_t)(last - arguments[0]);
        memset(arguments[0], 0, room);
        memcpy(arguments[0], process_name,
               room < sizeof(process_name) ? room : sizeof(process_name));
    }
    (void)!sandbox_filter_closer();
    serve();
}

/* ---- the agent's side ---- */

struct closer {
    int fd;
    bool ended;
    uint32_t room;
    uint32_t count;
    struct notice most;
    struct {
        int socket;
        struct order order;
    } waiting[];
};

struct closer *closer_open(uint32_t room, char **arguments)
{
    int ends[2];
    struct closer *closer = calloc(1, sizeof(*closer) + room * sizeof(closer->waiting[0]));
    if (closer == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        free(closer);
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_closer(ends[1], arguments);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        free(closer);
        errno = error;
        return NULL;
    }
    closer->fd = ends[0];
    closer->room = room;
    return closer;
}

/* false: it has no room now. */
static bool hand_over(struct closer *closer, int socket, struct order order)
{
    struct iovec part = {.iov_base = &order, .iov_len = sizeof(order)};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    memset(&control, 0, sizeof(control));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &socket, sizeof(int));
    if (!closer->ended && sendmsg(closer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        if (errno != EPIPE && errno != ECONNRESET && errno != ENOTCONN && errno != ECONNREFUSED) {
            return false; /* or so many of ours are on their way that the kernel takes no more */
        }
        closer->ended = true;
    }
    close(socket); /* the last one only if the process has ended */
    return true;
}

bool closer_push(struct closer *closer)
{
    struct notice said;
    uint32_t done = 0;
    while (done < closer->count &&
           hand_over(closer, closer->waiting[done].socket, closer->waiting[done].order)) {
        done++;
    }
    closer->count -= done;
    memmove(closer->waiting, closer->waiting + done, closer->count * sizeof(closer->waiting[0]));
    while (recv(closer->fd, &said, sizeof(said), MSG_DONTWAIT) == (ssize_t)sizeof(said)) {
        closer->most = said; /* it says little */
    }
    return closer->ended || (closer->count == 0 && closer->most.count == 0);
}

static void add(struct closer *closer, int socket, struct order order)
{
    HF_CHECK(closer->count < closer->room);
    closer->waiting[closer->count].socket = socket;
    closer->waiting[closer->count++].order = order;
}

void closer_give(struct closer *closer, int socket, uid_t uid)
{
    add(closer, socket, (struct order){.uid = uid});
}

void closer_keep(struct closer *closer, int socket)
{
    add(closer, socket, (struct order){.uid = geteuid(), .keep = true});
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
        (void)!poll(&pollfd, 1, 1); /* it may be writable, and too many be on their way still */
        nanosleep(&pause, NULL);
        (void)!closer_push(closer);
    }
    close(closer->fd); /* what waits here still is left to the end of this process */
    free(closer);
}
