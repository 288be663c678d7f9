/*
 * Words: what a lock's word says against what is known of the lock is put right.
 *
 * The users of one namespace trust each other for its region, and a process that wrote rubbish into
 * it may be gone: then nothing of that stays. The agent's own numbers count: the tokens that it was
 * granted, until when a lock is closed, which mode is in force.
 *
 * What cannot be told from the truth stays for as long as the process lives in whose name it is: a
 * word that names a handle of a living process, with a token that may be. Clients act at any time:
 * what is written here over a word is written by a swap of what was seen, or changes bits that any
 * process may set at any time (docs/MEMORY_ORDER.md, docs/REGION.md).
 */
#ifndef HOST_WORDS_H
#define HOST_WORDS_H

#include "hub.h"

/* Puts right what the lock's word says. */
void word_repair(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Adopted: takes over what only the region knows of the lock. A lock-delay that runs has at most
 * that long to go. */
void word_adopt(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* Puts the grant in force, whose range begins there. */
void word_put_in_force(struct host *host, struct lock_ref at, uint64_t token_first,
                       struct host_actions *actions);
/* What of the lock's tokens has been used, by its word. */
uint64_t word_token_used(const struct host *host, struct lock_ref at);
/* Something of that lock's in the region was not as it should be, and was put right. */
void word_mended(struct host *host, struct lock_ref at);

#endif
