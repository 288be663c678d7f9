/*
 * The request that `holdfast setup` carries out, and the report that it prints at its end.
 */
#ifndef HOLDFAST_CLI_SETUP_H
#define HOLDFAST_CLI_SETUP_H

#include <stdbool.h>

#include "cli.h"
#include "options.h"
#include "remedy.h"
#include "setup_cell.h"
#include "setup_install.h"

#define SETUP_OUTPUT SERVICE_CONFIGURATION

struct setup {
    struct cli *cli;
    /* the command line */
    bool one_host;
    bool yes;
    bool print;
    const char *name; /* --cell */
    const char *self;
    const char *users;
    const char *from;
    struct option_list hosts;
    struct setup_target target;
    char certificates[SETUP_PATH_MAX];
    char state_dir[SETUP_PATH_MAX]; /* "": the service's */

    struct setup_cell cell;
    const struct setup_host *own; /* NULL: this host gets no configuration */
    bool asked;                   /* a person on the terminal was asked */
};

/* Shows the hosts of the cell before anything is written. */
void setup_show_plan(const struct setup *setup);

/* These functions print what was written and what to do next. With --json all three print a JSON
 * object of the same form. name: the agent whose folder was installed. */
void setup_report_from(const struct setup *setup, const char *name);
void setup_report_one_host(const struct setup *setup);
void setup_report_cell(const struct setup *setup);

#endif
