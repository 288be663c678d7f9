/*
 * Faults of a host's kernel for the processes of a test: flushes and writes of files that stall,
 * are slow or fail, a thread that gets no processor, and a clock that runs too fast or too slow, or
 * is reported to.
 *
 * faults.c stands between these processes and libc: preloaded into agents, and linked into the test
 * itself for the workers that it forks. The faults are in a file that all these processes map, so
 * they can change while the processes run. Reads are left alone.
 *
 * A failed flush leaves the written bytes in the page cache, as a real one does: the next process
 * that opens the file can read them, though they are not on the disk.
 *
 * The clock: CLOCK_BOOTTIME of a host goes on with `rate_ppm` more or less than a million
 * microseconds a second from `base_ns` on, and so does CLOCK_MONOTONIC_COARSE, which stands in for
 * it. Sleeps until a moment of BOOTTIME are translated; durations are true.
 */
#ifndef TESTS_CLUSTER_FAULTS_H
#define TESTS_CLUSTER_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

enum { FAULTS_HOSTS = 8 };

struct faults_host {
    _Atomic int stalled;     /* flushes wait until this is 0 again */
    _Atomic int flush_error; /* flushes fail with this errno; 0: they do not */
    _Atomic int write_error; /* writes at an offset (the store's) fail with this errno */
    _Atomic uint32_t flush_delay_ms;
    _Atomic uint32_t write_delay_us;
    _Atomic int adjusted_ppm;       /* the adjustment of the clock that the kernel reports */
    _Atomic uint32_t send_delay_ms; /* the main thread's next sendmsg() waits for so long, once */
    _Atomic int making_stalled;     /* taking memory for a file waits until this is 0 again */
    _Atomic uint64_t making;        /* calls that wait for making_stalled now */
    _Atomic uint64_t flushes;       /* how many flushes there were */
    _Atomic uint64_t slow;          /* how many of these had to wait */
    _Atomic uint64_t failed;        /* how many flushes and writes failed */
    int64_t rate_ppm;               /* never changes while a process uses the clock */
    int64_t base_ns;                /* 0: the clock is true */
};

struct faults {
    struct faults_host hosts[FAULTS_HOSTS];
};

/* Names in the environment of a process into which the library is preloaded. */
#define FAULTS_FILE "HOLDFAST_FAULTS"
#define FAULTS_HOST "HOLDFAST_FAULTS_HOST"

/* Makes a file at path, without any fault in it. Returns NULL with errno. */
struct faults *faults_create(const char *path);

/* From now on the calling process is on that host. */
void faults_become(struct faults *faults, unsigned host);

/* Returns the true CLOCK_BOOTTIME at which that host's clock shows local_ns. */
int64_t faults_true_ns(const struct faults *faults, unsigned host, int64_t local_ns);
/* Returns the true length of a duration that the host measures as local_ns. */
int64_t faults_true_duration_ns(const struct faults *faults, unsigned host, int64_t local_ns);

#endif
