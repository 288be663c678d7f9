/*
 * Writes a lock as a JSON object, with the field names that scripts rely on.
 */
#ifndef HOLDFAST_CLI_DESCRIBE_H
#define HOLDFAST_CLI_DESCRIBE_H

#include <holdfast/admin.h>

#include "json.h"

/* Writes the object {name, mode, holders, waiters, closed_ms, coordinator, age_ms, behind}, with a
 * further member `time` unless that is NULL. */
void describe_lock(struct json *json, const struct hf_lock_info *info, const char *time);

/* Writes a hold that `holdfast break` ended: {mode, agent, pid, uid, user, command, note, token,
 * held_ms}. */
void describe_ended(struct json *json, const struct hf_party *hold);

/* Writes the members of describe_lock() without `time`, into an object that the caller opens and
 * closes. */
void describe_lock_members(struct json *json, const struct hf_lock_info *info);

#endif
