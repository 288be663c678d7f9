/*
 * What was asked of the quorum and is not answered yet: ACQUIRE, AMEND, GIVE_BACK.
 *
 * A lock has at most one request under way: it is ASKING, AMENDING or RETURNING (or ADOPTED, and
 * asks what it has). Messages get lost, so a request is sent again until it is answered, each time
 * under the same id, by changing ways (routes.c). It ends with its answer, or with the session.
 *
 * An orphan is the give-back of a grant that came for a name which has no lock here. It has to be
 * remembered too: a request for that name must not overtake it, or it would be answered with the
 * very grant that is on its way back. So the name's next lock begins with it.
 *
 * What waits is noted for the next agent (kept.c).
 *
 * The table is bounded. What finds no room is not begun, and is tried again when one has ended.
 */
#include "state.h"

enum {
    INDEX_BITS = 16,
    FIRST_PAUSE_MS = 250,
    PAUSE_MS = 500,
    WAITING_PAUSE_MS = 1000, /* of an ACQUIRE that seems to wait for others */
    WAITING_TRIES = 3,
    REDIRECTS_MAX = 4, /* sent at once to another voter that was named; then at the next pause */
};

static void starve(struct host *host)
{
    host->starved = true;
}

/* ---- the heap, by due_ns ---- */

static void heap_put(struct host *host, uint32_t place, uint32_t index)
{
    host->request_heap[place] = index;
    host->requests[index].heap = place;
}

static void heap_up(struct host *host, uint32_t place, uint32_t index)
{
    int64_t due_ns = host->requests[index].due_ns;
    while (place > 0 && host->requests[host->request_heap[(place - 1) / 2]].due_ns > due_ns) {
        heap_put(host, place, host->request_heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(host, place, index);
}

static void heap_down(struct host *host, uint32_t place, uint32_t index)
{
    int64_t due_ns = host->requests[index].due_ns;
    for (;;) { /* at most as deep as the heap */
        uint32_t child = 2 * place + 1;
        if (child >= host->request_count) {
            break;
        }
        if (child + 1 < host->request_count &&
            host->requests[host->request_heap[child + 1]].due_ns <
                host->requests[host->request_heap[child]].due_ns) {
            child++;
        }
        if (host->requests[host->request_heap[child]].due_ns >= due_ns) {
            break;
        }
        heap_put(host, place, host->request_heap[child]);
        place = child;
    }
    heap_put(host, place, index);
}

static void set_due(struct host *host, struct request *request, int64_t due_ns)
{
    uint32_t index = (uint32_t)(request - host->requests);
    bool sooner = due_ns < request->due_ns;
    request->due_ns = due_ns;
    if (sooner) {
        heap_up(host, request->heap, index);
    } else {
        heap_down(host, request->heap, index);
    }
}

int64_t requests_due_ns(const struct host *host)
{
    return host->request_count == 0 ? INT64_MAX : host->requests[host->request_heap[0]].due_ns;
}

bool host_asks_only(const struct host *host, const struct message_name *name)
{
    if (host->request_count == 0) {
        return true;
    }
    const struct request *request = &host->requests[host->request_heap[0]];
    return host->request_count == 1 &&
           request->name == names_find(host->names, name->bytes, name->length);
}

/* ---- making and ending ---- */

bool request_room(struct host *host)
{
    if (host->request_free == 0 && host->requests_used == host->request_capacity) {
        starve(host);
        return false;
    }
    return true;
}

/* id: 0 for a new one. */
static struct request *request_put(struct host *host, uint32_t index, uint64_t id, uint32_t name,
                                   enum message_kind kind)
{
    struct request *request = &host->requests[index];
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, name, &size);
    *request = (struct request){
        .id = id != 0 ? id : ++host->last_request << INDEX_BITS | index,
        .kind = (uint8_t)kind,
        .name = name,
        .slot = NONE,
        .partition = (uint8_t)names_partition(bytes, size),
        .since_ns = host->now_ns,
        .due_ns = host->now_ns,
    };
    heap_up(host, host->request_count++, index);
    return request;
}

static struct request *request_new(struct host *host, uint32_t name, enum message_kind kind)
{
    if (!request_room(host)) {
        return NULL;
    }
    uint32_t index = host->requests_used;
    if (host->request_free != 0) {
        index = host->request_free - 1;
        host->request_free = host->requests[index].next;
    } else {
        host->requests_used++;
    }
    return request_put(host, index, 0, name, kind);
}

static void attach(struct host *host, struct request *request, struct place at)
{
    request->space = at.space;
    request->slot = at.slot;
    lock_at(host, at)->request = (uint16_t)(request - host->requests + 1);
}

struct request *request_start(struct host *host, struct place at, enum message_kind kind)
{
    HF_CHECK(lock_at(host, at)->request == 0);
    struct request *request = request_new(host, lock_at(host, at)->name, kind);
    if (request != NULL) {
        attach(host, request, at);
    }
    return request;
}

struct request *request_keep(struct host *host, struct place at, uint32_t index, uint64_t id,
                             int64_t since_ns)
{
    HF_CHECK(lock_at(host, at)->request == 0);
    if (index >= host->request_capacity || index < host->requests_used) {
        return NULL;
    }
    while (host->requests_used < index) { /* what is passed over is free */
        host->requests[host->requests_used].next = host->request_free;
        host->request_free = ++host->requests_used;
    }
    host->requests_used++;
    bool has_index = (id & ((1 << INDEX_BITS) - 1)) == index;
    struct request *request = request_put(host, index, has_index ? id : 0, lock_at(host, at)->name,
                                          MESSAGE_ACQUIRE);
    attach(host, request, at);
    request->since_ns = since_ns;
    set_due(host, request, INT64_MAX);
    return request;
}

bool request_is_kept(const struct request *request)
{
    return request->due_ns == INT64_MAX;
}

static void orphan_unlink(struct host *host, struct request *request)
{
    uint32_t index = (uint32_t)(request - host->requests);
    uint32_t *link = &host->orphans;
    for (uint32_t i = 0; *link != index + 1 && i < host->request_capacity; i++) {
        link = &host->requests[*link - 1].next;
    }
    HF_CHECK(*link == index + 1);
    *link = request->next;
}

void request_end(struct host *host, struct request *request)
{
    uint32_t index = (uint32_t)(request - host->requests);
    if (request->slot != NONE) {
        lock_at(host, (struct place){request->space, request->slot})->request = 0;
    } else {
        orphan_unlink(host, request);
        names_drop(host->names, request->name);
    }
    uint32_t place = request->heap;
    uint32_t last = host->request_heap[--host->request_count];
    if (last != index) {
        heap_down(host, place, last);
        heap_up(host, host->requests[last].heap, last);
    }
    kept_forget(host, index);
    host->spaces[request->space].asks -= request->asks;
    request->id = 0;
    request->next = host->request_free;
    host->request_free = index + 1;
    for (uint32_t i = 0; host->starved && i < host->config.namespace_count; i++) {
        host->spaces[i].dirty = true; /* those that found no room rang already */
    }
    host->starved = false;
}

struct request *request_of(const struct host *host, struct place at)
{
    uint32_t request = lock_at(host, at)->request;
    return request == 0 ? NULL : &host->requests[request - 1];
}

struct request *request_answered(const struct host *host, uint64_t id, enum message_kind kind,
                                 const struct message_name *name)
{
    uint32_t index = id & ((1 << INDEX_BITS) - 1);
    if (id == 0 || index >= host->requests_used || host->requests[index].id != id ||
        host->requests[index].kind != kind) {
        return NULL;
    }
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, host->requests[index].name, &size);
    return size == name->length && memcmp(bytes, name->bytes, size) == 0 ? &host->requests[index]
                                                                         : NULL;
}

void requests_end_all(struct host *host)
{
    while (host->request_count > 0) {
        request_end(host, &host->requests[host->request_heap[0]]);
    }
}

/* ---- sending ---- */

static void fill(const struct host *host, const struct request *request, struct message *message)
{
    struct message_name *name = NULL;
    if (request->kind == MESSAGE_ACQUIRE) {
        struct message_acquire *acquire = &message->as.acquire;
        int64_t waited_ms = (host->now_ns - request->since_ns) / MS;
        acquire->agent = host->config.agent;
        acquire->epoch = host->lease.epoch;
        acquire->request_id = request->id;
        acquire->mode = request->mode;
        acquire->lock_delay_ms = request->lock_delay_ms;
        acquire->waited_ms = waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX;
        name = &acquire->name;
    } else if (request->kind == MESSAGE_AMEND) {
        struct message_amend *amend = &message->as.amend;
        amend->agent = host->config.agent;
        amend->epoch = host->lease.epoch;
        amend->request_id = request->id;
        amend->version = request->version;
        amend->mode = request->mode;
        amend->lock_delay_ms = request->lock_delay_ms;
        *(request->says_used ? &amend->token_used : &amend->token_last) = request->token;
        name = &amend->name;
    } else {
        struct message_give_back *give_back = &message->as.give_back;
        give_back->agent = host->config.agent;
        give_back->epoch = host->lease.epoch;
        give_back->request_id = request->id;
        give_back->version = request->version;
        give_back->token_used = request->token;
        name = &give_back->name;
    }
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, request->name, &size);
    name->length = (uint8_t)size;
    memcpy(name->bytes, bytes, size);
    if (request->kind == MESSAGE_ACQUIRE) {
        HF_PROBE4(grant_asked, bytes, size, request->mode, request->tries);
    } else if (request->kind == MESSAGE_GIVE_BACK) {
        HF_PROBE4(given_back, bytes, size, request->token, request->tries);
    }
}

void request_send(struct host *host, struct request *request, struct host_actions *actions)
{
    struct route route = route_choose(host, request->partition, request->tries,
                                      (uint32_t)(request->id >> INDEX_BITS) + request->tries / 3);
    fill(host, request, emit_send(actions, request->kind, route.to, route.relay));
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
        return; /* there is none yet: it says so when there is, else at the next pause */
    }
    (void)route_learn(host, request->partition, owner);
    if (voter != request->sent_to && request->redirects < REDIRECTS_MAX) {
        request->redirects++;
        request->tries = 0;
        request_send(host, request, actions);
    }
}

void requests_tick(struct host *host, struct host_actions *actions)
{
    while (requests_due_ns(host) <= host->now_ns && has_room(actions, WORK_ACTIONS, WORK_OUTPUT)) {
        struct request *request = &host->requests[host->request_heap[0]];
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
            (void)route_learn(host, i, owner);
        }
    }
    for (uint32_t index = 0; index < host->requests_used; index++) {
        struct request *request = &host->requests[index];
        if (request->id != 0 && !request_is_kept(request) &&
            message_partition_has(partitions, request->partition)) {
            request->tries = 0;
            set_due(host, request, host->now_ns);
        }
    }
}

void requests_voters_up(struct host *host, uint32_t voters)
{
    for (uint32_t index = 0; index < host->requests_used && voters != 0; index++) {
        struct request *request = &host->requests[index];
        /* What was sent there just now is not sent again for a link that comes and goes: the other
         * ways have their turns. */
        bool is_new = request->tries <= 1;
        if (request->id != 0 && !is_new && !request_is_kept(request) &&
            (voters >> host->routes[request->partition] & 1)) {
            request->tries = 0;
            set_due(host, request, host->now_ns);
        }
    }
}

/* ---- orphans ---- */

static struct request *orphan_find(struct host *host, uint32_t name)
{
    uint32_t at = host->orphans;
    for (uint32_t i = 0; at != 0 && i < host->request_capacity; i++) {
        if (host->requests[at - 1].name == name) {
            return &host->requests[at - 1];
        }
        at = host->requests[at - 1].next;
    }
    return NULL;
}

void request_orphan(struct host *host, const struct message_name *name,
                    struct message_order version, uint64_t token_used, struct host_actions *actions)
{
    uint32_t id = names_find(host->names, name->bytes, name->length);
    struct request *request = id == NAMES_NONE ? NULL : orphan_find(host, id);
    if (request != NULL && !message_order_before(request->version, version)) {
        return; /* that one, or a later one, is on its way back */
    }
    if (request == NULL) {
        id = names_hold(host->names, name->bytes, name->length);
        request = id == NAMES_NONE ? NULL : request_new(host, id, MESSAGE_GIVE_BACK);
        if (request == NULL) { /* no room: not sent at all; the quorum will recall it again */
            if (id != NAMES_NONE) {
                names_drop(host->names, id);
            }
            return;
        }
        request->next = host->orphans;
        host->orphans = (uint32_t)(request - host->requests) + 1;
    }
    request->version = version;
    request->token = token_used;
    request_send(host, request, actions);
}

bool request_inherit(struct host *host, struct place at)
{
    struct lock *lock = lock_at(host, at);
    struct request *request = host->orphans == 0 ? NULL : orphan_find(host, lock->name);
    if (request == NULL) {
        return false;
    }
    orphan_unlink(host, request);
    names_drop(host->names, request->name); /* the lock has a reference of its own */
    attach(host, request, at);
    lock->ballot = request->version.ballot;
    lock->sequence = request->version.sequence;
    lock_set_state(host, at, LOCK_RETURNING);
    return true;
}
