/*
 * One request to a server on the loopback that answers with a text and closes the connection:
 * HTTP/1.0, or ZooKeeper's four-letter commands.
 */
#ifndef PEERS_TCP_ASK_H
#define PEERS_TCP_ASK_H

#include <stddef.h>

/* Sends the text and reads the answer until the server closes the connection. Waits at most a
 * second for each piece of the answer. Bytes that do not fit into `answer` are dropped. Returns -1
 * without a complaint if nobody answers, so that a loop can repeat it. */
int tcp_ask(unsigned port, const char *question, char *answer, size_t size)
    __attribute__((warn_unused_result));

#endif
