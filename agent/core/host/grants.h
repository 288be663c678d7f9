/*
 * Grants: what the host asks of the quorum for a lock, what it does with a grant that is here, and
 * when it gives the grant back.
 *
 *   IDLE -> ASKING -> GRANTED (-> AMENDING -> GRANTED) -> RETURNING -> IDLE
 *   ADOPTED -> GRANTED
 *
 * Rule 12 (of docs/PROTOCOL.md, like all rules here): only a grant that the quorum gave opens the
 * word, and the word is out of use before a give-back is sent.
 *
 * Rule 9: a grant is named by its version. The versions of one lock rise, so one number says which
 * versions were given back already: in every state but GRANTED and AMENDING, the lock's version is
 * the last one that it returned, and no grant at or below that version counts.
 *
 * Rule 10: after a give-back, the host asks for the lock again only when the give-back was
 * acknowledged. So it does not matter in which order answers, recalls and their repeats arrive:
 *
 *   A grant is taken only as the answer to the request that is under way.
 *   If no request is under way, a grant that nobody asked for is given back. Otherwise the answer
 *   to the request settles it.
 *   A recall of an unknown version may be about the grant of the request that is under way. When
 *   the recall is repeated, that request ends, and the host gives that version back.
 *
 * ADOPTED: the previous agent left the word in force, but only the quorum knows whether the grant
 * is still there. Until the quorum has answered, holders keep what they have and no other process
 * gets the lock: the recall bit is set (rule 32). In a continued session, the agent asks for such a
 * grant even if no process wants the lock. See docs/DECISIONS.md.
 *
 * Rule 11: in a continued session, the previous agent may have returned a grant by a message that
 * is still on its way. If this agent put that grant in force, the lock would go to another host
 * when the message arrives. So if a lock was not in force when this agent started, its first grant
 * is taken only if it is fresh: made for this agent's own request, or for a request that this agent
 * continues (kept.h). Any other grant is doubtful: it goes back, and the host asks anew. The first
 * grants of a namespace that was begun anew in this session are doubtful too (regions.h).
 *
 * A shared grant lets local readers in. If a process waits to write, the host gives the shared
 * grant back and asks for an exclusive one. If an exclusive grant is recalled while readers hold
 * the lock, the host makes the grant shared first, because the host that waits may only want to
 * read.
 *
 * Rule 22: while the word is shared, its token stays the same: the token of the last exclusive
 * hold, or the first of the range if there was none. The AMEND that makes the grant shared names
 * that token, and the token becomes the token of the readers of all hosts. So no reader has a lower
 * token than an earlier one, whichever host it is on, and whether or not this host has the answer
 * yet. The AMEND may be repeated, or arrive after the end of this process. So a word that was made
 * shared is made exclusive again only with tokens above the named token. If the quorum still says
 * that the grant is exclusive, the host asks again to make it shared (stays_shared()). If a new
 * agent finds a shared word, and takes it out of force, the grant goes back.
 *
 * In a cell that is being upgraded, the coordinator, or a voter that passed the message on, may be
 * of the previous release. An agent of that release does not know what the AMEND says, so the grant
 * stays exclusive. Then the host asks for the next range. (If that range needs another slot, the
 * grant goes back when its readers have left.) For a while after it met such an agent, the host
 * makes grants shared in the older way: the word's token becomes the last token of its range, and
 * the AMEND names that token. A range is never named in both ways. Otherwise a range that was made
 * shared with a token within it could be followed by a range that ends at the same token, and a
 * late message would make the grant shared while this host writes.
 *
 * Invariants: a lock has at most one request under way. In GRANTED and AMENDING the lock's version
 * is that of the grant which is here. A grant goes back under the version under which it came.
 */
#ifndef HOST_GRANTS_H
#define HOST_GRANTS_H

#include "core/base/arena.h"
#include "hub.h"

struct grants;
struct request;

/* how often a recalled lock may still be handed over within this host */
enum { GRANT_HANDOVERS = 16 };

/* The last token there is. If this process has not put a grant in force, the give-back says that
 * all tokens up to this one were used, because an earlier process may have used any of them. Lost
 * tokens do no harm, because there are enough. */
static const uint64_t GRANT_TOKENS_ALL = MESSAGE_TOKEN_LIMIT - 1;

/* Which token an AMEND names: none; the last of the range; or the last one that was used. */
enum grant_naming { GRANT_NAMES_NO_TOKEN, GRANT_NAMES_LAST, GRANT_NAMES_USED };

/* Whether hosts that only try the lock can have the grant: GRANT_UNSETTLED says that this host does
 * not know yet. */
enum grant_lending { GRANT_LENT, GRANT_IN_USE, GRANT_UNSETTLED };

struct grants *grants_lay_out(struct arena *arena);

/* Asks for the lock's grant, if this host neither has the grant nor has asked for it. */
void grant_ask(struct host *host, struct lock_ref at, uint32_t lock_delay_ms,
               struct host_actions *actions);
/* For a lock whose request is under way. If the lock's queue wants another mode than the request,
 * changes the request's mode. */
void grant_ask_anew(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Asks the quorum to make the grant cover at least lock_delay_ms. If `tokens`, also asks for the
 * next range of tokens. */
void grant_amend(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, bool tokens,
                 struct host_actions *actions);
/* Asks the quorum to change the grant's mode (MESSAGE_MODE_NONE: the mode stays), and to make the
 * grant cover at least lock_delay_ms. `naming` says which token the AMEND names. */
void grant_amend_mode(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, uint8_t mode,
                      enum grant_naming naming, struct host_actions *actions);
/* Gives the grant of that version back. The caller has put the word out of use, and has seen that
 * there is room for a request. */
void grant_give_back(struct host *host, struct lock_ref at, struct message_order version,
                     uint64_t token_used, struct host_actions *actions);
/* Gives back a grant that is not in force here, and of which this host knows only the version. The
 * message that named the version may be old (struct request_terms, stray). */
void grant_give_back_unknown(struct host *host, const struct message_name *name,
                             struct message_order version, struct host_actions *actions);
/* Records that the quorum no longer has the version that was given back. `stray` is the request's.
 * If the lock's grants may be doubtful, a stray give-back shows nothing about later grants. So
 * later grants stay doubtful, as if this one had not been given back. */
void grant_returned(struct host *host, struct lock_ref at, bool stray);
/* Serves, gives back or amends a grant that is here. */
void grant_attend(struct host *host, struct lock_ref at, struct host_actions *actions);
/* For a grant that another host, or the agent itself, wants back. Gives the grant back, or makes it
 * shared, as soon as that is possible. */
void grant_attend_recalled(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Returns whether processes of this host hold the lock or want it, or the lock is closed. The
 * result does not depend on the lock's grant. */
bool grant_is_used(const struct host *host, struct lock_ref at);
/* For a lock that another host only tries. If the grant is idle, gives it back. If that host tries
 * to read (to_read), and only readers hold the lock, makes the grant shared. Otherwise the grant
 * stays as it is. */
enum grant_lending grant_lend(struct host *host, struct lock_ref at, bool to_read,
                              struct host_actions *actions);
/* Handles the coordinator's answer that the lock is in use on other hosts. Refuses the processes
 * that only try the lock. Ends the request if no process waits. */
void grant_is_in_use(struct host *host, struct request *request, struct host_actions *actions);
/* Notes that a coordinator of an earlier release did not understand an AMEND that names the last
 * used token. For WHOLE_MS from now on, grants are made shared in the older way. */
void grants_name_whole_ranges(struct host *host);

/* Adoption: notes that the lock's word was in force. So the previous agent had not given the grant
 * back. */
void grant_was_in_force(struct host *host, struct lock_ref at);
/* Adoption: notes that the previous agent had returned that version, and none above it. */
void grant_has_returned(struct host *host, struct lock_ref at, struct message_order version);
/* Notes a grant that was made for a request which this agent began. */
void grant_note_made(struct host *host, struct message_order version);
/* Returns whether the grant was surely made later than one that grant_note_made() noted. Then the
 * previous agent cannot have known it. */
bool grant_is_later(const struct host *host, struct lock_ref at, struct message_order version);
/* Returns whether a grant of the lock would be doubtful, if it is not fresh: the previous agent may
 * have returned it, or it may have been in force in a region that was given up. */
bool grant_is_doubtful(const struct host *host, struct lock_ref at);
/* Return the longest lock-delay that any handle of the lock asks for, but at least at_least_ms.
 * grant_longest_known_ms() counts only the handles that this agent knows. grant_longest_delay_ms()
 * also counts the handles that the previous agent's clients may have. */
uint16_t grant_longest_delay_ms(const struct host *host, struct lock_ref at, uint32_t at_least_ms);
uint16_t grant_longest_known_ms(const struct host *host, struct lock_ref at, uint32_t at_least_ms);
/* Returns whether the lock is granted but not in force, because its grant does not yet cover the
 * lock-delay of some handle. */
bool grant_lacks_delay(const struct host *host, struct lock_ref at);

#endif
