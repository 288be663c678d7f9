/*
 * Actions: what a core asks its driver to do. The quorum core uses all actions. The renewals of the
 * host's session (core/session/renewal.h) use only ACTION_SEND.
 *
 * Invariant: an action to persist stands in the list before every send that depends on it
 * (docs/PROTOCOL.md, rule 3). core/quorum.h says in which order the driver has to carry them out.
 */
#ifndef CORE_BASE_ACTION_H
#define CORE_BASE_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    /* In action_send.to, instead of an agent's index: the message goes to the agent named in
     * as.refused.agent, for which the table of agents has no room. */
    ACTION_STRANGER = 0x7fffffff,
    /* In action_send.to, together with a voter's index: the message goes to that voter. */
    ACTION_VOTER = 0x40000000,
    ACTION_NO_RELAY = 0xff,
};

/* The durable rows. The driver writes them as the actions say, and loads them at the next start. */
struct quorum_promise {
    struct message_partitions partitions;
    uint64_t ballot;
};

struct quorum_register {
    struct message_name name;
    struct message_order accepted;
    struct message_value value;
};

/* A partition's checkpoint: how far the deletion of the partition's idle registers has gone. */
struct quorum_checkpoint {
    uint32_t partition;
    struct message_checkpoint checkpoint;
};

/* One line of the record of stores: the store with which the voter votes. */
struct quorum_member {
    struct message_agent voter;
    struct message_member member;
};

/* The last commit that another voter's store has reported. If the store later reports a lower
 * commit, it is an old copy. */
struct quorum_seen {
    struct message_agent voter;
    uint64_t store_id[2];
    uint64_t commit;
};

/* The acceptor's row of the register in which the record of number `number` is decided. */
struct quorum_change {
    uint32_t number;   /* the number of the record that the voter uses, plus one; a row of another
                        * number is outdated */
    uint64_t promised; /* the ballot; 0: none */
    uint64_t accepted; /* the ballot of `voters`; 0: none */
    struct message_voters voters;
};

/* A second address at which an agent may be found, because an operator adds or moves a voter
 * there. */
struct quorum_seek {
    struct message_agent voter;
    char address[MESSAGE_ADDRESS_MAX];
};

enum action_kind {
    ACTION_PERSIST_ROUND = 1,  /* the highest round that this voter has used as a coordinator */
    ACTION_PERSIST_PROMISE,    /* one row for each partition of the set */
    ACTION_PERSIST_REGISTER,   /* one row, which replaces the row of that name */
    ACTION_PERSIST_MARK,       /* one row, which replaces the row of that agent; epochs only rise */
    ACTION_PERSIST_DELETED,    /* deletes the row of that name, if there is one */
    ACTION_PERSIST_CHECKPOINT, /* one row, which replaces the row of that partition */
    ACTION_PERSIST_MEMBER,     /* one row, which replaces the row of that voter */
    ACTION_PERSIST_SEEN,       /* one row, which replaces the row of that voter */
    ACTION_PERSIST_REJOINED,   /* the store has started over, and votes from now on */
    ACTION_PERSIST_RECOVERED,  /* the wait after a recovery of the cell is over */
    ACTION_PERSIST_VOTERS,     /* one row, which replaces the record of voters */
    ACTION_PERSIST_CHANGE,     /* one row, which replaces the row of the previous number */
    /* From now on the agent uses another record of voters, or its record has become complete. This
     * action comes after the ACTION_PERSIST_VOTERS of that record. In all later actions and events,
     * an index of a voter is its index in that record. */
    ACTION_VOTERS,
    /* The agent may also be dialled at that address for a while. If a voter cannot be reached at
     * its address in the record, all messages for it go to this address. LEARN and CHANGE_PREPARE
     * go to this address only, so their answers show that the agent listens there. */
    ACTION_SEEK,
    ACTION_SEND,
    ACTION_LOG, /* a log line */
};

struct action_send {
    /* an agent's index (see quorum_agent_name()), or ACTION_VOTER | the index of a voter, or
     * ACTION_STRANGER */
    uint32_t to;
    uint8_t relay; /* the voter that passes the message on, or ACTION_NO_RELAY */
    bool later;    /* not urgent: the driver may send it some milliseconds later, with others */
    struct message message;
};

struct action_log {
    /* the event's name, a static string (docs/LOG.md), for example "voter_refused" */
    const char *event;
    struct message_agent agent; /* the agent that the line is about; length 0: none */
    int64_t number;             /* the event's number, see docs/LOG.md; 0: none */
    bool well;                  /* an operator need not act, even if `text` is not "" */
    char text[256];             /* what an operator has to know and do; may be "" */
};

struct action {
    enum action_kind kind;
    union {
        uint32_t round;
        struct quorum_promise promise;
        struct quorum_register reg;
        struct message_session mark;
        struct message_name deleted;
        struct quorum_checkpoint checkpoint;
        struct quorum_member member;
        struct quorum_seen seen;
        struct message_voters voters; /* VOTERS, PERSIST_VOTERS */
        struct quorum_change change;
        struct quorum_seek seek;
        struct action_log log;
        struct action_send send;
    } as;
};

/* The driver's list. The driver empties it (count = 0) after it has carried out the actions. */
struct actions {
    struct action *items;
    uint32_t count;
    uint32_t capacity;
};

#endif
