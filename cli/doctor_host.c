/*
 * The checks of `holdfast doctor` that work with and without an agent: the socket, the clock's
 * rate, the shared memory, and the time of a flush to the disk under state_dir.
 */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

enum {
    FLUSHES = 5,
    FLUSH_SIZE = 4096,
    TICK_US = 10000, /* the kernel's default tick */
    PPM_OF_TICK = 100,
    DRIFT_PERCENT = 10, /* the default of max_drift, for an agent that does not report its own */
    MIB = 1024 * 1024,
    SHM_ALONE_MIB = 28, /* the shared memory that a new agent needs for one namespace by default */
};

static const int64_t ttl_default_ns = 5000000000;
/* The agent looks for leftovers once a minute. So if a leftover is overdue for longer than this,
 * its removal fails. */
static const int64_t leftovers_late_ns = 120000000000;

/* ---- the socket ---- */

static void look_at_folder(struct doctor *doctor)
{
    char path[DOCTOR_TEXT_MAX];
    struct stat status;
    const char *folder;

    memcpy(path, doctor->socket, sizeof path);
    folder = dirname(path);
    if (stat(folder, &status) != 0) {
        return; /* the check of the socket has already reported this error */
    }
    if ((status.st_mode & 022) != 0) {
        struct finding *finding = doctor_find(
            doctor, FINDING_ERROR, "socket", NULL,
            "users other than its owner may write to %s (mode %04o)", folder,
            (unsigned)(status.st_mode & 07777));
        doctor_advise(finding, "a folder where nobody but the agent can put a socket",
                      "chmod go-w that folder, or move `socket` to another folder");
    } else if ((status.st_mode & 0004) != 0) {
        /* a process that may read the folder can lock it, and so keep an agent from starting
         * (SECURITY.md) */
        struct finding *finding = doctor_find(doctor, FINDING_WARN, "socket", NULL,
                                              "everybody may list %s (mode %04o)", folder,
                                              (unsigned)(status.st_mode & 07777));
        doctor_advise(finding,
                      "mode 0711, which suffices to connect: a process that lists the folder can "
                      "keep an agent from starting",
                      "chmod 0711 that folder, or move `socket` to a folder of its own");
    }
}

void doctor_look_at_socket(struct doctor *doctor)
{
    struct stat status;
    struct finding *finding;
    bool others = doctor_value(doctor, NULL, "others_admitted", 0) != 0;
    int64_t uid = doctor_value(doctor, NULL, "uid", -1);

    if (stat(doctor->socket, &status) != 0) {
        if (!doctor->agent) {
            return; /* doctor_no_agent() has already reported this */
        }
        finding = doctor_find(doctor, FINDING_ERROR, "socket", NULL, "%s: %s", doctor->socket,
                              strerror(errno));
        doctor_advise(finding, "the socket of this host's agent",
                      "start the agent, or name its socket with --socket or HOLDFAST_SOCKET");
        return;
    }
    if (!S_ISSOCK(status.st_mode)) {
        finding = doctor_find(doctor, FINDING_ERROR, "socket", NULL, "%s is no socket",
                              doctor->socket);
        doctor_advise(
            finding, "the socket of this host's agent",
            "find out which program put that file there; remove it, start the agent again");
        return;
    }
    look_at_folder(doctor);
    if (!doctor->answered) {
        return;
    }
    unsigned mode = (unsigned)(status.st_mode & 0777);
    if (mode != (others ? 0666 : 0600) || (int64_t)status.st_uid != uid) {
        finding = doctor_find(doctor, FINDING_ERROR, "socket", NULL,
                              "%s: owner %u, mode %04o, and its agent runs as user %" PRId64,
                              doctor->socket, (unsigned)status.st_uid, mode, uid);
        doctor_advise(finding,
                      others
                          ? "the agent's user and mode 0666 (the agent checks each process itself)"
                          : "the agent's user and mode 0600 (nobody else is configured)",
                      "find out what changed the socket; restart the agent, which makes a new one");
        return;
    }
    doctor_find(doctor, FINDING_OK, "socket", NULL, "%s, mode %04o", doctor->socket, mode);
}

/* ---- the clock ---- */

void doctor_look_at_clock(struct doctor *doctor)
{
    struct timex now = {.modes = 0};
    int64_t bound_ppm = doctor_value(doctor, NULL, "max_drift_percent", DRIFT_PERCENT) * 10000;
    struct finding *finding;

    if (adjtimex(&now) < 0) {
        finding = doctor_find(doctor, FINDING_WARN, "clock", NULL, "adjtimex: %s", strerror(errno));
        doctor_advise(finding, "the kernel to say how it adjusts its clock",
                      "allow adjtimex (without modes) in this sandbox or container");
        return;
    }
    /* freq is in ppm, with 16 bits after the binary point */
    int64_t ppm = now.freq / 65536 + ((int64_t)now.tick - TICK_US) * PPM_OF_TICK;
    const struct fact *role = doctor_fact(doctor, NULL, "role");
    bool alone = doctor->voter_count == 1 && role != NULL && strcmp(role->text, "voter") == 0;
    if (ppm > bound_ppm || ppm < -bound_ppm) {
        finding = doctor_find(doctor, alone ? FINDING_WARN : FINDING_ERROR, "clock", NULL,
                              "the kernel adjusts its clock by %" PRId64 " ppm", ppm);
        doctor_advise(
            finding, "less than max_drift, which leases allow for",
            alone ? "see what adjusts the clock (chronyc tracking); the holds of this "
                    "host go on, but no session of another host ends until the clock is "
                    "well"
                  : "see what adjusts the clock (chronyc tracking); no hold on this host counts "
                    "until the clock is well");
    } else {
        doctor_find(doctor, FINDING_OK, "clock", NULL,
                    "the kernel adjusts it by %" PRId64 " ppm, %" PRId64 " are allowed for", ppm,
                    bound_ppm);
    }
}

/* ---- shared memory ---- */

/* Reports what agents with replaced stores left in /dev/shm. The agent removes it when nobody can
 * need it any more (OPERATIONS.md, "Room in /dev/shm"). */
static void look_at_leftovers(struct doctor *doctor)
{
    const struct fact *left = doctor_fact(doctor, NULL, "leftovers");
    const struct fact *goes = doctor_fact(doctor, NULL, "leftovers_go_ns");
    int64_t mib = (doctor_value(doctor, NULL, "leftovers_size", 0) + MIB - 1) / MIB;
    char when[TEXT_DURATION_SIZE];
    struct finding *finding;

    if (left == NULL) {
        return;
    }
    if (goes != NULL && goes->value > -leftovers_late_ns) {
        doctor_find(doctor, FINDING_OK, "memory", NULL,
                    "%" PRId64 " MiB are left of a replaced store (%s); the agent removes these "
                    "regions in %s",
                    mib, left->text, text_duration(when, goes->value > 0 ? goes->value : 0));
        return;
    }
    finding = doctor_find(
        doctor, FINDING_WARN, "memory", NULL,
        "%" PRId64 " MiB are left of a replaced store (%s); the agent %s", mib, left->text,
        goes != NULL ? "cannot remove them" : "cannot know whether an agent goes on with them");
    doctor_advise(finding, "no regions but those of the store in use",
                  goes != NULL
                      ? "see which process keeps that folder, or what lies in it: "
                        "OPERATIONS.md, Room in /dev/shm"
                      : "an agent in another time namespace left them: if it does not come "
                        "back, remove that folder as root");
}

void doctor_look_at_memory(struct doctor *doctor)
{
    struct statvfs room;
    struct finding *finding;
    int64_t free_mib = -1;
    int64_t missing_kib = 0;

    if (doctor->answered) {
        free_mib = doctor_value(doctor, NULL, "shm_free", -MIB) / MIB;
        missing_kib = (doctor_value(doctor, NULL, "shm_size", 0) -
                       doctor_value(doctor, NULL, "shm_used", 0)) /
                      1024;
    } else if (statvfs("/dev/shm", &room) == 0) {
        free_mib = (int64_t)(room.f_bavail * room.f_frsize / MIB);
    }
    if (free_mib < 0) {
        finding = doctor_find(doctor, FINDING_ERROR, "memory", NULL, "/dev/shm cannot be read");
        doctor_advise(finding, "a tmpfs on /dev/shm, for the regions", "mount a tmpfs on /dev/shm");
    } else if (missing_kib > 0) {
        finding = doctor_find(doctor, FINDING_WARN, "memory", NULL,
                              "%" PRId64 " KiB of the regions have no memory, %" PRId64
                              " MiB are free in /dev/shm",
                              missing_kib, free_mib);
        doctor_advise(
            finding,
            "memory for all of it: if a page is needed and there is none, its namespace is no "
            "longer served",
            "make room in /dev/shm, then restart the agent: it allocates what is missing, and no "
            "hold is lost");
    } else if (doctor->answered) {
        const int64_t size = doctor_value(doctor, NULL, "shm_size", 0);
        const bool small = size < 10 * MIB;
        doctor_find(doctor, FINDING_OK, "memory", NULL,
                    "the regions have all their %" PRId64 " %s; %" PRId64
                    " MiB are free in /dev/shm",
                    size / (small ? 1024 : MIB), small ? "KiB" : "MiB", free_mib);
    } else if (free_mib < SHM_ALONE_MIB) {
        finding = doctor_find(doctor, FINDING_WARN, "memory", NULL,
                              "%" PRId64 " MiB are free in /dev/shm", free_mib);
        snprintf(finding->expected, sizeof finding->expected,
                 "%d MiB for each namespace with the default [limits], from the agent's start",
                 SHM_ALONE_MIB);
        snprintf(finding->remedy, sizeof finding->remedy,
                 "enlarge /dev/shm, see what else fills it, or lower `locks` and `blocks` in "
                 "[limits]: without room the agent does not start");
    } else {
        doctor_find(doctor, FINDING_OK, "memory", NULL, "%" PRId64 " MiB are free in /dev/shm",
                    free_mib);
    }
    look_at_leftovers(doctor);
}

/* ---- the disk ---- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Makes a few small flushes in a file without a name. Returns the time of the slowest flush, or -1
 * if this user may not make such a file. */
static int64_t time_flushes(const char *folder)
{
    static const char bytes[FLUSH_SIZE];
    int64_t worst_ns = -1;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    for (int i = 0; fd >= 0 && i < FLUSHES; i++) {
        int64_t begun_ns = now_ns();

        if (pwrite(fd, bytes, sizeof bytes, (off_t)i * FLUSH_SIZE) != FLUSH_SIZE ||
            fdatasync(fd) != 0) {
            worst_ns = -1;
            break;
        }
        int64_t took_ns = now_ns() - begun_ns;
        worst_ns = took_ns > worst_ns ? took_ns : worst_ns;
    }
    if (fd >= 0) {
        close(fd);
    }
    return worst_ns;
}

static void judge_flush(struct doctor *doctor, int64_t took_ns, const char *what)
{
    int64_t ttl_ns = doctor_value(doctor, NULL, "session_ttl_ns", ttl_default_ns);
    enum finding_level level = took_ns > ttl_ns / 3    ? FINDING_ERROR
                               : took_ns > ttl_ns / 10 ? FINDING_WARN
                                                       : FINDING_OK;
    char took[TEXT_DURATION_SIZE];
    char bound[TEXT_DURATION_SIZE];
    struct finding *finding = doctor_find(doctor, level, "flush", NULL, "%s %s", what,
                                          text_duration(took, took_ns));

    if (level != FINDING_OK) {
        snprintf(finding->expected, sizeof finding->expected, "below %s, a tenth of session_ttl",
                 text_duration(bound, ttl_ns / 10));
        snprintf(finding->remedy, sizeof finding->remedy,
                 "move state_dir to a faster disk, or to one that is used less, or raise "
                 "session_ttl in the whole cell");
    }
}

void doctor_look_at_disk(struct doctor *doctor)
{
    const struct fact *folder = doctor_fact(doctor, NULL, "state_dir");
    int64_t pending_ns = doctor_value(doctor, NULL, "flush_pending_ns", -1);
    int64_t ttl_ns = doctor_value(doctor, NULL, "session_ttl_ns", ttl_default_ns);
    int64_t own_ns = folder == NULL || folder->text[0] == '\0' ? -1 : time_flushes(folder->text);

    if (own_ns >= 0) {
        judge_flush(doctor, own_ns, "the longest of five test flushes in state_dir took");
    }
    if (!doctor->answered) {
        return;
    }
    if (doctor_value(doctor, NULL, "flushes", 0) > 0) {
        judge_flush(doctor, doctor_value(doctor, NULL, "flush_worst_ns", 0),
                    "the longest of the agent's own flushes in the last minutes took");
    } else if (own_ns < 0) {
        doctor_find(doctor, FINDING_OK, "flush", NULL,
                    "the agent has made no flush since its start");
    }
    if (pending_ns > ttl_ns / 3) {
        judge_flush(doctor, pending_ns, "a flush of the agent is under way, for");
    }
}
