/*
 * Actions: the requests of a part of the core to its driver. The quorum core asks for all of them,
 * the host's side of its session for ACTION_SEND only.
 *
 * An action to persist stands before every action to send that depends on it (core/quorum.h says
 * what the driver may do with that).
 */
#ifndef CORE_BASE_ACTION_H
#define CORE_BASE_ACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    /* Where to send to an agent that the table has no room for: the one that the message is for
     * (as.refused.agent). */
    ACTION_STRANGER = 0x7fffffff,
    ACTION_NO_RELAY = 0xff,
};

/* The durable state. The driver writes it as the actions say, and reads it back at the next
 * start. */
struct quorum_promise {
    struct message_partitions partitions;
    uint64_t ballot;
};

struct quorum_register {
    struct message_name name;
    struct message_order accepted;
    struct message_value value;
};

/* Where deletion in a partition stands, durably. */
struct quorum_checkpoint {
    uint32_t partition;
    struct message_checkpoint checkpoint;
};

/* One line of the bootstrap record: the store that a voter votes with. */
struct quorum_member {
    struct message_agent voter;
    struct message_member member;
};

/* The last known commit of another voter's store: it is not to come back with less. */
struct quorum_seen {
    struct message_agent voter;
    uint64_t store_id[2];
    uint64_t commit;
};

enum action_kind {
    ACTION_PERSIST_ROUND = 1,  /* the highest round that this coordinator has used */
    ACTION_PERSIST_PROMISE,    /* one row for each partition of the set */
    ACTION_PERSIST_REGISTER,   /* one row, replaces that name's */
    ACTION_PERSIST_MARK,       /* one row, replaces that agent's; epochs only rise */
    ACTION_PERSIST_DELETED,    /* that name's register is gone (its row, if it has one) */
    ACTION_PERSIST_CHECKPOINT, /* one row, replaces that partition's */
    ACTION_PERSIST_MEMBER,     /* one row, replaces that voter's */
    ACTION_PERSIST_SEEN,       /* one row, replaces that voter's */
    ACTION_PERSIST_REJOINED,   /* rejoin is done: the store votes from now on */
    ACTION_SEND,
    ACTION_LOG, /* for people */
};

struct action_send {
    uint32_t to;   /* an agent: quorum_agent_name() says which; below voter_count: that voter */
    uint8_t relay; /* a voter that is to pass it on, or ACTION_NO_RELAY */
    bool later;    /* nobody waits for it: it may go some milliseconds later, with others */
    struct message message;
};

struct action_log {
    const char *event; /* static, see docs/LOG.md: "coordinator_took_over", "voter_refused" */
    struct message_agent agent; /* length 0: none */
    int64_t number;             /* its count, see docs/LOG.md; 0: none */
    bool well;                  /* nothing is to be done, whatever text says */
    char text[256];             /* "" or what a person has to know and do */
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
        struct action_log log;
        struct action_send send;
    } as;
};

/* The driver's list. It empties it (count = 0) when all is done. */
struct actions {
    struct action *items;
    uint32_t count;
    uint32_t capacity;
};

#endif
