/*
 * Requests: what was asked of the quorum and is not answered yet (ACQUIRE, AMEND, GIVE_BACK).
 *
 * A lock has at most one request under way: the lock is ASKING, AMENDING or RETURNING, or it is
 * ADOPTED, and the request asks which grant it has. Messages get lost, so a request is sent again
 * until it is answered, each time with the same id, and not always by the same route (routes.h).
 * Each of these messages is a copy of the request. A request ends with its answer, or with the
 * session.
 *
 * An orphan is the give-back of a grant that arrived for a name without a lock on this host. If a
 * new request for that name overtook the give-back, the answer would be the very grant that is on
 * its way back. So orphans are remembered, and the name's next lock begins with the orphan as its
 * request (docs/PROTOCOL.md, rule 10).
 *
 * An ACQUIRE that waits is noted for the next agent (kept.h).
 *
 * The table is bounded. A request that finds no room is not begun. The lock is looked at again when
 * another request has ended.
 *
 * Invariants: a request belongs to one lock and has that lock's name, or it is an orphan. It keeps
 * its id from the first copy to the answer. Each request has a time at which it is sent again.
 */
#ifndef HOST_REQUESTS_H
#define HOST_REQUESTS_H

#include "core/base/arena.h"
#include "core/base/succession.h"
#include "hub.h"

struct requests;
struct request;

/* The most grants that one namespace may ask for at a time, if there are other namespaces: a third
 * of what a host may ask for. */
enum { REQUEST_ASKS_MAX = 8192 };

/* What a request asks for. */
struct request_terms {
    struct message_order version; /* AMEND, GIVE_BACK: the version of the grant */
    uint64_t token; /* GIVE_BACK: the last token that was handed out; AMEND: see message_amend */
    uint16_t lock_delay_ms;
    uint8_t mode;  /* enum message_mode */
    bool has_used; /* AMEND: `token` is the message's token_used */
    /* GIVE_BACK: this agent did not know the grant, and had no request for the lock under way. The
     * message that named the grant may be old. So the quorum may have made a later grant to this
     * host since, which this agent does not know either. */
    bool stray;
    /* ACQUIRE: what its newest copy says about the lock's queue. Each copy says it anew. */
    uint8_t tries; /* enum message_tries */
    /* an answer to tries is awaited; if has_try, the answer is for tries up to the ticket
     * last_try */
    bool asks;
    bool has_try;
    uint32_t last_try;
};

struct requests *requests_lay_out(struct arena *arena, const struct host_config *config);

/* Returns whether there is room for one more request. If not, makes the agent look at all locks
 * with dirty bits (ringing_look_later()) when there is room again. */
bool request_room(struct host *host);
/* Returns whether the namespace has so many requests under way that other namespaces might find no
 * room. */
bool requests_are_many(const struct host *host, uint32_t space);
/* Begins a request for that lock. The caller fills in the terms and sends the request. Returns NULL
 * if there is no room. */
struct request *request_start(struct host *host, struct lock_ref at, enum message_kind kind);
/* Counts the request for requests_are_many(). */
void request_count_ask(struct host *host, struct request *request);
void request_set_terms(struct request *request, const struct request_terms *terms);
const struct request_terms *request_terms(const struct request *request);
/* Makes an ACQUIRE that is under way ask for another mode from now on. Its next copy takes the
 * first route again. */
void request_set_mode(struct request *request, uint8_t mode);
/* Notes an ACQUIRE for the next agent. `known` says that lock_version() is the version of the last
 * grant that went back. */
void request_keep_note(struct host *host, const struct request *request, bool known);
void request_send(struct host *host, struct request *request, struct host_actions *actions);
/* Returns whether the lock's queue wants more than the ACQUIRE asks for: processes wait, but the
 * ACQUIRE asks only for tries; or a process tries, but no answer to tries is awaited. */
bool request_is_behind(const struct host *host, const struct request *request);
/* Handles the coordinator's answer that the lock is in use: refuses the tries that this answer is
 * for. */
void request_refuse_tries(struct host *host, struct request *request);
void request_end(struct host *host, struct request *request);
void requests_end_all(struct host *host);
/* Ends the requests of all locks of a namespace that is given up. */
void requests_leave(struct host *host, uint32_t space);
/* Returns the request that is under way for a lock; NULL: none is. */
struct request *request_of(const struct host *host, struct lock_ref at);
/* Returns the request with that id, kind and name, which an answer names; NULL: the request has
 * ended. */
struct request *request_answered(const struct host *host, uint64_t id, enum message_kind kind,
                                 const struct message_name *name);
/* Returns the request's lock; slot NONE: the request is an orphan. */
struct lock_ref request_lock(const struct request *request);
enum message_kind request_kind(const struct request *request);
/* Returns when this host began the request. */
int64_t request_since_ns(const struct request *request);
/* Gives back a grant for a name that has no lock on this host. */
void request_orphan(struct host *host, const struct message_name *name,
                    struct message_order version, uint64_t token_used,
                    struct host_actions *actions);
/* If an orphan of the lock's name is under way, makes it the request of this lock, which is new. */
void request_inherit(struct host *host, struct lock_ref at);
/* Notes that `owner` coordinates the request's partition, and sends the request to `owner`. */
void request_redirect(struct host *host, struct request *request, const struct message_agent *owner,
                      struct host_actions *actions);
/* Notes that `owner` coordinates these partitions from now on, and sends `owner` their requests. */
void requests_owner(struct host *host, const struct message_partitions *partitions,
                    const struct message_agent *owner);
/* Call it when these voters (bit by index) can be reached again. Sends the requests that these
 * voters coordinate again, because earlier messages may be lost, and a voter that was restarted
 * knows of no waiter. A request that was sent only once waits for the end of its pause. */
void requests_voters_up(struct host *host, uint32_t voters);
/* Switches to another record of voters. The coordinator of each partition in `orphaned` was
 * removed. Requests for these partitions are sent to the voters that this host now assumes to be
 * their coordinators. */
void requests_record(struct host *host, const struct succession *succession,
                     const struct message_partitions *orphaned);
uint32_t requests_count(const struct host *host);
int64_t requests_due_ns(const struct host *host);
void requests_tick(struct host *host, struct host_actions *actions);

/* Continues an ACQUIRE that the previous agent began at since_ns, under the index that the request
 * had in that agent. Must be called before any other request begins, with rising indexes. `id` is
 * the id that the request had. If `id` is 0, or an id of another index, the request gets a new id.
 * Only grant_ask() sends the request. Returns NULL if there is no room. */
struct request *request_keep(struct host *host, struct lock_ref at, uint32_t index, uint64_t id,
                             int64_t since_ns);
/* Returns whether request_keep() made the request, and the request has not been sent yet. */
bool request_is_kept(const struct host *host, const struct request *request);
/* Returns whether request_keep() made the request, so that the previous agent may have sent it. */
bool request_is_continued(const struct request *request);

void requests_check(const struct host *host);

#endif
