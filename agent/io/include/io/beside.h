/*
 * A helper process of the agent, for system calls that may block for ever. io/closer.h and
 * io/remover.h use one each.
 *
 * The agent forks the helper process before the agent has threads and before it opens anything. The
 * process has /dev/null, one end of a socket pair and a filter of system calls. Children of the
 * process make the calls. So neither an agent that ends nor the next agent waits for such a call.
 * The process exits when the agent has closed its half of the pair, or has itself exited.
 */
#ifndef IO_BESIDE_H
#define IO_BESIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    BESIDE_FD = 3,  /* the process's end of the pair: SOCK_SEQPACKET */
    BESIDE_FDS = 2, /* the most descriptors in one message */
};

struct beside {
    const char *name; /* the process name that ps(1) shows */
    int signal; /* a signal that stays unblocked; 0: all are blocked. beside_wait() also unblocks
                 * SIGCHLD */
    /* Called in the new process first, while the agent's descriptors are still open in it. If
     * prepare() returns false, the process ends. */
    bool (*prepare)(void);
    bool (*filter)(void); /* installs the filter of system calls. If filter() fails, the process
                           * goes on without one */
    void (*serve)(void);  /* does the work of the process; never returns */
};

/* Starts the process. Returns the agent's end of the pair, close-on-exec. `arguments` is the argv
 * of main(), which the process overwrites with its own name; NULL: it keeps the agent's argv. On
 * failure returns -1 with errno. */
int beside_start(const struct beside *process, char **arguments)
    __attribute__((warn_unused_result));

/* ---- both sides ---- */

/* Sends a message, and descriptors with it. Does not block. On failure returns false with errno. */
bool beside_send(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
    __attribute__((warn_unused_result));

/* Receives a message. Does not block. Returns the result of recvmsg(). Sets each entry of fds to a
 * descriptor, or to -1 if none came. */
ssize_t beside_receive(int socket, void *bytes, size_t size, int fds[BESIDE_FDS])
    __attribute__((warn_unused_result));

/* ---- in the process ---- */

/* Calls ended() for each child that has ended. */
void beside_reap(void (*ended)(pid_t pid));

/*
 * Waits until the agent has sent a message, a child has ended or, if `again` is true, a second is
 * over. takes: whether the caller has room for another message. If `takes` is false, the call does
 * not wait for a message, but still for the agent's end. Returns true if BESIDE_FD is readable or
 * the agent has ended.
 */
bool beside_wait(bool takes, bool again) __attribute__((warn_unused_result));

#endif
