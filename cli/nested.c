/*
 * Finds the holds of an outer `holdfast lock`: see nested.h.
 */
#include "nested.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "environment.h"

/* Returns the size of the first word of a list. */
static size_t word_size(const char *list)
{
    return strcspn(list, " ");
}

/* Returns the sequencer of the outer hold of the lock `name`, in a static buffer, or NULL if there
 * is no outer hold. */
static const char *outer_sequencer(const char *name)
{
    static char found[HF_SEQUENCER_MAX];
    const char *names = getenv("HOLDFAST_LOCK");
    const char *sequencers = getenv("HOLDFAST_SEQUENCER");

    while (names != NULL && sequencers != NULL && *names != '\0' && *sequencers != '\0') {
        size_t size = word_size(sequencers);

        if (environment_names(names, name) && size < sizeof(found)) {
            memcpy(found, sequencers, size);
            found[size] = '\0';
            return found;
        }
        names += word_size(names);
        names += *names == ' ';
        sequencers += size;
        sequencers += *sequencers == ' ';
    }
    return NULL;
}

/* Sets *held to whether the outer hold of the lock `name` counts now. Returns 0 or the library's
 * error. */
static int outer_check(hf_client *client, const char *name, bool *held)
{
    const char *sequencer = outer_sequencer(name);
    int error = sequencer == NULL ? HF_ESTALE : hf_check_sequencer(client, sequencer);

    *held = error == 0;
    /* The outer hold does not count if it is over (HF_ESTALE), or is of another cell
     * (HF_EINVAL). */
    return error == HF_ESTALE || error == HF_EINVAL ? 0 : error;
}

/* Returns the first of these locks whose outer hold is shared, or NULL. The third part of a
 * sequencer is the mode of its hold. */
static const char *outer_shared(char *const *names, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const char *part = outer_sequencer(names[index]);

        for (int skipped = 0; part != NULL && skipped < 2; skipped++) {
            part = strchr(part, '/');
            part += part != NULL;
        }
        if (part != NULL && strncmp(part, "s/", 2) == 0) {
            return names[index];
        }
    }
    return NULL;
}

int nested_check(hf_client *client, char *const *names, size_t count, bool nested, bool shared,
                 bool *outer)
{
    const char *held_name = NULL;
    const char *free_name = NULL;

    *outer = false;
    for (size_t index = 0; index < count; index++) {
        bool held = false;
        int error = outer_check(client, names[index], &held);

        if (error != 0) {
            (void)cli_fail_call("lock", names[index], error);
            return error == HF_EUNKNOWN ? CLI_NOT_NOW : cli_exit_code(error);
        }
        held_name = held ? names[index] : held_name;
        free_name = held ? free_name : names[index];
    }
    if (held_name == NULL) {
        return 0;
    }
    if (!nested) {
        return cli_usage_error("lock",
                               "\"%s\" is held by the holdfast that runs this command "
                               "(HOLDFAST_LOCK), so this would wait for itself: expected another "
                               "lock, or --nested to run under that hold",
                               held_name);
    }
    if (free_name != NULL) {
        return cli_usage_error("lock",
                               "--nested: the outer hold has \"%s\" but not \"%s\": expected all "
                               "or none of the locks in it",
                               held_name, free_name);
    }
    held_name = shared ? NULL : outer_shared(names, count);
    if (held_name != NULL) {
        return cli_usage_error(
            "lock",
            "--nested: the outer hold of \"%s\" is shared: expected --shared, or "
            "an outer hold that is exclusive",
            held_name);
    }
    *outer = true;
    return 0;
}

int nested_exec(char **command)
{
    int problem;

    (void)execvp(command[0], command);
    problem = errno;
    fprintf(stderr, "holdfast lock: %s: %s\n", command[0], strerror(problem));
    return problem == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}
