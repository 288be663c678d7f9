/*
 * Tally: what this host knows about the outcome of its clients' breaks.
 *
 * A shared lock can have holds on several hosts. The coordinator names the owners that it asks, and
 * each owner reports what it ended. A break is done when every owner that the coordinator's latest
 * answer names has answered. It does not matter which of the coordinator's answers arrived last:
 * each was decided after the break began, so each names every owner that still has a grant from
 * before the break. An owner that it no longer names has given that grant back, or its session has
 * ended.
 *
 * Invariants: an owner counts once, however often it answers. An owner's answer counts only if a
 * voter has named the owner, before the answer or after it. A break is never reported as done
 * before the coordinator has named the owners.
 */
#ifndef HOST_TALLY_H
#define HOST_TALLY_H

#include "core/base/arena.h"
#include "hub.h"

struct tallies;

struct tallies *tallies_lay_out(struct arena *arena, uint32_t count);
/* Begins the tally with that index. */
void tally_begin(struct host *host, uint32_t index);
/* Handles a BROKEN about the break. Returns false if its sender may not send it. */
bool tally_note(struct host *host, uint32_t index, const struct message *message);
/* Notes the outcome of a break of this host's own grant, which needs no other host. */
void tally_note_own(struct host *host, uint32_t index, const struct message_broken *broken);
/* Returns the highest version of a grant that the break concerns; 0: it is not known yet. */
struct message_order tally_meant(const struct host *host, uint32_t index);
/* Returns whether every owner that was named has answered. */
bool tally_is_whole(const struct host *host, uint32_t index);
/* Answers the client's BREAK. Needs room for one frame in the output (tally_has_room()). The error
 * is an owner's error; or HF_ETIMEDOUT if an owner that may still have holds has not answered. */
void tally_reply(struct host *host, uint32_t index, uint32_t client, uint64_t request,
                 struct host_actions *actions);
bool tally_has_room(const struct host_actions *actions);

#endif
