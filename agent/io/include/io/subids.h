/*
 * The account to which a user's number is charged.
 *
 * A user to whom /etc/subuid gives a range of numbers can run processes under each of these numbers
 * (newuidmap(1)). So, where the agent bounds what one user may have, all these numbers are charged
 * to the owner of the range. This table does not decide about rights: a subordinate number has its
 * own rights, or none.
 *
 * Malformed lines are reported and left out. Where two lines have the same numbers, the numbers
 * belong to the owner in the first line.
 *
 * Root's ranges are for containers. All containers together must not be one account, and must not
 * belong to root's account, which has no bound. So every 65,536 numbers of such a range are one
 * account, named by the first number. Numbers below 65,536 in such a range are users of the host,
 * each with its own account. Number 0 is always an account of its own.
 *
 * The table is made before there are threads, and only read afterwards.
 */
#ifndef IO_SUBIDS_H
#define IO_SUBIDS_H

#include <stdbool.h>
#include <sys/types.h>

enum {
    SUBIDS_RANGES_MAX = 16384, /* the most ranges; further ones are reported and left out */
    SUBIDS_BLOCK = 65536,      /* numbers of one account in root's ranges */
};

/* Called for each line that is left out, wholly or in part. `why` is a static text. */
typedef void subids_wrong_fn(void *arg, unsigned line, const char *why);

/*
 * Reads lines "NAME-OR-NUMBER:FIRST:COUNT", and replaces the table. Empty lines and lines that
 * begin with # are skipped. A missing file is taken for an empty one. On failure returns false with
 * errno, and each number is its own account.
 */
bool subids_load(const char *path, subids_wrong_fn *wrong, void *arg)
    __attribute__((warn_unused_result));

/* Returns the number of the account that the user is charged to. Any thread may call this. */
uid_t subids_account(uid_t uid);

#endif
