/*
 * The first acquire of a name that was never used, compared with the least that it can cost: one
 * message to another process with its answer, over a Unix socket of type SEQPACKET, and then one
 * append of 512 bytes with fdatasync in the agent's own state directory.
 *
 * The time includes opening the handle. It does not include releasing and closing.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#include "agent.h"
#include "figures.h"

enum { MESSAGE_SIZE = 64, APPEND_SIZE = 512 };

static const uint64_t operations_per_round = 32;
static const uint64_t operations_per_round_quick = 8;

/* The floor of a first acquire: a process that echoes messages, and a file for the appends. */
struct echo {
    pid_t pid;
    int socket_fd;
    int file_fd;
};

/* The state of one run. The figure owns the series. */
struct run {
    struct agent agent;
    struct echo echo;
    hf_client *client;
    uint64_t names_used;
    struct series *first;
    struct series *both;
    struct series *trip;
    struct series *append;
};

static _Noreturn void echo_main(int socket_fd, pid_t parent)
{
    char message[MESSAGE_SIZE];
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(1);
    }
    for (;;) { /* the loop runs until the bench closes its end of the socket */
        ssize_t size = recv(socket_fd, message, sizeof(message), 0);
        if (size <= 0 || send(socket_fd, message, (size_t)size, MSG_NOSIGNAL) != size) {
            _exit(0);
        }
    }
}

static int echo_start(struct echo *echo, const char *directory)
{
    int ends[2];
    char path[AGENT_PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/append.file", directory);
    echo->file_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (echo->file_fd < 0) {
        return complain("%s: %s", path, strerror(errno));
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        return complain("socketpair: %s", strerror(errno));
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        echo_main(ends[1], parent);
    }
    close(ends[1]);
    echo->socket_fd = ends[0];
    if (pid < 0) {
        return complain("fork: %s", strerror(errno));
    }
    echo->pid = pid;
    return 0;
}

static void echo_stop(struct echo *echo)
{
    if (echo->socket_fd >= 0) {
        close(echo->socket_fd);
    }
    if (echo->file_fd >= 0) {
        close(echo->file_fd);
    }
    if (echo->pid > 0) {
        kill(echo->pid, SIGTERM);
        waitpid(echo->pid, NULL, 0);
    }
}

static int echo_trip(const struct echo *echo)
{
    char message[MESSAGE_SIZE] = {0};
    if (send(echo->socket_fd, message, sizeof(message), MSG_NOSIGNAL) != sizeof(message) ||
        recv(echo->socket_fd, message, sizeof(message), 0) != sizeof(message)) {
        return complain("the echo process does not answer: %s", strerror(errno));
    }
    return 0;
}

static int append_durably(const struct echo *echo)
{
    char bytes[APPEND_SIZE];
    memset(bytes, 'x', sizeof(bytes));
    if (write(echo->file_fd, bytes, sizeof(bytes)) != sizeof(bytes) ||
        fdatasync(echo->file_fd) != 0) {
        return complain("append and fdatasync: %s", strerror(errno));
    }
    return 0;
}

/* Opens and acquires a new name, and measures the time. Then releases and closes the lock. */
static int first_acquire(struct run *run, int64_t *out_ns)
{
    char name[64];
    hf_lock *lock = NULL;
    struct hf_hold hold;
    snprintf(name, sizeof(name), "bench-first-%llu", (unsigned long long)run->names_used++);
    int64_t start_ns = now_ns();
    int error = hf_open(run->client, name, NULL, &lock);
    if (error == 0) {
        error = hf_acquire(lock, HF_EXCLUSIVE, -1, &hold);
    }
    *out_ns = now_ns() - start_ns;
    if (error == 0) {
        error = hf_release(lock);
    }
    hf_close(lock);
    return error == 0 ? 0 : complain("%s: %s", name, hf_strerror(error));
}

/* Measures one round. The two sides alternate after each operation, because both wait for the same
 * disk. */
static int measure_round(struct run *run, uint64_t operations)
{
    int64_t first_ns = 0;
    int64_t trip_ns = 0;
    int64_t append_ns = 0;
    for (uint64_t i = 0; i < operations; i++) {
        int64_t took_ns;
        if (first_acquire(run, &took_ns) != 0) {
            return -1;
        }
        first_ns += took_ns;
        int64_t start_ns = now_ns();
        if (echo_trip(&run->echo) != 0) {
            return -1;
        }
        int64_t answered_ns = now_ns();
        if (append_durably(&run->echo) != 0) {
            return -1;
        }
        trip_ns += answered_ns - start_ns;
        append_ns += now_ns() - answered_ns;
    }
    double scale = 1000.0 * (double)operations;
    series_add(run->first, (double)first_ns / scale);
    series_add(run->trip, (double)trip_ns / scale);
    series_add(run->append, (double)append_ns / scale);
    series_add(run->both, (double)(trip_ns + append_ns) / scale);
    return 0;
}

static int measure_rounds(struct run *run, struct effort effort)
{
    uint64_t operations = effort.quick ? operations_per_round_quick : operations_per_round;
    if (measure_round(run, operations) != 0) {
        return -1;
    }
    /* the operations so far were the warm-up */
    run->first->count = run->both->count = run->trip->count = run->append->count = 0;
    for (size_t round = 0; round < effort.rounds; round++) {
        if (measure_round(run, operations) != 0) {
            return -1;
        }
        if (interrupted()) {
            return complain("interrupted");
        }
    }
    return 0;
}

/* Returns whether a flush of a file in that directory goes to a disk. */
static bool flush_costs(const char *directory)
{
    struct statfs status;
    return statfs(directory, &status) != 0 ||
           (status.f_type != TMPFS_MAGIC && status.f_type != RAMFS_MAGIC);
}

int figure_first(const struct bench *bench, struct figure *figure)
{
    struct run run = {.echo = {.socket_fd = -1, .file_fd = -1}};
    run.first = &figure_side(figure, "holdfast: open + acquire, new name", "us", 1)->series;
    run.both = &figure_side(figure, "round trip + durable append", "us", 1)->series;
    run.trip = &figure_side(figure, "  of it: SEQPACKET round trip", "us", 1)->series;
    run.append = &figure_side(figure, "  of it: append 512 B + fdatasync", "us", 1)->series;

    int result = agent_start(&run.agent, bench->directory);
    if (result == 0) {
        result = echo_start(&run.echo, run.agent.directory);
    }
    if (result == 0) {
        struct hf_options options = {.size = sizeof(options), .socket = run.agent.socket};
        int error = hf_connect(&options, &run.client);
        result = error == 0 ? 0 : complain("connecting: %s", hf_strerror(error));
    }
    if (result == 0) {
        result = measure_rounds(&run, bench->effort);
    }
    hf_disconnect(run.client);
    echo_stop(&run.echo);
    agent_stop(&run.agent);
    if (flush_costs(bench->directory)) {
        figure_verdict(figure, "holdfast / (round trip + append)",
                       series_median(run.first) / series_median(run.both), BOUND_AT_MOST, 1.5);
    } else {
        snprintf(figure->note, sizeof(figure->note),
                 "no verdict: this filesystem is memory, a flush costs nothing; use --dir");
    }
    return result;
}
