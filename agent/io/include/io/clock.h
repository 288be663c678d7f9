/*
 * Time, randomness and the boot id, from the kernel.
 *
 * All deadlines are times of CLOCK_BOOTTIME. libuv's timers use CLOCK_MONOTONIC, which stands still
 * while the machine is suspended. So the agent's one timer is a timerfd on CLOCK_BOOTTIME instead.
 */
#ifndef IO_CLOCK_H
#define IO_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_BOOTTIME in ns. */
int64_t clock_boottime_ns(void);
/* The processor time of the calling thread in ns. This is a system call. */
int64_t clock_thread_ns(void);

/* Returns random bits, from a small buffer that getrandom(2) fills. Only one thread may call
 * this. */
uint64_t clock_random(void);

/* Writes the kernel's boot id to out. Returns false if it cannot be read. */
bool clock_boot_id(uint8_t out[16]) __attribute__((warn_unused_result));

/*
 * Sets *ppm to how many millionths faster (positive) or slower (negative) the kernel runs its
 * clocks than the hardware counts (adjtimex(2)). Returns false if that is not known.
 */
bool clock_adjustment_ppm(int64_t *ppm) __attribute__((warn_unused_result));

/* A non-blocking timerfd on CLOCK_BOOTTIME; -1 with errno on failure. */
int clock_timer_open(void) __attribute__((warn_unused_result));
/* Sets the timer to due_ns (at once if that is past); INT64_MAX: never. */
void clock_timer_set(int fd, int64_t due_ns);
/* Reads the timer's expiry, so that the descriptor is not readable any more. */
void clock_timer_drain(int fd);

#endif
