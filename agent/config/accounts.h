/*
 * Which users and groups the names in the configuration mean.
 *
 * A name is looked up through the host's name services (nsswitch.conf). These may ask a directory
 * in the network: a lookup may take long, or fail now and succeed later. So the agent does not wait
 * for it, and goes on while a name is not found; nobody has rights by that name meanwhile.
 *
 * The modules of the name services run in the process that asks, and make system calls that nobody
 * can list. So a process beside the agent (io/beside.h), `holdfastd-names`, asks. It has no filter
 * of system calls; the agent, which talks to strangers, keeps its own. The process knows the names
 * because it is a fork of the agent. The agent can only tell it to look, and it answers with
 * numbers. It ends when all names are found, or with the agent. A name service may have taken it
 * over, so the agent checks each answer.
 *
 * It reads /etc/passwd and /etc/group first, for all names. Then it asks the name services for the
 * others, one by one. If a lookup hangs there, only names that are not in the files stay unknown.
 *
 * The functions are for one thread.
 */
#ifndef AGENT_CONFIG_ACCOUNTS_H
#define AGENT_CONFIG_ACCOUNTS_H

#include "config/config.h"

/* Looks a user or group up. Returns false if there is none of that name, or nobody can tell now.
 * May block. */
typedef bool accounts_lookup_fn(const char *name, bool is_group, uint32_t *id);

/* The lookup of this host. A number that is no name means the user or group of that number. */
accounts_lookup_fn accounts_of_host;

/* Looks up every name that is not found, here. May block. */
void accounts_find_here(struct config *config, accounts_lookup_fn *lookup);

struct accounts;

/* Starts the process, which begins to look at once. folder: where the files passwd and group are;
 * it stays the caller's. arguments: as in beside_start(). On failure returns NULL with errno. */
struct accounts *accounts_open(const struct config *config, const char *folder,
                               accounts_lookup_fn *lookup, char **arguments)
    __attribute__((warn_unused_result));

/* Returns a descriptor that is readable when there is something for accounts_take(). */
int accounts_fd(const struct accounts *accounts);

/* Has the process look again for what is not found. Does nothing while it still looks. */
void accounts_ask(struct accounts *accounts);

/* Enters what was found into the configuration, and calls found() for each name. Does not block.
 * Takes at most ACCOUNTS_TAKE_MAX answers; if there are more, accounts_fd() stays readable. */
enum { ACCOUNTS_TAKE_MAX = 64 };
typedef void accounts_found_fn(void *arg, const struct config_account *account);
void accounts_take(struct accounts *accounts, struct config *config, accounts_found_fn *found,
                   void *arg);

/* Enters what the process finds until it has looked once for every name, for at most timeout_ms. */
void accounts_wait(struct accounts *accounts, struct config *config, int timeout_ms);

/* How long a start waits for the process: at most 2 s, and at most a quarter of the lease, so that
 * a restart costs no hold although a name service hangs. */
int accounts_patience_ms(int64_t session_ttl_ns);

/* Returns whether the process ended by itself (was killed), or gave a wrong answer. */
bool accounts_ended(const struct accounts *accounts);
/* Returns whether it gave a wrong answer. That answer and all later ones were ignored. */
bool accounts_wrong(const struct accounts *accounts);

/* Makes the process end. NULL is allowed. */
void accounts_close(struct accounts *accounts);

#endif
