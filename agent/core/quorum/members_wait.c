/* The log line that says why this voter does not vote yet. See members.h. It calls no function of
 * members.c. */
#include "members_private.h"

/* Returns why a voter of that status waits. It is a switch, because a table of strings would be a
 * writable variable. */
static const char *waits_for(enum message_voter_status status)
{
    switch (status) {
    case MESSAGE_STATUS_EMPTY:
        return "a new cell is made when all its voters are connected, with empty "
               "stores; missing:";
    case MESSAGE_STATUS_LISTED:
        return "after a start a voter votes when a majority has reported what it "
               "saw of the voter's store; no report yet from:";
    default:
        return "a voter that starts over needs answers of more than half of all "
               "voters, itself not counted; no answer yet from:";
    }
}

/* EMPTY: returns whether that voter is ready for a new cell. member->agrees would not show this,
 * because a voter agrees only once it has received HELLO from all the other voters. */
static bool is_empty_too(const struct member *member)
{
    return (member->store_id[0] | member->store_id[1]) != 0 && !member->differs &&
           member->status == MESSAGE_STATUS_EMPTY;
}

void members_log_wait(struct quorum *quorum, uint8_t rejoin_there)
{
    uint8_t status = quorum->members->status;
    if (status != MESSAGE_STATUS_EMPTY && status != MESSAGE_STATUS_LISTED &&
        status != MESSAGE_STATUS_REJOINING) {
        return;
    }
    int64_t waited_ms = (step_now_ns(quorum) - quorum->members->since_ns) / MS_NS;
    struct action_log *log = step_log(quorum, "voter_waits", NULL, waited_ms);
    step_log_text(log, waits_for((enum message_voter_status)status));
    uint32_t named = 0;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        const struct member *member = &quorum->members->of[i];
        bool there = status == MESSAGE_STATUS_EMPTY    ? is_empty_too(member)
                     : status == MESSAGE_STATUS_LISTED ? member->answered
                                                       : (rejoin_there >> i & 1) != 0;
        if (i != quorum->config->self && !there) {
            step_log_text(log, " ");
            step_log_agent(log, &quorum->config->voters[i]);
            if (status == MESSAGE_STATUS_REJOINING && member->status == status) {
                step_log_text(log, " (starts over as well: holdfast member rejoin --undo)");
            }
            named++;
        }
    }
    if (named == 0) {
        log->well = true;
        step_log_text(log, " nobody; this goes on by itself");
    }
}
