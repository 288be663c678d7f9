/*
 * A bare queue of tickets in shared memory, without leases, tokens or deadlines. It shows what it
 * costs at least to serve processes in the order in which they came. It does not handle a waiter
 * that dies.
 *
 * A process draws its ticket from one counter. Each ticket has a cell on its own cache line. The
 * previous holder writes the ticket's number there, so a hand-over touches no other waiter's line
 * and wakes no other waiter. A waiter polls its cell for a short while; then it marks the cell and
 * sleeps by a futex on it. The previous holder makes the system call that wakes the waiter only if
 * the cell is marked.
 *
 * At most TICKET_CELLS processes wait at a time. So a cell's ticket has been served before the next
 * ticket of this cell is drawn.
 */
#ifndef BENCH_TICKET_QUEUE_H
#define BENCH_TICKET_QUEUE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

enum { TICKET_CELLS = 64 };

struct ticket_cell {
    /* 2 times the last ticket of this cell whose turn has come, plus 1 if the owner of the cell's
     * next ticket sleeps */
    alignas(64) _Atomic uint32_t turn;
};

struct ticket_queue {
    alignas(64) _Atomic uint32_t next;
    struct ticket_cell cells[TICKET_CELLS];
};

/* Zeroed memory is an empty queue. ticket_queue_enter() returns the ticket, which the caller passes
 * to ticket_queue_leave(). */
uint32_t ticket_queue_enter(struct ticket_queue *queue);
void ticket_queue_leave(struct ticket_queue *queue, uint32_t ticket);

#endif
