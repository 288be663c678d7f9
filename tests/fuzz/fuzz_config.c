/*
 * The input is a configuration file. The reader refuses the file with an error of one line, or
 * every value in it is within bounds.
 */
#include "config/config.h"
#include "fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/quorum.h"
#include "proto/check.h"

enum { CONFIG_BYTES_MAX = 4096 };

static const char *const samples[] = {
    "[agent]\nname = host-a\ncell = prod\nrole = voter\nstate_dir = /var/lib/holdfast\n"
    "socket = /run/holdfast/agent.sock\n[cell]\nlisten = tcp://127.0.0.1:7411\n"
    "advertise = tcp://10.0.0.1:7411\nsession_ttl = 5s\ngrace_period = 5s\nmax_drift = 10%\n"
    "[voters]\nhost-a = tcp://10.0.0.1:7411\nhost-b = tcp://10.0.0.2:7411\n"
    "host-c = tcp://10.0.0.3:7411\n",
    "[agent]\nname = x\ncell = c\nrole = observer\nstate_dir = /s\nsocket = /s/sock\n"
    "users = root, daemon\n[cell]\nlisten = tls+tcp://[::1]:7411\n[voters]\n"
    "a = tls+tcp://a.example:1\n[tls]\nca = /etc/ca.pem\ncert = /etc/cert.pem\n"
    "key = /etc/key.pem\n[limits]\nlocks = 100\nclients = 10\nhandles = 1000\nblocks = 10\n"
    "watches = 3\n",
    "; a comment\n[agent]\nname = h ; behind it\ncell = c\nstate_dir = /s\nsocket = /s/k\n"
    "admins = 0\n[voters]\nh =\n[namespace.orders]\nusers = root\ngroups = root\nadmins = root\n"
    "[namespace.default]\nusers = daemon\n[http]\nlisten = http://127.0.0.1:7412\n",
};

static size_t config_seed(size_t index, uint8_t *bytes, size_t size)
{
    if (index >= sizeof(samples) / sizeof(samples[0]) || strlen(samples[index]) > size) {
        return 0;
    }
    memcpy(bytes, samples[index], strlen(samples[index]));
    return strlen(samples[index]);
}

static void check_ids(const struct config_access *access)
{
    HF_CHECK(access->users.count <= CONFIG_IDS_MAX && access->groups.count <= CONFIG_IDS_MAX);
    HF_CHECK(access->admin_users.count <= CONFIG_IDS_MAX);
    HF_CHECK(access->admin_groups.count <= CONFIG_IDS_MAX);
}

/* Checks that the cores accept the values of the configuration. */
static void check_accepted(const struct config *config)
{
    static struct quorum_config quorum;
    static const gid_t groups[] = {0, 1};
    const struct config_user user = {1, groups, 2};
    memset(&quorum, 0, sizeof(quorum));
    quorum.limits = (struct quorum_limits){100, 100, 100, 100};
    quorum.voter_count = config->voter_count;
    quorum.session_ttl_ns = config->session_ttl_ns;
    quorum.grace_ns = config->grace_ns;
    quorum.max_drift_percent = config->max_drift_percent;
    bool listed = false;
    HF_CHECK(config->voter_count <= MESSAGE_VOTERS_MAX);
    for (uint32_t i = 0; i < config->voter_count; i++) {
        size_t length = strnlen(config->voters[i].name, sizeof(config->voters[i].name));
        HF_CHECK(hfi_label_check(config->voters[i].name, length));
        message_agent_set(&quorum.voters[i], config->voters[i].name, length);
        listed = listed || strcmp(config->voters[i].name, config->agent) == 0;
        HF_CHECK(memchr(config->voters[i].address, 0, MESSAGE_ADDRESS_MAX) != NULL);
    }
    HF_CHECK(quorum_config_error(&quorum) == NULL && listed == !config->observer);
    HF_CHECK(hfi_label_check(config->agent, strlen(config->agent)));
    HF_CHECK(hfi_label_check(config->cell, strlen(config->cell)));
    HF_CHECK(config->grace_ns >= 0 && config->limits.locks >= 1 && config->limits.clients >= 1);
    HF_CHECK(config->state_dir[0] == '/' && config->socket[0] == '/');
    HF_CHECK((config->tls_ca[0] == 0) == (config->tls_key[0] == 0));
    HF_CHECK(config->namespace_count >= 1 && config->namespace_count <= HOST_NAMESPACES_MAX);
    check_ids(&config->everywhere);
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        check_ids(&config->namespaces[i].access);
        HF_CHECK(config_rights(config, i, 2, &user) <= (HOST_MAY_USE | HOST_MAY_ADMIN));
    }
}

/* Gives each user and group that the configuration names a numeric id, and checks that the lists in
 * *config have room for all of them. */
static void check_found(struct config *config)
{
    for (uint32_t i = 0; i < config->account_count; i++) {
        char location[CONFIG_LOCATION_MAX];
        HF_CHECK(strlen(config_location(config, &config->accounts[i], location)) > 0);
        config_found(config, i, (i & 1) != 0, i);
    }
    HF_CHECK(config_unknown_count(config) == 0);
    check_accepted(config);
}

static void config_entry(const uint8_t *bytes, size_t size)
{
    static struct config config;
    static int fd = -1;
    char path[64];
    char error[CONFIG_ERROR_MAX];
    if (fd < 0) {
        fd = memfd_create("config", MFD_CLOEXEC);
        HF_CHECK(fd >= 0);
    }
    HF_CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    memset(error, 'x', sizeof(error));
    enum config_result result = config_read(&config, path, false, error);
    const char *end = memchr(error, 0, sizeof(error));
    HF_CHECK(end != NULL && result != CONFIG_UNREADABLE);
    HF_CHECK((result == CONFIG_OK) == (error[0] == 0));
    for (const char *at = error; at < end; at++) { /* the error is one line, and has no control
                                                    * characters for a terminal */
        HF_CHECK((unsigned char)*at >= 0x20 && *at != 0x7f);
    }
    if (result == CONFIG_OK) {
        check_accepted(&config);
        check_found(&config);
    }
    config_free(&config);
}

const struct fuzz_target fuzz_target = {"config", config_entry, config_seed, CONFIG_BYTES_MAX};
