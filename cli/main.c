/*
 * main() of `holdfast`. It has a file of its own so that tests can link everything else, which
 * begins in run.c.
 */
#include "cli.h"

#include <fcntl.h>
#include <unistd.h>

/* Opens a replacement for each standard stream that is closed. Otherwise the next descriptor, such
 * as the connection to the agent, would get the number of that stream. The replacement can be
 * neither read nor written, and is close-on-exec, so that CMD gets the stream closed again. */
static void fill_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
        }
    }
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    return cli_run(argc, argv);
}
