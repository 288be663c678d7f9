/*
 * Shared by the commands of `holdfast`: the exit codes that scripts rely on, the settings that
 * every command has, the way of connecting, and the way of reporting a failure.
 *
 * The program uses libholdfast's public header alone. It is single-threaded but for two threads
 * while `lock` waits: one listens for signals (taking.h), one says why it waits (waiting.h).
 */
#ifndef HOLDFAST_CLI_CLI_H
#define HOLDFAST_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include <holdfast/admin.h>

enum {
    CLI_OK = 0,
    CLI_NOT_HELD = 1,     /* check: the sequencer's hold is over */
    CLI_DOCTOR_WARNS = 1, /* doctor: a person should look when there is time */
    CLI_DOCTOR_FINDS = 2, /* doctor: something is wrong */
    CLI_USAGE = 64,       /* bad usage or name */
    CLI_NO_AGENT = 69,    /* no agent answers */
    CLI_FAILED = 70,      /* any other failure */
    CLI_NO_MAJORITY = 74, /* lock: not had, because no majority of the voters answers */
    CLI_NOT_NOW = 75,     /* not in time, the session is not safe, or the answer is not known now */
    CLI_LOST = 76,        /* the hold ended while CMD ran */
    CLI_NOT_ALLOWED = 77, /* the agent's configuration does not allow it */
    CLI_NOT_EXECUTABLE = 126, /* CMD was found but could not be run */
    CLI_NOT_FOUND = 127,      /* CMD was not found */
    CLI_SIGNAL_BASE = 128,    /* + n: signal n ended CMD, or ended the waiting */
};

/* Options that may stand before or after every command word. */
struct cli {
    const char *socket; /* -s; NULL: the library's default */
    bool json;          /* --json */
    bool help;          /* --help */
    bool version;       /* --version */
};

/* The exit code for a library error. */
int cli_exit_code(int error);

/*
 * Reports on stderr, in one line, that `what` failed in command `where` with that error of the
 * library. Returns the exit code for it.
 */
int cli_fail(const char *where, const char *what, int error);

/* Reports a wrong command line, in one line on stderr, and returns CLI_USAGE. `where` is the
 * command word, or NULL for the program itself. */
int cli_usage_error(const char *where, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

/* Connects. Returns 0; on failure reports why and where the agent was looked for, and returns the
 * exit code. timeout_ns as in hf_options. */
int cli_connect(const struct cli *cli, const char *where, int64_t timeout_ns, hf_client **out)
    __attribute__((warn_unused_result));

/* The whole program, for main() and for tests. Returns the exit status. */
int cli_run(int argc, char **argv);

/* The commands: argv holds what follows the command word. Each returns the exit status. */
int command_lock(struct cli *cli, int argc, char **argv);
int command_ls(struct cli *cli, int argc, char **argv);
int command_show(struct cli *cli, int argc, char **argv);
int command_watch(struct cli *cli, int argc, char **argv);
int command_doctor(struct cli *cli, int argc, char **argv);
int command_check(struct cli *cli, int argc, char **argv);
int command_status(struct cli *cli, int argc, char **argv);
int command_break(struct cli *cli, int argc, char **argv);
int command_member(struct cli *cli, int argc, char **argv);

#endif
