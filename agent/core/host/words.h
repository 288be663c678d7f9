/*
 * Words: the agent compares a lock's word with what it knows of the lock, and puts the word right.
 *
 * Rule 34 (docs/PROTOCOL.md): the users of one namespace trust each other not to spoil its region.
 * If a process writes rubbish into the region and ends, none of the rubbish stays. The agent's own
 * records decide: the tokens that it was granted, until when a lock is closed, which mode is in
 * force. So no bytes of a region extend a grant (rule 12) or move a token backwards (rule 21).
 *
 * The agent cannot distinguish one kind of rubbish from the truth: a word that names a handle of a
 * living process, with a token that is possible. Such a word stays as long as that process lives.
 *
 * Invariant: clients may change a word at any time. So the agent changes a word only by a swap,
 * which fails if the word has changed, or in bits that may be set at any time
 * (docs/MEMORY_ORDER.md, docs/REGION.md).
 */
#ifndef HOST_WORDS_H
#define HOST_WORDS_H

#include "core/base/arena.h"
#include "hub.h"

struct words;

struct words *words_lay_out(struct arena *arena);

/* Corrects the lock's word where it contradicts what the agent knows. */
void word_repair(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Adoption: takes over what only the region says about the lock. If the lock is closed, it opens
 * after at most delay_ms. */
void word_adopt(struct host *host, struct lock_ref at, uint32_t delay_ms);
/* Puts the lock's grant in force. token_first is the next token to hand out. */
void word_put_in_force(struct host *host, struct lock_ref at, uint64_t token_first,
                       struct host_actions *actions);
/* Returns the lock's last used token, as the lock's word says. */
uint64_t word_token_used(const struct host *host, struct lock_ref at);
/* Adds 1 to the namespace's number of repairs. The caller has corrected something about that lock
 * in the region. */
void word_mended(struct host *host, struct lock_ref at);
/* Returns the number of repairs in that namespace's region since the count was last reset. */
uint64_t words_repairs(const struct host *host, uint32_t space);
/* Adds 1 to the namespace's number of repairs, for a repair that is not about one lock. */
void words_count_repair(struct host *host, uint32_t space);
/* Resets the count of repairs. */
void words_forget_repairs(struct host *host, uint32_t space);

#endif
