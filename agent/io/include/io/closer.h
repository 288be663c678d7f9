/*
 * A helper process (io/beside.h) that closes sockets to which clients sent descriptors that are
 * still unread.
 *
 * With such a socket the kernel closes the unread descriptors, and that may wait for as long as
 * their maker likes:
 * - the last close of a TCP socket with SO_LINGER waits for the peer
 * - each close of a file of a FUSE file system waits for the file system's server
 * - the last close of a polled file (a pidfd, say) waits for the mutex of each epoll set that has
 *   it
 *
 * SIGKILL does not end the last two waits. The agent starts this process only where the kernel
 * cannot refuse descriptors (io/socket/socket.c).
 *
 * The process hands the sockets to children. A child gets all waiting sockets of one user, empties
 * them one by one, so that no peer is reset, and ends. At most CLOSER_PER_USER children work for
 * one user at a time. When more sockets come, the process kills the user's oldest child, because
 * SIGKILL ends a wait for SO_LINGER. The further sockets wait until a child has exited. When
 * CLOSER_SOCKETS sockets wait, the process reports to the agent that it is full, and which user has
 * most of the sockets.
 *
 * The functions are for one thread.
 */
#ifndef IO_CLOSER_H
#define IO_CLOSER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CLOSER_PER_USER = 4,   /* the most children of one user at a time */
    CLOSER_CHILDREN = 64,  /* the most children at a time, for all users together */
    CLOSER_SOCKETS = 4096, /* when so many sockets wait, or half of RLIMIT_NOFILE if that is less,
                            * the process reports that it is full */
};

struct closer;

/* Starts the process. `room` is how many sockets may wait in the agent until closer_push() hands
 * them over. arguments: as in beside_start(). On failure returns NULL with errno. */
struct closer *closer_open(uint32_t room, char **arguments) __attribute__((warn_unused_result));

/* Takes a socket to which a process of that user sent descriptors; closer_push() hands it over. It
 * is a bug to give another socket while `room` sockets wait for closer_push(). */
void closer_give(struct closer *closer, int socket, uid_t uid);

/* Takes a listening socket, which closer_push() hands over. Closing it would also close the
 * connections that wait to be accepted. So the process keeps the socket open until the process
 * itself ends. No other socket may be given afterwards. */
void closer_keep(struct closer *closer, int socket);

/* Hands the sockets over to the process, without blocking. If the process has ended, this call
 * closes them itself, which may block. Returns false if so many sockets wait that the agent should
 * accept no more connections. */
bool closer_push(struct closer *closer) __attribute__((warn_unused_result));

/* Called after closer_push(): returns the user that has most of the waiting sockets, and sets
 * *count to their number. */
uid_t closer_most(const struct closer *closer, uint32_t *count);

/* Returns whether the process has ended although the agent did not end it (it was killed). */
bool closer_ended(const struct closer *closer);

/* Hands over the remaining sockets, for about a second at most. Then the process ends. NULL is
 * allowed. */
void closer_close(struct closer *closer);

#endif
