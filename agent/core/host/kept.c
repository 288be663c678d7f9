/*
 * What is kept of requests: for what this host waits, in memory that outlives the agent.
 *
 * A host stands in a lock's queue by when it first asked. The requests of an agent end with its
 * process; the next one of the session would ask anew, behind all who came meanwhile. So every
 * ACQUIRE that is under way is noted beside the regions, and the next agent goes on with it, with
 * the old one's time. It is sent as soon as there is a lease.
 *
 * A note is there from before its request is sent until the request has ended, and it ends before
 * what follows from that is done or sent. So as long as it is there nobody has put a grant in force
 * or returned one that was made for the request, and a grant that is told to be need not go back
 * for doubt (grants.c). It is known to be by one of two things:
 *
 *   the version     of the last grant that went back, if whoever wrote the note knew. What is above
 *                   it was made for the request, which the next agent asks under an id of its own
 *   the request's   if he knew nothing of the lock himself. The next agent asks under the same one,
 *   id              and the coordinator says whether the grant was made for it (is fresh)
 *
 * No client maps these notes. What is read in them is checked all the same.
 */
#include "state.h"

enum {
    SLOT_MASK = (1 << 23) - 1, /* a region has at most 2^22 */
    ID_LOWER_BITS = 48,
};
static const uint64_t ID_LOWER = (UINT64_C(1) << ID_LOWER_BITS) - 1;

void host_set_kept(struct host *host, struct host_kept *kept, uint32_t count)
{
    HF_CHECK(!host->started);
    host->kept = kept;
    host->kept_count = count;
}

void kept_note(struct host *host, const struct request *request, bool known)
{
    uint32_t index = (uint32_t)(request - host->requests);
    if (index >= host->kept_count) {
        return; /* it has no place in the next agent's time */
    }
    struct host_kept *note = &host->kept[index];
    struct place at = {request->space, request->slot};
    const struct lock *lock = lock_at(host, at);
    /* seq_cst: nobody else reads it while this process lives; what counts is that the rest is
     * complete whenever this is not 0, whatever was stored last before a kill. */
    atomic_store(&note->since_ns, 0);
    note->ballot = known ? lock->ballot : request->id & ID_LOWER;
    note->sequence = known ? lock->sequence : request->id >> ID_LOWER_BITS;
    note->space = (uint16_t)request->space;
    note->slot = request->slot & SLOT_MASK;
    note->name_hash = lock_hash(host, at);
    note->known = known;
    atomic_store(&note->since_ns, request->since_ns);
}

void kept_forget(struct host *host, uint32_t index)
{
    if (index < host->kept_count) {
        atomic_store(&host->kept[index].since_ns, 0); /* seq_cst: as above */
    }
}

/* Whether it is a lock of that name (namespaces may have been configured anew) of which this agent
 * knows no grant, and which somebody waits for. The only voter knows all grants: there it is
 * idle. */
static bool goes_on(const struct host *host, const struct host_kept *note, int64_t since_ns)
{
    struct place at = {note->space, note->slot};
    if (since_ns <= 0 || since_ns > host->now_ns || at.space >= host->config.namespace_count ||
        !host->spaces[at.space].used || at.slot >= host->spaces[at.space].slots_used) {
        return false;
    }
    const struct lock *lock = lock_at(host, at);
    bool open = lock->state == LOCK_IDLE || lock->state == LOCK_ADOPTED;
    return open && lock->mode == HFI_GRANT_NONE && lock->request == 0 &&
           lock_hash(host, at) == note->name_hash && lock_is_awaited(host, at);
}

/* Releases before wrote no id: there the lower bits of where it is are 0. */
static uint64_t id_of(const struct host_kept *note)
{
    bool has_one = !note->known && note->ballot != 0;
    return has_one ? (uint64_t)note->sequence << ID_LOWER_BITS | note->ballot : 0;
}

/* Its note stands as it is until it is sent. */
static void go_on(struct host *host, uint32_t index, int64_t since_ns)
{
    const struct host_kept *note = &host->kept[index];
    struct place at = {note->space, note->slot};
    if (note->known) {
        lock_has_returned(lock_at(host, at), (struct message_order){note->ballot, note->sequence});
    }
    if (request_keep(host, at, index, id_of(note), since_ns) == NULL) {
        kept_forget(host, index);
    } else if (lock_at(host, at)->state != LOCK_ADOPTED) {
        lock_set_state(host, at, LOCK_ADOPTED); /* what is kept is asked for as what is adopted */
    }
}

void kept_adopt(struct host *host)
{
    bool continued = host->config.continued_epoch != 0 && host->request_count == 0;
    for (uint32_t i = 0; i < host->kept_count; i++) {
        int64_t since_ns = atomic_load(&host->kept[i].since_ns); /* seq_cst: see kept_note() */
        if (since_ns == 0) {
            continue;
        }
        if (continued && goes_on(host, &host->kept[i], since_ns)) {
            go_on(host, i, since_ns);
        } else {
            kept_forget(host, i);
        }
    }
}
