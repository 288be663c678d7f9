/*
 * Threads that do nothing but close sockets in which descriptors of strangers' lie unread.
 *
 * A close(2) may wait for somebody else: the last one of a TCP socket with SO_LINGER for its peer,
 * each one of a file of a FUSE file system for its server, the last one of a file that is polled (a
 * pidfd, say) for the mutex of each epoll set that has it, for as long as these like. Whoever may
 * connect to a Unix socket can send descriptors of such files, unless the kernel refuses them
 * (io/socket.c): only where it does not are there such threads.
 *
 * Each user has a few of the threads at most: whoever has made a close wait keeps his own others
 * waiting, and nobody else's, as long as fewer users than CLOSER_THREADS / CLOSER_PER_USER do so.
 * The threads have all signals blocked, and are detached: nobody waits for them, they may never
 * come back. The queue has room for what its user says; who gives more has a bug.
 */
#ifndef IO_CLOSER_H
#define IO_CLOSER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CLOSER_THREADS = 8,  /* all of them */
    CLOSER_PER_USER = 2, /* of them, at one user's jobs */
};

struct closer_job {
    uid_t uid;  /* whose it is */
    int socket; /* what waits to be read there is thrown away first: no peer is reset */
};

struct closer;

/* For that many jobs at a time. NULL: errno says why. */
struct closer *closer_open(uint32_t room) __attribute__((warn_unused_result));

/* Takes the descriptors. Does not wait. */
void closer_give(struct closer *closer, const struct closer_job *job);

/* The jobs that are not done, those that it is at included. */
uint32_t closer_count(struct closer *closer);

/* Nothing more comes: the threads do what is left, free the closer and end. Does not wait. NULL is
 * allowed. */
void closer_end(struct closer *closer);

#endif
