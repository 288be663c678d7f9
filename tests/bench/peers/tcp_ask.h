/*
 * One question to a server on the loopback that answers with text and closes: HTTP/1.0, or
 * ZooKeeper's four letters.
 */
#ifndef PEERS_TCP_ASK_H
#define PEERS_TCP_ASK_H

#include <stddef.h>

/* Sends the text and reads what comes until the other side closes, a second at most between two
 * pieces; bytes beyond the room are dropped. Returns -1 without a complaint if nobody answers, for
 * loops that wait. */
int tcp_ask(unsigned port, const char *question, char *answer, size_t size)
    __attribute__((warn_unused_result));

#endif
