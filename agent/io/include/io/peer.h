/*
 * The process at the other end of a Unix socket, by the kernel.
 *
 * All of it is of the process that called connect(2), at that moment.
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

/* false: errno says why. */
bool peer_of(int socket, struct peer *out) __attribute__((warn_unused_result));
bool peer_groups_of(int socket, struct peer_groups *out) __attribute__((warn_unused_result));

/*
 * A pidfd, close-on-exec, of the process that connected (Linux 6.5), whatever pid namespace it is
 * in; from an older kernel of the process that has its number now, which may be another one if that
 * one has ended. -1: errno says why: EMFILE, ENFILE, ENOMEM; ENOPROTOOPT: this kernel has no such
 * option, and the process has no number here; anything else: it has ended.
 */
int peer_pidfd(int socket, pid_t pid) __attribute__((warn_unused_result));

/* A pidfd, close-on-exec; -1: errno says why. */
int peer_pidfd_open(pid_t pid) __attribute__((warn_unused_result));

/* Whether the process of a pidfd has ended. Takes no lock of the pidfd's queue, which any user can
 * have kept for a second (io/deaths.h): a poll that does not wait looks at the process alone. */
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

/* Of the process of that pidfd, if it still lives afterwards (peer_pidfd_ended()): until then pid
 * is its number. pid 0: it has none here. Whatever it does, the cost of this is the same; but
 * before Linux 6.9 the process can keep this call waiting, see peer_start_of(). */
void peer_process_of(int pidfd, pid_t pid, struct peer_process *out);

/* The start of the process that has that number; 0: it cannot be read. A lookup in /proc/PID waits
 * for the locks of that folder, which the process can keep for as long as it lives. So nobody asks
 * for this who has an inode. */
uint64_t peer_start_of(pid_t pid);

/* The pid namespace in which this agent sees numbers, as a number; 0: not known. */
uint64_t peer_numbers(void);

#endif
