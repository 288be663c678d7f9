/* A bad switch: carries packets between the ports of the test's network, late, twice, in another
 * order, damaged, or not at all. */
#ifndef TESTS_CLUSTER_RELAY_H
#define TESTS_CLUSTER_RELAY_H

#include <stdatomic.h>
#include <stdint.h>

enum { RELAY_PORTS_MAX = 8 };

/* The faults on the way from one port to another; the chances are in a myriad of frames. */
struct relay_link {
    uint32_t delay_us;
    uint32_t jitter_us; /* at most that much longer; frames overtake each other */
    uint16_t lost;
    uint16_t doubled;   /* the second one comes up to a millisecond later */
    uint16_t late;      /* some ms later than those behind it */
    uint16_t corrupted; /* a bit is another; the checksum stays as it was */
    uint16_t altered;   /* a bit of what TCP carries is another, and the checksum fits */
    uint16_t reset;     /* a TCP segment that ends its connection, wherever its stream stands */
};

/* In memory that the relay shares with the test. */
struct relay_counts {
    _Atomic uint64_t frames;
    _Atomic uint64_t lost;
    _Atomic uint64_t doubled;
    _Atomic uint64_t late;
    _Atomic uint64_t corrupted;
    _Atomic uint64_t altered;
    _Atomic uint64_t reset;
};

struct relay_plan {
    unsigned ports;
    uint64_t seed;
    struct relay_link links[RELAY_PORTS_MAX][RELAY_PORTS_MAX]; /* [from][to] */
    struct relay_counts *counts;
};

/* Does so until the process is killed, in the namespace that has the interfaces port0, port1, ...;
 * ends the process if it cannot. */
void relay_run(const struct relay_plan *plan) __attribute__((noreturn));

#endif
