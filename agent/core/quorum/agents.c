/* The table of agents: see agents.h. */
#include "agents.h"

#include <string.h>

#include "proto/check.h"
#include "reactions.h"

struct agent_entry {
    struct message_agent name;
    uint16_t next; /* the next entry of the same hash bucket */
};

struct agents {
    struct agent_entry *of; /* the entries, by index */
    uint16_t *heads;        /* the first entry of each hash bucket */
    uint32_t head_count;
    uint32_t count;
    uint32_t guest_next; /* the entry at which agents_guest() looks first */
    /* the entry of each voter; the last one is this agent's */
    uint16_t of_voters[MESSAGE_VOTERS_MAX + 1];
};

struct agents *agents_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct agents *agents = arena_take(arena, 1, sizeof(*agents));
    uint32_t head_count = 16;
    while (head_count < limits->agents) {
        head_count *= 2;
    }
    ARENA_TAKE(arena, agents, of, limits->agents);
    ARENA_TAKE(arena, agents, heads, head_count);
    if (agents != NULL) {
        agents->head_count = head_count;
    }
    return agents;
}

void agents_init(struct quorum *quorum)
{
    struct agents *agents = quorum->agents;
    memset(agents->heads, 0xff, agents->head_count * sizeof(uint16_t));
    agents_follow(quorum);
}

void agents_follow(struct quorum *quorum)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < quorum->config->voter_count; i++) {
        bool made = agents_make(quorum, &quorum->config->voters[i], &index);
        HF_CHECK(made);
        quorum->agents->of_voters[i] = (uint16_t)index;
    }
    bool made = agents_make(quorum, &quorum->config->name, &index);
    HF_CHECK(made);
    quorum->agents->of_voters[QUORUM_NO_VOTER] = (uint16_t)index;
}

uint32_t agents_count(const struct quorum *quorum)
{
    return quorum->agents->count;
}

const struct message_agent *agents_name(const struct quorum *quorum, uint32_t index)
{
    HF_CHECK(index < quorum->agents->count);
    return &quorum->agents->of[index].name;
}

static uint16_t *bucket_of(const struct agents *agents, const struct message_agent *name)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < name->length; i++) {
        hash = (hash ^ (uint8_t)name->text[i]) * 16777619u;
    }
    return &agents->heads[(hash ^ hash >> 15) & (agents->head_count - 1)];
}

bool agents_find(const struct quorum *quorum, const struct message_agent *name, uint32_t *index)
{
    const struct agents *agents = quorum->agents;
    uint16_t at = *bucket_of(agents, name);
    while (at != AGENTS_NONE && memcmp(&agents->of[at].name, name, sizeof(*name)) != 0) {
        at = agents->of[at].next;
    }
    *index = at;
    return at != AGENTS_NONE;
}

bool agents_voter(const struct quorum *quorum, const struct message *message, uint32_t *voter)
{
    uint32_t index = 0;
    *voter = agents_find(quorum, &message->from, &index) ? agents_as_voter(quorum, index)
                                                         : quorum->config->voter_count;
    return *voter < quorum->config->voter_count;
}

bool agents_proposer(const struct quorum *quorum, const struct message *message, uint64_t ballot,
                     uint32_t *voter)
{
    return agents_voter(quorum, message, voter) &&
           (ballot & 0xffff) == quorum->config->ballot_ids[*voter];
}

uint32_t agents_of_voter(const struct quorum *quorum, uint32_t voter)
{
    HF_CHECK(voter < quorum->config->voter_count || voter == QUORUM_NO_VOTER);
    return quorum->agents->of_voters[voter];
}

uint32_t agents_as_voter(const struct quorum *quorum, uint32_t index)
{
    uint32_t voter = 0;
    while (voter < quorum->config->voter_count && quorum->agents->of_voters[voter] != index) {
        voter++;
    }
    return voter;
}

struct message *agents_send_voter(struct quorum *quorum, uint32_t voter, enum message_kind kind)
{
    return step_send(quorum, agents_of_voter(quorum, voter), kind);
}

/* Gives the entry to the agent of that name. */
static void take(struct quorum *quorum, uint32_t index, const struct message_agent *name)
{
    uint16_t *head = bucket_of(quorum->agents, name);
    quorum->agents->of[index] = (struct agent_entry){.name = *name, .next = *head};
    *head = (uint16_t)index;
    reaction_agent_named(quorum, index);
}

/* Unlinks the entry from its hash bucket. */
static void forget(struct agents *agents, uint32_t index)
{
    uint16_t *link = bucket_of(agents, &agents->of[index].name);
    while (*link != index) {
        link = &agents->of[*link].next;
    }
    *link = agents->of[index].next;
}

bool agents_make(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
{
    if (agents_find(quorum, name, index)) {
        return true;
    }
    if (quorum->agents->count >= quorum->config->limits.agents) {
        return false;
    }
    *index = quorum->agents->count++;
    take(quorum, *index, name);
    return true;
}

bool agents_guest(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
{
    struct agents *agents = quorum->agents;
    if (agents_find(quorum, name, index) || agents->count < quorum->config->limits.agents / 4 * 3) {
        return agents_make(quorum, name, index);
    }
    for (uint32_t i = 0; i < agents->count; i++) {
        uint32_t at = (agents->guest_next + i) % agents->count;
        if (agents_as_voter(quorum, at) == quorum->config->voter_count &&
            reaction_agent_is_unknown(quorum, at)) {
            forget(agents, at);
            take(quorum, at, name);
            agents->guest_next = at + 1;
            *index = at;
            return true;
        }
    }
    return agents_make(quorum, name, index);
}
