/*
 * The guards: two processes beside `holdfast` that end CMD's process group when `holdfast` is gone.
 *
 * The parent-death signal ends CMD itself, but not the processes that CMD has started. A guard
 * ends those too. Each guard waits for the end of a socket whose other end `holdfast` alone keeps.
 * The kernel closes that end at any death of `holdfast`, and each guard then sends SIGKILL to the
 * whole group at once. Nobody else's CMD starts before the lock-delay is over.
 *
 * A stopped or frozen `holdfast` is not gone: its agent still renews the hold, so CMD may go on.
 * But there are ends of a hold that no agent moves: that of --lease, that of --max-stall without
 * progress, and the time of SIGKILL after a loss. `holdfast` writes the earliest of them into a
 * page that all three share, and the guards end the group at that time.
 *
 * A guard holds no lock and no descriptor of others, and its memory is that of its parent,
 * shared. It has a session of its own and blocks all signals, so neither the terminal nor a signal
 * to the group of CMD or of `holdfast` ends it. SIGKILL and SIGSTOP reach it. If a guard is killed,
 * `holdfast` ends the group. If one is stopped, `holdfast` continues it. There are two, so that one
 * is left when `holdfast` and the other are killed at once, or when the other is stopped and
 * `holdfast` is killed before it has continued that one. If all three are killed at once, the
 * parent-death signal ends CMD, and the processes that CMD has started go on.
 *
 * CMD's group is named by a pidfd of its leader, because its number can be another group's by then.
 * Linux before 6.9 cannot send a signal that way. There a guard uses the number, unless a process
 * other than CMD has it (docs/DECISIONS.md).
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
        pid_t pid;   /* 0: there is none */
        int life_fd; /* the socket's end that holdfast keeps */
    } each[GUARD_PROCESSES];
    struct guard_page *page; /* shared with the guards; NULL: there are none */
    int64_t kill_at_ns;      /* as last written into the page; INT64_MAX: never */
};

/*
 * Starts the guards of the group that the child `leader` leads. The child must not be reaped, and
 * must not run CMD yet. Returns false, with errno, if nothing was started.
 */
bool guard_processes_start(struct guard_processes *guards, pid_t leader)
    __attribute__((warn_unused_result));

/* Sets the time on CLOCK_BOOTTIME at which the guards end the group, even if holdfast is alive. */
void guard_processes_kill_at(struct guard_processes *guards, int64_t kill_at_ns);

/* Returns whether that child is a guard. */
bool guard_processes_have(const struct guard_processes *guards, pid_t pid);

/* Reads a status of waitpid() for a guard, and continues a stopped one. Returns true if that guard
 * has ended; it is then reaped. */
bool guard_processes_ended(struct guard_processes *guards, pid_t pid, int status);

/* Ends the guards that there are, and leaves the group alone. */
void guard_processes_stop(struct guard_processes *guards);

#endif
