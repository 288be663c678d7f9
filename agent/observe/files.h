/*
 * Whether the files of a running agent are still where it left them.
 */
#ifndef AGENT_OBSERVE_FILES_H
#define AGENT_OBSERVE_FILES_H

#include "agent.h"

enum { FILES_TEXT_MAX = 300 };

/* Notes which file the store is, and which the socket, once there is one. */
void files_open(struct agent *agent);
void files_open_socket(struct agent *agent);
/* Whether somebody else than root and the agent's user may write to the configuration. */
bool files_config_is_loose(const struct agent *agent);
/* How many of the folder, the store, the regions and the socket are not where they were any more;
 * which: text, of FILES_TEXT_MAX bytes. by_name: also a folder that was moved, for which the disk
 * may have to be read. */
uint32_t files_gone(const struct agent *agent, bool by_name, char *text);
/* Called now and then: logs the files that are gone. */
void files_look(struct agent *agent);

#endif
