/*
 * Requests: what was asked of the quorum and is not answered yet (ACQUIRE, AMEND, GIVE_BACK).
 *
 * A lock has at most one request under way: it is ASKING, AMENDING or RETURNING (or ADOPTED, and
 * asks what it has). Messages get lost, so a request is sent again until it is answered, each time
 * under the same id, by changing ways (routes.h). It ends with its answer, or with the session.
 *
 * An orphan is the give-back of a grant that came for a name which has no lock here. It has to be
 * remembered too: a request for that name must not overtake it, or it would be answered with the
 * very grant that is on its way back. So the name's next lock begins with it.
 *
 * What waits is noted for the next agent (kept.h).
 *
 * The table is bounded. What finds no room is not begun, and is tried again when one has ended.
 */
#ifndef HOST_REQUESTS_H
#define HOST_REQUESTS_H

#include "core/base/arena.h"
#include "hub.h"

struct requests;
struct request;

/* What a request asks. */
struct request_terms {
    struct message_order version; /* AMEND, GIVE_BACK: of the grant that it is about */
    uint64_t token; /* GIVE_BACK: the last that was handed out; AMEND: see message_amend */
    uint16_t lock_delay_ms;
    uint8_t mode;   /* enum message_mode */
    bool says_used; /* AMEND: its token is token_used */
};

struct requests *requests_lay_out(struct arena *arena, const struct host_config *config);

/* Whether there is room for one more; if not, all locks that asked to be looked at again
 * (bell_look_later()) are when there is. */
bool request_room(struct host *host);
/* Whether its namespace has more under way than leaves room for those of others. */
bool requests_are_many(const struct host *host, uint32_t space);
/* Something is under way for that lock from now on; the caller gives it its terms and sends it.
 * NULL: no room. */
struct request *request_start(struct host *host, struct lock_ref at, enum message_kind kind);
/* It counts as one that its namespace asks for. */
void request_count_ask(struct host *host, struct request *request);
void request_set_terms(struct request *request, const struct request_terms *terms);
const struct request_terms *request_terms(const struct request *request);
/* An ACQUIRE that is under way asks for another mode from now on, from the first way on. */
void request_set_mode(struct request *request, uint8_t mode);
/* Notes an ACQUIRE for the next agent. known: the lock's version tells what went back before. */
void request_keep_note(struct host *host, const struct request *request, bool known);
void request_send(struct host *host, struct request *request, struct host_actions *actions);
void request_end(struct host *host, struct request *request);
void requests_end_all(struct host *host);
/* Those of locks of a namespace that is given up. */
void requests_leave(struct host *host, uint32_t space);
/* What is under way for a lock; NULL: nothing. */
struct request *request_of(const struct host *host, struct lock_ref at);
/* The request of that kind and name that an answer belongs to; NULL: none any more. */
struct request *request_answered(const struct host *host, uint64_t id, enum message_kind kind,
                                 const struct message_name *name);
/* Its lock; slot NONE: it is an orphan. */
struct lock_ref request_lock(const struct request *request);
enum message_kind request_kind(const struct request *request);
/* When this host first asked for it. */
int64_t request_since_ns(const struct request *request);
/* Gives a grant back for which there is no lock. */
void request_orphan(struct host *host, const struct message_name *name,
                    struct message_order version, uint64_t token_used,
                    struct host_actions *actions);
/* The new lock of a name begins with the give-back that is under way for it, if one is. */
void request_inherit(struct host *host, struct lock_ref at);
/* Another voter coordinates its name. */
void request_redirect(struct host *host, struct request *request, const struct message_agent *owner,
                      struct host_actions *actions);
/* That voter coordinates these partitions from now on: what waits is sent again. */
void requests_owner(struct host *host, const struct message_partitions *partitions,
                    const struct message_agent *owner);
/* These voters, bit by index, are there again: what was sent to them may be lost, and one that was
 * started anew knows of nobody who waits. What was sent first less than its first pause ago waits
 * for that. */
void requests_voters_up(struct host *host, uint32_t voters);
uint32_t requests_count(const struct host *host);
int64_t requests_due_ns(const struct host *host);
void requests_tick(struct host *host, struct host_actions *actions);

/* An ACQUIRE that the agent before began then, at the index that it had there (which rises from one
 * to the next; nothing else has been made yet). id: the one it had; 0, or one that does not go with
 * the index: a new one. Only grant_ask() sends it. NULL: no room. */
struct request *request_keep(struct host *host, struct lock_ref at, uint32_t index, uint64_t id,
                             int64_t since_ns);
/* Made by request_keep(), and not sent yet. */
bool request_is_kept(const struct host *host, const struct request *request);

void requests_check(const struct host *host);

#endif
