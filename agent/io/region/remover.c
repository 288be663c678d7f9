/* The process that removes regions: see io/remover.h. */
#include "io/remover.h"

#include <dirent.h>
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
#include <unistd.h>

#include "io/beside.h"
#include "io/clock.h"
#include "io/sandbox.h"
#include "io/stuck.h"
#include "proto/check.h"
#include "proto/region.h"

enum {
    OPENED = 255,  /* an order to open a folder, which is not a removal */
    REACHED = 254, /* an order to touch an object's pages, which is not a removal either */
    LISTED = 253,  /* an order to list folders of /dev/shm */
    LEFT = 252,    /* an order to remove an agent's folder; no agent counts this removal */
    PAGE = 4096,
    LOOK_MS = 20, /* the pause between two looks at a child that may be stuck */
    NOBODY = REMOVER_SPACES,
    OBJECT_PATH_MAX = REMOVER_PATH_MAX + 16,
    /* the most tries of a call while the system has no process or descriptor left */
    TRIES_MAX = 100,
    PAUSE_MS = 50, /* the pause between two tries */
};

/* An order of the agent to the process. Some orders carry descriptors: OPENED has the socket for
 * the answer, and the lock; REACHED and LISTED have the socket; LEFT has the folder, which is
 * locked. */
struct remover_order {
    uint64_t size;
    uint32_t space;
    uint32_t kind; /* enum remover_kind, OPENED, REACHED, LISTED, LEFT */
    char path[REMOVER_PATH_MAX];
};

/* A child that lists folders sends one entry for each folder, with the folder's descriptor, and at
 * the end an entry with an empty name. */
struct remover_entry {
    char ending[REMOVER_ENDING_MAX];
};

/* A notice of the process to the agent: how many removals of this space are not done yet. */
struct remover_notice {
    uint32_t space;
    uint32_t count;
};

/* Sends a message, and tries again for a while if there is no room for the message. A user may have
 * only as many descriptors in transit as one of its processes may have open, and the descriptors of
 * the user's other processes are counted too. On failure returns false with errno. */
static bool send_in_time(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
{
    unsigned tries = 0;
    while (!beside_send(socket, bytes, size, fds, count)) {
        if (errno == EPIPE || errno == ECONNRESET || ++tries == TRIES_MAX) {
            return false;
        }
        (void)!poll(NULL, 0, PAUSE_MS);
    }
    return true;
}

/* ---- in a child: each call may wait for ever ---- */

static struct hfi_header
    *volatile abandoned_header; /* the header that is being written; NULL: none is */

/* The header's memory is missing, because a client may have cut the object just now. Maps other
 * memory in its place, so that the write goes on. */
static void on_sigbus(int number)
{
    if (abandoned_header == NULL ||
        mmap(abandoned_header, HFI_HEADER_SIZE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
        signal(number, SIG_DFL);
    }
}

/* Marks the region as abandoned, and wakes the processes that wait in it. Only the header is used,
 * because the other parts may be missing. */
static void mark_abandoned(int fd)
{
    struct hfi_header *header = mmap(NULL, HFI_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                                     0);
    if (header != MAP_FAILED) {
        abandoned_header = header;
        /* both seq_cst: a waiter that sees the new count also sees that the region is abandoned */
        atomic_store(&header->abandoned, 1);
        atomic_fetch_add(&header->lease_wake, 1);
        syscall(SYS_futex, &header->lease_wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        abandoned_header = NULL;
        munmap(header, HFI_HEADER_SIZE);
    }
}

/* Returns whether the region has the layout that this agent knows. A region of another layout is
 * not marked, unless it is to be emptied: its processes learn of the end of their session by their
 * own timers. */
static bool is_known(int fd)
{
    struct {
        uint64_t magic;
        uint32_t version; /* every layout has its number at this offset of the header */
    } seen = {.magic = 0};
    return pread(fd, &seen, sizeof(seen), 0) == (ssize_t)sizeof(seen) &&
           seen.magic == HFI_REGION_MAGIC && seen.version == HFI_REGION_VERSION;
}

/* Gives back the object's memory behind the region's header, and behind the object's end. */
static void empty(int fd, uint64_t size)
{
    /* Twice, because only a call that leaves the size unchanged frees memory behind the end. */
    for (unsigned i = 0; i < 2; i++) {
        (void)!ftruncate(fd, (off_t)size);
    }
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HFI_HEADER_SIZE,
                     (off_t)(size - HFI_HEADER_SIZE));
}

/* Marks the object as abandoned, for the processes that map it. Empties the object if the order
 * says so. */
static void leave_object(const struct remover_order *order, int fd)
{
    struct stat status;
    bool emptied = order->kind == REMOVER_EMPTIED && order->size > HFI_HEADER_SIZE;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) {
        return;
    }
    bool whole = status.st_size >= HFI_HEADER_SIZE;
    if (whole && (emptied || is_known(fd))) {
        mark_abandoned(fd);
    }
    if (emptied) {
        empty(fd, order->size);
    }
    if (emptied && !whole) {
        mark_abandoned(fd);
    }
}

/* Waits until no other child, of this agent or another, works on this folder. A child that waits
 * for a lock that a stranger keeps cannot be ended. Without this wait, each start of an agent would
 * leave one more such child. A child that waits here ends with its agent. */
static void wait_for_turn(const struct remover_order *order)
{
    int folder = open(order->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) != 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)flock(folder, LOCK_EX);
        (void)prctl(PR_SET_PDEATHSIG, 0);
    }
}

static void remove_folder(const struct remover_order *order)
{
    char object[OBJECT_PATH_MAX];
    wait_for_turn(order);
    snprintf(object, sizeof(object), "%s/region", order->path);
    int fd = open(object, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        leave_object(order, fd);
        close(fd); /* closed here, so that the memory is free when the folder is gone */
    }
    /* A previous agent's child may keep the folder's lock while it waits for the object's lock. So
     * rmdir(), which needs the lock of the agent's folder as well, comes only after unlink(). */
    if (unlink(object) == 0 || errno == ENOENT) {
        (void)rmdir(order->path);
    }
}

static void remove_flat(const struct remover_order *order)
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

/* Opens the folder. Answers with an errno, or with 0 and the folder's descriptor. */
static void open_folder(const struct remover_order *order, int answer)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int error = 0;
    /* Opening a folder that exists does not take the lock of /dev/shm. */
    int fd = open(order->path, flags);
    if (fd < 0 && errno == ENOENT && (mkdir(order->path, 0700) == 0 || errno == EEXIST)) {
        fd = open(order->path, flags);
    }
    error = fd < 0 ? errno : 0;
    if (!send_in_time(answer, &error, sizeof(error), &fd, fd >= 0)) {
        error = errno;
        (void)!beside_send(answer, &error, sizeof(error), NULL, 0);
    }
}

/* Touches each page of the object. The end of this child is the answer. A missing page ends the
 * child as well. */
static void reach(const struct remover_order *order)
{
    int fd = open(order->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    volatile unsigned char *at = fd < 0 ? MAP_FAILED
                                        : mmap(NULL, order->size, PROT_READ | PROT_WRITE,
                                               MAP_SHARED, fd, 0);
    for (uint64_t i = 0; (void *)at != MAP_FAILED && i < order->size; i += PAGE) {
        (void)at[i];
    }
    if ((void *)at != MAP_FAILED) {
        munmap((void *)at, order->size);
    }
}

/* Sends the folder if it belongs to this user. Returns whether it was sent. */
static bool list_one(DIR *shm, const char *name, size_t prefix, int answer)
{
    struct remover_entry entry = {""};
    struct stat status;
    size_t length = strlen(name + prefix);
    int fd = length == 0 || length >= REMOVER_ENDING_MAX
                 ? -1
                 : openat(dirfd(shm), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    memcpy(entry.ending, name + prefix, length + 1);
    bool sent = fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
                send_in_time(answer, &entry, sizeof(entry), &fd, 1);
    close(fd);
    return sent;
}

/* Lists folders of /dev/shm. A child that waits for the lock of /dev/shm here can be killed, unless
 * a name vanishes at that moment. So the child asks to be killed when this process ends. Then
 * agents that start one after the other do not leave more and more such children behind. */
static void list_folders(const struct remover_order *order, int answer)
{
    static const char shm_path[] = "/dev/shm/";
    const char *prefix = order->path + strlen(shm_path);
    const struct remover_entry last = {""};
    const struct dirent *entry;
    uint32_t count = 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    DIR *shm = strncmp(order->path, shm_path, strlen(shm_path)) == 0 ? opendir(shm_path) : NULL;
    while (shm != NULL && count < REMOVER_LISTED_MAX && (entry = readdir(shm)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            count += list_one(shm, entry->d_name, strlen(prefix), answer);
        }
    }
    if (shm != NULL) {
        closedir(shm);
        (void)!send_in_time(answer, &last, sizeof(last), NULL, 0);
    }
}

/* Removes the folder of an agent. The kernel removes a folder only if it is empty. */
static void remove_agent(const struct remover_order *order, int folder)
{
    if (unlinkat(folder, "lease", 0) == 0 || errno == ENOENT) {
        (void)rmdir(order->path);
    }
}

/* ---- the process ---- */

struct remover_child {
    pid_t pid;
    uint32_t space; /* NOBODY: the child does not remove a region */
};

static struct {
    uint32_t job_count;
    uint32_t child_count;
    uint32_t notified[REMOVER_SPACES]; /* the counts in the last notices to the agent */
    struct remover_order jobs[REMOVER_WAITING];
    struct remover_child children[REMOVER_CHILDREN];
} own;

static uint32_t children_of(uint32_t space)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < own.child_count; i++) {
        count += own.children[i].space == space;
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

/* answer: the socket or the folder that came with the order; -1: none did. */
__attribute__((noreturn)) static void be_child(const struct remover_order *order, int answer)
{
    close(BESIDE_FD); /* Only the remover itself may have this socket open: the agent notices the
                       * remover's end because the socket closes. */
    if (order->kind == OPENED) {
        open_folder(order, answer);
    } else if (order->kind == REACHED) {
        reach(order);
    } else if (order->kind == LISTED) {
        list_folders(order, answer);
    } else if (order->kind == LEFT) {
        remove_agent(order, answer);
    } else if (order->kind == REMOVER_FLAT) {
        remove_flat(order);
    } else {
        remove_folder(order);
    }
    _exit(0);
}

/* Returns false if no child can be made now. */
static bool start_child(const struct remover_order *order, int answer)
{
    pid_t pid = fork();
    if (pid == 0) {
        be_child(order, answer);
    }
    if (pid > 0 && order->kind == REACHED) {
        (void)!beside_send(answer, &pid, sizeof(pid), NULL, 0);
    }
    if (pid > 0) {
        own.children[own.child_count++] = (struct remover_child){.pid = pid, .space = order->space};
    }
    return pid > 0;
}

/* Starts a child for each waiting removal that may begin. Returns false if the caller must try
 * again after a pause, because no event will come. */
static bool start_children(void)
{
    uint32_t left = 0;
    bool done = true;
    for (uint32_t i = 0; i < own.job_count; i++) {
        const struct remover_order *job = &own.jobs[i];
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

/* Sends the agent the counts that have changed. Returns false if the caller must try again after a
 * pause, because no event will come. */
static bool send_counts(void)
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
        const struct remover_notice notice = {.space = i, .count = counts[i]};
        if (counts[i] == own.notified[i]) {
            continue;
        }
        if (!beside_send(BESIDE_FD, &notice, sizeof(notice), NULL, 0)) {
            return false;
        }
        own.notified[i] = counts[i];
    }
    return true;
}

/* Ends the process after the agent has ended. The process does not wait for its children; the next
 * agent finds what they leave. */
__attribute__((noreturn)) static void end(void)
{
    (void)!start_children();
    _exit(0);
}

static bool is_sound(const struct remover_order *order)
{
    return memchr(order->path, '\0', sizeof(order->path)) != NULL &&
           (order->kind >= LEFT ? order->space == NOBODY : order->space < REMOVER_SPACES);
}

/* Opens a folder or touches pages in a child. An agent that starts sends such an order, and waits
 * for the answer. */
static void open_in_child(const struct remover_order *order, int answer)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        if (start_child(order, answer)) {
            return;
        }
        (void)!poll(NULL, 0, PAUSE_MS);
    }
    int error = EAGAIN;
    (void)!beside_send(answer, &error, sizeof(error), NULL, 0);
}

static void take_order(void)
{
    struct remover_order order;
    int fds[BESIDE_FDS];
    ssize_t size = beside_receive(BESIDE_FD, &order, sizeof(order), fds);
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        end();
    }
    if (size == (ssize_t)sizeof(order) && is_sound(&order)) {
        if (order.kind < LEFT) {
            own.jobs[own.job_count++] = order;
        } else if (order.kind < REACHED) {
            /* If no child can be made now, the agent repeats the order later. */
            (void)(own.child_count < REMOVER_CHILDREN && start_child(&order, fds[0]));
        } else {
            open_in_child(&order, fds[0]);
        }
    }
    for (unsigned i = 0; i < BESIDE_FDS; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

__attribute__((noreturn)) static void serve(void)
{
    for (;;) {
        beside_reap(on_end);
        bool done = start_children();
        done = send_counts() && done;
        bool takes = own.job_count < REMOVER_WAITING;
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
    const struct sigaction action = {.sa_handler = on_sigbus};
    umask(0077);
    return sigaction(SIGBUS, &action, NULL) == 0;
}

/* ---- the agent's side ---- */

struct remover {
    int fd;
    bool ended;
    uint32_t waiting[REMOVER_SPACES];
};

struct remover *remover_open(char **arguments)
{
    static const struct beside process = {.name = "holdfastd-rm",
                                          .signal = SIGBUS,
                                          .prepare = prepare,
                                          .filter = sandbox_filter_remover,
                                          .serve = serve};
    struct remover *remover = calloc(1, sizeof(*remover));
    int fd = remover != NULL ? beside_start(&process, arguments) : -1;
    if (fd < 0) {
        free(remover);
        return NULL;
    }
    remover->fd = fd;
    return remover;
}

static bool say(struct remover *remover, uint32_t space, uint32_t kind, const char *path,
                uint64_t size, const int *fds, unsigned count)
{
    struct remover_order order = {.size = size, .space = space, .kind = kind};
    HF_CHECK(strlen(path) < sizeof(order.path));
    memcpy(order.path, path, strlen(path) + 1);
    /* OPENED and REACHED come from an agent that starts. It can afford to wait and try again. */
    bool sent = !remover->ended &&
                (kind >= REACHED ? send_in_time(remover->fd, &order, sizeof(order), fds, count)
                                 : beside_send(remover->fd, &order, sizeof(order), fds, count));
    if (sent || remover->ended) {
        return sent;
    }
    remover->ended = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR &&
                     errno != ENOBUFS && errno != ENOMEM && errno != ETOOMANYREFS;
    return false;
}

/* Locks the file before end_ns. On failure returns false with errno. */
static bool lock_in_time(int lock, int64_t end_ns)
{
    while (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || clock_boottime_ns() >= end_ns) {
            errno = errno == EWOULDBLOCK ? ETIMEDOUT : errno;
            return false;
        }
        (void)!poll(NULL, 0, PAUSE_MS);
    }
    return true;
}

int remover_open_folder(struct remover *remover, const char *path, int lock, int timeout_ms)
{
    int ends[2];
    int fds[BESIDE_FDS];
    int error = ETIMEDOUT; /* the result if nothing arrives in time, or a signal ends poll() */
    int64_t end_ns = clock_boottime_ns() + timeout_ms * INT64_C(1000000);
    if (!lock_in_time(lock, end_ns) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    const int sent[BESIDE_FDS] = {ends[1], lock};
    bool said = say(remover, NOBODY, OPENED, path, 0, sent, BESIDE_FDS);
    int unsaid = remover->ended ? ECHILD : errno;
    close(ends[1]);
    struct pollfd pollfd = {.fd = ends[0], .events = POLLIN};
    int64_t left_ms = (end_ns - clock_boottime_ns()) / 1000000;
    fds[0] = -1;
    if (!said) {
        error = unsaid;
    } else if (poll(&pollfd, 1, left_ms > 0 ? (int)left_ms : 0) > 0) {
        ssize_t size = beside_receive(ends[0], &error, sizeof(error), fds);
        error = size != (ssize_t)sizeof(error) ? ECHILD
                /* the descriptor came, but this process had no room for it */
                : error == 0 && fds[0] < 0 ? EMFILE
                                           : error;
    }
    close(ends[0]);
    errno = error;
    return fds[0];
}

/* Waits for the child. Returns true if the child has ended, false if it is stuck (io/stuck.h). When
 * the child exits, the other socket of the pair of `answer` is closed. */
static bool is_reached(int answer)
{
    struct stuck stuck = {0};
    char stat[64] = "";
    for (;;) {
        struct pollfd pollfd = {.fd = answer, .events = POLLIN};
        int fds[BESIDE_FDS];
        pid_t child = 0;
        if (poll(&pollfd, 1, LOOK_MS) > 0) {
            if (beside_receive(answer, &child, sizeof(child), fds) != (ssize_t)sizeof(child)) {
                return true;
            }
            snprintf(stat, sizeof(stat), "/proc/%d/stat", (int)child);
        }
        if (stat[0] != '\0' && stuck_look(&stuck, stat, STUCK_PRESSURE, clock_boottime_ns())) {
            return false;
        }
    }
}

bool remover_reaches(struct remover *remover, const char *path, uint64_t size)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return true;
    }
    bool said = say(remover, NOBODY, REACHED, path, size, &ends[1], 1);
    close(ends[1]);
    bool reached = !said || is_reached(ends[0]);
    close(ends[0]);
    return reached;
}

int remover_list(struct remover *remover, const char *prefix)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return -1;
    }
    bool said = say(remover, NOBODY, LISTED, prefix, 0, &ends[1], 1);
    close(ends[1]);
    if (!said) {
        close(ends[0]);
        ends[0] = -1;
    }
    return ends[0];
}

int remover_listed(int listing, struct remover_list *list)
{
    struct remover_entry entry;
    int fds[BESIDE_FDS];
    for (;;) { /* the loop ends, because the child sends few entries */
        ssize_t size = beside_receive(listing, &entry, sizeof(entry), fds);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return 0;
        }
        bool sound = size == (ssize_t)sizeof(entry) &&
                     memchr(entry.ending, '\0', sizeof(entry.ending)) != NULL;
        bool more = sound && entry.ending[0] != '\0';
        if (more && fds[0] >= 0 && list->count < REMOVER_LISTED_MAX) {
            memcpy(list->endings[list->count], entry.ending, sizeof(entry.ending));
            list->folders[list->count++] = fds[0];
            fds[0] = -1;
        }
        for (unsigned i = 0; size > 0 && i < BESIDE_FDS; i++) {
            if (fds[i] >= 0) {
                close(fds[i]);
            }
        }
        if (!more) {
            return sound ? 1 : -1;
        }
    }
}

void remover_list_end(struct remover_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        close(list->folders[i]);
    }
    list->count = 0;
}

bool remover_remove_agent(struct remover *remover, const char *path, int folder)
{
    return say(remover, NOBODY, LEFT, path, 0, &folder, 1);
}

bool remover_remove(struct remover *remover, uint32_t space, enum remover_kind kind,
                    const char *path, uint64_t size)
{
    HF_CHECK(space < REMOVER_SPACES);
    return say(remover, space, kind, path, size, NULL, 0);
}

uint32_t remover_waiting(struct remover *remover, uint32_t space)
{
    struct remover_notice said;
    ssize_t size;
    HF_CHECK(space < REMOVER_SPACES);
    while ((size = recv(remover->fd, &said, sizeof(said), MSG_DONTWAIT)) ==
           (ssize_t)sizeof(said)) { /* the loop ends, because the process sends few notices */
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
