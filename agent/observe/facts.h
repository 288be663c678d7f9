/*
 * The facts that `holdfast doctor` asks for.
 */
#ifndef AGENT_OBSERVE_FACTS_H
#define AGENT_OBSERVE_FACTS_H

#include "agent.h"

/* Writes a TOLD that answers request. The size; 0: none. buffer: HFI_FRAME_MAX bytes. */
size_t facts_tell(struct agent *agent, uint64_t request, unsigned char *buffer);

#endif
