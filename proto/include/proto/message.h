/*
 * The messages that agents send each other, as plain structs.
 *
 * In a cell of one host the agent sends the same messages to itself, and they never leave the
 * process. A message contains no pointer. So it can be copied, and it can be queued until the rows
 * on which it depends are durable (message_copy() does not copy unused shares).
 *
 * A message refers to an agent by its name, never by an index, because each agent has its own
 * indexes. message_valid() checks every field that another agent can set, before the core reads the
 * message.
 */
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/full.h"
#include "proto/voters.h"

enum {
    MESSAGE_PARTITIONS = 256,
    MESSAGE_NAME_MAX = 255,   /* bytes of a lock name */
    MESSAGE_RELEASE_MAX = 24, /* bytes of a release's name, including its final zero */
    MESSAGE_LOCK_DELAY_MAX_MS = 60000,
    MESSAGE_SHARES_MAX = 64,   /* hosts that share one lock at a time */
    MESSAGE_HOLDS_MAX = 16,    /* the holds that one BROKEN describes */
    MESSAGE_COMMAND_MAX = 160, /* bytes of a holder's command line */
    MESSAGE_NOTES_MAX = 320,   /* bytes of the notes on all holds that one BROKEN describes */
};

/*
 * A ballot is (round << 16 | voter id), below 2^48; 0 is below every ballot. A sequence numbers the
 * proposals of one ballot, from 1 to below 2^40. All proposals are ordered by (ballot, sequence).
 */
#define MESSAGE_BALLOT_LIMIT (UINT64_C(1) << 48)
#define MESSAGE_SEQUENCE_LIMIT (UINT64_C(1) << 40)
/* Tokens are from 1 to this limit - 1. */
#define MESSAGE_TOKEN_LIMIT (UINT64_C(1) << 63)
/* A session's epoch must fit into its bits in a region's header, and a store's commit into an
 * integer of SQLite. */
#define MESSAGE_EPOCH_LIMIT (UINT32_C(1) << 24)
#define MESSAGE_COMMIT_LIMIT (UINT64_C(1) << 62)
#define MESSAGE_GENERATION_LIMIT (UINT32_C(1) << 31)
/* The most tokens in a range. A range lies within one block. The top 11 of a token's 63 bits are
 * the generation of the cell's tokens. */
#define MESSAGE_TOKEN_RANGE (UINT64_C(1) << 32)
#define MESSAGE_TOKEN_BLOCK (UINT64_C(1) << 40)
#define MESSAGE_TOKEN_GENERATION (UINT64_C(1) << 52)

struct message_order {
    uint64_t ballot;
    uint64_t sequence;
};

struct message_name {
    uint8_t length; /* never 0 in a valid message */
    uint8_t bytes[MESSAGE_NAME_MAX];
};

/* A set of partitions. */
struct message_partitions {
    uint64_t bits[MESSAGE_PARTITIONS / 64];
};

enum message_mode { MESSAGE_MODE_NONE = 0, MESSAGE_MODE_SHARED = 1, MESSAGE_MODE_EXCLUSIVE = 2 };

/* One host's part of a shared grant. */
struct message_share {
    /* names the grant of this host: the order of the grant's first proposal */
    struct message_order version;
    struct message_agent agent;
    uint32_t epoch; /* the epoch of the agent's session */
};

/*
 * The value of one lock's register. For a name that was never used all members are 0, apart from
 * token_first and permits (1). After a deletion in the name's partition, token_first is above the
 * checkpoint's floor.
 *
 * mode EXCLUSIVE: owner, epoch and version name the grant; there are no shares.
 *
 * mode SHARED: there is one share for each host, and at least one. owner is empty, epoch is 0, and
 * version is the version of the newest share. token_first and token_last are equal: the token of
 * all shared holds on all hosts until the next exclusive grant.
 *
 * mode NONE: there is no owner and no share, and token_last is 0.
 */
struct message_value {
    struct message_order version; /* names the grant: the order of the grant's first proposal */
    uint64_t token_first; /* the first token of the leased range; in mode NONE, of the next range */
    uint64_t token_last;  /* the last token of the leased range; in mode NONE 0 */
    struct message_agent owner;
    struct message_agent successor; /* reserved for hand-overs between hosts; always empty now */
    uint32_t epoch;                 /* the epoch of the owner's session */
    uint16_t lock_delay_ms;         /* the largest lock-delay that the grant covers */
    uint16_t permits;               /* reserved for semaphores; always 1 now */
    uint8_t mode;                   /* enum message_mode */
    uint8_t closing;                /* reserved; always 0 now */
    uint8_t share_count;
    /* must be the last member; the shares from index share_count on are not initialised */
    struct message_share shares[MESSAGE_SHARES_MAX];
};

/* The last deletion in a partition. A register that is missing now was deleted if its newest known
 * value was accepted at or below `order`. The tokens of new names start above floor. All 0: there
 * was no deletion yet. */
struct message_checkpoint {
    struct message_order order;
    uint64_t floor; /* a token */
};

/* The numbers are sent to other agents, so they never change. A new kind for a voter goes to the
 * end of the first group, and a new kind for a host to the end of the second group. */
enum message_kind {
    /* For a voter's quorum core. */
    MESSAGE_PREPARE = 1, /* coordinator -> acceptor */
    MESSAGE_PROMISE,     /* its answer */
    MESSAGE_READ,        /* coordinator -> acceptor */
    MESSAGE_VALUE,       /* its answer */
    MESSAGE_ACCEPT,      /* coordinator -> acceptor */
    MESSAGE_ACCEPTED,    /* its answer */
    MESSAGE_RENEW,       /* host -> voter: renews its session */
    MESSAGE_POLL,        /* coordinator -> voter: asks whether this session has lapsed */
    MESSAGE_POLLED,      /* its answer */
    MESSAGE_MARK,        /* coordinator -> voter: mark the session if it has lapsed */
    MESSAGE_MARKED,      /* its answer */
    MESSAGE_ACQUIRE,     /* host -> coordinator, like the next three kinds */
    MESSAGE_AMEND,
    MESSAGE_GIVE_BACK,
    /* host -> coordinator: an administrator's break; the coordinator sends BREAK_HOLD to owners */
    MESSAGE_BREAK,
    /* voter -> voter: the partitions that the sender coordinates, and an echo */
    MESSAGE_HEARTBEAT,
    MESSAGE_HELLO,        /* agent -> voter: the sender's identity and its knowledge of the cell */
    MESSAGE_SYNC,         /* voter -> voter: asks for registers or marks after a given position */
    MESSAGE_SYNCED,       /* the answer to SYNC: one register or mark, or the end */
    MESSAGE_CHECKPOINT,   /* coordinator -> acceptor: delete idle registers */
    MESSAGE_CHECKPOINTED, /* its answer */
    /* The next six kinds are of version 5 of the wire: the change of the voters. */
    MESSAGE_CHANGE_PREPARE,  /* proposer -> acceptor of a record of voters */
    MESSAGE_CHANGE_PROMISE,  /* its answer */
    MESSAGE_CHANGE_ACCEPT,   /* proposer -> acceptor */
    MESSAGE_CHANGE_ACCEPTED, /* its answer */
    MESSAGE_MEMBER,          /* host -> voter: an operator asks for a change of the voters */
    MESSAGE_LEARNED,         /* learner -> proposer: how much the learner has copied */
    MESSAGE_VOTER_END,
    /* For a host. */
    MESSAGE_RENEW_ACK = 64,
    MESSAGE_GRANT,
    MESSAGE_AMENDED,
    MESSAGE_GIVE_BACK_ACK,
    MESSAGE_RECALL,
    MESSAGE_REFUSED,
    MESSAGE_OWNER,      /* coordinator -> every host: the sender coordinates these partitions now */
    MESSAGE_BREAK_HOLD, /* coordinator -> owner: an administrator's break */
    MESSAGE_BROKEN,     /* host -> host: the outcome of a BREAK */
    MESSAGE_CHECK,      /* host -> host: asks whether a hold still counts */
    MESSAGE_CHECKED,    /* its answer */
    MESSAGE_HELLO_ACK,  /* voter -> agent that is not a voter: the answer to HELLO */
    /* The next four kinds are of version 5 of the wire. */
    MESSAGE_VOTERS,     /* agent -> agent: a record of voters that is known to be chosen */
    MESSAGE_ASK_VOTERS, /* agent -> agent: asks for VOTERS */
    MESSAGE_LEARN,      /* proposer -> agent: become a learner, or cease to be one */
    MESSAGE_MEMBERED,   /* voter -> host: how far the change that MEMBER asked for has come */
    MESSAGE_KIND_END,
};

static inline bool message_kind_valid(unsigned kind)
{
    return (kind >= MESSAGE_PREPARE && kind < MESSAGE_VOTER_END) ||
           (kind >= MESSAGE_RENEW_ACK && kind < MESSAGE_KIND_END);
}

/* Returns whether the kind is one of version 5 of the wire. Such a message is not sent to an agent
 * that speaks an older version. */
static inline bool message_is_of_version_5(enum message_kind kind)
{
    return (kind >= MESSAGE_CHANGE_PREPARE && kind < MESSAGE_VOTER_END) ||
           (kind >= MESSAGE_VOTERS && kind < MESSAGE_KIND_END);
}

/* Returns whether a message of this kind goes to the host core. All other kinds go to the quorum
 * core, and so do the kinds of the record of voters (driver_is_of_record()). */
static inline bool message_is_for_host(enum message_kind kind)
{
    return kind >= MESSAGE_RENEW_ACK;
}

/* Returns whether a voter passes on messages of this kind to another agent. It does so for requests
 * of hosts and for the answers to them. */
static inline bool message_is_relayed(enum message_kind kind)
{
    switch (kind) {
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
    case MESSAGE_BREAK:
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
    case MESSAGE_GIVE_BACK_ACK:
    case MESSAGE_RECALL:
    case MESSAGE_REFUSED:
    case MESSAGE_BREAK_HOLD:
    case MESSAGE_BROKEN:
    case MESSAGE_CHECK:
    case MESSAGE_CHECKED:
        return true;
    default:
        return false;
    }
}

/* Asks the acceptor to promise, for partitions, to refuse lower ballots. */
struct message_prepare {
    uint64_t ballot;
    struct message_partitions partitions;
    /* The sender is a voter that starts over, and it will not coordinate under this ballot. So an
     * acceptor promises even a partition whose coordinator's heartbeats still arrive in time. */
    bool rejoin;
};

/* No partition is in two of these sets. promised: the acceptor promises the ballot. refused: it has
 * promised a higher ballot; `higher` is the highest of these. owned: it refuses because another
 * voter coordinates the partition, and that voter's heartbeats still arrive in time. */
struct message_promise {
    uint64_t ballot;
    struct message_partitions promised;
    struct message_partitions refused;
    struct message_partitions owned;
    uint64_t higher;
};

struct message_read {
    uint64_t ballot;
    struct message_name name;
};

/* higher != 0: the acceptor refuses, because it has promised the ballot `higher`. known: the
 * acceptor has a value. */
struct message_read_value {
    uint64_t ballot;
    uint64_t higher;
    struct message_checkpoint checkpoint; /* the acceptor's checkpoint of the name's partition */
    struct message_name name;
    bool known;
    struct message_order accepted;
    struct message_value value;
};

/* chosen: a majority has already accepted the value, so the message gets no answer. */
struct message_accept {
    struct message_order order;
    struct message_name name;
    bool chosen;
    struct message_value value;
};

/* higher != 0: the acceptor refuses, because it has promised the ballot `higher`. full: the
 * acceptor refuses because its tables are full. */
struct message_accepted {
    struct message_order order;
    uint64_t higher;
    bool full;
    struct message_name name;
};

/* A voter's stamp on an acknowledgement. Only that voter interprets it. */
struct message_echo {
    uint64_t incarnation; /* the incarnation of the voter's process; 0: no echo yet */
    int64_t issued_ns;
};

struct message_renew {
    struct message_agent agent;
    /* 0: the message renews nothing. It only asks for the agent's highest epoch, which the answer
     * has in ended_epoch */
    uint32_t epoch;
    uint64_t renewal_id;
    struct message_echo echo; /* the echo of this voter's last acknowledgement */
    /* message_rules_digest(); a voter with other rules does not acknowledge the renewal. An agent
     * of version 5 of the wire looks at `durations` instead, if it is not 0. */
    uint64_t rules;
    char advertise[MESSAGE_ADDRESS_MAX];
    char release[MESSAGE_RELEASE_MAX]; /* the Holdfast release of the host; "": not known */
    char page[MESSAGE_ADDRESS_MAX];    /* the URL of the host's status page; "": none */
    /* message_durations_digest(): the rules without the voters, which the header names; 0: the host
     * speaks an older version */
    uint64_t durations;
};

struct message_renew_ack {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t renewal_id; /* the renewal_id of the renewal */
    struct message_echo echo;
    bool extended; /* whether the acknowledgement counts towards extending the lease */
    /* this voter has marked all epochs of the agent up to this one; 0: none. If epoch is 0: the
     * highest epoch that this voter knows */
    uint32_t ended_epoch;
    char release[MESSAGE_RELEASE_MAX]; /* the Holdfast release of the voter; "": not known */
    char page[MESSAGE_ADDRESS_MAX];    /* the URL of the voter's status page; "": none */
};

/* POLL and MARK are about all epochs of the agent up to `epoch`. */
struct message_session {
    struct message_agent agent;
    uint32_t epoch;
};

/* In POLLED, yes means that the session has lapsed or is marked. In MARKED, yes means that it is
 * durably marked. If the answer is no, wait_ns is the time, by the voter's clock, until the session
 * can have lapsed. */
struct message_session_answer {
    struct message_agent agent;
    uint32_t epoch;
    bool yes;
    int64_t wait_ns;
};

/*
 * The requests of a host. agent and epoch name the host and its session. request_id is unique among
 * the requests of the session. If the host repeats a request with the same id, it gets the same
 * answer.
 */
struct message_acquire {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    /* SHARED or EXCLUSIVE; a repeated request keeps its position in the queue, even with another
     * mode */
    uint8_t mode;
    uint16_t lock_delay_ms;
    uint32_t waited_ms; /* for how long the host has been asking; rises with each repeat */
    uint8_t tries;      /* enum message_tries */
    /* From a voter that passes on its queue: the version of the grant that this voter proposed for
     * the request; ballot 0: none. From version 5 of the wire on. */
    struct message_order made;
};

/* Whether processes of the asking host wait for the lock, or only try it. A try waits only for an
 * idle grant: if the lock is in use elsewhere, the coordinator answers REFUSED_IN_USE. */
enum message_tries {
    MESSAGE_TRIES_NONE = 0, /* processes wait for the lock, and none tries */
    /* some wait and some try: after REFUSED_IN_USE the request stays in the queue */
    MESSAGE_TRIES_ALSO,
    MESSAGE_TRIES_ONLY, /* all only try: REFUSED_IN_USE ends the request */
};

/*
 * Changes the grant that `version` names; the version stays the same. lock_delay_ms only rises.
 *
 * mode: NONE keeps the mode. EXCLUSIVE changes a shared grant to an exclusive one and leases a
 * range above its token; the host's share must be the only one (else REFUSED_VERSION). SHARED
 * changes an exclusive grant to a shared one and gives back the unused part of its range.
 *
 * token_last: 0 asks for no range. Any other value asks for the next range; it must be the last
 * token of the newest range that the host knows. (A repeat gets the same range again.)
 *
 * token_used, for a change to SHARED: the last used token of the range, which becomes the token of
 * the shared holds. If it is not in the newest range, as in a late repeat, nothing changes (see
 * core/quorum/queues_plan.c). Earlier releases do not send this field: they send the range's
 * token_last, and the whole range counts as used.
 *
 * in_use: the message changes nothing. It answers the RECALL with the same request_id: the grant is
 * in use and stays with the host. Its mode is NONE and its numbers are 0, so a coordinator of an
 * earlier release, which does not know this field, changes nothing either.
 */
struct message_amend {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint8_t mode;
    uint16_t lock_delay_ms;
    uint64_t token_last;
    uint64_t token_used;
    bool in_use;
};

/* token_used: the highest token that a hold under this grant had; 0: there was no hold. */
struct message_give_back {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint64_t token_used;
};

/* GRANT and AMENDED: the grant that the host has now. If the host already had a grant, its mode may
 * differ from the requested mode. In this case the host gives that grant back and asks again, or
 * amends it. fresh: the grant was made for this very request. If fresh is false, the host had the
 * grant before, or the coordinator does not know. */
struct message_grant {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint8_t mode;
    bool fresh;
    uint16_t lock_delay_ms;
    uint64_t token_first;
    uint64_t token_last;
};

/* The owner's duty after a RECALL, if the grant is in use. */
enum message_recall {
    MESSAGE_RECALL_WAITS = 0, /* another host waits: the grant goes back as soon as it is not in
                               * use */
    /* like WAITS, and the owner also reports at once that the grant is in use */
    MESSAGE_RECALL_REPORTS,
    /* other hosts only try: the owner keeps a grant in use, and reports that it is in use */
    MESSAGE_RECALL_IF_IDLE,
    /* like IF_IDLE, but if only readers use the grant, the owner changes it to a shared one */
    MESSAGE_RECALL_TO_READ,
    MESSAGE_RECALL_END,
};

/* GIVE_BACK_ACK: the register no longer has that version. RECALL: another host wants the lock. The
 * request_id of a RECALL is 0, or a number that the owner repeats in its answer (AMEND with
 * in_use). The low 16 bits of such a number are all set, which no request_id of a host has. */
struct message_version {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint8_t recall; /* RECALL: enum message_recall */
};

/*
 * An administrator's break. A host sends BREAK to the coordinator. The coordinator sends BREAK_HOLD
 * to each owner, which is a host with a grant of the lock, and sends the asking host a BROKEN that
 * names these owners. Each owner sends its outcome, also a BROKEN, to `agent`. The break is done
 * when every owner that the coordinator named has answered.
 */
struct message_break {
    struct message_agent agent; /* the host that asks */
    uint64_t request_id;        /* the request's id at that host */
    struct message_name name;
    bool now;                     /* end the holds without the lock-delay */
    struct message_order version; /* BREAK_HOLD: the grant that the break ends; the owner's other
                                   * grants go on */
    /* for people: the administrator's uid on the host `agent`, plus 1; 0: not known */
    uint64_t user;
    /* The host counts the owners' answers. If this is false, as in a message from an earlier
     * release, the coordinator names no owners, and the host takes the first answer for the
     * outcome. */
    bool counts;
    /* The break concerns only grants up to this version. In a BREAK, 0 means that the host does not
     * know the version yet, so the break concerns the present grants. A host learns the version
     * from each BROKEN. So if it repeats the break to another coordinator, the break ends no later
     * grant. */
    struct message_order meant;
};

/* CHECKED: the outcome of a request. A BROKEN begins in the same way. */
struct message_outcome {
    struct message_agent agent; /* the host that asked */
    uint64_t request_id;
    int32_t result; /* 0, or a negative HF_E... */
};

enum message_broken_part {
    /* from an owner or a coordinator of an earlier release, or to a host of an earlier release */
    MESSAGE_BROKEN_PLAIN = 0,
    MESSAGE_BROKEN_OWNERS, /* from the coordinator: `items` are the owners that it asked */
    MESSAGE_BROKEN_HOLDS,  /* from an owner: `items` are the holds that it ended */
    MESSAGE_BROKEN_END,
};

/* A hold that a break ended, for people. */
struct message_hold {
    int64_t pid; /* the pid in the namespace of the owner's agent; -1: not known, here and below */
    int64_t uid;
    int64_t held_ms;
    uint64_t token;
    bool shared;
    uint8_t command_size; /* 0: not known */
    uint16_t note_size;   /* 0: no note, or not known. Notes are from version 5 of the wire on */
    char command[MESSAGE_COMMAND_MAX];
};

/* A BROKEN. Only its items may lie beyond the size that is always zeroed and copied. */
struct message_broken {
    struct message_agent agent; /* as in struct message_outcome */
    uint64_t request_id;
    int32_t result;
    uint8_t part;               /* enum message_broken_part */
    struct message_agent owner; /* HOLDS: the agent that ended the holds */
    struct message_order meant; /* the break concerns grants up to this version */
    uint32_t closed_ms;         /* for how long the lock stays closed */
    uint32_t total;             /* HOLDS: how many holds the break ended; `items` may have fewer */
    uint8_t count;              /* of the items */
    /* must be the last member; the items from index count on are not initialised. Behind the last
     * used hold lie the notes on all holds, one behind the other (message_broken_note()) */
    union {
        struct message_agent owners[MESSAGE_SHARES_MAX];
        struct message_hold holds[MESSAGE_HOLDS_MAX];
        char room[MESSAGE_HOLDS_MAX * sizeof(struct message_hold) + MESSAGE_NOTES_MAX];
    } items;
};

/* Asks the holder's host whether the hold that a sequencer names is still held. */
struct message_check {
    struct message_agent agent; /* the host that asks */
    uint64_t request_id;
    struct message_name name;
    uint64_t token;
    uint64_t cell_word; /* the reader's cell of a shared hold */
    uint32_t epoch;
    uint32_t holder;
    uint32_t seat;
    bool shared;
};

/* The sender coordinates these partitions now. Hosts send it their unanswered requests again. */
struct message_owner {
    uint64_t ballot; /* the highest ballot among these partitions */
    struct message_partitions partitions;
};

/*
 * A heartbeat, which each voter sends to every other voter at regular intervals. A coordinator's
 * heartbeat counts if `majority` is true and the heartbeat is not older than the suspicion timeout.
 */
struct message_heartbeat {
    uint64_t number; /* the number of this heartbeat; it rises from a random start */
    /* the number of the last heartbeat that the sender has from the receiver; 0: none */
    uint64_t echo;
    /* A majority has echoed a recent heartbeat of the sender, and the sender goes on coordinating.
     * If `majority` is false, other voters take over the sender's partitions at once. */
    bool majority;
    bool votes;                      /* the sender may vote */
    struct message_partitions owned; /* the partitions that the sender coordinates */
    /* The partitions that the sender has prepared under the record of voters in the header, and
     * whose registers are all at a majority of those voters, as the sender knows. From version 5
     * of the wire on. */
    struct message_partitions settled;
    /* The voter that the sender is about to remove: its index in the record of voters in the
     * header, plus one; 0: none. That voter hands its partitions over. From version 5 of the
     * wire on. */
    uint32_t leaves;
};

/* The store with which a voter votes. */
struct message_member {
    uint64_t store_id[2]; /* 0, 0: not known */
    uint32_t generation;  /* how often the voter started over; the higher generation is the valid
                           * one */
};

enum message_voter_status {
    MESSAGE_STATUS_OBSERVER = 0, /* the agent is not a voter */
    MESSAGE_STATUS_EMPTY,        /* a voter without a record of stores */
    /* a voter that has the record of stores, and waits until other voters have reported what they
     * have seen of its store */
    MESSAGE_STATUS_LISTED,
    MESSAGE_STATUS_VOTING,
    MESSAGE_STATUS_REFUSED, /* the voter's store is not the one in the record, or is an old copy */
    MESSAGE_STATUS_REJOINING,
    /* From version 5 of the wire on. An agent of an older version gets OBSERVER instead. */
    MESSAGE_STATUS_RETIRED,  /* a store that voted until its voter was removed; it never votes */
    MESSAGE_STATUS_LEARNING, /* the store of an agent that may become a voter */
    MESSAGE_STATUS_END,
};

/* HELLO and HELLO_ACK. store_id and commit in struct message are those of the sender. */
struct message_hello {
    bool answer; /* this HELLO is an answer, and gets no answer */
    uint8_t status;
    uint64_t incarnation; /* the incarnation of the sender's process */
    uint64_t echo;        /* in an answer: the incarnation of the HELLO that it answers */
    struct message_rules rules;
    bool bootstrapped;
    struct message_member members[MESSAGE_VOTERS_MAX]; /* the stores that the sender knows */
    struct message_member seen; /* the receiver's store, as the sender knows it */
    /* the highest commit of the receiver's store that the sender knows; 0: none */
    uint64_t seen_commit;
    char advertise[MESSAGE_ADDRESS_MAX];
};

enum message_sync_what { MESSAGE_SYNC_REGISTERS = 1, MESSAGE_SYNC_MARKS = 2 };

/* This value of `after` only asks whether there is a difference. The answer is SAME or END. */
#define MESSAGE_SYNC_PROBE UINT32_MAX
/* The most registers or marks in the answers to one SYNC. */
#define MESSAGE_SYNC_BATCH 32

/* Asks for the registers of a partition, or for marks, after the position `after` (0: from the
 * first). digest is the digest of the sender's registers. If the receiver's registers have the same
 * digest, its answer is SAME. */
struct message_sync {
    uint8_t what; /* enum message_sync_what */
    uint8_t partition;
    uint64_t id; /* echoed */
    uint32_t after;
    uint64_t digest;
    struct message_checkpoint checkpoint;
};

enum message_synced_kind {
    MESSAGE_SYNCED_SAME = 1, /* digests and checkpoints are equal, and there are no other answers */
    MESSAGE_SYNCED_REGISTER,
    MESSAGE_SYNCED_MARK,
    /* the last answer to this SYNC; another SYNC can ask for the positions after `next` */
    MESSAGE_SYNCED_MORE,
    MESSAGE_SYNCED_END,
};

struct message_synced {
    uint8_t what;
    uint8_t partition;
    uint8_t kind; /* enum message_synced_kind */
    uint64_t id;
    /* the number of this answer to the SYNC, from 0; a gap means that an answer was lost */
    uint32_t index;
    uint32_t next;
    struct message_checkpoint checkpoint; /* the checkpoint of the answering voter */
    struct message_session mark;
    struct message_name name;
    struct message_order accepted;
    struct message_value value;
};

/*
 * Asks an acceptor to delete those idle registers (mode NONE) of a partition whose accepted order
 * is at or below checkpoint.order. The acceptor does so only on two conditions: `live` is the
 * digest of its registers that are not idle, and it has no register above that order.
 */
struct message_delete {
    uint64_t ballot;
    uint8_t partition;
    struct message_checkpoint checkpoint;
    uint64_t live;
};

/* higher != 0: the acceptor refuses, because it has promised the ballot `higher`. missing: the
 * acceptor refuses because it lacks a register. */
struct message_deleted {
    uint64_t ballot;
    uint8_t partition;
    struct message_order order;
    uint64_t higher;
    bool missing;
};

enum message_refusal {
    MESSAGE_REFUSED_FULL = 1,  /* a table of a voter is full: `table` of `owner` */
    MESSAGE_REFUSED_NOT_OWNER, /* another voter coordinates this name; `owner` names it */
    /* the session of the request is over, or the agent has a newer session */
    MESSAGE_REFUSED_SESSION,
    /* AMEND: the register does not have that version, or no longer has it */
    MESSAGE_REFUSED_VERSION,
    MESSAGE_REFUSED_TOKENS, /* the name has used up its tokens */
    MESSAGE_REFUSED_RULES,  /* the sender's configuration contradicts the cell's */
    MESSAGE_REFUSED_QUOTA,  /* the agent has as many requests at the voter as one agent may have */
    MESSAGE_REFUSED_IN_USE, /* ACQUIRE of a try: the lock is held, awaited or closed elsewhere */
    MESSAGE_REFUSED_END,
};

/*
 * IN_USE with closed_ms: for that time the lock stays closed, because the session of the host
 * `owner` has ended. If request_id is 0, the message refuses nothing: it only reports this to a
 * host that waits. closed_ms, and `owner` with it, are only for people.
 */
struct message_refused {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    uint8_t reason;             /* enum message_refusal */
    struct message_agent owner; /* NOT_OWNER: the probable coordinator; FULL, QUOTA: the voter
                                 * whose table is full; empty: not known */
    uint32_t closed_ms;         /* IN_USE: for how long the lock stays closed; 0: not known */
    /* FULL, QUOTA, for people: the table (enum hfi_table), and its size. 0: not known */
    uint32_t table;
    uint32_t room;
};

/* A message. The members before `as` are in every message. */
struct message {
    enum message_kind kind;
    /* the membership number that the sender knows; it has bits of each voter's generation */
    uint32_t membership;
    struct message_agent from;
    uint64_t store_id[2]; /* the id of the sender's store */
    uint64_t commit;      /* the sender's last commit known to be durable */
    /* The sender's record of voters: its number, and message_voters_digest(). 0 and 0: the packet
     * has an older version than 5, so its sender has a record of number 1. */
    uint32_t number;
    uint64_t digest;
    /* If `to` is not empty and not the receiver, the receiver passes the message on to the agent
     * `to`, with `relayed` set, so that the message is passed on only once. Only requests of hosts
     * and their answers are passed on. */
    struct message_agent to;
    bool relayed;
    union {
        struct message_prepare prepare;
        struct message_promise promise;
        struct message_read read;
        struct message_read_value value;
        struct message_accept accept;
        struct message_accepted accepted;
        struct message_renew renew;
        struct message_renew_ack renew_ack;
        struct message_session session;
        struct message_session_answer session_answer;
        struct message_acquire acquire;
        struct message_amend amend;
        struct message_give_back give_back;
        struct message_grant grant;
        struct message_version version;
        struct message_refused refused;
        struct message_break break_lock; /* BREAK, BREAK_HOLD */
        struct message_outcome outcome;  /* CHECKED; a BROKEN begins in the same way */
        struct message_broken broken;    /* BROKEN */
        struct message_check check;
        struct message_owner owner;
        struct message_heartbeat heartbeat;
        struct message_hello hello; /* HELLO, HELLO_ACK */
        struct message_sync sync;
        struct message_synced synced;
        struct message_delete checkpoint;
        struct message_deleted checkpointed;
        struct message_change change; /* CHANGE_PREPARE, _PROMISE, _ACCEPT, _ACCEPTED */
        struct message_told told;     /* VOTERS, LEARN */
        struct message_ask_voters ask_voters;
        struct message_learned learned;
        struct message_member_asked member;
        struct message_membered membered;
    } as;
};

/* The size of the part of a message that is always zeroed and copied. Behind that part lie only the
 * shares of a value, the items of a BROKEN, and the voters of a record. */
#define MESSAGE_BASE_HELLO (offsetof(struct message, as) + sizeof(struct message_hello))
#define MESSAGE_BASE_VALUE offsetof(struct message, as.synced.value.shares)
#define MESSAGE_BASE_SIZE                                                                          \
    (MESSAGE_BASE_HELLO > MESSAGE_BASE_VALUE ? MESSAGE_BASE_HELLO : MESSAGE_BASE_VALUE)

static inline const struct message_value *message_value_of(const struct message *message)
{
    return message->kind == MESSAGE_ACCEPT   ? &message->as.accept.value
           : message->kind == MESSAGE_VALUE  ? &message->as.value.value
           : message->kind == MESSAGE_SYNCED ? &message->as.synced.value
                                             : NULL;
}

/* Returns the record of voters in the message, or NULL if its kind has none. */
static inline const struct message_voters *message_voters_of(const struct message *message)
{
    return message->kind == MESSAGE_CHANGE_PREPARE || message->kind == MESSAGE_CHANGE_PROMISE ||
                   message->kind == MESSAGE_CHANGE_ACCEPT
               ? &message->as.change.voters
           : message->kind == MESSAGE_VOTERS || message->kind == MESSAGE_LEARN
               ? &message->as.told.voters
               : NULL;
}

/* Returns how many items a BROKEN of that part may have. */
static inline uint32_t message_broken_most(enum message_broken_part part)
{
    return part == MESSAGE_BROKEN_OWNERS  ? MESSAGE_SHARES_MAX
           : part == MESSAGE_BROKEN_HOLDS ? MESSAGE_HOLDS_MAX
                                          : 0;
}

/* Returns the note on the hold of that index, which has note_size bytes, in a BROKEN of holds. For
 * the index `count`, returns the end of all notes. */
static inline const char *message_broken_note(const struct message_broken *broken, uint32_t index)
{
    const char *note = broken->items.room + broken->count * sizeof(struct message_hold);
    for (uint32_t i = 0; i < index; i++) {
        note += broken->items.holds[i].note_size;
    }
    return note;
}

/* Returns the size of the notes on all holds of a BROKEN of holds. */
static inline uint32_t message_broken_notes_size(const struct message_broken *broken)
{
    return (uint32_t)(message_broken_note(broken, broken->count) - message_broken_note(broken, 0));
}

/* Adds a hold, whose note_size says how long the note is, to a BROKEN of holds. There must be room
 * for the hold and for the note. */
static inline void message_broken_add(struct message_broken *broken,
                                      const struct message_hold *hold, const char *note)
{
    char *notes = broken->items.room + broken->count * sizeof(*hold);
    uint32_t size = message_broken_notes_size(broken);
    memmove(notes + sizeof(*hold), notes, size);
    memcpy(notes, hold, sizeof(*hold));
    if (hold->note_size > 0) {
        memcpy(notes + sizeof(*hold) + size, note, hold->note_size);
    }
    broken->count++;
}

/* Returns the end of the used items of a BROKEN. */
static inline const char *message_broken_end(const struct message_broken *broken)
{
    return broken->part == MESSAGE_BROKEN_OWNERS
               ? (const char *)&broken->items.owners[broken->count]
           : broken->part == MESSAGE_BROKEN_HOLDS ? message_broken_note(broken, broken->count)
                                                  : broken->items.room;
}

/* Returns the number of used bytes of a message, from its beginning. */
static inline size_t message_size(const struct message *message)
{
    const struct message_value *value = message_value_of(message);
    const struct message_voters *voters = message_voters_of(message);
    const char *end = value != NULL && value->share_count > 0
                          ? (const char *)&value->shares[value->share_count]
                      : voters != NULL ? (const char *)&voters->of[voters->count]
                      : message->kind == MESSAGE_BROKEN && message->as.broken.count > 0
                          ? message_broken_end(&message->as.broken)
                          : (const char *)message;
    size_t size = (size_t)(end - (const char *)message);
    return size > MESSAGE_BASE_SIZE ? size : MESSAGE_BASE_SIZE;
}

static inline void message_copy(struct message *to, const struct message *from)
{
    memcpy(to, from, message_size(from));
}

static inline void message_zero(struct message *message)
{
    memset(message, 0, MESSAGE_BASE_SIZE);
}

static inline void message_value_copy(struct message_value *to, const struct message_value *from)
{
    memcpy(to, from,
           offsetof(struct message_value, shares) + from->share_count * sizeof(from->shares[0]));
}

static inline bool message_order_before(struct message_order a, struct message_order b)
{
    return a.ballot < b.ballot || (a.ballot == b.ballot && a.sequence < b.sequence);
}

static inline bool message_order_equal(struct message_order a, struct message_order b)
{
    return a.ballot == b.ballot && a.sequence == b.sequence;
}

static inline bool message_partition_has(const struct message_partitions *set, uint32_t partition)
{
    return (set->bits[partition / 64] >> (partition % 64) & 1) != 0;
}

static inline void message_partition_add(struct message_partitions *set, uint32_t partition)
{
    set->bits[partition / 64] |= UINT64_C(1) << (partition % 64);
}

/* The last token of a range of `size` tokens from first. A range ends at the end of its block at
 * the latest. */
static inline uint64_t message_token_range_last(uint64_t first, uint64_t size)
{
    uint64_t block_last = first | (MESSAGE_TOKEN_BLOCK - 1);
    uint64_t range_last = first + (size - 1);
    return range_last < block_last ? range_last : block_last;
}

/* Returns whether a range may begin with `first`. The token after the last one of a generation
 * belongs to the next generation, which only an operator can begin. So the first token of a
 * generation is never leased. */
static inline bool message_token_leasable(uint64_t first)
{
    return first < MESSAGE_TOKEN_LIMIT && (first & (MESSAGE_TOKEN_GENERATION - 1)) != 0;
}

#endif
