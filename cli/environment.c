/*
 * Sets the environment of CMD: see environment.h.
 */
#include "environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes a name with %20 for a space and %25 for a %, because spaces separate the names of a
 * list. */
static void write_name(FILE *out, const char *name)
{
    for (; *name != '\0'; name++) {
        if (*name == ' ') {
            fputs("%20", out);
        } else if (*name == '%') {
            fputs("%25", out);
        } else {
            fputc(*name, out);
        }
    }
}

bool environment_names(const char *list, const char *name)
{
    for (; *name != '\0'; name++) {
        const char *code = *name == ' ' ? "%20" : "%25";
        size_t size = *name == ' ' || *name == '%' ? 3 : 1;

        if (strncmp(list, size == 3 ? code : name, size) != 0) {
            return false;
        }
        list += size;
    }
    return *list == ' ' || *list == '\0';
}

static int write_value(FILE *out, const struct held *held, size_t index, unsigned which)
{
    char sequencer[HF_SEQUENCER_MAX];
    int error = 0;

    if (index > 0) {
        fputc(' ', out);
    }
    switch (which) {
    case 0:
        write_name(out, held->names[index]);
        break;
    case 1:
        fprintf(out, "%" PRIu64, held->holds[index].token);
        break;
    default:
        error = hf_sequencer(held->locks[index], sequencer, sizeof(sequencer));
        if (error == 0) {
            fputs(sequencer, out);
        }
        break;
    }
    return error;
}

int environment_set(const struct held *held)
{
    static const char *const variables[] = {"HOLDFAST_LOCK", "HOLDFAST_TOKEN",
                                            "HOLDFAST_SEQUENCER"};
    int error = 0;

    for (unsigned which = 0; which < 3 && error == 0; which++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);

        if (out == NULL) {
            return HF_ENOMEM;
        }
        for (size_t index = 0; index < held->count && error == 0; index++) {
            error = write_value(out, held, index, which);
        }
        if (fclose(out) != 0 || (error == 0 && setenv(variables[which], text, 1) != 0)) {
            error = error != 0 ? error : HF_ENOMEM;
        }
        free(text);
    }
    return error;
}
