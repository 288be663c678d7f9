/* See floors.h. Each process waits for an order, does the ordered number of operations one by one,
 * and answers with their median time. */
#include "floors.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "io/store.h"
#include "io/transport.h"

enum { SOCKET_BYTES = 64, PACKET_BYTES = 300, OPERATIONS_MAX = 4096 };
enum { WORKER_SOCKET = FLOOR_STORES, WORKER_PINGER, WORKER_ECHO };

static const int64_t link_timeout_ns = INT64_C(10000000000);

/* ---- orders ---- */

struct order {
    uint32_t operations;
    int64_t begin_ns;  /* with pauses: when the first operation begins */
    int64_t period_ns; /* 0: operations follow each other without a pause */
};

static bool await_order(int fd, struct order *order)
{
    return recv(fd, order, sizeof(*order), 0) == sizeof(*order);
}

static void sleep_until(int64_t when_ns)
{
    struct timespec when = {when_ns / 1000000000, when_ns % 1000000000};
    while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &when, NULL) == EINTR) {
    }
}

static void answer(int fd, double *times, uint32_t count)
{
    double median = percentile(times, count, 0.5);
    if (send(fd, &median, sizeof(median), MSG_NOSIGNAL) != sizeof(median)) {
        _exit(0);
    }
}

/* Does the operation as often as each order says, until the bench closes its end of fd. */
static _Noreturn void obey(int fd, bool (*operation)(void *arg), void *arg)
{
    static double times[OPERATIONS_MAX];
    struct order order;
    while (await_order(fd, &order)) {
        uint32_t operations = order.operations < OPERATIONS_MAX ? order.operations : OPERATIONS_MAX;
        for (uint32_t i = 0; i < operations; i++) {
            if (order.period_ns > 0) {
                sleep_until(order.begin_ns + (int64_t)i * order.period_ns);
            }
            int64_t start_ns = now_ns();
            if (!operation(arg)) {
                _exit(1);
            }
            times[i] = (double)(now_ns() - start_ns) / 1e3;
        }
        answer(fd, times, operations);
    }
    _exit(0);
}

/* ---- the socket ---- */

static bool socket_trip(void *arg)
{
    int fd = *(int *)arg;
    char bytes[SOCKET_BYTES] = {0};
    return send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes) &&
           recv(fd, bytes, sizeof(bytes), 0) == sizeof(bytes);
}

static _Noreturn void socket_main(int fd)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        _exit(1);
    }
    pid_t pid = fork();
    if (pid == 0) {
        char bytes[SOCKET_BYTES];
        close(ends[0]);
        close(fd);
        while (recv(ends[1], bytes, sizeof(bytes), 0) == sizeof(bytes) &&
               send(ends[1], bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes)) {
        }
        _exit(0);
    }
    close(ends[1]);
    obey(fd, socket_trip, &ends[0]);
}

/* ---- the transport ---- */

struct link {
    struct transport *transport;
    uv_loop_t loop;
    uv_poll_t poll;
    uint32_t peer;
    bool echoes;
    bool up;
    uint64_t received;
};

static struct transport_sender on_packet(void *arg, const void *bytes, size_t size,
                                         const char *certified, const char *remote)
{
    struct link *link = arg;
    (void)certified;
    (void)remote;
    link->received++;
    if (link->echoes) {
        (void)transport_send(link->transport, link->peer, bytes, size);
    }
    return (struct transport_sender){.name = 1, .voter = true};
}

static void on_link(void *arg, uint32_t peer, bool up)
{
    struct link *link = arg;
    link->up = up;
    if (up && link->echoes) {
        /* The measuring side sends only after it got this packet, because a packet that is sent
         * before the link is up would be lost. */
        (void)transport_send(link->transport, peer, "", 1);
    }
}

static void on_trouble(void *arg, const char *event, const char *address, const char *text)
{
    (void)arg;
    complain("%s %s: %s", event, address, text);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    struct link *link = poll->data;
    (void)status;
    (void)events;
    transport_dispatch(link->transport);
}

static bool link_open(struct link *link, unsigned own_port, unsigned other_port)
{
    char own[64];
    char other[64];
    char error[TRANSPORT_ERROR_MAX];
    struct transport_config config = {.listen = own, .packet_max = 65536};
    const struct transport_handler handler = {
        .arg = link, .packet = on_packet, .link = on_link, .trouble = on_trouble};
    snprintf(own, sizeof(own), "tcp://127.0.0.1:%u", own_port);
    snprintf(other, sizeof(other), "tcp://127.0.0.1:%u", other_port);
    link->transport = transport_open(&config, &handler, error);
    if (link->transport == NULL) {
        complain("%s", error);
        return false;
    }
    link->peer = transport_peer(link->transport, other, NULL);
    link->poll.data = link;
    return uv_loop_init(&link->loop) == 0 &&
           uv_poll_init(&link->loop, &link->poll, transport_fd(link->transport)) == 0 &&
           uv_poll_start(&link->poll, UV_READABLE, on_readable) == 0;
}

static bool packet_trip(void *arg)
{
    struct link *link = arg;
    const char bytes[PACKET_BYTES] = {0};
    uint64_t wanted = link->received + 1;
    if (!transport_send(link->transport, link->peer, bytes, sizeof(bytes))) {
        complain("the other end of the transport is gone");
        return false;
    }
    while (link->received < wanted) {
        uv_run(&link->loop, UV_RUN_ONCE);
    }
    return true;
}

static _Noreturn void pinger_main(int fd, const unsigned ports[2])
{
    static struct link link;
    int64_t end_ns = now_ns() + link_timeout_ns;
    if (!link_open(&link, ports[0], ports[1])) {
        _exit(1);
    }
    while ((!link.up || link.received == 0) && now_ns() < end_ns) {
        uv_run(&link.loop, UV_RUN_ONCE);
    }
    obey(fd, packet_trip, &link);
}

static _Noreturn void echo_main(const unsigned ports[2])
{
    static struct link link;
    link.echoes = true;
    if (!link_open(&link, ports[1], ports[0])) {
        _exit(1);
    }
    for (;;) { /* the loop runs until the bench dies, because the kernel then kills this process */
        uv_run(&link.loop, UV_RUN_ONCE);
    }
}

/* ---- the flush ---- */

struct flusher {
    struct store *store;
    uint32_t next;
};

static bool flush(void *arg)
{
    struct flusher *flusher = arg;
    static struct action action; /* static because it is large: it has room for any message */
    char name[32];
    uint64_t commit;
    int length = snprintf(name, sizeof(name), "bench/flush/%u", flusher->next++);
    action.kind = ACTION_PERSIST_REGISTER;
    message_name_set(&action.as.reg.name, name, (size_t)length);
    action.as.reg.accepted = (struct message_order){.ballot = 65537, .sequence = flusher->next};
    struct message_value *value = &action.as.reg.value;
    value->mode = MESSAGE_MODE_EXCLUSIVE;
    value->version = action.as.reg.accepted;
    message_agent_set(&value->owner, "host-a", 6);
    value->epoch = 1;
    value->token_first = 1;
    value->token_last = UINT64_C(1) << 20;
    value->lock_delay_ms = 1000;
    value->permits = 1;
    struct store_slot slot = {.space = "default",
                              .slot = flusher->next,
                              .name = action.as.reg.name.bytes,
                              .length = action.as.reg.name.length};
    if (!store_begin(flusher->store) || !store_put_action(flusher->store, &action) ||
        !store_put_slot(flusher->store, &slot) || !store_commit(flusher->store, &commit)) {
        complain("%s", store_error(flusher->store));
        return false;
    }
    return true;
}

static _Noreturn void flusher_main(int fd, const char *directory, uint32_t index)
{
    struct store_identity identity = {.epoch = 0};
    struct store_meta meta;
    struct flusher flusher = {.next = 1};
    char path[600];
    char error[STORE_ERROR_MAX];
    snprintf(path, sizeof(path), "%s/%u.db", directory, index);
    message_agent_set(&identity.cell, "bench", 5);
    message_agent_set(&identity.agent, "host-a", 6);
    flusher.store = store_open(path, &identity, &meta, error);
    if (flusher.store == NULL) {
        complain("%s", error);
        _exit(1);
    }
    bool region = store_begin(flusher.store) &&
                  store_put_region(flusher.store, "default", "/holdfast.bench") &&
                  store_commit(flusher.store, &(uint64_t){0});
    if (!region) {
        complain("%s", store_error(flusher.store));
        _exit(1);
    }
    obey(fd, flush, &flusher);
}

/* ---- starting, asking, stopping ---- */

static _Noreturn void worker_main(const struct floors *floors, uint32_t worker, int fd)
{
    if (worker < FLOOR_STORES) {
        flusher_main(fd, floors->directory, worker);
    } else if (worker == WORKER_SOCKET) {
        socket_main(fd);
    } else if (worker == WORKER_PINGER) {
        pinger_main(fd, floors->ports);
    }
    echo_main(floors->ports);
}

static int start_worker(struct floors *floors, uint32_t worker)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return complain("socketpair: %s", strerror(errno));
    }
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        for (uint32_t i = 0; i < worker; i++) {
            close(floors->workers[i].fd);
        }
        close(ends[0]);
        if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
            _exit(1);
        }
        worker_main(floors, worker, ends[1]);
    }
    close(ends[1]);
    floors->workers[worker].fd = ends[0];
    floors->workers[worker].pid = pid;
    return pid > 0 ? 0 : complain("fork: %s", strerror(errno));
}

static int choose_ports(struct floors *floors)
{
    int fds[2];
    int result = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET};
        socklen_t size = sizeof(address);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&address, size) != 0 ||
            getsockname(fds[i], (struct sockaddr *)&address, &size) != 0) {
            result = complain("no port on the loopback: %s", strerror(errno));
        }
        floors->ports[i] = ntohs(address.sin_port);
    }
    close(fds[0]);
    close(fds[1]);
    return result;
}

int floors_start(struct floors *floors, const char *below)
{
    *floors = (struct floors){.workers = {{.pid = 0}}};
    for (uint32_t i = 0; i < FLOOR_PROCESSES; i++) {
        floors->workers[i].fd = -1;
    }
    snprintf(floors->directory, sizeof(floors->directory), "%s/hffloor.XXXXXX", below);
    if (mkdtemp(floors->directory) == NULL) {
        floors->directory[0] = '\0';
        return complain("%s: %s", below, strerror(errno));
    }
    if (choose_ports(floors) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < FLOOR_PROCESSES; i++) {
        if (start_worker(floors, i) != 0) {
            return -1;
        }
    }
    struct floor_times warm_up;
    return floors_measure(floors, 16, 0, &warm_up);
}

static void give_order(const struct floors *floors, uint32_t worker, const struct order *order)
{
    (void)!send(floors->workers[worker].fd, order, sizeof(*order), MSG_NOSIGNAL);
}

static int take_answer(const struct floors *floors, uint32_t worker, double *out)
{
    if (recv(floors->workers[worker].fd, out, sizeof(*out), 0) != sizeof(*out)) {
        return complain("what is measured beside the cell does not answer");
    }
    return 0;
}

int floors_measure(struct floors *floors, uint32_t operations, int64_t period_ns,
                   struct floor_times *out)
{
    static const uint32_t alone[] = {WORKER_SOCKET, WORKER_PINGER, 0};
    double *const answers[] = {&out->socket, &out->transport, &out->flush};
    double three[FLOOR_STORES];
    struct order order = {.operations = operations, .period_ns = period_ns};
    for (uint32_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        order.begin_ns = now_ns() + period_ns;
        give_order(floors, alone[i], &order);
        if (take_answer(floors, alone[i], answers[i]) != 0) {
            return -1;
        }
    }
    order.begin_ns = now_ns() + period_ns;
    for (uint32_t i = 0; i < FLOOR_STORES; i++) {
        give_order(floors, i, &order);
    }
    for (uint32_t i = 0; i < FLOOR_STORES; i++) {
        if (take_answer(floors, i, &three[i]) != 0) {
            return -1;
        }
    }
    out->flush_3 = percentile(three, FLOOR_STORES, 0.5);
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

void floors_stop(struct floors *floors)
{
    for (uint32_t i = 0; i < FLOOR_PROCESSES; i++) {
        if (floors->workers[i].fd >= 0) {
            close(floors->workers[i].fd);
        }
        if (floors->workers[i].pid > 0) {
            kill(floors->workers[i].pid, SIGKILL);
            waitpid(floors->workers[i].pid, NULL, 0);
        }
    }
    if (floors->directory[0] != '\0' &&
        nftw(floors->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0) {
        complain("%s cannot be removed: %s", floors->directory, strerror(errno));
    }
    floors->directory[0] = '\0';
}
