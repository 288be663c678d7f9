/*
 * The processes behind clients: each has one pidfd, however many clients it has.
 *
 * The kernel says who connected (SO_PEERPIDFD, Linux 6.5). A pidfd becomes readable when its
 * process has ended. A thread waits for that (io/deaths.h), and the agent needs no other look at a
 * process. The agent keeps the pidfd of a process without a client until that process ends, for up
 * to PROCESSES_IDLE_MAX processes. The reason: any process can place a million locks on a pidfd's
 * file, and each close has the kernel search them (io/late_close.h). So a client cannot have its
 * pidfd opened and closed again and again.
 *
 * A known process is found by its pid: as long as its pidfd says that it lives, no other process
 * has that pid. If it has no pid in this agent's pid namespace, it is found by its pidfd's inode.
 *
 * Before Linux 6.5 the agent opens a pidfd by the pid that connected. If that process has ended
 * meanwhile, the pidfd may be of another process with the same pid. The process that connected then
 * has no hold, for nothing is granted before WELCOME. A process that it forked may use its
 * connection; holds of that process end with the connection, as always. If the wrong process ends,
 * no hold of a client that keeps the rules ends. While the wrong process lives, it keeps only ids
 * in use, which count for the user that connected. A client that resumes cannot come in this way:
 * its process has had its pid since before it connected.
 */
#ifndef AGENT_PROCESSES_H
#define AGENT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "io/client_record.h"
#include "io/deaths.h"
#include "io/peer.h"
#include "io/socket_share.h"

enum { PROCESSES_IDLE_MAX = 1024 };

struct agent;
struct agent_client;
struct processes;

/* Names a process. Serial 0 names no process. The name of a process that has ended finds
 * nothing. */
struct process_name {
    uint64_t key;
    uint64_t serial;
};

struct process {
    struct process *next; /* the next process with the same hash */
    struct process *next_serial;
    struct process *older; /* list of processes without a client, newest first */
    struct process *newer;
    struct processes *all;
    struct process *next_ended;   /* list of processes that have ended and still have clients */
    struct process **ended;       /* the pointer to it in that list; NULL: it is not there */
    struct death_watch *watch;    /* the inode of its pidfd */
    struct agent_client *clients; /* its clients, linked by client->next */
    struct process_name name;
    struct peer_process is;
    struct socket_share
        *share;     /* its user's share of the turn, spent when the end of the process is handled */
    uint32_t round; /* see socket_share_turn() */
    pid_t pid;      /* 0: it has no pid in this agent's pid namespace */
    uid_t account;  /* the user when the process first connected */
    int pidfd;
};

struct processes *processes_create(struct agent *agent);
/* Leaves the pidfds open until the agent ends. NULL is allowed. */
void processes_destroy(struct processes *all);

enum process_found {
    PROCESS_FOUND = 0,
    PROCESS_GONE,    /* the process has ended */
    PROCESS_UNSEEN,  /* the process has no pid here, and this kernel cannot give a pidfd for a
                      * socket */
    PROCESS_NO_ROOM, /* errno: EMFILE, ENFILE, ENOMEM; EBUSY: late_close_is_busy() */
};

/* Finds or opens the process that connected that socket. */
enum process_found process_of_peer(struct processes *all, int socket, const struct peer *peer,
                                   struct process **out) __attribute__((warn_unused_result));

enum process_life {
    PROCESS_ENDED = 0,
    PROCESS_LIVES,
    PROCESS_UNPROVEN, /* the process cannot be seen from here, or cannot be distinguished from
                       * others */
};

/*
 * Finds out whether the process of a record lives, and sets *out to the process. For
 * PROCESS_UNPROVEN, *out is a process that may be the record's, or NULL. The call opens a pidfd by
 * the record's pid, and compares its process with the record's inode or start time. If these cannot
 * be compared (the record has neither, or hidepid hides the start before Linux 6.9), the process
 * that has the pid now counts as the record's, and its end as the record's end.
 */
enum process_life process_of_record(struct processes *all, const struct client_record *record,
                                    struct process **out) __attribute__((warn_unused_result));

/* Returns NULL if the process has ended. */
struct process *process_find(const struct processes *all, struct process_name name);

/* The first call makes the client one of the process's clients; the second one ends that. A client
 * has at most one process. */
void process_add(struct process *process, struct agent_client *client);
void process_remove(struct agent_client *client);

#endif
