/*
 * The record of voters that this agent uses: see private.h and docs/PROTOCOL.md, "Changing the
 * voters".
 *
 * A record counts when it is known to be chosen. A voter learns that from its quorum core, an
 * observer from a message of a voter. A voter that joins or leaves changes the indexes of the
 * voters after it. So the driver, the renewal and the host core reorder their tables that are
 * indexed by voter.
 */
#include <stdio.h>

#include "core/base/succession.h"
#include "driver/private.h"
#include "proto/check.h"

enum {
    ASK_PAUSE_MS = 100,
    COMPLETE_PAUSE_MS = 500,
    WRITTEN_PAUSE_MS = 2000,
};

static const int64_t ms_ns = 1000000;

/* Returns whether this agent has to switch to that record. */
static bool is_newer(const struct driver *driver, const struct message_voters *record)
{
    const struct message_voters *here = &driver->record;
    return record->number > here->number ||
           (driver->config.record_unsure && record->number == here->number &&
            message_voters_digest(record) != message_voters_digest(here));
}

/* Reorders the sets of voters, and the tables that are indexed by voter. A new voter counts as one
 * that can be reached, until it has had a session_ttl to answer. */
static void move_voters(struct driver *driver, const struct succession *succession)
{
    uint8_t statuses[MESSAGE_VOTERS_MAX];
    int64_t since_ns[MESSAGE_VOTERS_MAX];
    int64_t now_ns = driver_clock_ns(driver);
    driver->voters_up = succession_mask(succession, driver->voters_up, true);
    driver->voters_answering = succession_mask(succession, driver->voters_answering, true);
    driver->voters_refused = succession_mask(succession, driver->voters_refused, false);
    driver->links_down = succession_mask(succession, driver->links_down, false);
    driver->links_new = succession_mask(succession, driver->links_new, false);
    driver->refusing = succession_mask(succession, driver->refusing, false);
    succession_move(succession, driver->statuses, sizeof(statuses[0]), statuses);
    succession_move(succession, driver->voters_since_ns, sizeof(since_ns[0]), since_ns);
    for (uint32_t i = 0; i < succession->count; i++) {
        if (succession->from[i] == SUCCESSION_NONE) {
            driver->voters_since_ns[i] = now_ns;
        }
    }
}

static void set_voters(struct driver *driver, const struct message_voters *record)
{
    struct driver_config *config = &driver->config;
    struct message_rules *rules = &config->rules;
    config->voter_count = record->count;
    for (uint32_t i = 0; i < record->count; i++) {
        config->voters[i] = record->of[i].name;
    }
    if (rules->voter_count > 0) {
        rules->voter_count = config->voter_count;
        memcpy(rules->voters, config->voters, sizeof(rules->voters));
        renewal_set_rules(config->renewal, message_rules_digest(rules));
    }
}

/* A voter that is alone in its cell measures both sides of its session with one clock: see
 * driver_clock(). A change of the voters may begin or end this. The host core gets the new deadline
 * before its next step. */
static void see_clock(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    bool alone = config->voter_count == 1 && driver_find_voter(driver, &config->self) == 0;
    if (driver->astray) {
        renewal_clock(config->renewal, !alone, driver_clock_ns(driver));
        driver->kept = true;
    }
}

static void show_record(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    if (operations->record != NULL) {
        operations->record(operations->arg, &driver->record);
    }
}

void driver_take_record(struct driver *driver, const struct message_voters *record)
{
    struct succession succession;
    if (!is_newer(driver, record)) {
        driver->record.complete = driver->record.complete ||
                                  (record->number == driver->record.number && record->complete);
        return;
    }
    driver->config.record_unsure = false;
    HF_CHECK(record->count > 0);
    succession_make(&succession, driver->config.voters, driver->config.voter_count, record);
    move_voters(driver, &succession);
    set_voters(driver, record);
    message_voters_copy(&driver->record, record);
    driver->record_new = true;
    renewal_set_voters(driver->config.renewal, &driver->record, driver_clock_ns(driver),
                       &driver->quorum_actions);
    if (driver->started) {
        see_clock(driver);
    }
    show_record(driver);
    driver_gossip_record(driver, &succession);
    driver_see_voters(driver);
    /* A recovery of the cell has ended the session. The row of its successor must be in the same
     * batch as the record, so that no agent ever uses the record and continues the old session.
     * While messages are being received, the batch has to wait for that row. */
    driver->session_later = driver->receiving;
    if (!driver->receiving) {
        driver_see_session(driver);
    }
}

/* ---- an agent without a quorum core ---- */

static void send_to(struct driver *driver, const struct message_agent *to,
                    const struct message *message)
{
    const struct driver_operations *operations = &driver->config.operations;
    operations->send(operations->arg, to, driver_with_header(driver, message));
}

/* Asks the voter for a record with a higher number than `number`. */
static void ask(struct driver *driver, const struct message_agent *voter, uint32_t number)
{
    struct message message;
    message_zero(&message);
    message.kind = MESSAGE_ASK_VOTERS;
    message.as.ask_voters.number = number;
    send_to(driver, voter, &message);
}

/* Asks, in turn, the voters of the configuration that are not in the record. One of them may know a
 * newer record. The question that was sent to it when it was connected may have been lost. */
static void ask_written(struct driver *driver, int64_t now_ns)
{
    const struct driver_config *config = &driver->config;
    if (config->written_count == 0 || driver->record.number == 0 ||
        now_ns - driver->written_ns < WRITTEN_PAUSE_MS * ms_ns) {
        return;
    }
    const struct message_agent *name =
        &config->written[driver->written_turn % config->written_count];
    driver->written_turn++;
    driver->written_ns = now_ns;
    if (!driver_is_self(driver, name) && driver_find_voter(driver, name) == config->voter_count) {
        ask(driver, name, driver->record.number);
    }
}

/* No decision of an observer depends on whether a change is complete. It asks because the CLI shows
 * this. */
void driver_record_tick(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    int64_t now_ns = driver_clock_ns(driver);
    bool voter = driver_find_voter(driver, &config->self) < config->voter_count;
    if (!voter && driver->record.number > 1 && !driver->record.complete &&
        now_ns - driver->asked_ns >= COMPLETE_PAUSE_MS * ms_ns) {
        driver->asked_ns = now_ns;
        ask(driver, &config->voters[driver->asked_turn++ % config->voter_count],
            driver->record.number - 1);
    }
    ask_written(driver, now_ns);
}

void driver_ask_linked(struct driver *driver, const struct message_agent *agent)
{
    bool voter = driver_find_voter(driver, agent) < driver->config.voter_count;
    if (voter && driver->config.quorum == NULL && driver->config.record_unsure) {
        ask(driver, agent, driver->record.number - 1);
    } else if (!voter && driver->record.number > 0 && driver_is_written(driver, agent)) {
        ask(driver, agent, driver->record.number);
    }
}

/* The sender may be a voter that this agent does not know, and has no connection to. So this agent
 * asks a voter of the present record, too. */
void driver_compare_record(struct driver *driver, const struct message *message)
{
    struct driver_config *config = &driver->config;
    bool known = driver_find_voter(driver, &message->from) < config->voter_count;
    bool same = message->number == driver->record.number &&
                message->digest == message_voters_digest(&driver->record);
    if (driver->record.number == 0 || message->number == 0) {
        return;
    }
    if (same) {
        config->record_unsure = config->record_unsure && !known;
        return;
    }
    bool newer = message->number > driver->record.number ||
                 (config->record_unsure && message->number == driver->record.number);
    int64_t now_ns = driver_clock_ns(driver);
    if (!newer || (driver->asked_ns != 0 && now_ns - driver->asked_ns < ASK_PAUSE_MS * ms_ns)) {
        return;
    }
    driver->asked_ns = now_ns;
    ask(driver, &message->from, driver->record.number);
    if (!known) {
        ask(driver, &config->voters[driver->asked_turn++ % config->voter_count],
            driver->record.number);
    }
}

/* Makes a quorum core, and gives it the events that it would have received since this agent's
 * start. Returns false if this agent gets no quorum core. */
static bool make_core(struct driver *driver)
{
    struct driver_config *config = &driver->config;
    int64_t now_ns = driver_clock_ns(driver);
    struct quorum_event event = {.kind = QUORUM_START};
    config->quorum = config->operations.learn != NULL
                         ? config->operations.learn(config->operations.arg)
                         : NULL;
    if (config->quorum == NULL) {
        return false;
    }
    if (driver->commit != 0) {
        quorum_set_commit(config->quorum, driver->commit);
    }
    driver_step_quorum(driver, &event);
    for (uint32_t i = 0; i < config->voter_count; i++) {
        if (renewal_voter_up(config->renewal, i, now_ns)) {
            event = (struct quorum_event){.kind = QUORUM_LINK, .as.link = {.voter = i, .up = true}};
            driver_step_quorum(driver, &event);
        }
    }
    return true;
}

/* Two different records of one number belong to two cells: see note_conflict() in
 * core/quorum/members_voters.c. */
static void note_conflict(struct driver *driver, const struct message *message)
{
    const struct driver_operations *operations = &driver->config.operations;
    const struct message_voters *told = &message->as.told.voters;
    struct action_log log = {.event = "voters_conflict", .agent = message->from};
    if (told->number < 2 || told->number != driver->record.number ||
        message_voters_digest(told) == message_voters_digest(&driver->record) ||
        log_limit_add(&driver->conflict_limit, &log_once_a_minute, driver_clock_ns(driver)) == 0) {
        return;
    }
    log.number = told->number;
    snprintf(log.text, sizeof(log.text),
             "%.*s uses other voters under the same number: it is of another cell, and was "
             "perhaps recovered as well. Stop one of the two, and remove its store",
             (int)message->from.length, message->from.text);
    operations->log(operations->arg, &log);
}

/* Makes the record durable, and switches to it. If the record names this agent as a voter, this
 * function makes a quorum core, which finds out whether the store may vote: the record may name
 * another store, or this store may be an old copy. */
static void learn_record(struct driver *driver, const struct message_voters *told)
{
    const struct message_voters *here = &driver->record;
    bool completes = told->number == here->number && told->complete && !here->complete;
    if (!message_voters_same_cell(here, told) || here->number == 0 ||
        (!is_newer(driver, told) && !completes)) {
        return;
    }
    struct action *action = &driver->quorum_actions.items[driver->quorum_actions.count++];
    action->kind = ACTION_PERSIST_VOTERS;
    message_voters_copy(&action->as.voters, told);
    driver_take_record(driver, told);
    driver_take_actions(driver);
    if (driver_find_voter(driver, &driver->config.self) < driver->config.voter_count) {
        (void)make_core(driver);
    }
}

/* Becomes a learner. */
static void learn(struct driver *driver, const struct message *message)
{
    struct quorum_event event = {.kind = QUORUM_MESSAGE, .as.message = message};
    if (driver->config.quorum != NULL || (message->as.told.learn && make_core(driver))) {
        driver_step_quorum(driver, &event);
    }
}

void driver_record_message(struct driver *driver, const struct message *message)
{
    const struct message_told *told = &message->as.told;
    if (message->kind == MESSAGE_ASK_VOTERS) {
        /* An agent that asks for a record takes the record in the answer for a chosen one. */
        bool chosen = !driver->config.record_unsure;
        if (chosen && driver->record.number > message->as.ask_voters.number) {
            struct message answer;
            message_zero(&answer);
            answer.kind = MESSAGE_VOTERS;
            message_voters_copy(&answer.as.told.voters, &driver->record);
            send_to(driver, &message->from, &answer);
        }
        return;
    }
    note_conflict(driver, message);
    learn_record(driver, &told->voters);
    if (message->kind == MESSAGE_LEARN && !driver_has_failed(driver)) {
        learn(driver, message);
    }
}
