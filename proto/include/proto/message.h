/*
 * The messages that agents send each other: plain structs, before and after they are on a wire.
 *
 * A cell of one host uses the same messages: the agent sends them to itself, and they never leave
 * the process. So nothing here is a pointer: a message may be queued until what it depends on is
 * durable, and copied (message_copy() leaves out the room for shares that is not used).
 *
 * Agents are named by their names, never by an index: an index is each agent's own affair.
 * Every field that a stranger can fill in is checked by message_valid() before the core sees it.
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
 * A ballot is (round << 16 | voter id), below 2^48; 0 is below every ballot. A sequence counts
 * the proposals of one ballot, from 1 to below 2^40. (ballot, sequence) orders all proposals.
 */
#define MESSAGE_BALLOT_LIMIT (UINT64_C(1) << 48)
#define MESSAGE_SEQUENCE_LIMIT (UINT64_C(1) << 40)
/* Tokens are from 1 to below this. */
#define MESSAGE_TOKEN_LIMIT (UINT64_C(1) << 63)
/* Of a session: the most that a region's header has room for. Of a store: the most to which SQLite
 * counts. */
#define MESSAGE_EPOCH_LIMIT (UINT32_C(1) << 24)
#define MESSAGE_COMMIT_LIMIT (UINT64_C(1) << 62)
#define MESSAGE_GENERATION_LIMIT (UINT32_C(1) << 31)
/* A range has at most so many tokens, and none has tokens of two blocks. The top 11 of a token's 63
 * bits are the cell's generation. */
#define MESSAGE_TOKEN_RANGE (UINT64_C(1) << 32)
#define MESSAGE_TOKEN_BLOCK (UINT64_C(1) << 40)
#define MESSAGE_TOKEN_GENERATION (UINT64_C(1) << 52)

struct message_order {
    uint64_t ballot;
    uint64_t sequence;
};

/* Zero-padded behind length: two equal names are equal bytes. */
struct message_agent {
    uint8_t length; /* 0: nobody */
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
 * The quorum's knowledge of one lock. All zero but token_first and permits == 1: a name never used
 * (after a deletion in its partition: token_first is above the checkpoint's floor).
 *
 * mode EXCLUSIVE: owner, epoch and version name the grant; there are no shares.
 * mode SHARED: one share for each host, at least one; owner is nobody, epoch 0, version the newest
 * share's; token_first == token_last: the token that all readers of all hosts show, until the next
 * exclusive grant.
 * mode NONE: no owner, no shares, token_last 0.
 */
struct message_value {
    struct message_order version; /* names the grant: the order of its first proposal */
    uint64_t token_first; /* of the leased range; with mode none: of the range to be leased next */
    uint64_t token_last;  /* of the leased range; with mode none 0 */
    struct message_agent owner;
    struct message_agent successor; /* room: the agent to which the owner hands it; now always
                                     * none */
    uint32_t epoch;                 /* of the owner's session */
    uint16_t lock_delay_ms;         /* the largest that the grant covers */
    uint16_t permits;               /* room for semaphores; now always 1 */
    uint8_t mode;                   /* enum message_mode */
    uint8_t closing;                /* room; now always 0 */
    uint8_t share_count;
    struct message_share shares[MESSAGE_SHARES_MAX]; /* last; those from share_count on are not
                                                        initialised */
};

/* Where deletion in a partition stands: registers whose newest value was accepted at or below order
 * and that are not there any more are deleted; new names start above floor. All 0: none yet. */
struct message_checkpoint {
    struct message_order order;
    uint64_t floor; /* a token */
};

/* The numbers are the wire's: never renumbered, new ones at the end of their half. */
enum message_kind {
    /* For a voter's quorum core. */
    MESSAGE_PREPARE = 1, /* coordinator -> acceptor */
    MESSAGE_PROMISE,     /* its answer */
    MESSAGE_READ,        /* coordinator -> acceptor */
    MESSAGE_VALUE,       /* its answer */
    MESSAGE_ACCEPT,      /* coordinator -> acceptor */
    MESSAGE_ACCEPTED,    /* its answer */
    MESSAGE_RENEW,       /* host -> voter */
    MESSAGE_POLL,        /* coordinator -> voter: has this session lapsed? */
    MESSAGE_POLLED,      /* its answer */
    MESSAGE_MARK,        /* coordinator -> voter: mark it dead if it has lapsed by now */
    MESSAGE_MARKED,      /* its answer */
    MESSAGE_ACQUIRE,     /* host -> coordinator, as the next three */
    MESSAGE_AMEND,
    MESSAGE_GIVE_BACK,
    MESSAGE_BREAK,        /* an administrator's; the coordinator passes it on to the owners */
    MESSAGE_BEAT,         /* voter -> voter: the partitions that it coordinates, the voters that it
                           * receives */
    MESSAGE_HELLO,        /* agent -> voter: its identity and its knowledge of the cell */
    MESSAGE_PULL,         /* voter -> voter: registers or marks of a partition, from a place on */
    MESSAGE_PULLED,       /* its answer: one of them, or the end */
    MESSAGE_CHECKPOINT,   /* coordinator -> acceptor: delete what is idle */
    MESSAGE_CHECKPOINTED, /* its answer */
    MESSAGE_VOTER_END,
    /* For a host. */
    MESSAGE_RENEW_ACK = 64,
    MESSAGE_GRANT,
    MESSAGE_AMENDED,
    MESSAGE_GIVE_BACK_ACK,
    MESSAGE_RECALL,
    MESSAGE_REFUSED,
    MESSAGE_OWNER,      /* coordinator -> every host: these partitions are mine now */
    MESSAGE_BREAK_HOLD, /* coordinator -> owner: an administrator's break */
    MESSAGE_BROKEN,     /* host -> host: its outcome */
    MESSAGE_CHECK,      /* host -> host: is this held now? */
    MESSAGE_CHECKED,    /* its answer */
    MESSAGE_HELLO_ACK,  /* voter -> agent: the cell's rules, for one whose configuration differs */
    MESSAGE_KIND_END,
};

static inline bool message_kind_valid(unsigned kind)
{
    return (kind >= MESSAGE_PREPARE && kind < MESSAGE_VOTER_END) ||
           (kind >= MESSAGE_RENEW_ACK && kind < MESSAGE_KIND_END);
}

/* Whether the host core, rather than the quorum core, is to get a message of this kind. */
static inline bool message_is_for_host(enum message_kind kind)
{
    return kind >= MESSAGE_RENEW_ACK;
}

/* Whether a voter may pass it on to its receiver: requests of hosts, and their answers. */
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

/* ballot, for partitions: promise to refuse lower ones. */
struct message_prepare {
    uint64_t ballot;
    struct message_partitions partitions;
    bool rejoin; /* of a voter that starts over: not refused for the sake of an owner whose
                  * heartbeat counts; it will not coordinate under this ballot */
};

/* promised, refused and owned share no partition; higher is the highest ballot that refused one.
 * owned: refused because the heartbeat of another coordinator of it counts here. */
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

/* chosen: a majority has it already, and nobody waits for an answer: there is none. */
struct message_accept {
    struct message_order order;
    struct message_name name;
    bool chosen;
    struct message_value value;
};

/* higher != 0: refused because of that promise. full: refused, its tables are full. */
struct message_accepted {
    struct message_order order;
    uint64_t higher;
    bool full;
    struct message_name name;
};

/* A voter's stamp on an acknowledgement: meaningful to that voter alone. */
struct message_echo {
    uint64_t incarnation; /* of the voter's process; 0: none yet */
    int64_t issued_ns;
};

struct message_renew {
    struct message_agent agent;
    uint32_t epoch; /* 0: asks which was the highest that it had: ACK's dead_epoch */
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
    bool extended;       /* only these count */
    uint32_t dead_epoch; /* all epochs of the agent up to this one are marked here; 0: none. With
                            epoch 0: the highest known here */
    char release[MESSAGE_RELEASE_MAX]; /* that the voter runs; "": not known */
};

/* POLL and MARK: all epochs of the agent up to epoch. */
struct message_session {
    struct message_agent agent;
    uint32_t epoch;
};

/* POLLED: yes: it has lapsed, or is marked. MARKED: yes: it is marked, durably.
 * wait_ns: if not, how long until it may have lapsed, by the voter's clock. */
struct message_session_answer {
    struct message_agent agent;
    uint32_t epoch;
    bool yes;
    int64_t wait_ns;
};

/*
 * Requests of a host. request_id is the host's, unique among the session's requests; a request
 * asked again under its id is answered the same. agent and epoch name the host.
 */
struct message_acquire {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    uint8_t mode; /* SHARED or EXCLUSIVE; a repeat may ask for the other, in its old place */
    uint16_t lock_delay_ms;
    uint32_t waited_ms; /* how long the host has been asking; a repeat says more */
};

/*
 * Changes the grant named by version, which stays its name. lock_delay_ms only ever rises.
 * mode: MESSAGE_MODE_NONE leaves it, else it is changed to this one: EXCLUSIVE on a share that is
 * the only one (else REFUSED_VERSION) leases a range above its token, SHARED on an exclusive grant
 * gives its range back but for what was used.
 * token_last: 0 asks for no range; else the last token of the newest range the host knows: it asks
 * for the one above it. (Asked again, the answer is the range that it got.)
 * token_used: of a change to SHARED: the last token of the range that was used, which the readers
 * show from then on. Nothing changes if it is not of the newest range, as in a late repeat (see
 * core/quorum/queues_plan.c). Releases before did not have it: they name the range by its
 * token_last, and all of it counts as used.
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
};

/* token_used: the highest token of the grant that was handed out; 0: none was. */
struct message_give_back {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint64_t token_used;
};

/* GRANT and AMENDED: the grant that the host has now. The mode may be another than the one asked
 * for: the host held a grant already. It gives that one back and asks again, or amends it. fresh:
 * made for this very request; else the host had it already, or the coordinator does not know. */
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

/* GIVE_BACK_ACK: the register no longer has that version. RECALL: somebody else waits for it
 * (request_id is 0). */
struct message_version {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
};

/* An administrator's break, to the coordinator (BREAK) and from there to each owner (BREAK_HOLD).
 * The outcome goes to agent: BROKEN. */
struct message_break {
    struct message_agent agent; /* who asks */
    uint64_t request_id;        /* that host's */
    struct message_name name;
    bool now;                     /* no lock-delay */
    struct message_order version; /* BREAK_HOLD: of the owner's grant, no other is meant */
};

/* BROKEN and CHECKED: the outcome of a request of agent. */
struct message_outcome {
    struct message_agent agent; /* who asked */
    uint64_t request_id;
    int32_t result; /* 0, or a negative HF_E... */
};

/* Asks whether a hold, as its sequencer names it, is held now. Sent to the holder's host. */
struct message_check {
    struct message_agent agent; /* who asks */
    uint64_t request_id;
    struct message_name name;
    uint64_t token;
    uint64_t cell_word; /* shared: the reader's cell */
    uint32_t epoch;
    uint32_t holder;
    uint32_t seat;
    bool shared;
};

/* These partitions have that coordinator (the sender) now: requests that wait for an answer are to
 * be sent there again. */
struct message_owner {
    uint64_t ballot; /* the highest of them */
    struct message_partitions partitions;
};

/*
 * Voter to voter, a heartbeat in each BEAT interval. A coordinator's heartbeat counts for as long
 * as `majority` was true and it is not older than the take-over timeout.
 */
struct message_beat {
    uint64_t number; /* of this heartbeat; from a random start, rising */
    uint64_t echo;   /* the number of the receiver's last heartbeat that arrived here, 0: none */
    bool majority;   /* a majority echoed a heartbeat of the sender's that is not too old, and it
                      * goes on coordinating; if that ends it is replaced at once */
    bool votes;      /* the sender is a voter in good standing */
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
    uint32_t generation;  /* how often it started over; the higher is right */
};

enum message_standing {
    MESSAGE_STANDING_OBSERVER = 0, /* no voter */
    MESSAGE_STANDING_EMPTY,        /* a voter without a bootstrap record */
    MESSAGE_STANDING_LISTED,       /* has the record, waits for what others saw of it */
    MESSAGE_STANDING_VOTING,
    MESSAGE_STANDING_REFUSED, /* its store is not the one that the cell lists, or is behind */
    MESSAGE_STANDING_REJOINING,
};

/* HELLO and HELLO_ACK. The header's store_id and commit are the sender's. */
struct message_hello {
    bool answer; /* an answer to a HELLO, which wants none */
    uint8_t standing;
    uint64_t incarnation; /* of the sender's process */
    uint64_t echo;        /* an answer: the incarnation of the HELLO */
    struct message_rules rules;
    bool bootstrapped;
    struct message_member members[MESSAGE_VOTERS_MAX]; /* as the sender knows them */
    struct message_member seen; /* the receiver's store, as the sender knows it */
    uint64_t seen_commit;       /* and its highest commit; 0: none */
    char advertise[MESSAGE_ADDRESS_MAX];
};

enum message_pull_what { MESSAGE_PULL_REGISTERS = 1, MESSAGE_PULL_MARKS = 2 };

/* As `after`: only whether there is a difference is asked for (SAME, else END). */
#define MESSAGE_PULL_PROBE UINT32_MAX
/* The most registers or marks that answer one PULL. */
#define MESSAGE_PULL_BATCH 32

/* Asks for the registers of a partition (or all marks) behind the place `after` (0: from the
 * first). digest: of what the asker has: if the answerer has the same, it says so and no more. */
struct message_pull {
    uint8_t what; /* enum message_pull_what */
    uint8_t partition;
    uint64_t id; /* echoed */
    uint32_t after;
    uint64_t digest;
    struct message_checkpoint checkpoint;
};

enum message_pulled_kind {
    MESSAGE_PULLED_SAME = 1, /* digests and checkpoints are equal: the end */
    MESSAGE_PULLED_REGISTER,
    MESSAGE_PULLED_MARK,
    MESSAGE_PULLED_MORE, /* so many for now: ask again behind `next` */
    MESSAGE_PULLED_END,
};

struct message_pulled {
    uint8_t what;
    uint8_t partition;
    uint8_t kind; /* enum message_pulled_kind */
    uint64_t id;
    uint32_t index; /* of the answers to one PULL, from 0: a gap is a lost one */
    uint32_t next;
    struct message_checkpoint checkpoint; /* the answerer's */
    struct message_session mark;
    struct message_name name;
    struct message_order accepted;
    struct message_value value;
};

/*
 * Deletes the idle registers (mode NONE) of a partition whose accepted order is at or below
 * checkpoint.order. An acceptor does so only if live is the digest of the registers that it has
 * that are not idle, and it has none above the order.
 */
struct message_delete {
    uint64_t ballot;
    uint8_t partition;
    struct message_checkpoint checkpoint;
    uint64_t live;
};

/* higher != 0: refused because of that promise. missing: refused, it lacks something. */
struct message_deleted {
    uint64_t ballot;
    uint8_t partition;
    struct message_order order;
    uint64_t higher;
    bool missing;
};

enum message_refusal {
    MESSAGE_REFUSED_FULL = 1,  /* a table of a voter is full */
    MESSAGE_REFUSED_NOT_OWNER, /* another coordinates this name: see owner */
    MESSAGE_REFUSED_SESSION,   /* the session that asks is dead or superseded */
    MESSAGE_REFUSED_VERSION,   /* AMEND: the register does not have that version (any more) */
    MESSAGE_REFUSED_TOKENS,    /* the name has used up its tokens */
    MESSAGE_REFUSED_RULES,     /* the sender's configuration contradicts the cell's */
    MESSAGE_REFUSED_QUOTA,     /* as much as one agent may ask of a voter waits there already */
};

struct message_refused {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    uint8_t reason;             /* enum message_refusal */
    struct message_agent owner; /* NOT_OWNER: the voter that may be it, or none */
};

/* Carried by every message. */
struct message {
    enum message_kind kind;
    uint32_t membership; /* number of the voters' list that the sender knows */
    struct message_agent from;
    uint64_t store_id[2]; /* of the sender's store */
    uint64_t commit;      /* the sender's last commit known durable */
    /* The agent that it is for, if not the receiver; that one passes it on, once (relayed). Only
     * requests of hosts and their answers are. */
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
        struct message_beat beat;
        struct message_hello hello; /* HELLO, HELLO_ACK */
        struct message_pull pull;
        struct message_pulled pulled;
        struct message_delete checkpoint;
        struct message_deleted checkpointed;
    } as;
};

/* The part that has to be zeroed, and copied in any case: everything but (most of) the shares. */
#define MESSAGE_BASE_HELLO (offsetof(struct message, as) + sizeof(struct message_hello))
#define MESSAGE_BASE_VALUE offsetof(struct message, as.pulled.value.shares)
#define MESSAGE_BASE_SIZE                                                                          \
    (MESSAGE_BASE_HELLO > MESSAGE_BASE_VALUE ? MESSAGE_BASE_HELLO : MESSAGE_BASE_VALUE)

static inline const struct message_value *message_value_of(const struct message *message)
{
    return message->kind == MESSAGE_ACCEPT   ? &message->as.accept.value
           : message->kind == MESSAGE_VALUE  ? &message->as.value.value
           : message->kind == MESSAGE_PULLED ? &message->as.pulled.value
                                             : NULL;
}

/* How many bytes of it count, from its beginning. */
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

/* The last token of a range of `size` that begins with first: it ends with its block. */
static inline uint64_t message_token_range_last(uint64_t first, uint64_t size)
{
    uint64_t block_last = first | (MESSAGE_TOKEN_BLOCK - 1);
    uint64_t range_last = first + (size - 1);
    return range_last < block_last ? range_last : block_last;
}

/* Whether a range may begin with first. The token behind the last one of a generation is of the
 * next generation, which begins by an operator's act only: its very first token is never leased. */
static inline bool message_token_leasable(uint64_t first)
{
    return first < MESSAGE_TOKEN_LIMIT && (first & (MESSAGE_TOKEN_GENERATION - 1)) != 0;
}

/* The digest of a cell's rules (FNV-1a over their fields, the same on every host). */
uint64_t message_rules_digest(const struct message_rules *rules);

/* Which part of an agent's configuration contradicts the cell's: one line "session_ttl: 5s here,
 * 7s there; voters: host-c is only here" into text; false: nothing does. */
bool message_rules_differ(const struct message_rules *here, const struct message_rules *there,
                          char *text, size_t size);

#endif
