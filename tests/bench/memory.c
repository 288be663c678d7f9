/*
 * The memory of one more lock. The bench measures an agent that has seen 1,000 names of 32 bytes,
 * and measures it again after 100,000 more names. The figure is the difference divided by 100,000.
 *
 * The figure counts the memory that the kernel frees when the agent and its regions are gone:
 * memory of the process without a file (heap, stacks, anonymous mappings, changed pages of its
 * program), and the pages of its regions that are in use (the agent allocates all pages at its
 * start). The figure does not count the page cache, the pages of the store that SQLite maps, the
 * kernel's own memory, and the clients' memory. SQLite's own page cache is in the heap and cannot
 * be separated from it, so it is counted; its configured limit bounds this error.
 *
 * Several threads take the names for the first time, each with its own client, so that the agent
 * can commit several names with one flush. All threads are connected before the first measurement.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/holdfast.h>

#include "agent.h"
#include "figures.h"

enum {
    THREADS = 16,
    NAMES_BEFORE = 1000,
    NAMES_ADDED = 100000,
    NAMES_ADDED_QUICK = 5000,
    NAME_SIZE = 32,
};

static const int64_t settle_ns = INT64_C(1500000000);
static const int64_t acquire_timeout_ns = INT64_C(30000000000);

struct loader {
    pthread_t thread;
    hf_client *client;
    uint32_t first; /* this thread takes every THREADS-th name from `first` on, below `end` */
    uint32_t end;
    bool keep; /* true: the handles stay open */
    int result;
};

static int load_one(struct loader *loader, uint32_t index)
{
    char name[NAME_SIZE + 1];
    hf_lock *lock = NULL;
    snprintf(name, sizeof(name), "bench-memory-%019u", index);
    int error = hf_open(loader->client, name, NULL, &lock);
    if (error == 0) {
        error = hf_acquire(lock, HF_EXCLUSIVE, acquire_timeout_ns, NULL);
    }
    if (error == 0) {
        error = hf_release(lock);
    }
    if (!loader->keep) {
        hf_close(lock); /* if this thread keeps the handle, hf_disconnect() closes it after the
                         * measurement */
    }
    return error == 0 ? 0 : complain("%s: %s", name, hf_strerror(error));
}

static void *loader_main(void *arg)
{
    struct loader *loader = arg;
    for (uint32_t i = loader->first; i < loader->end && loader->result == 0; i += THREADS) {
        loader->result = interrupted() ? -1 : load_one(loader, i);
    }
    return NULL;
}

/* Takes each name from number `begin` to number `end` - 1 once. */
static int load(struct loader loaders[THREADS], uint32_t begin, uint32_t end)
{
    int result = 0;
    uint32_t started = 0;
    while (result == 0 && started < THREADS) {
        struct loader *loader = &loaders[started];
        loader->first = begin + started;
        loader->end = end;
        int error = pthread_create(&loader->thread, NULL, loader_main, loader);
        if (error != 0) {
            result = complain("pthread_create: %s", strerror(error));
        } else {
            started++;
        }
    }
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(loaders[i].thread, NULL);
        if (loaders[i].result != 0) {
            result = -1;
        }
    }
    return result;
}

static int connect_all(struct loader loaders[THREADS], const struct agent *agent)
{
    struct hf_options options = {.size = sizeof(options), .socket = agent->socket};
    for (uint32_t i = 0; i < THREADS; i++) {
        int error = hf_connect(&options, &loaders[i].client);
        if (error != 0) {
            return complain("connecting: %s", hf_strerror(error));
        }
    }
    return 0;
}

/* Loads the first names and the added names, and reads the memory after each of these two steps. */
static int measure_growth(const struct agent *agent, struct loader loaders[THREADS], uint32_t added,
                          struct agent_memory *before, struct agent_memory *after)
{
    if (connect_all(loaders, agent) != 0 || load(loaders, 0, NAMES_BEFORE) != 0) {
        return -1;
    }
    pause_ns(settle_ns);
    if (agent_memory_read(agent, before) != 0 ||
        load(loaders, NAMES_BEFORE, NAMES_BEFORE + added) != 0) {
        return -1;
    }
    pause_ns(settle_ns);
    return agent_memory_read(agent, after);
}

static int measure_memory(const struct bench *bench, struct figure *figure, bool keep)
{
    struct agent agent;
    struct agent_memory before = {0};
    struct agent_memory after = {0};
    struct loader loaders[THREADS];
    const uint32_t added = bench->effort.quick ? NAMES_ADDED_QUICK : NAMES_ADDED;
    struct side *sum = figure_side(figure, "agent and its regions", "bytes/lock", 1);
    struct side *own = figure_side(figure, "  of it: agent's own memory", "bytes/lock", 1);
    struct side *regions = figure_side(figure, "  of it: pages of its regions in use", "bytes/lock",
                                       1);
    struct side *pss = figure_side(figure, "beside: growth of the agent's PSS", "bytes/lock", 1);

    memset(loaders, 0, sizeof(loaders));
    for (uint32_t i = 0; i < THREADS; i++) {
        loaders[i].keep = keep;
    }
    int result = agent_start(&agent, bench->directory);
    if (result == 0) {
        result = measure_growth(&agent, loaders, added, &before, &after);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        hf_disconnect(loaders[i].client);
    }
    agent_stop(&agent);
    double own_growth = (after.own - before.own) / added;
    double region_growth = (after.regions - before.regions) / added;
    series_add(&sum->series, own_growth + region_growth);
    series_add(&own->series, own_growth);
    series_add(&regions->series, region_growth);
    series_add(&pss->series, (after.pss - before.pss) / added);
    figure_verdict(figure, "bytes for a further lock", own_growth + region_growth, BOUND_AT_MOST,
                   256.0);
    snprintf(figure->note, sizeof(figure->note),
             "from %d to %u names of %d bytes, handles %s; in all %.1f MiB own, %.1f MiB regions; "
             "SQLite's page cache is counted, its mapped pages are not",
             NAMES_BEFORE, NAMES_BEFORE + added, NAME_SIZE, keep ? "kept open" : "closed",
             after.own / 1048576, after.regions / 1048576);
    return result;
}

int figure_memory_closed(const struct bench *bench, struct figure *figure)
{
    return measure_memory(bench, figure, false);
}

int figure_memory_open(const struct bench *bench, struct figure *figure)
{
    return measure_memory(bench, figure, true);
}
