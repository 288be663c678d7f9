/*
 * `holdfast member list`, or `holdfast member` alone, lists the voters of the cell.
 * `holdfast member add`, `remove`, `replace` and `move` change them: member_change.h.
 * `holdfast member backup` copies the store: member_backup.h.
 * `holdfast member rejoin` explains starting over, and runs holdfastd --rejoin with the same
 * options, because only that program can handle the store and its locks.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "help.h"
#include "json.h"
#include "member_backup.h"
#include "member_change.h"
#include "options.h"
#include "tool.h"

static const int64_t member_timeout_ns = 1000000000;

static const char *state_text(enum hf_voter_state state)
{
    return state == HF_VOTER_UP ? "up" : state == HF_VOTER_REFUSED ? "refused" : "down";
}

static void show_voters(const struct hf_status *status, void *arg)
{
    const struct cli *cli = arg;
    struct json json;

    if (!cli->json) {
        for (size_t index = 0; index < status->voter_count; index++) {
            const struct hf_voter_info *voter = status->voters[index];

            printf("%s %s%s%s\n", voter->name, state_text(voter->state),
                   voter->address != NULL ? " at " : "",
                   voter->address != NULL ? voter->address : "");
        }
        return;
    }
    json_init(&json, stdout);
    json_open_array(&json, NULL);
    for (size_t index = 0; index < status->voter_count; index++) {
        const struct hf_voter_info *voter = status->voters[index];

        json_open_object(&json, NULL);
        json_text(&json, "name", voter->name);
        json_text(&json, "address", voter->address);
        json_text(&json, "state", state_text(voter->state));
        json_close_object(&json);
    }
    json_close_array(&json);
    putchar('\n');
}

static int list(struct cli *cli)
{
    hf_client *client = NULL;
    int status = cli_connect(cli, "member", member_timeout_ns, &client);

    if (status != 0) {
        return status;
    }
    int error = hf_status(client, show_voters, cli);
    hf_disconnect(client);
    return error == 0 ? CLI_OK : cli_fail_call("member", "asking the agent", error);
}

/* Becomes holdfastd. */
static int run_agent(const char *config, bool undo)
{
    char *arguments[] = {(char *)"holdfastd",
                         (char *)"--config",
                         (char *)config,
                         (char *)"--rejoin",
                         (char *)"--yes",
                         undo ? (char *)"--undo" : NULL,
                         NULL};

    (void)fflush(stdout);
    execvp(tool_agent(), arguments);
    return cli_fail_with(CLI_NO_AGENT, "member", "holdfastd cannot be run: %s", strerror(errno));
}

/* The options of `holdfast member`, and the words after which they may stand. */
struct member_options {
    const char *config;
    bool yes;
    bool undo;
    bool force;
    int64_t wait_ns; /* below 0: not given */
};

/* Reports an option that does not belong to the word. Returns the exit status. */
static int check_options(const struct member_options *options, const char *word)
{
    if (strcmp(word, "rejoin") != 0 && (options->config != NULL || options->undo || options->yes)) {
        return cli_usage_error("member",
                               "found --config, --undo or --yes, expected them after rejoin");
    }
    if (!member_is_change(word) && options->wait_ns >= 0) {
        return cli_usage_error("member", "found --wait, expected it after add, remove, replace or "
                                         "move");
    }
    if (strcmp(word, "backup") != 0 && options->force) {
        return cli_usage_error("member", "found --force, expected it after backup");
    }
    return 0;
}

static int rejoin(const struct member_options *options)
{
    if (options->config == NULL) {
        return cli_usage_error("member rejoin",
                               "expected --config FILE, the configuration of this host's agent");
    }
    if (!options->yes) {
        (void)help_show("member");
        return cli_usage_error("member rejoin", "nothing was done: expected --yes");
    }
    return run_agent(options->config, options->undo);
}

int command_member(struct cli *cli, int argc, char **argv)
{
    struct member_options options = {.wait_ns = -1};
    const struct option_spec specs[] = {{"config", '\0', OPTION_TEXT, &options.config},
                                        {"force", '\0', OPTION_FLAG, &options.force},
                                        {"undo", '\0', OPTION_FLAG, &options.undo},
                                        {"wait", '\0', OPTION_DURATION, &options.wait_ns},
                                        {"yes", '\0', OPTION_FLAG, &options.yes}};
    static const char expected[] = "list, add, remove, replace, move, backup, rejoin or nothing";
    struct arguments words;
    int status = options_parse(cli, "member", specs, sizeof(specs) / sizeof(specs[0]), argc, argv,
                               &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "member");
    }
    if (status != 0) {
        return status;
    }
    const char *word = words.plain_count > 0 ? words.plain[0] : "list";
    status = check_options(&options, word);
    if (status == 0 && member_is_change(word)) {
        status = words_expect("member", &words, 1, 4, expected);
        return status != 0 ? status : member_change(cli, &words, options.wait_ns);
    }
    if (status == 0 && strcmp(word, "backup") == 0) {
        status = words_expect("member backup", &words, 2, 2, "the word backup and one FILE");
        return status != 0 ? status : member_backup(cli, words.plain[1], options.force);
    }
    status = status != 0 ? status : words_expect("member", &words, 0, 1, expected);
    if (status != 0) {
        return status;
    }
    if (strcmp(word, "list") == 0) {
        return list(cli);
    }
    return strcmp(word, "rejoin") == 0
               ? rejoin(&options)
               : cli_usage_error("member", "found \"%s\", expected %s", word, expected);
}
