/* The judgement about an agent: see judgement.h. */
#include "observe/judgement.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PPM_OF_PERCENT = 10000, MIB = 1024 * 1024 };

static const int64_t record_recent_ns = 60000000000;

static const char *const names[REASON_KINDS] = {
    [REASON_SESSION_LOST] = "session_lost",
    [REASON_SESSION_NONE] = "session_none",
    [REASON_SESSION_JEOPARDY] = "session_jeopardy",
    [REASON_NO_MAJORITY] = "no_majority",
    [REASON_SOCKET_GONE] = "socket_gone",
    [REASON_RECORDS_FAIL] = "records_fail",
    [REASON_NAMESPACE_DOWN] = "namespace_down",
    [REASON_NOT_VOTING] = "not_voting",
    [REASON_VOTER_REFUSED] = "voter_refused",
    [REASON_VOTER_STARTS_OVER] = "voter_starts_over",
    [REASON_VOTER_DOWN] = "voter_down",
    [REASON_RULES_DIFFER] = "rules_differ",
    [REASON_RENEWALS_SLOW] = "renewals_slow",
    [REASON_CLOCK_ASTRAY] = "clock_astray",
    [REASON_CLOCK_DIFFERS] = "clock_differs",
    [REASON_FLUSH_SLOW] = "flush_slow",
    [REASON_DISK_FULL] = "disk_full",
    [REASON_STATE_DIR_OPEN] = "state_dir_open",
    [REASON_FILES_GONE] = "files_gone",
    [REASON_INBOX_DEAF] = "inbox_deaf",
    [REASON_CERTIFICATE_OVER] = "certificate_over",
    [REASON_CERTIFICATE_EARLY] = "certificate_early",
    [REASON_CERTIFICATE_ENDS] = "certificate_ends",
    [REASON_CERTIFICATE_KEPT] = "certificate_kept",
    [REASON_HTTP_DOWN] = "http_down",
    [REASON_DESCRIPTORS_FULL] = "descriptors_full",
    [REASON_CLIENTS_FULL] = "clients_full",
};

const char *judgement_word(enum judgement_level level)
{
    static const char *const words[JUDGEMENT_LEVELS] = {"well", "degraded", "failing"};
    return words[level];
}

const char *reason_name(enum reason_kind kind)
{
    return names[kind];
}

enum judgement_level reason_level(enum reason_kind kind)
{
    return kind < REASON_NAMESPACE_DOWN ? JUDGEMENT_FAILING : JUDGEMENT_DEGRADED;
}

/* Adds a reason. The checks below add their reasons in the order of enum reason_kind, the worst
 * first. */
__attribute__((format(printf, 4, 5))) static void add(struct judgement *out, enum reason_kind kind,
                                                      const char *subject, const char *format, ...)
{
    if (out->count == REASONS_MAX) {
        return; /* seven voters and all namespaces together have fewer reasons */
    }
    struct reason *reason = &out->reasons[out->count++];
    va_list arguments;
    reason->kind = kind;
    snprintf(reason->subject, sizeof(reason->subject), "%s", subject != NULL ? subject : "");
    va_start(arguments, format);
    vsnprintf(reason->text, sizeof(reason->text), format, arguments);
    va_end(arguments);
    for (char *at = reason->text; *at != '\0'; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at;
    }
    out->level = reason_level(kind) > out->level ? reason_level(kind) : out->level;
}

/* ---- what is not served ---- */

/* The renewal reports jeopardy also for a session that has not begun yet. `begun` distinguishes
 * such a session from one that is in jeopardy. */
static void judge_session(const struct judgement_facts *facts, struct judgement *out)
{
    bool begun = facts->was_safe || facts->session == RENEWAL_LOST;
    bool lost = facts->session == RENEWAL_LOST || (!begun && facts->session_ended);
    if (facts->session == RENEWAL_SAFE) {
        return;
    }
    if (facts->astray) {
        add(out, lost ? REASON_SESSION_LOST : REASON_SESSION_JEOPARDY, NULL,
            "the kernel adjusts the clock by more than max_drift: no hold of this host counts");
    } else if (lost) {
        add(out, REASON_SESSION_LOST, NULL,
            "the session is lost; a new one begins when a majority answers");
    } else if (!begun) {
        add(out, REASON_SESSION_NONE, NULL,
            "no majority of the voters has answered since the start");
    } else {
        add(out, REASON_SESSION_JEOPARDY, NULL,
            "in jeopardy: no majority of the voters has renewed the lease, which ran out %.1f s "
            "ago",
            -(double)facts->remaining_ns / 1e9);
    }
}

static bool is_refused(const struct judgement_voter *voter)
{
    return !voter->self && voter->refused && !voter->starts_over && !voter->rules_differ;
}

static bool is_down(const struct judgement_voter *voter)
{
    return !voter->self && !voter->up && !voter->refused && !voter->starts_over;
}

/* While the session is safe, the holds of this host count and its processes hand its locks on. But
 * without a majority this host gets no further lock. If the session is not safe, judge_session()
 * has given the reason. */
static void judge_majority(const struct judgement_facts *facts, struct judgement *out)
{
    uint32_t votes = 0;
    for (uint32_t i = 0; i < facts->voter_count; i++) {
        const struct judgement_voter *voter = &facts->voters[i];
        votes += voter->self ? facts->not_vote == NULL
                             : voter->up && !voter->refused && !voter->starts_over;
    }
    if (facts->session == RENEWAL_SAFE && facts->voter_count > 0 &&
        votes <= facts->voter_count / 2) {
        add(out, REASON_NO_MAJORITY, NULL,
            "no majority of the voters answers (%" PRIu32 " of %" PRIu32 "): this host gets no "
            "lock that it does not have already",
            votes, facts->voter_count);
    }
}

/* A process can spoil its own namespace. One such namespace must not make the agent look as if it
 * served nobody, because a monitor might restart the agent. */
static void judge_namespaces(const struct judgement_facts *facts, struct judgement *out)
{
    uint32_t down = 0;
    for (uint32_t i = 0; i < facts->namespace_count; i++) {
        if ((facts->down >> i & 1) != 0) {
            down++;
            add(out, REASON_NAMESPACE_DOWN, facts->namespaces[i],
                "its region %s: its locks are not served until the agent has made a new region",
                (facts->roomless >> i & 1) != 0 ? "had a hole when /dev/shm was full"
                                                : "was damaged");
        }
    }
    if (down > 0 && down == facts->namespace_count) {
        out->level = JUDGEMENT_FAILING;
    }
}

/* ---- the cell ---- */

static void judge_own_vote(const struct judgement_facts *facts, struct judgement *out)
{
    static const struct {
        const char *status;
        const char *text;
    } known[] = {
        {"refused", "this voter does not vote: its store is refused"},
        {"empty", "this voter does not vote yet: its store is empty, and it waits for all the "
                  "others to make a new cell"},
        {"listed", "this voter does not vote yet: it waits until a majority of the voters has "
                   "reported which commit of this voter's store it saw last"},
        {"recovering", "the cell was recovered: this voter does not vote until all sessions and "
                       "lock-delays from before the recovery are over"},
        {"rejoining", "this voter does not vote yet: it starts over, and waits for what the others "
                      "have in their stores"},
    };
    for (size_t i = 0; facts->not_vote != NULL && i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(facts->not_vote, known[i].status) == 0) {
            add(out, REASON_NOT_VOTING, NULL, "%s", known[i].text);
        }
    }
}

static void judge_voters(const struct judgement_facts *facts, struct judgement *out)
{
    const struct judgement_voter *end = facts->voters + facts->voter_count;
    for (const struct judgement_voter *voter = facts->voters; voter < end; voter++) {
        if (is_refused(voter)) {
            add(out, REASON_VOTER_REFUSED, voter->name,
                "it does not vote: its store is not the one that the cell knows, or an old copy");
        }
    }
    for (const struct judgement_voter *voter = facts->voters; voter < end; voter++) {
        if (!voter->self && voter->starts_over) {
            add(out, REASON_VOTER_STARTS_OVER, voter->name,
                "it starts over, and does not vote before it has read what the other voters know");
        }
    }
    for (const struct judgement_voter *voter = facts->voters; voter < end; voter++) {
        if (is_down(voter) && voter->connected) {
            add(out, REASON_VOTER_DOWN, voter->name, "connected, but it answers nothing");
        } else if (is_down(voter)) {
            add(out, REASON_VOTER_DOWN, voter->name, "it cannot be reached%s%s",
                voter->why_down[0] != '\0' ? ": " : "", voter->why_down);
        }
    }
    for (const struct judgement_voter *voter = facts->voters; voter < end; voter++) {
        if (!voter->self && voter->rules_differ) {
            add(out, REASON_RULES_DIFFER, voter->name,
                "it has other voters or times in its configuration than this agent");
        }
    }
}

/* A lease is renewed every third of the ttl. If a majority needs longer for its acknowledgements,
 * the next renewal is due before the last one has any effect. */
static void judge_renewals(const struct judgement_facts *facts, struct judgement *out)
{
    uint32_t measured = 0;
    uint32_t quick = 0;
    for (uint32_t i = 0; i < facts->voter_count; i++) {
        int64_t worst_ns = facts->voters[i].round_trip_worst_ns;
        measured += worst_ns >= 0;
        quick += worst_ns >= 0 && worst_ns <= facts->session_ttl_ns / 3;
    }
    if (facts->session == RENEWAL_SAFE && measured > facts->voter_count / 2 &&
        quick <= facts->voter_count / 2) {
        add(out, REASON_RENEWALS_SLOW, NULL,
            "a majority took longer for an acknowledgement than the time between two renewals");
    }
}

static void judge_clocks(const struct judgement_facts *facts, struct judgement *out)
{
    int64_t max_ppm = (int64_t)facts->max_drift_percent * PPM_OF_PERCENT;
    if (facts->astray && facts->session == RENEWAL_SAFE) {
        add(out, REASON_CLOCK_ASTRAY, NULL,
            "the kernel adjusts the clock by more than max_drift: the holds of this host go on, "
            "but no session of another host ends until the clock is well");
    }
    for (uint32_t i = 0; i < facts->voter_count; i++) {
        const struct judgement_voter *voter = &facts->voters[i];
        if (!voter->self && voter->clock_least_ppm > max_ppm) {
            add(out, REASON_CLOCK_DIFFERS, voter->name,
                "its clock's rate differs from this host's by %" PRId64
                " ppm at least; max_drift allows for %" PRId64 ", and leases rest on that",
                voter->clock_least_ppm, max_ppm);
        }
    }
}

/* ---- the disk ---- */

static void judge_disk(const struct judgement_facts *facts, struct judgement *out)
{
    int64_t slow_ns = facts->session_ttl_ns / 3;
    int64_t took_ns = facts->flush_worst_ns > facts->flush_pending_ns ? facts->flush_worst_ns
                                                                      : facts->flush_pending_ns;
    if (took_ns > slow_ns) {
        add(out, REASON_FLUSH_SLOW, NULL,
            "a flush of the last minutes took %.1f s, more than a third of session_ttl",
            (double)took_ns / 1e9);
    }
    if (facts->disk_free >= 0 && facts->disk_free / MIB < JUDGEMENT_DISK_FULL_MIB) {
        add(out, REASON_DISK_FULL, NULL,
            "%" PRId64 " MiB are free under %s: an agent that cannot write its store ends",
            facts->disk_free / MIB, facts->state_dir);
    } else if (facts->disk_inodes >= 0 && facts->disk_inodes < JUDGEMENT_INODES_FULL) {
        add(out, REASON_DISK_FULL, NULL,
            "%" PRId64 " more files can be made under %s: a new process needs one",
            facts->disk_inodes, facts->state_dir);
    }
    if (facts->state_dir_open) {
        add(out, REASON_STATE_DIR_OPEN, NULL, "users other than the agent's may write to %s",
            facts->state_dir);
    }
    if (facts->files_gone != NULL) {
        add(out, REASON_FILES_GONE, NULL, "moved or removed: %s", facts->files_gone);
    }
}

/* ---- the network ---- */

/* Names the certificate by its key in the configuration, because an operator who has just replaced
 * one of the two must see which one is meant. */
static const char *certificate_name(bool is_ca)
{
    return is_ca ? "the CA's certificate ([tls] ca)" : "this agent's certificate ([tls] cert)";
}

static void judge_certificates(const struct judgement_facts *facts, struct judgement *out)
{
    int64_t left_s = facts->tls_end_s - facts->now_s;
    if (facts->tls_end_s != 0 && left_s <= 0) {
        add(out, REASON_CERTIFICATE_OVER, NULL,
            "%s has ended: no new connection to another agent comes up",
            certificate_name(facts->tls_end_ca));
    } else if (facts->tls_end_s != 0 && facts->tls_begin_s > facts->now_s) {
        add(out, REASON_CERTIFICATE_EARLY, NULL,
            "by this host's clock a certificate is not valid yet");
    } else if (facts->tls_end_s != 0 && facts->now_s > facts->tls_soon_s) {
        add(out, REASON_CERTIFICATE_ENDS, NULL, "%s ends in %" PRId64 " h",
            certificate_name(facts->tls_soon_ca), (facts->tls_soon_end_s - facts->now_s) / 3600);
    }
    if (facts->tls_kept != NULL) {
        add(out, REASON_CERTIFICATE_KEPT, NULL, "the files of [tls] cannot be used now: %s",
            facts->tls_kept);
    }
}

static bool is_full(int64_t used, int64_t max)
{
    return used >= 0 && max > 0 && used >= max - max / JUDGEMENT_FULL_PART;
}

/* ---- the whole ---- */

void judgement_facts_init(struct judgement_facts *facts)
{
    *facts = (struct judgement_facts){.session = RENEWAL_SAFE,
                                      .was_safe = true,
                                      .record_failed_age_ns = -1,
                                      .record_failed = "",
                                      .disk_free = -1,
                                      .disk_inodes = -1,
                                      .flush_worst_ns = -1,
                                      .flush_pending_ns = -1,
                                      .socket = "",
                                      .state_dir = "",
                                      .descriptors_used = -1,
                                      .clients = -1};
}

void judgement_make(const struct judgement_facts *facts, struct judgement *out)
{
    out->level = JUDGEMENT_WELL;
    out->count = 0;
    judge_session(facts, out);
    judge_majority(facts, out);
    if (facts->socket_gone) {
        add(out, REASON_SOCKET_GONE, NULL, "%s was removed: no new process finds this agent",
            facts->socket);
    }
    if (facts->record_failed_age_ns >= 0 && facts->record_failed_age_ns < record_recent_ns) {
        add(out, REASON_RECORDS_FAIL, NULL,
            "no file could be made for a new process, which was refused: %s", facts->record_failed);
    }
    judge_namespaces(facts, out);
    judge_own_vote(facts, out);
    judge_voters(facts, out);
    judge_renewals(facts, out);
    judge_clocks(facts, out);
    judge_disk(facts, out);
    if (facts->deaf) {
        add(out, REASON_INBOX_DEAF, NULL, "this agent's inbox takes no connections");
    }
    judge_certificates(facts, out);
    if (facts->http_down != NULL) {
        add(out, REASON_HTTP_DOWN, NULL, "[http] does not listen: %s", facts->http_down);
    }
    if (is_full(facts->descriptors_used, facts->descriptors_max)) {
        add(out, REASON_DESCRIPTORS_FULL, NULL, "%" PRId64 " of %" PRId64 " descriptors in use",
            facts->descriptors_used, facts->descriptors_max);
    }
    if (is_full(facts->clients, facts->clients_max)) {
        add(out, REASON_CLIENTS_FULL, NULL, "%" PRId64 " of %" PRId64 " clients are connected",
            facts->clients, facts->clients_max);
    }
}

size_t judgement_text(const struct judgement *judgement, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "%s\n", judgement_word(judgement->level));
    for (uint32_t i = 0; i < judgement->count && used < size; i++) {
        const struct reason *reason = &judgement->reasons[i];
        used += (size_t)snprintf(out + used, size - used, "%s%s%s: %s\n", reason_name(reason->kind),
                                 reason->subject[0] != '\0' ? " " : "", reason->subject,
                                 reason->text);
    }
    return used < size ? used : size - 1;
}
