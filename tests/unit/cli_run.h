/*
 * Runs the command as a process of its own, with the library of cli_fake.c: input, output. The
 * program's path is compiled in as CLI_FAKE.
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
    char log[64];              /* where the fake library writes its calls */
    char lines[RUN_TEXT_SIZE]; /* the text that run_await_lines() has read */
};

/* Its result. */
struct ran {
    int status; /* the exit status; 1000 + n: signal n ended it */
    int64_t took_ms;
    char out[RUN_TEXT_SIZE];
    char err[RUN_TEXT_SIZE];
    char log[RUN_TEXT_SIZE];
};

/* Starts `holdfast WORDS`; line is split at spaces, a word 'in quotes' may have spaces. fake is
 * what HOLDFAST_FAKE says (the log is added). */
void run_start(struct run *run, const char *fake, const char *line);

/* Reads the command's output until it ends. Like all waits here, this has a guard of a minute,
 * against a command that hangs; a command without a processor needs less. */
void run_finish(struct run *run, struct ran *out);

/* Calls run_start() and run_finish(). */
void run_command(const char *fake, const char *line, struct ran *out);

/* Waits until the text of the log has the part. */
void run_await_log(const struct run *run, const char *part);

/* Reads the command's stdout until it has the part; the text read is gone. */
void run_await_out(const struct run *run, const char *part);

/* Reads the command's stdout until it has so many lines; run_finish() returns them as well. */
void run_await_lines(struct run *run, size_t count);

/* Returns how many lines the text has. */
size_t run_count_lines(const char *text);

int64_t run_now_ms(void);
void run_sleep_ms(int64_t ms);

#endif
