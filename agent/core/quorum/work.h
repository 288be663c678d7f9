/*
 * What the files of the coordinator's work on names do for each other:
 *
 *   request.c  a host's request: its way into the queue of its name, or on to another voter
 *   quota.c    how many may wait of one host
 *   plan.c     decides the next value from the last one and the queue
 *   answer.c   what the hosts are told
 *   answered.c what they were told lately
 *   wait.c     what a queue waits for: wake times, sessions in the way, recalls
 *   work.c     the rounds with the voters
 */
#ifndef QUORUM_WORK_H
#define QUORUM_WORK_H

#include "state.h"

enum {
    ORDER_WAIT_MS = 100, /* after a take-over, for the repeats of those who waited before it */
    /* The only voter was started: first they have to dial it again, twice a second. Less than the
     * second for which a try waits for a grant: a lock that is free is not called busy. */
    ORDER_WAIT_ONLY_MS = 700,
    /* The most actions that one work needs in one go: a set of answers, one of them a break that
     * goes to every owner, or recalls to them; and a round, or a new ballot. */
    WORK_ACTIONS = OUTCOMES_MAX + MESSAGE_SHARES_MAX + 2 * (MESSAGE_VOTERS_MAX + 1),
};

/* An answer to a round may answer hosts and then begin the next round. */
_Static_assert((int)WORK_ACTIONS * 2 <= (int)QUORUM_STEP_ACTIONS,
               "two of one work fit into a step");

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

/* ---- plan.c ---- */

/* Gives requests of the queue their outcomes, from that value; held: acquires only if they are
 * repeats. */
void plan_make(struct quorum *quorum, struct work *work, const struct record *value, bool held,
               struct plan *plan);
/* When the lock-delay of a grant whose session is dead is over. */
int64_t plan_delay_end_ns(const struct quorum *quorum, const struct record *value, uint16_t agent);

/* ---- answer.c ---- */

void answer_refused(struct quorum *quorum, const struct request *request,
                    const struct message_name *name, enum message_refusal reason);
/* Answers and forgets the requests that have an outcome. */
void answer_decided(struct quorum *quorum, struct work *work, const struct record *value);
/* Gives up to OUTCOMES_MAX requests that outcome, and answers them. */
void answer_all(struct quorum *quorum, struct work *work, enum outcome outcome);

/* ---- answered.c ---- */

/* What that acquire was answered with; NULL: nothing that is remembered. */
const struct answered *answered_find(struct quorum *quorum, const struct request *request,
                                     const struct message_name *name);
void answered_keep(struct quorum *quorum, const struct request *request,
                   const struct message_grant *grant);

/* ---- wait.c ---- */

/* When it is to be looked at again; NEVER: not by itself. */
void wait_until(struct quorum *quorum, struct work *work, int64_t when_ns);
/* That time. */
int64_t wait_wake_ns(const struct quorum *quorum, const struct work *work);
/* The work to be looked at first; NULL: none is waiting for a time. */
struct work *wait_first(const struct quorum *quorum);
/* No longer for the end of a session. */
void wait_for_nobody(struct quorum *quorum, struct work *work);
/* For who or what keeps plan->blocked from being granted: recalls, asks for deaths. */
void wait_for_turn(struct quorum *quorum, struct work *work, const struct record *value,
                   const struct plan *plan);
/* Until when a partition that was taken over waits for repeats. */
int64_t wait_order_ns(const struct quorum *quorum, const struct work *work);
void wait_check_invariants(const struct quorum *quorum);

/* ---- quota.c ---- */

/* Whether its agent may have a place more. queued: how many of that kind it has in the queue of
 * that name. false: it is to be refused, and that is told. */
bool quota_admits(struct quorum *quorum, const struct request *request, uint32_t queued);
/* It has got a place, and has left it. */
void quota_take(struct quorum *quorum, const struct request *request);
void quota_leave(struct quorum *quorum, const struct request *request);
void quota_check_invariants(const struct quorum *quorum);

/* ---- work.c ---- */

uint32_t work_index(const struct quorum *quorum, const struct work *work);
/* The work of a name, made if there is none; takes over the caller's reference to it. NULL: there
 * are too many. */
struct work *work_for(struct quorum *quorum, uint32_t name);
/* Does what can be done now, if no round is under way. May end the work. */
void work_look(struct quorum *quorum, struct work *work);

#endif
