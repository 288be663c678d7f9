/*
 * The bare queue of ticket_queue.h. A cell stores the low 31 bits of the ticket: two tickets with
 * the same 31 bits are 2^31 apart, and never wait at the same time.
 */
#include "ticket_queue.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How often a waiter reads its cell before it sleeps. These reads take about a microsecond, less
 * than a sleep and a wake. */
static const int looks_before_sleep = 100;

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool is_turn(uint32_t turn, uint32_t ticket)
{
    return turn >> 1 == (ticket & (UINT32_MAX >> 1));
}

uint32_t ticket_queue_enter(struct ticket_queue *queue)
{
    /* relaxed: the counter only numbers the tickets; the exchange on the cell publishes the
     * protected data */
    uint32_t ticket = atomic_fetch_add_explicit(&queue->next, 1, memory_order_relaxed);
    _Atomic uint32_t *cell = &queue->cells[ticket % TICKET_CELLS].turn;
    for (int look = 0; look < looks_before_sleep; look++) {
        /* acquire: pairs with the exchange in ticket_queue_leave */
        if (is_turn(atomic_load_explicit(cell, memory_order_acquire), ticket)) {
            return ticket;
        }
        relax();
    }
    for (;;) { /* the loop ends, because the holders of all earlier tickets leave */
        /* acquire: pairs with the exchange in ticket_queue_leave */
        uint32_t turn = atomic_load_explicit(cell, memory_order_acquire);
        if (is_turn(turn, ticket)) {
            return ticket;
        }
        /* relaxed: the mark publishes nothing. If the exchange in ticket_queue_leave comes first,
         * this compare-and-swap fails; otherwise the exchange sees the mark. */
        if (atomic_compare_exchange_strong_explicit(cell, &turn, turn | 1, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            syscall(SYS_futex, cell, FUTEX_WAIT, turn | 1, NULL, NULL, 0);
        }
    }
}

void ticket_queue_leave(struct ticket_queue *queue, uint32_t ticket)
{
    uint32_t next = ticket + 1;
    _Atomic uint32_t *cell = &queue->cells[next % TICKET_CELLS].turn;
    /* release: pairs with the acquire loads in ticket_queue_enter */
    uint32_t was = atomic_exchange_explicit(cell, next << 1, memory_order_release);
    if ((was & 1) != 0) {
        syscall(SYS_futex, cell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}
