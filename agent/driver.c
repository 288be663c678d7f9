/* The driver: see driver.h. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"

enum {
    QUORUM_ROOM = 4 * QUORUM_STEP_ACTIONS,
    WAITING_MAX = 4096, /* more than so many end the turn early */
    WAITING_BYTES_MAX = 1 << 20,
};

/* A first-in-first-out of items of one size, on the heap; grows. */
struct queue {
    unsigned char *items;
    size_t item_size;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t head;
    uint32_t count;
};

/* Something for the host core. */
struct inbox_item {
    enum host_event_kind kind;
    uint32_t client;
    struct message message; /* MESSAGE; also RENEW_ACK, which is for the renewal */
};

/* Something that waits for the batch. */
struct waiting {
    bool message; /* for the host core: in action.as.send */
    size_t offset;
    struct host_action action;
};

struct driver {
    struct driver_config config;
    struct actions quorum_actions;
    struct host_actions host_actions;
    struct queue quorum_inbox; /* struct message */
    struct queue host_inbox;   /* struct inbox_item */
    struct queue waiting;      /* struct waiting */
    unsigned char *bytes;      /* frames of what waits */
    size_t bytes_used;
    size_t bytes_size;
    bool batch; /* a batch of the store is open */
    bool started;
    uint64_t commits;
    int64_t last_ns;
    /* What the host core was told of the session. */
    struct host_lease told;
    enum renewal_state told_state;
    uint32_t next_epoch; /* not 0: being made durable */
    char failed[STORE_ERROR_MAX + 64];
};

/* ---- queues ---- */

static void fail(struct driver *driver, const char *what, const char *why)
{
    if (driver->failed[0] == '\0') {
        snprintf(driver->failed, sizeof(driver->failed), "%s: %s", what, why);
    }
}

static void *queue_at(const struct queue *queue, uint32_t index)
{
    return queue->items +
           (size_t)((queue->head + index) & (queue->capacity - 1)) * queue->item_size;
}

static bool queue_grow(struct queue *queue)
{
    uint32_t capacity = queue->capacity == 0 ? 64 : queue->capacity * 2;
    unsigned char *items = calloc(capacity, queue->item_size);
    if (items == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < queue->count; i++) {
        memcpy(items + i * queue->item_size, queue_at(queue, i), queue->item_size);
    }
    free(queue->items);
    queue->items = items;
    queue->capacity = capacity;
    queue->head = 0;
    return true;
}

/* The place of a new last item; NULL: no memory, the driver has failed. */
static void *queue_push(struct driver *driver, struct queue *queue)
{
    if (queue->count == queue->capacity && !queue_grow(queue)) {
        fail(driver, "driver", "out of memory");
        return NULL;
    }
    return queue_at(queue, queue->count++);
}

static void queue_pop(struct queue *queue, void *out)
{
    HF_CHECK(queue->count > 0);
    memcpy(out, queue_at(queue, 0), queue->item_size);
    queue->head = (queue->head + 1) & (queue->capacity - 1);
    queue->count--;
}

/* ---- the store ---- */

static bool open_batch(struct driver *driver)
{
    if (!driver->batch) {
        if (!store_begin(driver->config.store)) {
            fail(driver, "store", store_error(driver->config.store));
            return false;
        }
        driver->batch = true;
    }
    return true;
}

static void stored(struct driver *driver, bool good)
{
    if (!good) {
        fail(driver, "store", store_error(driver->config.store));
    }
}

static void persist_slot(struct driver *driver, const struct host_action *action)
{
    const char *space = driver->config.spaces[action->as.slot.region];
    if (!open_batch(driver)) {
        return;
    }
    if (action->kind == HOST_PERSIST_NO_SLOT) {
        stored(driver, store_del_slot(driver->config.store, space, action->as.slot.slot));
        return;
    }
    struct store_slot slot = {.space = space,
                              .slot = action->as.slot.slot,
                              .name = action->as.slot.name.bytes,
                              .length = action->as.slot.name.length};
    stored(driver, store_put_slot(driver->config.store, &slot));
}

/* ---- messages ---- */

static void wait_with_message(struct driver *driver, const struct message *message)
{
    struct waiting *waiting = queue_push(driver, &driver->waiting);
    if (waiting != NULL) {
        memset(waiting, 0, sizeof(*waiting));
        waiting->message = true;
        message_copy(&waiting->action.as.send.message, message);
    }
}

static void deliver_to_host(struct driver *driver, const struct message *message)
{
    struct inbox_item *item = queue_push(driver, &driver->host_inbox);
    if (item != NULL) {
        *item = (struct inbox_item){.kind = HOST_MESSAGE, .message = *message};
    }
}

/* A message of either core to an agent. In a cell of one host it is for this one or for nobody. */
static void send_message(struct driver *driver, uint32_t to, const struct message *message)
{
    if (to == QUORUM_STRANGER) {
        return; /* messages may be lost */
    }
    const struct message_agent *name = quorum_agent_name(driver->config.quorum, to);
    if (memcmp(name, &driver->config.self, sizeof(*name)) != 0) {
        return;
    }
    if (!message_is_for_host(message->kind)) {
        struct message *copy = queue_push(driver, &driver->quorum_inbox);
        if (copy != NULL) {
            *copy = *message;
        }
    } else if (driver->batch) {
        wait_with_message(driver, message);
    } else {
        deliver_to_host(driver, message);
    }
}

/* A request of the host core, to the coordinator of its name. */
static void send_request(struct driver *driver, const struct message *request)
{
    struct message *message = queue_push(driver, &driver->quorum_inbox);
    if (message != NULL) {
        quorum_header(driver->config.quorum, request->kind, message);
        message->as = request->as;
    }
}

/* ---- actions ---- */

static void take_quorum_actions(struct driver *driver)
{
    struct actions *actions = &driver->quorum_actions;
    for (uint32_t i = 0; i < actions->count && driver->failed[0] == '\0'; i++) {
        const struct action *action = &actions->items[i];
        if (action->kind == ACTION_SEND) {
            send_message(driver, action->as.send.to, &action->as.send.message);
        } else if (open_batch(driver)) {
            stored(driver, store_put_action(driver->config.store, action));
        }
    }
    actions->count = 0;
}

static bool keep_bytes(struct driver *driver, const unsigned char *bytes, size_t size)
{
    if (driver->bytes_used + size > driver->bytes_size) {
        size_t wanted = driver->bytes_size == 0 ? HOST_STEP_OUTPUT : driver->bytes_size * 2;
        unsigned char *grown = realloc(driver->bytes, wanted + size);
        if (grown == NULL) {
            fail(driver, "driver", "out of memory");
            return false;
        }
        driver->bytes = grown;
        driver->bytes_size = wanted + size;
    }
    memcpy(driver->bytes + driver->bytes_used, bytes, size);
    driver->bytes_used += size;
    return true;
}

static void wait_with_action(struct driver *driver, const struct host_action *action,
                             const unsigned char *bytes)
{
    size_t offset = driver->bytes_used;
    if (action->kind == HOST_REPLY && !keep_bytes(driver, bytes, action->as.reply.size)) {
        return;
    }
    struct waiting *waiting = queue_push(driver, &driver->waiting);
    if (waiting != NULL) {
        *waiting = (struct waiting){.offset = offset, .action = *action};
    }
}

static void take_host_actions(struct driver *driver)
{
    struct host_actions *actions = &driver->host_actions;
    const struct driver_operations *operations = &driver->config.operations;
    for (uint32_t i = 0; i < actions->count && driver->failed[0] == '\0'; i++) {
        const struct host_action *action = &actions->items[i];
        const unsigned char *bytes = action->kind == HOST_REPLY
                                         ? actions->output + action->as.reply.offset
                                         : NULL;
        if (action->kind == HOST_PERSIST_SLOT || action->kind == HOST_PERSIST_NO_SLOT) {
            persist_slot(driver, action);
        } else if (action->kind == HOST_SEND) {
            send_request(driver, &action->as.send.message);
        } else if (driver->batch) {
            wait_with_action(driver, action, bytes);
        } else {
            operations->act(operations->arg, action, bytes);
        }
    }
    actions->count = 0;
    actions->output_used = 0;
}

/* ---- steps ---- */

static int64_t read_clock(struct driver *driver)
{
    int64_t now_ns = driver->config.operations.now_ns(driver->config.operations.arg);
    if (now_ns > driver->last_ns) {
        driver->last_ns = now_ns;
    }
    return driver->last_ns;
}

static uint64_t draw(struct driver *driver)
{
    return driver->config.operations.random(driver->config.operations.arg);
}

static void step_quorum(struct driver *driver, enum quorum_event_kind kind,
                        const struct message *message)
{
    struct quorum_event event = {
        .kind = kind, .now_ns = read_clock(driver), .random = draw(driver)};
    event.as.message = message;
    quorum_step(driver->config.quorum, &event, &driver->quorum_actions);
    take_quorum_actions(driver);
}

static void step_host(struct driver *driver, struct host_event *event)
{
    event->now_ns = read_clock(driver);
    event->random = draw(driver);
    host_step(driver->config.host, event, &driver->host_actions);
    take_host_actions(driver);
}

static void tell_lease(struct driver *driver, const struct host_lease *lease)
{
    const struct driver_operations *operations = &driver->config.operations;
    if (!lease->lost) {
        operations->promise(operations->arg, lease->epoch, lease->deadline_ns);
    }
    driver->told = *lease;
    struct host_event event = {.kind = HOST_LEASE, .as.lease = *lease};
    step_host(driver, &event);
}

/* Tells the host core what changed of the session, and begins a new one after a loss. */
static void see_to_session(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    const struct renewal *renewal = driver->config.renewal;
    if (!driver->started || driver->next_epoch != 0) {
        return;
    }
    enum renewal_state state = renewal_state(renewal, read_clock(driver));
    struct host_lease lease = {.epoch = renewal_epoch(renewal),
                               .deadline_ns = renewal_deadline_ns(renewal),
                               .lost = state == RENEWAL_LOST};
    if (state != driver->told_state) {
        operations->session(operations->arg, state, lease.epoch);
        driver->told_state = state;
    }
    bool changed = lease.epoch != driver->told.epoch ||
                   lease.deadline_ns != driver->told.deadline_ns || lease.lost != driver->told.lost;
    if (changed && (lease.lost || lease.deadline_ns != 0)) { /* 0: there is nothing to tell yet */
        tell_lease(driver, &lease);
    }
    if (lease.lost && driver->failed[0] == '\0' && open_batch(driver)) {
        driver->next_epoch = lease.epoch + 1;
        stored(driver, store_put_session_epoch(driver->config.store, driver->next_epoch));
    }
}

static void take_host_item(struct driver *driver, const struct inbox_item *item)
{
    if (item->kind == HOST_MESSAGE && item->message.kind == MESSAGE_RENEW_ACK) {
        renewal_acked(driver->config.renewal, &item->message, read_clock(driver),
                      &driver->quorum_actions);
        take_quorum_actions(driver);
        see_to_session(driver);
        return;
    }
    struct host_event event = {.kind = item->kind, .client = item->client};
    if (item->kind == HOST_MESSAGE) {
        event.as.message = &item->message;
    }
    step_host(driver, &event);
}

/* Gives all messages to the cores, and those that come of it. They end: every request is answered
 * a bounded number of times. */
static void drain(struct driver *driver)
{
    while (driver->failed[0] == '\0') {
        if (driver->quorum_inbox.count > 0) {
            struct message message;
            queue_pop(&driver->quorum_inbox, &message);
            step_quorum(driver, QUORUM_MESSAGE, &message);
        } else if (driver->host_inbox.count > 0) {
            struct inbox_item item;
            queue_pop(&driver->host_inbox, &item);
            take_host_item(driver, &item);
        } else {
            break;
        }
    }
}

/* ---- the end of a turn ---- */

static void carry_out(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    uint32_t count = driver->waiting.count;
    for (uint32_t i = 0; i < count; i++) {
        struct waiting waiting;
        queue_pop(&driver->waiting, &waiting);
        if (waiting.message) {
            deliver_to_host(driver, &waiting.action.as.send.message);
        } else {
            const unsigned char *bytes = waiting.action.kind == HOST_REPLY
                                             ? driver->bytes + waiting.offset
                                             : NULL;
            operations->act(operations->arg, &waiting.action, bytes);
        }
    }
    HF_CHECK(driver->waiting.count == 0);
    driver->bytes_used = 0;
}

void driver_flush(struct driver *driver)
{
    drain(driver);
    while (driver->batch && driver->failed[0] == '\0') { /* each round answers what waited */
        uint64_t commit;
        if (!store_commit(driver->config.store, &commit)) {
            fail(driver, "store", store_error(driver->config.store));
            return;
        }
        driver->batch = false;
        driver->commits++;
        quorum_set_commit(driver->config.quorum, commit);
        if (driver->next_epoch != 0) {
            renewal_start(driver->config.renewal, driver->next_epoch, false, read_clock(driver),
                          draw(driver), &driver->quorum_actions);
            driver->next_epoch = 0;
            take_quorum_actions(driver);
        }
        carry_out(driver);
        drain(driver);
    }
}

/* Bounds what a turn may leave waiting. */
static void settle(struct driver *driver)
{
    drain(driver);
    if (driver->waiting.count > WAITING_MAX || driver->bytes_used > WAITING_BYTES_MAX) {
        driver_flush(driver);
    }
}

/* ---- what comes from outside ---- */

void driver_event(struct driver *driver, struct host_event *event)
{
    if (driver->failed[0] == '\0') {
        step_host(driver, event);
        settle(driver);
    }
}

void driver_post(struct driver *driver, enum host_event_kind kind, uint32_t client)
{
    struct inbox_item *item = queue_push(driver, &driver->host_inbox);
    if (item != NULL) {
        item->kind = kind;
        item->client = client;
    }
}

void driver_tick(struct driver *driver)
{
    int64_t now_ns = read_clock(driver);
    if (driver->failed[0] != '\0' || !driver->started) {
        return;
    }
    if (renewal_next_tick_ns(driver->config.renewal, now_ns) <= now_ns) {
        renewal_tick(driver->config.renewal, now_ns, &driver->quorum_actions);
        take_quorum_actions(driver);
        see_to_session(driver);
    }
    if (quorum_next_tick_ns(driver->config.quorum) <= now_ns) {
        step_quorum(driver, QUORUM_TICK, NULL);
    }
    if (driver->failed[0] == '\0' && host_next_tick_ns(driver->config.host) <= now_ns) {
        struct host_event event = {.kind = HOST_TICK};
        step_host(driver, &event);
    }
    settle(driver);
}

void driver_stalled(struct driver *driver)
{
    if (driver->failed[0] == '\0' && driver->started) {
        step_quorum(driver, QUORUM_STALLED, NULL);
        drain(driver);
        see_to_session(driver);
    }
}

int64_t driver_next_ns(const struct driver *driver)
{
    int64_t due_ns = quorum_next_tick_ns(driver->config.quorum);
    int64_t renewal_ns = renewal_next_tick_ns(driver->config.renewal, driver->last_ns);
    int64_t host_ns = host_next_tick_ns(driver->config.host);
    due_ns = renewal_ns < due_ns ? renewal_ns : due_ns;
    return host_ns < due_ns ? host_ns : due_ns;
}

uint64_t driver_commits(const struct driver *driver)
{
    return driver->commits;
}

const char *driver_failed(const struct driver *driver)
{
    return driver->failed[0] != '\0' ? driver->failed : NULL;
}

/* ---- making it ---- */

void driver_start(struct driver *driver, uint32_t epoch, bool adopted)
{
    struct host_event event = {.kind = HOST_START, .as.lease = {.epoch = epoch}};
    step_quorum(driver, QUORUM_START, NULL);
    step_host(driver, &event);
    driver->told = event.as.lease;
    driver->told_state = RENEWAL_JEOPARDY;
    driver->started = true;
    renewal_start(driver->config.renewal, epoch, adopted, read_clock(driver), draw(driver),
                  &driver->quorum_actions);
    take_quorum_actions(driver);
    driver_flush(driver);
}

struct driver *driver_create(const struct driver_config *config)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    if (driver == NULL) {
        return NULL;
    }
    driver->config = *config;
    driver->quorum_inbox.item_size = sizeof(struct message);
    driver->host_inbox.item_size = sizeof(struct inbox_item);
    driver->waiting.item_size = sizeof(struct waiting);
    driver->quorum_actions.capacity = QUORUM_ROOM;
    driver->quorum_actions.items = calloc(QUORUM_ROOM, sizeof(struct action));
    driver->host_actions.capacity = HOST_STEP_ACTIONS;
    driver->host_actions.items = calloc(HOST_STEP_ACTIONS, sizeof(struct host_action));
    driver->host_actions.output_size = HOST_STEP_OUTPUT;
    driver->host_actions.output = malloc(HOST_STEP_OUTPUT);
    if (driver->quorum_actions.items == NULL || driver->host_actions.items == NULL ||
        driver->host_actions.output == NULL) {
        driver_destroy(driver);
        return NULL;
    }
    return driver;
}

void driver_destroy(struct driver *driver)
{
    if (driver == NULL) {
        return;
    }
    free(driver->quorum_inbox.items);
    free(driver->host_inbox.items);
    free(driver->waiting.items);
    free(driver->bytes);
    free(driver->quorum_actions.items);
    free(driver->host_actions.items);
    free(driver->host_actions.output);
    free(driver);
}
