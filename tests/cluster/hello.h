/*
 * A client without the library, for tests of what the library never does: it connects and writes
 * its frames itself. One thread at a time may use a connection.
 */
#ifndef TESTS_CLUSTER_HELLO_H
#define TESTS_CLUSTER_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame.h"

/* The identity of a client that comes back; zeros: a new client. */
struct hello_as {
    uint32_t client;
    uint64_t nonce;
};

/* Connects. Returns -1, with errno, on failure. */
int hello_dial(const char *socket);

/* Sends a frame. Returns false if it was not sent. */
bool hello_say(int fd, const struct hfi_frame *frame, int flags);

/* Receives a frame, whose texts are valid until the next one. *with: the descriptor that came with
 * it, which the caller owns, or -1; if with is NULL, it is closed. Returns false if no frame
 * came. */
bool hello_hear(int fd, struct hfi_frame *frame, int *with);

/* Sends HELLO as that client. */
bool hello_greet(int fd, const struct hello_as *as);

/* Sends HELLO and waits for WELCOME; then *as is the identity that WELCOME gave. */
bool hello_welcome(int fd, struct hello_as *as);

/* Connects and greets as that client (NULL: a new one). Returns -1 if that fails now. */
int hello_enter(const char *socket, struct hello_as *as);

#endif
