/*
 * Grants: what the host asks of the quorum for a lock, what it does with a grant that is here, and
 * when it gives it back.
 *
 *   IDLE -> ASKING -> GRANTED (-> AMENDING -> GRANTED) -> RETURNING -> IDLE
 *   ADOPTED -> GRANTED
 *
 * The word is opened only by a grant that the quorum gave, and is out of use before a give-back is
 * sent. A grant is named by its version. Versions of one lock rise, so one number says which were
 * given back already: in every state but GRANTED and AMENDING the lock's version is the latest that
 * it returned, and no grant at or below it counts. A lock asks again only when its give-back was
 * acknowledged. So it does not matter in which order answers, recalls and their repeats arrive:
 *
 *   a grant is taken only as the answer to the request that is under way;
 *   one that nobody asked for is given back, unless something is under way, which settles it;
 *   a recall of an unknown version, repeated, ends the request that is under way, whose grant it
 *   may be about, and is answered with that version's give-back.
 *
 * ADOPTED: the previous agent left the word in force, but only the quorum knows whether the
 * grant is still there. Holders keep what they have, nobody new gets in (the recall bit stands),
 * and the session, which goes on, asks for what it should have. See docs/DECISIONS.md.
 *
 * In a session that goes on, the previous agent may have returned a grant by a message that
 * is still on its way: if this process heard of it again, it would put it in force, and lose it to
 * another host when that message arrives. So the first grant of a lock that was not in force when
 * this process came is taken only if it is fresh, made for this process's own request, or for one
 * that it goes on with (kept.h); any other goes back, and the lock is asked for anew. The same
 * holds for the locks of a namespace that was begun anew in this session (regions.h).
 *
 * A shared grant lets local readers in. A process that waits to write makes the host give it back
 * and ask for an exclusive one. An exclusive grant that is recalled while readers are inside
 * becomes a shared one first: the host that waits may want no more than to read.
 *
 * From the moment when the word is shared, its token is that of the last hold that was exclusive
 * (or the first of the range, if there was none), and stays so. The AMEND says it, and it becomes
 * the token of all hosts' readers: none of them goes back, whichever host it is on and whether this
 * one has heard the answer yet or not. The message may be repeated, or overtaken by the end of this
 * process. So a word that was made shared is made exclusive again only with tokens above that one:
 * a grant that the quorum still takes for exclusive is made shared once more (stays_shared()), and
 * one whose word was shared when an agent came, and is not in force any more, goes back.
 *
 * In a cell that is being upgraded, a coordinator of the release before, or a voter of it that
 * passed the message on, may not know what it says, and leaves the grant exclusive. Then the host
 * asks for the range above (if that is of another slot, the grant goes back when its readers have
 * left), and for a while it makes grants shared in the older way: the word's token becomes the last
 * of its range, and that is what the AMEND says. A range is never named in both ways: one that was
 * made shared under a token within it may be followed by one that has the same last token, and a
 * late message would make that shared while this host writes.
 */
#ifndef HOST_GRANTS_H
#define HOST_GRANTS_H

#include "core/base/arena.h"
#include "hub.h"

struct grants;
struct request;

enum { GRANT_HANDOVERS = 16 }; /* before a recall */

/* What the give-back of a grant says that this process has not put in force: all tokens were used.
 * A process before it may have done so; nothing here knows, and there are tokens enough. */
static const uint64_t GRANT_TOKENS_ALL = MESSAGE_TOKEN_LIMIT - 1;

/* Which token an AMEND names: none; the last of the range; or the last one that was used. */
enum grant_naming { GRANT_NAMES_NO_TOKEN, GRANT_NAMES_LAST, GRANT_NAMES_USED };

/* Whether a grant is there for those on other hosts who only try: yes; no; not known now. */
enum grant_lending { GRANT_LENT, GRANT_IN_USE, GRANT_UNSETTLED };

struct grants *grants_lay_out(struct arena *arena);

/* Asks for the grant, if it is not here and was not asked for. */
void grant_ask(struct host *host, struct lock_ref at, uint32_t lock_delay_ms,
               struct host_actions *actions);
/* A request is under way: if another mode is wanted by now, changes the request's mode. */
void grant_ask_anew(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Asks the quorum that the grant cover at least lock_delay_ms; if `tokens`, also for the next range
 * of tokens. */
void grant_amend(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, bool tokens,
                 struct host_actions *actions);
/* Asks for another mode of the grant (MESSAGE_MODE_NONE: the same mode). */
void grant_amend_mode(struct host *host, struct lock_ref at, uint32_t lock_delay_ms, uint8_t mode,
                      enum grant_naming naming, struct host_actions *actions);
/* Gives that version of the grant back. The caller has put the word out of use, and has seen that
 * there is room for a request. */
void grant_give_back(struct host *host, struct lock_ref at, struct message_order version,
                     uint64_t token_used, struct host_actions *actions);
/* Gives a grant back of which only the version is known, and which is not in force here. */
void grant_give_back_unknown(struct host *host, const struct message_name *name,
                             struct message_order version, struct host_actions *actions);
/* Serves, gives back or amends a grant that is here. */
void grant_attend(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Gives the grant back, or makes it shared, as soon as that can be. Another host, or the agent
 * itself, wants it back. */
void grant_attend_recalled(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Whether processes of this host have the lock or want it, or it is closed; whatever its grant. */
bool grant_is_used(const struct host *host, struct lock_ref at);
/* Another host only tries the lock: gives the grant back if it is idle, or, if that host wants to
 * read and only readers are inside, makes it shared. Else it stays as it is. */
enum grant_lending grant_lend(struct host *host, struct lock_ref at, bool to_read,
                              struct host_actions *actions);
/* The coordinator says that the lock is in use on other hosts: those who only try it are refused,
 * and the request ends unless processes wait. */
void grant_is_in_use(struct host *host, struct request *request, struct host_actions *actions);
/* Makes grants shared in the older way for a while. A coordinator of an earlier release did not
 * understand a token that was named. */
void grants_name_whole_ranges(struct host *host);

/* Adoption: notes that the word was in force, so the previous agent had not given the grant back.
 */
void grant_was_in_force(struct host *host, struct lock_ref at);
/* Adoption: notes that the previous agent had returned that version, and none above it. */
void grant_has_returned(struct host *host, struct lock_ref at, struct message_order version);
/* Returns whether the previous agent may have returned a grant that is not fresh, or one may have
 * been put in force in a region that was given up. Then nothing is known here of any grant of that
 * lock. */
bool grant_is_doubtful(const struct host *host, struct lock_ref at);
/* Return the longest lock-delay that any handle of the lock asks for, but at least at_least_ms.
 * grant_longest_delay_ms() also counts what the previous agent's clients may have open;
 * grant_longest_known_ms() counts only the handles that this agent knows. */
uint16_t grant_longest_delay_ms(const struct host *host, struct lock_ref at, uint32_t at_least_ms);
uint16_t grant_longest_known_ms(const struct host *host, struct lock_ref at, uint32_t at_least_ms);
/* Returns whether the lock is granted but not in force, since its grant does not yet cover the
 * lock-delay of some handle. */
bool grant_lacks_delay(const struct host *host, struct lock_ref at);

#endif
