/*
 * Handles: how the library opens and closes them with the agent, and binds them to locks in
 * regions.
 *
 * A binding is published by one release store and never changes. The handle gets a new binding when
 * the agent gives it a seat, or another slot or holder id after a reconnection. A hold keeps the
 * binding of its take.
 */
#include "client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_DELAY_NS_DEFAULT NS_PER_S
#define LOCK_DELAY_NS_MAX (60 * NS_PER_S)
/* The largest lease_ns and max_stall_ns: 73 years. Larger values are reduced to this limit. */
#define LIMIT_NS_MAX (INT64_MAX / 4)

static const _Atomic uint64_t waits_nowhere;

/* Publishes a new binding. Returns 0 or HF_ENOMEM. */
static int binding_publish(hf_lock *lock, const struct binding *model)
{
    struct binding *binding = malloc(sizeof(*binding));
    if (binding == NULL) {
        return trouble_no_memory(lock->client);
    }
    *binding = *model;
    binding->region = binding->map->region;
    struct hfi_actor actor = binding_actor(binding);
    binding->aim = hfi_aim(&actor, binding->slot);
    binding->wait = binding->seat != HFI_SEAT_NONE ? hfi_seat_wait(&binding->region, binding->seat)
                                                   : &waits_nowhere;
    /* relaxed: `bindings` is changed under socket_mutex only */
    binding->older = atomic_load_explicit(&lock->bindings, memory_order_relaxed);
    /* release: pairs with the acquire in hf_cancel(), which reads the binding */
    atomic_store_explicit(&lock->bindings, binding, memory_order_release);
    /* seq_cst (at least release): pairs with the loads in hf_acquire(), which reads the binding */
    atomic_store(&lock->binding, binding);
    return 0;
}

static bool same_word(const struct binding *a, const struct binding *b)
{
    return a->map == b->map && a->slot == b->slot && a->holder == b->holder;
}

/*
 * Ends the handle's hold, if there is one, as lost. Another thread may be taking the word of the
 * old binding at this moment. The agent does not know the holder id in that word and frees the
 * word, so that thread loses its hold, too.
 */
static void binding_lose(hf_lock *lock)
{
    struct hold_view view;
    if (hold_held(&lock->hold) && hold_read(lock, &view)) {
        ended_note(lock, &view, true);
        hold_mark_lost(lock, view.number);
    }
}

/* Publishes the binding that the agent sent, if it differs from the present one. */
static int binding_switch(hf_lock *lock, const struct binding *now_bound)
{
    struct binding *old = atomic_load(&lock->binding);
    if (old != NULL && same_word(old, now_bound)) {
        if (old->seat == now_bound->seat) {
            return 0;
        }
        int same = binding_publish(lock, now_bound);
        struct hold_view view;
        if (old->seat != HFI_SEAT_NONE && hold_read(lock, &view) &&
            (view.mode == HF_SHARED || lock->limit_ns != 0)) {
            /* the seat with the hold's cell or deadline no longer belongs to the handle */
            binding_lose(lock);
        }
        return same;
    }
    int error = binding_publish(lock, now_bound);
    if (old != NULL) {
        binding_lose(lock);
    }
    return error;
}

void lock_orphan(hf_lock *lock)
{
    atomic_store(&lock->binding, NULL);
    binding_lose(lock);
}

/* Sends the handle's note to the agent, which has opened the handle on this connection. flags: as
 * in NOTE. The caller holds socket_mutex. Returns HF_ENOAGENT if the connection is lost, else 0. An
 * agent that does not take the note shows the holds without it, which is no failure. */
static int note_send(hf_lock *lock, uint32_t flags)
{
    hf_client *client = lock->client;
    struct hfi_frame frame = {
        .kind = HFI_FRAME_NOTE,
        .note = {.handle = lock->handle,
                 .flags = flags,
                 .note = text_of(lock->note, lock->note_size)},
    };
    struct answer answer;
    if (client->greeted.inode != 0 && client_same_socket(&client->noteless, &client->greeted)) {
        return 0;
    }
    int error = client_ask(client, &frame, HFI_FRAME_DONE, &answer);
    if (error == HF_EPROTO && client->connection_state != CONNECTION_UP) {
        /* an agent of an earlier release does not know NOTE, and has hung up */
        client->noteless = client->greeted;
        return HF_ENOAGENT;
    }
    return error == HF_ENOAGENT ? error : 0;
}

int lock_open(hf_lock *lock, bool resume)
{
    hf_client *client = lock->client;
    const struct binding *old = atomic_load(&lock->binding);
    struct hfi_frame frame = {
        .kind = HFI_FRAME_OPEN,
        .open = {.flags = (lock->flags & HF_BARGING ? HFI_OPEN_BARGING : 0) |
                          (lock->limit_ns != 0 ? HFI_OPEN_SEAT : 0),
                 .lock_delay_ns = lock->lock_delay_ns,
                 .lease_ns = lock->lease_ns,
                 .max_stall_ns = lock->max_stall_ns,
                 .seat = HFI_SEAT_NONE,
                 .name = text_of(lock->name, lock->name_size)},
    };
    if (resume && old != NULL) {
        frame.open.flags |= HFI_OPEN_RESUME;
        frame.open.holder = old->holder;
        frame.open.slot = old->slot;
        frame.open.seat = old->seat;
        frame.open.incarnation = old->map->incarnation;
    }
    struct answer answer;
    int error = client_ask(client, &frame, HFI_FRAME_OPENED, &answer);
    if (error != 0) {
        /* after HF_ENOAGENT or HF_EPROTO the next connection opens the handle */
        bool refused = error != HF_ENOAGENT && error != HF_EPROTO;
        if (refused && old != NULL && resume) {
            lock_orphan(lock);
        }
        return error;
    }
    const struct hfi_opened *opened = &answer.frame.opened;
    struct binding now_bound = {.map = region_by_number(client, opened->region),
                                .slot = opened->slot,
                                .holder = opened->holder,
                                .seat = opened->seat};
    if (now_bound.map == NULL || now_bound.slot >= now_bound.map->region.slot_count ||
        now_bound.holder == 0 || now_bound.holder >= now_bound.map->region.holder_count ||
        (now_bound.seat != HFI_SEAT_NONE &&
         now_bound.seat >= now_bound.map->region.block_count * HFI_BLOCK_SEATS)) {
        socket_down(client);
        return HF_EPROTO;
    }
    lock->handle = opened->handle;
    lock->connection = client->connection;
    error = binding_switch(lock, &now_bound);
    /* the agent does not keep notes across its restart, so the hold gets its note again */
    return error == 0 && lock->note_size > 0 ? note_send(lock, HFI_NOTE_NOW) : error;
}

int lock_renew(hf_lock *lock, const struct binding *stale)
{
    hf_client *client = lock->client;
    pthread_mutex_lock(&client->socket_mutex);
    int error = client_reach(client);
    if (error == 0 && atomic_load(&lock->binding) == stale) {
        uint32_t handle = lock->handle;
        bool close_old = stale != NULL && lock->connection == client->connection;
        error = lock_open(lock, false);
        if (error == 0 && close_old) {
            struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE, .handle = handle};
            frame.request = ++client->request;
            error = socket_send(client, &frame);
        }
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

/* Sends one SEAT on the present connection, and handles its answer. The caller holds
 * socket_mutex. */
static int seat_ask(hf_lock *lock, bool shared)
{
    hf_client *client = lock->client;
    const struct binding *old = atomic_load(&lock->binding);
    if (old == NULL || lock->connection != client->connection) {
        return lock_open(lock, false);
    }
    struct hfi_frame frame = {
        .kind = HFI_FRAME_SEAT,
        .seat = {.handle = lock->handle, .flags = shared ? HFI_SEAT_SHARED : 0},
    };
    struct answer answer;
    int error = client_ask(client, &frame, HFI_FRAME_SEATED, &answer);
    if (error != 0) {
        return error;
    }
    struct binding now_bound = *old;
    now_bound.seat = answer.frame.seated;
    now_bound.shared_ready = shared || (old->shared_ready && old->seat == now_bound.seat);
    if (now_bound.seat >= now_bound.map->region.block_count * HFI_BLOCK_SEATS) {
        socket_down(client);
        return HF_EPROTO;
    }
    return binding_publish(lock, &now_bound);
}

static bool seat_ready(const struct binding *binding, bool shared)
{
    return binding != NULL && binding->seat != HFI_SEAT_NONE && (!shared || binding->shared_ready);
}

int lock_seat(hf_lock *lock, bool shared)
{
    hf_client *client = lock->client;
    int error = 0;
    pthread_mutex_lock(&client->socket_mutex);
    /* the first attempt may fail on a broken connection, the next one may only open the handle, and
     * a later one gets the seat */
    for (int attempt = 0; attempt < 4; attempt++) {
        if (seat_ready(atomic_load(&lock->binding), shared)) {
            break;
        }
        error = client_reach(client);
        if (error == 0) {
            error = seat_ask(lock, shared);
        }
        if (error != 0 && error != HF_ENOAGENT) {
            break;
        }
        if (error == HF_ENOAGENT && attempt > 0) {
            break;
        }
    }
    if (error == 0 && !seat_ready(atomic_load(&lock->binding), shared)) {
        error = HF_EPROTO;
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

void lock_free(hf_lock *lock)
{
    struct binding *binding = atomic_load(&lock->bindings);
    while (binding != NULL) {
        struct binding *older = binding->older;
        free(binding);
        binding = older;
    }
    free(lock);
}

/* Returns whether a limit is allowed: 0 (none), or at least a millisecond, the unit in which the
 * agent counts. A shorter limit would end each hold before its thread can use it. */
static bool limit_good(int64_t limit_ns)
{
    return limit_ns == 0 || limit_ns >= NS_PER_MS;
}

_Static_assert((int)HF_NOTE_MAX == (int)HFI_FRAME_NOTE_MAX, "the most bytes of a note");
_Static_assert(sizeof(((struct hf_reason *)0)->note) > HF_NOTE_MAX, "room for a note");

/* Returns 0, or HF_EINVAL if the note is too long. */
static int note_check(const hf_client *client, const char *what, const char *note)
{
    size_t size = strlen(note);
    return size <= HF_NOTE_MAX ? 0
                               : failure(client, HF_EINVAL, "%s has %zu bytes, expected at most %d",
                                         what, size, HF_NOTE_MAX);
}

/* Checks the options. Returns 0 or HF_EINVAL. */
static int options_check(const hf_client *client, const struct hf_lock_options *options)
{
    if ((options->flags & ~(uint32_t)(HF_REENTRANT | HF_BARGING)) != 0) {
        return failure(client, HF_EINVAL,
                       "hf_lock_options.flags is %#" PRIx32 ", expected HF_REENTRANT (1) and "
                       "HF_BARGING (2) at most",
                       options->flags);
    }
    if (options->permits > 1) {
        return failure(client, HF_EINVAL,
                       "hf_lock_options.permits is %" PRIu32 ", expected 0 or 1 in this version",
                       options->permits);
    }
    if (options->lock_delay_ns > LOCK_DELAY_NS_MAX) {
        return failure(client, HF_EINVAL,
                       "hf_lock_options.lock_delay_ns is %" PRId64 ", expected at most %" PRId64
                       " (60 s)",
                       options->lock_delay_ns, LOCK_DELAY_NS_MAX);
    }
    bool lease_good = limit_good(options->lease_ns);
    if (!lease_good || !limit_good(options->max_stall_ns)) {
        return failure(client, HF_EINVAL,
                       "hf_lock_options.%s is %" PRId64 ", expected 0 (no limit) or at least "
                       "%" PRId64 " (1 ms)",
                       lease_good ? "max_stall_ns" : "lease_ns",
                       lease_good ? options->max_stall_ns : options->lease_ns, NS_PER_MS);
    }
    return options->note != NULL ? note_check(client, "hf_lock_options.note", options->note) : 0;
}

/* Copies the note, which has been checked. NULL: none. */
static void note_take(hf_lock *lock, const char *note)
{
    const char *text = note != NULL ? note : "";
    lock->note_size =
        hfi_note_shown(text_of(text, strlen(text)), HFI_FRAME_NOTE_MAX, lock->note).size;
}

/* Copies the options, which have been checked. */
static void options_take(hf_lock *lock, const struct hf_lock_options *options)
{
    note_take(lock, options->note);
    lock->flags = options->flags;
    lock->lock_delay_ns = options->lock_delay_ns == 0  ? LOCK_DELAY_NS_DEFAULT
                          : options->lock_delay_ns < 0 ? 0
                                                       : options->lock_delay_ns;
    lock->lease_ns = options->lease_ns < LIMIT_NS_MAX ? options->lease_ns : LIMIT_NS_MAX;
    lock->max_stall_ns = options->max_stall_ns < LIMIT_NS_MAX ? options->max_stall_ns
                                                              : LIMIT_NS_MAX;
    lock->limit_ns = lock->lease_ns;
    if (lock->max_stall_ns != 0 && (lock->limit_ns == 0 || lock->max_stall_ns < lock->limit_ns)) {
        lock->limit_ns = lock->max_stall_ns;
    }
    lock->simple = lock->limit_ns == 0 && (lock->flags & HF_REENTRANT) == 0;
}

static hf_lock *lock_create(hf_client *client, const char *name, size_t name_size)
{
    hf_lock *lock = aligned_alloc(HFI_LINE, (sizeof(*lock) + HFI_LINE - 1) / HFI_LINE * HFI_LINE);
    if (lock == NULL) {
        return NULL;
    }
    memset(lock, 0, sizeof(*lock));
    lock->client = client;
    lock->alive = client->alive;
    atomic_init(&lock->hold.lease_end_ns, INT64_MAX);
    lock->name_size = (uint32_t)name_size;
    memcpy(lock->name, name, name_size);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&lock->mutex, NULL);
    pthread_cond_init(&lock->unclaimed, &attributes);
    pthread_condattr_destroy(&attributes);
    return lock;
}

/* Checks the arguments of hf_open(), and reads the options. */
static int arguments_check(const hf_client *client, const char *name,
                           const struct hf_lock_options *given, struct hf_lock_options *options,
                           hf_lock *const *out)
{
    if (client == NULL || name == NULL || out == NULL) {
        return failure_null(client, client == NULL ? "client" : name == NULL ? "name" : "out");
    }
    if (!alive_here(client->alive)) {
        return failure_forked(client);
    }
    int error = hfi_name_check(name, strnlen(name, HFI_NAME_MAX + 1));
    if (error != 0) {
        return failure_name(client, error, "lock's name", name);
    }
    /* the size of the struct in the first version, which older programs still pass */
    const size_t first_size = offsetof(struct hf_lock_options, max_stall_ns) +
                              sizeof(options->max_stall_ns);
    if (given != NULL && !options_copy(options, sizeof(*options), first_size, given)) {
        return failure_options(client, "hf_lock_options", given, first_size);
    }
    return options_check(client, options);
}

/* Opens the new handle with the agent, and adds it to the client's list. */
static int lock_add(hf_lock *lock)
{
    hf_client *client = lock->client;
    pthread_mutex_lock(&client->socket_mutex);
    int error = HF_ENOAGENT;
    for (int attempt = 0; attempt < 2 && error == HF_ENOAGENT; attempt++) {
        error = client_reach(client);
        if (error != 0) {
            break;
        }
        error = lock_open(lock, false);
    }
    if (error == HF_EPROTO && client->no_descriptor) {
        error = HF_ENOMEM;
        trouble_set(client, error, "this process has no descriptor left for the shared memory");
    }
    if (error == 0) {
        pthread_mutex_lock(&client->list_mutex);
        lock->next = client->locks;
        if (lock->next != NULL) {
            lock->next->previous = lock;
        }
        client->locks = lock;
        pthread_mutex_unlock(&client->list_mutex);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

HFI_PUBLIC int hf_open(hf_client *client, const char *name, const struct hf_lock_options *given,
                       hf_lock **out)
{
    struct hf_lock_options options = {.size = sizeof(options)};
    int error = arguments_check(client, name, given, &options, out);
    if (error != 0) {
        return error;
    }
    hf_lock *lock = lock_create(client, name, strlen(name));
    if (lock == NULL) {
        return failure(client, HF_ENOMEM, "no memory to open the lock \"%s\"", name);
    }
    options_take(lock, &options);
    error = lock_add(lock);
    if (error != 0) {
        lock_free(lock);
        return failure_ask(client, error, "open the lock", name);
    }
    *out = lock;
    return 0;
}

HFI_PUBLIC int hf_set_note(hf_lock *lock, const char *text)
{
    if (lock == NULL) {
        return failure_null(NULL, "lock");
    }
    hf_client *client = lock->client;
    if (!alive_here(lock->alive)) {
        return failure_forked(client);
    }
    int error = text != NULL ? note_check(client, "the note", text) : 0;
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&client->socket_mutex);
    note_take(lock, text);
    if (client->connection_state == CONNECTION_UP && lock->connection == client->connection) {
        /* without an agent, lock_open() sends the note on the next connection */
        int ignored = note_send(lock, 0);
        (void)ignored;
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return 0;
}

HFI_PUBLIC void hf_close(hf_lock *lock)
{
    /* In a forked child the lists may be half changed, because a thread of the parent was changing
     * them at the fork. So in a child this call does nothing, and hf_disconnect() frees the
     * memory. */
    if (lock == NULL || !alive_here(lock->alive)) {
        return;
    }
    hf_client *client = lock->client;
    start_drop(lock);
    hold_drop(lock);
    pthread_mutex_lock(&client->socket_mutex);
    if (client->connection_state == CONNECTION_UP && lock->connection == client->connection) {
        struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE, .handle = lock->handle};
        frame.request = ++client->request;
        /* If the frame is lost, RESUMED on the next connection closes the handle. */
        int ignored = socket_send(client, &frame);
        (void)ignored;
    }
    pthread_mutex_lock(&client->list_mutex);
    if (lock->previous != NULL) {
        lock->previous->next = lock->next;
    } else {
        client->locks = lock->next;
    }
    if (lock->next != NULL) {
        lock->next->previous = lock->previous;
    }
    events_forget(lock);
    pthread_mutex_unlock(&client->list_mutex);
    pthread_mutex_unlock(&client->socket_mutex);
    pthread_mutex_destroy(&lock->mutex);
    pthread_cond_destroy(&lock->unclaimed);
    lock_free(lock);
}

HFI_PUBLIC const char *hf_lock_name(const hf_lock *lock)
{
    return lock != NULL ? lock->name : NULL;
}

HFI_PUBLIC void hf_lock_set_data(hf_lock *lock, void *data)
{
    if (lock != NULL) {
        /* release: pairs with the acquire in hf_lock_data(), whose caller reads the memory that
         * data points to */
        atomic_store_explicit(&lock->data, data, memory_order_release);
    }
}

HFI_PUBLIC void *hf_lock_data(const hf_lock *lock)
{
    /* acquire: pairs with the release in hf_lock_set_data() */
    return lock != NULL ? atomic_load_explicit(&lock->data, memory_order_acquire) : NULL;
}
