/*
 * `holdfast`: locks from the command line. run.c and the files that it names have everything else;
 * main() stands alone so that tests can link the rest.
 */
#include "cli.h"

#include <fcntl.h>
#include <unistd.h>

/* If a standard stream is closed, the next descriptor that is opened (the connection to the agent
 * first) gets its number. So a closed stream is replaced by one that can be neither read nor
 * written, and the child of `lock` gets it closed. */
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
