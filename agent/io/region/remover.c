/* The process that removes: see io/remover.h. */
#include "io/remover.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "io/sandbox.h"
#include "proto/check.h"
#include "proto/region.h"

enum {
    RETRY_MS = 1000, /* a fork that failed, an agent that does not listen */
    OWN_FD = 3,
    INHERITED_MAX = 65536, /* the highest descriptor that is looked for */
    OPENED = 255,          /* a folder's: an order, not a removal */
    NOBODY = REMOVER_SPACES,
    OBJECT_PATH_MAX = REMOVER_PATH_MAX + 16,
    TRIES_MAX = 100, /* of what fails for want of a process or a descriptor on its way, */
    PAUSE_MS = 50,   /* with so much between them */
};

static const char process_name[] = "holdfastd-rm";

/* What is said to it; with OPENED come the socket to answer on and the lock. */
struct order {
    uint64_t size;
    uint32_t space;
    uint32_t kind; /* enum remover_kind, or OPENED */
    char path[REMOVER_PATH_MAX];
};

/* What it says: of this space so many are not removed yet. */
struct notice {
    uint32_t space;
    uint32_t count;
};

/* ---- a descriptor or two beside bytes ---- */

enum { SENT_MAX = 2 };

union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(SENT_MAX * sizeof(int))];
};

static bool send_with(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
{
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = size};
    union control control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (count > 0) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size;
}

/* The same, of what may have no room for a while: as many descriptors of a user may be on their way
 * as its processes may have, and others of its processes count. */
static bool send_in_time(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
{
    unsigned tries = 0;
    while (!send_with(socket, bytes, size, fds, count)) {
        if (errno == EPIPE || errno == ECONNRESET || ++tries == TRIES_MAX) {
            return false;
        }
        (void)!poll(NULL, 0, PAUSE_MS);
    }
    return true;
}

/* What recvmsg() says. fds: -1 each that did not come. */
static ssize_t receive_with(int socket, void *bytes, size_t size, int fds[SENT_MAX])
{
    struct iovec part = {.iov_base = bytes, .iov_len = size};
    union control control;
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    fds[0] = fds[1] = -1;
    ssize_t received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = received >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len <= CMSG_LEN(SENT_MAX * sizeof(int))) {
        memcpy(fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    }
    return received;
}

/* ---- in a child: each call may wait for ever ---- */

static struct hfi_header *volatile told; /* what is written to now; NULL: nothing */

/* Its memory is gone, be it that a client cut it just now. */
static void on_sigbus(int number)
{
    if (told == NULL || mmap(told, HFI_HEADER_SIZE, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
        signal(number, SIG_DFL);
    }
}

/* Those who map it are told. Its parts need not be where they were any more, the header is. */
static void tell_abandoned(int fd)
{
    struct hfi_header *header = mmap(NULL, HFI_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                     0);
    if (header != MAP_FAILED) {
        told = header;
        /* seq_cst, both: a waiter that sees the new count sees that it is abandoned */
        atomic_store(&header->abandoned, 1);
        atomic_fetch_add(&header->lease_wake, 1);
        syscall(SYS_futex, &header->lease_wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        told = NULL;
        munmap(header, HFI_HEADER_SIZE);
    }
}

/* Of another layout nothing is known, so nothing is written: its processes learn of the end of
 * their session by their own timers. */
static bool is_known(int fd)
{
    struct {
        uint64_t magic;
        uint32_t version; /* as in every layout's header */
    } seen = {.magic = 0};
    return pread(fd, &seen, sizeof(seen), 0) == (ssize_t)sizeof(seen) &&
           seen.magic == HFI_REGION_MAGIC && seen.version == HFI_REGION_VERSION;
}

/* Gives back what is in it behind the header, and behind its end. */
static void empty(int fd, uint64_t size)
{
    for (unsigned i = 0; i < 2; i++) { /* what lies behind the end goes only if that stays */
        (void)!ftruncate(fd, (off_t)size);
    }
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HFI_HEADER_SIZE,
                     (off_t)(size - HFI_HEADER_SIZE));
}

/* Tells who maps it, and empties it if that was ordered. */
static void leave_object(const struct order *order, int fd)
{
    struct stat status;
    bool emptied = order->kind == REMOVER_EMPTIED && order->size > HFI_HEADER_SIZE;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        return;
    }
    bool whole = status.st_size >= HFI_HEADER_SIZE;
    if (whole && (emptied || is_known(fd))) {
        tell_abandoned(fd);
    }
    if (emptied) {
        empty(fd, order->size);
    }
    if (emptied && !whole) {
        tell_abandoned(fd);
    }
}

/* One child at a time, also of several agents: one that waits for a lock of a stranger's cannot be
 * ended, and each start would leave one more. What waits here ends with its agent. */
static void wait_for_turn(const struct order *order)
{
    int folder = open(order->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) != 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)flock(folder, LOCK_EX);
        (void)prctl(PR_SET_PDEATHSIG, 0);
    }
}

static void remove_folder(const struct order *order)
{
    char object[OBJECT_PATH_MAX];
    wait_for_turn(order);
    snprintf(object, sizeof(object), "%s/region", order->path);
    int fd = open(object, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        leave_object(order, fd);
    }
    /* The folder's lock may be kept by a child of an agent before that waits for the object's.
     * So the other one, which is that of the agent's folder, is asked for only behind this. */
    if (unlink(object) == 0 || errno == ENOENT) {
        (void)rmdir(order->path);
    }
}

static void remove_flat(const struct order *order)
{
    char beside[OBJECT_PATH_MAX];
    const char *end = strrchr(order->path, '.');
    unlink(order->path);
    snprintf(beside, sizeof(beside), "%s.BELL", order->path);
    unlink(beside);
    if (end != NULL) {
        snprintf(beside, sizeof(beside), "%.*s.LEASE", (int)(end - order->path), order->path);
        unlink(beside);
    }
}

/* Answers with an errno, and the folder if that is 0. */
static void open_folder(const struct order *order, int answer)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int error = 0;
    /* What is there is found without the lock of /dev/shm. */
    int fd = open(order->path, flags);
    if (fd < 0 && errno == ENOENT && (mkdir(order->path, 0700) == 0 || errno == EEXIST)) {
        fd = open(order->path, flags);
    }
    error = fd < 0 ? errno : 0;
    (void)!send_in_time(answer, &error, sizeof(error), &fd, fd >= 0);
}

/* ---- the process ---- */

struct child {
    pid_t pid;
    uint32_t space; /* NOBODY: it opens a folder */
};

static struct {
    int fd; /* the agent's other end is closed: it ends */
    uint32_t job_count;
    uint32_t child_count;
    uint32_t told[REMOVER_SPACES]; /* to the agent */
    struct order jobs[REMOVER_WAITING];
    struct child children[REMOVER_CHILDREN];
} own;

static uint32_t children_of(uint32_t space)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own.child_count; i++) {
        count += own.children[i].space == space;
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

__attribute__((noreturn)) static void be_child(const struct order *order, int answer)
{
    close(own.fd); /* if the process ends the agent is to notice */
    if (order->kind == OPENED) {
        open_folder(order, answer);
    } else if (order->kind == REMOVER_FLAT) {
        remove_flat(order);
    } else {
        remove_folder(order);
    }
    _exit(0);
}

/* false: no process can be made now. */
static bool start_child(const struct order *order, int answer)
{
    pid_t pid = fork();
    if (pid == 0) {
        be_child(order, answer);
    }
    if (pid > 0) {
        own.children[own.child_count++] = (struct child){.pid = pid, .space = order->space};
    }
    return pid > 0;
}

/* false: it has to be tried again without any event. */
static bool start_children(void)
{
    uint32_t left = 0;
    bool done = true;
    for (uint32_t i = 0; i < own.job_count; i++) {
        const struct order *job = &own.jobs[i];
        bool may = done && own.child_count < REMOVER_CHILDREN &&
                   children_of(job->space) < REMOVER_PER_SPACE;
        if (may && start_child(job, -1)) {
            continue;
        }
        done = done && !may;
        own.jobs[left++] = *job;
    }
    own.job_count = left;
    return done;
}

/* Says what has changed. false: as above. */
static bool tell_counts(void)
{
    uint32_t counts[REMOVER_SPACES] = {0};
    for (uint32_t i = 0; i < own.job_count; i++) {
        counts[own.jobs[i].space]++;
    }
    for (uint32_t i = 0; i < own.child_count; i++) {
        if (own.children[i].space != NOBODY) {
            counts[own.children[i].space]++;
        }
    }
    for (uint32_t i = 0; i < REMOVER_SPACES; i++) {
        const struct notice notice = {.space = i, .count = counts[i]};
        if (counts[i] == own.told[i]) {
            continue;
        }
        if (!send_with(own.fd, &notice, sizeof(notice), NULL, 0)) {
            return false;
        }
        own.told[i] = counts[i];
    }
    return true;
}

/* The agent is gone. Nobody waits for the children; the next agent finds what is left then. */
__attribute__((noreturn)) static void end(void)
{
    (void)!start_children();
    _exit(0);
}

static bool is_sound(const struct order *order)
{
    return memchr(order->path, '\0', sizeof(order->path)) != NULL &&
           (order->kind == OPENED ? order->space == NOBODY : order->space < REMOVER_SPACES);
}

/* It is the first order of an agent that starts, and waits for it. */
static void open_in_child(const struct order *order, int answer)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        if (start_child(order, answer)) {
            return;
        }
        (void)!poll(NULL, 0, PAUSE_MS);
    }
    int error = EAGAIN;
    (void)!send_with(answer, &error, sizeof(error), NULL, 0);
}

static void take_order(void)
{
    struct order order;
    int fds[SENT_MAX];
    ssize_t size = receive_with(own.fd, &order, sizeof(order), fds);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        end();
    }
    if (size == (ssize_t)sizeof(order) && is_sound(&order)) {
        if (order.kind != OPENED) {
            own.jobs[own.job_count++] = order;
        } else {
            open_in_child(&order, fds[0]);
        }
    }
    for (unsigned i = 0; i < SENT_MAX; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
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
        done = tell_counts() && done;
        bool takes = own.job_count < REMOVER_WAITING;
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

static void take_name(char **arguments)
{
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
}

/* What the agent has, it has not: standard streams, signals, a folder, its name, system calls. */
__attribute__((noreturn)) static void become_remover(int fd, char **arguments)
{
    const struct sigaction action = {.sa_handler = on_child};
    const struct sigaction bus = {.sa_handler = on_sigbus};
    sigset_t all;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    if (sigprocmask(SIG_SETMASK, &all, NULL) != 0 || sigaction(SIGCHLD, &action, NULL) != 0 ||
        sigaction(SIGBUS, &bus, NULL) != 0 || null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0 || dup2(fd, OWN_FD) < 0 || chdir("/") != 0) {
        _exit(1);
    }
    own.fd = OWN_FD;
    umask(0077);
    close_others();
    take_name(arguments);
    (void)!sandbox_filter_remover();
    serve();
}

/* ---- the agent's side ---- */

struct remover {
    int fd;
    bool ended;
    uint32_t waiting[REMOVER_SPACES];
};

struct remover *remover_open(char **arguments)
{
    int ends[2];
    struct remover *remover = calloc(1, sizeof(*remover));
    if (remover == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        free(remover);
        return NULL;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become_remover(ends[1], arguments);
    }
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        free(remover);
        errno = error;
        return NULL;
    }
    remover->fd = ends[0];
    return remover;
}

static bool say(struct remover *remover, uint32_t space, uint32_t kind, const char *path,
                uint64_t size, const int *fds, unsigned count)
{
    struct order order = {.size = size, .space = space, .kind = kind};
    HF_CHECK(strlen(path) < sizeof(order.path));
    memcpy(order.path, path, strlen(path) + 1);
    /* With descriptors it is of an agent that starts, and has the time. */
    bool sent = !remover->ended &&
                (count > 0 ? send_in_time(remover->fd, &order, sizeof(order), fds, count)
                           : send_with(remover->fd, &order, sizeof(order), NULL, 0));
    if (sent || remover->ended) {
        return sent;
    }
    remover->ended = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR &&
                     errno != ENOBUFS && errno != ENOMEM && errno != ETOOMANYREFS;
    return false;
}

int remover_open_folder(struct remover *remover, const char *path, int lock, int timeout_ms)
{
    int ends[2];
    int fds[SENT_MAX];
    int error = ETIMEDOUT;
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        errno = errno == EWOULDBLOCK ? ETIMEDOUT : errno;
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    const int sent[SENT_MAX] = {ends[1], lock};
    bool said = say(remover, NOBODY, OPENED, path, 0, sent, SENT_MAX);
    close(ends[1]);
    struct pollfd pollfd = {.fd = ends[0], .events = POLLIN};
    fds[0] = -1;
    if (!said) {
        error = ECHILD;
    } else if (poll(&pollfd, 1, timeout_ms) > 0) { /* a signal that came: nobody waits longer */
        ssize_t size = receive_with(ends[0], &error, sizeof(error), fds);
        error = size == (ssize_t)sizeof(error) ? error : ECHILD;
    }
    close(ends[0]);
    errno = error;
    return fds[0];
}

bool remover_remove(struct remover *remover, uint32_t space, enum remover_kind kind,
                    const char *path, uint64_t size)
{
    HF_CHECK(space < REMOVER_SPACES);
    return say(remover, space, kind, path, size, NULL, 0);
}

uint32_t remover_waiting(struct remover *remover, uint32_t space)
{
    struct notice said;
    ssize_t size;
    HF_CHECK(space < REMOVER_SPACES);
    while ((size = recv(remover->fd, &said, sizeof(said), MSG_DONTWAIT)) ==
           (ssize_t)sizeof(said)) { /* it says little */
        HF_CHECK(said.space < REMOVER_SPACES);
        remover->waiting[said.space] = said.count;
    }
    remover->ended = remover->ended || size == 0;
    return remover->waiting[space];
}

bool remover_ended(const struct remover *remover)
{
    return remover->ended;
}

void remover_close(struct remover *remover)
{
    if (remover != NULL) {
        close(remover->fd);
        free(remover);
    }
}
