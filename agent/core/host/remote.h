/*
 * Remote: questions to other hosts, and answers to other hosts' questions. A question is a check or
 * an administrator's break. A check asks whether the hold that a sequencer names still counts.
 *
 * A sequencer names its holder's host, and that host is asked (CHECK, CHECKED). A break of a lock
 * that this host does not have goes to the coordinator, which passes it to every owner (BREAK,
 * BREAK_HOLD, BROKEN), and every owner answers (tally.h). Only the client's own host checks the
 * client's rights, because the hosts of a cell trust each other. breaks.h says what an owner does.
 *
 * Messages get lost, so a question is repeated until it is answered or its time is over.
 *
 * Invariant: one user other than root has at most half of the questions.
 */
#ifndef HOST_REMOTE_H
#define HOST_REMOTE_H

#include "core/base/arena.h"
#include "hub.h"

struct remote;

enum {
    /* returned in place of an error: the answer was sent already, or is sent later */
    REMOTE_ANSWERS_LATER = 1,
    /* Questions at one time: the first REMOTE_BREAKS_MAX are for breaks, the others for checks. One
     * user other than root may have half of either kind. */
    REMOTE_BREAKS_MAX = 24,
    REMOTE_QUESTIONS_MAX = REMOTE_BREAKS_MAX + 128,
    /* one tally for each break, and one more for breaks that need no question */
    REMOTE_TALLIES = REMOTE_BREAKS_MAX + 1,
};

struct remote *remote_lay_out(struct arena *arena);

/* Do what a client asks for by CHECK, BREAK and RECALL. Return an error, 0, or
 * REMOTE_ANSWERS_LATER. Only tests send RECALL (proto/SCHEMA.md): the step test of tests/crash and
 * the simulator need a recall at a chosen moment. */
int32_t remote_check(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions);
int32_t remote_break(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions);
int32_t remote_recall(struct host *host, uint32_t client, const struct hfi_text *name,
                      struct host_actions *actions);
/* Handles a message about a check or a break. Returns false if the message is about neither. */
bool remote_message(struct host *host, const struct message *message, struct host_actions *actions);
/* Returns when remote_tick() is due. */
int64_t remote_due_ns(const struct host *host);
/* Repeats questions without an answer. If a question's time is over, answers its client: a check
 * with HF_EUNKNOWN, a break with what is known by then (tally.h). */
void remote_tick(struct host *host, struct host_actions *actions);

#endif
