/*
 * Checks that a message from any sender is well-formed. The checks refuse only values that a core
 * could not handle. The driver decides whether the sender may send the message
 * (driver/admission.c). The protocol takes care of messages that are outdated.
 *
 * Invariant: a core can handle every value of a message that passes. No count in it is above the
 * size of its array.
 *
 * Pure; no state.
 */
#ifndef CORE_BASE_MESSAGE_CHECK_H
#define CORE_BASE_MESSAGE_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/message.h"

/* Returns whether a message from a stranger has only values that a core can handle. The cores call
 * this function for the message of every event. The driver may call it too, to log the sender of an
 * invalid message. */
bool message_valid(const struct message *message) __attribute__((warn_unused_result));

/* Sets the name of a lock or an agent in a message. Fails (HF_CHECK) if length is 0 or above its
 * limit. */
void message_name_set(struct message_name *name, const void *bytes, size_t length);
void message_agent_set(struct message_agent *agent, const void *text, size_t length);

/* Checks of parts of a message. They also serve for rows that are read from a store. */
bool agent_name_valid(const struct message_agent *agent) __attribute__((warn_unused_result));
bool order_valid(struct message_order order) __attribute__((warn_unused_result));
bool value_valid(const struct message_value *value) __attribute__((warn_unused_result));
bool voters_valid(const struct message_voters *voters) __attribute__((warn_unused_result));

#endif
