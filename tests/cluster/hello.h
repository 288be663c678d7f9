/*
 * A client without the library, for tests of what the library never does. The test connects and
 * sends its frames itself. Only one thread at a time may use a connection.
 */
#ifndef TESTS_CLUSTER_HELLO_H
#define TESTS_CLUSTER_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame.h"

/* the identity of a client that connects again; zeros for a new client */
struct hello_as {
    uint32_t client;
    uint64_t nonce;
};

/* Connects. Returns -1, with errno, on failure. */
int hello_dial(const char *socket);

/* Sends a frame. Returns false if it was not sent. */
bool hello_say(int fd, const struct hfi_frame *frame, int flags);

/* Receives a frame. Its texts are valid until the next call. *with becomes the descriptor that came
 * with the frame, which the caller owns, or -1. If `with` is NULL, such a descriptor is closed.
 * Returns false if no frame came. */
bool hello_receive(int fd, struct hfi_frame *frame, int *with);

/* Sends HELLO with the identity *as. */
bool hello_greet(int fd, const struct hello_as *as);

/* Sends HELLO with the identity *as and waits for WELCOME. *as becomes the identity in WELCOME. */
bool hello_welcome(int fd, struct hello_as *as);

/* Connects, and does what hello_welcome() does. If `as` is NULL, connects as a new client. Returns
 * -1 on failure. */
int hello_enter(const char *socket, struct hello_as *as);

#endif
