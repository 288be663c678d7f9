/*
 * See torture.h: the faults of a cell.
 *
 * A host keeps a fault until a later draw mends this host, or all hosts. In most rounds only a
 * minority of the hosts has faults at a time. Faults of links do not count as a host's fault.
 */
#include "torture.h"

#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum {
    HEAL_ONE_OF = 12,
    MEND_ONE_OF = 4,
    EXIT_UNAVAILABLE = 69,
    EXIT_FAILURE_OWN = 70,
    HEALED_MS = 60000, /* a guard against hanging, for agents without a fault */
    DESCRIPTORS_SPARE = 3,
    MEMORY_SPARE_KB = 512,
};

static const char *const names[TORTURE_FAULTS] = {
    [TORTURE_KILL] = "kill -9 of an agent",
    [TORTURE_TERMINATE] = "SIGTERM of an agent",
    [TORTURE_STOP] = "an agent stopped, and continued",
    [TORTURE_KILL_WORKER] = "kill -9 of a process with locks",
    [TORTURE_STOP_WORKER] = "a process with locks stopped, and continued",
    [TORTURE_ISOLATE] = "a host cut off",
    [TORTURE_ONE_WAY] = "a link cut in one direction",
    [TORTURE_LOSE] = "a link that loses 10 to 50 % one way",
    [TORTURE_SLOW_LINKS] = "all links slow and uneven",
    [TORTURE_ROUGH_LINKS] = "links that lose, double, reorder, damage, reset",
    [TORTURE_ALTER] = "links that alter what TCP carries (TLS)",
    [TORTURE_STALL_DISK] = "a disk whose flushes stall",
    [TORTURE_SLOW_DISK] = "a slow disk",
    [TORTURE_FLUSH_ERROR] = "a flush that fails (EIO)",
    [TORTURE_WRITE_ERROR] = "a write that fails (EIO)",
    [TORTURE_FULL_DISK] = "a full disk (ENOSPC)",
    [TORTURE_NO_MEMORY] = "an agent without further memory",
    [TORTURE_NO_FILES] = "an agent without further descriptors",
    [TORTURE_KILL_ALL] = "kill -9 of all agents at once",
    [TORTURE_ROLL] = "a rolling restart",
    [TORTURE_UPGRADE] = "an upgrade of the program, rolling",
    [TORTURE_MEMBERS] = "a change of the voters",
    [TORTURE_CLOCK] = "a host's clock too fast or too slow, for a round",
};

static const char *const words[TORTURE_FAULTS] = {
    [TORTURE_KILL] = "kill",
    [TORTURE_TERMINATE] = "terminate",
    [TORTURE_STOP] = "stop",
    [TORTURE_KILL_WORKER] = "kill-worker",
    [TORTURE_STOP_WORKER] = "stop-worker",
    [TORTURE_ISOLATE] = "isolate",
    [TORTURE_ONE_WAY] = "one-way",
    [TORTURE_LOSE] = "lose",
    [TORTURE_SLOW_LINKS] = "slow-links",
    [TORTURE_ROUGH_LINKS] = "rough-links",
    [TORTURE_ALTER] = "alter",
    [TORTURE_STALL_DISK] = "stall-disk",
    [TORTURE_SLOW_DISK] = "slow-disk",
    [TORTURE_FLUSH_ERROR] = "flush-error",
    [TORTURE_WRITE_ERROR] = "write-error",
    [TORTURE_FULL_DISK] = "full-disk",
    [TORTURE_NO_MEMORY] = "no-memory",
    [TORTURE_NO_FILES] = "no-files",
    [TORTURE_KILL_ALL] = "kill-all",
    [TORTURE_ROLL] = "roll",
    [TORTURE_UPGRADE] = "upgrade",
    [TORTURE_MEMBERS] = "members",
    [TORTURE_CLOCK] = "clock",
};

const char *torture_fault_name(enum torture_fault fault)
{
    return names[fault];
}

const char *torture_fault_word(enum torture_fault fault)
{
    return words[fault];
}

unsigned torture_draw(struct torture *torture, unsigned below)
{
    return (unsigned)crowd_draw(&torture->random, below);
}

void torture_tell(struct torture *torture, const char *format, ...)
{
    char what[96];
    char clock[32];
    /* wall-clock time, because the agents' logs have it, too */
    struct timespec now;
    struct tm parts;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    printf("%s.%03ld %lld %s\n", clock, now.tv_nsec / 1000000, (long long)boottime_now(), what);
    fflush(stdout);
    snprintf(require_context, sizeof(require_context), "(seed %llu, fault %u: %.60s)",
             (unsigned long long)torture->plan->seed, torture->count, what);
}

static void note(struct torture *torture, enum torture_fault fault)
{
    torture->count++;
    atomic_fetch_add(&torture->plan->totals->faults[fault], 1);
}

/* ---- starts and ends ---- */

void torture_install(struct torture *torture)
{
    char command[512];
    snprintf(command, sizeof(command), "cp %s %s.new && mv %s.new %s", binary_path("holdfastd"),
             torture->program, torture->program, torture->program);
    int status = system(command);
    REQUIRE(status == 0, "%s: %x", command, (unsigned)status);
}

static bool has_disk_fault(const struct torture *torture, unsigned host)
{
    const struct faults_host *disk = &torture->faults->hosts[host];
    return atomic_load(&disk->flush_error) || atomic_load(&disk->write_error);
}

static void launch(struct torture *torture, unsigned host)
{
    torture->excused[host] = has_disk_fault(torture, host);
    torture->limited[host] = false;
    torture->stopped[host] = false;
    torture->terminated[host] = false;
    agent_launch(&torture->cell.agents[host]);
}

void torture_reap(struct torture *torture)
{
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        struct agent_process *agent = &torture->cell.agents[i];
        int status;
        if (agent->pid == 0 || waitpid(agent->pid, &status, WNOHANG) != agent->pid) {
            continue;
        }
        agent->pid = 0;
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        /* A SIGTERM that comes before the agent has a handler for it ends the agent by that
         * signal. */
        bool told = torture->terminated[i] &&
                    (code == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
        bool excused = torture->excused[i] &&
                       (code == EXIT_UNAVAILABLE || code == EXIT_FAILURE_OWN);
        torture_tell(torture, "the agent of host %u has ended (status %x)", i, (unsigned)status);
        REQUIRE(told || excused, "the agent of host %u ended by itself: status %x, see %s", i,
                (unsigned)status, agent->log);
        torture->stopped[i] = false;
        atomic_fetch_add(&torture->plan->totals->ends, told ? 0 : 1);
    }
}

/* Sets a limit of a running agent. RLIM_INFINITY restores the agent's former limit. */
static void limit(const struct torture *torture, unsigned host, int resource, rlim_t value)
{
    struct rlimit limits;
    pid_t pid = torture->cell.agents[host].pid;
    if (prlimit(pid, resource, NULL, &limits) == 0) {
        limits.rlim_cur = value < limits.rlim_max ? value : limits.rlim_max;
        REQUIRE(prlimit(pid, resource, &limits, NULL) == 0 || errno == ESRCH, "prlimit: %s",
                strerror(errno));
    }
}

static void mend_disk(struct torture *torture, unsigned host)
{
    struct faults_host *disk = &torture->faults->hosts[host];
    atomic_store(&disk->stalled, 0);
    atomic_store(&disk->flush_error, 0);
    atomic_store(&disk->write_error, 0);
    atomic_store(&disk->flush_delay_ms, 0);
    atomic_store(&disk->write_delay_us, 0);
}

static bool disk_is_hurt(const struct torture *torture, unsigned host)
{
    const struct faults_host *disk = &torture->faults->hosts[host];
    return has_disk_fault(torture, host) || atomic_load(&disk->stalled) ||
           atomic_load(&disk->flush_delay_ms) != 0;
}

/* Mends the host, but not its links. Afterwards the host's agent runs, or it is still ending after
 * a SIGTERM. */
static void mend(struct torture *torture, unsigned host)
{
    struct agent_process *agent = &torture->cell.agents[host];
    mend_disk(torture, host);
    if (torture->stopped[host]) {
        cell_continue(&torture->cell, host);
        torture->stopped[host] = false;
    }
    if (torture->limited[host] && agent->pid != 0) {
        limit(torture, host, RLIMIT_AS, RLIM_INFINITY);
        limit(torture, host, RLIMIT_NOFILE, RLIM_INFINITY);
        torture->limited[host] = false;
    }
    torture_reap(torture);
    if (agent->pid == 0) {
        launch(torture, host);
    }
}

static bool is_hurt(const struct torture *torture, unsigned host)
{
    return torture->cell.agents[host].pid == 0 || torture->stopped[host] ||
           torture->terminated[host] || torture->limited[host] || torture->cut_off[host] ||
           disk_is_hurt(torture, host);
}

static unsigned count_hurt(const struct torture *torture)
{
    unsigned count = 0;
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        count += is_hurt(torture, i) ? 1 : 0;
    }
    return count;
}

static void heal_links(struct torture *torture)
{
    network_heal(&torture->cell.network);
    memset(torture->cut_off, 0, sizeof(torture->cut_off));
    torture->flawed_links = false;
}

/* Waits until each agent that got SIGTERM has ended. An agent without a fault must end. */
static void await_ends(struct torture *torture)
{
    int64_t end_ns = boottime_now() + (int64_t)HEALED_MS * MS;
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        while (torture->terminated[i] && torture->cell.agents[i].pid != 0) {
            REQUIRE(boottime_now() < end_ns, "the agent of host %u was told to end and does not",
                    i);
            sleep_ms(5);
            torture_reap(torture);
        }
        torture->terminated[i] = false;
    }
}

void torture_revive(struct torture *torture)
{
    torture_reap(torture);
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        if (torture->cell.agents[i].pid == 0) {
            launch(torture, i);
        }
    }
}

void torture_heal(struct torture *torture)
{
    heal_links(torture);
    for (unsigned i = 0; i < torture->crowd.count; i++) {
        if (torture->worker_stopped[i]) {
            kill(torture->crowd.workers[i].pid, SIGCONT);
            torture->worker_stopped[i] = false;
        }
    }
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        mend(torture, i);
    }
    await_ends(torture);
    /* An agent that fails because of an earlier fault needs a moment to end. */
    int64_t end_ns = boottime_now() + (int64_t)HEALED_MS * MS;
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        while (!agent_takes_connections(&torture->cell.agents[i])) {
            REQUIRE(boottime_now() < end_ns, "the agent of host %u does not serve", i);
            sleep_ms(5);
            torture_revive(torture);
        }
    }
}

/* ---- faults of hosts ---- */

static void kill_agent(struct torture *torture, unsigned host)
{
    agent_kill(&torture->cell.agents[host]);
    torture->stopped[host] = false;
    torture->terminated[host] = false;
}

void torture_restart(struct torture *torture, unsigned host)
{
    if (torture->cell.agents[host].pid != 0) {
        kill_agent(torture, host);
    }
    launch(torture, host);
}

static void terminate(struct torture *torture, unsigned host)
{
    torture->terminated[host] = true;
    kill(torture->cell.agents[host].pid, SIGTERM);
}

static void starve(struct torture *torture, unsigned host, int resource)
{
    char path[64];
    unsigned long used = 0;
    pid_t pid = torture->cell.agents[host].pid;
    torture->excused[host] = true;
    torture->limited[host] = true;
    if (resource == RLIMIT_AS) {
        snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%lu", &used) != 1) {
            used = 0;
        }
        if (file) {
            fclose(file);
        }
        used = used * (unsigned long)sysconf(_SC_PAGESIZE) +
               torture_draw(torture, MEMORY_SPARE_KB) * 1024UL;
    } else {
        for (int fd = 0; fd < 1024; fd++) { /* finds the lowest free descriptor, which the agent
                                             * would use next */
            snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
            if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
                used = (unsigned long)fd;
                break;
            }
        }
        used += torture_draw(torture, DESCRIPTORS_SPARE);
    }
    limit(torture, host, resource, used);
}

static void hurt_disk(struct torture *torture, enum torture_fault fault, unsigned host)
{
    struct faults_host *disk = &torture->faults->hosts[host];
    switch (fault) {
    case TORTURE_STALL_DISK:
        atomic_store(&disk->stalled, 1);
        break;
    case TORTURE_SLOW_DISK:
        atomic_store(&disk->flush_delay_ms, 1 + torture_draw(torture, 80));
        atomic_store(&disk->write_delay_us, torture_draw(torture, 3000));
        break;
    case TORTURE_FLUSH_ERROR:
        torture->excused[host] = true;
        atomic_store(&disk->flush_error, EIO);
        break;
    case TORTURE_WRITE_ERROR:
        torture->excused[host] = true;
        atomic_store(&disk->write_error, EIO);
        break;
    default:
        torture->excused[host] = true;
        atomic_store(&disk->write_error, ENOSPC);
        break;
    }
}

static void hurt_host(struct torture *torture, enum torture_fault fault, unsigned host)
{
    switch (fault) {
    case TORTURE_KILL:
        kill_agent(torture, host);
        break;
    case TORTURE_TERMINATE:
        terminate(torture, host);
        break;
    case TORTURE_STOP:
        cell_pause(&torture->cell, host);
        torture->stopped[host] = true;
        break;
    case TORTURE_ISOLATE:
        network_isolate(&torture->cell.network, host);
        torture->cut_off[host] = true;
        break;
    case TORTURE_NO_MEMORY:
        starve(torture, host, RLIMIT_AS);
        break;
    case TORTURE_NO_FILES:
        starve(torture, host, RLIMIT_NOFILE);
        break;
    default:
        hurt_disk(torture, fault, host);
        break;
    }
}

/* ---- faults of links and workers ---- */

static struct relay_link draw_link(struct torture *torture, enum torture_fault fault)
{
    struct relay_link link = {.delay_us = torture_draw(torture, 30000),
                              .jitter_us = torture_draw(torture, 20000)};
    if (fault == TORTURE_ALTER) {
        return (struct relay_link){.altered = (uint16_t)(1 + torture_draw(torture, 300))};
    }
    if (fault == TORTURE_ROUGH_LINKS) {
        link.delay_us /= 8;
        link.jitter_us /= 8;
        link.lost = (uint16_t)torture_draw(torture, 300);
        link.doubled = (uint16_t)torture_draw(torture, 1000);
        link.late = (uint16_t)torture_draw(torture, 1000);
        link.corrupted = (uint16_t)torture_draw(torture, 300);
        link.reset = (uint16_t)torture_draw(torture, 40);
    }
    return link;
}

static void hurt_links(struct torture *torture, enum torture_fault fault, unsigned host)
{
    struct network *network = &torture->cell.network;
    unsigned other = (host + 1 + torture_draw(torture, torture->cell.hosts - 1)) %
                     torture->cell.hosts;
    struct relay_link link = draw_link(torture, fault);
    torture->flawed_links = true;
    switch (fault) {
    case TORTURE_ONE_WAY:
        network_cut(network, host, other);
        break;
    case TORTURE_LOSE:
        network_lose(network, host, other, (uint8_t)(10 + torture_draw(torture, 40)));
        break;
    case TORTURE_ALTER:
    case TORTURE_ROUGH_LINKS:
        if (torture_draw(torture, 2)) {
            network_roughen(network, host, other, &link);
        } else {
            network_roughen_everywhere(network, &link);
        }
        break;
    default:
        network_roughen_everywhere(network, &link);
        break;
    }
}

static void hurt_worker(struct torture *torture, enum torture_fault fault)
{
    unsigned worker = torture_draw(torture, torture->crowd.count);
    pid_t pid = torture->crowd.workers[worker].pid;
    bool stopped = torture->worker_stopped[worker];
    if (fault == TORTURE_KILL_WORKER) {
        torture->worker_stopped[worker] = false;
        crowd_replace(&torture->crowd, worker);
    } else {
        torture->worker_stopped[worker] = !stopped;
        kill(pid, stopped ? SIGCONT : SIGSTOP);
    }
}

/* ---- faults of the whole cell ---- */

static void kill_all(struct torture *torture)
{
    cell_kill_all(&torture->cell);
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        launch(torture, i);
    }
}

/* Restarts the agents one by one, like an administrator: each one when the previous one serves. */
static void roll(struct torture *torture, bool upgrade)
{
    torture_heal(torture);
    torture_finish_move(torture);
    if (upgrade) {
        torture_install(torture);
    }
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        terminate(torture, i);
        await_ends(torture);
        launch(torture, i);
        agent_await_socket(&torture->cell.agents[i]);
        crowd_await_progress(&torture->crowd, i, 1);
    }
}

static void hurt_all(struct torture *torture, enum torture_fault fault)
{
    if (fault == TORTURE_KILL_ALL) {
        kill_all(torture);
    } else {
        roll(torture, fault == TORTURE_UPGRADE);
    }
}

/* ---- the choice of the next fault ---- */

static enum torture_fault choose(struct torture *torture)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < TORTURE_CLOCK; i++) {
        sum += torture->weights[i];
    }
    unsigned left = torture_draw(torture, sum);
    enum torture_fault fault = 0;
    /* the loop ends, because `left` is less than the sum of the weights */
    while (left >= torture->weights[fault]) {
        left -= torture->weights[fault];
        fault++;
    }
    return fault;
}

static bool is_of_worker(enum torture_fault fault)
{
    return fault == TORTURE_KILL_WORKER || fault == TORTURE_STOP_WORKER;
}

static bool is_of_resources(enum torture_fault fault)
{
    return fault == TORTURE_NO_MEMORY || fault == TORTURE_NO_FILES;
}

static bool is_of_links(enum torture_fault fault)
{
    return fault == TORTURE_ONE_WAY || fault == TORTURE_LOSE || fault == TORTURE_SLOW_LINKS ||
           fault == TORTURE_ROUGH_LINKS || fault == TORTURE_ALTER;
}

void torture_disturb(struct torture *torture)
{
    unsigned host = torture_draw(torture, torture->cell.hosts);
    torture_reap(torture);
    if (torture_draw(torture, HEAL_ONE_OF) == 0) {
        torture_tell(torture, "all is well");
        torture_heal(torture);
        return;
    }
    if (torture->flawed_links && torture_draw(torture, MEND_ONE_OF) == 0) {
        torture_tell(torture, "links are well");
        heal_links(torture);
        return;
    }
    enum torture_fault fault = choose(torture);
    if (is_of_resources(fault) && !agent_takes_connections(&torture->cell.agents[host])) {
        fault = TORTURE_KILL; /* an agent that is starting would report a file that it cannot
                               * open, not the lack of a resource */
    }
    if (is_of_worker(fault)) {
        torture_tell(torture, "%s", names[fault]);
        hurt_worker(torture, fault);
    } else if (is_of_links(fault)) {
        torture_tell(torture, "host %u: %s", host, names[fault]);
        hurt_links(torture, fault, host);
    } else if (fault == TORTURE_MEMBERS) {
        if (!torture_change(torture)) {
            return;
        }
    } else if (fault >= TORTURE_KILL_ALL) {
        torture_tell(torture, "%s", names[fault]);
        hurt_all(torture, fault);
    } else if (is_hurt(torture, host) || count_hurt(torture) >= torture->hurt_max) {
        while (!is_hurt(torture, host)) { /* the loop ends, because at least one host is hurt */
            host = (host + 1) % torture->cell.hosts;
        }
        if (torture->cut_off[host]) {
            heal_links(torture);
        }
        torture_tell(torture, "host %u is well", host);
        mend(torture, host);
        return;
    } else {
        torture_tell(torture, "host %u: %s", host, names[fault]);
        hurt_host(torture, fault, host);
    }
    note(torture, fault);
}
