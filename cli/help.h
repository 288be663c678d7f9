/*
 * The texts of --help.
 */
#ifndef HOLDFAST_CLI_HELP_H
#define HOLDFAST_CLI_HELP_H

/* Writes the help of a command, or with NULL that of the program, to stdout. Returns 0. */
int help_show(const char *command);

#endif
