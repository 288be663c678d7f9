/*
 * Holds: taking a hold away from its process, and closing the lock behind it.
 *
 * Rule (docs/PROTOCOL.md, 20): a lock whose holder did not release it itself stays closed for the
 * lock-delay that its handle asked for, or, of a holder without a handle, for the longest that the
 * grant covers. The end of each closing is noted before the word is closed, in memory that outlives
 * the agent, so that a region that is given up is not begun anew before it (regions.h).
 *
 * Invariant: a lock that is closed here stands in the heap of openings.
 */
#ifndef HOST_HOLDS_H
#define HOST_HOLDS_H

#include "hub.h"

/* How long it stays closed behind a holder: the handle's lock-delay, or the grant's. */
uint32_t hold_delay_ms(const struct host *host, struct lock_ref at, uint32_t holder);
/* Evicts the holder that the word names, or one that is dead; closes for delay_ms (0: not). */
void hold_evict(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, enum host_loss why, struct host_actions *actions);
/* The reader in that seat. cell: as its cell has to be; 0: as it is. */
void hold_evict_reader(struct host *host, struct lock_ref at, uint32_t seat, uint64_t cell,
                       uint32_t delay_ms, enum host_loss why, struct host_actions *actions);
/* Its word's token is none of the range: all of it counts as used, and the holder that the word
 * names has lost the lock, which closes for delay_ms. false: it is one. */
bool hold_use_up(struct host *host, struct lock_ref at, const struct hfi_range *range,
                 uint32_t delay_ms, struct host_actions *actions);

#endif
