/*
 * Transports in the test's own process, with records of their callbacks, and one loop for all.
 *
 * NNG is opened in each test's own process, and never before a fork.
 */
#ifndef TESTS_UNIT_TRANSPORT_RIG_H
#define TESTS_UNIT_TRANSPORT_RIG_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/transport.h"

enum {
    GUARD_MS = 60000, /* fails a test that hangs; no step of these tests takes a minute */
    NODES_MAX = 4,
    TROUBLES_KEPT = 16,
    PACKET_MAX = 256 * 1024,
    ADDRESS_SIZE = 64,
    TEXT_SIZE = 160,
};

struct node {
    struct transport *transport;
    char address[ADDRESS_SIZE];
    const char *name; /* the name in the node's certificate; NULL: no TLS */
    uint64_t packets;
    uint64_t next; /* the number with which the next packet begins; see send_number() */
    bool disorder;
    size_t last_size;
    unsigned char last[PACKET_MAX];
    char remote[TRANSPORT_REMOTE_MAX];
    char certified[TRANSPORT_NAME_SIZE];
    uint32_t ups[8];
    uint32_t downs[8];
    uint32_t trouble_count;
    const char *events[TROUBLES_KEPT];
    char addresses[TROUBLES_KEPT][ADDRESS_SIZE];
    char texts[TROUBLES_KEPT][TEXT_SIZE];
};

/* The nodes, in the order of node_open(). */
extern struct node nodes[NODES_MAX];

/* Returns a port of the loopback address that only this test has (tests/free_port.h). */
unsigned free_port(void);
/* Writes an address with a free port to a buffer of ADDRESS_SIZE bytes. */
void free_address(const char *scheme, char *out);

/* Opens a transport. Returns NULL on failure, with the reason in error[TRANSPORT_ERROR_MAX]. */
struct transport *open_at(struct node *node, const struct transport_config *config, char *error);
struct node *node_open(const struct transport_config *config);
struct node *node_plain(void);
void nodes_close(void);
int64_t now_ms(void);
/* Dispatches the events that are there or come within wait_ms. */
void pump(int wait_ms);
void pump_for(int64_t duration_ms);

#define PUMP_UNTIL(condition)                                                                      \
    do {                                                                                           \
        int64_t until_ms = now_ms() + GUARD_MS;                                                    \
        while (!(condition)) {                                                                     \
            ck_assert_msg(now_ms() < until_ms, "never: %s", #condition);                           \
            pump(20);                                                                              \
        }                                                                                          \
    } while (0)

/* Returns for how long all threads of this process together were ready to run but had no
 * processor. */
int64_t unserved_ms(void);

/* Waits until the link to that address is up. Returns the peer. */
uint32_t peer_up(struct node *node, const char *address);
/* Sends a packet of `size` bytes, at least 8, which begins with the number. */
bool send_number(struct node *node, uint32_t peer, uint64_t number, size_t size);
/* Makes a stranger's connection, which does not block. */
int connect_raw(const char *address);
/* Listens, without blocking, in place of a node. Writes the address to `address`, which has
 * ADDRESS_SIZE bytes. */
int listen_raw(char *address);
/* Returns how often the threads of this process whose names begin with `name` went to sleep.
 * *count: the number of these threads. */
uint64_t sleeps(const char *name, uint32_t *count);
/* Returns how many descriptors a transport watches. */
uint32_t watched(const struct node *node);

/* Adds a test for which the transport must find descriptors. A program with transport_unfound.c
 * leaves this test out. */
#ifdef TRANSPORT_UNFOUND
#define tcase_add_found(tcase, test) (void)(test)
#else
#define tcase_add_found tcase_add_test
#endif

#endif
