/*
 * CMD's descendants: see tree.h.
 */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSES_MAX = 131072, NAME_BYTES = 32, STAT_BYTES = 256 };

struct process {
    pid_t pid;
    pid_t parent;
    bool ours; /* of the tree */
};

/* One look at all processes of the host; what finds no room is not seen. Taken by the first look
 * alone, and no more of it than there are processes. */
static struct process processes[PROCESSES_MAX];

/* The number that a name in /proc is; 0: none. */
static pid_t number_read(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);

    return end != text && *end == '\0' && number > 0 ? (pid_t)number : 0;
}

/* True if the numbers in /proc are those of our own namespace. */
static bool numbers_are_ours(int proc)
{
    char name[NAME_BYTES];
    ssize_t size = readlinkat(proc, "self", name, sizeof(name) - 1);

    if (size <= 0) {
        return false;
    }
    name[size] = '\0';
    return number_read(name) == getpid();
}

/* 0: there is no such process, or none of its parents is known here. */
static pid_t parent_of(int proc, pid_t pid)
{
    char name[NAME_BYTES];
    char text[STAT_BYTES];
    const char *rest;
    ssize_t size;
    int fd;

    snprintf(name, sizeof(name), "%d/stat", (int)pid);
    fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    size = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (size <= 0) {
        return 0;
    }
    text[size] = '\0';
    rest = strrchr(text, ')'); /* "PID (NAME) STATE PARENT ...", and a name may have any of these */
    return rest != NULL && strlen(rest) > 4 ? (pid_t)strtol(rest + 4, NULL, 10) : 0;
}

static size_t processes_read(int proc)
{
    const struct dirent *entry;
    size_t count = 0;
    int again = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);

    if (folder == NULL) {
        if (again >= 0) {
            (void)close(again);
        }
        return 0;
    }
    while (count < PROCESSES_MAX && (entry = readdir(folder)) != NULL) {
        pid_t pid = number_read(entry->d_name);
        pid_t parent = pid > 0 ? parent_of(proc, pid) : 0;

        if (parent > 0) {
            processes[count++] = (struct process){.pid = pid, .parent = parent};
        }
    }
    (void)closedir(folder);
    return count;
}

static int compare_processes(const void *a, const void *b)
{
    const struct process *left = a;
    const struct process *right = b;

    return (left->pid > right->pid) - (left->pid < right->pid);
}

/* Finds the tree's. A parent's number is nearly always lower than its child's, so few turns do. */
static void processes_mark(const struct tree *tree, size_t count)
{
    bool more = true;

    qsort(processes, count, sizeof(processes[0]), compare_processes);
    for (size_t turn = 0; turn < count && more; turn++) {
        more = false;
        for (size_t index = 0; index < count; index++) {
            struct process *process = &processes[index];
            const struct process key = {.pid = process->parent};
            const struct process *parent = NULL;

            if (process->ours || process->pid == tree->root) {
                continue;
            }
            if (process->parent != tree->root) {
                parent = bsearch(&key, processes, count, sizeof(key), compare_processes);
            }
            process->ours = process->parent == tree->root || (parent != NULL && parent->ours);
            more = more || process->ours;
        }
    }
}

/* A pidfd of who was found, if it lives and still is of the tree; else -1. */
static int process_open(int proc, const struct tree *tree, const struct process *process)
{
    int pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    pid_t parent;

    if (pidfd < 0) {
        return -1;
    }
    parent = parent_of(proc, process->pid); /* the root takes in whose parent has died */
    if ((parent == process->parent || parent == tree->root) && poll(&ended, 1, 0) == 0) {
        return pidfd;
    }
    (void)close(pidfd);
    return -1;
}

static bool process_signal(struct tree *tree, int pidfd, int signal_number)
{
    if (syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0) == 0) {
        return true;
    }
    tree->refused = tree->refused || errno == EPERM;
    return false;
}

/* Looks once. Returns how many were signalled. group: of which nobody is; 0: none. */
static size_t tree_signal(struct tree *tree, int signal_number, pid_t group)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t signalled = 0;
    size_t count;

    if (proc < 0) {
        return 0;
    }
    count = numbers_are_ours(proc) ? processes_read(proc) : 0;
    processes_mark(tree, count);
    for (size_t index = 0; index < count; index++) {
        const struct process *process = &processes[index];
        int pidfd = process->ours ? process_open(proc, tree, process) : -1;

        if (pidfd < 0) {
            continue;
        }
        if (group == 0 || (process->pid != group && getpgid(process->pid) != group)) {
            signalled += process_signal(tree, pidfd, signal_number);
            if (signal_number != SIGKILL) {
                (void)process_signal(tree, pidfd, SIGCONT); /* one that is stopped ends as well */
            }
        }
        (void)close(pidfd);
    }
    (void)close(proc);
    return signalled;
}

void tree_terminate(struct tree *tree, pid_t group)
{
    (void)tree_signal(tree, SIGTERM, group);
}

bool tree_kill(struct tree *tree)
{
    return tree_signal(tree, SIGKILL, 0) > 0;
}
