/*
 * Pending: OPENs that are not answered yet, because the lock's grant is not here or does not cover
 * their lock-delay.
 *
 * Rule: an OPEN is answered within PENDING_ANSWER_MS, with the grant or without it. There is one
 * exception: if the answer would let a hold begin under a grant that does not cover the OPEN's
 * lock-delay, the OPEN waits longer.
 *
 * Invariants: each entry belongs to a handle that is in use. All entries have an index below
 * pending_end().
 */
#ifndef HOST_PENDING_H
#define HOST_PENDING_H

#include "core/base/arena.h"
#include "full.h"
#include "hub.h"

struct pending;

enum {
    PENDING_ANSWER_MS = 50,
    PENDING_MAX = 1024,
};

/* A pending OPEN. */
struct pending_open {
    uint64_t request;
    int64_t due_ns;
    uint32_t handle;
    int32_t error;         /* if ready: the error in the answer; 0: success */
    bool ready;            /* opens_work() has to answer the OPEN */
    struct full_note full; /* with HF_EFULL: which table is full */
};

struct pending *pending_lay_out(struct arena *arena);

/* Notes that an OPEN has to be answered when the grant is here, or when PENDING_ANSWER_MS is over.
 * Returns false if the table is full. */
bool pending_add(struct host *host, uint32_t handle, uint64_t request);
/* Returns a bound: every pending OPEN has a lower index. */
uint32_t pending_end(const struct host *host);
/* Sets *out to the OPEN with that index. Returns false if there is none. */
bool pending_read(const struct host *host, uint32_t index, struct pending_open *out);
void pending_set_due(struct host *host, uint32_t index, int64_t due_ns);
void pending_set_ready(struct host *host, uint32_t index, int32_t error);
void pending_drop(struct host *host, uint32_t index);
/* Forgets the OPENs of a handle that ends. */
void pending_forget(struct host *host, uint32_t handle);
/* Makes OPENs of this lock ready. If `error` is 0, these are the OPENs whose lock-delay the grant
 * covers; otherwise all OPENs of the lock. With HF_EFULL, each of them keeps a copy of the note
 * that says which table is full. */
void pending_resolve(struct host *host, struct lock_ref at, int32_t error);
/* For a lock whose grant will not arrive soon: makes its OPENs ready without the grant. */
void pending_give_up(struct host *host, struct lock_ref at);
/* Returns whether an OPEN of that lock is pending and not ready. */
bool pending_is_for(const struct host *host, struct lock_ref at);
void pending_check(const struct host *host);

#endif
