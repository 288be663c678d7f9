/*
 * Inspect: the answers to clients that ask about locks and the agent (LIST, SHOW, STATUS).
 *
 * Invariants: a question changes no lock. Each question gets one answer, in the same step. A client
 * is shown the locks of a namespace only if it may use or administer that namespace. A page of a
 * LIST has a bounded number of locks, in the order of their names. The next page begins after the
 * last name of the page before, so a lock that keeps its slot during the listing is on exactly one
 * page.
 */
#ifndef HOST_INSPECT_H
#define HOST_INSPECT_H

#include "hub.h"

void inspect_list(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions);
/* event: a FRAME event whose frame is a STATUS. */
void inspect_status(struct host *host, uint32_t client, const struct host_event *event,
                    struct host_actions *actions);

#endif
