/*
 * CMD's descendants: see tree.h.
 */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 131072, NAME_BYTES = 32, TEXT_BYTES = 4096 };

struct process {
    pid_t pid;
    pid_t parent;
    pid_t group;
    char state;        /* as in /proc/PID/stat */
    bool ours;         /* of the tree, and alive */
    bool ended;        /* it was of the tree: dead, and not reaped */
    bool changed;      /* it may be of the tree, but is no more what was read */
    uint64_t began_at; /* ticks since boot */
};

/* One look at all processes of the host, and who of them was found; what finds no room is not
 * seen. No more of it is touched than there are processes. */
static struct process processes[PROCESSES_MAX];
static struct process found[PROCESSES_MAX];

/* The number that a name in /proc is; 0: none. */
static pid_t number_read(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);

    return end != text && *end == '\0' && number > 0 ? (pid_t)number : 0;
}

/* A file below /proc as a string; false: there is none. */
static bool text_read(int proc, const char *name, char text[TEXT_BYTES])
{
    int fd = openat(proc, name, O_RDONLY | O_CLOEXEC);
    ssize_t size;

    if (fd < 0) {
        return false;
    }
    size = read(fd, text, TEXT_BYTES - 1);
    (void)close(fd);
    text[size > 0 ? size : 0] = '\0';
    return size > 0;
}

/* True if there are pidfds, and the numbers in /proc are those of our own namespace: then we have
 * that one number from there on down. */
static bool can_look(int proc)
{
    char text[TEXT_BYTES];
    const char *line = text_read(proc, "self/status", text) ? strstr(text, "\nNStgid:\t") : NULL;
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    char *end;

    if (pidfd < 0) {
        return false;
    }
    (void)close(pidfd);
    return line != NULL && strtol(line + strlen("\nNStgid:\t"), &end, 10) == getpid() &&
           *end == '\n';
}

/* Reads what is known by this number; false: there is no such process, or it has no parent here. */
static bool process_read(int proc, pid_t pid, struct process *out)
{
    enum { PARENT = 1, GROUP = 2, BEGAN_AT = 19 }; /* fields, counted from the state */
    char name[NAME_BYTES];
    char text[TEXT_BYTES];
    const char *rest;

    *out = (struct process){.pid = pid};
    snprintf(name, sizeof(name), "%d/stat", (int)pid);
    if (!text_read(proc, name, text)) {
        return false;
    }
    rest = strrchr(text, ')'); /* "PID (NAME) STATE PARENT ...", and a name may have any of these */
    rest = rest == NULL ? NULL : strchr(rest, ' ');
    out->state = rest == NULL ? '\0' : rest[1];
    for (unsigned field = 0; rest != NULL && field < BEGAN_AT; field++) {
        rest = strchr(rest + 1, ' ');
        if (rest != NULL && field + 1 == PARENT) {
            out->parent = (pid_t)strtol(rest, NULL, 10);
        } else if (rest != NULL && field + 1 == GROUP) {
            out->group = (pid_t)strtol(rest, NULL, 10);
        }
    }
    if (rest == NULL || out->parent <= 0) {
        return false;
    }
    out->began_at = strtoull(rest, NULL, 10);
    return true;
}

/* False: it could not be looked. */
static bool processes_read(int proc, size_t *out_count)
{
    const struct dirent *entry;
    size_t count = 0;
    int again = openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again < 0 ? NULL : fdopendir(again);

    if (folder == NULL) {
        if (again >= 0) {
            (void)close(again);
        }
        return false;
    }
    while (count < PROCESSES_MAX && (entry = readdir(folder)) != NULL) {
        pid_t pid = number_read(entry->d_name);

        count += pid > 0 && pid != getpid() && process_read(proc, pid, &processes[count]);
    }
    (void)closedir(folder);
    *out_count = count;
    return true;
}

static int compare_processes(const void *a, const void *b)
{
    const struct process *left = a;
    const struct process *right = b;

    return (left->pid > right->pid) - (left->pid < right->pid);
}

static const struct process *process_find(const struct process *all, size_t count, pid_t pid)
{
    const struct process key = {.pid = pid};

    return bsearch(&key, all, count, sizeof(key), compare_processes);
}

/* A pidfd of that very process, with *now what it is now; -1 if it does not live: then now->ended
 * says whether it is dead and not reaped; else nothing is known of what became of it. */
static int process_open(int proc, const struct process *process, struct process *now)
{
    int pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};

    *now = (struct process){.pid = 0};
    if (pidfd < 0) {
        return -1;
    }
    /* It has the number until it is reaped: what is read before it ends is its own. */
    if (process_read(proc, process->pid, now) && now->began_at == process->began_at) {
        if (poll(&ended, 1, 0) == 0) {
            return pidfd;
        }
        now->ended = true;
    }
    (void)close(pidfd);
    return -1;
}

/* Sets what becomes of a process that seems to be the tree's. parent: of the tree; NULL: it is the
 * tree's by itself. */
static void process_mark(struct process *process, int proc, const struct process *parent)
{
    struct process now;
    struct process parent_now;
    int pidfd = process_open(proc, process, &now);

    if (pidfd >= 0) {
        (void)close(pidfd);
        process->ours = parent == NULL || (now.parent == parent->pid &&
                                           process_read(proc, parent->pid, &parent_now) &&
                                           parent_now.began_at == parent->began_at);
    }
    process->ended = now.ended;
    process->changed = !process->ours && !process->ended;
}

/* Marks the tree's: each when its parent is already. A parent's number is nearly always lower than
 * its child's, so few turns do. */
static void processes_mark(struct tree *tree, int proc, size_t count)
{
    bool marked = true;

    qsort(processes, count, sizeof(processes[0]), compare_processes);
    for (size_t turn = 0; turn < count && marked; turn++) {
        marked = false;
        for (size_t index = 0; index < count; index++) {
            struct process *process = &processes[index];
            const struct process *before = process_find(found, tree->count, process->pid);
            const struct process *parent = process_find(processes, count, process->parent);
            bool known = before != NULL && before->began_at == process->began_at;
            /* By what cannot be another's: CMD's number, and ours. */
            bool by_itself = known || (tree->adopts && process->parent == getpid()) ||
                             (tree->command > 0 && (process->parent == tree->command ||
                                                    process->group == tree->command));

            if (process->ours || process->ended || process->changed ||
                process->pid == tree->command) {
                continue;
            }
            if (by_itself || (parent != NULL && parent->ours)) {
                process_mark(process, proc, by_itself ? NULL : parent);
                marked = true;
                tree->more = tree->more || process->changed || (process->ours && !known);
            } else if (parent != NULL && (parent->ended || parent->changed)) {
                tree->more = true; /* it had one of the tree's as its parent, who has left it */
            }
        }
    }
}

void tree_look(struct tree *tree)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t count = 0;

    tree->more = false;
    tree->stopped = true;
    if (proc >= 0 && can_look(proc) && processes_read(proc, &count)) {
        processes_mark(tree, proc, count);
        tree->count = 0;
    }
    for (size_t index = 0; index < count; index++) {
        if (processes[index].ours) {
            found[tree->count++] = processes[index];
            tree->stopped = tree->stopped && strchr("TtZX", processes[index].state) != NULL;
        } else if (processes[index].ended && processes[index].parent == getpid()) {
            (void)waitpid(processes[index].pid, NULL, WNOHANG);
        }
    }
    if (proc >= 0) {
        (void)close(proc);
    }
}

void tree_signal(struct tree *tree, int signal_number, bool elsewhere)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (size_t index = 0; index < tree->count && proc >= 0; index++) {
        struct process now;
        int pidfd = process_open(proc, &found[index], &now);

        if (pidfd < 0) {
            continue;
        }
        if ((!elsewhere || now.group != tree->command) &&
            syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0) != 0 && errno == EPERM) {
            tree->refused = true;
        }
        (void)close(pidfd);
    }
    if (proc >= 0) {
        (void)close(proc);
    }
}
