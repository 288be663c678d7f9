/*
 * Telling clients unasked.
 *
 * A watched lock has a bit in its word that makes every change ring the bell. Changes are noted as
 * bits and told bit by bit, so that many watchers or many changes never fill a step; two changes
 * of one lock in between are told as one. A watcher that does not read misses changes and is then
 * told once, with an empty name, to look at everything.
 *
 * A watch that ends leaves the bits: a lock that nobody watches loses its bit when it changes next.
 * To look for them at once would be a walk through all locks for each watch of a process that dies.
 */
#include "state.h"

enum { REMOTE_CHANGES_MAX = 1024 }; /* looked at in one step */

int32_t rights_check(const struct host *host, uint32_t client, uint32_t space, uint32_t right)
{
    return host->clients[client].peer.rights[space] & right ? 0 : HF_EACCES;
}

/* ---- POKE ---- */

void poke(struct host *host, uint32_t client)
{
    struct client *who = &host->clients[client];
    if ((who->flags & CLIENT_CONNECTED) && (who->flags & CLIENT_EVENTS)) {
        busy_set(host, who, CLIENT_POKE);
    }
}

void poke_all(struct host *host)
{
    for (uint32_t i = 0; i < host->client_capacity; i++) {
        if (host->clients[i].flags & CLIENT_USED) {
            poke(host, i);
        }
    }
}

/* ---- watches ---- */

static bool watch_matches(const struct host *host, const struct watch *watch, uint32_t space,
                          const uint8_t *name, size_t size)
{
    return watch->size <= size && memcmp(watch->prefix, name, watch->size) == 0 &&
           rights_check(host, watch->client, space, HOST_MAY_USE | HOST_MAY_ADMIN) == 0;
}

bool watched(const struct host *host, uint32_t space, const uint8_t *name, size_t size)
{
    for (uint32_t i = 0; host->watch_count > 0 && i < host->config.limits.watches; i++) {
        const struct watch *watch = &host->watches[i];
        if (watch->used && watch_matches(host, watch, space, name, size)) {
            return true;
        }
    }
    return false;
}

/* Sets the watched bits of all locks that the watch is about. */
static void watch_mark(struct host *host, const struct watch *watch)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        const struct space *space = &host->spaces[i];
        if (rights_check(host, watch->client, i, HOST_MAY_USE | HOST_MAY_ADMIN) != 0) {
            continue;
        }
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            struct place at = {i, slot};
            size_t size = 0;
            if (!lock_is_named(lock_at(host, at)) ||
                (atomic_load(lock_word(host, at)) & HFI_W_WATCHED)) {
                continue;
            }
            const uint8_t *name = names_bytes(host->names, lock_at(host, at)->name, &size);
            if (watch_matches(host, watch, i, name, size)) {
                lock_guard(host, at)->watched = 1;
                atomic_fetch_or(lock_word(host, at), HFI_W_WATCHED);
            }
        }
    }
}

int32_t watch_add(struct host *host, uint32_t client, const struct hfi_text *prefix)
{
    bool any = false;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        any = any || host->clients[client].peer.rights[i] != 0;
    }
    if (!any) {
        return HF_EACCES;
    }
    struct watch *free = NULL;
    for (uint32_t i = 0; i < host->config.limits.watches; i++) {
        struct watch *watch = &host->watches[i];
        if (!watch->used) {
            free = free ? free : watch;
        } else if (watch->client == client && watch->size == prefix->size &&
                   memcmp(watch->prefix, prefix->bytes, prefix->size) == 0) {
            return 0;
        }
    }
    if (!free || !client_may_watch(host, client)) {
        return HF_EFULL;
    }
    *free = (struct watch){.used = true, .client = client, .size = prefix->size};
    if (prefix->size > 0) {
        memcpy(free->prefix, prefix->bytes, prefix->size);
    }
    host->watch_count++;
    watch_mark(host, free);
    return 0;
}

void watch_drop(struct host *host, uint32_t client)
{
    for (uint32_t i = 0; host->watch_count > 0 && i < host->config.limits.watches; i++) {
        struct watch *watch = &host->watches[i];
        if (watch->used && watch->client == client) {
            watch->used = false;
            host->watch_count--;
        }
    }
}

void lock_changed(struct host *host, struct place at)
{
    if (host->watch_count == 0) {
        return;
    }
    struct space *space = &host->spaces[at.space];
    space->changed[at.slot / 64] |= UINT64_C(1) << (at.slot % 64);
    space->telling = true;
}

void lock_watched_changed(struct host *host, struct place at)
{
    size_t size = 0;
    const uint8_t *name = names_bytes(host->names, lock_at(host, at)->name, &size);
    if (watched(host, at.space, name, size)) {
        lock_changed(host, at);
    } else {
        lock_guard(host, at)->watched = 0;
        atomic_fetch_and(lock_word(host, at), ~HFI_W_WATCHED);
    }
}

static void tell(struct host *host, uint32_t client, const uint8_t *name, size_t size,
                 struct host_actions *actions)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_CHANGED};
    host->told++;
    frame.text = (struct hfi_text){(const char *)name, (uint32_t)size};
    uint32_t count = actions->count;
    reply_frame(host, client, &frame, actions);
    if (actions->count > count) {
        actions->items[count].as.reply.unasked = true;
    }
}

void notify_lagged(struct host *host, uint32_t client, struct host_actions *actions)
{
    tell(host, client, (const uint8_t *)"", 0, actions);
}

/* Tells the watchers of one slot, from where the last step stopped. false: no room was left. */
static bool tell_watchers(struct host *host, struct place at, struct host_actions *actions)
{
    struct space *space = &host->spaces[at.space];
    size_t size = 0;
    if (!lock_is_named(lock_at(host, at))) {
        space->changed_watch = 0;
        return true;
    }
    const uint8_t *name = names_bytes(host->names, lock_at(host, at)->name, &size);
    for (; space->changed_watch < host->config.limits.watches; space->changed_watch++) {
        const struct watch *watch = &host->watches[space->changed_watch];
        if (!watch->used || !watch_matches(host, watch, at.space, name, size)) {
            continue;
        }
        if (!has_room(actions, WORK_ACTIONS, WORK_OUTPUT) || host->told >= WORK_PIECES_MAX) {
            return false;
        }
        tell(host, watch->client, name, size, actions);
    }
    space->changed_watch = 0;
    return true;
}

/* Tells what has changed in a namespace, from where the last step stopped. false: no room was left.
 * A bit is cleared before the first is told: what changes from then on is told to all of them. */
static bool tell_space(struct host *host, uint32_t index, struct host_actions *actions)
{
    struct space *space = &host->spaces[index];
    uint32_t words = space->slots_used / 64 + 1;
    if (space->changed_watch != 0 &&
        !tell_watchers(host, (struct place){index, space->changed_slot}, actions)) {
        return false;
    }
    for (uint32_t i = 0; i <= words; i++) { /* the first word's lower bits at last */
        uint32_t word = space->changed_slot / 64;
        uint64_t bits = space->changed[word] & UINT64_MAX << space->changed_slot % 64;
        for (; bits != 0; bits &= bits - 1) {
            uint64_t bit = bits & -bits;
            space->changed_slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
            space->changed[word] &= ~bit;
            if (!tell_watchers(host, (struct place){index, space->changed_slot}, actions)) {
                space->changed[word] |= space->changed_watch == 0 ? bit : 0; /* nobody was told */
                return false;
            }
        }
        space->changed_slot = word + 1 < words ? (word + 1) * 64 : 0;
    }
    space->telling = false;
    return true;
}

/* ---- other hosts' locks ---- */

bool notify_is_left(const struct host *host)
{
    return host->remote_left > 0 ||
           (host->gossip != NULL && host->watch_count > 0 && gossip_has_changed(host->gossip));
}

/* remote_changed is for every watch now; the round begins where the one before it stopped. */
static void remote_begin(struct host *host)
{
    host->remote_left = host->watch_count > 0 ? host->config.limits.watches : 0;
}

/* Tells the watchers of one name, from where the last step stopped. false: no room was left. An
 * empty name: changes were missed, all watchers are to look at everything. */
static bool tell_remote(struct host *host, struct host_actions *actions)
{
    const struct message_name *name = &host->remote_changed;
    uint32_t space = host_namespace(&host->config, (const char *)name->bytes, name->length);
    for (; host->remote_left > 0; host->remote_left--) {
        const struct watch *watch = &host->watches[host->remote_watch];
        bool all = name->length == 0;
        bool meant = watch->used &&
                     (all || watch_matches(host, watch, space, name->bytes, name->length));
        if (meant &&
            (!has_room(actions, WORK_ACTIONS, WORK_OUTPUT) || host->told >= WORK_PIECES_MAX)) {
            return false;
        }
        if (meant) {
            tell(host, watch->client, name->bytes, name->length, actions);
        }
        host->remote_watch = (host->remote_watch + 1) % host->config.limits.watches;
    }
    return true;
}

void lock_leaves_untold(struct host *host, struct place at)
{
    struct space *space = &host->spaces[at.space];
    uint64_t bit = UINT64_C(1) << (at.slot % 64);
    bool begun = space->changed_watch != 0 && space->changed_slot == at.slot;
    if (!begun && !(space->changed[at.slot / 64] & bit)) {
        return;
    }
    space->changed[at.slot / 64] &= ~bit;
    space->changed_watch = begun ? 0 : space->changed_watch;
    host->remote_changed.length = 0; /* also for what was being told */
    remote_begin(host);
}

/* false: no room was left. */
static bool tell_others(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; i < REMOTE_CHANGES_MAX; i++) {
        if (!tell_remote(host, actions)) {
            return false;
        }
        if (host->gossip == NULL || !gossip_changed(host->gossip, &host->remote_changed)) {
            return true;
        }
        remote_begin(host);
    }
    return true;
}

/* What finds no more room comes behind all others in the next step. */
void notify_work(struct host *host, struct host_actions *actions)
{
    uint32_t count = host->config.namespace_count + 1; /* the last one: other hosts' locks */
    uint32_t first = host->tell_hand;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = (first + i) % count;
        bool others = index == count - 1;
        if (!others && (!host->spaces[index].used || !host->spaces[index].telling)) {
            continue;
        }
        if (!(others ? tell_others(host, actions) : tell_space(host, index, actions))) {
            host->tell_hand = index + 1;
            return;
        }
    }
}
