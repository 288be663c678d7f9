/*
 * Watches over CMD while CMD runs under its holds.
 *
 * One loop waits for these events: CMD ends or stops, a signal must be passed on, the library has
 * an event, CMD reports progress, or the timer on CLOCK_BOOTTIME fires. During a hold the timer is
 * set to the last known deadline. When the timer fires, hf_remaining_ns() says, without the agent,
 * how far renewals have moved that deadline. When the hold has ended, CMD's group gets SIGTERM, and
 * the timer is set to the time of SIGKILL:
 *
 *   deadline          deadline + lock-delay x 9/10        deadline + lock-delay
 *   |- SIGTERM        |- SIGKILL at the latest            |- the next holder at the earliest
 *
 * The last tenth of the lock-delay is for the difference between the rates of two clocks, and is
 * far longer than the kernel needs to deliver a signal. The coordinator lengthens the lock-delay
 * before it grants the lock to another host, so that the tenth is enough for any max_drift
 * (rules_closed_ns() in the agent).
 *
 * If holdfast is killed, its two guard processes end CMD's group (guard_process.h).
 *
 * A stopped holdfast cannot watch. So if the user stops the job with Ctrl-Z, CMD stops first, and
 * holdfast only after CMD. When holdfast is continued, it looks at the hold before it continues
 * CMD.
 */
#ifndef HOLDFAST_CLI_GUARD_H
#define HOLDFAST_CLI_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "environment.h"

struct guard_options {
    const struct held *held;
    char **argv;           /* CMD */
    const char *hint;      /* the end of the message that CMD could not be executed */
    const sigset_t *mask;  /* the signal mask for CMD, with which holdfast was started */
    int64_t kill_after_ns; /* the longest time from SIGTERM to SIGKILL */
    int64_t lock_delay_ns; /* 0: none */
    int64_t lease_ns;      /* --lease; 0: no limit */
    bool json;             /* the line about a lost hold is a JSON object */
    /* --max-stall: CMD gets a descriptor for its reports of progress; 0: no limit */
    int64_t max_stall_ns;
};

/* Sets *out to the signals that holdfast passes on to CMD. The caller blocks them before it takes
 * the locks, so that none is lost before CMD runs. */
void guard_signals(sigset_t *out);

/*
 * Starts CMD and waits for its end. Returns the exit status of holdfast: CMD's own, 128+n after
 * signal n, CLI_LOST if a hold ended while CMD ran, or 126, 127 or 70 if CMD could not be started.
 * Does not release the holds. Must be called on the main thread.
 */
int guard_run(const struct guard_options *options) __attribute__((warn_unused_result));

#endif
