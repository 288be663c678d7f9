/*
 * The texts of --help.
 */
#ifndef HOLDFAST_CLI_HELP_H
#define HOLDFAST_CLI_HELP_H

/* Writes the help of a command to stdout, or the help of the program if command is NULL. Returns
 * 0. */
int help_show(const char *command);

#endif
