/*
 * Time, randomness and the boot id, from the kernel.
 *
 * Everything that decides is CLOCK_BOOTTIME. libuv's timers run on MONOTONIC, which stands still
 * while the machine is suspended, so the agent's one timer is a timerfd on BOOTTIME.
 */
#ifndef IO_CLOCK_H
#define IO_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_BOOTTIME, ns. */
int64_t clock_boottime_ns(void);
/* The processor time that the calling thread has had. A system call. */
int64_t clock_thread_ns(void);

/* Fresh random bits, from a small buffer that is filled by getrandom(2). Not thread-safe. */
uint64_t clock_random(void);

/* The kernel's boot id. false: it cannot be read. */
bool clock_boot_id(uint8_t out[16]) __attribute__((warn_unused_result));

/*
 * By how many millionths the kernel makes its clocks run faster (positive) or slower than the
 * hardware, by adjtimex(2). false: it is not known.
 */
bool clock_adjustment_ppm(int64_t *ppm) __attribute__((warn_unused_result));

/* A timerfd on BOOTTIME, not blocking; -1: errno says why. */
int clock_timer_open(void) __attribute__((warn_unused_result));
/* Fires at due_ns (at once if that is past); INT64_MAX: never. */
void clock_timer_set(int fd, int64_t due_ns);
/* Forgets that it fired. */
void clock_timer_drain(int fd);

#endif
