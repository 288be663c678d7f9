/*
 * The messages that agents send each other, as plain structs.
 *
 * A cell of one host uses the same messages: the agent sends them to itself, and they never leave
 * the process. Nothing here is a pointer, so a message can be copied, and can be queued until what
 * it depends on is durable (message_copy() leaves out the unused room for shares).
 *
 * Messages name agents, never an index: each agent has its own indexes. message_valid() checks
 * every field that a stranger can fill in, before the core sees it.
 */
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    MESSAGE_PARTITIONS = 256,
    MESSAGE_NAME_MAX = 255,    /* bytes of a lock name */
    MESSAGE_AGENT_MAX = 32,    /* bytes of an agent name */
    MESSAGE_ADDRESS_MAX = 128, /* bytes of an address, its final zero included */
    MESSAGE_RELEASE_MAX = 24,  /* bytes of a release's name, its final zero included */
    MESSAGE_VOTERS_MAX = 7,    /* voters of a cell */
    MESSAGE_LOCK_DELAY_MAX_MS = 60000,
    MESSAGE_SHARES_MAX = 64, /* hosts that share one lock at a time */
};

/*
 * A ballot is (round << 16 | voter id), below 2^48; 0 is below every ballot. A sequence numbers the
 * proposals of one ballot, from 1 to below 2^40. All proposals are ordered by (ballot, sequence).
 */
#define MESSAGE_BALLOT_LIMIT (UINT64_C(1) << 48)
#define MESSAGE_SEQUENCE_LIMIT (UINT64_C(1) << 40)
/* Tokens are from 1 to below this. */
#define MESSAGE_TOKEN_LIMIT (UINT64_C(1) << 63)
/* Epochs of sessions: the limit is the room in a region's header. Commits of a store: the limit is
 * the highest number that SQLite counts to. */
#define MESSAGE_EPOCH_LIMIT (UINT32_C(1) << 24)
#define MESSAGE_COMMIT_LIMIT (UINT64_C(1) << 62)
#define MESSAGE_GENERATION_LIMIT (UINT32_C(1) << 31)
/* The most tokens in a range; a range lies within one block. The top 11 of a token's 63 bits are
 * the cell's generation. */
#define MESSAGE_TOKEN_RANGE (UINT64_C(1) << 32)
#define MESSAGE_TOKEN_BLOCK (UINT64_C(1) << 40)
#define MESSAGE_TOKEN_GENERATION (UINT64_C(1) << 52)

struct message_order {
    uint64_t ballot;
    uint64_t sequence;
};

/* Zero-padded after length, so equal names are equal bytes. */
struct message_agent {
    uint8_t length; /* 0: no agent */
    char text[MESSAGE_AGENT_MAX];
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
    struct message_order version; /* names this host's grant: the order of its first proposal */
    struct message_agent agent;
    uint32_t epoch; /* of the agent's session */
};

/*
 * What the quorum knows of one lock. A name never used has zeros everywhere, except token_first,
 * and permits == 1. After a deletion in its partition, token_first is above the checkpoint's floor.
 *
 * mode EXCLUSIVE: owner, epoch and version name the grant; there are no shares.
 *
 * mode SHARED: there is one share for each host, at least one. owner is empty, epoch 0, and version
 * that of the newest share. token_first == token_last is the token that all readers of all hosts
 * show until the next exclusive grant.
 *
 * mode NONE: there is no owner and no share, and token_last is 0.
 */
struct message_value {
    struct message_order version; /* names the grant: the order of its first proposal */
    uint64_t token_first; /* of the leased range; with mode none: of the range to be leased next */
    uint64_t token_last;  /* of the leased range; with mode none 0 */
    struct message_agent owner;
    struct message_agent successor; /* reserved for the agent to which the owner hands the lock; now
                                     * always none */
    uint32_t epoch;                 /* of the owner's session */
    uint16_t lock_delay_ms;         /* the largest that the grant covers */
    uint16_t permits;               /* reserved for semaphores; now always 1 */
    uint8_t mode;                   /* enum message_mode */
    uint8_t closing;                /* reserved; now always 0 */
    uint8_t share_count;
    struct message_share shares[MESSAGE_SHARES_MAX]; /* the last member; shares from share_count on
                                                      * are not initialised */
};

/* How far deletion has gone in a partition. A register was deleted if the newest value that was
 * seen of it was accepted at or below `order`, and it is missing now. New names start above floor.
 * All 0: there was no deletion yet. */
struct message_checkpoint {
    struct message_order order;
    uint64_t floor; /* a token */
};

/* The numbers are those on the wire. They are never changed; a new kind goes to the end of its
 * half. */
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
    MESSAGE_ACQUIRE,     /* host -> coordinator, as the next three */
    MESSAGE_AMEND,
    MESSAGE_GIVE_BACK,
    MESSAGE_BREAK,        /* an administrator's break; the coordinator passes it on to the owners */
    MESSAGE_HEARTBEAT,    /* voter -> voter: the partitions that it coordinates, the voters that it
                           * receives */
    MESSAGE_HELLO,        /* agent -> voter: its identity and its knowledge of the cell */
    MESSAGE_SYNC,         /* voter -> voter: asks for registers or marks after a given place */
    MESSAGE_SYNCED,       /* its answer: one of them, or the end */
    MESSAGE_CHECKPOINT,   /* coordinator -> acceptor: delete idle registers */
    MESSAGE_CHECKPOINTED, /* its answer */
    MESSAGE_VOTER_END,
    /* For a host. */
    MESSAGE_RENEW_ACK = 64,
    MESSAGE_GRANT,
    MESSAGE_AMENDED,
    MESSAGE_GIVE_BACK_ACK,
    MESSAGE_RECALL,
    MESSAGE_REFUSED,
    MESSAGE_OWNER,      /* coordinator -> every host: it coordinates these partitions now */
    MESSAGE_BREAK_HOLD, /* coordinator -> owner: an administrator's break */
    MESSAGE_BROKEN,     /* host -> host: the outcome of a break */
    MESSAGE_CHECK,      /* host -> host: asks whether a hold is still held */
    MESSAGE_CHECKED,    /* its answer */
    MESSAGE_HELLO_ACK,  /* voter -> agent: the cell's rules, if the agent's differ */
    MESSAGE_KIND_END,
};

static inline bool message_kind_valid(unsigned kind)
{
    return (kind >= MESSAGE_PREPARE && kind < MESSAGE_VOTER_END) ||
           (kind >= MESSAGE_RENEW_ACK && kind < MESSAGE_KIND_END);
}

/* Returns whether a message of this kind goes to the host core, not to the quorum core. */
static inline bool message_is_for_host(enum message_kind kind)
{
    return kind >= MESSAGE_RENEW_ACK;
}

/* Returns whether a voter may pass such a message on: only requests of hosts, and answers to
 * them. */
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
    bool rejoin; /* from a voter that starts over: it is not refused because of an owner whose
                  * heartbeat counts, since that voter will not coordinate under this ballot */
};

/* promised, refused and owned have no partition in common. refused: because of a higher promise;
 * higher is the highest of them. owned: because another voter's claim to the partition counts
 * here. */
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

/* higher != 0: refused because of that promise. known: the acceptor has a value. */
struct message_read_value {
    uint64_t ballot;
    uint64_t higher;
    struct message_checkpoint checkpoint; /* the acceptor's, of the name's partition */
    struct message_name name;
    bool known;
    struct message_order accepted;
    struct message_value value;
};

/* chosen: a majority has accepted it already. It gets no answer. */
struct message_accept {
    struct message_order order;
    struct message_name name;
    bool chosen;
    struct message_value value;
};

/* higher != 0: refused because of that promise. full: refused because the tables are full. */
struct message_accepted {
    struct message_order order;
    uint64_t higher;
    bool full;
    struct message_name name;
};

/* A voter's stamp on an acknowledgement. Only that voter interprets it. */
struct message_echo {
    uint64_t incarnation; /* of the voter's process; 0: none yet */
    int64_t issued_ns;
};

struct message_renew {
    struct message_agent agent;
    uint32_t epoch; /* 0: asks for the agent's highest epoch (dead_epoch of the answer) */
    uint64_t renewal_id;
    struct message_echo echo; /* of this voter's last acknowledgement */
    uint64_t rules; /* message_rules_digest(); a voter with other rules acknowledges nothing */
    char advertise[MESSAGE_ADDRESS_MAX];
    char release[MESSAGE_RELEASE_MAX]; /* of Holdfast, that the host runs; "": not known */
};

struct message_renew_ack {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t renewal_id; /* of the renewal that it answers */
    struct message_echo echo;
    bool extended;       /* only acknowledgements with it extend the lease */
    uint32_t dead_epoch; /* all epochs of the agent up to this one are marked here; 0: none. With
                            epoch 0: the highest known here */
    char release[MESSAGE_RELEASE_MAX]; /* that the voter runs; "": not known */
};

/* POLL and MARK concern all epochs of the agent up to this one. */
struct message_session {
    struct message_agent agent;
    uint32_t epoch;
};

/* POLLED, yes: the session has lapsed, or is marked. MARKED, yes: it is marked, durably. If not,
 * wait_ns is how long until it may have lapsed, by the voter's clock. */
struct message_session_answer {
    struct message_agent agent;
    uint32_t epoch;
    bool yes;
    int64_t wait_ns;
};

/*
 * Requests of a host. The host chooses request_id, unique among its session's requests. A request
 * repeated with the same id gets the same answer. agent and epoch name the host.
 */
struct message_acquire {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    uint8_t mode; /* SHARED or EXCLUSIVE; a repeat may ask for the other mode and keeps its turn */
    uint16_t lock_delay_ms;
    uint32_t waited_ms; /* how long the host has been asking; it rises with each repeat */
    uint8_t tries;      /* enum message_tries */
};

/* Whether processes of the asking host only try the lock: they wait only for an idle grant. If the
 * lock is in use elsewhere, the coordinator answers REFUSED_IN_USE. */
enum message_tries {
    MESSAGE_TRIES_NONE = 0, /* processes wait, and none tries */
    MESSAGE_TRIES_ALSO,     /* some wait, some try: the request keeps its turn after that answer */
    MESSAGE_TRIES_ONLY,     /* none waits: the request ends with that answer */
};

/*
 * Changes the grant that `version` names; the version stays the same. lock_delay_ms only rises.
 *
 * mode: NONE leaves the mode. EXCLUSIVE changes a share, which must be the only one (else
 * REFUSED_VERSION), and leases a range above its token. SHARED changes an exclusive grant and gives
 * back the unused part of its range.
 *
 * token_last: 0 asks for no range. Otherwise it is the last token of the newest range that the host
 * knows, and asks for the next range. (A repeat gets the same range again.)
 *
 * token_used, for a change to SHARED: the last token of the range that was used; readers show it
 * from then on. If it is not of the newest range, as in a late repeat, nothing changes (see
 * core/quorum/queues_plan.c). Earlier releases do not have the field: they name the range by its
 * token_last, and all of the range counts as used.
 *
 * in_use: the message changes nothing. It answers the RECALL that has its request_id: the grant is
 * in use, and stays. Its mode is NONE and its numbers are 0, so a coordinator that does not know
 * the field changes nothing either.
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

/* token_used: the highest token of the grant that was given to a hold; 0: none was. */
struct message_give_back {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint64_t token_used;
};

/* GRANT and AMENDED: the grant that the host has now. Its mode may differ from the one asked for,
 * if the host held a grant already; then the host gives that one back and asks again, or amends it.
 * fresh: the grant was made for this very request; otherwise the host had it already, or the
 * coordinator does not know. */
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

/* What a RECALL asks of a grant that is in use. */
enum message_recall {
    MESSAGE_RECALL_WAITS = 0, /* another host waits: the grant goes back as soon as it is not in
                               * use */
    MESSAGE_RECALL_TELLS,     /* the same, and the owner reports at once that it is in use */
    MESSAGE_RECALL_IF_IDLE,   /* other hosts only try: the grant stays as it is, and the owner
                               * reports that */
    MESSAGE_RECALL_TO_READ,   /* the same, but if only readers use it, readers of other hosts may
                               * join */
    MESSAGE_RECALL_END,
};

/* GIVE_BACK_ACK: the register no longer has that version. RECALL: another host wants the lock.
 * request_id is 0, or names the RECALL for the owner's answer (AMEND with in_use). Its low 16 bits
 * are all set then, which no request of a host has. */
struct message_version {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint8_t recall; /* RECALL: enum message_recall */
};

/* An administrator's break, to the coordinator (BREAK) and from there to each owner (BREAK_HOLD).
 * The outcome goes to agent: BROKEN. */
struct message_break {
    struct message_agent agent; /* the host that asks */
    uint64_t request_id;        /* the id that this host gave the request */
    struct message_name name;
    bool now;                     /* no lock-delay */
    struct message_order version; /* BREAK_HOLD: the owner's grant; the break concerns no other */
    uint64_t user; /* the administrator's uid on that host, plus 1; 0: not known. For people only */
};

/* BROKEN and CHECKED: the outcome of a request of agent. */
struct message_outcome {
    struct message_agent agent; /* the host that asked */
    uint64_t request_id;
    int32_t result; /* 0, or a negative HF_E... */
};

/* Asks the holder's host whether the hold that a sequencer names is still held. */
struct message_check {
    struct message_agent agent; /* the host that asks */
    uint64_t request_id;
    struct message_name name;
    uint64_t token;
    uint64_t cell_word; /* shared: the reader's cell */
    uint32_t epoch;
    uint32_t holder;
    uint32_t seat;
    bool shared;
};

/* The sender coordinates these partitions now. Hosts send it their unanswered requests again. */
struct message_owner {
    uint64_t ballot; /* the highest of them */
    struct message_partitions partitions;
};

/*
 * A heartbeat between voters, one in each interval. A coordinator's heartbeat counts while
 * `majority` is true and the heartbeat is not older than the suspicion timeout.
 */
struct message_heartbeat {
    uint64_t number; /* of this heartbeat; from a random start, rising */
    uint64_t echo;   /* the number of the receiver's last heartbeat that the sender got; 0: none */
    /* a majority echoed a recent heartbeat of the sender, and the sender goes on coordinating; when
     * this ends, others replace it at once */
    bool majority;
    bool votes;                      /* the sender may vote */
    struct message_partitions owned; /* the partitions that it coordinates */
};

/* The rules of a cell; the same in every configuration of it. */
struct message_rules {
    uint32_t voter_count;
    struct message_agent voters[MESSAGE_VOTERS_MAX]; /* in ascending order of their names */
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent;
};

/* Which store a voter votes with. */
struct message_member {
    uint64_t store_id[2]; /* 0, 0: not known */
    uint32_t generation;  /* how often the voter started over; the higher generation is the valid
                           * one */
};

enum message_voter_status {
    MESSAGE_STATUS_OBSERVER = 0, /* no voter */
    MESSAGE_STATUS_EMPTY,        /* a voter without a record of stores */
    MESSAGE_STATUS_LISTED,       /* has the record; waits for what others have seen of its store */
    MESSAGE_STATUS_VOTING,
    MESSAGE_STATUS_REFUSED, /* its store is not the one in the record, or is an old copy */
    MESSAGE_STATUS_REJOINING,
};

/* HELLO and HELLO_ACK. The header's store_id and commit are the sender's. */
struct message_hello {
    bool answer; /* this HELLO is an answer, and gets no answer */
    uint8_t status;
    uint64_t incarnation; /* of the sender's process */
    uint64_t echo;        /* in an answer: the incarnation in the HELLO */
    struct message_rules rules;
    bool bootstrapped;
    struct message_member members[MESSAGE_VOTERS_MAX]; /* as the sender knows them */
    struct message_member seen; /* the receiver's store, as the sender knows it */
    uint64_t seen_commit;       /* and its highest commit; 0: none */
    char advertise[MESSAGE_ADDRESS_MAX];
};

enum message_sync_what { MESSAGE_SYNC_REGISTERS = 1, MESSAGE_SYNC_MARKS = 2 };

/* In `after`: asks only whether there is a difference. The answer is SAME or END. */
#define MESSAGE_SYNC_PROBE UINT32_MAX
/* The most registers or marks that answer one PULL. */
#define MESSAGE_SYNC_BATCH 32

/* Asks for the registers of a partition (or all marks) after the place `after`; 0: from the first.
 * digest is that of the asker's registers: if the answerer's is equal, it answers just SAME. */
struct message_sync {
    uint8_t what; /* enum message_sync_what */
    uint8_t partition;
    uint64_t id; /* echoed */
    uint32_t after;
    uint64_t digest;
    struct message_checkpoint checkpoint;
};

enum message_synced_kind {
    MESSAGE_SYNCED_SAME = 1, /* digests and checkpoints are equal: the end */
    MESSAGE_SYNCED_REGISTER,
    MESSAGE_SYNCED_MARK,
    MESSAGE_SYNCED_MORE, /* the end of this answer: ask again for what follows `next` */
    MESSAGE_SYNCED_END,
};

struct message_synced {
    uint8_t what;
    uint8_t partition;
    uint8_t kind; /* enum message_synced_kind */
    uint64_t id;
    uint32_t index; /* numbers the answers to one PULL from 0; a gap shows a lost one */
    uint32_t next;
    struct message_checkpoint checkpoint; /* the checkpoint of the answering voter */
    struct message_session mark;
    struct message_name name;
    struct message_order accepted;
    struct message_value value;
};

/*
 * Deletes the idle registers (mode NONE) of a partition whose accepted order is at or below
 * checkpoint.order. An acceptor does so only if live is the digest of its registers that are not
 * idle, and it has no register above the order.
 */
struct message_delete {
    uint64_t ballot;
    uint8_t partition;
    struct message_checkpoint checkpoint;
    uint64_t live;
};

/* higher != 0: refused because of that promise. missing: refused because the acceptor lacks
 * something. */
struct message_deleted {
    uint64_t ballot;
    uint8_t partition;
    struct message_order order;
    uint64_t higher;
    bool missing;
};

enum message_refusal {
    MESSAGE_REFUSED_FULL = 1,  /* a table of a voter is full */
    MESSAGE_REFUSED_NOT_OWNER, /* another voter coordinates this name: see owner */
    MESSAGE_REFUSED_SESSION,   /* the asking session is over, or a newer one has replaced it */
    MESSAGE_REFUSED_VERSION,   /* AMEND: the register does not have that version (any more) */
    MESSAGE_REFUSED_TOKENS,    /* the name has used up its tokens */
    MESSAGE_REFUSED_RULES,     /* the sender's configuration contradicts the cell's */
    MESSAGE_REFUSED_QUOTA,  /* the agent has as many requests at the voter as one agent may have */
    MESSAGE_REFUSED_IN_USE, /* ACQUIRE with tries: the lock is held, awaited or closed elsewhere */
    MESSAGE_REFUSED_END,
};

struct message_refused {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    uint8_t reason;             /* enum message_refusal */
    struct message_agent owner; /* NOT_OWNER: the probable coordinator, or none */
};

/* What every message carries. */
struct message {
    enum message_kind kind;
    uint32_t membership; /* the membership number (generations of stores) that the sender knows */
    struct message_agent from;
    uint64_t store_id[2]; /* of the sender's store */
    uint64_t commit;      /* the sender's last commit known to be durable */
    /* If not empty, the agent to which the receiver passes the message on, once (relayed). Only
     * requests of hosts and their answers are passed on. */
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
        struct message_outcome outcome;  /* BROKEN, CHECKED */
        struct message_check check;
        struct message_owner owner;
        struct message_heartbeat heartbeat;
        struct message_hello hello; /* HELLO, HELLO_ACK */
        struct message_sync sync;
        struct message_synced synced;
        struct message_delete checkpoint;
        struct message_deleted checkpointed;
    } as;
};

/* The part of a message to zero, and always to copy: everything except most of the shares. */
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

/* Returns how many bytes of the message are used, from its beginning. */
static inline size_t message_size(const struct message *message)
{
    const struct message_value *value = message_value_of(message);
    if (value == NULL || value->share_count == 0) {
        return MESSAGE_BASE_SIZE;
    }
    const char *end = (const char *)&value->shares[value->share_count];
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

/* The last token of a range of `size` tokens from first. A range never goes beyond its block. */
static inline uint64_t message_token_range_last(uint64_t first, uint64_t size)
{
    uint64_t block_last = first | (MESSAGE_TOKEN_BLOCK - 1);
    uint64_t range_last = first + (size - 1);
    return range_last < block_last ? range_last : block_last;
}

/* Returns whether a range may begin with first. A token after a generation's last one belongs to
 * the next generation, which begins only by an operator's act. So a generation's first token is
 * never leased. */
static inline bool message_token_leasable(uint64_t first)
{
    return first < MESSAGE_TOKEN_LIMIT && (first & (MESSAGE_TOKEN_GENERATION - 1)) != 0;
}

/* The digest of a cell's rules (FNV-1a over their fields, the same on every host). */
uint64_t message_rules_digest(const struct message_rules *rules);

/* Compares the rules of two configurations. If they contradict each other, writes one line such as
 * "session_ttl: 5s here, 7s there; voters: host-c is only here" into text. Returns false if they do
 * not. */
bool message_rules_differ(const struct message_rules *here, const struct message_rules *there,
                          char *text, size_t size);

#endif
