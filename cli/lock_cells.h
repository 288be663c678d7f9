/*
 * The cells of a lock in the tables of `holdfast ls` and `holdfast top`, as clean text (text.h).
 */
#ifndef HOLDFAST_CLI_LOCK_CELLS_H
#define HOLDFAST_CLI_LOCK_CELLS_H

#include <stdint.h>
#include <stdio.h>

#include <holdfast/admin.h>

/* Writes the state, or for how long a lock-delay keeps the lock closed. */
void lock_write_mode(FILE *out, const struct hf_lock_info *info);

/* Writes the user and the command of the only holder, or how many holders there are. */
void lock_write_holder(FILE *out, const struct hf_lock_info *info);

/* Writes the host of the holders, or that there are holders on more than one host. */
void lock_write_host(FILE *out, const struct hf_lock_info *info);

/* Returns for how long the oldest hold has lasted; -1: the lock is free, or it is not known. */
int64_t lock_oldest_hold_ns(const struct hf_lock_info *info);

#endif
