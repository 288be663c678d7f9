/* Which clients are notified of which changes: see watches.h. */
#include "watches_private.h"

#include "clients.h"
#include "core/gossip.h"
#include "full.h"
#include "locks.h"
#include "spaces.h"

enum { REMOTE_CHANGES_MAX = 1024 }; /* the most changed names that one step looks at */

struct watches *watches_lay_out(struct arena *arena, const struct host_config *config)
{
    struct watches *watches = arena_take(arena, 1, sizeof(*watches));
    ARENA_TAKE(arena, watches, table, config->limits.watches);
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        ARENA_TAKE(arena, watches, spaces[i].changed, config->limits.locks / 64 + 1);
    }
    return watches;
}

uint32_t watches_count(const struct host *host)
{
    return host->watches->count;
}

void watches_tick(struct host *host)
{
    host->watches->notified = 0;
}

void watch_lock_left(struct host *host, struct lock_ref at)
{
    host->watches->spaces[at.space].changed[at.slot / 64] &= ~(UINT64_C(1) << (at.slot % 64));
}

void watches_space_left(struct host *host, uint32_t space)
{
    host->watches->spaces[space].hand = 0;
    host->watches->spaces[space].next_watch = 0;
    host->watches->spaces[space].notifying = false;
}

/* ---- watches ---- */

static bool watch_matches(const struct host *host, const struct watch *watch, uint32_t space,
                          const uint8_t *name, size_t size)
{
    return watch->size <= size && memcmp(watch->prefix, name, watch->size) == 0 &&
           client_rights_error(host, watch->client, space, HOST_MAY_USE | HOST_MAY_ADMIN) == 0;
}

bool watch_is_on(const struct host *host, uint32_t space, const uint8_t *name, size_t size)
{
    for (uint32_t i = 0; host->watches->count > 0 && i < host->config.limits.watches; i++) {
        const struct watch *watch = &host->watches->table[i];
        if (watch->used && watch_matches(host, watch, space, name, size)) {
            return true;
        }
    }
    return false;
}

/* Sets HFI_W_WATCHED in the words of all locks whose names the watch matches. */
static void watch_mark(struct host *host, const struct watch *watch)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (client_rights_error(host, watch->client, i, HOST_MAY_USE | HOST_MAY_ADMIN) != 0) {
            continue;
        }
        for (uint32_t slot = 0; space_is_used(host, i) && slot < locks_end(host, i); slot++) {
            struct lock_ref at = {i, slot};
            size_t size = 0;
            if (!lock_is_named(host, at) || (atomic_load(lock_word(host, at)) & HFI_W_WATCHED)) {
                continue;
            }
            const uint8_t *name = lock_name_bytes(host, at, &size);
            if (watch_matches(host, watch, i, name, size)) {
                lock_set_watched(host, at, true);
                atomic_fetch_or(lock_word(host, at), HFI_W_WATCHED);
            }
        }
    }
}

/* Returns whether the client's user may have one more watch. A user other than root may have at
 * most half of the table. */
static bool client_may_watch(const struct host *host, uint32_t client)
{
    int64_t account = client_peer(host, client)->account;
    uint32_t count = 0;
    for (uint32_t i = 0; account != 0 && i < host->config.limits.watches; i++) {
        const struct watch *watch = &host->watches->table[i];
        count += watch->used && client_peer(host, watch->client)->account == account;
    }
    return account == 0 || count < (host->config.limits.watches + 1) / 2;
}

static bool watch_is(const struct watch *watch, uint32_t client, const struct hfi_text *prefix)
{
    return watch->used && watch->client == client && watch->size == prefix->size &&
           memcmp(watch->prefix, prefix->bytes, prefix->size) == 0;
}

int32_t watch_add(struct host *host, uint32_t client, const struct hfi_text *prefix)
{
    bool any = false;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        any = any || client_peer(host, client)->rights[i] != 0;
    }
    if (!any) {
        return HF_EACCES;
    }
    struct watch *free = NULL;
    for (uint32_t i = 0; i < host->config.limits.watches; i++) {
        struct watch *watch = &host->watches->table[i];
        if (!watch->used) {
            free = free ? free : watch;
        } else if (watch_is(watch, client, prefix)) {
            return 0;
        }
    }
    bool may = client_may_watch(host, client);
    if (!free || !may) {
        uint32_t most = host->config.limits.watches;
        (void)full(host, HFI_TABLE_WATCHES, may ? most : (most + 1) / 2);
        full_last(host)->share = !may;
        return HF_EFULL;
    }
    *free = (struct watch){.used = true, .client = client, .size = prefix->size};
    if (prefix->size > 0) {
        memcpy(free->prefix, prefix->bytes, prefix->size);
    }
    host->watches->count++;
    watch_mark(host, free);
    return 0;
}

void watch_end(struct host *host, uint32_t client, const struct hfi_text *prefix)
{
    for (uint32_t i = 0; i < host->config.limits.watches; i++) {
        struct watch *watch = &host->watches->table[i];
        if (watch_is(watch, client, prefix)) {
            watch->used = false;
            host->watches->count--;
        }
    }
}

void watch_drop(struct host *host, uint32_t client)
{
    for (uint32_t i = 0; host->watches->count > 0 && i < host->config.limits.watches; i++) {
        struct watch *watch = &host->watches->table[i];
        if (watch->used && watch->client == client) {
            watch->used = false;
            host->watches->count--;
        }
    }
}

void watch_changed(struct host *host, struct lock_ref at)
{
    if (host->watches->count == 0) {
        return;
    }
    struct watch_space *space = &host->watches->spaces[at.space];
    space->changed[at.slot / 64] |= UINT64_C(1) << (at.slot % 64);
    space->notifying = true;
}

void watch_ring_arrived(struct host *host, struct lock_ref at)
{
    size_t size = 0;
    const uint8_t *name = lock_name_bytes(host, at, &size);
    if (watch_is_on(host, at.space, name, size)) {
        watch_changed(host, at);
    } else {
        lock_set_watched(host, at, false);
        atomic_fetch_and(lock_word(host, at), ~HFI_W_WATCHED);
    }
}

static void notify(struct host *host, uint32_t client, const uint8_t *name, size_t size,
                   struct host_actions *actions)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_CHANGED};
    host->watches->notified++;
    frame.text = (struct hfi_text){(const char *)name, (uint32_t)size};
    uint32_t count = actions->count;
    client_reply(host, client, &frame, actions);
    if (actions->count > count) {
        actions->items[count].as.reply.unasked = true;
    }
}

void watch_lagged(struct host *host, uint32_t client, struct host_actions *actions)
{
    notify(host, client, (const uint8_t *)"", 0, actions);
}

/* Notifies the watchers of one slot, continuing where the last step stopped. Returns false if the
 * step has no more room. */
static bool notify_watchers(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct watch_space *space = &host->watches->spaces[at.space];
    size_t size = 0;
    if (!lock_is_named(host, at)) {
        space->next_watch = 0;
        return true;
    }
    const uint8_t *name = lock_name_bytes(host, at, &size);
    for (; space->next_watch < host->config.limits.watches; space->next_watch++) {
        const struct watch *watch = &host->watches->table[space->next_watch];
        if (!watch->used || !watch_matches(host, watch, at.space, name, size)) {
            continue;
        }
        if (!hub_has_room(actions) || host->watches->notified >= HUB_PIECES_MAX) {
            return false;
        }
        notify(host, watch->client, name, size, actions);
    }
    space->next_watch = 0;
    return true;
}

/* Notifies the watchers of all changes in a namespace, continuing where the last step stopped.
 * Returns false if the step has no more room. A slot's bit is cleared before its first watcher is
 * notified, so that a later change is reported to all watchers again. */
static bool notify_space(struct host *host, uint32_t index, struct host_actions *actions)
{
    struct watch_space *space = &host->watches->spaces[index];
    uint32_t words = locks_end(host, index) / 64 + 1;
    if (space->next_watch != 0 &&
        !notify_watchers(host, (struct lock_ref){index, space->hand}, actions)) {
        return false;
    }
    /* in the first word, the bits below the hand come last */
    for (uint32_t i = 0; i <= words; i++) {
        uint32_t word = space->hand / 64;
        uint64_t bits = space->changed[word] & UINT64_MAX << space->hand % 64;
        for (; bits != 0; bits &= bits - 1) {
            uint64_t bit = bits & -bits;
            space->hand = word * 64 + (uint32_t)__builtin_ctzll(bits);
            space->changed[word] &= ~bit;
            if (!notify_watchers(host, (struct lock_ref){index, space->hand}, actions)) {
                /* if no watcher was notified, the bit is set again */
                space->changed[word] |= space->next_watch == 0 ? bit : 0;
                return false;
            }
        }
        space->hand = word + 1 < words ? (word + 1) * 64 : 0;
    }
    space->notifying = false;
    return true;
}

/* ---- other hosts' locks ---- */

bool watches_are_left(const struct host *host)
{
    const struct watches *watches = host->watches;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (space_is_used(host, i) && watches->spaces[i].notifying) {
            return true;
        }
    }
    return watches->remote_left > 0 ||
           (host->gossip != NULL && watches->count > 0 && gossip_has_changed(host->gossip));
}

/* Begins to compare every watch with remote_changed. The comparison begins with the watch
 * remote_watch, at which the previous comparison ended. */
static void remote_begin(struct host *host)
{
    host->watches->remote_left = host->watches->count > 0 ? host->config.limits.watches : 0;
}

/* Notifies the watchers of the name remote_changed, continuing where the last step stopped. Returns
 * false if the step has no more room. If the name is empty, changes were missed, so this
 * call notifies all watchers that they have to look at everything. */
static bool notify_remote(struct host *host, struct host_actions *actions)
{
    const struct message_name *name = &host->watches->remote_changed;
    uint32_t space = host_namespace(&host->config, (const char *)name->bytes, name->length);
    for (; host->watches->remote_left > 0; host->watches->remote_left--) {
        const struct watch *watch = &host->watches->table[host->watches->remote_watch];
        bool all = name->length == 0;
        bool meant = watch->used &&
                     (all || watch_matches(host, watch, space, name->bytes, name->length));
        if (meant && (!hub_has_room(actions) || host->watches->notified >= HUB_PIECES_MAX)) {
            return false;
        }
        if (meant) {
            notify(host, watch->client, name->bytes, name->length, actions);
        }
        host->watches->remote_watch = (host->watches->remote_watch + 1) %
                                      host->config.limits.watches;
    }
    return true;
}

void watch_slot_goes(struct host *host, struct lock_ref at)
{
    struct watch_space *space = &host->watches->spaces[at.space];
    uint64_t bit = UINT64_C(1) << (at.slot % 64);
    bool begun = space->next_watch != 0 && space->hand == at.slot;
    if (!begun && !(space->changed[at.slot / 64] & bit)) {
        return;
    }
    space->changed[at.slot / 64] &= ~bit;
    space->next_watch = begun ? 0 : space->next_watch;
    /* The empty name makes all watchers look at everything. So the comparison that was under way
     * can be given up. */
    host->watches->remote_changed.length = 0;
    remote_begin(host);
}

/* Notifies the watchers of changes of other hosts' locks. Returns false if the step has no more
 * room. */
static bool notify_others(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; i < REMOTE_CHANGES_MAX; i++) {
        if (!notify_remote(host, actions)) {
            return false;
        }
        if (host->gossip == NULL || !gossip_changed(host->gossip, &host->watches->remote_changed)) {
            return true;
        }
        remote_begin(host);
    }
    return true;
}

/* The changes of each namespace are one part of this work, and those of other hosts' locks are the
 * last part. If the step has no more room within a part, the next step begins with the part that
 * follows, so that no part keeps the other parts waiting. */
void watches_work(struct host *host, struct host_actions *actions)
{
    /* the last part is that of other hosts' locks */
    uint32_t count = host->config.namespace_count + 1;
    uint32_t first = host->watches->hand;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (first + i) % count;
        bool others = index == count - 1;
        if (!others && (!space_is_used(host, index) || !host->watches->spaces[index].notifying)) {
            continue;
        }
        if (!(others ? notify_others(host, actions) : notify_space(host, index, actions))) {
            host->watches->hand = index + 1;
            return;
        }
    }
}

void watches_check(const struct host *host)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < host->config.limits.watches; i++) {
        if (host->watches->table[i].used) {
            count++;
            HF_CHECK(client_flags(host, host->watches->table[i].client) & CLIENT_CONNECTED);
        }
    }
    HF_CHECK(count == host->watches->count);
}
