/* Names that are looked up again: see serve/users.h. */
#include "serve/users.h"

#include <stdlib.h>

#include "config/accounts.h"
#include "observe/log.h"
#include "turn.h"

static const int64_t pace_ns = 60000000000;
static const int64_t pace_refused_ns = 5000000000;

struct users {
    uv_poll_t poll;
    int64_t asked_ns; /* when agent->accounts was last asked to look again */
    bool refused;     /* a process has been refused since asked_ns */
};

static void log_account(const struct agent *agent, enum log_level level, const char *event,
                        const struct config_account *account, const char *text)
{
    char location[CONFIG_LOCATION_MAX];
    struct log_line line;
    log_begin(&line, level, event);
    log_text(&line, "key", config_location(&agent->config, account, location));
    log_text(&line, "name", account->name);
    log_text(&line, "text", text);
    log_end(&line);
}

static void on_found(void *arg, const struct config_account *account)
{
    log_account(arg, LOG_LEVEL_INFO, "account_found", account,
                "processes that connect from now on have its rights");
}

/* Ends the lookups when all names are found, or when the process that looks them up has ended. */
static void end_if_done(struct agent *agent)
{
    bool ended = accounts_ended(agent->accounts);
    if (!ended && config_unknown_count(&agent->config) > 0) {
        return;
    }
    if (accounts_wrong(agent->accounts)) {
        log_simple(LOG_LEVEL_WARN, "accounts_ended",
                   "holdfastd-names gave an answer that makes no sense, and is not used any more: "
                   "names that are not known are looked up again when the agent is restarted");
    } else if (ended) {
        log_simple(LOG_LEVEL_WARN, "accounts_ended",
                   "holdfastd-names has ended: names that are not known are looked up again when "
                   "the agent is restarted");
    }
    uv_close((uv_handle_t *)&agent->users->poll, NULL);
    accounts_close(agent->accounts);
    agent->accounts = NULL;
}

static void on_answer(uv_poll_t *poll, int status, int events)
{
    struct agent *agent = poll->data;
    (void)status;
    (void)events;
    agent_turn(agent, TURN_USERS);
    if (agent->accounts != NULL) {
        accounts_take(agent->accounts, &agent->config, on_found, agent);
        end_if_done(agent);
    }
}

bool users_start(struct agent *agent)
{
    const struct config *config = &agent->config;
    agent->users = calloc(1, sizeof(*agent->users));
    if (agent->users == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < config->account_count; i++) {
        if (!config->accounts[i].found) {
            log_account(agent, LOG_LEVEL_WARN, "account_unknown", &config->accounts[i],
                        "this host knows no such user or group now: nobody has rights by this "
                        "name until it does");
        }
    }
    return agent->accounts == NULL ||
           agent_poll(agent, &agent->users->poll, accounts_fd(agent->accounts), on_answer);
}

void users_destroy(struct agent *agent)
{
    free(agent->users);
    agent->users = NULL;
}

static void ask_after(struct agent *agent, int64_t now_ns, int64_t pause_ns)
{
    if (agent->accounts != NULL && now_ns - agent->users->asked_ns >= pause_ns) {
        agent->users->asked_ns = now_ns;
        agent->users->refused = false;
        accounts_ask(agent->accounts);
    }
}

void users_look(struct agent *agent, int64_t now_ns)
{
    ask_after(agent, now_ns, agent->users->refused ? pace_refused_ns : pace_ns);
}

void users_refused(struct agent *agent, int64_t now_ns)
{
    agent->users->refused = true;
    ask_after(agent, now_ns, pace_refused_ns);
}
