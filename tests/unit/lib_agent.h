/*
 * An agent for the tests of libholdfast: a thread that speaks the client frames and serves one real
 * region, with settings for what a real agent does rarely. It grants every lock to its host at the
 * first opening, and decides nothing else.
 */
#ifndef LIB_AGENT_H
#define LIB_AGENT_H

#include "holdfast/admin.h"
#include "proto/frame.h"
#include "proto/lockword.h"

#include <pthread.h>

/* For tests that are not about a lease's end: a lease so long that it does not end even if the
 * agent's thread gets no processor for long. */
#define LONG_TTL_NS INT64_C(60000000000)

enum { AGENT_SLOTS = 64, AGENT_CONNECTIONS = 16, AGENT_HANDLES = 512 };

/* How the agent misbehaves. */
enum agent_mood {
    MOOD_GOOD = 0,
    MOOD_RUBBISH,      /* answers every request with bytes that are no frame */
    MOOD_WRONG_KIND,   /* answers every request with STATED */
    MOOD_WRONG_NUMBER, /* repeats another request's number */
    MOOD_WRONG_SLOT,   /* OPENED with a slot that the region does not have */
    MOOD_SILENT,       /* reads, and never answers */
    MOOD_OLD,          /* WELCOME with another version */
    MOOD_OTHER,        /* refuses HELLO, which is of another version */
    MOOD_CLOCK,        /* WELCOME with a clock that is clock_apart_ns away: an hour if not set */
    MOOD_NO_REGION,    /* REGION with descriptors of an empty file */
    MOOD_REFUSES,      /* OPEN is HF_EACCES */
    MOOD_IN_CIRCLES,   /* LIST gets pages that repeat and never end */
};

struct agent_handle {
    bool open;
    uint32_t slot;
    uint32_t seat;
    uint64_t nonce; /* of its client */
};

struct agent {
    char dir[64];
    char path[96];
    int region_fd;
    char command[HFI_FRAME_COMMAND_MAX + 1]; /* of the last HELLO, when it has been welcomed */
    void *memory;
    struct hfi_region region;
    struct hfi_kernel kernel;
    struct hfi_actor actor;
    int64_t ttl_ns;
    _Atomic uint32_t epoch;
    _Atomic bool renews;    /* publishes the lease every few milliseconds */
    _Atomic bool ungranted; /* opening a lock does not grant it */
    _Atomic int mood;
    _Atomic int session_state; /* of STATUS */
    _Atomic int64_t clock_apart_ns;
    _Atomic uint32_t requests; /* frames that came, HELLO and CLOSE too */
    _Atomic uint32_t closes;
    _Atomic uint32_t rings; /* which are not counted in requests */
    _Atomic uint32_t last_kind;
    _Atomic int64_t lock_delay_ns; /* of the last OPEN */

    pthread_t thread;
    int stop_fd;
    int listen_fd;
    _Atomic int connections[AGENT_CONNECTIONS]; /* agent_send() reads them too */
    bool region_sent[AGENT_CONNECTIONS];
    uint64_t nonces[AGENT_CONNECTIONS];

    /* The state that a restart keeps. */
    pthread_mutex_t mutex;
    char names[AGENT_SLOTS][256];
    uint32_t name_count;
    uint32_t block_used;
    struct agent_handle handles[AGENT_HANDLES]; /* by holder id */
    uint32_t holder_next;
    uint64_t nonce_first; /* the nonce of the first client that it remembers */
    uint64_t nonce_next;
    uint64_t incarnation;
};

/* A new agent in a directory of its own, running. */
void agent_create(struct agent *agent, int64_t ttl_ns);
void agent_destroy(struct agent *agent);

/* Stops the thread and closes its sockets, as a kill would. The region stays as it is. */
void agent_stop(struct agent *agent);
/* Starts the agent again. If remember, it knows its clients; else a new epoch begins, and all their
 * holds are over. */
void agent_start(struct agent *agent, bool remember);

/* Publishes the lease: it ends ttl_ns from now. */
void agent_publish(struct agent *agent, int64_t ttl_ns);

/* The slot of a name that was opened. */
uint32_t agent_slot(struct agent *agent, const char *name);
uint64_t agent_word(struct agent *agent, const char *name);

/* Takes the lock away from its exclusive holder, as a break does. */
bool agent_evict(struct agent *agent, const char *name, int64_t closed_ns);

/* Sends a frame, or bytes, to every connected client. */
void agent_send(struct agent *agent, const struct hfi_frame *frame);

/* Needed by the C++ test, for which struct agent (it has C atomics) is opaque. */
struct agent *agent_new(int64_t ttl_ns);
const char *agent_path(const struct agent *agent);
void agent_delete(struct agent *agent);

#endif
