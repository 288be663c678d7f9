/*
 * `holdfast top` as a process: in batch mode, and on a pseudo-terminal.
 */
#include <check.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include "../suite_main.h"
#include "cli_run.h"
#include "text/utf8.h"

enum { GUARD_MS = 60000, ROWS = 24, COLUMNS = 80, SCREEN_SIZE = 1 << 20 };

/* ---- without a terminal ---- */

static const struct {
    const char *line;
    const char *error;
} bad_lines[] = {
    {"top a b", "expected at most one PREFIX"},
    {"top --once --sort size",
     "\"size\" is not a key: expected waiters, holds, wait, held or name"},
    {"top --once -n 2", "--once and -n: expected only one of them"},
    {"top -b -n 0", "-n: \"0\" is not a count: expected a whole number from 1 to 1000000000"},
    {"top -b -n 1000000001", "is not a count"},
    {"top -b -n 99999999999999999999", "is not a count"},
    {"top -b -n 1x", "is not a count"},
    {"top -b -n -1", "is not a count"},
    {"top -b -d 99ms", "--delay: expected 100ms to 24h"},
    {"top -b --delay=25h", "--delay: expected 100ms to 24h"},
    {"top -b -d 2", "is not a duration"},
    {"top --once a\x01", "control character"},
    {"top", "standard input is no terminal: expected one, or --batch"},
    {"top -n 2", "standard input is no terminal: expected one, or --batch"},
};

START_TEST(test_usage)
{
    struct ran ran;

    run_command("", bad_lines[_i].line, &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_str_eq(ran.out, "");
    ck_assert_str_eq(ran.log, "");
    ck_assert_msg(strstr(ran.err, bad_lines[_i].error) != NULL, "%s", ran.err);
    ck_assert_ptr_eq(strchr(ran.err, '\n'), ran.err + strlen(ran.err) - 1);
}
END_TEST

START_TEST(test_once)
{
    struct ran ran;

    run_command("more", "top --once pre", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "");
    ck_assert_str_eq(ran.log, "connect -\nlist pre\ndisconnect\n");
    ck_assert_ptr_nonnull(strstr(ran.out, "  agent dev (voter) of cell dev, version 9.8.7\n"
                                          "state     well\n"
                                          "locks     4 in use: 3 held, 2 awaited, 2 closed; - "
                                          "holds/s\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "\nobservers 1 up, 1 down: obs-2; 1 more are only "
                                          "counted\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "\nlocks\nLOCK "));
    ck_assert_ptr_nonnull(strstr(ran.out, "root: job \"x\"??[31m? end"));
    ck_assert_ptr_nonnull(strstr(ran.out, "\nwaits\nLOCK "));
    ck_assert_ptr_nonnull(strstr(ran.out, "  77 (root)  dev   2.0 s  shared     4242 (root): job"));
    ck_assert_ptr_nonnull(strstr(ran.out, "\nhosts\nHOST "));
    ck_assert_ptr_null(strchr(ran.out, '\33'));
    run_command("", "top --json --once", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_int_eq(strncmp(ran.out, "{\"time\":\"", 9), 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"error\":null,\"agent\":\"dev\""));
    ck_assert_uint_eq(run_count_lines(ran.out), 1);
}
END_TEST

/* Each reading is one listing, and the readings are `delay` apart. */
START_TEST(test_batch)
{
    struct ran ran;

    run_command("", "top --json -n 3 -d 200ms", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_uint_eq(run_count_lines(ran.out), 3);
    ck_assert_str_eq(ran.log, "connect -\nlist \nlist \nlist \ndisconnect\n");
    ck_assert_int_ge(ran.took_ms, 400);
    run_command("", "top -b -n 2 -d 100ms", &ran);
    ck_assert_int_eq(ran.status, 0);
    /* the lock `a` has the same token in both readings, so its rate is known: 0 */
    ck_assert_ptr_nonnull(strstr(ran.out, "2 closed; - holds/s\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "2 closed; 0 holds/s\n"));
}
END_TEST

START_TEST(test_batch_outlives_agent)
{
    struct ran ran;

    run_command("away=1", "top --json -n 2 -d 100ms", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"error\":\"fake error -9\"}\n{\"time\":"));
    ck_assert_ptr_nonnull(strstr(ran.out, "\"error\":null,\"agent\":\"dev\""));
    run_command("away=1", "top --once", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(strstr(ran.out, "\nno answer fake error -9, for "));
    ck_assert_str_eq(ran.err, "holdfast top: asking the agent: fake error -9\n");
    run_command("list=-10", "top -b", &ran);
    ck_assert_int_eq(ran.status, 77);
    ck_assert_str_eq(ran.out, "");
    run_command("facts=-16", "top -b", &ran);
    ck_assert_int_eq(ran.status, 70);
    run_command("connect=-9", "top -b", &ran);
    ck_assert_int_eq(ran.status, 69);
}
END_TEST

START_TEST(test_batch_closed_output)
{
    run_until_closed("top --json -d 1h", 1);
}
END_TEST

/* ---- on a terminal ---- */

struct on_terminal {
    pid_t pid;
    int fd;
    struct termios before; /* the terminal's modes before the command started */
    size_t used;
    char *text;   /* all that the command has written */
    size_t drawn; /* await() looks at what was written from here on */
    int last_row; /* set by await(): the lowest row to which the cursor was moved from there on */
    int last_column;
};

/* Starts the shell's script on a new terminal. The script finds the path of the command in
 * $HOLDFAST. type: $TERM; NULL: there is none. */
static void start(struct on_terminal *on, const char *fake, const char *type, const char *script)
{
    const struct winsize size = {.ws_row = ROWS, .ws_col = COLUMNS};
    int slave;

    *on = (struct on_terminal){.text = calloc(1, SCREEN_SIZE)};
    ck_assert_int_eq(openpty(&on->fd, &slave, NULL, NULL, &size), 0);
    ck_assert_int_eq(tcgetattr(slave, &on->before), 0);
    on->pid = fork();
    ck_assert_int_ge(on->pid, 0);
    if (on->pid == 0) {
        close(on->fd);
        login_tty(slave);
        signal(SIGINT, SIG_DFL);
        signal(SIGQUIT, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        setenv("HOLDFAST", CLI_FAKE, 1);
        setenv("HOLDFAST_FAKE", fake, 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        unsetenv("LINES");
        unsetenv("COLUMNS");
        unsetenv("TERM");
        if (type != NULL) {
            setenv("TERM", type, 1);
        }
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(99);
    }
    close(slave);
}

/* Reads what the command writes. Returns false when it has ended. */
static bool take(struct on_terminal *on, int timeout_ms)
{
    struct pollfd input = {.fd = on->fd, .events = POLLIN};
    ssize_t got;

    if (poll(&input, 1, timeout_ms) == 0) {
        return true;
    }
    ck_assert_uint_lt(on->used, SCREEN_SIZE - 1);
    got = read(on->fd, on->text + on->used, SCREEN_SIZE - 1 - on->used);
    on->used += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* ---- what a terminal shows after all that was written ---- */

enum { SHOWN_ROWS = 50, SHOWN_COLUMNS = 220, CELL_SIZE = 5 };

/* The characters on the screen, and the place of the cursor. */
struct shown {
    char cells[SHOWN_ROWS][SHOWN_COLUMNS][CELL_SIZE];
    int row;
    int column;
    int last_row; /* the lowest place to which the cursor was ever moved */
    int last_column;
};

static void erase(struct shown *shown, int row, int from, int count)
{
    for (int column = from; column < from + count && column < SHOWN_COLUMNS; column++) {
        strcpy(shown->cells[row][column], " ");
    }
}

static void move_to(struct shown *shown, int row, int column)
{
    shown->row = row < 0 ? 0 : row < SHOWN_ROWS ? row : SHOWN_ROWS - 1;
    shown->column = column < 0 ? 0 : column < SHOWN_COLUMNS ? column : SHOWN_COLUMNS - 1;
    shown->last_row = shown->row > shown->last_row ? shown->row : shown->last_row;
    shown->last_column = shown->column > shown->last_column ? shown->column : shown->last_column;
}

/* Moves the rest of the line to the left, or to the right. */
static void shift(struct shown *shown, int count, bool left)
{
    char(*line)[CELL_SIZE] = shown->cells[shown->row];
    int rest = SHOWN_COLUMNS - shown->column - count;

    if (left) {
        memmove(line[shown->column], line[shown->column + count], (size_t)rest * CELL_SIZE);
        erase(shown, shown->row, SHOWN_COLUMNS - count, count);
    } else {
        memmove(line[shown->column + count], line[shown->column], (size_t)rest * CELL_SIZE);
        erase(shown, shown->row, shown->column, count);
    }
}

static void show(struct shown *shown, const char *character, size_t size)
{
    snprintf(shown->cells[shown->row][shown->column], CELL_SIZE, "%.*s", (int)size, character);
    move_to(shown, shown->row, shown->column + 1);
}

/* Does what a control sequence says. Sequences that move neither text nor the cursor are
 * skipped. */
static void control(struct shown *shown, char letter, long first, long second)
{
    int count = first > 0 ? (int)first : 1;
    char last[CELL_SIZE];

    switch (letter) {
    case 'H':
        move_to(shown, count - 1, second > 0 ? (int)second - 1 : 0);
        break;
    case 'd':
        move_to(shown, count - 1, shown->column);
        break;
    case 'G':
        move_to(shown, shown->row, count - 1);
        break;
    case 'A':
    case 'B':
        move_to(shown, shown->row + (letter == 'B' ? count : -count), shown->column);
        break;
    case 'C':
    case 'D':
        move_to(shown, shown->row, shown->column + (letter == 'C' ? count : -count));
        break;
    case 'J': /* erases the rest of the screen, or all of it */
        for (int row = first == 2 ? 0 : shown->row + 1; row < SHOWN_ROWS; row++) {
            erase(shown, row, 0, SHOWN_COLUMNS);
        }
        erase(shown, shown->row, shown->column, SHOWN_COLUMNS);
        break;
    case 'K': /* erases the rest of the line, or all before the cursor */
        erase(shown, shown->row, first == 1 ? 0 : shown->column,
              first == 1 ? shown->column + 1 : SHOWN_COLUMNS);
        break;
    case 'X':
        erase(shown, shown->row, shown->column, count);
        break;
    case 'P':
    case '@':
        shift(shown, count, letter == 'P');
        break;
    case 'b':
        strcpy(last, shown->cells[shown->row][shown->column - (shown->column > 0)]);
        for (; count > 0; count--) {
            show(shown, last, strlen(last));
        }
        break;
    default:
        break;
    }
}

/* Reads an escape sequence. Returns its end. */
static const char *escape(struct shown *shown, const char *at)
{
    char *end;
    long first;
    long second = 0;

    if (at[1] != '[') {
        return at + (at[1] == '(' ? 3 : 2); /* selects a set of characters, or sets the keypad's
                                             * mode */
    }
    if (at[2] == '?') {
        return at + 3 + strspn(at + 3, "0123456789;") + 1;
    }
    first = strtol(at + 2, &end, 10);
    if (*end == ';') {
        second = strtol(end + 1, &end, 10);
    }
    end += strspn(end, "0123456789;");
    control(shown, *end, first, second);
    return *end != '\0' ? end + 1 : end;
}

/* Shows the text on an empty screen. A sequence at its end may be incomplete. */
static void show_all(struct shown *shown, const char *text)
{
    *shown = (struct shown){.row = 0};
    for (int row = 0; row < SHOWN_ROWS; row++) {
        erase(shown, row, 0, SHOWN_COLUMNS);
    }
    while (*text != '\0') {
        struct hfi_utf8 unit = hfi_utf8_next(text, strnlen(text, HFI_UTF8_MAX));

        if (*text == '\33') {
            text = escape(shown, text);
            continue;
        }
        if (*text == '\r') {
            move_to(shown, shown->row, 0);
        } else if (*text == '\n') {
            move_to(shown, shown->row + 1, shown->column);
        } else if (*text == '\b') {
            move_to(shown, shown->row, shown->column - 1);
        } else if (*text == '\t') {
            move_to(shown, shown->row, shown->column / 8 * 8 + 8);
        } else if ((unsigned char)*text >= ' ') {
            show(shown, text, unit.size);
        }
        text += unit.size;
    }
}

/* Returns whether a line of the screen has the text. */
static bool shows(struct on_terminal *on, const char *text)
{
    static struct shown shown;
    char line[SHOWN_COLUMNS * CELL_SIZE];

    show_all(&shown, on->text + on->drawn);
    for (int row = 0; row < SHOWN_ROWS; row++) {
        line[0] = '\0';
        for (int column = 0; column < SHOWN_COLUMNS; column++) {
            strcat(line, shown.cells[row][column]);
        }
        if (strstr(line, text) != NULL) {
            on->last_row = shown.last_row;
            on->last_column = shown.last_column;
            return true;
        }
    }
    return false;
}

/* Waits until the screen shows the text. */
static void await(struct on_terminal *on, const char *text)
{
    int64_t end_ms = run_now_ms() + GUARD_MS / 2;

    while (!shows(on, text)) {
        ck_assert_msg(run_now_ms() < end_ms && take(on, 100), "\"%s\" is not in: %s", text,
                      on->text + on->drawn);
    }
}

/* Waits until the screen shows the text, or has shown it since on->drawn. The text may be replaced
 * before this process gets a processor. */
static void await_once(struct on_terminal *on, const char *text)
{
    int64_t end_ms = run_now_ms() + GUARD_MS / 2;
    size_t looked = on->drawn;

    for (;;) {                      /* the guard ends this loop */
        while (looked < on->used) { /* looks at the screen as it was before each sequence */
            looked++;
            if (on->text[looked] == '\33' || looked == on->used) {
                char next = on->text[looked];

                on->text[looked] = '\0';
                bool seen = shows(on, text);
                on->text[looked] = next;
                if (seen) {
                    return;
                }
            }
        }
        ck_assert_msg(run_now_ms() < end_ms && take(on, 100), "\"%s\" was not in: %s", text,
                      on->text + on->drawn);
    }
}

/* Waits until the command erases the whole screen, and begins on->drawn there. */
static void await_erased(struct on_terminal *on)
{
    static const char erases[] = "\33[2J";
    int64_t end_ms = run_now_ms() + GUARD_MS / 2;
    const char *at;

    while ((at = strstr(on->text + on->drawn, erases)) == NULL) {
        ck_assert_msg(run_now_ms() < end_ms && take(on, 100), "no new screen in: %s",
                      on->text + on->drawn);
    }
    on->drawn = (size_t)(at - on->text);
}

static void press(const struct on_terminal *on, const char *keys)
{
    ck_assert_int_eq(write(on->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

/* Waits for the end of the command. Returns its exit status, or 1000 + its signal. */
static int finish(struct on_terminal *on)
{
    int64_t end_ms = run_now_ms() + GUARD_MS;
    int status;

    while (waitpid(on->pid, &status, WNOHANG) == 0) {
        if (run_now_ms() > end_ms) {
            kill(on->pid, SIGKILL);
            ck_abort_msg("the command did not end: %s", on->text);
        }
        (void)take(on, 20);
    }
    while (poll(&(struct pollfd){.fd = on->fd, .events = POLLIN}, 1, 0) > 0 && take(on, 0)) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* Checks that the terminal is as before: its modes, its other screen, its cursor. */
static void check_restored(struct on_terminal *on)
{
    struct termios after;

    ck_assert_int_eq(tcgetattr(on->fd, &after), 0);
    ck_assert_uint_eq(after.c_lflag, on->before.c_lflag);
    ck_assert_uint_eq(after.c_iflag, on->before.c_iflag);
    ck_assert_uint_eq(after.c_oflag, on->before.c_oflag);
    ck_assert_ptr_nonnull(strstr(on->text, "\33[?1049h"));
    ck_assert_ptr_nonnull(strstr(strstr(on->text, "\33[?1049h"), "\33[?1049l"));
    ck_assert_ptr_nonnull(strstr(on->text, "\33[?25l")); /* the cursor is hidden, and shown again */
    ck_assert_ptr_nonnull(strstr(strstr(on->text, "\33[?25l"), "\33[?25h"));
}

static void end(struct on_terminal *on)
{
    close(on->fd);
    free(on->text);
}

START_TEST(test_screen)
{
    struct on_terminal on;

    start(&on, "more", "xterm", "exec $HOLDFAST top -d 1h");
    await(&on, "agent dev (voter) of cell dev");
    await(&on, "LOCK");
    await(&on, "orders/of-\xc3\xbc"); /* the longest queue comes first */
    await(&on, "exclusive  root: j");
    press(&on, "2");
    await(&on, "WHICH WA");
    press(&on, "\t");
    await(&on, "PARTITIONS");
    press(&on, "h");
    await(&on, "quit");
    press(&on, "hs");
    await(&on, "delay between readings");
    press(&on, "100ms\r");
    await(&on, "every 100 ms");
    press(&on, "q");
    ck_assert_int_eq(finish(&on), 0);
    check_restored(&on);
    end(&on);
}
END_TEST

/* The arrows arrive as escape sequences. */
START_TEST(test_arrows)
{
    struct on_terminal on;

    start(&on, "more", "xterm", "exec $HOLDFAST top -d 1h");
    await(&on, "locks by waiters, 4");
    press(&on, "\33OC");
    await(&on, "waits by wait");
    press(&on, "\33OD\33OD");
    await(&on, "hosts by name");
    press(&on, "\f\3");
    ck_assert_int_eq(finish(&on), 1000 + SIGINT);
    check_restored(&on);
    end(&on);
}
END_TEST

START_TEST(test_signals)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};
    struct on_terminal on;

    start(&on, "", "xterm", "exec $HOLDFAST top");
    await(&on, "LOCK");
    kill(on.pid, signals[_i]);
    ck_assert_int_eq(finish(&on), 1000 + signals[_i]);
    check_restored(&on);
    end(&on);
}
END_TEST

/* The command ends with its terminal. */
START_TEST(test_hangup)
{
    struct on_terminal on;
    int status;

    start(&on, "", "xterm", "exec $HOLDFAST top");
    await(&on, "LOCK");
    close(on.fd);
    ck_assert_int_eq(waitpid(on.pid, &status, 0), on.pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
    free(on.text);
}
END_TEST

/* The command ends with its terminal even if it ignores SIGHUP, as after nohup. */
START_TEST(test_hangup_without_signal)
{
    struct on_terminal on;
    int status;

    start(&on, "", "xterm", "trap '' HUP; exec $HOLDFAST top");
    await(&on, "LOCK");
    close(on.fd);
    ck_assert_int_eq(waitpid(on.pid, &status, 0), on.pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 70);
    free(on.text);
}
END_TEST

/* After a resize the whole screen is drawn again, and nothing outside of it. */
START_TEST(test_resize)
{
    struct winsize size = {.ws_row = 8, .ws_col = 50};
    struct on_terminal on;

    start(&on, "more", "xterm", "exec $HOLDFAST top -d 1h");
    await(&on, "locks by waiters, 4; h: help");
    await(&on, "orders/of-");
    on.drawn = on.used;
    ck_assert_int_eq(ioctl(on.fd, TIOCSWINSZ, &size), 0);
    await_erased(&on); /* before the erasure, the rest of the first screen may come */
    await(&on, "holdfast top");
    await(&on, "locks by waiters, 4; h: help");
    await(&on, "orders/of-");
    ck_assert_int_lt(on.last_row, 8);
    ck_assert_int_le(on.last_column, 50);
    size = (struct winsize){.ws_row = 1, .ws_col = 1};
    ck_assert_int_eq(ioctl(on.fd, TIOCSWINSZ, &size), 0);
    press(&on, "\f");
    run_sleep_ms(50);
    size = (struct winsize){.ws_row = 40, .ws_col = 200};
    ck_assert_int_eq(ioctl(on.fd, TIOCSWINSZ, &size), 0);
    await(&on, "make report of a whole year of orders and returns");
    press(&on, "q");
    ck_assert_int_eq(finish(&on), 0);
    check_restored(&on);
    end(&on);
}
END_TEST

/* Without an agent the last reading stays, and the command goes on when the agent is back. */
START_TEST(test_screen_outlives_agent)
{
    struct on_terminal on;

    start(&on, "away=2", "xterm", "exec $HOLDFAST top -d 100ms");
    await_once(&on, "no answer fake error -9");
    await(&on, "LOCK");
    press(&on, "q");
    ck_assert_int_eq(finish(&on), 0);
    check_restored(&on);
    end(&on);
}
END_TEST

/* Keys and signals work while the agent does not answer, and the screen says so. */
START_TEST(test_screen_of_a_silent_agent)
{
    struct on_terminal on;

    start(&on, "stuck=1", "xterm", "exec $HOLDFAST top -d 100ms");
    await(&on, "LOCK");
    await(&on, "the agent has not answered for");
    await(&on, "; the rest is of ");
    press(&on, "3");
    await(&on, "PARTITIONS");
    if (_i == 0) {
        press(&on, "q");
        ck_assert_int_eq(finish(&on), 0);
    } else {
        kill(on.pid, SIGTERM);
        ck_assert_int_eq(finish(&on), 1000 + SIGTERM);
    }
    check_restored(&on);
    end(&on);
}
END_TEST

/* An error that does not pass ends the command, after the terminal is restored. */
START_TEST(test_screen_after_an_error)
{
    struct on_terminal on;

    start(&on, "list=-10", "xterm", "exec $HOLDFAST top");
    ck_assert_int_eq(finish(&on), 77);
    check_restored(&on);
    ck_assert_ptr_nonnull(strstr(strstr(on.text, "\33[?1049l"),
                                 "holdfast top: asking the agent: fake error -10\r\n"));
    end(&on);
}
END_TEST

START_TEST(test_screen_count)
{
    struct on_terminal on;

    start(&on, "", "xterm", "exec $HOLDFAST top -n 2 -d 100ms");
    await(&on, "LOCK");
    ck_assert_int_eq(finish(&on), 0);
    check_restored(&on);
    end(&on);
}
END_TEST

static const struct {
    const char *type;
    const char *error;
} terminals[] = {
    {NULL, "the terminal's type is not known: expected it in $TERM, or --batch"},
    {"", "the terminal's type is not known: expected it in $TERM, or --batch"},
    {"dumb", "a terminal of type \"dumb\" ($TERM) cannot place text: expected another one, or "
             "--batch"},
    {"nonsense-42", "unknown type of terminal \"nonsense-42\" ($TERM): expected another one, or "
                    "--batch"},
};

/* Returns the text's printable characters, in a static buffer. */
static const char *plain(const char *text)
{
    static char copy[4096];
    size_t count = 0;

    for (; *text != '\0' && count < sizeof(copy) - 1; text++) {
        if (*text >= ' ') {
            copy[count++] = *text;
        }
    }
    copy[count] = '\0';
    return copy;
}

START_TEST(test_unsuitable_terminal)
{
    struct on_terminal on;

    /* newterm() of ncurses leaks when it fails, and the command ends then */
    start(&on, "", terminals[_i].type, "ASAN_OPTIONS=detect_leaks=0 exec $HOLDFAST top");
    ck_assert_int_eq(finish(&on), 64);
    ck_assert_msg(strstr(plain(on.text), terminals[_i].error) != NULL, "%s", on.text);
    ck_assert_ptr_null(strstr(on.text, "\33[?1049h"));
    end(&on);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_top");
    TCase *tests = tcase_create("top");

    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_usage, 0, sizeof(bad_lines) / sizeof(bad_lines[0]));
    tcase_add_test(tests, test_once);
    tcase_add_test(tests, test_batch);
    tcase_add_test(tests, test_batch_outlives_agent);
    tcase_add_test(tests, test_batch_closed_output);
    tcase_add_test(tests, test_screen);
    tcase_add_test(tests, test_arrows);
    tcase_add_loop_test(tests, test_signals, 0, 4);
    tcase_add_test(tests, test_hangup);
    tcase_add_test(tests, test_hangup_without_signal);
    tcase_add_test(tests, test_resize);
    tcase_add_test(tests, test_screen_outlives_agent);
    tcase_add_loop_test(tests, test_screen_of_a_silent_agent, 0, 2);
    tcase_add_test(tests, test_screen_after_an_error);
    tcase_add_test(tests, test_screen_count);
    tcase_add_loop_test(tests, test_unsuitable_terminal, 0,
                        sizeof(terminals) / sizeof(terminals[0]));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
