/*
 * Tests the process that closes sockets (io/closer.h). The test acts as the agent. The closer
 * empties each socket that it receives. The blocked closes of one user do not delay another user's
 * closes. When all blocked closes have ended, no process of the closer is left.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"
#include "agent_process.h"
#include "busy.h"
#include "io/closer.h"

enum { HIS = 1, OTHERS = 2, ROOM = 1024, FEW_DESCRIPTORS = 64, STUCK = 100 };

/* A connection of the agent. A packet in it holds the last descriptor of one end of a pipe. */
struct connection {
    int near; /* the agent's end */
    int far;
    int pipe; /* the pipe's other end, which becomes readable when the sent descriptor is closed */
};

static struct closer *closer;
static int stuck[STUCK]; /* pidfds whose close blocks */
static bool can_be_stuck;

static void start_with(unsigned descriptors)
{
    struct rlimit before;
    /* orphans of the closer become this process's children */
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit limit = {.rlim_cur = descriptors, .rlim_max = before.rlim_max};
    ck_assert(descriptors == 0 || setrlimit(RLIMIT_NOFILE, &limit) == 0);
    closer = closer_open(ROOM, NULL);
    ck_assert_ptr_nonnull(closer);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static pid_t find_closer(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%ld/children", syscall(SYS_gettid));
    FILE *file = fopen(path, "re");
    ck_assert(file != NULL && fscanf(file, "%d", &pid) == 1);
    fclose(file);
    return pid;
}

static unsigned count_children(pid_t pid)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    while (fscanf(file, "%*d") != EOF) {
        count++;
    }
    fclose(file);
    return count;
}

static char state_of(pid_t pid)
{
    char path[64];
    char state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    ck_assert(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
    fclose(file);
    return state;
}

static void is_over(void)
{
    pid_t pid = 0;
    for (unsigned ms = 0; ms < GUARD_MS && pid >= 0; ms += 10) {
        pid = waitpid(-1, NULL, WNOHANG);
        if (pid == 0) {
            sleep_ms(10);
        }
    }
    ck_assert_msg(pid < 0 && errno == ECHILD, "processes are left");
}

static void send_last(int to, int descriptor)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    char byte = 'x';
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    memset(&control, 0, sizeof(control));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
    ck_assert_int_eq(sendmsg(to, &message, MSG_NOSIGNAL), 1);
    close(descriptor);
}

static struct connection connect_one(void)
{
    const int on = 1;
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    ck_assert_int_eq(setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
    return (struct connection){.near = ends[0], .far = ends[1], .pipe = -1};
}

static void send_pipe(struct connection *connection)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    connection->pipe = ends[0];
    send_last(connection->far, ends[1]);
}

/* Gives the closer a connection, as the agent does. */
static void give(const struct connection *connection, uid_t uid)
{
    int given = dup(connection->near);
    ck_assert_int_ge(given, 0);
    ck_assert_int_eq(shutdown(connection->near, SHUT_RDWR), 0);
    closer_give(closer, given, uid);
    (void)!closer_push(closer);
}

static void is_closed(const struct connection *connection)
{
    struct pollfd pollfd = {.fd = connection->pipe, .events = POLLIN};
    for (unsigned ms = 0; ms < GUARD_MS && poll(&pollfd, 1, 10) == 0; ms += 10) {
        (void)!closer_push(closer);
    }
    ck_assert_msg(pollfd.revents != 0, "the descriptor is not closed");
    close(connection->pipe);
}

/* ---- the closer empties its sockets ---- */

enum way { ALONE, BEHIND_EMPTY, BEHIND_MANY, RESET, WAYS };

/* The test keeps the socket open. So the descriptors in the socket are closed only if a process
 * empties it. */
START_TEST(a_socket_is_emptied)
{
    char byte;
    struct connection connection = connect_one();
    start_with(0);
    for (unsigned i = 0; i < (_i == BEHIND_MANY ? 100 : _i == BEHIND_EMPTY); i++) {
        ck_assert_int_ge(send(connection.far, "x", _i == BEHIND_MANY, MSG_NOSIGNAL), 0);
    }
    send_pipe(&connection);
    if (_i == RESET) { /* The peer leaves a byte unread, so the closer first receives a reset. */
        ck_assert_int_eq(send(connection.near, "x", 1, MSG_NOSIGNAL), 1);
        close(connection.far);
    }
    give(&connection, HIS);
    is_closed(&connection);
    ck_assert_int_eq(recv(connection.near, &byte, 1, MSG_DONTWAIT), 0);
    closer_close(closer);
    is_over();
    if (_i != RESET) { /* the peer must read the end of the stream, and not a reset */
        close(connection.near);
        ck_assert_int_eq(recv(connection.far, &byte, 1, MSG_DONTWAIT), 0);
    }
}
END_TEST

/* ---- a close that blocks ---- */

static void give_stuck(unsigned from, unsigned to, uid_t uid)
{
    for (unsigned i = from; i < to; i++) {
        struct connection connection = connect_one();
        send_last(connection.far, stuck[i]);
        give(&connection, uid);
        close(connection.near);
        close(connection.far);
    }
}

/* Starts the closer, and a busy set on pidfds whose closes get stuck. The closer comes first,
 * because the busy set starts threads. Sets can_be_stuck. */
static void start_stuck(unsigned descriptors)
{
    start_with(descriptors);
    for (unsigned i = 0; i < STUCK; i++) {
        stuck[i] = (int)syscall(SYS_pidfd_open, getpid(), 0);
    }
    can_be_stuck = busy_open(stuck, STUCK);
    if (!can_be_stuck) {
        closer_close(closer);
        is_over();
    }
}

/* One user has more stuck closes than the closer may have children for that user. The closes of
 * other users must not wait for them. */
START_TEST(who_makes_it_wait_keeps_his_own)
{
    start_stuck(0);
    if (!can_be_stuck) {
        return;
    }
    give_stuck(0, STUCK, HIS);
    for (unsigned i = 0; i < 20; i++) {
        struct connection connection = connect_one();
        send_pipe(&connection);
        give(&connection, OTHERS + (uid_t)(i % 2));
        close(connection.near);
        close(connection.far);
        is_closed(&connection);
    }
    closer_close(closer); /* this call does not wait for the stuck closes */
    busy_close();
    is_over();
}
END_TEST

/* All of the closer's children for one user are busy with closes that linger. The user's next
 * socket does not wait for them. */
START_TEST(what_lingers_ends_for_the_next)
{
    int readers[CLOSER_PER_USER];
    struct connection next = connect_one();
    start_with(0);
    pid_t pid = find_closer();
    for (unsigned i = 0; i < CLOSER_PER_USER; i++) {
        struct connection connection = connect_one();
        send_last(connection.far, lingering(&readers[i]));
        give(&connection, HIS);
        close(connection.near);
        close(connection.far);
        for (unsigned ms = 0; ms < GUARD_MS && count_children(pid) <= i; ms += 10) {
            sleep_ms(10);
        }
        ck_assert_uint_eq(count_children(pid), i + 1);
    }
    send_pipe(&next);
    give(&next, HIS);
    is_closed(&next);
    closer_close(closer); /* closer_close() kills the child whose close still lingers */
    is_over();
}
END_TEST

/* If the closer has no free descriptor for a socket, the socket stays in the link until a
 * descriptor is free. If the closer received it without one, the kernel would close the socket in
 * the closer's own thread. */
START_TEST(more_than_it_has_descriptors_for)
{
    uint32_t count;
    start_stuck(FEW_DESCRIPTORS);
    if (!can_be_stuck) {
        return;
    }
    pid_t pid = find_closer();
    give_stuck(0, STUCK, HIS);
    for (unsigned ms = 0; ms < GUARD_MS && closer_push(closer); ms += 10) {
        sleep_ms(10);
    }
    ck_assert(!closer_push(closer));
    ck_assert_uint_eq(closer_most(closer, &count), HIS);
    ck_assert_uint_ge(count, FEW_DESCRIPTORS / 2);
    sleep_ms(100); /* in this time the closer receives as many sockets as it can */
    for (unsigned ms = 0; ms < GUARD_MS && state_of(pid) != 'S'; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_int_eq(state_of(pid), 'S'); /* the closer waits for its next order, and does not block
                                           * in a close */
    busy_close();
    for (unsigned ms = 0; ms < GUARD_MS && !closer_push(closer); ms += 10) {
        sleep_ms(10);
    }
    ck_assert(closer_push(closer));
    closer_close(closer);
    is_over();
}
END_TEST

/* A listener cannot be emptied. The closer keeps it open until the closer itself ends. Then the
 * connections that were not accepted end too, even if a close() still blocks. */
START_TEST(a_listener_stays_open)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* the kernel chooses a name */
    socklen_t size = sizeof(sa_family_t);
    int fds[2];
    start_stuck(0);
    if (!can_be_stuck) {
        return;
    }
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listener, 2), 0);
    size = sizeof(address);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    for (unsigned i = 0; i < 2; i++) {
        fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&address, size), 0);
    }
    send_last(fds[0], stuck[0]);
    give_stuck(1, STUCK / 2, HIS);
    ck_assert_int_eq(shutdown(listener, SHUT_RDWR), 0);
    closer_keep(closer, listener);
    (void)!closer_push(closer);
    /* The closer keeps these sockets itself, because the children of this user are busy. */
    give_stuck(STUCK / 2, STUCK - 1, HIS);
    /* a child for another user, which has inherited the listener, gets one socket */
    give_stuck(STUCK - 1, STUCK, OTHERS + 1);
    struct connection connection = connect_one();
    send_pipe(&connection);
    give(&connection, OTHERS);
    is_closed(&connection);
    struct pollfd pollfd = {.fd = fds[1], .events = POLLIN};
    ck_assert_int_eq(poll(&pollfd, 1, 0), 0);
    closer_close(closer);
    ck_assert_int_eq(poll(&pollfd, 1, GUARD_MS), 1);
    busy_close();
    is_over();
}
END_TEST

/* The closer is stopped, and the agent gives it more sockets than the link between the two can
 * hold. The agent must not wait for the closer. */
START_TEST(it_does_not_read)
{
    enum { GIVEN = 600 };
    start_with(0);
    pid_t pid = find_closer();
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    for (unsigned i = 0; i < GIVEN; i++) {
        struct connection connection = connect_one();
        give(&connection, HIS);
        close(connection.near);
        close(connection.far);
    }
    ck_assert(!closer_push(closer) && !closer_ended(closer));
    closer_close(closer);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    is_over();
}
END_TEST

/* Makes close_range() fail, as before Linux 5.9 and in a container that allows only older calls. */
static void forget_close_range(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

/* The closer has none of the agent's descriptors, in particular not the agent's end of the link
 * between the two. With a copy of that end the closer would never notice that the agent is gone. */
START_TEST(it_has_nothing_of_the_agents)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    if (_i == 1) {
        forget_close_range();
    }
    start_with(0);
    close(ends[1]);
    struct pollfd pollfd = {.fd = ends[0], .events = POLLIN};
    ck_assert_int_eq(poll(&pollfd, 1, GUARD_MS), 1);
    closer_close(closer);
    is_over();
    close(ends[0]);
}
END_TEST

int main(void)
{
    if (!orphans_are_adopted("closer", "orphans are not adopted here")) {
        return 0;
    }
    Suite *suite = suite_create("the process that closes");
    TCase *all = tcase_create("closer");
    tcase_set_timeout(all, 60);
    tcase_add_loop_test(all, a_socket_is_emptied, 0, WAYS);
    tcase_add_test(all, who_makes_it_wait_keeps_his_own);
    tcase_add_test(all, what_lingers_ends_for_the_next);
    tcase_add_test(all, more_than_it_has_descriptors_for);
    tcase_add_test(all, a_listener_stays_open);
    tcase_add_test(all, it_does_not_read);
    tcase_add_loop_test(all, it_has_nothing_of_the_agents, 0, 2);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
