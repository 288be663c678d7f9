/* Shared by members.c and members_rejoin.c. */
#ifndef QUORUM_MEMBERS_PRIVATE_H
#define QUORUM_MEMBERS_PRIVATE_H

#include "members.h"

/* A voter, this one included, and its store. */
struct member {
    struct message_member line; /* of the record; generation 0: there is none */
    uint64_t store_id[2];       /* without a record: the store that it said HELLO with */
    /* The highest commit that was heard of the store, and how much of that is durable. Of the own
     * store: not 0 until it votes, what it had when it last did. */
    uint64_t seen_id[2];
    uint64_t seen_commit;
    uint64_t kept_commit;
    int64_t hello_ns; /* when it is to hear HELLO again */
    uint8_t status;   /* enum message_standing, as it said last */
    bool agrees;      /* EMPTY: it is empty too, and knows the same stores */
    bool answered;    /* LISTED: it has seen no commit that is not here */
    bool same;        /* its record is the same */
    bool differs;     /* its rules do */
    bool differs_told;
};

enum rejoin_phase { REJOIN_NONE = 0, REJOIN_LEARN, REJOIN_TELL, REJOIN_PREPARE, REJOIN_PULL };

/* Masks are of voters. */
struct rejoin {
    uint8_t phase; /* enum rejoin_phase */
    bool anew;     /* PREPARE: a higher promise refused this ballot */
    uint8_t heard; /* LEARN: told their record */
    uint8_t known; /* TELL: have the new line */
    uint8_t promised_all;
    uint8_t promised[MESSAGE_PARTITIONS];
    uint8_t pulled_all;
    uint8_t pulled[MESSAGE_PARTITIONS];
    uint8_t pulled_marks;
    uint32_t heard_generation; /* the highest of another store of this voter */
    uint32_t next_pull;
    uint64_t ballot;
    int64_t next_ns; /* PREPARE, PULL: when to go on */
};

struct members {
    struct member of[MESSAGE_VOTERS_MAX];
    uint8_t status;         /* enum message_standing */
    bool opened;            /* opened_commit is known */
    uint64_t opened_commit; /* of the store when it was opened */
    uint64_t vote_commit;   /* from this one on, messages tell commits */
    uint64_t nonce;         /* what answers to our HELLO echo */
    uint64_t rules_digest;
    uint32_t number; /* what goes out as the header's membership */
    int64_t seen_ns; /* when what was seen of others may be kept again */
    int64_t since_ns;
    int64_t wait_log_ns;
    uint64_t commit; /* the last one that the driver knows durable */
    bool committing; /* another is on its way */
    struct rejoin rejoin;
};

/* ---- members.c ---- */

void members_set_line(struct quorum *quorum, uint32_t voter, const struct message_member *line);
/* Every voter hears soon what has changed here. */
void members_tell(struct quorum *quorum);
void members_vote(struct quorum *quorum);

/* ---- members_rejoin.c ---- */

void rejoin_start(struct quorum *quorum);
void rejoin_recount(struct quorum *quorum);
void rejoin_hear_line(struct quorum *quorum, const struct message_member *line);
void rejoin_answered(struct quorum *quorum, uint32_t voter, const struct message_hello *hello);
void rejoin_pulled(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
                   uint32_t partition);
/* Whether that voter has done its part of the present phase. */
bool rejoin_has(const struct quorum *quorum, uint32_t voter);
int64_t rejoin_tick(struct quorum *quorum);

#endif
