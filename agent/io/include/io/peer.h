/*
 * The process at the other end of a Unix socket, as the kernel reports it.
 *
 * Everything that the kernel reports is about the process that called connect(2), at the time of
 * that call.
 */
#ifndef IO_PEER_H
#define IO_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
    pid_t pid; /* 0: the process has no number in this agent's pid namespace */
    uid_t uid;
    gid_t gid;
    uid_t account; /* the user to whose account the process is charged: io/subids.h */
};

/* The supplementary groups. The caller frees ids. */
struct peer_groups {
    gid_t *ids;
    size_t count;
};

/* Set *out to the peer, or to its groups. On failure return false with errno. */
bool peer_of(int socket, struct peer *out) __attribute__((warn_unused_result));
bool peer_groups_of(int socket, struct peer_groups *out) __attribute__((warn_unused_result));

/*
 * Returns a pidfd, close-on-exec, of the process that connected, in whatever pid namespace it is
 * (Linux 6.5). An older kernel gives a pidfd of the process that has the number `pid` now; if the
 * peer has ended, that may be another process. On failure returns -1 with errno. EMFILE, ENFILE,
 * ENOMEM: resources are missing. ENOPROTOOPT: this kernel cannot give a pidfd by the socket, and
 * the process has no number here. Any other errno: the process has ended.
 */
int peer_pidfd(int socket, pid_t pid) __attribute__((warn_unused_result));

/* Returns a pidfd, close-on-exec, of the process with that number. On failure returns -1 with
 * errno. */
int peer_pidfd_open(pid_t pid) __attribute__((warn_unused_result));

/* Returns whether the process of a pidfd has ended. A poll without a timeout does not take the lock
 * of the pidfd's queue, which any user can keep for a second (io/deaths.h). So this call never
 * waits. */
bool peer_pidfd_ended(int pidfd);

/*
 * Numbers that distinguish a process from a later process with the same pid. No user can choose
 * them. 0: the number is not known. The inode is not known before Linux 6.9, and where inodes do
 * not have 64 bits, because the kernel reuses short inodes. The start is not known for a process
 * that /proc does not show (hidepid).
 */
struct peer_process {
    uint64_t inode; /* the inode of its pidfd */
    uint64_t
        start; /* in clock ticks since boot, as in /proc/PID/stat; read only if the inode is not
                * known */
};

/* Sets *out to the numbers of the pidfd's process. `pid` is the process's number; 0: it has none
 * here. The result is valid only if the process still lives after the call (peer_pidfd_ended()):
 * until its end no other process has its number. The cost does not depend on the process. But
 * before Linux 6.9 the process can block this call: see peer_start_of(). */
void peer_process_of(int pidfd, pid_t pid, struct peer_process *out);

/* Returns when the process with that number started; 0: that cannot be read. A lookup in /proc/PID
 * waits for the locks of that folder, which the process can keep for as long as it lives. So no
 * caller that knows the inode calls this. */
uint64_t peer_start_of(pid_t pid);

/* Returns the number of the pid namespace in which this agent sees processes; 0: not known. */
uint64_t peer_numbers(void);

#endif
