/*
 * `holdfast top`: the cell and its locks, again and again: on a terminal (top_screen.h), or as text
 * or JSON for programs.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "help.h"
#include "options.h"
#include "top_frame.h"
#include "top_json.h"
#include "top_nested.h"
#include "top_screen.h"

static const int64_t delay_default_ns = 2000000000;

/* Writes the summary and all tables. */
static int write_text(const struct top_news *news, enum top_order order, FILE *out)
{
    enum top_order orders[TOP_VIEW_COUNT] = {
        [TOP_LOCKS] = order, [TOP_WAITS] = TOP_BY_WAIT, [TOP_HOSTS] = TOP_BY_NAME};
    int error = 0;

    top_summary_write(news, 0, out);
    for (unsigned view = 0; view < TOP_VIEW_COUNT && news->reading != NULL && error == 0; view++) {
        struct top_rows rows;

        error = top_rows_make(news->reading, (enum top_view)view, orders[view], false, &rows);
        if (error == 0) {
            fprintf(out, "\n%s\n", top_view_word((enum top_view)view));
            error = top_rows_write(&rows, 0, rows.count, 0, out);
            top_rows_free(&rows);
        }
    }
    fputc('\n', out);
    return error;
}

/* Waits until due_ns. Returns false if no process reads the output any more. */
static bool wait_until(int64_t due_ns)
{
    for (int64_t now_ns = top_now_ns(); now_ns < due_ns; now_ns = top_now_ns()) {
        /* POLLERR comes when the reader has closed the pipe */
        struct pollfd output = {.fd = STDOUT_FILENO};
        int64_t wait_ms = (due_ns - now_ns) / 1000000 + 1;
        int ready = poll(&output, 1, wait_ms > 3600000 ? 3600000 : (int)wait_ms);

        if (ready > 0 || (ready < 0 && errno != EINTR)) {
            return false;
        }
    }
    return true;
}

/* Takes a reading, and sets *news. If the attempt succeeded, the new reading replaces *reading.
 * Returns an error only if the command ends because of it. */
static int batch_read(const struct top_settings *settings, struct top_reading **reading,
                      struct top_news *news)
{
    struct top_reading *next = NULL;
    int64_t asked_ns = top_now_ns();
    int error = top_reading_take(settings->client, settings->prefix, *reading, &next);

    if (error != 0 && !top_is_passing(error)) {
        return error;
    }
    if (error == 0) {
        top_nested_find(next);
        top_reading_destroy(*reading);
        *reading = next;
    } else if (news->error == 0) {
        news->failed_ns = asked_ns;
    }
    news->reading = next;
    news->error = error;
    news->now_ns = top_now_ns();
    return 0;
}

/* Writes settings->count readings (0: no limit), or fewer if no process reads them any more. */
static int batch_run(const struct top_settings *settings, bool json)
{
    struct top_reading *reading = NULL;
    struct top_news news = {.reading = NULL};
    bool open = true;
    int error = 0;

    for (int64_t done = 0; error == 0 && open && (settings->count == 0 || done < settings->count);
         done++) {
        int64_t asked_ns = top_now_ns();

        error = batch_read(settings, &reading, &news);
        if (error == 0) {
            error = json ? top_json_write(&news, stdout)
                         : write_text(&news, settings->order, stdout);
        }
        open = error == 0 && fflush(stdout) == 0;
        if (open && done + 1 != settings->count) {
            open = wait_until(
                top_next_ns(asked_ns, reading != NULL ? reading->took_ns : 0, settings->delay_ns));
        }
    }
    top_reading_destroy(reading);
    if (error == 0 && !open) {
        /* drops the unwritten output, because a closed pipe is not an error here */
        __fpurge(stdout);
        clearerr(stdout);
        return CLI_OK;
    }
    if (error == 0 && news.error != 0 && json) {
        return cli_exit_code(news.error); /* the last object has the error */
    }
    error = error != 0 ? error : news.error;
    return error != 0 ? cli_fail("top", "asking the agent", error) : CLI_OK;
}

/* The options of the command line. */
struct top_arguments {
    bool batch;
    bool once;
    int64_t count;
    int64_t delay_ns;
    const char *key;
};

/* Checks that the options may be combined. Sets *order, and for --once the count and the batch
 * mode. */
static int arguments_check(struct top_arguments *arguments, enum top_order *order)
{
    if (arguments->once && arguments->count > 0) {
        return cli_usage_error("top", "--once and -n: expected only one of them");
    }
    if (arguments->once) {
        arguments->count = 1;
        arguments->batch = true;
    }
    if (arguments->delay_ns < top_delay_ns_min || arguments->delay_ns > top_delay_ns_max) {
        return cli_usage_error("top", "--delay: expected 100ms to 24h");
    }
    for (unsigned each = 0; each < TOP_ORDER_COUNT; each++) {
        if (strcmp(top_order_word((enum top_order)each), arguments->key) == 0) {
            *order = (enum top_order)each;
            return 0;
        }
    }
    return cli_usage_error("top",
                           "--sort: \"%s\" is not a key: expected waiters, holds, wait, held or "
                           "name",
                           arguments->key);
}

int command_top(struct cli *cli, int argc, char **argv)
{
    struct top_arguments given = {.delay_ns = delay_default_ns, .key = "waiters"};
    const struct option_spec specs[] = {
        {"batch", 'b', OPTION_FLAG, &given.batch},
        {"once", '\0', OPTION_FLAG, &given.once},
        {"count", 'n', OPTION_COUNT, &given.count},
        {"delay", 'd', OPTION_DURATION, &given.delay_ns},
        {"sort", '\0', OPTION_TEXT, &given.key},
    };
    struct top_settings settings = {.prefix = ""};
    struct arguments words;
    bool asking = false;
    int status = options_parse(cli, "top", specs, sizeof(specs) / sizeof(specs[0]), argc, argv,
                               &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "top");
    }
    status = status != 0 ? status : words_expect("top", &words, 0, 1, "at most one PREFIX");
    status = status != 0 ? status : arguments_check(&given, &settings.order);
    if (status == 0 && words.plain_count > 0) {
        settings.prefix = words.plain[0];
        status = prefix_check("top", settings.prefix);
    }
    given.batch = given.batch || cli->json;
    if (status == 0 && !given.batch) {
        status = top_screen_check();
    }
    status = status != 0 ? status : cli_connect(cli, "top", 0, &settings.client);
    if (status != 0) {
        return status;
    }
    settings.delay_ns = given.delay_ns;
    settings.count = given.count;
    if (given.batch) {
        (void)signal(SIGPIPE, SIG_IGN); /* a closed pipe is the usual end of this command */
        status = batch_run(&settings, cli->json);
    } else {
        status = top_screen_run(&settings, &asking);
    }
    if (!asking) {
        hf_disconnect(settings.client);
    }
    return status;
}
