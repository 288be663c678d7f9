/*
 * The socket's file while the agent runs. If somebody removes it, the agent makes it again where
 * that is safe. Where it is not safe, the log says why, and the agent has to be restarted.
 * Meanwhile the judgement has the reason `socket_gone`.
 *
 * Making the file is safe in a folder where the calls cannot wait. The folder must be in memory
 * (tmpfs, such as /run), because a disk may stand still. Other users must not be able to list it,
 * because a process that lists a folder can keep the kernel's lock on it (docs/SECURITY.md, "Locks
 * of the kernel that a client can keep"). The lock file beside the socket keeps a second agent
 * away; if it was removed as well, the agent makes and locks it first.
 */
#ifndef AGENT_RUN_DOOR_H
#define AGENT_RUN_DOOR_H

#include "agent.h"

/* Called in each upkeep. *logged: whether the log already says why the file is not made again; the
 * caller sets it to false at first. */
void door_look(struct agent *agent, bool *logged);

#endif
