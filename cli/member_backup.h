/*
 * `holdfast member backup`: the agent makes and checks a copy of its store, and this program writes
 * it to a file of the operator's.
 */
#ifndef HOLDFAST_CLI_MEMBER_BACKUP_H
#define HOLDFAST_CLI_MEMBER_BACKUP_H

#include "cli.h"

/* Writes a backup to the path. Replaces a file there only if `force`. Returns the exit status. */
int member_backup(struct cli *cli, const char *path, bool force);

#endif
