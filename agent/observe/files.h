/*
 * Whether the open files of a running agent still have their names.
 */
#ifndef AGENT_OBSERVE_FILES_H
#define AGENT_OBSERVE_FILES_H

#include "agent.h"

enum { FILES_TEXT_MAX = 300 };

/* files_open() notes the identity of the store's file. files_open_socket() notes the identity of
 * the socket and its folder, each time that the socket is made. files_open() returns false if there
 * is no memory. */
bool files_open(struct agent *agent) __attribute__((warn_unused_result));
void files_open_socket(struct agent *agent);
/* files_socket_known() returns false if the socket could not be opened for want of a descriptor. In
 * that case nobody would notice if the socket were removed, so files_open_socket_late() tries
 * again, by the socket's name in its folder. That may wait for a disk, so the caller first checks
 * that the folder is in memory. */
bool files_socket_known(const struct agent *agent);
void files_open_socket_late(struct agent *agent);
void files_close(struct agent *agent);
/* Returns whether a user other than root and the agent's may write to the configuration. */
bool files_config_is_loose(const struct agent *agent);
/* Returns how many of state_dir, the store and the regions have lost their names, and names them in
 * `text` (FILES_TEXT_MAX bytes). If by_name is true, it also looks whether state_dir was moved, for
 * which the kernel may have to read the disk. */
uint32_t files_state_gone(const struct agent *agent, bool by_name, char *text);
/* The folder of the socket, as files_open_socket() first found it: an O_PATH descriptor, or -1. */
int files_socket_folder(const struct agent *agent);
/* Returns whether the socket's name was removed. */
bool files_socket_gone(const struct agent *agent);
/* Like files_state_gone(), and includes the socket. */
uint32_t files_gone(const struct agent *agent, bool by_name, char *text);
/* Called in each upkeep: logs the files that are missing, if there are more of them than in the
 * last log line. */
void files_look(struct agent *agent);

#endif
