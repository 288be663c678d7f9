/*
 * Kept: which grants this host waits for, noted in memory that outlives the agent.
 *
 * Hosts wait for a lock in the order of the times at which they first asked. An agent's requests
 * end with its process. If the next agent of the session asked anew, this host would stand behind
 * all hosts that asked since. So every ACQUIRE that is under way is noted beside the regions. As
 * soon as there is a lease, the next agent continues the ACQUIRE with the old time.
 *
 * Invariant: a note is written before its request is sent. When the request ends, the note is
 * removed first, before anything else is done or sent. So while the note is there, no agent has put
 * in force or returned a grant that was made for the request. Such a grant is not doubtful
 * (docs/PROTOCOL.md, rule 11; grants.h). One of two things shows that a grant was made for the
 * request:
 *
 *   a version       The note has the version of the last grant that went back, if the agent that
 *                   wrote the note knew it. A grant with a higher version was made for the request.
 *                   The next agent asks under a new id
 *   the request's   If the agent that wrote the note did not know that version, the note has the
 *   id              id of the request. The next agent asks under the same id, and the coordinator
 *                   says whether the grant is fresh, which means made for that request
 *
 * No client maps these notes. Even so, the agent checks what it reads in them.
 */
#ifndef HOST_KEPT_H
#define HOST_KEPT_H

#include "core/base/arena.h"
#include "hub.h"

struct kept;

/* One note, unpacked. */
struct kept_note {
    int64_t since_ns;
    uint64_t name_hash;
    struct lock_ref at;            /* the lock that the note names; kept_read() does not check it */
    bool known;                    /* true: `returned` is valid; false: `id` is valid */
    struct message_order returned; /* the version of the lock's last grant that went back */
    uint64_t id;                   /* 0: an earlier release wrote the note */
};

struct kept *kept_lay_out(struct arena *arena);
/* Writes the note of the request with that index, if there is room for that index. */
void kept_write(struct host *host, uint32_t index, const struct kept_note *note);
/* Removes the note of the request with that index, if there is one. */
void kept_forget(struct host *host, uint32_t index);
/* Returns the number of notes for which there is room. */
uint32_t kept_count(const struct host *host);
/* Reads the note with that index. Returns false if there is none. */
bool kept_read(const struct host *host, uint32_t index, struct kept_note *out);

#endif
