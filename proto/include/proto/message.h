/*
 * The messages that agents send each other: plain structs, before and after they are on a wire.
 *
 * A cell of one host uses the same messages: the agent sends them to itself, and they never leave
 * the process. So nothing here is a pointer: a message may be queued until what it depends on is
 * durable, and copied at will.
 *
 * Agents are named by their names, never by an index: an index is each agent's own affair.
 * Every field that a stranger can fill in is checked by message_valid() before the core sees it.
 */
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MESSAGE_PARTITIONS = 256,
    MESSAGE_NAME_MAX = 255,    /* bytes of a lock name */
    MESSAGE_AGENT_MAX = 32,    /* bytes of an agent name */
    MESSAGE_ADDRESS_MAX = 128, /* bytes of an address, its final zero included */
    MESSAGE_VOTERS_MAX = 7,    /* voters of a cell */
    MESSAGE_LOCK_DELAY_MAX_MS = 60000,
};

/*
 * A ballot is (round << 16 | voter id), below 2^48; 0 is below every ballot. A sequence counts
 * the proposals of one ballot, from 1 to below 2^40. (ballot, sequence) orders all proposals.
 */
#define MESSAGE_BALLOT_LIMIT (UINT64_C(1) << 48)
#define MESSAGE_SEQUENCE_LIMIT (UINT64_C(1) << 40)
/* Tokens are from 1 to below this. */
#define MESSAGE_TOKEN_LIMIT (UINT64_C(1) << 63)
/* A grant leases this many tokens, fewer before a multiple of MESSAGE_TOKEN_BLOCK. */
#define MESSAGE_TOKEN_RANGE (UINT64_C(1) << 32)
#define MESSAGE_TOKEN_BLOCK (UINT64_C(1) << 40)

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

/* What the quorum knows of one lock. All zero but token_first == 1: a name never used. */
struct message_value {
    struct message_order version; /* names the grant: the order of its first proposal */
    uint64_t token_first; /* of the leased range; with mode none: of the range to be leased next */
    uint64_t token_last;  /* of the leased range; with mode none 0 */
    struct message_agent owner;
    struct message_agent successor; /* room: whom the owner hands it to; now always nobody */
    uint32_t epoch;                 /* of the owner's session */
    uint16_t lock_delay_ms;         /* the largest that the grant covers */
    uint16_t permits;               /* room for semaphores; now always 1 */
    uint8_t mode;                   /* enum message_mode */
    uint8_t closing;                /* room; now always 0 */
};

enum message_kind {
    /* For a voter. */
    MESSAGE_PREPARE = 1, /* coordinator -> acceptor */
    MESSAGE_PROMISE,     /* its answer */
    MESSAGE_READ,        /* coordinator -> acceptor */
    MESSAGE_VALUE,       /* its answer */
    MESSAGE_ACCEPT,      /* coordinator -> acceptor */
    MESSAGE_ACCEPTED,    /* its answer */
    MESSAGE_RENEW,       /* host -> voter */
    MESSAGE_POLL,        /* coordinator -> voter: has this session lapsed? */
    MESSAGE_POLLED,
    MESSAGE_MARK, /* coordinator -> voter: mark it dead if it has lapsed by now */
    MESSAGE_MARKED,
    MESSAGE_ACQUIRE, /* host -> coordinator */
    MESSAGE_AMEND,
    MESSAGE_GIVE_BACK,
    /* For a host. */
    MESSAGE_RENEW_ACK,
    MESSAGE_GRANT,
    MESSAGE_AMENDED,
    MESSAGE_GIVE_BACK_ACK,
    MESSAGE_RECALL,
    MESSAGE_REFUSED,
    MESSAGE_KIND_END,
};

/* Whether the host core, rather than the quorum core, is to get a message of this kind. */
static inline bool message_is_for_host(enum message_kind kind)
{
    return kind >= MESSAGE_RENEW_ACK;
}

/* ballot, for partitions: promise to refuse lower ones. */
struct message_prepare {
    uint64_t ballot;
    struct message_partitions partitions;
};

/* promised and refused share no partition; higher is the highest ballot that refused one. */
struct message_promise {
    uint64_t ballot;
    struct message_partitions promised;
    struct message_partitions refused;
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
    struct message_name name;
    bool known;
    struct message_order accepted;
    struct message_value value;
};

struct message_accept {
    struct message_order order;
    struct message_name name;
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
    uint32_t epoch;
    uint64_t renewal_id;
    struct message_echo echo; /* of this voter's last acknowledgement */
    char advertise[MESSAGE_ADDRESS_MAX];
};

struct message_renew_ack {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t renewal_id; /* of the renewal that it answers */
    struct message_echo echo;
    bool extended;       /* only these count */
    uint32_t dead_epoch; /* all epochs of the agent up to this one are marked here; 0: none */
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
 * asked again under its id is answered the same. Who asked is agent and epoch.
 */
struct message_acquire {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    uint8_t mode; /* MESSAGE_MODE_SHARED or MESSAGE_MODE_EXCLUSIVE */
    uint16_t lock_delay_ms;
};

/*
 * Changes the grant named by version, which stays its name. lock_delay_ms only ever rises.
 * mode: MESSAGE_MODE_NONE leaves it, else it is changed to this one.
 * token_last: 0 asks for no range; else the last token of the newest range the host knows: it asks
 * for the one above it. (Asked again, the answer is the range that it got.)
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

/* GRANT and AMENDED: what the host has now. The mode may be another than the one asked for: the
 * host held a grant already. It gives that one back and asks again, or amends it. */
struct message_grant {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    struct message_order version;
    uint8_t mode;
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

enum message_refusal {
    MESSAGE_REFUSED_FULL = 1,  /* a table of a voter is full */
    MESSAGE_REFUSED_NOT_OWNER, /* another coordinates this name: see owner */
    MESSAGE_REFUSED_SESSION,   /* the session that asks is dead or superseded */
    MESSAGE_REFUSED_VERSION,   /* AMEND: the register does not have that version (any more) */
    MESSAGE_REFUSED_TOKENS,    /* the name has used up its tokens */
};

struct message_refused {
    struct message_agent agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_name name;
    uint8_t reason;             /* enum message_refusal */
    struct message_agent owner; /* NOT_OWNER: who may be, or nobody */
};

/* What every message carries. */
struct message {
    enum message_kind kind;
    uint32_t membership; /* number of the voters' list that the sender knows */
    struct message_agent from;
    uint64_t store_id[2]; /* of the sender's store */
    uint64_t commit;      /* the sender's last commit known durable */
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
    } as;
};

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

/* The last token of a range that begins with first. */
static inline uint64_t message_token_range_last(uint64_t first)
{
    uint64_t block_last = first | (MESSAGE_TOKEN_BLOCK - 1);
    uint64_t range_last = first + (MESSAGE_TOKEN_RANGE - 1);
    return range_last < block_last ? range_last : block_last;
}

#endif
