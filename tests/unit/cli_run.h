/*
 * Running the command as a process of its own, with the library of cli_fake.c: what goes in, what
 * comes out. The program's path is compiled in as CLI_FAKE.
 */
#ifndef HOLDFAST_TESTS_CLI_RUN_H
#define HOLDFAST_TESTS_CLI_RUN_H

#include <stdint.h>
#include <sys/types.h>

enum { RUN_TEXT_SIZE = 16384, RUN_WORDS_MAX = 24 };

/* A running command. */
struct run {
    pid_t pid;
    int out_fd;
    int err_fd;
    char log[64]; /* where the fake library writes its calls */
};

/* What came of it. */
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

/* Reads its output until it ends; 20 s at most. */
void run_finish(struct run *run, struct ran *out);

/* Both. */
void run_command(const char *fake, const char *line, struct ran *out);

/* run_command(), once more if it took that long, for it may be the machine that was busy: how long
 * it takes is told by the quickest of ten. */
void run_command_in(int64_t limit_ms, const char *fake, const char *line, struct ran *out);

/* Waits until the text of the log has the part; fails the test after 10 s. */
void run_await_log(const struct run *run, const char *part);

/* Reads the command's stdout until it has the part; fails the test after 10 s. */
void run_await_out(const struct run *run, const char *part);

int64_t run_now_ms(void);
void run_sleep_ms(int64_t ms);

#endif
