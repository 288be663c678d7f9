/* See network.h: namespaces without names, a bridge, and nftables to drop packets. */
#include "network.h"

#include "agent_process.h"
#include "relay.h"
#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SCRIPT_MAX = 4096, CUT = 100 };

/* ---- namespaces ---- */

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t size = (ssize_t)strlen(text);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == size;
    if (fd >= 0) {
        close(fd);
    }
    REQUIRE(written, "%s: %s", path, strerror(errno));
}

/* Makes this process root in a user namespace of its own, in which all that it starts will run. */
static bool become_root(void)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER) != 0) {
        return false;
    }
    write_text("/proc/self/setgroups", "deny");
    snprintf(map, sizeof(map), "0 %u 1", uid);
    write_text("/proc/self/uid_map", map);
    snprintf(map, sizeof(map), "0 %u 1", gid);
    write_text("/proc/self/gid_map", map);
    return true;
}

void network_need(void)
{
    bool root = geteuid() == 0 || become_root();
    int status = 1;
    pid_t child = root ? fork() : -1;
    if (child == 0) {
        _exit(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 ? 0 : 1);
    }
    if (child > 0) {
        waitpid(child, &status, 0);
    }
    if (status != 0) {
        puts("skipped: network namespaces need root, or a kernel that lets users have their own");
        exit(NETWORK_SKIPPED);
    }
}

/* Starts a process that does nothing but keep its new namespaces alive. */
static pid_t keep(void)
{
    int ready[2];
    char byte = 0;
    REQUIRE(pipe2(ready, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
    pid_t pid = fork_tied();
    if (pid == 0) {
        REQUIRE(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0, "unshare: %s", strerror(errno));
        REQUIRE(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount: %s",
                strerror(errno));
        REQUIRE(write(ready[1], &byte, 1) == 1, "write");
        for (;;) { /* this lasts until the process is killed, or its parent ends */
            pause();
        }
    }
    close(ready[1]);
    REQUIRE(read(ready[0], &byte, 1) == 1, "no namespace");
    close(ready[0]);
    return pid;
}

static void enter_one(pid_t keeper, const char *kind, int flag)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)keeper, kind);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && setns(fd, flag) == 0, "%s: %s", path, strerror(errno));
    close(fd);
}

void network_enter(pid_t keeper)
{
    /* A thread must not share its root and working folder when it enters a mount namespace. Under
     * an emulator the process has a second thread, which shares them. */
    REQUIRE(unshare(CLONE_FS) == 0, "unshare: %s", strerror(errno));
    enter_one(keeper, "net", CLONE_NEWNET);
    enter_one(keeper, "mnt", CLONE_NEWNS);
}

/* Runs a program in the keeper's namespaces, with `script` as its standard input. */
static void run_script(pid_t keeper, const char *const *words, const char *script)
{
    int input[2];
    size_t size = strlen(script);
    REQUIRE(pipe2(input, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
    REQUIRE(write(input[1], script, size) == (ssize_t)size, "write: %s", strerror(errno));
    close(input[1]);
    pid_t pid = fork_tied();
    if (pid == 0) {
        network_enter(keeper);
        dup2(input[0], 0);
        execvp(words[0], (char *const *)words);
        REQUIRE(false, "%s: %s (package iproute2 or nftables)", words[0], strerror(errno));
    }
    close(input[0]);
    int status = wait_for(pid);
    REQUIRE(status == 0, "%s ended with %x on:\n%s", words[0], (unsigned)status, script);
}

static void run_ip(pid_t keeper, const char *script)
{
    static const char *const words[] = {"ip", "-batch", "-", NULL};
    run_script(keeper, words, script);
}

/* ---- the network ---- */

const char *network_address(unsigned host)
{
    static char text[32];
    snprintf(text, sizeof(text), "10.77.0.%u", host + 1);
    return text;
}

void network_make(struct network *network, unsigned hosts)
{
    char script[SCRIPT_MAX];
    int used;
    REQUIRE(hosts <= NETWORK_HOSTS_MAX, "%u hosts", hosts);
    *network = (struct network){.hosts = hosts, .bridge = keep(), .rough = {.ports = hosts}};
    network->rough.counts = mmap(NULL, sizeof(*network->rough.counts), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(network->rough.counts != MAP_FAILED, "no memory");
    used = snprintf(script, sizeof(script), "link add bridge type bridge\nlink set bridge up\n");
    for (unsigned i = 0; i < hosts; i++) {
        network->keepers[i] = keep();
        used += snprintf(script + used, sizeof(script) - (size_t)used,
                         "link add port%u type veth peer name eth0 netns %d\n"
                         "link set port%u master bridge\nlink set port%u up\n",
                         i, (int)network->keepers[i], i, i);
    }
    run_ip(network->bridge, script);
    for (unsigned i = 0; i < hosts; i++) {
        snprintf(script, sizeof(script),
                 "link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\n", network_address(i));
        run_ip(network->keepers[i], script);
    }
}

void network_unmake(struct network *network)
{
    if (network->relay != 0) {
        kill_process(network->relay);
    }
    for (unsigned i = 0; i < network->hosts; i++) {
        kill_process(network->keepers[i]);
    }
    kill_process(network->bridge);
    munmap(network->rough.counts, sizeof(*network->rough.counts));
    *network = (struct network){.hosts = 0};
}

/* Sets which arriving packets the filter of host `to` drops. It replaces the whole table in one
 * step. */
static void apply(struct network *network, unsigned to)
{
    static const char *const words[] = {"nft", "-f", "-", NULL};
    char script[SCRIPT_MAX];
    int used = snprintf(script, sizeof(script),
                        "add table inet faults\ndelete table inet faults\n"
                        "add table inet faults\n"
                        "add chain inet faults arrive { type filter hook input priority 0; }\n");
    for (unsigned from = 0; from < network->hosts; from++) {
        unsigned percent = network->loss[from][to];
        char chance[64] = "";
        if (percent != 0 && percent < CUT) {
            snprintf(chance, sizeof(chance), "numgen random mod 100 < %u ", percent);
        }
        if (percent != 0) {
            used += snprintf(script + used, sizeof(script) - (size_t)used,
                             "add rule inet faults arrive ip saddr %s %sdrop\n",
                             network_address(from), chance);
        }
    }
    run_script(network->keepers[to], words, script);
}

void network_lose(struct network *network, unsigned from, unsigned to, uint8_t percent)
{
    network->loss[from][to] = percent;
    apply(network, to);
}

void network_cut(struct network *network, unsigned from, unsigned to)
{
    network_lose(network, from, to, CUT);
}

/* Sets the loss on all links of one host in both directions. If host >= network->hosts, sets the
 * loss on all links. */
static void set_links(struct network *network, unsigned host, uint8_t percent)
{
    bool all = host >= network->hosts;
    for (unsigned to = 0; to < network->hosts; to++) {
        bool changed = false;
        for (unsigned from = 0; from < network->hosts; from++) {
            bool meant = from != to && (all || from == host || to == host);
            if (meant && network->loss[from][to] != percent) {
                network->loss[from][to] = percent;
                changed = true;
            }
        }
        if (changed) {
            apply(network, to);
        }
    }
}

void network_lose_everywhere(struct network *network, uint8_t percent)
{
    set_links(network, NETWORK_HOSTS_MAX, percent);
}

void network_isolate(struct network *network, unsigned host)
{
    set_links(network, host, CUT);
}

void network_heal(struct network *network)
{
    network_lose_everywhere(network, 0);
    network_delay(network, 0);
}

/* Lets the bridge carry the packets if no link has a fault, and a relay otherwise. */
static void carry_anew(struct network *network)
{
    static const struct relay_link well;
    char script[SCRIPT_MAX] = "";
    int used = 0;
    bool rough = false;
    for (unsigned i = 0; i < RELAY_PORTS_MAX * RELAY_PORTS_MAX; i++) {
        const struct relay_link *link =
            &network->rough.links[i / RELAY_PORTS_MAX][i % RELAY_PORTS_MAX];
        rough = rough || memcmp(link, &well, sizeof(well)) != 0;
    }
    if (!rough && network->relay == 0) {
        return;
    }
    if (network->relay != 0) {
        kill_process(network->relay);
        network->relay = 0;
    }
    for (unsigned i = 0; i < network->hosts; i++) {
        used += snprintf(script + used, sizeof(script) - (size_t)used,
                         rough ? "link set port%u nomaster\n" : "link set port%u master bridge\n",
                         i);
    }
    run_ip(network->bridge, script);
    if (rough) {
        network->rough.seed++;
        network->relay = fork_tied();
        if (network->relay == 0) {
            network_enter(network->bridge);
            relay_run(&network->rough);
        }
    }
}

void network_roughen(struct network *network, unsigned from, unsigned to,
                     const struct relay_link *link)
{
    network->rough.links[from][to] = *link;
    carry_anew(network);
}

void network_roughen_everywhere(struct network *network, const struct relay_link *link)
{
    for (unsigned from = 0; from < network->hosts; from++) {
        for (unsigned to = 0; to < network->hosts; to++) {
            network->rough.links[from][to] = *link;
        }
    }
    carry_anew(network);
}

void network_delay(struct network *network, unsigned delay_ms)
{
    network_roughen_everywhere(network, &(struct relay_link){.delay_us = delay_ms * 1000});
}

void network_small_disk(struct network *network, unsigned host, const char *folder,
                        unsigned kilobytes)
{
    pid_t pid = fork_tied();
    if (pid == 0) {
        char options[64];
        network_enter(network->keepers[host]);
        snprintf(options, sizeof(options), "size=%uk,mode=0700", kilobytes);
        REQUIRE(mkdir(folder, 0700) == 0, "%s: %s", folder, strerror(errno));
        REQUIRE(mount("holdfast", folder, "tmpfs", 0, options) == 0, "mount %s: %s", folder,
                strerror(errno));
        _exit(0);
    }
    int status = wait_for(pid);
    REQUIRE(status == 0, "no small disk at %s", folder);
}
