/*
 * The processes behind clients. Each process has one pidfd, even if it has many clients.
 *
 * The kernel gives a pidfd of the process that connected (SO_PEERPIDFD, Linux 6.5). A pidfd becomes
 * readable when its process has ended. A thread waits for that (io/deaths.h), and the agent needs
 * no other look at the process.
 *
 * When a process has no client any more, the agent keeps its pidfd until the process ends, for up
 * to PROCESSES_IDLE_MAX processes. The reason: any process can place a million locks on a pidfd's
 * file, and each close makes the kernel search them (io/late_close.h). A client must not be able to
 * have its pidfd opened and closed again and again.
 *
 * A known process is found by its pid: while its pidfd shows no end, no other process has that pid.
 * A process that has no pid in this agent's pid namespace is found by its pidfd's inode.
 *
 * Before Linux 6.5 the agent opens a pidfd by the pid of the process that connected. If that
 * process has ended meanwhile, the pidfd may be of another process that has the same pid now. That
 * does no harm:
 * - The process that connected has no hold, because nothing is granted before WELCOME.
 * - A process that it forked may use its connection. Holds of the forked process end with the
 *   connection, as always.
 * - When the wrong process exits, no client that keeps the rules loses a hold.
 * - While the wrong process lives, it keeps only ids in use. They count for the user that
 *   connected.
 * - A client that resumes never gets a wrong process: its process has had its pid since before it
 *   connected.
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

/* Names a process. Serial 0 names no process. process_find() finds a process by its name until the
 * process is freed, at the latest some turns after its end. */
struct process_name {
    uint64_t key;
    uint64_t serial;
};

struct process {
    struct process *next; /* the next process with the same hash */
    struct process *next_serial;
    struct process *older; /* the next in the list of processes without a client, newest first */
    struct process *newer;
    struct processes *all;
    struct process *next_ended;   /* the next process in the list of processes that have ended and
                                   * still have clients */
    struct process **ended;       /* the pointer that points to this process in that list; NULL: it
                                   * is not in the list */
    struct death_watch *watch;    /* the watch on the end of this process */
    struct agent_client *clients; /* linked by client->next */
    struct process_name name;
    struct peer_process is;
    struct socket_share
        *share;     /* the share of the process's user in a turn; handling the end of the
                     * process is charged to it */
    uint32_t round; /* see socket_share_turn() */
    pid_t pid;      /* 0: the process has no pid in this agent's pid namespace */
    uid_t account;  /* the user of the process when it first connected */
    int pidfd;
};

struct processes *processes_create(struct agent *agent);
/* Frees all processes, but leaves their pidfds open until the agent ends. NULL is allowed. */
void processes_destroy(struct processes *all);

enum process_found {
    PROCESS_FOUND = 0,
    PROCESS_GONE,    /* the process has ended */
    PROCESS_UNSEEN,  /* the process has no pid here, and this kernel gives no pidfd for a socket */
    PROCESS_NO_ROOM, /* errno says why: EMFILE, ENFILE or ENOMEM; EBUSY: late_close_is_busy() */
};

/* Finds the process that connected that socket. Makes a new entry if it is not known yet. */
enum process_found process_of_peer(struct processes *all, int socket, const struct peer *peer,
                                   struct process **out) __attribute__((warn_unused_result));

enum process_life {
    PROCESS_ENDED = 0,
    PROCESS_LIVES,
    PROCESS_UNPROVEN, /* the process cannot be seen from here, or cannot be distinguished from
                       * others */
};

/*
 * Finds out whether the process of a record lives, and sets *out to that process. With
 * PROCESS_UNPROVEN, *out is a process that may be the record's, or NULL.
 *
 * The call opens a pidfd by the record's pid, and compares its process with the record's inode or
 * start time. Sometimes neither can be compared: the record has neither, or hidepid hides the start
 * time before Linux 6.9. In that case the agent takes the process that has the pid now for the
 * record's process.
 */
enum process_life process_of_record(struct processes *all, const struct client_record *record,
                                    struct process **out) __attribute__((warn_unused_result));

/* Returns NULL if the process was freed. */
struct process *process_find(const struct processes *all, struct process_name name);

/* process_add() makes the client one of the process's clients, and process_remove() undoes that. A
 * client has at most one process. */
void process_add(struct process *process, struct agent_client *client);
void process_remove(struct agent_client *client);

#endif
