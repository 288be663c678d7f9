/*
 * Which messages wait for the disk in a cell of many: with a quorum core, a host core and a disk
 * that the test plays.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "driver_host.h"

static struct driver *driver;
static struct renewal renewal;
static int64_t now_ns;
static enum message_standing standing_of_b = MESSAGE_STANDING_VOTING; /* as the core received it */
static char trace[4096]; /* the events, in order: one word each */

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
    {MESSAGE_PREPARE, "prepare"},     {MESSAGE_PROMISE, "promise"},       {MESSAGE_VALUE, "value"},
    {MESSAGE_ACCEPT, "accept"},       {MESSAGE_ACCEPTED, "accepted"},     {MESSAGE_RENEW, "renew"},
    {MESSAGE_ACQUIRE, "acquire"},     {MESSAGE_GIVE_BACK, "give-back"},   {MESSAGE_GRANT, "grant"},
    {MESSAGE_RECALL, "recall"},       {MESSAGE_RENEW_ACK, "renew-ack"},   {MESSAGE_BEAT, "beat"},
    {MESSAGE_HELLO_ACK, "hello-ack"}, {MESSAGE_CHECKPOINT, "checkpoint"}, {MESSAGE_AMEND, "amend"},
    {MESSAGE_BREAK, "break"},         {MESSAGE_CHECK, "check"},           {MESSAGE_HELLO, "hello"},
};

static const char *word_of(enum message_kind kind)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].kind == kind) {
            return words[i].word;
        }
    }
    ck_abort_msg("a message of kind %d", (int)kind);
}

/* ---- the quorum core: on an incoming BEAT it does what `plan` says ---- */

/* p: persist a register, of the name x (q: y), m: persist a promise; then each of these sends: to
 * the agent in `to`. */
struct step {
    char what; /* 'p', 'q', 'm', 's', or 'l': 's' that may go later */
    enum message_kind kind;
    uint32_t to;
    uint8_t relay;
};

static struct step plan[16];
static unsigned plan_count;
static struct message_agent names[5]; /* a, b, c voters; o, p not */
static uint64_t told_commit;
static char reached[8]; /* the agents in the core's events, by the letters of their names */

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

uint64_t quorum_told_commit(const struct quorum *quorum)
{
    (void)quorum;
    return told_commit;
}

enum message_standing quorum_standing_of(const struct quorum *quorum, uint32_t voter)
{
    (void)quorum;
    return voter == 1 ? standing_of_b : MESSAGE_STANDING_VOTING;
}

const struct message_agent *quorum_agent_name(const struct quorum *quorum, uint32_t index)
{
    (void)quorum;
    return &names[index];
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
    if (event->kind != QUORUM_MESSAGE) {
        return;
    }
    if (event->as.message->kind == MESSAGE_BEAT) {
        follow_plan(actions);
    } else {
        note_about("own:", word_of(event->as.message->kind));
    }
}

/* ---- the host core: notes what it gets; on a frame it persists a slot, asks, gives back ---- */

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
        snprintf(word, sizeof(word), "up%x:%x", event->as.voters.up, event->as.voters.heard);
        note(word);
    }
    for (const char *at = frame_does; event->kind == HOST_FRAME && *at != '\0'; at++) {
        if (*at == 's') {
            message_name_set(&host_emit(actions, HOST_PERSIST_SLOT)->as.slot.name, "x", 1);
            continue;
        }
        struct host_send *send = &host_emit(actions, HOST_SEND)->as.send;
        send->to = *at == 'A' ? 0 : 1; /* its own coordinator, or b */
        send->relay = *at == 'r' ? 2 : HOST_NO_RELAY;
        send->message.kind = *at == 'g' ? MESSAGE_GIVE_BACK : MESSAGE_ACQUIRE;
    }
}

int64_t host_next_tick_ns(const struct host *host)
{
    (void)host;
    return INT64_MAX;
}

/* The cores' state, by their own account. */
static bool asks_only;
static bool decides_only;

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

static struct {
    const struct driver_batch *flying;
    uint64_t commits;
} disk;

static void commit(void *arg, const struct driver_batch *batch)
{
    (void)arg;
    ck_assert_ptr_null(disk.flying);
    ck_assert_uint_gt(driver_batch_count(batch), 0);
    disk.flying = batch;
    note("flush");
}

static void land(const char *error)
{
    disk.flying = NULL;
    disk.commits++;
    note("durable");
    driver_committed(driver, disk.commits, error);
}

static struct message last_sent;

static void send_one(void *arg, const struct message_agent *to, const struct message *message)
{
    char who[MESSAGE_AGENT_MAX + 2];
    (void)arg;
    snprintf(who, sizeof(who), "%.*s:", (int)to->length, to->text);
    note_about(who, word_of(message->kind));
    message_copy(&last_sent, message);
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

static void session(void *arg, enum renewal_state state, uint32_t epoch)
{
    (void)arg;
    (void)state;
    (void)epoch;
}

static int64_t logged_number; /* of the last line */

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

/* ---- set up ---- */

static void make_driver(bool observer)
{
    struct renewal_config renewal_config = {.voter_count = 3,
                                            .session_ttl_ns = 5000000000,
                                            .grace_period_ns = 5000000000,
                                            .max_drift_percent = 10};
    struct message header;
    struct driver_config config = {.quorum = observer ? NULL : (struct quorum *)&now_ns,
                                   .renewal = &renewal,
                                   .voter_count = 3,
                                   .operations = {.act = act,
                                                  .send = send_one,
                                                  .address = learn,
                                                  .commit = commit,
                                                  .log = take_log,
                                                  .promise = keep_promise,
                                                  .session = session,
                                                  .now_ns = read_now,
                                                  .random = draw}};
    static const char letters[] = "abcop";
    for (unsigned i = 0; i < 5; i++) {
        message_agent_set(&names[i], &letters[i], 1);
    }
    memcpy(config.voters, names, 3 * sizeof(names[0]));
    memcpy(renewal_config.voters, names, 3 * sizeof(names[0]));
    memset(&disk, 0, sizeof(disk));
    now_ns = 1000000000;
    told_commit = 0;
    plan_count = 0;
    config.self = names[observer ? 3 : 0];
    message_zero(&header);
    header.from = config.self;
    renewal_init(&renewal, &renewal_config, &header);
    driver = driver_create(&config);
    ck_assert_ptr_nonnull(driver);
    driver_start(driver, 1, false);
    trace[0] = '\0';
}

static void set_up(void)
{
    make_driver(false);
}

static void tear_down(void)
{
    driver_destroy(driver);
}

static void receive(enum message_kind kind, unsigned from)
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

static void do_plan(const struct step *steps, unsigned count)
{
    memcpy(plan, steps, count * sizeof(*steps));
    plan_count = count;
    receive(MESSAGE_BEAT, 1);
}

static void do_frame(const char *what)
{
    struct host_event event = {.kind = HOST_FRAME};
    frame_does = what;
    driver_event(driver, &event);
}

enum { NO = ACTION_NO_RELAY };

/* ---- tests ---- */

START_TEST(a_proposal_goes_out_while_the_own_disk_is_written)
{
    static const struct step steps[] = {{'p', 0, 0, NO},
                                        {'s', MESSAGE_ACCEPT, 1, NO},
                                        {'s', MESSAGE_ACCEPT, 2, NO},
                                        {'s', MESSAGE_ACCEPTED, 0, NO}};
    do_plan(steps, 4);
    ck_assert_str_eq(trace, "b:accept c:accept");
    driver_flush(driver);
    ck_assert_str_eq(trace, "b:accept c:accept flush");
    receive(MESSAGE_ACCEPTED, 1); /* another's vote is counted at once */
    ck_assert_str_eq(trace, "b:accept c:accept flush own:accepted");
    land(NULL); /* the own one when it is durable */
    ck_assert_str_eq(trace, "b:accept c:accept flush own:accepted durable own:accepted");
}
END_TEST

START_TEST(a_proposal_during_a_flush_goes_out_when_it_is_done)
{
    static const struct step first[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPTED, 0, NO}};
    static const struct step second[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPT, 1, NO}};
    do_plan(first, 2);
    driver_flush(driver);
    do_plan(second, 2);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:accept own:accepted");
}
END_TEST

START_TEST(what_nobody_waits_for_goes_a_little_later)
{
    static const struct step steps[] = {{'s', MESSAGE_ACCEPT, 1, NO}, {'l', MESSAGE_ACCEPT, 2, NO}};
    do_plan(steps, 2);
    driver_flush(driver);
    int64_t due_ns = driver_next_ns(driver);
    ck_assert_int_gt(due_ns, now_ns);
    ck_assert_int_le(due_ns, now_ns + 20000000);
    now_ns = due_ns - 1;
    do_plan(steps, 2); /* goes with the first */
    driver_flush(driver);
    ck_assert_str_eq(trace, "b:accept b:accept");
    now_ns = due_ns;
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_str_eq(trace, "b:accept b:accept c:accept c:accept");
    ck_assert_int_gt(driver_next_ns(driver), due_ns);
}
END_TEST

/* A voter that follows a checkpoint has to have the values chosen before. */
START_TEST(a_checkpoint_does_not_overtake_what_goes_later)
{
    static const struct step steps[] = {{'l', MESSAGE_ACCEPT, 2, NO},
                                        {'s', MESSAGE_CHECKPOINT, 1, NO},
                                        {'s', MESSAGE_CHECKPOINT, 2, NO}};
    do_plan(steps, 3);
    driver_flush(driver);
    ck_assert_str_eq(trace, "c:accept b:checkpoint c:checkpoint");
    ck_assert_int_gt(driver_next_ns(driver), now_ns + 20000000);
}
END_TEST

START_TEST(there_is_never_much_that_goes_later)
{
    static const struct step step[] = {{'l', MESSAGE_ACCEPT, 2, NO}};
    for (unsigned i = 0; i < 63; i++) {
        do_plan(step, 1);
    }
    driver_flush(driver);
    ck_assert_str_eq(trace, "");
    do_plan(step, 1);
    driver_flush(driver);
    ck_assert_uint_eq(strlen(trace), 64 * strlen("c:accept ") - 1);
}
END_TEST

START_TEST(a_row_that_nothing_waits_for_is_written_with_others_or_a_little_later)
{
    static const struct step row[] = {{'p', 0, 0, NO}};
    static const struct step answer[] = {{'s', MESSAGE_ACCEPTED, 1, NO}};
    do_plan(row, 1);
    driver_flush(driver);
    do_plan(answer, 1);
    ck_assert_str_eq(trace, "");
    driver_flush(driver);
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:accepted");
    do_plan(row, 1);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush durable b:accepted");
    int64_t due_ns = driver_next_ns(driver);
    ck_assert_int_gt(due_ns, now_ns);
    ck_assert_int_le(due_ns, now_ns + 20000000);
    now_ns = due_ns;
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush durable b:accepted flush");
}
END_TEST

START_TEST(a_promise_waits_for_the_batch_that_it_is_in)
{
    static const struct step first[] = {{'m', 0, 0, NO}, {'s', MESSAGE_PROMISE, 1, NO}};
    static const struct step second[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPTED, 2, NO}};
    do_plan(first, 2);
    driver_flush(driver);
    do_plan(second, 2); /* while the first is on its way */
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:promise");
    ck_assert_uint_eq(last_sent.commit, 1); /* what it rests on */
    driver_flush(driver);
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:promise flush durable c:accepted");
    ck_assert_uint_eq(last_sent.commit, 2);
    driver_flush(driver);
    ck_assert_ptr_null(disk.flying);
}
END_TEST

START_TEST(what_has_nothing_to_persist_waits_for_what_is_on_its_way)
{
    static const struct step first[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPTED, 2, NO}};
    static const struct step second[] = {{'s', MESSAGE_ACCEPTED, 1, NO}};
    do_plan(first, 2);
    driver_flush(driver);
    do_plan(second, 1); /* a repeat of an answer, to a row that is not durable yet */
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable c:accepted b:accepted");
}
END_TEST

/* Whether the batch that is being flushed is alone; it is over then. */
static bool was_alone(void)
{
    driver_flush(driver);
    ck_assert_ptr_nonnull(disk.flying);
    bool alone = driver_is_alone(driver, disk.flying);
    land(NULL);
    return alone;
}

START_TEST(a_batch_is_alone_if_all_that_goes_on_is_about_its_name)
{
    static const struct step accepted[] = {{'p', 0, 0, 0}, {'s', MESSAGE_ACCEPTED, 1, NO}};
    static const struct step other[] = {{'q', 0, 0, 0}, {'s', MESSAGE_ACCEPTED, 1, NO}};
    static const struct step promise[] = {{'m', 0, 0, 0}, {'s', MESSAGE_PROMISE, 1, NO}};
    asks_only = decides_only = true;
    do_plan(accepted, 2);
    ck_assert(was_alone());
    do_frame("s");
    do_plan(accepted, 2); /* slot and register of one name */
    ck_assert(was_alone());
    do_frame("s");
    do_plan(other, 2); /* of two */
    ck_assert(!was_alone());
    do_plan(promise, 2); /* of no name */
    ck_assert(!was_alone());
    do_frame("s");
    do_plan(promise, 2); /* of one, and of none */
    ck_assert(!was_alone());
    asks_only = false;
    do_plan(accepted, 2);
    ck_assert(!was_alone());
    asks_only = true;
    decides_only = false;
    do_plan(accepted, 2);
    ck_assert(!was_alone());
}
END_TEST

START_TEST(a_failed_commit_sends_nothing_that_waits)
{
    static const struct step steps[] = {
        {'m', 0, 0, NO}, {'s', MESSAGE_PROMISE, 1, NO}, {'s', MESSAGE_ACCEPTED, 0, NO}};
    do_plan(steps, 3);
    driver_flush(driver);
    land("disk on fire");
    receive(MESSAGE_ACCEPTED, 1);
    driver_flush(driver);
    driver_tick(driver);
    ck_assert_str_eq(trace, "flush durable");
    ck_assert_str_eq(driver_failed(driver), "store: disk on fire");
}
END_TEST

START_TEST(an_own_reading_waits_for_the_promise_alone)
{
    static const struct step promised[] = {{'m', 0, 0, NO}, {'s', MESSAGE_VALUE, 0, NO}};
    static const struct step accepted[] = {
        {'p', 0, 0, NO}, {'s', MESSAGE_VALUE, 0, NO}, {'s', MESSAGE_VALUE, 1, NO}};
    do_plan(promised, 2);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable own:value");
    do_plan(accepted, 3);
    ck_assert_str_eq(trace, "flush durable own:value own:value");
    driver_flush(driver);
    land(NULL);
    ck_assert_str_eq(trace, "flush durable own:value own:value flush durable b:value");
}
END_TEST

START_TEST(a_grant_waits_for_the_slots_row_and_a_recall_for_the_grant)
{
    do_frame("sb");
    ck_assert_str_eq(trace, "b:acquire"); /* asking waits for nothing */
    driver_flush(driver);
    receive(MESSAGE_RECALL, 2); /* of another lock */
    receive(MESSAGE_GRANT, 1);
    driver_flush(driver);
    receive(MESSAGE_RECALL, 1);
    ck_assert_str_eq(trace, "b:acquire host:recall flush");
    land(NULL);
    ck_assert_str_eq(trace, "b:acquire host:recall flush durable host:grant host:recall");
    receive(MESSAGE_GRANT, 1);
    ck_assert_str_eq(trace,
                     "b:acquire host:recall flush durable host:grant host:recall host:grant");
}
END_TEST

START_TEST(a_give_back_waits_for_the_slots_row)
{
    do_frame("sg");
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:give-back");
}
END_TEST

START_TEST(a_grant_waits_for_no_other_row)
{
    static const struct step steps[] = {{'p', 0, 0, NO}, {'s', MESSAGE_GRANT, 0, NO}};
    do_plan(steps, 2);
    ck_assert_str_eq(trace, "host:grant");
}
END_TEST

START_TEST(relays)
{
    static const struct step steps[] = {{'s', MESSAGE_RECALL, 3, 2}, {'s', MESSAGE_RECALL, 3, 0}};
    struct message message;
    do_plan(steps, 1);
    ck_assert_str_eq(trace, "c:recall");
    ck_assert_str_eq(last_sent.to.text, "o");
    do_plan(&steps[1], 1); /* this agent is the relay: it goes straight there */
    ck_assert_str_eq(trace, "c:recall o:recall");
    do_frame("r");
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire");
    ck_assert_str_eq(last_sent.to.text, "b");
    message_zero(&message);
    message.kind = MESSAGE_RECALL;
    message.from = names[1];
    message.to = names[3];
    driver_received(driver, &message); /* another's: passed on, once */
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire o:recall");
    ck_assert(last_sent.relayed);
    message.relayed = true;
    driver_received(driver, &message);
    message.relayed = false;
    message.kind = MESSAGE_ACCEPT; /* voters talk to each other directly */
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire o:recall");
    message.kind = MESSAGE_RECALL;
    message.to = names[0];
    message.relayed = true;
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire o:recall host:recall");
}
END_TEST

static unsigned told; /* that one was refused */

/* A request to another voter, in that agent's name. Returns whether it was passed on. */
static bool passes_on(enum message_kind kind, unsigned from, unsigned who)
{
    struct message message;
    message_zero(&message);
    struct message_agent *named = kind == MESSAGE_ACQUIRE     ? &message.as.acquire.agent
                                  : kind == MESSAGE_AMEND     ? &message.as.amend.agent
                                  : kind == MESSAGE_GIVE_BACK ? &message.as.give_back.agent
                                  : kind == MESSAGE_BREAK     ? &message.as.break_lock.agent
                                                              : &message.as.check.agent;
    message.kind = kind;
    message.from = names[from];
    message.to = names[2];
    *named = names[who];
    trace[0] = '\0';
    driver_received(driver, &message);
    told += strcmp(trace, "message_refused") == 0;
    return trace[0] != '\0' && strcmp(trace, "message_refused") != 0;
}

/* The next voter believes what a voter passes on, also the name of the asking host. So an agent
 * without a vote could give back another host's lock. */
START_TEST(a_request_is_passed_on_in_its_senders_name_only)
{
    static const enum message_kind kinds[] = {MESSAGE_ACQUIRE, MESSAGE_AMEND, MESSAGE_GIVE_BACK,
                                              MESSAGE_BREAK, MESSAGE_CHECK};
    static const unsigned senders[] = {1, 3}; /* a voter, an observer */
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (size_t k = 0; k < sizeof(senders) / sizeof(senders[0]); k++) {
            for (unsigned who = 0; who < 5; who++) {
                ck_assert_msg(passes_on(kinds[i], senders[k], who) == (who == senders[k]),
                              "%s of %u in the name of %u", word_of(kinds[i]), senders[k], who);
            }
        }
    }
    ck_assert_uint_eq(told, 2); /* of each of the two, in a minute */
}
END_TEST

START_TEST(only_voters_say_what_voters_say)
{
    static const enum message_kind kinds[] = {MESSAGE_PROMISE, MESSAGE_ACCEPTED, MESSAGE_ACCEPT,
                                              MESSAGE_GRANT, MESSAGE_RECALL};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        receive(kinds[i], 3);
        receive(kinds[i], 0); /* from itself, over the network */
    }
    ck_assert_str_eq(trace, "message_refused");
    trace[0] = '\0';
    receive(MESSAGE_ACQUIRE, 3);
    ck_assert_str_eq(trace, "own:acquire");
}

/* Straight to its receiver, too: an agent without a vote asks for itself. */
START_TEST(nobody_without_a_vote_asks_for_another)
{
    struct message message;
    message_zero(&message);
    message.kind = MESSAGE_ACQUIRE;
    message.from = names[3];
    message.as.acquire.agent = names[1];
    driver_received(driver, &message);
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "message_refused");
    ck_assert_int_eq(logged_number, 1);
    now_ns += 61 * INT64_C(1000000000);
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "message_refused message_refused");
    ck_assert_int_eq(logged_number, 2);
}
END_TEST

static void answer_of_b(enum message_kind kind, enum message_standing standing)
{
    struct message message;
    message_zero(&message);
    message.kind = kind;
    message.from = names[1];
    if (kind == MESSAGE_RENEW_ACK) {
        message.as.renew_ack.agent = renewal.header.from;
        message.as.renew_ack.epoch = 1;
        message.as.renew_ack.renewal_id = renewal.last_id;
    } else {
        message.as.hello.standing = standing;
        message.as.hello.rules.voter_count = 3;
        memcpy(message.as.hello.rules.voters, names, 3 * sizeof(names[0]));
        message.as.hello.rules.session_ttl_ns = 5000000000;
    }
    driver_received(driver, &message);
}

/* The voters that may be asked, and behind them those that answered. */
START_TEST(the_host_core_is_told_which_voters_there_are)
{
    driver_link(driver, &names[2], false);
    ck_assert_str_eq(trace, "up3:1");
    driver_link(driver, &names[2], true);
    ck_assert_str_eq(trace, "up3:1 up7:1");
    trace[0] = '\0';
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    ck_assert_ptr_nonnull(strstr(trace, "up7:3"));
    while (now_ns < 10000000000) { /* nobody answers any more */
        now_ns = driver_next_ns(driver);
        driver_tick(driver);
        driver_flush(driver);
    }
    ck_assert_ptr_nonnull(strstr(trace, " up1:1"));
}
END_TEST

/* The state of voter b that people see. */
static void b_is(bool up, bool refused)
{
    struct driver_voters voters;
    driver_voters(driver, &voters);
    ck_assert_uint_eq(voters.up & 2, up ? 2 : 0);
    ck_assert_uint_eq(voters.refused, refused ? 2 : 0);
}

/* It answers, but not with a vote: it is not up, whatever it acknowledged before; nor is it down
 * between its word that it votes and its first vote. */
START_TEST(who_starts_over_is_shown_as_one_that_may_not_vote)
{
    driver_link(driver, &names[1], true);
    standing_of_b = MESSAGE_STANDING_REJOINING;
    answer_of_b(MESSAGE_HELLO, MESSAGE_STANDING_REJOINING);
    b_is(false, true);
    standing_of_b = MESSAGE_STANDING_VOTING;
    answer_of_b(MESSAGE_HELLO, MESSAGE_STANDING_VOTING);
    b_is(false, true);
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    b_is(true, false);
    driver_destroy(driver);
    make_driver(true);
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    b_is(true, false);
    driver_link(driver, &names[1], false);
    b_is(false, false);
    now_ns += 1000000;
    driver_link(driver, &names[1], true);
    b_is(false, false);
    answer_of_b(MESSAGE_HELLO_ACK, MESSAGE_STANDING_REJOINING);
    ck_assert(driver_starts_over(driver, 1) && !driver_starts_over(driver, 2));
    b_is(false, true);
    driver_link(driver, &names[1], false); /* gone is gone */
    b_is(false, false);
    driver_link(driver, &names[1], true);
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    b_is(true, false);
}
END_TEST

START_TEST(the_quorum_core_is_told_who_is_reached)
{
    driver_link(driver, &names[2], true);
    driver_link(driver, &names[3], false);
    driver_link(driver, &names[0], true);
    ck_assert_str_eq(reached, "c");
    driver_link(driver, &names[3], true); /* no voter */
    ck_assert_str_eq(reached, "co");
}
END_TEST

START_TEST(an_observer_has_no_vote)
{
    driver_destroy(driver);
    make_driver(true);
    receive(MESSAGE_ACCEPT, 1);
    receive(MESSAGE_ACQUIRE, 4);
    ck_assert_str_eq(trace, "");
    do_frame("A");
    ck_assert_str_eq(trace, "a:acquire");
    ck_assert_str_eq(last_sent.from.text, "o");
    receive(MESSAGE_GRANT, 0);
    ck_assert_str_eq(trace, "a:acquire host:grant");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_order");
    TCase *order = tcase_create("order");
    tcase_add_checked_fixture(order, set_up, tear_down);
    tcase_add_test(order, a_proposal_goes_out_while_the_own_disk_is_written);
    tcase_add_test(order, a_proposal_during_a_flush_goes_out_when_it_is_done);
    tcase_add_test(order, what_nobody_waits_for_goes_a_little_later);
    tcase_add_test(order, a_checkpoint_does_not_overtake_what_goes_later);
    tcase_add_test(order, there_is_never_much_that_goes_later);
    tcase_add_test(order, a_row_that_nothing_waits_for_is_written_with_others_or_a_little_later);
    tcase_add_test(order, a_promise_waits_for_the_batch_that_it_is_in);
    tcase_add_test(order, what_has_nothing_to_persist_waits_for_what_is_on_its_way);
    tcase_add_test(order, a_batch_is_alone_if_all_that_goes_on_is_about_its_name);
    tcase_add_test(order, a_failed_commit_sends_nothing_that_waits);
    tcase_add_test(order, an_own_reading_waits_for_the_promise_alone);
    tcase_add_test(order, a_grant_waits_for_the_slots_row_and_a_recall_for_the_grant);
    tcase_add_test(order, a_give_back_waits_for_the_slots_row);
    tcase_add_test(order, a_grant_waits_for_no_other_row);
    tcase_add_test(order, relays);
    tcase_add_test(order, a_request_is_passed_on_in_its_senders_name_only);
    tcase_add_test(order, only_voters_say_what_voters_say);
    tcase_add_test(order, nobody_without_a_vote_asks_for_another);
    tcase_add_test(order, the_host_core_is_told_which_voters_there_are);
    tcase_add_test(order, who_starts_over_is_shown_as_one_that_may_not_vote);
    tcase_add_test(order, the_quorum_core_is_told_who_is_reached);
    tcase_add_test(order, an_observer_has_no_vote);
    suite_add_tcase(suite, order);
    return suite_run(suite);
}
