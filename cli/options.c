/*
 * Reads the command line word by word: see options.h.
 */
#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

enum { NAME_SIZE_MAX = 255, COMMON_COUNT = 4, COUNT_MAX = 1000000000 };

/* The position in a command line that is being read. */
struct cursor {
    const char *where;
    char **argv;
    int argc;
    int index;
    char letter; /* of a bundle such as -nv: the letter that is replaced by a dash in argv now */
};

/* Returns the length of the unit in ns, or 0 if there is no such unit. */
static int64_t unit_scale_ns(const char *unit)
{
    static const struct {
        const char *unit;
        int64_t scale_ns;
    } units[] = {
        {"ms", 1000000},
        {"s", 1000000000},
        {"m", INT64_C(60) * 1000000000},
        {"h", INT64_C(3600) * 1000000000},
    };

    for (size_t index = 0; index < sizeof(units) / sizeof(units[0]); index++) {
        if (strcmp(unit, units[index].unit) == 0) {
            return units[index].scale_ns;
        }
    }
    return 0;
}

enum duration_result duration_parse(const char *text, int64_t *out_ns)
{
    const char *unit = text + strspn(text, "0123456789");
    int64_t scale_ns = unit_scale_ns(unit);
    int64_t value = 0;

    if (unit == text || scale_ns == 0) {
        return DURATION_NONE;
    }
    for (const char *at = text; at < unit; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value)) {
            return DURATION_TOO_LARGE;
        }
    }
    return __builtin_mul_overflow(value, scale_ns, out_ns) ? DURATION_TOO_LARGE : DURATION_GOOD;
}

static int duration_store(const char *where, int64_t *out_ns, const char *given, const char *text)
{
    const char *unit = text + strspn(text, "0123456789");

    switch (duration_parse(text, out_ns)) {
    case DURATION_GOOD:
        return 0;
    case DURATION_TOO_LARGE:
        return cli_usage_error(where,
                               "%s: \"%s\" is too large a duration: expected at most %" PRId64 "%s",
                               given, text, INT64_MAX / unit_scale_ns(unit), unit);
    case DURATION_NONE:
        break;
    }
    return cli_usage_error(where,
                           "%s: \"%s\" is not a duration: expected a decimal integer and ms, s, m "
                           "or h, such as 30s",
                           given, text);
}

/* Converts a decimal number of seconds, such as "10" or "1.5", to nanoseconds. flock(1) accepts the
 * same form. */
static bool seconds_parse(const char *text, int64_t *out_ns)
{
    static const int64_t second_ns = 1000000000;
    size_t whole = strspn(text, "0123456789");
    const char *part = text[whole] == '.' ? text + whole + 1 : text + whole;
    size_t part_size = strspn(part, "0123456789");
    int64_t scale_ns = second_ns;
    int64_t value = 0;

    if (part[part_size] != '\0' || whole + part_size == 0) {
        return false;
    }
    for (size_t index = 0; index < whole; index++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[index] - '0', &value)) {
            return false;
        }
    }
    if (__builtin_mul_overflow(value, second_ns, &value)) {
        return false;
    }
    for (size_t index = 0; index < part_size; index++) {
        scale_ns /= 10; /* digits beyond a nanosecond count as 0 */
        if (__builtin_add_overflow(value, scale_ns * (part[index] - '0'), &value)) {
            return false;
        }
    }
    *out_ns = value;
    return true;
}

static bool status_parse(const char *text, int *out)
{
    int value = 0;

    if (text[0] == '\0') {
        return false;
    }
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        value = value * 10 + (*at - '0');
        if (value > 255) {
            return false;
        }
    }
    *out = value;
    return true;
}

static int list_store(const char *where, struct option_list *list, const char *given,
                      const char *text)
{
    if (list->count == OPTION_LIST_MAX) {
        return cli_usage_error(where, "%s: given more than %d times: expected fewer", given,
                               OPTION_LIST_MAX);
    }
    list->items[list->count++] = text;
    return 0;
}

static bool count_parse(const char *text, int64_t *out)
{
    int64_t value = 0;

    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9' || value > COUNT_MAX) {
            return false;
        }
        value = value * 10 + (*at - '0');
    }
    *out = value;
    return value >= 1 && value <= COUNT_MAX;
}

static int option_store(const struct cursor *cursor, const struct option_spec *spec,
                        const char *given, const char *text)
{
    switch (spec->kind) {
    case OPTION_FLAG:
        *(bool *)spec->value = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)spec->value = text;
        return 0;
    case OPTION_LIST:
        return list_store(cursor->where, spec->value, given, text);
    case OPTION_DURATION:
        return duration_store(cursor->where, spec->value, given, text);
    case OPTION_SECONDS:
        if (!seconds_parse(text, spec->value)) {
            return cli_usage_error(cursor->where,
                                   "%s: \"%s\" is not a number of seconds: expected one such as "
                                   "10 or 1.5 (--wait takes 10s or 1500ms)",
                                   given, text);
        }
        return 0;
    case OPTION_STATUS:
        if (!status_parse(text, spec->value)) {
            return cli_usage_error(
                cursor->where, "%s: \"%s\" is not an exit status: expected 0 to 255", given, text);
        }
        return 0;
    case OPTION_COUNT:
        if (!count_parse(text, spec->value)) {
            return cli_usage_error(cursor->where,
                                   "%s: \"%s\" is not a count: expected a whole number from 1 to "
                                   "%d",
                                   given, text, COUNT_MAX);
        }
        return 0;
    }
    return CLI_FAILED;
}

/* Finds the option that the word names. Sets *value to the value if the word contains it, as in
 * --name=VALUE, else to NULL. */
static const struct option_spec *option_find(const struct option_spec *specs, size_t count,
                                             const char *word, const char **value)
{
    const char *equals = strchr(word, '=');
    size_t name_size = equals != NULL ? (size_t)(equals - word) : strlen(word);

    for (size_t index = 0; index < count; index++) {
        const struct option_spec *spec = &specs[index];

        if (word[1] == '-') {
            if (strlen(spec->name) == name_size - 2 &&
                memcmp(spec->name, word + 2, name_size - 2) == 0) {
                *value = equals != NULL ? equals + 1 : NULL;
                return spec;
            }
        } else if (spec->letter != '\0' && spec->letter == word[1]) {
            *value = word[2] != '\0' ? word + 2 : NULL;
            return spec;
        }
    }
    return NULL;
}

/* Returns whether the word has further options behind the letter of a flag, as -xn has. */
static bool is_bundle(const char *word, const struct option_spec *specs, size_t spec_count,
                      const struct option_spec *common)
{
    const char next[] = {'-', word[1] == '-' ? '\0' : word[2], '\0'};
    const char *value;

    return next[1] != '\0' && next[1] != '-' &&
           (option_find(specs, spec_count, next, &value) != NULL ||
            option_find(common, COMMON_COUNT, next, &value) != NULL);
}

/* Reads the option at the cursor, and moves the cursor behind it. In a bundle, -xn, it takes the
 * first option, and leaves the rest, -n, at the cursor. */
static int first_take(struct cursor *cursor, const struct option_spec *specs, size_t spec_count,
                      const struct option_spec *common)
{
    const char *word = cursor->argv[cursor->index];
    const char *value = NULL;
    const struct option_spec *spec = option_find(specs, spec_count, word, &value);

    if (spec == NULL) {
        spec = option_find(common, COMMON_COUNT, word, &value);
    }
    if (spec == NULL) {
        return cli_usage_error(cursor->where,
                               "unknown option %s: expected one that `holdfast %s%s"
                               "--help` shows",
                               word, cursor->where == NULL ? "" : cursor->where,
                               cursor->where == NULL ? "" : " ");
    }
    if (spec->kind == OPTION_FLAG && is_bundle(word, specs, spec_count, common)) {
        char *rest = ++cursor->argv[cursor->index];

        cursor->letter = *rest;
        *rest = '-';
        return option_store(cursor, spec, word, NULL);
    }
    cursor->index++;
    if (spec->kind == OPTION_FLAG) {
        if (value != NULL) {
            return cli_usage_error(cursor->where, "%s: expected no value after --%s", word,
                                   spec->name);
        }
    } else if (value == NULL) {
        if (cursor->index >= cursor->argc || strcmp(cursor->argv[cursor->index], "--") == 0) {
            return cli_usage_error(cursor->where, "%s: expected a value after it", word);
        }
        value = cursor->argv[cursor->index++];
    }
    return option_store(cursor, spec, word, value);
}

/* Reads the word at the cursor: one option, or a bundle. ps shows the words of this process, so
 * this function restores a bundle at its end. */
static int option_take(struct cursor *cursor, const struct option_spec *specs, size_t spec_count,
                       const struct option_spec *common)
{
    const int index = cursor->index;
    char *whole = cursor->argv[index];
    int status;

    do {
        char *word = cursor->argv[index];
        char letter = cursor->letter;

        status = first_take(cursor, specs, spec_count, common);
        if (word != whole) {
            *word = letter;
        }
    } while (status == 0 && cursor->index == index);
    cursor->argv[index] = whole;
    return status;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

static void common_fill(struct cli *cli, struct option_spec out[COMMON_COUNT])
{
    out[0] = (struct option_spec){"socket", 's', OPTION_TEXT, &cli->socket};
    out[1] = (struct option_spec){"json", '\0', OPTION_FLAG, &cli->json};
    out[2] = (struct option_spec){"help", 'h', OPTION_FLAG, &cli->help};
    out[3] = (struct option_spec){"version", 'V', OPTION_FLAG, &cli->version};
}

int options_parse(struct cli *cli, const char *where, const struct option_spec *specs,
                  size_t spec_count, int argc, char **argv, struct arguments *out)
{
    struct cursor cursor = {.where = where, .argv = argv, .argc = argc};
    struct option_spec common[COMMON_COUNT];

    common_fill(cli, common);
    *out = (struct arguments){.plain = argv};
    while (cursor.index < argc) {
        char *word = argv[cursor.index];
        int status;

        if (strcmp(word, "--") == 0) {
            out->after = argv + cursor.index + 1;
            out->after_count = (size_t)(argc - cursor.index - 1);
            return 0;
        }
        if (!is_option(word)) {
            argv[out->plain_count++] = word;
            cursor.index++;
            continue;
        }
        status = option_take(&cursor, specs, spec_count, common);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}

int options_parse_leading(struct cli *cli, int argc, char **argv, int *index)
{
    return options_parse_front(cli, NULL, NULL, 0, argc, argv, index);
}

int options_parse_front(struct cli *cli, const char *where, const struct option_spec *specs,
                        size_t spec_count, int argc, char **argv, int *index)
{
    struct cursor cursor = {.where = where, .argv = argv, .argc = argc, .index = *index};
    struct option_spec common[COMMON_COUNT];

    common_fill(cli, common);
    while (cursor.index < argc && is_option(argv[cursor.index])) {
        int status = option_take(&cursor, specs, spec_count, common);

        if (status != 0) {
            return status;
        }
    }
    *index = cursor.index;
    return 0;
}

/* Reports that the byte or character at `at` must not be in a name: its position (from 1), and what
 * it is. */
static int malformed(const char *where, const char *name, const char *at,
                     const struct hfi_utf8 *unit)
{
    char bytes[sizeof("0xC2 0x85")]; /* a control character has two bytes at most */
    int used = snprintf(bytes, sizeof(bytes), "0x%02X", (unsigned)(unsigned char)at[0]);

    if (unit->valid && unit->size > 1) {
        snprintf(bytes + used, sizeof(bytes) - (size_t)used, " 0x%02X",
                 (unsigned)(unsigned char)at[1]);
    }
    return cli_usage_error(where,
                           "malformed lock name \"%s\": byte %zu (%s) is %s, expected UTF-8 "
                           "without control characters",
                           name, (size_t)(at - name) + 1, bytes,
                           unit->valid ? "a control character" : "no UTF-8");
}

int prefix_check(const char *where, const char *prefix)
{
    if (strlen(prefix) > NAME_SIZE_MAX) {
        return cli_usage_error(where, "lock name of %zu bytes: expected at most %d", strlen(prefix),
                               NAME_SIZE_MAX);
    }
    for (const char *at = prefix; *at != '\0';) {
        struct hfi_utf8 unit = hfi_utf8_next(at, strnlen(at, HFI_UTF8_MAX));

        if (!unit.valid || hfi_utf8_is_control(unit.code_point)) {
            return malformed(where, prefix, at, &unit);
        }
        at += unit.size;
    }
    return 0;
}

int name_check(const char *where, const char *name)
{
    if (name[0] == '\0') {
        return cli_usage_error(where, "empty lock name: expected 1 to %d bytes", NAME_SIZE_MAX);
    }
    return prefix_check(where, name);
}

int words_expect(const char *where, struct arguments *words, size_t least, size_t most,
                 const char *expected)
{
    for (size_t index = 0; index < words->after_count; index++) {
        words->plain[words->plain_count++] = words->after[index];
    }
    words->after_count = 0;
    if (words->plain_count < least) {
        return cli_usage_error(where, "too few arguments: expected %s", expected);
    }
    if (words->plain_count > most) {
        return cli_usage_error(where, "too many arguments, from \"%s\" on: expected %s",
                               words->plain[most], expected);
    }
    return 0;
}
