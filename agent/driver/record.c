/*
 * The record of voters by which this agent goes: see private.h and docs/PROTOCOL.md, "Changing the
 * voters".
 *
 * A record counts when it is known to be chosen. A voter learns that from its quorum core, an
 * observer from a message of a voter. Everything that the driver, the renewal and the host core
 * keep by a voter's index follows the voter's name, because a voter that joins or leaves changes
 * the index of the voters behind it.
 */
#include "core/base/succession.h"
#include "driver/private.h"
#include "proto/check.h"

/* Moves the sets of voters, and what is kept for each voter. A new voter counts as one that can be
 * reached, until it has had a session_ttl to answer. */
static void move_voters(struct driver *driver, const struct succession *succession)
{
    uint8_t statuses[MESSAGE_VOTERS_MAX];
    int64_t since_ns[MESSAGE_VOTERS_MAX];
    int64_t now_ns = driver_clock_ns(driver);
    driver->voters_up = succession_mask(succession, driver->voters_up, true);
    driver->voters_answering = succession_mask(succession, driver->voters_answering, false);
    driver->voters_refused = succession_mask(succession, driver->voters_refused, false);
    driver->links_down = succession_mask(succession, driver->links_down, false);
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
    }
}

/* A voter that is alone in its cell counts both sides of its session by one clock: see
 * driver_clock(). That begins or ends here. The host core learns of the new deadline before its
 * next step. */
static void see_clock(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    bool alone = config->voter_count == 1 && driver_find_voter(driver, &config->self) == 0;
    if (driver->astray) {
        renewal_clock(config->renewal, !alone, driver_clock_ns(driver));
        driver->kept = true;
    }
}

void driver_take_record(struct driver *driver, const struct message_voters *record)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct succession succession;
    if (record->number == driver->record.number) {
        driver->record.complete = driver->record.complete || record->complete;
    }
    if (record->number <= driver->record.number) {
        return;
    }
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
    if (operations->record != NULL) {
        operations->record(operations->arg, &driver->record);
    }
    driver_gossip_record(driver, &succession);
    driver_see_voters(driver);
}
