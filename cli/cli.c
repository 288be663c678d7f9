/*
 * Functions that all commands of `holdfast` use: see cli.h.
 */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>

#include "remedy.h"
#include "socket_path.h"
#include "text.h"

enum { LINE_MAX_BYTES = 1024 }; /* the longest error line; the rest of a longer line is cut off */

int cli_exit_code(int error)
{
    switch (error) {
    case 0:
        return CLI_OK;
    case HF_EBUSY:
    case HF_ETIMEDOUT:
        return CLI_NOT_NOW;
    case HF_ELOST:
        return CLI_LOST;
    case HF_ENOAGENT:
        return CLI_NO_AGENT;
    case HF_EACCES:
        return CLI_NOT_ALLOWED;
    case HF_EINVAL:
    case HF_ENAMETOOLONG:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

/* Writes an error line. Replaces control characters, because `what` may contain a text of another
 * program, such as a sequencer. */
static int fail_because(const char *where, const char *what, int error, const char *why)
{
    fprintf(stderr, "holdfast %s: ", where);
    (void)text_write_clean(stderr, what, LINE_MAX_BYTES);
    fprintf(stderr, ": %s\n", why);
    return cli_exit_code(error);
}

int cli_fail(const char *where, const char *what, int error)
{
    return fail_because(where, what, error, hf_strerror(error));
}

int cli_fail_call(const char *where, const char *what, int error)
{
    const char *text = hf_error_text(NULL);

    if (error == HF_ENOMEM || text[0] == '\0') {
        return cli_fail(where, what, error);
    }
    fprintf(stderr, "holdfast %s: ", where);
    (void)text_write_clean(stderr, text, LINE_MAX_BYTES);
    fputc('\n', stderr);
    return cli_exit_code(error);
}

int cli_usage_error(const char *where, const char *format, ...)
{
    va_list arguments;
    char line[LINE_MAX_BYTES];

    fprintf(stderr, "holdfast%s%s: ", where == NULL ? "" : " ", where == NULL ? "" : where);
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    (void)text_write_clean(stderr, line, 0);
    fputc('\n', stderr);
    return CLI_USAGE;
}

int cli_connect(const struct cli *cli, const char *where, int64_t timeout_ns, hf_client **out)
{
    char why[LINE_MAX_BYTES] = "";
    struct hf_options options = {
        .size = sizeof(options),
        .socket = cli->socket,
        .connect_timeout_ns = timeout_ns,
        .why = why,
        .why_size = sizeof(why),
        .command = cli->command,
    };
    char what[LINE_MAX_BYTES];
    char line[2 * LINE_MAX_BYTES];
    struct socket_path found;
    int error;

    socket_path_find(cli, &found);
    if (found.size > found.size_max) {
        return cli_usage_error(where,
                               "the socket's path %s has %zu bytes, expected at most %zu: %s",
                               found.from, found.size, found.size_max, found.path);
    }
    error = hf_connect(&options, out);
    if (error != 0) {
        /* looks again, because a socket may have been made or removed since the first look */
        socket_path_find(cli, &found);
        snprintf(what, sizeof(what), "%s (%s)", found.path, found.from);
        const char *remedy = remedy_of(error);
        snprintf(line, sizeof(line), "%s%s%s%s", why[0] != '\0' ? why : hf_strerror(error),
                 remedy != NULL ? "; " : "", remedy != NULL ? remedy : "",
                 remedy != NULL ? ", or ask `holdfast doctor` why" : "");
        return fail_because(where, what, error, line);
    }
    if (socket_path_used(cli, hf_socket(*out), &found)) {
        snprintf(
            what, sizeof(what),
            "asking %s, maybe of another cell: the agent of /run/holdfast/agent.sock does not run",
            found.path);
        fprintf(stderr, "holdfast %s: ", where);
        (void)text_write_clean(stderr, what, LINE_MAX_BYTES);
        fputc('\n', stderr);
    }
    return 0;
}
