/*
 * Look: what people see of a lock on this host, read from its region and its records. It changes
 * nothing, and what it reads in the region may be anything.
 */
#ifndef HOST_LOOK_H
#define HOST_LOOK_H

#include "hub.h"

/* Sets *lock and the parties of the lock, holders first. `parties` has room for
 * HFI_FRAME_PARTIES_MAX. */
void look_lock(const struct host *host, struct lock_ref at, struct hfi_lock_frame *lock,
               struct hfi_party_frame *parties);
/* Returns how long ago `since` was. A region gives such times in units of 2^20 ns. */
int64_t look_elapsed_ns(int64_t now_ns, uint32_t since);

#endif
