/*
 * Lock-delays that outlive the agent.
 *
 * A grant covers the longest lock-delay of the lock's handles. What handles there are is known only
 * when the clients of the agent before this one have opened theirs again; but what is granted until
 * then may be taken before that, by any process that has it open. So the longest lock-delay of a
 * lock is noted beside the regions before the OPEN that asks for it is answered, and counts until
 * all handles are known.
 *
 * There is no room for each lock: a note is that of all locks whose names' hashes fall on it. So
 * it may say more than a lock's handles ask for, never less; and it names neither slots nor
 * namespaces, which may be others for the next agent. Lock-delays that are counted with in any case
 * are not noted. Notes only rise, until all handles have been counted again: so many with each
 * renewal, when one of them is gone and none is unknown. What comes meanwhile counts with them.
 *
 * No client maps these notes. What is read in them is checked all the same.
 */
#ifndef HOST_DELAYS_H
#define HOST_DELAYS_H

#include "core/base/arena.h"
#include "hub.h"

/* In the simulator every lock-delay is longer. */
#ifndef HOST_DELAY_UNKNOWN_MS
#define HOST_DELAY_UNKNOWN_MS 1000
#endif
/* Of a handle that is not known yet, at least: the API's default. */
enum { LOCK_DELAY_UNKNOWN_MS = HOST_DELAY_UNKNOWN_MS };

struct delays;

struct delays *delays_lay_out(struct arena *arena);

/* Whether there is memory for notes. */
bool delays_are_noted(const struct host *host);
/* The longest lock-delay of the lock's handles that the agent before this one may have confirmed.
 */
uint32_t delay_noted_ms(const struct host *host, struct lock_ref at);
/* The longest of any handle. */
uint32_t delays_longest_ms(const struct host *host);
/* Before an OPEN with that lock-delay is answered. */
void delay_note(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* A handle had that one, and has it no more. */
void delay_gone(struct host *host, uint32_t delay_ms);
/* Takes over what the agent before noted, if its session goes on. */
void delays_adopt(struct host *host);

/* Counting all handles again, so that what says too much is lowered. false: no need. Else *hand is
 * the first handle that is not counted yet. Every one is known. */
bool delays_count_begin(struct host *host, uint32_t *hand);
void delays_count(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* All before `hand` are counted; 0: all are. */
void delays_count_end(struct host *host, uint32_t hand);

#endif
