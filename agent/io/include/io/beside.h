/*
 * A process beside the agent, for calls that may block for ever. io/closer.h and io/remover.h both
 * use it.
 *
 * The agent forks it before there are threads and before anything of the agent's is open. It has
 * /dev/null, one end of a socket pair and a filter of system calls. Its children make the calls; so
 * nobody waits for them, not the agent that ends, nor the next one. When the agent closes its end
 * of the pair, or is gone, the process ends.
 */
#ifndef IO_BESIDE_H
#define IO_BESIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    BESIDE_FD = 3,  /* the process's end of the pair: SOCK_SEQPACKET */
    BESIDE_FDS = 2, /* descriptors with one message */
};

struct beside {
    const char *name; /* for ps(1) */
    int signal; /* a signal that is not blocked; 0: none. beside_wait() also lets SIGCHLD in */
    /* Called first, while the agent's descriptors are open. If it returns false, the process ends.
     */
    bool (*prepare)(void);
    bool (*filter)(void); /* installs the filter of system calls; its result is ignored */
    void (*serve)(void);  /* never returns */
};

/* Starts the process. Returns the agent's end of the pair, close-on-exec. `arguments` are main()'s,
 * which the process overwrites with its name; NULL: it does not. On failure returns -1 with errno.
 */
int beside_start(const struct beside *process, char **arguments)
    __attribute__((warn_unused_result));

/* ---- both sides ---- */

/* Sends a message, and descriptors with it. Does not block. On failure returns false with errno. */
bool beside_send(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
    __attribute__((warn_unused_result));

/* Receives a message. Does not block. Returns what recvmsg() returned. Sets each of fds to a
 * descriptor, or to -1 if none came. */
ssize_t beside_receive(int socket, void *bytes, size_t size, int fds[BESIDE_FDS])
    __attribute__((warn_unused_result));

/* ---- in the process ---- */

/* Calls ended() for each child that has ended. */
void beside_reap(void (*ended)(pid_t pid));

/*
 * Waits until the agent has something to say, a child has ended or, if `again`, a second is over.
 * `takes`: another message can be received; else the call waits only for the agent to end. Returns
 * true if there is something on BESIDE_FD.
 */
bool beside_wait(bool takes, bool again) __attribute__((warn_unused_result));

#endif
