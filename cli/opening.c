/*
 * Opens the locks of `holdfast lock` and `holdfast hold`: see opening.h.
 */
#include "opening.h"

#include <stdlib.h>
#include <time.h>

#include "why.h"

static const int64_t agent_wait_min_ns = INT64_C(1) * 1000000000;
static const int64_t agent_wait_max_ns = INT64_C(5) * 1000000000;
static const int64_t unserved_nap_ns = INT64_C(100) * 1000000;

int64_t opening_agent_wait_ns(const struct lock_arguments *arguments)
{
    int64_t wait_ns = arguments->no_wait ? 0 : arguments->wait_ns;

    if (wait_ns == lock_unset_ns || wait_ns > agent_wait_max_ns) {
        return agent_wait_max_ns;
    }
    return wait_ns < agent_wait_min_ns ? agent_wait_min_ns : wait_ns;
}

/* Opens a lock. An agent that has given the namespace up serves it again within seconds. So if the
 * user allows a wait for the lock, this function also waits until the namespace is served again,
 * and reduces arguments->wait_ns by the time of that wait. */
static int open_in_time(struct lock_arguments *arguments, hf_client *client, const char *name,
                        const struct hf_lock_options *options, hf_lock **out)
{
    const struct timespec nap = {.tv_nsec = unserved_nap_ns};
    bool for_ever = arguments->wait_ns == lock_unset_ns;
    int error = hf_open(client, name, options, out);

    while (error == HF_EUNSERVED && !arguments->no_wait && (for_ever || arguments->wait_ns > 0)) {
        (void)nanosleep(&nap, NULL);
        arguments->wait_ns -= for_ever ? 0 : unserved_nap_ns;
        error = hf_open(client, name, options, out);
    }
    arguments->wait_ns = for_ever || arguments->wait_ns > 0 ? arguments->wait_ns : 0;
    return error;
}

static int open_all(struct lock_arguments *arguments, struct held *held)
{
    const struct hf_lock_options options = {
        .size = sizeof(options),
        .lock_delay_ns = arguments->lock_delay_ns == 0 ? HF_NO_LOCK_DELAY
                                                       : arguments->lock_delay_ns,
        .lease_ns = arguments->lease_ns == lock_unset_ns ? 0 : arguments->lease_ns,
        .max_stall_ns = arguments->max_stall_ns == lock_unset_ns ? 0 : arguments->max_stall_ns,
        .note = arguments->note,
    };

    for (size_t index = 0; index < held->count; index++) {
        int error = open_in_time(arguments, held->client, held->names[index], &options,
                                 &held->locks[index]);

        if (error == HF_EUNSERVED && !arguments->no_wait) {
            return cli_fail_with(arguments->not_now_status, held->where, "%s: %s: %s",
                                 held->names[index], hf_strerror(HF_ETIMEDOUT), hf_strerror(error));
        }
        if (error != 0) {
            return cli_fail_call(held->where, held->names[index], error);
        }
    }
    if (hf_event_fd(held->client) < 0) {
        return cli_fail(held->where, "events", HF_ENOMEM);
    }
    return 0;
}

int opening_run(struct lock_arguments *arguments, struct held *held)
{
    held->locks = calloc(held->count, sizeof(hf_lock *));
    held->holds = calloc(held->count, sizeof(struct hf_hold));
    if (held->locks == NULL || held->holds == NULL) {
        return cli_fail(held->where, "names", HF_ENOMEM);
    }
    return open_all(arguments, held);
}

enum waiting_lines opening_waiting_lines(const struct lock_arguments *arguments)
{
    if (arguments->quiet || arguments->no_wait) {
        return WAITING_NONE;
    }
    return arguments->verbose ? WAITING_ALL : WAITING_ONE;
}

int opening_failed(const struct lock_arguments *arguments, const struct held *held, int error,
                   int signal_number)
{
    const char *what = held->count == 1 ? held->names[0] : "taking all of the locks";

    if (signal_number != 0) {
        return CLI_SIGNAL_BASE + signal_number;
    }
    if (error == HF_EBUSY || error == HF_ETIMEDOUT) {
        return why_not_had(held, error, arguments->not_now_status, arguments->json);
    }
    if (error == HF_ELOST) {
        (void)cli_fail_call(held->where, what, error);
        return CLI_FAILED; /* a hold ended before the last lock was taken, so CMD never ran */
    }
    return cli_fail_call(held->where, what, error);
}
