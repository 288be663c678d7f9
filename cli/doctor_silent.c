/* The finding of `holdfast doctor` that no agent answers, with the cause as far as this process can
 * find it out. */
#include "doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "remedy.h"
#include "socket_path.h"
#include "tool.h"

enum {
    LOCKS_MAX = 100000,
    AGENT_CONFIGURATION_WRONG = 78, /* holdfastd --check-config */
    AGENT_FILE_REFUSED = 69,
};

/* Returns the process that holds the lock file beside the socket, or 0 if none is found. An agent
 * locks this file before it makes its socket. This function reads /proc/locks, because an attempt
 * to lock the file could keep an agent from starting. */
static int64_t lock_holder(const char *socket_path)
{
    char path[DOCTOR_TEXT_MAX + 8];
    char wanted[64];
    char line[256];
    struct stat status;
    int64_t holder = 0;
    FILE *locks;

    snprintf(path, sizeof path, "%s.lock", socket_path);
    locks = stat(path, &status) == 0 ? fopen("/proc/locks", "re") : NULL;
    if (locks == NULL) {
        return 0;
    }
    snprintf(wanted, sizeof wanted, "%02x:%02x:%ju", major(status.st_dev), minor(status.st_dev),
             (uintmax_t)status.st_ino);
    for (int count = 0; holder == 0 && count < LOCKS_MAX && fgets(line, sizeof line, locks) != NULL;
         count++) {
        char file[64];
        int64_t pid;

        /* A line is like "1: FLOCK ADVISORY WRITE 4242 08:01:131090 0 EOF"; a line with "->" is of
         * a process that waits. */
        if (sscanf(line, "%*d: FLOCK %*s WRITE %" SCNd64 " %63s", &pid, file) == 2 &&
            strcmp(file, wanted) == 0) {
            holder = pid;
        }
    }
    (void)fclose(locks);
    return holder;
}

/* Returns why no agent answers, as far as this process can find it out. */
static const char *why_silent(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (access(path, F_OK) != 0) {
        return errno == ENOENT ? "there is no such file: no agent was started there, or it is "
                                 "still starting, or somebody removed its socket"
                               : strerror(errno);
    }
    /* the caller has checked the length of the path */
    memcpy(address.sun_path, path, sizeof address.sun_path - 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return strerror(errno);
    }
    int result = connect(fd, (const struct sockaddr *)&address, sizeof address);
    int why = result == 0 ? 0 : errno;
    close(fd);
    switch (why) {
    case 0:
    case EAGAIN:
        return "a process listens there but does not answer: it is stopped, or gets no processor "
               "time";
    case ECONNREFUSED:
        return "the agent that listened there has ended";
    default:
        return strerror(why);
    }
}

static void nobody_answers(struct doctor *doctor)
{
    const bool there = access(doctor->socket, F_OK) == 0;
    const int64_t holder = there ? 0 : lock_holder(doctor->socket);
    struct finding *finding;

    if (holder != 0) {
        finding = doctor_find(doctor, FINDING_ERROR, "agent", NULL,
                              "%s (%s): there is no such file, but process %" PRId64
                              " has the agent's lock: it is still starting (without a majority of "
                              "the voters for up to session_ttl), or its socket was removed",
                              doctor->socket, doctor->socket_from, holder);
        doctor_advise(finding, "an agent that answers",
                      "wait for session_ttl, start the other voters; its log names what it waits "
                      "for (voter_waits), or what was removed (files_gone): then restart it, no "
                      "hold is lost");
        return;
    }
    finding = doctor_find(doctor, FINDING_ERROR, "agent", NULL, "%s (%s): %s: %s", doctor->socket,
                          doctor->socket_from, hf_strerror(HF_ENOAGENT),
                          why_silent(doctor->socket));
    if (doctor->socket_own) {
        char own[DOCTOR_TEXT_MAX];

        remedy_write_own(own, sizeof own, doctor->socket);
        doctor_advise(finding, "an agent that answers", own);
        return;
    }
    doctor_advise(finding, "an agent that answers",
                  configuration_missing()
                      ? "write " SERVICE_CONFIGURATION ", which this host lacks (holdfast setup), "
                        "and do what setup then says; or start an agent without it (holdfastd "
                        "--dev, or holdfastd --config FILE; restart it if it runs: no hold is "
                        "lost), or name its socket with --socket"
                      : "start it (systemctl start holdfastd; restart it if it runs: no hold is "
                        "lost), read its log (journalctl -u holdfastd), or name its socket with "
                        "--socket");
}

/* Lets holdfastd check the configuration of the service, because the service does not start with a
 * wrong configuration. */
static void look_at_configuration(struct doctor *doctor)
{
    const char *words[] = {tool_agent(), "--config", SERVICE_CONFIGURATION, "--check-config", NULL};
    char said[TOOL_SAID_MAX];

    if (strcmp(doctor->socket, SYSTEM_SOCKET) != 0 || access(SERVICE_CONFIGURATION, R_OK) != 0) {
        return;
    }
    const int status = tool_run(words, NULL, said);
    said[strcspn(said, "\n")] = '\0';
    if (status == 0) {
        doctor_find(doctor, FINDING_OK, "config", NULL, "holdfastd accepts %s",
                    SERVICE_CONFIGURATION);
    } else if (status == AGENT_CONFIGURATION_WRONG || status == AGENT_FILE_REFUSED) {
        struct finding *finding = doctor_find(doctor, FINDING_ERROR, "config", NULL, "%s", said);
        doctor_advise(finding, "a configuration with which holdfastd starts",
                      "correct it, then: systemctl restart holdfastd");
    }
}

void doctor_no_agent(struct doctor *doctor, int error, const char *why)
{
    if (error == HF_ENOAGENT) {
        nobody_answers(doctor);
        look_at_configuration(doctor);
        return;
    }
    struct finding *finding = doctor_find(doctor, FINDING_ERROR, "agent", NULL, "%s (%s): %s",
                                          doctor->socket, doctor->socket_from, why);

    switch (error) {
    case HF_EACCES:
        doctor_advise(
            finding, "an agent that lets this user in",
            "name this user in `users` or `groups` of the agent's configuration, and restart the "
            "agent; if it is named there, check the modes of the socket and of the folders in its "
            "path (namei -l), and whether the agent's log says why (client_refused)");
        break;
    case HF_EVERSION:
        doctor_advise(finding, "an agent of the same version",
                      "install the same version of Holdfast's agent and programs, restart the "
                      "agent");
        break;
    case HF_EPROTO:
        doctor_advise(finding, "an agent there, in this process's time namespace",
                      "run both in one time namespace (lsns -t time); look which program listens "
                      "there (ss -xlp)");
        break;
    case HF_EFULL:
        doctor_advise(finding, "room for one more client",
                      "make room where state_dir is, or raise `clients` in [limits] or LimitNOFILE "
                      "of the service, or end processes that do not need it: the agent's log says "
                      "which (record_failed, connection_refused, client_broke_rules)");
        break;
    default:
        doctor_advise(finding, "an agent that answers", "read its log (journalctl -u holdfastd)");
    }
}

void doctor_path_too_long(struct doctor *doctor, const struct socket_path *found)
{
    struct finding *finding = doctor_find(doctor, FINDING_ERROR, "agent", NULL,
                                          "the socket's path %s has %zu bytes: %s", found->from,
                                          found->size, found->path);

    snprintf(finding->expected, sizeof finding->expected, "at most %zu bytes", found->size_max);
    snprintf(finding->remedy, sizeof finding->remedy,
             "name the agent's socket with --socket or HOLDFAST_SOCKET");
}
