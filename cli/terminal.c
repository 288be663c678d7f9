/*
 * Gives CMD the terminal and takes it back: see terminal.h.
 */
#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

/* Returns whether holdfast's own process group is in the foreground. */
static bool terminal_is_ours(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

void terminal_open(struct terminal *terminal)
{
    terminal->fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
    terminal->from_start = terminal_is_ours(terminal) && isatty(STDIN_FILENO) == 1 &&
                           isatty(STDOUT_FILENO) == 1;
}

void terminal_close(struct terminal *terminal, pid_t group)
{
    if (terminal->fd >= 0) {
        terminal_take_back(terminal, group);
        (void)close(terminal->fd);
        terminal->fd = -1;
    }
}

bool terminal_give(const struct terminal *terminal, pid_t group)
{
    return terminal_is_ours(terminal) && tcsetpgrp(terminal->fd, group) == 0;
}

void terminal_take_back(const struct terminal *terminal, pid_t group)
{
    if (terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group) {
        (void)tcsetpgrp(terminal->fd, getpgrp());
    }
}
