/*
 * Of whom the log was told lately: once a minute for each agent, so that what one sends hides
 * nothing of another's. Of COMPLAINTS_AGENTS agents a minute at most: without TLS a stranger
 * invents names as it likes. They hide no voter, which has a place of its own.
 *
 * Pure; on the caller's storage, all 0 at first.
 */
#ifndef CORE_COMPLAINTS_H
#define CORE_COMPLAINTS_H

#include <stdint.h>

#include "proto/message.h"

enum { COMPLAINTS_AGENTS = 16 };

struct complained {
    struct message_agent agent; /* length 0: none */
    int64_t told_ns;
    uint32_t count; /* since then */
};

struct complaints {
    struct complained of[COMPLAINTS_AGENTS];
    struct complained voters[MESSAGE_VOTERS_MAX];
};

/* One more about that agent, whose name has a length. How many there were since the one that was
 * told last, this one included; 0: it is not to be told. */
uint32_t complaints_add(struct complaints *complaints, const struct message_agent *agent,
                        int64_t now_ns) __attribute__((warn_unused_result));

/* The same about a voter; its index. */
uint32_t complaints_add_voter(struct complaints *complaints, uint32_t voter,
                              const struct message_agent *agent, int64_t now_ns)
    __attribute__((warn_unused_result));

#endif
