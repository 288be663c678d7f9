/*
 * A thread that does nothing but close what strangers have a hand in.
 *
 * A close(2) may wait for somebody else: the last one of a TCP socket with SO_LINGER for its peer,
 * each one of a file of a FUSE file system for its server, for as long as these like. Whoever may
 * connect to a Unix socket can send descriptors of such files. They come to rest here: in a packet
 * that was not received, as copies that were made to look at them, or both.
 *
 * The thread is on its own, with all signals blocked, and detached: nobody waits for it, it may
 * never come back. Its queue has room for what its user says; who gives more has a bug.
 */
#ifndef IO_CLOSER_H
#define IO_CLOSER_H

#include <stdbool.h>
#include <stdint.h>

enum { CLOSER_COPIES = 10 }; /* as many as one look at a packet can make */

struct closer_job {
    int socket; /* what waits to be read there is thrown away first: its peer is not reset */
    int copies[CLOSER_COPIES]; /* -1: none */
};

struct closer;

/* For that many jobs at a time. NULL: errno says why. */
struct closer *closer_open(uint32_t room) __attribute__((warn_unused_result));

/* Takes the descriptors. Does not wait. */
void closer_give(struct closer *closer, const struct closer_job *job);

/* The jobs that are not done, that which it is at included. */
uint32_t closer_count(struct closer *closer);

/* Nothing more comes: the thread does what it still has, frees the closer and ends. Does not wait.
 * NULL is allowed. */
void closer_end(struct closer *closer);

#endif
