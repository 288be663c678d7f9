/* A bad switch. It carries packets between the ports of the test's network. It delays, duplicates,
 * reorders, damages or loses some of them. */
#ifndef TESTS_CLUSTER_RELAY_H
#define TESTS_CLUSTER_RELAY_H

#include <stdatomic.h>
#include <stdint.h>

enum { RELAY_PORTS_MAX = 8 };

/* The faults of frames from one port to another. The chances are per 10,000 frames. */
struct relay_link {
    uint32_t delay_us;
    uint32_t jitter_us; /* up to this further delay, at random, so frames overtake each other */
    uint16_t lost;
    uint16_t doubled;   /* the copy is up to a millisecond later */
    uint16_t late;      /* the frame is 1 to 20 ms late, so frames that follow it arrive first */
    uint16_t corrupted; /* one bit is flipped, and the checksum is not corrected */
    uint16_t altered;   /* one bit of TCP's data is flipped, and the checksum is corrected */
    uint16_t reset;     /* a TCP segment becomes a reset of its connection */
};

/* The numbers of frames and faults, in memory that the relay shares with the test. */
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

/* Carries packets between the interfaces port0, port1 and so on of its namespace, until the process
 * is killed. Ends the process on a failure. */
void relay_run(const struct relay_plan *plan) __attribute__((noreturn));

#endif
