/*
 * The guards of CMD's process group: see guard_process.h.
 *
 * A guard is a forked child that does not call exec, so no program file has to be found. The parent
 * may have threads, so the guard makes only async-signal-safe calls.
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

/* The name must not begin with "holdfast", because `pkill -9 holdfast` must not kill the guards,
 * too. */
static const char guard_name[] = "hf-guard";

/* A flag of pidfd_send_signal() (Linux 6.9): the signal goes to the process group that the pidfd's
 * process leads. */
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

/* Kills the group on a kernel that cannot signal a group by a pidfd. Does nothing if the leader's
 * process ID belongs to another process now, because then the group no longer exists. */
static void group_kill_by_number(pid_t leader, int leader_fd)
{
    if (leader_fd >= 0 && syscall(SYS_pidfd_send_signal, leader_fd, 0, NULL, 0) != 0 &&
        errno == ESRCH && (kill(leader, 0) == 0 || errno == EPERM)) {
        return;
    }
    (void)kill(-leader, SIGKILL);
}

/* Kills the group, and the leader by its pidfd, because the leader may have moved to another group
 * of its session. */
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

/* Moves the guard's descriptors to the numbers 0, 1 and 2, and closes all others. */
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

/* Sets the timer to the time in the page. Ends the group if that time is over. */
static void timer_look(const int fds[GUARD_FD_COUNT], struct guard_page *page, pid_t leader)
{
    /* acquire: pairs with the release in guard_processes_kill_at() */
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
        /* timer_look() sets the timer again, so that its descriptor is no longer readable. */
    }
}

/* Forks with all signals blocked, so that no signal to holdfast's group stops the guard before it
 * has left the group. */
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
        (void)close(life_fd); /* holdfast's end of the socket, which the guard must not keep open */
        guard_process_run(fds, page, leader);
    }
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    errno = problem;
    return pid;
}

static bool start_one(struct guard_processes *guards, int index, int fds[GUARD_FD_COUNT],
                      pid_t leader)
{
    int life[2];
    pid_t pid;
    int problem;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life) != 0) {
        return false;
    }
    fds[GUARD_LIFE] = life[0];
    pid = guard_fork(fds, guards->page, life[1], leader);
    problem = errno;
    (void)close(life[0]);
    if (pid <= 0) {
        (void)close(life[1]);
        errno = problem;
        return false;
    }
    guards->each[index].pid = pid;
    guards->each[index].life_fd = life[1];
    return true;
}

/* Starts a guard with a timer of its own. (The guard inherits the timer of the guard that was
 * started before it, and closes that timer.) */
static bool start_with_timer(struct guard_processes *guards, int index, int leader_fd, pid_t leader)
{
    int fds[GUARD_FD_COUNT] = {[GUARD_LEADER] = leader_fd};
    bool started;
    int problem;

    fds[GUARD_TIMER] = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    started = fds[GUARD_TIMER] >= 0 && start_one(guards, index, fds, leader);
    problem = errno;
    if (fds[GUARD_TIMER] >= 0) {
        (void)close(fds[GUARD_TIMER]);
    }
    errno = problem;
    return started;
}

bool guard_processes_start(struct guard_processes *guards, pid_t leader)
{
    bool started = true;
    int leader_fd;
    int problem;

    *guards = (struct guard_processes){.kill_at_ns = INT64_MAX};
    guards->page = mmap(NULL, sizeof(*guards->page), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (guards->page == MAP_FAILED) {
        guards->page = NULL;
        return false;
    }
    atomic_init(&guards->page->kill_at_ns, INT64_MAX);
    leader_fd = (int)syscall(SYS_pidfd_open, leader, 0); /* -1 if this kernel has no pidfds */
    for (int index = 0; index < GUARD_PROCESSES && started; index++) {
        started = start_with_timer(guards, index, leader_fd, leader);
    }
    problem = errno;
    if (leader_fd >= 0) {
        (void)close(leader_fd);
    }
    if (!started) {
        guard_processes_stop(guards);
    }
    errno = problem;
    return started;
}

void guard_processes_kill_at(struct guard_processes *guards, int64_t kill_at_ns)
{
    bool earlier = kill_at_ns < guards->kill_at_ns;

    if (guards->page == NULL) {
        return;
    }
    guards->kill_at_ns = kill_at_ns;
    /* release: pairs with the acquire in timer_look() */
    atomic_store_explicit(&guards->page->kill_at_ns, kill_at_ns, memory_order_release);
    for (int index = 0; index < GUARD_PROCESSES && earlier; index++) {
        /* If the time is later than before, the guard reads it when its timer fires. An earlier
         * time must wake the guard now. If the socket is full, an unread byte wakes the guard
         * already. */
        if (guards->each[index].pid != 0) {
            (void)send(guards->each[index].life_fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
}

bool guard_processes_have(const struct guard_processes *guards, pid_t pid)
{
    for (int index = 0; index < GUARD_PROCESSES; index++) {
        if (guards->each[index].pid == pid) {
            return true;
        }
    }
    return false;
}

bool guard_processes_ended(struct guard_processes *guards, pid_t pid, int status)
{
    if (WIFSTOPPED(status)) {
        (void)kill(pid, SIGCONT);
        return false;
    }
    for (int index = 0; index < GUARD_PROCESSES; index++) {
        if (guards->each[index].pid == pid) {
            guards->each[index].pid = 0;
            (void)close(guards->each[index].life_fd);
        }
    }
    return true;
}

void guard_processes_stop(struct guard_processes *guards)
{
    for (int index = 0; index < GUARD_PROCESSES; index++) {
        pid_t pid = guards->each[index].pid;

        if (pid != 0) {
            (void)kill(pid, SIGKILL);
            while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
            }
            guards->each[index].pid = 0;
            (void)close(guards->each[index].life_fd);
        }
    }
    if (guards->page != NULL) {
        (void)munmap(guards->page, sizeof(*guards->page));
        guards->page = NULL;
    }
}
