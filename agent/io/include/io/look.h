/*
 * What a packet of a Unix socket brings, found out before it is received.
 *
 * What peers send descriptors of must not be closed in the loop, nor by the kernel for it: a
 * close may wait for as long as its maker likes (io/closer.h). So each packet is looked at before
 * it is received (MSG_PEEK). The kernel makes copies of the descriptors for that, and the packet
 * keeps its own, so what it does with its copies does not wait. Only a packet without a descriptor,
 * or with one that is a pidfd and of which there is a copy, is received; the copy of a pidfd goes
 * to the closer (its last close waits if it is in an epoll set whose mutex somebody keeps). Every
 * other stays where it is, and goes to the closer with its socket and the copies. So does a
 * listener, whose connections that are not accepted yet may have packets as well.
 *
 * The listener has SO_PASSCRED, which its connections inherit: with each packet the kernel says
 * whose it is. Nobody asks for that, but it tells an empty packet from the end of them.
 */
#ifndef IO_LOOK_H
#define IO_LOOK_H

#include <stdbool.h>
#include <sys/types.h>

#include "io/closer.h"

/* What is known of a packet that is still there. The copies are the caller's. */
struct look {
    ssize_t size; /* < 0: errno says why it is not known */
    bool there;   /* else, with size 0, the peer hung up */
    bool cut;     /* it has more descriptors than there are copies */
    int copies[CLOSER_COPIES];
};

/* At the next packet. Does not wait. */
struct look look_at_packet(int fd);

bool look_has_several(const struct look *look);

bool look_has_descriptors(const struct look *look);

/* A pidfd alone, of which there is a copy: to receive the packet drops no last reference. */
bool look_has_pidfd(const struct look *look);

/* Empties a socket to which nothing more can be sent. false: the closer has to, which gets the
 * copies, too. */
bool look_drain(int fd, int copies[CLOSER_COPIES]) __attribute__((warn_unused_result));

void look_no_copies(int copies[CLOSER_COPIES]);

#endif
