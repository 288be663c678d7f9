/* A bad switch: carries packets between the ports of the test's network, late, twice, in another
 * order, damaged, or not at all. */
#ifndef TESTS_CLUSTER_RELAY_H
#define TESTS_CLUSTER_RELAY_H

#include <stdatomic.h>
#include <stdint.h>

enum { RELAY_PORTS_MAX = 8 };

/* The faults from one port to another. The chances are per 10,000 frames. */
struct relay_link {
    uint32_t delay_us;
    uint32_t jitter_us; /* up to so much is added, so frames overtake each other */
    uint16_t lost;
    uint16_t doubled;   /* the copy comes up to a millisecond later */
    uint16_t late;      /* the frame comes some ms after those behind it */
    uint16_t corrupted; /* one bit is flipped, and the checksum is left as it was */
    uint16_t altered;   /* one bit of TCP's payload is flipped, and the checksum is made right */
    uint16_t reset;     /* a TCP segment becomes a reset of its connection */
};

/* Counts, in memory that the relay shares with the test. */
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

/* Carries packets until the process is killed, in the namespace with the interfaces port0, port1,
 * ... Ends the process if it cannot. */
void relay_run(const struct relay_plan *plan) __attribute__((noreturn));

#endif
