/*
 * Anti-entropy: reading what other voters have, so that this one is complete, catches up, or starts
 * over; and deletion of registers that nobody uses any more.
 *
 * Reading (sync.c). A register that is newer than the own one is adopted as if its ACCEPT had come
 * late, so reading only ever adds what an ACCEPT would have. A coordinator is complete when it has
 * read a majority of those that promised, itself included, after they did: whatever was chosen
 * under lower ballots is among that. A voter that does not coordinate a partition compares it with
 * its coordinator's from time to time, and reads it if they differ. (Epidemic repair: Demers et al.
 * 1987.)
 *
 * Deletion (sync_deletion.c). A checkpoint of a partition takes its idle registers away, and keeps
 * of them only a floor: the next token of any of them is above it (docs/PROTOCOL.md, rule 24;
 * without it a deleted register comes back from a voter that missed the deletion, as in CASPaxos).
 *
 * Invariants: what is read is nobody's vote. A partition is read from one voter at a time. A
 * listing counts only if the other's checkpoint did not change from its beginning to its end.
 */
#ifndef QUORUM_SYNC_H
#define QUORUM_SYNC_H

#include "ballots.h"
#include "queues.h"
#include "registers.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "voters.h"

struct sync;

struct sync *sync_lay_out(struct arena *arena);
void sync_start(struct quorum *quorum);
/* After loading: what a checkpoint took away is not there, also if its row still is. */
void sync_deletion_start(struct quorum *quorum);

/* ---- Reading ---- */

/* Another voter asks; another voter answers. */
void sync_pull(struct quorum *quorum, const struct message *message);
void sync_pulled(struct quorum *quorum, const struct message *message);
/* Has this voter catch up with everything that others coordinate. */
void sync_behind(struct quorum *quorum);
/* Looks at once for what has to be read. */
void sync_at_once(struct quorum *quorum);
/* Begins to read a listing for a voter that starts over; reaction_listing_read() says when it is
 * done. false: too many are on the way, or the step has no room. */
bool sync_read(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
               uint32_t partition);
int64_t sync_tick(struct quorum *quorum);

/* ---- Deletion ---- */

void sync_checkpoint(struct quorum *quorum, const struct message *message);
void sync_checkpointed(struct quorum *quorum, const struct message *message);
/* The record of stores changed: what was counted does not count. */
void sync_recount(struct quorum *quorum);
/* At the end of a step: makes a checkpoint, if one is due. It needs no tick of its own for that. */
void sync_end_step(struct quorum *quorum);
/* When deletion wants a step in any case. */
int64_t sync_deletion_tick(const struct quorum *quorum);

#endif
