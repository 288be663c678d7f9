/*
 * Delays: lock-delays that outlive the agent.
 *
 * A grant covers the longest lock-delay of the lock's handles. After a restart, the agent knows all
 * handles only when the clients of the agent before it have opened theirs again. But a lock that is
 * granted earlier may be taken at once, by any process that has it open. So the longest lock-delay
 * of a lock is noted beside the regions before the OPEN that asks for it is answered. The note
 * counts until all handles are known.
 *
 * There is no room for a note of each lock: all locks whose names' hashes are equal, modulo the
 * number of notes, share one. So a note may say more than the handles of a lock ask for, never
 * less. It names neither slots nor namespaces, which may be others for the next agent. A lock-delay
 * that is assumed of every unknown handle in any case is not noted.
 *
 * Notes only rise until all handles have been counted again. That is done when a noted handle is
 * gone and no handle is unknown, a part of the handles with each renewal; handles that are opened
 * meanwhile count too.
 *
 * No client maps these notes. All the same, what is read in them is checked.
 */
#ifndef HOST_DELAYS_H
#define HOST_DELAYS_H

#include "core/base/arena.h"
#include "hub.h"

/* In the simulator every lock-delay is longer. */
#ifndef HOST_DELAY_UNKNOWN_MS
#define HOST_DELAY_UNKNOWN_MS 1000
#endif
/* What is assumed, at least, of a handle that is not known yet: the API's default. */
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
/* Notes that lock-delay; to be called before the OPEN that asks for it is answered. */
void delay_note(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* A handle with that lock-delay ended or got another one. */
void delay_gone(struct host *host, uint32_t delay_ms);
/* Takes over the notes of the agent before this one, if its session goes on. */
void delays_adopt(struct host *host);

/* Begins or continues to count all handles again, so that notes that say too much are lowered; all
 * handles are known. false: there is no need. *hand: the first handle that is not counted yet. */
bool delays_count_begin(struct host *host, uint32_t *hand);
void delays_count(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* All handles below `hand` are counted; 0: all are. */
void delays_count_end(struct host *host, uint32_t hand);

#endif
