/*
 * The quorum core's memory, its start, and the way from an event to the file that handles it.
 *
 * One block: the state, then its tables, each as long as its limit says. Indexes begin with 1
 * (agents: with 0, the voters first), so that zeroed memory is an empty table.
 */
#include "core/quorum.h"

#include <string.h>

#include "proto/check.h"
#include "state.h"

struct layout {
    size_t registers, links, shares, agents, agent_heads, requests, works, work_heads, wakes, size;
    size_t answered, answered_heads;
    uint32_t agent_head_count, work_head_count, answered_count;
};

static uint32_t power_above(uint32_t count)
{
    uint32_t power = 16;
    while (power < count && power < (UINT32_C(1) << 31)) {
        power *= 2;
    }
    return power;
}

static size_t place(size_t *at, size_t count, size_t size)
{
    size_t here = (*at + 63) & ~(size_t)63;
    *at = here + count * size;
    return here;
}

static struct layout layout_of(const struct quorum_limits *limits)
{
    struct layout layout = {
        .agent_head_count = power_above(limits->agents),
        .work_head_count = power_above(limits->requests),
        .answered_count = power_above(limits->requests > 1024 ? limits->requests : 1024),
    };
    size_t at = sizeof(struct quorum);
    layout.registers = place(&at, (size_t)limits->registers + 1, sizeof(struct record));
    layout.shares = place(&at, (size_t)limits->shares + SHARES_RESERVE + 1,
                          sizeof(struct share_record));
    layout.links = place(&at, (size_t)limits->registers + 1, sizeof(struct register_link));
    layout.agents = place(&at, limits->agents, sizeof(struct agent_record));
    layout.agent_heads = place(&at, layout.agent_head_count, sizeof(uint16_t));
    layout.requests = place(&at, (size_t)limits->requests + 1, sizeof(struct request));
    size_t works = (size_t)limits->requests * WORKS_PER_REQUEST + 1;
    layout.works = place(&at, works, sizeof(struct work));
    layout.work_heads = place(&at, layout.work_head_count, sizeof(uint32_t));
    layout.wakes = place(&at, works, sizeof(uint32_t));
    layout.answered = place(&at, (size_t)layout.answered_count + 1, sizeof(struct answered));
    layout.answered_heads = place(&at, layout.answered_count, sizeof(uint32_t));
    layout.size = place(&at, 0, 1);
    return layout;
}

size_t quorum_size(const struct quorum_limits *limits)
{
    return layout_of(limits).size;
}

const char *quorum_config_error(const struct quorum_config *config)
{
    const struct quorum_limits *limits = &config->limits;
    uint32_t voters = config->voter_count;
    if (voters != 1 && voters != 3 && voters != 5 && voters != 7) {
        return "a cell has 1, 3, 5 or 7 voters";
    }
    if (config->self >= voters) {
        return "this agent is not among the voters";
    }
    for (uint32_t i = 0; i < voters; i++) {
        if (!agent_name_valid(&config->voters[i])) {
            return "a voter's name is not of the form [a-z0-9_-]{1,32}";
        }
        for (uint32_t k = 0; k < i; k++) {
            if (memcmp(&config->voters[i], &config->voters[k], sizeof(config->voters[i])) == 0) {
                return "a voter is named twice";
            }
        }
    }
    if (config->session_ttl_ns < 100 * MS_NS || config->session_ttl_ns > 3600 * 1000 * MS_NS) {
        return "session_ttl is not from 100ms to 1h";
    }
    if (config->max_drift_percent > 50) {
        return "max_drift is not from 0% to 50%";
    }
    if (limits->agents < voters || limits->agents > QUORUM_AGENTS_MAX) {
        return "the limit of agents is not from the number of voters to 65000";
    }
    if (limits->registers == 0 || limits->registers > NAMES_COUNT_MAX || limits->requests == 0 ||
        limits->requests > NAMES_COUNT_MAX) {
        return "the limits of registers and requests are not from 1 to 2^25";
    }
    if (limits->shares < MESSAGE_SHARES_MAX || limits->shares > NAMES_COUNT_MAX) {
        return "the limit of shares is not from 64 to 2^25";
    }
    return NULL;
}

struct quorum *quorum_init(void *memory, const struct quorum_config *config, struct names *names)
{
    HF_CHECK(memory != NULL && (uintptr_t)memory % 8 == 0 && names != NULL);
    HF_CHECK(quorum_config_error(config) == NULL);
    struct layout layout = layout_of(&config->limits);
    uint8_t *base = memory;
    struct quorum *quorum = memory;
    quorum->config = *config;
    quorum->names = names;
    quorum->registers = (void *)(base + layout.registers);
    quorum->shares = (void *)(base + layout.shares);
    quorum->links = (void *)(base + layout.links);
    quorum->agents = (void *)(base + layout.agents);
    quorum->agent_heads = (void *)(base + layout.agent_heads);
    quorum->agent_head_mask = layout.agent_head_count - 1;
    quorum->requests = (void *)(base + layout.requests);
    quorum->works = (void *)(base + layout.works);
    quorum->work_heads = (void *)(base + layout.work_heads);
    quorum->wakes = (void *)(base + layout.wakes);
    quorum->answered = (void *)(base + layout.answered);
    quorum->answered_heads = (void *)(base + layout.answered_heads);
    quorum->answered_mask = layout.answered_count - 1;
    quorum->work_head_mask = layout.work_head_count - 1;
    quorum->beat_ns = NEVER;
    quorum->death_ns = NEVER;
    quorum->tick_ns = NEVER;
    coordinator_init(quorum);
    members_init(quorum);
    memset(quorum->agent_heads, 0xff, layout.agent_head_count * sizeof(uint16_t));
    for (uint32_t i = 0; i < config->voter_count; i++) {
        uint32_t index = 0;
        bool made = quorum_agent(quorum, &config->voters[i], &index);
        HF_CHECK(made && index == i);
    }
    return quorum;
}

/* ---- What the other files use ---- */

void quorum_schedule(struct quorum *quorum, int64_t when_ns)
{
    if (when_ns < quorum->tick_ns) {
        quorum->tick_ns = when_ns;
    }
}

bool quorum_has_room(const struct quorum *quorum, uint32_t actions)
{
    return quorum->actions->count + actions <= quorum->action_limit;
}

/* Everything but the shares of a value. */
#define ACTION_BASE_SIZE (offsetof(struct action_send, message) + MESSAGE_BASE_SIZE)
_Static_assert(ACTION_BASE_SIZE >= offsetof(struct quorum_register, value.shares) &&
                   ACTION_BASE_SIZE >= sizeof(struct quorum_member) &&
                   ACTION_BASE_SIZE >= sizeof(struct action_log),
               "an action is zeroed up to its shares");

struct action *quorum_emit(struct quorum *quorum, enum action_kind kind)
{
    HF_CHECK(quorum_has_room(quorum, 1));
    struct action *action = &quorum->actions->items[quorum->actions->count++];
    memset(action, 0, offsetof(struct action, as) + ACTION_BASE_SIZE);
    action->kind = kind;
    return action;
}

void quorum_header(const struct quorum *quorum, enum message_kind kind, struct message *message)
{
    message_zero(message);
    message->kind = kind;
    message->membership = quorum->members.number;
    message->from = quorum->config.voters[quorum->config.self];
    message->store_id[0] = quorum->config.store_id[0];
    message->store_id[1] = quorum->config.store_id[1];
    message->commit = quorum_told_commit(quorum);
}

struct message *quorum_send(struct quorum *quorum, uint32_t to, enum message_kind kind)
{
    struct action *action = quorum_emit(quorum, ACTION_SEND);
    action->as.send.to = to;
    action->as.send.relay = ACTION_NO_RELAY;
    quorum_header(quorum, kind, &action->as.send.message);
    return &action->as.send.message;
}

uint32_t quorum_majority(const struct quorum *quorum)
{
    return quorum->config.voter_count / 2 + 1;
}

int64_t quorum_long_ns(const struct quorum *quorum, int64_t duration_ns)
{
    return duration_ns + duration_ns / 100 * quorum->config.max_drift_percent;
}

int64_t quorum_closed_ns(const struct quorum *quorum, int64_t lock_delay_ns)
{
    int64_t drift = quorum->config.max_drift_percent;
    int64_t killed = (90 * (100 + drift) + (99 - drift)) / (100 - drift); /* rounded up */
    return lock_delay_ns / 100 * (killed > 100 + drift ? killed : 100 + drift);
}

void quorum_name(const struct quorum *quorum, uint32_t name, struct message_name *out)
{
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, name, &length);
    message_name_set(out, bytes, length);
}

static uint16_t *agent_bucket(const struct quorum *quorum, const struct message_agent *name)
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < name->length; i++) {
        hash = (hash ^ (uint8_t)name->text[i]) * 16777619u;
    }
    return &quorum->agent_heads[(hash ^ hash >> 15) & quorum->agent_head_mask];
}

bool quorum_find_agent(const struct quorum *quorum, const struct message_agent *name,
                       uint32_t *index)
{
    uint16_t at = *agent_bucket(quorum, name);
    while (at != NOBODY && memcmp(&quorum->agents[at].name, name, sizeof(*name)) != 0) {
        at = quorum->agents[at].next;
    }
    *index = at;
    return at != NOBODY;
}

static void take_name(struct quorum *quorum, uint32_t index, const struct message_agent *name)
{
    struct agent_record *agent = &quorum->agents[index];
    uint16_t *head = agent_bucket(quorum, name);
    memset(agent, 0, sizeof(*agent));
    agent->name = *name;
    agent->heard_ns = INT64_MIN;
    agent->heard_older_ns = INT64_MIN;
    agent->echo_counted_ns = INT64_MIN;
    agent->next = *head;
    *head = (uint16_t)index;
}

bool quorum_from_voter(const struct quorum *quorum, const struct message *message, uint32_t *voter)
{
    return quorum_find_agent(quorum, &message->from, voter) && *voter < quorum->config.voter_count;
}

/* ---- Public ---- */

bool quorum_agent(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
{
    if (quorum_find_agent(quorum, name, index)) {
        return true;
    }
    if (quorum->agent_count >= quorum->config.limits.agents) {
        return false;
    }
    *index = quorum->agent_count++;
    take_name(quorum, *index, name);
    return true;
}

/* Nothing is known of it but that somebody said its name: forgotten, it is as it was before. */
static bool is_name_only(const struct agent_record *agent)
{
    return agent->epoch == 0 && agent->marked == 0 && agent->granted == 0 &&
           agent->epoch_before == 0 && agent->heard_ns == INT64_MIN &&
           agent->heard_older_ns == INT64_MIN && agent->dead == 0 && agent->phase == DEATH_IDLE &&
           agent->waiting == NONE && agent->acquires == 0 && agent->others == 0;
}

/* Out of its bucket. */
static void forget_name(struct quorum *quorum, uint32_t index)
{
    uint16_t *link = agent_bucket(quorum, &quorum->agents[index].name);
    while (*link != index) {
        link = &quorum->agents[*link].next;
    }
    *link = quorum->agents[index].next;
}

bool quorum_guest(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
{
    uint32_t voters = quorum->config.voter_count;
    uint32_t others = quorum->agent_count - voters;
    if (quorum_find_agent(quorum, name, index) ||
        quorum->agent_count < quorum->config.limits.agents / 4 * 3) {
        return quorum_agent(quorum, name, index);
    }
    for (uint32_t i = 0; i < others; i++) {
        uint32_t at = voters + (quorum->guest_next + i) % others;
        if (is_name_only(&quorum->agents[at])) {
            forget_name(quorum, at);
            take_name(quorum, at, name);
            quorum->guest_next = at - voters + 1;
            *index = at;
            return true;
        }
    }
    return quorum_agent(quorum, name, index);
}

const struct message_agent *quorum_agent_name(const struct quorum *quorum, uint32_t index)
{
    HF_CHECK(index < quorum->agent_count);
    return &quorum->agents[index].name;
}

bool quorum_load_round(struct quorum *quorum, uint32_t round)
{
    HF_CHECK(!quorum->started);
    quorum->round = round > quorum->round ? round : quorum->round;
    return true;
}

bool quorum_load_promise(struct quorum *quorum, const struct quorum_promise *promise)
{
    HF_CHECK(!quorum->started);
    if (promise->ballot == 0 || promise->ballot >= MESSAGE_BALLOT_LIMIT) {
        return false;
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&promise->partitions, p) &&
            quorum->partitions[p].promised < promise->ballot) {
            quorum->partitions[p].promised = promise->ballot;
        }
    }
    return true;
}

bool quorum_load_register(struct quorum *quorum, const struct quorum_register *reg)
{
    HF_CHECK(!quorum->started);
    return reg->name.length > 0 && order_valid(reg->accepted) && value_valid(&reg->value) &&
           acceptor_store(quorum, &reg->name, reg->accepted, &reg->value);
}

bool quorum_load_mark(struct quorum *quorum, const struct message_session *mark)
{
    HF_CHECK(!quorum->started);
    uint32_t index = 0;
    if (!agent_name_valid(&mark->agent) || !quorum_agent(quorum, &mark->agent, &index)) {
        return false;
    }
    struct agent_record *agent = &quorum->agents[index];
    agent->marked = mark->epoch > agent->marked ? mark->epoch : agent->marked;
    return true;
}

bool quorum_look(const struct quorum *quorum, uint32_t name, struct quorum_register *out)
{
    const struct record *record = acceptor_find(quorum, name);
    if (record == NULL) {
        return false;
    }
    quorum_name(quorum, name, &out->name);
    out->accepted = record_accepted(record);
    record_to_value(quorum, record, &out->value);
    return true;
}

void quorum_set_commit(struct quorum *quorum, uint64_t commit)
{
    quorum->commit = commit;
    quorum->committing = false;
    members_set_commit(quorum, commit);
}

void quorum_committing(struct quorum *quorum)
{
    quorum->committing = true;
}

int64_t quorum_next_tick_ns(const struct quorum *quorum)
{
    return quorum->tick_ns;
}

/* ---- Events ---- */

/* A promise is at least what was accepted under it, also if its own row is older. */
static void raise_promises(struct quorum *quorum)
{
    uint32_t name = names_next(quorum->names, NAMES_NONE);
    for (; name != NAMES_NONE; name = names_next(quorum->names, name)) {
        const struct record *record = acceptor_find(quorum, name);
        size_t length = 0;
        const uint8_t *bytes = names_bytes(quorum->names, name, &length);
        struct partition *partition = &quorum->partitions[names_partition(bytes, length)];
        if (record != NULL && record_accepted(record).ballot > partition->promised) {
            partition->promised = record_accepted(record).ballot;
        }
    }
}

static void start(struct quorum *quorum)
{
    HF_CHECK(!quorum->started);
    quorum->started = true;
    quorum->fresh_since_ns = quorum->now_ns;
    quorum->stamp_ns = quorum->now_ns;
    quorum->incarnation = quorum->random | 1; /* never 0, which is no echo */
    raise_promises(quorum);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint32_t round = (uint32_t)(quorum->partitions[p].promised >> 16);
        quorum->heard_round = round > quorum->heard_round ? round : quorum->heard_round;
    }
    bounds_start(quorum);
    checkpoint_start(quorum);
    members_start(quorum);
    beat_start(quorum);
    sweep_start(quorum);
    coordinator_review(quorum);
}

static void receive(struct quorum *quorum, const struct message *message)
{
    if (!message_valid(message) || !bounds_allow(quorum, message)) {
        return;
    }
    members_learn(quorum, message);
    if (!members_admit(quorum, message)) {
        return;
    }
    switch (message->kind) {
    case MESSAGE_PREPARE:
        acceptor_prepare(quorum, message);
        break;
    case MESSAGE_PROMISE:
        if (quorum_standing(quorum) == MESSAGE_STANDING_REJOINING) {
            rejoin_promise(quorum, message);
        } else {
            coordinator_promise(quorum, message);
        }
        break;
    case MESSAGE_HELLO:
        members_hello(quorum, message);
        break;
    case MESSAGE_CHECKPOINT:
        checkpoint_asked(quorum, message);
        break;
    case MESSAGE_CHECKPOINTED:
        checkpoint_answered(quorum, message);
        break;
    case MESSAGE_READ:
        acceptor_read(quorum, message);
        break;
    case MESSAGE_VALUE:
        work_value(quorum, message);
        break;
    case MESSAGE_ACCEPT:
        acceptor_accept(quorum, message);
        break;
    case MESSAGE_ACCEPTED:
        work_accepted(quorum, message);
        break;
    case MESSAGE_RENEW:
        session_renew(quorum, message);
        break;
    case MESSAGE_POLL:
        session_poll(quorum, message);
        break;
    case MESSAGE_POLLED:
        death_polled(quorum, message);
        break;
    case MESSAGE_MARK:
        session_mark(quorum, message);
        break;
    case MESSAGE_MARKED:
        death_marked(quorum, message);
        break;
    case MESSAGE_PULL:
        sweep_pull(quorum, message);
        break;
    case MESSAGE_PULLED:
        sweep_pulled(quorum, message);
        break;
    case MESSAGE_BEAT:
        beat_receive(quorum, message);
        break;
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
    case MESSAGE_BREAK:
        work_request(quorum, message);
        break;
    default: /* it is for the host core: the driver's mistake harms nobody */
        break;
    }
}

static void tick(struct quorum *quorum)
{
    quorum->tick_ns = NEVER;
    quorum_schedule(quorum, members_tick(quorum));
    quorum_schedule(quorum, checkpoint_tick(quorum));
    quorum_schedule(quorum, beat_tick(quorum));
    quorum_schedule(quorum, coordinator_tick(quorum));
    quorum_schedule(quorum, sweep_tick(quorum));
    quorum_schedule(quorum, death_tick(quorum));
    quorum_schedule(quorum, work_tick(quorum));
}

/* How long this process did not run though it wanted to. */
static void note_lateness(struct quorum *quorum, int64_t now_ns)
{
    int64_t due_ns = quorum->tick_ns > quorum->now_ns ? quorum->tick_ns : quorum->now_ns;
    if (quorum->started && now_ns > due_ns) {
        beat_late(quorum, now_ns - due_ns, now_ns);
    }
}

void quorum_step(struct quorum *quorum, const struct quorum_event *event, struct actions *actions)
{
    HF_CHECK(actions->capacity - actions->count >= QUORUM_STEP_ACTIONS);
    HF_CHECK(event->now_ns >= quorum->now_ns);
    HF_CHECK(quorum->started || event->kind == QUORUM_START);
    note_lateness(quorum, event->now_ns);
    quorum->now_ns = event->now_ns;
    quorum->random = event->random;
    quorum->actions = actions;
    quorum->action_limit = actions->count + QUORUM_STEP_ACTIONS;
    uint32_t first = actions->count;
    switch (event->kind) {
    case QUORUM_START:
        start(quorum);
        break;
    case QUORUM_MESSAGE:
        receive(quorum, event->as.message);
        break;
    case QUORUM_TICK:
        tick(quorum);
        break;
    case QUORUM_STALLED:
        quorum->fresh_since_ns = quorum->now_ns;
        coordinator_review(quorum);
        break;
    case QUORUM_ASTRAY: /* what it has counted may be less than it should be */
        quorum->fresh_since_ns = quorum->now_ns;
        death_count_anew(quorum);
        break;
    case QUORUM_RESIGN:
        handover_resign(quorum);
        break;
    case QUORUM_LINK:
        members_link(quorum, event->as.link.voter, event->as.link.up);
        beat_link(quorum, event->as.link.voter, event->as.link.up);
        break;
    case QUORUM_REACHED:
        coordinator_reached(quorum, event->as.reached);
        break;
    }
    checkpoint_end_step(quorum);
    members_end_step(quorum, first);
    quorum->actions = NULL;
}

void quorum_check_invariants(const struct quorum *quorum)
{
    uint32_t registers = 0;
    uint32_t shares = 0;
    uint32_t name = names_next(quorum->names, NAMES_NONE);
    for (; name != NAMES_NONE; name = names_next(quorum->names, name)) {
        const struct record *record = acceptor_find(quorum, name);
        if (record == NULL) {
            continue;
        }
        registers++;
        size_t length = 0;
        const uint8_t *bytes = names_bytes(quorum->names, name, &length);
        const struct partition *partition = &quorum->partitions[names_partition(bytes, length)];
        HF_CHECK(!quorum->started || record_accepted(record).ballot <= partition->promised);
        struct message_value value;
        record_to_value(quorum, record, &value);
        HF_CHECK(value_valid(&value));
        shares += record_share_count(record);
    }
    HF_CHECK(registers == quorum->register_count);
    uint32_t preparing = 0;
    uint32_t incomplete = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct partition *partition = &quorum->partitions[p];
        preparing += partition->state == PARTITION_PREPARING;
        incomplete += partition->state == PARTITION_PREPARED && !partition->complete;
    }
    HF_CHECK(preparing == quorum->preparing && incomplete == quorum->incomplete);
    uint32_t deaths = 0;
    for (uint32_t i = 0; i < quorum->agent_count; i++) {
        deaths += quorum->agents[i].phase != DEATH_IDLE;
    }
    HF_CHECK(deaths == quorum->deaths);
    HF_CHECK(shares == quorum->share_stored);
    HF_CHECK(shares + work_share_count(quorum) == quorum->share_used);
    work_check_invariants(quorum);
}
