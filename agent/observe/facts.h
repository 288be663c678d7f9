/*
 * The facts that `holdfast doctor` asks for.
 */
#ifndef AGENT_OBSERVE_FACTS_H
#define AGENT_OBSERVE_FACTS_H

#include "agent.h"

/* Writes a TOLD frame that answers request. Returns its size; 0: it wrote nothing. buffer:
 * HFI_FRAME_MAX bytes. */
size_t facts_write(struct agent *agent, uint64_t request, unsigned char *buffer);

#endif
