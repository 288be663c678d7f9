/* Findings of `holdfast doctor` from the agent's facts about itself and its host. */
#include "doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

enum {
    MIB = 1024 * 1024,
    DISK_LOW_MIB = 256,
    DISK_FULL_MIB = 16,
    NEAR_PERCENT = 80,
    FULL_PERCENT = 95,
    /* a value of the fact region_rubbish: there was no memory for a page of the region (the value
     * 1: the region was truncated) */
    REGION_ROOMLESS = 2,
};

/* an event within the last ten minutes counts as recent */
static const int64_t lately_ns = 600000000000;

/* Adds the agent's judgement, with only the names of its reasons, because the findings of other
 * checks explain most reasons. */
static void look_at_judgement(struct doctor *doctor)
{
    const struct judged *judged = &doctor->judged;
    char list[DOCTOR_TEXT_MAX] = "";
    size_t used = 0;

    if (judged->word[0] == '\0') {
        return; /* this is an older agent, which does not judge */
    }
    for (size_t i = 0; i < judged->count && used < sizeof list; i++) {
        const struct judged_reason *reason = &judged->reasons[i];

        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s%s%s", i > 0 ? ", " : ": ",
                                 reason->name, reason->subject[0] != '\0' ? " " : "",
                                 reason->subject);
    }
    enum finding_level level = judged->level >= JUDGED_FAILING    ? FINDING_ERROR
                               : judged->level >= JUDGED_DEGRADED ? FINDING_WARN
                                                                  : FINDING_OK;
    struct finding *finding = doctor_find(doctor, level, "judgement", NULL, "%s%s", judged->word,
                                          list);
    if (level != FINDING_OK) {
        doctor_advise(finding, "well: everything is served, and nothing is missing",
                      "see the other findings; docs/METRICS.md has each reason");
    }
}

/* Adds the reasons that no other check covers. */
static void look_at_reasons(struct doctor *doctor)
{
    static const struct {
        const char *name;
        const char *check;
        const char *expected;
        const char *remedy;
    } known[] = {
        {"http_down", "http", "metrics and a status page at that address",
         "find out which program has the address (ss -ltnp), or correct [http] listen; the agent "
         "tries again "
         "within a minute"},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *text = judged_text(&doctor->judged, known[i].name, NULL, NULL);

        if (text != NULL) {
            struct finding *finding = doctor_find(doctor, FINDING_WARN, known[i].check, NULL, "%s",
                                                  text);
            doctor_advise(finding, known[i].expected, known[i].remedy);
        }
    }
}

static void look_at_session(struct doctor *doctor)
{
    static const char *const names[] = {"safe", "in jeopardy", "lost"};
    char left[TEXT_DURATION_SIZE];
    char ago[TEXT_DURATION_SIZE];
    int64_t age_ns = doctor_value(doctor, NULL, "interrupted_age_ns", -1);
    const char *none = judged_text(&doctor->judged, "session_none", NULL, NULL);
    struct finding *finding;

    text_duration(left, doctor->session_remaining_ns);
    if (doctor->session == HF_SESSION_SAFE && (age_ns < 0 || age_ns > lately_ns)) {
        doctor_find(doctor, FINDING_OK, "session", NULL, "safe, %s left", left);
        return;
    }
    if (doctor->session == HF_SESSION_SAFE) {
        finding = doctor_find(doctor, FINDING_WARN, "session", NULL,
                              "safe, %s left; but until %s ago it was not, and the holds did not "
                              "count, or ended",
                              left, text_duration(ago, age_ns));
        doctor_advise(
            finding, "a session that is safe all the time",
            "see session_state in this agent's log, and what other findings say of "
            "voters, stalls and flushes; holdfast_session_interruptions_total counts such times");
        return;
    }
    finding = doctor_find(
        doctor, FINDING_ERROR, "session", NULL, "%s%s: no hold on this host counts now",
        none != NULL ? "none yet: " : names[doctor->session], none != NULL ? none : "");
    doctor_advise(
        finding, "a session that a majority of the voters renews",
        "see the findings about voters, tls, clock and disk; the session becomes safe by itself "
        "when these are well");
}

static void look_at_version(struct doctor *doctor)
{
    const struct fact *version = doctor_fact(doctor, NULL, "version");

    if (version == NULL) {
        return;
    }
    if (strcmp(version->text, hf_version()) == 0) {
        doctor_find(doctor, FINDING_OK, "version", NULL,
                    "agent and this program are %s, messages between agents %" PRId64,
                    version->text, doctor_value(doctor, NULL, "wire_version", 0));
        return;
    }
    struct finding *finding = doctor_find(doctor, FINDING_WARN, "version", NULL,
                                          "the agent is %s, this program %s", version->text,
                                          hf_version());
    doctor_advise(finding, "the same version of both",
                  "restart the agent if it was upgraded (no hold is lost within the lease)");
}

/* Names the profile, because the low limits of a small agent are not a fault. Also names the parts
 * that the agent was built without. */
static void look_at_profile(struct doctor *doctor)
{
    const struct fact *profile = doctor_fact(doctor, NULL, "profile");
    const struct fact *without = doctor_fact(doctor, NULL, "built_without");

    if (profile != NULL) {
        bool lacks = without != NULL && without->text[0] != '\0';

        doctor_find(doctor, FINDING_OK, "profile", NULL, "%s%s%s", profile->text,
                    lacks ? "; the agent was built without " : "", lacks ? without->text : "");
    }
}

static void look_at_share(struct doctor *doctor, const char *check, int64_t used, int64_t max,
                          const char *remedy)
{
    if (used < 0 || max <= 0) {
        return;
    }
    int64_t percent = used > INT64_MAX / 100 ? 100 : used * 100 / max;
    enum finding_level level = percent >= FULL_PERCENT   ? FINDING_ERROR
                               : percent >= NEAR_PERCENT ? FINDING_WARN
                                                         : FINDING_OK;
    struct finding *finding = doctor_find(doctor, level, check, NULL,
                                          "%" PRId64 " of %" PRId64 " in use", used, max);
    if (level != FINDING_OK) {
        snprintf(finding->expected, sizeof finding->expected, "less than %d %% of them",
                 NEAR_PERCENT);
        snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy);
    }
}

static void look_at_limits(struct doctor *doctor)
{
    int64_t max = doctor_value(doctor, NULL, "descriptors_max", 0);
    int64_t wanted = doctor_value(doctor, NULL, "descriptors_wanted", 0);

    look_at_share(doctor, "clients", (int64_t)doctor->clients,
                  doctor_value(doctor, NULL, "clients_max", 0),
                  "raise `clients` in [limits] and restart the agent");
    look_at_share(doctor, "descriptors", doctor_value(doctor, NULL, "descriptors_used", -1), max,
                  "raise LimitNOFILE of the service (systemctl edit holdfastd), restart the agent");
    if (max > 0 && max < wanted) {
        struct finding *finding = doctor_find(doctor, FINDING_WARN, "descriptors", NULL,
                                              "the agent may open %" PRId64, max);
        snprintf(finding->expected, sizeof finding->expected,
                 "%" PRId64 ", for `clients` in [limits]", wanted);
        snprintf(finding->remedy, sizeof finding->remedy,
                 "raise LimitNOFILE of the service, or lower `clients`, and restart the agent");
    }
}

static void look_at_state_dir(struct doctor *doctor)
{
    const struct fact *folder = doctor_fact(doctor, NULL, "state_dir");
    int64_t mode = doctor_value(doctor, NULL, "state_dir_mode", 0700);
    int64_t owner = doctor_value(doctor, NULL, "state_dir_uid", 0);
    int64_t uid = doctor_value(doctor, NULL, "uid", owner);
    int64_t free_mib = doctor_value(doctor, NULL, "state_dir_free", INT64_MAX) / MIB;
    const char *path = folder == NULL ? "state_dir" : folder->text;
    struct finding *finding;

    if ((mode & 077) != 0 || owner != uid) {
        bool writable = (mode & 022) != 0 || owner != uid;
        finding = doctor_find(doctor, writable ? FINDING_ERROR : FINDING_WARN, "state_dir", NULL,
                              "%s: owner %" PRId64
                              ", mode %04o, and the agent runs as user %" PRId64,
                              path, owner, (unsigned)mode, uid);
        doctor_advise(
            finding,
            "the agent's user and mode 0700: its files decide which process holds which lock",
            "chown and chmod it; find out first which users could have changed its files");
    }
    if (free_mib < DISK_LOW_MIB) {
        finding = doctor_find(doctor, free_mib < DISK_FULL_MIB ? FINDING_ERROR : FINDING_WARN,
                              "state_dir", NULL, "%" PRId64 " MiB are free under %s", free_mib,
                              path);
        doctor_advise(finding, "256 MiB: an agent that cannot write its store ends",
                      "make room on that disk");
    } else if (judged_text(&doctor->judged, "disk_full", NULL, NULL) != NULL) {
        finding = doctor_find(doctor, FINDING_ERROR, "state_dir", NULL, "%s",
                              judged_text(&doctor->judged, "disk_full", NULL, ""));
        doctor_advise(finding, "room for more files: the agent keeps one for each process",
                      "remove files on that disk (df -i)");
    } else if ((mode & 077) == 0 && owner == uid) {
        doctor_find(doctor, FINDING_OK, "state_dir", NULL, "%s, %" PRId64 " MiB free", path,
                    free_mib);
    }
}

static void look_at_files(struct doctor *doctor)
{
    const struct fact *gone = doctor_fact(doctor, NULL, "files_gone");
    const struct fact *loose = doctor_fact(doctor, NULL, "config_loose");
    struct finding *finding;

    if (loose != NULL) {
        finding = doctor_find(doctor, FINDING_WARN, "files", NULL,
                              "users other than root and the agent's may write to %s", loose->text);
        doctor_advise(finding, "a configuration that only its administrator writes",
                      "chown root, chmod go-w: a user that may write to it gives itself any lock");
    }
    if (gone == NULL || gone->value == 0) {
        return;
    }
    finding = doctor_find(doctor, FINDING_ERROR, "files", NULL, "moved or removed: %s", gone->text);
    doctor_advise(
        finding, "all files where the next agent looks for them",
        "move the files back; removed files are lost when the agent ends, and with a region all "
        "holds of its namespace: let these holds end first. For a store see "
        "OPERATIONS.md, A voter's store");
}

static void look_at_accounts(struct doctor *doctor)
{
    const struct fact *unknown = doctor_fact(doctor, NULL, "accounts_unknown");
    struct finding *finding;

    if (unknown == NULL || unknown->value == 0) {
        return;
    }
    finding = doctor_find(doctor, FINDING_WARN, "users", NULL,
                          "this host does not know %" PRId64 " of the names in the configuration: "
                          "%s",
                          unknown->value, unknown->text);
    doctor_advise(finding, "users and groups of this host",
                  "getent passwd NAME; correct the configuration, or the name service: the agent "
                  "looks them up again within a minute");
}

static void look_at_stalls(struct doctor *doctor)
{
    int64_t age_ns = doctor_value(doctor, NULL, "stall_age_ns", -1);
    char took[TEXT_DURATION_SIZE];
    char ago[TEXT_DURATION_SIZE];

    if (age_ns < 0 || age_ns > lately_ns) {
        doctor_find(doctor, FINDING_OK, "stalls", NULL, "the agent did not stand still lately");
        return;
    }
    struct finding *finding = doctor_find(
        doctor, FINDING_WARN, "stalls", NULL, "the agent stood still for %s, %s ago",
        text_duration(took, doctor_value(doctor, NULL, "stall_ns", 0)), text_duration(ago, age_ns));
    doctor_advise(finding, "an agent that always gets the processor in time",
                  "see whether the machine was suspended, the process stopped, or starved of "
                  "processor or memory");
}

static void look_at_region(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->fact_count; i++) {
        if (strcmp(doctor->facts[i].key, "region_rubbish") != 0) {
            continue;
        }
        bool roomless = doctor->facts[i].value == REGION_ROOMLESS;
        struct finding *finding = doctor_find(
            doctor, FINDING_ERROR, "memory", NULL,
            "the region of namespace %s %s: its locks are not served until the agent has made a "
            "new region",
            doctor->facts[i].text, roomless ? "had a hole when /dev/shm was full" : "was damaged");
        if (roomless) {
            doctor_advise(finding, "regions with all their memory, or room in /dev/shm",
                          "see what fills /dev/shm, and make room");
        } else {
            doctor_advise(finding, "regions that only libholdfast changes",
                          "find out which process of that namespace damaged the region");
        }
    }
}

/* Reports clients of the previous agent that keep their holds, although this agent cannot see
 * whether their processes still exist. */
static void look_at_survivors(struct doctor *doctor)
{
    const struct fact *unproven = doctor_fact(doctor, NULL, "survivors_unproven");

    if (unproven == NULL || unproven->value == 0) {
        return;
    }
    struct finding *finding = doctor_find(
        doctor, FINDING_WARN, "clients", NULL,
        "%" PRId64
        " of the previous agent: this agent cannot see whether they still exist (another process "
        "may have the number, or they are in another pid namespace): %s",
        unproven->value, unproven->text);
    doctor_advise(finding, "clients that have connected again",
                  "they keep their holds: if such a process has ended, run holdfast break for its "
                  "locks; restart programs that run since an earlier release");
}

void doctor_look_at_agent(struct doctor *doctor)
{
    look_at_session(doctor);
    if (doctor->answered) {
        look_at_judgement(doctor);
        look_at_reasons(doctor);
        look_at_version(doctor);
        look_at_profile(doctor);
        look_at_survivors(doctor);
        look_at_limits(doctor);
        look_at_state_dir(doctor);
        look_at_files(doctor);
        look_at_accounts(doctor);
        look_at_stalls(doctor);
        look_at_region(doctor);
    }
}
