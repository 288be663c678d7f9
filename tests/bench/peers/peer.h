/*
 * The seam between the harness and the lock services that are compared: a peer, and a client of it.
 * One file a peer fills in a table of functions; the load loop, the clock, the check of exclusion
 * and the histograms are the harness's alone (load.h) and the same for all.
 *
 * A *run* is a peer that is up: started below a folder of its own, its servers known by process id.
 * start, stop, kill and restart are called in the bench's process, one at a time. Clients live in
 * worker processes that the harness forks after start: connect() and all that takes a client or a
 * lock is called in the worker only, from one thread. So nothing may be connected before the fork.
 * start() makes what workers must share (a mutex in shared memory, an open file) and hangs it on
 * run->state.
 *
 * A client in another language is a library that connect() loads in the worker (etcd.c), so the
 * loop and the clock stay these. The peer's `fairness` text has the cost of the passage.
 *
 * Functions that return int return -1 after complain(), unless they say more.
 */
#ifndef PEERS_PEER_H
#define PEERS_PEER_H

#include "server.h"

enum { PEER_SERVERS_MAX = 6, PEER_NAME_MAX = 96, PEER_WHY_MAX = 160 };

enum peer_mode { PEER_EXCLUSIVE, PEER_SHARED };

enum peer_feature {
    PEER_HAS_SHARED = 1,   /* readers and writers */
    PEER_ACROSS_HOSTS = 2, /* excludes between processes of different hosts */
    PEER_HAS_TOKEN = 4,    /* acquire() returns a fencing token that rises */
    PEER_HAS_LEASE = 8,    /* a hold of a client that is silent ends by time */
    PEER_IS_SERVICE = 16,  /* there are servers: processor time, memory, restarts mean something */
    PEER_HAS_LEADER = 32,  /* one of its servers leads, and another one takes over */
    PEER_HOST_SERVERS = 128, /* server i is the agent of host i, which the host's clients need */
    PEER_NO_NAMES = 64, /* nothing gives it a lock by name: the case of new names is left out */
};

/* Results of acquire() and release() beside -1. */
enum { PEER_OK = 0, PEER_NOT_IN_TIME = 1, PEER_LOST = 2 };

struct peer_kind;

struct peer_run {
    const struct peer_kind *kind;
    char directory[SERVER_PATH_MAX]; /* the run's own folder; the harness removes it after stop() */
    int64_t lease_ns; /* how long a silent client keeps its hold; set before start() */
    struct server servers[PEER_SERVERS_MAX];
    size_t server_count;
    void *state; /* the peer's own */
};

struct peer_kind {
    const char *name;       /* one word: "redis-aof" */
    const char *title;      /* as in the tables: "Redis, appendfsync always" */
    const char *durability; /* the state of the disk when acquire() returns, in a few words */
    const char *fairness;   /* notes for the reader: how a waiter waits, for example */
    const char *packages;   /* Debian's, for people; NULL: none is needed */
    unsigned features;      /* of enum peer_feature */
    int64_t lock_delay_ns;  /* how long it keeps a lock closed whose holder died */
    uint32_t hosts;         /* on how many hosts its clients are in the case of alternating hosts */

    /* Returns 0 if the peer can run here, else 1 with the reason in why. */
    int (*missing)(char why[PEER_WHY_MAX]);

    /* Starts the servers, and waits for a bounded time until they answer. stop() is called after a
     * failure, too, and leaves only what lies in run->directory. */
    int (*start)(struct peer_run *run);
    void (*stop)(struct peer_run *run);

    /* Finds the server that leads, or coordinates that lock. NULL: no server leads. */
    int (*leader)(struct peer_run *run, const char *name, size_t *out);
    /* kill_server() kills a server by SIGKILL, or ends it in order if `clean`. start_server()
     * starts it again, without waiting until it serves. NULL: server_kill() and server_launch()
     * do. */
    void (*kill_server)(struct peer_run *run, size_t server, bool clean);
    int (*start_server)(struct peer_run *run, size_t server);
    /* Waits, for a bounded time, until all servers serve again. NULL: there is nothing to wait
     * for. */
    int (*await)(struct peer_run *run);

    /* Returns the memory of all servers in bytes. NULL: the sum of process_memory() of each. */
    int64_t (*memory)(const struct peer_run *run);

    /* In a worker. `host`: the host that this client is on; a peer of one server ignores it. */
    int (*connect)(struct peer_run *run, uint32_t host, void **out_client);
    void (*disconnect)(void *client);
    /* The name is shorter than PEER_NAME_MAX, [a-z0-9-]. open() may be free of any message. */
    int (*open)(void *client, const char *name, void **out_lock);
    void (*close)(void *lock);
    /* Waits until it has the lock. Returns 0 and the token (0 if the peer has no tokens), or
     * PEER_NOT_IN_TIME. */
    int (*acquire)(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token);
    /* Returns 0, or PEER_LOST if the peer reports that the lock was not held any more. */
    int (*release)(void *lock);
    /* Returns PEER_LOST if the client's own library knows, without a message, that the hold is
     * gone, else 0. NULL: the library cannot know. */
    int (*held)(void *lock);
    /* Called every third of the lease: what the client itself does to keep a hold. Returns 0, or
     * PEER_LOST. Connects again to a server that was gone. NULL: the client's library does this. */
    int (*renew)(void *lock);
};

/* Every peer, in the order of the tables; the last one is NULL. */
extern const struct peer_kind *const peer_kinds[];

/* For `missing`: returns 1, with a text in why, if a program is not in PATH, else 0. */
int peer_needs_program(const char *program, const char *package, char why[PEER_WHY_MAX]);

/* Returns the peer of that name; NULL if there is none. */
const struct peer_kind *peer_find(const char *name);

/* Start and stop a run, and make and remove its folder. Call peer_stop() after a failure, too. */
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
