/* The record of voters that the agent uses: see record.h. */
#include "run/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"
#include "observe/log.h"
#include "peers/peers.h"
#include "proto/check.h"

/* Makes the other parts of the agent use agent->record. */
static void show(struct agent *agent)
{
    const struct message_voters *record = &agent->record;
    struct host_config *host = &agent->host_config;
    HF_CHECK(record->count > 0 && record->count <= MESSAGE_VOTERS_MAX);
    host->voters_number = record->number;
    host->voter_count = record->count;
    host->self = HOST_OBSERVER;
    memset(agent->voter_names, 0, sizeof(agent->voter_names));
    for (uint32_t i = 0; i < record->count; i++) {
        const struct message_voter *voter = &record->of[i];
        host->voters[i] = voter->name;
        host->addresses[i] = voter->address[0] != '\0' ? voter->address : NULL;
        memcpy(agent->voter_names[i], voter->name.text, voter->name.length);
        if (memcmp(&voter->name, &host->agent, sizeof(host->agent)) == 0) {
            host->self = i;
        }
    }
    host->role = host->self == HOST_OBSERVER ? "observer" : "voter";
}

/* Returns the address that the configuration gives for that voter; "": none. */
static const char *address_in_file(const struct config *config, const struct message_agent *name)
{
    for (uint32_t i = 0; i < config->voter_count; i++) {
        const struct config_voter *voter = &config->voters[i];
        if (strlen(voter->name) == name->length &&
            memcmp(voter->name, name->text, name->length) == 0) {
            return voter->address;
        }
    }
    return "";
}

/* Makes the record of number 1, with these voters. */
static void begin_with(struct agent *agent, const struct message_agent *names, uint32_t count)
{
    char addresses[MESSAGE_VOTERS_MAX][MESSAGE_ADDRESS_MAX];
    memset(addresses, 0, sizeof(addresses));
    for (uint32_t i = 0; i < count; i++) {
        const char *address = address_in_file(&agent->config, &names[i]);
        memcpy(addresses[i], address, strlen(address));
    }
    message_voters_begin(&agent->record, names, (const char(*)[MESSAGE_ADDRESS_MAX])addresses,
                         count);
}

static int begin_from_file(struct agent *agent)
{
    const struct config *config = &agent->config;
    struct message_agent names[MESSAGE_VOTERS_MAX];
    const char *wrong = config_voters_error(config, agent->meta.rejoin);
    if (wrong != NULL) {
        return agent_fail(agent, AGENT_EXIT_CONFIG, "%s: [voters]: %s",
                          agent->config_path != NULL ? agent->config_path : "--dev", wrong);
    }
    for (uint32_t i = 0; i < config->voter_count; i++) {
        message_agent_set(&names[i], config->voters[i].name, strlen(config->voters[i].name));
    }
    begin_with(agent, names, config->voter_count);
    return AGENT_EXIT_OK;
}

/* In a cell that never changed its voters, an observer uses the voters of its configuration. A
 * voter uses the voters with which its store began, because the other voters do the same. */
int record_begin(struct agent *agent)
{
    struct message_rules rules;
    bool found = false;
    bool ruled = false;
    int code = AGENT_EXIT_OK;
    if (!store_voters(agent->store, &agent->record, &found) ||
        (!found && !store_rules(agent->store, &rules, &ruled))) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    if (!found && ruled && !agent->config.observer) {
        begin_with(agent, rules.voters, rules.voter_count);
    } else if (!found) {
        code = begin_from_file(agent);
    }
    agent->record_known = found;
    if (code == AGENT_EXIT_OK) {
        show(agent);
    }
    return code;
}

int record_see_votes(struct agent *agent, bool *voted)
{
    bool accepted = false;
    struct quorum_change change;
    bool done = store_has_voted(agent->store, &agent->host_config.agent, voted) &&
                store_change_of_voters(agent->store, &change, &accepted);
    accepted = accepted && change.number > agent->record.number;
    *voted = *voted || accepted;
    /* a record is complete once a later record follows it */
    const struct message_voters *record = &agent->record;
    bool just = record->act == MESSAGE_MEMBER_REMOVE &&
                memcmp(&record->changed, &agent->host_config.agent, sizeof(record->changed)) == 0;
    bool removed = agent->host_config.self == HOST_OBSERVER && agent->record_known &&
                   (record->complete || !just) && !accepted;
    if (done && *voted && removed) {
        done = store_retire(agent->store, &agent->host_config.agent, &agent->meta);
        *voted = false;
        struct log_line line;
        log_begin(&line, LOG_LEVEL_INFO, "store_retired");
        log_unsigned(&line, "number", agent->record.number);
        log_text(&line, "text",
                 "this voter was removed: its agent goes on as an observer, with an empty store");
        log_end(&line);
    }
    return done ? AGENT_EXIT_OK
                : agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
}

int record_check_rules(struct agent *agent, const struct message_rules *rules)
{
    struct message_rules stored;
    char differs[256];
    bool found = false;
    uint64_t commit;
    if (!store_rules(agent->store, &stored, &found)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    bool alone = rules->voter_count == 1 && (!found || stored.voter_count == 1);
    if (found && message_rules_digest(&stored) == message_rules_digest(rules)) {
        return AGENT_EXIT_OK;
    }
    if (found) {
        stored.voter_count = rules->voter_count;
        memcpy(stored.voters, rules->voters, sizeof(stored.voters));
    }
    if (found && !alone && !agent->config.observer &&
        message_rules_differ(rules, &stored, differs, sizeof(differs))) {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "the configuration (here) is not that of the cell that %s/holdfast.db belongs "
            "to (there): %s",
            agent->config.state_dir, differs);
    }
    if (!found && !alone && agent->meta.commit > 1 && !agent->meta.rejoin) {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "%s/holdfast.db is of a cell of one host: found %u in [voters], expected one (or an "
            "empty state_dir)",
            agent->config.state_dir, rules->voter_count);
    }
    if (!store_begin(agent->store) || !store_put_rules(agent->store, rules) ||
        !store_commit(agent->store, &commit)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    agent->meta.commit = commit;
    return AGENT_EXIT_OK;
}

/* Writes the voters of the record as lines of [voters], separated by "; ". */
static void write_voters(const struct message_voters *record, char *text, size_t size)
{
    int used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < record->count && (size_t)used < size; i++) {
        const struct message_voter *voter = &record->of[i];
        used += snprintf(text + used, size - (size_t)used, "%s%.*s = %s", i == 0 ? "" : "; ",
                         (int)voter->name.length, voter->name.text,
                         voter->address[0] != '\0' ? voter->address : "(its address)");
    }
}

bool record_differs(const struct agent *agent, char *text, size_t size)
{
    const struct message_voters *record = &agent->record;
    const struct config *config = &agent->config;
    bool same = config->voter_count == record->count;
    for (uint32_t i = 0; same && i < record->count; i++) {
        const struct message_voter *voter = &record->of[i];
        const struct config_voter *written = &config->voters[i];
        same = strlen(written->name) == voter->name.length &&
               memcmp(written->name, voter->name.text, voter->name.length) == 0 &&
               (voter->address[0] == '\0' || strcmp(voter->address, written->address) == 0);
    }
    if (same) {
        return false;
    }
    write_voters(record, text, size);
    return true;
}

void record_tell(const struct agent *agent)
{
    char text[MESSAGE_VOTERS_MAX * (MESSAGE_AGENT_MAX + MESSAGE_ADDRESS_MAX + 8)];
    if (record_differs(agent, text, sizeof(text))) {
        struct log_line line;
        log_begin(&line, LOG_LEVEL_WARN, "voters_differ");
        log_unsigned(&line, "number", agent->record.number);
        log_text(&line, "voters", text);
        log_text(&line, "text",
                 "the cell uses these voters, and not [voters] of the configuration: write "
                 "them there; `holdfast member` changes them");
        log_end(&line);
    }
}

static void log_changed(const struct agent *agent)
{
    struct log_line line;
    char text[MESSAGE_VOTERS_MAX * (MESSAGE_AGENT_MAX + MESSAGE_ADDRESS_MAX + 8)];
    write_voters(&agent->record, text, sizeof(text));
    log_begin(&line, LOG_LEVEL_INFO, "voters_changed");
    log_unsigned(&line, "number", agent->record.number);
    log_text(&line, "voters", text);
    log_end(&line);
}

static void log_complete(const struct agent *agent)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_INFO, "voters_complete");
    log_unsigned(&line, "number", agent->record.number);
    log_text(&line, "text", "a voter that was removed may be switched off now");
    log_end(&line);
}

bool record_is_unsure(const struct agent *agent)
{
    return !agent->record_known && agent->host_config.self == HOST_OBSERVER;
}

void record_changed(void *arg, const struct message_voters *record)
{
    struct agent *agent = arg;
    message_voters_copy(&agent->record, record);
    agent->record.complete = false; /* see record_complete() */
    agent->record_known = true;
    show(agent);
    log_changed(agent);
    record_tell(agent);
    peers_record(agent);
}

void record_complete(void *arg, uint32_t number)
{
    struct agent *agent = arg;
    if (number == agent->record.number && !agent->record.complete) {
        agent->record.complete = true;
        if (number > 1) {
            log_complete(agent);
        }
    }
}

bool record_is_alone(const struct agent *agent)
{
    return agent->host_config.voter_count == 1 && agent->host_config.self == 0;
}
