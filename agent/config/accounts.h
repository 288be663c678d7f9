/*
 * Finds out which users and groups the names in the configuration mean.
 *
 * A name is looked up through the host's name services (nsswitch.conf). These may ask a directory
 * in the network, so a lookup may take long, or fail now and succeed later. The agent does not wait
 * for it. Until a name is found, nobody has rights by that name.
 *
 * The modules of the name services run in the process that asks, and make system calls that nobody
 * can list. So a process beside the agent (io/beside.h), `holdfastd-names`, looks the names up. It
 * has no filter of system calls; the agent, which talks to strangers, keeps its own filter. The
 * process knows the names because it is a fork of the agent. The agent can only tell the process to
 * look names up, and the process answers with numbers. It ends when all names are found, or with
 * the agent. A hostile name service may take the process over, so the agent checks each answer.
 *
 * The process reads /etc/passwd and /etc/group first, for all names. Then it asks the name services
 * for the remaining names, one by one. If a lookup hangs, only names that are not in the files stay
 * unknown.
 *
 * The functions are for one thread.
 */
#ifndef AGENT_CONFIG_ACCOUNTS_H
#define AGENT_CONFIG_ACCOUNTS_H

#include "config/config.h"

/* Looks a user or group up. Returns false if the name does not exist, or if no name service answers
 * now. May block. */
typedef bool accounts_lookup_fn(const char *name, bool is_group, uint32_t *id);

/* The lookup of this host. If nobody has the name, and the name is a number, it means the user or
 * group with that number. */
accounts_lookup_fn accounts_of_host;

/* Looks up every name that was not found before, in the calling process. May block. */
void accounts_find_here(struct config *config, accounts_lookup_fn *lookup);

struct accounts;

/* Starts the process, which begins to look names up at once. folder: where the files passwd and
 * group are; borrowed. arguments: as in beside_start(). On failure returns NULL with errno. */
struct accounts *accounts_open(const struct config *config, const char *folder,
                               accounts_lookup_fn *lookup, char **arguments)
    __attribute__((warn_unused_result));

/* Returns a descriptor that is readable when accounts_take() has something to read. */
int accounts_fd(const struct accounts *accounts);

/* Tells the process to look again for the names that were not found. Does nothing while the process
 * is looking. */
void accounts_ask(struct accounts *accounts);

/* Enters the answers that have arrived into the configuration, and calls found() for each name
 * found. Does not block. Takes at most ACCOUNTS_TAKE_MAX answers; if there are more, accounts_fd()
 * stays readable. */
enum { ACCOUNTS_TAKE_MAX = 64 };
typedef void accounts_found_fn(void *arg, const struct config_account *account);
void accounts_take(struct accounts *accounts, struct config *config, accounts_found_fn *found,
                   void *arg);

/* Waits for at most timeout_ms until the process has looked every name up once. Enters its answers
 * into the configuration. */
void accounts_wait(struct accounts *accounts, struct config *config, int timeout_ms);

/* Returns how long a start waits for the process: at most 2 s, and at most a quarter of
 * session_ttl, so that a restart costs no hold if a name service hangs. */
int accounts_patience_ms(int64_t session_ttl_ns);

/* Returns whether the process has ended without accounts_close() (it was killed), or gave a wrong
 * answer. */
bool accounts_ended(const struct accounts *accounts);
/* Returns whether the process gave a wrong answer. The agent ignores that answer and all later
 * ones. */
bool accounts_wrong(const struct accounts *accounts);

/* Makes the process end. NULL is allowed. */
void accounts_close(struct accounts *accounts);

#endif
