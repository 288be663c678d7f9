/*
 * Polled waiters: processes in which no thread sleeps until the lock is theirs
 * (hf_acquire_start()). A process that hands the lock to such a waiter rings the agent. This module
 * then pokes the waiter's client, so that the client's event descriptor becomes readable.
 *
 * Invariant: a poke changes neither the lock's word nor its queue, so one poke too many does no
 * harm. The program takes its turn when it calls hf_next_event().
 */
#ifndef HOST_POLLED_H
#define HOST_POLLED_H

#include "hub.h"

/* Pokes the clients of the lock's polled waiters that can go on. Call it whenever the agent has
 * looked at the lock, or has changed it. */
void polled_attend(struct host *host, struct lock_ref at);

#endif
