/*
 * Time, randomness and the boot id, from the kernel.
 *
 * All deadlines are times of CLOCK_BOOTTIME. libuv's timers use CLOCK_MONOTONIC, which stands still
 * while the machine is suspended. So the agent has one timer of its own, a timerfd on
 * CLOCK_BOOTTIME.
 */
#ifndef IO_CLOCK_H
#define IO_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_BOOTTIME in ns. */
int64_t clock_boottime_ns(void);
/* Returns the processor time of the calling thread in ns. This is a system call. */
int64_t clock_thread_ns(void);

/* Returns random bits, from a small buffer that getrandom(2) fills. Only one thread may call
 * this. */
uint64_t clock_random(void);

/* Writes the kernel's boot id to out. Returns false if it cannot be read. */
bool clock_boot_id(uint8_t out[16]) __attribute__((warn_unused_result));

/* Returns the number of the time namespace whose CLOCK_BOOTTIME this process reads; 0 if the kernel
 * has no time namespaces, or does not report the number. The clocks of two time namespaces may
 * differ by any amount. */
uint64_t clock_space(void);

/*
 * Sets *ppm to how much faster (positive) or slower (negative) the kernel runs its clocks than the
 * hardware, in millionths (adjtimex(2)). Returns false if that is not known.
 */
bool clock_adjustment_ppm(int64_t *ppm) __attribute__((warn_unused_result));

/* Returns a non-blocking timerfd on CLOCK_BOOTTIME; -1 with errno on failure. */
int clock_timer_open(void) __attribute__((warn_unused_result));
/* Sets the timer to due_ns; a time in the past makes it fire at once. INT64_MAX: it never fires. */
void clock_timer_set(int fd, int64_t due_ns);
/* Reads the timer's expiry, so that the descriptor is no longer readable. */
void clock_timer_drain(int fd);

#endif
