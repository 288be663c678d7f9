/*
 * A client without the library: a connection and frames by hand, for tests of what the library
 * never does. Everything is for one thread.
 */
#ifndef TESTS_CLUSTER_HELLO_H
#define TESTS_CLUSTER_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/frame.h"

/* The client that comes back; zeroed: a new one. */
struct hello_as {
    uint32_t client;
    uint64_t nonce;
};

/* A connection; -1: errno says why not. */
int hello_dial(const char *socket);

/* Sends a frame. false: it was not sent. */
bool hello_say(int fd, const struct hfi_frame *frame, int flags);

/* Receives a frame, whose text is good until the next one, and the descriptor that comes with it,
 * the caller's; -1: none. with NULL: it is closed. false: none came. */
bool hello_hear(int fd, struct hfi_frame *frame, int *with);

/* Sends HELLO as that client. */
bool hello_greet(int fd, const struct hello_as *as);

/* The same, until it is welcomed; then as is who it was welcomed as. */
bool hello_welcome(int fd, struct hello_as *as);

/* A connection that was welcomed, and as which client (as: NULL: a new one). -1: not now. */
int hello_enter(const char *socket, struct hello_as *as);

#endif
