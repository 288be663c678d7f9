/*
 * Runs `holdfast top` on a terminal: see top_screen.h.
 */
#include "top_screen.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <wchar.h>

#include "cli.h"
#include "text/utf8.h"
#include "top_curses.h"
#include "top_reader.h"

enum {
    COLUMNS_MAX = 1024,   /* a wider terminal stays empty at its right side */
    PAUSE_FACTOR = 19,    /* see top_next_ns() */
    ESCAPE_DELAY_MS = 50, /* how long the rest of a key's escape sequence may take */
    CTRL_L = 'L' & 0x1f,
    CTRL_H = 'H' & 0x1f,
    DELETE = 0x7f,
    ESCAPE = 0x1b,
};

/* The pause after an attempt to which no agent answered. */
static const int64_t retry_ns = 1000000000;

/* While an answer is overdue, the screen shows for how long it has been overdue, and is drawn again
 * after this time. */
static const int64_t tick_ns = 1000000000;

struct top_screen {
    struct top_curses curses;
    SCREEN *terminal;
    WINDOW *window;
    int signal_fd;
    sigset_t signals; /* the signals that end the command */
    sigset_t waiting; /* the signal mask during ppoll() */
    const struct top_settings *settings;
    struct top_reader *reader;
    struct top_reading *reading; /* the last reading that succeeded */
    struct top_news news;
    struct top_ui ui;
    int64_t due_ns;      /* when to ask next */
    int64_t answered_ns; /* when the last answer came */
    int64_t took_ns;
    int64_t read_count;
    int error;  /* an error that ended the command */
    int signal; /* a signal that ended the command */
    bool gone;  /* the terminal is gone */
    bool ended;
};

bool top_is_passing(int error)
{
    return error == HF_ENOAGENT || error == HF_EPROTO;
}

int64_t top_next_ns(int64_t asked_ns, int64_t took_ns, int64_t delay_ns)
{
    int64_t pause_ns = took_ns * PAUSE_FACTOR;
    int64_t wait_ns = delay_ns > took_ns + pause_ns ? delay_ns : took_ns + pause_ns;

    return asked_ns + wait_ns;
}

/* ---- the terminal ---- */

int top_screen_check(void)
{
    const char *type = getenv("TERM");

    if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) {
        return cli_usage_error("top", "%s is no terminal: expected one, or --batch",
                               isatty(STDIN_FILENO) != 1 ? "standard input" : "standard output");
    }
    if (type == NULL || type[0] == '\0') {
        return cli_usage_error("top", "the terminal's type is not known: expected it in $TERM, or "
                                      "--batch");
    }
    return 0;
}

static int screen_open(struct top_screen *screen)
{
    struct top_curses *curses = &screen->curses;
    const char *type = getenv("TERM");
    const char *why = top_curses_load(curses);
    const char *move;

    if (why != NULL) {
        (void)!cli_usage_error("top", "%s: install libncursesw6, or use --batch", why);
        return CLI_FAILED;
    }
    (void)setlocale(LC_CTYPE, "");
    screen->terminal = curses->newterm(NULL, stdout, stdin);
    if (screen->terminal == NULL) {
        return cli_usage_error("top",
                               "unknown type of terminal \"%s\" ($TERM): expected another "
                               "one, or --batch",
                               type);
    }
    move = curses->tigetstr("cup");
    if (move == NULL || move == (const char *)-1) {
        (void)curses->endwin();
        return cli_usage_error("top",
                               "a terminal of type \"%s\" ($TERM) cannot place text: "
                               "expected another one, or --batch",
                               type);
    }
    screen->window = curses->newwin(0, 0, 0, 0);
    if (screen->window == NULL) {
        (void)curses->endwin();
        return cli_fail("top", "starting", HF_ENOMEM);
    }
    (void)curses->cbreak();
    (void)curses->noecho();
    (void)curses->set_escdelay(ESCAPE_DELAY_MS);
    (void)curses->keypad(screen->window, true);
    (void)curses->nodelay(screen->window, true);
    (void)curses->curs_set(0);
    return 0;
}

static void screen_close(struct top_screen *screen)
{
    if (screen->window != NULL) {
        (void)screen->curses.curs_set(1);
        (void)screen->curses.endwin();
        (void)screen->curses.delwin(screen->window);
    }
    if (screen->terminal != NULL) {
        screen->curses.delscreen(screen->terminal);
    }
}

/* Converts a line to the characters that fit into `columns`. A character that the terminal's locale
 * does not have becomes `?`. Returns how many characters *wide has. */
static size_t widen(const char *text, size_t size, size_t columns, wchar_t wide[COLUMNS_MAX])
{
    size_t count = 0;
    size_t used = 0;

    while (size > 0 && count < COLUMNS_MAX) {
        struct hfi_utf8 unit = hfi_utf8_next(text, size);
        wchar_t character = unit.valid ? (wchar_t)unit.code_point : L'?';
        int width = wcwidth(character);

        if (width < 0) {
            character = L'?';
            width = 1;
        }
        if (used + (size_t)width > columns) {
            break;
        }
        wide[count++] = character;
        used += (size_t)width;
        text += unit.size;
        size -= unit.size;
    }
    return count;
}

static void draw_line(struct top_screen *screen, int row, const char *text, size_t size, bool title)
{
    wchar_t wide[COLUMNS_MAX];
    int columns = screen->curses.getmaxx(screen->window);
    size_t count = widen(text, size, columns > 0 ? (size_t)columns : 0, wide);

    (void)screen->curses.wmove(screen->window, row, 0);
    (void)screen->curses.wattrset(screen->window, (int)(title ? A_REVERSE : A_NORMAL));
    (void)screen->curses.waddnwstr(screen->window, wide, (int)count);
}

static int draw(struct top_screen *screen)
{
    int rows = screen->curses.getmaxy(screen->window);
    int columns = screen->curses.getmaxx(screen->window);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int title = -1;
    int error;

    if (out == NULL) {
        return HF_ENOMEM;
    }
    screen->news.now_ns = top_now_ns();
    error = top_frame_write(&screen->news, &screen->ui, columns > 0 ? (size_t)columns : 1,
                            rows > 0 ? (size_t)rows : 1, &title, out);
    if (fclose(out) != 0 || error != 0) {
        free(text);
        return HF_ENOMEM;
    }
    (void)screen->curses.werase(screen->window);
    for (const char *line = text; *line != '\0' && rows > 0; rows--) {
        size_t length = strcspn(line, "\n");
        int row = screen->curses.getmaxy(screen->window) - rows;

        draw_line(screen, row, line, length, row == title);
        line += length + (line[length] == '\n');
    }
    (void)screen->curses.wrefresh(screen->window);
    free(text);
    return 0;
}

/* ---- keys and signals ---- */

/* Returns the key's number in top_frame.h, or 0 for a key that has none. */
static int translate(int key)
{
    static const struct {
        int curses;
        int top;
    } keys[] = {
        {KEY_UP, TOP_KEY_UP},       {KEY_DOWN, TOP_KEY_DOWN},     {KEY_LEFT, TOP_KEY_LEFT},
        {KEY_RIGHT, TOP_KEY_RIGHT}, {KEY_PPAGE, TOP_KEY_PAGE_UP}, {KEY_NPAGE, TOP_KEY_PAGE_DOWN},
        {KEY_HOME, TOP_KEY_HOME},   {KEY_END, TOP_KEY_END},       {KEY_ENTER, TOP_KEY_ENTER},
        {'\r', TOP_KEY_ENTER},      {'\n', TOP_KEY_ENTER},        {KEY_BACKSPACE, TOP_KEY_ERASE},
        {CTRL_H, TOP_KEY_ERASE},    {DELETE, TOP_KEY_ERASE},      {ESCAPE, TOP_KEY_ESCAPE},
    };

    for (size_t index = 0; index < sizeof(keys) / sizeof(keys[0]); index++) {
        if (keys[index].curses == key) {
            return keys[index].top;
        }
    }
    return key < 256 ? key : 0;
}

static void take_key(struct top_screen *screen, int key)
{
    if (key == CTRL_L) {
        (void)screen->curses.clearok(screen->window, true);
        return;
    }
    switch (top_ui_key(&screen->ui, translate(key))) {
    case TOP_QUIT:
        screen->ended = true;
        break;
    case TOP_READ:
        screen->due_ns = 0;
        break;
    case TOP_DRAW:
        /* a shorter or longer delay counts from the last answer */
        break;
    }
}

static void take_keys(struct top_screen *screen)
{
    int key;

    while (!screen->ended && (key = screen->curses.wgetch(screen->window)) != ERR) {
        take_key(screen, key); /* KEY_RESIZE does nothing: the screen is drawn again anyway */
    }
}

static void take_signal(struct top_screen *screen)
{
    struct signalfd_siginfo info;

    if (read(screen->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        screen->signal = (int)info.ssi_signo;
        screen->ended = true;
    }
}

/* ---- readings ---- */

static void ask(struct top_screen *screen, int64_t now_ns)
{
    screen->news.asked_ns = now_ns;
    top_reader_ask(screen->reader, screen->reading);
}

static void take_answer(struct top_screen *screen)
{
    struct top_reading *reading;
    int64_t now_ns = top_now_ns();
    int error;

    if (!top_reader_get(screen->reader, &reading, &error)) {
        return;
    }
    if (error == 0) {
        top_reading_destroy(screen->reading);
        screen->reading = reading;
        screen->news.reading = reading;
        screen->due_ns = top_next_ns(screen->news.asked_ns, reading->took_ns, screen->ui.delay_ns);
    } else if (top_is_passing(error)) {
        screen->news.failed_ns = screen->news.error == 0 ? screen->news.asked_ns
                                                         : screen->news.failed_ns;
        screen->due_ns = now_ns + retry_ns;
    } else {
        screen->error = error;
        screen->ended = true;
    }
    screen->news.error = error;
    screen->news.asked_ns = 0;
    screen->read_count++;
    screen->ended = screen->ended || screen->read_count == screen->settings->count;
}

/* Returns how long ppoll() may wait, in ms. */
static int wait_ms(const struct top_screen *screen, int64_t now_ns)
{
    bool silent = screen->news.asked_ns != 0 || screen->news.error != 0;
    int64_t wait_ns = screen->news.asked_ns != 0 ? tick_ns : screen->due_ns - now_ns;

    if (silent && wait_ns > tick_ns) {
        wait_ns = tick_ns;
    }
    return wait_ns <= 0 ? 0 : (int)(wait_ns / 1000000) + 1;
}

/* One turn of the loop: asks the agent if a reading is due, draws the screen, and waits for a key,
 * an answer or a signal. */
static void turn(struct top_screen *screen)
{
    struct pollfd fds[3] = {
        {.fd = STDIN_FILENO, .events = POLLIN},
        {.fd = top_reader_fd(screen->reader), .events = POLLIN},
        {.fd = screen->signal_fd, .events = POLLIN},
    };
    int64_t now_ns = top_now_ns();
    int wait;
    int ready;

    if (screen->news.asked_ns == 0 && now_ns >= screen->due_ns) {
        ask(screen, now_ns);
    }
    screen->error = draw(screen);
    if (screen->error != 0) {
        screen->ended = true;
        return;
    }
    wait = wait_ms(screen, now_ns);
    ready = ppoll(fds, 3, &(struct timespec){wait / 1000, wait % 1000 * 1000000L},
                  &screen->waiting);
    if (ready < 0 && errno != EINTR) {
        screen->error = HF_ENOMEM;
        screen->ended = true;
        return;
    }
    if (ready > 0 && fds[2].revents != 0) {
        take_signal(screen);
    } else if (ready > 0 && (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
        screen->gone = true;
        screen->ended = true;
    } else {
        /* called also after an interrupted ppoll(): ncurses reports SIGWINCH as a key */
        take_keys(screen);
        take_answer(screen);
    }
}

/* ---- from the beginning to the end ---- */

/* Blocks the signals that end the command, so that they come through the descriptor. */
static int signals_open(struct top_screen *screen, sigset_t *before)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    sigemptyset(&screen->signals);
    for (size_t index = 0; index < sizeof(ending) / sizeof(ending[0]); index++) {
        struct sigaction action;

        /* an ignored signal stays ignored (nohup) */
        if (sigaction(ending[index], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(&screen->signals, ending[index]);
        }
    }
    (void)sigprocmask(SIG_BLOCK, &screen->signals, before);
    (void)sigprocmask(SIG_BLOCK, NULL, &screen->waiting);
    (void)sigdelset(&screen->waiting, SIGWINCH);
    /* SIGWINCH is blocked except in ppoll(). So it interrupts ppoll() even if it arrives just
     * before the call. */
    sigset_t resize;
    sigemptyset(&resize);
    sigaddset(&resize, SIGWINCH);
    (void)sigprocmask(SIG_BLOCK, &resize, NULL);
    screen->signal_fd = signalfd(-1, &screen->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return screen->signal_fd < 0 ? HF_ENOMEM : 0;
}

/* Lets the signal end the process by its default action. */
static int end_by_signal(int number, const sigset_t *before)
{
    (void)signal(number, SIG_DFL);
    (void)raise(number);
    (void)sigprocmask(SIG_SETMASK, before, NULL);
    return CLI_SIGNAL_BASE + number;
}

static int result_of(const struct top_screen *screen)
{
    if (screen->error != 0) {
        return cli_fail("top", "asking the agent", screen->error);
    }
    if (screen->gone) {
        return CLI_FAILED;
    }
    return screen->news.error != 0 && screen->settings->count > 0
               ? cli_fail("top", "asking the agent", screen->news.error)
               : CLI_OK;
}

int top_screen_run(const struct top_settings *settings, bool *asking)
{
    struct top_screen screen = {.settings = settings, .signal_fd = -1};
    sigset_t before;
    int status = signals_open(&screen, &before);

    *asking = false;
    top_ui_init(&screen.ui, settings->delay_ns);
    screen.ui.orders[TOP_LOCKS] = settings->order;
    if (status == 0) {
        screen.reader = top_reader_create(settings->client, settings->prefix);
    }
    if (screen.reader == NULL) {
        status = cli_fail("top", "starting", HF_ENOMEM);
    }
    status = status != 0 ? status : screen_open(&screen);
    while (status == 0 && !screen.ended) {
        turn(&screen);
    }
    screen_close(&screen);
    if (screen.reader != NULL) {
        *asking = !top_reader_close(screen.reader);
    }
    if (!*asking) {
        top_reading_destroy(screen.reading);
    }
    if (screen.signal_fd >= 0) {
        (void)close(screen.signal_fd);
    }
    if (status == 0 && screen.signal != 0) {
        return end_by_signal(screen.signal, &before);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return status != 0 ? status : result_of(&screen);
}
