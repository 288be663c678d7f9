/*
 * Holds: taking a hold away from its process, and closing the lock behind it.
 *
 * Rule 20 (docs/PROTOCOL.md): a lock whose holder did not release it itself stays closed for the
 * lock-delay that the holder's handle asked for. If the holder has no handle, the lock stays closed
 * for the longest lock-delay that the grant covers. Before a word is closed, the time at which the
 * lock opens again is noted in memory that outlives the agent: a region that is given up is not
 * begun anew before that time (rule 32; regions.h).
 *
 * Before a hold is taken away, the reason is noted in the region for the hold's own process
 * (proto/ending.h). No decision depends on that note.
 *
 * Invariants: a lock that is closed here stands in the heap of openings. A hold is taken away only
 * if the word, or the reader's cell, is still as the caller saw it. So a later hold is never taken
 * away by mistake.
 */
#ifndef HOST_HOLDS_H
#define HOST_HOLDS_H

#include "hub.h"

/* The administrator who broke a hold. */
struct hold_breaker {
    struct message_agent agent;
    int64_t uid; /* the administrator's uid on that agent's host; -1: not known */
};

/* Returns how long the lock stays closed behind a holder: the lock-delay of the holder's handle. If
 * the holder has no handle, that is the lock-delay that the grant covers. */
uint32_t hold_delay_ms(const struct host *host, struct lock_ref at, uint32_t holder);
/* Evicts that holder, if the word still names it with that token. The lock then closes for delay_ms
 * (0: it does not close). */
void hold_evict(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, enum host_loss why, struct host_actions *actions);
/* Evicts the reader in that seat if its cell equals `cell` (0: any). The lock then closes for
 * delay_ms (0: it does not close). */
void hold_evict_reader(struct host *host, struct lock_ref at, uint32_t seat, uint64_t cell,
                       uint32_t delay_ms, enum host_loss why, struct host_actions *actions);
/* Do what hold_evict() and hold_evict_reader() (with cell 0) do, for an administrator's break. They
 * return whether they ended a hold. */
bool hold_break(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, const struct hold_breaker *by, struct host_actions *actions);
bool hold_break_reader(struct host *host, struct lock_ref at, uint32_t seat, uint32_t delay_ms,
                       const struct hold_breaker *by, struct host_actions *actions);
/* If the word's token is outside `range`: marks all tokens of the range as used, and closes the
 * lock for delay_ms behind the holder that the word names. Returns false if it changed nothing. */
bool hold_use_up(struct host *host, struct lock_ref at, const struct hfi_range *range,
                 uint32_t delay_ms, struct host_actions *actions);

#endif
