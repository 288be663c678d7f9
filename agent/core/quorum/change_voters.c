/*
 * Which voters have to answer for a change to go on. See change.h.
 *
 * A record of n + 1 is chosen by a majority of n and a majority of n + 1 (m1). Then a majority of n
 * has to use n + 1, and a majority of n + 1 completes it (m7). So while a change is decided, and
 * while it is completed, majorities of both have to answer. A voter that is removed is one of n. A
 * voter that stays is one of both, so the start of such a voter helps most.
 */
#include <string.h>

#include "change_private.h"

/* A count of the voters of a record, and of those that answer. */
struct turnout {
    uint32_t voters;
    uint32_t answer;
};

static bool is_enough(const struct turnout *turnout)
{
    return turnout->answer >= turnout->voters / 2 + 1;
}

bool change_answers(const struct quorum *quorum, uint32_t voter)
{
    return voters_heartbeats_arrive(quorum, voter) &&
           members_status_of(quorum, voter) == MESSAGE_STATUS_VOTING;
}

static bool is_voter(const struct quorum *quorum, uint32_t voter, const struct message_agent *name)
{
    return memcmp(&quorum->config->voters[voter], name, sizeof(*name)) == 0;
}

/* The voters of n and of n + 1: how many of each answer, and one that does not. */
struct survey {
    struct turnout before;
    struct turnout after;
    const struct message_agent *stays; /* a voter of both that does not answer; NULL: none */
    const struct message_agent *other; /* a voter of one of both that does not answer; NULL: none */
};

static void count(struct survey *survey, const struct message_agent *name, bool answers,
                  bool before, bool after)
{
    survey->before.voters += before;
    survey->before.answer += before && answers;
    survey->after.voters += after;
    survey->after.answer += after && answers;
    if (!answers && before && after) {
        survey->stays = name;
    } else if (!answers) {
        survey->other = name;
    }
}

/* Surveys the voters for a change that is not decided yet. The voter that is to be moved counts as
 * answering: it may run at its new address already, and nobody dials it there before the move is
 * proposed. A newcomer counts as answering, too: the caller knows whether it reports. */
static struct survey survey_undecided(const struct quorum *quorum,
                                      const struct message_member_asked *asked)
{
    struct survey survey = {.stays = NULL};
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        bool subject = is_voter(quorum, voter, &asked->voter);
        bool moves = subject && asked->act == MESSAGE_MEMBER_MOVE;
        bool leaves = subject && asked->act == MESSAGE_MEMBER_REMOVE;
        count(&survey, &quorum->config->voters[voter], moves || change_answers(quorum, voter), true,
              !leaves);
    }
    if (asked->act == MESSAGE_MEMBER_ADD) {
        count(&survey, &asked->voter, true, false, true);
    }
    return survey;
}

/* Surveys the voters for the present record, which is not complete yet. */
static struct survey survey_incomplete(const struct quorum *quorum)
{
    const struct message_voters *now = members_voters(quorum);
    struct survey survey = {.stays = NULL};
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        bool is_new = now->act == MESSAGE_MEMBER_ADD && is_voter(quorum, voter, &now->changed);
        count(&survey, &quorum->config->voters[voter], change_answers(quorum, voter), !is_new,
              true);
    }
    if (now->act == MESSAGE_MEMBER_REMOVE) {
        count(&survey, &now->changed, quorum->changes->completion.removed_knows, true, false);
    }
    return survey;
}

const struct message_agent *change_awaits(const struct quorum *quorum,
                                          const struct proposal *proposal)
{
    struct survey survey = proposal->stage == MESSAGE_CHANGE_CHOSEN
                               ? survey_incomplete(quorum)
                               : survey_undecided(quorum, &proposal->asked);
    if (is_enough(&survey.before) && is_enough(&survey.after)) {
        return NULL;
    }
    return survey.stays != NULL ? survey.stays : survey.other;
}

enum message_change_reason change_lacks(const struct quorum *quorum,
                                        const struct proposal *proposal,
                                        const struct message_agent **subject)
{
    const struct message_member_asked *asked = &proposal->asked;
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        bool leaves = asked->act == MESSAGE_MEMBER_REMOVE && is_voter(quorum, voter, &asked->voter);
        if (members_status_of(quorum, voter) == MESSAGE_STATUS_REJOINING && !leaves) {
            *subject = &quorum->config->voters[voter];
            return MESSAGE_CHANGE_REJOINING;
        }
    }
    *subject = asked->act == MESSAGE_MEMBER_ADD ? survey_undecided(quorum, asked).stays
                                                : change_awaits(quorum, proposal);
    return *subject != NULL ? MESSAGE_CHANGE_SILENT : MESSAGE_CHANGE_NONE;
}
