/*
 * Answers: the quorum's answers about this host's locks (granted, amended, acknowledged, recalled,
 * refused). An answer counts if the host acts on it, and this module decides which answers count.
 * grants.h says what a counting answer changes.
 *
 * This module enforces these rules of docs/PROTOCOL.md:
 *   9   An answer counts only if it names the request that is under way and the lock's session. A
 *       grant at or below a version that this host gave back does not count.
 *   11  A doubtful grant goes back.
 *   19  As long as no majority has renewed this session's epoch, no answer counts, and nothing is
 *       given back.
 *   32  A message about a namespace that is given up is ignored, unless it acknowledges a give-back
 *       or is a refusal.
 *   35  "In use" decides only when a try fails.
 *
 * Invariant: an answer that does not count opens no word. The most that it causes is a give-back.
 * Messages may be lost, late or repeated, so ignoring one is always safe.
 */
#ifndef HOST_ANSWERS_H
#define HOST_ANSWERS_H

#include "hub.h"

void answers_message(struct host *host, const struct message *message,
                     struct host_actions *actions);

#endif
