/*
 * The guards are two processes beside `holdfast` that end CMD's process group when `holdfast` has
 * died.
 *
 * The parent-death signal ends CMD itself, but not the processes that CMD has started. A guard ends
 * these processes, too. Each guard has one end of a socket, and only `holdfast` has the other end.
 * The kernel closes that other end however `holdfast` dies. Each guard notices this and sends
 * SIGKILL to the whole group at once. The next holder's CMD does not start before the lock-delay is
 * over.
 *
 * A stopped or frozen `holdfast` has not died: the agent still renews the hold, so CMD may go on.
 * But there are three points in time that no agent can move: the end by --lease, the end by
 * --max-stall without progress, and the SIGKILL after a loss. `holdfast` writes the earliest of
 * them into a page that it shares with the guards, and the guards end the group at that time.
 *
 * A guard holds no lock and keeps only its own descriptors. It shares its memory pages with its
 * parent (copy-on-write). It has a session of its own and blocks all signals. So neither the
 * terminal nor a signal to the group of CMD or of `holdfast` ends it; only SIGKILL and SIGSTOP
 * reach it. If a guard is killed, `holdfast` ends the group. If a guard is stopped, `holdfast`
 * continues it. Two guards are necessary because one may be killed together with `holdfast`, or may
 * still be stopped when `holdfast` is killed. If both guards are killed together with `holdfast`,
 * the parent-death signal ends CMD, but the processes that CMD has started go on.
 *
 * A guard signals CMD's group by a pidfd of the group's leader, because at the time of the signal
 * the group's number may belong to another group. Linux before 6.9 cannot signal a group by a
 * pidfd. On such a kernel a guard uses the number, if no process other than CMD has it
 * (docs/DECISIONS.md).
 */
#ifndef HOLDFAST_CLI_GUARD_PROCESS_H
#define HOLDFAST_CLI_GUARD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GUARD_PROCESSES = 2 };

struct guard_page;

struct guard_processes {
    struct {
        pid_t pid;   /* 0: this guard does not exist */
        int life_fd; /* the end of the socket that holdfast keeps */
    } each[GUARD_PROCESSES];
    struct guard_page *page; /* shared with the guards; NULL: there are no guards */
    int64_t kill_at_ns;      /* the time that was last written into the page; INT64_MAX: none */
};

/*
 * Starts the guards of the group that the child `leader` leads. The child must not have been
 * reaped, and must not run CMD yet. Returns false and sets errno if no guard was started.
 */
bool guard_processes_start(struct guard_processes *guards, pid_t leader)
    __attribute__((warn_unused_result));

/* Sets the time on CLOCK_BOOTTIME at which the guards end the group, even if holdfast is alive. */
void guard_processes_kill_at(struct guard_processes *guards, int64_t kill_at_ns);

/* Returns whether the child `pid` is a guard. */
bool guard_processes_have(const struct guard_processes *guards, pid_t pid);

/* Handles a status of waitpid() for the guard `pid`, and continues the guard if it was stopped.
 * Returns true if the guard has ended; waitpid() has reaped it. */
bool guard_processes_ended(struct guard_processes *guards, pid_t pid, int status);

/* Ends all guards without ending CMD's group. */
void guard_processes_stop(struct guard_processes *guards);

#endif
