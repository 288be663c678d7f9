/*
 * Reads the command lines of `holdfast lock` and `holdfast hold`: see lock_arguments.h.
 */
#include "lock_arguments.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"

static const int64_t kill_after_default_ns = INT64_C(5) * 1000000000;
static const int64_t lock_delay_default_ns = 1000000000;
static const int64_t lock_delay_max_ns = INT64_C(60) * 1000000000;

static bool has_dashes(int argc, char **argv)
{
    for (int index = 0; index < argc; index++) {
        if (strcmp(argv[index], "--") == 0) {
            return true;
        }
    }
    return false;
}

/* Reads a command line with `--`: options may also stand behind the names. */
static int read_mixed(struct cli *cli, const struct option_spec *specs, size_t count, int argc,
                      char **argv, struct lock_arguments *out)
{
    struct arguments words;
    int status = options_parse(cli, "lock", specs, count, argc, argv, &words);

    out->names = words.plain;
    out->name_count = words.plain_count;
    out->command = words.after;
    return status;
}

/* Reads a command line without `--`: everything after the first name is CMD, with CMD's own
 * options. */
static int read_plain(struct cli *cli, const struct option_spec *specs, size_t count, int argc,
                      char **argv, struct lock_arguments *out)
{
    int index = 0;
    int status = options_parse_front(cli, "lock", specs, count, argc, argv, &index);

    if (status != 0) {
        return status;
    }
    if (index + 1 >= argc || argv[index + 1][0] == '-') {
        return read_mixed(cli, specs, count, argc, argv, out);
    }
    out->names = argv + index;
    out->name_count = 1;
    out->command = argv + index + 1;
    return 0;
}

int lock_arguments_read(struct cli *cli, int argc, char **argv, struct lock_arguments *out)
{
    const struct option_spec specs[] = {
        {"shared", '\0', OPTION_FLAG, &out->shared},
        {"exclusive", 'x', OPTION_FLAG, &out->exclusive},
        {"exclusive", 'e', OPTION_FLAG, &out->exclusive},
        {"no-wait", 'n', OPTION_FLAG, &out->no_wait},
        {"nonblock", '\0', OPTION_FLAG, &out->no_wait},
        {"nb", '\0', OPTION_FLAG, &out->no_wait},
        {"wait", '\0', OPTION_DURATION, &out->wait_ns},
        {"timeout", 'w', OPTION_SECONDS, &out->wait_ns},
        {"lease", '\0', OPTION_DURATION, &out->lease_ns},
        {"lock-delay", '\0', OPTION_DURATION, &out->lock_delay_ns},
        {"max-stall", '\0', OPTION_DURATION, &out->max_stall_ns},
        {"note", '\0', OPTION_TEXT, &out->note},
        {"kill-after", '\0', OPTION_DURATION, &out->kill_after_ns},
        {"conflict-exit-code", 'E', OPTION_STATUS, &out->not_now_status},
        {"command", 'c', OPTION_TEXT, &out->line},
        {"close", 'o', OPTION_FLAG, &out->close},
        {"no-fork", 'F', OPTION_FLAG, &out->no_fork},
        {"unlock", 'u', OPTION_FLAG, &out->unlock},
        {"nested", '\0', OPTION_FLAG, &out->nested},
        {"verbose", 'v', OPTION_FLAG, &out->verbose},
        {"quiet", 'q', OPTION_FLAG, &out->quiet},
    };
    size_t count = sizeof(specs) / sizeof(specs[0]);

    *out = (struct lock_arguments){
        .where = "lock",
        .wait_ns = lock_unset_ns,
        .lease_ns = lock_unset_ns,
        .lock_delay_ns = lock_delay_default_ns,
        .max_stall_ns = lock_unset_ns,
        .kill_after_ns = kill_after_default_ns,
        .not_now_status = CLI_NOT_NOW,
        .has_dashes = has_dashes(argc, argv),
    };
    return (out->has_dashes ? read_mixed : read_plain)(cli, specs, count, argc, argv, out);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Checks the names. Returns 0, or CLI_USAGE after a line on stderr. */
static int names_check(const struct lock_arguments *arguments)
{
    char **sorted;
    int status = 0;

    for (size_t index = 0; index < arguments->name_count && status == 0; index++) {
        status = name_check(arguments->where, arguments->names[index]);
    }
    if (status != 0) {
        return status;
    }
    sorted = calloc(arguments->name_count, sizeof(*sorted));
    if (sorted == NULL) {
        return cli_fail(arguments->where, "names", HF_ENOMEM);
    }
    memcpy(sorted, arguments->names, arguments->name_count * sizeof(*sorted));
    qsort(sorted, arguments->name_count, sizeof(*sorted), compare_names);
    for (size_t index = 1; index < arguments->name_count && status == 0; index++) {
        if (strcmp(sorted[index - 1], sorted[index]) == 0) {
            status = cli_usage_error(arguments->where,
                                     "lock name \"%s\" given twice: expected each once",
                                     sorted[index]);
        }
    }
    free(sorted);
    return status;
}

/* If the value of -s seems to be a lock's name and not a socket, returns why; else NULL. A file
 * that is no socket may be the lock file of a command line of flock(1). */
static const char *why_no_socket(const struct cli *cli)
{
    struct stat status;

    if (cli->socket == NULL) {
        return NULL;
    }
    if (stat(cli->socket, &status) == 0) {
        return S_ISSOCK(status.st_mode) ? NULL : "is no socket";
    }
    return cli->socket[0] != '/' ? "does not exist" : NULL;
}

static void hint_write(char *out, size_t size, const struct cli *cli, const char *why)
{
    snprintf(out, size, "-s is the agent's socket, and \"%s\" %s: did you mean --shared?",
             cli->socket, why);
}

/* Returns whether an agent that starts now may make this socket. A path with a slash names a folder
 * for it. A word does not, and a file that is no socket stays where it is. */
static bool may_appear(const struct cli *cli)
{
    return strchr(cli->socket, '/') != NULL && access(cli->socket, F_OK) != 0;
}

int lock_arguments_hint(const struct cli *cli)
{
    const char *why = why_no_socket(cli);
    char hint[LOCK_HINT_SIZE];

    if (why == NULL || (cli->json && may_appear(cli))) {
        return 0;
    }
    hint_write(hint, sizeof(hint), cli, why);
    if (cli->json) {
        cli->no_agent(CLI_NO_AGENT, hint, cli->no_agent_arg);
        return CLI_NO_AGENT;
    }
    (void)cli_fail_with(CLI_NO_AGENT, "lock", "%s", hint);
    return may_appear(cli) ? 0 : CLI_NO_AGENT;
}

static int words_missing(const struct cli *cli, const struct lock_arguments *arguments)
{
    const char *no_socket = why_no_socket(cli);
    char hint[LOCK_HINT_SIZE];

    if (no_socket != NULL) {
        hint_write(hint, sizeof(hint), cli, no_socket);
        return cli_usage_error("lock", "%s", hint);
    }
    if (arguments->name_count == 0) {
        return cli_usage_error("lock",
                               arguments->has_dashes
                                   ? "no lock name before --: expected at least one NAME"
                                   : "no lock name: expected NAME [NAME...] -- CMD [ARG...]");
    }
    if (arguments->has_dashes) {
        return cli_usage_error("lock", "nothing after --: expected CMD [ARG...]");
    }
    if (arguments->name_count > 1 || arguments->names[0][0] == '\0') {
        return cli_usage_error("lock", "no -- found: expected NAME [NAME...] -- CMD [ARG...]");
    }
    if (arguments->names[0][strspn(arguments->names[0], "0123456789")] == '\0') {
        return cli_usage_error("lock",
                               "no CMD behind \"%s\": expected NAME CMD [ARG...], because a file "
                               "descriptor, as in flock %s, cannot have a lock (see holdfast hold)",
                               arguments->names[0], arguments->names[0]);
    }
    return cli_usage_error("lock",
                           "no CMD behind \"%s\": expected NAME CMD [ARG...], NAME -c STRING, or "
                           "NAME [NAME...] -- CMD [ARG...]",
                           arguments->names[0]);
}

/* Sets `command` to CMD: the words of the command line, or a shell with the line of -c. */
static int find_command(const struct cli *cli, struct lock_arguments *arguments)
{
    static char shell[] = "sh";
    static char option[] = "-c";
    bool has_command = arguments->command != NULL && arguments->command[0] != NULL;

    if (arguments->name_count == 0 || (!has_command && arguments->line == NULL)) {
        return words_missing(cli, arguments);
    }
    if (arguments->line == NULL) {
        return 0;
    }
    if (has_command) {
        return cli_usage_error("lock", "-c beside the command \"%s\": expected one of them",
                               arguments->command[0]);
    }
    if (arguments->name_count > 1) {
        return cli_usage_error("lock", "-c behind several words: expected NAME -c STRING, or NAME "
                                       "[NAME...] -- sh -c STRING");
    }
    arguments->shell[0] = shell;
    arguments->shell[1] = option;
    /* drops the const, because execvp() does not write to the line */
    memcpy(&arguments->shell[2], &arguments->line, sizeof(char *));
    arguments->command = arguments->shell;
    return 0;
}

/* Refuses the options of flock(1) that have no counterpart. */
static int check_flock(const struct lock_arguments *arguments)
{
    if (arguments->unlock) {
        return cli_usage_error("lock", "-u, --unlock: a lock is released when its CMD ends: "
                                       "expected NAME and CMD without it");
    }
    if (arguments->no_fork) {
        return cli_usage_error("lock", "-F, --no-fork: holdfast stays beside CMD to watch the "
                                       "hold: expected the command line without it");
    }
    return 0;
}

/* Sets the hint. Somebody who writes `NAME CMD -- ARG` may mean CMD to begin before the --. */
static void set_hint(struct lock_arguments *arguments)
{
    const size_t size = sizeof(arguments->hint);
    size_t used = 0;

    if (arguments->name_count < 2) {
        return;
    }
    used += (size_t)snprintf(arguments->hint, size,
                             "; the words before -- were taken as names of locks: ");
    for (size_t index = 0; index < arguments->name_count && used < size; index++) {
        const char *before = index == 0 ? "" : index + 1 < arguments->name_count ? ", " : " and ";
        int wrote = snprintf(arguments->hint + used, size - used, "%s%s", before,
                             arguments->names[index]);

        used += wrote > 0 ? (size_t)wrote : size;
    }
}

/* Checks the options that `lock` and `hold` have in common, and the names. */
static int check_common(const struct lock_arguments *arguments)
{
    const char *where = arguments->where;

    if (arguments->shared && arguments->exclusive) {
        return cli_usage_error(where, "--shared and --exclusive: expected only one of them");
    }
    if (arguments->no_wait && arguments->wait_ns != lock_unset_ns) {
        return cli_usage_error(where, "--wait and --no-wait: expected only one of them");
    }
    if (arguments->quiet && arguments->verbose) {
        return cli_usage_error(where, "--quiet and --verbose: expected only one of them");
    }
    if (arguments->lease_ns == 0 || arguments->max_stall_ns == 0) {
        return cli_usage_error(where, "%s: expected more than 0",
                               arguments->lease_ns == 0 ? "--lease" : "--max-stall");
    }
    if (arguments->lock_delay_ns > lock_delay_max_ns) {
        return cli_usage_error(where, "--lock-delay: expected at most 60s");
    }
    if (arguments->note != NULL && strlen(arguments->note) > HF_NOTE_MAX) {
        return cli_usage_error(where, "--note: the text has %zu bytes, expected at most %d",
                               strlen(arguments->note), HF_NOTE_MAX);
    }
    return names_check(arguments);
}

int lock_arguments_check(const struct cli *cli, struct lock_arguments *arguments)
{
    int status = check_flock(arguments);

    status = status != 0 ? status : find_command(cli, arguments);
    if (status != 0) {
        return status;
    }
    set_hint(arguments);
    return check_common(arguments);
}

int hold_arguments_read(struct cli *cli, int argc, char **argv, struct lock_arguments *out)
{
    const struct option_spec specs[] = {
        {"shared", '\0', OPTION_FLAG, &out->shared},
        {"exclusive", 'x', OPTION_FLAG, &out->exclusive},
        {"no-wait", 'n', OPTION_FLAG, &out->no_wait},
        {"wait", '\0', OPTION_DURATION, &out->wait_ns},
        {"timeout", 'w', OPTION_SECONDS, &out->wait_ns},
        {"lease", '\0', OPTION_DURATION, &out->lease_ns},
        {"lock-delay", '\0', OPTION_DURATION, &out->lock_delay_ns},
        {"max-stall", '\0', OPTION_DURATION, &out->max_stall_ns},
        {"note", '\0', OPTION_TEXT, &out->note},
        {"conflict-exit-code", 'E', OPTION_STATUS, &out->not_now_status},
        {"verbose", 'v', OPTION_FLAG, &out->verbose},
        {"quiet", 'q', OPTION_FLAG, &out->quiet},
    };
    struct arguments words;
    int status;

    *out = (struct lock_arguments){
        .where = "hold",
        .wait_ns = lock_unset_ns,
        .lease_ns = lock_unset_ns,
        .lock_delay_ns = lock_delay_default_ns,
        .max_stall_ns = lock_unset_ns,
        .not_now_status = CLI_NOT_NOW,
    };
    status = options_parse(cli, "hold", specs, sizeof(specs) / sizeof(specs[0]), argc, argv,
                           &words);
    if (status != 0 || cli->help) {
        return status;
    }
    status = words_expect("hold", &words, 1, 1, "one NAME");
    if (status != 0) {
        return status;
    }
    out->names = words.plain;
    out->name_count = 1;
    return check_common(out);
}
