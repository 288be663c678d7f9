/*
 * A process beside the agent, for calls that may wait for ever: what io/closer.h and io/remover.h
 * share.
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
    int signal;       /* one that is not blocked; 0: all are, but for SIGCHLD in beside_wait() */
    bool (*prepare)(void); /* first, with the agent's descriptors; false: the process ends */
    bool (*filter)(void);  /* of system calls; whether it could be had makes no difference */
    void (*serve)(void);   /* never returns */
};

/* Starts it: the agent's end of the pair, close-on-exec. arguments: main()'s, which in the process
 * become its name; NULL: they do not. -1: errno says why. */
int beside_start(const struct beside *process, char **arguments)
    __attribute__((warn_unused_result));

/* ---- both sides ---- */

/* A message, and descriptors with it. Does not wait. false: errno says why. */
bool beside_send(int socket, const void *bytes, size_t size, const int *fds, unsigned count)
    __attribute__((warn_unused_result));

/* As recvmsg(); does not wait. fds: -1 each that did not come. */
ssize_t beside_receive(int socket, void *bytes, size_t size, int fds[BESIDE_FDS])
    __attribute__((warn_unused_result));

/* ---- in the process ---- */

/* Makes that call for each child that has ended. */
void beside_reap(void (*ended)(pid_t pid));

/*
 * Waits until the agent has something to say, a child has ended or, if `again`, a second is over.
 * takes: another message can be received; else only the agent's end is waited for. true: there is
 * something on BESIDE_FD.
 */
bool beside_wait(bool takes, bool again) __attribute__((warn_unused_result));

#endif
