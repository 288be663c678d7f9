/* This header is included before the driver's code when that code is built for the simulator.
 * breaks.c can then break the rule that some messages wait for the disk. */
#ifndef SIM_SHIM_DRIVER_H
#define SIM_SHIM_DRIVER_H

#include <stdbool.h>

#include "core/quorum.h"

/* Returns whether a message of that kind waits until the rows before it are durable. own: the
 * message goes to the quorum core of the agent itself. */
bool sim_waits_for_disk(enum message_kind kind, bool own);

#define quorum_waits_for_disk(kind)                                                                \
    sim_waits_for_disk(kind, __builtin_strcmp(__func__, "send_to_self") == 0)

#endif
