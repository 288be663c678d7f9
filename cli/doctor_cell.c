/* Findings of `holdfast doctor` from the agent's facts about its cell. */
#include "doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "text.h"

enum {
    PARTITIONS = 256,
    PPM_OF_PERCENT = 10000,
};

/* the longest time that is shown, in seconds; a longer time is shown as this time */
#define FOREVER_S INT64_C(9000000000)

/* an event within the last ten minutes counts as recent */
static const int64_t lately_ns = 600000000000;

static size_t count_up(const struct doctor *doctor)
{
    size_t up = 0;

    for (size_t i = 0; i < doctor->voter_count; i++) {
        up += doctor->voters[i].state == HF_VOTER_UP;
    }
    return up;
}

/* How long voters must be away before the doctor speaks of a recovery of the cell. */
static const int64_t away_ns = 600 * INT64_C(1000000000);

/* ---- voters ---- */

static void voter_is_down(struct doctor *doctor, const char *name)
{
    const struct fact *connected = doctor_fact(doctor, name, "connected");
    const char *why = connected == NULL ? "" : connected->text;
    struct finding *finding;

    if (connected != NULL && connected->value != 0) {
        finding = doctor_find(doctor, FINDING_WARN, "voters", name,
                              "connected, but it does not answer");
        doctor_advise(
            finding, "a voter that acknowledges renewals",
            "read the log of its agent, which says why; its process may be stopped, or its "
            "disk stuck");
        return;
    }
    finding = doctor_find(doctor, FINDING_WARN, "voters", name, "it cannot be reached%s%s",
                          why[0] != '\0' ? ": " : "", why);
    doctor_advise(finding, "a connection to it",
                  "is its agent running? do the address in [voters], the firewall, the "
                  "certificates allow a connection, both ways?");
}

static bool starts_over(const struct doctor *doctor, const char *name)
{
    return doctor_value(doctor, name, "starts_over", 0) != 0;
}

static void voter_starts_over(struct doctor *doctor, const char *name)
{
    if (doctor_value(doctor, name, "self", 0) != 0) {
        return; /* look_at_own_vote() reports this */
    }
    struct finding *finding = doctor_find(doctor, FINDING_WARN, "voters", name,
                                          "it starts over, and does not vote before it has read "
                                          "what the other voters know");
    doctor_advise(finding, "a voter that votes, about a session_ttl after its start",
                  "wait, and stop no other voter meanwhile; voter_waits in its log names what it "
                  "waits for");
}

static bool is_refused(const struct doctor *doctor, const struct doctor_voter *voter)
{
    return voter->state == HF_VOTER_REFUSED && !starts_over(doctor, voter->name) &&
           doctor_value(doctor, voter->name, "rules_differ", 0) == 0;
}

static size_t count_starting(const struct doctor *doctor)
{
    size_t count = 0;

    for (size_t i = 0; i < doctor->voter_count; i++) {
        count += starts_over(doctor, doctor->voters[i].name);
    }
    return count;
}

static size_t count_refused(const struct doctor *doctor)
{
    size_t count = 0;

    for (size_t i = 0; i < doctor->voter_count; i++) {
        count += is_refused(doctor, &doctor->voters[i]);
    }
    return count;
}

/* Returns whether the stores that are neither refused nor starting over are a majority. Their
 * voters vote again as soon as all of them run, and a voter without a store can start over. */
static bool majority_is_left(const struct doctor *doctor)
{
    return doctor->voter_count - count_starting(doctor) - count_refused(doctor) >=
           doctor->voter_count / 2 + 1;
}

/* Returns whether half of an even number of voters vote now. A voter that starts over needs more
 * than half of the others, so this half is enough for it. But a voter of the half that is restarted
 * does not vote before a majority answers (docs/PROTOCOL.md, rule 26). */
static bool half_votes(const struct doctor *doctor)
{
    return 2 * count_up(doctor) == doctor->voter_count &&
           doctor_value(doctor, NULL, "voters_complete", 1) != 0;
}

static bool rejoin_helps(const struct doctor *doctor)
{
    return majority_is_left(doctor) || half_votes(doctor);
}

static void look_at_stores(struct doctor *doctor)
{
    size_t starting = count_starting(doctor);
    size_t refused = count_refused(doctor);
    struct finding *finding;

    if (rejoin_helps(doctor)) {
        return;
    }
    if (refused > 0) {
        finding = doctor_find(doctor, FINDING_ERROR, "voters", NULL,
                              "%zu of %zu stores are refused or start over: the others are no "
                              "majority",
                              starting + refused, doctor->voter_count);
        doctor_advise(finding, "the stores that the cell knows, of a majority",
                      starting > 0
                          ? "stop the agent that starts over and had a good store, then: "
                            "holdfast member rejoin --undo; if state_dirs were mixed up, put each "
                            "back on its host; if the stores are lost for good: OPERATIONS.md, "
                            "\"Two of three are gone\""
                          : "if state_dirs were mixed up, put each back on its host; if the "
                            "stores are lost for good: OPERATIONS.md, \"Two of three are gone\"");
        return;
    }
    finding = doctor_find(doctor, FINDING_ERROR, "voters", NULL,
                          "%zu of %zu start over at the same time: they wait for each other",
                          starting, doctor->voter_count);
    doctor_advise(
        finding, "one at a time",
        "on the host whose voter began to start over last, with its agent stopped: holdfast "
        "member rejoin --undo (--help has more); then the others go on. If its old store is lost, "
        "too: OPERATIONS.md, \"Two of three are gone\"");
}

static void voter_is_refused(struct doctor *doctor, const char *name)
{
    struct finding *finding;

    if (starts_over(doctor, name)) {
        voter_starts_over(doctor, name);
        return;
    }
    if (doctor_value(doctor, name, "rules_differ", 0) != 0) {
        finding = doctor_find(
            doctor, FINDING_ERROR, "config", name, "%s",
            judged_text(&doctor->judged, "rules_differ", name,
                        "it has other voters or times in its configuration than this agent"));
        doctor_advise(finding, "the same [voters], session_ttl, grace_period and max_drift",
                      "compare the two files; rules_differ in this agent's log says what differs");
        return;
    }
    finding = doctor_find(
        doctor, FINDING_ERROR, "voters", name, "%s",
        judged_text(
            &doctor->judged, "voter_refused", name,
            "it does not vote: its store is not the one that the cell knows, or an old copy"));
    doctor_advise(finding, "the store that it had",
                  half_votes(doctor)
                      ? "put its own state_dir back if it was mixed up; else, on that host: "
                        "holdfast member rejoin --help. Restart none of the voters that answer "
                        "until it votes: they would wait for it, and it for them"
                  : majority_is_left(doctor)
                      ? "put its own state_dir back if it was mixed up; else, on that host: "
                        "holdfast member rejoin --help"
                      : "put its own state_dir back; it cannot start over now, see the other "
                        "finding about stores");
}

/* Returns whether that voter has been away for so long that nobody is about to start it. */
static bool is_away(const struct doctor *doctor, const struct doctor_voter *voter)
{
    int64_t uptime_ns = doctor_value(doctor, NULL, "uptime_ns", 0);
    int64_t age_ns = doctor_value(doctor, voter->name, "answered_age_ns", -1);

    return voter->state == HF_VOTER_DOWN && (age_ns >= 0 ? age_ns : uptime_ns) >= away_ns;
}

/* Returns whether the doctor knows no way back to a majority: too many voters have been away for
 * long, or have a store that is refused, and neither a rejoin nor its undo helps. */
static bool majority_is_gone(const struct doctor *doctor)
{
    size_t away = 0;
    size_t refused = count_refused(doctor);

    for (size_t i = 0; i < doctor->voter_count; i++) {
        away += is_away(doctor, &doctor->voters[i]);
    }
    return away > 0 && count_starting(doctor) == 0 && !half_votes(doctor) &&
           doctor->voter_count - away - refused < doctor->voter_count / 2 + 1;
}

static void look_at_voters(struct doctor *doctor)
{
    size_t up = count_up(doctor);
    size_t majority = doctor->voter_count / 2 + 1;

    for (size_t i = 0; i < doctor->voter_count; i++) {
        const struct doctor_voter *voter = &doctor->voters[i];

        if (voter->state == HF_VOTER_DOWN) {
            voter_is_down(doctor, voter->name);
        } else if (voter->state == HF_VOTER_REFUSED) {
            voter_is_refused(doctor, voter->name);
        }
    }
    look_at_stores(doctor);
    if (up >= majority) {
        doctor_find(doctor, FINDING_OK, "voters", NULL, "%zu of %zu answer", up,
                    doctor->voter_count);
        return;
    }
    struct finding *finding = doctor_find(doctor, FINDING_ERROR, "voters", NULL,
                                          "%zu of %zu answer", up, doctor->voter_count);
    snprintf(finding->expected, sizeof finding->expected, "a majority, %zu", majority);
    if (majority_is_gone(doctor)) {
        snprintf(finding->remedy, sizeof finding->remedy, "%s",
                 "start those that do not answer, with the state_dirs that they had, on other "
                 "machines if need be: the cell then goes on by itself. Only if the stores of so "
                 "many are lost for good: OPERATIONS.md, \"Two of three are gone\"");
        return;
    }
    if (half_votes(doctor)) {
        snprintf(finding->remedy, sizeof finding->remedy, "%s",
                 "start those that do not answer, with the state_dirs that they had. A voter whose "
                 "store is lost can start over (OPERATIONS.md, \"A voter's store\"), on another "
                 "machine with its name and address if need be. Until one of them votes, restart "
                 "none of those that answer");
        return;
    }
    snprintf(finding->remedy, sizeof finding->remedy,
             "bring as many voters back%s; until then no lock changes hands between hosts",
             count_starting(doctor) > 0 ? ", or undo a rejoin (holdfast member rejoin --undo)"
                                        : "");
}

/* Reports agents of different releases. Such agents work together, but the upgrade should be
 * finished soon. */
static void look_at_versions(struct doctor *doctor)
{
    const struct fact *own = doctor_fact(doctor, NULL, "version");

    for (size_t i = 0; own != NULL && i < doctor->voter_count; i++) {
        const char *name = doctor->voters[i].name;
        const struct fact *version = doctor_fact(doctor, name, "version");

        if (version == NULL || version->text[0] == '\0' || strcmp(version->text, own->text) == 0) {
            continue;
        }
        struct finding *finding = doctor_find(doctor, FINDING_WARN, "version", name,
                                              "it runs %s, this agent %s", version->text,
                                              own->text);
        doctor_advise(finding, "the same version everywhere, except during an upgrade",
                      "go on with the upgrade: OPERATIONS.md, Restart and upgrade");
    }
}

/* Reports a configuration that names other voters than the cell has. The agent follows the cell's
 * record, but it begins with [voters] if its store is lost. Without a majority the agent may have
 * missed a change of the voters. In that case the doctor does not show the agent's record as the
 * right text. */
static void look_at_record(struct doctor *doctor)
{
    int64_t number = doctor_value(doctor, NULL, "voters_number", 0);
    char lines[DOCTOR_TEXT_MAX] = "";
    size_t used = 0;

    if (doctor_value(doctor, NULL, "voters_differ", 0) == 0) {
        return;
    }
    if (count_up(doctor) < doctor->voter_count / 2 + 1) {
        struct finding *unsure = doctor_find(
            doctor, FINDING_WARN, "config", NULL,
            "[voters] is not this agent's record of voters (record %" PRId64
            "), which may be old: no majority answers",
            number);
        doctor_advise(unsure, "the voters that the cell uses",
                      "bring a majority back, and look again: either of the two may be right");
        return;
    }
    for (size_t i = 0; i < doctor->voter_count && used < sizeof lines; i++) {
        const struct doctor_voter *voter = &doctor->voters[i];
        int length = snprintf(lines + used, sizeof lines - used, "%s%s = %s", i > 0 ? "; " : "",
                              voter->name,
                              voter->address[0] != '\0' ? voter->address : "(its address)");
        used += length > 0 ? (size_t)length : 0;
    }
    struct finding *finding = doctor_find(
        doctor, FINDING_WARN, "config", NULL,
        "[voters] differs from the voters of the cell (record %" PRId64 ")", number);
    doctor_advise(finding, lines,
                  "write these lines into [voters]; `holdfast member` changes the voters");
}

/* Reports a change of the voters that is decided and not complete. Most changes are complete within
 * a second. */
static void look_at_change(struct doctor *doctor)
{
    if (doctor_value(doctor, NULL, "voters_complete", 1) != 0) {
        return;
    }
    struct finding *finding = doctor_find(doctor, FINDING_WARN, "voters", NULL,
                                          "the last change of the voters (record %" PRId64
                                          ") is not complete yet",
                                          doctor_value(doctor, NULL, "voters_number", 0));
    doctor_advise(finding, "a complete change, mostly within a second",
                  "wait, and do not switch a removed voter off. If it takes longer, start the "
                  "voters that do not answer: until the change is complete, no other one begins, "
                  "and no voter starts over");
}

static void look_at_own_vote(struct doctor *doctor)
{
    static const struct {
        const char *status;
        enum finding_level level;
        const char *found;
        const char *expected;
        const char *remedy;
    } known[] = {
        {"refused", FINDING_ERROR, "this voter does not vote: its store is refused",
         "the store that the cell knows of this voter",
         "put the right state_dir back; the finding about voters says whether to start over"},
        {"empty", FINDING_WARN,
         "this voter does not vote yet: its store is empty, and it waits for all the others to "
         "make a new cell",
         "all voters at once: that makes a new cell",
         "start those that do not answer; voter_waits in this agent's log names them"},
        {"listed", FINDING_WARN,
         "this voter does not vote yet: it waits until a majority of the voters, itself included, "
         "has reported which commit of this voter's store it saw last",
         "their answers, soon after the start",
         "start those that do not answer; voter_waits in this agent's log names them"},
        {"recovering", FINDING_WARN, "the cell was recovered: this voter does not vote yet",
         "no lock is granted until all sessions and lock-delays from before the recovery are over",
         "wait: recovery_waits in this agent's log has how long; a restart begins the wait anew"},
        {"rejoining", FINDING_WARN,
         "this voter does not vote yet: it starts over, and waits for what the others have in "
         "their stores",
         "answers of more than half of all voters besides this one, until it has all their data",
         "start those that do not answer; voter_waits in this agent's log names them"},
    };
    const struct fact *votes = doctor_fact(doctor, NULL, "votes");
    struct finding *finding;

    if (votes == NULL || votes->value != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(votes->text, known[i].status) == 0) {
            finding = doctor_find(doctor, known[i].level, "store", NULL, "%s", known[i].found);
            doctor_advise(finding, known[i].expected, known[i].remedy);
            return;
        }
    }
    finding = doctor_find(doctor, FINDING_WARN, "store", NULL,
                          "this voter does not vote: its store is %s", votes->text);
    doctor_advise(finding, "a store that votes, soon after the start",
                  "voter_waits in this agent's log names what it waits for");
}

static void look_at_coordinators(struct doctor *doctor)
{
    int64_t known = 0;
    char list[DOCTOR_TEXT_MAX] = "";
    size_t used = 0;

    for (size_t i = 0; i < doctor->voter_count; i++) {
        int64_t count = doctor_value(doctor, doctor->voters[i].name, "partitions", 0);

        known += count;
        if (used < sizeof list) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s %" PRId64,
                                     i > 0 ? ", " : "", doctor->voters[i].name, count);
        }
    }
    if (known >= PARTITIONS) {
        doctor_find(doctor, FINDING_OK, "coordinators", NULL, "of %d partitions: %s", PARTITIONS,
                    list);
        return;
    }
    struct finding *finding = doctor_find(doctor, FINDING_WARN, "coordinators", NULL,
                                          "of %d partitions: %s", PARTITIONS, list);
    doctor_advise(
        finding, "a coordinator for every partition",
        "wait a few seconds after an agent has started or ended; else see the findings about "
        "voters");
}

/* ---- times ---- */

/* Reports slow voters. A lease is renewed every third of a ttl, so the answers of a majority must
 * arrive in less time than that. */
static void look_at_round_trips(struct doctor *doctor)
{
    int64_t ttl_ns = doctor_value(doctor, NULL, "session_ttl_ns", 0);
    char worst[TEXT_DURATION_SIZE];
    char bound[TEXT_DURATION_SIZE];
    int64_t longest_ns = -1;
    size_t quick = 0;

    for (size_t i = 0; ttl_ns > 0 && i < doctor->voter_count; i++) {
        const char *name = doctor->voters[i].name;
        int64_t took_ns = doctor_value(doctor, name, "round_trip_worst_ns", -1);

        quick += took_ns >= 0 && took_ns <= ttl_ns / 3;
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
        if (took_ns > ttl_ns / 10) {
            struct finding *finding = doctor_find(
                doctor, FINDING_WARN, "renewals", name,
                "an acknowledgement took up to %s in the last minutes",
                text_duration(worst, took_ns));
            snprintf(finding->expected, sizeof finding->expected,
                     "below %s, a tenth of session_ttl", text_duration(bound, ttl_ns / 10));
            snprintf(
                finding->remedy, sizeof finding->remedy,
                "check its disk and the network to it, or raise session_ttl in the whole cell");
        }
    }
    if (longest_ns < 0) {
        return;
    }
    if (quick < doctor->voter_count / 2 + 1 && count_up(doctor) > doctor->voter_count / 2) {
        struct finding *finding = doctor_find(
            doctor, FINDING_ERROR, "renewals", NULL,
            "a majority took longer for an acknowledgement than the time between two renewals");
        snprintf(finding->expected, sizeof finding->expected, "below %s, a third of session_ttl",
                 text_duration(bound, ttl_ns / 3));
        snprintf(
            finding->remedy, sizeof finding->remedy,
            "leases are close to their end: raise session_ttl in the whole cell, or make disks "
            "and network faster");
    } else if (longest_ns <= ttl_ns / 10) {
        doctor_find(doctor, FINDING_OK, "renewals", NULL,
                    "acknowledged within %s, sent every %s, the lease is %s",
                    text_duration(worst, longest_ns), text_duration(bound, ttl_ns / 3),
                    text_duration((char[TEXT_DURATION_SIZE]){""}, ttl_ns));
    }
}

/* Compares the bounds of a voter's clock rate with max_drift. Reports a rate that is certainly
 * beyond max_drift, or beyond half of it. */
static void look_at_clock_of(struct doctor *doctor, const char *name)
{
    const struct fact *low = doctor_fact(doctor, name, "clock_low_ppm");
    const struct fact *high = doctor_fact(doctor, name, "clock_high_ppm");
    int64_t bound_ppm = doctor_value(doctor, NULL, "max_drift_percent", 0) * PPM_OF_PERCENT;
    struct finding *finding;

    if (low == NULL || high == NULL) {
        if (doctor_value(doctor, name, "self", 0) == 0 &&
            doctor_value(doctor, name, "answered_age_ns", -1) >= 0) {
            doctor_find(doctor, FINDING_OK, "clocks", name, "not measured yet: ask again soon");
        }
        return;
    }
    int64_t least_ppm = low->value > 0 ? low->value : high->value < 0 ? -high->value : 0;
    if (least_ppm == 0 || least_ppm <= bound_ppm / 2) {
        doctor_find(doctor, FINDING_OK, "clocks", name,
                    "its clock against this one: %+" PRId64 " to %+" PRId64 " ppm", low->value,
                    high->value);
        return;
    }
    finding = doctor_find(doctor, least_ppm > bound_ppm ? FINDING_ERROR : FINDING_WARN, "clocks",
                          name, "its clock runs %s than this one by %" PRId64 " to %" PRId64 " ppm",
                          low->value > 0 ? "faster" : "slower", least_ppm,
                          low->value > 0 ? high->value : -low->value);
    snprintf(finding->expected, sizeof finding->expected,
             "less than half of max_drift, %" PRId64 " ppm", bound_ppm / 2);
    snprintf(
        finding->remedy, sizeof finding->remedy,
        "see what adjusts the clocks of both hosts (chronyc tracking), and whether one of them "
        "is a virtual machine that is paused; beyond max_drift leases are not safe");
}

/* ---- the network ---- */

static void look_at_inbox(struct doctor *doctor)
{
    const struct fact *refused = doctor_fact(doctor, NULL, "refused_age_ns");
    struct finding *finding;
    char ago[TEXT_DURATION_SIZE];

    if (doctor_value(doctor, NULL, "inbox_unreachable", 0) != 0) {
        finding = doctor_find(doctor, FINDING_ERROR, "inbox", NULL,
                              "this agent's inbox accepts no connections");
        doctor_advise(finding, "an inbox that the agent itself can reach",
                      "see the findings about descriptors and about tls: with a certificate that "
                      "is not valid today no connection comes up; else restart the agent");
    }
    if (refused != NULL && refused->value < lately_ns) {
        finding = doctor_find(doctor, FINDING_WARN, "inbox", NULL, "refused %s ago: %s",
                              text_duration(ago, refused->value), refused->text);
        doctor_advise(finding,
                      "connections of this cell's agents only, all of a version that this "
                      "one understands",
                      "find out which program that is: an agent of another version, another cell, "
                      "a wrong certificate, or a stranger");
    } else if (doctor_fact(doctor, NULL, "inbox_unreachable") != NULL) {
        doctor_find(doctor, FINDING_OK, "inbox", NULL, "nobody was refused lately");
    }
}

/* Reports files of [tls] whose present contents would keep an agent from starting. This agent goes
 * on with the contents that it read earlier. */
static void look_at_tls_files(struct doctor *doctor)
{
    const struct fact *kept = doctor_fact(doctor, NULL, "tls_kept");
    struct finding *finding;

    if (kept == NULL || kept->value == 0) {
        return;
    }
    finding = doctor_find(doctor, FINDING_ERROR, "tls", NULL,
                          "an agent could not start with the files of [tls] now: %s", kept->text);
    doctor_advise(finding, "files with which an agent can start",
                  "correct the files: the agent reads them within seconds. Until then do not "
                  "restart the agent, because it would not start");
}

/* Adds the agent's judgement of its certificates. Returns false if the agent finds no fault in
 * them. */
static bool look_at_certificates(struct doctor *doctor)
{
    static const struct {
        const char *name;
        enum finding_level level;
        const char *expected;
        const char *remedy;
    } known[] = {
        {"certificate_over", FINDING_ERROR, "certificates that are valid now",
         "see whether this host's clock is right (date); issue a new certificate, or if the CA's "
         "has ended, make a new CA (docs/TLS.md, \"New certificates\"); the agent reads the files "
         "within minutes, or at systemctl reload holdfastd"},
        {"certificate_early", FINDING_ERROR, "certificates that are valid now",
         "set this host's clock (date), or that of the machine where the certificate was made, "
         "and make a new certificate (docs/TLS.md)"},
        {"certificate_ends", FINDING_WARN,
         "certificates that are valid for two weeks more, or for a quarter of their lifetime if "
         "that is less",
         "issue a new certificate, and put it in place of the old one; or if the CA's ends, change "
         "to a new CA (docs/TLS.md, \"New certificates\"); the agent reads the files within "
         "minutes, or at systemctl reload holdfastd"},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *text = judged_text(&doctor->judged, known[i].name, NULL, NULL);

        if (text != NULL) {
            doctor_advise(doctor_find(doctor, known[i].level, "tls", NULL, "%s", text),
                          known[i].expected, known[i].remedy);
            return true;
        }
    }
    return false;
}

/* Reports whether strangers can read the messages between agents, and until when the certificates
 * are valid. */
static void look_at_tls(struct doctor *doctor)
{
    const struct fact *end = doctor_fact(doctor, NULL, "tls_end_s");
    struct finding *finding;
    char left[TEXT_DURATION_SIZE];

    if (doctor_value(doctor, NULL, "tls", -1) == 0) {
        if (doctor_value(doctor, NULL, "listens_local", 1) != 0) {
            doctor_find(doctor, FINDING_OK, "tls", NULL, "none, the agent listens on the loopback");
            return;
        }
        finding = doctor_find(doctor, FINDING_WARN, "tls", NULL,
                              "none: this agent trusts every program that can reach its port");
        doctor_advise(finding, "TLS, or a network that only the cell's hosts are on",
                      "docs/TLS.md makes a CA and certificates in a minute");
        return;
    }
    if (end == NULL) {
        return;
    }
    if (!look_at_certificates(doctor)) {
        int64_t left_s = end->value - (int64_t)time(NULL);
        int64_t left_ns = (left_s < FOREVER_S ? left_s : FOREVER_S) * 1000000000;

        doctor_find(doctor, FINDING_OK, "tls", NULL, "certificates are valid for %s",
                    text_duration(left, left_ns));
    }
}

/* Reports failed handshakes. NNG does not say why a handshake failed, so the finding names all
 * causes, the likeliest first. */
static void look_at_handshakes(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->voter_count; i++) {
        const char *name = doctor->voters[i].name;
        const struct fact *connected = doctor_fact(doctor, name, "connected");

        if (connected == NULL || connected->value != 0 ||
            strstr(connected->text, "TLS handshake") == NULL) {
            continue;
        }
        struct finding *finding = doctor_find(doctor, FINDING_WARN, "tls", name,
                                              "its certificate is not of this cell's CA, not its "
                                              "own, or not valid today; or it refuses this "
                                              "agent's");
        doctor_advise(
            finding, "certificates of one CA on both hosts, each with its agent's name",
            "on each host: openssl verify -CAfile CA CERT, with the other's CERT; `openssl x509 "
            "-noout -subject -dates`; `holdfast doctor` there shows its dates and its clock "
            "(docs/TLS.md)");
    }
}

static void look_at_agents(struct doctor *doctor)
{
    int64_t known = doctor_value(doctor, NULL, "agents_known", 0);
    int64_t silent = doctor_value(doctor, NULL, "agents_silent", 0);

    if (known == 0) {
        return;
    }
    if (silent == 0) {
        doctor_find(doctor, FINDING_OK, "agents", NULL,
                    "%" PRId64 " known, all have reported lately", known);
        return;
    }
    struct finding *finding = doctor_find(doctor, FINDING_WARN, "agents", NULL,
                                          "%" PRId64 " of %" PRId64
                                          " known have reported nothing for longer than a lease",
                                          silent, known);
    doctor_advise(finding, "agents that run",
                  "start them, unless their hosts were taken out of the cell (they are forgotten "
                  "after ten minutes)");
}

void doctor_look_at_cell(struct doctor *doctor)
{
    look_at_voters(doctor);
    if (!doctor->answered) {
        return;
    }
    look_at_versions(doctor);
    look_at_record(doctor);
    look_at_change(doctor);
    look_at_own_vote(doctor);
    look_at_coordinators(doctor);
    look_at_round_trips(doctor);
    for (size_t i = 0; i < doctor->voter_count; i++) {
        look_at_clock_of(doctor, doctor->voters[i].name);
    }
    look_at_inbox(doctor);
    look_at_tls(doctor);
    look_at_tls_files(doctor);
    look_at_handshakes(doctor);
    look_at_agents(doctor);
}
