/*
 * Starts and stops the bench's own agent, and reads /proc about it.
 *
 * Processor time is the sum of the threads' schedstat, which counts nanoseconds. Where the kernel
 * has no schedstat, the time comes from the process's stat, which counts clock ticks. A thread that
 * ended between two readings is missing from the second reading; an idle agent ends no thread.
 */
#include "agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

static const char shm_directory[] = "/dev/shm";
static const char region_prefix[] = "/dev/shm/holdfast.";
static const int64_t millisecond_ns = 1000000;

static void regions_add(struct agent_regions *regions, const char *path)
{
    for (size_t i = 0; i < regions->count; i++) {
        if (strcmp(regions->paths[i], path) == 0) {
            return;
        }
    }
    if (regions->count < AGENT_REGIONS_MAX) {
        snprintf(regions->paths[regions->count], sizeof(regions->paths[0]), "%s", path);
        regions->count++;
    }
}

/* Adds the regions whose files the agent has open, even if it has not mapped them. */
static void regions_find_open(const struct agent *agent, struct agent_regions *regions)
{
    char directory[64];
    snprintf(directory, sizeof(directory), "/proc/%d/fd", (int)agent->pid);
    DIR *open_files = opendir(directory);
    if (open_files == NULL) {
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(open_files)) != NULL) {
        char target[PATH_MAX];
        ssize_t length = readlinkat(dirfd(open_files), entry->d_name, target, sizeof(target) - 1);
        if (length <= 0) {
            continue;
        }
        target[length] = '\0';
        if (strncmp(target, region_prefix, sizeof(region_prefix) - 1) == 0) {
            regions_add(regions, target);
        }
    }
    closedir(open_files);
}

/* The kind of memory behind a mapping of /proc/PID/smaps. */
enum backing { BACKING_MEMORY, BACKING_FILE, BACKING_REGION };

/* Reads "start-end perms offset device inode [path]". Returns false if the line has another
 * form. */
static bool parse_mapping(char *line, enum backing *out, char **out_path)
{
    uint64_t start;
    uint64_t end;
    int path_at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", &start, &end, &path_at) != 2) {
        return false;
    }
    char *path = line + path_at;
    path[strcspn(path, "\n")] = '\0';
    *out_path = path;
    bool no_file = path[0] != '/' || strncmp(path, "/memfd:", 7) == 0 ||
                   strncmp(path, "/dev/zero", 9) == 0 || strncmp(path, "/SYSV", 5) == 0;
    bool region = strncmp(path, region_prefix, sizeof(region_prefix) - 1) == 0;
    *out = no_file ? BACKING_MEMORY : region ? BACKING_REGION : BACKING_FILE;
    return true;
}

static const char *field_value(const char *line, const char *name)
{
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 ? line + length : NULL;
}

/*
 * Sums the mappings, swap included. A mapping without a file counts with its Pss. A mapping of a
 * file counts only with the pages that the process changed for itself (Anonymous); its other pages
 * belong to the page cache. A region counts with the pages that the agent has touched, which
 * include those of each lock. The agent allocates all pages of a region at its start, however many
 * locks there are. The pages that it has not touched do not count.
 */
static int read_mappings(const struct agent *agent, struct agent_memory *out,
                         struct agent_regions *regions)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/smaps", (int)agent->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return complain("%s: %s", path, strerror(errno));
    }
    char line[PATH_MAX + 128];
    enum backing backing = BACKING_FILE;
    while (fgets(line, sizeof(line), file) != NULL) {
        char *mapped;
        if (parse_mapping(line, &backing, &mapped)) {
            if (backing == BACKING_REGION) {
                regions_add(regions, mapped);
            }
            continue;
        }
        const char *value;
        if ((value = field_value(line, "Rss:")) != NULL) {
            out->rss += strtod(value, NULL) * 1024;
            out->regions += backing == BACKING_REGION ? strtod(value, NULL) * 1024 : 0;
        } else if ((value = field_value(line, "Pss:")) != NULL) {
            out->pss += strtod(value, NULL) * 1024;
            out->own += backing == BACKING_MEMORY ? strtod(value, NULL) * 1024 : 0;
        } else if ((value = field_value(line, "Anonymous:")) != NULL) {
            out->own += backing == BACKING_FILE ? strtod(value, NULL) * 1024 : 0;
        } else if ((value = field_value(line, "SwapPss:")) != NULL) {
            out->own += backing != BACKING_REGION ? strtod(value, NULL) * 1024 : 0;
        }
    }
    fclose(file);
    return 0;
}

int agent_memory_read(const struct agent *agent, struct agent_memory *out)
{
    struct agent_regions regions = {.count = 0};
    *out = (struct agent_memory){0};
    regions_find_open(agent, &regions);
    return read_mappings(agent, out, &regions);
}

/* Reads the first line of a file of /proc. Returns -1 if it cannot be read. */
static int read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    return got ? 0 : -1;
}

static int cpu_of_stat(const struct agent *agent, int64_t *out, int64_t *out_resolution_ns)
{
    char path[64];
    char line[1024];
    uint64_t user_ticks = 0;
    uint64_t system_ticks = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)agent->pid);
    if (read_line(path, line, sizeof(line)) != 0) {
        return complain("%s cannot be read", path);
    }
    const char *after_name = strrchr(line, ')');
    if (after_name == NULL ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
               &user_ticks, &system_ticks) != 2) {
        return complain("%s: fields 14 and 15 expected", path);
    }
    *out_resolution_ns = INT64_C(1000000000) / sysconf(_SC_CLK_TCK);
    *out = (int64_t)(user_ticks + system_ticks) * *out_resolution_ns;
    return 0;
}

int agent_cpu_ns(const struct agent *agent, int64_t *out, int64_t *out_resolution_ns)
{
    char directory[64];
    snprintf(directory, sizeof(directory), "/proc/%d/task", (int)agent->pid);
    DIR *threads = opendir(directory);
    if (threads == NULL) {
        return complain("%s: %s", directory, strerror(errno));
    }
    int64_t sum_ns = 0;
    bool complete = true;
    const struct dirent *entry;
    while ((entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[sizeof(directory) + NAME_MAX + 16];
        char line[128];
        int64_t ran_ns = 0;
        snprintf(path, sizeof(path), "%s/%s/schedstat", directory, entry->d_name);
        complete = complete && read_line(path, line, sizeof(line)) == 0 &&
                   sscanf(line, "%" SCNd64, &ran_ns) == 1;
        sum_ns += ran_ns;
    }
    closedir(threads);
    if (!complete || sum_ns == 0) {
        return cpu_of_stat(agent, out, out_resolution_ns);
    }
    *out = sum_ns;
    *out_resolution_ns = 1;
    return 0;
}

/* Reads the wakeups of one thread from its status. */
static uint64_t read_wakeups(const char *path)
{
    char line[256];
    uint64_t count = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *value = field_value(line, "voluntary_ctxt_switches:");
        count = value != NULL ? strtoull(value, NULL, 10) : count;
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

int agent_wakeups(const struct agent *agent, uint64_t *out)
{
    char directory[64];
    snprintf(directory, sizeof(directory), "/proc/%d/task", (int)agent->pid);
    DIR *threads = opendir(directory);
    if (threads == NULL) {
        return complain("%s: %s", directory, strerror(errno));
    }
    const struct dirent *entry;
    *out = 0;
    while ((entry = readdir(threads)) != NULL) {
        if (entry->d_name[0] != '.') {
            char path[sizeof(directory) + NAME_MAX + 16];
            snprintf(path, sizeof(path), "%s/%s/status", directory, entry->d_name);
            *out += read_wakeups(path);
        }
    }
    closedir(threads);
    return 0;
}

int agent_program(const char *name, char *path, size_t size)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length < 0) {
        return complain("/proc/self/exe: %s", strerror(errno));
    }
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    int needed = snprintf(path, size, "%s/%s", self, name);
    if (needed < 0 || (size_t)needed >= size || access(path, X_OK) != 0) {
        return complain("%s: %s (build it first)", path, strerror(errno));
    }
    return 0;
}

/* In the child: executes the agent's program. The agent is in a process group of its own, so that
 * the terminal's ^C reaches only the bench. It gets SIGTERM when the bench dies. The function does
 * not return. */
static _Noreturn void become_daemon(const char *program, const char *directory, const char *config,
                                    pid_t parent)
{
    char log_path[AGENT_PATH_MAX + 16];
    snprintf(log_path, sizeof(log_path), "%s/agent.log", directory);
    int log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_fd < 0 || dup2(log_fd, STDERR_FILENO) < 0 || dup2(log_fd, STDOUT_FILENO) < 0 ||
        setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) {
        _exit(127);
    }
    close(log_fd);
    if (config[0] != '\0') {
        execl(program, "holdfastd", "--config", config, (char *)NULL);
        _exit(127);
    }
    execl(program, "holdfastd", "--dev", "--state-dir", directory, (char *)NULL);
    _exit(127);
}

static void show_log(const struct agent *agent)
{
    char path[AGENT_PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/agent.log", agent->directory);
    log_show_end("holdfastd", path);
}

/* Tries to connect until the agent answers, for at most 20 s. */
int agent_await_answer(struct agent *agent)
{
    const int64_t give_up_ns = now_ns() + 20000 * millisecond_ns;
    int error = HF_ENOAGENT;
    while (now_ns() < give_up_ns && !interrupted()) {
        hf_client *client = NULL;
        struct hf_options options = {.size = sizeof(options),
                                     .socket = agent->socket,
                                     .connect_timeout_ns = 100 * millisecond_ns};
        error = hf_connect(&options, &client);
        if (error == 0) {
            hf_disconnect(client);
            return 0;
        }
        int status;
        if (waitpid(agent->pid, &status, WNOHANG) == agent->pid) {
            agent->pid = 0;
            show_log(agent);
            return complain("holdfastd ended at once (wait status 0x%x)", (unsigned)status);
        }
        pause_ns(10 * millisecond_ns);
    }
    show_log(agent);
    return complain("no answer at %s: %s", agent->socket, hf_strerror(error));
}

int agent_prepare(struct agent *agent, const char *below)
{
    *agent = (struct agent){.pid = 0};
    int needed = snprintf(agent->directory, sizeof(agent->directory), "%s/hfbench.XXXXXX", below);
    if (needed < 0 || needed > 90) { /* the path of the agent's socket must also fit into the 108
                                      * bytes of a Unix address */
        agent->directory[0] = '\0';
        return complain("%s: too long for a Unix socket below it; choose another --dir", below);
    }
    if (mkdtemp(agent->directory) == NULL) {
        int error = errno;
        agent->directory[0] = '\0';
        return complain("%s: %s", below, strerror(error));
    }
    snprintf(agent->socket, sizeof(agent->socket), "%s/agent.sock", agent->directory);
    return 0;
}

/* Writes DIRECTORY/holdfast.conf, and copies that path to `path`. */
static int write_config(const struct agent *agent, const char *config, char *path, size_t size)
{
    snprintf(path, size, "%s/holdfast.conf", agent->directory);
    FILE *file = fopen(path, "we");
    for (const char *at = config; file != NULL && *at != '\0'; at++) {
        if (at[0] == '%' && at[1] == 'D') {
            fputs(agent->directory, file);
            at++;
        } else {
            fputc(*at, file);
        }
    }
    if (file == NULL || fclose(file) != 0) {
        return complain("%s: %s", path, strerror(errno));
    }
    return 0;
}

int agent_launch(struct agent *agent, const char *config)
{
    char program[PATH_MAX];
    char config_path[AGENT_PATH_MAX + 16] = "";
    if (agent_program("holdfastd", program, sizeof(program)) != 0 ||
        (config != NULL && write_config(agent, config, config_path, sizeof(config_path)) != 0)) {
        return -1;
    }
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        return complain("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        become_daemon(program, agent->directory, config_path, parent);
    }
    agent->pid = pid;
    return 0;
}

int agent_start(struct agent *agent, const char *below)
{
    if (agent_prepare(agent, below) != 0 || agent_launch(agent, NULL) != 0) {
        return -1;
    }
    return agent_await_answer(agent);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

static void end_process(pid_t pid)
{
    kill(pid, SIGTERM);
    for (int waited_ms = 0; waited_ms < 10000; waited_ms += 10) {
        if (waitpid(pid, NULL, WNOHANG) == pid) {
            return;
        }
        usleep(10000);
    }
    complain("holdfastd did not end 10 s after SIGTERM: killing it");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Records the paths of the agent's region files: agent_stop() removes these files. */
static void note_regions(struct agent *agent)
{
    struct agent_memory ignored = {0};
    regions_find_open(agent, &agent->regions);
    if (read_mappings(agent, &ignored, &agent->regions) != 0) {
        complain("regions of this agent may stay in %s", shm_directory);
    }
}

void agent_kill(struct agent *agent)
{
    if (agent->pid != 0) {
        note_regions(agent);
        kill(agent->pid, SIGKILL);
        waitpid(agent->pid, NULL, 0);
        agent->pid = 0;
    }
}

void agent_end(struct agent *agent)
{
    if (agent->pid != 0) {
        note_regions(agent);
        end_process(agent->pid);
        agent->pid = 0;
    }
}

/* Removes the region's file, and each folder above it that is then empty. */
static void remove_region(const char *path)
{
    char folder[PATH_MAX];
    unlink(path);
    snprintf(folder, sizeof(folder), "%s", path);
    for (char *end = strrchr(folder, '/'); end != NULL && end > folder + sizeof(shm_directory);
         end = strrchr(folder, '/')) {
        *end = '\0';
        if (rmdir(folder) != 0) {
            return;
        }
    }
}

void agent_stop(struct agent *agent)
{
    agent_end(agent);
    for (size_t i = 0; i < agent->regions.count; i++) {
        remove_region(agent->regions.paths[i]);
    }
    if (agent->directory[0] != '\0' &&
        nftw(agent->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0) {
        complain("%s cannot be removed: %s", agent->directory, strerror(errno));
    }
    *agent = (struct agent){.pid = 0};
}
