/*
 * Runs the command as a process of its own, with the library of cli_fake.c, and returns its output.
 * The macro CLI_FAKE has the program's path.
 */
#ifndef HOLDFAST_TESTS_CLI_RUN_H
#define HOLDFAST_TESTS_CLI_RUN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_TEXT_SIZE = 16384, RUN_WORDS_MAX = 24 };

/* A running command. */
struct run {
    pid_t pid;
    int out_fd;
    int err_fd;
    int64_t begun_ms;
    char log[64];              /* the file in which the fake library logs its calls */
    char lines[RUN_TEXT_SIZE]; /* the text that run_await_lines() has read */
};

/* The result of a command. */
struct ran {
    int status; /* the exit status, or 1000 + n if signal n ended the command */
    int64_t took_ms;
    char out[RUN_TEXT_SIZE];
    char err[RUN_TEXT_SIZE];
    char log[RUN_TEXT_SIZE];
};

/* How many descriptors the command inherits beside the standard ones. The command inherits no
 * descriptor of the test itself. */
extern unsigned run_inherited;

/* The command's standard input; -1: /dev/null. */
extern int run_input;

/* Starts `holdfast WORDS`. `line` is split at spaces; a word 'in quotes' may have spaces. `fake` is
 * the value of HOLDFAST_FAKE, to which the log is added. */
void run_start(struct run *run, const char *fake, const char *line);

/* Reads the command's output until the command ends. All waits of cli_run.c fail after a minute, so
 * that a command that hangs ends the test. */
void run_finish(struct run *run, struct ran *out);

/* Calls run_start() and run_finish(). */
void run_command(const char *fake, const char *line, struct ran *out);

/* Starts a command that prints again and again, and closes its stdout after `count` lines. The
 * command must end with status 0 and say nothing. */
void run_until_closed(const char *line, size_t count);

/* Waits until the fake library's log contains `part`. */
void run_await_log(const struct run *run, const char *part);

/* Reads the command's stdout until it contains `part`. run_finish() does not return this output. */
void run_await_out(const struct run *run, const char *part);

/* Reads the command's stdout until it has `count` lines. run_finish() returns these lines, too. */
void run_await_lines(struct run *run, size_t count);

/* Returns how many lines the text has. */
size_t run_count_lines(const char *text);

int64_t run_now_ms(void);
void run_sleep_ms(int64_t ms);

#endif
