/* The reports that gossip brings to other hosts: see publish.h. */
#include "publish.h"

#include "behind.h"
#include "core/gossip.h"
#include "holdfast/admin.h"
#include "locks.h"
#include "look.h"
#include "spaces.h"

enum {
    PASS_MS = 250,
    PIECE_MS = 5,       /* the time between two pieces of a pass */
    PIECE_SLOTS = 8192, /* the most words that a piece looks at */
    PIECE_LOCKS = 64,   /* the most locks that a piece looks at closely */
};

/* What is published of the locks of one namespace. */
struct publish_space {
    uint64_t *words;    /* by slot: the word at the last publication */
    uint64_t *reported; /* by slot, as bits: gossip reports the lock as in use */
};

struct publish {
    int64_t due_ns;
    int64_t began_ns;     /* when the pass that is under way began */
    struct lock_ref hand; /* where the pass continues */
    struct publish_space spaces[HOST_NAMESPACES_MAX];
};

struct publish *publish_lay_out(struct arena *arena, const struct host_config *config)
{
    struct publish *publish = arena_take(arena, 1, sizeof(*publish));
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        ARENA_TAKE(arena, publish, spaces[i].words, config->limits.locks);
        ARENA_TAKE(arena, publish, spaces[i].reported, config->limits.locks / 64 + 1);
    }
    return publish;
}

static bool was_reported(const struct publish_space *space, uint32_t slot)
{
    return space->reported[slot / 64] >> (slot % 64) & 1;
}

static void set_reported(struct publish_space *space, uint32_t slot, bool reported)
{
    uint64_t bit = UINT64_C(1) << (slot % 64);
    space->reported[slot / 64] = reported ? space->reported[slot / 64] | bit
                                          : space->reported[slot / 64] & ~bit;
}

static int64_t ms_of(int64_t ns)
{
    return ns < 0 ? -1 : ns / MS;
}

static void fill_holder(const struct host *host, const struct hfi_party_frame *party,
                        struct gossip_holder *out)
{
    size_t size = party->command.size < GOSSIP_COMMAND_MAX ? party->command.size
                                                           : GOSSIP_COMMAND_MAX;
    *out = (struct gossip_holder){.pid = party->pid,
                                  .uid = party->uid,
                                  .token = party->token,
                                  .held_ms = ms_of(party->elapsed_ns),
                                  .remaining_ms = -1};
    if (party->remaining_ns < host->lease.deadline_ns - host->now_ns) {
        /* The hold has a limit, and ends before the lease. */
        out->remaining_ms = ms_of(party->remaining_ns);
    }
    if (size > 0) {
        memcpy(out->command, party->command.bytes, size);
    }
    if (party->note.size > 0) {
        memcpy(out->note, party->note.bytes, party->note.size);
    }
}

/*
 * Fills in after whose hold the lock is closed, or whose hold was broken without a lock-delay. If a
 * coordinator counts the lock-delay, this host reports it only while a process waits here. The
 * lock's word does not change when that lock-delay is over. If the word does not change, the agent
 * looks at the lock again only if it has waiters.
 */
static void fill_closed(const struct host *host, struct gossip_lock *out)
{
    const struct behind_note *note = behind_find(host, out->name.bytes, out->name.length);
    if (note != NULL && note->elsewhere && out->closed_ms == 0 && out->waiter_total > 0) {
        out->closed_ms = (note->until_ns - host->now_ns + MS - 1) / MS;
    } else if (note != NULL && (note->elsewhere || (note->open && out->closed_ms > 0))) {
        note = NULL;
    }
    out->has_last = out->closed_ms > 0 || note != NULL;
    if (out->has_last && note != NULL) {
        behind_last(host, note, &out->last);
    } else if (out->has_last) {
        /* an earlier agent closed the lock, or another lock's note has replaced this lock's note */
        out->last = (struct gossip_last){
            .agent = host->config.agent, .pid = -1, .uid = -1, .ended_ms = -1, .by_uid = -1};
    }
}

/* Fills in what gossip reports of a lock. */
static void fill(const struct host *host, struct lock_ref at, struct gossip_lock *out)
{
    struct hfi_party_frame parties[HFI_FRAME_PARTIES_MAX];
    struct hfi_lock_frame lock = {.state = HF_STATE_FREE};
    look_lock(host, at, &lock, parties);
    memset(out, 0, sizeof(*out));
    lock_name(host, at, &out->name);
    out->state = lock.state;
    out->closed_ms = lock.closed_ns > 0 ? (lock.closed_ns + MS - 1) / MS : 0;
    out->holder_total = lock.holder_count;
    out->waiter_total = lock.waiter_count;
    for (uint32_t i = 0; i < lock.holder_count && i < GOSSIP_HOLDERS_MAX; i++) {
        fill_holder(host, &parties[i], &out->holders[out->holder_count++]);
    }
    for (uint32_t i = 0; i < lock.waiter_count && i < GOSSIP_WAITERS_MAX; i++) {
        const struct hfi_party_frame *party = &parties[lock.holder_count + i];
        out->waiters[out->waiter_count++] = (struct gossip_waiter){
            .pid = party->pid, .mode = party->mode, .waited_ms = ms_of(party->elapsed_ns)};
    }
    fill_closed(host, out);
}

static bool in_use(const struct gossip_lock *lock)
{
    return lock->holder_total > 0 || lock->waiter_total > 0 || lock->closed_ms > 0;
}

static bool is_of_interest(uint64_t word)
{
    uint32_t holder = hfi_word_holder(word);
    return (holder != 0 && holder != HFI_HOLDER_AGENT) ||
           (word & (HFI_W_CELLS | HFI_W_WAITERS | HFI_W_BARGERS | HFI_W_CLOSED));
}

/* Looks at one lock's word, and publishes the lock if something has changed. Returns whether the
 * function looked at more than the word. */
static bool publish_lock(struct host *host, struct lock_ref at)
{
    struct publish_space *space = &host->publish->spaces[at.space];
    struct gossip_lock lock;
    if (!lock_is_named(host, at)) {
        space->words[at.slot] = 0;
        return false;
    }
    uint64_t word = atomic_load(lock_word(host, at));
    bool beside = word & (HFI_W_CELLS | HFI_W_WAITERS | HFI_W_BARGERS);
    if (word == space->words[at.slot] && !beside) {
        return false;
    }
    if (!is_of_interest(word) && !was_reported(space, at.slot)) {
        space->words[at.slot] = word;
        return false;
    }
    fill(host, at, &lock);
    if (gossip_put_lock(host->gossip, &lock, host->now_ns)) {
        space->words[at.slot] = word;
        set_reported(space, at.slot, in_use(&lock));
    } /* else gossip is full, and the next pass looks at the lock again */
    return true;
}

void publish_again(struct host *host, struct lock_ref at)
{
    host->publish->spaces[at.space].words[at.slot] = 0;
}

void publish_gone(struct host *host, struct lock_ref at)
{
    struct publish_space *space = &host->publish->spaces[at.space];
    space->words[at.slot] = 0;
    if (host->gossip == NULL || !was_reported(space, at.slot)) {
        return;
    }
    struct gossip_lock gone = {.state = HF_STATE_FREE};
    lock_name(host, at, &gone.name);
    /* the item `gone`, without holders and waiters, replaces the lock's published item */
    if (gossip_put_lock(host->gossip, &gone, host->now_ns)) {
        set_reported(space, at.slot, false);
    }
}

void publish_leave(struct host *host, struct lock_ref at)
{
    struct publish_space *space = &host->publish->spaces[at.space];
    space->words[at.slot] = 0;
    set_reported(space, at.slot, false);
}

int64_t publish_due_ns(const struct host *host)
{
    return host->gossip != NULL && host->started && gossip_active(host->gossip)
               ? host->publish->due_ns
               : INT64_MAX;
}

void publish_work(struct host *host)
{
    uint32_t closely = 0;
    if (publish_due_ns(host) > host->now_ns) {
        return;
    }
    if (host->publish->hand.space == 0 && host->publish->hand.slot == 0) {
        host->publish->began_ns = host->now_ns;
    }
    for (uint32_t looked = 0; looked < PIECE_SLOTS && closely < PIECE_LOCKS;) {
        uint32_t space = host->publish->hand.space;
        if (space_is_used(host, space) && host->publish->hand.slot < locks_end(host, space)) {
            closely += publish_lock(host, host->publish->hand);
            host->publish->hand.slot++;
            looked++;
            continue;
        }
        host->publish->hand.slot = 0;
        host->publish->hand.space++;
        if (host->publish->hand.space == host->config.namespace_count) {
            host->publish->hand.space = 0;
            host->publish->due_ns = host->publish->began_ns + PASS_MS * MS;
            if (host->publish->due_ns <= host->now_ns) {
                host->publish->due_ns = host->now_ns + PIECE_MS * MS;
            }
            return;
        }
    }
    host->publish->due_ns = host->now_ns + PIECE_MS * MS;
}
