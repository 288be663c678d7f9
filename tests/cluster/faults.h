/*
 * Faults of a host's kernel for the processes of a test: flushes and writes of files that stall,
 * are slow or fail; a thread that gets no processor; a clock that runs too fast or too slow, or
 * that the kernel reports to be adjusted.
 *
 * faults.c stands between these processes and libc. It is preloaded into agents, and linked into
 * the test itself for the workers that the test forks. The faults are in a file that all these
 * processes map, so they can change while the processes run. Reads have no faults.
 *
 * A failed flush leaves the written bytes in the page cache, as a real one does. The next process
 * that opens the file can read them, although they are not on the disk.
 *
 * From `base_ns` on a host's CLOCK_BOOTTIME gains `rate_ppm` microseconds in each second, or loses
 * them if `rate_ppm` is negative. CLOCK_MONOTONIC_COARSE, which the library reads because it is
 * cheaper, changes in the same way. Sleeps until a time of CLOCK_BOOTTIME are translated. Durations
 * are not changed.
 */
#ifndef TESTS_CLUSTER_FAULTS_H
#define TESTS_CLUSTER_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

enum { FAULTS_HOSTS = 8 };

struct faults_host {
    _Atomic int stalled;     /* flushes wait while it is not 0 */
    _Atomic int flush_error; /* flushes fail with this errno; 0: they do not */
    _Atomic int write_error; /* writes at an offset, which only the store makes, fail with this
                              * errno; 0: they do not */
    _Atomic uint32_t flush_delay_ms;
    _Atomic uint32_t write_delay_us;
    _Atomic int adjusted_ppm;       /* the adjustment of the clock that the kernel reports */
    _Atomic uint32_t send_delay_ms; /* how long the main thread's next sendmsg() waits; later calls
                                     * do not wait */
    _Atomic int making_stalled;     /* calls of fallocate() wait while it is not 0 */
    _Atomic uint64_t making;        /* how many calls of fallocate() wait now */
    _Atomic uint64_t flushes;       /* how many flushes there were */
    _Atomic uint64_t slow;          /* how many of these flushes had to wait */
    _Atomic uint64_t failed;        /* how many flushes and writes failed */
    int64_t rate_ppm;               /* must not change while a process uses the clock */
    int64_t base_ns;                /* the time from which the clock is wrong; 0: the clock is
                                     * true */
};

struct faults {
    struct faults_host hosts[FAULTS_HOSTS];
};

/* variables in the environment of a process into which the library is preloaded */
#define FAULTS_FILE "HOLDFAST_FAULTS"
#define FAULTS_HOST "HOLDFAST_FAULTS_HOST"

/* Makes the file at path, with no fault set. Returns NULL with errno on failure. */
struct faults *faults_create(const char *path);

/* Gives the calling process the faults of that host from now on. */
void faults_become(struct faults *faults, unsigned host);

/* Returns the true CLOCK_BOOTTIME at which that host's clock shows local_ns. */
int64_t faults_true_ns(const struct faults *faults, unsigned host, int64_t local_ns);
/* Returns the true length of a duration that the host measures as local_ns. */
int64_t faults_true_duration_ns(const struct faults *faults, unsigned host, int64_t local_ns);

#endif
