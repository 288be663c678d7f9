/* Changes of the voters, asked for in a rig (voters_asks.h). */
#include "voters_asks.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

struct rig *rig;

void begin(uint32_t voters, uint64_t seed)
{
    rig = rig_create(voters, seed);
    rig_start_all(rig);
    rig_run(rig, 2000);
    for (uint32_t i = 0; i < voters; i++) {
        ck_assert_int_eq(rig_status(rig, i), MESSAGE_STATUS_VOTING);
        ck_assert_uint_eq(rig_number(rig, i), 1);
    }
}

void teardown(void)
{
    rig_destroy(rig);
}

void choose(uint32_t node, const struct message_voters *voters)
{
    struct message told = rig_message(rig, node, MESSAGE_VOTERS);
    told.from = rig_name(node == 0 ? 1 : 0);
    told.as.told.voters = *voters;
    rig_give(rig, node, &told);
    ck_assert_uint_eq(rig_number(rig, node), voters->number);
}

uint32_t coordinated(uint32_t mask)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RIG_NODES; i++) {
        struct quorum_survey survey;
        if ((mask >> i & 1) != 0) {
            quorum_survey(rig->nodes[i].quorum, &survey);
            count += survey.partitions - survey.incomplete;
        }
    }
    return count;
}

struct message_membered ask_from(uint32_t asker, uint32_t to, uint64_t id,
                                 enum message_member_act act, uint32_t voter, uint32_t number)
{
    struct message member = rig_message(rig, asker, MESSAGE_MEMBER);
    struct message_member_asked *asked = &member.as.member;
    member.number = rig_number(rig, to);
    member.digest = message_voters_digest(quorum_voters(rig->nodes[to].quorum));
    asked->agent = member.from;
    asked->request_id = id;
    asked->act = (uint8_t)act;
    asked->voter = rig_name(voter);
    asked->number = number;
    if (act != MESSAGE_MEMBER_REMOVE) {
        snprintf(asked->address, sizeof(asked->address), "tcp://new%u", (unsigned)voter);
    }
    memset(&rig->nodes[asker].got[MESSAGE_MEMBERED], 0, sizeof(struct message));
    rig_give(rig, to, &member);
    rig_run(rig, 10);
    return rig->nodes[asker].got[MESSAGE_MEMBERED].as.membered;
}

struct message_membered ask_with(uint32_t to, uint64_t id, enum message_member_act act,
                                 uint32_t voter, uint32_t number)
{
    return ask_from(to, to, id, act, voter, number);
}

struct message_membered change(uint32_t to, enum message_member_act act, uint32_t voter,
                               enum message_change_stage stage)
{
    static uint64_t ids = 1000;
    uint64_t id = ++ids;
    uint32_t number = rig_number(rig, to);
    struct message_membered answer = {0};
    for (uint32_t i = 0; i < 200; i++) {
        answer = ask_with(to, id, act, voter, number);
        if (answer.stage >= stage || answer.stage == MESSAGE_CHANGE_REFUSED) {
            break;
        }
        rig_run(rig, 100);
    }
    return answer;
}

void expect_complete(uint32_t to, enum message_member_act act, uint32_t voter)
{
    uint32_t number = rig_number(rig, to) + 1;
    struct message_membered answer = change(to, act, voter, MESSAGE_CHANGE_COMPLETE);
    ck_assert_msg(answer.stage == MESSAGE_CHANGE_COMPLETE, "act %d of %u: stage %u, reason %u", act,
                  voter, answer.stage, answer.reason);
    ck_assert_uint_eq(answer.number, number);
    rig_run(rig, 300);
}

void expect_voters(uint32_t mask, uint32_t number)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RIG_NODES; i++) {
        bool votes = rig->nodes[i].quorum != NULL && rig_status(rig, i) == MESSAGE_STATUS_VOTING;
        ck_assert_msg(votes == ((mask >> i & 1) != 0), "node %u", i);
        count += votes;
        if (votes) {
            ck_assert_uint_eq(rig_number(rig, i), number);
            ck_assert_uint_eq(quorum_voters(rig->nodes[i].quorum)->count,
                              (uint32_t)__builtin_popcount(mask));
            ck_assert(rig->nodes[i].disk.voters.complete);
        }
    }
    /* a partition that is being handed back has no coordinator in the surveys, for 1 s at most */
    for (int i = 0; i < 100 && coordinated(mask) != MESSAGE_PARTITIONS; i++) {
        rig_run(rig, 10);
    }
    ck_assert_uint_eq(coordinated(mask), MESSAGE_PARTITIONS);
    ck_assert_uint_gt(count, 0);
}
