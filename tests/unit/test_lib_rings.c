/*
 * libholdfast: rings. Any thread can send a ring on the client's connection without taking a lock,
 * even while the connection is lost, made again, or full. A ring never goes to another descriptor.
 */
#include "lib_clients.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"
#include "client.h" /* libholdfast's own header, for the descriptor's number */

enum { STRANGERS = 32, RINGS = 2000, RINGERS = 3, RESTARTS = 15, UNREAD_MAX = 64 };

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

static void teardown(void)
{
    clients_destroy();
}

/* Opens a lock whose every release rings. */
static hf_lock *open_watched(const char *name)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(hf_open(client, name, NULL, &lock), 0);
    atomic_fetch_or(&agent.region.words[agent_slot(&agent, name)].word, HFI_W_WATCHED);
    return lock;
}

static void ring(hf_lock *lock)
{
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
}

static void ignore_status(const struct hf_status *status, void *arg)
{
    (void)status;
    (void)arg;
}

static int ask(void)
{
    return REACHED(hf_status(client, ignore_status, NULL));
}

/* While the connection is lost, no other file gets the number of its descriptor. The next
 * connection gets this number. */
START_TEST(no_ring_goes_to_a_stranger)
{
    int ends[STRANGERS][2];
    char byte;
    hf_lock *lock = open_watched("a");
    int number = client->socket_fd;
    uint32_t before = atomic_load(&agent.rings);
    ring(lock);
    AWAIT(atomic_load(&agent.rings) > before);
    agent_stop(&agent);
    for (int i = 0; i < STRANGERS; i++) { /* the new sockets take every free descriptor number */
        /* some rings before the library notices the loss, some after */
        ring(lock);
        if (i == STRANGERS / 2) {
            ck_assert_int_eq(hf_status(client, ignore_status, NULL), HF_ENOAGENT);
        }
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends[i]), 0);
        ck_assert_int_ne(ends[i][0], number);
        ck_assert_int_ne(ends[i][1], number);
    }
    ring(lock);
    agent_start(&agent, true);
    ck_assert_int_eq(ask(), 0);
    ck_assert_int_eq(client->socket_fd, number);
    ring(lock);
    for (int i = 0; i < STRANGERS; i++) {
        ck_assert_int_eq(recv(ends[i][0], &byte, 1, MSG_DONTWAIT), -1);
        ck_assert_int_eq(recv(ends[i][1], &byte, 1, MSG_DONTWAIT), -1);
        close(ends[i][0]);
        close(ends[i][1]);
    }
    before = atomic_load(&agent.rings);
    ring(lock);
    AWAIT(atomic_load(&agent.rings) > before);
}
END_TEST

static atomic_bool ends_now;

static void *ring_on(void *arg)
{
    hf_lock *lock = arg;
    while (!atomic_load(&ends_now)) {
        if (hf_acquire(lock, HF_EXCLUSIVE, 0, NULL) == 0) {
            (void)hf_release(lock);
        }
    }
    return NULL;
}

START_TEST(threads_ring_while_agents_come_and_go)
{
    static const char *const names[RINGERS] = {"a", "b", "c"};
    pthread_t threads[RINGERS];
    int number = client->socket_fd;
    atomic_store(&ends_now, false);
    for (int i = 0; i < RINGERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ring_on, open_watched(names[i])), 0);
    }
    for (int i = 0; i < RESTARTS; i++) {
        uint32_t before = atomic_load(&agent.rings);
        AWAIT(atomic_load(&agent.rings) > before);
        agent_stop(&agent);
        agent_start(&agent, true);
        ck_assert_int_eq(ask(), 0);
    }
    atomic_store(&ends_now, true);
    for (int i = 0; i < RINGERS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(client->socket_fd, number);
}
END_TEST

static void *open_another(void *arg)
{
    hf_lock *lock = NULL;
    (void)arg;
    (void)hf_open(other, "another", NULL, &lock);
    return NULL;
}

/* The agent reads nothing. A ring does not block, and only few rings are queued. */
START_TEST(a_full_socket_keeps_nobody_waiting)
{
    pthread_t thread;
    hf_lock *lock = open_watched("a");
    uint32_t asked = atomic_load(&agent.requests);
    pthread_mutex_lock(&agent.mutex);
    ck_assert_int_eq(pthread_create(&thread, NULL, open_another, NULL), 0);
    AWAIT(atomic_load(&agent.requests) > asked); /* the thread now waits for the mutex */
    uint32_t before = atomic_load(&agent.rings);
    errno = 4711;
    for (int i = 0; i < RINGS; i++) {
        ring(lock);
    }
    ck_assert_int_eq(errno, 4711);
    pthread_mutex_unlock(&agent.mutex);
    pthread_join(thread, NULL);
    ck_assert_int_eq(ask(), 0);
    ck_assert_uint_gt(atomic_load(&agent.rings), before);
    ck_assert_uint_le(atomic_load(&agent.rings), before + UNREAD_MAX);
}
END_TEST

/* A child has the same connection after a fork, and the child's disconnect must not end the
 * connection for the parent. */
START_TEST(a_forked_child_that_disconnects_leaves_the_connection)
{
    if (!fork_is_wiped("lib_rings")) {
        return;
    }
    hf_lock *lock = open_watched("a");
    uint64_t welcomed = agent.nonce_next;
    pid_t child = fork();
    if (child == 0) {
        hf_close(lock);
        hf_disconnect(client);
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    uint32_t before = atomic_load(&agent.rings);
    ring(lock);
    ck_assert_int_eq(ask(), 0);
    AWAIT(atomic_load(&agent.rings) > before);
    ck_assert_uint_eq(agent.nonce_next, welcomed);
}
END_TEST

/* Returns how often the descriptor becomes readable within lasts_ms. */
static unsigned wakes(int fd, int lasts_ms)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    struct hf_event event;
    unsigned count = 0;
    for (int64_t end_ns = now_ns() + lasts_ms * MS; now_ns() < end_ns;) {
        count += poll(&waits, 1, 20) > 0;
        while (hf_next_event(client, &event) == 1) {
        }
    }
    return count;
}

/* The library does not watch a lost connection any more, even if a child still has the socket
 * open. */
START_TEST(a_lost_connection_wakes_nobody)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    int fd = hf_event_fd(client);
    ck_assert_int_ge(fd, 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(ends[1]);
        (void)!read(ends[0], &byte, 1); /* the child waits until the test closes its end */
        _exit(0);
    }
    (void)wakes(fd, 100);
    agent_stop(&agent);
    ck_assert_uint_le(wakes(fd, 1000), 40);
    agent_start(&agent, true);
    AWAIT(ask() == 0);
    (void)wakes(fd, 100);
    ck_assert_uint_le(wakes(fd, 1000), 40);
    close(ends[1]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}
END_TEST

/* A thread whose ring was lost connects again before it waits. Otherwise the next agent would look
 * at its lock only in its regular pass, up to a fifth of a session_ttl later. */
START_TEST(a_waiter_that_rang_in_vain_connects_again)
{
    hf_lock *waiter = NULL;
    atomic_store(&agent.ungranted, true);
    ck_assert_int_eq(hf_open(client, "a", NULL, &waiter), 0);
    ck_assert_int_eq(hf_acquire(waiter, HF_EXCLUSIVE, 10 * MS, NULL), HF_ETIMEDOUT);
    agent_stop(&agent); /* the waiter has its seat, so it can queue without an agent */
    agent_start(&agent, true);
    uint32_t requests = atomic_load(&agent.requests);
    ck_assert_int_eq(hf_acquire(waiter, HF_EXCLUSIVE, 1000 * MS, NULL), HF_ETIMEDOUT);
    ck_assert_uint_gt(atomic_load(&agent.requests), requests);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("rings");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, no_ring_goes_to_a_stranger);
    tcase_add_test(tests, threads_ring_while_agents_come_and_go);
    tcase_add_test(tests, a_full_socket_keeps_nobody_waiting);
    tcase_add_test(tests, a_forked_child_that_disconnects_leaves_the_connection);
    tcase_add_test(tests, a_lost_connection_wakes_nobody);
    tcase_add_test(tests, a_waiter_that_rang_in_vain_connects_again);
    return suite_main("lib_rings", tests);
}
