/* Asks the voters whether they vote: see ask.h. */
#include "peers/ask.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "core/base/message_check.h"
#include "io/clock.h"
#include "peers/private.h"
#include "proto/region.h"

enum { AGAIN_MS = 500, PACKET_SIZE = WIRE_HEADER_ROOM + 2 * WIRE_ITEM_MAX };

static const int64_t ms_ns = 1000000;

struct ask {
    const struct agent *agent;
    struct transport *transport;
    struct peers_asked *asked;
    bool (*enough)(void *arg, const struct peers_asked *asked);
    void *arg;
    int64_t end_ns;
    uint32_t links[PEERS_ASKED_MAX]; /* the voters' links, by the index in asked->of */
    struct message message;          /* the message that is being written or read */
    unsigned char packet[PACKET_SIZE];
};

static struct peers_answer *find(struct peers_asked *asked, const struct message_agent *name)
{
    for (uint32_t i = 0; i < asked->count; i++) {
        if (memcmp(&asked->of[i].name, name, sizeof(*name)) == 0) {
            return &asked->of[i];
        }
    }
    return NULL;
}

static bool id_equal(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* ---- Questions ---- */

static void begin_message(struct ask *ask, enum message_kind kind)
{
    memset(&ask->message, 0, sizeof(ask->message));
    ask->message.kind = kind;
}

/* Writes the HELLO that asks a voter. It has no record of stores, so the receiver adopts none. */
static void write_hello(struct ask *ask)
{
    const struct config *config = &ask->agent->config;
    const struct message_voters *record = &ask->agent->record;
    begin_message(ask, MESSAGE_HELLO);
    struct message_hello *hello = &ask->message.as.hello;
    hello->status = MESSAGE_STATUS_LISTED;
    hello->rules = (struct message_rules){.voter_count = record->count,
                                          .session_ttl_ns = config->session_ttl_ns,
                                          .grace_ns = config->grace_ns,
                                          .max_drift_percent = config->max_drift_percent};
    for (uint32_t i = 0; i < record->count; i++) {
        hello->rules.voters[i] = record->of[i].name;
    }
    memcpy(hello->advertise, config->advertise, sizeof(hello->advertise));
}

static void send_question(struct ask *ask, uint32_t link)
{
    const struct agent *agent = ask->agent;
    struct wire_writer writer;
    const struct wire_header header = {
        .cell = agent->host_config.cell,
        .from = agent->host_config.agent,
        .membership = agent->meta.membership,
        .store_id = {agent->meta.store_id[0], agent->meta.store_id[1]},
        .commit = agent->meta.commit,
        .number = agent->record.number,
        .digest = message_voters_digest(&agent->record),
    };
    wire_begin(&writer, ask->packet, sizeof(ask->packet), &header,
               wire_greeted_version(transport_version(ask->transport, link)));
    write_hello(ask);
    bool fits = wire_add(&writer, &ask->message);
    begin_message(ask, MESSAGE_ASK_VOTERS);
    ask->message.as.ask_voters.number = agent->record.number;
    fits = fits && wire_add(&writer, &ask->message);
    if (fits) {
        (void)transport_send(ask->transport, link, ask->packet, wire_end(&writer));
    }
}

/* ---- Whom to ask ---- */

static void dial(struct ask *ask, const struct message_agent *name, const char *address)
{
    struct peers_asked *asked = ask->asked;
    struct peers_answer *answer = find(asked, name);
    char text[MESSAGE_AGENT_MAX + 1];
    if (memcmp(name, &ask->agent->host_config.agent, sizeof(*name)) == 0 ||
        (answer == NULL && asked->count == PEERS_ASKED_MAX) ||
        (answer != NULL && (address[0] == '\0' || strcmp(answer->address, address) == 0))) {
        return;
    }
    if (answer == NULL) {
        answer = &asked->of[asked->count++];
        answer->name = *name;
    } else if (ask->links[answer - asked->of] != TRANSPORT_PEER_NONE) {
        transport_forget(ask->transport, ask->links[answer - asked->of]);
    }
    snprintf(answer->address, sizeof(answer->address), "%s", address);
    snprintf(text, sizeof(text), "%.*s", (int)name->length, name->text);
    ask->links[answer - asked->of] = address[0] != '\0'
                                         ? transport_peer(ask->transport, address, text)
                                         : TRANSPORT_PEER_NONE;
}

static void dial_voters(struct ask *ask, const struct message_voters *record)
{
    for (uint32_t i = 0; i < record->count; i++) {
        dial(ask, &record->of[i].name, record->of[i].address);
    }
}

/* ---- Answers ---- */

/* Returns whether the sender knows that this host's store may not vote. */
static bool refuses(const struct agent *agent, const struct message_hello *hello)
{
    const uint64_t *id = agent->meta.store_id;
    bool refused = id_equal(hello->seen.store_id, id) && hello->seen_commit > agent->meta.commit;
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        const struct message_member *line = &hello->members[i];
        bool own = memcmp(&hello->rules.voters[i], &agent->host_config.agent,
                          sizeof(hello->rules.voters[i])) == 0;
        refused = refused || (own && line->generation > 0 && !id_equal(line->store_id, id));
    }
    return refused;
}

static void take_hello(struct ask *ask, struct peers_answer *answer)
{
    const struct message *message = &ask->message;
    answer->heard = true;
    answer->status = message->as.hello.status;
    answer->number = message->number != 0 ? message->number : 1;
    answer->digest = message->number != 0 ? message->digest : 0;
    answer->refuses = refuses(ask->agent, &message->as.hello);
}

static void take_record(struct ask *ask)
{
    const struct message_voters *told = &ask->message.as.told.voters;
    const struct message_voters *own = &ask->agent->record;
    struct message_voters *newest = &ask->asked->newest;
    uint32_t known = newest->count > 0 ? newest->number : own->number;
    if (told->number > known && told->recoveries == own->recoveries &&
        message_voters_same_cell(own, told)) {
        message_voters_copy(newest, told);
        dial_voters(ask, newest);
    }
}

static bool all_heard(const struct ask *ask)
{
    const struct peers_asked *asked = ask->asked;
    uint32_t number = asked->newest.count > 0 ? asked->newest.number : ask->agent->record.number;
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct peers_answer *answer = &asked->of[i];
        /* a voter that uses a newer record will send it */
        if (!answer->heard || answer->number > number) {
            return false;
        }
    }
    return true;
}

/* Sets an earlier end if not much more is to be expected. */
static void end_soon(struct ask *ask)
{
    int64_t now_ns = clock_boottime_ns();
    int64_t enough_ns = now_ns + PEERS_ENOUGH_MS * ms_ns;
    if (all_heard(ask)) {
        ask->end_ns = now_ns;
    } else if (enough_ns < ask->end_ns && ask->enough(ask->arg, ask->asked)) {
        ask->end_ns = enough_ns;
    }
}

static struct transport_sender on_packet(void *arg, const void *bytes, size_t size,
                                         const char *certified, const char *remote)
{
    struct ask *ask = arg;
    struct wire_reader reader;
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;
    (void)remote;
    if (wire_open(&reader, bytes, size, &ask->agent->host_config.cell) != WIRE_OK ||
        !peers_is_certified(&reader.header, certified)) {
        return (struct transport_sender){.name = 0};
    }
    struct peers_answer *answer = find(ask->asked, &reader.header.from);
    while (answer != NULL && wire_next(&reader, &kind, &ask->message, &gossip, &gossip_size)) {
        if (kind != WIRE_MESSAGE || !message_valid(&ask->message)) {
            continue;
        }
        if (ask->message.kind == MESSAGE_HELLO || ask->message.kind == MESSAGE_HELLO_ACK) {
            take_hello(ask, answer);
        } else if (ask->message.kind == MESSAGE_VOTERS) {
            take_record(ask);
        }
    }
    if (answer != NULL) {
        end_soon(ask);
    }
    const struct message_agent *from = &reader.header.from;
    return (struct transport_sender){.name = hfi_name_hash(from->text, from->length) | 1,
                                     .voter = answer != NULL};
}

static void on_link(void *arg, uint32_t link, bool up)
{
    if (up) {
        send_question(arg, link);
    }
}

static void on_trouble(void *arg, const char *event, const char *address, const char *text)
{
    (void)arg; /* for a voter, `why` of struct peers_answer gets the reason */
    (void)event;
    (void)address;
    (void)text;
}

/* ---- The seconds in which this program is there ---- */

static void ask_again(struct ask *ask)
{
    for (uint32_t i = 0; i < ask->asked->count; i++) {
        uint32_t link = ask->links[i];
        if (link != TRANSPORT_PEER_NONE && transport_is_up(ask->transport, link)) {
            send_question(ask, link);
        }
    }
}

static bool wait_for_answers(struct ask *ask)
{
    int64_t now_ns = clock_boottime_ns();
    int64_t again_ns = now_ns + AGAIN_MS * ms_ns;
    struct pollfd event = {.fd = transport_fd(ask->transport), .events = POLLIN};
    ask->end_ns = now_ns + PEERS_ASK_MS * ms_ns;
    while (now_ns < ask->end_ns) {
        int64_t next_ns = again_ns < ask->end_ns ? again_ns : ask->end_ns;
        int left_ms = next_ns > now_ns ? (int)((next_ns - now_ns) / ms_ns) + 1 : 0;
        if (poll(&event, 1, left_ms) < 0 && errno != EINTR) {
            return false;
        }
        transport_dispatch(ask->transport);
        now_ns = clock_boottime_ns();
        if (now_ns >= again_ns) {
            ask_again(ask);
            again_ns = now_ns + AGAIN_MS * ms_ns;
        }
    }
    return true;
}

static void note_links(struct ask *ask)
{
    for (uint32_t i = 0; i < ask->asked->count; i++) {
        struct peers_answer *answer = &ask->asked->of[i];
        uint32_t link = ask->links[i];
        bool dialled = link != TRANSPORT_PEER_NONE;
        answer->connected = dialled && transport_is_up(ask->transport, link);
        snprintf(answer->why, sizeof(answer->why), "%s",
                 dialled                      ? transport_why_down(ask->transport, link)
                 : answer->address[0] == '\0' ? "its address is not known"
                                              : "its address cannot be dialled");
    }
}

static int run(struct agent *agent, struct ask *ask)
{
    const struct transport_handler handler = {
        .arg = ask, .packet = on_packet, .link = on_link, .trouble = on_trouble};
    char error[TRANSPORT_ERROR_MAX];
    ask->transport = peers_transport(&agent->config, &handler, error);
    if (ask->transport == NULL) {
        int code = errno == EINVAL ? AGENT_EXIT_SOFTWARE : AGENT_EXIT_UNAVAILABLE;
        snprintf(agent->error, sizeof(agent->error), "%s", error);
        return code;
    }
    dial_voters(ask, &agent->record);
    bool waited = wait_for_answers(ask);
    int why = errno;
    note_links(ask);
    transport_close(ask->transport);
    if (!waited) {
        snprintf(agent->error, sizeof(agent->error), "the other voters could not be asked: %s",
                 strerror(why));
        return AGENT_EXIT_UNAVAILABLE;
    }
    return AGENT_EXIT_OK;
}

int peers_ask(struct agent *agent, struct peers_asked *asked,
              bool (*enough)(void *arg, const struct peers_asked *asked), void *arg)
{
    struct ask *ask = calloc(1, sizeof(*ask));
    memset(asked, 0, sizeof(*asked));
    if (ask == NULL) {
        snprintf(agent->error, sizeof(agent->error), "out of memory");
        return AGENT_EXIT_UNAVAILABLE;
    }
    ask->agent = agent;
    ask->asked = asked;
    ask->enough = enough;
    ask->arg = arg;
    int code = run(agent, ask);
    free(ask);
    return code;
}
