/*
 * The driver: gives events to the two cores and carries out what they want, in an order that keeps
 * every promise durable before it is made.
 *
 *   an event -> host core -> actions -> messages to the quorum core -> actions -> ...
 *
 * What is to be persisted goes into one open batch of the store. Whatever leaves the process, or
 * changes a region (frames, lifelines, messages for the host core), waits behind an open batch
 * until driver_flush() has committed it, once for all events of a loop turn; then it is carried
 * out, which may begin the next batch. Messages to the own quorum core are not made to wait: all
 * that they can do is to add to the same batch and to queue more behind it. So the first acquire of
 * a new name costs one commit: slot, promise and value go together.
 *
 * If the store fails, nothing that waits is carried out and driver_failed() says so: the process
 * must end, its memory is ahead of its disk.
 *
 * It also keeps the session: it tells the host core each change of the lease, and begins a new
 * epoch (durable first) when one is lost.
 *
 * One thread; time and randomness come from its operations.
 */
#ifndef AGENT_DRIVER_H
#define AGENT_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/host.h"
#include "core/quorum.h"
#include "core/renewal.h"
#include "io/store.h"

struct driver;

struct driver_operations {
    /* Carries out a HOST_REPLY (bytes: its frame), WELCOMED, HANG_UP, FORGET, ALIAS or LOG. May
     * call driver_post(), nothing else. */
    void (*act)(void *arg, const struct host_action *action, const unsigned char *bytes);
    /* Before anybody is told this deadline. */
    void (*promise)(void *arg, uint32_t epoch, int64_t deadline_ns);
    /* For people: the session's state changed. */
    void (*session)(void *arg, enum renewal_state state, uint32_t epoch);
    int64_t (*now_ns)(void *arg); /* CLOCK_BOOTTIME */
    uint64_t (*random)(void *arg);
    void *arg;
};

struct driver_config {
    struct host *host; /* all borrowed */
    struct quorum *quorum;
    struct renewal *renewal;
    struct store *store;
    struct message_agent self;
    const char *const *spaces; /* names of the namespaces, by index */
    struct driver_operations operations;
};

struct driver *driver_create(const struct driver_config *config);
void driver_destroy(struct driver *driver);

/* Starts the cores and the session: epoch is durable; adopted: it continues. */
void driver_start(struct driver *driver, uint32_t epoch, bool adopted);

/* An event for the host core; now_ns and random are filled in. */
void driver_event(struct driver *driver, struct host_event *event);

/* HANGUP, DIED or DRAINED of a client, from within act(): done soon, before flush returns. */
void driver_post(struct driver *driver, enum host_event_kind kind, uint32_t client);

/* Timers that are due. */
void driver_tick(struct driver *driver);

/* This process stood still. Before anything else that happened meanwhile. */
void driver_stalled(struct driver *driver);

/* The end of a loop turn: commits, and carries out what waited. */
void driver_flush(struct driver *driver);

/* When driver_tick() is wanted; INT64_MAX: never. */
int64_t driver_next_ns(const struct driver *driver);

/* How many batches were committed so far. */
uint64_t driver_commits(const struct driver *driver);

/* NULL, or why the process must end. */
const char *driver_failed(const struct driver *driver);

#endif
