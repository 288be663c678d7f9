/*
 * Polled waiters: processes in which no thread sleeps until the lock is theirs
 * (hf_acquire_start()). A process that hands such a waiter the lock rings. This module then pokes
 * the waiter's client, whose descriptor of events becomes readable.
 */
#ifndef HOST_POLLED_H
#define HOST_POLLED_H

#include "hub.h"

/* Pokes the clients of the lock's polled waiters that can go on. To be called whenever the agent
 * has looked at the lock, or has changed it. */
void polled_attend(struct host *host, struct lock_ref at);

#endif
