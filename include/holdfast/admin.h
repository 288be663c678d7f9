/*
 * Holdfast: looking at the locks, the agent and the cell, and the administrator's break. A program
 * that only takes locks needs holdfast.h alone.
 *
 * The rules of holdfast.h about errors, threads, forks and nanoseconds hold here, too. There are
 * more rules for the calls of this header:
 *  - A call passes its results to a function that the caller gives. The function runs inside the
 *    call, on the calling thread, and the library holds no mutex meanwhile. Everything that the
 *    function's arguments point to belongs to the library and lives until the function returns. The
 *    function must copy what the program needs later.
 *  - The function must not call the library with the same client.
 *  - Lists are arrays of pointers. In a later version of the library the structs may have more
 *    fields, at their ends. So a program must not use sizeof of these structs.
 *  - A call asks the agent. It waits for at most 1 s for a connection, and then for at most 5 s for
 *    the answer.
 */
#ifndef HOLDFAST_ADMIN_H
#define HOLDFAST_ADMIN_H

#include "holdfast/holdfast.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The mode in which a lock is held. */
enum hf_state { HF_STATE_FREE = 0, HF_STATE_EXCLUSIVE = 1, HF_STATE_SHARED = 2 };

/* One holder or waiter. A number that is not known is -1, and a text that is not known is NULL. */
struct hf_party {
    const char *agent; /* the name of the agent on its host */
    int64_t pid;       /* the process, in the agent's PID namespace */
    int64_t uid;
    const char *command; /* a holder's command (hf_options.command), by default its command line,
                            words joined by spaces; NULL for a waiter */
    enum hf_mode mode;   /* the mode of the party's hold, or of the hold that it waits for */
    /* A holder's fencing token; 0 for a waiter. For a shared hold it may be above the hold's own
     * token, but it is below that of every exclusive hold after it. */
    uint64_t token;
    int64_t elapsed_ns;   /* for how long the party has held the lock, or waited for it */
    int64_t remaining_ns; /* for how long a holder's hold still counts; -1 for a waiter */
    const char *note;     /* a holder's note (hf_set_note); NULL: none, not known, or a waiter. The
                             note of a holder on another host may be cut off */
};

/* How a hold ended without a release. A later version may have more kinds. */
enum hf_ending {
    HF_ENDING_UNKNOWN = 0,
    HF_ENDING_PROCESS = 1, /* the hold's process ended, or dropped the hold without a release */
    HF_ENDING_BROKEN = 2,  /* an administrator broke the hold */
    HF_ENDING_LEASE = 3,   /* the hold's lease_ns was over */
    HF_ENDING_STALL = 4,   /* hf_progress was not called for the hold's max_stall_ns */
    HF_ENDING_SESSION = 5, /* the session of the hold's host ended: that host vanished */
    HF_ENDING_DAMAGE = 6,  /* an agent found invalid bytes in the memory that processes share */
};

/* The ended hold for which a lock-delay keeps the lock closed. If closed_ns is 0: the hold that an
 * administrator broke without a lock-delay in the last 10 s (HF_ENDING_BROKEN). As far as it is
 * known: a number that is not known is -1, and a text that is not known is NULL. */
struct hf_behind {
    const char *agent; /* the name of the agent on the hold's host */
    int64_t pid;       /* the process, in the agent's PID namespace */
    int64_t uid;
    const char *command;
    enum hf_ending ending;
    int64_t elapsed_ns;   /* how long ago the hold ended */
    const char *by_agent; /* HF_ENDING_BROKEN: the agent of the administrator that broke the hold */
    int64_t by_uid;       /* HF_ENDING_BROKEN: that administrator */
    const char *note;     /* the note on the hold (hf_set_note) */
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
    const struct hf_behind *behind; /* NULL: there is no such hold, or nothing is known */
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

/* Returns the path of the socket of this client's agent (struct hf_options says where a client
 * looks for an agent). The string belongs to the client. NULL if client is NULL. Any thread may
 * call this. */
const char *hf_socket(const hf_client *client);

enum hf_session_state { HF_SESSION_SAFE = 0, HF_SESSION_JEOPARDY = 1, HF_SESSION_LOST = 2 };
enum hf_voter_state { HF_VOTER_UP = 0, HF_VOTER_DOWN = 1, HF_VOTER_REFUSED = 2 };

struct hf_voter_info {
    const char *name;
    const char *address; /* NULL if the voter has no address (a cell of one host) */
    enum hf_voter_state state;
};

struct hf_status {
    const char *agent;
    const char *cell;
    const char *role; /* "voter" or "observer" */
    const char *version;
    enum hf_session_state session_state;
    uint64_t session_epoch;
    /* the time until the session's lease ends; negative after its end */
    int64_t session_remaining_ns;
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
 * One fact that the agent knows about itself, its host or the cell. `holdfast doctor` judges these
 * facts. The set of keys is not part of this interface and changes with versions. A program must
 * ignore keys that it does not know.
 */
struct hf_fact {
    /* the agent that the fact is about; NULL: this host's agent, or the cell */
    const char *subject;
    const char *key; /* such as "round_trip_ns" */
    int64_t value;
    const char *text; /* NULL: none */
};

/* Receives one fact. If it returns another value than 0, the call ends and returns that value. */
typedef int hf_fact_fn(const struct hf_fact *fact, void *arg);

/* Calls fn for each fact. Errors as hf_status. */
int hf_facts(hf_client *client, hf_fact_fn *fn, void *arg);

enum { HF_BREAK_NOW = 1 }; /* a flag of hf_break: the lock opens at once, without the lock-delay */

/* The outcome of a break. */
struct hf_break_info {
    const char *name;
    int error; /* the value that the call returns */
    /* The holds that the break ended, each as it was at that moment; remaining_ns is 0. A host
     * describes at most 16 of its holds, and a call passes on at most 32. */
    const struct hf_party *const *ended; /* ended_count pointers */
    size_t ended_count;
    uint64_t more;     /* the holds that the break ended and that `ended` does not describe */
    int64_t closed_ns; /* for how long the lock-delay still keeps the lock closed; 0: it is open */
    /* The agents that have not answered. If the call returns HF_ETIMEDOUT, their hosts may still
     * have holds. Otherwise these hosts have no hold from before the break any more, but it is not
     * known which of their holds the break ended. */
    const char *const *silent; /* silent_count pointers */
    size_t silent_count;
};

typedef void hf_break_fn(const struct hf_break_info *info, void *arg);

/*
 * Ends every hold of a lock. Only root and the administrators of the lock's namespace may do so.
 * Without HF_BREAK_NOW in flags, the lock then stays closed for the lock-delay of its holders, so
 * that they have time to notice the break. A lock without a holder does not change. 0 means that
 * every hold that began before the call has ended. HF_ETIMEDOUT means that a host that may have a
 * hold did not answer within 2 s; its holds may have ended or not. HF_EFULL means that a host has
 * more holds than it can end at once, or too many breaks are under way: break the lock again.
 * HF_EACCES, HF_EINVAL, HF_ENAMETOOLONG, HF_ENOAGENT, HF_EUNSERVED, HF_EPROTO, HF_ENOMEM,
 * HF_EFORKED.
 */
int hf_break(hf_client *client, const char *name, unsigned flags);

/* Does what hf_break() does, and calls fn once with the outcome, also if not every host has
 * answered in time. fn is not called if the break did not begin, for example because of HF_EACCES.
 * The agents report the holds when they end them, so a hold that had ended by itself is not among
 * them. Errors as hf_break. */
int hf_break_report(hf_client *client, const char *name, unsigned flags, hf_break_fn *fn,
                    void *arg);

/* The kinds of changes of the cell's voters. */
enum hf_member_act {
    HF_MEMBER_ADD = 1, /* a host that runs an agent of the cell becomes a voter */
    HF_MEMBER_REMOVE,  /* a voter becomes an observer, or was lost for good */
    HF_MEMBER_MOVE,    /* a voter listens at another address */
};

/* How far a change of the voters has come. */
enum hf_member_stage {
    HF_MEMBER_REFUSED = 1, /* the change does not take place; `reason` says why */
    HF_MEMBER_LEARNS,      /* the new voter copies the cell's state */
    HF_MEMBER_DECIDES,     /* the voters decide about the change */
    HF_MEMBER_CHOSEN,      /* the cell has changed, but the next change has to wait */
    HF_MEMBER_COMPLETE,    /* a removed voter may be switched off */
};

/* Why a change is refused, or what it waits for. */
enum hf_member_reason {
    HF_MEMBER_NO_REASON = 0,
    HF_MEMBER_NOT_VOTING, /* the voter that was asked does not vote */
    HF_MEMBER_NUMBER,     /* the voters have changed meanwhile */
    HF_MEMBER_INCOMPLETE, /* the change before this one is not complete */
    HF_MEMBER_BUSY,       /* another change is under way */
    HF_MEMBER_SILENT,     /* `subject` does not answer */
    HF_MEMBER_OLDER,      /* `subject` runs a release that cannot change voters */
    HF_MEMBER_IS_VOTER,   /* ADD: `subject` is a voter already */
    HF_MEMBER_NO_VOTER,   /* REMOVE, MOVE: `subject` is no voter */
    HF_MEMBER_MOST,       /* ADD: the cell has as many voters as a cell may have */
    HF_MEMBER_LAST,       /* REMOVE: `subject` is the only voter */
    HF_MEMBER_REJOINING,  /* `subject` starts over */
    HF_MEMBER_RIVAL,      /* another change was decided in the place of this one */
    HF_MEMBER_SAME,       /* MOVE: the voter has that address already */
    HF_MEMBER_IDS,        /* ADD: the cell has used up the numbers of voters */
    HF_MEMBER_OBSERVER,   /* the agent that was asked is no voter; `subject` is one */
    HF_MEMBER_TAKEN,      /* ADD, MOVE: the voter `subject` has that address */
};

/* A change of the voters. The caller zeroes the struct, and sets act, name and address before the
 * first call. The library sets id and number, so that later calls are about the same change. */
struct hf_member_change {
    enum hf_member_act act;
    const char *name;    /* the agent to add, remove or move */
    const char *address; /* of ADD and MOVE: where the agent listens; of REMOVE: NULL */
    uint64_t id;
    uint32_t number;
    uint64_t reserved[6];
};

struct hf_member_info {
    enum hf_member_stage stage;
    enum hf_member_reason reason;
    const char *subject; /* the agent that `reason` is about; NULL: none */
    uint64_t done;       /* how much of the stage is done, of `total` */
    uint64_t total;
};

typedef void hf_member_fn(const struct hf_member_info *info, void *arg);

/*
 * Begins a change of the voters, or asks how far it has come, and calls fn once with the answer. A
 * program calls it again and again with the same struct until the stage is HF_MEMBER_COMPLETE or
 * HF_MEMBER_REFUSED. Only root and the administrators in [agent] of this host's configuration may
 * change the voters. HF_ETIMEDOUT means that no voter has answered within 2 s: call it again.
 * HF_EACCES, HF_EINVAL, HF_EFULL, HF_ENOAGENT, HF_EPROTO, HF_ENOMEM, HF_EFORKED.
 */
int hf_member(hf_client *client, struct hf_member_change *change, hf_member_fn *fn, void *arg);

/* How far a backup of a voter's store has come. */
enum hf_backup_stage {
    HF_BACKUP_COPIES = 1, /* the agent copies the store */
    HF_BACKUP_CHECKS,     /* the agent looks for damage in the copy */
    HF_BACKUP_DONE,       /* the copy is whole, and the call has opened it */
    HF_BACKUP_FAILED,     /* `text` says why */
};

struct hf_backup_info {
    enum hf_backup_stage stage;
    const char *text; /* HF_BACKUP_FAILED: why; else NULL */
    uint64_t done;    /* how much is copied, of `total` */
    uint64_t total;
    uint64_t commit; /* HF_BACKUP_DONE: the last commit that the copy has, and its lock names */
    uint64_t locks;
    uint64_t bytes;
};

typedef void hf_backup_fn(const struct hf_backup_info *info, void *arg);

/*
 * Begins a backup of the store of this host's agent, which is a voter, or asks how far it has come,
 * and calls fn once with the answer. A program calls it again and again until the stage is
 * HF_BACKUP_DONE or HF_BACKUP_FAILED. With HF_BACKUP_DONE, *fd is a descriptor from which the copy
 * can be read, and which the caller closes; otherwise it is -1. An agent makes one backup at a
 * time, and drops one for which nobody has asked for 10 s. A backup is good for
 * holdfastd --recover, and for nothing else. Only root and the administrators in [agent] may make
 * one. HF_EACCES, HF_EINVAL, HF_ENOAGENT, HF_EPROTO, HF_ENOMEM, HF_EFORKED.
 */
int hf_backup(hf_client *client, int *fd, hf_backup_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif

#endif
