/*
 * Who is at the other end of a Unix socket, as the kernel says it.
 *
 * All of it is of the process that called connect(2), at that moment.
 */
#ifndef IO_PEER_H
#define IO_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/frame.h"

struct peer {
    pid_t pid; /* 0: in no pid namespace that can be seen from here */
    uid_t uid;
    gid_t gid;
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
 * one has ended. -1: errno says why; for want of descriptors or memory, or it cannot be had.
 */
int peer_pidfd(int socket, pid_t pid) __attribute__((warn_unused_result));

/* A pidfd, close-on-exec; -1: errno says why. */
int peer_pidfd_open(pid_t pid) __attribute__((warn_unused_result));

/* Whether the process of a pidfd has ended. */
bool peer_pidfd_ended(int pidfd);

/* The name of a process (comm) as a command line that may be shown. Empty if it cannot be read.
 * (Its command line lies in its memory: who reads that waits for its page faults, and for the lock
 * of its address space.) */
void peer_name(pid_t pid, char out[HFI_FRAME_COMMAND_MAX + 1]);

#endif
