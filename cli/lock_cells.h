/*
 * The cells of a lock in the tables of `holdfast ls` and `holdfast top`, as clean text (text.h).
 */
#ifndef HOLDFAST_CLI_LOCK_CELLS_H
#define HOLDFAST_CLI_LOCK_CELLS_H

#include <stdint.h>
#include <stdio.h>

#include <holdfast/admin.h>

/* Writes the state. If a lock-delay keeps the lock closed, writes for how long, and the state only
 * if the lock is not free. */
void lock_write_mode(FILE *out, const struct hf_lock_info *info);

/* Writes the user and the command of the only holder, or the number of holders. If the lock has no
 * holder, writes the user and the command of info->behind in parentheses, if they are known. */
void lock_write_holder(FILE *out, const struct hf_lock_info *info);

/* Writes the host of the holders, or "several". If the lock has no holder, writes the host of
 * info->behind in parentheses, if it is known. */
void lock_write_host(FILE *out, const struct hf_lock_info *info);

/* Returns for how long the oldest hold has lasted; -1: the lock is free, or it is not known. */
int64_t lock_oldest_hold_ns(const struct hf_lock_info *info);

#endif
