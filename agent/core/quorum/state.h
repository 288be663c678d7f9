/*
 * The quorum core's state, and what its files do for each other.
 *
 *   members.c      with which store a voter votes: the record, HELLO, what was seen of stores
 *   rejoin.c       a voter that starts over
 *   bounds.c       numbers in messages that nothing could follow
 *   survey.c       counts and figures for people
 *   quorum.c       memory, loading, events
 */
#ifndef QUORUM_STATE_H
#define QUORUM_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "agents.h"
#include "ballots.h"
#include "core/base/heap.h"
#include "core/base/log_limit.h"
#include "core/base/names.h"
#include "core/quorum.h"
#include "proto/message.h"
#include "queues.h"
#include "record.h"
#include "registers.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "sync.h"
#include "voters.h"

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
    uint8_t standing; /* as it said last */
    bool agrees;      /* EMPTY: it is empty too, and knows the same stores */
    bool answered;    /* LISTED: it has seen no commit that is not here */
    bool same;        /* its record is the same */
    bool differs;     /* its rules do */
    bool differs_told;
};

struct members {
    struct member of[MESSAGE_VOTERS_MAX];
    uint8_t standing;       /* enum message_standing */
    bool opened;            /* opened_commit is known */
    uint64_t opened_commit; /* of the store when it was opened */
    uint64_t vote_commit;   /* from this one on, commits are told */
    uint64_t nonce;         /* what answers to our HELLO echo */
    uint64_t rules_digest;
    uint32_t number; /* what goes out as the header's membership */
    int64_t seen_ns; /* when what was seen of others may be kept again */
    int64_t since_ns;
    int64_t wait_log_ns;
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

/* What was known when this voter started, or began to vote: see bounds.c. */
struct bounds {
    uint32_t round;
    uint32_t generations[MESSAGE_VOTERS_MAX];
    int64_t pressed_ns; /* for how long messages beyond came, one after the other */
    int64_t refused_ns; /* when the last of them came; INT64_MIN: none did */
    struct log_limits told;
};

struct quorum {
    struct quorum_config *config;
    struct names *names;
    struct step *step;
    struct agents *agents;
    struct records *records;
    struct registers *registers;
    struct voters *voters;
    struct sessions *sessions;
    struct ballots *ballots;
    struct queues *queues;
    struct sync *sync;

    uint64_t commit;
    bool committing; /* another is on its way */

    uint32_t *epochs_before; /* by agent: the highest known at this voter's start; see bounds.c */
    struct members members;
    struct rejoin rejoin;

    struct bounds bounds;
};

/* members.c */
/* Whether this voter may vote, coordinate, and acknowledge renewals. */
bool members_votes(const struct quorum *quorum);
/* Whether an agent's rules (their digest) are those of this voter. */
bool members_rules_match(const struct quorum *quorum, uint64_t rules);
void members_init(struct quorum *quorum);
void members_start(struct quorum *quorum);
void members_hello(struct quorum *quorum, const struct message *message);
/* Tells an agent what the cell is. asked: its HELLO, or NULL if it sent none. */
void members_answer(struct quorum *quorum, uint32_t agent, const struct message_hello *asked);
/* What a message's header says of its sender's store. */
void members_learn(struct quorum *quorum, const struct message *message);
/* Whether a message may be acted on: votes are neither given nor taken across standings, records or
 * rules that do not fit. */
bool members_admit(const struct quorum *quorum, const struct message *message);
void members_link(struct quorum *quorum, uint32_t voter, bool up);
/* At the end of a step: what rides along with what is persisted. */
void members_end_step(struct quorum *quorum);
int64_t members_tick(struct quorum *quorum);
void members_set_commit(struct quorum *quorum, uint64_t commit);
/* A listing that sync_read() began was read to its end. */
void members_pulled(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
                    uint32_t partition);
/* For rejoin.c. */
void members_set_line(struct quorum *quorum, uint32_t voter, const struct message_member *line);
void members_tell(struct quorum *quorum);
void members_vote(struct quorum *quorum);

/* rejoin.c */
void rejoin_start(struct quorum *quorum);
void rejoin_recount(struct quorum *quorum);
void rejoin_hear_line(struct quorum *quorum, const struct message_member *line);
void rejoin_answered(struct quorum *quorum, uint32_t voter, const struct message_hello *hello);
void rejoin_promise(struct quorum *quorum, const struct message *message);
void rejoin_pulled(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
                   uint32_t partition);
/* Whether that voter has done its part of the present phase. */
bool rejoin_has(const struct quorum *quorum, uint32_t voter);
int64_t rejoin_tick(struct quorum *quorum);

/* bounds.c */
/* Everything is loaded. */
void bounds_start(struct quorum *quorum);
/* The rounds known now are what others are measured by. */
void bounds_rounds(struct quorum *quorum);
/* Whether a (valid) message names nothing that no healthy cell gets to; else it is told. */
bool bounds_allow(struct quorum *quorum, const struct message *message);

#endif
