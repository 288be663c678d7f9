/*
 * Whose account a user's number is charged to.
 *
 * A user to whom /etc/subuid gives a range of numbers can be each of them (newuidmap(1)), so what
 * one user may have of the agent is counted for all of them together, by the owner's number.
 * Rights are never looked up here: a subordinate number has its own, or none.
 *
 * Lines that make no sense are told and left out. Where two owners have the same numbers the line
 * that comes first has them. Root's ranges are for containers, which are not to be one account, nor
 * root's, who is bound by nothing: each 65,536 numbers of such a range are one account, its first
 * number; what is below 65,536 there is the hosts' users, each its own account. Number 0 is always
 * its own.
 *
 * The table is made before there are threads, and only read afterwards.
 */
#ifndef IO_SUBIDS_H
#define IO_SUBIDS_H

#include <stdbool.h>
#include <sys/types.h>

enum {
    SUBIDS_RANGES_MAX = 16384, /* what is beyond is told and left out */
    SUBIDS_BLOCK = 65536,      /* of root's ranges */
};

/* Told of each line that is left out, wholly or in part. why: static text. */
typedef void subids_wrong_fn(void *arg, unsigned line, const char *why);

/*
 * Reads "NAME-OR-NUMBER:FIRST:COUNT" lines in the stead of what was read before; empty ones and
 * those that begin with # say nothing. A file that is not there is an empty one. false: errno says
 * why; then each number is its own account.
 */
bool subids_load(const char *path, subids_wrong_fn *wrong, void *arg)
    __attribute__((warn_unused_result));

/* The number by which that user is counted. Any thread. */
uid_t subids_account(uid_t uid);

#endif
