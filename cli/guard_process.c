/*
 * The guard of CMD's process group: see guard_process.h.
 *
 * The guard is a fork without an exec, so it needs no file. Its parent may have threads, so it
 * makes only async-signal-safe calls.
 */
#include "guard_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not "holdfast...": `pkill -9 holdfast` must not end both at once. */
static const char guard_name[] = "hf-guard";

/* Of pidfd_send_signal(), since Linux 6.9: to the process group that the pidfd's process leads. */
static const unsigned signal_process_group = 1U << 2;

enum { GUARD_LIFE, GUARD_TIMER, GUARD_LEADER, GUARD_FD_COUNT };

struct guard_page {
    _Atomic int64_t kill_at_ns;
};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Without signals by pidfd. A process with the leader's number that is not the leader means that
 * the group was gone, and that its number is used again. */
static void group_kill_by_number(pid_t leader, int leader_fd)
{
    if (leader_fd >= 0 && syscall(SYS_pidfd_send_signal, leader_fd, 0, NULL, 0) != 0 &&
        errno == ESRCH && (kill(leader, 0) == 0 || errno == EPERM)) {
        return;
    }
    (void)kill(-leader, SIGKILL);
}

/* Kills the group, and the leader, which may have left it for another group of its session. */
static _Noreturn void group_kill(pid_t leader, int leader_fd)
{
    if (leader_fd < 0 ||
        (syscall(SYS_pidfd_send_signal, leader_fd, SIGKILL, NULL, signal_process_group) != 0 &&
         (errno == EINVAL || errno == ENOSYS))) {
        group_kill_by_number(leader, leader_fd);
    }
    if (leader_fd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, leader_fd, SIGKILL, NULL, 0);
    }
    _exit(0);
}

/* Moves the descriptors to 0, 1, 2 and closes all others. */
static void descriptors_keep(int fds[GUARD_FD_COUNT])
{
    int high[GUARD_FD_COUNT];
    long count = sysconf(_SC_OPEN_MAX);

    for (int index = 0; index < GUARD_FD_COUNT; index++) {
        high[index] = fds[index] < 0 ? -1 : fcntl(fds[index], F_DUPFD, GUARD_FD_COUNT);
    }
    for (int index = 0; index < GUARD_FD_COUNT; index++) {
        fds[index] = high[index] < 0 ? -1 : dup2(high[index], index);
        if (fds[index] < 0) {
            (void)close(index);
        }
    }
    if (syscall(SYS_close_range, GUARD_FD_COUNT, UINT_MAX, 0) != 0) {
        for (int fd = GUARD_FD_COUNT; fd < count; fd++) {
            (void)close(fd);
        }
    }
}

/* Sets the timer to the page's time. Ends the group if that time has come. */
static void timer_look(const int fds[GUARD_FD_COUNT], struct guard_page *page, pid_t leader)
{
    /* acquire: pairs with the release in guard_process_kill_at() */
    int64_t kill_at_ns = atomic_load_explicit(&page->kill_at_ns, memory_order_acquire);
    const struct itimerspec when = {
        .it_value = {.tv_sec = kill_at_ns / 1000000000, .tv_nsec = kill_at_ns % 1000000000},
    };

    if (kill_at_ns <= now_ns()) {
        group_kill(leader, fds[GUARD_LEADER]);
    }
    (void)timerfd_settime(fds[GUARD_TIMER], TFD_TIMER_ABSTIME, &when, NULL);
}

static _Noreturn void guard_process_run(int fds[GUARD_FD_COUNT], struct guard_page *page,
                                        pid_t leader)
{
    char bytes[64];
    struct pollfd polled[2];

    (void)setsid();
    (void)prctl(PR_SET_NAME, guard_name);
    descriptors_keep(fds);
    polled[0] = (struct pollfd){.fd = fds[GUARD_LIFE], .events = POLLIN};
    polled[1] = (struct pollfd){.fd = fds[GUARD_TIMER], .events = POLLIN};
    for (;;) {
        timer_look(fds, page, leader);
        if (poll(polled, 2, -1) < 0) {
            continue;
        }
        if ((polled[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
            group_kill(leader, fds[GUARD_LEADER]);
        }
        if (polled[0].revents != 0 && read(fds[GUARD_LIFE], bytes, sizeof(bytes)) == 0) {
            group_kill(leader, fds[GUARD_LEADER]);
        }
        /* timer_look() sets the timer anew, which makes it unreadable. */
    }
}

/* Forks with all signals blocked, so that none stops the guard before it has left the group. */
static pid_t guard_fork(int fds[GUARD_FD_COUNT], struct guard_page *page, int life_fd, pid_t leader)
{
    sigset_t all;
    sigset_t mask;
    pid_t pid;
    int problem;

    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &mask);
    pid = fork();
    problem = errno;
    if (pid == 0) {
        (void)close(life_fd); /* else the guard itself would keep it open */
        guard_process_run(fds, page, leader);
    }
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    errno = problem;
    return pid;
}

static bool start_with(struct guard_process *guard, int fds[GUARD_FD_COUNT], pid_t leader)
{
    int life[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life) != 0) {
        return false;
    }
    fds[GUARD_LIFE] = life[0];
    pid = guard_fork(fds, guard->page, life[1], leader);
    if (pid <= 0) {
        int problem = errno;

        (void)close(life[1]);
        errno = problem;
        return false;
    }
    guard->pid = pid;
    guard->life_fd = life[1];
    return true;
}

bool guard_process_start(struct guard_process *guard, pid_t leader)
{
    int fds[GUARD_FD_COUNT] = {-1, -1, -1};
    bool started = false;
    int problem;

    *guard = (struct guard_process){.life_fd = -1, .kill_at_ns = INT64_MAX};
    guard->page = mmap(NULL, sizeof(*guard->page), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (guard->page == MAP_FAILED) {
        guard->page = NULL;
        return false;
    }
    atomic_init(&guard->page->kill_at_ns, INT64_MAX);
    fds[GUARD_TIMER] = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    fds[GUARD_LEADER] = (int)syscall(SYS_pidfd_open, leader, 0); /* -1: there are none here */
    if (fds[GUARD_TIMER] >= 0) {
        started = start_with(guard, fds, leader);
    }
    problem = errno;
    for (int index = 0; index < GUARD_FD_COUNT; index++) {
        if (fds[index] >= 0) {
            (void)close(fds[index]);
        }
    }
    if (!started) {
        (void)munmap(guard->page, sizeof(*guard->page));
        guard->page = NULL;
    }
    errno = problem;
    return started;
}

void guard_process_kill_at(struct guard_process *guard, int64_t kill_at_ns)
{
    bool earlier = kill_at_ns < guard->kill_at_ns;

    if (guard->pid == 0) {
        return;
    }
    guard->kill_at_ns = kill_at_ns;
    /* release: pairs with the acquire in timer_look() */
    atomic_store_explicit(&guard->page->kill_at_ns, kill_at_ns, memory_order_release);
    if (earlier) {
        /* The guard reads a later time when its timer fires, but an earlier one must be read now.
         * A full socket wakes it just as well. */
        (void)send(guard->life_fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void forget(struct guard_process *guard)
{
    guard->pid = 0;
    (void)close(guard->life_fd);
    (void)munmap(guard->page, sizeof(*guard->page));
    guard->page = NULL;
}

bool guard_process_ended(struct guard_process *guard, int status)
{
    if (WIFSTOPPED(status)) {
        (void)kill(guard->pid, SIGCONT);
        return false;
    }
    forget(guard);
    return true;
}

void guard_process_stop(struct guard_process *guard)
{
    if (guard->pid == 0) {
        return;
    }
    (void)kill(guard->pid, SIGKILL);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    forget(guard);
}
