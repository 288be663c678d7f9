/*
 * The store: what an agent must not forget, kept in one SQLite database that anyone can open with
 * `sqlite3 holdfast.db`.
 *
 * WAL mode, synchronous=FULL: a commit is one write and one flush of the log. The whole database is
 * locked while it is open, so a second agent on the same state_dir cannot open it. All puts and
 * deletes between store_begin() and store_commit() become durable together, or not at all.
 *
 * A call that fails leaves one line of text (what, where, what was expected) in store_error().
 * After a failed store_put_...(), store_del_...() or store_commit() nothing of the batch is durable
 * for certain, and the process must not act on it: the agent ends.
 *
 * Only one thread at a time may use a store.
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
    struct message_agent cell; /* by the rules of an agent's name */
    struct message_agent agent;
    /* For a new store. epoch: the epoch of the agent's last session, if it may have had one before
     * its store was lost; 0: it had none. No epoch may be used twice. */
    uint32_t epoch;
    bool rejoin;
    uint32_t kept;       /* if rejoin is set: N of PATH.replaced-N, the old store; 0: there is
                          * none */
    uint64_t kept_id[2]; /* and the old store's id; zeros: it could not be read */
    /* Called for each region in a store of an older format before that is migrated. If it returns
     * false, the store stays as it is and is not opened. NULL: it may be migrated. */
    void *arg;
    bool (*may_migrate)(void *arg, const char *space, const char *shm_name);
};

struct store_meta {
    uint64_t store_id[2];   /* random, and durable before store_open() returns */
    bool foreign;           /* store_open() failed: the store belongs to another cell or agent */
    uint32_t membership;    /* 1 in a new store */
    uint32_t session_epoch; /* of the agent's last session; 0: none yet */
    uint32_t round;         /* the coordinator's last round; 0: none yet */
    uint64_t commit;        /* number of the last commit; every store_commit adds 1 */
    bool rejoin;            /* the store starts over, and has not finished */
    bool created;           /* store_open() made this store */
    uint32_t migrated_from; /* the format before a migration; 0: none took place */
    bool held;              /* store_open() failed: may_migrate() returned false */
};

struct store_slot {
    const char *space; /* the namespace, with its final zero */
    uint32_t slot;
    const uint8_t *name;
    size_t length;
};

/* Each function is called once for each row, in the order promise, register, mark, region, slot,
 * checkpoint, member, seen. A table whose function is NULL is not read. If a function returns
 * false, the load fails, and the error says "does not fit". Strings are valid during the call. */
struct store_reader {
    void *arg;
    void (*registers)(void *arg, uint64_t count); /* how many registers follow */
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
 * Opens the database at path and locks it. If it is missing, it is made (mode 0600; its folder must
 * exist). On failure returns NULL, and error (STORE_ERROR_MAX bytes) says why: it is in use by
 * another agent, belongs to another cell or agent, is of a newer format or damaged, or a system
 * call failed. The caller closes the result with store_close().
 *
 * A store of an older format is migrated in one transaction, after a durable copy PATH.vN.bak was
 * made (N: the old format). If that fails or is killed, the store is as it was.
 */
struct store *store_open(const char *path, const struct store_identity *identity,
                         struct store_meta *meta, char *error) __attribute__((warn_unused_result));

enum { STORE_KEPT_MAX = 4096 + 32 };

/*
 * Lets a voter start over: replaces the database at path (which may be missing or damaged) by an
 * empty one with a new store id and meta.rejoin, in one step. The old one is kept beside it, and
 * kept (STORE_KEPT_MAX bytes) receives its path, PATH.replaced-N, or "" if there was none. The new
 * database continues the epoch of the old one, or identity->epoch if that is higher. On failure
 * nothing has changed, and error (STORE_ERROR_MAX bytes) says why: the database is in use or
 * belongs to another agent, or a system call failed.
 */
bool store_start_over(const char *path, const struct store_identity *identity, char *kept,
                      char *error) __attribute__((warn_unused_result));

/*
 * Takes back a start over of which no other voter knows yet: replaces the database at path, in one
 * step, by the one that store_start_over() kept. kept (STORE_KEPT_MAX bytes) receives the name that
 * the old one had. This is safe, for the new store has promised nothing. The old store's session
 * does not go on. On failure the store is still the new one, and error says why: the database is in
 * use or does not start over, other voters know of it, or the old one is missing or cannot be read.
 * There is one exception: if the folder cannot be made durable (error says so), the store is
 * already the old one.
 */
bool store_undo_start_over(const char *path, const struct store_identity *identity, char *kept,
                           char *error) __attribute__((warn_unused_result));

/* Closes the database; an open batch is rolled back. NULL is allowed. */
void store_close(struct store *store);

/* The text of the last failure; valid until the next call. */
const char *store_error(const struct store *store);

/* Reads the rows and gives them to the reader's functions. A value that this program would never
 * have written is an error, which names the table and what was expected. */
bool store_load(struct store *store, const struct store_reader *reader)
    __attribute__((warn_unused_result));

bool store_begin(struct store *store) __attribute__((warn_unused_result));
/* Makes the batch durable; *commit is its number. */
bool store_commit(struct store *store, uint64_t *commit) __attribute__((warn_unused_result));

/* Puts an action of the quorum core that persists; any other action is a bug. Of a value's shares
 * only those that count are written. */
bool store_put_action(struct store *store, const struct action *action)
    __attribute__((warn_unused_result));

bool store_put_session_epoch(struct store *store, uint32_t epoch)
    __attribute__((warn_unused_result));
bool store_put_membership(struct store *store, uint32_t membership)
    __attribute__((warn_unused_result));

/* Reads the rules of the cell that the agent had when it first ran with this store. *found is false
 * if it never ran with rules (a new store, or one of format 1). Returns false on an error. */
bool store_rules(struct store *store, struct message_rules *rules, bool *found)
    __attribute__((warn_unused_result));
/* Writes the rules. To be called within a batch. */
bool store_put_rules(struct store *store, const struct message_rules *rules)
    __attribute__((warn_unused_result));

/* The regions of this agent, and the slot of each lock. A put replaces the row. */
bool store_put_region(struct store *store, const char *space, const char *shm_name)
    __attribute__((warn_unused_result));
/* Deletes all slots of a namespace. */
bool store_del_slots(struct store *store, const char *space) __attribute__((warn_unused_result));
/* Deletes a region and its slots. */
bool store_del_region(struct store *store, const char *space) __attribute__((warn_unused_result));
bool store_put_slot(struct store *store, const struct store_slot *slot)
    __attribute__((warn_unused_result));
bool store_del_slot(struct store *store, const char *space, uint32_t slot)
    __attribute__((warn_unused_result));

/* Moves the log's pages into the database file. To be called when the agent has nothing else to do,
 * so that commits need no checkpoint. Cheap if the log is short. */
bool store_idle(struct store *store) __attribute__((warn_unused_result));

#endif
