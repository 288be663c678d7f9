/*
 * Reads and writes the environment variables of outer holds: see outer.h.
 */
#include "outer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"

static const char *const nearest_variables[OUTER_VARIABLES] = {"HOLDFAST_LOCK", "HOLDFAST_TOKEN",
                                                               "HOLDFAST_SEQUENCER"};
static const char *const further_variables[OUTER_VARIABLES] = {
    "HOLDFAST_OUTER_LOCK", "HOLDFAST_OUTER_TOKEN", "HOLDFAST_OUTER_SEQUENCER"};

/* Returns the number of words in a list. */
static size_t count_words(const char *list)
{
    size_t count = 0;

    while (*(list += strspn(list, " ")) != '\0') {
        list += strcspn(list, " ");
        count++;
    }
    return count;
}

/* Appends the holds that three variables name, and cuts the lists into words. If one
 * list is shorter than another, the rest of the longer list is ignored. */
static void append(struct outer *out, char **texts, bool nearest)
{
    char *rest[OUTER_VARIABLES];

    memcpy(rest, texts, sizeof(rest));
    for (;;) {
        struct outer_hold hold = {.nearest = nearest};

        for (size_t which = 0; which < OUTER_VARIABLES; which++) {
            hold.words[which] = strsep(&rest[which], " ");
            if (hold.words[which] == NULL || hold.words[which][0] == '\0') {
                return;
            }
        }
        out->holds[out->count++] = hold;
    }
}

int outer_read(struct outer *out)
{
    size_t room = 0;

    *out = (struct outer){.count = 0};
    for (size_t which = 0; which < 2 * OUTER_VARIABLES; which++) {
        const char *const *variables = which < OUTER_VARIABLES ? nearest_variables
                                                               : further_variables;
        const char *value = getenv(variables[which % OUTER_VARIABLES]);

        out->texts[which] = strdup(value != NULL ? value : "");
        if (out->texts[which] == NULL) {
            outer_free(out);
            return HF_ENOMEM;
        }
        room += which % OUTER_VARIABLES == 0 ? count_words(out->texts[which]) : 0;
    }
    out->holds = calloc(room + 1, sizeof(*out->holds));
    if (out->holds == NULL) {
        outer_free(out);
        return HF_ENOMEM;
    }
    append(out, out->texts, true);
    append(out, out->texts + OUTER_VARIABLES, false);
    return 0;
}

void outer_free(struct outer *outer)
{
    for (size_t which = 0; which < 2 * OUTER_VARIABLES; which++) {
        free(outer->texts[which]);
    }
    free(outer->holds);
    *outer = (struct outer){.count = 0};
}

bool outer_is(const struct outer_hold *hold, const char *name)
{
    return environment_names(hold->words[0], name);
}

const char *outer_sequencer(const struct outer_hold *hold)
{
    return hold->words[2];
}

const char *outer_variable(const struct outer_hold *hold)
{
    return (hold->nearest ? nearest_variables : further_variables)[0];
}

void outer_prune(struct outer *outer, hf_client *client)
{
    size_t kept = 0;
    int error = 0;

    for (size_t index = 0; index < outer->count; index++) {
        /* If the agent cannot answer about one hold, each further question could take as long, so
         * this function asks no more. A hold of another cell (HF_EINVAL) is kept, because it may
         * count in that cell. */
        if (error == 0 || error == HF_ESTALE || error == HF_EINVAL) {
            error = hf_check_sequencer(client, outer_sequencer(&outer->holds[index]));
        }
        if (error != HF_ESTALE) {
            outer->holds[kept++] = outer->holds[index];
        }
    }
    outer->count = kept;
}

/* Sets a variable to a list, which has words[which] of each hold in `indexes`, or of the first
 * `count` holds if `indexes` is NULL. */
static int set_list(const struct outer *outer, const size_t *indexes, size_t count, size_t which,
                    const char *variable)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int error = 0;

    if (out == NULL) {
        return HF_ENOMEM;
    }
    for (size_t index = 0; index < count; index++) {
        const struct outer_hold *hold = &outer->holds[indexes != NULL ? indexes[index] : index];

        fprintf(out, "%s%s", index > 0 ? " " : "", hold->words[which]);
    }
    if (fclose(out) != 0 || setenv(variable, text, 1) != 0) {
        error = HF_ENOMEM;
    }
    free(text);
    return error;
}

int outer_export(const struct outer *outer)
{
    int error = 0;

    for (size_t which = 0; which < OUTER_VARIABLES && error == 0; which++) {
        if (outer->count == 0) {
            (void)unsetenv(further_variables[which]);
        } else {
            error = set_list(outer, NULL, outer->count, which, further_variables[which]);
        }
    }
    return error;
}

int outer_adopt(const struct outer *outer, const size_t *indexes, size_t count)
{
    bool nearest = true;
    int error = 0;

    for (size_t index = 0; index < count; index++) {
        nearest = nearest && outer->holds[indexes[index]].nearest;
    }
    if (nearest) {
        return 0;
    }
    error = outer_export(outer);
    for (size_t which = 0; which < OUTER_VARIABLES && error == 0; which++) {
        error = set_list(outer, indexes, count, which, nearest_variables[which]);
    }
    return error;
}
