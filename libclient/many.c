/*
 * hf_acquire_all() takes all of several locks, or none. It takes them in the byte order of their
 * names, so that callers cannot wait for each other in a circle. If it cannot take one of them, it
 * releases the locks that it took before.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

struct sorted_lock {
    hf_lock *lock;
    size_t index; /* the lock's index in the caller's array */
};

static int sorted_compare(const void *left, const void *right)
{
    const hf_lock *a = ((const struct sorted_lock *)left)->lock;
    const hf_lock *b = ((const struct sorted_lock *)right)->lock;
    uint32_t size = a->name_size < b->name_size ? a->name_size : b->name_size;
    int order = memcmp(a->name, b->name, size);
    return order != 0 ? order : (a->name_size > b->name_size) - (a->name_size < b->name_size);
}

static int sorted_take(const struct sorted_lock *sorted, size_t count, enum hf_mode mode,
                       int64_t timeout_ns, struct hf_hold *out)
{
    int64_t deadline_ns = deadline_after(timeout_ns);
    hf_lock *lost = NULL; /* a hold that ended before the last lock was taken */
    int error = 0;
    size_t taken = 0;
    for (; taken < count; taken++) {
        int64_t left_ns = timeout_ns;
        if (timeout_ns > 0) {
            left_ns = deadline_ns - boottime_ns();
            /* 0 would mean a try, and a negative number a wait for ever */
            left_ns = left_ns > 0 ? left_ns : 1;
        }
        struct hf_hold hold;
        error = hf_acquire(sorted[taken].lock, mode, left_ns, &hold);
        if (error != 0) {
            break;
        }
        if (out != NULL) {
            out[sorted[taken].index] = hold;
        }
    }
    /* A hold may have ended while this thread waited for the locks after it. */
    for (size_t i = 0; error == 0 && i < count; i++) {
        if (hf_remaining_ns(sorted[i].lock) <= 0) {
            error = HF_ELOST;
            lost = sorted[i].lock;
        }
    }
    if (error == 0) {
        return 0;
    }
    if (taken == count) {
        error = failure_lost(lost);
    } else if (error == HF_ETIMEDOUT) {
        /* writes the text again, with the caller's timeout: the failed acquire had only the rest
         * of that time */
        error = failure_acquire(sorted[taken].lock, error, timeout_ns);
    }
    while (taken > 0) {
        taken--;
        /* frees the handle even if the hold was lost, and keeps the text of the failure above */
        int ignored = release_unsaid(sorted[taken].lock, 0);
        (void)ignored;
    }
    return error;
}

static int arguments_check(hf_lock *const *locks, size_t count, enum hf_mode mode)
{
    if (locks == NULL) {
        return failure_null(NULL, "locks");
    }
    if (count == 0 || count > SIZE_MAX / sizeof(struct sorted_lock)) {
        return failure(NULL, HF_EINVAL, "the number of locks is %zu, expected at least 1", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (locks[i] == NULL) {
            return failure(i > 0 ? locks[0]->client : NULL, HF_EINVAL, "locks[%zu] is NULL", i);
        }
        if (locks[i]->client != locks[0]->client) {
            return failure(locks[0]->client, HF_EINVAL,
                           "locks[%zu] (\"%s\") is of another client than locks[0] (\"%s\")", i,
                           locks[i]->name, locks[0]->name);
        }
    }
    if (!alive_here(locks[0]->alive)) {
        return failure_forked(locks[0]->client);
    }
    return mode == HF_EXCLUSIVE || mode == HF_SHARED ? 0 : failure_mode(locks[0], mode);
}

HFI_PUBLIC int hf_acquire_all(hf_lock *const *locks, size_t count, enum hf_mode mode,
                              int64_t timeout_ns, struct hf_hold *out)
{
    int error = arguments_check(locks, count, mode);
    if (error != 0) {
        return error;
    }
    struct sorted_lock *sorted = malloc(count * sizeof(*sorted));
    if (sorted == NULL) {
        return failure(locks[0]->client, HF_ENOMEM, "no memory for %zu locks", count);
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (struct sorted_lock){.lock = locks[i], .index = i};
    }
    qsort(sorted, count, sizeof(*sorted), sorted_compare);
    for (size_t i = 1; i < count && error == 0; i++) {
        if (sorted_compare(&sorted[i - 1], &sorted[i]) == 0) {
            error = failure(locks[0]->client, HF_EINVAL,
                            "the locks contain \"%s\" twice, expected each name once",
                            sorted[i].lock->name);
        }
    }
    if (error == 0) {
        error = sorted_take(sorted, count, mode, timeout_ns, out);
    }
    free(sorted);
    return error;
}
