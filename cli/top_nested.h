/*
 * The waits of `holdfast lock` within the CMD of another `holdfast lock`. The inner command waits
 * as a process of its own, and the outer command holds its lock until CMD ends. So the outer
 * command waits, too, but the agent does not know that.
 *
 * The outer commands of a process are its ancestors that are `holdfast`. `top` finds them in /proc.
 * That works only on the host of `top`, and not across PID namespaces. If /proc does not show one
 * of the processes, `top` does not find a circle of waits.
 */
#ifndef HOLDFAST_CLI_TOP_NESTED_H
#define HOLDFAST_CLI_TOP_NESTED_H

#include "top_reading.h"

/* Adds such waits to the reading, and adds the time of this call to the reading's duration. It
 * looks at a bounded number of waiters. Without memory it adds fewer. */
void top_nested_find(struct top_reading *reading);

#endif
