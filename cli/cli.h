/*
 * What all commands of `holdfast` share: the exit codes that scripts rely on, the common options,
 * connecting to the agent, and reporting a failure.
 *
 * The program uses only the public headers of libholdfast. It has one thread. While `lock` waits
 * there are two more: one waits for signals (taking.h), and one reports why `lock` waits
 * (waiting.h), which `hold` has, too. `top` on a terminal has one more, which asks the agent
 * (top_reader.h).
 */
#ifndef HOLDFAST_CLI_CLI_H
#define HOLDFAST_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <holdfast/admin.h>

enum {
    CLI_OK = 0,
    CLI_NOT_HELD = 1,     /* check: the sequencer's hold is over */
    CLI_DOCTOR_WARNS = 1, /* doctor: a person should look when there is time */
    CLI_DOCTOR_FINDS = 2, /* doctor: something is wrong */
    CLI_USAGE = 64,       /* bad usage or name */
    CLI_NO_AGENT = 69,    /* no agent answers */
    CLI_FAILED = 70,      /* any other failure */
    /* lock, hold: holdfast did not get the lock, because no majority of the voters answers */
    CLI_NO_MAJORITY = 74,
    /* lock, hold: holdfast did not get the lock in time; status: the session is not safe; check:
     * the agent does not know now whether the hold counts */
    CLI_NOT_NOW = 75,
    CLI_LOST = 76,            /* the hold ended while CMD ran, or while `hold` held */
    CLI_NOT_ALLOWED = 77,     /* the agent's configuration does not allow the user to do this */
    CLI_NOT_EXECUTABLE = 126, /* CMD was found but could not be run */
    CLI_NOT_FOUND = 127,      /* CMD was not found */
    CLI_SIGNAL_BASE = 128,    /* the status is this plus n if signal n ended CMD or the wait */
};

/* The options that every command has, which may stand before or after the command word, and the
 * text that the agent shows as this process's command. */
struct cli {
    const char *socket; /* -s; NULL: the library's default */
    /* NULL, or a function for --json: if cli_connect() fails, it calls this function with the exit
     * status and the sentence, instead of writing the sentence to stderr. */
    void (*no_agent)(int status, const char *sentence, void *arg);
    void *no_agent_arg;
    const char *command; /* what others see as this process's command; NULL: its command line */
    bool json;           /* --json */
    bool help;           /* --help */
    bool version;        /* --version */
};

/* Returns the exit code for an error of the library. */
int cli_exit_code(int error);

/*
 * From now on the functions below write a failure as an object to `out`, and nothing to stderr:
 *   {"event": "failed", "command": WHERE, "error": SENTENCE, "status": EXIT STATUS}
 * NULL: they write a line to stderr, "holdfast WHERE: SENTENCE".
 */
void cli_fail_as_json(FILE *out);

/* From now on cli_notice() writes to the stream that was given to cli_fail_as_json(). For a command
 * with --json whose answer is one object in each line. */
void cli_notices_in_answer(void);

/* Returns the stream that was last given to cli_fail_as_json(). */
FILE *cli_json_stream(void);

/*
 * Writes that in command `where`, `what` failed with the library's error `error`. Returns the exit
 * code for the error.
 */
int cli_fail(const char *where, const char *what, int error);

/*
 * Like cli_fail(), for the error of the library's call that failed last in this thread: writes the
 * library's sentence about that failure (hf_error_text), which names the lock. With HF_ENOMEM it
 * does what cli_fail() does, because the command itself may have run out of memory between two
 * calls of the library.
 */
int cli_fail_call(const char *where, const char *what, int error);

/* Writes that the command failed, and returns `status`. `where` is the command word, or NULL for
 * the program itself. */
int cli_fail_with(int status, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a sentence that reports no failure of the command itself. As JSON: {"event": "notice",
 * "command": WHERE, "text": SENTENCE}. The object goes to stderr unless cli_notices_in_answer() was
 * called: the answer of a command such as `ls` is one value, and has to stay the only one on
 * stdout. */
void cli_notice(const char *where, const char *sentence);

/* Writes that the command line is wrong, and returns CLI_USAGE. */
int cli_usage_error(const char *where, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

/* Connects to the agent. timeout_ns is hf_options.connect_timeout_ns. Returns 0, or the exit code
 * after it has written the error, the socket's path and, if no agent answers, what to
 * do. */
int cli_connect(const struct cli *cli, const char *where, int64_t timeout_ns, hf_client **out)
    __attribute__((warn_unused_result));

/* Runs the whole program, for main() and for tests. Returns the exit status. */
int cli_run(int argc, char **argv);

/* The commands. argv has the words after the command word. Each function returns the exit
 * status. */
int command_lock(struct cli *cli, int argc, char **argv);
int command_hold(struct cli *cli, int argc, char **argv);
int command_ls(struct cli *cli, int argc, char **argv);
int command_show(struct cli *cli, int argc, char **argv);
int command_top(struct cli *cli, int argc, char **argv);
int command_watch(struct cli *cli, int argc, char **argv);
int command_doctor(struct cli *cli, int argc, char **argv);
int command_check(struct cli *cli, int argc, char **argv);
int command_status(struct cli *cli, int argc, char **argv);
int command_break(struct cli *cli, int argc, char **argv);
int command_member(struct cli *cli, int argc, char **argv);
int command_setup(struct cli *cli, int argc, char **argv);

#endif
