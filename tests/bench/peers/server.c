/*
 * See server.h. A process's children are found in /proc by their parent's id. So a server that
 * forks a process for each client (PostgreSQL) is measured and killed with all its processes. The
 * processor time of ended children counts if their parent waited for them.
 */
#include "server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../free_port.h"

enum { FAMILY_MAX = 256, END_WAIT_MS = 10000 };

static const int64_t second_ns = INT64_C(1000000000);
static const int64_t run_timeout_ns = INT64_C(120000000000);

/* ---- the folder and the command ---- */

int server_prepare(struct server *server, const char *below, const char *name, const char *user)
{
    *server = (struct server){.pid = 0, .user = geteuid() == 0 ? user : NULL};
    int size = snprintf(server->directory, sizeof(server->directory), "%s/%s", below, name);
    if (size < 0 || (size_t)size >= sizeof(server->directory) ||
        mkdir(server->directory, 0700) != 0) {
        return complain("%s/%s: %s", below, name, strerror(errno));
    }
    if (server->user != NULL) {
        const struct passwd *entry = getpwnam(server->user);
        if (entry == NULL || chown(server->directory, entry->pw_uid, entry->pw_gid) != 0) {
            return complain("%s: no such user, or its folder cannot be given to it", server->user);
        }
    }
    return 0;
}

int server_arg(struct server *server, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = sizeof(server->text) - server->text_size;
    int size = vsnprintf(server->text + server->text_size, room, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= room || server->arg_count == SERVER_ARGS_MAX) {
        return complain("a server's command is too long");
    }
    server->text_size += (size_t)size + 1;
    server->arg_count++;
    return 0;
}

/* ---- the start ---- */

/* In the child: changes to the user, before the child opens any file. */
static void become_user(const char *user)
{
    const struct passwd *entry = getpwnam(user);
    if (entry == NULL || initgroups(user, entry->pw_gid) != 0 || setgid(entry->pw_gid) != 0 ||
        setuid(entry->pw_uid) != 0) {
        _exit(126);
    }
    setenv("HOME", entry->pw_dir, 1);
}

static _Noreturn void become_server(const struct server *server, pid_t parent)
{
    char *argv[SERVER_ARGS_MAX + 1];
    static char text[SERVER_TEXT_MAX];
    memcpy(text, server->text, sizeof(text));
    char *at = text;
    for (size_t i = 0; i < server->arg_count; i++) {
        argv[i] = at;
        at += strlen(at) + 1;
    }
    argv[server->arg_count] = NULL;

    int null = open("/dev/null", O_RDONLY);
    if (server->user != NULL) {
        become_user(server->user);
    }
    if (chdir(server->directory) != 0) {
        _exit(126);
    }
    int log = open("server.log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    /* The death signal is set after the change of user, which would clear it. */
    if (server->arg_count == 0 || null < 0 || log < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 ||
        dup2(log, 2) < 0 || setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
        getppid() != parent) {
        _exit(126);
    }
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int server_launch(struct server *server)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        return complain("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        become_server(server, parent);
    }
    server->pid = pid;
    return 0;
}

static void show_log(const struct server *server)
{
    char path[SERVER_PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/server.log", server->directory);
    log_show_end(server->text, path);
}

int server_run(struct server *server)
{
    if (server_launch(server) != 0) {
        return -1;
    }
    int64_t give_up_ns = now_ns() + run_timeout_ns;
    int status = 0;
    while (waitpid(server->pid, &status, WNOHANG) == 0) {
        if (interrupted() || now_ns() > give_up_ns) {
            server_kill(server);
            return complain("%s: interrupted, or not done in time", server->text);
        }
        pause_ns(5000000);
    }
    server->pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        show_log(server);
        return complain("%s failed (wait status 0x%x)", server->text, (unsigned)status);
    }
    return 0;
}

bool server_lives(struct server *server)
{
    int status = 0;
    if (server->pid == 0) {
        return false;
    }
    if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
        server->pid = 0;
        show_log(server);
        complain("%s ended by itself (wait status 0x%x)", server->text, (unsigned)status);
        return false;
    }
    return true;
}

/* ---- the server and its children ---- */

/* Returns the parent of a process, or 0 if the process is gone. */
static pid_t parent_of(pid_t pid)
{
    char path[64];
    char line[512];
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    const char *after_name = fgets(line, sizeof(line), file) != NULL ? strrchr(line, ')') : NULL;
    if (after_name == NULL || sscanf(after_name + 1, " %*c %d", &parent) != 1) {
        parent = 0;
    }
    fclose(file);
    return (pid_t)parent;
}

static bool is_among(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == pid) {
            return true;
        }
    }
    return false;
}

/* Repeats the search of /proc until a search finds no new child. */
size_t process_family(pid_t pid, pid_t *family, size_t max)
{
    size_t count = 1;
    size_t before = 0;
    if (max == 0) {
        return 0;
    }
    family[0] = pid;
    while (count != before && count < max) {
        before = count;
        DIR *processes = opendir("/proc");
        const struct dirent *entry;
        while (processes != NULL && (entry = readdir(processes)) != NULL) {
            pid_t other = (pid_t)strtol(entry->d_name, NULL, 10);
            if (other > 0 && count < max && !is_among(family, count, other) &&
                is_among(family, count, parent_of(other))) {
                family[count++] = other;
            }
        }
        if (processes != NULL) {
            closedir(processes);
        }
    }
    return count;
}

void server_kill(struct server *server)
{
    if (server->pid == 0) {
        return;
    }
    pid_t family[FAMILY_MAX];
    size_t count = process_family(server->pid, family, FAMILY_MAX);
    for (size_t i = 0; i < count; i++) {
        kill(family[i], SIGKILL);
    }
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void server_end(struct server *server, int signal_number)
{
    if (server->pid == 0) {
        return;
    }
    kill(server->pid, signal_number);
    for (int waited_ms = 0; waited_ms < END_WAIT_MS; waited_ms += 5) {
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return;
        }
        usleep(5000);
    }
    complain("%s did not end 10 s after signal %d: killing it", server->text, signal_number);
    server_kill(server);
}

/* Returns the sum of the run times in the schedstat of the process's threads, in ns. */
static int64_t threads_cpu_ns(pid_t pid)
{
    char path[64 + NAME_MAX];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    const struct dirent *entry;
    int64_t sum_ns = 0;
    while (threads != NULL && (entry = readdir(threads)) != NULL) {
        int64_t ran_ns = 0;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (file != NULL) {
            sum_ns += fscanf(file, "%" SCNd64, &ran_ns) == 1 ? ran_ns : 0;
            fclose(file);
        }
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return sum_ns;
}

/* Returns the run time of the children that ended and that the process waited for, in ns. */
static int64_t ended_cpu_ns(pid_t pid)
{
    char path[64];
    char line[1024];
    int64_t user = 0;
    int64_t system = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    const char *after_name = fgets(line, sizeof(line), file) != NULL ? strrchr(line, ')') : NULL;
    if (after_name == NULL ||
        sscanf(after_name + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %" SCNd64 " %" SCNd64, &user,
               &system) != 2) {
        user = system = 0;
    }
    fclose(file);
    return (user + system) * (second_ns / sysconf(_SC_CLK_TCK));
}

int64_t process_cpu_ns(pid_t pid)
{
    pid_t family[FAMILY_MAX];
    size_t count = pid == 0 ? 0 : process_family(pid, family, FAMILY_MAX);
    int64_t sum_ns = 0;
    for (size_t i = 0; i < count; i++) {
        sum_ns += threads_cpu_ns(family[i]) + ended_cpu_ns(family[i]);
    }
    return sum_ns;
}

int64_t process_memory(pid_t pid)
{
    pid_t family[FAMILY_MAX];
    size_t count = pid == 0 ? 0 : process_family(pid, family, FAMILY_MAX);
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        char path[64];
        char line[256];
        snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)family[i]);
        FILE *file = fopen(path, "re");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            int64_t kib = 0;
            if (sscanf(line, "Pss_Anon: %" SCNd64, &kib) == 1 ||
                sscanf(line, "Pss_Shmem: %" SCNd64, &kib) == 1) {
                sum += kib * 1024;
            }
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    return sum;
}

/* ---- folders, ports, programs ---- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

void directory_remove(const char *path)
{
    if (path[0] != '\0' && nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 &&
        errno != ENOENT) {
        complain("%s cannot be removed: %s", path, strerror(errno));
    }
}

int ports_choose(unsigned *ports, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ports[i] = free_port_take();
        if (ports[i] == 0) {
            return complain("no port on the loopback is free");
        }
    }
    return 0;
}

bool program_exists(const char *name)
{
    if (strchr(name, '/') != NULL) {
        return access(name, X_OK) == 0;
    }
    const char *at = getenv("PATH");
    while (at != NULL && *at != '\0') {
        char path[PATH_MAX];
        size_t size = strcspn(at, ":");
        snprintf(path, sizeof(path), "%.*s/%s", (int)size, at, name);
        if (access(path, X_OK) == 0) {
            return true;
        }
        at += size + (at[size] == ':' ? 1 : 0);
    }
    return false;
}
