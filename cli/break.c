/*
 * `holdfast break`: ends the holds of a lock, and reports which holds it really ended. Each agent
 * reports its holds when it ends them. So the report has no hold that ended by itself before.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli.h"
#include "describe.h"
#include "help.h"
#include "json.h"
#include "options.h"
#include "text.h"

struct breaking {
    bool json;
    bool now;
    bool written;  /* the outcome has been written */
    bool reported; /* stderr already says what was not done */
};

static void write_hold(const struct hf_party *hold)
{
    printf("ended        %s hold, ", text_mode(hold->mode));
    text_write_process(stdout, hold);
    printf(", token %" PRIu64 ", ", hold->token);
    text_write_since(stdout, hold->elapsed_ns);
    if (hold->command != NULL) {
        fputs(": ", stdout);
        (void)text_write_clean(stdout, hold->command, 0);
    }
    text_write_note(stdout, hold->note, 0);
    putchar('\n');
}

/* Writes the agents that have not answered, with commas between them. */
static void write_silent(FILE *out, const struct hf_break_info *info)
{
    for (size_t i = 0; i < info->silent_count; i++) {
        fputs(i > 0 ? ", " : "", out);
        (void)text_write_clean(out, info->silent[i], 0);
    }
}

static void write_lines(const struct breaking *breaking, const struct hf_break_info *info)
{
    char duration[TEXT_DURATION_SIZE];

    for (size_t i = 0; i < info->ended_count; i++) {
        write_hold(info->ended[i]);
    }
    if (info->more > 0) {
        printf("ended        and %" PRIu64 " more\n", info->more);
    }
    if (info->error != 0) {
        return; /* the lock may be held, so the lines below could be false */
    }
    if (info->silent_count > 0) {
        fputs("ended        not known, on ", stdout);
        write_silent(stdout, info);
        putchar('\n');
    } else if (info->ended_count == 0 && info->more == 0) {
        puts("ended        nothing: nobody held the lock");
    }
    if (info->closed_ns > 0) {
        printf("closed       for %s more (lock-delay)\n", text_duration(duration, info->closed_ns));
    } else {
        printf("open         %s\n", breaking->now ? "at once (--now)" : "no lock-delay is left");
    }
}

static void write_object(const struct breaking *breaking, const struct hf_break_info *info)
{
    struct json json;

    json_init(&json, stdout);
    json_open_object(&json, NULL);
    json_text(&json, "name", info->name);
    json_bool(&json, "now", breaking->now);
    json_bool(&json, "done", info->error == 0);
    json_open_array(&json, "ended");
    for (size_t i = 0; i < info->ended_count; i++) {
        describe_ended(&json, info->ended[i]);
    }
    json_close_array(&json);
    json_unsigned(&json, "more", info->more);
    json_unsigned(&json, "closed_ms", ((uint64_t)info->closed_ns + 999999) / 1000000);
    json_open_array(&json, "silent");
    for (size_t i = 0; i < info->silent_count; i++) {
        json_text(&json, NULL, info->silent[i]);
    }
    json_close_array(&json);
    json_close_object(&json);
    putchar('\n');
}

/* Says on stderr why it is not known that every hold has ended. */
static void write_doubt(const struct hf_break_info *info)
{
    fputs("holdfast break: ", stderr);
    (void)text_write_clean(stderr, info->name, 0);
    if (info->silent_count > 0) {
        fputs(": no answer in time from ", stderr);
        write_silent(stderr, info);
        fputs(": holds may go on there; break the lock again\n", stderr);
    } else {
        fputs(": no voter has said in time which hosts have the lock, because none was reached, or "
              "the one that decides is of an earlier release: holds may go on\n",
              stderr);
    }
}

static void write_failure(void)
{
    fputs("holdfast break: ", stderr);
    (void)text_write_clean(stderr, hf_error_text(NULL), 0);
    fputc('\n', stderr);
}

static void write_outcome(const struct hf_break_info *info, void *arg)
{
    struct breaking *breaking = arg;

    if (breaking->json) {
        write_object(breaking, info);
    } else {
        write_lines(breaking, info);
    }
    breaking->written = true;
    if (info->error == HF_ETIMEDOUT) {
        write_doubt(info);
        breaking->reported = true;
    }
}

int command_break(struct cli *cli, int argc, char **argv)
{
    struct breaking breaking = {.json = cli->json};
    const struct option_spec specs[] = {{"now", '\0', OPTION_FLAG, &breaking.now}};
    struct arguments words;
    hf_client *client = NULL;
    int error;
    int status = options_parse(cli, "break", specs, 1, argc, argv, &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "break");
    }
    status = status != 0 ? status : words_expect("break", &words, 1, 1, "one NAME");
    status = status != 0 ? status : name_check("break", words.plain[0]);
    status = status != 0 ? status : cli_connect(cli, "break", 0, &client);
    if (status != 0) {
        return status;
    }
    breaking.json = cli->json;
    error = hf_break_report(client, words.plain[0], breaking.now ? HF_BREAK_NOW : 0, write_outcome,
                            &breaking);
    hf_disconnect(client);
    if (breaking.reported || error == 0) {
        return cli_exit_code(error);
    }
    if (breaking.written && cli->json) { /* stdout has the outcome, and gets no second object */
        write_failure();
        return cli_exit_code(error);
    }
    return cli_fail_call("break", words.plain[0], error);
}
