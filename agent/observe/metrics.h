/*
 * The agent's answer to monitoring: figures in the text format of Prometheus. docs/METRICS.md lists
 * every figure.
 *
 * web.c fills in struct metrics, and metrics.c turns it into text. The figures name no lock and no
 * user, because every user of this host may read them.
 */
#ifndef AGENT_METRICS_H
#define AGENT_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/histogram.h"
#include "core/host.h"
#include "core/quorum.h"
#include "core/session/renewal.h"
#include "driver/driver.h"
#include "observe/judgement.h"
#include "observe/log.h"
#include "peers/peers.h"

enum { METRICS_TEXT_MAX = 128 * 1024 };

struct metrics_voter {
    const char *name;
    bool self;
    bool up;
    bool refused;
    int64_t answer_age_ns; /* since the voter's last acknowledgement; -1: it has never answered */
    struct peers_figures link;
};

/* All pointers are borrowed. */
struct metrics {
    const char *version;
    const char *cell;
    const char *agent;
    const char *role;
    int64_t uptime_ns;
    enum renewal_state session;
    bool was_safe; /* the session was safe in this epoch */
    uint32_t epoch;
    int64_t remaining_ns; /* time left of the lease; negative: time since its deadline */
    bool astray;          /* the kernel adjusts the clock by more than max_drift */
    const struct judgement *judgement;
    int64_t tls_end_s; /* when the first of the certificates ends, wall clock; 0: no TLS */
    const struct host_counts *host;
    const struct host_survey *here;
    const struct quorum_counts *quorum; /* NULL: this agent is an observer */
    const struct quorum_survey *voting;
    const struct driver_counts *driver;
    struct driver_queues queues;
    uint64_t commits;
    const struct histogram *round_trip;
    const struct histogram *turn;
    uint64_t interruptions;
    uint64_t stalls;
    uint64_t slow_turns;
    uint64_t costly;
    uint32_t regions_given_up;
    uint64_t given_up; /* how many regions were given up since the start */
    uint64_t begun_anew;
    struct log_missing log;
    uint32_t voter_count;
    struct metrics_voter voters[MESSAGE_VOTERS_MAX];
    struct peers_figures others;
    uint64_t strangers[PEERS_REFUSAL_COUNT];
};

/* Returns the state of the session: safe, jeopardy, lost, or none if this agent has had no session
 * yet. The renewal reports jeopardy also for a session that has not begun; this does not. */
const char *metrics_session(const struct metrics *metrics);

/* Writes Prometheus' text format, version 0.0.4. out: METRICS_TEXT_MAX bytes. Returns the size. */
size_t metrics_text(const struct metrics *metrics, char *out);

#endif
