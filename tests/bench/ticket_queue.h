/*
 * The least cost of first come, first served between processes: a bare queue of tickets in shared
 * memory, without leases, tokens, deadlines or any care for a dead waiter.
 *
 * A newcomer draws a ticket from one counter. Each ticket has a cell of its own cache line, in
 * which the previous holder writes the ticket's number: a hand-over touches no other waiter's line
 * and wakes no other waiter. A waiter looks at its cell for a short while, then marks it and sleeps
 * on it by futex; the process that hands over makes the system call only for a marked cell.
 *
 * There are at most TICKET_CELLS waiters at a time, so a cell's ticket has been served before the
 * next ticket of the same cell is drawn.
 */
#ifndef BENCH_TICKET_QUEUE_H
#define BENCH_TICKET_QUEUE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

enum { TICKET_CELLS = 64 };

struct ticket_cell {
    /* the ticket whose turn it is, times 2, and 1 if its owner sleeps */
    alignas(64) _Atomic uint32_t turn;
};

struct ticket_queue {
    alignas(64) _Atomic uint32_t next;
    struct ticket_cell cells[TICKET_CELLS];
};

/* Zeroed memory is a queue whose first ticket may enter. Returns the ticket, to be given to
 * ticket_queue_leave. */
uint32_t ticket_queue_enter(struct ticket_queue *queue);
void ticket_queue_leave(struct ticket_queue *queue, uint32_t ticket);

#endif
