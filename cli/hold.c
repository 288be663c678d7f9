/*
 * `holdfast hold` takes a lock for the program that runs it, mostly a script, prints the sequencer,
 * and holds the lock until its standard input ends.
 *
 * The end of the standard input stands for the end of the script: the kernel closes the script's
 * end of the pipe however the script dies, also while `hold` waits. A command of the script that
 * has inherited the pipe keeps it open, and so keeps the lock.
 *
 * One loop waits for the library's events, the standard input and signals at the same time, so that
 * the command reports a loss at once. Other processes may share the standard input and take its
 * bytes first. So the command reads without blocking, except from a file that it may not open anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "help.h"
#include "json.h"
#include "lock_arguments.h"
#include "nested.h"
#include "opening.h"
#include "waiting.h"
#include "why.h"

enum { DEAF_MS = 1000, COMMAND_SHOWN_SIZE = 256 };

struct hold_command {
    struct lock_arguments arguments;
    struct held held;
    struct waiting *waiting; /* the thread that reports why the command waits */
    char *name;
    int input; /* the standard input, without blocking; not closed before the end */
    bool input_is_socket;
    bool deaf; /* a terminal gives its input to another process group: look again after DEAF_MS */
    int signal_fd;
    sigset_t mask; /* the signals that were blocked before open_signals() */
    bool taken;    /* the sequencer is printed */
    bool over;     /* the command ends with `status` */
    int status;
};

/* ---- Lines on standard output ---- */

/* Returns whether a line can be written without blocking: a script need not read every line. */
static bool has_room(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) != 0;
}

/* Writes that the hold does not count now (jeopardy), that it counts again (safe), or that it is
 * over (lost). If nobody reads, the line is left out. With --json why_lost() writes the loss. */
static void write_state(const struct hold_command *hold, const char *state)
{
    struct json json;

    if (!has_room()) {
        return;
    }
    if (!hold->arguments.json) {
        puts(state);
    } else {
        json_init(&json, stdout);
        json_open_object(&json, NULL);
        json_text(&json, "event", state);
        json_text(&json, "name", hold->name);
        json_close_object(&json);
        putchar('\n');
    }
    (void)fflush(stdout);
}

/* Writes the sequencer. Returns 0 or HF_E... (HF_ELOST: the hold has ended already). This write may
 * block, but a script that has not read the line does not work under the lock. */
static int write_held(const struct hold_command *hold, uint64_t token)
{
    char sequencer[HF_SEQUENCER_MAX];
    struct json json;
    int error = hf_sequencer(hold->held.locks[0], sequencer, sizeof(sequencer));

    if (error != 0) {
        return error;
    }
    if (!hold->arguments.json) {
        puts(sequencer);
    } else {
        json_init(&json, stdout);
        json_open_object(&json, NULL);
        json_text(&json, "event", "held");
        json_text(&json, "name", hold->name);
        json_unsigned(&json, "token", token);
        json_text(&json, "sequencer", sequencer);
        json_close_object(&json);
        putchar('\n');
    }
    return 0;
}

/* ---- The end ---- */

static void end_with(struct hold_command *hold, int status)
{
    if (!hold->over) {
        hold->over = true;
        hold->status = status;
    }
}

/* Ends the command after the hold was lost. */
static void end_lost(struct hold_command *hold)
{
    if (!hold->arguments.json) {
        write_state(hold, "lost");
    }
    why_lost(&hold->held, 0, "", hold->arguments.json);
    end_with(hold, CLI_LOST);
}

/* Releases the lock, or ends the wait for it. */
static void end_by(struct hold_command *hold, int status)
{
    int error = hf_release(hold->held.locks[0]);

    if (error == HF_ELOST && hold->taken) {
        end_lost(hold);
    } else if (error == HF_ENOTHELD) {
        (void)hf_cancel(hold->held.locks[0]);
    }
    end_with(hold, status);
}

/* ---- The standard input ---- */

/* Opens the standard input anew, so that O_NONBLOCK holds for this process only. This fails for a
 * socket, which has MSG_DONTWAIT instead, and for a file of another user, which is read as it is.
 * Returns 0 or an exit status. */
static int input_open(struct hold_command *hold)
{
    struct stat status;

    if (fstat(STDIN_FILENO, &status) != 0) {
        return cli_usage_error("hold", "the standard input is closed: expected one that stays open "
                                       "for as long as the lock is to be held");
    }
    hold->input_is_socket = S_ISSOCK(status.st_mode);
    hold->input = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (hold->input < 0) {
        hold->input = STDIN_FILENO;
    }
    return 0;
}

/* Reads once. Returns how many bytes came, 0 at the end, -1 if there is nothing now. */
static ssize_t input_take(struct hold_command *hold)
{
    char bytes[4096];
    ssize_t count = hold->input_is_socket ? recv(STDIN_FILENO, bytes, sizeof(bytes), MSG_DONTWAIT)
                                          : read(hold->input, bytes, sizeof(bytes));

    /* EIO: a terminal whose foreground is another process group (SIGTTIN is blocked) */
    hold->deaf = count < 0 && errno == EIO;
    if (count < 0 && (errno == EAGAIN || errno == EINTR || errno == EIO)) {
        return -1;
    }
    return count > 0 ? count : 0;
}

static bool input_is_ready(const struct hold_command *hold)
{
    struct pollfd in = {.fd = hold->input, .events = POLLIN};

    return poll(&in, 1, 0) == 1;
}

/* Refuses a standard input that is at its end before anything is taken, such as /dev/null. */
static int input_check(struct hold_command *hold)
{
    int status = input_open(hold);

    if (status == 0 && input_is_ready(hold) && input_take(hold) == 0) {
        status = cli_usage_error("hold",
                                 "the standard input is at its end: expected one that stays "
                                 "open for as long as the lock is to be held");
    }
    return status;
}

static void input_read(struct hold_command *hold)
{
    ssize_t count = input_take(hold);

    if (count > 0 && hold->arguments.max_stall_ns != lock_unset_ns) {
        (void)hf_progress(hold->held.locks[0]);
    }
    if (count != 0) {
        return;
    }
    if (!hold->taken && hf_remaining_ns(hold->held.locks[0]) <= 0) {
        waiting_end(hold->waiting);
        (void)cli_fail_with(hold->arguments.not_now_status, "hold",
                            "%s: the standard input ended before the lock was taken", hold->name);
    }
    end_by(hold, hold->taken ? CLI_OK : hold->arguments.not_now_status);
}

/* ---- Events ---- */

static void on_granted(struct hold_command *hold, uint64_t token)
{
    int error;

    waiting_end(hold->waiting);
    error = write_held(hold, token);
    if (error == HF_ELOST) {
        return; /* the event LOST follows */
    }
    if (error != 0) {
        end_by(hold, cli_fail("hold", hold->name, error));
        return;
    }
    hold->taken = true;
    if (fflush(stdout) != 0) {
        end_by(hold,
               cli_fail_with(CLI_FAILED, "hold", "%s: the standard output could not be written: %s",
                             hold->name, strerror(errno)));
    }
}

static void on_failed(struct hold_command *hold, int error)
{
    waiting_end(hold->waiting);
    /* No lock is held. opening_failed() may wait seconds for the agent's answer, so from here a
     * signal ends holdfast. */
    (void)sigprocmask(SIG_SETMASK, &hold->mask, NULL);
    if (error == HF_EBUSY || error == HF_ETIMEDOUT) {
        end_with(hold, opening_failed(&hold->arguments, &hold->held, error, 0));
    } else {
        end_with(hold, cli_fail("hold", hold->name, error));
    }
}

static void on_event(struct hold_command *hold, const struct hf_event *event)
{
    switch (event->kind) {
    case HF_EVENT_GRANTED:
        on_granted(hold, event->token);
        break;
    case HF_EVENT_FAILED:
        on_failed(hold, event->error);
        break;
    case HF_EVENT_JEOPARDY:
        write_state(hold, "jeopardy");
        break;
    case HF_EVENT_SAFE:
        write_state(hold, "safe");
        break;
    case HF_EVENT_LOST:
        waiting_end(hold->waiting);
        end_lost(hold);
        (void)hf_release(hold->held.locks[0]);
        break;
    default:
        break;
    }
}

static void take_events(struct hold_command *hold)
{
    struct hf_event event;
    int result = 1;

    while (!hold->over && (result = hf_next_event(hold->held.client, &event)) == 1) {
        on_event(hold, &event);
    }
    if (result < 0) {
        end_by(hold, cli_fail("hold", "events", result));
    }
}

static void on_signal(struct hold_command *hold)
{
    struct signalfd_siginfo info;

    if (read(hold->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        end_by(hold, CLI_SIGNAL_BASE + (int)info.ssi_signo);
    }
}

/* Holds until the standard input ends, a signal comes, or the hold is lost. */
static void loop(struct hold_command *hold)
{
    while (!hold->over) {
        struct pollfd fds[] = {
            {.fd = hf_event_fd(hold->held.client), .events = POLLIN},
            {.fd = hold->deaf ? -1 : hold->input, .events = POLLIN},
            {.fd = hold->signal_fd, .events = POLLIN},
        };
        int count = poll(fds, sizeof(fds) / sizeof(fds[0]), hold->deaf ? DEAF_MS : -1);

        hold->deaf = hold->deaf && count != 0;
        take_events(hold);
        if (count > 0 && !hold->over && fds[2].revents != 0) {
            on_signal(hold);
        }
        if (count > 0 && !hold->over && fds[1].revents != 0) {
            input_read(hold);
        }
    }
}

/* ---- The command ---- */

static int open_signals(struct hold_command *hold)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGHUP);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGQUIT);
    sigaddset(&signals, SIGTERM);
    hold->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (hold->signal_fd < 0) {
        return cli_fail("hold", "signals", HF_ENOMEM);
    }
    /* A write or a read that fails must not end or stop holdfast, which looks at the error. */
    sigaddset(&signals, SIGPIPE);
    sigaddset(&signals, SIGTTIN);
    (void)sigprocmask(SIG_BLOCK, &signals, &hold->mask);
    return 0;
}

static int take_and_hold(struct hold_command *hold)
{
    struct lock_arguments *arguments = &hold->arguments;
    enum hf_mode mode = arguments->shared ? HF_SHARED : HF_EXCLUSIVE;
    int64_t timeout_ns = arguments->wait_ns == lock_unset_ns ? HF_FOREVER : arguments->wait_ns;
    int status = opening_run(arguments, &hold->held);
    int error;

    status = status != 0 ? status : open_signals(hold);
    if (status != 0) {
        return status;
    }
    hold->waiting = waiting_begin(&hold->held, opening_waiting_lines(arguments), arguments->json);
    error = hf_acquire_start(hold->held.locks[0], mode, arguments->no_wait ? 0 : timeout_ns);
    if (error != 0) {
        waiting_end(hold->waiting);
        end_with(hold, opening_failed(arguments, &hold->held, error, 0));
    }
    loop(hold);
    waiting_end(hold->waiting);
    hold->held.in_use = !waiting_close(hold->waiting);
    return hold->status;
}

/* Takes the lock, unless a `holdfast lock` that runs this command holds it already. */
static int run_connected(struct hold_command *hold)
{
    const struct nested_options options = {
        .where = "hold",
        .names = hold->held.names,
        .count = 1,
        .shared = hold->arguments.shared,
    };
    struct outer outer;
    bool under = false;
    int status;

    if (outer_read(&outer) != 0) {
        return cli_fail("hold", "the environment", HF_ENOMEM);
    }
    status = nested_check(hold->held.client, &outer, &options, &under);
    outer_free(&outer);
    return status != 0 ? status : take_and_hold(hold);
}

/* Writes the command line of the program that runs this command. Others see it as the holder's
 * command, because it tells them more than this command's own. Leaves `out` empty if it is not
 * known. */
static void parent_command(char *out, size_t size)
{
    char path[64];
    ssize_t count;
    int fd;

    out[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%ld/cmdline", (long)getppid());
    fd = getppid() > 1 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    count = read(fd, out, size - 1);
    (void)close(fd);
    out[count > 0 ? count : 0] = '\0';
    for (ssize_t index = 0; index + 1 < count; index++) {
        out[index] = (char)(out[index] != '\0' ? out[index] : ' ');
    }
}

static void say_no_agent(int status, const char *sentence, void *arg)
{
    why_no_agent(arg, status, sentence);
}

int command_hold(struct cli *cli, int argc, char **argv)
{
    struct hold_command hold = {.held = {.where = "hold"}, .input = -1, .signal_fd = -1};
    char command[COMMAND_SHOWN_SIZE];
    int status = hold_arguments_read(cli, argc, argv, &hold.arguments);

    if (status == 0 && cli->help) {
        return help_show("hold");
    }
    cli_fail_as_json(cli->json ? stdout : NULL);
    cli_notices_in_answer();
    status = status != 0 ? status : input_check(&hold);
    if (status != 0) {
        return status;
    }
    hold.arguments.json = cli->json;
    hold.name = hold.arguments.names[0];
    hold.held.names = hold.arguments.names;
    hold.held.count = 1;
    cli->no_agent = say_no_agent;
    cli->no_agent_arg = &hold.held;
    parent_command(command, sizeof(command));
    cli->command = command[0] != '\0' ? command : NULL;
    status = cli_connect(cli, "hold", opening_agent_wait_ns(&hold.arguments), &hold.held.client);
    if (status != 0) {
        return status;
    }
    status = run_connected(&hold);
    if (!hold.held.in_use) {
        /* if the thread still uses the client, the end of this process disconnects it */
        hf_disconnect(hold.held.client);
        free(hold.held.locks);
    }
    free(hold.held.holds);
    return status;
}
