/*
 * Shared by the files of the queues.
 *
 *   queues.c           the operations and their rounds with the voters
 *   queues_request.c   a host's request: its way into the queue of its name, or on to another voter
 *   queues_quota.c     how many requests of one host may wait
 *   queues_plan.c      decides the next value from the last one and the queue
 *   queues_answer.c    what the hosts are answered
 *   queues_answered.c  what they were answered lately
 *   queues_wait.c      what an operation waits for: times, sessions in the way, recalls
 *   queues_handover.c  passes the queues on to the voter that coordinates next
 */
#ifndef QUORUM_QUEUES_PRIVATE_H
#define QUORUM_QUEUES_PRIVATE_H

#include "core/base/heap.h"
#include "core/base/log_limit.h"
#include "queues.h"

enum {
    SPARED_MS = 20,    /* a round is sent to those that it might have done without, too */
    OUTCOMES_MAX = 16, /* requests answered together */
    BROKEN_KEPT = 64,
    OPERATIONS_PER_REQUEST = 2, /* names that were asked for a moment ago have an operation too */
    ORDER_WAIT_MS = 100, /* after a take-over, for the repeats of those who waited before it */
    /* The only voter was started: first they have to dial it again, twice a second. Less than the
     * second for which a try waits for a grant: a lock that is free is not called busy. */
    ORDER_WAIT_ONLY_MS = 700,
    /* The most actions that one operation needs in one go: a set of answers, one of them a break
     * that goes to every owner, or recalls to them; and a round, or a new ballot. */
    OPERATION_ACTIONS = OUTCOMES_MAX + MESSAGE_SHARES_MAX + 2 * (MESSAGE_VOTERS_MAX + 1),
};

/* An answer to a round may answer hosts and then begin the next round. */
_Static_assert((int)OPERATION_ACTIONS * 2 <= (int)QUORUM_STEP_ACTIONS,
               "two of one operation fit into a step");

/* An agent's part of the requests and operations. */
struct quota {
    uint32_t waiting;  /* the first operation that waits for an end of its session */
    uint32_t acquires; /* its requests; see queues_quota.c */
    uint32_t others;
    struct log_limit refused; /* how often the log says that it has too many */
};

enum outcome {
    OUTCOME_NONE = 0,
    OUTCOME_GRANT,
    OUTCOME_AMENDED,
    OUTCOME_GIVEN_BACK,
    OUTCOME_BREAK,
    OUTCOME_ANSWERED, /* a late repeat: as the first time */
    OUTCOME_UNHEARD,  /* its host is gone: no answer is sent */
    OUTCOME_REFUSED_FULL,
    OUTCOME_REFUSED_NOT_OWNER,
    OUTCOME_REFUSED_SESSION,
    OUTCOME_REFUSED_VERSION,
    OUTCOME_REFUSED_TOKENS,
};

struct request {
    uint32_t next; /* in its operation's queue, or free */
    uint32_t epoch;
    uint64_t id;
    int64_t arrived_ns; /* ACQUIRE: by what its host says, perhaps at an earlier coordinator */
    int64_t heard_ns;   /* when it came last, by any way */
    struct message_order version; /* ACQUIRE: the grant that was proposed for it here last */
    uint64_t token;               /* AMEND: token_last, or token_used; GIVE_BACK: token_used */
    uint16_t agent;
    uint16_t lock_delay_ms;
    uint8_t kind;    /* MESSAGE_ACQUIRE, AMEND, GIVE_BACK or BREAK */
    uint8_t mode;    /* BREAK: whether now, without a lock-delay */
    uint8_t relay;   /* the voter that passed it on, or ACTION_NO_RELAY */
    uint8_t outcome; /* decided: answered when the round is chosen */
    bool again;      /* ACQUIRE: answered before, see queues_answered.c */
    bool fresh;      /* ACQUIRE, granted: the grant was made for it */
    bool says_used;  /* AMEND: its token is token_used */
};

/* A break that was passed on to the owners: no grant above that version is meant. */
struct broken {
    uint64_t id; /* 0: none */
    struct message_order version;
    uint16_t agent;
};

/* An acquire that was answered by a grant. */
struct answered {
    uint32_t next; /* in its bucket */
    uint32_t epoch;
    uint64_t id;
    uint64_t name; /* its hash */
    struct message_order version;
    uint64_t token_first, token_last;
    uint16_t agent;
    uint16_t lock_delay_ms;
    uint8_t mode;
    bool fresh;
};

enum operation_state {
    /* For a prepared partition, a holder, an end of a session, a lock-delay, or a turn. */
    OPERATION_WAITING = 1,
    OPERATION_READING,
    OPERATION_ACCEPTING,
};

/* A name with requests, or that had one a moment ago. */
struct operation {
    uint32_t chain;          /* in its bucket, or free */
    uint32_t previous, next; /* in its partition */
    uint32_t name;
    uint32_t first, last;              /* requests, the acquires in order of arrival */
    uint32_t wait_previous, wait_next; /* among those that wait for that agent: */
    uint16_t waits_for;                /* whose session is in the way, or AGENTS_NONE */
    uint8_t partition;
    uint8_t state;
    uint8_t mask;   /* voters that answered this round */
    uint8_t full;   /* voters whose tables are full */
    uint8_t spared; /* ACCEPTING: voters that were not asked yet */
    uint8_t recalls;
    uint8_t way;  /* recalls == 0: the voter by which the grant goes, or ACTION_NO_RELAY */
    bool found;   /* READING: some voter had a value */
    bool lacking; /* READING: a voter with that checkpoint had none */
    bool unused;  /* WAITING: nobody of a majority has a value, under this ballot */
    bool taken;   /* when it was read first, somebody had it */
    struct message_order order;           /* of the round; READING: its ballot */
    struct message_checkpoint checkpoint; /* READING: the highest so far */
    struct record value;                  /* READING: the newest so far. ACCEPTING: the next */
    int64_t began_ns;                     /* the round */
    int64_t recall_ns;                    /* when the last recall was sent */
};

/* The operations of a partition. */
struct queue_partition {
    uint32_t first; /* its operations */
    uint32_t busy;  /* of them, those with a round under way */
    uint64_t saw;   /* the ballot and state that they were looked at under */
};

struct queues {
    struct queue_partition partitions[MESSAGE_PARTITIONS];
    struct quota *quotas;                  /* by agent */
    struct message_partitions resigned_of; /* what this voter coordinated when it resigned */
    struct request *requests;              /* from 1 */
    uint32_t request_used, request_free;
    uint32_t request_pooled; /* of all places that are taken, those beyond what is guaranteed */
    struct operation *operations; /* from 1 */
    uint32_t *operation_heads;
    uint32_t operation_head_mask;
    uint32_t operation_used, operation_free;
    uint32_t operation_count;
    struct answered *answered; /* a ring, from 1 */
    uint32_t *answered_heads;
    uint32_t answered_mask, answered_last;
    struct broken broken[BROKEN_KEPT]; /* a ring */
    uint32_t broken_next;
    struct heap wakes; /* of operations */
};

/* The next value, as decided so far. */
struct plan {
    struct message_name name;
    struct record value; /* SHARED: its list is not in the pool, but here */
    struct share
        shares[MESSAGE_SHARES_MAX]; /* of ballot 0: new, named by what it is proposed with */
    uint32_t share_count;
    uint32_t share_had; /* of the last value */
    bool changed;
    bool fresh;  /* there is a new grant, or share */
    bool broken; /* an administrator's break is decided: no acquire is, together with it */
    bool held;   /* nothing is granted yet, see ORDER_WAIT_MS */
    bool told;   /* a host is answered by what the value says now */
    bool more;   /* not all requests were looked at */
    uint32_t decided;
    const struct request *blocked; /* the first acquire that has to wait */
};

/* ---- queues_plan.c ---- */

/* Gives requests of the queue their outcomes, from that value; held: acquires only if they are
 * repeats. */
void plan_make(struct quorum *quorum, struct operation *operation, const struct record *value,
               bool held, struct plan *plan);
/* When the lock-delay of a grant whose session ended is over. */
int64_t plan_delay_end_ns(const struct quorum *quorum, const struct record *value, uint16_t agent);

/* ---- queues_answer.c ---- */

void answer_refused(struct quorum *quorum, const struct request *request,
                    const struct message_name *name, enum message_refusal reason);
/* Answers and forgets the requests that have an outcome. */
void answer_decided(struct quorum *quorum, struct operation *operation, const struct record *value);
/* Gives up to OUTCOMES_MAX requests that outcome, and answers them. */
void answer_all(struct quorum *quorum, struct operation *operation, enum outcome outcome);

/* ---- queues_answered.c ---- */

/* The answer that acquire got before; NULL: none is remembered. */
const struct answered *answered_find(struct quorum *quorum, const struct request *request,
                                     const struct message_name *name);
void answered_keep(struct quorum *quorum, const struct request *request,
                   const struct message_grant *grant);

/* ---- queues_wait.c ---- */

/* When it is to be looked at again; NEVER: not by itself. */
void wait_until(struct quorum *quorum, struct operation *operation, int64_t when_ns);
/* That time. */
int64_t wait_wake_ns(const struct quorum *quorum, const struct operation *operation);
/* The operation to be looked at first; NULL: none is waiting for a time. */
struct operation *wait_first(const struct quorum *quorum);
/* No longer for the end of a session. */
void wait_for_nobody(struct quorum *quorum, struct operation *operation);
/* For who or what keeps plan->blocked from being granted: recalls, asks for deaths. */
void wait_for_turn(struct quorum *quorum, struct operation *operation, const struct record *value,
                   const struct plan *plan);
/* Until when a partition that was taken over waits for repeats. */
int64_t wait_order_ns(const struct quorum *quorum, const struct operation *operation);
void wait_check_invariants(const struct quorum *quorum);

/* ---- queues_quota.c ---- */

/* Whether its agent may have a place more. queued: how many of that kind it has in the queue of
 * that name. false: it is to be refused; the log says so. */
bool quota_admits(struct quorum *quorum, const struct request *request, uint32_t queued);
/* It has got a place, and has left it. */
void quota_take(struct quorum *quorum, const struct request *request);
void quota_leave(struct quorum *quorum, const struct request *request);
void quota_check_invariants(const struct quorum *quorum);

/* ---- queues.c ---- */

uint32_t operation_index(const struct quorum *quorum, const struct operation *operation);
/* The operation of a name, made if there is none; takes over the caller's reference to it. NULL:
 * there are too many. */
struct operation *operation_for(struct quorum *quorum, uint32_t name);
/* Does what can be done now, if no round is under way. May end the operation. */
void operation_look(struct quorum *quorum, struct operation *operation);

/* ---- queues_handover.c ---- */

/* That name's partition is another's: its acquires go to the voter that claims it, all other
 * requests back to their hosts. Those that are left wait for a claim. */
void handover_look(struct quorum *quorum, struct operation *operation);

#endif
