/*
 * Holdfast: looking at the locks, the agent and the cell, and the administrator's break. A program
 * that only takes locks needs holdfast.h alone.
 *
 * The rules of holdfast.h about errors, threads, forks and nanoseconds hold here, too. Besides:
 *  - A call passes its results to a function of the caller, which runs inside the call, on the
 *    calling thread, with no mutex of the library held. Everything that the function's arguments
 *    point to belongs to the library and lives until the function returns. Copy what you keep.
 *  - That function may not call the library with the same client.
 *  - Lists are arrays of pointers. In a later version of the library the structs may have more
 *    fields, at their ends. So a program does not use sizeof of these structs.
 *  - A call asks the agent, and waits for its answer: 1 s at most for a connection, then 5 s.
 */
#ifndef HOLDFAST_ADMIN_H
#define HOLDFAST_ADMIN_H

#include "holdfast/holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The mode in which a lock is held. */
enum hf_state { HF_STATE_FREE = 0, HF_STATE_EXCLUSIVE = 1, HF_STATE_SHARED = 2 };

/* One holder or waiter. An unknown number is -1, an unknown text is NULL. */
struct hf_party {
    const char *agent; /* the name of the agent on its host */
    int64_t pid;       /* as that agent sees it */
    int64_t uid;
    const char *command;  /* a holder's command line, words joined by spaces; NULL for a waiter */
    enum hf_mode mode;    /* the mode of its hold, or of the hold that it waits for */
    uint64_t token;       /* a holder's fencing token; 0 for a waiter */
    int64_t elapsed_ns;   /* for how long it has held, or waited */
    int64_t remaining_ns; /* for how long a holder's hold still counts */
};

struct hf_lock_info {
    const char *name;
    enum hf_state state;
    int64_t closed_ns; /* for how long the lock-delay still keeps the lock closed; 0: it is open */
    const char *coordinator; /* the voter that decides about this lock; NULL: unknown */
    int64_t age_ns;          /* how old this information is; -1: other hosts have reported nothing
                                for too long, and one of them may hold the lock */
    const struct hf_party *const *holders; /* holder_count pointers */
    size_t holder_count;
    const struct hf_party *const *waiters; /* waiter_count pointers, the next to be served first */
    size_t waiter_count;
};

/* Receives one lock. If it returns another value than 0, the call ends and returns that value. */
typedef int hf_list_fn(const struct hf_lock_info *info, void *arg);

/*
 * Calls fn for each lock that this user may see and whose name begins with prefix ("" is every
 * lock), in byte order of the names. fn gets arg. Locks change while a listing runs, so the listing
 * as a whole may never have been true at one moment. HF_EINVAL, HF_EACCES, HF_ENOAGENT, HF_EPROTO,
 * HF_ENOMEM, HF_EFORKED.
 */
int hf_list(hf_client *client, const char *prefix, hf_list_fn *fn, void *arg);

/* Calls fn once, with the lock of exactly that name. A name that was never used has
 * HF_STATE_FREE. Errors as hf_list, and HF_ENAMETOOLONG. */
int hf_show(hf_client *client, const char *name, hf_list_fn *fn, void *arg);

/* Returns the path of the socket at which this client has its agent, or had it last (struct
 * hf_options says where agents are looked for). The string belongs to the client. NULL if client is
 * NULL. Any thread may call this. */
const char *hf_socket(const hf_client *client);

enum hf_session_state { HF_SESSION_SAFE = 0, HF_SESSION_JEOPARDY = 1, HF_SESSION_LOST = 2 };
enum hf_voter_state { HF_VOTER_UP = 0, HF_VOTER_DOWN = 1, HF_VOTER_REFUSED = 2 };

struct hf_voter_info {
    const char *name;
    const char *address; /* NULL if it has none (a cell of one host) */
    enum hf_voter_state state;
};

struct hf_status {
    const char *agent;
    const char *cell;
    const char *role; /* "voter" or "observer" */
    const char *version;
    enum hf_session_state session_state;
    uint64_t session_epoch;
    int64_t session_remaining_ns; /* if negative, the session's lease ended that long ago */
    const struct hf_voter_info *const *voters; /* voter_count pointers */
    size_t voter_count;
    uint64_t clients;
    uint64_t locks_held;
    uint64_t waiters;
};

typedef void hf_status_fn(const struct hf_status *status, void *arg);

/* Calls fn once, with the status of this host's agent. HF_EINVAL, HF_ENOAGENT, HF_EPROTO,
 * HF_ENOMEM, HF_EFORKED. */
int hf_status(hf_client *client, hf_status_fn *fn, void *arg);

/*
 * One thing that the agent knows of itself, of its host or of the cell. `holdfast doctor` judges
 * these facts. The set of keys is no part of this interface and changes with versions: a program
 * ignores keys that it does not know.
 */
struct hf_fact {
    const char *subject; /* the agent that it is about; NULL: this host's agent, or the cell */
    const char *key;     /* such as "round_trip_ns" */
    int64_t value;
    const char *text; /* NULL: none */
};

/* Receives one fact. If it returns another value than 0, the call ends and returns that value. */
typedef int hf_fact_fn(const struct hf_fact *fact, void *arg);

/* Calls fn for each fact. Errors as hf_status. */
int hf_facts(hf_client *client, hf_fact_fn *fn, void *arg);

enum { HF_BREAK_NOW = 1 }; /* hf_break's flags: without the lock-delay */

/*
 * Ends every hold of a lock. Only root and the administrators of the lock's namespace may do so.
 * Then the lock stays closed for its holders' lock-delay, so that they can notice, unless flags has
 * HF_BREAK_NOW. A lock without a holder stays as it is. HF_EACCES, HF_EINVAL, HF_ENAMETOOLONG,
 * HF_ENOAGENT, HF_EFORKED.
 */
int hf_break(hf_client *client, const char *name, unsigned flags);

#ifdef __cplusplus
}
#endif

#endif
