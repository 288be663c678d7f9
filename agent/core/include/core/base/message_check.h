/*
 * Checks that a message makes sense, from any sender. They only refuse values that a core would
 * trip over. Whether the sender may send it is the driver's affair (driver/admission.c), whether it
 * is true the protocol's.
 *
 * Pure; no state.
 */
#ifndef CORE_BASE_MESSAGE_CHECK_H
#define CORE_BASE_MESSAGE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/message.h"

/* Whether a message from a stranger has only values that the core knows. Every event's message is
 * checked with it; the driver may ask too, to log the sender of rubbish. */
bool message_valid(const struct message *message) __attribute__((warn_unused_result));

/* Names a lock or an agent in a message. length is within their limits (a bug otherwise). */
void message_name_set(struct message_name *name, const void *bytes, size_t length);
void message_agent_set(struct message_agent *agent, const void *text, size_t length);

/* Parts of it, for what is read from a store. */
bool agent_name_valid(const struct message_agent *agent) __attribute__((warn_unused_result));
bool order_valid(struct message_order order) __attribute__((warn_unused_result));
bool value_valid(const struct message_value *value) __attribute__((warn_unused_result));

#endif
