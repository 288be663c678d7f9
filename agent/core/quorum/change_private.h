/* Shared by change.c, change_complete.c, change_learn.c and change_voters.c. change.c calls the
 * others. */
#ifndef QUORUM_CHANGE_PRIVATE_H
#define QUORUM_CHANGE_PRIVATE_H

#include "change.h"

/* The change that this voter proposes. */
struct proposal {
    uint8_t stage; /* enum message_change_stage; 0: none */
    uint8_t reason;
    struct message_agent subject;
    struct message_member_asked asked;
    uint32_t number;              /* the number of the record that the change makes */
    struct message_voters record; /* the record that is proposed; count 0: not known yet */
    bool read;                    /* `record` was read from an acceptor */
    /* For a removal in the stage DECIDES. parting: the voter may not coordinate any more. leaves:
     * it is handing its partitions over, before the ballot begins. */
    bool parting;
    bool leaves;
    int64_t leaves_ns; /* when `leaves` ends at the latest */
    bool accepting;
    uint64_t ballot;
    uint64_t best;     /* the newest ballot under which an acceptor had accepted a record */
    uint8_t promised;  /* the voters of n that promised, by bit */
    uint8_t accepted;  /* the voters of n that accepted, by bit */
    bool newcomer_has; /* the newcomer accepted */
    int64_t next_ns;   /* when to repeat the messages */
    int64_t until_ns;  /* when to give the proposal up */
    /* LEARNS */
    uint64_t learn_id;
    uint64_t store_id[2]; /* the newcomer's store */
    int64_t learned_ns;   /* when the newcomer last reported */
    bool ready;
    uint32_t copied, total;
};

/* What is known about the completion of the present number. */
struct completion {
    uint8_t knows;      /* the voters that use the present number, by bit */
    bool removed_knows; /* the removed voter uses the present number */
    int64_t since_ns;   /* since when a majority of the previous number is known to use the present
                         * one; 0: it is not known */
    bool guarded;       /* all sessions were counted as just renewed at since_ns */
    struct message_partitions settled;
    uint8_t listed;  /* the voters whose marks were read, by bit */
    uint8_t lacking; /* the voters with a mark for which there was no room here, by bit */
    int64_t next_ns;
};

/* The state of a store that learns. */
struct learning {
    uint64_t id; /* the id of the proposer's change; 0: this store does not learn */
    struct message_agent proposer;
    int64_t until_ns; /* this store ceases to learn if no LEARN comes before this time */
    int64_t next_ns;  /* when to report again */
    int64_t rest_ns;  /* no pass begins before this time */
    uint32_t passes;  /* how often all partitions were read */
    uint32_t copied;  /* partitions that were read in this pass */
    struct message_partitions read;
};

struct change {
    struct quorum_change row; /* this acceptor's row of the next number; number 0: it has none */
    struct proposal proposal;
    struct completion completion;
    struct learning learning;
    /* when all sessions were counted as just renewed for the last two changes, the newer one last;
     * 0: not in this process */
    int64_t guarded_ns[2];
    int64_t *older_ns; /* by agent: when a message of an older version last came; 0: never */
    /* by agent and voter: up to this epoch, that voter has marked the agent's sessions as ended.
     * This voter has read that under the present record of voters. */
    uint32_t (*epochs)[MESSAGE_VOTERS_MAX];
};

/* ---- change_voters.c ---- */

bool change_answers(const struct quorum *quorum, uint32_t voter);
/* Returns a voter that does not answer, although the change needs it: it stays a voter, if there is
 * such a one. Returns NULL if those that answer are enough to decide the change or, in the stage
 * CHOSEN, to complete it. */
const struct message_agent *change_awaits(const struct quorum *quorum,
                                          const struct proposal *proposal);
/* Returns why the change cannot begin with the voters that answer, and which voter is the cause;
 * MESSAGE_CHANGE_NONE if it can. An add needs an answer from every present voter. Otherwise the
 * newcomer might fail after it has accepted, and later changes would wait for it and for the silent
 * voter. */
enum message_change_reason change_lacks(const struct quorum *quorum,
                                        const struct proposal *proposal,
                                        const struct message_agent **subject);

/* ---- change_complete.c ---- */

int64_t completion_tick(struct quorum *quorum);

/* ---- change_learn.c ---- */

/* Returns whether this store has copied all it needs to join by that record. */
bool learning_is_ready(const struct quorum *quorum);
int64_t learning_tick(struct quorum *quorum);

#endif
