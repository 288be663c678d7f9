/*
 * What is kept of requests: what this host waits for, in memory that outlives the agent.
 *
 * A host stands in a lock's queue by when it first asked. The requests of an agent end with its
 * process; the next one of the session would ask anew, behind all who came meanwhile. So every
 * ACQUIRE that is under way is noted beside the regions, and the next agent goes on with it, with
 * the old one's time. It is sent as soon as there is a lease.
 *
 * Invariant: a note is there from before its request is sent until the request has ended, and it
 * ends before what follows from that is done or sent. So as long as it is there nobody has put a
 * grant in force or returned one that was made for the request, and a grant that is reported to be
 * need not go back for doubt (grants.h). It is known to be by one of two things:
 *
 *   the version     of the last grant that went back, if the agent that wrote the note knew. What
 *                   is above it was made for the request, which the next agent asks under an id of
 *                   its own
 *   the request's   if that agent knew nothing of the lock itself. The next agent asks under the
 *   id              same one, and the coordinator says whether the grant was made for it (is fresh)
 *
 * No client maps these notes. What is read in them is checked all the same.
 */
#ifndef HOST_KEPT_H
#define HOST_KEPT_H

#include "core/base/arena.h"
#include "hub.h"

struct kept;

/* One note, as it is read and written. */
struct kept_note {
    int64_t since_ns;
    uint64_t name_hash;
    struct lock_ref at;            /* as it says: nothing of it is checked here */
    bool known;                    /* `returned` counts; else `id` does */
    struct message_order returned; /* the last version of the lock that went back */
    uint64_t id;                   /* 0: releases before wrote none */
};

struct kept *kept_lay_out(struct arena *arena);
/* The note of the request with that index. Beyond the room for them: none is written. */
void kept_write(struct host *host, uint32_t index, const struct kept_note *note);
void kept_forget(struct host *host, uint32_t index);
/* How many there may be. */
uint32_t kept_count(const struct host *host);
/* false: there is no such note. */
bool kept_read(const struct host *host, uint32_t index, struct kept_note *out);

#endif
