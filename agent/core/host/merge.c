/* One lock as this host and others know it: see merge.h. */
#include "merge.h"

#include "behind.h"
#include "core/gossip.h"
#include "holdfast/admin.h"
#include "locks.h"
#include "look.h"
#include "routes.h"

enum { VIEWS_MAX = 256 }; /* the most hosts whose items about one lock are merged */

static struct hfi_text keep_agent(struct merged *merged, const struct message_agent *agent)
{
    struct message_agent *kept = &merged->agents[merged->agents_used++];
    *kept = *agent;
    return (struct hfi_text){kept->text, kept->length};
}

static struct hfi_text keep_text(char *kept, const char *text, size_t max)
{
    uint32_t size = hub_text_size(text, max);
    memcpy(kept, text, size);
    return (struct hfi_text){kept, size};
}

/* Keeps the command and the note of the holder. */
static void keep_texts(struct merged *merged, const struct gossip_holder *holder,
                       struct hfi_party_frame *party)
{
    uint32_t index = merged->commands_used++;
    party->command = keep_text(merged->commands[index], holder->command, HFI_FRAME_COMMAND_MAX);
    party->note = keep_text(merged->notes[index], holder->note, HFI_FRAME_NOTE_MAX);
}

static int64_t ns_of(int64_t ms)
{
    return ms < 0 ? -1 : ms < INT64_MAX / MS ? ms * MS : INT64_MAX;
}

/* The parties are in one array: holders from its start, waiters from its middle. */
static struct hfi_party_frame *holder_at(struct merged *merged, uint32_t index)
{
    return &merged->parties[index];
}

static struct hfi_party_frame *waiter_at(struct merged *merged, uint32_t index)
{
    return &merged->parties[HFI_FRAME_PARTIES_MAX + index];
}

static void add_holder(struct merged *merged, const struct hfi_party_frame *party)
{
    if (merged->lock.holder_count == HFI_FRAME_PARTIES_MAX) {
        merged->lock.more_parties = true;
        return;
    }
    *holder_at(merged, merged->lock.holder_count++) = *party;
}

/* Puts the waiter behind the waiters that have waited for at least as long. So the waiters of one
 * host keep their order. */
static void add_waiter(struct merged *merged, const struct hfi_party_frame *party)
{
    if (merged->lock.waiter_count == HFI_FRAME_PARTIES_MAX) {
        merged->lock.more_parties = true;
        return;
    }
    uint32_t at = merged->lock.waiter_count++;
    for (; at > 0 && waiter_at(merged, at - 1)->elapsed_ns < party->elapsed_ns; at--) {
        *waiter_at(merged, at) = *waiter_at(merged, at - 1);
    }
    *waiter_at(merged, at) = *party;
}

static void add_view(struct merged *merged, const struct gossip_view *view)
{
    const struct gossip_lock *lock = &view->lock;
    struct hfi_party_frame party = {.mode = lock->state == HF_STATE_SHARED ? HF_SHARED
                                                                           : HF_EXCLUSIVE};
    if (lock->holder_count + lock->waiter_count == 0 ||
        merged->agents_used == 2 * HFI_FRAME_PARTIES_MAX) {
        merged->lock.more_parties |= lock->holder_total + lock->waiter_total > 0;
        return;
    }
    party.agent = keep_agent(merged, &view->agent);
    for (uint32_t i = 0; i < lock->holder_count; i++) {
        const struct gossip_holder *holder = &lock->holders[i];
        party.pid = holder->pid;
        party.uid = holder->uid;
        party.token = holder->token;
        party.elapsed_ns = ns_of(holder->held_ms);
        party.remaining_ns = ns_of(holder->remaining_ms);
        if (merged->lock.holder_count < HFI_FRAME_PARTIES_MAX &&
            merged->commands_used < HFI_FRAME_PARTIES_MAX) {
            keep_texts(merged, holder, &party);
        }
        add_holder(merged, &party);
    }
    for (uint32_t i = 0; i < lock->waiter_count; i++) {
        const struct gossip_waiter *waiter = &lock->waiters[i];
        struct hfi_party_frame waits = {.pid = waiter->pid,
                                        .uid = -1,
                                        .mode = waiter->mode,
                                        .elapsed_ns = ns_of(waiter->waited_ms),
                                        .remaining_ns = -1,
                                        .agent = party.agent};
        add_waiter(merged, &waits);
    }
    merged->lock.more_parties |= lock->holder_total > lock->holder_count ||
                                 lock->waiter_total > lock->waiter_count;
}

static void set_behind(struct merged *merged, const struct gossip_last *last)
{
    merged->lock.behind = &merged->behind;
    merged->last = *last;
    merged->behind = (struct hfi_behind_frame){
        .ending = last->ending,
        .elapsed_ns = ns_of(last->ended_ms),
        .pid = last->pid,
        .uid = last->uid,
        .agent = {merged->last.agent.text, last->agent.length},
        .command = {merged->last.command, hub_text_size(last->command, HFI_FRAME_COMMAND_MAX)},
        .by_uid = last->by_uid,
        .by_agent = {merged->last.by_agent.text, last->by_agent.length},
        .note = {merged->last.note, hub_text_size(last->note, HFI_FRAME_NOTE_MAX)},
    };
}

/* Adds that the lock is closed for closed_ns after that hold. If this is called several times, the
 * hold with the longest time is kept. */
static void add_closed(struct merged *merged, int64_t closed_ns, const struct gossip_last *last)
{
    if (closed_ns > 0 && (merged->lock.behind == NULL || closed_ns > merged->lock.closed_ns)) {
        merged->lock.closed_ns = closed_ns;
        set_behind(merged, last);
    }
}

/* Adds that an administrator broke that hold, and that no lock-delay followed. Of several such
 * holds, the last is kept. The hold for which a lock is closed is more important. */
static void add_broken(struct merged *merged, const struct gossip_last *last)
{
    bool known = last->ending == HFI_ENDING_BROKEN && last->ended_ms >= 0;
    if (!known || last->ended_ms >= BEHIND_BROKEN_MS || merged->lock.closed_ns > 0) {
        return;
    }
    if (merged->lock.behind == NULL || ns_of(last->ended_ms) < merged->behind.elapsed_ns) {
        set_behind(merged, last);
    }
}

/* Adds for how long the lock is closed, and after whose hold, as another host reports it. A host of
 * an earlier release does not report whose hold it was, and reports only lock-delays after its own
 * holds. */
static void add_view_closed(struct merged *merged, const struct gossip_view *view)
{
    const struct gossip_last unknown = {
        .agent = view->agent, .pid = -1, .uid = -1, .ended_ms = -1, .by_uid = -1};
    add_closed(merged, ns_of(view->lock.closed_ms),
               view->lock.has_last ? &view->lock.last : &unknown);
    if (view->lock.closed_ms == 0 && view->lock.has_last) {
        add_broken(merged, &view->lock.last);
    }
}

/* Adds for how long the lock is closed, and after whose hold, as this host knows it. closed_ns: for
 * how long this host itself keeps the lock closed. */
static void add_closed_here(const struct host *host, const uint8_t *name, size_t size,
                            int64_t closed_ns, struct merged *merged)
{
    struct gossip_last last = {
        .agent = host->config.agent, .pid = -1, .uid = -1, .ended_ms = -1, .by_uid = -1};
    const struct behind_note *note = behind_find(host, name, size);
    if (note != NULL && note->open && closed_ns <= 0) {
        behind_last(host, note, &last);
        add_broken(merged, &last);
        return;
    }
    if (note != NULL && !note->open && (note->elsewhere ? closed_ns <= 0 : closed_ns > 0)) {
        behind_last(host, note, &last);
        closed_ns = note->elsewhere ? note->until_ns - host->now_ns : closed_ns;
    }
    add_closed(merged, closed_ns, &last);
}

/* Leaves out holders whose token shows that they have released or lost the lock (merge.h). */
static void keep_present(struct merged *merged)
{
    uint64_t shared = 0;
    uint64_t exclusive = 0;
    uint32_t readers = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < merged->lock.holder_count; i++) {
        const struct hfi_party_frame *party = holder_at(merged, i);
        readers += party->mode == HF_SHARED;
        uint64_t *highest = party->mode == HF_SHARED ? &shared : &exclusive;
        *highest = party->token > *highest ? party->token : *highest;
    }
    bool read = readers > 0 && shared >= exclusive;
    for (uint32_t i = 0; i < merged->lock.holder_count; i++) {
        const struct hfi_party_frame *party = holder_at(merged, i);
        bool present = read ? party->mode == HF_SHARED && party->token >= exclusive
                            : party->mode == HF_EXCLUSIVE && party->token == exclusive;
        if (present) {
            *holder_at(merged, kept++) = *party;
        }
    }
    merged->lock.holder_count = kept;
    merged->lock.state = kept == 0 ? HF_STATE_FREE : read ? HF_STATE_SHARED : HF_STATE_EXCLUSIVE;
}

static void merge_others(const struct host *host, const uint8_t *name, size_t size, bool here,
                         struct merged *merged)
{
    struct gossip_view view;
    uint32_t at = 0;
    bool found = false;
    bool unknown = false;
    int64_t age_ns = 0;
    for (uint32_t i = 0; i < VIEWS_MAX; i++) {
        if (!gossip_lock_next(host->gossip, name, size, host->now_ns, &at, &view)) {
            break;
        }
        bool used = view.lock.holder_total + view.lock.waiter_total > 0 || view.lock.closed_ms > 0;
        if (!used) {
            if (view.valid && view.lock.has_last) {
                add_broken(merged, &view.lock.last);
            }
            continue;
        }
        if (!view.valid) {
            unknown = true;
            continue;
        }
        found = true;
        age_ns = view.age_ns > age_ns ? view.age_ns : age_ns;
        add_view(merged, &view);
        add_view_closed(merged, &view);
    }
    if (found) {
        keep_present(merged);
        merged->lock.age_ns = age_ns;
    } else if (!here) {
        merged->lock.age_ns = unknown ? -1 : gossip_age_ns(host->gossip, host->now_ns);
    }
}

/* Returns the voter that reports in gossip that it coordinates the lock. If no voter does, returns
 * the voter that this host takes for the coordinator (routes.h). */
static struct hfi_text coordinator_of(const struct host *host, const uint8_t *name, size_t size,
                                      struct message_agent *out)
{
    uint32_t partition = names_partition(name, size);
    if (host->gossip == NULL || !gossip_owner(host->gossip, partition, out)) {
        *out = host->config.voters[route_owner(host, partition)];
    }
    return (struct hfi_text){out->text, out->length};
}

void merge_lock(const struct host *host, const uint8_t *name, size_t size,
                struct message_agent *coordinator, struct merged *out)
{
    struct hfi_party_frame parties[HFI_FRAME_PARTIES_MAX];
    struct hfi_lock_frame here = {.state = HF_STATE_FREE};
    struct lock_ref at = {0};
    bool has = lock_find(host, name, size, &at);
    if (has) {
        look_lock(host, at, &here, parties);
    }
    out->lock = here;
    out->lock.behind = NULL;
    add_closed_here(host, name, size, here.closed_ns, out);
    out->lock.name = (struct hfi_text){(const char *)name, (uint32_t)size};
    if (coordinator != NULL) {
        out->lock.coordinator = coordinator_of(host, name, size, coordinator);
    }
    out->lock.holder_count = 0;
    out->lock.waiter_count = 0;
    out->commands_used = 0;
    out->agents_used = 0;
    for (uint32_t i = 0; i < here.holder_count; i++) {
        add_holder(out, &parties[i]);
    }
    for (uint32_t i = 0; i < here.waiter_count; i++) {
        const struct hfi_party_frame *party = &parties[here.holder_count + i];
        *waiter_at(out, out->lock.waiter_count++) = *party;
    }
    if (host->gossip != NULL && gossip_active(host->gossip)) {
        merge_others(host, name, size, has && lock_is_granted(host, at), out);
    }
    memmove(&out->parties[out->lock.holder_count], waiter_at(out, 0),
            out->lock.waiter_count * sizeof(out->parties[0]));
}
