/*
 * Writes a lock as a JSON object: see describe.h.
 */
#include "describe.h"

#include <stdbool.h>

#include "text.h"

static void describe_holder(struct json *json, const struct hf_party *holder)
{
    json_open_object(json, NULL);
    json_text(json, "agent", holder->agent);
    json_signed_or_null(json, "pid", holder->pid);
    json_signed_or_null(json, "uid", holder->uid);
    json_text(json, "command", holder->command);
    json_text(json, "note", holder->note);
    json_unsigned(json, "token", holder->token);
    json_ms_or_null(json, "held_ms", holder->elapsed_ns);
    json_ms_or_null(json, "remaining_ms", holder->remaining_ns);
    json_close_object(json);
}

void describe_ended(struct json *json, const struct hf_party *hold)
{
    json_open_object(json, NULL);
    json_text(json, "mode", text_mode(hold->mode));
    json_text(json, "agent", hold->agent);
    json_signed_or_null(json, "pid", hold->pid);
    json_signed_or_null(json, "uid", hold->uid);
    json_text(json, "user", text_user(hold->uid));
    json_text(json, "command", hold->command);
    json_text(json, "note", hold->note);
    json_unsigned(json, "token", hold->token);
    json_ms_or_null(json, "held_ms", hold->elapsed_ns);
    json_close_object(json);
}

static void describe_waiter(struct json *json, const struct hf_party *waiter)
{
    json_open_object(json, NULL);
    json_text(json, "agent", waiter->agent);
    json_signed_or_null(json, "pid", waiter->pid);
    json_text(json, "mode", text_mode(waiter->mode));
    json_ms_or_null(json, "waited_ms", waiter->elapsed_ns);
    json_close_object(json);
}

/* The same words as in the field `reason` of the log (docs/LOG.md, "Reasons"). Returns NULL for
 * HF_ENDING_UNKNOWN and for endings that this release does not know. */
static const char *ending_word(enum hf_ending ending)
{
    static const char *const words[] = {
        [HF_ENDING_PROCESS] = "process",      [HF_ENDING_BROKEN] = "broken",
        [HF_ENDING_LEASE] = "lease_over",     [HF_ENDING_STALL] = "stalled",
        [HF_ENDING_SESSION] = "session_lost", [HF_ENDING_DAMAGE] = "damaged",
    };

    return (size_t)ending < sizeof(words) / sizeof(words[0]) ? words[ending] : NULL;
}

static void describe_behind(struct json *json, const struct hf_behind *behind)
{
    if (behind == NULL) {
        json_null(json, "behind");
        return;
    }
    bool broken = behind->ending == HF_ENDING_BROKEN;

    json_open_object(json, "behind");
    json_text(json, "agent", behind->agent);
    json_signed_or_null(json, "pid", behind->pid);
    json_signed_or_null(json, "uid", behind->uid);
    json_text(json, "command", behind->command);
    json_text(json, "note", behind->note);
    json_text(json, "reason", ending_word(behind->ending));
    json_text(json, "by_agent", broken ? behind->by_agent : NULL);
    json_signed_or_null(json, "by_uid", broken ? behind->by_uid : -1);
    json_ms_or_null(json, "since_ms", behind->elapsed_ns);
    json_close_object(json);
}

void describe_lock_members(struct json *json, const struct hf_lock_info *info)
{
    json_text(json, "name", info->name);
    json_text(json, "mode", text_state(info->state));
    json_open_array(json, "holders");
    for (size_t index = 0; index < info->holder_count; index++) {
        describe_holder(json, info->holders[index]);
    }
    json_close_array(json);
    json_open_array(json, "waiters");
    for (size_t index = 0; index < info->waiter_count; index++) {
        describe_waiter(json, info->waiters[index]);
    }
    json_close_array(json);
    if (info->closed_ns == -1) {
        json_null(json, "closed_ms");
    } else {
        /* Rounded up, because 0 would mean that no lock-delay keeps the lock closed. */
        json_unsigned(json, "closed_ms",
                      info->closed_ns <= 0 ? 0 : ((uint64_t)info->closed_ns + 999999) / 1000000);
    }
    json_text(json, "coordinator", info->coordinator);
    json_ms_or_null(json, "age_ms", info->age_ns);
    describe_behind(json, info->behind);
}

void describe_lock(struct json *json, const struct hf_lock_info *info, const char *time)
{
    json_open_object(json, NULL);
    describe_lock_members(json, info);
    if (time != NULL) {
        json_text(json, "time", time);
    }
    json_close_object(json);
}
