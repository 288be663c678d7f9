/*
 * The parts that a change of a lock in a cell cannot do without, measured beside it: a round trip
 * over a socket, a round trip between two agents' inboxes, a flush of a store. Each is done by
 * processes of its own that wait for orders in between, so that a figure can take turns with its
 * floors.
 *
 *   socket     64 bytes there and back on a SEQPACKET socketpair, blocking calls
 *   transport  300 bytes there and back between two processes, through agent/io/transport and a
 *              libuv loop, as an agent has it
 *   flush      a register and a slot in one commit of a store (agent/io/store), alone
 *   flush_3    the same in three stores at once, as three voters do it
 *
 * One after the other without a pause, or one each period: a machine that has rested takes longer
 * to wake up a thread than one that is at work, so what is measured with pauses needs floors that
 * are. The three flushes of flush_3 begin together then.
 *
 * NNG does not survive a fork, so the bench itself never opens it.
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

/* Call floors_stop() after a failure, too. */
int floors_start(struct floors *floors, const char *below) MUST_CHECK;
/* period_ns: the time from the beginning of one operation to that of the next; 0: without
 * pauses. */
int floors_measure(struct floors *floors, uint32_t operations, int64_t period_ns,
                   struct floor_times *out) MUST_CHECK;
void floors_stop(struct floors *floors);

#endif
