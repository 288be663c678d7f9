/*
 * See cli_run.h.
 */
#include "cli_run.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../suite_main.h"

enum { GUARD_MS = 60000 };

int64_t run_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void run_sleep_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&pause, NULL);
}

/* Splits the line at spaces. Changes the line. */
static void split(char *line, char **words)
{
    size_t count = 1;

    words[0] = (char *)CLI_FAKE;
    while (*line != '\0') {
        char end = *line == '\'' ? '\'' : ' ';

        line += end == '\'';
        ck_assert_uint_lt(count, RUN_WORDS_MAX - 1);
        words[count++] = line;
        line += strcspn(line, end == '\'' ? "'" : " ");
        if (*line != '\0') {
            *line++ = '\0';
        }
        line += strspn(line, " ");
    }
    words[count] = NULL;
}

unsigned run_inherited;
int run_input = -1;

void run_start(struct run *run, const char *fake, const char *line)
{
    char *words[RUN_WORDS_MAX];
    char text[1024];
    char setting[512];
    int out[2];
    int err[2];
    int log_fd;

    snprintf(run->log, sizeof(run->log), "%s/log.XXXXXX", suite_folder());
    log_fd = mkostemp(run->log, O_CLOEXEC);
    ck_assert_int_ge(log_fd, 0);
    close(log_fd);
    snprintf(setting, sizeof(setting), "%s,log=%s", fake, run->log);
    snprintf(text, sizeof(text), "%s", line);
    split(text, words);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
    run->begun_ms = run_now_ms();
    run->pid = fork();
    ck_assert_int_ge(run->pid, 0);
    if (run->pid == 0) {
        /* If a script's shell started this test in the background, these signals are ignored
         * here. */
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        setpgid(0, 0);
        setenv("HOLDFAST_FAKE", setting, 1);
        int input = run_input >= 0 ? run_input : open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (dup2(input, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0 ||
            close_range(STDERR_FILENO + 1, ~0U, 0) != 0) {
            _exit(99);
        }
        for (unsigned i = 0; i < run_inherited; i++) {
            (void)open("/dev/null", O_RDONLY);
        }
        execv(words[0], words);
        _exit(99);
    }
    close(out[1]);
    close(err[1]);
    run->out_fd = out[0];
    run->err_fd = err[0];
    run->lines[0] = '\0';
}

/* Appends what can be read to `text`. Returns false at the end of the file. */
static bool take(int fd, char *text)
{
    size_t size = strlen(text);
    ssize_t got;

    ck_assert_uint_lt(size, RUN_TEXT_SIZE - 1);
    got = read(fd, text + size, RUN_TEXT_SIZE - 1 - size);
    if (got > 0) {
        text[size + (size_t)got] = '\0';
    }
    return got > 0;
}

static void read_log(const struct run *run, char *text)
{
    int fd = open(run->log, O_RDONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    text[0] = '\0';
    while (take(fd, text)) {
    }
    close(fd);
}

void run_finish(struct run *run, struct ran *out)
{
    int64_t start = run_now_ms();
    struct pollfd fds[2] = {
        {.fd = run->out_fd, .events = POLLIN},
        {.fd = run->err_fd, .events = POLLIN},
    };
    int status;

    memset(out, 0, sizeof(*out));
    snprintf(out->out, sizeof(out->out), "%s", run->lines);
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 2, 1000) < 0) {
            ck_assert_int_eq(errno, EINTR);
        }
        if (run_now_ms() - start > GUARD_MS) {
            kill(-run->pid, SIGKILL);
            ck_abort_msg("the command did not end: %s%s", out->out, out->err);
        }
        if (fds[0].revents != 0 && !take(run->out_fd, out->out)) {
            fds[0].fd = -1;
        }
        if (fds[1].revents != 0 && !take(run->err_fd, out->err)) {
            fds[1].fd = -1;
        }
    }
    ck_assert_int_eq(waitpid(run->pid, &status, 0), run->pid);
    out->took_ms = run_now_ms() - run->begun_ms;
    out->status = WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
    close(run->out_fd);
    close(run->err_fd);
    read_log(run, out->log);
    unlink(run->log);
}

void run_command(const char *fake, const char *line, struct ran *out)
{
    struct run run;

    run_start(&run, fake, line);
    run_finish(&run, out);
}

void run_await_log(const struct run *run, const char *part)
{
    char text[RUN_TEXT_SIZE] = "";
    int64_t start = run_now_ms();

    while (strstr(text, part) == NULL) {
        if (run_now_ms() - start > GUARD_MS) {
            kill(-run->pid, SIGKILL);
            ck_abort_msg("never called: %s", part);
        }
        run_sleep_ms(5);
        read_log(run, text);
    }
}

void run_await_out(const struct run *run, const char *part)
{
    char text[RUN_TEXT_SIZE] = "";
    int64_t start = run_now_ms();

    while (strstr(text, part) == NULL) {
        struct pollfd fd = {.fd = run->out_fd, .events = POLLIN};

        poll(&fd, 1, 100);
        if (run_now_ms() - start > GUARD_MS || (fd.revents != 0 && !take(run->out_fd, text))) {
            kill(-run->pid, SIGKILL);
            ck_abort_msg("never written: %s", part);
        }
    }
}

size_t run_count_lines(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++) {
        count += *text == '\n';
    }
    return count;
}

void run_await_lines(struct run *run, size_t count)
{
    int64_t start = run_now_ms();

    while (run_count_lines(run->lines) < count) {
        struct pollfd fd = {.fd = run->out_fd, .events = POLLIN};

        poll(&fd, 1, 100);
        if (run_now_ms() - start > GUARD_MS ||
            (fd.revents != 0 && !take(run->out_fd, run->lines))) {
            kill(-run->pid, SIGKILL);
            ck_abort_msg("never written: %zu lines; but: %s", count, run->lines);
        }
    }
}

void run_until_closed(const char *line, size_t count)
{
    struct run run;
    struct ran ran;

    run_start(&run, "", line);
    run_await_lines(&run, count);
    /* No more output follows, so only poll() shows that the reader has closed its end. */
    close(run.out_fd);
    run.out_fd = dup(run.err_fd);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "");
}
