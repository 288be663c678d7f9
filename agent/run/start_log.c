/* What an agent logs when it starts: see start.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "io/clock.h"
#include "observe/log.h"
#include "run/start.h"

/* Warns when few session numbers are left, long before they are used up. */
static void log_numbers(const struct agent *agent)
{
    uint32_t left = MESSAGE_EPOCH_LIMIT - 1 - agent_epoch(agent);
    if (left < AGENT_EPOCHS_FEW) {
        struct log_line line;
        log_begin(&line, LOG_LEVEL_WARN, "session_numbers_few");
        log_unsigned(&line, "number", left);
        log_text(&line, "text",
                 "so many sessions can follow under this agent's name: see docs/OPERATIONS.md, "
                 "\"Session numbers\"");
        log_end(&line);
    }
}

/* Warns if the system's agent runs beside an agent of --dev, because programs of this host then
 * find the system's agent. */
static void log_system_agent(const struct agent *agent)
{
    static const char system_socket[] = "/run/holdfast/agent.sock";
    if (agent->config.dev && strcmp(agent->config.socket, system_socket) != 0 &&
        access(system_socket, F_OK) == 0) {
        struct log_line line;
        log_begin(&line, LOG_LEVEL_WARN, "dev_beside_system");
        log_text(&line, "socket", agent->config.socket);
        log_text(&line, "text",
                 "/run/holdfast/agent.sock is there: programs ask that agent, and this one only if "
                 "HOLDFAST_SOCKET or --socket names it");
        log_end(&line);
    }
}

static void log_session(const struct agent *agent, const char *why)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_INFO, agent->adopted ? "session_continued" : "session_new");
    log_unsigned(&line, "epoch", agent_epoch(agent));
    if (why != NULL) {
        log_text(&line, "why", why);
    } else {
        log_seconds(&line, "remaining", agent->left.deadline_ns - clock_boottime_ns());
    }
    log_end(&line);
}

void agent_log_start(const struct agent *agent, const char *why)
{
    log_session(agent, why);
    log_system_agent(agent);
    log_numbers(agent);
}
