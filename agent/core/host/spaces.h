/*
 * Spaces: the region of each namespace, by the namespace's index in the configuration. A space is
 * in use (it has a region), given up (its region became rubbish, or could not be adopted), or has
 * no region yet. The rule for giving up stands in regions.c; a space keeps what that rule needs.
 *
 * Invariants: a space that is given up is not in use. What is known of its locks goes slot by slot
 * (it is leaving); before the last one it gets no other region. The lease that a region shows is
 * the one that was published last, and it is never extended in a space that is not in use.
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

/* The space is in use from now on. */
void space_begin(struct host *host, uint32_t space, const struct hfi_region *region, bool adopted,
                 const struct hfi_kernel *kernel);
/* The region that is in use lies somewhere else from now on: see host_move_region(). */
void space_move(struct host *host, uint32_t space, const struct hfi_region *region);
bool space_is_used(const struct host *host, uint32_t space);
/* The region was there before this agent. */
bool space_is_adopted(const struct host *host, uint32_t space);
const struct hfi_region *space_region(const struct host *host, uint32_t space);
/* With what the agent itself changes words of that region. */
const struct hfi_actor *space_actor(const struct host *host, uint32_t space);
uint64_t space_incarnation(const struct host *host, uint32_t space);
/* How many regions the space has had with this agent. */
uint32_t space_birth(const struct host *host, uint32_t space);
/* Whether what was read in that region was there: see host_set_sound(). */
bool space_is_sound(const struct host *host, uint32_t space);

/* ---- The lease that the region shows ---- */

/* As it was published last; 0: not yet. */
uint64_t space_lease(const struct host *host, uint32_t space);
/* Publishes the session's lease. */
void space_publish(struct host *host, uint32_t space);
/* Publishes the last one again, if the region shows another. false: it did not. */
bool space_mend_lease(struct host *host, uint32_t space);

/* ---- Giving up ---- */

/* Notes first that nothing of it counts before that time, for whoever comes after a kill. false:
 * the space was not in use; else it is leaving now. */
bool space_give_up(struct host *host, uint32_t space, int64_t until_ns);
bool space_is_given_up(const struct host *host, uint32_t space);
bool space_is_leaving(const struct host *host, uint32_t space);
/* What is known of the slots below that one is gone; 0: the space is not leaving. */
uint32_t space_left_slots(const struct host *host, uint32_t space);
/* The next slot of which it goes. */
uint32_t space_leave_slot(struct host *host, uint32_t space);
/* It is gone of all slots. */
void space_has_left(struct host *host, uint32_t space);
/* A lock of the namespace may be closed until then: the note says so before its word does. */
int64_t space_closed_until_ns(const struct host *host, uint32_t space);
void space_note_closing(const struct host *host, uint32_t space, int64_t until_ns);

/* ---- What the grants of a namespace are worth ---- */

/* The namespace was given up in this session: this agent knows of no grant that is older. */
bool space_is_anew(const struct host *host, uint32_t space);
/* Whether this agent's own store says which grants of that namespace it has. */
bool space_grants_are_known(const struct host *host, uint32_t space);
/* The name is of a namespace that is given up: no message about it is answered. */
bool space_bars_name(const struct host *host, const struct message_name *name);

#endif
