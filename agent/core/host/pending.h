/*
 * Pending: OPENs that are not answered yet, since the lock's grant is not here or does not cover
 * their lock-delay.
 *
 * Rule: an OPEN is answered within PENDING_PATIENCE_MS, grant or no grant, unless a hold could
 * begin under a grant that does not cover its lock-delay.
 */
#ifndef HOST_PENDING_H
#define HOST_PENDING_H

#include "core/base/arena.h"
#include "hub.h"

struct pending;

enum { PENDING_PATIENCE_MS = 50 };

/* One of them. */
struct pending_open {
    uint64_t request;
    int64_t due_ns;
    uint32_t handle;
    int32_t error; /* ready with this error */
    bool ready;    /* to be answered */
};

struct pending *pending_lay_out(struct arena *arena);

/* To be answered later, when the grant is here or patience ends. false: too many are. */
bool pending_add(struct host *host, uint32_t handle, uint64_t request);
/* All are below this; some of the numbers may be nobody's (false). */
uint32_t pending_end(const struct host *host);
bool pending_read(const struct host *host, uint32_t index, struct pending_open *out);
void pending_set_due(struct host *host, uint32_t index, int64_t due_ns);
void pending_set_ready(struct host *host, uint32_t index, int32_t error);
void pending_drop(struct host *host, uint32_t index);
/* All of a handle that goes. */
void pending_forget(struct host *host, uint32_t handle);
/* Answers what can be answered of the OPENs of this lock: error 0, or why not. */
void pending_resolve(struct host *host, struct lock_ref at, int32_t error);
/* Whether one waits for that lock. */
bool pending_is_for(const struct host *host, struct lock_ref at);
void pending_check(const struct host *host);

#endif
