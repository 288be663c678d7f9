/*
 * The processes behind clients: each has one pidfd, however many clients it has.
 *
 * The kernel says who connected (SO_PEERPIDFD, Linux 6.5). A pidfd is readable when its process has
 * ended, which is all that is ever asked of it, and the loop asks for that: no process is looked
 * at. A process that has no client any more keeps its pidfd until it ends, up to
 * PROCESSES_IDLE_MAX of them: any process can place a million locks on a pidfd's file, each close
 * has the kernel look through them (io/late_close.h), and so a client cannot have its pidfd closed
 * and opened again and again.
 *
 * A process that is known is found by its number (as long as its pidfd says that it lives it is
 * nobody else's), or, if it has none in this agent's pid namespace, by its pidfd's inode.
 *
 * Before Linux 6.5 a pidfd comes by the number that connected; so may the one that is known. It may
 * be another process's, if the one that connected has ended meanwhile. That one then has no hold:
 * HELLO came from the number that connected, and nothing is granted before WELCOME. A process that
 * it forked may go on with its connection, and what is held by that ends with the connection, as
 * always. The other process's end frees nothing that somebody holds by the rules, and its life
 * keeps nothing but ids, which count as that user's. A client that resumes is not let in that way:
 * its process has had that number since before it connected.
 */
#ifndef AGENT_PROCESSES_H
#define AGENT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "io/client_record.h"
#include "io/peer.h"
#include "io/socket_share.h"

enum { PROCESSES_IDLE_MAX = 1024 };

struct agent;
struct client;
struct processes;

/* Names a process for a while: 0 is none, and one that ended is not found by it. */
struct process_name {
    uint64_t key;
    uint64_t serial;
};

struct process {
    struct process *next;  /* of those with the same hash */
    struct process *older; /* of those that have no client; the newest is first */
    struct process *newer;
    struct processes *all;
    uv_poll_t *poll;        /* of its pidfd */
    struct client *clients; /* by client->next */
    struct process_name name;
    struct peer_process is;
    struct socket_share *share; /* its user's part of a turn, in which its end is seen to */
    uint32_t round;             /* see socket_share_turn() */
    pid_t pid;                  /* 0: none in this agent's pid namespace */
    uid_t account;              /* as it was when it connected first */
    int pidfd;
};

struct processes *processes_create(struct agent *agent);
/* Their pidfds stay open until this process ends. NULL is allowed. */
void processes_destroy(struct processes *all);

enum process_found {
    PROCESS_FOUND = 0,
    PROCESS_GONE,    /* it has ended */
    PROCESS_UNSEEN,  /* this kernel cannot tell, and it has no number here */
    PROCESS_NO_ROOM, /* errno: EMFILE, ENFILE, ENOMEM; EBUSY: late_close_is_busy() */
};

/* The process that connected that socket. */
enum process_found process_of_peer(struct processes *all, int socket, const struct peer *peer,
                                   struct process **out) __attribute__((warn_unused_result));

enum process_life {
    PROCESS_ENDED = 0,
    PROCESS_LIVES,
    PROCESS_UNPROVEN, /* it cannot be seen from here, or not be told from others */
};

/*
 * Whether the process of a record lives. *out: it; if it is UNPROVEN, one that may be it, or NULL.
 * A pidfd is opened by the record's number and stays with one process whatever becomes of the
 * number; what that process is is compared with what the record says. Not told from others is one
 * of which the record has neither inode nor start, or whose start cannot be read now (hidepid,
 * before Linux 6.9): as long as some process has its number it counts as that, and it has ended
 * when that has.
 */
enum process_life process_of_record(struct processes *all, const struct client_record *record,
                                    struct process **out) __attribute__((warn_unused_result));

/* NULL: it has ended. */
struct process *process_find(const struct processes *all, struct process_name name);

/* It has this client; or has not any more. A client has one process at most. */
void process_add(struct process *process, struct client *client);
void process_remove(struct client *client);

#endif
