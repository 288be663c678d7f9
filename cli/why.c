/*
 * Why a lock was not had: see why.h.
 */
#include "why.h"

#include <stdio.h>

#include "cli.h"
#include "text.h"

/* Finds the first lock, in the order of the arguments, that something stands in the way of. Without
 * one, the first whose reason can be had. Returns its index, or held->count if there is none. */
static size_t find(const struct held *held, struct hf_reason *out)
{
    size_t found = held->count;

    for (size_t index = 0; index < held->count; index++) {
        struct hf_reason reason = HF_REASON_INIT;

        if (hf_why(held->locks[index], &reason) != 0) {
            continue;
        }
        if (found == held->count || reason.kind != HF_WHY_NOTHING) {
            *out = reason;
            found = index;
        }
        if (reason.kind != HF_WHY_NOTHING) {
            break;
        }
    }
    return found;
}

int why_not_had(const struct held *held, int error, int not_now_status)
{
    struct hf_reason reason = HF_REASON_INIT;
    size_t found = find(held, &reason);

    if (found == held->count) {
        (void)cli_fail("lock", held->count == 1 ? held->names[0] : "taking all of the locks",
                       error);
        return not_now_status;
    }
    fputs("holdfast lock: ", stderr);
    (void)text_write_clean(stderr, held->names[found], 0);
    fprintf(stderr, ": %s: ", hf_strerror(error));
    (void)text_write_clean(stderr, reason.text, 0);
    fputc('\n', stderr);
    return reason.kind == HF_WHY_NO_MAJORITY ? CLI_NO_MAJORITY : not_now_status;
}
