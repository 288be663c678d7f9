/*
 * Answers: what the quorum says about this host's locks (granted, amended, acknowledged, recalled,
 * refused). This module decides whether a message counts, by its session, its request and its
 * version. The rules for that, and what follows for the lock, are in grants.h.
 */
#ifndef HOST_ANSWERS_H
#define HOST_ANSWERS_H

#include "hub.h"

void answers_message(struct host *host, const struct message *message,
                     struct host_actions *actions);

#endif
