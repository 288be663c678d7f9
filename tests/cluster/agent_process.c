/* See agent_process.h: real agents in folders of their own, which are killed and started again. */
#include "agent_process.h"

#include "faults.h"
#include "network.h"
#include "require.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "../free_port.h"

char require_context[128];

int64_t boottime_now(void)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now); /* a direct call, so that faults.c cannot
                                                       * change the time */
    return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

void sleep_ms(int64_t duration_ms)
{
    struct timespec rest = {.tv_sec = duration_ms / 1000, .tv_nsec = duration_ms % 1000 * MS};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

int64_t agent_loop_ns(const struct agent_process *agent)
{
    char path[64];
    long long ran_ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)agent->pid, (int)agent->pid);
    FILE *file = fopen(path, "re");
    if (file) {
        REQUIRE(fscanf(file, "%lld", &ran_ns) == 1, "%s", path);
        fclose(file);
    }
    return ran_ns;
}

int64_t process_unserved_ns(pid_t pid)
{
    char path[64];
    int64_t unserved_ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    struct dirent *task;
    while (tasks && (task = readdir(tasks)) != NULL) {
        char name[400];
        long long ran_ns;
        long long waited_ns = 0;
        snprintf(name, sizeof(name), "%s/%s/schedstat", path, task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(name, "re");
        if (file && fscanf(file, "%lld %lld", &ran_ns, &waited_ns) == 2) {
            unserved_ns += waited_ns;
        }
        if (file) {
            fclose(file);
        }
    }
    if (tasks) {
        closedir(tasks);
    }
    return unserved_ns;
}

bool test_is_deep(void)
{
    const char *deep = getenv("HOLDFAST_TEST_DEEP");
    return deep && strcmp(deep, "1") == 0;
}

const char *binary_path(const char *name)
{
    static char path[512];
    const char *folder = getenv("HOLDFAST_BIN_DIR");
    REQUIRE(folder, "HOLDFAST_BIN_DIR is not set");
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

pid_t fork_tied(void)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
    }
    return pid;
}

int wait_for(pid_t pid)
{
    return wait_for_long(pid, 2 * GUARD_MS);
}

int wait_for_long(pid_t pid, unsigned guard_ms)
{
    int status = 0;
    for (unsigned waited_ms = 0; waited_ms < guard_ms; waited_ms++) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        REQUIRE(got == 0 || got == pid, "waitpid(%d): %s", (int)pid, strerror(errno));
        if (got == pid) {
            return status;
        }
        sleep_ms(1);
    }
    REQUIRE(false, "process %d does not end", (int)pid);
    return status;
}

void kill_process(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    REQUIRE(waitpid(pid, &status, 0) == pid, "waitpid(%d): %s", (int)pid, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    remove(path);
    return 0;
}

/* Removes the /dev/shm folder of the agent whose store has this id. If folder_kept is not NULL,
 * first copies the regions to that folder, so that a person can see the state of a waiter that was
 * never served. */
static void remove_regions(const char *folder_kept, const char *store_id)
{
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, "holdfast.", 9) == 0 && strstr(entry->d_name, store_id)) {
            char path[300];
            snprintf(path, sizeof(path), "/dev/shm/%s", entry->d_name);
            if (folder_kept) {
                char command[600];
                snprintf(command, sizeof(command), "cp -r --sparse=always %s %s", path,
                         folder_kept);
                int ignored = system(command);
                (void)ignored; /* if cp fails, it prints why to the test's stderr */
            }
            nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        }
    }
    if (folder) {
        closedir(folder);
    }
}

/* Reads store ids of 32 bytes each, until no process has the pipe's other end open. Then removes
 * what the agent left. */
static void janitor_run(const char *folder, int fd)
{
    char id[33] = "";
    char ids[8][33];
    unsigned count = 0;
    while (read(fd, id, 32) == 32) {
        id[32] = 0;
        if (count < 8 && (count == 0 || strcmp(ids[count - 1], id) != 0)) {
            memcpy(ids[count++], id, 33);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        remove_regions(getenv("HOLDFAST_TEST_KEEP") ? folder : NULL, ids[i]);
    }
    /* with HOLDFAST_TEST_KEEP the folder stays, so that a person can read the agent's log */
    if (!getenv("HOLDFAST_TEST_KEEP")) {
        nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
    _exit(0);
}

static void write_config(const struct agent_process *agent, const char *config)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/holdfast.conf", agent->folder);
    FILE *file = fopen(path, "we");
    REQUIRE(file, "%s: %s", path, strerror(errno));
    for (const char *at = config; *at; at++) {
        if (at[0] == '%' && at[1] == 'D') {
            fputs(agent->folder, file);
            at++;
        } else {
            fputc(*at, file);
        }
    }
    REQUIRE(fclose(file) == 0, "%s", path);
}

void agent_create(struct agent_process *agent, const char *config)
{
    int pipe_fds[2];
    memset(agent, 0, sizeof(*agent));
    const char *base = getenv("HOLDFAST_TEST_BASE");
    snprintf(agent->folder, sizeof(agent->folder), "%.40s/holdfast-test-XXXXXX",
             base ? base : "/tmp");
    REQUIRE(mkdtemp(agent->folder), "mkdtemp: %s", strerror(errno));
    snprintf(agent->socket, sizeof(agent->socket), "%s/agent.sock", agent->folder);
    snprintf(agent->log, sizeof(agent->log), "%s/test.log", agent->folder);
    REQUIRE(pipe2(pipe_fds, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
    fflush(NULL);
    agent->janitor = fork();
    REQUIRE(agent->janitor >= 0, "fork: %s", strerror(errno));
    if (agent->janitor == 0) {
        setsid(); /* survives a runner that kills the test's process group */
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        close(pipe_fds[1]);
        janitor_run(agent->folder, pipe_fds[0]);
    }
    close(pipe_fds[0]);
    agent->janitor_fd = pipe_fds[1];
    if (config) {
        agent->configured = true;
        write_config(agent, config);
    }
}

void agent_admit_all(struct agent_process *agent)
{
    REQUIRE(chmod(agent->folder, 0755) == 0, "chmod: %s", strerror(errno));
}

/* Finds the store id, which is part of the names of the agent's objects in /dev/shm, and sends it
 * to the janitor. */
void agent_note_regions(struct agent_process *agent)
{
    char path[64];
    char line[512];
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)agent->pid);
    FILE *maps = fopen(path, "re");
    bool noted = false;
    while (maps && !noted && fgets(line, sizeof(line), maps)) {
        char *name = strstr(line, "/dev/shm/holdfast.");
        for (char *at = name; at && *at && !noted; at++) {
            if (*at == '.' && strspn(at + 1, "0123456789abcdef") == 32) {
                noted = write(agent->janitor_fd, at + 1, 32) == 32;
            }
        }
    }
    if (maps) {
        fclose(maps);
    }
    REQUIRE(noted, "no region of agent %d in %s", (int)agent->pid, path);
}

static void print_log(const struct agent_process *agent)
{
    char line[1024];
    FILE *log = fopen(agent->log, "re");
    while (log && fgets(line, sizeof(line), log)) {
        fputs(line, stderr);
    }
    if (log) {
        fclose(log);
    }
}

/* Returns -1 if no agent listens. */
static int agent_dial(const struct agent_process *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, agent->socket, strlen(agent->socket) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

bool agent_takes_connections(const struct agent_process *agent)
{
    int fd = agent_dial(agent);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

unsigned agent_descriptors(const struct agent_process *agent)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)agent->pid);
    DIR *folder = opendir(path);
    REQUIRE(folder, "%s: %s", path, strerror(errno));
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

unsigned long agent_private_kb(const struct agent_process *agent)
{
    char path[64];
    unsigned long total = 0;
    unsigned long pages = 0;
    unsigned long shared = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)agent->pid);
    FILE *file = fopen(path, "re");
    REQUIRE(file && fscanf(file, "%lu %lu %lu", &total, &pages, &shared) == 3, "%s", path);
    fclose(file);
    return (pages - shared) * ((unsigned long)sysconf(_SC_PAGESIZE) / 1024);
}

long agent_log_size(const struct agent_process *agent)
{
    struct stat status;
    REQUIRE(stat(agent->log, &status) == 0, "%s: %s", agent->log, strerror(errno));
    return (long)status.st_size;
}

static void preload_faults(const struct agent_process *agent)
{
    char host[16];
    snprintf(host, sizeof(host), "%u", agent->host);
    setenv(FAULTS_FILE, agent->faults, 1);
    setenv(FAULTS_HOST, host, 1);
    const char *library = binary_path("../tests/libholdfast_faults.so");
    /* Checks that the library exists, because without it ld.so only warns and starts the agent
     * without faults. */
    REQUIRE(access(library, R_OK) == 0, "%s: %s", library, strerror(errno));
    setenv("LD_PRELOAD", library, 1);
}

/* Makes this process see an older kernel from now on: getsockopt(SO_PEERPIDFD) and
 * setsockopt(SO_PASSRIGHTS) fail with ENOPROTOOPT, as on a kernel that lacks the option. */
static void forget_options(unsigned without)
{
    enum { PEERPIDFD = 77, PASSRIGHTS = 83 };
    const uint32_t get = without & WITHOUT_PEERPIDFD ? PEERPIDFD : UINT32_MAX;
    const uint32_t set = without & WITHOUT_PASSRIGHTS ? PASSRIGHTS : UINT32_MAX;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getsockopt, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, get, 3, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, set, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0,
            "seccomp: %s", strerror(errno));
}

static void agent_exec(const struct agent_process *agent)
{
    char config[96];
    int log = open(agent->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, 2);
    dup2(log, 1);
    if (agent->keeper != 0) {
        network_enter(agent->keeper);
    }
    unsetenv("HOLDFAST_SOCKET");
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    if (agent->manager != NULL) {
        setenv("NOTIFY_SOCKET", agent->manager, 1);
        setenv("WATCHDOG_USEC", "600000", 1);
    }
    snprintf(config, sizeof(config), "%s/holdfast.conf", agent->folder);
    if (agent->preload) {
        REQUIRE(access(agent->preload, R_OK) == 0, "%s: %s", agent->preload, strerror(errno));
        setenv("LD_PRELOAD", agent->preload, 1);
    }
    if (agent->faults) {
        preload_faults(agent);
    }
    if (agent->without != 0) {
        forget_options(agent->without);
    }
    /* The priority is that of the systemd unit, so that other work on a busy machine does not cost
     * the agent its lease. Without the right to set it, the agent runs with the test's priority. */
    (void)setpriority(PRIO_PROCESS, 0, -10);
    const char *program = agent->program ? agent->program : binary_path("holdfastd");
    if (agent->configured) {
        execl(program, program, "--config", config, (char *)NULL);
    } else {
        execl(program, program, "--dev", "--state-dir", agent->folder, (char *)NULL);
    }
    REQUIRE(false, "%s: %s", program, strerror(errno));
}

void agent_configure(const struct agent_process *agent, const char *config)
{
    write_config(agent, config);
}

/* Forks a child into a new pid namespace. The child cannot check whether its parent lives, because
 * the parent has no pid in that namespace. */
static pid_t fork_apart(void)
{
    fflush(NULL);
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, 0);
    /* The fallback is only for qemu's user mode, which cannot clone() into a namespace. It needs
     * setns() to go back to the old namespace, which fails for a process that is root only in a
     * user namespace. */
    if (pid < 0 && errno == EINVAL) {
        int own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        REQUIRE(own >= 0 && unshare(CLONE_NEWPID) == 0, "unshare: %s", strerror(errno));
        pid = fork();
        REQUIRE(pid <= 0 || setns(own, CLONE_NEWPID) == 0, "setns: %s", strerror(errno));
        close(own);
    }
    REQUIRE(pid >= 0, "fork: %s", strerror(errno));
    return pid;
}

void agent_launch(struct agent_process *agent)
{
    REQUIRE(agent->pid == 0, "the agent runs already");
    agent->pid = agent->own_pids ? fork_apart() : fork_tied();
    if (agent->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        agent_exec(agent);
    }
}

bool agent_can_be_without(const char *what)
{
    bool can = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != 0 && errno == EFAULT;
    if (!can) {
        printf("left out: %s: no filter of system calls can be set here\n", what);
    }
    return can;
}

bool agent_refuses_descriptors(const struct agent_process *agent)
{
    enum { PASSRIGHTS = 83 };
    const int off = 0;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool known = setsockopt(fd, SOL_SOCKET, PASSRIGHTS, &off, sizeof(off)) == 0;
    close(fd);
    return known && (agent->without & WITHOUT_PASSRIGHTS) == 0;
}

void agent_start(struct agent_process *agent)
{
    agent_launch(agent);
    agent_await_socket(agent);
}

void agent_await_socket(struct agent_process *agent)
{
    struct pollfd pollfd = {.events = POLLIN};
    for (int waited_ms = 0; (pollfd.fd = agent_dial(agent)) < 0; waited_ms += 2) {
        int status = 0;
        if (waitpid(agent->pid, &status, WNOHANG) == agent->pid || waited_ms > GUARD_MS) {
            print_log(agent);
            REQUIRE(false, "the agent did not start (status %x)", (unsigned)status);
        }
        sleep_ms(2);
    }
    /* Waits until the agent has closed its end of this connection, because a test may count the
     * agent's descriptors next. */
    shutdown(pollfd.fd, SHUT_WR);
    REQUIRE(poll(&pollfd, 1, GUARD_MS) == 1, "the agent keeps who hung up");
    close(pollfd.fd);
    agent_note_regions(agent);
}

/* Returns whether all threads of the process are stopped, or the process has ended. */
static bool process_stands(pid_t pid)
{
    char path[64];
    bool stands = true;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    struct dirent *task;
    while (tasks && stands && (task = readdir(tasks)) != NULL) {
        char name[400];
        char state = 'X';
        snprintf(name, sizeof(name), "%s/%s/stat", path, task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(name, "re");
        if (file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1) {
            stands = state == 'T' || state == 'Z' || state == 'X';
        }
        if (file) {
            fclose(file);
        }
    }
    if (tasks) {
        closedir(tasks);
    }
    return stands;
}

void agent_pause(const struct agent_process *agent)
{
    REQUIRE(kill(agent->pid, SIGSTOP) == 0, "kill: %s", strerror(errno));
    for (unsigned waited_ms = 0; !process_stands(agent->pid); waited_ms++) {
        REQUIRE(waited_ms < GUARD_MS, "agent %d does not stand still", (int)agent->pid);
        sleep_ms(1);
    }
}

void agent_continue(const struct agent_process *agent)
{
    REQUIRE(kill(agent->pid, SIGCONT) == 0, "kill: %s", strerror(errno));
}

void agent_kill(struct agent_process *agent)
{
    if (agent->pid != 0) {
        kill_process(agent->pid);
        agent->pid = 0;
    }
}

int agent_stop(struct agent_process *agent)
{
    kill(agent->pid, SIGTERM);
    int status = wait_for(agent->pid);
    agent->pid = 0;
    return status;
}

unsigned agent_logged(const struct agent_process *agent, const char *text)
{
    char line[2048];
    unsigned count = 0;
    FILE *log = fopen(agent->log, "re");
    while (log && fgets(line, sizeof(line), log)) {
        count += strstr(line, text) != NULL;
    }
    if (log) {
        fclose(log);
    }
    return count;
}

/* Finds the first file in /dev/shm that the agent maps and whose name contains `within`. */
static void find_mapped(const struct agent_process *agent, const char *within, char *path,
                        size_t size)
{
    char maps_path[64];
    char line[512];
    snprintf(maps_path, sizeof(maps_path), "/proc/%d/maps", (int)agent->pid);
    FILE *maps = fopen(maps_path, "re");
    bool found = false;
    while (maps && !found && fgets(line, sizeof(line), maps)) {
        const char *name = strstr(line, "/dev/shm/holdfast.");
        found = name && strstr(name, within) != NULL;
        if (found) {
            snprintf(path, size, "%.*s", (int)strcspn(name, " \n"), name);
        }
    }
    if (maps) {
        fclose(maps);
    }
    REQUIRE(found, "agent %d has no %s", (int)agent->pid, within);
}

void agent_region_path(const struct agent_process *agent, const char *space, char *path,
                       size_t size)
{
    char own[48];
    snprintf(own, sizeof(own), "/%s.", space); /* .../SPACE.INCARNATION/region */
    find_mapped(agent, own, path, size);
}

void agent_memory_path(const struct agent_process *agent, char *path, size_t size)
{
    find_mapped(agent, "/lease", path, size);
    *strrchr(path, '/') = '\0';
}

void agent_destroy(struct agent_process *agent)
{
    agent_kill(agent);
    close(agent->janitor_fd);
    wait_for(agent->janitor);
}

void agent_free_ports(unsigned *ports, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        ports[i] = free_port_take();
        REQUIRE(ports[i] != 0, "no port is free");
    }
}
