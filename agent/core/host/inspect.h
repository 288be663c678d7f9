/*
 * Inspect: the answers to clients that ask about locks and the agent (LIST, SHOW, STATUS). It
 * changes no lock.
 */
#ifndef HOST_INSPECT_H
#define HOST_INSPECT_H

#include "hub.h"

void inspect_list(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions);
void inspect_status(struct host *host, uint32_t client, const struct hfi_frame *frame,
                    struct host_actions *actions);

#endif
