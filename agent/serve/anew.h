/*
 * A fresh region is made beside the loop: 15 ms for 27 MiB, 0.2 s for 400 MB, in which no lease
 * would be renewed. One at a time, on a thread of its own: libuv's would end the agent where there
 * is no thread to be had.
 */
#ifndef AGENT_SERVE_ANEW_H
#define AGENT_SERVE_ANEW_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "io/region.h"

struct anew {
    uv_async_t made; /* its data is the agent */
    pthread_t thread;
    bool runs; /* from anew_begin() to anew_end() */
    uint32_t space;
    int folder;
    struct hfi_region_sizes sizes;
    struct hfi_region_identity identity;
    _Atomic bool done; /* what follows may be read */
    bool good;
    struct region_file file;
    char error[REGION_ERROR_MAX];
};

/* Begins to make it, by space, folder, sizes and identity. When it is done the loop calls `made`.
 * false: no thread can be had, errno says why. */
bool anew_begin(struct anew *anew) __attribute__((warn_unused_result));

/* Whether one was made, or could not be, since anew_begin(). */
bool anew_is_done(const struct anew *anew);

/* Waits for the thread, which takes no longer than that. good: file is to be taken or dropped; else
 * error says why not. */
void anew_end(struct anew *anew);

#endif
