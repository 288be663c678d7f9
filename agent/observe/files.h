/*
 * Whether the files of a running agent are still where it left them.
 */
#ifndef AGENT_OBSERVE_FILES_H
#define AGENT_OBSERVE_FILES_H

#include "agent.h"

enum { FILES_TEXT_MAX = 300 };

/* Note the identity of the store's file; of the socket and its folder, each time that it was made.
 * files_open() returns false if there is no memory. */
bool files_open(struct agent *agent) __attribute__((warn_unused_result));
void files_open_socket(struct agent *agent);
/* Returns false if the socket could not be looked at (for want of a descriptor): then its removal
 * is not noticed. files_open_socket_late() tries again, by the socket's name in its folder; the
 * caller knows that this cannot wait. */
bool files_socket_known(const struct agent *agent);
void files_open_socket_late(struct agent *agent);
void files_close(struct agent *agent);
/* Returns whether a user other than root and the agent's may write to the configuration. */
bool files_config_is_loose(const struct agent *agent);
/* The number of files that are gone, of the folder, the store and the regions. text (FILES_TEXT_MAX
 * bytes) names them. by_name: also look whether the folder was moved, for which the disk may have
 * to be read. */
uint32_t files_state_gone(const struct agent *agent, bool by_name, char *text);
/* The folder of the socket, as files_open_socket() first found it: O_PATH, or -1. */
int files_socket_folder(const struct agent *agent);
/* Returns whether the socket's name was removed. */
bool files_socket_gone(const struct agent *agent);
/* files_state_gone() with the socket. */
uint32_t files_gone(const struct agent *agent, bool by_name, char *text);
/* Called in each upkeep: logs the files that are missing. */
void files_look(struct agent *agent);

#endif
