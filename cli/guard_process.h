/*
 * The guard: a process beside `holdfast` that ends CMD's process group when `holdfast` is gone.
 *
 * The parent-death signal ends CMD itself, but not the processes that CMD has started. The guard
 * ends those too. It waits for the end of a socket whose other end `holdfast` alone keeps. The
 * kernel closes that end at any death of `holdfast`, and the guard then sends SIGKILL to the whole
 * group at once. Nobody else's CMD starts before the lock-delay is over.
 *
 * A stopped or frozen `holdfast` is not gone: its agent still renews the hold, so CMD may go on.
 * But there are ends of a hold that no agent moves: that of --lease, that of --max-stall without
 * progress, and the time of SIGKILL after a loss. `holdfast` writes the earliest of them into a
 * page that both share, and the guard ends the group at that time.
 *
 * The guard holds no lock and no descriptor of others, and its memory is that of its parent,
 * shared. It has a session of its own and blocks all signals, so neither the terminal nor a signal
 * to the group of CMD or of `holdfast` ends it. SIGKILL and SIGSTOP reach it. If it is killed,
 * `holdfast` ends the group. If it is stopped, `holdfast` continues it. If both are killed at once,
 * or `holdfast` is killed before it has continued the guard, the parent-death signal ends CMD, and
 * the processes that CMD has started go on.
 *
 * CMD's group is named by a pidfd of its leader, because its number can be another group's by then.
 * Linux before 6.9 cannot send a signal that way. There the guard uses the number, unless a process
 * other than CMD has it (docs/DECISIONS.md).
 */
#ifndef HOLDFAST_CLI_GUARD_PROCESS_H
#define HOLDFAST_CLI_GUARD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guard_page;

struct guard_process {
    pid_t pid;               /* 0: there is none */
    int life_fd;             /* the socket's end that holdfast keeps */
    struct guard_page *page; /* shared with the guard */
    int64_t kill_at_ns;      /* as last written into the page; INT64_MAX: never */
};

/*
 * Starts the guard of the group that the child `leader` leads. The child must not be reaped, and
 * must not run CMD yet. Returns false, with errno, if nothing was started.
 */
bool guard_process_start(struct guard_process *guard, pid_t leader)
    __attribute__((warn_unused_result));

/* Sets the time on CLOCK_BOOTTIME at which the guard ends the group, even if holdfast is alive. */
void guard_process_kill_at(struct guard_process *guard, int64_t kill_at_ns);

/* Reads a status of waitpid() for guard->pid, and continues a stopped guard. Returns true if the
 * guard has ended; it is then reaped. */
bool guard_process_ended(struct guard_process *guard, int status);

/* Ends the guard, if there is one, and leaves the group alone. */
void guard_process_stop(struct guard_process *guard);

#endif
