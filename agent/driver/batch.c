/* Queues and batches of the driver: see batch.h. */
#include "driver/batch.h"

#include <stdlib.h>
#include <string.h>

#include "proto/check.h"

/* ---- queues ---- */

enum { FIFO_HEADER = 8, FIFO_FIRST_SIZE = 4096 };

static size_t rounded(size_t size)
{
    return (size + 7) / 8 * 8;
}

static bool fifo_grow(struct fifo *fifo, size_t wanted)
{
    size_t size = fifo->size == 0 ? FIFO_FIRST_SIZE : fifo->size;
    while (size < wanted) {
        size *= 2;
    }
    unsigned char *bytes = realloc(fifo->bytes, size);
    if (bytes == NULL) {
        return false;
    }
    fifo->bytes = bytes;
    fifo->size = size;
    return true;
}

void *fifo_push(struct fifo *fifo, size_t size)
{
    size_t room = FIFO_HEADER + rounded(size);
    /* Moves the items to the front once they take fewer bytes than the dropped items before them.
     * So each byte moves about once. */
    if (fifo->used + room > fifo->size && fifo->head > fifo->used - fifo->head) {
        memmove(fifo->bytes, fifo->bytes + fifo->head, fifo->used - fifo->head);
        fifo->used -= fifo->head;
        fifo->head = 0;
    }
    if (fifo->used + room > fifo->size && !fifo_grow(fifo, fifo->used + room)) {
        return NULL;
    }
    uint64_t stored = size;
    memcpy(fifo->bytes + fifo->used, &stored, sizeof(stored));
    void *item = fifo->bytes + fifo->used + FIFO_HEADER;
    fifo->used += room;
    fifo->count++;
    return item;
}

void *fifo_first(const struct fifo *fifo, size_t *size)
{
    uint64_t stored;
    if (fifo->count == 0) {
        return NULL;
    }
    memcpy(&stored, fifo->bytes + fifo->head, sizeof(stored));
    *size = (size_t)stored;
    return fifo->bytes + fifo->head + FIFO_HEADER;
}

static void fifo_clear(struct fifo *fifo)
{
    fifo->head = 0;
    fifo->used = 0;
    fifo->count = 0;
}

void fifo_drop(struct fifo *fifo)
{
    size_t size;
    HF_CHECK(fifo_first(fifo, &size) != NULL);
    fifo->head += FIFO_HEADER + rounded(size);
    fifo->count--;
    if (fifo->count == 0) {
        fifo_clear(fifo);
    }
}

void fifo_release(struct fifo *fifo)
{
    free(fifo->bytes);
    memset(fifo, 0, sizeof(*fifo));
}

/* ---- records ---- */

#define RECORD_ACTION(member) offsetof(struct driver_record, as.action.as.member)
#define RECORD_ACTION_SIZE(member)                                                                 \
    (RECORD_ACTION(member) + sizeof(((struct driver_record *)NULL)->as.action.as.member))
#define RECORD_SIZE(member)                                                                        \
    (offsetof(struct driver_record, as.member) + sizeof(((struct driver_record *)NULL)->as.member))

/* Returns how many bytes of a DRIVER_ACTION record are used. */
static size_t record_size(const struct action *action)
{
    const struct message_value *value = &action->as.reg.value;
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
        return RECORD_ACTION_SIZE(round);
    case ACTION_PERSIST_PROMISE:
        return RECORD_ACTION_SIZE(promise);
    case ACTION_PERSIST_REGISTER:
        HF_CHECK(value->share_count <= MESSAGE_SHARES_MAX);
        return RECORD_ACTION(reg.value.shares) + value->share_count * sizeof(value->shares[0]);
    case ACTION_PERSIST_MARK:
        return RECORD_ACTION_SIZE(mark);
    case ACTION_PERSIST_DELETED:
        return RECORD_ACTION_SIZE(deleted);
    case ACTION_PERSIST_CHECKPOINT:
        return RECORD_ACTION_SIZE(checkpoint);
    case ACTION_PERSIST_MEMBER:
        return RECORD_ACTION_SIZE(member);
    case ACTION_PERSIST_SEEN:
        return RECORD_ACTION_SIZE(seen);
    case ACTION_PERSIST_REJOINED:
    case ACTION_PERSIST_RECOVERED:
        return RECORD_ACTION(round);
    case ACTION_PERSIST_VOTERS:
        return RECORD_ACTION_SIZE(voters);
    case ACTION_PERSIST_CHANGE:
        return RECORD_ACTION_SIZE(change);
    case ACTION_VOTERS:
    case ACTION_SEEK:
    case ACTION_SEND:
    case ACTION_LOG:
        break;
    }
    HF_CHECK(!"only what is to be persisted is put into a batch");
    return 0;
}

static struct driver_record *add_record(struct driver_batch *batch, enum driver_record_kind kind,
                                        size_t size)
{
    struct driver_record *record = fifo_push(&batch->records, size);
    if (record != NULL) {
        record->kind = kind;
    }
    return record;
}

bool batch_add_action(struct driver_batch *batch, const struct action *action)
{
    size_t size = record_size(action);
    struct driver_record *record = add_record(batch, DRIVER_ACTION, size);
    if (record == NULL) {
        return false;
    }
    memcpy((unsigned char *)record + offsetof(struct driver_record, as.action), action,
           size - offsetof(struct driver_record, as.action));
    batch->quorum_rows++;
    batch->promises += action->kind == ACTION_PERSIST_PROMISE;
    if (action->kind == ACTION_PERSIST_VOTERS) {
        batch->complete = action->as.voters.complete ? action->as.voters.number : 0;
    }
    return true;
}

bool batch_add_slot(struct driver_batch *batch, const struct host_action *action)
{
    struct driver_record *record = add_record(
        batch, action->kind == HOST_PERSIST_SLOT ? DRIVER_SLOT : DRIVER_NO_SLOT, RECORD_SIZE(slot));
    if (record == NULL) {
        return false;
    }
    record->as.slot.region = action->as.slot.region;
    record->as.slot.slot = action->as.slot.slot;
    record->as.slot.name = action->as.slot.name;
    batch->host_rows++;
    return true;
}

bool batch_add_epoch(struct driver_batch *batch, uint32_t epoch)
{
    struct driver_record *record = add_record(batch, DRIVER_EPOCH, RECORD_SIZE(epoch));
    if (record == NULL) {
        return false;
    }
    record->as.epoch = epoch;
    batch->epoch = true;
    return true;
}

const struct driver_record *driver_batch_next(const struct driver_batch *batch, size_t *at)
{
    uint64_t size;
    if (*at >= batch->records.used) {
        return NULL;
    }
    const unsigned char *item = batch->records.bytes + *at;
    memcpy(&size, item, sizeof(size));
    *at += FIFO_HEADER + rounded((size_t)size);
    return (const struct driver_record *)(const void *)(item + FIFO_HEADER);
}

/* ---- messages and actions that wait for a batch ---- */

static struct waiting_item *add_waiting(struct driver_batch *batch, enum waiting_what what,
                                        const void *body, size_t body_size, size_t bytes_size)
{
    size_t whole = WAITING_BODY + rounded(body_size) + bytes_size;
    struct waiting_item *waiting = fifo_push(&batch->waiting, whole);
    if (waiting != NULL) {
        memset(waiting, 0, sizeof(*waiting));
        waiting->what = what;
        waiting->body_size = (uint32_t)body_size;
        memcpy((unsigned char *)waiting + WAITING_BODY, body, body_size);
    }
    return waiting;
}

bool batch_wait_message(struct driver_batch *batch, const struct message_agent *to,
                        const struct message *message)
{
    struct waiting_item *waiting = add_waiting(batch, to == NULL ? WAITING_OWN : WAITING_PEER,
                                               message, message_size(message), 0);
    if (waiting == NULL) {
        return false;
    }
    if (to != NULL) {
        waiting->to = *to;
    } else if (message_is_for_host(message->kind) && message->kind != MESSAGE_RENEW_ACK &&
               message->kind != MESSAGE_HELLO_ACK) {
        batch->grants++;
    }
    return true;
}

#define ACTION_SIZE(member)                                                                        \
    (offsetof(struct host_action, as.member) + sizeof(((struct host_action *)NULL)->as.member))

/* Returns the size of the used part of an action. Only for actions that may wait for a batch. */
static size_t action_size(const struct host_action *action)
{
    switch (action->kind) {
    case HOST_REPLY:
        return ACTION_SIZE(reply);
    case HOST_WELCOMED:
    case HOST_FORGET:
    case HOST_ALIAS:
        return ACTION_SIZE(identity);
    case HOST_HANG_UP:
        return ACTION_SIZE(text);
    case HOST_LOG:
        return ACTION_SIZE(log);
    case HOST_FACTS:
    case HOST_BACKUP:
        return ACTION_SIZE(request);
    case HOST_PERSIST_SLOT:
    case HOST_PERSIST_NO_SLOT:
    case HOST_SEND:
        break;
    }
    HF_CHECK(!"an action that does not wait as such");
    return 0;
}

bool batch_wait_action(struct driver_batch *batch, const struct host_action *action,
                       const unsigned char *bytes)
{
    size_t size = action_size(action);
    size_t bytes_size = action->kind == HOST_REPLY ? action->as.reply.size : 0;
    struct waiting_item *waiting = add_waiting(batch, WAITING_ACTION, action, size, bytes_size);
    if (waiting == NULL) {
        return false;
    }
    if (bytes_size > 0) {
        memcpy((unsigned char *)waiting + WAITING_BODY + rounded(size), bytes, bytes_size);
    }
    return true;
}

/* ---- the end ---- */

void batch_clear(struct driver_batch *batch)
{
    fifo_clear(&batch->records);
    fifo_clear(&batch->waiting);
    batch->host_rows = 0;
    batch->quorum_rows = 0;
    batch->promises = 0;
    batch->grants = 0;
    batch->epoch = false;
    batch->complete = 0;
}

void batch_release(struct driver_batch *batch)
{
    fifo_release(&batch->records);
    fifo_release(&batch->waiting);
}
