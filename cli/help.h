/*
 * The texts of --help, and the answer to --version.
 */
#ifndef HOLDFAST_CLI_HELP_H
#define HOLDFAST_CLI_HELP_H

#include <stdbool.h>

#include "cli.h"

/* Returns whether the command line has --help or --version. Then the command does nothing else. */
bool help_is_wanted(const struct cli *cli);
/* Writes the version to stdout, if --version was given, else the help of the command. Returns 0. */
int help_answer(const struct cli *cli, const char *command);
/* Writes the help of a command to stdout, or the help of the program if command is NULL. Returns
 * 0. */
int help_show(const char *command);

#endif
