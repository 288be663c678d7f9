/*
 * A process that does nothing but close sockets in which descriptors of strangers' lie unread.
 *
 * A close(2) may wait for somebody else: the last one of a TCP socket with SO_LINGER for its peer,
 * each one of a file of a FUSE file system for its server, the last one of a file that is polled (a
 * pidfd, say) for the mutex of each epoll set that has it, for as long as these like, and the last
 * two not even for SIGKILL. Whoever may connect to a Unix socket can send descriptors of such
 * files, unless the kernel refuses them (io/socket/socket.c): only where it does not is there this
 * process. It is forked before there are threads, and before anything of the agent's is open, so
 * nobody waits for it: not the agent that ends, nor the next one.
 *
 * It hands what it is given to children. Each gets all that is there of one user's, empties the
 * sockets one by one (no peer is reset) and ends. At most CLOSER_PER_USER of a user's are at work;
 * for what comes then his oldest is killed, which ends what lingers, and it waits until one of them
 * is gone. When CLOSER_SOCKETS wait it says so, and whose most of them are.
 *
 * One thread.
 */
#ifndef IO_CLOSER_H
#define IO_CLOSER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    CLOSER_PER_USER = 4,   /* children */
    CLOSER_CHILDREN = 64,  /* in all */
    CLOSER_SOCKETS = 4096, /* that wait for a child: then it is full. (At most half of what
                            * RLIMIT_NOFILE says) */
};

struct closer;

/* Starts the process. NULL: errno says why. room: sockets that may wait here. arguments: main()'s,
 * which in the process become its name for ps(1); NULL: they do not. */
struct closer *closer_open(uint32_t room, char **arguments) __attribute__((warn_unused_result));

/* Takes a socket, of that user's process, for closer_push(). Who gives more than there is room for
 * has a bug. */
void closer_give(struct closer *closer, int socket, uid_t uid);

/* The same for a listener, whose connections would be closed with it: it stays open until the
 * process ends. One, the last that is given. */
void closer_keep(struct closer *closer, int socket);

/* Hands over what was given. Does not wait; but if the process has ended, closes it here, which may
 * wait. false: so much waits there, or here, that nothing more should be given if that can be
 * helped. */
bool closer_push(struct closer *closer) __attribute__((warn_unused_result));

/* Then: of whom most is, and how many. */
uid_t closer_most(const struct closer *closer, uint32_t *count);

/* Whether the process ended by itself (was killed). */
bool closer_ended(const struct closer *closer);

/* Hands over what is left, and the process ends: waits for neither for more than a second. NULL is
 * allowed. */
void closer_close(struct closer *closer);

#endif
