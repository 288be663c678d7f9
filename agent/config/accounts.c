/* Users and groups by name: see config/accounts.h. */
#include "config/accounts.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "io/beside.h"
#include "io/clock.h"
#include "proto/check.h"

/* An answer: which user or group a name means, or that all names were looked up. */
struct answer {
    uint32_t account; /* LOOKED */
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
        if (value > UINT32_MAX - 1) { /* UINT32_MAX is nobody's */
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

/* An admin may be a user or a group, and the user counts; @NAME is a group. */
static bool find(const struct config_account *account, accounts_lookup_fn *lookup,
                 struct answer *out)
{
    bool admin = account->list == CONFIG_ADMINS;
    bool marked = admin && account->name[0] == '@';
    *out = (struct answer){.is_group = account->list == CONFIG_GROUPS || marked};
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
    struct answer answer;
    for (uint32_t i = 0; i < config->account_count; i++) {
        if (!config->accounts[i].found && find(&config->accounts[i], lookup, &answer)) {
            config_found(config, i, answer.is_group, answer.id);
        }
    }
}

/* ---- the process ---- */

/* Set before the fork. */
static struct {
    const struct config *config;
    accounts_lookup_fn *lookup;
    bool *told; /* of each name: the agent has the answer */
} own;

/* An answer for which there is no room now is sent when the agent asks again. */
static void look(void)
{
    const struct answer looked = {.account = LOOKED};
    struct answer answer;
    for (uint32_t i = 0; i < own.config->account_count; i++) {
        if (!own.told[i] && find(&own.config->accounts[i], own.lookup, &answer)) {
            answer.account = i;
            own.told[i] = beside_send(BESIDE_FD, &answer, sizeof(answer), NULL, 0);
        }
    }
    (void)!beside_send(BESIDE_FD, &looked, sizeof(looked), NULL, 0);
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

/* A lookup that blocks must not outlive the agent. */
static bool prepare(void)
{
    own.told = calloc(own.config->account_count, sizeof(*own.told));
    return own.told != NULL && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

static bool no_filter(void)
{
    return true;
}

/* ---- the agent's side ---- */

struct accounts {
    int fd;
    bool looks;
    bool ended;
};

struct accounts *accounts_open(const struct config *config, accounts_lookup_fn *lookup,
                               char **arguments)
{
    static const struct beside process = {
        .name = "holdfastd-names", .prepare = prepare, .filter = no_filter, .serve = serve};
    struct accounts *accounts = calloc(1, sizeof(*accounts));
    own.config = config;
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

void accounts_take(struct accounts *accounts, struct config *config, accounts_found_fn *found,
                   void *arg)
{
    struct answer answer;
    int fds[BESIDE_FDS];
    ssize_t size;
    while ((size = beside_receive(accounts->fd, &answer, sizeof(answer), fds)) ==
           (ssize_t)sizeof(answer)) { /* one for each name, and one more */
        if (answer.account == LOOKED) {
            accounts->looks = false;
            continue;
        }
        HF_CHECK(answer.account < config->account_count);
        config_found(config, answer.account, answer.is_group, answer.id);
        if (found != NULL) {
            found(arg, &config->accounts[answer.account]);
        }
    }
    accounts->ended = accounts->ended || size == 0 || (size < 0 && errno == ECONNRESET);
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

void accounts_close(struct accounts *accounts)
{
    if (accounts != NULL) {
        close(accounts->fd);
        free(accounts);
    }
}
