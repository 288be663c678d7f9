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
        }
    }
    while (error != 0 && taken > 0) {
        taken--;
        /* hf_release() frees the handle even if the hold was lost */
        int ignored = hf_release(sorted[taken].lock);
        (void)ignored;
    }
    return error;
}

HFI_PUBLIC int hf_acquire_all(hf_lock *const *locks, size_t count, enum hf_mode mode,
                              int64_t timeout_ns, struct hf_hold *out)
{
    if (locks == NULL || count == 0 || count > SIZE_MAX / sizeof(struct sorted_lock) ||
        (mode != HF_EXCLUSIVE && mode != HF_SHARED)) {
        return HF_EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        if (locks[i] == NULL || locks[i]->client != locks[0]->client) {
            return HF_EINVAL;
        }
    }
    if (!alive_here(locks[0]->alive)) {
        return HF_EFORKED;
    }
    struct sorted_lock *sorted = malloc(count * sizeof(*sorted));
    if (sorted == NULL) {
        return HF_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (struct sorted_lock){.lock = locks[i], .index = i};
    }
    qsort(sorted, count, sizeof(*sorted), sorted_compare);
    int error = 0;
    for (size_t i = 1; i < count; i++) {
        if (sorted_compare(&sorted[i - 1], &sorted[i]) == 0) {
            error = HF_EINVAL;
        }
    }
    if (error == 0) {
        error = sorted_take(sorted, count, mode, timeout_ns, out);
    }
    free(sorted);
    return error;
}
