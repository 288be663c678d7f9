/*
 * `holdfast lock` takes the locks, runs CMD and releases the locks.
 *
 * The order of the steps makes this safe. The command blocks signals before it takes a lock, so
 * that no signal arrives between the take and the start of CMD. It switches the library's events on
 * before a hold begins. It starts CMD only while all holds count. It releases the locks after it
 * has reaped CMD.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "guard.h"
#include "help.h"
#include "lock_arguments.h"
#include "nested.h"
#include "taking.h"
#include "text.h"
#include "waiting.h"
#include "why.h"

enum { COMMAND_SHOWN_SIZE = 256 }; /* the agent shows at most 160 bytes */

static const int64_t agent_wait_min_ns = INT64_C(1) * 1000000000;
static const int64_t agent_wait_max_ns = INT64_C(5) * 1000000000;
static const int64_t unserved_nap_ns = INT64_C(100) * 1000000;

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

static int locks_open(struct lock_arguments *arguments, struct held *held)
{
    const struct hf_lock_options options = {
        .size = sizeof(options),
        .lock_delay_ns = arguments->lock_delay_ns == 0 ? HF_NO_LOCK_DELAY
                                                       : arguments->lock_delay_ns,
        .lease_ns = arguments->lease_ns == lock_unset_ns ? 0 : arguments->lease_ns,
        .max_stall_ns = arguments->max_stall_ns == lock_unset_ns ? 0 : arguments->max_stall_ns,
    };

    for (size_t index = 0; index < held->count; index++) {
        int error = open_in_time(arguments, held->client, held->names[index], &options,
                                 &held->locks[index]);

        if (error == HF_EUNSERVED && !arguments->no_wait) {
            return cli_fail_with(arguments->not_now_status, "lock", "%s: %s: %s",
                                 held->names[index], hf_strerror(HF_ETIMEDOUT), hf_strerror(error));
        }
        if (error != 0) {
            return cli_fail_call("lock", held->names[index], error);
        }
    }
    if (hf_event_fd(held->client) < 0) {
        return cli_fail("lock", "events", HF_ENOMEM);
    }
    return 0;
}

/* Writes a line to stderr about the lock that could not be taken, unless a signal ended the wait.
 * Returns the exit status. */
static int not_taken(const struct lock_arguments *arguments, const struct held *held, int error,
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
        (void)cli_fail_call("lock", what, error);
        return CLI_FAILED; /* a hold ended before the last lock was taken, so CMD never ran */
    }
    return cli_fail_call("lock", what, error);
}

static enum waiting_lines waiting_lines(const struct lock_arguments *arguments)
{
    if (arguments->quiet || arguments->no_wait) {
        return WAITING_NONE;
    }
    return arguments->verbose ? WAITING_ALL : WAITING_ONE;
}

/* Takes the open locks, runs CMD, and releases the locks. waiting: the thread that reports why the
 * take waits. */
static int run_holding(const struct lock_arguments *arguments, struct held *held,
                       struct waiting *waiting, const sigset_t *mask)
{
    const struct guard_options options = {
        .held = held,
        .argv = arguments->command,
        .hint = arguments->hint,
        .mask = mask,
        .kill_after_ns = arguments->kill_after_ns,
        .lock_delay_ns = arguments->lock_delay_ns,
        .lease_ns = arguments->lease_ns == lock_unset_ns ? 0 : arguments->lease_ns,
        .max_stall_ns = arguments->max_stall_ns == lock_unset_ns ? 0 : arguments->max_stall_ns,
        .json = arguments->json,
    };
    int64_t timeout_ns = arguments->wait_ns == lock_unset_ns ? HF_FOREVER : arguments->wait_ns;
    int signal_number;
    size_t lost = 0;
    int error;
    int status;

    error = taking_run(held, arguments->shared ? HF_SHARED : HF_EXCLUSIVE,
                       arguments->no_wait ? 0 : timeout_ns, &signal_number);
    waiting_end(waiting);

    if (error != 0) {
        /* No lock is held. not_taken() may wait seconds for the agent's answer, so from here a
         * signal ends holdfast. */
        (void)sigprocmask(SIG_SETMASK, mask, NULL);
        return not_taken(arguments, held, error, signal_number);
    }
    error = environment_set(held);
    if (error != 0) {
        status = cli_fail("lock", "the environment of the command", error);
    } else {
        status = guard_run(&options);
    }
    error = taking_undo(held, &lost);
    if (error == HF_ELOST && status != CLI_LOST) {
        why_lost(held, lost, ", before the command did", arguments->json);
        status = CLI_LOST;
    }
    return status;
}

static int run_locked(struct lock_arguments *arguments, struct held *held)
{
    struct waiting *waiting;
    sigset_t signals;
    sigset_t mask;
    int status;

    held->locks = calloc(held->count, sizeof(hf_lock *));
    held->holds = calloc(held->count, sizeof(struct hf_hold));
    if (held->locks == NULL || held->holds == NULL) {
        return cli_fail("lock", "names", HF_ENOMEM);
    }
    status = locks_open(arguments, held);
    if (status != 0) {
        return status;
    }
    guard_signals(&signals);
    /* If nobody reads stderr, the line about a lost hold fails, and holdfast goes on: it still has
     * to end CMD and to exit with the status of a lost hold. */
    sigaddset(&signals, SIGPIPE);
    (void)sigprocmask(SIG_BLOCK, &signals, &mask);
    waiting = waiting_begin(held, waiting_lines(arguments), arguments->json);
    status = run_holding(arguments, held, waiting, &mask);
    held->in_use = !waiting_close(waiting);
    return status;
}

/* Returns how long to wait for an agent. This is the time that the user allows for the lock, but at
 * least 1 s, and at most 5 s, which a restart of the agent may take. */
static int64_t agent_wait_ns(const struct lock_arguments *arguments)
{
    int64_t wait_ns = arguments->no_wait ? 0 : arguments->wait_ns;

    if (wait_ns == lock_unset_ns || wait_ns > agent_wait_max_ns) {
        return agent_wait_max_ns;
    }
    return wait_ns < agent_wait_min_ns ? agent_wait_min_ns : wait_ns;
}

/* Takes the locks and runs CMD, or runs CMD under the outer hold (nested.h). */
static int run_connected(struct lock_arguments *arguments, struct held *held)
{
    const struct nested_options options = {
        .names = held->names,
        .count = held->count,
        .nested = arguments->nested,
        .shared = arguments->shared,
    };
    struct outer outer;
    bool under = false;
    int status;

    if (outer_read(&outer) != 0) {
        return cli_fail("lock", "the environment", HF_ENOMEM);
    }
    status = nested_check(held->client, &outer, &options, &under);
    if (status == 0 && !under) {
        outer_prune(&outer, held->client);
        if (outer_export(&outer) != 0) {
            status = cli_fail("lock", "the environment of the command", HF_ENOMEM);
        }
    }
    outer_free(&outer);
    if (status != 0) {
        return status;
    }
    return under ? nested_exec(arguments->command, arguments->hint) : run_locked(arguments, held);
}

/* Joins the words of CMD with spaces, and cuts them off at the end of `out`. Others see this text
 * as the holder's command, because CMD tells them more than the options of holdfast do. */
static void command_join(char *out, size_t size, char *const *words)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t index = 0; words[index] != NULL && used < size; index++) {
        int wrote = snprintf(out + used, size - used, "%s%s", index > 0 ? " " : "", words[index]);

        used += wrote > 0 ? (size_t)wrote : size;
    }
}

static void say_no_agent(int status, const char *sentence, void *arg)
{
    why_no_agent(arg, status, sentence);
}

int command_lock(struct cli *cli, int argc, char **argv)
{
    struct lock_arguments arguments;
    char command[COMMAND_SHOWN_SIZE];
    struct held held = {.client = NULL};

    cli_fail_as_json(cli->json ? stderr : NULL); /* stdout belongs to CMD */
    int status = lock_arguments_read(cli, argc, argv, &arguments);

    cli_fail_as_json(cli->json ? stderr : NULL);
    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "lock");
    }
    status = status != 0 ? status : lock_arguments_check(cli, &arguments);
    if (status != 0) {
        return status;
    }
    command_join(command, sizeof(command), arguments.command);
    cli->command = command;
    arguments.json = cli->json;
    held.names = arguments.names;
    held.count = arguments.name_count;
    cli->no_agent = say_no_agent;
    cli->no_agent_arg = &held;
    if (!cli->json) {
        lock_arguments_hint(cli); /* called before the wait for an agent */
    }
    status = cli_connect(cli, "lock", agent_wait_ns(&arguments), &held.client);
    if (status != 0) {
        return status;
    }
    status = run_connected(&arguments, &held);
    if (!held.in_use) {
        /* if the thread still uses the client, the end of this process disconnects it */
        hf_disconnect(held.client);
        free(held.locks);
    }
    free(held.holds);
    return status;
}
