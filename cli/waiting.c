/*
 * Why `holdfast lock` waits: see waiting.h.
 */
#include "waiting.h"

#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "why.h"

enum {
    FIRST_MS = 1000,
    FIRST_VERBOSE_MS = 50, /* a lock that is free is had before */
    AGAIN_MS = 1000,
};

/* Returns whether the wait is over, or gets over within that time. */
static bool is_over(const struct waiting *waiting, int within_ms)
{
    struct pollfd stop = {.fd = waiting->stop_fd, .events = POLLIN};

    return poll(&stop, 1, within_ms) > 0;
}

/* Returns whether a reader would miss something without a line about the newer reason. */
static bool is_change(const struct hf_reason *before, const struct hf_reason *now)
{
    return before->kind != now->kind || before->pid != now->pid || before->uid != now->uid ||
           strcmp(before->agent, now->agent) != 0;
}

static void *run(void *arg)
{
    const struct waiting *waiting = arg;
    struct hf_reason before = HF_REASON_INIT;
    size_t index_before = waiting->held->count;
    bool all = waiting->lines == WAITING_ALL;
    int pause_ms = all ? FIRST_VERBOSE_MS : FIRST_MS;

    while (!is_over(waiting, pause_ms)) {
        struct hf_reason reason = HF_REASON_INIT;
        size_t index = why_find(waiting->held, &reason);

        pause_ms = AGAIN_MS;
        if (index == waiting->held->count || reason.kind == HF_WHY_NOTHING ||
            (index == index_before && !is_change(&before, &reason)) || is_over(waiting, 0)) {
            continue;
        }
        why_waiting(waiting->held, index, &reason, waiting->json);
        if (!all) {
            break;
        }
        before = reason;
        index_before = index;
    }
    return NULL;
}

void waiting_begin(struct waiting *waiting, const struct held *held, enum waiting_lines lines,
                   bool json)
{
    *waiting = (struct waiting){.held = held, .lines = lines, .json = json, .stop_fd = -1};
    if (lines == WAITING_NONE) {
        return;
    }
    waiting->stop_fd = eventfd(0, EFD_CLOEXEC);
    waiting->started = waiting->stop_fd >= 0 &&
                       pthread_create(&waiting->thread, NULL, run, waiting) == 0;
}

void waiting_end(struct waiting *waiting)
{
    uint64_t one = 1;

    if (waiting->started) {
        if (write(waiting->stop_fd, &one, sizeof(one)) != (ssize_t)sizeof(one)) {
            (void)pthread_cancel(waiting->thread); /* cannot happen: a new eventfd has room */
        }
        (void)pthread_join(waiting->thread, NULL);
    }
    if (waiting->stop_fd >= 0) {
        (void)close(waiting->stop_fd);
    }
}
