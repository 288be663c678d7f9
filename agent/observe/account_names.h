/*
 * The names that user numbers have in /etc/passwd of this host, for the status page.
 *
 * The names come from that file alone. A name service may take minutes to answer, and its modules
 * make system calls that the agent's filter does not allow (config/accounts.h). hf_why() does the
 * same (libclient/why.c). So a user of a directory service has no name here.
 *
 * The file is read again only after it has changed, and only its first users are read, so that the
 * agent's loop, which reads it, is not held up. The functions are for one thread.
 */
#ifndef AGENT_OBSERVE_ACCOUNT_NAMES_H
#define AGENT_OBSERVE_ACCOUNT_NAMES_H

#include <stdint.h>

enum {
    ACCOUNT_NAMES_MAX = 1024,   /* the most users that are read */
    ACCOUNT_NAMES_LONGEST = 32, /* a user with a longer name is left out */
};

struct account_names;

/* path: the file, borrowed. It is first read by account_names_look(). Returns NULL without memory.
 */
struct account_names *account_names_create(const char *path) __attribute__((warn_unused_result));
/* NULL is allowed. */
void account_names_destroy(struct account_names *names);
/* Reads the file if it has changed since the last call. If it cannot be read, nobody has a name. */
void account_names_look(struct account_names *names);
/* Returns the name of the user, as of the last account_names_look(). NULL: it has none, or `names`
 * is NULL. Of two users with one number, the first in the file counts. */
const char *account_names_find(const struct account_names *names, int64_t uid);

#endif
