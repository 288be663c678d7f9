/*
 * Answers: what the quorum says of this host's locks: granted, amended, acknowledged, recalled,
 * refused. What follows from that for the lock is asked of grants.h; this module decides which
 * message counts (its session, its request, its version: the rules are in grants.h).
 */
#ifndef HOST_ANSWERS_H
#define HOST_ANSWERS_H

#include "hub.h"

void answers_message(struct host *host, const struct message *message,
                     struct host_actions *actions);

#endif
