/*
 * The account to which a user's number is charged.
 *
 * A user to whom /etc/subuid gives a range of numbers can take each of them (newuidmap(1)), so what
 * one user may have of the agent is counted for all of them together, by the owner's number.
 * Rights are never looked up here: a subordinate number has its own, or none.
 *
 * Lines that make no sense are reported and left out. Where two owners have the same numbers, the
 * first line counts. Root's ranges are for containers. Containers are not to be one account, and
 * not root's either, which has no bound. So each 65,536 numbers of such a range are one account,
 * named by the first number. Numbers below 65,536 in such a range are the host's own users, each an
 * account of its own. Number 0 is always an account of its own.
 *
 * The table is made before there are threads, and only read afterwards.
 */
#ifndef IO_SUBIDS_H
#define IO_SUBIDS_H

#include <stdbool.h>
#include <sys/types.h>

enum {
    SUBIDS_RANGES_MAX = 16384, /* what is beyond is reported and left out */
    SUBIDS_BLOCK = 65536,      /* of root's ranges */
};

/* Called for each line that is left out, wholly or in part. `why` is a static text. */
typedef void subids_wrong_fn(void *arg, unsigned line, const char *why);

/*
 * Reads "NAME-OR-NUMBER:FIRST:COUNT" lines in the stead of what was read before; empty ones and
 * those that begin with # say nothing. A file that is not there is an empty one. On failure returns
 * false with errno; then each number is its own account.
 */
bool subids_load(const char *path, subids_wrong_fn *wrong, void *arg)
    __attribute__((warn_unused_result));

/* Returns the number by which that user is counted. Any thread may call this. */
uid_t subids_account(uid_t uid);

#endif
