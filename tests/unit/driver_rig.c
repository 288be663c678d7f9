/* The driver between cores, a disk and a network that the test plays (driver_rig.h). */
#include "driver_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_host.h"

struct driver *driver;
struct renewal *renewal;
int64_t now_ns;
enum message_voter_status status_of_b = MESSAGE_STATUS_VOTING;
char trace[4096];

static void note(const char *word)
{
    ck_assert_uint_lt(strlen(trace) + strlen(word) + 2, sizeof(trace));
    if (trace[0] != '\0') {
        strcat(trace, " ");
    }
    strcat(trace, word);
}

static void note_about(const char *what, const char *word)
{
    char both[64];
    snprintf(both, sizeof(both), "%s%s", what, word);
    note(both);
}

static const struct {
    enum message_kind kind;
    const char *word;
} words[] = {
    {MESSAGE_PREPARE, "prepare"},
    {MESSAGE_PROMISE, "promise"},
    {MESSAGE_VALUE, "value"},
    {MESSAGE_ACCEPT, "accept"},
    {MESSAGE_ACCEPTED, "accepted"},
    {MESSAGE_RENEW, "renew"},
    {MESSAGE_ACQUIRE, "acquire"},
    {MESSAGE_GIVE_BACK, "give-back"},
    {MESSAGE_GRANT, "grant"},
    {MESSAGE_RECALL, "recall"},
    {MESSAGE_RENEW_ACK, "renew-ack"},
    {MESSAGE_HEARTBEAT, "beat"},
    {MESSAGE_HELLO_ACK, "hello-ack"},
    {MESSAGE_CHECKPOINT, "checkpoint"},
    {MESSAGE_AMEND, "amend"},
    {MESSAGE_BREAK, "break"},
    {MESSAGE_CHECK, "check"},
    {MESSAGE_HELLO, "hello"},
    {MESSAGE_POLLED, "polled"},
    {MESSAGE_MARKED, "marked"},
    {MESSAGE_SYNCED, "pulled"},
    {MESSAGE_CHECKPOINTED, "checkpointed"},
    {MESSAGE_BROKEN, "broken"},
    {MESSAGE_VOTERS, "voters"},
    {MESSAGE_ASK_VOTERS, "ask-voters"},
    {MESSAGE_LEARN, "learn"},
    {MESSAGE_MEMBERED, "membered"},
    {MESSAGE_MEMBER, "member"},
    {MESSAGE_CHANGE_ACCEPTED, "change-accepted"},
};

const char *word_of(enum message_kind kind)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].kind == kind) {
            return words[i].word;
        }
    }
    ck_abort_msg("a message of kind %d", (int)kind);
}

/* ---- the quorum core: on an incoming HEARTBEAT it takes the steps of `plan` ---- */

struct message_voters plan_record;
struct message_voters shown_record;
static struct step plan[16];
static unsigned plan_count;
static bool plan_alone; /* the core takes the steps on QUORUM_STALLED, too */
struct message_agent names[5];
static uint64_t told_commit;
char reached[8];

bool message_valid(const struct message *message)
{
    return message->from.length > 0;
}

void message_agent_set(struct message_agent *agent, const void *text, size_t length)
{
    memset(agent, 0, sizeof(*agent));
    agent->length = (uint8_t)length;
    memcpy(agent->text, text, length);
}

void message_name_set(struct message_name *name, const void *bytes, size_t length)
{
    memset(name, 0, sizeof(*name));
    name->length = (uint8_t)length;
    memcpy(name->bytes, bytes, length);
}

void quorum_header(const struct quorum *quorum, enum message_kind kind, struct message *message)
{
    (void)quorum;
    message_zero(message);
    message->kind = kind;
    message->from = names[0];
    message->commit = told_commit;
}

void quorum_set_commit(struct quorum *quorum, uint64_t commit)
{
    (void)quorum;
    told_commit = commit;
}

void quorum_committing(struct quorum *quorum)
{
    (void)quorum;
}

uint64_t quorum_reported_commit(const struct quorum *quorum)
{
    (void)quorum;
    return told_commit;
}

enum message_voter_status quorum_voter_status(const struct quorum *quorum)
{
    (void)quorum;
    return own_status;
}

enum message_voter_status quorum_voter_status_of(const struct quorum *quorum, uint32_t voter)
{
    (void)quorum;
    return voter == 1 ? status_of_b : MESSAGE_STATUS_VOTING;
}

const struct message_agent *quorum_agent_name(const struct quorum *quorum, uint32_t index)
{
    (void)quorum;
    return &names[index];
}

uint8_t quorum_missing(const struct quorum *quorum)
{
    (void)quorum;
    return 0;
}

bool quorum_resigned(const struct quorum *quorum)
{
    (void)quorum;
    return true;
}

bool quorum_handed_over(const struct quorum *quorum)
{
    (void)quorum;
    return true;
}

int64_t quorum_next_tick_ns(const struct quorum *quorum)
{
    (void)quorum;
    return INT64_MAX;
}

static struct action *emit(struct actions *actions, enum action_kind kind)
{
    struct action *action = &actions->items[actions->count++];
    memset(action, 0, offsetof(struct action, as) + sizeof(struct quorum_promise));
    action->kind = kind;
    return action;
}

static void follow_plan(struct actions *actions)
{
    for (unsigned i = 0; i < plan_count; i++) {
        const struct step *step = &plan[i];
        if (step->what == 'm') {
            emit(actions, ACTION_PERSIST_PROMISE);
        } else if (step->what == 'p' || step->what == 'q') {
            struct quorum_register *reg = &emit(actions, ACTION_PERSIST_REGISTER)->as.reg;
            memset(reg, 0, offsetof(struct quorum_register, value.shares));
            message_name_set(&reg->name, step->what == 'p' ? "x" : "y", 1);
        } else if (step->what == 'v') {
            emit(actions, ACTION_VOTERS)->as.voters = plan_record;
        } else {
            struct action_send *send = &emit(actions, ACTION_SEND)->as.send;
            send->to = step->to;
            send->relay = step->relay;
            send->later = step->what == 'l';
            quorum_header(NULL, step->kind, &send->message);
        }
    }
}

void quorum_step(struct quorum *quorum, const struct quorum_event *event, struct actions *actions)
{
    (void)quorum;
    if (event->kind == QUORUM_REACHED) {
        reached[strlen(reached)] = event->as.reached->text[0];
    }
    if (event->kind == QUORUM_STALLED && plan_alone) {
        follow_plan(actions);
    }
    if (event->kind != QUORUM_MESSAGE) {
        return;
    }
    if (event->as.message->kind == MESSAGE_HEARTBEAT) {
        follow_plan(actions);
    } else {
        note_about("own:", word_of(event->as.message->kind));
    }
}

void quorum_renew(struct quorum *quorum, const struct quorum_event *event, struct actions *actions)
{
    (void)quorum;
    (void)actions;
    note_about("kept:", word_of(event->as.message->kind));
}

/* ---- the host core: records its events in the trace; on a frame it takes the steps of frame_does
 * ---- */

static const char *frame_does;

static struct host_action *host_emit(struct host_actions *actions, enum host_action_kind kind)
{
    struct host_action *action = &actions->items[actions->count++];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}

void host_step(struct host *host, const struct host_event *event, struct host_actions *actions)
{
    (void)host;
    if (event->kind == HOST_MESSAGE) {
        note_about("host:", word_of(event->as.message->kind));
    } else if (event->kind == HOST_VOTERS) {
        char word[32];
        int used = snprintf(word, sizeof(word), "up%x:%x", event->as.voters.up,
                            event->as.voters.answering);
        if (event->as.voters.linked != 0) {
            snprintf(word + used, sizeof(word) - (size_t)used, "+%x", event->as.voters.linked);
        }
        note(word);
    } else if (event->kind == HOST_RECORD) {
        char word[32];
        int used = snprintf(word, sizeof(word), "record%u:", event->as.record->number);
        for (uint32_t i = 0; i < event->as.record->count; i++) {
            word[used++] = event->as.record->of[i].name.text[0];
        }
        word[used] = '\0';
        note(word);
    }
    for (const char *at = frame_does; event->kind == HOST_FRAME && *at != '\0'; at++) {
        if (*at == 's') {
            message_name_set(&host_emit(actions, HOST_PERSIST_SLOT)->as.slot.name, "x", 1);
            continue;
        }
        struct host_send *send = &host_emit(actions, HOST_SEND)->as.send;
        send->to = *at == 'A' ? 0 : 1; /* to the agent's own coordinator, or to b */
        send->relay = *at == 'r' ? 2 : HOST_NO_RELAY;
        send->message.kind = *at == 'g' ? MESSAGE_GIVE_BACK : MESSAGE_ACQUIRE;
    }
}

int64_t host_next_tick_ns(const struct host *host)
{
    (void)host;
    return INT64_MAX;
}

bool asks_only;
bool unsure;
enum message_voter_status own_status = MESSAGE_STATUS_VOTING;
bool decides_only;

bool host_asks_only(const struct host *host, const struct message_name *name)
{
    (void)host;
    return name->length > 0 && asks_only;
}

bool quorum_decides_only(const struct quorum *quorum, const struct message_name *name)
{
    (void)quorum;
    return name->length > 0 && decides_only;
}

/* ---- the disk and the network ---- */

struct driver_disk disk;

static void commit(void *arg, const struct driver_batch *batch)
{
    (void)arg;
    ck_assert_ptr_null(disk.flying);
    ck_assert_ptr_nonnull(driver_batch_next(batch, &(size_t){0}));
    disk.flying = batch;
    note("flush");
}

void land(const char *error)
{
    disk.flying = NULL;
    disk.commits++;
    note("durable");
    driver_committed(driver, disk.commits, error);
}

struct message last_sent;
uint64_t last_renewal_id;

static void send_one(void *arg, const struct message_agent *to, const struct message *message)
{
    char who[MESSAGE_AGENT_MAX + 2];
    (void)arg;
    snprintf(who, sizeof(who), "%.*s:", (int)to->length, to->text);
    note_about(who, word_of(message->kind));
    message_copy(&last_sent, message);
    if (message->kind == MESSAGE_RENEW) {
        last_renewal_id = message->as.renew.renewal_id;
    }
}

static void learn(void *arg, const struct message_agent *agent, const char *address)
{
    (void)arg;
    note_about(agent->text, address);
}

static void act(void *arg, const struct host_action *action, const unsigned char *bytes)
{
    (void)arg;
    (void)action;
    (void)bytes;
}

static void keep_promise(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    (void)arg;
    (void)epoch;
    (void)deadline_ns;
}

static void show_record(void *arg, const struct message_voters *record)
{
    (void)arg;
    shown_record = *record;
}

uint32_t shown_complete;

static void show_complete(void *arg, uint32_t number)
{
    (void)arg;
    shown_complete = number;
}

/* Makes the quorum core of an observer that learns. */
static struct quorum *make_learner(void *arg)
{
    (void)arg;
    note("learner");
    return (struct quorum *)&now_ns;
}

static void session(void *arg, enum renewal_state state, uint32_t epoch)
{
    (void)arg;
    (void)state;
    (void)epoch;
}

int64_t logged_number;

static void take_log(void *arg, const struct action_log *log)
{
    (void)arg;
    logged_number = log->number;
    note(log->event);
}

static int64_t read_now(void *arg)
{
    (void)arg;
    return now_ns;
}

static uint64_t draw(void *arg)
{
    (void)arg;
    return 4711;
}

/* ---- set-up ---- */

void make_driver(bool observer)
{
    struct renewal_config renewal_config = {.voter_count = 3,
                                            .session_ttl_ns = 5000000000,
                                            .grace_period_ns = 5000000000,
                                            .max_drift_percent = 10};
    struct message header;
    struct driver_config config = {.quorum = observer ? NULL : (struct quorum *)&now_ns,
                                   .voter_count = 3,
                                   .operations = {.act = act,
                                                  .send = send_one,
                                                  .address = learn,
                                                  .commit = commit,
                                                  .log = take_log,
                                                  .promise = keep_promise,
                                                  .record = show_record,
                                                  .complete = show_complete,
                                                  .learn = make_learner,
                                                  .session = session,
                                                  .now_ns = read_now,
                                                  .random = draw}};
    static const char letters[] = "abcop";
    shown_complete = 0;
    for (unsigned i = 0; i < 5; i++) {
        message_agent_set(&names[i], &letters[i], 1);
    }
    memcpy(config.voters, names, 3 * sizeof(names[0]));
    message_voters_begin(&config.record, names, NULL, 3);
    config.record_unsure = observer && unsure;
    message_agent_set(&config.written[0], "x", 1);
    config.written_count = 1;
    memcpy(renewal_config.voters, names, 3 * sizeof(names[0]));
    memset(&disk, 0, sizeof(disk));
    now_ns = 1000000000;
    told_commit = 0;
    plan_count = 0;
    config.self = names[observer ? 3 : 0];
    message_zero(&header);
    header.from = config.self;
    header.number = 1;
    header.digest = message_voters_digest(&config.record);
    free(renewal);
    renewal = renewal_init(malloc(renewal_size()), &renewal_config, &header);
    config.renewal = renewal;
    driver = driver_create(&config);
    ck_assert_ptr_nonnull(driver);
    driver_start(driver, 1, false);
    trace[0] = '\0';
}

void set_up(void)
{
    make_driver(false);
}

void tear_down(void)
{
    driver_destroy(driver);
}

void receive(enum message_kind kind, unsigned from)
{
    struct message message;
    message_zero(&message);
    message.kind = kind;
    message.from = names[from];
    if (kind == MESSAGE_ACQUIRE) {
        message.as.acquire.agent = names[from];
    }
    driver_received(driver, &message);
}

void make_record(uint32_t number, const char *letters)
{
    struct message_agent voters[MESSAGE_VOTERS_MAX];
    for (uint32_t i = 0; letters[i] != '\0'; i++) {
        message_agent_set(&voters[i], &letters[i], 1);
    }
    message_voters_begin(&plan_record, voters, NULL, (uint32_t)strlen(letters));
    plan_record.number = number;
}

void do_plan(const struct step *steps, unsigned count)
{
    memcpy(plan, steps, count * sizeof(*steps));
    plan_count = count;
    receive(MESSAGE_HEARTBEAT, 1);
}

void do_plan_alone(const struct step *steps, unsigned count)
{
    memcpy(plan, steps, count * sizeof(*steps));
    plan_count = count;
    plan_alone = true;
    driver_stalled(driver);
    plan_alone = false;
}

void do_frame(const char *what)
{
    struct host_event event = {.kind = HOST_FRAME};
    frame_does = what;
    driver_event(driver, &event);
}
