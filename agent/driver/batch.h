/*
 * The driver's queues (first in, first out) of items of different sizes, and its batches: records
 * for the disk, with the messages and actions that wait for them.
 *
 * Messages and actions are structs with room for the largest. A queue copies only the used part of
 * each. Queues are on the heap and grow as needed.
 */
#ifndef AGENT_BATCH_H
#define AGENT_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/driver.h"

/* ---- queues ---- */

struct fifo {
    unsigned char *bytes;
    size_t size;
    size_t head;
    size_t used;
    uint32_t count;
};

/* Appends an item, and returns its memory: aligned to 8, not initialised, valid until the next
 * push. Returns NULL if there is no memory. */
void *fifo_push(struct fifo *fifo, size_t size) __attribute__((warn_unused_result));
/* Returns the first item; NULL if there is none. It is valid until fifo_drop() or the next push. */
void *fifo_first(const struct fifo *fifo, size_t *size);
void fifo_drop(struct fifo *fifo);
void fifo_release(struct fifo *fifo);

/* ---- batches ---- */

enum waiting_what {
    WAITING_OWN = 1, /* a message for this agent's own cores */
    WAITING_PEER,    /* a message for another agent */
    WAITING_ACTION,  /* an action of the host core, with the bytes of its frame */
};

/* The header of an item in driver_batch.waiting. The message or the action follows it, and the
 * frame's bytes follow the action. */
struct waiting_item {
    enum waiting_what what;
    uint32_t body_size;
    struct message_agent to; /* only of WAITING_PEER */
};

enum { WAITING_BODY = (sizeof(struct waiting_item) + 7) / 8 * 8 };

struct driver_batch {
    struct fifo records;
    struct fifo waiting;
    uint32_t host_rows;   /* the number of records of the host core */
    uint32_t quorum_rows; /* the number of records of the quorum core */
    uint32_t promises;    /* the number of promises among quorum_rows */
    uint32_t grants;      /* how many grants and other messages for this agent's host core wait */
    bool epoch;           /* the records include the next session's epoch */
    uint32_t complete;    /* the number of a record of voters that is complete according to
                           * `records`; 0: none */
};

/* These functions append a record to the batch; only its used part is copied. They return false if
 * there is no memory. */
bool batch_add_action(struct driver_batch *batch, const struct action *action)
    __attribute__((warn_unused_result));
bool batch_add_slot(struct driver_batch *batch, const struct host_action *action)
    __attribute__((warn_unused_result));
bool batch_add_epoch(struct driver_batch *batch, uint32_t epoch)
    __attribute__((warn_unused_result));

/* Copies a message or an action that has to wait. `to` NULL: the message goes to this agent.
 * Returns false if there is no memory. */
bool batch_wait_message(struct driver_batch *batch, const struct message_agent *to,
                        const struct message *message) __attribute__((warn_unused_result));
bool batch_wait_action(struct driver_batch *batch, const struct host_action *action,
                       const unsigned char *bytes) __attribute__((warn_unused_result));

/* Empties the batch, and keeps its memory. */
void batch_clear(struct driver_batch *batch);
void batch_release(struct driver_batch *batch);

#endif
