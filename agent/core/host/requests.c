/* Requests to the quorum, sent again until they are answered: see requests.h. */
#include "requests_private.h"

#include "kept.h"
#include "locks.h"
#include "polled.h"
#include "ringing.h"
#include "routes.h"

enum {
    INDEX_BITS = 16,
    FIRST_PAUSE_MS = 250,
    PAUSE_MS = 500,
    /* the pause of an ACQUIRE that was sent WAITING_TRIES times, and so probably waits for other
     * hosts */
    WAITING_PAUSE_MS = 1000,
    WAITING_TRIES = 3,
    /* how often a redirected request is sent at once; after the next redirection it waits for its
     * pause */
    REDIRECTS_MAX = 4,
};

struct requests *requests_lay_out(struct arena *arena, const struct host_config *config)
{
    struct requests *requests = arena_take(arena, 1, sizeof(*requests));
    uint64_t wanted = config->limits.requests;
    if (wanted == 0) {
        wanted = (uint64_t)config->limits.locks * config->namespace_count;
    }
    uint32_t capacity = wanted < HOST_REQUESTS_MAX ? (uint32_t)wanted : HOST_REQUESTS_MAX;
    ARENA_TAKE(arena, requests, table, capacity);
    HEAP_TAKE(arena, requests, heap, capacity);
    if (requests != NULL) {
        requests->capacity = capacity;
    }
    return requests;
}

/* ---- when requests are sent again ---- */

static void set_due(struct host *host, const struct request *request, int64_t due_ns)
{
    heap_set(&host->requests->heap, (uint32_t)(request - host->requests->table), due_ns);
}

int64_t requests_due_ns(const struct host *host)
{
    return heap_first_ns(&host->requests->heap);
}

bool host_asks_only(const struct host *host, const struct message_name *name)
{
    if (heap_count(&host->requests->heap) == 0) {
        return true;
    }
    const struct request *request = &host->requests->table[heap_first(&host->requests->heap)];
    return heap_count(&host->requests->heap) == 1 &&
           request->name == names_find(host->names, name->bytes, name->length);
}

/* ---- making and ending ---- */

bool request_room(struct host *host)
{
    if (host->requests->free == 0 && host->requests->used == host->requests->capacity) {
        host->requests->starved = true;
        return false;
    }
    return true;
}

/* Makes the request with that index. If id is 0, the request gets a new id. */
static struct request *request_put(struct host *host, uint32_t index, uint64_t id, uint32_t name,
                                   enum message_kind kind)
{
    struct request *request = &host->requests->table[index];
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, name, &size);
    *request = (struct request){
        .id = id != 0 ? id : hub_next_request(host) << INDEX_BITS | index,
        .kind = (uint8_t)kind,
        .name = name,
        .at.slot = NONE,
        .partition = (uint8_t)names_partition(bytes, size),
        .since_ns = host->now_ns,
    };
    set_due(host, request, host->now_ns);
    return request;
}

static struct request *request_new(struct host *host, uint32_t name, enum message_kind kind)
{
    if (!request_room(host)) {
        return NULL;
    }
    uint32_t index = host->requests->used;
    if (host->requests->free != 0) {
        index = host->requests->free - 1;
        host->requests->free = host->requests->table[index].next;
    } else {
        host->requests->used++;
    }
    return request_put(host, index, 0, name, kind);
}

static void attach(struct host *host, struct request *request, struct lock_ref at)
{
    request->at = at;
    lock_set_request(host, at, (uint32_t)(request - host->requests->table) + 1);
}

struct request *request_start(struct host *host, struct lock_ref at, enum message_kind kind)
{
    HF_CHECK(lock_request(host, at) == 0);
    struct request *request = request_new(host, lock_name_id(host, at), kind);
    if (request != NULL) {
        attach(host, request, at);
    }
    return request;
}

struct request *request_keep(struct host *host, struct lock_ref at, uint32_t index, uint64_t id,
                             int64_t since_ns)
{
    HF_CHECK(lock_request(host, at) == 0);
    if (index >= host->requests->capacity || index < host->requests->used) {
        return NULL;
    }
    while (host->requests->used < index) { /* the entries that are skipped become free */
        host->requests->table[host->requests->used].next = host->requests->free;
        host->requests->free = ++host->requests->used;
    }
    host->requests->used++;
    bool has_index = (id & ((1 << INDEX_BITS) - 1)) == index;
    struct request *request = request_put(host, index, has_index ? id : 0, lock_name_id(host, at),
                                          MESSAGE_ACQUIRE);
    attach(host, request, at);
    request->continued = true;
    request->since_ns = since_ns;
    set_due(host, request, INT64_MAX);
    return request;
}

bool requests_are_many(const struct host *host, uint32_t space)
{
    return host->requests->asks[space] >= REQUEST_ASKS_MAX && host->config.namespace_count > 1;
}

void request_count_ask(struct host *host, struct request *request)
{
    request->asks = true;
    host->requests->asks[request->at.space]++;
}

void request_set_terms(struct request *request, const struct request_terms *terms)
{
    request->terms = *terms;
}

const struct request_terms *request_terms(const struct request *request)
{
    return &request->terms;
}

void request_set_mode(struct request *request, uint8_t mode)
{
    request->terms.mode = mode;
    request->tries = 0;
}

void request_keep_note(struct host *host, const struct request *request, bool known)
{
    const struct kept_note note = {
        .since_ns = request->since_ns,
        .name_hash = lock_hash(host, request->at),
        .at = request->at,
        .known = known,
        .returned = lock_version(host, request->at),
        .id = request->id,
    };
    kept_write(host, (uint32_t)(request - host->requests->table), &note);
}

bool request_is_continued(const struct request *request)
{
    return request->continued;
}

bool request_is_kept(const struct host *host, const struct request *request)
{
    uint32_t index = (uint32_t)(request - host->requests->table);
    return heap_when_ns(&host->requests->heap, index) == INT64_MAX;
}

static void orphan_unlink(struct host *host, struct request *request)
{
    uint32_t index = (uint32_t)(request - host->requests->table);
    uint32_t *link = &host->requests->orphans;
    for (uint32_t i = 0; *link != index + 1 && i < host->requests->capacity; i++) {
        link = &host->requests->table[*link - 1].next;
    }
    HF_CHECK(*link == index + 1);
    *link = request->next;
}

void request_end(struct host *host, struct request *request)
{
    uint32_t index = (uint32_t)(request - host->requests->table);
    if (request->at.slot != NONE) {
        lock_set_request(host, request->at, 0);
    } else {
        orphan_unlink(host, request);
        names_drop(host->names, request->name);
    }
    heap_remove(&host->requests->heap, index);
    kept_forget(host, index);
    host->requests->asks[request->at.space] -= request->asks;
    request->id = 0;
    request->next = host->requests->free;
    host->requests->free = index + 1;
    if (host->requests->starved) {
        /* the locks whose requests found no room are looked at again: their dirty bits are set */
        rings_arrived_all(host);
    }
    host->requests->starved = false;
}

void requests_leave(struct host *host, uint32_t space)
{
    for (uint32_t i = 0; i < host->requests->used; i++) {
        struct request *request = &host->requests->table[i];
        if (request->id != 0 && request->at.slot != NONE && request->at.space == space) {
            request_end(host, request);
        }
    }
}

struct lock_ref request_lock(const struct request *request)
{
    return request->at;
}

enum message_kind request_kind(const struct request *request)
{
    return (enum message_kind)request->kind;
}

int64_t request_since_ns(const struct request *request)
{
    return request->since_ns;
}

uint32_t requests_count(const struct host *host)
{
    return heap_count(&host->requests->heap);
}

struct request *request_of(const struct host *host, struct lock_ref at)
{
    uint32_t request = lock_request(host, at);
    return request == 0 ? NULL : &host->requests->table[request - 1];
}

struct request *request_answered(const struct host *host, uint64_t id, enum message_kind kind,
                                 const struct message_name *name)
{
    uint32_t index = id & ((1 << INDEX_BITS) - 1);
    if (id == 0 || index >= host->requests->used || host->requests->table[index].id != id ||
        host->requests->table[index].kind != kind) {
        return NULL;
    }
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, host->requests->table[index].name, &size);
    return size == name->length && memcmp(bytes, name->bytes, size) == 0
               ? &host->requests->table[index]
               : NULL;
}

void requests_end_all(struct host *host)
{
    while (heap_count(&host->requests->heap) > 0) {
        request_end(host, &host->requests->table[heap_first(&host->requests->heap)]);
    }
}

/* ---- sending ---- */

/* Returns whether a process waits for the lock, rather than only tries it. */
static bool request_is_waited_for(const struct host *host, struct lock_ref at)
{
    /* The agent itself asks for an ADOPTED lock, in order to learn which grant the lock has. */
    return lock_state(host, at) == LOCK_ADOPTED ||
           hfi_awaited(lock_actor(host, at)->region, at.slot).waits;
}

bool request_is_behind(const struct host *host, const struct request *request)
{
    struct hfi_awaited awaited = hfi_awaited(lock_actor(host, request->at)->region,
                                             request->at.slot);
    return (awaited.waits && request->terms.tries == MESSAGE_TRIES_ONLY) ||
           (awaited.tries && !request->terms.asks);
}

/*
 * Notes in the request what the processes in the lock's queue want. If no process waits, the
 * request is marked MESSAGE_TRIES_ONLY, so it is refused if it would have to wait. (The queue may
 * be empty because an OPEN asks, or because the waiters have left.) The answer will be for the
 * tries up to `last_try`. It does not count for a later try, because the lock may become free in
 * between. For a later try the request is sent again.
 */
static void note_tries(const struct host *host, struct request *request)
{
    struct hfi_awaited awaited = hfi_awaited(lock_actor(host, request->at)->region,
                                             request->at.slot);
    struct request_terms *terms = &request->terms;
    bool waits = request_is_waited_for(host, request->at);
    terms->tries = !waits                         ? MESSAGE_TRIES_ONLY
                   : awaited.tries || terms->asks ? MESSAGE_TRIES_ALSO
                                                  : MESSAGE_TRIES_NONE;
    if (terms->tries != MESSAGE_TRIES_NONE && !terms->asks) {
        terms->asks = true;
        terms->has_try = awaited.tries;
        terms->last_try = awaited.last;
    }
}

void request_refuse_tries(struct host *host, struct request *request)
{
    if (request->terms.asks && request->terms.has_try) {
        hfi_refuse_tries(lock_actor(host, request->at), request->at.slot, request->terms.last_try);
        polled_attend(host, request->at);
    }
    request->terms.asks = false;
}

static void fill(const struct host *host, const struct request *request, struct message *message)
{
    struct message_name *name = NULL;
    if (request->kind == MESSAGE_ACQUIRE) {
        struct message_acquire *acquire = &message->as.acquire;
        int64_t waited_ms = (host->now_ns - request->since_ns) / MS;
        acquire->agent = host->config.agent;
        acquire->epoch = host->lease.epoch;
        acquire->request_id = request->id;
        acquire->mode = request->terms.mode;
        acquire->lock_delay_ms = request->terms.lock_delay_ms;
        acquire->waited_ms = waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX;
        acquire->tries = request->terms.tries;
        name = &acquire->name;
    } else if (request->kind == MESSAGE_AMEND) {
        struct message_amend *amend = &message->as.amend;
        amend->agent = host->config.agent;
        amend->epoch = host->lease.epoch;
        amend->request_id = request->id;
        amend->version = request->terms.version;
        amend->mode = request->terms.mode;
        amend->lock_delay_ms = request->terms.lock_delay_ms;
        *(request->terms.has_used ? &amend->token_used : &amend->token_last) = request->terms.token;
        name = &amend->name;
    } else {
        struct message_give_back *give_back = &message->as.give_back;
        give_back->agent = host->config.agent;
        give_back->epoch = host->lease.epoch;
        give_back->request_id = request->id;
        give_back->version = request->terms.version;
        give_back->token_used = request->terms.token;
        name = &give_back->name;
    }
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, request->name, &size);
    name->length = (uint8_t)size;
    memcpy(name->bytes, bytes, size);
    if (request->kind == MESSAGE_ACQUIRE) {
        HF_PROBE4(grant_asked, bytes, size, request->terms.mode, request->tries);
    } else if (request->kind == MESSAGE_GIVE_BACK) {
        HF_PROBE4(given_back, bytes, size, request->terms.token, request->tries);
    }
}

void request_send(struct host *host, struct request *request, struct host_actions *actions)
{
    struct route route = route_choose(host, request->partition, request->tries,
                                      (uint32_t)(request->id >> INDEX_BITS) + request->tries / 3);
    if (request->kind == MESSAGE_ACQUIRE) {
        note_tries(host, request);
    }
    fill(host, request, hub_send(actions, request->kind, route.to, route.relay));
    int64_t pause_ms = request->tries == 0 ? FIRST_PAUSE_MS : PAUSE_MS;
    if (request->kind == MESSAGE_ACQUIRE && request->tries >= WAITING_TRIES) {
        pause_ms = WAITING_PAUSE_MS;
    }
    request->tries++;
    request->sent_to = (uint8_t)route.to;
    set_due(host, request, host->now_ns + pause_ms * MS);
}

void request_redirect(struct host *host, struct request *request, const struct message_agent *owner,
                      struct host_actions *actions)
{
    uint32_t voter = route_voter(host, owner);
    if (voter == NONE) {
        /* There is no coordinator yet. A new coordinator will announce itself. If it does not, the
         * request is sent again after its pause. */
        return;
    }
    route_learn(host, request->partition, owner);
    if (voter != request->sent_to && request->redirects < REDIRECTS_MAX) {
        request->redirects++;
        request->tries = 0;
        request_send(host, request, actions);
    }
}

void requests_tick(struct host *host, struct host_actions *actions)
{
    while (requests_due_ns(host) <= host->now_ns && hub_has_room(actions)) {
        struct request *request = &host->requests->table[heap_first(&host->requests->heap)];
        request->redirects = 0;
        request_send(host, request, actions);
    }
}

void requests_owner(struct host *host, const struct message_partitions *partitions,
                    const struct message_agent *owner)
{
    if (route_voter(host, owner) == NONE) {
        return;
    }
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS; i++) {
        if (message_partition_has(partitions, i)) {
            route_learn(host, i, owner);
        }
    }
    for (uint32_t index = 0; index < host->requests->used; index++) {
        struct request *request = &host->requests->table[index];
        if (request->id != 0 && !request_is_kept(host, request) &&
            message_partition_has(partitions, request->partition)) {
            request->tries = 0;
            set_due(host, request, host->now_ns);
        }
    }
}

void requests_voters_up(struct host *host, uint32_t voters)
{
    for (uint32_t index = 0; index < host->requests->used && voters != 0; index++) {
        struct request *request = &host->requests->table[index];
        /* A request that was sent just now is not sent again. Otherwise a link that breaks and
         * comes back again and again would keep the request from its other routes. */
        bool is_new = request->tries <= 1;
        if (request->id != 0 && !is_new && !request_is_kept(host, request) &&
            (voters >> route_owner(host, request->partition) & 1)) {
            request->tries = 0;
            set_due(host, request, host->now_ns);
        }
    }
}

void requests_record(struct host *host, const struct succession *succession,
                     const struct message_partitions *orphaned)
{
    for (uint32_t index = 0; index < host->requests->used; index++) {
        struct request *request = &host->requests->table[index];
        if (request->id == 0) {
            continue;
        }
        if (request->sent_to < succession->old_count) {
            request->sent_to = succession->to[request->sent_to];
        }
        if (!request_is_kept(host, request) &&
            message_partition_has(orphaned, request->partition)) {
            request->tries = 0;
            set_due(host, request, host->now_ns);
        }
    }
}

/* ---- orphans ---- */

static struct request *orphan_find(struct host *host, uint32_t name)
{
    uint32_t at = host->requests->orphans;
    for (uint32_t i = 0; at != 0 && i < host->requests->capacity; i++) {
        if (host->requests->table[at - 1].name == name) {
            return &host->requests->table[at - 1];
        }
        at = host->requests->table[at - 1].next;
    }
    return NULL;
}

void request_orphan(struct host *host, const struct message_name *name,
                    struct message_order version, uint64_t token_used, struct host_actions *actions)
{
    uint32_t id = names_find(host->names, name->bytes, name->length);
    struct request *request = id == NAMES_NONE ? NULL : orphan_find(host, id);
    if (request != NULL && !message_order_before(request->terms.version, version)) {
        return; /* a give-back of that version, or of a later one, is under way */
    }
    if (request == NULL) {
        id = names_hold(host->names, name->bytes, name->length);
        request = id == NAMES_NONE ? NULL : request_new(host, id, MESSAGE_GIVE_BACK);
        /* without room for a request nothing is sent; the quorum will recall the grant again */
        if (request == NULL) {
            if (id != NAMES_NONE) {
                names_drop(host->names, id);
            }
            return;
        }
        request->next = host->requests->orphans;
        host->requests->orphans = (uint32_t)(request - host->requests->table) + 1;
    }
    request->terms.version = version;
    request->terms.token = token_used;
    request->terms.stray = true;
    request_send(host, request, actions);
}

void request_inherit(struct host *host, struct lock_ref at)
{
    uint32_t name = lock_name_id(host, at);
    struct request *request = host->requests->orphans == 0 ? NULL : orphan_find(host, name);
    if (request == NULL) {
        return;
    }
    orphan_unlink(host, request);
    names_drop(host->names, request->name); /* the lock has its own reference to the name */
    attach(host, request, at);
    lock_set_version(host, at, request->terms.version);
    lock_set_state(host, at, LOCK_RETURNING);
}

/* Checks that each request belongs to a lock that waits for it, or is an orphan. */
void requests_check(const struct host *host)
{
    const struct requests *requests = host->requests;
    uint32_t used = 0;
    uint32_t orphans = 0;
    for (uint32_t i = 0; i < requests->used; i++) {
        const struct request *request = &requests->table[i];
        if (request->id == 0) {
            continue;
        }
        used++;
        orphans += request->at.slot == NONE;
        HF_CHECK((request->id & 0xffff) == i && heap_has(&requests->heap, i));
        HF_CHECK(request->at.slot == NONE || lock_name_id(host, request->at) == request->name);
        HF_CHECK(request->at.slot == NONE || request_of(host, request->at) == request);
    }
    HF_CHECK(used == heap_count(&requests->heap) && used <= requests->capacity);
    heap_check_invariants(&requests->heap);
    for (uint32_t at = requests->orphans; at != 0; at = requests->table[at - 1].next) {
        HF_CHECK(requests->table[at - 1].id != 0 && requests->table[at - 1].at.slot == NONE);
        HF_CHECK(orphans-- > 0);
    }
    HF_CHECK(orphans == 0);
}
