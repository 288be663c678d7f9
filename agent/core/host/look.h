/*
 * Look: what people see of a lock on this host, read from its region and the agent's records.
 *
 * Invariants: a look changes nothing, and only what people see depends on it. A region may contain
 * anything (docs/PROTOCOL.md, rule 34), so a look relies on the agent's own seats, clients and
 * tokens, and reads from the region only words, cells, times and places in the queue. A party that
 * is shown has a seat or a handle of this lock. A hold is shown with at most the time that the
 * session's lease has left. At most HFI_FRAME_PARTIES_MAX parties are written; more_parties is set
 * if there are more parties.
 */
#ifndef HOST_LOOK_H
#define HOST_LOOK_H

#include "hub.h"

/* Sets *lock and the parties of the lock, holders first. `parties` has room for
 * HFI_FRAME_PARTIES_MAX. */
void look_lock(const struct host *host, struct lock_ref at, struct hfi_lock_frame *lock,
               struct hfi_party_frame *parties);
/* Describes in *party the process that has this holder id and this seat (HFI_SEAT_NONE: no seat)
 * for the lock. The texts in *party are borrowed. */
void look_holder(const struct host *host, struct lock_ref at, uint32_t holder, uint32_t seat,
                 struct hfi_party_frame *party);
/* Returns the mark (handle_mark_of_word()) of the hold that this holder id and this seat
 * (HFI_SEAT_NONE: no seat) have now; 0: they have none. */
uint64_t look_mark(const struct host *host, struct lock_ref at, uint32_t holder, uint32_t seat);
/* Returns the token to show for a hold, while the lock word is `word`. The region does not keep the
 * token of each reader. The result for a reader is not below the reader's own token, and is below
 * that of every exclusive hold after it. */
uint64_t look_token(const struct host *host, struct lock_ref at, uint64_t word, bool shared);
/* Returns how long ago `since` was. A region gives such times in units of 2^20 ns. */
int64_t look_elapsed_ns(int64_t now_ns, uint32_t since);

#endif
