/*
 * Clients that use new names as fast as they can. Each client opens, acquires, releases and closes
 * one name after the other, in its own thread and with its own connection.
 */
#ifndef BENCH_CELL_LOAD_H
#define BENCH_CELL_LOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "cell.h"

enum { LOAD_CLIENTS = 16 };

/* One open + acquire. */
struct load_sample {
    int64_t start_ns;
    int64_t took_ns;
    uint32_t coordinator; /* the name's coordinator while all hosts are alive */
};

struct load_client {
    pthread_t thread;
    struct load *load;
    hf_client *client;
    uint32_t index;
    struct load_sample *samples;
    size_t count;
    bool failed;
};

struct load {
    struct load_client clients[LOAD_CLIENTS];
    uint32_t started;
    atomic_bool stop;
    uint32_t series; /* the load's number, a part of the names that it uses, so that two loads share
                      * no name */
};

enum { LOAD_SAMPLES_MAX = 1 << 18 }; /* the greatest number of recorded samples of a client */

/* Starts the clients. A host whose bit is set in `spared` gets no client; its clients go to the
 * other hosts. Call load_stop() after a failure, too. */
int load_start(struct load *load, const struct cell *cell, uint32_t spared,
               uint32_t series) MUST_CHECK;
/* Stops the clients. Returns -1 after complain() if one of them failed. The samples stay until
 * load_free(). */
int load_stop(struct load *load) MUST_CHECK;
void load_free(struct load *load);

/* The acquires of a window of time. */
struct load_window {
    double median_us, longest_us;
    /* the 99.9th percentile, without the names of one coordinator */
    double tail_us;
    uint64_t count;
};

/* Fills in *out from the acquires that were under way at any moment of the window. out->tail_us
 * leaves out the names that host `without` coordinates; CELL_HOSTS leaves out none. */
int load_look(const struct load *load, int64_t start_ns, int64_t end_ns, uint32_t without,
              struct load_window *out) MUST_CHECK;

#endif
