/*
 * Functions that all commands of `holdfast` use: see cli.h.
 */
#include "cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "asked.h"
#include "json.h"
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

/* The stream to which failures are written as JSON; NULL: they are written to stderr, as text. */
static FILE *json_out;

/* Notices are written as JSON to json_out, too, and not to stderr. */
static bool notices_in_answer;

void cli_fail_as_json(FILE *out)
{
    json_out = out;
}

void cli_notices_in_answer(void)
{
    notices_in_answer = true;
}

FILE *cli_json_stream(void)
{
    return json_out;
}

/* Writes an object in one piece, because the command of `lock` may write to the same stream.
 * status: the exit status of a failure; 0: a notice. */
static void write_object(FILE *out, const char *where, int status, const char *sentence)
{
    char *text = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&text, &size);
    struct json json;

    json_init(&json, memory != NULL ? memory : out);
    json_open_object(&json, NULL);
    json_text(&json, "event", status == 0 ? "notice" : "failed");
    json_text(&json, "command", where);
    json_text(&json, status == 0 ? "text" : "error", sentence);
    if (status != 0) {
        json_unsigned(&json, "status", (uint64_t)status);
    }
    asked_json(&json);
    json_close_object(&json);
    fputc('\n', json.out);
    if (memory != NULL) {
        (void)fclose(memory);
        (void)!fwrite(text, 1, size, out);
        free(text);
    }
    (void)fflush(out);
}

/* Writes "; do this, or ask doctor why": what to do about an error that prevented a connection.
 * Writes "" if there is no advice. */
static void write_advice(char *out, size_t size, const struct cli *cli, int error,
                         const struct socket_path *path)
{
    char remedy[LINE_MAX_BYTES];
    const bool given = cli->socket != NULL; /* doctor, too, has to be given this socket */

    out[0] = '\0';
    if (remedy_write(remedy, sizeof(remedy), error, path)) {
        snprintf(out, size, "; %s, or ask `holdfast doctor%s%s` why", remedy,
                 given ? " --socket " : "", given ? path->path : "");
    }
}

/* Writes that the command `where` (NULL: the program) has failed. Replaces control characters,
 * because the sentence may contain a text of another program, such as a sequencer. */
static int say(const char *where, int status, const char *sentence)
{
    if (json_out != NULL) {
        write_object(json_out, where, status, sentence);
        return status;
    }
    fprintf(stderr, "holdfast%s%s: ", where == NULL ? "" : " ", where == NULL ? "" : where);
    (void)text_write_clean(stderr, sentence, 0);
    (void)text_write_clean(stderr, asked_text(), 0);
    fputc('\n', stderr);
    return status;
}

void cli_notice(const char *where, const char *sentence)
{
    if (json_out != NULL) {
        write_object(notices_in_answer ? json_out : stderr, where, 0, sentence);
        return;
    }
    fprintf(stderr, "holdfast %s: ", where);
    (void)text_write_clean(stderr, sentence, 0);
    fputc('\n', stderr);
}

static int fail_because(const char *where, const char *what, int error, const char *why)
{
    char sentence[5 * LINE_MAX_BYTES];

    snprintf(sentence, sizeof(sentence), "%.*s: %s", LINE_MAX_BYTES, what, why);
    return say(where, cli_exit_code(error), sentence);
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
    return say(where, cli_exit_code(error), text);
}

static int say_arguments(const char *where, int status, const char *format, va_list arguments)
{
    char line[LINE_MAX_BYTES];

    vsnprintf(line, sizeof(line), format, arguments);
    return say(where, status, line);
}

int cli_fail_with(int status, const char *where, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    status = say_arguments(where, status, format, arguments);
    va_end(arguments);
    return status;
}

int cli_usage_error(const char *where, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)!say_arguments(where, CLI_USAGE, format, arguments);
    va_end(arguments);
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
    char advice[2 * LINE_MAX_BYTES];
    char line[3 * LINE_MAX_BYTES];
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
        write_advice(advice, sizeof(advice), cli, error, &found);
        snprintf(line, sizeof(line), "%s%s", why[0] != '\0' ? why : hf_strerror(error), advice);
        if (cli->json && cli->no_agent != NULL) {
            char sentence[4 * LINE_MAX_BYTES + 2];

            snprintf(sentence, sizeof(sentence), "%s: %s", what, line);
            cli->no_agent(cli_exit_code(error), sentence, cli->no_agent_arg);
            return cli_exit_code(error);
        }
        return fail_because(where, what, error, line);
    }
    asked_note(cli, *out);
    if (socket_path_used(cli, hf_socket(*out), &found)) {
        snprintf(
            what, sizeof(what),
            "asking %s, maybe of another cell: the agent of /run/holdfast/agent.sock does not run",
            found.path);
        cli_notice(where, what);
    }
    return 0;
}
