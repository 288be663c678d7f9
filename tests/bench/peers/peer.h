/*
 * The interface between the harness and each lock service that it compares: a peer, and a client of
 * a peer. One file for each peer fills in a table of functions. The load loop, the clock, the check
 * of exclusion and the histograms belong to the harness (load.h), and are the same for all peers.
 *
 * A *run* is a peer that is up: it was started below its own folder, and its servers are known by
 * process id. The bench's process calls start, stop, kill and restart, one at a time. Clients live
 * in worker processes, which the harness forks after start(). Only a worker calls connect() and
 * the functions that take a client or a lock. It calls them from one thread, and no connection may
 * exist before the fork. start() creates what the workers must share (a mutex in shared memory, an
 * open file) and keeps it in run->state.
 *
 * A client in another language is a library that connect() loads in the worker (etcd.c), so the
 * loop and the clock are the same for it. Such a peer's `fairness` text tells the cost of a call
 * into the library.
 *
 * Functions that return int return -1 after complain() unless their comment says more.
 */
#ifndef PEERS_PEER_H
#define PEERS_PEER_H

#include "server.h"

enum { PEER_SERVERS_MAX = 6, PEER_NAME_MAX = 96, PEER_WHY_MAX = 160 };

enum peer_mode { PEER_EXCLUSIVE, PEER_SHARED };

enum peer_feature {
    PEER_HAS_SHARED = 1,   /* has shared and exclusive holds */
    PEER_ACROSS_HOSTS = 2, /* excludes between processes of different hosts */
    PEER_HAS_TOKEN = 4,    /* acquire() returns a fencing token that rises */
    PEER_HAS_LEASE = 8,    /* the hold of a silent client ends after some time */
    PEER_IS_SERVICE = 16,  /* has servers, so processor time, memory and restarts have a meaning */
    PEER_HAS_LEADER = 32,  /* one of its servers leads, and another one takes over */
    PEER_HOST_SERVERS = 128, /* server i is the agent of host i; the clients of host i need it */
    PEER_NO_NAMES = 64,      /* has room for few names, so the case of new names leaves it out */
};

/* The results of acquire() and release() other than -1. */
enum { PEER_OK = 0, PEER_NOT_IN_TIME = 1, PEER_LOST = 2 };

struct peer_kind;

struct peer_run {
    const struct peer_kind *kind;
    char directory[SERVER_PATH_MAX]; /* the run's own folder; the harness removes it after stop() */
    int64_t lease_ns; /* how long a silent client keeps its hold; set before start() */
    struct server servers[PEER_SERVERS_MAX];
    size_t server_count;
    void *state; /* for the peer's own use */
};

struct peer_kind {
    const char *name;       /* one word: "redis-aof" */
    const char *title;      /* the title in the tables: "Redis, appendfsync always" */
    const char *durability; /* the state of the disk when acquire() returns, in a few words */
    const char *fairness;   /* notes for the reader: how a waiter waits, for example */
    /* the names of Debian's packages, shown to people; NULL: none is needed */
    const char *packages;
    unsigned features;     /* bits of enum peer_feature */
    int64_t lock_delay_ns; /* how long the peer keeps a lock closed after the holder died */
    uint32_t hosts;        /* the number of hosts with clients in the case of alternating hosts */

    /* Returns 0 if the peer can run here, else 1 with the reason in why. */
    int (*missing)(char why[PEER_WHY_MAX]);

    /* Starts the servers, and waits for a bounded time until they answer. The harness calls stop()
     * after a failure, too. stop() leaves nothing but the files in run->directory. */
    int (*start)(struct peer_run *run);
    void (*stop)(struct peer_run *run);

    /* Finds the server that leads, or that coordinates the lock of that name. NULL: no server
     * leads. */
    int (*leader)(struct peer_run *run, const char *name, size_t *out);
    /* kill_server() kills a server by SIGKILL, or ends it in order if `clean`. start_server()
     * starts the server again, and does not wait until it serves. NULL: the harness calls
     * server_kill() and server_launch(). */
    void (*kill_server)(struct peer_run *run, size_t server, bool clean);
    int (*start_server)(struct peer_run *run, size_t server);
    /* Waits, for a bounded time, until all servers serve again. NULL: there is nothing to wait
     * for. */
    int (*await)(struct peer_run *run);

    /* Returns the memory of all servers in bytes. NULL: the sum of process_memory() of each. */
    int64_t (*memory)(const struct peer_run *run);

    /* Connects a client on the host `host`; a peer with one server ignores `host`. Only called in a
     * worker. */
    int (*connect)(struct peer_run *run, uint32_t host, void **out_client);
    void (*disconnect)(void *client);
    /* The name has the characters [a-z0-9-], and is shorter than PEER_NAME_MAX. open() need not
     * send a message. */
    int (*open)(void *client, const char *name, void **out_lock);
    void (*close)(void *lock);
    /* Waits until it has the lock. Returns 0 and the token (0 if the peer has no tokens), or
     * PEER_NOT_IN_TIME. */
    int (*acquire)(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token);
    /* Returns 0, or PEER_LOST if the peer reports that the lock was not held any more. */
    int (*release)(void *lock);
    /* Returns PEER_LOST if the client's own library knows, without a message, that the hold is
     * gone; else 0. NULL: the library cannot know it. */
    int (*held)(void *lock);
    /* Renews the hold, and connects again to a server that was gone. The harness calls it every
     * third of the lease. Returns 0, or PEER_LOST. NULL: the client's library renews holds by
     * itself. */
    int (*renew)(void *lock);
};

/* Every peer, in the order of the tables. The list ends with NULL. */
extern const struct peer_kind *const peer_kinds[];

/* A helper for `missing`: returns 1 with a text in `why` if the program is not in PATH, else 0. */
int peer_needs_program(const char *program, const char *package, char why[PEER_WHY_MAX]);

/* Returns the peer of that name, or NULL if there is none. */
const struct peer_kind *peer_find(const char *name);

/* peer_start() makes the run's folder and starts the peer. peer_stop() stops the peer and removes
 * the folder. Call peer_stop() after a failure, too. */
int peer_start(struct peer_run *run, const struct peer_kind *kind, const char *below,
               int64_t lease_ns) MUST_CHECK;
void peer_stop(struct peer_run *run);

/* Call kind->kill_server and start_server, or the defaults if these are NULL. */
void peer_kill_server(struct peer_run *run, size_t server, bool clean);
int peer_start_server(struct peer_run *run, size_t server) MUST_CHECK;

/* Return the processor time and the memory of all servers together. */
int64_t peer_cpu_ns(const struct peer_run *run);
int64_t peer_memory(const struct peer_run *run);

#endif
