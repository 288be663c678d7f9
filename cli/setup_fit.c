/*
 * Fits a host's configuration to its place: see setup_fit.h.
 */
#include "setup_fit.h"

#include <stdio.h>
#include <string.h>

/* A part of a line. */
struct part {
    const char *at;
    size_t size;
};

static bool part_is(struct part part, const char *text)
{
    return part.size == strlen(text) && memcmp(part.at, text, part.size) == 0;
}

/* Removes the blanks at both ends. */
static struct part trimmed(struct part part)
{
    while (part.size > 0 && strchr(" \t\r", part.at[0]) != NULL) {
        part.at++;
        part.size--;
    }
    while (part.size > 0 && strchr(" \t\r", part.at[part.size - 1]) != NULL) {
        part.size--;
    }
    return part;
}

/* Splits a line "KEY = VALUE" or "KEY = VALUE ; COMMENT". Returns false for another line. */
static bool split(struct part line, struct part *key, struct part *value)
{
    const char *equals = memchr(line.at, '=', line.size);

    if (equals == NULL || line.at[0] == ';') {
        return false;
    }
    *key = trimmed((struct part){line.at, (size_t)(equals - line.at)});
    *value = (struct part){equals + 1, line.size - (size_t)(equals + 1 - line.at)};
    for (size_t i = 0; i + 1 < value->size; i++) {
        if ((value->at[i] == ' ' || value->at[i] == '\t') && value->at[i + 1] == ';') {
            value->size = i;
        }
    }
    *value = trimmed(*value);
    return true;
}

/* Returns the last component of a path. */
static struct part base_of(struct part path)
{
    for (size_t i = path.size; i > 0; i--) {
        if (path.at[i - 1] == '/') {
            return (struct part){path.at + i, path.size - i};
        }
    }
    return path;
}

/* Returns whether a line of [tls] names a file that setup installs. */
static bool names_installed(struct part key, struct part value, const char *name)
{
    char file[SETUP_LABEL_SIZE + 8];

    if (part_is(key, "ca")) {
        return part_is(base_of(value), "ca.pem");
    }
    snprintf(file, sizeof(file), "%s.%s", name, part_is(key, "cert") ? "pem" : "key");
    return (part_is(key, "cert") || part_is(key, "key")) && part_is(base_of(value), file);
}

static void write_part(FILE *out, struct part part)
{
    (void)fwrite(part.at, 1, part.size, out);
}

/* Writes a line of the configuration, which stands in the section `section`. */
static void write_line(FILE *out, struct part line, struct part section, const char *name,
                       const struct setup_place *place)
{
    struct part key;
    struct part value;
    const bool pair = split(line, &key, &value);

    if (pair && part_is(section, "[tls]") && names_installed(key, value, name)) {
        write_part(out, key);
        fprintf(out, " = %s/", place->folder);
        write_part(out, base_of(value));
    } else if (pair && part_is(section, "[agent]") && place->state_dir != NULL &&
               (part_is(key, "state_dir") || part_is(key, "socket"))) {
        return; /* the new values were written just after the line "[agent]" */
    } else {
        write_part(out, line);
    }
    fputc('\n', out);
    if (part_is(trimmed(line), "[agent]") && place->state_dir != NULL) {
        fprintf(out, "state_dir = %s\nsocket = %s/agent.sock\n", place->state_dir,
                place->state_dir);
    }
}

char *setup_fit(const char *text, const char *name, const struct setup_place *place)
{
    char *fitted = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&fitted, &size);
    struct part section = {"", 0};

    if (out == NULL) {
        return NULL;
    }
    while (*text != '\0') {
        const struct part line = {text, strcspn(text, "\n")};

        if (text[0] == '[') {
            section = trimmed(line);
        }
        write_line(out, line, section, name, place);
        text += line.size + (text[line.size] == '\n' ? 1 : 0);
    }
    return fclose(out) == 0 ? fitted : NULL;
}
