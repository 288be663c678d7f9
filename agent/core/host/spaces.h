/*
 * Spaces: the region of each namespace, by the namespace's index in the configuration. A space is
 * in use (it has a region), given up (its region became rubbish, or could not be adopted), or has
 * no region yet. The rule for giving up (docs/PROTOCOL.md, 32) stands in regions.c; a space keeps
 * what that rule needs.
 *
 * Invariants: a space that is given up is not in use. What is known of its locks is forgotten slot
 * by slot; until the last slot is forgotten, the space is leaving, and gets no other region. A
 * region shows the lease that was published last. The lease is never extended in a space that is
 * not in use.
 *
 * What has to outlive the agent stands in the driver's note (host_set_region_note()): until when
 * the namespace is closed, and the session in which it was given up.
 */
#ifndef HOST_SPACES_H
#define HOST_SPACES_H

#include "core/base/arena.h"
#include "hub.h"

struct spaces;

struct spaces *spaces_lay_out(struct arena *arena);
void spaces_init(struct host *host);

/* ---- The region ---- */

/* Puts the space in use, with that region. */
void space_begin(struct host *host, uint32_t space, const struct hfi_region *region, bool adopted,
                 const struct hfi_kernel *kernel);
/* Notes that the region in use lies at another address now: see host_move_region(). */
void space_move(struct host *host, uint32_t space, const struct hfi_region *region);
bool space_is_used(const struct host *host, uint32_t space);
/* Returns whether the region was there before this agent. */
bool space_is_adopted(const struct host *host, uint32_t space);
const struct hfi_region *space_region(const struct host *host, uint32_t space);
/* Returns the actor with which the agent itself changes words of that region. */
const struct hfi_actor *space_actor(const struct host *host, uint32_t space);
uint64_t space_incarnation(const struct host *host, uint32_t space);
/* Returns the number of regions that the space has had with this agent. */
uint32_t space_birth(const struct host *host, uint32_t space);
/* Returns whether the region is sound, so that what was read there can be relied on: see
 * host_set_sound(). */
bool space_is_sound(const struct host *host, uint32_t space);

/* ---- The lease that the region shows ---- */

/* Returns the lease as it was published last; 0: it was not published yet. */
uint64_t space_lease(const struct host *host, uint32_t space);
/* Publishes the session's lease. */
void space_publish(struct host *host, uint32_t space);
/* If the region shows another lease than the one published last, publishes the last published lease
 * again. Returns whether the region showed another lease. */
bool space_mend_lease(struct host *host, uint32_t space);

/* ---- Giving up ---- */

/* Gives the space up. First notes, for the next agent, that the namespace is closed until until_ns.
 * Returns false if the space was not in use; else the space is leaving from now on. */
bool space_give_up(struct host *host, uint32_t space, int64_t until_ns);
bool space_is_given_up(const struct host *host, uint32_t space);
bool space_is_leaving(const struct host *host, uint32_t space);
/* Returns how many slots are forgotten, counted from the first; 0 if the space is not leaving. */
uint32_t space_left_slots(const struct host *host, uint32_t space);
/* Returns the next slot to forget. The space then takes that slot for forgotten. */
uint32_t space_leave_slot(struct host *host, uint32_t space);
/* Notes that all slots are forgotten: the space is no longer leaving. */
void space_has_left(struct host *host, uint32_t space);
/* Returns the latest time until which a lock of the namespace may be closed, as noted. */
int64_t space_closed_until_ns(const struct host *host, uint32_t space);
/* Notes that a lock of the namespace may be closed until until_ns. Call it before the lock's word
 * is changed. */
void space_note_closing(const struct host *host, uint32_t space, int64_t until_ns);

/* ---- What the grants of a namespace are worth ---- */

/* Returns whether the namespace was given up in this session. In that case this agent does not know
 * the grants from before. */
bool space_is_anew(const struct host *host, uint32_t space);
/* Returns whether this agent's own store says which grants of that namespace it has. */
bool space_grants_are_known(const struct host *host, uint32_t space);
/* Returns whether the name's namespace is given up. Then no message about the name is answered. */
bool space_bars_name(const struct host *host, const struct message_name *name);

#endif
