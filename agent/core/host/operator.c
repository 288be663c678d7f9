/* Changes of the voters that administrators ask for: see operator.h. */
#include "operator.h"

#include "clients.h"
#include "full.h"
#include "routes.h"

enum {
    QUESTIONS_MAX = 8,
    ASK_PAUSE_MS = 300,
    ASK_TIMEOUT_MS = 2000,
};

struct operator_question {
    uint64_t request; /* the number of the client's request; 0: the entry is free */
    int64_t due_ns;
    int64_t end_ns;
    uint32_t client; /* the client's first holder id */
    uint32_t connection;
    uint32_t tries;
    struct message_member_asked asked;
};

struct operator_asks {
    struct operator_question questions[QUESTIONS_MAX];
};

struct operator_asks *operator_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct operator_asks));
}

/* Returns the voter that proposes the change: the first one that answers, except the voter that the
 * change is about. `turn` selects another one, if the first has not answered. NONE: there is
 * none. */
static uint32_t proposer(const struct host *host, const struct message_agent *subject,
                         uint32_t turn)
{
    uint32_t count = host->config.voter_count;
    uint32_t about = count > 1 ? route_voter(host, subject) : NONE;
    uint32_t found = NONE;
    for (uint32_t i = 0; i < 2 * count; i++) {
        uint32_t voter = i % count;
        /* voters that do not answer renewals come last */
        bool fits = i < count ? route_answers(host, voter) : route_is_up(host, voter);
        if (voter != about && fits) {
            found = voter;
            if (turn-- == 0) {
                return found;
            }
        }
    }
    return found;
}

static void send_question(struct host *host, struct operator_question *question,
                          struct host_actions *actions)
{
    /* two questions to the first voter, then one to each other voter */
    uint32_t turn = question->tries < 2 ? 0 : question->tries - 1;
    uint32_t voter = proposer(host, &question->asked.voter, turn);
    if (voter != NONE) {
        hub_send(actions, MESSAGE_MEMBER, voter, HOST_NO_RELAY)->as.member = question->asked;
    }
    question->tries++;
    question->due_ns = host->now_ns + ASK_PAUSE_MS * MS;
}

/* Returns the client that waits for the answer; NONE: it is gone. */
static uint32_t client_of(const struct host *host, const struct operator_question *question)
{
    uint32_t client = client_of_id(host, question->client);
    bool there = client != NONE && (client_flags(host, client) & CLIENT_CONNECTED) &&
                 client_connection(host, client) == question->connection;
    return there ? client : NONE;
}

int32_t operator_ask(struct host *host, uint32_t client, const struct hfi_frame *frame,
                     struct host_actions *actions)
{
    const struct hfi_member_frame *member = &frame->member;
    bool removes = member->act == MESSAGE_MEMBER_REMOVE;
    if ((client_peer(host, client)->rights[0] & HOST_MAY_CHANGE_VOTERS) == 0) {
        return HF_EACCES;
    }
    if (removes != (member->address.size == 0) || member->address.size >= MESSAGE_ADDRESS_MAX) {
        return HF_EINVAL;
    }
    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        struct operator_question *question = &host->operator_asks->questions[i];
        if (question->request != 0) {
            continue;
        }
        memset(question, 0, sizeof(*question));
        question->request = frame->request;
        question->client = client_id(host, client);
        question->connection = client_connection(host, client);
        question->end_ns = host->now_ns + ASK_TIMEOUT_MS * MS;
        struct message_member_asked *asked = &question->asked;
        asked->agent = host->config.agent;
        asked->request_id = member->id;
        asked->act = (uint8_t)member->act;
        asked->number = member->number != 0 ? member->number : host->config.voters_number;
        message_agent_set(&asked->voter, member->name.bytes, member->name.size);
        memcpy(asked->address, member->address.bytes, member->address.size);
        send_question(host, question, actions);
        return OPERATOR_ANSWERS_LATER;
    }
    return full(host, HFI_TABLE_QUESTIONS, QUESTIONS_MAX);
}

bool operator_message(struct host *host, const struct message *message,
                      struct host_actions *actions)
{
    const struct message_membered *membered = &message->as.membered;
    if (message->kind != MESSAGE_MEMBERED) {
        return false;
    }
    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        struct operator_question *question = &host->operator_asks->questions[i];
        if (question->request == 0 || question->asked.request_id != membered->request_id ||
            memcmp(&membered->agent, &host->config.agent, sizeof(membered->agent)) != 0) {
            continue;
        }
        uint32_t client = client_of(host, question);
        if (client != NONE) {
            struct hfi_frame answer = {.kind = HFI_FRAME_MEMBERED, .request = question->request};
            answer.membered = (struct hfi_membered_frame){
                .stage = membered->stage,
                .reason = membered->reason,
                .number = question->asked.number,
                .done = membered->done,
                .total = membered->total,
                .subject = {membered->subject.text, membered->subject.length}};
            client_reply(host, client, &answer, actions);
        }
        question->request = 0;
    }
    return true;
}

int64_t operator_due_ns(const struct host *host)
{
    int64_t due_ns = INT64_MAX;
    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        const struct operator_question *question = &host->operator_asks->questions[i];
        if (question->request != 0 && question->due_ns < due_ns) {
            due_ns = question->due_ns;
        }
    }
    return due_ns;
}

void operator_tick(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        struct operator_question *question = &host->operator_asks->questions[i];
        if (question->request == 0 || question->due_ns > host->now_ns || !hub_has_room(actions)) {
            continue;
        }
        uint32_t client = client_of(host, question);
        if (client == NONE) {
            question->request = 0;
        } else if (question->end_ns <= host->now_ns) {
            client_reply_done(host, client, question->request, HF_ETIMEDOUT, actions);
            question->request = 0;
        } else {
            send_question(host, question, actions);
        }
    }
}
