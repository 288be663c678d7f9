/*
 * Shared by the files of members (members.h lists them). Two of them call each other:
 * members_stores.c and members_rejoin.c. A phase of starting over ends with a change of this
 * voter's line or status, which members_stores.c keeps. When the record of stores changes,
 * whatever the phase has counted is counted anew.
 */
#ifndef QUORUM_MEMBERS_PRIVATE_H
#define QUORUM_MEMBERS_PRIVATE_H

#include "core/base/log_limit.h"
#include "members.h"

/* A voter (this one included) and its store. */
struct member {
    struct message_member line; /* the voter's line of the record; generation 0 if there is none */
    uint64_t store_id[2];       /* while there is no record: the store id in the voter's HELLO */
    /* For another voter: the id of its store, the highest commit of that store that a message
     * reported, and the highest that this voter has persisted. For this voter: kept_commit is 0
     * once the store votes; before that it is the commit that the store had when it was opened
     * (members_stores.c). */
    uint64_t seen_id[2];
    uint64_t seen_commit;
    uint64_t kept_commit;
    int64_t seen_ns;  /* when a message last reported seen_commit or a higher commit; 0: never */
    int64_t hello_ns; /* when to send that voter HELLO again */
    uint8_t status;   /* enum message_voter_status, as the voter last reported it */
    bool agrees;      /* EMPTY: that voter is EMPTY too, and has received the same store ids */
    bool answered;    /* LISTED: that voter has seen no commit that this store lacks */
    bool same;        /* that voter's record equals this voter's */
    bool differs;     /* that voter's rules contradict this voter's */
    bool differs_logged;
};

enum rejoin_phase { REJOIN_NONE = 0, REJOIN_LEARN, REJOIN_REPORT, REJOIN_PREPARE, REJOIN_SYNC };

/* Masks have one bit for each voter. */
struct rejoin {
    uint8_t phase; /* enum rejoin_phase */
    bool anew;     /* PREPARE: a voter has promised a higher ballot, so a new ballot is needed */
    uint8_t seen;  /* LEARN: the voters that sent their record */
    uint8_t known; /* REPORT: the voters that have the new line */
    uint8_t promised_all;
    uint8_t promised_change; /* PREPARE: the voters that promised in the next record's register */
    uint8_t promised[MESSAGE_PARTITIONS];
    uint8_t synced_all;
    uint8_t synced[MESSAGE_PARTITIONS];
    uint8_t synced_marks;
    uint32_t seen_generation; /* the highest generation of any other store of this voter */
    uint16_t next_sync[MESSAGE_VOTERS_MAX]; /* SYNC, by voter: the listing to begin next */
    uint64_t ballot;
    int64_t next_ns; /* PREPARE, SYNC: when to send again */
};

/* The wait after a recovery of the cell. */
struct recover {
    int64_t votes_ns; /* when this voter begins to vote; 0: this voter does not wait */
    int64_t log_ns;   /* when to log again that this voter waits */
};

struct members {
    struct member of[MESSAGE_VOTERS_MAX + 1]; /* the last entry: this agent, if it is no voter */
    bool voted;             /* the store has voted, perhaps for a voter that was removed since */
    bool proven;            /* this process has voted, so the store is no old copy */
    bool joins;             /* LISTED: the store has not voted yet for the voter that was added */
    uint8_t status;         /* enum message_voter_status */
    bool opened;            /* whether opened_commit is set */
    uint64_t opened_commit; /* the store's commit when it was opened */
    uint64_t vote_commit;   /* from this commit on, messages report the current commit */
    uint64_t nonce;         /* this voter's HELLO carries it, and an answer must repeat it */
    uint64_t rules_digest;  /* the digest of the rules and of the voters of record 1 */
    uint64_t durations_digest;    /* the digest of the rules without the voters */
    uint32_t number;              /* the membership number in the headers that this voter sends */
    struct message_voters voters; /* the record that this agent uses */
    uint64_t voters_digest;
    int64_t *told_ns; /* by agent: when it was last sent VOTERS or ASK_VOTERS; 0: never */
    /* limits the log lines about agents that use another record of the same number */
    struct log_limit conflict_limit;
    int64_t ask_ns;  /* when to ask the others again whether the record is complete */
    int64_t seen_ns; /* the earliest time to persist again what was seen of other stores */
    int64_t since_ns;
    int64_t wait_log_ns;
    uint64_t commit; /* the last commit that the driver reported durable */
    bool committing; /* the driver is making another commit */
    struct rejoin rejoin;
    struct recover recover;
};

/* ---- members_stores.c ---- */

/* This voter's entry, or this agent's if it is no voter. */
struct member *members_own(struct quorum *quorum);
/* Returns whether this store has the record of stores. */
bool members_have_record(const struct quorum *quorum);
/* Makes the membership number from the record's generations. Counts nothing anew. */
void members_renumber(struct quorum *quorum);
void members_set_line(struct quorum *quorum, uint32_t voter, const struct message_member *line);
/* As members_set_line(), but keeps what was counted. */
void members_put_line(struct quorum *quorum, uint32_t voter, const struct message_member *line);
/* Sends every voter HELLO at the next tick, because something changed here. */
void members_announce(struct quorum *quorum);
/* Asks again for everything that was counted under another record of stores. */
void members_recount(struct quorum *quorum);
/* As members_recount(), but leaves the ballots as they are. */
void members_count_votes_anew(struct quorum *quorum);
/* Notes the cell's rules, which name the voters. */
void members_note_rules(struct quorum *quorum);
/* Returns the commit that the store had when it was opened. If an earlier process opened the store
 * and never voted, returns the lower commit that the store had then. */
uint64_t members_opened_commit(const struct quorum *quorum);
/* Persists the commit that the store had when it was opened, in the first commit of this process.
 * Does nothing if an earlier process has persisted it. */
void members_keep_opened_commit(struct quorum *quorum);
void members_vote(struct quorum *quorum);
/* Refuses this store. `by` reported that, or NULL. The caller adds the reason to the log line. */
struct action_log *members_refuse(struct quorum *quorum, const struct message_agent *by,
                                  int64_t number);
/* Refuses this store, because it is not the one that the record names. `by` reported that. */
void members_refuse_other(struct quorum *quorum, const struct message_agent *by);

/* ---- members_voters.c ---- */

/* At the start of a store that never voted, if the cell has changed its voters: forgets the lines
 * of the record of stores. They may be outdated, and the other voters send the present ones. */
void members_forget_lines(struct quorum *quorum);
/* Adds the lines that the record of voters has and this store lacks. It lacks them if the agent was
 * added, and restarted before it used the record that adds it. */
void members_add_lines(struct quorum *quorum);
/* Uses the voters of the configuration, as the record of number 1. */
void members_begin_voters(struct quorum *quorum);
int64_t members_voters_tick(struct quorum *quorum);

/* ---- members_rejoin.c ---- */

void rejoin_start(struct quorum *quorum);
void rejoin_recount(struct quorum *quorum);
void rejoin_note_line(struct quorum *quorum, const struct message_member *line);
void rejoin_answered(struct quorum *quorum, uint32_t voter, const struct message_hello *hello);
void rejoin_synced(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
                   uint32_t partition);
/* Returns whether that voter has done its part of the current phase. */
bool rejoin_has(const struct quorum *quorum, uint32_t voter);
int64_t rejoin_tick(struct quorum *quorum);

/* ---- members_wait.c ---- */

/* Logs why this voter does not vote yet. rejoin_there: if this voter starts over, the voters that
 * have done their part, by bit. */
void members_log_wait(struct quorum *quorum, uint8_t rejoin_there);

/* ---- members_recover.c ---- */

/* Begins the wait. Returns false if the configuration has none. */
bool recover_start(struct quorum *quorum);
/* Returns whether this voter waits. recover_is_over() and recover_tick() are only for a voter that
 * waits. */
bool recover_waits(const struct quorum *quorum);
/* Returns how long this voter still waits; 0: it does not wait. */
int64_t recover_left_ns(const struct quorum *quorum);
/* Begins the wait anew, because the clock was wrong. Does nothing if this voter does not wait. */
void recover_anew(struct quorum *quorum);
/* Returns whether the wait is over, and notes that: this voter then does not wait any more. */
bool recover_is_over(struct quorum *quorum);
/* Logs the wait where that is due. Returns when to call recover_is_over() again. */
int64_t recover_tick(struct quorum *quorum);

#endif
