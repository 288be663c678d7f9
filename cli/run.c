/*
 * Reads the options before the command word, and runs the command.
 */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "help.h"
#include "options.h"

static int dispatch(struct cli *cli, const char *word, int argc, char **argv)
{
    static const struct {
        const char *word;
        int (*run)(struct cli *cli, int argc, char **argv);
    } commands[] = {
        {"lock", command_lock},     {"hold", command_hold},     {"ls", command_ls},
        {"show", command_show},     {"top", command_top},       {"watch", command_watch},
        {"check", command_check},   {"status", command_status}, {"break", command_break},
        {"member", command_member}, {"doctor", command_doctor}, {"setup", command_setup},
    };

    if (strcmp(word, "help") == 0) {
        return help_show(argc > 0 ? argv[0] : NULL);
    }
    for (size_t index = 0; index < sizeof(commands) / sizeof(commands[0]); index++) {
        if (strcmp(word, commands[index].word) == 0) {
            if (help_is_wanted(cli)) {
                return help_answer(cli, word);
            }
            return commands[index].run(cli, argc, argv);
        }
    }
    return cli_usage_error(
        NULL,
        "unknown command \"%s\": expected lock, hold, ls, show, watch, top, "
        "check, status, doctor, break, member or setup; `holdfast --help` explains",
        word);
}

/* Returns whether failures are to be written as JSON, also a failure that is found in the words
 * before --json. `lock` decides for itself, because its words may be those of another command. */
static bool wants_json(int argc, char **argv)
{
    bool command = false;
    bool json = false;

    for (int index = 1; index < argc && strcmp(argv[index], "--") != 0; index++) {
        const char *word = argv[index];

        if (strcmp(word, "-s") == 0 || strcmp(word, "--socket") == 0) {
            index++;
        } else if (strcmp(word, "--json") == 0) {
            json = true;
        } else if (word[0] != '-' && !command) {
            command = true;
            if (strcmp(word, "lock") == 0) {
                return false;
            }
        }
    }
    return json;
}

int cli_run(int argc, char **argv)
{
    struct cli cli = {.socket = NULL};
    int index = 1;

    cli_fail_as_json(wants_json(argc, argv) ? stdout : NULL);
    int status = options_parse_leading(&cli, argc, argv, &index);

    if (status != 0) {
        return status;
    }
    if (cli.version || (cli.help && index >= argc)) {
        status = help_answer(&cli, NULL);
    } else if (index < argc) {
        status = dispatch(&cli, argv[index], argc - index - 1, argv + index + 1);
    } else {
        status = cli_usage_error(
            NULL, "no command: expected lock, hold, ls, show, watch, top, "
                  "check, status, doctor, break, member or setup; `holdfast --help` explains");
    }
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_OK) {
        fputs("holdfast: standard output could not be written\n", stderr);
        return CLI_FAILED;
    }
    return status;
}
