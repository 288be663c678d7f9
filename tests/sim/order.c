/*
 * Checks that locks are served in order. The checks are outside of the queues that must keep the
 * order.
 *
 *   at a coordinator   Always: a host that is granted a lock came before all hosts that are still
 *                      in the queue, by the waiting times that the hosts reported
 *                      (core/quorum/queues_request.c).
 *   between hosts      After all faults have healed, and if no agent is starved: a host that asked
 *                      earlier is granted the lock earlier, whichever voter coordinates. The times
 *                      must differ by SLACK_NS, and by more than the rates of clocks can change the
 *                      waiting times in messages. One exception: a host's agent coordinated the
 *                      lock itself and was killed. Until the host's request reaches the next
 *                      coordinator, the request is in no queue, and grants of that time may pass it
 *                      (docs/TIMEOUTS.md, "Passed over").
 *   on a host          Always, except with HF_BARGING: no process takes a lock exclusively past a
 *                      process that already slept in the queue when the take began. A process may
 *                      leave its place in the queue while the lock is being handed to it. If it
 *                      then takes the lock again, its old place counts.
 *   hand-overs         A host that has received a recall hands the lock on at most HANDOVERS_MAX
 *                      times before it gives the lock back.
 *
 * The checks read the members of a queue from the coordinator, but not their order. main.c checks
 * that no waiter waits for ever.
 */
#include <string.h>

#include "proto/check.h"
#include "quorum/queues_private.h"
#include "quorum/sessions_private.h"
#include "sim.h"

void real_queues_request(struct quorum *quorum, const struct message *message);
void real_answered_keep(struct quorum *quorum, const struct queued_request *request,
                        const struct message_grant *grant);
void answered_keep(struct quorum *quorum, const struct queued_request *request,
                   const struct message_grant *grant);

enum {
    ASKED = 1024, /* how many requests of all hosts, and of each queue, are remembered */
    HANDOVERS_MAX = 16,
};
/* A waiting host repeats its request each second by its own clock. So 1.2 s after a coordinator is
 * lost, each waiting host is in the queue of the next one. */
static const int64_t SLACK_NS = 1200 * SIM_MS;
static const int64_t SETTLED_NS = 5000 * SIM_MS;
/* the greatest error of waiting times in messages: one clock is slow, the other fast */
enum { RATES_PERCENT = 25 };

struct asked {
    uint32_t agent;
    uint32_t epoch;
    uint64_t id; /* 0: the entry is free */
    uint32_t lock;
    int64_t born_ns;    /* when the host first asked; all times in this struct are true times */
    int64_t killed_ns;  /* when the coordinator whose queue alone had the request was killed; 0:
                         * never */
    int64_t back_ns;    /* when the request came into a coordinator's queue again; INT64_MAX: not
                         * yet */
    int64_t chosen_ns;  /* when the coordinator began the round that granted the request */
    int64_t granted_ns; /* when the request was granted; 0: not yet */
};

/* A request in a voter's queue. */
struct queued {
    uint32_t starts; /* identifies the voter's process */
    uint16_t agent;
    uint32_t epoch;
    uint64_t id;
    int64_t came_ns;    /* when the request came, by the voter's clock, less the waiting time in
                         * the message */
    int64_t arrived_ns; /* when the message arrived, by the voter's clock */
};

static struct {
    struct asked asked[ASKED];
    struct queued queued[AGENTS][ASKED];
    struct {
        struct message_order version;
        uint32_t agents;    /* the hosts to which the round granted the lock */
    } round[AGENTS][LOCKS]; /* for each voter and lock: the last round that granted
                                         * something */
    struct {
        uint32_t count;     /* the number of hand-overs since the recall */
        uint32_t starts;    /* identifies the agent's process */
        uint64_t token_top; /* the last token of the grant */
    } handed[AGENTS][SLOTS];
    int64_t held_ns[AGENTS][SLOTS]; /* when a process of the host last took the lock, or began to
                                     * release it */
} notes;

void order_reset(void)
{
    memset(&notes, 0, sizeof(notes));
}

/* Returns the index of a request, which asked_at() takes modulo ASKED. A host's ids count up in
 * their upper bits, so a new request replaces an old one. */
static uint32_t place_of(uint32_t agent, uint64_t id)
{
    return (uint32_t)(id >> 16) * AGENTS + agent;
}

static struct asked *asked_at(uint32_t agent, uint64_t id)
{
    return &notes.asked[place_of(agent, id) % ASKED];
}

/* Returns the earlier request that `acquire` continues, or NULL if it is no longer remembered. If
 * the first message of a request already has a waiting time, the request continues a request of the
 * agent's previous process. */
static const struct asked *asked_before(const struct message_acquire *acquire, uint32_t agent,
                                        uint32_t lock)
{
    int64_t waited_ns = acquire->waited_ms * SIM_MS;
    int64_t slack_ns = 50 * SIM_MS + waited_ns / 100 * RATES_PERCENT / 2;
    for (uint32_t i = 0; i < ASKED; i++) {
        const struct asked *before = &notes.asked[i];
        int64_t age_ns = sim_now() - before->born_ns;
        if (before->id != 0 && before->agent == agent && before->epoch == acquire->epoch &&
            before->lock == lock && before->id != acquire->request_id &&
            age_ns > waited_ns - slack_ns && age_ns < waited_ns + slack_ns) {
            return before;
        }
    }
    return NULL;
}

void order_asked(const struct message *message)
{
    const struct message_acquire *acquire = &message->as.acquire;
    uint32_t agent = agent_of_name(&acquire->agent);
    uint32_t lock = disk_lock_of(&acquire->name);
    struct asked *at = asked_at(agent, acquire->request_id);
    if (at->agent != agent || at->epoch != acquire->epoch || at->id != acquire->request_id) {
        const struct asked *before = acquire->waited_ms > 0 ? asked_before(acquire, agent, lock)
                                                            : NULL;
        struct asked now = {.born_ns = sim_now() - acquire->waited_ms * SIM_MS,
                            .back_ns = INT64_MAX};
        if (before != NULL) {
            now.born_ns = before->born_ns;
            now.killed_ns = before->granted_ns == 0 ? before->killed_ns : 0;
        }
        now.agent = agent;
        now.epoch = acquire->epoch;
        now.id = acquire->request_id;
        now.lock = lock;
        *at = now;
    }
}

void order_killed(const struct sim_agent *agent)
{
    for (uint32_t i = 0; i < ASKED && agent->quorum != NULL; i++) {
        struct asked *asked = &notes.asked[i];
        if (asked->id != 0 && asked->agent == agent->index && asked->granted_ns == 0 &&
            ballots_state(agent->quorum, partition_of(asked->lock)) == PARTITION_PREPARED) {
            asked->killed_ns = sim_now();
            asked->back_ns = INT64_MAX;
        }
    }
}

/* ---- at a coordinator ---- */

static const struct operation *operation_of(const struct quorum *quorum,
                                            const struct message_name *name)
{
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    for (uint32_t at = 1; id != NAMES_NONE && at <= quorum->queues->operation_used; at++) {
        if (quorum->queues->operations[at].name == id) {
            return &quorum->queues->operations[at];
        }
    }
    return NULL;
}

static bool is_queued(const struct quorum *quorum, const struct message_acquire *acquire)
{
    uint32_t agent = 0;
    const struct operation *operation = operation_of(quorum, &acquire->name);
    uint32_t at = operation == NULL ? NONE : operation->first;
    if (!agents_find(quorum, &acquire->agent, &agent)) {
        return false;
    }
    for (; at != NONE; at = quorum->queues->requests[at].next) {
        const struct queued_request *request = &quorum->queues->requests[at];
        if (request->kind == MESSAGE_ACQUIRE && request->agent == agent &&
            request->epoch == acquire->epoch && request->id == acquire->request_id) {
            return true;
        }
    }
    return false;
}

/* Returns the index of the agent that has this core. */
static uint32_t own_index(const struct quorum *quorum)
{
    return agent_of_name(&quorum->config->name);
}

static struct queued *queued_at(const struct quorum *quorum, uint16_t agent, uint64_t id)
{
    return &notes.queued[own_index(quorum)][place_of(agent, id) % ASKED];
}

/* Returns the request's entry, or NULL if the time of its arrival is no longer known. */
static const struct queued *queued_find(const struct quorum *quorum,
                                        const struct queued_request *request)
{
    const struct queued *at = queued_at(quorum, request->agent, request->id);
    bool same = at->agent == request->agent && at->epoch == request->epoch &&
                at->id == request->id && at->starts == world.agents[own_index(quorum)].starts;
    return same ? at : NULL;
}

/*
 * Notes when a request that was lost with a killed coordinator is in a coordinator's queue again.
 *
 * A voter that does not coordinate the partition refuses the request or passes it on. A voter that
 * still prepares the partition queues the request, but can grant nothing. So only the queue of a
 * voter that has prepared the partition counts. check_queue() checks the grants from that queue. A
 * request that is granted at once is in no queue, and is not checked.
 */
static void note_back(const struct quorum *quorum, const struct message_acquire *acquire,
                      struct asked *asked)
{
    uint32_t partition = partition_of(asked->lock);
    if (asked->killed_ns != 0 && asked->back_ns == INT64_MAX &&
        ballots_state(quorum, partition) == PARTITION_PREPARED && is_queued(quorum, acquire)) {
        asked->back_ns = sim_now();
    }
}

void order_request(struct quorum *quorum, const struct message *message,
                   const struct message *changed)
{
    const struct message_acquire *acquire = &message->as.acquire;
    uint32_t agent = 0;
    order_asked(message);
    bool before = is_queued(quorum, acquire);
    struct asked *asked = asked_at(agent_of_name(&acquire->agent), acquire->request_id);
    sim_tell("voter %u: %.*s asks, waited %u ms%s", own_index(quorum), acquire->agent.length,
             acquire->agent.text, acquire->waited_ms, before ? ", again" : "");
    if (!before && agents_make(quorum, &acquire->agent, &agent)) {
        *queued_at(quorum, (uint16_t)agent, acquire->request_id) = (struct queued){
            .starts = world.agents[own_index(quorum)].starts,
            .agent = (uint16_t)agent,
            .epoch = acquire->epoch,
            .id = acquire->request_id,
            .came_ns = step_now_ns(quorum) - acquire->waited_ms * SIM_MS,
            .arrived_ns = step_now_ns(quorum)};
    }
    real_queues_request(quorum, changed);
    note_back(quorum, acquire, asked);
}

/* Returns whether the coordinator knows that the request's session has ended, and so refuses the
 * request. */
static bool is_over(const struct quorum *quorum, const struct queued_request *request)
{
    const struct session *agent = &quorum->sessions->of[request->agent];
    return request->epoch <= agent->ended || request->epoch < agent->epoch;
}

static void check_queue(const struct quorum *quorum, const struct operation *operation,
                        const struct queued_request *granted, uint32_t lock)
{
    const struct queued *mine = queued_find(quorum, granted);
    for (uint32_t at = operation->first; mine != NULL && at != NONE;
         at = quorum->queues->requests[at].next) {
        const struct queued_request *other = &quorum->queues->requests[at];
        const struct queued *its = queued_find(quorum, other);
        if (other->kind == MESSAGE_ACQUIRE && other->outcome == OUTCOME_NONE && its != NULL &&
            its->came_ns < mine->came_ns && its->arrived_ns < operation->began_ns &&
            !is_over(quorum, other)) {
            sim_fail("voter %u grants lock %u to %.*s, who came %lld us after %.*s",
                     own_index(quorum), lock, agents_name(quorum, granted->agent)->length,
                     agents_name(quorum, granted->agent)->text,
                     (long long)(mine->came_ns - its->came_ns) / 1000,
                     agents_name(quorum, other->agent)->length,
                     agents_name(quorum, other->agent)->text);
        }
    }
}

/* ---- between hosts ---- */

int64_t order_chosen_ns(uint32_t agent, uint32_t lock)
{
    const struct asked *last = NULL;
    for (uint32_t i = 0; i < ASKED; i++) {
        const struct asked *asked = &notes.asked[i];
        if (asked->id != 0 && asked->agent == agent && asked->lock == lock &&
            asked->chosen_ns != 0 && (last == NULL || asked->granted_ns > last->granted_ns)) {
            last = asked;
        }
    }
    return last != NULL ? last->chosen_ns : sim_now();
}

/* Returns whether the grant of `other` was chosen while no coordinator could know of the request
 * `mine`. */
static bool may_pass(const struct asked *other, const struct asked *mine)
{
    return mine->killed_ns != 0 && other->granted_ns > mine->killed_ns && other->chosen_ns != 0 &&
           other->chosen_ns < mine->back_ns;
}

static void check_hosts(struct asked *mine)
{
    int64_t since_ns = world.healed_ns + SETTLED_NS;
    int64_t slack_ns = SLACK_NS + (sim_now() - mine->born_ns) / 100 * RATES_PERCENT;
    bool well = world.healing && !world.run.starved;
    for (uint32_t i = 0; i < ASKED && well && mine->granted_ns == 0; i++) {
        const struct asked *other = &notes.asked[i];
        if (other->id != 0 && other->lock == mine->lock && other->granted_ns > since_ns &&
            other->born_ns > mine->born_ns + slack_ns && !may_pass(other, mine)) {
            sim_fail("host %u asked for lock %u %lld us before host %u, and is granted it after it",
                     mine->agent, mine->lock, (long long)(other->born_ns - mine->born_ns) / 1000,
                     other->agent);
        }
    }
    mine->granted_ns = mine->granted_ns == 0 ? sim_now() : mine->granted_ns;
}

/* Returns whether this round grants the host something new: the grant has the round's version, and
 * the host gets this version for the first time. Otherwise the grant may answer a request of the
 * agent's previous process, which has waited longer. */
static bool is_new(const struct quorum *quorum, const struct operation *operation, uint32_t lock,
                   uint32_t agent, struct message_order version)
{
    uint32_t self = own_index(quorum);
    if (!message_order_equal(version, operation->order)) {
        return false;
    }
    if (!message_order_equal(notes.round[self][lock].version, version)) {
        notes.round[self][lock].version = version;
        notes.round[self][lock].agents = 0;
    }
    bool first = (notes.round[self][lock].agents >> agent & 1) == 0;
    notes.round[self][lock].agents |= UINT32_C(1) << agent;
    return first;
}

void answered_keep(struct quorum *quorum, const struct queued_request *request,
                   const struct message_grant *grant)
{
    const struct operation *operation = operation_of(quorum, &grant->name);
    uint32_t agent = agent_of_name(&grant->agent);
    uint32_t lock = disk_lock_of(&grant->name);
    HF_CHECK(operation != NULL && agent < AGENTS && lock < LOCKS);
    if (is_new(quorum, operation, lock, agent, grant->version)) {
        struct asked *asked = asked_at(agent, request->id);
        check_queue(quorum, operation, request, lock);
        if (asked->id == request->id && asked->epoch == request->epoch) {
            asked->chosen_ns = clock_true(&world.agents[own_index(quorum)], operation->began_ns);
            check_hosts(asked);
        }
    }
    real_answered_keep(quorum, request, grant);
}

/* ---- on a host ---- */

/* Returns whether the handle waits for the taker's slot, to take the lock exclusively, and has
 * slept since a time before before_ns. */
static bool waits_there(const struct sim_process *process, const struct sim_handle *handle,
                        const struct sim_handle *taker, int64_t before_ns)
{
    if (!handle->open || handle->barging || handle->region != taker->region ||
        handle->slot != taker->slot || handle->seat == HFI_SEAT_NONE) {
        return false;
    }
    const struct hfi_region *region = &process->agent->regions[handle->region].region;
    uint64_t wait = *hfi_seat_wait(region, handle->seat);
    return process->fiber.state == FIBER_ASLEEP && process->fiber.asleep_ns < before_ns &&
           process->fiber.futex == &hfi_seat(region, handle->seat)->wake &&
           (wait & HFI_WAIT_WAITING) && !(wait & (HFI_WAIT_LEFT | HFI_WAIT_SHARED));
}

/* Returns the time from which the taker's place in the queue counts. The old place counts if the
 * taker left it after a process of the host last took the lock or began to release it, because the
 * next holder was chosen after that. */
static int64_t taken_since(const struct sim_process *taker, const struct sim_handle *taken)
{
    int64_t last_ns = notes.held_ns[taker->agent->index][taken->slot];
    bool was_there = taken->left_takes_ns != 0 && taken->left_ns >= last_ns;
    return was_there ? taken->left_takes_ns : taken->takes_ns;
}

static void check_local(const struct sim_process *taker, const struct sim_handle *taken)
{
    int64_t since_ns = taken_since(taker, taken);
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct sim_process *process = &world.processes[i];
        for (uint32_t k = 0; process->alive && process->agent == taker->agent && k < HANDLES; k++) {
            if (waits_there(process, &process->handles[k], taken, since_ns)) {
                sim_fail("process %u takes lock %u past process %u of its host, which waits",
                         taker->index, taken->lock, process->index);
            }
        }
    }
}

/* Counts the hand-overs of one grant after a recall, as long as the agent's process is the same. A
 * run with administrators' recalls is not checked, because each of them allows HANDOVERS_MAX
 * hand-overs. */
static void count_handed(const struct sim_agent *agent, const struct sim_handle *taken)
{
    const struct hfi_region *region = &agent->regions[taken->region].region;
    uint64_t word = region->words[taken->slot].word;
    uint64_t top = region->slots[taken->slot].token_top;
    bool recalled = (word & HFI_W_RECALL) && world.faults.recall == 0 &&
                    hfi_word_names(word, taken->holder, taken->held.token);
    uint32_t count = notes.handed[agent->index][taken->slot].count + 1;
    bool same = notes.handed[agent->index][taken->slot].starts == agent->starts &&
                notes.handed[agent->index][taken->slot].token_top == top;
    count = !recalled ? 0 : same ? count : 1;
    notes.handed[agent->index][taken->slot].count = count;
    notes.handed[agent->index][taken->slot].starts = agent->starts;
    notes.handed[agent->index][taken->slot].token_top = top;
    if (count > HANDOVERS_MAX + 1) { /* one more, because a process held the lock when the recall
                                      * came */
        sim_fail("host %u hands lock %u on for the %uth time after its recall", agent->index,
                 taken->lock, count - 1);
    }
}

void order_took(const struct sim_process *process, const struct sim_handle *handle)
{
    if (handle->held.cell != 0) {
        return;
    }
    if (!handle->barging) {
        check_local(process, handle);
    }
    count_handed(process->agent, handle);
    notes.held_ns[process->agent->index][handle->slot] = sim_now();
}

void order_releases(const struct sim_process *process, const struct sim_handle *handle)
{
    notes.held_ns[process->agent->index][handle->slot] = sim_now();
}
