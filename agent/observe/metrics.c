/* Figures as text: see metrics.h. */
#include "observe/metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/check.h"

static const char *const session_names[] = {"safe", "jeopardy", "lost", "none"};

/* The label of each refusal, in the order of enum message_refusal. */
static const char *const refusal_names[] = {NULL,     "full",  "not_owner", "session", "version",
                                            "tokens", "rules", "quota",     "in_use"};
enum { REFUSALS = sizeof(refusal_names) / sizeof(refusal_names[0]) };
_Static_assert((int)REFUSALS == (int)MESSAGE_REFUSED_END, "each refusal has a name");

static const char *const loss_names[HOST_LOSS_COUNT] = {
    [HOST_LOSS_DEATH] = "death",     [HOST_LOSS_BREAK] = "break", [HOST_LOSS_LEASE] = "lease",
    [HOST_LOSS_STALL] = "max_stall", [HOST_LOSS_LAPSE] = "lapse", [HOST_LOSS_DAMAGE] = "damage",
};

static const char *const stranger_names[PEERS_REFUSAL_COUNT] = {
    [PEERS_REFUSED_PACKET] = "packet",
    [PEERS_REFUSED_GREETING] = "greeting",
    [PEERS_REFUSED_TLS] = "tls",
    [PEERS_REFUSED_FULL] = "full",
};

/* ---- text ---- */

struct text {
    char *bytes;
    size_t size;
};

/* The buffer has room for all figures: see METRICS_TEXT_MAX. */
__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    size_t room = METRICS_TEXT_MAX - text->size;
    va_start(arguments, format);
    int size = vsnprintf(text->bytes + text->size, room, format, arguments);
    va_end(arguments);
    HF_CHECK(size >= 0 && (size_t)size < room);
    text->size += (size_t)size;
}

/* ---- metrics ---- */

static void family(struct text *text, const char *name, const char *type, const char *help)
{
    add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(struct text *text, const char *name, const char *help, uint64_t value)
{
    family(text, name, "counter", help);
    add(text, "%s %" PRIu64 "\n", name, value);
}

static void gauge(struct text *text, const char *name, const char *help, int64_t value)
{
    family(text, name, "gauge", help);
    add(text, "%s %" PRId64 "\n", name, value);
}

static void seconds(struct text *text, const char *name, const char *help, int64_t value_ns)
{
    family(text, name, "gauge", help);
    add(text, "%s %.9g\n", name, (double)value_ns / 1e9);
}

static void histogram(struct text *text, const char *name, const char *help,
                      const struct histogram *histogram)
{
    uint64_t below = 0;
    family(text, name, "histogram", help);
    for (uint32_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        below += histogram->counts[i];
        add(text, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)histogram_bound_ns(i) / 1e9,
            below);
    }
    add(text, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, histogram->count);
    add(text, "%s_sum %.9f\n%s_count %" PRIu64 "\n", name, (double)histogram->sum_ns / 1e9, name,
        histogram->count);
}

/* Writes one sample for each value of the label. An entry of values that is NULL is left out. */
static void labelled(struct text *text, const char *name, const char *label,
                     const char *const *values, const uint64_t *samples, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] != NULL) {
            add(text, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, values[i], samples[i]);
        }
    }
}

static void write_judgement(struct text *text, const struct judgement *judgement)
{
    uint32_t counts[REASON_KINDS] = {0};
    for (uint32_t i = 0; i < judgement->count; i++) {
        counts[judgement->reasons[i].kind]++;
    }
    family(text, "holdfast_judgement", "gauge", "1 for the state that the agent is in");
    for (uint32_t i = 0; i < JUDGEMENT_LEVELS; i++) {
        add(text, "holdfast_judgement{state=\"%s\"} %d\n", judgement_word((enum judgement_level)i),
            judgement->level == (enum judgement_level)i);
    }
    family(text, "holdfast_reasons", "gauge", "Reasons of the judgement, by name");
    for (uint32_t i = 0; i < REASON_KINDS; i++) {
        add(text, "holdfast_reasons{state=\"%s\",reason=\"%s\"} %u\n",
            judgement_word(reason_level((enum reason_kind)i)), reason_name((enum reason_kind)i),
            counts[i]);
    }
}

const char *metrics_session(const struct metrics *metrics)
{
    static const char *const begun[] = {
        [RENEWAL_SAFE] = "safe", [RENEWAL_JEOPARDY] = "jeopardy", [RENEWAL_LOST] = "lost"};
    if (metrics->session == RENEWAL_JEOPARDY && !metrics->was_safe) {
        return metrics->host->sessions_lost > 0 ? "lost" : "none";
    }
    return begun[metrics->session];
}

static void write_agent(struct text *text, const struct metrics *metrics)
{
    family(text, "holdfast_info", "gauge", "Which agent this is, always 1");
    add(text, "holdfast_info{version=\"%s\",cell=\"%s\",agent=\"%s\",role=\"%s\"} 1\n",
        metrics->version, metrics->cell, metrics->agent, metrics->role);
    write_judgement(text, metrics->judgement);
    if (metrics->tls_end_s != 0) {
        gauge(text, "holdfast_certificate_end_timestamp_seconds",
              "When the first of this agent's certificates ends, in seconds since 1970",
              metrics->tls_end_s);
    }
    seconds(text, "holdfast_uptime_seconds", "Time since the agent started", metrics->uptime_ns);
    family(text, "holdfast_session_state", "gauge", "1 for the state that the session is in");
    for (uint32_t i = 0; i < sizeof(session_names) / sizeof(session_names[0]); i++) {
        add(text, "holdfast_session_state{state=\"%s\"} %d\n", session_names[i],
            strcmp(session_names[i], metrics_session(metrics)) == 0);
    }
    gauge(text, "holdfast_session_epoch", "The session's number", metrics->epoch);
    counter(text, "holdfast_session_interruptions_total",
            "How often the session stopped being safe", metrics->interruptions);
    seconds(text, "holdfast_lease_remaining_seconds",
            "Time left of the lease; negative after its deadline", metrics->remaining_ns);
    gauge(text, "holdfast_clock_astray",
          "1 while the kernel adjusts the clock by more than max_drift", metrics->astray);
    histogram(text, "holdfast_renewal_round_trip_seconds",
              "Time from sending a renewal to each voter's acknowledgement", metrics->round_trip);
    histogram(text, "holdfast_loop_turn_seconds", "How long the loop's turns took", metrics->turn);
    counter(text, "holdfast_stalls_total", "How often the agent noticed that it had stood still",
            metrics->stalls);
    counter(text, "holdfast_slow_turns_total",
            "Turns of the loop that took more than a twentieth of session_ttl",
            metrics->slow_turns);
    counter(
        text, "holdfast_costly_connections_total",
        "Connections of clients that the agent set aside because their packets cost it much time",
        metrics->costly);
    family(text, "holdfast_log_lines_missing_total", "counter", "Lines of log not written");
    add(text,
        "holdfast_log_lines_missing_total{reason=\"limit\"} %" PRIu64
        "\nholdfast_log_lines_missing_total{reason=\"reader\"} %" PRIu64 "\n",
        metrics->log.left_out, metrics->log.lost);
}

static void write_locks(struct text *text, const struct metrics *metrics)
{
    const struct host_survey *here = metrics->here;
    gauge(text, "holdfast_clients", "Processes that are connected", here->clients);
    gauge(text, "holdfast_handles", "Open handles", here->handles);
    gauge(text, "holdfast_watches", "Watched prefixes", here->watches);
    gauge(text, "holdfast_locks", "Locks that have a slot on this host", (int64_t)here->locks);
    gauge(text, "holdfast_grants", "Locks whose grant is on this host", (int64_t)here->granted);
    gauge(text, "holdfast_locks_held", "Locks that a process of this host holds",
          (int64_t)here->held);
    gauge(text, "holdfast_locks_closed", "Locks that a lock-delay keeps closed",
          (int64_t)here->closed);
    gauge(text, "holdfast_waiters", "Handles that wait, in the queues of all locks",
          (int64_t)here->waiters);
    seconds(text, "holdfast_hold_oldest_seconds", "Age of the oldest exclusive hold",
            here->oldest_hold_ns);
    seconds(text, "holdfast_wait_oldest_seconds",
            "The longest wait among the first waiters of all queues", here->oldest_wait_ns);
    gauge(text, "holdfast_slots", "Slots of all regions", (int64_t)here->slots);
    gauge(text, "holdfast_slots_used", "Slots in use", (int64_t)here->slots_used);
    gauge(text, "holdfast_seats", "Seats of all regions", (int64_t)here->seats);
    gauge(text, "holdfast_seats_used", "Seats in blocks that belong to a lock",
          (int64_t)here->seats_used);
    gauge(text, "holdfast_regions_given_up", "Namespaces that are not served now",
          metrics->regions_given_up);
    counter(text, "holdfast_regions_given_up_total", "How often the agent gave a region up",
            metrics->given_up);
    counter(text, "holdfast_regions_begun_anew_total",
            "How often a namespace began anew with a fresh region", metrics->begun_anew);
}

static void write_host(struct text *text, const struct metrics *metrics)
{
    const struct host_counts *host = metrics->host;
    histogram(text, "holdfast_acquire_seconds",
              "Time from asking the cell for a grant until the grant arrives", &host->acquire);
    histogram(text, "holdfast_hold_seconds", "Age of the exclusive holds at each sample",
              &host->hold_age);
    histogram(text, "holdfast_wait_seconds",
              "How long the first waiter of each queue has waited at each sample", &host->wait_age);
    counter(text, "holdfast_opens_total", "Handles that clients asked for", host->opens);
    counter(text, "holdfast_opens_refused_total", "Handles that clients asked for and did not get",
            host->opens_refused);
    counter(text, "holdfast_grants_total", "Grants that this host received", host->grants);
    counter(text, "holdfast_recalls_total",
            "Recalls of this host's grants, because another host waits", host->recalls);
    counter(text, "holdfast_handoffs_total", "Grants that this host gave back because of a recall",
            host->handoffs);
    counter(text, "holdfast_give_backs_total",
            "Grants that this host gave back, counted when the acknowledgement arrives",
            host->give_backs);
    counter(text, "holdfast_token_ranges_total",
            "Ranges of tokens that the voters leased to this host", host->ranges);
    counter(text, "holdfast_sessions_lost_total", "Sessions of this agent that ended",
            host->sessions_lost);
    counter(text, "holdfast_region_repairs_total",
            "Entries of a region that contradicted what the agent knows, and that it corrected",
            host->repairs);
    family(text, "holdfast_holds_lost_total", "counter", "Holds that the agent took away");
    labelled(text, "holdfast_holds_lost_total", "cause", loss_names, host->losses, HOST_LOSS_COUNT);
    family(text, "holdfast_requests_refused_total", "counter",
           "Requests of this host that the cell refused");
    labelled(text, "holdfast_requests_refused_total", "reason", refusal_names, host->refused,
             REFUSALS);
    gauge(text, "holdfast_requests", "Requests of this host that are not answered yet",
          metrics->here->requests);
}

static void write_driver(struct text *text, const struct metrics *metrics)
{
    const struct driver_counts *driver = metrics->driver;
    const struct driver_queues *queues = &metrics->queues;
    histogram(text, "holdfast_flush_seconds",
              "Time from handing a batch to the disk until it is known to be durable",
              &driver->flush);
    counter(text, "holdfast_commits_total", "Batches made durable", metrics->commits);
    gauge(text, "holdfast_inbox_messages", "Messages to this agent that it has not handled yet",
          queues->inbox);
    gauge(text, "holdfast_batch_rows", "Rows of the store that wait for the next commit",
          queues->records);
    gauge(text, "holdfast_batch_flying_rows",
          "Rows of the commit that is being written to the disk", queues->flying);
    gauge(text, "holdfast_batch_waiting", "Answers and messages that wait until a batch is durable",
          queues->waiting);
    gauge(text, "holdfast_deferred_messages",
          "Messages that the agent keeps for a moment, to send them with the next ones",
          queues->later);
}

static void write_quorum(struct text *text, const struct metrics *metrics)
{
    const struct quorum_counts *quorum = metrics->quorum;
    const struct quorum_survey *voting = metrics->voting;
    if (quorum == NULL) {
        return;
    }
    histogram(text, "holdfast_coordinator_wait_seconds",
              "Time from the arrival of a request at this coordinator to its grant", &quorum->wait);
    counter(text, "holdfast_coordinator_grants_total", "Grants that this coordinator made",
            quorum->grants);
    family(text, "holdfast_coordinator_refused_total", "counter",
           "Requests that this voter refused");
    labelled(text, "holdfast_coordinator_refused_total", "reason", refusal_names,
             metrics->driver->refused, REFUSALS);
    counter(text, "holdfast_partitions_taken_total", "Partitions that this voter took over",
            quorum->taken_over);
    counter(text, "holdfast_partitions_left_total",
            "Partitions that this voter ceased to coordinate", quorum->left);
    counter(text, "holdfast_sessions_ended_total",
            "Sessions that this coordinator ended, because they had expired",
            quorum->sessions_ended);
    counter(text, "holdfast_promises_total", "Promises that this voter made as an acceptor",
            metrics->driver->promises);
    counter(text, "holdfast_accepts_total", "Values that this voter accepted as an acceptor",
            metrics->driver->accepts);
    gauge(text, "holdfast_partitions", "Partitions that this voter coordinates",
          voting->partitions);
    gauge(text, "holdfast_partitions_incomplete",
          "Partitions that this voter coordinates, and whose registers it has not all read yet",
          voting->incomplete);
    gauge(text, "holdfast_registers", "Lock names with a value in this voter's store",
          voting->registers);
    gauge(text, "holdfast_registers_max", "Lock names that this voter has room for",
          voting->registers_max);
    gauge(text, "holdfast_agents_known", "Names of agents that this voter knows", voting->agents);
    gauge(text, "holdfast_coordinator_requests",
          "Requests of hosts that wait at this voter for an answer", voting->requests);
    seconds(text, "holdfast_suspicion_seconds",
            "For how long another voter may be silent before this voter takes over from it",
            voting->suspicion_ns);
    gauge(text, "holdfast_voting", "1 if this voter votes", voting->votes);
    gauge(text, "holdfast_majority",
          "1 if a majority of the voters receives this voter's heartbeats", voting->majority);
}

/* Writes one sample for each other voter, and one for all other agents together. */
static void each_link(struct text *text, const struct metrics *metrics, const char *name,
                      const char *type, const char *help, size_t offset)
{
    family(text, name, type, help);
    for (uint32_t i = 0; i < metrics->voter_count; i++) {
        const struct metrics_voter *voter = &metrics->voters[i];
        const unsigned char *link = (const unsigned char *)&voter->link;
        if (!voter->self) {
            add(text, "%s{peer=\"%s\"} %" PRIu64 "\n", name, voter->name,
                *(const uint64_t *)(const void *)(link + offset));
        }
    }
    const unsigned char *others = (const unsigned char *)&metrics->others;
    add(text, "%s{peer=\"\"} %" PRIu64 "\n", name,
        *(const uint64_t *)(const void *)(others + offset));
}

static void write_peers(struct text *text, const struct metrics *metrics)
{
    family(text, "holdfast_voter_up", "gauge",
           "1 if that voter answers and the connection to it is up");
    for (uint32_t i = 0; i < metrics->voter_count; i++) {
        add(text, "holdfast_voter_up{peer=\"%s\"} %d\n", metrics->voters[i].name,
            metrics->voters[i].up);
    }
    family(text, "holdfast_voter_refused", "gauge",
           "1 if that voter may not vote, or refuses this agent");
    for (uint32_t i = 0; i < metrics->voter_count; i++) {
        add(text, "holdfast_voter_refused{peer=\"%s\"} %d\n", metrics->voters[i].name,
            metrics->voters[i].refused);
    }
    family(text, "holdfast_voter_answer_age_seconds", "gauge",
           "Time since that voter's last acknowledgement; absent before the first one");
    for (uint32_t i = 0; i < metrics->voter_count; i++) {
        if (metrics->voters[i].answer_age_ns >= 0) {
            add(text, "holdfast_voter_answer_age_seconds{peer=\"%s\"} %.9g\n",
                metrics->voters[i].name, (double)metrics->voters[i].answer_age_ns / 1e9);
        }
    }
    each_link(text, metrics, "holdfast_peer_packets_sent_total", "counter", "Packets sent",
              offsetof(struct peers_figures, packets_sent));
    each_link(text, metrics, "holdfast_peer_packets_dropped_total", "counter",
              "Packets not sent: no connection, or too many bytes waited",
              offsetof(struct peers_figures, packets_dropped));
    each_link(text, metrics, "holdfast_peer_packets_received_total", "counter", "Packets received",
              offsetof(struct peers_figures, packets_received));
    each_link(text, metrics, "holdfast_peer_waiting_bytes", "gauge", "Bytes that wait to be sent",
              offsetof(struct peers_figures, waiting_bytes));
    each_link(text, metrics, "holdfast_peer_connected", "gauge",
              "Connections to that agent that are up", offsetof(struct peers_figures, connected));
    family(text, "holdfast_senders_refused_total", "counter",
           "Senders that this agent refused, on connections to its inbox and on those that it "
           "dialled");
    labelled(text, "holdfast_senders_refused_total", "reason", stranger_names, metrics->strangers,
             PEERS_REFUSAL_COUNT);
}

size_t metrics_text(const struct metrics *metrics, char *out)
{
    struct text text = {.bytes = out};
    write_agent(&text, metrics);
    write_locks(&text, metrics);
    write_host(&text, metrics);
    write_driver(&text, metrics);
    write_quorum(&text, metrics);
    write_peers(&text, metrics);
    return text.size;
}
