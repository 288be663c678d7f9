/*
 * The agent's configuration: one INI file, or what --dev implies.
 *
 * Everything that the file alone decides is checked before anything is done: sections, keys,
 * values. An error is one line, "FILE:LINE: [section] key: found X, expected Y". docs/CONFIG.md has
 * every key. Which users and groups the names in it mean depends on the host, and may change:
 * accounts.h looks them up.
 */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/host.h"
#include "proto/message.h"
#include "proto/region.h"

enum { CONFIG_ERROR_MAX = 1024, CONFIG_IDS_MAX = 64, CONFIG_SOCKET_MAX = 108 };

/* A list of users or groups. */
struct config_ids {
    uint32_t count;
    uint32_t ids[CONFIG_IDS_MAX];
};

/* The numbers of the users, groups and admins in the file, as far as their names are known. */
struct config_access {
    struct config_ids users;
    struct config_ids groups;
    struct config_ids admin_users;
    struct config_ids admin_groups;
    bool limited; /* users or groups were given */
};

enum config_list { CONFIG_USERS, CONFIG_GROUPS, CONFIG_ADMINS };

enum { CONFIG_EVERYWHERE = HOST_NAMESPACES_MAX };

/* A name in one of these lists. While it is not found nobody has rights by it. */
struct config_account {
    char *name;     /* of an admin: it may begin with @ */
    uint32_t space; /* the index of its namespace; CONFIG_EVERYWHERE: it stands in [agent] */
    enum config_list list;
    bool found;
};

struct config_namespace {
    char name[HFI_LABEL_MAX + 1];
    struct config_access access;
};

struct config_voter {
    char name[HFI_LABEL_MAX + 1];
    char address[MESSAGE_ADDRESS_MAX];
};

struct config {
    bool dev;
    bool observer;
    bool seccomp; /* whether a filter of system calls is to be installed */
    char agent[HFI_LABEL_MAX + 1];
    char cell[HFI_LABEL_MAX + 1];
    char state_dir[PATH_MAX];
    char socket[CONFIG_SOCKET_MAX];
    char listen[MESSAGE_ADDRESS_MAX];    /* "": this agent has no connections to others */
    char advertise[MESSAGE_ADDRESS_MAX]; /* "": the same as listen */
    bool insecure;                       /* this agent may listen without TLS beyond the loopback */
    uint32_t voter_count;                /* 1, 3, 5 or 7 */
    struct config_voter voters[MESSAGE_VOTERS_MAX]; /* sorted by name; address "": none was given */
    char tls_ca[PATH_MAX];                          /* all three are given, or all are "" */
    char tls_cert[PATH_MAX];
    char tls_key[PATH_MAX];
    char http_listen[MESSAGE_ADDRESS_MAX]; /* "": no HTTP */
    bool http_public;                      /* http_listen may be an address beyond the loopback */
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent;
    uint32_t protocol; /* the newest version of the wire protocol that this agent uses */
    struct host_limits limits;
    char subuids[PATH_MAX];          /* a file in the format of /etc/subuid: io/subids.h */
    struct config_access everywhere; /* the rights in [agent] */
    uint32_t namespace_count;        /* [0] is "default" */
    struct config_namespace namespaces[HOST_NAMESPACES_MAX];
    uint32_t account_count;
    struct config_account *accounts; /* config_free() frees them */
    bool awaits_accounts;            /* some accounts were not found at the start */
};

/* CONFIG_WRONG: an editor has to mend the file, or to write it. CONFIG_UNREADABLE: the system lacks
 * something, and may have it later. */
enum config_result { CONFIG_OK = 0, CONFIG_WRONG, CONFIG_UNREADABLE };

/* The defaults: a configuration without a name, a cell and voters. */
void config_defaults(struct config *config);
/* Completes the list of voters once the agent's name is known. Without [voters] the agent is the
 * only voter. Sorts the voters by name. */
void config_finish_voters(struct config *config);

/* Reads and checks the file. On failure error (CONFIG_ERROR_MAX bytes) holds one line. */
enum config_result config_read(struct config *config, const char *path, char *error)
    __attribute__((warn_unused_result));

/* Frees what config_read() allocated. */
void config_free(struct config *config);

/* Enters the user or group that a name means. */
void config_found(struct config *config, uint32_t account, bool is_group, uint32_t id);
/* The number of names that are not found. */
uint32_t config_unknown_count(const struct config *config);
/* The section and the key of a name, as in "[namespace.orders] users". out: CONFIG_PLACE_MAX
 * bytes. */
enum { CONFIG_PLACE_MAX = 64 };
const char *config_place(const struct config *config, const struct config_account *account,
                         char *out);

/* The cell of one host for --dev. If state_dir is NULL, the environment names the folder. */
enum config_result config_dev(struct config *config, const char *state_dir, char *error)
    __attribute__((warn_unused_result));

/* Returns whether the scheme of an address (SCHEME://HOST:PORT) is one with TLS. */
bool config_is_tls(const char *address);
/* Returns whether the host is a wildcard such as 0.0.0.0: an agent can listen there, and none can
 * dial it. */
bool config_is_anywhere(const char *address);
/* Returns whether both texts are the same address, however it is written. Names are not looked up.
 */
bool config_is_same(const char *one, const char *other);
/* Returns whether the address is of the loopback, so that only processes of this host can connect.
 */
bool config_is_local(const char *address);

/* The user that connects. groups: the primary and the supplementary ones; the caller keeps them. */
struct config_user {
    uid_t uid;
    const gid_t *groups;
    size_t group_count;
};

/* The HOST_MAY_... bits of a user in the namespace of index space. own: the agent's own user. */
uint8_t config_rights(const struct config *config, uint32_t space, uid_t own,
                      const struct config_user *user);

/* Returns whether users other than own and root may use any namespace, or may as soon as a name is
 * found. */
bool config_admits_others(const struct config *config, uid_t own);

#endif
