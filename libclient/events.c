/*
 * The library reports events on one pollable descriptor, and has no thread of its own.
 *
 * The descriptor is an epoll set of three descriptors: the agent's socket (POKE, CHANGED, a
 * hang-up), a timer, and an eventfd that is readable while an event is queued. The timer is set to
 * the next time at which a hold may end (the deadline of the lease or of one hold, or the end of
 * the grace period) or at which a started acquire is due. The timer runs on CLOCK_BOOTTIME, so it
 * fires without an agent and after a suspend. hf_next_event() looks at the holds only after the
 * timer has fired, or after events_look().
 *
 * Each handle keeps the number of its hold and which events of that hold were reported, so that
 * JEOPARDY, SAFE and LOST come once each. A hold that was reported lost is marked, and never counts
 * again.
 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { REPORTED_JEOPARDY = 1, REPORTED_SAFE = 2, REPORTED_LOST = 4 };

/* The period of the timer while the agent is down, or while the lease of a region has lapsed
 * although the agent is up. */
#define LOOK_AGAIN_NS (250 * NS_PER_MS)

static void wake_set(struct events *events)
{
    uint64_t one = 1;
    if (events->enabled) {
        ssize_t written = write(events->wake_fd, &one, sizeof(one));
        (void)written; /* if the counter is full, the eventfd is readable already */
    }
}

static void wake_clear(struct events *events)
{
    uint64_t count;
    ssize_t got = read(events->wake_fd, &count, sizeof(count));
    (void)got; /* read() fails if the eventfd is clear already */
}

static void timer_set(struct events *events, int64_t at_ns)
{
    struct itimerspec when = {0};
    events->armed_ns = at_ns;
    if (at_ns != INT64_MAX) {
        /* for INT64_MAX `when` stays all zeros, which disarms the timer */
        at_ns = at_ns > 0 ? at_ns : 1;
        when.it_value.tv_sec = at_ns / NS_PER_S;
        when.it_value.tv_nsec = at_ns % NS_PER_S;
    }
    timerfd_settime(events->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void events_arm(hf_client *client, int64_t deadline_ns)
{
    struct events *events = &client->events;
    pthread_mutex_lock(&client->list_mutex);
    if (events->enabled && deadline_ns < events->armed_ns) {
        timer_set(events, deadline_ns);
    }
    pthread_mutex_unlock(&client->list_mutex);
}

void events_look(hf_client *client)
{
    pthread_mutex_lock(&client->list_mutex);
    client->events.look = true;
    wake_set(&client->events);
    pthread_mutex_unlock(&client->list_mutex);
}

void events_granted(hf_lock *lock, uint64_t number, uint64_t token)
{
    struct events *events = &lock->client->events;
    pthread_mutex_lock(&lock->client->list_mutex);
    if (events->enabled) {
        events->queued_count += !lock->granted;
        lock->granted = true;
        lock->granted_token = token;
        lock->granted_number = number;
        wake_set(events);
    }
    pthread_mutex_unlock(&lock->client->list_mutex);
}

void events_failed(hf_lock *lock, int error)
{
    struct events *events = &lock->client->events;
    pthread_mutex_lock(&lock->client->list_mutex);
    events->queued_count += lock->failed == 0;
    lock->failed = error;
    wake_set(events);
    pthread_mutex_unlock(&lock->client->list_mutex);
}

void events_start(hf_lock *lock, int64_t due_ns)
{
    struct events *events = &lock->client->events;
    pthread_mutex_lock(&lock->client->list_mutex);
    events->start_count += due_ns != 0;
    events->start_count -= lock->start_due_ns != 0;
    lock->start_due_ns = due_ns;
    if (due_ns != 0 && due_ns < events->armed_ns) {
        timer_set(events, due_ns);
    }
    pthread_mutex_unlock(&lock->client->list_mutex);
}

void events_forget(hf_lock *lock)
{
    lock->client->events.queued_count -= lock->granted;
    lock->client->events.queued_count -= lock->failed != 0;
    lock->granted = false;
    lock->failed = 0;
}

/* Appends a name to the ring of changed names. The caller holds list_mutex. */
static void changed_push(struct changed_ring *ring, const char *name, size_t size)
{
    if (ring->names != NULL && ring->count < CHANGED_RING && size <= HFI_NAME_MAX) {
        char *entry = ring->names[(ring->first + ring->count) % CHANGED_RING];
        memcpy(entry, name, size);
        entry[size] = '\0';
        ring->count++;
    }
}

void events_changed(hf_client *client, const char *name, size_t size)
{
    struct changed_ring *ring = &client->events.changed;
    pthread_mutex_lock(&client->list_mutex);
    /* If the ring of changed names is full, or if the agent reports with an empty name that it has
     * dropped names, each watched prefix takes the place of the names: any lock under it may have
     * changed. */
    if (size == 0 || ring->count == CHANGED_RING) {
        ring->count = 0;
        for (struct watched_prefix *watch = client->watches; watch != NULL; watch = watch->next) {
            changed_push(ring, watch->prefix, watch->size);
        }
    } else {
        changed_push(ring, name, size);
    }
    wake_set(&client->events);
    pthread_mutex_unlock(&client->list_mutex);
}

void events_connected(hf_client *client)
{
    pthread_mutex_lock(&client->list_mutex);
    if (client->events.enabled) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
        epoll_ctl(client->events.epoll_fd, EPOLL_CTL_ADD, client->socket_fd, &event);
    }
    pthread_mutex_unlock(&client->list_mutex);
}

void events_disconnected(hf_client *client)
{
    pthread_mutex_lock(&client->list_mutex);
    if (client->events.enabled) {
        epoll_ctl(client->events.epoll_fd, EPOLL_CTL_DEL, client->socket_fd, NULL);
    }
    pthread_mutex_unlock(&client->list_mutex);
}

int events_resume(hf_client *client)
{
    struct answer answer;
    if (client->events.enabled) {
        struct hfi_frame frame = {.kind = HFI_FRAME_EVENTS};
        int error = client_ask(client, &frame, HFI_FRAME_DONE, &answer);
        if (error == HF_ENOAGENT || error == HF_EPROTO) {
            return error;
        }
    }
    for (struct watched_prefix *watch = client->watches; watch != NULL; watch = watch->next) {
        struct hfi_frame frame = {.kind = HFI_FRAME_WATCH,
                                  .text = text_of(watch->prefix, watch->size)};
        int error = client_ask(client, &frame, HFI_FRAME_DONE, &answer);
        if (error == HF_ENOAGENT || error == HF_EPROTO) {
            return error;
        }
        /* locks may have changed while there was no connection */
        events_changed(client, watch->prefix, watch->size);
    }
    return 0;
}

void events_destroy(hf_client *client)
{
    struct events *events = &client->events;
    int fds[] = {events->epoll_fd, events->timer_fd, events->wake_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
    free(events->changed.names);
    while (client->watches != NULL) {
        struct watched_prefix *watch = client->watches;
        client->watches = watch->next;
        free(watch);
    }
}

/* Makes the descriptors. The caller holds socket_mutex and list_mutex. */
static int events_create(hf_client *client)
{
    struct events *events = &client->events;
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_fd < 0 || timer_fd < 0 || wake_fd < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event) != 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &event) != 0 ||
        (client->connection_state != CONNECTION_DOWN &&
         epoll_ctl(epoll_fd, EPOLL_CTL_ADD, client->socket_fd, &event) != 0)) {
        int fds[] = {epoll_fd, timer_fd, wake_fd};
        for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
            if (fds[i] >= 0) {
                close(fds[i]);
            }
        }
        return HF_ENOMEM;
    }
    events->epoll_fd = epoll_fd;
    events->timer_fd = timer_fd;
    events->wake_fd = wake_fd;
    events->enabled = true;
    events->look = true; /* the first look at the holds sets the timer */
    wake_set(events);
    return 0;
}

/* Switches the events on at the first call. Only the first call locks socket_mutex, and may wait
 * for it: another thread may hold the mutex for seconds while its request has no answer. */
int events_enable(hf_client *client)
{
    int error = 0;
    pthread_mutex_lock(&client->list_mutex);
    bool before = client->events.enabled;
    pthread_mutex_unlock(&client->list_mutex);
    if (before) {
        return 0;
    }
    pthread_mutex_lock(&client->socket_mutex);
    pthread_mutex_lock(&client->list_mutex);
    bool enabled = client->events.enabled;
    if (!enabled) {
        error = events_create(client);
    }
    pthread_mutex_unlock(&client->list_mutex);
    if (!enabled && error == 0 && client->connection_state == CONNECTION_UP) {
        struct hfi_frame frame = {.kind = HFI_FRAME_EVENTS};
        struct answer answer;
        int ignored = client_ask(client, &frame, HFI_FRAME_DONE, &answer);
        (void)ignored; /* if the agent is down, the next connection sends EVENTS again */
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

/* Only a lack of descriptors or memory can make events_enable() fail. */
int failure_events(const hf_client *client, int error)
{
    return failure(client, error,
                   "no descriptor or memory left for the events: they need three descriptors");
}

HFI_PUBLIC int hf_event_fd(hf_client *client)
{
    if (client == NULL) {
        return failure_null(NULL, "client");
    }
    if (!alive_here(client->alive)) {
        return failure_forked(client);
    }
    int error = events_enable(client);
    return error == 0 ? client->events.epoll_fd : failure_events(client, error);
}

static bool watch_known(const hf_client *client, const char *prefix)
{
    for (const struct watched_prefix *watch = client->watches; watch != NULL; watch = watch->next) {
        if (strcmp(watch->prefix, prefix) == 0) {
            return true;
        }
    }
    return false;
}

/* Checks the arguments of hf_watch() and hf_unwatch(), and sets *size to the prefix's length. */
static int prefix_check(const hf_client *client, const char *prefix, size_t *size)
{
    if (client == NULL || prefix == NULL) {
        return failure_null(client, client == NULL ? "client" : "prefix");
    }
    if (!alive_here(client->alive)) {
        return failure_forked(client);
    }
    *size = strnlen(prefix, HFI_NAME_MAX + 1);
    return *size > 0 && hfi_name_check(prefix, *size) != 0
               ? failure_name(client, HF_EINVAL, "prefix", prefix)
               : 0;
}

HFI_PUBLIC int hf_watch(hf_client *client, const char *prefix)
{
    size_t size = 0;
    int error = prefix_check(client, prefix, &size);
    if (error != 0) {
        return error;
    }
    struct watched_prefix *watch = calloc(1, sizeof(*watch));
    if (watch == NULL) {
        return failure(client, HF_ENOMEM, "no memory to watch \"%s\"", prefix);
    }
    memcpy(watch->prefix, prefix, size);
    watch->size = (uint32_t)size;
    pthread_mutex_lock(&client->socket_mutex);
    pthread_mutex_lock(&client->list_mutex);
    struct changed_ring *ring = &client->events.changed;
    if (ring->names == NULL) {
        ring->names = calloc(CHANGED_RING, sizeof(*ring->names));
    }
    bool full = ring->names == NULL;
    pthread_mutex_unlock(&client->list_mutex);
    error = full ? trouble_no_memory(client) : 0;
    bool known = watch_known(client, prefix);
    if (error == 0 && !known) {
        struct hfi_frame frame = {.kind = HFI_FRAME_WATCH, .text = text_of(prefix, size)};
        struct answer answer;
        error = client_request(client, &frame, HFI_FRAME_DONE, &answer);
    }
    if (error == 0 && !known) {
        pthread_mutex_lock(&client->list_mutex);
        watch->next = client->watches;
        client->watches = watch;
        watch = NULL;
        pthread_mutex_unlock(&client->list_mutex);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    free(watch);
    return error == 0 ? 0 : failure_ask(client, error, "watch the locks under", prefix);
}

/* Returns whether the name is under a watched prefix. The caller holds list_mutex. */
static bool watch_asks(const hf_client *client, const char *name)
{
    for (const struct watched_prefix *watch = client->watches; watch != NULL; watch = watch->next) {
        if (strncmp(name, watch->prefix, watch->size) == 0) {
            return true;
        }
    }
    return false;
}

/* Removes the watch of the prefix, and those queued names that no other watch covers. The caller
 * holds list_mutex. */
static void watch_remove(hf_client *client, const char *prefix)
{
    struct watched_prefix **at = &client->watches;
    while (*at != NULL && strcmp((*at)->prefix, prefix) != 0) {
        at = &(*at)->next;
    }
    struct watched_prefix *watch = *at;
    if (watch != NULL) {
        *at = watch->next;
        free(watch);
    }
    struct changed_ring *ring = &client->events.changed;
    uint32_t count = ring->count;
    ring->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = ring->names[(ring->first + i) % CHANGED_RING];
        if (watch_asks(client, name)) {
            /* moves the name forward into the gap that dropped names leave */
            char *to = ring->names[(ring->first + ring->count) % CHANGED_RING];
            memmove(to, name, sizeof(*ring->names));
            ring->count++;
        }
    }
}

HFI_PUBLIC int hf_unwatch(hf_client *client, const char *prefix)
{
    size_t size = 0;
    int error = prefix_check(client, prefix, &size);
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&client->socket_mutex);
    if (watch_known(client, prefix)) {
        struct hfi_frame frame = {.kind = HFI_FRAME_UNWATCH, .text = text_of(prefix, size)};
        struct answer answer;
        int ignored = client_ask(client, &frame, HFI_FRAME_DONE, &answer);
        (void)ignored; /* if the agent is down, the watch ended with the connection */
        pthread_mutex_lock(&client->list_mutex);
        /* The watch is removed after the answer, so that all names that came before the answer are
         * in the ring of changed names. */
        watch_remove(client, prefix);
        pthread_mutex_unlock(&client->list_mutex);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return 0;
}

/* Takes the next queued event out, if there is one. The caller holds list_mutex. */
static bool next_queued(hf_client *client, struct hf_event *out)
{
    struct events *events = &client->events;
    for (hf_lock *lock = client->locks; events->queued_count > 0 && lock != NULL;
         lock = lock->next) {
        if (lock->granted && !hold_has(&lock->hold, lock->granted_number)) {
            lock->granted = false; /* hf_release() has ended this hold */
            events->queued_count--;
        }
        if (lock->granted || lock->failed != 0) {
            bool failed = lock->failed != 0;
            out->kind = failed ? HF_EVENT_FAILED : HF_EVENT_GRANTED;
            out->lock = lock;
            out->token = failed ? 0 : lock->granted_token;
            out->error = lock->failed;
            memcpy(out->name, lock->name, sizeof(lock->name));
            events->queued_count--;
            if (failed) { /* a later acquire may have been granted */
                lock->failed = 0;
            } else {
                lock->granted = false;
            }
            return true;
        }
    }
    struct changed_ring *ring = &events->changed;
    if (ring->count > 0) {
        out->kind = HF_EVENT_CHANGED;
        memcpy(out->name, ring->names[ring->first], sizeof(out->name));
        ring->first = (ring->first + 1) % CHANGED_RING;
        ring->count--;
        return true;
    }
    return false;
}

/* Looks at one handle's hold. Returns true, with *out filled in, if there is an event to report.
 * *next_ns: when the hold must be looked at again. The caller holds list_mutex. */
static bool look_at(hf_lock *lock, int64_t now_ns, int64_t *next_ns, struct hf_event *out)
{
    struct hold_view view;
    enum hold_worth worth;
    if (!hold_look(lock, now_ns, &view, &worth)) {
        return false;
    }
    if (lock->reported_number != view.number) {
        lock->reported_number = view.number;
        lock->reported = 0;
    }
    uint32_t report = 0;
    int64_t deadline_ns = hfi_lease_deadline_ns(
        atomic_load_explicit(&view.binding->map->region.header->lease, memory_order_relaxed));
    if (worth == HOLD_LOST) {
        report = REPORTED_LOST;
        hold_mark_lost(lock, view.number);
        ended_keep(lock, &view, now_ns, false);
        *next_ns = INT64_MAX;
    } else if (worth == HOLD_JEOPARDY) {
        int64_t grace_ns = (int64_t)(view.binding->map->region.header->grace_ns & INT64_MAX);
        report = REPORTED_JEOPARDY;
        *next_ns = add_saturated(deadline_ns, grace_ns);
    } else {
        report = lock->reported & REPORTED_JEOPARDY ? REPORTED_SAFE : 0;
        *next_ns = deadline_ns;
    }
    int64_t own_ns = hold_own_end_ns(lock, &view);
    *next_ns = worth != HOLD_LOST && own_ns < *next_ns ? own_ns : *next_ns;
    if (report == 0 || (lock->reported & (report | REPORTED_LOST)) != 0) {
        return false;
    }
    lock->reported |= report;
    out->why = report == REPORTED_LOST ? lock->end.kind : HF_WHY_NOTHING;
    out->kind = report == REPORTED_LOST       ? HF_EVENT_LOST
                : report == REPORTED_JEOPARDY ? HF_EVENT_JEOPARDY
                                              : HF_EVENT_SAFE;
    out->lock = lock;
    out->token = view.held.token;
    memcpy(out->name, lock->name, sizeof(lock->name));
    return true;
}

/* Looks at the holds in turn. Returns true at the first event to report. If there is none, sets the
 * timer and returns false. The caller holds list_mutex. */
static bool next_looked(hf_client *client, struct hf_event *out)
{
    struct events *events = &client->events;
    int64_t now_ns = boottime_ns();
    int64_t next_ns = INT64_MAX;
    for (hf_lock *lock = client->locks; lock != NULL; lock = lock->next) {
        int64_t then_ns = INT64_MAX;
        if (look_at(lock, now_ns, &then_ns, out)) {
            return true;
        }
        next_ns = then_ns < next_ns ? then_ns : next_ns;
        int64_t start_ns = lock->start_due_ns != 0 ? lock->start_due_ns : INT64_MAX;
        next_ns = start_ns < next_ns ? start_ns : next_ns;
    }
    /* acquire: pairs with the releases in client.c and socket.c */
    bool down = atomic_load_explicit(&client->down, memory_order_acquire);
    bool lapsed = false;
    for (struct region_map *map = client->maps; map != NULL; map = map->next) {
        uint64_t lease = atomic_load_explicit(&map->region.header->lease, memory_order_relaxed);
        int64_t deadline_ns = hfi_lease_deadline_ns(lease);
        if (map->connection != client->events_connection) {
            /* the agent does not use this region any more: only its existing holds count, and
             * look_at() has looked at these holds */
            continue;
        }
        lapsed |= hfi_lease_left_ns(&map->trust, lease, now_ns) <= 0;
        next_ns = deadline_ns > now_ns && deadline_ns < next_ns ? deadline_ns : next_ns;
    }
    if ((down || lapsed) && next_ns > now_ns + LOOK_AGAIN_NS) {
        next_ns = now_ns + LOOK_AGAIN_NS;
    }
    events->look = false;
    timer_set(events, next_ns);
    return false;
}

/* Handles the frames that the agent sent. If the agent is down, tries to reach it. Never waits. */
static void socket_look(hf_client *client)
{
    if (pthread_mutex_trylock(&client->socket_mutex) != 0) {
        return; /* the thread that has the mutex reads the socket, and wakes this thread */
    }
    if (client->connection_state != CONNECTION_UP) {
        int ignored = client_reconnect(client, 0); /* the timer starts the next attempt */
        (void)ignored;
    }
    client_drain(client);
    client->events_connection = client->connection;
    pthread_mutex_unlock(&client->socket_mutex);
}

/* Clears what made the descriptor readable. This comes before hf_next_event() looks at anything, so
 * that a cause that comes meanwhile makes the descriptor readable again. */
static void wakes_clear(hf_client *client)
{
    struct events *events = &client->events;
    uint64_t expirations;
    pthread_mutex_lock(&client->list_mutex);
    wake_clear(events);
    if (read(events->timer_fd, &expirations, sizeof(expirations)) > 0) {
        events->armed_ns = INT64_MAX;
        events->look = true;
    }
    pthread_mutex_unlock(&client->list_mutex);
}

HFI_PUBLIC int hf_next_event(hf_client *client, struct hf_event *out)
{
    if (client == NULL || out == NULL) {
        return failure_null(client, client == NULL ? "client" : "out");
    }
    if (!alive_here(client->alive)) {
        return failure_forked(client);
    }
    int error = events_enable(client);
    if (error != 0) {
        return failure_events(client, error);
    }
    memset(out, 0, sizeof(*out));
    memset(out->reserved, HFI_RESERVED, sizeof(out->reserved));
    wakes_clear(client);
    socket_look(client);
    starts_step(client);
    struct events *events = &client->events;
    pthread_mutex_lock(&client->list_mutex);
    bool found = next_queued(client, out) || (events->look && next_looked(client, out));
    if (found) {
        wake_set(events); /* the descriptor stays readable, because there may be more events */
    }
    pthread_mutex_unlock(&client->list_mutex);
    return found ? 1 : 0;
}
