/*
 * The agent's configuration: one INI file, or the values that --dev implies.
 *
 * Everything that depends on the file alone is checked before the agent does anything: sections,
 * keys, values. An error is one line, "FILE:LINE: [section] key: found X, expected Y".
 * docs/CONFIG.md has every key. Which users and groups the file's names mean depends on the host
 * and may change, so accounts.h looks them up.
 */
#ifndef AGENT_CONFIG_H
#define AGENT_CONFIG_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/profile.h"
#include "core/host.h"
#include "proto/message.h"
#include "proto/region.h"

enum { CONFIG_ERROR_MAX = 1024, CONFIG_IDS_MAX = 64, CONFIG_SOCKET_MAX = 108 };

/* A list of users or groups. */
struct config_ids {
    uint32_t count;
    uint32_t ids[CONFIG_IDS_MAX];
};

/* The numbers of the users, groups and admins that one section of the file names. Names that were
 * not found yet have no number here. */
struct config_access {
    struct config_ids users;
    struct config_ids groups;
    struct config_ids admin_users;
    struct config_ids admin_groups;
    bool limited; /* the section has users or groups */
};

enum config_list { CONFIG_USERS, CONFIG_GROUPS, CONFIG_ADMINS };

enum { CONFIG_EVERYWHERE = HOST_NAMESPACES_MAX };

/* A name in one of the lists of enum config_list. Until it is found, nobody has rights by that
 * name. */
struct config_account {
    char *name;     /* in the list CONFIG_ADMINS it may begin with @ */
    uint32_t space; /* the index of its namespace; CONFIG_EVERYWHERE: the name is in [agent] */
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

/* What the status page shows of the locks to everybody that can connect. */
enum config_show {
    CONFIG_SHOW_FIGURES = 0, /* counts only */
    CONFIG_SHOW_LOCKS,       /* also the names of locks, with the hosts that hold or await them */
    CONFIG_SHOW_HOLDERS,     /* also the process, the user and the command of each holder */
};

struct config {
    bool dev;
    bool observer;
    bool seccomp;   /* whether a filter of system calls is to be installed */
    bool log_debug; /* whether the log has the lines of level debug */
    char agent[HFI_LABEL_MAX + 1];
    char cell[HFI_LABEL_MAX + 1];
    char state_dir[PATH_MAX];
    char socket[CONFIG_SOCKET_MAX];
    char listen[MESSAGE_ADDRESS_MAX];    /* "": this agent has no connections to others */
    char advertise[MESSAGE_ADDRESS_MAX]; /* "": the same as listen */
    bool insecure;                       /* the file allows an address beyond the loopback without
                                          * TLS */
    /* [voters]: a cell begins with these voters, and an agent asks them first. The file lists 1, 3,
     * 5 or 7 of them, or any number if the agent has a store already or starts over. The record of
     * voters says who votes (run/record.h). */
    uint32_t voter_count;
    struct config_voter voters[MESSAGE_VOTERS_MAX]; /* sorted by name; address "": the file has no
                                                     * [voters] */
    char tls_ca[PATH_MAX];                          /* all three paths are given, or all three are
                                                     * "" */
    char tls_cert[PATH_MAX];
    char tls_key[PATH_MAX];
    char http_listen[MESSAGE_ADDRESS_MAX]; /* "": no HTTP */
    bool http_public;                      /* the file allows an http_listen beyond the loopback */
    enum config_show http_show;
    char
        http_advertise[MESSAGE_ADDRESS_MAX]; /* the URL of the status page; "": see config_page() */
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent;
    uint32_t protocol; /* the newest version of the wire protocol that this agent uses */
    const struct profile *profile;   /* the sizes of the tables that have no keys */
    struct host_limits limits;       /* before config_finish_limits(), 0 means that the file lacks
                                      * the key */
    char subuids[PATH_MAX];          /* a file in the format of /etc/subuid: io/subids.h */
    struct config_access everywhere; /* the rights in [agent] */
    uint32_t namespace_count;        /* namespaces[0] is "default" */
    struct config_namespace namespaces[HOST_NAMESPACES_MAX];
    uint32_t account_count;
    struct config_account *accounts; /* owned; config_free() frees them */
    bool awaits_accounts;            /* some accounts were not found when the agent started */
};

/* CONFIG_WRONG: a person has to mend the file, or to write it. CONFIG_UNREADABLE: the system lacks
 * something that it may have later. */
enum config_result { CONFIG_OK = 0, CONFIG_WRONG, CONFIG_UNREADABLE };

/* Sets the defaults: a configuration without a name, a cell or voters. */
void config_defaults(struct config *config);
/* Completes the list of voters once the agent's name is known. Without [voters] the agent is the
 * only voter. Sorts the voters by name. */
void config_finish_voters(struct config *config);

/* Returns why the agent cannot begin with these voters, or NULL (a static string). config_read()
 * checks that itself if the agent has no store yet. In a cell that has begun, the store says which
 * agents vote. An observer begins no cell, so it may list any number of voters. So may a voter that
 * starts over (rejoins). */
const char *config_voters_error(const struct config *config, bool rejoins);
/* Returns the text of config_voters_error() if the agent has a store, else NULL. It is only a
 * warning: an agent with a store starts all the same. */
const char *config_voters_warning(const struct config *config);

/* Takes the limits that are still 0 from the profile. */
void config_finish_limits(struct config *config);

/* Returns which parts this agent was built without: "" (it has all), or such as "TLS, HTTP". */
const char *config_built_without(void);

/* Reads and checks the file. rejoins: the program only lets a voter start over, which may have lost
 * its store. On failure writes one line to error (CONFIG_ERROR_MAX bytes). */
enum config_result config_read(struct config *config, const char *path, bool rejoins, char *error)
    __attribute__((warn_unused_result));

/* Frees what config_read() allocated. */
void config_free(struct config *config);

/* Enters the number of the user or group that an account's name means. account: its index. */
void config_found(struct config *config, uint32_t account, bool is_group, uint32_t id);
/* Returns the number of names that are not found yet. */
uint32_t config_unknown_count(const struct config *config);
/* Writes the section and the key of an account, such as "[namespace.orders] users". out:
 * CONFIG_LOCATION_MAX bytes. Returns out. */
enum { CONFIG_LOCATION_MAX = 64 };
const char *config_location(const struct config *config, const struct config_account *account,
                            char *out);

/* Makes the configuration of --dev: a cell of one host. If state_dir is NULL, an environment
 * variable names the folder. profile: its name; NULL: standard. */
enum config_result config_dev(struct config *config, const char *state_dir, const char *profile,
                              char *error) __attribute__((warn_unused_result));

/* Returns whether the scheme of an address (SCHEME://HOST:PORT) is one with TLS. */
bool config_is_tls(const char *address);
/* Returns whether the host is a wildcard such as 0.0.0.0. An agent can listen on a wildcard, but no
 * agent can dial it. */
bool config_is_anywhere(const char *address);
/* Returns whether the two texts mean the same address, however each is written. Does not look names
 * up. */
bool config_is_same(const char *one, const char *other);
/* Returns whether the address is on the loopback, so that only processes of this host can
 * connect. */
bool config_is_local(const char *address);

/* Returns whether other status pages may link to this URL: http:// or https://, a host, and a path
 * of plain characters. */
bool config_is_page(const char *url);
/* Writes to out the URL under which other hosts can reach this agent's status page; "" if the
 * configuration gives none. */
void config_page(const struct config *config, char out[MESSAGE_ADDRESS_MAX]);

/* The user that connects. groups: its primary and supplementary groups; borrowed. */
struct config_user {
    uid_t uid;
    const gid_t *groups;
    size_t group_count;
};

/* Returns the HOST_MAY_... bits of a user in the namespace with the index `space`. own: the agent's
 * own user. */
uint8_t config_rights(const struct config *config, uint32_t space, uid_t own,
                      const struct config_user *user);

/* Returns whether users other than own and root may use any namespace, now or once a name is
 * found. */
bool config_admits_others(const struct config *config, uid_t own);

#endif
