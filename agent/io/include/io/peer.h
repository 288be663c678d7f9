/*
 * The process at the other end of a Unix socket, as the kernel reports it.
 *
 * All that is reported is of the process that called connect(2), at the moment of that call.
 */
#ifndef IO_PEER_H
#define IO_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
    pid_t pid; /* 0: in no pid namespace that can be seen from here */
    uid_t uid;
    gid_t gid;
    uid_t account; /* by which it is counted: io/subids.h */
};

/* The supplementary groups; the caller's, for free(). */
struct peer_groups {
    gid_t *ids;
    size_t count;
};

/* Set *out to the peer, and to its groups. On failure they return false with errno. */
bool peer_of(int socket, struct peer *out) __attribute__((warn_unused_result));
bool peer_groups_of(int socket, struct peer_groups *out) __attribute__((warn_unused_result));

/*
 * A pidfd, close-on-exec, of the process that connected (Linux 6.5), whatever pid namespace it is
 * in; from an older kernel of the process that has its number now, which may be another one if that
 * one has ended. -1: errno says why: EMFILE, ENFILE, ENOMEM; ENOPROTOOPT: this kernel has no such
 * option, and the process has no number here; anything else: it has ended.
 */
int peer_pidfd(int socket, pid_t pid) __attribute__((warn_unused_result));

/* Returns a pidfd, close-on-exec. On failure returns -1 with errno. */
int peer_pidfd_open(pid_t pid) __attribute__((warn_unused_result));

/* Returns whether the process of a pidfd has ended. Does not take the lock of the pidfd's queue,
 * which any user can keep for a second (io/deaths.h): a poll that does not wait looks at the
 * process alone. */
bool peer_pidfd_ended(int pidfd);

/*
 * Numbers that tell a process from another that has its number later, and that nobody can choose.
 * 0: not known. An inode is not: before Linux 6.9, and where its number has not 64 bits (it is used
 * again then); a start: of a process that /proc does not show (hidepid).
 */
struct peer_process {
    uint64_t inode; /* of its pidfd */
    uint64_t
        start; /* in clock ticks since boot, as /proc/PID/stat says it; without an inode only */
};

/* Sets *out to the numbers of the pidfd's process. `pid` is the process's number; 0: it has none
 * here. The result counts only if the process still lives afterwards (peer_pidfd_ended()): until
 * then nobody else has its number. The cost does not depend on the process; but before Linux 6.9
 * the process can block this call, see peer_start_of(). */
void peer_process_of(int pidfd, pid_t pid, struct peer_process *out);

/* Returns the start of the process that has that number; 0: it cannot be read. A lookup in
 * /proc/PID waits for the locks of that folder, which the process can keep for as long as it lives.
 * So no caller that knows the inode calls this. */
uint64_t peer_start_of(pid_t pid);

/* Returns the number of the pid namespace in which this agent sees processes; 0: not known. */
uint64_t peer_numbers(void);

#endif
