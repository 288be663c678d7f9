/*
 * Handles: opened and closed with the agent, and the places they have in regions.
 *
 * A place is published by one release store and never changes; a new one takes over when the agent
 * gives the handle a seat or, after a reconnection, other numbers. A hold remembers the place that
 * it was taken at.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

#define LOCK_DELAY_NS_DEFAULT NS_PER_S
#define LOCK_DELAY_NS_MAX (60 * NS_PER_S)
/* Who asks for more, INT64_MAX say, means for ever: by now and for so long any clock can count. */
#define LIMIT_NS_MAX (INT64_MAX / 4)

/* Publishes a new place. HF_ENOMEM. */
static int place_publish(hf_lock *lock, const struct place *model)
{
    struct place *place = malloc(sizeof(*place));
    if (place == NULL) {
        return HF_ENOMEM;
    }
    *place = *model;
    place->region = place->map->region;
    struct hfi_actor actor = place_actor(place);
    place->aim = hfi_aim(&actor, place->slot);
    /* relaxed: changed under socket_mutex only; hf_cancel walks it, see the release */
    place->older = atomic_load_explicit(&lock->places, memory_order_relaxed);
    /* release: pairs with the acquire in hf_cancel(); publishes the place */
    atomic_store_explicit(&lock->places, place, memory_order_release);
    /* seq_cst (at least release): pairs with the loads in hf_acquire(); publishes the place */
    atomic_store(&lock->place, place);
    return 0;
}

static bool same_word(const struct place *a, const struct place *b)
{
    return a->map == b->map && a->slot == b->slot && a->holder == b->holder;
}

/*
 * The hold of the old place is over if there is one. (A thread that is taking the old word at this
 * moment is told by the word: the agent, which does not know the holder id there, takes it away.)
 */
static void place_lose(hf_lock *lock)
{
    struct hold_view view;
    if (hold_held(&lock->hold) && hold_read(lock, &view)) {
        hold_mark_lost(lock, view.number);
    }
}

/* Brings the handle to the place that the agent told. */
static int place_switch(hf_lock *lock, const struct place *told)
{
    struct place *old = atomic_load(&lock->place);
    if (old != NULL && same_word(old, told)) {
        if (old->seat == told->seat) {
            return 0;
        }
        int same = place_publish(lock, told);
        struct hold_view view;
        if (old->seat != HFI_SEAT_NONE && hold_read(lock, &view) &&
            (view.mode == HF_SHARED || lock->limit_ns != 0)) {
            place_lose(lock); /* what the hold stands in is no longer its seat */
        }
        return same;
    }
    int error = place_publish(lock, told);
    if (old != NULL) {
        place_lose(lock);
    }
    return error;
}

void lock_orphan(hf_lock *lock)
{
    atomic_store(&lock->place, NULL);
    place_lose(lock);
}

int lock_open(hf_lock *lock, bool resume)
{
    hf_client *client = lock->client;
    const struct place *old = atomic_load(&lock->place);
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
        bool refused = error != HF_ENOAGENT && error != HF_EPROTO; /* else it is asked again */
        if (refused && old != NULL && resume) {
            lock_orphan(lock);
        }
        return error;
    }
    const struct hfi_opened *opened = &answer.frame.opened;
    struct place told = {.map = region_by_number(client, opened->region),
                         .slot = opened->slot,
                         .holder = opened->holder,
                         .seat = opened->seat};
    if (told.map == NULL || told.slot >= told.map->region.slot_count || told.holder == 0 ||
        told.holder >= told.map->region.holder_count ||
        (told.seat != HFI_SEAT_NONE &&
         told.seat >= told.map->region.block_count * HFI_BLOCK_SEATS)) {
        socket_down(client);
        return HF_EPROTO;
    }
    lock->handle = opened->handle;
    lock->connection = client->connection;
    return place_switch(lock, &told);
}

int lock_renew(hf_lock *lock, const struct place *stale)
{
    hf_client *client = lock->client;
    pthread_mutex_lock(&client->socket_mutex);
    int error = client_reach(client);
    if (error == 0 && atomic_load(&lock->place) == stale) {
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

/* One SEAT and its answer, on the present connection. Under socket_mutex. */
static int seat_ask(hf_lock *lock, bool shared)
{
    hf_client *client = lock->client;
    const struct place *old = atomic_load(&lock->place);
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
    struct place told = *old;
    told.seat = answer.frame.seated;
    told.shared_ready = shared || (old->shared_ready && old->seat == told.seat);
    if (told.seat >= told.map->region.block_count * HFI_BLOCK_SEATS) {
        socket_down(client);
        return HF_EPROTO;
    }
    return place_publish(lock, &told);
}

static bool seat_ready(const struct place *place, bool shared)
{
    return place != NULL && place->seat != HFI_SEAT_NONE && (!shared || place->shared_ready);
}

int lock_seat(hf_lock *lock, bool shared)
{
    hf_client *client = lock->client;
    int error = 0;
    pthread_mutex_lock(&client->socket_mutex);
    for (int attempt = 0; attempt < 4; attempt++) { /* broken connection, then OPEN, then SEAT */
        if (seat_ready(atomic_load(&lock->place), shared)) {
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
    if (error == 0 && !seat_ready(atomic_load(&lock->place), shared)) {
        error = HF_EPROTO;
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

void lock_free(hf_lock *lock)
{
    struct place *place = atomic_load(&lock->places);
    while (place != NULL) {
        struct place *older = place->older;
        free(place);
        place = older;
    }
    free(lock);
}

/* The agent counts in milliseconds. A hold that is over before it is looked at would be taken again
 * and again, a token each time. */
static bool limit_good(int64_t limit_ns)
{
    return limit_ns == 0 || limit_ns >= NS_PER_MS;
}

/* Takes over the options. HF_EINVAL. */
static int options_take(hf_lock *lock, const struct hf_lock_options *options)
{
    if ((options->flags & ~(uint32_t)(HF_REENTRANT | HF_BARGING)) != 0 || options->permits > 1 ||
        options->lock_delay_ns > LOCK_DELAY_NS_MAX || !limit_good(options->lease_ns) ||
        !limit_good(options->max_stall_ns)) {
        return HF_EINVAL;
    }
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
    return 0;
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

HFI_PUBLIC int hf_open(hf_client *client, const char *name, const struct hf_lock_options *given,
                       hf_lock **out)
{
    struct hf_lock_options options = {.size = sizeof(options)};
    if (client == NULL || name == NULL || out == NULL) {
        return HF_EINVAL;
    }
    if (!alive_here(client->alive)) {
        return HF_EFORKED;
    }
    size_t name_size = strnlen(name, HFI_NAME_MAX + 1);
    int error = hfi_name_check(name, name_size);
    if (error != 0) {
        return error;
    }
    if (given != NULL && !options_copy(&options, sizeof(options), sizeof(options), given)) {
        return HF_EINVAL;
    }
    hf_lock *lock = lock_create(client, name, name_size);
    if (lock == NULL) {
        return HF_ENOMEM;
    }
    error = options_take(lock, &options);
    if (error != 0) {
        lock_free(lock);
        return error;
    }
    pthread_mutex_lock(&client->socket_mutex);
    error = HF_ENOAGENT;
    for (int attempt = 0; attempt < 2 && error == HF_ENOAGENT; attempt++) {
        error = client_reach(client);
        if (error != 0) {
            break;
        }
        error = lock_open(lock, false);
    }
    if (error == 0) {
        pthread_mutex_lock(&client->list_mutex);
        lock->next = client->locks;
        if (lock->next != NULL) {
            lock->next->previous = lock;
        }
        client->locks = lock;
        pthread_mutex_unlock(&client->list_mutex);
        *out = lock;
    } else {
        lock_free(lock);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

HFI_PUBLIC void hf_close(hf_lock *lock)
{
    /* In a forked child the lists may be as another thread of the parent left them: hf_disconnect
     * frees the memory. */
    if (lock == NULL || !alive_here(lock->alive)) {
        return;
    }
    hf_client *client = lock->client;
    hold_drop(lock);
    pthread_mutex_lock(&client->socket_mutex);
    if (client->connection_state == CONNECTION_UP && lock->connection == client->connection) {
        struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE, .handle = lock->handle};
        frame.request = ++client->request;
        int ignored = socket_send(client, &frame); /* down: the agent sees what is gone */
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
        /* release: pairs with the acquire in hf_lock_data(); what data points to is seen */
        atomic_store_explicit(&lock->data, data, memory_order_release);
    }
}

HFI_PUBLIC void *hf_lock_data(const hf_lock *lock)
{
    /* acquire: pairs with the release in hf_lock_set_data() */
    return lock != NULL ? atomic_load_explicit(&lock->data, memory_order_acquire) : NULL;
}
