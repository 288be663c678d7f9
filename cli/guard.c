/*
 * Watches over CMD while CMD runs under its holds: see guard.h.
 */
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "cli.h"
#include "guard_process.h"
#include "terminal.h"
#include "why.h"

enum { EVENTS_A_TURN = 64, CHILDREN_A_TURN = 1024, PROGRESS_BYTES = 4096 };

static const int64_t look_again_ns = INT64_C(5) * 1000000;

enum { FD_SIGNAL, FD_TIMER, FD_EVENT, FD_PROGRESS, FD_COUNT };

struct guard {
    const struct guard_options *options;
    struct terminal terminal;
    struct pollfd fds[FD_COUNT];
    struct guard_processes processes;
    int event_fd;           /* from hf_event_fd(); the library closes it */
    pid_t pid;              /* CMD, and its process group */
    int status;             /* CMD's exit status, or 128 + n after signal n; valid if `reaped` */
    bool reaped;            /* CMD has ended, and waitpid() has returned its status */
    bool stop_asked;        /* SIGTSTP was passed on to CMD, so holdfast must stop when CMD stops */
    bool lost;              /* a hold has ended, and CMD's group was sent SIGTERM */
    hf_lock *reported_lost; /* the lock of the event HF_EVENT_LOST; NULL: there was no such event */
    bool killed;            /* CMD's group was sent SIGKILL */
    /* CLOCK_BOOTTIME: if `unguarded`, the time until which holdfast waits for the end of CMD's
     * group */
    int64_t gone_by_ns;
    bool unguarded;      /* a guard process died, so CMD's group was sent SIGKILL */
    bool reported_alone; /* report_if_alone() has written its line */
    /* CLOCK_BOOTTIME: the earliest deadline of a hold, when guard_look() last looked */
    int64_t deadline_ns;
    int64_t lease_end_ns; /* when --lease ends the hold; INT64_MAX: never */
};

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t sum_ns(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static void timer_set(struct guard *guard, int64_t at_ns)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000},
    };

    if (at_ns <= 0) {
        /* 1 ns is a time long past, so the timer fires at once; 0 would disarm the timer */
        when.it_value = (struct timespec){.tv_nsec = 1};
    }
    (void)timerfd_settime(guard->fds[FD_TIMER].fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void timer_stop(struct guard *guard)
{
    const struct itimerspec never = {.it_value = {0, 0}};

    (void)timerfd_settime(guard->fds[FD_TIMER].fd, 0, &never, NULL);
}

/* Sends the signal to CMD's group, and to CMD itself, which may have moved to another group of its
 * session. CMD has not been reaped, so no other process can have its process ID. */
static void group_signal(const struct guard *guard, int signal_number)
{
    (void)kill(-guard->pid, signal_number);
    if (!guard->reaped && getpgid(guard->pid) != guard->pid) {
        (void)kill(guard->pid, signal_number);
    }
}

/* Returns whether a process of CMD's group still exists: CMD itself, or one that it started. */
static bool group_exists(const struct guard *guard)
{
    return kill(-guard->pid, 0) == 0 || errno == EPERM;
}

/* Writes a line, once, if holdfast cannot signal the processes that are left in the group, because
 * all of them belong to another user (after sudo or su). The user relies on the end of CMD, so this
 * line says that CMD goes on without the lock. */
static void report_if_alone(struct guard *guard)
{
    if (guard->reported_alone || kill(-guard->pid, 0) == 0 || errno != EPERM) {
        return;
    }
    guard->reported_alone = true;
    cli_notice("lock", "the command runs as another user, so it cannot be signalled: it goes on "
                       "WITHOUT the lock (sudo and su belong before holdfast, not behind it)");
}

static void group_kill(struct guard *guard)
{
    group_signal(guard, SIGKILL);
    guard->killed = true;
    timer_stop(guard);
}

/* Returns whether this lock's hold has ended. */
static bool has_ended(const struct guard *guard, hf_lock *lock)
{
    return guard->reported_lost != NULL ? lock == guard->reported_lost : hf_remaining_ns(lock) <= 0;
}

/* Writes a line about the hold of the event HF_EVENT_LOST. If there was no such event, writes the
 * line about the first hold that does not count. */
static void report_lost(const struct guard *guard)
{
    const struct held *held = guard->options->held;
    size_t lost = 0;

    while (lost + 1 < held->count && !has_ended(guard, held->locks[lost])) {
        lost++;
    }
    why_lost(held, lost, ": ending the command", guard->options->json);
}

/* Returns the longest time from the end of a hold to SIGKILL: see guard.h. */
static int64_t kill_delay_ns(const struct guard_options *options)
{
    return options->lock_delay_ns - options->lock_delay_ns / 10;
}

/* Sets the time at which the guard processes end the group even if holdfast is stopped. Only
 * --lease and --max-stall end a hold in spite of renewals, so only these two determine this
 * time. */
static void guard_limits(struct guard *guard)
{
    const struct guard_options *options = guard->options;
    int64_t end_ns = guard->lease_end_ns;

    if (options->max_stall_ns > 0) {
        int64_t stall_end_ns = sum_ns(now_ns(), options->max_stall_ns);

        end_ns = stall_end_ns < end_ns ? stall_end_ns : end_ns;
    }
    if (end_ns < INT64_MAX) {
        guard_processes_kill_at(&guard->processes, sum_ns(end_ns, kill_delay_ns(options)));
    }
}

/*
 * A guard process has died. If holdfast and the other guard died as well, no process would end the
 * group. So this function ends the group now. The hold still counts, and is released only when the
 * group is gone.
 */
static void guard_unguarded(struct guard *guard)
{
    if (guard->reaped || guard->unguarded) {
        return;
    }
    guard->unguarded = true;
    guard->gone_by_ns = sum_ns(now_ns(), guard->options->kill_after_ns);
    /* so that holdfast notices the end of CMD's processes, as in guard_lose() */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    group_kill(guard);
    timer_set(guard, now_ns() + look_again_ns);
    /* The line comes after the kill, because a stderr that nobody reads can block this process. */
    cli_notice("lock", "a guard process was killed: ending the command, which needs both guards");
    report_if_alone(guard);
}

/*
 * A hold has ended. The exact time of its end is not always known: it lies between the last known
 * deadline and now. The delay until SIGKILL counts from the earliest possible time.
 */
static void guard_lose(struct guard *guard)
{
    const struct guard_options *options = guard->options;
    int64_t now = now_ns();
    int64_t ended = guard->deadline_ns < now ? guard->deadline_ns : now;
    int64_t kill_by = ended + kill_delay_ns(options);
    int64_t kill_at = sum_ns(now, options->kill_after_ns);

    if (guard->lost) {
        return;
    }
    guard->lost = true;
    /* Processes that CMD leaves behind become children of holdfast, which then notices when they
     * end. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    group_signal(guard, SIGTERM);
    group_signal(guard, SIGCONT); /* SIGCONT, because a stopped process does not handle SIGTERM */
    kill_at = kill_at < kill_by ? kill_at : kill_by;
    if (kill_at <= now) {
        group_kill(guard);
    } else {
        timer_set(guard, kill_at);
        guard_processes_kill_at(&guard->processes, kill_at);
    }
    report_lost(guard);
    report_if_alone(guard);
}

/* Looks at the holds. Sets the timer to their deadline, or ends CMD. */
static void guard_look(struct guard *guard)
{
    const struct held *held = guard->options->held;
    int64_t remaining = INT64_MAX;

    if (guard->lost || guard->unguarded) {
        return;
    }
    for (size_t index = 0; index < held->count; index++) {
        int64_t one = hf_remaining_ns(held->locks[index]);

        remaining = one < remaining ? one : remaining;
    }
    if (remaining <= 0) {
        guard_lose(guard);
        return;
    }
    guard->deadline_ns = sum_ns(now_ns(), remaining);
    timer_set(guard, guard->deadline_ns);
}

static void on_timer(struct guard *guard)
{
    uint64_t count;

    if (read(guard->fds[FD_TIMER].fd, &count, sizeof(count)) < 0) {
        return; /* the timer has not fired: it was set again after poll() */
    }
    if (guard->unguarded) {
        timer_set(guard,
                  /* the end of a process that is not a child of holdfast causes no SIGCHLD */
                  now_ns() + look_again_ns);
        return;
    }
    if (guard->lost) {
        group_kill(guard);
        return;
    }
    guard->fds[FD_EVENT].fd = guard->event_fd;
    guard_look(guard);
}

static void on_event(struct guard *guard)
{
    struct hf_event event;
    int got = 1;

    for (unsigned turn = 0; turn < EVENTS_A_TURN && got == 1; turn++) {
        got = hf_next_event(guard->options->held->client, &event);
        if (got == 1 && event.kind == HF_EVENT_LOST) {
            guard->reported_lost = guard->lost ? guard->reported_lost : event.lock;
            guard_lose(guard);
        }
    }
    if (got < 0 || (guard->fds[FD_EVENT].revents & (POLLERR | POLLNVAL)) != 0) {
        /* ignores the broken descriptor from now on: the timer is enough */
        guard->fds[FD_EVENT].fd = -1;
    }
    guard_look(guard);
}

static void on_progress(struct guard *guard)
{
    const struct held *held = guard->options->held;
    char bytes[PROGRESS_BYTES];
    ssize_t size = read(guard->fds[FD_PROGRESS].fd, bytes, sizeof(bytes));

    if (size > 0) {
        for (size_t index = 0; index < held->count; index++) {
            (void)hf_progress(held->locks[index]); /* guard_look() notices a loss */
        }
        if (!guard->lost) {
            guard_limits(guard);
        }
        guard_look(guard);
    } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        /* all write ends are closed, so no more reports of progress can come */
        (void)close(guard->fds[FD_PROGRESS].fd);
        guard->fds[FD_PROGRESS].fd = -1;
    }
}

/*
 * Stops holdfast after CMD has stopped, and on a terminal the pipeline that holdfast is part of.
 * Returns true when holdfast has been continued. Returns false if holdfast was not stopped: the
 * kernel ignores the signal if there is no shell that could continue holdfast.
 */
static bool stop_self(const struct guard *guard)
{
    sigset_t stop;
    sigset_t pending;

    (void)kill(guard->terminal.fd >= 0 ? 0 : getpid(), SIGTSTP);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL); /* holdfast stops within this call */
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    sigemptyset(&pending);
    (void)sigpending(&pending);
    return sigismember(&pending, SIGCONT) == 1;
}

static void on_continued(struct guard *guard)
{
    /* looks first, because CMD must not be continued under a hold that has ended */
    guard_look(guard);
    if (!guard->lost) {
        if (guard->terminal.from_start) {
            (void)terminal_give(&guard->terminal, guard->pid);
        }
        group_signal(guard, SIGCONT);
    }
}

static void on_child_stopped(struct guard *guard, int signal_number)
{
    bool wants_terminal = signal_number == SIGTTIN || signal_number == SIGTTOU;
    bool has_terminal = guard->terminal.fd >= 0;

    if (guard->lost) {
        group_signal(guard, SIGCONT);
        return;
    }
    if (wants_terminal && terminal_give(&guard->terminal, guard->pid)) {
        group_signal(guard, SIGCONT);
        return;
    }
    if (signal_number == SIGSTOP || (!has_terminal && !guard->stop_asked)) {
        return; /* another process stopped CMD, so holdfast goes on */
    }
    guard->stop_asked = false;
    terminal_take_back(&guard->terminal, guard->pid);
    if (!stop_self(guard) && !wants_terminal) {
        on_continued(guard);
    }
    /* If stop_self() returned true, a SIGCONT is pending, which on_signal() handles. */
}

static void on_children(struct guard *guard)
{
    for (unsigned turn = 0; turn < CHILDREN_A_TURN; turn++) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);

        if (pid <= 0) {
            return;
        }
        if (guard_processes_have(&guard->processes, pid)) {
            /* A guard exits by itself only after it has ended the group, at the time that
             * guard_limits() set: then guard_look() finds out why the hold ended. A guard that a
             * signal killed has not ended the group. */
            if (guard_processes_ended(&guard->processes, pid, status) && WIFSIGNALED(status)) {
                guard_unguarded(guard);
            }
            continue;
        }
        if (pid != guard->pid) {
            /* a descendant of CMD: holdfast is a subreaper since guard_lose() or
             * guard_unguarded() */
            continue;
        }
        if (WIFSTOPPED(status)) {
            on_child_stopped(guard, WSTOPSIG(status));
        } else {
            guard->reaped = true;
            guard->status = WIFSIGNALED(status) ? CLI_SIGNAL_BASE + WTERMSIG(status)
                                                : WEXITSTATUS(status);
        }
    }
}

static void on_signal(struct guard *guard)
{
    struct signalfd_siginfo info;

    if (read(guard->fds[FD_SIGNAL].fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
        return;
    }
    switch ((int)info.ssi_signo) {
    case SIGCHLD:
        on_children(guard);
        break;
    case SIGCONT:
        on_continued(guard);
        break;
    case SIGTSTP:
        guard->stop_asked = true;
        group_signal(guard, SIGTSTP);
        break;
    default:
        group_signal(guard, (int)info.ssi_signo);
        break;
    }
}

/*
 * Returns whether holdfast can stop watching. If no hold is lost, CMD's end is enough. After a loss
 * the whole group must have ended, or have been sent SIGKILL.
 */
static bool guard_done(struct guard *guard)
{
    if (guard->unguarded && !guard->lost) {
        /* A zombie counts as a process until its parent reads its status, so the wait has a
         * limit. */
        return guard->reaped && (kill(-guard->pid, 0) != 0 || now_ns() >= guard->gone_by_ns);
    }
    if (guard->reaped && !guard->lost) {
        guard_look(guard); /* the hold must have lasted until CMD's end */
    }
    return guard->reaped && (!guard->lost || guard->killed || !group_exists(guard));
}

void guard_signals(sigset_t *out)
{
    static const int signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGCHLD, SIGTTOU};

    sigemptyset(out);
    for (size_t index = 0; index < sizeof(signals) / sizeof(signals[0]); index++) {
        sigaddset(out, signals[index]);
    }
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) {
        sigaddset(out, number);
    }
}

/* Blocks the signals that holdfast passes on to CMD, and opens the descriptors of the loop. */
static bool guard_open(struct guard *guard)
{
    sigset_t signals;

    (void)signal(SIGCHLD, SIG_DFL); /* an ignored SIGCHLD would discard CMD's status */
    guard_signals(&signals);
    sigaddset(&signals, SIGCONT);
    sigaddset(&signals, SIGTSTP);
    sigaddset(&signals, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    /* SIGTTOU is blocked only so that tcsetpgrp() works; the signalfd must not report it */
    sigdelset(&signals, SIGTTOU);
    guard->event_fd = hf_event_fd(guard->options->held->client);
    guard->fds[FD_SIGNAL].fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    guard->fds[FD_TIMER].fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    guard->fds[FD_EVENT].fd = guard->event_fd;
    guard->fds[FD_PROGRESS].fd = -1;
    for (size_t index = 0; index < FD_COUNT; index++) {
        guard->fds[index].events = POLLIN;
    }
    return guard->fds[FD_SIGNAL].fd >= 0 && guard->fds[FD_TIMER].fd >= 0 && guard->event_fd >= 0;
}

static void guard_close(struct guard *guard)
{
    static const size_t ours[] = {FD_SIGNAL, FD_TIMER, FD_PROGRESS};

    for (size_t index = 0; index < sizeof(ours) / sizeof(ours[0]); index++) {
        if (guard->fds[ours[index]].fd >= 0) {
            (void)close(guard->fds[ours[index]].fd);
        }
    }
    guard_processes_stop(&guard->processes);
    terminal_close(&guard->terminal, guard->pid);
}

/* Starts CMD, after its guard processes. */
static int command_start(struct guard *guard, const struct child_options *options)
{
    struct child child;
    int status = child_fork(options, &child);

    if (status != 0) {
        return status;
    }
    if (!guard_processes_start(&guard->processes, child.pid)) {
        (void)cli_fail_with(CLI_FAILED, "lock", "starting the guard processes: %s",
                            strerror(errno));
        child_cancel(&child);
        return CLI_FAILED;
    }
    guard->pid = child.pid;
    guard_limits(guard);
    return child_go(options, &child);
}

/* Returns the number that the descriptor gets in CMD. Debian's sh takes only one digit in `>&N`. So
 * instead of a longer number, this function chooses the number of a descriptor that CMD does not
 * inherit, if there is one. */
static int number_in_command(int fd)
{
    for (int other = STDERR_FILENO + 1; fd > 9 && other <= 9; other++) {
        int flags = fcntl(other, F_GETFD);

        if (flags >= 0 && (flags & FD_CLOEXEC) != 0) {
            return other;
        }
    }
    return fd;
}

static int guard_start(struct guard *guard)
{
    struct child_options child = {
        .argv = guard->options->argv,
        .hint = guard->options->hint,
        .mask = guard->options->mask,
        .terminal = &guard->terminal,
        .progress_fd = -1,
    };
    int progress[2] = {-1, -1};
    char number[16];
    int status;

    if (guard->options->max_stall_ns > 0) {
        if (pipe2(progress, O_CLOEXEC) != 0 || fcntl(progress[0], F_SETFL, O_NONBLOCK) != 0) {
            return cli_fail("lock", "opening the descriptor for progress", HF_ENOMEM);
        }
        guard->fds[FD_PROGRESS].fd = progress[0];
        child.progress_fd = progress[1];
        child.progress_number = number_in_command(progress[1]);
        snprintf(number, sizeof(number), "%d", child.progress_number);
        if (setenv("HOLDFAST_PROGRESS_FD", number, 1) != 0) {
            return cli_fail("lock", "HOLDFAST_PROGRESS_FD", HF_ENOMEM);
        }
    }
    status = command_start(guard, &child);
    if (progress[1] >= 0) {
        (void)close(progress[1]);
    }
    return status;
}

static void guard_loop(struct guard *guard)
{
    guard_look(guard);
    while (!guard_done(guard)) {
        if (poll(guard->fds, FD_COUNT, -1) < 0) {
            continue; /* EINTR, after holdfast was stopped and continued */
        }
        if (guard->fds[FD_TIMER].revents != 0) {
            on_timer(guard); /* called first, because a deadline must be handled in time */
        }
        if (guard->fds[FD_EVENT].revents != 0) {
            on_event(guard);
        }
        if (guard->fds[FD_PROGRESS].revents != 0) {
            on_progress(guard);
        }
        if (guard->fds[FD_SIGNAL].revents != 0) {
            on_signal(guard);
        }
    }
}

int guard_run(const struct guard_options *options)
{
    struct guard guard = {
        .options = options,
        .deadline_ns = INT64_MAX,
        .lease_end_ns = INT64_MAX,
    };
    int status;

    if (options->lease_ns > 0) {
        /* --lease counts from the take of the locks */
        guard.lease_end_ns = sum_ns(options->held->had_ns, options->lease_ns);
    }
    terminal_open(&guard.terminal);
    if (!guard_open(&guard)) {
        status = cli_fail("lock", "watching over the command", HF_ENOMEM);
    } else {
        status = guard_start(&guard);
        if (status == 0) {
            guard_loop(&guard);
            if (guard.lost) {
                /* called once more: perhaps only processes of another user are left now */
                report_if_alone(&guard);
            }
            if (guard.lost) {
                status = CLI_LOST;
            } else {
                status = guard.unguarded ? CLI_FAILED : guard.status;
            }
        }
    }
    guard_close(&guard);
    return status;
}
