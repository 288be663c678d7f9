/*
 * The transport opens if it can, and otherwise reports the reason. The transport closes in every
 * state, and its threads handle none of the process's signals. With TLS it accepts the right peers
 * only.
 */
#include "transport_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <nng/nng.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../suite_main.h"

/* ---- opening and closing ---- */

/* Closes a transport while its links are in any state, many times. */
START_TEST(test_close)
{
    for (uint32_t i = 0; i < 30; i++) {
        struct node *a = node_plain();
        struct node *b = node_plain();
        char nobody[ADDRESS_SIZE];
        uint32_t to_b = transport_peer(a->transport, b->address, NULL);

        (void)transport_peer(b->transport, a->address, NULL);
        free_address("tcp://", nobody);
        (void)transport_peer(a->transport, nobody, NULL);
        for (uint32_t j = 0; j < i; j++) {
            (void)send_number(a, to_b, j, 5000);
            pump(i % 3 == 0 ? 0 : 2);
        }
        nodes_close();
    }
    transport_close(NULL);
}
END_TEST

START_TEST(test_refused_configurations)
{
    static const char *const listens[] = {
        "",
        "tcp://",
        "udp://127.0.0.1:1",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:0",
        "tcp://127.0.0.1:65536",
        "tcp://127.0.0.1:80x",
        "tcp://:7411",
        "tcp://*:7411",
        "tcp://a/b:7411",
        "tcp://[::1:7411",
        "tcp://[x]:7411",
        "ipc:///tmp/x",
        "tls+tcp://127.0.0.1:7411", /* there are no certificates */
        "tcp://192.0.2.1:7411",     /* no address of this machine */
        "tcp://no.such.host.invalid:7411",
    };
    char error[TRANSPORT_ERROR_MAX];
    struct transport_config config = {.packet_max = PACKET_MAX};

    for (size_t i = 0; i < sizeof listens / sizeof listens[0]; i++) {
        config.listen = listens[i];
        error[0] = '\0';
        ck_assert_msg(open_at(&nodes[3], &config, error) == NULL, "%s", listens[i]);
        ck_assert_msg(strlen(error) > strlen(listens[i]) + 5, "%s: %s", listens[i], error);
        ck_assert_int_eq(strncmp(error, listens[i], strlen(listens[i])), 0);
    }
    config.listen = "tcp://127.0.0.1:7411";
    config.tls.ca = "ca.pem";
    ck_assert_ptr_null(open_at(&nodes[3], &config, error));
    ck_assert_ptr_nonnull(strstr(error, "ca, cert and key"));
    ck_assert_ptr_null(transport_address_error("tcp://host-a.example:7411"));
    ck_assert_ptr_null(transport_address_error("tls+tcp://[2001:db8::1]:7411"));
}
END_TEST

/* A peer is refused if its address contradicts that of another peer. */
START_TEST(test_refused_beside_another)
{
    char error[TRANSPORT_ERROR_MAX];
    struct node *a = node_plain();
    struct transport_config config = {.listen = a->address, .packet_max = PACKET_MAX};

    struct rlimit limit;

    ck_assert_ptr_null(open_at(&nodes[3], &config, error));
    ck_assert_int_eq(errno, EINVAL);
    ck_assert_ptr_nonnull(strstr(error, "another agent"));
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max}), 0);
    ck_assert_ptr_null(open_at(&nodes[3], &config, error));
    ck_assert_int_ne(errno, EINVAL); /* a temporary error */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_eq(transport_peer(a->transport, "tcp://x", NULL), TRANSPORT_PEER_NONE);
    ck_assert_uint_eq(transport_peer(a->transport, "tls+tcp://127.0.0.1:1", NULL),
                      TRANSPORT_PEER_NONE);
    nodes_close();
}
END_TEST

/* NNG's threads handle none of the process's signals. */
START_TEST(test_signals)
{
    struct node *a = node_plain();
    struct node *b = node_plain();
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *entry;
    uint32_t threads = 0;
    uint64_t wanted = UINT64_C(1) << (SIGTERM - 1) | UINT64_C(1) << (SIGCHLD - 1);
    sigset_t own;

    (void)peer_up(a, b->address);
    ck_assert_ptr_nonnull(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        char path[300];
        char line[200];
        FILE *status;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid()) {
            continue;
        }
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        status = fopen(path, "r");
        ck_assert_ptr_nonnull(status);
        while (fgets(line, sizeof line, status) != NULL) {
            if (strncmp(line, "SigBlk:", 7) == 0) {
                ck_assert_uint_eq(strtoull(line + 7, NULL, 16) & wanted, wanted);
                threads++;
            }
        }
        fclose(status);
    }
    closedir(tasks);
    ck_assert_uint_gt(threads, 3);
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &own), 0);
    ck_assert_int_eq(sigismember(&own, SIGTERM), 0);
    nodes_close();
}
END_TEST

/* ---- TLS ---- */

static char folder[48];

/* Makes two CAs, each with a certificate of host-a and one of host-b. */
static void certificates_make(void)
{
    static const char script[] =
        "cd %s && for ca in good other; do "
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-keyout $ca-ca.key -out $ca-ca.pem -subj /CN=$ca-ca && "
        "for host in host-a host-b; do "
        "openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
        "-keyout $ca-$host.key -out $ca.csr -subj /CN=$host && "
        "openssl x509 -req -in $ca.csr -CA $ca-ca.pem -CAkey $ca-ca.key -CAcreateserial -days 2 "
        "-out $ca-$host.pem || exit 1; done && "
        "cp -p $ca-host-a.pem $ca.pem && cp -p $ca-host-a.key $ca.key || exit 1; "
        "done >openssl.log 2>&1";
    char command[sizeof script + sizeof folder];

    snprintf(folder, sizeof folder, "%s/tls-XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(command, sizeof command, script, folder);
    ck_assert_int_eq(system(command), 0);
}

/* Makes old.pem, a certificate that has expired. Not every openssl makes one that is valid for less
 * than a day, so its validity is 0 days. It is valid until the present second ends, so this call
 * waits. */
static void certificate_ended(void)
{
    static const char script[] =
        "cd %s && openssl req -new -key good.key -out old.csr -subj /CN=host-a"
        " >>openssl.log 2>&1 && "
        "openssl x509 -req -in old.csr -CA good-ca.pem -CAkey good-ca.key -days 0 -out old.pem "
        ">>openssl.log 2>&1 && sleep 2";
    char command[sizeof script + sizeof folder];

    snprintf(command, sizeof command, script, folder);
    ck_assert_int_eq(system(command), 0);
}

static void certificates_remove(void)
{
    char command[sizeof folder + 16];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Makes a node with the certificate `cert` that trusts the CA `ca`. greet_ms: how long a peer may
 * take to greet; 0: the default. */
static struct node *node_greets(const char *ca, const char *cert, const char *key,
                                uint32_t greet_ms)
{
    static char paths[NODES_MAX][3][64]; /* static: the transport reads the files again later */
    static unsigned used;
    char(*own)[64] = paths[used++ % NODES_MAX];
    char address[ADDRESS_SIZE];
    struct transport_config config = {
        .listen = address,
        .packet_max = PACKET_MAX,
        .check_ms = 300,
        .greet_ms = greet_ms,
        .name = strstr(cert, "host-b") ? "host-b" : "host-a",
        .tls = {.ca = own[0], .cert = own[1], .key = own[2]},
    };

    snprintf(own[0], sizeof own[0], "%s/%s-ca.pem", folder, ca);
    snprintf(own[1], sizeof own[1], "%s/%s.pem", folder, cert);
    snprintf(own[2], sizeof own[2], "%s/%s.key", folder, key);
    free_address("tls+tcp://", address);
    return node_open(&config);
}

static struct node *node_tls(const char *ca, const char *cert, const char *key)
{
    return node_greets(ca, cert, key, 0);
}

/* If all threads of the test together had no processor for this time, a report of a deaf listener
 * is no failure. */
enum { STARVED_MS = 3000 };

/* Checks that no node reports anything, also not during its listener's check of itself. A listener
 * that gets no processor rightly reports itself as deaf; then the waiting begins anew. */
static void quiet(const struct node *a, const struct node *b)
{
    enum { CHECKED_MS = 6000 };
    int64_t until_ms = now_ms() + GUARD_MS;
    int64_t unserved = 0; /* unserved_ms() when the last report was excused */
    uint32_t told = 0;

    for (;;) { /* Check's timeout bounds this loop */
        const struct node *who;
        uint32_t tells;

        pump_for(CHECKED_MS);
        who = a->trouble_count > 0 ? a : b;
        tells = a->trouble_count + b->trouble_count;
        if (tells == told) {
            return;
        }
        ck_assert_msg(unserved_ms() - unserved > STARVED_MS && now_ms() < until_ms,
                      "told: %s of %s: %s", who->events[0], who->addresses[0], who->texts[0]);
        told = tells;
        unserved = unserved_ms();
    }
}

/* Sends a packet repeatedly until it has arrived. A link breaks, and loses its packets, if its
 * reader reads nothing for some seconds. A test without a processor is such a reader. */
static void deliver(struct node *from, uint32_t to, const struct node *into, uint64_t number,
                    size_t size)
{
    uint64_t packets = into->packets;

    while (into->packets == packets) { /* Check's timeout bounds this loop */
        uint32_t downs = from->downs[to];

        PUMP_UNTIL(transport_is_up(from->transport, to));
        ck_assert(send_number(from, to, number, size));
        PUMP_UNTIL(into->packets != packets || from->downs[to] != downs);
        ck_assert(from->downs[to] == 0 || unserved_ms() > STARVED_MS);
    }
    ck_assert_uint_eq(into->packets, packets + 1);
}

START_TEST(test_tls)
{
    struct node *a;
    struct node *b;
    uint32_t to_b;
    uint32_t to_a;

    certificates_make();
    a = node_tls("good", "good", "good");
    b = node_tls("good", "good", "good");
    to_b = peer_up(a, b->address);
    to_a = peer_up(b, a->address);
    for (uint32_t i = 0; i < 100; i++) {
        deliver(a, to_b, b, i, i % 2 == 0 ? 300 : PACKET_MAX);
        deliver(b, to_a, a, i, 300);
    }
    ck_assert(!a->disorder && !b->disorder);
    quiet(a, b);
    /* the queue becomes empty although a's link reports nothing */
    PUMP_UNTIL(transport_waiting(a->transport, to_b) == 0);
    nodes_close();
    certificates_remove();
}
END_TEST

static bool told(const struct node *node, const char *event, const char *address)
{
    for (uint32_t i = 0; i < node->trouble_count && i < TROUBLES_KEPT; i++) {
        if (strcmp(node->events[i], event) == 0 && strcmp(node->addresses[i], address) == 0) {
            return true;
        }
    }
    return false;
}

/* A stranger's certificate is signed by another CA. No packet gets through in either direction, and
 * both sides report this. */
START_TEST(test_tls_refused)
{
    struct node *a;
    struct node *b;
    uint32_t to_b;
    uint32_t to_a;

    certificates_make();
    a = node_tls("good", "good", "good");
    b = node_tls("other", "other", "other");
    to_b = transport_peer(a->transport, b->address, "host-a");
    to_a = transport_peer(b->transport, a->address, "host-a");
    PUMP_UNTIL(told(a, "tls_refused", b->address) || told(a, "tls_refused", a->address));
    PUMP_UNTIL(told(b, "tls_refused", b->address) || told(b, "tls_refused", a->address));
    for (uint32_t i = 0; i < 50; i++) {
        (void)send_number(a, to_b, i, 300);
        (void)send_number(b, to_a, i, 300);
        pump(10);
    }
    ck_assert_uint_eq(a->packets, 0);
    ck_assert_uint_eq(b->packets, 0);
    nodes_close();
    certificates_remove();
}
END_TEST

/* A peer without TLS connects to a peer with TLS, and the other way round. No packet gets
 * through. */
START_TEST(test_tls_and_plain)
{
    /* a greeting and a packet */
    static const char plain[] = "holdfast\0\0\0\1\0\0\0\1\0\0\0\x05rubbi";
    char address[ADDRESS_SIZE];
    struct node *a;
    struct node *b;
    struct node *c;
    uint32_t to_a;
    uint32_t to_b;
    int fd;

    certificates_make();
    a = node_tls("good", "good", "good");
    b = node_plain();
    snprintf(address, sizeof address, "tcp://127.0.0.1:%s", strrchr(a->address, ':') + 1);
    to_a = transport_peer(b->transport, address, NULL);
    snprintf(address, sizeof address, "tls+tcp://127.0.0.1:%s", strrchr(b->address, ':') + 1);
    to_b = transport_peer(a->transport, address, NULL);
    fd = connect_raw(a->address);
    ck_assert_int_eq(send(fd, plain, sizeof plain - 1, MSG_NOSIGNAL), sizeof plain - 1);
    for (uint32_t i = 0; i < 100; i++) {
        (void)send_number(b, to_a, i, 300);
        (void)send_number(a, to_b, i, 300);
        pump(20);
    }
    ck_assert_uint_eq(a->packets, 0);
    ck_assert_uint_eq(b->packets, 0);
    ck_assert_uint_eq(a->ups[to_b], 0);
    close(fd);
    /* Node a does not dial without TLS, whatever address a peer announces. */
    ck_assert_uint_eq(transport_peer(a->transport, b->address, "host-b"), TRANSPORT_PEER_NONE);
    c = node_tls("good", "good", "good"); /* node a still accepts the agents that it should */
    ck_assert(send_number(c, peer_up(c, a->address), 0, 300));
    PUMP_UNTIL(a->packets == 1);
    nodes_close();
    certificates_remove();
}
END_TEST

/* A listener must show a certificate with the name of the dialled agent. */
START_TEST(test_tls_names)
{
    struct node *a;
    struct node *b;
    uint32_t to_b;
    uint32_t to_another;

    certificates_make();
    a = node_tls("good", "good", "good");
    b = node_tls("good", "good-host-b", "good-host-b");
    to_another = transport_peer(a->transport, b->address, "host-c");
    PUMP_UNTIL(told(a, "tls_refused", b->address));
    ck_assert_ptr_nonnull(strstr(a->texts[0], "host-c"));
    ck_assert(!transport_is_up(a->transport, to_another));
    to_b = transport_peer(a->transport, b->address, "host-b");
    ck_assert_uint_ne(to_b, to_another);
    ck_assert_uint_eq(transport_peer(a->transport, b->address, "host-b"), to_b);
    PUMP_UNTIL(transport_is_up(a->transport, to_b));
    ck_assert(send_number(a, to_b, 0, 300));
    PUMP_UNTIL(b->packets == 1);
    /* if NNG gives the dialler's certificate, node b knows the name in it */
    ck_assert(b->certified[0] == '\0' || strcmp(b->certified, "host-a") == 0);
    ck_assert(!transport_is_up(a->transport, to_another));
    nodes_close();
    certificates_remove();
}
END_TEST

static void copy(const char *from, const char *to)
{
    char command[160];

    snprintf(command, sizeof command, "cp -p %s/%s %s/%s", folder, from, folder, to);
    ck_assert_int_eq(system(command), 0);
}

/* New connections use new files. Bad files are refused, and the files in use stay. */
START_TEST(test_tls_renewed)
{
    char error[TRANSPORT_ERROR_MAX];
    struct node *a;
    struct node *b;
    struct node *c;
    uint32_t to_b;

    certificates_make();
    certificate_ended();
    a = node_tls("good", "good", "good");
    b = node_tls("good", "good-host-b", "good-host-b");
    to_b = peer_up(a, b->address);
    copy("good.pem", "kept.pem");
    copy("good.key", "kept.key");
    /* a certificate of another CA, but not the key of that certificate */
    copy("other.pem", "good.pem");
    ck_assert(!transport_tls_renew(a->transport, error));
    ck_assert_ptr_nonnull(strstr(error, "good.pem: expected a certificate of the CA in"));
    copy("good-host-b.key", "good.key"); /* so far only the key is new */
    copy("kept.pem", "good.pem");
    ck_assert(!transport_tls_renew(a->transport, error));
    ck_assert_ptr_nonnull(strstr(error, "good.key: expected the key of the certificate in"));
    copy("kept.key", "good.key");
    copy("old.pem", "good.pem");
    ck_assert(!transport_tls_renew(a->transport, error));
    ck_assert_ptr_nonnull(strstr(error, "good.pem: found a certificate that is out of date"));
    copy("other.pem", "good.pem");
    copy("other.key", "good.key");
    copy("other-ca.pem", "good-ca.pem");
    ck_assert_msg(transport_tls_renew(a->transport, error), "%s", error);
    pump_for(300);                           /* long enough for the accept under way to end */
    ck_assert(send_number(a, to_b, 0, 300)); /* node a sends on the existing connection */
    PUMP_UNTIL(b->packets == 1);
    ck_assert_uint_eq(a->downs[to_b], 0);
    c = node_tls("other", "other-host-b", "other-host-b");
    ck_assert(send_number(c, peer_up(c, a->address), 0, 300));
    PUMP_UNTIL(a->packets == 1);
    ck_assert(send_number(a, peer_up(a, c->address), 0, 300));
    PUMP_UNTIL(c->packets == 1);
    (void)transport_peer(b->transport, a->address, "host-a"); /* node b still uses the old files */
    PUMP_UNTIL(told(b, "tls_refused", a->address));
    nodes_close();
    certificates_remove();
}
END_TEST

/* ---- slow handshakes ---- */

enum {
    GREET_MS = 300,
    SLOW_GREET_MS = 1000, /* the longest attempt takes six times as long, for a busy machine */
    /* the delay in one direction; handshake and greeting need four or six such delays */
    SLOW_MS = 350,
    SLOW_PAIRS = 64,  /* at most so many connections go through the slow wire */
    SLOW_SIZE = 8192, /* more than either end sends before both have greeted */
};

/* Bytes that one end sent and the other end has not received. All these bytes are passed on at
 * due_ms. */
struct slow_bytes {
    unsigned char data[SLOW_SIZE];
    size_t size;
    int64_t due_ms;
};

struct slow_pair {
    int ends[2];
    struct slow_bytes to[2];
};

static struct slow_pair slow_pairs[SLOW_PAIRS];
static uint32_t slow_count;

static void slow_carry(struct slow_pair *pair, int from)
{
    struct slow_bytes *bytes = &pair->to[1 - from];
    ssize_t got = recv(pair->ends[from], bytes->data + bytes->size, SLOW_SIZE - bytes->size,
                       MSG_DONTWAIT);

    if (got > 0) {
        bytes->due_ms = bytes->size == 0 ? now_ms() + SLOW_MS : bytes->due_ms;
        bytes->size += (size_t)got;
        ck_assert_uint_lt(bytes->size, SLOW_SIZE);
    } else if (got == 0) {
        (void)shutdown(pair->ends[1 - from], SHUT_WR);
    }
    if (bytes->size > 0 && now_ms() >= bytes->due_ms) {
        (void)send(pair->ends[1 - from], bytes->data, bytes->size, MSG_NOSIGNAL);
        bytes->size = 0;
    }
}

/* Accepts a peer, connects it to that node, and passes on the bytes of both ends with a delay. */
static void slow_turn(int listener, const struct node *node)
{
    int fd = accept(listener, NULL, NULL);

    if (fd >= 0) {
        ck_assert_uint_lt(slow_count, SLOW_PAIRS);
        slow_pairs[slow_count++].ends[0] = fd;
        slow_pairs[slow_count - 1].ends[1] = connect_raw(node->address);
    }
    for (uint32_t i = 0; i < slow_count; i++) {
        slow_carry(&slow_pairs[i], 0);
        slow_carry(&slow_pairs[i], 1);
    }
    pump(5);
}

/* A handshake takes longer than the first attempt allows. A later attempt allows enough time. */
START_TEST(test_tls_slow)
{
    char plain[ADDRESS_SIZE];
    char address[ADDRESS_SIZE];
    uint32_t to_b;

    certificates_make();
    struct node *a = node_greets("good", "good", "good", SLOW_GREET_MS);
    struct node *b = node_greets("good", "good-host-b", "good-host-b", SLOW_GREET_MS);
    int listener = listen_raw(plain);
    snprintf(address, sizeof address, "tls+%.*s", (int)sizeof address - 5, plain);
    to_b = transport_peer(a->transport, address, "host-b");
    for (int64_t until_ms = now_ms() + GUARD_MS; !transport_is_up(a->transport, to_b);) {
        ck_assert(now_ms() < until_ms);
        slow_turn(listener, b);
    }
    ck_assert_uint_ge(slow_count, 2); /* the first attempt was abandoned */
    ck_assert(send_number(a, to_b, 0, 300));
    for (int64_t until_ms = now_ms() + GUARD_MS; b->packets == 0;) {
        ck_assert(now_ms() < until_ms);
        slow_turn(listener, b);
    }
    nodes_close();
    for (uint32_t i = 0; i < slow_count; i++) {
        close(slow_pairs[i].ends[0]);
        close(slow_pairs[i].ends[1]);
    }
    close(listener);
    certificates_remove();
}
END_TEST

static _Atomic int64_t held_until_ms; /* CLOCK_MONOTONIC */

/* Replaces sendmsg(), which only NNG calls. Until held_until_ms the kernel seems to accept no
 * bytes. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *message,
                                                       int flags)
{
    if (now_ms() < held_until_ms) {
        usleep(5000); /* this slows NNG down, because NNG tries again at once */
        errno = EAGAIN;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* A listener with slow handshakes is not reported; a listener that does not accept is. */
START_TEST(test_tls_deaf)
{
    struct rlimit limit;
    struct node *a;
    struct node *b;

    certificates_make();
    a = node_tls("good", "good", "good");
    /* the check begins after 300 ms, and its result comes 5 s later */
    held_until_ms = now_ms() + 6000;
    pump_for(6000);
    ck_assert(a->trouble_count == 0 || unserved_ms() > STARVED_MS);
    b = node_tls("good", "good-host-b", "good-host-b");
    ck_assert(send_number(b, peer_up(b, a->address), 0, 300));
    PUMP_UNTIL(a->packets == 1);
    ck_assert(a->trouble_count == 0 || unserved_ms() > STARVED_MS);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    /* The process gets no further descriptor, but poll(2) still accepts two. */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){2, limit.rlim_max}), 0);
    PUMP_UNTIL(told(a, "inbox_unreachable", a->address));
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    nodes_close();
    certificates_remove();
}
END_TEST

static bool told_words(const struct node *node, const char *words)
{
    for (uint32_t i = 0; i < node->trouble_count && i < TROUBLES_KEPT; i++) {
        if (strstr(node->texts[i], words) != NULL) {
            return true;
        }
    }
    return false;
}

/* With TLS a silent peer may stay longer than without TLS, unless there are many silent peers. */
START_TEST(test_tls_silent)
{
    enum { MANY = 200 };
    static int fds[1 + MANY];
    struct node *a;
    struct node *b;

    certificates_make();
    a = node_greets("good", "good", "good", GREET_MS);
    /* long enough to make so many connections */
    b = node_greets("good", "good", "good", 10 * GREET_MS);
    fds[0] = connect_raw(a->address);
    PUMP_UNTIL(told_words(a, "sent nothing that an agent sends, for 30 s"));
    for (uint32_t i = 0; i < MANY; i++) {
        fds[1 + i] = connect_raw(b->address);
    }
    PUMP_UNTIL(told_words(b, "sent nothing that an agent sends, for 5 s"));
    ck_assert(!told_words(a, "sent nothing that an agent sends, for 5 s"));
    nodes_close();
    for (uint32_t i = 0; i <= MANY; i++) {
        close(fds[i]);
    }
    certificates_remove();
}
END_TEST

/* Connects to a node with `openssl s_client` and that TLS version. Returns whether the handshake
 * succeeded. */
static bool shakes_hands(const struct node *node, const char *version)
{
    char command[512];
    char text[4096] = "";
    size_t used = 0;
    int64_t until_ms = now_ms() + GUARD_MS;
    FILE *pipe;

    snprintf(command, sizeof command,
             "timeout 20 openssl s_client -%s -cipher ALL:@SECLEVEL=0 -brief -connect %s "
             "-CAfile %s/good-ca.pem -cert %s/good.pem -key %s/good.key 2>&1 </dev/null",
             version, strstr(node->address, "://") + 3, folder, folder, folder);
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_int_eq(fcntl(fileno(pipe), F_SETFL, O_NONBLOCK), 0);
    while (strstr(text, "CONNECTION ESTABLISHED") == NULL && now_ms() < until_ms) {
        ssize_t got = read(fileno(pipe), text + used, sizeof text - 1 - used);

        if (got == 0) {
            break;
        }
        used += got > 0 ? (size_t)got : 0;
        text[used] = '\0';
        pump(20);
    }
    (void)pclose(pipe);
    return strstr(text, "CONNECTION ESTABLISHED") != NULL;
}

START_TEST(test_tls_versions)
{
    struct node *a;

    certificates_make();
    a = node_tls("good", "good", "good");
    ck_assert(shakes_hands(a, "tls1_2"));
    ck_assert(!shakes_hands(a, "tls1_1"));
    ck_assert(!shakes_hands(a, "tls1"));
    nodes_close();
    certificates_remove();
}
END_TEST

START_TEST(test_tls_files)
{
    char address[ADDRESS_SIZE];
    char good[64];
    char ca[64];
    char key[64];
    char error[TRANSPORT_ERROR_MAX];
    struct transport_config config = {.listen = address, .packet_max = PACKET_MAX};

    certificates_make();
    free_address("tls+tcp://", address);
    snprintf(good, sizeof good, "%s/good.pem", folder);
    snprintf(key, sizeof key, "%s/good.key", folder);
    config.tls = (struct transport_tls){.ca = good, .cert = good, .key = "/nowhere/key.pem"};
    ck_assert_ptr_null(open_at(&nodes[0], &config, error));
    ck_assert_str_eq(error, "/nowhere/key.pem: No such file or directory");
    config.tls = (struct transport_tls){.ca = key, .cert = good, .key = key};
    ck_assert_ptr_null(open_at(&nodes[0], &config, error));
    ck_assert_ptr_nonnull(strstr(error, "good.key: expected certificates"));
    snprintf(ca, sizeof ca, "%s/good-ca.pem", folder);
    config.tls = (struct transport_tls){.ca = ca, .cert = good, .key = key};
    config.name = "host-b";
    ck_assert_ptr_null(open_at(&nodes[0], &config, error));
    ck_assert_ptr_nonnull(
        strstr(error, "found a certificate of CN=host-a, expected one of CN=host-b"));
    config.name = NULL;
    ck_assert_int_eq(chmod(key, 0640), 0);
    ck_assert_msg(transport_tls_check(&config.tls, "host-a", NULL, error), "%s", error);
    ck_assert_int_eq(chmod(key, 0644), 0);
    ck_assert_ptr_null(open_at(&nodes[0], &config, error));
    ck_assert_ptr_nonnull(strstr(error, "good.key: found mode 0644, expected 0600"));
    ck_assert_int_eq(chmod(key, 0600), 0);
    ck_assert_int_eq(chmod(good, 0600), 0);
    config.tls = (struct transport_tls){.ca = good, .cert = key, .key = good};
    ck_assert_ptr_null(open_at(&nodes[0], &config, error));
    ck_assert_ptr_nonnull(strstr(error, "expected a certificate and its key"));
    config.tls = (struct transport_tls){.ca = folder, .cert = good, .key = key};
    ck_assert_ptr_null(open_at(&nodes[0], &config, error));
    ck_assert_int_eq(strncmp(error, folder, strlen(folder)), 0);
    certificates_remove();
}
END_TEST

static const struct {
    const char *key;        /* options of openssl req */
    const char *extensions; /* extensions of the certificate, one in each line */
    const char *more;       /* options of openssl x509 */
    const char *error;      /* NULL: the certificate is accepted */
} kinds[] = {
    {"-newkey rsa:2048", "keyUsage=digitalSignature,keyEncipherment", "", NULL},
    {"-newkey ec -pkeyopt ec_paramgen_curve:prime256v1", "extendedKeyUsage=serverAuth,clientAuth",
     "", NULL},
    {"-newkey rsa:1024", "", "", "kind.pem: found a certificate that no agent accepts: "},
    {"-newkey rsa:2048", "", "-sha1", "kind.pem: found a certificate that no agent accepts: "},
    {"-newkey rsa:2048", "extendedKeyUsage=serverAuth", "", "found a certificate for other uses"},
    {"-newkey rsa:2048", "extendedKeyUsage=clientAuth", "", "found a certificate for other uses"},
    {"-newkey rsa:2048", "keyUsage=keyEncipherment", "", "found a certificate for other uses"},
    {"-newkey rsa:2048", "subjectAltName=DNS:other,DNS:host-a", "", NULL},
    {"-newkey rsa:2048", "subjectAltName=DNS:other", "",
     "kind.pem: found alternative names, expected host-a, "},
    {"-newkey rsa:2048", "subjectAltName=IP:127.0.0.1", "",
     "kind.pem: found alternative names, expected host-a, "},
    {"-newkey rsa:2048 -subj /CN=other", "subjectAltName=DNS:host-a", "",
#ifdef NNG_OPT_TLS_PEER_CN
     "kind.pem: found a certificate of CN=other, expected one of CN=host-a"},
#else
     NULL},
#endif
};

/* A certificate with which no handshake can succeed is refused, both at the start and when it comes
 * in a new file. */
START_TEST(test_tls_kinds)
{
    char command[1024];
    char error[TRANSPORT_ERROR_MAX];
    char ca[64];
    char cert[64];
    char key[64];
    struct transport_tls tls = {.ca = ca, .cert = cert, .key = key};

    certificates_make();
    snprintf(ca, sizeof ca, "%s/good-ca.pem", folder);
    snprintf(cert, sizeof cert, "%s/kind.pem", folder);
    snprintf(key, sizeof key, "%s/kind.key", folder);
    snprintf(command, sizeof command,
             "cd %s && printf '%%b' '%s\\n' >extensions && openssl req -subj /CN=host-a -nodes "
             "-keyout kind.key -out kind.csr %s >>openssl.log 2>&1 && openssl x509 -req "
             "-in kind.csr -CA good-ca.pem -CAkey good-ca.key -CAcreateserial -days 2 "
             "-out kind.pem -extfile extensions %s >>openssl.log 2>&1 && chmod 600 kind.key",
             folder, kinds[_i].extensions, kinds[_i].key, kinds[_i].more);
    ck_assert_int_eq(system(command), 0);
    if (kinds[_i].error == NULL) {
        struct node *a = node_tls("good", "kind", "kind");
        struct node *b = node_tls("good", "good-host-b", "good-host-b");

        (void)peer_up(a, b->address); /* the certificate is good for both ends */
        (void)peer_up(b, a->address);
        nodes_close();
    } else {
        ck_assert(!transport_tls_check(&tls, "host-a", NULL, error));
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_msg(strstr(error, kinds[_i].error) != NULL, "%s", error);
    }
    certificates_remove();
}
END_TEST

/* A certificate expires at the latest with the CA that signed it, whatever other CAs the CA file
 * has. The CA here is old and ends in ten days; the certificate is new. The end counts as near for
 * the last two weeks, because the CA's own validity decides. */
START_TEST(test_tls_times)
{
    static const char script[] =
        "cd %s && exec 2>>openssl.log && printf '[ca]\ndefault_ca=it\n[it]\ndatabase=index\n"
        "new_certs_dir=.\nserial=serial\ndefault_md=sha256\npolicy=any\nx509_extensions=v3\n[v3]\n"
        "basicConstraints=critical,CA:true\n[any]\ncommonName=supplied\n' >ca.cnf && >index && "
        "echo 11 >serial && openssl req -new -key good-ca.key -out ca.csr -subj /CN=good-ca && "
        "openssl ca -batch -selfsign -config ca.cnf -keyfile good-ca.key -in ca.csr -notext "
        "-startdate 20200101000000Z -enddate $(date -u -d '+10 days' +%%Y%%m%%d%%H%%M%%SZ) "
        "-out good-ca.pem && openssl req -x509 -newkey rsa:2048 -nodes -days 4000 "
        "-keyout long.key -out long.pem -subj /CN=long-ca && "
        "openssl req -new -key good.key -out long.csr -subj /CN=host-a && "
        "openssl x509 -req -in long.csr -CA good-ca.pem -CAkey good-ca.key -CAcreateserial "
        "-days 400 -out good.pem && openssl x509 -req -in long.csr -CA good-ca.pem "
        "-CAkey good-ca.key -CAcreateserial -days 3 -out short.pem && cat long.pem >>good-ca.pem";
    char command[sizeof script + sizeof folder];
    const int64_t day_s = 86400;
    const int64_t now_s = (int64_t)time(NULL);

    certificates_make();
    snprintf(command, sizeof command, script, folder);
    ck_assert_int_eq(system(command), 0);
    struct node *a = node_tls("good", "good", "good");
    struct transport_tls_times times = transport_tls_times(a->transport);
    ck_assert_int_gt(times.end_s, now_s + 9 * day_s);
    ck_assert_int_lt(times.end_s, now_s + 11 * day_s);
    ck_assert_int_gt(times.begin_s, now_s - day_s);
    ck_assert_int_le(times.begin_s, (int64_t)time(NULL));
    ck_assert_int_eq(times.soon_s, times.end_s - TRANSPORT_SOON_DAYS * day_s);
    times = transport_tls_times(node_tls("other", "other", "other")->transport); /* for two days */
    ck_assert_int_eq(times.soon_s, times.end_s - day_s / 2);
    nodes_close();
    times = transport_tls_times(node_tls("good", "short", "good")->transport); /* three days */
    ck_assert(times.soon_ca && times.soon_end_s > times.end_s + day_s && !times.end_ca);
    nodes_close();
    certificates_remove();
}
END_TEST

/* A temporary error is distinguished from a wrong file. */
START_TEST(test_tls_files_later)
{
    char ca[64];
    char cert[64];
    char key[64];
    char error[TRANSPORT_ERROR_MAX];
    struct rlimit limit;
    struct transport_tls tls = {.ca = ca, .cert = cert, .key = key};

    certificates_make();
    snprintf(ca, sizeof ca, "%s/good-ca.pem", folder);
    snprintf(cert, sizeof cert, "%s/good.pem", folder);
    snprintf(key, sizeof key, "%s/good.key", folder);
    ck_assert_msg(transport_tls_check(&tls, "host-a", NULL, error), "%s", error);
    ck_assert(!transport_tls_check(&tls, "host-b", NULL, error));
    ck_assert_int_eq(errno, EINVAL);
    tls.ca = "/nowhere/ca.pem";
    ck_assert(!transport_tls_check(&tls, "host-a", NULL, error));
    ck_assert_int_eq(errno, EINVAL);
    tls.ca = ca;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, limit.rlim_max}), 0);
    ck_assert(!transport_tls_check(&tls, "host-a", NULL, error));
    ck_assert_int_eq(errno, EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    certificates_remove();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport_tls");
    TCase *tcase = tcase_create("transport_tls");

    tcase_set_timeout(tcase, 2 * GUARD_MS / 1000);
    tcase_add_test(tcase, test_close);
    tcase_add_test(tcase, test_refused_configurations);
    tcase_add_test(tcase, test_refused_beside_another);
    tcase_add_test(tcase, test_signals);
    tcase_add_test(tcase, test_tls);
    tcase_add_test(tcase, test_tls_refused);
    tcase_add_test(tcase, test_tls_names);
    tcase_add_test(tcase, test_tls_renewed);
    tcase_add_test(tcase, test_tls_slow);
    tcase_add_test(tcase, test_tls_deaf);
    tcase_add_test(tcase, test_tls_silent);
    tcase_add_test(tcase, test_tls_versions);
    tcase_add_test(tcase, test_tls_and_plain);
    tcase_add_test(tcase, test_tls_files);
    tcase_add_loop_test(tcase, test_tls_kinds, 0, sizeof kinds / sizeof kinds[0]);
    tcase_add_test(tcase, test_tls_times);
    tcase_add_test(tcase, test_tls_files_later);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
