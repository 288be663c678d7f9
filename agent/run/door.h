/*
 * The socket's file while the agent runs. If somebody removes it, the agent makes it again where
 * that is safe; else the log says why not, and the agent has to be restarted. Meanwhile the
 * judgement has the reason `socket_gone`.
 *
 * It is safe where the calls cannot wait: in a folder in memory (tmpfs, such as /run), because a
 * disk may stand still, and one that other users cannot list, because a process that lists a folder
 * can keep the kernel's lock on it (docs/SECURITY.md, "Locks of the kernel that a client can
 * keep"). The lock beside the socket keeps a second agent away; if it was removed as well, the
 * agent takes it anew first.
 */
#ifndef AGENT_RUN_DOOR_H
#define AGENT_RUN_DOOR_H

#include "agent.h"

/* Called in each upkeep. *logged: the log says why the file is not made again; false at first. */
void door_look(struct agent *agent, bool *logged);

#endif
