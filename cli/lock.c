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

#include "cli.h"
#include "guard.h"
#include "help.h"
#include "lock_arguments.h"
#include "nested.h"
#include "opening.h"
#include "taking.h"
#include "text.h"
#include "waiting.h"
#include "why.h"

enum { COMMAND_SHOWN_SIZE = 256 }; /* the agent shows at most 160 bytes */

/* Takes the open locks, runs CMD, and releases the locks. waiting: the thread that reports why the
 * take waits. */
static int run_holding(const struct lock_arguments *arguments, struct held *held,
                       struct waiting **waiting, const sigset_t *mask)
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
    waiting_end(*waiting);
    (void)waiting_join(waiting); /* before the fork, because a child cannot join this thread */

    if (error != 0) {
        /* No lock is held. opening_failed() may wait seconds for the agent's answer, so from here a
         * signal ends holdfast. */
        (void)sigprocmask(SIG_SETMASK, mask, NULL);
        return opening_failed(arguments, held, error, signal_number);
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

    status = opening_run(arguments, held);
    if (status != 0) {
        return status;
    }
    guard_signals(&signals);
    /* If nobody reads stderr, the line about a lost hold fails, and holdfast goes on: it still has
     * to end CMD and to exit with the status of a lost hold. */
    sigaddset(&signals, SIGPIPE);
    (void)sigprocmask(SIG_BLOCK, &signals, &mask);
    waiting = waiting_begin(held, opening_waiting_lines(arguments), arguments->json);
    status = run_holding(arguments, held, &waiting, &mask);
    held->in_use = !waiting_close(waiting);
    return status;
}

/* Takes the locks and runs CMD, or runs CMD under the outer hold (nested.h). */
static int run_connected(struct lock_arguments *arguments, struct held *held)
{
    const struct nested_options options = {
        .where = "lock",
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
    struct held held = {.where = "lock"};

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
    status = lock_arguments_hint(cli);
    status = status != 0
                 ? status
                 : cli_connect(cli, "lock", opening_agent_wait_ns(&arguments), &held.client);
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
