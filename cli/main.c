/*
 * `holdfast`: locks from the command line. Everything is in run.c and the files it names; this one
 * is apart so that tests can link the rest.
 */
#include "cli.h"

#include <fcntl.h>
#include <unistd.h>

/* A descriptor that is opened later, the connection to the agent first, must not be taken for a
 * standard stream. So a closed stream gets a stand-in, and stays closed for the child of `lock`: it
 * can be read or written no more than before. */
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
