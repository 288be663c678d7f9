/*
 * Who is at the other end of a Unix socket, as the kernel says it.
 *
 * Credentials are those of the moment of connect(2). A client also sends a pidfd of itself: it is
 * taken only if it is a pidfd, and of the very process that connected (where that process can be
 * seen from here: a process of a foreign pid namespace has no number here).
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

/* Whether a descriptor, whoever sent it, is a pidfd. Waits for nobody. (To close the last reference
 * to one may: its sender can have it in an epoll set, whose mutex that takes, and hold this.) */
bool peer_is_pidfd(int fd);
/* What is wrong with one that is none. */
extern const char peer_no_pidfd[];

/*
 * A pidfd of this process's own (the caller's to close) in *own, if that foreign one, which the
 * caller keeps, is a pidfd of that living process; -1 if the process has no number here, as pid 0
 * says. Nobody else has ours, so nobody makes its close wait. NULL, or what is wrong.
 */
const char *peer_pidfd_own(int foreign, pid_t pid, int *own) __attribute__((warn_unused_result));

/* A pidfd, close-on-exec; -1: errno says why. */
int peer_pidfd_open(pid_t pid) __attribute__((warn_unused_result));

/* Whether the process of a pidfd has ended. */
bool peer_pidfd_ended(int pidfd);

/* The name of a process (comm) as a command line that may be shown. Empty if it cannot be read.
 * (Its command line lies in its memory: who reads that waits for its page faults, and for the lock
 * of its address space.) */
void peer_name(pid_t pid, char out[HFI_FRAME_COMMAND_MAX + 1]);

#endif
