/*
 * The times of the parts that every change of a lock in a cell needs (its floors), measured in the
 * same run. Separate processes do these operations when the bench orders it, so that a figure can
 * alternate with its floors. There are four floors:
 *
 *   socket     64 bytes there and back on a SEQPACKET socketpair, with blocking calls
 *   transport  300 bytes there and back between two processes, through agent/io/transport and a
 *              libuv loop, as in an agent
 *   flush      a register and a slot in one commit of one store (agent/io/store)
 *   flush_3    the same in three stores at the same time, as in three voters
 *
 * The operations follow each other without a pause, or one begins in each period. A machine that
 * has rested takes longer to wake up a thread than a busy machine. So a figure with pauses needs
 * floors with pauses. With pauses, the three flushes of flush_3 begin together.
 *
 * NNG does not survive a fork, so the bench's own process never opens it.
 */
#ifndef BENCH_FLOORS_H
#define BENCH_FLOORS_H

#include <sys/types.h>

#include "measure.h"

enum { FLOOR_STORES = 3, FLOOR_PROCESSES = FLOOR_STORES + 3 };

struct floors {
    char directory[512];
    struct {
        pid_t pid;
        int fd; /* carries orders and answers */
    } workers[FLOOR_PROCESSES];
    unsigned ports[2];
};

/* The medians of one round, in us. */
struct floor_times {
    double socket;
    double transport;
    double flush;
    double flush_3;
};

/* Starts the processes. Call floors_stop() after a failure, too. */
int floors_start(struct floors *floors, const char *below) MUST_CHECK;
/* Measures `operations` operations of each floor. A new operation begins every period_ns; 0:
 * without pauses. */
int floors_measure(struct floors *floors, uint32_t operations, int64_t period_ns,
                   struct floor_times *out) MUST_CHECK;
void floors_stop(struct floors *floors);

#endif
