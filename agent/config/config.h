/*
 * The agent's configuration: one INI file, or what --dev implies.
 *
 * Everything is checked before anything is done: sections, keys, values, users, groups. An error is
 * one line, "FILE:LINE: [section] key: found X, expected Y". docs/CONFIG.md has every key.
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

struct config_access {
    struct config_ids users;
    struct config_ids groups;
    struct config_ids admin_users;
    struct config_ids admin_groups;
    bool limited; /* users or groups were given */
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
    bool seccomp; /* a filter of system calls */
    char agent[HFI_LABEL_MAX + 1];
    char cell[HFI_LABEL_MAX + 1];
    char state_dir[PATH_MAX];
    char socket[CONFIG_SOCKET_MAX];
    char listen[MESSAGE_ADDRESS_MAX];    /* "": this agent talks to no other */
    char advertise[MESSAGE_ADDRESS_MAX]; /* "" with it */
    bool insecure;                       /* it may listen without TLS beyond the loopback */
    uint32_t voter_count;                /* 1, 3, 5 or 7 */
    struct config_voter voters[MESSAGE_VOTERS_MAX]; /* by ascending names; address "": none */
    char tls_ca[PATH_MAX];                          /* all three or none: "" */
    char tls_cert[PATH_MAX];
    char tls_key[PATH_MAX];
    char http_listen[MESSAGE_ADDRESS_MAX]; /* "": nobody is answered by HTTP */
    bool http_public;                      /* also on an address that others reach */
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent;
    uint32_t protocol; /* the newest version of the messages between agents that is spoken */
    struct host_limits limits;
    char subuids[PATH_MAX];          /* whose numbers of users are one user's: io/subids.h */
    struct config_access everywhere; /* of [agent] */
    uint32_t namespace_count;        /* [0] is "default" */
    struct config_namespace namespaces[HOST_NAMESPACES_MAX];
};

enum config_result { CONFIG_OK = 0, CONFIG_WRONG, CONFIG_UNREADABLE };

/* The defaults: a configuration without a name, a cell and voters. */
void config_defaults(struct config *config);
/* Once the agent has its name: itself is the only voter if none is named; voters by name. */
void config_finish_voters(struct config *config);

/* Reads the file. Else error (CONFIG_ERROR_MAX bytes) is one line. */
enum config_result config_read(struct config *config, const char *path, char *error)
    __attribute__((warn_unused_result));

/* The one-host cell of --dev. state_dir may be NULL: then the environment says where. */
enum config_result config_dev(struct config *config, const char *state_dir, char *error)
    __attribute__((warn_unused_result));

/* The kind of an address (SCHEME://HOST:PORT, as read). */
bool config_is_tls(const char *address);
/* tcp://0.0.0.0:7411 is where one listens, not where one is reached. */
bool config_is_anywhere(const char *address);
/* Whether they name one place, in whatever way they are written. Names are not looked up. */
bool config_is_same(const char *one, const char *other);
/* Only processes of this host can connect there. */
bool config_is_local(const char *address);

/* The user that asks. groups: primary and supplementary. */
struct config_user {
    uid_t uid;
    const gid_t *groups;
    size_t group_count;
};

/* HOST_MAY_... in the namespace of that index. own: the agent's own user. */
uint8_t config_rights(const struct config *config, uint32_t space, uid_t own,
                      const struct config_user *user);

/* Whether users other than own and root may use any namespace. */
bool config_admits_others(const struct config *config, uid_t own);

#endif
