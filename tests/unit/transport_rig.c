/* Transports of the tests' own process (transport_rig.h). */
#include "transport_rig.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../free_port.h"

struct node nodes[NODES_MAX];
static uint32_t node_count;

/*
 * ThreadSanitizer does not see into NNG. In NNG a connection holds its dialer by an atomic count,
 * and the thread that drops the last reference destroys the dialer's mutex. To ThreadSanitizer this
 * looks like a race with threads that locked the mutex before. Only this report is suppressed.
 */
/* NOLINTBEGIN(bugprone-reserved-identifier) */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
    return "race_top:pthread_mutex_destroy\n";
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* Returns the sender of a packet of two bytes. "?" is malformed, "@" with a letter names the
 * sender, and "@V" is a voter. For other bytes each connection has its own sender. */
static struct transport_sender sender_of(const char *bytes, size_t size, const char *remote)
{
    uint64_t port = strtoul(strrchr(remote, ':') + 1, NULL, 10);

    if (size == 2 && bytes[0] == '?') {
        return (struct transport_sender){.name = 0};
    }
    if (size == 2 && bytes[0] == '@') {
        return (struct transport_sender){.name = (uint64_t)bytes[1], .voter = bytes[1] == 'V'};
    }
    return (struct transport_sender){.name = 1000 + port};
}

static struct transport_sender on_packet(void *arg, const void *bytes, size_t size,
                                         const char *certified, const char *remote)
{
    struct node *node = arg;
    uint64_t number = 0;

    node->packets++;
    node->last_size = size;
    ck_assert_uint_le(size, sizeof node->last);
    memcpy(node->last, bytes, size);
    snprintf(node->remote, sizeof node->remote, "%s", remote);
    snprintf(node->certified, sizeof node->certified, "%s", certified);
    memcpy(&number, bytes, size < sizeof number ? size : sizeof number);
    node->disorder = node->disorder || number != node->next;
    node->next = number + 1;
    return sender_of(bytes, size, remote);
}

static void on_link(void *arg, uint32_t peer, bool up)
{
    struct node *node = arg;

    ck_assert_uint_lt(peer, 8);
    ck_assert_int_eq(transport_is_up(node->transport, peer), up);
    ck_assert_uint_eq(node->ups[peer] - node->downs[peer], up ? 0 : 1);
    if (up) {
        node->ups[peer]++;
    } else {
        node->downs[peer]++;
    }
}

static void on_trouble(void *arg, const char *event, const char *address, const char *text)
{
    struct node *node = arg;

    ck_assert_ptr_nonnull(text);
    if (node->trouble_count < TROUBLES_KEPT) {
        node->events[node->trouble_count] = event;
        snprintf(node->addresses[node->trouble_count], ADDRESS_SIZE, "%s", address);
        snprintf(node->texts[node->trouble_count], TEXT_SIZE, "%s", text);
    }
    node->trouble_count++;
}

unsigned free_port(void)
{
    unsigned port = free_port_take();

    ck_assert_uint_ne(port, 0);
    return port;
}

void free_address(const char *scheme, char *out)
{
    snprintf(out, ADDRESS_SIZE, "%s127.0.0.1:%u", scheme, free_port());
}

struct transport *open_at(struct node *node, const struct transport_config *config, char *error)
{
    struct transport_handler handler = {
        .arg = node, .packet = on_packet, .link = on_link, .trouble = on_trouble};

    return transport_open(config, &handler, error);
}

struct node *node_open(const struct transport_config *config)
{
    struct node *node = &nodes[node_count++];
    char error[TRANSPORT_ERROR_MAX];

    ck_assert_uint_le(node_count, NODES_MAX);
    memset(node, 0, sizeof *node);
    snprintf(node->address, sizeof node->address, "%s", config->listen);
    node->name = config->name;
    node->transport = open_at(node, config, error);
    ck_assert_msg(node->transport != NULL, "%s", error);
    return node;
}

struct node *node_plain(void)
{
    char address[ADDRESS_SIZE];
    struct transport_config config = {.listen = address, .packet_max = PACKET_MAX};

    free_address("tcp://", address);
    return node_open(&config);
}

void nodes_close(void)
{
    for (uint32_t i = 0; i < node_count; i++) {
        transport_close(nodes[i].transport);
    }
    node_count = 0;
}

int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void pump(int wait_ms)
{
    struct pollfd fds[NODES_MAX];

    for (uint32_t i = 0; i < node_count; i++) {
        fds[i] = (struct pollfd){.fd = transport_fd(nodes[i].transport), .events = POLLIN};
    }
    if (poll(fds, node_count, wait_ms) <= 0) {
        return;
    }
    for (uint32_t i = 0; i < node_count; i++) {
        if (fds[i].revents != 0) {
            transport_dispatch(nodes[i].transport);
        }
    }
}

void pump_for(int64_t duration_ms)
{
    int64_t until_ms = now_ms() + duration_ms;

    while (now_ms() < until_ms) {
        pump(20);
    }
}

uint32_t peer_up(struct node *node, const char *address)
{
    const char *name = NULL; /* newer versions of mbedTLS do not dial without a name */
    for (uint32_t i = 0; i < node_count; i++) {
        name = strcmp(nodes[i].address, address) == 0 ? nodes[i].name : name;
    }
    uint32_t peer = transport_peer(node->transport, address, name);

    ck_assert_uint_ne(peer, TRANSPORT_PEER_NONE);
    PUMP_UNTIL(transport_is_up(node->transport, peer));
    return peer;
}

bool send_number(struct node *node, uint32_t peer, uint64_t number, size_t size)
{
    static unsigned char bytes[PACKET_MAX];

    ck_assert_uint_le(size, sizeof bytes);
    memcpy(bytes, &number, sizeof number);
    return transport_send(node->transport, peer, bytes, size);
}

int connect_raw(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd made = {.fd = fd, .events = POLLOUT};

    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        ck_assert_int_eq(errno, EINPROGRESS);
    }
    /* This thread runs the loop, which has to accept the connection: the kernel queues only few
     * connections. */
    PUMP_UNTIL(poll(&made, 1, 0) == 1);
    ck_assert_int_eq(made.revents, POLLOUT);
    return fd;
}

int listen_raw(char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    free_address("tcp://", address);
    at.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    return fd;
}

uint64_t sleeps(const char *name, uint32_t *count)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    uint64_t all = 0;

    *count = 0;
    ck_assert_ptr_nonnull(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char path[300];
        char line[128];
        char named[64] = "";
        uint64_t switches;

        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "re");
        while (status != NULL && fgets(line, sizeof line, status) != NULL) {
            (void)sscanf(line, "Name: %63s", named);
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &switches) == 1 &&
                strncmp(named, name, strlen(name)) == 0) {
                all += switches;
                (*count)++;
            }
        }
        if (status != NULL) {
            fclose(status);
        }
    }
    closedir(tasks);
    return all;
}

int64_t unserved_ms(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    int64_t all_ns = 0;

    ck_assert_ptr_nonnull(tasks);
    while ((task = readdir(tasks)) != NULL) {
        char path[300];
        long long waited_ns = 0;

        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL) {
            all_ns += fscanf(file, "%*d %lld", &waited_ns) == 1 ? waited_ns : 0;
            fclose(file);
        }
    }
    closedir(tasks);
    return all_ns / 1000000;
}

uint32_t watched(const struct node *node)
{
    char path[64];
    char line[128];
    uint32_t count = 0;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", transport_fd(node->transport));
    FILE *info = fopen(path, "re");
    ck_assert_ptr_nonnull(info);
    while (fgets(line, sizeof line, info) != NULL) {
        count += strncmp(line, "tfd:", 4) == 0;
    }
    fclose(info);
    return count;
}
