/*
 * Writes the cells of a lock: see lock_cells.h.
 */
#include "lock_cells.h"

#include <stdbool.h>
#include <string.h>

#include "text.h"

void lock_write_mode(FILE *out, const struct hf_lock_info *info)
{
    char duration[TEXT_DURATION_SIZE];

    if (info->closed_ns > 0) {
        if (info->state != HF_STATE_FREE) {
            fprintf(out, "%s, ", text_state(info->state));
        }
        fprintf(out, "closed %s", text_duration(duration, info->closed_ns));
        return;
    }
    fputs(text_state_seen(info), out);
}

static void write_who(FILE *out, int64_t uid, const char *command, const char *note)
{
    text_write_user(out, uid);
    if (command != NULL) {
        fputs(": ", out);
        (void)text_write_clean(out, command, 0);
    }
    text_write_note(out, note, 0);
}

void lock_write_holder(FILE *out, const struct hf_lock_info *info)
{
    if (info->holder_count > 1) {
        fprintf(out, "%zu holders", info->holder_count);
    } else if (info->holder_count == 1) {
        write_who(out, info->holders[0]->uid, info->holders[0]->command, info->holders[0]->note);
    } else if (info->closed_ns > 0 && info->behind != NULL && info->behind->uid >= 0) {
        fputc('(', out);
        write_who(out, info->behind->uid, info->behind->command, info->behind->note);
        fputc(')', out);
    } else {
        fputc('-', out);
    }
}

static bool is_same_host(const struct hf_party *one, const struct hf_party *other)
{
    return one->agent != NULL && other->agent != NULL && strcmp(one->agent, other->agent) == 0;
}

void lock_write_host(FILE *out, const struct hf_lock_info *info)
{
    if (info->holder_count == 0 && info->closed_ns > 0 && info->behind != NULL &&
        info->behind->agent != NULL) {
        fputc('(', out);
        (void)text_write_clean(out, info->behind->agent, 0);
        fputc(')', out);
        return;
    }
    if (info->holder_count == 0) {
        fputc('-', out);
        return;
    }
    for (size_t index = 1; index < info->holder_count; index++) {
        if (!is_same_host(info->holders[0], info->holders[index])) {
            fputs("several", out);
            return;
        }
    }
    (void)text_write_clean(out, info->holders[0]->agent == NULL ? "?" : info->holders[0]->agent, 0);
}

int64_t lock_oldest_hold_ns(const struct hf_lock_info *info)
{
    int64_t oldest_ns = -1;

    for (size_t index = 0; index < info->holder_count; index++) {
        int64_t elapsed_ns = info->holders[index]->elapsed_ns;

        oldest_ns = elapsed_ns > oldest_ns ? elapsed_ns : oldest_ns;
    }
    return oldest_ns;
}
