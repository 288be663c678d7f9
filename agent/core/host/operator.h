/*
 * Operator: changes of the voters that administrators of this host ask for (MEMBER, MEMBERED).
 *
 * The client asks again and again until the change is complete or refused. Each time, this host
 * asks one voter, and passes the voter's answer to the client. All hosts ask the same voter as long
 * as it answers, so that several operators do not make several voters propose. The host keeps
 * nothing between two questions: the client's frame has the number and the id of its change.
 *
 * Messages get lost, so a question is repeated until it is answered or its time is over.
 *
 * Invariants: this host decides nothing about the change (core/quorum/change.h does). Each question
 * of a client that stays connected gets one answer.
 */
#ifndef HOST_OPERATOR_H
#define HOST_OPERATOR_H

#include "core/base/arena.h"
#include "hub.h"

struct operator_asks;

enum { OPERATOR_ANSWERS_LATER = 1 }; /* returned in place of an error */

struct operator_asks *operator_lay_out(struct arena *arena);

/* Sends a voter the change that the client asks for by MEMBER. Returns an error, or
 * OPERATOR_ANSWERS_LATER. */
int32_t operator_ask(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions);
/* Handles a MEMBERED. Returns false if the message is of another kind. */
bool operator_message(struct host *host, const struct message *message,
                      struct host_actions *actions);
/* Returns when operator_tick() is due. */
int64_t operator_due_ns(const struct host *host);
/* Repeats questions without an answer, and ends those whose time is over. */
void operator_tick(struct host *host, struct host_actions *actions);

#endif
