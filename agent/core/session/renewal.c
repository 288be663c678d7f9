/*
 * The host's side of its session (core/session/renewal.h).
 *
 * Each round of renewals has one id and one sending time. The times of the last few rounds are
 * remembered, because a lease is counted from the time when the acknowledged renewal was sent. An
 * acknowledgement of a forgotten round extends nothing.
 */
#include "renewal_private.h"

#include <string.h>

#include "core/base/succession.h"
#include "proto/check.h"
#include "proto/probe.h"

/* how far an epoch that a voter reports may be above this agent's own epoch */
enum { EPOCHS_FREE = 1 << 20 };

static uint32_t majority(const struct renewal *renewal)
{
    return renewal->config.voter_count / 2 + 1;
}

/* The session time-to-live (ttl) as the holder counts it: shortened by max_drift. */
static int64_t lease_ns(const struct renewal *renewal)
{
    int64_t ttl_ns = renewal->config.session_ttl_ns;
    return ttl_ns - ttl_ns / 100 * renewal->config.max_drift_percent;
}

size_t renewal_size(void)
{
    return sizeof(struct renewal);
}

struct renewal *renewal_init(void *memory, const struct renewal_config *config,
                             const struct message *header)
{
    struct renewal *renewal = memory;
    HF_CHECK(config->voter_count > 0 && config->voter_count <= MESSAGE_VOTERS_MAX);
    HF_CHECK(config->session_ttl_ns > 0 && config->grace_period_ns >= 0);
    HF_CHECK(config->max_drift_percent <= 50);
    memset(renewal, 0, sizeof(*renewal));
    renewal->config = *config;
    message_copy(&renewal->header, header);
    renewal->header.kind = MESSAGE_RENEW;
    memset(&renewal->header.as.renew, 0, sizeof(renewal->header.as.renew));
    return renewal;
}

static uint64_t sent_remember(struct renewal *renewal, int64_t now_ns)
{
    renewal->last_id++;
    struct renewal_sent *sent = &renewal->sent[renewal->last_id % RENEWAL_REMEMBERED];
    sent->id = renewal->last_id;
    sent->sent_ns = now_ns;
    return sent->id;
}

static void send_to(struct renewal *renewal, uint32_t voter, uint64_t id, struct actions *actions)
{
    HF_CHECK(actions->count < actions->capacity);
    struct action *action = &actions->items[actions->count++];
    action->kind = ACTION_SEND;
    action->as.send.to = ACTION_VOTER | voter;
    action->as.send.relay = ACTION_NO_RELAY;
    action->as.send.later = false;
    message_copy(&action->as.send.message, &renewal->header);
    struct message_renew *renew = &action->as.send.message.as.renew;
    renew->agent = renewal->header.from;
    renew->epoch = renewal->asking ? 0 : renewal->epoch;
    renew->renewal_id = id;
    renew->echo = renewal->voters[voter].echo;
    renew->rules = renewal->config.rules;
    renew->durations = renewal->config.durations;
    memcpy(renew->advertise, renewal->config.advertise, sizeof(renew->advertise));
    memcpy(renew->release, renewal->config.release, sizeof(renew->release));
    memcpy(renew->page, renewal->config.page, sizeof(renew->page));
}

static void send_round(struct renewal *renewal, int64_t now_ns, struct actions *actions)
{
    uint64_t id = sent_remember(renewal, now_ns);
    for (uint32_t voter = 0; voter < renewal->config.voter_count; voter++) {
        renewal->voters[voter].hurried = false;
        renewal->voters[voter].greeted = false;
        send_to(renewal, voter, id, actions);
    }
    renewal->next_round_ns = now_ns + renewal->config.session_ttl_ns / 3;
    HF_PROBE2(session_renew, renewal->epoch, id);
}

void renewal_start(struct renewal *renewal, uint32_t epoch, bool adopted, int64_t now_ns,
                   uint64_t random, struct actions *actions)
{
    HF_CHECK(epoch > renewal->epoch && now_ns > 0);
    renewal->asking = renewal->config.asks_epoch && renewal->epoch == 0 && !adopted;
    renewal->epoch = epoch;
    renewal->adopted = adopted;
    renewal->lost = false;
    renewal->started_ns = now_ns;
    renewal->deadline_ns = 0;
    renewal->barren_since_ns = 0;
    renewal->last_id = random >> 1; /* half of the range is left to count up */
    memset(renewal->sent, 0, sizeof(renewal->sent));
    for (uint32_t voter = 0; voter < MESSAGE_VOTERS_MAX; voter++) {
        renewal->voters[voter].extended_sent_ns = 0;
        renewal->voters[voter].answered_id = 0;
        renewal->voters[voter].ended_epoch = 0;
    }
    send_round(renewal, now_ns, actions);
}

/* Marks the session as lost before its grace period is over. Its lease ends now at the latest. */
static void lose(struct renewal *renewal, int64_t now_ns)
{
    renewal->lost = true;
    if (renewal->deadline_ns > now_ns) {
        renewal->deadline_ns = now_ns;
    }
}

/* Moves the deadline to one lease after the latest time T for which a majority has extended a
 * renewal that was sent at T or later. Notes whether a majority has marked the session. */
static void count_votes(struct renewal *renewal, int64_t now_ns)
{
    uint32_t voters = renewal->config.voter_count;
    uint32_t ended = 0;
    for (uint32_t i = 0; i < voters; i++) {
        ended += renewal->voters[i].ended_epoch >= renewal->epoch;
        int64_t sent_ns = renewal->voters[i].extended_sent_ns;
        uint32_t as_late = 0;
        for (uint32_t k = 0; k < voters; k++) {
            as_late += renewal->voters[k].extended_sent_ns >= sent_ns;
        }
        int64_t deadline_ns = sent_ns + lease_ns(renewal);
        if (sent_ns != 0 && as_late >= majority(renewal) && deadline_ns > renewal->deadline_ns) {
            renewal->deadline_ns = deadline_ns;
        }
    }
    if (ended >= majority(renewal)) {
        lose(renewal, now_ns);
    }
}

/* Returns when the session is lost if no more renewals count. */
static int64_t loss_ns(const struct renewal *renewal)
{
    if (renewal->deadline_ns != 0) {
        return renewal->deadline_ns + renewal->config.grace_period_ns;
    }
    return renewal->adopted ? renewal->started_ns + renewal->config.session_ttl_ns +
                                  renewal->config.grace_period_ns
                            : INT64_MAX;
}

static bool is_lost(const struct renewal *renewal, int64_t now_ns)
{
    return renewal->lost || now_ns >= loss_ns(renewal);
}

/* Returns whether the message's sender uses the same record of voters as this agent. A header
 * without a number is of an older version of the wire protocol, and means number 1. A renewal that
 * was made without a record means number 1, too. */
static bool is_of_same_voters(const struct renewal *renewal, const struct message *message)
{
    uint32_t here = renewal->header.number;
    bool first = here <= 1 && message->number <= 1;
    bool unsaid = here == 0 || message->number == 0;
    return (first && unsaid) ||
           (message->number == here && message->digest == renewal->header.digest);
}

static bool find_voter(const struct renewal *renewal, const struct message_agent *from,
                       uint32_t *voter)
{
    for (*voter = 0; *voter < renewal->config.voter_count; (*voter)++) {
        if (memcmp(&renewal->config.voters[*voter], from, sizeof(*from)) == 0) {
            return true;
        }
    }
    return false;
}

/*
 * Notes a voter's answer: `epoch` is the highest epoch of this agent that the voter knows. The
 * agent has to ask the voters, because its own store may be new or an old copy, and then lacks the
 * latest epochs. If an epoch were used twice, the new session would own the locks of the old one.
 * It is enough to ask a majority: for each grant, every majority has a voter that knows the grant's
 * epoch.
 */
static void epoch_reported(struct renewal *renewal, uint32_t voter, uint32_t epoch, int64_t now_ns,
                           struct actions *actions)
{
    uint32_t count = 0;
    renewal->reported |= (uint8_t)(1U << voter);
    renewal->reported_epoch = epoch > renewal->reported_epoch ? epoch : renewal->reported_epoch;
    for (uint32_t i = 0; i < renewal->config.voter_count; i++) {
        count += renewal->reported >> i & 1;
    }
    if (count < majority(renewal)) {
        return;
    }
    renewal->asking = false;
    if (renewal->reported_epoch >= renewal->epoch) {
        renewal->epoch = renewal->reported_epoch;
        renewal->lost = true;
    } else {
        send_round(renewal, now_ns, actions);
    }
}

void renewal_acked(struct renewal *renewal, const struct message *message, int64_t now_ns,
                   struct actions *actions)
{
    const struct message_renew_ack *ack = &message->as.renew_ack;
    uint32_t index = 0;
    /* A lost session stays lost. So this check comes before a late answer can extend the lease. */
    renewal->lost = renewal->epoch != 0 && is_lost(renewal, now_ns);
    uint32_t asked = renewal->asking ? 0 : renewal->epoch;
    if (renewal->epoch == 0 || renewal->lost || ack->epoch != asked ||
        memcmp(&ack->agent, &renewal->header.from, sizeof(ack->agent)) != 0 ||
        !is_of_same_voters(renewal, message) || !find_voter(renewal, &message->from, &index)) {
        return;
    }
    struct renewal_voter *voter = &renewal->voters[index];
    const struct renewal_sent *sent = &renewal->sent[ack->renewal_id % RENEWAL_REMEMBERED];
    if (sent->id != ack->renewal_id) {
        return;
    }
    voter->answered_ns = now_ns;
    voter->ask_ns = 0;
    pace_add(&voter->pace, ack->echo.incarnation,
             &(struct pace_reading){
                 .sent_ns = sent->sent_ns, .received_ns = now_ns, .there_ns = ack->echo.issued_ns});
    histogram_add(&renewal->round_trip, now_ns - sent->sent_ns);
    if (renewal->asking) {
        if (ack->ended_epoch > renewal->epoch && ack->ended_epoch - renewal->epoch > EPOCHS_FREE) {
            /* if this agent began above such an epoch, few epochs would be left: see
             * quorum/bounds.h */
            return;
        }
        voter->echo = ack->echo; /* with this echo the next renewal extends the lease */
        epoch_reported(renewal, index, ack->ended_epoch, now_ns, actions);
        return;
    }
    if (ack->ended_epoch > voter->ended_epoch) {
        voter->ended_epoch = ack->ended_epoch;
    }
    if (ack->extended && !renewal->astray && sent->sent_ns >= renewal->counts_from_ns &&
        sent->sent_ns > voter->extended_sent_ns) {
        voter->extended_sent_ns = sent->sent_ns;
    }
    bool newest = ack->renewal_id > voter->answered_id ||
                  (ack->renewal_id == voter->answered_id &&
                   ack->echo.incarnation == voter->echo.incarnation &&
                   ack->echo.issued_ns > voter->echo.issued_ns);
    if (newest) {
        voter->answered_id = ack->renewal_id;
        voter->echo = ack->echo;
    }
    count_votes(renewal, now_ns);
    if (!ack->extended && newest && !voter->hurried && !renewal->lost) {
        voter->hurried = true;
        send_to(renewal, index, sent_remember(renewal, now_ns), actions);
    }
}

/*
 * Returns when the next round is due. While the lease is not safe, a round is due every twelfth of
 * the ttl. A voter that has just started, or whose link has just come up, may not answer the first
 * renewal. The lease should not have to wait a third of the ttl for the next one.
 */
static int64_t round_due_ns(const struct renewal *renewal, int64_t now_ns)
{
    int64_t last_ns = renewal->sent[renewal->last_id % RENEWAL_REMEMBERED].sent_ns;
    int64_t soon_ns = last_ns + renewal->config.session_ttl_ns / 12;
    bool calm = !renewal->asking && renewal_state(renewal, now_ns) == RENEWAL_SAFE;
    return calm || renewal->next_round_ns < soon_ns ? renewal->next_round_ns : soon_ns;
}

/* Returns when to send the next early renewal to a voter that has not answered since it was
 * connected. */
static int64_t ask_due_ns(const struct renewal *renewal, int64_t now_ns)
{
    int64_t due_ns = INT64_MAX;
    for (uint32_t voter = 0; voter < renewal->config.voter_count; voter++) {
        int64_t ask_ns = renewal->voters[voter].ask_ns;
        due_ns = ask_ns != 0 && ask_ns < due_ns ? ask_ns : due_ns;
    }
    return renewal_state(renewal, now_ns) == RENEWAL_SAFE ? due_ns : INT64_MAX;
}

/* Sends the early renewals that are due. All have one id, because only RENEWAL_REMEMBERED ids are
 * remembered. */
static void ask(struct renewal *renewal, int64_t now_ns, struct actions *actions)
{
    uint64_t id = sent_remember(renewal, now_ns);
    for (uint32_t i = 0; i < renewal->config.voter_count; i++) {
        struct renewal_voter *voter = &renewal->voters[i];
        if (voter->ask_ns != 0 && voter->ask_ns <= now_ns) {
            bool young = now_ns - voter->connected_ns < renewal->config.session_ttl_ns;
            voter->ask_ns = young ? now_ns + renewal->config.session_ttl_ns / 12 : 0;
            send_to(renewal, i, id, actions);
        }
    }
}

/* Returns whether a majority of the voters has answered lately. */
static bool majority_answers(const struct renewal *renewal, int64_t now_ns)
{
    uint32_t answering = 0;
    for (uint32_t i = 0; i < renewal->config.voter_count; i++) {
        const struct renewal_voter *voter = &renewal->voters[i];
        answering += voter->answered_id != 0 &&
                     now_ns - voter->answered_ns < renewal->config.session_ttl_ns;
    }
    return answering >= majority(renewal);
}

/*
 * Gives up an epoch that gets no lease although a majority of the voters answers. This happens when
 * a host got back an older store: some voters know the epoch from the newer store. A voter does not
 * answer while the agent of the other store lives (is_twin() in quorum/sessions.c). So no majority
 * extends a session of the other store, and the next epoch ends no lease.
 */
static void give_up_barren(struct renewal *renewal, int64_t now_ns)
{
    bool barren = !renewal->adopted && !renewal->asking && !renewal->astray &&
                  renewal->deadline_ns == 0 && majority_answers(renewal, now_ns);
    if (!barren) {
        renewal->barren_since_ns = 0;
    } else if (renewal->barren_since_ns == 0) {
        renewal->barren_since_ns = now_ns;
    } else if (now_ns - renewal->barren_since_ns >= renewal->config.session_ttl_ns) {
        renewal->lost = true;
    }
}

void renewal_tick(struct renewal *renewal, int64_t now_ns, struct actions *actions)
{
    if (renewal->epoch == 0) {
        return;
    }
    renewal->lost = is_lost(renewal, now_ns);
    give_up_barren(renewal, now_ns);
    if (!renewal->lost && now_ns >= round_due_ns(renewal, now_ns)) {
        send_round(renewal, now_ns, actions);
    } else if (ask_due_ns(renewal, now_ns) <= now_ns) {
        ask(renewal, now_ns, actions);
    }
}

void renewal_link(struct renewal *renewal, uint32_t voter, bool up, int64_t now_ns,
                  struct actions *actions)
{
    HF_CHECK(voter < renewal->config.voter_count);
    renewal->voters[voter].ask_ns = up ? now_ns + renewal->config.session_ttl_ns / 12 : 0;
    if (!up) {
        return;
    }
    renewal->voters[voter].connected_ns = now_ns;
    enum renewal_state state = renewal_state(renewal, now_ns);
    if (renewal->epoch == 0 || state == RENEWAL_LOST) {
        return;
    }
    if (state == RENEWAL_JEOPARDY) {
        renewal->next_round_ns = now_ns < renewal->next_round_ns ? now_ns : renewal->next_round_ns;
    } else if (!renewal->voters[voter].greeted) {
        renewal->voters[voter].greeted = true;
        send_to(renewal, voter, sent_remember(renewal, now_ns), actions);
    }
}

void renewal_clock(struct renewal *renewal, bool astray, int64_t now_ns)
{
    if (astray == renewal->astray) {
        return;
    }
    renewal->lost = renewal->epoch != 0 && is_lost(renewal, now_ns);
    renewal->astray = astray;
    renewal->counts_from_ns = now_ns;
    renewal->next_round_ns = now_ns;
    for (uint32_t voter = 0; voter < MESSAGE_VOTERS_MAX; voter++) {
        renewal->voters[voter].extended_sent_ns = 0;
    }
    if (renewal->deadline_ns > now_ns) {
        renewal->deadline_ns = now_ns;
    }
}

void renewal_set_rules(struct renewal *renewal, uint64_t rules)
{
    renewal->config.rules = rules;
}

void renewal_set_voters(struct renewal *renewal, const struct message_voters *voters,
                        int64_t now_ns, struct actions *actions)
{
    struct succession succession;
    struct renewal_voter room[MESSAGE_VOTERS_MAX];
    HF_CHECK(voters->count > 0 && voters->count <= MESSAGE_VOTERS_MAX);
    HF_CHECK(voters->number >= renewal->header.number);
    /* A recovery of the cell ends all earlier sessions. */
    bool recovered = voters->number / MESSAGE_NUMBERS != renewal->header.number / MESSAGE_NUMBERS;
    renewal->lost = renewal->epoch != 0 && is_lost(renewal, now_ns);
    if (renewal->epoch != 0 && recovered) {
        lose(renewal, now_ns);
    }
    succession_make(&succession, renewal->config.voters, renewal->config.voter_count, voters);
    succession_move(&succession, renewal->voters, sizeof(renewal->voters[0]), room);
    for (uint32_t i = 0; i < voters->count; i++) {
        renewal->config.voters[i] = voters->of[i].name;
        renewal->voters[i].extended_sent_ns = 0;
        renewal->voters[i].ended_epoch = 0;
    }
    renewal->config.voter_count = voters->count;
    renewal->reported = 0; /* reported_epoch is kept: a number that is too high does no harm */
    renewal->header.number = voters->number;
    renewal->header.digest = message_voters_digest(voters);
    if (renewal->epoch != 0 && !renewal->lost) {
        send_round(renewal, now_ns, actions);
    }
}

int64_t renewal_next_tick_ns(const struct renewal *renewal, int64_t now_ns)
{
    if (renewal->epoch == 0 || is_lost(renewal, now_ns)) {
        return INT64_MAX;
    }
    int64_t next_ns = round_due_ns(renewal, now_ns);
    int64_t ask_ns = ask_due_ns(renewal, now_ns);
    next_ns = ask_ns < next_ns ? ask_ns : next_ns;
    if (renewal->deadline_ns > now_ns && renewal->deadline_ns < next_ns) {
        next_ns = renewal->deadline_ns;
    }
    return loss_ns(renewal) < next_ns ? loss_ns(renewal) : next_ns;
}

enum renewal_state renewal_state(const struct renewal *renewal, int64_t now_ns)
{
    if (renewal->epoch != 0 && is_lost(renewal, now_ns)) {
        return RENEWAL_LOST;
    }
    return now_ns < renewal->deadline_ns ? RENEWAL_SAFE : RENEWAL_JEOPARDY;
}

int64_t renewal_deadline_ns(const struct renewal *renewal)
{
    return renewal->deadline_ns;
}

uint32_t renewal_epoch(const struct renewal *renewal)
{
    return renewal->epoch;
}

const struct message *renewal_header(const struct renewal *renewal)
{
    return &renewal->header;
}

int64_t renewal_ttl_ns(const struct renewal *renewal)
{
    return renewal->config.session_ttl_ns;
}

const struct histogram *renewal_round_trips(const struct renewal *renewal)
{
    return &renewal->round_trip;
}

const struct pace *renewal_pace(const struct renewal *renewal, uint32_t voter)
{
    HF_CHECK(voter < renewal->config.voter_count);
    return &renewal->voters[voter].pace;
}

int64_t renewal_answered_ns(const struct renewal *renewal, uint32_t voter)
{
    HF_CHECK(voter < renewal->config.voter_count);
    return renewal->voters[voter].answered_ns;
}

bool renewal_voter_up(const struct renewal *renewal, uint32_t voter, int64_t now_ns)
{
    HF_CHECK(voter < renewal->config.voter_count);
    int64_t answered_ns = renewal->voters[voter].answered_ns;
    return answered_ns != 0 && answered_ns >= renewal->voters[voter].connected_ns &&
           now_ns - answered_ns <= renewal->config.session_ttl_ns;
}
