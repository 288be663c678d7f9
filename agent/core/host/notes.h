/*
 * Notes: the texts that processes put on their holds (hf_set_note()), for display only. A handle
 * has at most one note, which counts for its holds from the handle's next one on. So the hold that
 * the handle has at the moment keeps the note that it began with.
 *
 * Invariants: no decision depends on a note. There is room for one note of each 16 handles, and for
 * NOTES_MAX at most. One account other than root may have half of them. A note for which there
 * is no room is dropped.
 */
#ifndef HOST_NOTES_H
#define HOST_NOTES_H

#include "core/base/arena.h"
#include "hub.h"

enum { NOTES_MAX = 4096 };

struct notes;

struct notes *notes_lay_out(struct arena *arena, const struct host_config *config);
void notes_init(struct host *host);
/*
 * Sets the handle's note. An empty text takes it away. mark: the mark (look_mark()) of the hold
 * that the handle has now, and that keeps its note; 0: none. Returns false if there is no room; the
 * handle then has the note that it had.
 */
bool notes_set(struct host *host, uint32_t handle, int64_t account, struct hfi_text text,
               uint64_t mark);
/* Takes the handle's note away, if it has one. */
void notes_drop(struct host *host, uint32_t handle);
/* Returns the note on the handle's hold with that mark. The text is empty if there is none, and is
 * borrowed until the note changes. */
struct hfi_text notes_of(const struct host *host, uint32_t handle, uint64_t mark);
/* Return how many notes there is room for, how many of them one account other than root may have,
 * and how many there are. */
uint32_t notes_room(const struct host *host);
uint32_t notes_share(const struct host *host);
uint32_t notes_count(const struct host *host);

#endif
