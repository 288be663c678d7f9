/*
 * Regions that are given up, and namespaces that are begun anew.
 *
 * Each namespace has a region of its own. If a region becomes rubbish (it is truncated or punched,
 * or its header is rewritten), or cannot be adopted, only this region is given up. The session and
 * all other namespaces go on. The rest of this comment says why giving a region up takes no lock
 * away too early.
 *
 * Let D be the last deadline that was published in the old region. A process that maps the old
 * region may believe that it holds a lock until D, and its work may go on for its lock-delay after
 * that. So the namespace is *barred* until T, which is D plus the longest lock-delay that such a
 * process may have, counted long (longer by max_drift):
 *
 *   - The lease of its region is not extended: the space is not in use any more.
 *   - The host asks for nothing, and gives nothing back, for a name of that namespace. It ignores
 *     recalls and late grants of such names, and the quorum repeats what it wants. It also ignores
 *     them for names that it does not know, because it may have known them in the old region. It
 *     does not answer a break, and it answers a check with "not known".
 *   - No lock of the namespace is opened.
 *
 * Until T, the quorum keeps this host's grants of that namespace, because the session goes on. If
 * the session ends, its end frees the grants, but not too early: the session ends after its last
 * deadline, which is D or later, and the lock-delay of each grant is counted after that end.
 *
 * D is the deadline that this agent has recorded, or that in the lease page, which no client maps.
 * It is never read from the region. The lock-delay is the longest that is noted (delays.c). If a
 * lock is closed behind a dead holder, the holder's lock-delay may no longer be noted. So before a
 * word is closed, the time at which it opens is noted as well (holds.h), and T is not before any
 * such time.
 *
 * Before anything else is done, memory that outlives the agent notes that the namespace was given
 * up. The next agent does not look at the region of such a namespace. It bars the namespace too,
 * until a T that is counted from its own D. That T is never earlier, because this agent's T is
 * noted as well.
 *
 * After T a fresh and empty region is made. This host no longer knows what became of a grant that
 * it had under the old region: its tokens may have been used, and a request for the grant, or its
 * give-back, may be on its way. An agent that adopts a region knows as little of a lock whose word
 * is not in force. So the rule for doubtful grants (rule 11, grants.h) also holds after a region
 * was given up: a grant that is not fresh goes back with all its tokens used, and the host asks for
 * the lock anew. The rule holds for the rest of that session, even if this very agent began the
 * session. It also holds in a cell of one voter, whose store knows the grant but not which tokens
 * were used. Case by case, for a message that was under way when the region was given up:
 *
 *   ACQUIRE    Nobody waits for its grant any more. The GRANT is ignored while the namespace is
 *              barred. After that the grant goes back when the GRANT is repeated or the grant is
 *              recalled. The next request for that name has another id, so the coordinator answers
 *              it with that grant and says that the grant is not fresh
 *   AMEND      It changes a grant that goes back as above. It names the grant's version, so it
 *              changes no later grant
 *   GIVE_BACK  It was sent when the region was sound and the word was out of use, so it may arrive.
 *              It names a version, so it frees no later grant. If the next request overtakes it,
 *              that request is answered with the grant of the same version, and the grant goes back
 *              once more. So the rule is kept that a host asks again only after its give-back was
 *              acknowledged
 *
 * A reply about a seat or slot of the old region may have waited for a commit, and the namespace
 * may have another region when the commit is done. Such a reply is not sent (host_reply_is_late()).
 *
 * A lock must not be given away because of bytes that were read while the region became rubbish:
 * the SIGBUS handler shows this agent zeros where the holder's own mapping may still show the hold.
 * So before the host sends a give-back, or an amendment that lets other hosts in, it asks the
 * driver whether the region is sound. The driver looks at the region after the word was read, so it
 * notices if zeros were read. The host also asks the driver before it answers a process for which
 * it wrote into the region (a seat, or HFI_W_CELLS), because the write may have gone into the
 * handler's pages.
 */
#include "regions.h"

#include "attend.h"
#include "burials.h"
#include "clients.h"
#include "delays.h"
#include "handles.h"
#include "lease.h"
#include "locks.h"
#include "openings.h"
#include "pending.h"
#include "requests.h"
#include "ringing.h"
#include "seats.h"
#include "slots.h"
#include "spaces.h"
#include "watches.h"

/* ---- giving up ---- */

/* Returns the time T (see above): from then on, no process can have a hold in that region. */
static int64_t over_ns(const struct host *host, uint32_t space, int64_t deadline_ns)
{
    int64_t closed_ns = space_closed_until_ns(host, space);
    uint32_t delay_ms = delays_longest_ms(host);
    if (host->lease.deadline_ns > deadline_ns) {
        deadline_ns = host->lease.deadline_ns;
    }
    int64_t until_ns = deadline_ns + (int64_t)delay_ms * MS + hub_counted_long_ns(host, delay_ms);
    return until_ns > closed_ns ? until_ns : closed_ns;
}

static void handles_leave(struct host *host, uint32_t space)
{
    for (uint32_t handle = 0; handle < handles_end(host); handle++) {
        uint32_t flags = handle_flags(host, handle);
        if ((flags & HANDLE_USED) && !(flags & HANDLE_LEFT) &&
            handle_lock(host, handle).space == space) {
            burial_region_left(host, handle);
        }
    }
    for (uint32_t i = 0; i < pending_end(host); i++) {
        struct pending_open open;
        if (pending_read(host, i, &open) && (handle_flags(host, open.handle) & HANDLE_LEFT)) {
            pending_set_ready(host, i, HF_EUNSERVED);
        }
    }
}

int64_t host_give_up_region(struct host *host, uint32_t index, int64_t deadline_ns)
{
    HF_CHECK(index < host->config.namespace_count);
    int64_t until_ns = over_ns(host, index, deadline_ns);
    if (!space_give_up(host, index, until_ns)) {
        return until_ns;
    }
    requests_leave(host, index);
    openings_leave(host, index);
    handles_leave(host, index);
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        client_region_forget(host, i, index);
        if (client_flags(host, i) & CLIENT_USED) {
            client_poke(host, i);
        }
    }
    return until_ns;
}

void host_move_region(struct host *host, uint32_t index, const struct hfi_region *base)
{
    struct hfi_region region = *base;
    seats_attach(host, index, &region);
    space_move(host, index, &region);
}

bool host_reply_is_late(const struct host *host, const struct host_action *reply)
{
    if (reply->kind != HOST_REPLY || reply->as.reply.birth == 0) {
        return false;
    }
    uint32_t space = reply->as.reply.region;
    return space_is_given_up(host, space) || space_birth(host, space) != reply->as.reply.birth;
}

bool host_region_is_left(const struct host *host, uint32_t space)
{
    return space_is_given_up(host, space) && !space_is_leaving(host, space);
}

/* ---- leaving a region: what is known of its locks is forgotten, slot by slot ---- */

/* Makes the namespace as if it had never had a region. */
static void leave_space(struct host *host, uint32_t space)
{
    locks_leave(host, space);
    attend_leave(host, space);
    space_has_left(host, space);
    watches_space_left(host, space);
    ringing_leave(host, space);
    seats_leave(host, space);
}

bool regions_are_left(const struct host *host)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (space_is_leaving(host, i)) {
            return true;
        }
    }
    return false;
}

void regions_work(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        while (space_is_leaving(host, i)) {
            if (space_left_slots(host, i) == locks_end(host, i)) {
                leave_space(host, i);
                break;
            }
            if (!hub_has_room(actions)) {
                return;
            }
            struct lock_ref at = {i, space_leave_slot(host, i)};
            slot_leave(host, at, actions);
            lease_leave(host, at);
        }
    }
}
