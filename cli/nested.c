/*
 * Finds the holds of an outer `holdfast lock`: see nested.h.
 */
#include "nested.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "cli.h"

/* Sets *held to the index of the outer hold of the lock `name` that counts now, or to the number of
 * outer holds if there is none. Returns 0 or the library's error. */
static int outer_check(hf_client *client, const struct outer *outer, const char *name, size_t *held)
{
    for (*held = 0; *held < outer->count; ++*held) {
        const struct outer_hold *hold = &outer->holds[*held];
        int error = outer_is(hold, name) ? hf_check_sequencer(client, outer_sequencer(hold))
                                         : HF_ESTALE;

        /* An outer hold does not count if it is over (HF_ESTALE), or is of another cell
         * (HF_EINVAL). */
        if (error != HF_ESTALE && error != HF_EINVAL) {
            return error;
        }
    }
    return 0;
}

/* Returns whether the hold is shared. The third part of a sequencer is the mode of its hold. */
static bool is_shared(const struct outer_hold *hold)
{
    const char *part = outer_sequencer(hold);

    for (int skipped = 0; part != NULL && skipped < 2; skipped++) {
        part = strchr(part, '/');
        part += part != NULL;
    }
    return part != NULL && strncmp(part, "s/", 2) == 0;
}

/* Finds the outer hold of each of these locks that counts now (outer_check()). Returns 0, or the
 * exit status after a line on stderr. */
static int find_all(hf_client *client, const struct outer *outer,
                    const struct nested_options *options, size_t *held)
{
    for (size_t index = 0; index < options->count; index++) {
        int error = outer_check(client, outer, options->names[index], &held[index]);

        if (error != 0) {
            (void)cli_fail_call(options->where, options->names[index], error);
            return error == HF_EUNKNOWN ? CLI_NOT_NOW : cli_exit_code(error);
        }
    }
    return 0;
}

/* Returns whether every outer hold of one of the locks is shared. */
static bool all_shared(const struct outer *outer, const struct nested_options *options,
                       const size_t *held)
{
    for (size_t index = 0; index < options->count; index++) {
        if (held[index] < outer->count && !is_shared(&outer->holds[held[index]])) {
            return false;
        }
    }
    return true;
}

/* Returns 0 if this command may run under the outer holds, else CLI_USAGE after a line on stderr.
 * held_at: the index of a lock that an outer command holds. free_name: a lock that no outer command
 * holds, or NULL. */
static int may_nest(const struct outer *outer, const struct nested_options *options,
                    const size_t *held, size_t held_at, const char *free_name)
{
    const char *held_name = options->names[held_at];
    const char *variable = outer_variable(&outer->holds[held[held_at]]);
    const char *advice = strcmp(options->where, "lock") == 0
                             ? "another lock, or --nested to run under that hold"
                             : "another lock";

    if (!options->nested && options->shared && all_shared(outer, options, held)) {
        return cli_usage_error(options->where,
                               "\"%s\" is held shared by the holdfast that runs this command "
                               "(%s), and this would wait behind every writer that waits for "
                               "that hold to end: expected %s",
                               held_name, variable, advice);
    }
    if (!options->nested) {
        return cli_usage_error(options->where,
                               "\"%s\" is held by the holdfast that runs this command (%s), so "
                               "this would wait for itself: expected %s",
                               held_name, variable, advice);
    }
    if (free_name != NULL) {
        return cli_usage_error("lock",
                               "--nested: the outer hold has \"%s\" but not \"%s\": expected all "
                               "or none of the locks in it",
                               held_name, free_name);
    }
    for (size_t index = 0; index < options->count; index++) {
        if (!options->shared && is_shared(&outer->holds[held[index]])) {
            return cli_usage_error(
                "lock",
                "--nested: the outer hold of \"%s\" is shared: expected --shared, or "
                "an outer hold that is exclusive",
                options->names[index]);
        }
    }
    return 0;
}

int nested_check(hf_client *client, struct outer *outer, const struct nested_options *options,
                 bool *under)
{
    size_t *held = calloc(options->count, sizeof(*held));
    const char *free_name = NULL;
    size_t held_at = options->count; /* the index of a lock that an outer command holds */
    int status;

    *under = false;
    if (held == NULL) {
        return cli_fail(options->where, "names", HF_ENOMEM);
    }
    status = find_all(client, outer, options, held);
    for (size_t index = 0; index < options->count && status == 0; index++) {
        bool has = held[index] < outer->count;

        held_at = has ? index : held_at;
        free_name = has ? free_name : options->names[index];
    }
    if (status == 0 && held_at < options->count) {
        status = may_nest(outer, options, held, held_at, free_name);
        *under = status == 0;
    }
    if (*under && outer_adopt(outer, held, options->count) != 0) {
        status = cli_fail(options->where, "the environment of the command", HF_ENOMEM);
    }
    free(held);
    return status;
}

int nested_exec(char **command, const char *hint)
{
    (void)execvp(command[0], command);
    return child_not_executed(command[0], errno, hint);
}
