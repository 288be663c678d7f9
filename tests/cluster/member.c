/* See member.h. */
#include "member.h"

#include "faults.h"
#include "network.h"
#include "require.h"

#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>

enum { LINE_MAX_SIZE = 1024 };

char member_said[4096];

static FILE *begin(const struct agent_process *agent, const char *format, va_list args)
{
    char line[LINE_MAX_SIZE];
    int used = 0;
    if (agent->faults) { /* the command has its host's clock */
        used = snprintf(line, sizeof(line), FAULTS_FILE "=%s " FAULTS_HOST "=%u LD_PRELOAD=%s ",
                        agent->faults, agent->host, binary_path("../tests/libholdfast_faults.so"));
    }
    used += snprintf(line + used, sizeof(line) - (size_t)used, "exec %s -s %s member ",
                     binary_path("holdfast"), agent->socket);
    used += vsnprintf(line + used, sizeof(line) - (size_t)used, format, args);
    snprintf(line + used, sizeof(line) - (size_t)used, " 2>&1");
    FILE *command = popen(line, "re");
    REQUIRE(command != NULL, "popen: %s", line);
    return command;
}

FILE *member_begin(const struct agent_process *agent, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    FILE *command = begin(agent, format, args);
    va_end(args);
    return command;
}

int member_end(FILE *command)
{
    char rest[256];
    size_t size = fread(member_said, 1, sizeof(member_said) - 1, command);
    member_said[size] = '\0';
    while (fread(rest, 1, sizeof(rest), command) > 0) { /* keeps the pipe from filling */
    }
    int status = pclose(command);
    REQUIRE(WIFEXITED(status), "the command ended with %x: %s", (unsigned)status, member_said);
    return WEXITSTATUS(status);
}

bool member_has_ended(FILE *command)
{
    struct pollfd pipe = {.fd = fileno(command), .events = 0};
    return poll(&pipe, 1, 0) == 1 && (pipe.revents & POLLHUP) != 0;
}

int member_run(const struct agent_process *agent, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    FILE *command = begin(agent, format, args);
    va_end(args);
    return member_end(command);
}

static bool lists(unsigned voters)
{
    unsigned lines = 0;
    unsigned wanted = 0;
    for (const char *at = member_said; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    for (unsigned host = 0; host < NETWORK_HOSTS_MAX; host++) {
        char line[32];
        snprintf(line, sizeof(line), "host-%c up at ", 'a' + (int)host);
        if ((voters >> host & 1) && strstr(member_said, line) == NULL) {
            return false;
        }
        wanted += voters >> host & 1;
    }
    return lines == wanted;
}

void member_await_voters(const struct agent_process *agent, unsigned voters)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    bool good = false;
    while (!good) {
        REQUIRE(boottime_now() < end_ns, "expected the voters %x, found %s", voters, member_said);
        good = member_run(agent, "list") == 0 && lists(voters);
        sleep_ms(good ? 0 : 20);
    }
}

void member_await_listed(const struct agent_process *agent, const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (member_run(agent, "list") != 0 || strstr(member_said, text) == NULL) {
        REQUIRE(boottime_now() < end_ns, "expected %s, found %s", text, member_said);
        sleep_ms(50);
    }
}

void member_await_logged_more(const struct agent_process *agent, const char *text, unsigned times)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (agent_logged(agent, text) <= times) {
        REQUIRE(boottime_now() < end_ns, "%s does not have %s more than %u times", agent->log, text,
                times);
        sleep_ms(20);
    }
}

void member_await_logged(const struct agent_process *agent, const char *text)
{
    member_await_logged_more(agent, text, 0);
}

void member_restart_beside(struct agent_process *agent, struct actor *holder, unsigned grace_ms)
{
    enum { TRIES = 5 };
    bool continued = false;
    for (unsigned tries = 1; !continued; tries++) {
        unsigned before = agent_logged(agent, "event=session_continued");
        int64_t end_ns = boottime_now(); /* the session's end, after lease and grace period */
        end_ns += actor_remaining(holder, 0) + grace_ms * MS;
        agent_stop(agent);
        agent_start(agent);
        continued = agent_logged(agent, "event=session_continued") > before;
        if (!continued) {
            REQUIRE(boottime_now() >= end_ns && tries < TRIES, "the session has ended");
            REQUIRE(actor_release(holder, 0) == HF_ELOST, "release");
            int result = actor_acquire(holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL);
            REQUIRE(result == 0, "acquire: %s", hf_strerror(result));
        }
    }
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (actor_remaining(holder, 0) <= 0) { /* the hold is in jeopardy until its renewal */
        REQUIRE(boottime_now() < end_ns, "the hold is lost");
        sleep_ms(10);
    }
}
