/* Questions to other hosts, and answers to theirs: see remote.h. */
#include "remote.h"

#include "attend.h"
#include "breaks.h"
#include "clients.h"
#include "full.h"
#include "grants.h"
#include "handles.h"
#include "holds.h"
#include "locks.h"
#include "repair.h"
#include "routes.h"
#include "seats.h"
#include "spaces.h"
#include "tally.h"

enum {
    CHECK_TIMEOUT_MS = 1000,
    BREAK_TIMEOUT_MS = 2000,
    ASK_PAUSE_MS = 300,
    OUTCOME_ID = 0xffff, /* the low 16 bits of every question's id; the id of a request has the
                          * request's index there, which is never 0xffff */
    QUESTIONS_MAX = REMOTE_QUESTIONS_MAX,
    OWN_TALLY = REMOTE_BREAKS_MAX, /* the tally of a break that needs no question */
};

/* A question of this host to another host, on behalf of a client that waits for the answer. */
struct question {
    uint64_t id; /* 0: free */
    uint64_t request;
    int64_t due_ns; /* when the question is sent again */
    int64_t end_ns;
    int64_t account; /* the client's account */
    uint32_t client; /* the client's first holder id */
    uint32_t connection;
    uint32_t tries;
    enum message_kind kind;      /* CHECK or BREAK */
    struct message_agent holder; /* CHECK: the agent that is asked */
    union {
        struct message_check check;
        struct message_break break_lock;
    } as;
};

struct remote {
    struct question questions[QUESTIONS_MAX];
    uint32_t question_count;
};

struct remote *remote_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct remote));
}

/* ---- asking ---- */

/* Returns a voter that passes a question on, for an agent that did not answer directly. `turn`
 * selects one of the voters. */
static uint8_t relay_to(const struct host *host, const struct message_agent *agent, uint32_t turn)
{
    uint32_t count = host->config.voter_count;
    uint32_t target = route_voter(host, agent);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t voter = (turn + i) % count;
        if (voter != target && voter != host->config.self && route_is_up(host, voter)) {
            return (uint8_t)voter;
        }
    }
    return HOST_NO_RELAY;
}

/* Returns the voter that passed this question on; HOST_NO_RELAY: it came directly. The answer goes
 * through the same voter, because the direct connection may be broken. */
static uint8_t way_back(const struct host *host, const struct message *message)
{
    uint32_t voter = message->relayed ? route_voter(host, &message->from) : NONE;
    return voter != NONE ? (uint8_t)voter : HOST_NO_RELAY;
}

/* Returns the question's index. Its tally has the same index. */
static uint32_t question_index(const struct host *host, const struct question *question)
{
    return (uint32_t)(question - host->remote->questions);
}

static void question_send(struct host *host, struct question *question,
                          struct host_actions *actions)
{
    if (question->kind == MESSAGE_CHECK) {
        uint8_t relay = question->tries % 2 == 0
                            ? HOST_NO_RELAY
                            : relay_to(host, &question->holder, question->tries / 2);
        struct message *message = hub_send(actions, MESSAGE_CHECK, HOST_TO_AGENT, relay);
        message->to = question->holder;
        message->as.check = question->as.check;
    } else {
        const struct message_name *name = &question->as.break_lock.name;
        struct route route = route_choose(host, names_partition(name->bytes, name->length),
                                          question->tries, question->tries / 3);
        struct message_break *breaking =
            &hub_send(actions, MESSAGE_BREAK, route.to, route.relay)->as.break_lock;
        *breaking = question->as.break_lock;
        breaking->meant = tally_meant(host, question_index(host, question));
    }
    question->tries++;
    question->due_ns = host->now_ns + ASK_PAUSE_MS * MS;
    question->due_ns = question->due_ns < question->end_ns ? question->due_ns : question->end_ns;
}

/* Returns whether the account may have one more question. Without this limit, one user could keep
 * out all other users' questions, because a question to a host that does not answer stays open for
 * its whole time. */
static bool question_is_left(const struct host *host, int64_t account, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = first; account != 0 && i < end; i++) {
        count += host->remote->questions[i].id != 0 &&
                 host->remote->questions[i].account == account;
    }
    return count < (end - first) / 2;
}

/* Makes a question. Returns NULL if the table is full, or if the client's account may not have one
 * more question. */
static struct question *question_new(struct host *host, uint32_t client, uint64_t request,
                                     enum message_kind kind, int64_t timeout_ms)
{
    int64_t account = client_peer(host, client)->account;
    uint32_t first = kind == MESSAGE_BREAK ? 0 : REMOTE_BREAKS_MAX;
    uint32_t end = kind == MESSAGE_BREAK ? REMOTE_BREAKS_MAX : QUESTIONS_MAX;
    if (!question_is_left(host, account, first, end)) {
        return NULL;
    }
    for (uint32_t i = first; i < end; i++) {
        struct question *question = &host->remote->questions[i];
        if (question->id == 0) {
            memset(question, 0, sizeof(*question));
            question->id = hub_next_request(host) << 16 | OUTCOME_ID;
            question->kind = kind;
            question->account = account;
            question->client = client_id(host, client);
            question->connection = client_connection(host, client);
            question->request = request;
            question->end_ns = host->now_ns + timeout_ms * MS;
            host->remote->question_count++;
            return question;
        }
    }
    return NULL;
}

/* Answers the client that waits for the question: a CHECK with `result`, a BREAK with the tally. */
static void question_end(struct host *host, struct question *question, int32_t result,
                         struct host_actions *actions)
{
    uint32_t client = client_of_id(host, question->client);
    if (client != NONE && (client_flags(host, client) & CLIENT_CONNECTED) &&
        client_connection(host, client) == question->connection) {
        if (question->kind == MESSAGE_BREAK) {
            tally_reply(host, question_index(host, question), client, question->request, actions);
        } else {
            client_reply_done(host, client, question->request, result, actions);
        }
    }
    question->id = 0;
    host->remote->question_count--;
}

int64_t remote_due_ns(const struct host *host)
{
    int64_t due_ns = INT64_MAX;
    for (uint32_t i = 0; host->remote->question_count > 0 && i < QUESTIONS_MAX; i++) {
        if (host->remote->questions[i].id != 0 && host->remote->questions[i].due_ns < due_ns) {
            due_ns = host->remote->questions[i].due_ns;
        }
    }
    return due_ns;
}

void remote_tick(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; host->remote->question_count > 0 && i < QUESTIONS_MAX; i++) {
        struct question *question = &host->remote->questions[i];
        if (question->id == 0 || question->due_ns > host->now_ns || !hub_has_room(actions) ||
            !tally_has_room(actions)) {
            continue;
        }
        if (question->end_ns <= host->now_ns) {
            question_end(host, question, HF_EUNKNOWN, actions);
        } else {
            question_send(host, question, actions);
        }
    }
}

/* ---- sequencers ---- */

/* Returns 0 if this host has the hold that the check describes, HF_ESTALE if it does not have it,
 * HF_EUNKNOWN if it does not know. */
static int32_t held_now(const struct host *host, const struct message_check *check)
{
    struct lock_ref at = {0};
    if (space_bars_name(host, &check->name)) {
        return HF_EUNKNOWN;
    }
    if (!lock_find(host, check->name.bytes, check->name.length, &at)) {
        return HF_ESTALE;
    }
    const struct hfi_region *region = space_region(host, at.space);
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t seat = check->seat;
    bool seated = seat_is_of(host, at, seat) && seat_holder(host, at.space, seat) == check->holder;
    /* the quorum has not yet said which grant the lock has */
    bool adopted = lock_state(host, at) == LOCK_ADOPTED;
    bool held = check->epoch == host->lease.epoch && (lock_is_granted(host, at) || adopted);
    if (check->shared) {
        held = held && seated && check->cell_word != 0 &&
               atomic_load(&hfi_seat(region, seat)->reader) == check->cell_word;
    } else {
        held = held && (adopted || hfi_token(lock_token_last(host, at), word) == check->token) &&
               hfi_word_names(word, check->holder, check->token);
    }
    uint32_t handle = held ? handle_of(host, at, check->holder) : NONE;
    if (handle != NONE && (handle_flags(host, handle) & HANDLE_LIMITED)) {
        const struct hfi_seat *shared = hfi_seat(region, handle_seat(host, handle));
        held = (int64_t)atomic_load(&shared->deadline_ns) > host->now_ns;
    }
    if (!held) {
        return HF_ESTALE;
    }
    return hub_lease_is_safe(host) && !adopted ? 0 : HF_EUNKNOWN;
}

int32_t remote_check(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions)
{
    struct hfi_sequencer sequencer;
    if (hfi_sequencer_parse(frame->text.bytes, frame->text.size, &sequencer) != 0 ||
        hub_text_size(sequencer.cell, sizeof(sequencer.cell)) != host->config.cell.length ||
        memcmp(sequencer.cell, host->config.cell.text, host->config.cell.length) != 0) {
        return HF_EINVAL;
    }
    uint32_t index = host_namespace(&host->config, sequencer.name, sequencer.name_size);
    int32_t error = client_rights_error(host, client, index, HOST_MAY_USE | HOST_MAY_ADMIN);
    if (error != 0) {
        return error;
    }
    struct message_check check = {.agent = host->config.agent,
                                  .token = sequencer.token,
                                  .cell_word = sequencer.cell_word,
                                  .epoch = sequencer.epoch,
                                  .holder = sequencer.holder,
                                  .seat = sequencer.seat,
                                  .shared = sequencer.shared};
    struct message_agent holder = {0};
    message_name_set(&check.name, sequencer.name, sequencer.name_size);
    message_agent_set(&holder, sequencer.agent, hub_text_size(sequencer.agent, MESSAGE_AGENT_MAX));
    if (memcmp(&holder, &host->config.agent, sizeof(holder)) == 0) {
        return held_now(host, &check);
    }
    struct question *question = question_new(host, client, frame->request, MESSAGE_CHECK,
                                             CHECK_TIMEOUT_MS);
    if (question == NULL) {
        return HF_EUNKNOWN;
    }
    check.request_id = question->id;
    question->holder = holder;
    question->as.check = check;
    question_send(host, question, actions);
    return REMOTE_ANSWERS_LATER;
}

static void check_asked(struct host *host, const struct message *message,
                        struct host_actions *actions)
{
    const struct message_check *check = &message->as.check;
    struct message *answer = hub_send(actions, MESSAGE_CHECKED, HOST_TO_AGENT,
                                      way_back(host, message));
    answer->to = check->agent;
    answer->as.outcome.agent = check->agent;
    answer->as.outcome.request_id = check->request_id;
    answer->as.outcome.result = held_now(host, check);
}

/* ---- an administrator's break ---- */

int32_t remote_break(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions)
{
    const struct hfi_text *name = &frame->break_lock.name;
    bool now = frame->break_lock.flags & HFI_BREAK_FRAME_NOW;
    const struct hold_breaker by = {.agent = host->config.agent,
                                    .uid = client_peer(host, client)->uid};
    uint32_t index = host_namespace(&host->config, name->bytes, name->size);
    int32_t error = client_rights_error(host, client, index, HOST_MAY_ADMIN);
    struct lock_ref at = {0};
    if (error != 0 || name->size == 0 || name->size > MESSAGE_NAME_MAX) {
        return error != 0 ? error : HF_EINVAL;
    }
    if (space_is_given_up(host, index)) {
        return HF_EUNSERVED;
    }
    if (lock_find(host, (const uint8_t *)name->bytes, name->size, &at)) {
        repair_lock(host, at, actions); /* a hold that the region shows may be rubbish */
        if (lock_is_granted(host, at) && lock_mode(host, at) == HFI_GRANT_EXCLUSIVE &&
            hub_lease_is_safe(host)) {
            /* an exclusive grant is here and its lease counts, so no other host has the lock */
            struct message_broken broken;
            break_here(host, at, now, &by, &broken, actions);
            tally_begin(host, OWN_TALLY);
            tally_note_own(host, OWN_TALLY, &broken);
            tally_reply(host, OWN_TALLY, client, frame->request, actions);
            return REMOTE_ANSWERS_LATER;
        }
    }
    struct question *question = question_new(host, client, frame->request, MESSAGE_BREAK,
                                             BREAK_TIMEOUT_MS);
    if (question == NULL) {
        return full(host, HFI_TABLE_QUESTIONS, REMOTE_BREAKS_MAX);
    }
    struct message_break *breaking = &question->as.break_lock;
    breaking->agent = host->config.agent;
    breaking->request_id = question->id;
    breaking->now = now;
    breaking->counts = true;
    breaking->user = by.uid >= 0 && by.uid <= UINT32_MAX ? (uint64_t)by.uid + 1 : 0;
    message_name_set(&breaking->name, name->bytes, name->size);
    tally_begin(host, question_index(host, question));
    question_send(host, question, actions);
    return REMOTE_ANSWERS_LATER;
}

static void break_arrived(struct host *host, const struct message *message,
                          struct host_actions *actions)
{
    const struct message_break *breaking = &message->as.break_lock;
    struct message_broken broken;
    if (!break_asked(host, breaking, &broken, actions)) {
        return;
    }
    struct message *answer = hub_send(actions, MESSAGE_BROKEN, HOST_TO_AGENT,
                                      way_back(host, message));
    answer->to = breaking->agent;
    memcpy(&answer->as.broken, &broken,
           (size_t)(message_broken_end(&broken) - (const char *)&broken));
}

int32_t remote_recall(struct host *host, uint32_t client, const struct hfi_text *name,
                      struct host_actions *actions)
{
    uint32_t index = host_namespace(&host->config, name->bytes, name->size);
    int32_t error = client_rights_error(host, client, index, HOST_MAY_ADMIN);
    struct lock_ref at = {0};
    if (error != 0 || !lock_find(host, (const uint8_t *)name->bytes, name->size, &at)) {
        return error;
    }
    if (lock_state(host, at) == LOCK_GRANTED) {
        hfi_recall(lock_actor(host, at), at.slot, GRANT_HANDOVERS);
        attend_lock(host, at, actions);
    }
    return 0;
}

/* ---- messages ---- */

/* Returns whether the sender may answer the check. This check is needed because questions are
 * numbered one after the other, so any agent can guess the numbers. A CHECKED may come from the
 * agent that was asked. If the question was repeated, a voter may also have passed the CHECKED
 * on. */
static bool may_answer(const struct host *host, const struct question *question,
                       const struct message *message)
{
    return message->relayed ? question->tries > 1 && route_voter(host, &message->from) != NONE
                            : memcmp(&message->from, &question->holder, sizeof(message->from)) == 0;
}

/* Returns the question that the message answers; NULL: none. CHECKED and BROKEN begin with the same
 * members. */
static struct question *question_of(struct host *host, const struct message *message,
                                    enum message_kind kind)
{
    const struct message_outcome *outcome = &message->as.outcome;
    for (uint32_t i = 0; host->remote->question_count > 0 && i < QUESTIONS_MAX; i++) {
        struct question *question = &host->remote->questions[i];
        if (question->id != 0 && question->id == outcome->request_id && question->kind == kind &&
            memcmp(&outcome->agent, &host->config.agent, sizeof(outcome->agent)) == 0) {
            return question;
        }
    }
    return NULL;
}

static void checked_arrived(struct host *host, const struct message *message,
                            struct host_actions *actions)
{
    struct question *question = question_of(host, message, MESSAGE_CHECK);
    int32_t result = message->as.outcome.result;
    if (question != NULL && may_answer(host, question, message)) {
        bool known = result <= 0 && result >= HF_EUNKNOWN;
        question_end(host, question, known ? result : HF_EPROTO, actions);
    }
}

static void broken_arrived(struct host *host, const struct message *message,
                           struct host_actions *actions)
{
    struct question *question = question_of(host, message, MESSAGE_BREAK);
    if (question != NULL && tally_note(host, question_index(host, question), message) &&
        tally_is_whole(host, question_index(host, question))) {
        question_end(host, question, 0, actions);
    }
}

bool remote_message(struct host *host, const struct message *message, struct host_actions *actions)
{
    switch ((int)message->kind) {
    case MESSAGE_CHECK:
        check_asked(host, message, actions);
        return true;
    case MESSAGE_CHECKED:
        checked_arrived(host, message, actions);
        return true;
    case MESSAGE_BREAK_HOLD:
        break_arrived(host, message, actions);
        return true;
    case MESSAGE_BROKEN:
        broken_arrived(host, message, actions);
        return true;
    default:
        return false;
    }
}
