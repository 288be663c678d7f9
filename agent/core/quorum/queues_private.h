/*
 * The declarations that the files of the queues share. A file calls only files below it in this
 * list:
 *
 *   queues_request.c   brings a host's request into the queue of its name, or to another voter
 *   queues.c           the operations and their rounds with the voters
 *   queues_handover.c  passes the queues on to the voter that coordinates next
 *   queues_answer.c    answers the hosts; recalls idle shares for an upgrade that it refuses
 *   queues_wait.c      the waits of operations: times, sessions in the way, recalls
 *   queues_plan.c      decides the next value from the last value and the queue
 *   queues_answered.c  remembers the last answers
 *   queues_quota.c     limits how many requests of one host may wait
 *   queues_table.c     the table of operations
 *
 * The simulator reads these structs too: tests/sim/order.c checks the order of the queues, and
 * tests/sim/breaks_core.c breaks rules.
 */
#ifndef QUORUM_QUEUES_PRIVATE_H
#define QUORUM_QUEUES_PRIVATE_H

#include "core/base/heap.h"
#include "core/base/log_limit.h"
#include "queues.h"

enum {
    SPARED_MS = 20, /* after this time a round also goes to the voters that it left out at first */
    OUTCOMES_MAX = 16, /* the most requests answered together */
    BROKEN_KEPT = 64,
    VAIN_KEPT = 256,            /* a power of two */
    OPERATIONS_PER_REQUEST = 2, /* two, because a name keeps its operation for a moment after its
                                 * last request */
    ORDER_WAIT_MS = 100, /* how long a new coordinator waits for hosts to repeat earlier acquires */
    /* ORDER_WAIT_MS for the only voter of a cell after a start. Hosts first have to connect to the
     * voter again, which they try twice a second. The wait is shorter than a second because a try
     * waits a second for a grant: a free lock must not look busy. */
    ORDER_WAIT_ONLY_MS = 700,
    /* The most actions that one operation needs at once. It may answer requests, and one answer may
     * be a break that goes to every owner. Or it may send a recall to every owner. (Answers to
     * upgrades cause recalls too, but only if nobody waits and there is no break.) In both cases it
     * may also begin a round, or prepare a new ballot. */
    OPERATION_ACTIONS = OUTCOMES_MAX + MESSAGE_SHARES_MAX + 2 * (MESSAGE_VOTERS_MAX + 1),
};

/* In one step an operation may act twice: after the last answer of a round it answers hosts, and
 * then it begins the next round. */
_Static_assert((int)OPERATION_ACTIONS * 2 <= (int)QUORUM_STEP_ACTIONS,
               "two of one operation fit into a step");

/* The requests of one agent, and the operations that wait for it. */
struct quota {
    uint32_t waiting;         /* the first operation that waits for this agent's session to end */
    uint32_t acquires;        /* the agent's acquires in queues */
    uint32_t others;          /* the agent's other requests in queues */
    struct log_limit refused; /* limits the log lines about the agent's refused requests */
};

enum outcome {
    OUTCOME_NONE = 0,
    OUTCOME_GRANT,
    OUTCOME_AMENDED,
    OUTCOME_GIVEN_BACK,
    OUTCOME_BREAK,
    OUTCOME_ANSWERED,     /* the request is a late repeat, and gets the same answer as before */
    OUTCOME_HOST_GONE,    /* the host is gone, so the request gets no answer */
    OUTCOME_REFUSED_FULL, /* a voter has no room for one more value */
    OUTCOME_REFUSED_SHARES,
    OUTCOME_REFUSED_NOT_OWNER,
    OUTCOME_REFUSED_SESSION,
    OUTCOME_REFUSED_VERSION,
    OUTCOME_REFUSED_TOKENS,
    /* all processes that asked for the lock only try it, and they cannot have it now */
    OUTCOME_REFUSED_IN_USE,
};

/* A request of a host. The host sends it again until it is answered; each message is a copy. */
struct queued_request {
    uint32_t next; /* the next request in the operation's queue, or in the free list */
    uint32_t epoch;
    uint64_t id;
    int64_t arrived_ns; /* when the request first arrived; ACQUIRE: when it first arrived at any
                         * voter, as its host reports */
    int64_t seen_ns;    /* when its last copy arrived, from the host or from a voter */
    uint64_t probe;     /* ACQUIRE with tries: the number of its first probe; 0: none yet */
    uint32_t waited_ms; /* ACQUIRE: as the request's newest copy reports it */
    struct message_order version; /* ACQUIRE: the grant that this process last proposed for the
                                   * request; BREAK: `meant` of struct message_break */
    uint64_t token; /* AMEND: token_last, or token_used; GIVE_BACK: token_used; BREAK: user */
    uint16_t agent;
    uint16_t lock_delay_ms;
    uint8_t kind;    /* MESSAGE_ACQUIRE, AMEND, GIVE_BACK or BREAK */
    uint8_t mode;    /* BREAK: whether to break at once, without a lock-delay */
    uint8_t relay;   /* the voter that passed the request on, or ACTION_NO_RELAY */
    uint8_t outcome; /* the answer that is sent when the round's value is chosen */
    uint8_t tries;   /* ACQUIRE: enum message_tries, as in the newest copy */
    bool probes;     /* ACQUIRE with tries: the owners that block the request have yet to be
                      * asked */
    bool refused;    /* ACQUIRE with tries: processes that only try are answered that the lock is in
                      * use */
    bool again;      /* ACQUIRE: the request was answered before, see queues_answered.c */
    bool fresh;      /* ACQUIRE with a grant: the grant was made for this request */
    bool has_used;   /* AMEND: the field `token` has token_used, not token_last */
    bool counts;     /* BREAK: the host counts the owners' answers */
};

/* A break that was passed on to the owners at that time. A host repeats its break until every owner
 * has answered. Meanwhile an owner may give its grant back, and the lock may have a new owner that
 * the break does not concern. */
struct break_forwarded {
    uint64_t id;                /* the request's id; 0: the entry is free */
    struct message_order meant; /* the break concerns grants up to this version */
    uint16_t agent;
    uint16_t count;
    uint32_t copies; /* how often the host has repeated the break */
    struct share owners[MESSAGE_SHARES_MAX];
};

/* A name for which an upgrade was refused and idle shares were recalled. Two names with the same
 * index in the table overwrite each other's entry. That only makes recalls more frequent. */
struct vain {
    uint64_t name; /* the hash of the lock's name; 0: the entry is free */
    int64_t recall_ns;
    uint8_t recalls; /* how many times recalls were sent in a row */
};

/* An acquire that was answered with a grant. */
struct answered {
    uint32_t next; /* the next in its hash bucket */
    uint32_t epoch;
    uint64_t id;
    uint64_t name; /* the hash of the lock's name */
    struct message_order version;
    uint64_t token_first, token_last;
    uint16_t agent;
    uint16_t lock_delay_ms;
    uint8_t mode;
    bool fresh;
};

enum operation_state {
    /* No round is under way. If the operation has requests, it waits until the partition is
     * prepared, an owner answers, or a session or a lock-delay ends. */
    OPERATION_WAITING = 1,
    OPERATION_READING,
    OPERATION_ACCEPTING,
};

/* A lock name that has requests, or had one a moment ago. */
struct operation {
    uint32_t chain;          /* the next operation in its hash bucket, or in the free list */
    uint32_t previous, next; /* the operation's neighbours in its partition's list */
    uint32_t name;
    uint32_t first, last; /* the operation's queue of requests; acquires in order of arrival */
    /* the operation's neighbours in the list of operations that wait for the agent waits_for */
    uint32_t wait_previous, wait_next;
    uint16_t waits_for; /* the agent whose session blocks this operation, or AGENTS_NONE */
    uint8_t partition;
    uint8_t state;
    uint8_t mask;   /* the voters that answered this round, by bit */
    uint8_t full;   /* the voters that answered that their tables are full, by bit */
    uint8_t spared; /* ACCEPTING: the voters left out so far, by bit */
    uint8_t recalls;
    uint8_t way;  /* recalls == 0: the voter through which the grant was sent, or ACTION_NO_RELAY */
    bool found;   /* READING: some voter had a value */
    bool lacking; /* READING: a voter with the highest checkpoint had no value */
    bool unused;  /* WAITING: a read under this ballot found that a majority has no value */
    bool taken;   /* the first read of the name found an owner */
    struct message_order order;           /* the round's order; READING: only the ballot is set */
    struct message_checkpoint checkpoint; /* READING: the highest checkpoint so far */
    struct record value; /* READING: the newest value so far. ACCEPTING: the proposed value */
    int64_t began_ns;    /* when the round began */
    int64_t recall_ns;   /* when the last recall for a waiting acquire was sent */
    /* From an owner's last answer that its grant is in use: the number of the probe, and the
     * version of the grant. */
    uint64_t used_probe;
    struct message_order used;
    struct message_order probed; /* the order of the accepted value when the last probe was sent */
    uint8_t probes;              /* how many times in a row a probe was sent again */
};

/* The operations of a partition. */
struct queue_partition {
    uint32_t first; /* the first operation of the partition */
    uint32_t busy;  /* how many operations of the partition have a round under way */
    uint64_t saw;   /* the partition's ballot and state, packed, when its operations were last
                     * looked at */
};

struct queues {
    struct queue_partition partitions[MESSAGE_PARTITIONS];
    struct quota *quotas;                  /* by agent */
    struct message_partitions resigned_of; /* the partitions that this voter coordinated when it
                                            * resigned */
    struct queued_request *requests;       /* indexed from 1 */
    uint32_t request_used, request_free;
    uint32_t request_pooled;      /* how many requests are beyond the guaranteed entries of their
                                   * agents */
    struct operation *operations; /* indexed from 1 */
    uint32_t *operation_heads;
    uint32_t operation_head_mask;
    uint32_t operation_used, operation_free;
    uint32_t operation_count;
    struct answered *answered; /* a ring, indexed from 1 */
    uint32_t *answered_heads;
    uint32_t answered_mask, answered_last;
    uint64_t probe; /* the number of the last probe, see queues_wait.c */
    struct break_forwarded broken[BROKEN_KEPT]; /* a ring */
    uint32_t broken_next;
    struct vain vain[VAIN_KEPT]; /* by the name's hash */
    struct heap wakes;           /* the operations by the time of their next look */
};

/* The next value of a name, as far as it is decided. */
struct plan {
    struct message_name name;
    struct record value; /* if SHARED, its shares are in shares[] below, not in the pool */
    /* version.ballot 0: a new share, whose version will be the order of its proposal */
    struct share shares[MESSAGE_SHARES_MAX];
    uint32_t share_count;
    uint32_t share_had; /* how many shares the last value has */
    bool changed;
    bool fresh;    /* the plan makes a new grant or share */
    bool broken;   /* a break is decided; then no acquire is decided in the same plan */
    bool held;     /* only repeated acquires may be granted yet, see ORDER_WAIT_MS */
    bool notified; /* some request's answer depends on the value */
    bool more;     /* some requests are left for another plan */
    /* The following fields are about the acquires that have to wait. */
    /* some blocked acquires are for processes that wait; `waiter` is the agent of the first of
     * these acquires */
    bool waits;
    uint16_t waiter;
    bool writes;  /* some of the waiting processes want the lock exclusively */
    bool probes;  /* some blocked acquires are for tries, and the owners were not asked yet */
    bool again;   /* the owners were asked because of a try, but their answer may be lost */
    bool reads;   /* some blocked acquires are for tries to read */
    bool refuses; /* some blocked acquires are for tries, and these are answered now */
    uint32_t decided;
    const struct queued_request *blocked; /* the first acquire that has to wait */
    const struct operation *operation;
};

/* ---- queues_plan.c ---- */

/* Decides the queued requests, for a register whose present value is `value`: sets their outcomes,
 * and fills in the plan. held: only repeated acquires may be granted yet (ORDER_WAIT_MS). */
void plan_make(struct quorum *quorum, struct operation *operation, const struct record *value,
               bool held, struct plan *plan);
/* Returns when the lock-delay that follows the end of that agent's session is over, in nanoseconds
 * of the step's clock. */
int64_t plan_delay_end_ns(const struct quorum *quorum, const struct record *value, uint16_t agent);

/* ---- queues_answer.c ---- */

/* Writes into *refused which table of this voter is full, for display. */
void answer_say_full(const struct quorum *quorum, struct message_refused *refused,
                     enum hfi_table table);
/* Refuses the request with MESSAGE_REFUSED_FULL or _QUOTA. table: the table of this voter that is
 * full. */
void answer_full(struct quorum *quorum, const struct queued_request *request,
                 const struct message_name *name, enum message_refusal reason,
                 enum hfi_table table);
void answer_refused(struct quorum *quorum, const struct queued_request *request,
                    const struct message_name *name, enum message_refusal reason);
/* For a copy of an acquire that waits in the queue. If a lock-delay after the end of a session
 * keeps the lock closed, reports to the acquire's host how long it stays closed, and whose session
 * ended. This is for display only. */
void answer_closed(struct quorum *quorum, const struct operation *operation,
                   const struct queued_request *request, const struct message_name *name);
/* Answers the tries of hosts that also have processes that wait. The hosts' requests stay in the
 * queue, for the processes that wait. */
void answer_tries(struct quorum *quorum, struct operation *operation);
/* Sends the answers of the requests that have an outcome, and removes those requests. */
void answer_decided(struct quorum *quorum, struct operation *operation, const struct record *value);
/* Sets that outcome for at most OUTCOMES_MAX requests, and answers them. */
void answer_all(struct quorum *quorum, struct operation *operation, enum outcome outcome);

/* ---- queues_answered.c ---- */

uint64_t answered_name_hash(const struct message_name *name);

/* Returns the grant with which this acquire was answered before; NULL if none is remembered. */
const struct answered *answered_find(struct quorum *quorum, const struct queued_request *request,
                                     const struct message_name *name);
void answered_keep(struct quorum *quorum, const struct queued_request *request,
                   const struct message_grant *grant);

/* ---- queues_wait.c ---- */

/* Sets the time of the next look at the operation; NEVER: no time is set. */
void wait_until(struct quorum *quorum, struct operation *operation, int64_t when_ns);
/* The time that wait_until() set. */
int64_t wait_wake_ns(const struct quorum *quorum, const struct operation *operation);
/* The operation with the earliest time; NULL if none has one. */
struct operation *wait_first(const struct quorum *quorum);
/* Ends the operation's wait for the end of a session, if it has one. */
void wait_for_nobody(struct quorum *quorum, struct operation *operation);
/* Waits until plan->blocked may be granted: sends recalls to the owners that block it, and asks for
 * the end of sessions that block it. */
void wait_for_turn(struct quorum *quorum, struct operation *operation, const struct record *value,
                   const struct plan *plan);
/* Returns the relay for a message to the agent. The message was sent `before` times already, and
 * these copies may be lost. So every second copy goes through another voter. */
uint8_t wait_way_to(const struct quorum *quorum, uint32_t agent, uint32_t before);
/* Sends the hosts that share the value with `agent` recalls of idle shares, at most once in
 * RECALL_MS for each name. Needs room for MESSAGE_SHARES_MAX actions. */
void wait_recall_idle(struct quorum *quorum, const struct operation *operation,
                      const struct record *value, uint16_t agent);
/* Handles an owner's answer that its grant is in use. Notes the answer at the operation of the
 * name, and returns the operation; the caller then calls operation_look(). Returns NULL if there is
 * no operation, or if the answer is to an older probe. */
struct operation *wait_used(struct quorum *quorum, const struct message *message);
/* Returns until when the coordinator of a partition waits for hosts to repeat earlier acquires. */
int64_t wait_order_ns(const struct quorum *quorum, const struct operation *operation);
void wait_check_invariants(const struct quorum *quorum);

/* ---- queues_quota.c ---- */

/* Returns whether the agent may have one more request here. `queued` is how many requests of that
 * kind the agent has in the queue of that name. If the result is false, this call has logged it,
 * and the caller refuses the request. */
bool quota_admits(struct quorum *quorum, const struct queued_request *request, uint32_t queued);
/* Count a request that entered a queue, and a request that left it. */
void quota_take(struct quorum *quorum, const struct queued_request *request);
void quota_leave(struct quorum *quorum, const struct queued_request *request);
void quota_check_invariants(const struct quorum *quorum);

/* ---- queues_table.c ---- */

uint32_t operation_index(const struct quorum *quorum, const struct operation *operation);
/* The operation of a name; NULL: there is none. */
struct operation *operation_find(const struct quorum *quorum, uint32_t name);
/* The operation of a name; makes one if there is none. Takes over the caller's reference to the
 * name. Returns NULL if there are too many operations. */
struct operation *operation_for(struct quorum *quorum, uint32_t name);
/* Sets the state, and counts the rounds that are under way in the partition. */
void operation_set_state(struct quorum *quorum, struct operation *operation,
                         enum operation_state state);
/* Removes an operation that has no request, no round and no wait. */
void operation_remove(struct quorum *quorum, struct operation *operation);

/* ---- queues.c ---- */

/* Does for the operation what can be done now. No round may be under way. The call may free the
 * operation. */
void operation_look(struct quorum *quorum, struct operation *operation);

/* ---- queues_handover.c ---- */

/* For an operation whose partition this voter does not coordinate any more. Passes the name's
 * acquires on to the voter that claims the partition. Refuses all other requests: their hosts send
 * them again. Until a voter claims the partition, acquires stay. */
void handover_look(struct quorum *quorum, struct operation *operation);

#endif
