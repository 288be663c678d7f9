/*
 * The store: what an agent must not forget, in one SQLite database that anyone can open with
 * `sqlite3 holdfast.db`.
 *
 * WAL mode, synchronous=FULL: a commit is one write and one flush of the log. The whole database is
 * locked for as long as it is open, so a second agent on the same state_dir is refused. All that is
 * put or deleted between store_begin() and store_commit() becomes durable together, or not at all.
 *
 * A call that fails leaves one line of text (what, where, what was expected) in store_error().
 * After a failed store_put_...(), store_del_...() or store_commit() nothing of the batch is durable
 * for certain, and the process must not act on it: the agent ends.
 *
 * One thread.
 */
#ifndef IO_STORE_H
#define IO_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/quorum.h"

struct store;

enum { STORE_ERROR_MAX = 512, STORE_FORMAT = 2 };

/* The cell and the agent that the database belongs to. A store of another cell or agent is
 * refused. */
struct store_identity {
    struct message_agent cell; /* same rules as an agent name */
    struct message_agent agent;
    /* For a store that gets made. epoch: of the last session, if the agent may have had any
     * before (a store that was lost): an epoch is never used twice; 0: it had none. */
    uint32_t epoch;
    bool rejoin;
    uint32_t kept;       /* rejoin: N of PATH.replaced-N, which it replaces; 0: there was none, */
    uint64_t kept_id[2]; /* and its store id; zeros: it could not be read */
    /* Is asked for each region of a store of an older format before that is migrated; false: it is
     * left as it is, and not opened. NULL: it may be. */
    void *arg;
    bool (*may_migrate)(void *arg, const char *space, const char *shm_name);
};

struct store_meta {
    uint64_t store_id[2];   /* drawn at random and durable before store_open returns */
    bool foreign;           /* store_open failed: it belongs to another cell or agent */
    uint32_t membership;    /* 1 in a new store */
    uint32_t session_epoch; /* of the agent's last session; 0: none yet */
    uint32_t round;         /* the coordinator's last; 0: none yet */
    uint64_t commit;        /* number of the last commit; every store_commit adds 1 */
    bool rejoin;            /* it starts over, and is not done with it */
    bool created;           /* this open made it */
    uint32_t migrated_from; /* the format that it had before; 0: this one */
    bool held;              /* store_open failed: may_migrate said no */
};

struct store_slot {
    const char *space; /* the namespace, terminated */
    uint32_t slot;
    const uint8_t *name;
    size_t length;
};

/* Each is called once a row, in the order promise, register, mark, region, slot, checkpoint,
 * member, seen. A table whose function is NULL is not read. false ends the load, which then fails
 * with "...: does not fit". Strings live as long as the call. */
struct store_reader {
    void *arg;
    void (*registers)(void *arg, uint64_t count); /* how many there are, ahead of them */
    bool (*promise)(void *arg, const struct quorum_promise *promise);
    bool (*reg)(void *arg, const struct quorum_register *reg);
    bool (*mark)(void *arg, const struct message_session *mark);
    bool (*region)(void *arg, const char *space, const char *shm_name);
    bool (*slot)(void *arg, const struct store_slot *slot);
    bool (*checkpoint)(void *arg, const struct quorum_checkpoint *checkpoint);
    bool (*member)(void *arg, const struct quorum_member *member);
    bool (*seen)(void *arg, const struct quorum_seen *seen);
};

/*
 * Opens or makes the database at path (made 0600; its folder exists) and locks it. NULL: error (of
 * STORE_ERROR_MAX bytes) says why: in use by another agent, another cell's or agent's, of a newer
 * format, damaged, or what the system said. The result is the caller's, for store_close.
 *
 * A store of an older format is migrated in one transaction, after a copy of it was made durable as
 * PATH.vN.bak (N: the old format). If that fails, or is killed, it is as it was.
 */
struct store *store_open(const char *path, const struct store_identity *identity,
                         struct store_meta *meta, char *error) __attribute__((warn_unused_result));

enum { STORE_KEPT_MAX = 4096 + 32 };

/*
 * A voter starts over: replaces the database at path (it may be missing, or damaged) by an empty
 * one with a new store id and meta.rejoin, in one step. The old one stays beside it: kept (of
 * STORE_KEPT_MAX bytes) gets its path, PATH.replaced-N, or "" if there was none. The epoch of the
 * last session goes on from the old one, or from identity->epoch if that is higher. false: error
 * (of STORE_ERROR_MAX bytes) says why: the database is in use, or is another agent's, or what the
 * system said; then nothing has changed.
 */
bool store_start_over(const char *path, const struct store_identity *identity, char *kept,
                      char *error) __attribute__((warn_unused_result));

/*
 * Takes back a start over of which no other voter knows yet: the database at path gets to be the
 * one again that store_start_over() kept, in one step; kept (of STORE_KEPT_MAX bytes) is
 * the name that it had. Safe, since the new store was only ever asking. The session of before does
 * not go on. false: error says why: the database is in use, does not start over, or others know of
 * it, or the old one is not there or cannot be read; then the store is still the new one. Only if
 * the folder cannot be made durable, which error says, it is the old one already.
 */
bool store_undo_start_over(const char *path, const struct store_identity *identity, char *kept,
                           char *error) __attribute__((warn_unused_result));

/* NULL is allowed. An open batch is rolled back. */
void store_close(struct store *store);

/* The text of the last failure; lives until the next call. */
const char *store_error(const struct store *store);

/* Hands over the rows that the reader asks for. A value that this program would never have written
 * is an error, with the table and what was expected. */
bool store_load(struct store *store, const struct store_reader *reader)
    __attribute__((warn_unused_result));

bool store_begin(struct store *store) __attribute__((warn_unused_result));
/* Makes the batch durable; *commit is its number. */
bool store_commit(struct store *store, uint64_t *commit) __attribute__((warn_unused_result));

/* The actions of the quorum core that persist; another is a bug. Of a value's shares only those
 * that count are read. */
bool store_put_action(struct store *store, const struct action *action)
    __attribute__((warn_unused_result));

bool store_put_session_epoch(struct store *store, uint32_t epoch)
    __attribute__((warn_unused_result));
bool store_put_membership(struct store *store, uint32_t membership)
    __attribute__((warn_unused_result));

/* The rules of the cell, as they were when the agent first ran with this store. *found is false: it
 * never ran with rules (a new store, or one of format 1). false: an error. */
bool store_rules(struct store *store, struct message_rules *rules, bool *found)
    __attribute__((warn_unused_result));
/* Within a batch. */
bool store_put_rules(struct store *store, const struct message_rules *rules)
    __attribute__((warn_unused_result));

/* The regions of this agent, and which slot of a region a lock has. Putting replaces. */
bool store_put_region(struct store *store, const char *space, const char *shm_name)
    __attribute__((warn_unused_result));
/* All slots of a namespace. */
bool store_del_slots(struct store *store, const char *space) __attribute__((warn_unused_result));
/* Its slots go with it. */
bool store_del_region(struct store *store, const char *space) __attribute__((warn_unused_result));
bool store_put_slot(struct store *store, const struct store_slot *slot)
    __attribute__((warn_unused_result));
bool store_del_slot(struct store *store, const char *space, uint32_t slot)
    __attribute__((warn_unused_result));

/* Moves what the log has into the database file, when the agent has nothing better to do: keeps the
 * checkpoint out of the commits. Cheap if there is little. */
bool store_idle(struct store *store) __attribute__((warn_unused_result));

#endif
