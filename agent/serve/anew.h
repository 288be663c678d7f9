/*
 * Makes a new region on a thread of its own, one region at a time. That takes 15 ms for 27 MiB and
 * 0.2 s for 400 MB. If the loop's thread made regions, it would renew no lease meanwhile. libuv's
 * pool is not used, because libuv aborts if it cannot start a thread.
 */
#ifndef AGENT_SERVE_ANEW_H
#define AGENT_SERVE_ANEW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "io/region.h"

struct anew {
    uv_async_t made; /* wakes the loop when the region is done; made.data is the agent */
    pthread_t thread;
    bool runs; /* true from anew_begin() to anew_end() */
    uint32_t space;
    int folder;
    struct hfi_region_sizes sizes;
    struct hfi_region_identity identity;
    _Atomic bool done; /* true: the fields below may be read */
    bool good;
    struct region_file file;
    char error[REGION_ERROR_MAX];
};

/* Begins to make a region from space, folder, sizes and identity. When the attempt has ended, the
 * loop calls the callback of `made`. Returns false, with errno, if no thread can be started. */
bool anew_begin(struct anew *anew) __attribute__((warn_unused_result));

/* Returns whether the attempt that anew_begin() started has ended, with or without success. */
bool anew_is_done(const struct anew *anew);

/* Waits for the thread. If good is true, the caller passes file to region_file_take() or
 * region_file_drop(); otherwise error says why there is no file. */
void anew_end(struct anew *anew);

#endif
