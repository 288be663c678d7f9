/*
 * An agent for the tests of libholdfast: a thread that speaks the client's frames and serves one
 * real region. Its settings make the agent do what a real agent does rarely. The agent grants every
 * lock to its host when the lock is first opened, and decides nothing else.
 */
#ifndef LIB_AGENT_H
#define LIB_AGENT_H

#include "holdfast/admin.h"
#include "proto/frame.h"
#include "proto/lockword.h"

#include <pthread.h>

/* The length of a lease in tests about other things: so long that the lease does not end even if
 * the agent's thread gets no processor for a while. */
#define LONG_TTL_NS INT64_C(60000000000)

enum { AGENT_SLOTS = 64, AGENT_CONNECTIONS = 16, AGENT_HANDLES = 512 };

/* How the agent misbehaves. */
enum agent_mood {
    MOOD_GOOD = 0,
    MOOD_RUBBISH,      /* answers every request with bytes that are no frame */
    MOOD_WRONG_KIND,   /* answers every request with STATED */
    MOOD_WRONG_NUMBER, /* answers with the number of another request */
    MOOD_WRONG_SLOT,   /* answers OPEN with a slot that the region does not have */
    MOOD_SILENT,       /* reads, and never answers */
    MOOD_OLD,          /* answers HELLO with a WELCOME of another version */
    MOOD_OTHER,        /* refuses a HELLO, as if its version were unknown */
    /* sends a WELCOME with a clock that is wrong by clock_apart_ns, or by an hour if clock_apart_ns
     * is 0 */
    MOOD_CLOCK,
    MOOD_FULL,       /* refuses each HELLO, because the agent has no room */
    MOOD_DISK_FULL,  /* refuses each HELLO, because the agent's disk is full */
    MOOD_NO_REGION,  /* sends a REGION with descriptors of an empty file */
    MOOD_REFUSES,    /* refuses each OPEN with HF_EACCES */
    MOOD_IN_CIRCLES, /* answers LIST with pages that repeat and never end */
    MOOD_NOTELESS,   /* does not know NOTE, as an agent of an earlier release, and hangs up */
    MOOD_NO_ROOM,    /* has no room for notes */
};

struct agent_handle {
    bool open;
    uint32_t slot;
    uint32_t seat;
    uint64_t nonce; /* the nonce of the handle's client */
};

struct agent {
    char dir[64];
    char path[96];
    int region_fd;
    /* the command line in the latest HELLO that got a WELCOME */
    char command[HFI_FRAME_COMMAND_MAX + 1];
    void *memory;
    struct hfi_region region;
    struct hfi_kernel kernel;
    struct hfi_actor actor;
    int64_t ttl_ns;
    _Atomic uint32_t epoch;
    _Atomic bool renews;    /* the thread publishes the lease every few milliseconds */
    _Atomic bool ungranted; /* opening a lock does not grant the lock to the agent's host */
    _Atomic int mood;
    _Atomic int session_state; /* the session's state in STATUS */
    _Atomic int backup;        /* the stage of a backup */
    _Atomic bool backup_fd;    /* the stage comes with a descriptor */
    /* If this field names a table, the agent refuses each OPEN and BREAK with HF_EFULL and this
     * field. In MOOD_FULL it reports the field, too. Set it while no request is under way. */
    struct hfi_full full;
    _Atomic int break_error; /* the outcome of each break */
    /* 1 plus an enum hf_ending: SHOW and LIST report every lock as closed behind a hold that ended
     * in this way; below 0: closed, but the hold is unknown; 0: not closed */
    _Atomic int closed;
    _Atomic int64_t clock_apart_ns;
    _Atomic uint32_t requests; /* how many frames came, including HELLO and CLOSE, but not rings */
    _Atomic uint32_t closes;
    _Atomic uint32_t rings; /* rings that came */
    _Atomic uint32_t last_kind;
    _Atomic uint32_t notes;      /* how many NOTEs came */
    _Atomic uint32_t note_flags; /* the flags of the latest NOTE, and its text */
    char note[HFI_FRAME_NOTE_MAX + 1];
    _Atomic bool noted;            /* listings have notes */
    _Atomic int64_t lock_delay_ns; /* the lock-delay in the latest OPEN */

    pthread_t thread;
    int stop_fd;
    int listen_fd;
    _Atomic int connections[AGENT_CONNECTIONS]; /* agent_send() reads these from another thread */
    bool region_sent[AGENT_CONNECTIONS];
    uint64_t nonces[AGENT_CONNECTIONS];

    /* The state that a restart keeps. */
    pthread_mutex_t mutex;
    char names[AGENT_SLOTS][256];
    uint32_t name_count;
    uint32_t block_used;
    struct agent_handle handles[AGENT_HANDLES]; /* by holder id */
    uint32_t holder_next;
    uint64_t nonce_first; /* the nonce of the first client that the agent remembers */
    uint64_t nonce_next;
    uint64_t incarnation;
};

/* Makes an agent in a directory of its own, and starts it. */
void agent_create(struct agent *agent, int64_t ttl_ns);
void agent_destroy(struct agent *agent);

/* Stops the thread and closes its sockets, as when the agent is killed. The region stays as it
 * is. */
void agent_stop(struct agent *agent);
/* Starts the agent again. If `remember`, the agent knows its clients. Otherwise it begins a new
 * epoch, and all holds of its clients have ended. */
void agent_start(struct agent *agent, bool remember);

/* Publishes the lease: it ends ttl_ns from now. */
void agent_publish(struct agent *agent, int64_t ttl_ns);

/* Returns the slot of a name that was opened. */
uint32_t agent_slot(struct agent *agent, const char *name);
uint64_t agent_word(struct agent *agent, const char *name);

/* Takes the lock away from its exclusive holder, as a break does. */
bool agent_evict(struct agent *agent, const char *name, int64_t closed_ns);

/* Sends a frame to every connected client. */
void agent_send(struct agent *agent, const struct hfi_frame *frame);

/* For the C++ test: C++ does not know the C atomics in struct agent. */
struct agent *agent_new(int64_t ttl_ns);
const char *agent_path(const struct agent *agent);
void agent_delete(struct agent *agent);

#endif
