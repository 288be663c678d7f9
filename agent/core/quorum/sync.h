/*
 * Anti-entropy: reading what other voters have, so that this voter completes its registers, catches
 * up, or starts over; and deletion of registers that nobody uses any more.
 *
 * Reading (sync.c). A register that is newer than this voter's own is adopted as if its ACCEPT
 * arrived late. So reading adds only what an ACCEPT would have added. A coordinator reads a
 * partition from voters that have promised its ballot. The partition is complete when these voters
 * and the coordinator are a majority: they have whatever was chosen under lower ballots. A voter
 * that does not coordinate a partition compares its registers with the coordinator's from time to
 * time, and reads them if they differ. (Anti-entropy: Demers et al. 1987, 1.3.)
 *
 * Deletion (sync_deletion.c). A checkpoint of a partition deletes its idle registers, and keeps
 * only a floor: the next token of any deleted name is above the floor (docs/PROTOCOL.md, rule 24;
 * without a checkpoint a deleted register comes back from a voter that missed the deletion, as in
 * CASPaxos).
 *
 * Invariants: reading a register is no vote of any voter. A partition is read from one voter at a
 * time. A listing is used only if the other voter's checkpoint did not change from the listing's
 * beginning to its end.
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
/* After loading: removes the registers that a checkpoint deleted but whose rows are still on the
 * disk. */
void sync_deletion_start(struct quorum *quorum);

/* ---- Reading ---- */

/* sync_request() handles another voter's SYNC. sync_answer() handles another voter's
 * answer to a SYNC of this voter (MESSAGE_SYNCED). */
void sync_request(struct quorum *quorum, const struct message *message);
void sync_answer(struct quorum *quorum, const struct message *message);
/* Makes this voter catch up with every partition that other voters coordinate. */
void sync_behind(struct quorum *quorum);
/* Begins at once to read the listings that are due. */
void sync_at_once(struct quorum *quorum);
/* Begins to read a listing for a voter that starts over; reaction_listing_read() reports its end.
 * Does nothing if that partition, or that voter's list of marks, is being read already. (The
 * partition may be read from another voter.) Returns false if too many listings of that voter are
 * being read, or the step has no room. */
bool sync_read(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
               uint32_t partition);
/* Begins to read the marks of that voter, which may be this voter itself. reaction_mark_seen()
 * reports each mark, and reaction_marks_read() reports the end. No mark is copied. */
void sync_read_marks(struct quorum *quorum, uint32_t voter);
/* While the record of voters is not complete: returns whether this voter has prepared the partition
 * under that record, and knows that a majority of the record's voters has everything this voter
 * read. */
bool sync_is_settled(const struct quorum *quorum, uint32_t partition);
int64_t sync_tick(struct quorum *quorum);

/* ---- Deletion ---- */

void sync_checkpoint(struct quorum *quorum, const struct message *message);
void sync_checkpointed(struct quorum *quorum, const struct message *message);
/* Ends the checkpoint that is under way, because the voters' answers to it are no longer valid.
 * Call it when the record of stores changed. */
void sync_recount(struct quorum *quorum);
/* Switches to another record of voters: ends all listings, and compares everything anew. */
void sync_follow(struct quorum *quorum);
/* Deletes rows of deleted registers, and begins a checkpoint if one is due. Call it at the end of
 * each step. No tick is scheduled for the beginning of a checkpoint. */
void sync_end_step(struct quorum *quorum);
/* Returns when deletion needs a step even if no event comes. */
int64_t sync_deletion_tick(const struct quorum *quorum);

#endif
