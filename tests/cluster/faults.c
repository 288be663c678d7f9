/* See faults.h: the library between a process and libc. */
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum { STALL_STEP_MS = 2, MILLION = 1000000 };

static const int64_t second_ns = 1000000000;
static struct faults_host *own; /* NULL: this process has no faults */

static struct faults *map_file(const char *path, int flags)
{
    struct faults *faults = MAP_FAILED;
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
    if (fd >= 0 && ((flags & O_CREAT) == 0 || ftruncate(fd, sizeof(*faults)) == 0)) {
        faults = mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    return faults == MAP_FAILED ? NULL : faults;
}

struct faults *faults_create(const char *path)
{
    return map_file(path, O_CREAT | O_EXCL);
}

void faults_become(struct faults *faults, unsigned host)
{
    own = &faults->hosts[host];
}

__attribute__((constructor)) static void find_file(void)
{
    const char *path = getenv(FAULTS_FILE);
    const char *host = getenv(FAULTS_HOST);
    struct faults *faults = path && host ? map_file(path, 0) : NULL;
    if (faults) {
        faults_become(faults, (unsigned)atoi(host));
    }
}

/* These functions must be visible, so that they replace libc's, even if the build hides other
 * names. */
#pragma GCC visibility push(default)

/* ---- the clock ---- */

static int64_t to_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * second_ns + time->tv_nsec;
}

static struct timespec from_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / second_ns, .tv_nsec = ns % second_ns};
}

/* Returns left * over / under, without the overflow of left * over. */
static int64_t scale(int64_t left, int64_t over, int64_t under)
{
    return left / under * over + left % under * over / under;
}

static int64_t to_local(const struct faults_host *host, int64_t true_ns)
{
    return host->base_ns + scale(true_ns - host->base_ns, MILLION + host->rate_ppm, MILLION);
}

/* The result is rounded up, so that a sleep until that time does not end too early. */
static int64_t to_true(const struct faults_host *host, int64_t local_ns)
{
    return host->base_ns + scale(local_ns - host->base_ns, MILLION, MILLION + host->rate_ppm) + 1;
}

int64_t faults_true_ns(const struct faults *faults, unsigned host, int64_t local_ns)
{
    const struct faults_host *clock = &faults->hosts[host];
    return clock->base_ns == 0 ? local_ns : to_true(clock, local_ns) - 1;
}

int64_t faults_true_duration_ns(const struct faults *faults, unsigned host, int64_t local_ns)
{
    const struct faults_host *clock = &faults->hosts[host];
    return clock->base_ns == 0 ? local_ns : scale(local_ns, MILLION, MILLION + clock->rate_ppm);
}

static bool is_skewed(clockid_t clock)
{
    return own && own->base_ns != 0 && (clock == CLOCK_BOOTTIME || clock == CLOCK_MONOTONIC_COARSE);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) {
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    int result = real(clock, now);
    if (result == 0 && is_skewed(clock)) {
        *now = from_ns(to_local(own, to_ns(now)));
    }
    return result;
}

int adjtimex(struct timex *out)
{
    int result = (int)syscall(SYS_clock_adjtime, CLOCK_REALTIME, out);
    if (result >= 0 && own) {
        out->tick += atomic_load(&own->adjusted_ppm) / 100; /* a tick is 10,000 us, so 1 us more is
                                                             * 100 ppm */
    }
    return result;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *request,
                    struct timespec *left)
{
    struct timespec until = *request;
    if (is_skewed(clock) && (flags & TIMER_ABSTIME) != 0) {
        until = from_ns(to_true(own, to_ns(request)));
    }
    return syscall(SYS_clock_nanosleep, clock, flags, &until, left) == 0 ? 0 : errno;
}

/* All absolute timers of these processes use CLOCK_BOOTTIME. */
int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
    struct itimerspec copy = *when;
    bool armed = when->it_value.tv_sec != 0 || when->it_value.tv_nsec != 0;
    if (armed && is_skewed(CLOCK_BOOTTIME) && (flags & TFD_TIMER_ABSTIME) != 0) {
        int64_t until_ns = to_true(own, to_ns(&when->it_value));
        copy.it_value = from_ns(until_ns > 0 ? until_ns : 1);
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, &copy, old);
}

/* ---- the disk ---- */

/* Counts and delays a flush. Returns whether it may reach the kernel. If not, errno is set. */
static bool flush_may_go_on(void)
{
    if (!own) {
        return true;
    }
    atomic_fetch_add(&own->flushes, 1);
    uint32_t delay_ms = atomic_load(&own->flush_delay_ms);
    if (atomic_load(&own->stalled) || delay_ms != 0) {
        atomic_fetch_add(&own->slow, 1);
    }
    if (delay_ms != 0) {
        poll(NULL, 0, (int)delay_ms);
    }
    while (atomic_load(&own->stalled)) { /* the test ends the stall */
        poll(NULL, 0, STALL_STEP_MS);
    }
    errno = atomic_load(&own->flush_error);
    if (errno != 0) {
        atomic_fetch_add(&own->failed, 1);
    }
    return errno == 0;
}

int fdatasync(int fd)
{
    return flush_may_go_on() ? (int)syscall(SYS_fdatasync, fd) : -1;
}

int fsync(int fd)
{
    return flush_may_go_on() ? (int)syscall(SYS_fsync, fd) : -1;
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    int error = own ? atomic_load(&own->write_error) : 0;
    uint32_t delay_us = own ? atomic_load(&own->write_delay_us) : 0;
    if (delay_us != 0) {
        const struct timespec pause = {.tv_nsec = (long)delay_us * 1000};
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    if (error != 0) {
        atomic_fetch_add(&own->failed, 1);
        errno = error;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (own && mode == 0) {
        atomic_fetch_add(&own->making, 1);
        while (atomic_load(&own->making_stalled)) { /* the test ends this stall, too */
            poll(NULL, 0, STALL_STEP_MS);
        }
        atomic_fetch_sub(&own->making, 1);
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

/* ---- the processor ---- */

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (own && gettid() == getpid()) {
        uint32_t delay_ms = atomic_exchange(&own->send_delay_ms, 0);
        if (delay_ms != 0) {
            poll(NULL, 0, (int)delay_ms);
        }
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

#pragma GCC visibility pop
