/*
 * Who votes in a cell: names of agents, the record of voters, the rules that every agent of the
 * cell must have, and the contents of messages about a change of the voters. A part of message.h.
 *
 * The record of voters has a number, 1, 2, 3 and so on. The cell's first record is made from the
 * configuration. Each later record is decided by its own voters and by those of the record before
 * it (docs/PROTOCOL.md, "Changing the voters"), and has one voter more, one voter less, or another
 * address. Each message names its sender's record by number and digest.
 *
 * A cell has an id from its first change on. Before that, a voter recognises the other voters of
 * its cell by the cell's name, which each packet has, and by the ids of their stores, which are in
 * the record of stores (docs/PROTOCOL.md, rules 25 and 43).
 */
#ifndef PROTO_VOTERS_H
#define PROTO_VOTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most records between two recoveries of a cell, and the most recoveries. */
#define MESSAGE_NUMBERS (UINT32_C(1) << 20)
#define MESSAGE_RECOVERIES_LIMIT (UINT32_C(1) << 11)

enum {
    MESSAGE_AGENT_MAX = 32,    /* bytes of an agent name */
    MESSAGE_ADDRESS_MAX = 128, /* bytes of an address, including its final zero */
    MESSAGE_VOTERS_MAX = 7,    /* voters of a cell */
};

/* An agent's name. The bytes after `length` are zeros, so equal names have equal bytes. */
struct message_agent {
    uint8_t length; /* 0: no agent */
    char text[MESSAGE_AGENT_MAX];
};

/* A voter in the record of voters. */
struct message_voter {
    struct message_agent name;
    uint64_t store_id[2]; /* the store with which the voter joined; 0, 0: a voter of record 1 */
    uint16_t ballot_id;   /* the voter's number in ballots, which no other voter ever had */
    char address[MESSAGE_ADDRESS_MAX]; /* zeros after its end; "": not known */
};

/* How a record differs from the record before, and what an operator asks for. */
enum message_member_act {
    MESSAGE_MEMBER_ADD = 1,
    MESSAGE_MEMBER_REMOVE,
    MESSAGE_MEMBER_MOVE, /* changes a voter's address */
    MESSAGE_MEMBER_END,
};

/* The record of voters. */
struct message_voters {
    uint64_t cell_id[2];     /* drawn with the cell's first change; 0, 0: not known, because there
                              * was no change, or a recovery used a store from before it */
    uint32_t recoveries;     /* how often the cell was recovered by an operator */
    uint32_t number;         /* the record's number: 1, 2, 3, ... */
    uint16_t next_ballot_id; /* the ballot_id of the next voter that joins */
    bool complete;           /* the next change may begin; not a part of the digest */
    /* How the record differs from the record before: enum message_member_act, and the voter that
     * was added, removed or moved. In record 1: 0, and no agent. */
    uint8_t act;
    struct message_agent changed;
    uint32_t count;
    /* must be the last member; in ascending order of names; the voters from index count on may be
     * uninitialised */
    struct message_voter of[MESSAGE_VOTERS_MAX];
};

/* Makes the record of number 1 from a configuration, whose voters may have any order. addresses may
 * be NULL. cell_id stays 0, 0. */
void message_voters_begin(struct message_voters *voters, const struct message_agent *names,
                          const char (*addresses)[MESSAGE_ADDRESS_MAX], uint32_t count);

/* Returns the number of the record with which a recovery begins. So the number alone says whether a
 * record is from before that recovery. */
static inline uint32_t message_voters_first(uint32_t recoveries)
{
    return recoveries * MESSAGE_NUMBERS;
}

/* Returns the digest of a record, which is the same on every host. Addresses and the cell id of a
 * number-1 record are no part of it: each host has them from its own configuration, or does not
 * know them yet. */
uint64_t message_voters_digest(const struct message_voters *voters);

/* Returns whether record b may be of the same cell as record a, which an agent uses. If a does not
 * have the cell's id, because the voters never changed, b may have any id. The cell's id is unknown
 * in b if b comes from a recovery with a store from before the cell's first change. */
bool message_voters_same_cell(const struct message_voters *a, const struct message_voters *b);

/* Copies a record. Sets the voters from index count on to zeros. */
void message_voters_copy(struct message_voters *to, const struct message_voters *from);

/* Returns the index of the voter of that name; voters->count if there is none. */
uint32_t message_voters_find(const struct message_voters *voters, const struct message_agent *name);

/* Returns whether name a stands before name b in a record. */
bool message_agent_before(const struct message_agent *a, const struct message_agent *b);

/* The rules of a cell, which must be the same in the configuration of each agent. */
struct message_rules {
    uint32_t voter_count;
    struct message_agent voters[MESSAGE_VOTERS_MAX]; /* in ascending order of their names */
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent;
};

/* Returns the digest of a cell's rules: FNV-1a over their fields, which is the same on every
 * host. */
uint64_t message_rules_digest(const struct message_rules *rules);

/* Compares the rules of two configurations. If they contradict each other, writes one line such as
 * "session_ttl: 5s here, 7s there; voters: host-c is only here" into text. Returns false if there
 * is no contradiction. */
bool message_rules_differ(const struct message_rules *here, const struct message_rules *there,
                          char *text, size_t size);

/* Returns the digest of the rules without the voters. It is never 0. */
uint64_t message_durations_digest(const struct message_rules *rules);

/* ---- The contents of messages about a change of the voters ---- */

/*
 * The register in which record `number` is decided, by the voters of that record and by those of
 * the record before it, which the header names. Its ballots are like those of the locks' registers,
 * but they are counted apart.
 */
struct message_change {
    uint32_t number;
    uint64_t ballot;
    /* PROMISE and ACCEPTED: the acceptor refuses, because it has promised this ballot; 0: it does
     * not refuse */
    uint64_t higher;
    /* PROMISE: the ballot under which the acceptor has accepted `voters`; 0: it has none */
    uint64_t accepted;
    /* ACCEPT: the record that is proposed. PROMISE: the record that the acceptor has accepted;
     * count 0: none. PREPARE: if the change moves a voter, the record that the operator asks for,
     * so that the voter is found at its new address; count 0: another change. Must be the last
     * member; the voters from index count on are not initialised. */
    struct message_voters voters;
};

/* VOTERS and LEARN. */
struct message_told {
    uint64_t id; /* LEARN: the id of the proposer's change, which LEARNED repeats. VOTERS: 0 */
    bool learn;  /* LEARN: the agent has to begin to learn, or go on; false: it has to stop */
    /* VOTERS: a record that was chosen. LEARN: the sender's record. Must be the last member; the
     * voters from index count on are not initialised. */
    struct message_voters voters;
};

/* ASK_VOTERS. */
struct message_ask_voters {
    uint32_t number; /* the number of the sender's record */
};

/* LEARNED. The header has the learner's store. */
struct message_learned {
    uint64_t id; /* the id of the LEARN */
    /* the learner has all that the coordinators had when it last asked them */
    bool ready;
    uint32_t copied; /* partitions and lists of marks that the learner has copied, of `total` */
    uint32_t total;
};

/* MEMBER: an operator asks for a change of the voters. The host repeats the request with the same
 * id, and each time gets a MEMBERED that says how far the change has come. */
struct message_member_asked {
    struct message_agent agent; /* the host that asks */
    uint64_t request_id;
    uint8_t act; /* enum message_member_act */
    struct message_agent voter;
    char address[MESSAGE_ADDRESS_MAX]; /* ADD and MOVE: the voter's address; else "" */
    /* the number of the record that the operator saw and wants to change */
    uint32_t number;
};

enum message_change_stage {
    MESSAGE_CHANGE_REFUSED = 1, /* the change does not take place; `reason` says why */
    MESSAGE_CHANGE_LEARNS,      /* the newcomer copies the cell's state */
    MESSAGE_CHANGE_DECIDES,     /* the record is being proposed */
    MESSAGE_CHANGE_CHOSEN,      /* the record is in force, but the change is not complete */
    MESSAGE_CHANGE_COMPLETE,    /* a removed voter may be switched off; the next change may begin */
    MESSAGE_CHANGE_END,
};

enum message_change_reason {
    MESSAGE_CHANGE_NONE = 0,
    MESSAGE_CHANGE_NOT_VOTING, /* the receiver does not vote */
    MESSAGE_CHANGE_NUMBER,     /* the voters have changed since the operator saw them */
    MESSAGE_CHANGE_INCOMPLETE, /* the previous change is not complete yet */
    MESSAGE_CHANGE_BUSY,       /* this voter already proposes another change */
    MESSAGE_CHANGE_SILENT,     /* `subject`, which the change needs, does not answer */
    MESSAGE_CHANGE_OLDER,      /* `subject` speaks an older version of the wire */
    MESSAGE_CHANGE_IS_VOTER,   /* ADD: `subject` is a voter already */
    MESSAGE_CHANGE_NO_VOTER,   /* REMOVE and MOVE: `subject` is no voter */
    MESSAGE_CHANGE_MOST,       /* ADD: the cell has as many voters as a cell may have */
    MESSAGE_CHANGE_LAST,       /* REMOVE: `subject` is the last voter */
    MESSAGE_CHANGE_REJOINING,  /* `subject` starts over */
    MESSAGE_CHANGE_RIVAL,      /* another record of that number was chosen */
    MESSAGE_CHANGE_SAME,       /* MOVE: the voter has that address already */
    MESSAGE_CHANGE_IDS,        /* ADD: no ballot_id is left */
    MESSAGE_CHANGE_OBSERVER,   /* the host that asks is no voter; `subject` is one */
    MESSAGE_CHANGE_TAKEN,      /* ADD and MOVE: the voter `subject` has that address */
    MESSAGE_CHANGE_REASON_END,
};

struct message_membered {
    struct message_agent agent; /* the host that asked */
    uint64_t request_id;
    uint8_t stage;                /* enum message_change_stage */
    uint8_t reason;               /* enum message_change_reason; in other stages it may say that the
                                   * change waits for `subject` */
    struct message_agent subject; /* the agent that `reason` is about; empty: none */
    uint32_t number;              /* the number of the record that the change makes, or made */
    uint32_t done;                /* for people: how much of the stage is done, of `total` */
    uint32_t total;
};

#endif
