/*
 * Spaces: the region of each namespace, by the namespace's index in the configuration. A space is
 * in use (it has a region), given up (its region became rubbish, or could not be adopted), or has
 * no region yet. regions.c says when and how a region is given up (docs/PROTOCOL.md, rule 32); this
 * module keeps the data for that.
 *
 * Invariants: a space that is given up is not in use. The agent forgets its locks slot by slot.
 * Until the last slot is forgotten, the space is "leaving", and gets no other region. A region
 * shows the lease that was published last. The lease is never extended in a space that is not in
 * use.
 *
 * Three things outlive the agent, in the driver's note (host_set_region_note()): until when the
 * namespace is closed, the session in which it was given up, and whether it still has no new
 * region.
 */
#ifndef HOST_SPACES_H
#define HOST_SPACES_H

#include "core/base/arena.h"
#include "hub.h"

struct spaces;

struct spaces *spaces_lay_out(struct arena *arena);
void spaces_init(struct host *host);

/* ---- The region ---- */

/* Gives the space that region. From now on the space is in use. */
void space_begin(struct host *host, uint32_t space, const struct hfi_region *region, bool adopted,
                 const struct hfi_kernel *kernel);
/* Notes that the region in use lies at another address now: see host_move_region(). */
void space_move(struct host *host, uint32_t space, const struct hfi_region *region);
bool space_is_used(const struct host *host, uint32_t space);
/* Returns whether this agent adopted the region from the previous agent. */
bool space_is_adopted(const struct host *host, uint32_t space);
const struct hfi_region *space_region(const struct host *host, uint32_t space);
/* Returns the actor with which the agent itself changes words of that region. */
const struct hfi_actor *space_actor(const struct host *host, uint32_t space);
uint64_t space_incarnation(const struct host *host, uint32_t space);
/* Returns the number of regions that the space has had with this agent. */
uint32_t space_birth(const struct host *host, uint32_t space);
/* Returns whether the region is sound, so that the agent can rely on what it has read in it: see
 * host_set_sound(). */
bool space_is_sound(const struct host *host, uint32_t space);

/* ---- The lease that the region shows ---- */

/* Returns the header's lease as it was published last; 0: it was not published yet. */
uint64_t space_lease(const struct host *host, uint32_t space);
/* Publishes the session's lease. */
void space_publish(struct host *host, uint32_t space);
/* If the published lease is not over, publishes that it ends now. From then on no hold of that
 * session counts, whatever the words say. */
void space_end_lease(struct host *host, uint32_t space);
/* If the region shows another lease than the one published last, publishes the last published lease
 * again. Returns whether the region showed another lease. */
bool space_mend_lease(struct host *host, uint32_t space);

/* ---- Giving up ---- */

/* Gives the space up. First notes, for the next agent, that the namespace is closed until until_ns.
 * If the space was in use, it is leaving from now on. Returns false if the space was not in use. */
bool space_give_up(struct host *host, uint32_t space, int64_t until_ns);
bool space_is_given_up(const struct host *host, uint32_t space);
bool space_is_leaving(const struct host *host, uint32_t space);
/* Returns the first slot that is not forgotten yet; 0 if the space is not leaving. */
uint32_t space_left_slots(const struct host *host, uint32_t space);
/* Returns the next slot to forget, and counts it as forgotten. */
uint32_t space_leave_slot(struct host *host, uint32_t space);
/* Notes that all slots are forgotten: the space is no longer leaving. */
void space_has_left(struct host *host, uint32_t space);
/* Returns the noted time until which a lock of the namespace may be closed. */
int64_t space_closed_until_ns(const struct host *host, uint32_t space);
/* Notes that a lock of the namespace may be closed until until_ns. Call it before the lock's word
 * is changed. */
void space_note_closing(const struct host *host, uint32_t space, int64_t until_ns);

/* ---- What is known of a namespace's grants ---- */

/* Returns whether the namespace was given up in this session. In that case this agent does not know
 * what became of the grants that it had before. */
bool space_is_anew(const struct host *host, uint32_t space);
/* Returns whether this agent's own store says which grants of that namespace it has. */
bool space_grants_are_known(const struct host *host, uint32_t space);
/* Returns whether the name's namespace is barred (regions.c), so that messages about the name are
 * ignored. */
bool space_bars_name(const struct host *host, const struct message_name *name);

#endif
