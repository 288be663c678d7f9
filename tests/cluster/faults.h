/*
 * Faults of a host's kernel for the processes of a test: flushes and writes of files that stall,
 * are slow or fail, a thread that gets no processor, and a clock that runs too fast or too slow, or
 * is reported to.
 *
 * faults.c stands between these processes and libc: preloaded into agents, and
 * linked into the test itself for the workers that it forks. The faults stand in a file that all of
 * them map, so they change while they run. Reads are left alone.
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
    _Atomic int write_error; /* so do writes at an offset (the store's) */
    _Atomic uint32_t flush_delay_ms;
    _Atomic uint32_t write_delay_us;
    _Atomic int adjusted_ppm;       /* by so much the kernel says that it adjusts its clock */
    _Atomic uint32_t send_delay_ms; /* the main thread's next sendmsg() waits for so long, once */
    _Atomic int making_stalled;     /* so does memory that is taken for a file */
    _Atomic uint64_t making;        /* calls that wait for that now */
    _Atomic uint64_t flushes;       /* how many there were, */
    _Atomic uint64_t slow;          /* had to wait, */
    _Atomic uint64_t failed;        /* or failed; writes count here too */
    int64_t rate_ppm;               /* for as long as anybody uses the clock */
    int64_t base_ns;                /* 0: the clock is true */
};

struct faults {
    struct faults_host hosts[FAULTS_HOSTS];
};

/* Names in the environment of a process into which the library is preloaded. */
#define FAULTS_FILE "HOLDFAST_FAULTS"
#define FAULTS_HOST "HOLDFAST_FAULTS_HOST"

/* A new file at path, with nothing in it that happens. NULL with errno. */
struct faults *faults_create(const char *path);

/* The calling process is on that host from now on. */
void faults_become(struct faults *faults, unsigned host);

/* The true CLOCK_BOOTTIME when that host's is local_ns. */
int64_t faults_true_ns(const struct faults *faults, unsigned host, int64_t local_ns);
/* How long that truly is which that host measures as local_ns. */
int64_t faults_true_duration_ns(const struct faults *faults, unsigned host, int64_t local_ns);

#endif
