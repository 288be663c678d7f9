/* Users and groups by name: see config/accounts.h. */
#include "config/accounts.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/beside.h"
#include "io/clock.h"

/* A message of the process holdfastd-names (accounts.h) to the agent: either the number of one
 * account, or LOOKED, which means that the process has looked up all accounts. */
struct account_answer {
    uint32_t account; /* the index in config->accounts; LOOKED: all names were looked up */
    uint32_t is_group;
    uint32_t id;
};

enum { LOOKED = UINT32_MAX };

/* ---- looking up ---- */

static bool read_number(const char *text, uint32_t *out)
{
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > UINT32_MAX - 1) { /* UINT32_MAX is no valid number: setuid() and chown() read it
                                       * as -1 */
            return false;
        }
    }
    *out = (uint32_t)value;
    return at != text && *at == '\0';
}

bool accounts_of_host(const char *name, bool is_group, uint32_t *id)
{
    const struct passwd *user = is_group ? NULL : getpwnam(name);
    const struct group *group = is_group ? getgrnam(name) : NULL;
    if (user != NULL || group != NULL) {
        *id = user != NULL ? user->pw_uid : group->gr_gid;
        return true;
    }
    return read_number(name, id);
}

/* Looks one account up. An admin may be a user or a group; if a user and a group have the name, the
 * name means the user. A name with @ is always a group. */
static bool find(const struct config_account *account, accounts_lookup_fn *lookup,
                 struct account_answer *out)
{
    bool admin = account->list == CONFIG_ADMINS;
    bool marked = admin && account->name[0] == '@';
    *out = (struct account_answer){.is_group = account->list == CONFIG_GROUPS || marked};
    if (lookup(account->name + marked, out->is_group, &out->id)) {
        return true;
    }
    if (!admin || marked) {
        return false;
    }
    out->is_group = true;
    return lookup(account->name, true, &out->id);
}

void accounts_find_here(struct config *config, accounts_lookup_fn *lookup)
{
    struct account_answer answer;
    for (uint32_t i = 0; i < config->account_count; i++) {
        if (!config->accounts[i].found && find(&config->accounts[i], lookup, &answer)) {
            config_found(config, i, answer.is_group, answer.id);
        }
    }
}

/* ---- the process ---- */

/* Set before the fork, so that the process inherits these values. */
static struct {
    const struct config *config;
    const char *folder;
    accounts_lookup_fn *lookup;
    bool *sent; /* for each account: the answer was sent to the agent */
} own;

/* Waits until the socket has room, because each answer has to arrive: without LOOKED the agent
 * would never ask again. send() fails when the agent ends or shuts the socket down. */
static void send_answer(const struct account_answer *answer)
{
    if (send(BESIDE_FD, answer, sizeof(*answer), MSG_NOSIGNAL) != (ssize_t)sizeof(*answer)) {
        _exit(0);
    }
}

static void send_id(uint32_t account, bool is_group, uint32_t id)
{
    const struct account_answer answer = {.account = account, .is_group = is_group, .id = id};
    send_answer(&answer);
    own.sent[account] = true;
}

/* Sends the agent the number of an entry of passwd or group, if an account has the entry's name. */
static void send_entry(const char *name, bool is_group, uint32_t id)
{
    for (uint32_t i = 0; i < own.config->account_count; i++) {
        const struct config_account *account = &own.config->accounts[i];
        bool marked = account->list == CONFIG_ADMINS && account->name[0] == '@';
        bool wants_group = account->list == CONFIG_GROUPS || marked;
        if (!own.sent[i] && wants_group == is_group && strcmp(account->name + marked, name) == 0) {
            send_id(i, is_group, id);
        }
    }
}

static FILE *open_file(const char *name)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof(path), "%s/%s", own.folder, name);
    return size < (int)sizeof(path) ? fopen(path, "re") : NULL;
}

/* Returns whether the entry is a user or a group. An entry that begins with + or - includes other
 * entries instead (nsswitch.conf(5), "compat"). */
static bool is_entry(const char *name)
{
    return name[0] != '+' && name[0] != '-';
}

/*
 * Looks all names up in the files passwd and group, before a name service is asked for any of them.
 * So all names in this host's files are found even if a name service hangs for another name. Each
 * file is read once for all names, which is cheap.
 *
 * An admin without @ is found here only as a user, never as a group: a name service may know a user
 * of that name, and the name means the user if there is one.
 *
 * If nsswitch.conf lists another service before `files`, and that service has another number for
 * the same name, the agent uses the number in the file. Nearly every host lists `files` first.
 */
static void look_at_files(void)
{
    const struct passwd *user;
    const struct group *group;
    FILE *users = open_file("passwd");
    while (users != NULL && (user = fgetpwent(users)) != NULL) { /* one iteration per line of the
                                                                  * file */
        if (is_entry(user->pw_name)) {
            send_entry(user->pw_name, false, user->pw_uid);
        }
    }
    FILE *groups = open_file("group");
    while (groups != NULL && (group = fgetgrent(groups)) != NULL) {
        if (is_entry(group->gr_name)) {
            send_entry(group->gr_name, true, group->gr_gid);
        }
    }
    if (users != NULL) {
        fclose(users);
    }
    if (groups != NULL) {
        fclose(groups);
    }
}

static void look(void)
{
    const struct account_answer looked = {.account = LOOKED};
    struct account_answer answer;
    look_at_files();
    for (uint32_t i = 0; i < own.config->account_count; i++) {
        if (!own.sent[i] && find(&own.config->accounts[i], own.lookup, &answer)) {
            send_id(i, answer.is_group, answer.id);
        }
    }
    send_answer(&looked);
}

__attribute__((noreturn)) static void serve(void)
{
    for (;;) {
        char order;
        int fds[BESIDE_FDS];
        (void)!beside_wait(true, false);
        ssize_t size = beside_receive(BESIDE_FD, &order, sizeof(order), fds);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
            _exit(0);
        }
        if (size > 0) {
            look();
        }
    }
}

/* PR_SET_PDEATHSIG ends the process with the agent, even if a lookup blocks. */
static bool prepare(void)
{
    own.sent = calloc(own.config->account_count, sizeof(*own.sent));
    return own.sent != NULL && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

static bool no_filter(void)
{
    return true;
}

/* ---- the agent's side ---- */

struct accounts {
    int fd;
    bool looks;
    bool ended; /* no more answers are received */
    bool wrong;
};

struct accounts *accounts_open(const struct config *config, const char *folder,
                               accounts_lookup_fn *lookup, char **arguments)
{
    static const struct beside process = {
        .name = "holdfastd-names", .prepare = prepare, .filter = no_filter, .serve = serve};
    struct accounts *accounts = calloc(1, sizeof(*accounts));
    own.config = config;
    own.folder = folder;
    own.lookup = lookup;
    int fd = accounts != NULL ? beside_start(&process, arguments) : -1;
    if (fd < 0) {
        free(accounts);
        return NULL;
    }
    accounts->fd = fd;
    accounts_ask(accounts);
    return accounts;
}

int accounts_fd(const struct accounts *accounts)
{
    return accounts->fd;
}

void accounts_ask(struct accounts *accounts)
{
    if (!accounts->looks && !accounts->ended) {
        accounts->looks = beside_send(accounts->fd, "", 1, NULL, 0);
        accounts->ended = !accounts->looks && errno == EPIPE;
    }
}

/* Returns whether an honest process can have given this answer. It answers each name once, and
 * sends LOOKED once each time the agent has asked it to look. The process has no filter of system
 * calls, so it may have been taken over, and the agent checks its answers like those of a
 * stranger. */
static bool is_right(const struct accounts *accounts, const struct config *config,
                     const struct account_answer *answer)
{
    if (answer->account == LOOKED) {
        return accounts->looks;
    }
    return answer->account < config->account_count && !config->accounts[answer->account].found &&
           answer->is_group <= 1 && answer->id != UINT32_MAX;
}

/* After one wrong answer the agent reads no further answers, so that the process cannot keep it
 * busy. After shutdown() an honest process ends, and accounts_fd() is readable. */
static void refuse(struct accounts *accounts)
{
    accounts->ended = accounts->wrong = true;
    (void)shutdown(accounts->fd, SHUT_RDWR);
}

void accounts_take(struct accounts *accounts, struct config *config, accounts_found_fn *found,
                   void *arg)
{
    struct account_answer answer;
    for (unsigned i = 0; i < ACCOUNTS_TAKE_MAX && !accounts->ended; i++) {
        /* recv() has no room for descriptors: the kernel closes any that came with the answer. */
        ssize_t size = recv(accounts->fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_TRUNC);
        if (size <= 0) {
            accounts->ended = size == 0 || errno == ECONNRESET;
            return;
        }
        if (size != (ssize_t)sizeof(answer) || !is_right(accounts, config, &answer)) {
            refuse(accounts);
        } else if (answer.account == LOOKED) {
            accounts->looks = false;
        } else {
            config_found(config, answer.account, answer.is_group != 0, answer.id);
            if (found != NULL) {
                found(arg, &config->accounts[answer.account]);
            }
        }
    }
}

int accounts_patience_ms(int64_t session_ttl_ns)
{
    const int64_t most_ms = 2000;
    int64_t part_ms = session_ttl_ns / 4 / 1000000;
    return (int)(part_ms < most_ms ? part_ms : most_ms);
}

void accounts_wait(struct accounts *accounts, struct config *config, int timeout_ms)
{
    int64_t end_ns = clock_boottime_ns() + timeout_ms * INT64_C(1000000);
    accounts_take(accounts, config, NULL, NULL);
    while (accounts->looks && !accounts->ended && clock_boottime_ns() < end_ns) {
        struct pollfd pollfd = {.fd = accounts->fd, .events = POLLIN};
        int left_ms = (int)((end_ns - clock_boottime_ns()) / 1000000);
        (void)!poll(&pollfd, 1, left_ms > 0 ? left_ms : 0);
        accounts_take(accounts, config, NULL, NULL);
    }
}

bool accounts_ended(const struct accounts *accounts)
{
    return accounts->ended;
}

bool accounts_wrong(const struct accounts *accounts)
{
    return accounts->wrong;
}

void accounts_close(struct accounts *accounts)
{
    if (accounts != NULL) {
        close(accounts->fd);
        free(accounts);
    }
}
