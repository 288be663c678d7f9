/*
 * The store: everything that an agent must not forget, in one SQLite database that people can open
 * with `sqlite3 holdfast.db`.
 *
 * WAL mode, synchronous=FULL: a commit is one write and one flush of the log. The whole database is
 * locked while it is open, so a second agent on the same state_dir cannot open it. All puts and
 * deletes between store_begin() and store_commit() become durable together, or not at all.
 *
 * A call that fails leaves one line of text (what, where, what was expected) in store_error().
 * After a failed store_put_...(), store_del_...() or store_commit() it is uncertain whether the
 * batch is durable. The process must not act on the batch, so the agent ends.
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

enum {
    STORE_ERROR_MAX = 512,
    STORE_FORMAT = 2, /* the format of a new store */
    /* A store gets this format when its cell changes its voters. Nothing else differs. An older
     * release refuses the format; it would otherwise use the voters of the configuration. */
    STORE_FORMAT_CHANGED = 3,
};

/* The cell and the agent that the database belongs to. A store of another cell or agent is
 * refused. */
struct store_identity {
    struct message_agent cell; /* follows the rules of an agent's name */
    struct message_agent agent;
    /* For a new store. epoch: the epoch of the agent's last session, if it may have had one before
     * its store was lost; 0: it had none. No epoch may be used twice. */
    uint32_t epoch;
    bool rejoin;
    uint32_t kept;       /* if rejoin is set: the N of PATH.replaced-N, the old store; 0: there is
                          * none */
    uint64_t kept_id[2]; /* if rejoin is set: the old store's id; zeros: it could not be read */
    /* The store may be a backup. No agent starts with one. */
    bool takes_backup;
    /* For a new store: the record of voters in the store that it replaces. Number 0: there is
     * none. */
    struct message_voters voters;
    /* Called for each region in a store of an older format, before the store is migrated. If it
     * returns false, the store is not changed and not opened. NULL: the store may be migrated. */
    void *arg;
    bool (*may_migrate)(void *arg, const char *space, const char *shm_name);
};

struct store_meta {
    uint64_t store_id[2];   /* random, and durable before store_open() returns */
    bool foreign;           /* store_open() failed because the store belongs to another cell or
                             * agent */
    uint32_t membership;    /* the version of the record of stores; 1 in a new store */
    uint32_t session_epoch; /* the epoch of the agent's last session; 0: none yet */
    uint32_t round;         /* the coordinator's last round; 0: none yet */
    uint64_t commit;        /* the number of the last commit; every store_commit() adds 1 */
    bool backup;            /* the store is a backup; only with store_identity.takes_backup */
    /* How long the only voter of a recovered cell waits before it votes; 0: it does not wait. */
    uint32_t recovery_wait_ms;
    bool rejoin;            /* a start over of this store has begun and has not finished */
    uint32_t migrated_from; /* the format before a migration; 0: none took place */
    bool held;              /* store_open() failed because may_migrate() returned false */
};

struct store_slot {
    const char *space; /* the namespace; ends with a zero byte */
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
 * exist). On failure returns NULL, and error (STORE_ERROR_MAX bytes) says why: another agent uses
 * it, it belongs to another cell or agent, its format is newer, it is damaged, or a system call
 * failed. The caller closes the result with store_close().
 *
 * A store of an older format is migrated in one transaction, after a durable copy PATH.vN.bak was
 * made (N: the old format). If the migration fails or is killed, the store is unchanged.
 */
struct store *store_open(const char *path, const struct store_identity *identity,
                         struct store_meta *meta, char *error) __attribute__((warn_unused_result));

enum { STORE_KEPT_MAX = 4096 + 32 };

/*
 * Lets a voter start over: replaces the database at path (which may be missing or damaged) by an
 * empty one with a new store id, the old record of voters and meta.rejoin, in one step. The old
 * database is kept beside it, and kept (STORE_KEPT_MAX bytes) receives its path, PATH.replaced-N,
 * or "" if there was none. The new database has the epoch of the old database, or identity->epoch
 * if that is higher. On failure nothing has changed, and error (STORE_ERROR_MAX bytes) says why:
 * the database is in use or belongs to another agent, or a system call failed.
 */
bool store_start_over(const char *path, const struct store_identity *identity, char *kept,
                      char *error) __attribute__((warn_unused_result));

/*
 * Takes back a start over of which no other voter knows yet: replaces the database at path, in one
 * step, by the database that store_start_over() kept. kept (STORE_KEPT_MAX bytes) receives the path
 * that the kept database had. This is safe, because the new store has promised nothing. The old
 * store's session does not go on.
 *
 * On failure the new store stays, and error says why: the database is in use or does not start
 * over, other voters know of it, or the old database is missing or cannot be read. There is one
 * exception: if the folder cannot be made durable (error says so), the old store is in place
 * already.
 */
bool store_undo_start_over(const char *path, const struct store_identity *identity, char *kept,
                           char *error) __attribute__((warn_unused_result));

/*
 * A backup: a copy of the whole store, in a file of its own, which is marked as a backup.
 * store_open() refuses it, unless store_identity.takes_backup is set. It is made in three parts, so
 * that commits go on meanwhile: opening it, many steps, and a check. store_backup_open() and
 * store_backup_step() belong to the thread that uses the store, and are called between batches. The
 * copy has everything that was committed before the last step. store_backup_check() needs no store,
 * and any thread may call it.
 */
struct store_backup;
enum store_backup_result { STORE_BACKUP_FAILED, STORE_BACKUP_MORE, STORE_BACKUP_DONE };

/* Makes the file, which must not exist (mode 0600). On failure returns NULL, and error
 * (STORE_ERROR_MAX bytes) says why. */
struct store_backup *store_backup_open(struct store *store, const char *path, char *error)
    __attribute__((warn_unused_result));
/* Copies some pages. On failure error (STORE_ERROR_MAX bytes) says why. */
enum store_backup_result store_backup_step(struct store_backup *backup, char *error)
    __attribute__((warn_unused_result));
/* Sets *done to the number of pages that are copied, and *total to the number of all pages. */
void store_backup_progress(const struct store_backup *backup, uint64_t *done, uint64_t *total);
/* Ends the copying, after the last step or before it. NULL is allowed. */
void store_backup_close(struct store_backup *backup);

/* What the check found, for display. */
struct store_copied {
    uint64_t commit;    /* the last commit that the copy has */
    uint64_t registers; /* how many lock names it has */
    uint64_t bytes;
};
/* Marks the copy as a backup, checks it, and makes it durable. The check looks for damage
 * (integrity_check), opens the copy as a store, and reads all its rows. */
bool store_backup_check(const char *path, const struct store_identity *identity,
                        struct store_copied *copied, char *error)
    __attribute__((warn_unused_result));
/* Gives a checked copy its name, durably. If `replace` is not set, a file of that name stays, and
 * the call fails. */
bool store_backup_place(const char *made, const char *path, bool replace, char *error)
    __attribute__((warn_unused_result));
/* Removes a copy that is not wanted, and the files beside it. */
void store_backup_remove(const char *path);

/* What a store knows about its cell, for a recovery of the cell. */
struct store_survey {
    bool voted;         /* the store has voted */
    uint64_t registers; /* how many lock names it has; `held` of them are not free */
    uint64_t held;
    uint64_t generation; /* the highest generation of a token */
    uint32_t round;      /* the highest round of a ballot */
    uint32_t seen_count; /* the commits that were seen of other stores */
    struct quorum_seen seen[MESSAGE_VOTERS_MAX];
};
bool store_survey(struct store *store, const struct store_meta *meta, struct store_survey *survey)
    __attribute__((warn_unused_result));

/* The state with which a recovered cell begins anew. */
struct store_recovery {
    struct message_voters voters; /* this agent is the only voter; store_id is filled in */
    uint64_t generation;          /* the generation of all tokens from now on */
    uint32_t round;               /* above every round that may have been used */
    uint32_t wait_ms;             /* struct store_meta.recovery_wait_ms */
};
/*
 * Lets a cell begin anew: replaces the database at path, in one step (like store_start_over()), by
 * one in which every earlier session has ended and no lock is held. The new database has the epochs
 * of all agents that the old one knows, marked as ended. It also has a floor: no token below it is
 * ever issued. Closes the old store in any case. kept (STORE_KEPT_MAX bytes) receives the path of
 * the old database.
 */
bool store_recover(struct store *old, const struct store_identity *identity,
                   struct store_recovery *recovery, char *kept, char *error)
    __attribute__((warn_unused_result));

/* Closes the database; an open batch is rolled back. NULL is allowed. */
void store_close(struct store *store);

/* Returns the text of the last failure; valid until the next call. */
const char *store_error(const struct store *store);

/* Reads the rows and gives them to the reader's functions. If a value is one that this program
 * never writes, the call fails, and the error names the table and what was expected. */
bool store_load(struct store *store, const struct store_reader *reader)
    __attribute__((warn_unused_result));

bool store_begin(struct store *store) __attribute__((warn_unused_result));
/* Makes the batch durable, and sets *commit to its number. */
bool store_commit(struct store *store, uint64_t *commit) __attribute__((warn_unused_result));

/* Puts a persisting action of the quorum core; any other action is a bug. Of a value's shares, only
 * the first share_count are written. */
bool store_put_action(struct store *store, const struct action *action)
    __attribute__((warn_unused_result));

bool store_put_session_epoch(struct store *store, uint32_t epoch)
    __attribute__((warn_unused_result));

/* Reads the rules that the cell had when the agent first ran with this store. Sets *found to false
 * if the agent never ran with rules (the store is new, or of format 1). Returns false on an
 * error. */
bool store_rules(struct store *store, struct message_rules *rules, bool *found)
    __attribute__((warn_unused_result));
/* Writes the rules. Called within a batch. */
bool store_put_rules(struct store *store, const struct message_rules *rules)
    __attribute__((warn_unused_result));

/* Reads the record of voters, or the register in which the next one is decided. Sets *found to
 * false if the store has none. Its agent then uses the record of number 1, which is made from the
 * configuration. Returns false on an error. */
bool store_voters(struct store *store, struct message_voters *voters, bool *found)
    __attribute__((warn_unused_result));
bool store_change_of_voters(struct store *store, struct quorum_change *change, bool *found)
    __attribute__((warn_unused_result));
/* Reads the agent's own row of `seen`: the commit that the store had when it was opened
 * (core/quorum/members_stores.c). Sets row->commit to 0 if there is none. Returns false on an
 * error. */
bool store_opened(struct store *store, const struct message_agent *agent, struct quorum_seen *row)
    __attribute__((warn_unused_result));
/* Finds out whether the store has rows of a quorum core: its agent is a voter, was one, or learned
 * to become one. The agent's own row of `seen` is none: each observer has it. Returns false on an
 * error. */
bool store_has_voted(struct store *store, const struct message_agent *agent, bool *voted)
    __attribute__((warn_unused_result));
/*
 * Empties the store of a voter that was removed: deletes all rows of a quorum core, in one commit,
 * but for the agent's own row of `seen`, which it makes if there is none. So the agent may become a
 * voter again, like any other. Updates *meta.
 *
 * These rows are of no use once the record that removed the voter is complete. From then on no
 * majority counts votes under an earlier number, so no promise has to be kept. The store keeps its
 * commit numbers and its id, because the voters know this host's session by that id. An earlier
 * vote is not taken for a later one, because each vote names the number of its record.
 */
bool store_retire(struct store *store, const struct message_agent *agent, struct store_meta *meta)
    __attribute__((warn_unused_result));
/* Writes the record of voters. Called within a batch. */
bool store_put_voters(struct store *store, const struct message_voters *voters)
    __attribute__((warn_unused_result));

/* Writes the path of a namespace's region. Replaces an earlier row. */
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

/* Moves the log's pages into the database file. Called between batches, so that commits rarely need
 * a checkpoint. Cheap if the log is short. */
bool store_idle(struct store *store) __attribute__((warn_unused_result));

#endif
