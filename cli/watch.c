/*
 * `holdfast watch` prints the present state of the locks, and then each change.
 *
 * The watch begins before the first listing, so that no change in between is missed. An event has
 * only the name of a lock. After too many changes it has only the watched prefix. The command asks
 * for the state of the named lock and prints it, so several queued events of one lock become one
 * line. A line that differs from the lock's last line only by its times is left out, also if
 * lines of other locks came in between: an agent reports a change also when a waiter looks again.
 * Without an agent no event can arrive, so the command tries once a second to reach the agent. When
 * the agent answers again, the command lists all locks, because it may have missed changes.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "describe.h"
#include "help.h"
#include "options.h"
#include "text.h"

enum { NAMES_A_TURN = 64, NAME_SIZE = 256, RETRY_MS = 1000 };

/* How many locks' last lines the command remembers at most. Two names may share one entry; then the
 * entry has the lock that was printed last. */
enum { LASTS = 4096 };

struct watch_command {
    hf_client *client;
    const char *prefix;
    bool json;
    bool list_due;     /* an event named only a prefix: any lock may have changed */
    bool away;         /* the agent does not answer; when it answers again, all locks are listed */
    bool output_gone;  /* the reader of stdout has closed the pipe */
    char *last[LASTS]; /* same_text() of locks' last lines, by last_place(); NULL: none yet */
    size_t name_count;
    char names[NAMES_A_TURN][NAME_SIZE];
};

static void write_behind(FILE *out, const struct hf_behind *behind)
{
    fprintf(out, "\n%s %" PRId64 " %" PRId64 " %s %d %s %" PRId64 " %s",
            behind->agent != NULL ? behind->agent : "?", behind->pid, behind->uid,
            behind->command != NULL ? behind->command : "", (int)behind->ending,
            behind->by_agent != NULL ? behind->by_agent : "?", behind->by_uid,
            behind->note != NULL ? behind->note : "");
}

/* Writes what a JSON object says about the lock, without the durations, which differ each time. */
static void write_state(FILE *out, const struct hf_lock_info *info)
{
    fprintf(out, "%s %d %d %d %s", info->name, (int)info->state, info->closed_ns > 0,
            info->age_ns < 0, info->coordinator != NULL ? info->coordinator : "?");
    for (size_t index = 0; index < info->holder_count + info->waiter_count; index++) {
        const struct hf_party *party = index < info->holder_count
                                           ? info->holders[index]
                                           : info->waiters[index - info->holder_count];

        fprintf(out, "\n%s %" PRId64 " %" PRId64 " %d %" PRIu64 " %s\n%s",
                party->agent != NULL ? party->agent : "?", party->pid, party->uid, (int)party->mode,
                party->token, party->command != NULL ? party->command : "",
                party->note != NULL ? party->note : "");
    }
    if (info->behind != NULL) {
        write_behind(out, info->behind);
    }
}

/* Writes what a line of text says about the lock, as if each lock-delay had the same time left. A
 * line says less than an object: it has no coordinator, and only the number of waiters. */
static void write_line(FILE *out, const struct hf_lock_info *info)
{
    struct hf_lock_info still = *info;

    still.closed_ns = info->closed_ns > 0;
    text_write_lock_line(out, &still);
}

/* Returns a text that is equal for two lines that say the same, whatever their times and durations.
 * The caller frees it. NULL: no memory. */
static char *same_text(const struct hf_lock_info *info, bool json)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    if (json) {
        write_state(out, info);
    } else {
        write_line(out, info);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static char **last_place(struct watch_command *watch, const char *name)
{
    uint32_t hash = 2166136261U; /* FNV-1a */

    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * 16777619U;
    }
    return &watch->last[hash % LASTS];
}

static int write_json(const struct hf_lock_info *info)
{
    struct json json;
    char *time = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&time, &size);

    if (out == NULL) {
        return HF_ENOMEM;
    }
    text_write_now(out, true);
    if (fclose(out) == 0) {
        json_init(&json, stdout);
        describe_lock(&json, info, time);
        putchar('\n');
    }
    free(time);
    return 0;
}

static int print_lock(const struct hf_lock_info *info, void *arg)
{
    struct watch_command *watch = arg;
    char *text = same_text(info, watch->json);
    char **last = last_place(watch, info->name);
    int error = 0;

    if (text == NULL) {
        return HF_ENOMEM;
    }
    if (*last != NULL && strcmp(*last, text) == 0) {
        free(text);
        return 0;
    }
    free(*last);
    *last = text;
    if (watch->json) {
        error = write_json(info);
    } else {
        text_write_now(stdout, false);
        putchar(' ');
        text_write_lock_line(stdout, info);
    }
    if (fflush(stdout) != 0) {
        watch->output_gone = true;
        return 1;
    }
    return error;
}

/* Returns whether the command tries again after this error, instead of ending. */
static bool is_passing(int error)
{
    return error == HF_ENOAGENT || error == HF_EPROTO;
}

static int list_all(struct watch_command *watch)
{
    int error = hf_list(watch->client, watch->prefix, print_lock, watch);

    watch->away = is_passing(error);
    return watch->away || error == 1 ? 0 : error;
}

static void names_add(struct watch_command *watch, const char *name)
{
    if (strlen(name) <= strlen(watch->prefix)) {
        watch->list_due = true;
        return;
    }
    for (size_t index = 0; index < watch->name_count; index++) {
        if (strcmp(watch->names[index], name) == 0) {
            return;
        }
    }
    snprintf(watch->names[watch->name_count++], NAME_SIZE, "%s", name);
}

/* Takes the queued events, up to a number of different names, and prints the locks with these
 * names. */
static int print_changes(struct watch_command *watch)
{
    struct hf_event event;
    int got = 1;

    watch->name_count = 0;
    watch->list_due = false;
    while (watch->name_count < NAMES_A_TURN && got == 1) {
        got = hf_next_event(watch->client, &event);
        if (got == 1 && event.kind == HF_EVENT_CHANGED) {
            names_add(watch, event.name);
        }
    }
    if (got < 0) {
        watch->away = is_passing(got);
        return watch->away ? 0 : got;
    }
    if (watch->list_due) {
        return list_all(watch);
    }
    for (size_t index = 0; index < watch->name_count && !watch->away; index++) {
        int error = hf_show(watch->client, watch->names[index], print_lock, watch);

        watch->away = is_passing(error);
        if (error < 0 && !watch->away) {
            return error;
        }
    }
    return 0;
}

static int watch_loop(struct watch_command *watch)
{
    int event_fd = hf_event_fd(watch->client);
    int error = event_fd < 0 ? event_fd : hf_watch(watch->client, watch->prefix);

    error = error != 0 ? error : list_all(watch);
    while (error == 0 && !watch->output_gone) {
        struct pollfd fds[2] = {
            {.fd = watch->away ? -1 : event_fd, .events = POLLIN},
            {.fd = STDOUT_FILENO}, /* POLLERR comes when the reader has closed the pipe */
        };
        int ready = poll(fds, 2, watch->away ? RETRY_MS : -1);

        if (ready < 0 && errno != EINTR) {
            return HF_ENOMEM;
        }
        if (ready > 0 && fds[1].revents != 0) {
            watch->output_gone = true;
        } else if (ready == 0) {
            error = list_all(watch);
        } else if (ready > 0) {
            error = print_changes(watch);
        }
    }
    return error;
}

int command_watch(struct cli *cli, int argc, char **argv)
{
    static struct watch_command watch; /* static: it is too large for the stack */
    struct arguments words;
    int error;
    int status = options_parse(cli, "watch", NULL, 0, argc, argv, &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "watch");
    }
    status = status != 0 ? status : words_expect("watch", &words, 0, 1, "at most one PREFIX");
    if (status != 0) {
        return status;
    }
    watch.json = cli->json;
    watch.prefix = "";
    if (words.plain_count > 0) {
        watch.prefix = words.plain[0];
    }
    status = prefix_check("watch", watch.prefix);
    status = status != 0 ? status : cli_connect(cli, "watch", 0, &watch.client);
    if (status != 0) {
        return status;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is the usual end of this command */
    error = watch_loop(&watch);
    hf_disconnect(watch.client);
    for (size_t index = 0; index < LASTS; index++) {
        free(watch.last[index]);
    }
    if (watch.output_gone) {
        /* drops the unwritten output, because a closed pipe is not an error here */
        __fpurge(stdout);
        clearerr(stdout);
        return CLI_OK;
    }
    return error != 0
               ? cli_fail_call("watch", watch.prefix[0] == '\0' ? "watching" : watch.prefix, error)
               : CLI_OK;
}
