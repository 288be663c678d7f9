/*
 * Runs another program and waits for its end: see tool.h.
 */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { PATH_SIZE = 4096 };

extern char **environ;

const char *tool_agent(void)
{
    static const char name[] = "holdfastd";
    static char path[PATH_SIZE];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(name));

    if (length > 0) {
        path[length] = '\0';
        char *slash = strrchr(path, '/');
        if (slash != NULL) {
            memcpy(slash + 1, name, sizeof(name));
            if (access(path, X_OK) == 0) {
                return path;
            }
        }
    }
    return name;
}

/* Opens the standard input of the program: a file in memory with the text, or /dev/null if text is
 * NULL. The program can read the text again as /proc/self/fd/0. Returns -1 with errno on
 * failure. */
static int open_input(const char *text)
{
    size_t size = text != NULL ? strlen(text) : 0;
    int fd = text != NULL ? memfd_create("holdfast-setup", MFD_CLOEXEC)
                          : open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && text != NULL &&
        (write(fd, text, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        errno = ENOMEM;
        return -1;
    }
    return fd;
}

static int start(const char *const *words, int input, int output, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (error != 0) {
        return error;
    }
    error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    error = error != 0 ? error
                       : posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                                          O_WRONLY, 0);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
    error = error != 0 ? error
                       : posix_spawnp(pid, words[0], &actions, NULL, (char *const *)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Reads fd to its end, and keeps the first TOOL_SAID_MAX - 1 bytes. */
static void read_said(int fd, char said[TOOL_SAID_MAX])
{
    char rest[512];
    size_t used = 0;
    ssize_t got;

    do {
        size_t room = TOOL_SAID_MAX - 1 - used;
        got = room > 0 ? read(fd, said + used, room) : read(fd, rest, sizeof(rest));
        used += room > 0 && got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    said[used] = '\0';
}

/* A child that could not become the program ends with 127. posix_spawn() reports that by itself,
 * but not under every emulator (qemu's user mode). Neither holdfastd nor openssl ends with 127. */
enum { NOT_FOUND = 127 };

static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND) {
        errno = ENOENT;
        return -1;
    }
    return WIFSIGNALED(status) ? CLI_SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
}

int tool_run(const char *const *words, const char *input, char said[TOOL_SAID_MAX])
{
    int ends[2];
    pid_t pid = -1;
    int fd = open_input(input);

    said[0] = '\0';
    if (fd < 0) {
        return -1;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        close(fd);
        return -1;
    }
    int error = start(words, fd, ends[1], &pid);
    close(fd);
    close(ends[1]);
    if (error == 0) {
        read_said(ends[0], said);
    }
    close(ends[0]);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return wait_for(pid);
}
