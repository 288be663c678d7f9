/*
 * How this agent is: well, degraded or failing, and why.
 *
 *   well      everything is served, and nothing is missing
 *   degraded  everything is served, but something is missing: one more failure may be trouble
 *   failing   something is not served: the holds of this host do not count, or it gets no further
 *             lock, or new processes are not served, or no namespace is
 *
 * Only this module judges. The status page, /healthz, the metrics, the log, `holdfast status` and
 * `holdfast doctor` show its judgement, so they cannot disagree. `holdfast doctor` shows more than
 * reasons: things to look at when there is time, and its own tests of the host.
 *
 * A judgement depends only on the facts that judge.c collects. Each reason has a stable name, for
 * monitors; docs/METRICS.md lists them.
 */
#ifndef AGENT_OBSERVE_JUDGEMENT_H
#define AGENT_OBSERVE_JUDGEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/session/renewal.h"
#include "proto/message.h"
#include "proto/region.h"

enum judgement_level { JUDGEMENT_WELL, JUDGEMENT_DEGRADED, JUDGEMENT_FAILING, JUDGEMENT_LEVELS };

enum reason_kind {
    /* reasons for which the agent is failing */
    REASON_SESSION_LOST,
    REASON_SESSION_NONE,
    REASON_SESSION_JEOPARDY,
    REASON_NO_MAJORITY,
    REASON_SOCKET_GONE,
    REASON_RECORDS_FAIL,
    /* reasons for which the agent is degraded */
    REASON_NAMESPACE_DOWN, /* failing if no namespace is served */
    REASON_NOT_VOTING,
    REASON_VOTER_REFUSED,
    REASON_VOTER_STARTS_OVER,
    REASON_VOTER_DOWN,
    REASON_RULES_DIFFER,
    REASON_RENEWALS_SLOW,
    REASON_CLOCK_ASTRAY,
    REASON_CLOCK_DIFFERS,
    REASON_FLUSH_SLOW,
    REASON_DISK_FULL,
    REASON_STATE_DIR_OPEN,
    REASON_FILES_GONE,
    REASON_INBOX_DEAF,
    REASON_CERTIFICATE_OVER,
    REASON_CERTIFICATE_EARLY,
    REASON_CERTIFICATE_ENDS,
    REASON_CERTIFICATE_KEPT,
    REASON_HTTP_DOWN,
    REASON_DESCRIPTORS_FULL,
    REASON_CLIENTS_FULL,
    REASON_KINDS,
};

enum {
    REASONS_MAX = 48,
    REASON_TEXT_MAX = 192,
    JUDGEMENT_DISK_FULL_MIB = 16,
    JUDGEMENT_INODES_FULL = 64,
    JUDGEMENT_FULL_PART = 20, /* a resource is nearly full when less than a twentieth of it is
                               * left */
};

struct judgement_voter {
    const char *name;
    bool self;
    bool up;
    bool refused;
    bool starts_over;
    bool rules_differ;
    bool connected;
    const char *why_down;        /* "": not known */
    int64_t round_trip_worst_ns; /* the longest round trip of the last minutes; -1: none was
                                  * measured */
    /* the rates of the voter's clock and of this host's clock differ by at least this much; 0: they
     * may be equal */
    int64_t clock_least_ppm;
};

/* All pointers are borrowed. -1: the number is not known; NULL: the text is not known. */
struct judgement_facts {
    int64_t session_ttl_ns;
    uint32_t max_drift_percent;
    enum renewal_state session;
    bool was_safe;      /* the session was safe in this epoch */
    bool session_ended; /* one of this agent's sessions has ended */
    int64_t remaining_ns;
    bool astray;          /* the kernel adjusts the clock by more than max_drift */
    const char *not_vote; /* the status of this voter's store, if this voter does not vote */
    uint32_t voter_count;
    struct judgement_voter voters[MESSAGE_VOTERS_MAX];
    uint32_t namespace_count;
    const char *const *namespaces;
    uint64_t down;     /* bit i: namespace i is not served */
    uint64_t roomless; /* bit i: namespace i is down because its region had no memory */
    bool socket_gone;
    const char *socket;
    int64_t record_failed_age_ns; /* how long ago a new process was refused because its client
                                   * record could not be written */
    const char *record_failed;    /* why the client record could not be written */
    const char *files_gone;       /* the names of the missing files */
    int64_t disk_free;            /* free bytes under state_dir, for this user */
    int64_t disk_inodes;
    int64_t flush_worst_ns;
    int64_t flush_pending_ns;
    bool state_dir_open; /* other users may write to state_dir */
    const char *state_dir;
    bool deaf;
    int64_t now_s;       /* wall clock */
    int64_t tls_begin_s; /* since when all certificates are valid, wall clock; 0: no TLS */
    int64_t tls_soon_s;  /* from this time on a certificate counts as ending soon */
    int64_t tls_end_s;
    int64_t tls_soon_end_s; /* the end of the certificate that tls_soon_s is about */
    bool tls_soon_ca;       /* tls_soon_s is about the CA's certificate, not this agent's */
    bool tls_end_ca;        /* tls_end_s is the end of the CA's certificate */
    const char *tls_kept;   /* why the present files of [tls] were refused; NULL: the agent uses
                           * them */
    const char *http_down;
    int64_t descriptors_used;
    int64_t descriptors_max;
    int64_t clients;
    int64_t clients_max;
};

struct reason {
    enum reason_kind kind;
    char subject[HFI_LABEL_MAX + 1]; /* the voter, or the namespace; "": this agent or its host */
    char text[REASON_TEXT_MAX];      /* without control characters */
};

struct judgement {
    enum judgement_level level;
    uint32_t count;
    struct reason reasons[REASONS_MAX]; /* the worst first */
};

/* Sets the facts of an agent that is well, with all numbers unknown. */
void judgement_facts_init(struct judgement_facts *facts);

void judgement_make(const struct judgement_facts *facts, struct judgement *out);

/* Returns "well", "degraded" or "failing". */
const char *judgement_word(enum judgement_level level);
/* Returns a name such as "voter_refused". */
const char *reason_name(enum reason_kind kind);
enum judgement_level reason_level(enum reason_kind kind);

/* Writes the judgement's word in a line, then a line "NAME: TEXT" or "NAME SUBJECT: TEXT" for each
 * reason. Returns the size; the text is cut to size - 1 bytes. */
size_t judgement_text(const struct judgement *judgement, char *out, size_t size);

#endif
