/*
 * The order of the driver's work. The test plays the host core and the store. It checks which
 * actions wait for a commit, how many commits there are, and what a failure stops.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "driver/driver.h"
#include "driver_host.h"

/* ---- the disk, and the trace ---- */

static struct driver *driver;
static char trace[4096]; /* the events, in order: one word each */

static void note(const char *word)
{
    ck_assert_uint_lt(strlen(trace) + strlen(word) + 2, sizeof(trace));
    if (trace[0] != '\0') {
        strcat(trace, " ");
    }
    strcat(trace, word);
}

static struct {
    bool slow; /* a batch is durable only after land() */
    bool fail_commit;
    const struct driver_batch *flying;
    unsigned actions;
    unsigned marks;
    unsigned commits;
} disk;

static void note_record(const struct driver_record *record)
{
    char word[32];
    switch (record->kind) {
    case DRIVER_ACTION:
        ck_assert_int_ne(record->as.action.kind, ACTION_SEND);
        disk.actions++;
        disk.marks += record->as.action.kind == ACTION_PERSIST_MARK;
        break;
    case DRIVER_SLOT:
        note("slot");
        break;
    case DRIVER_NO_SLOT:
        note("no-slot");
        break;
    case DRIVER_EPOCH:
        snprintf(word, sizeof(word), "epoch%u", record->as.epoch);
        note(word);
        break;
    }
}

/* Makes the batch under way durable, or makes it fail. */
static void land(void)
{
    const struct driver_record *record;
    size_t at = 0;
    uint32_t count = 0;
    ck_assert_ptr_nonnull(disk.flying);
    while ((record = driver_batch_next(disk.flying, &at)) != NULL) {
        count++;
        note_record(record);
    }
    ck_assert_uint_gt(count, 0);
    note("commit");
    disk.flying = NULL;
    disk.commits++;
    driver_committed(driver, disk.commits, disk.fail_commit ? "disk on fire" : NULL);
}

static void commit(void *arg, const struct driver_batch *batch)
{
    (void)arg;
    ck_assert_ptr_null(disk.flying); /* there is one batch at a time */
    disk.flying = batch;
    if (!disk.slow) {
        land();
    }
}

/* ---- the host core that the test plays ---- */

/* The actions of the host core on a frame of client n, one letter each. s: persist a slot, d:
 * remove a slot, r: reply, q: ask the quorum for a lock, w: welcome. */
static const char *script[16];
static int64_t now_ns;
static unsigned grants;

static struct host_action *add(struct host_actions *actions, enum host_action_kind kind)
{
    ck_assert_uint_lt(actions->count, actions->capacity);
    struct host_action *action = &actions->items[actions->count++];
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}

static void ask(struct host_actions *actions, uint64_t request)
{
    struct host_action *action = add(actions, HOST_SEND);
    struct message_acquire *acquire = &action->as.send.message.as.acquire;
    action->as.send.relay = HOST_NO_RELAY;
    action->as.send.message.kind = MESSAGE_ACQUIRE;
    message_agent_set(&acquire->agent, "dev", 3);
    acquire->epoch = 1;
    acquire->request_id = request;
    acquire->mode = MESSAGE_MODE_EXCLUSIVE;
    char name[16];
    int length = snprintf(name, sizeof(name), "lock%u", (unsigned)request);
    message_name_set(&acquire->name, name, (size_t)length);
}

static void play(const char *letters, uint32_t client, struct host_actions *actions)
{
    for (; *letters != '\0'; letters++) {
        struct host_action *action;
        switch (*letters) {
        case 's':
            message_name_set(&add(actions, HOST_PERSIST_SLOT)->as.slot.name, "x", 1);
            break;
        case 'd':
            add(actions, HOST_PERSIST_NO_SLOT);
            break;
        case 'w':
            add(actions, HOST_WELCOMED)->client = client;
            break;
        case 'q':
            ask(actions, client);
            break;
        default:
            action = add(actions, HOST_REPLY);
            action->client = client;
            action->as.reply.offset = (uint32_t)actions->output_used;
            action->as.reply.size = 4;
            memset(actions->output + actions->output_used, 'a' + (int)client, 4);
            actions->output_used += 4;
        }
    }
}

void host_step(struct host *host, const struct host_event *event, struct host_actions *actions)
{
    char word[32];
    (void)host;
    ck_assert_uint_eq(actions->count, 0);
    if (event->kind == HOST_FRAME) {
        play(script[event->client], event->client, actions);
    } else if (event->kind == HOST_MESSAGE && event->as.message->kind == MESSAGE_GRANT) {
        grants++;
        note("grant");
    } else if (event->kind == HOST_LEASE) {
        snprintf(word, sizeof(word), "lease%u%s", event->as.lease.epoch,
                 event->as.lease.lost ? "lost" : "");
        note(word);
    } else if (event->kind == HOST_HANGUP) {
        note("hangup");
        add(actions, HOST_FORGET)->client = event->client;
    } else if (event->kind == HOST_FORGOTTEN) {
        snprintf(word, sizeof(word), "forgotten%u", event->client);
        note(word);
    }
}

int64_t host_next_tick_ns(const struct host *host)
{
    (void)host;
    return INT64_MAX;
}

/* ---- the driver under test ---- */

static struct renewal *renewal;
static struct quorum *quorum;
static void *memory[3];
static bool hang_up_on_reply;

static void act(void *arg, const struct host_action *action, const unsigned char *bytes)
{
    char word[32];
    (void)arg;
    if (action->kind == HOST_REPLY) {
        for (unsigned i = 0; i < 4; i++) { /* the reply's bytes were kept during the wait */
            ck_assert_int_eq(bytes[i], 'a' + (int)action->client);
        }
        if (hang_up_on_reply) {
            driver_post(driver, HOST_HANGUP, action->client);
        }
    }
    snprintf(word, sizeof(word), "%s%u",
             action->kind == HOST_REPLY    ? "reply"
             : action->kind == HOST_FORGET ? "forget"
                                           : "welcomed",
             action->client);
    note(word);
}

static int64_t promised_ns; /* the latest deadline that the driver promised */

static void promise(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    (void)arg;
    (void)epoch;
    ck_assert_int_gt(deadline_ns, 0);
    promised_ns = deadline_ns;
    note("promise");
}

static void session(void *arg, enum renewal_state state, uint32_t epoch)
{
    (void)arg;
    (void)state;
    (void)epoch;
}

static int64_t read_now(void *arg)
{
    (void)arg;
    return now_ns;
}

static uint64_t draw(void *arg)
{
    (void)arg;
    return (uint64_t)rand() + 1;
}

static bool has_others;

static void send_none(void *arg, const struct message_agent *to, const struct message *message)
{
    (void)arg;
    (void)to;
    (void)message;
    ck_assert_msg(has_others, "a cell of one host sends nothing");
}

static int64_t stalled_ns;

static void stalled(void *arg, int64_t turn_ns)
{
    (void)arg;
    stalled_ns = turn_ns;
}

static void ignore_log(void *arg, const struct action_log *log)
{
    (void)arg;
    (void)log;
}

/* How long the host core's next step takes. Meanwhile the keeper works. */
static int64_t held_up_ns;

static void lend(void *arg)
{
    static const int64_t look_ns = 20000000;
    (void)arg;
    for (; held_up_ns > 0; held_up_ns -= look_ns) {
        now_ns += look_ns;
        driver_keep_begin(driver);
        driver_keep(driver);
        driver_keep_end(driver);
        ck_assert_int_eq(renewal_state(renewal, now_ns), RENEWAL_SAFE);
    }
}

static void take_back(void *arg)
{
    (void)arg;
}

static void prolong(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    (void)arg;
    ck_assert_uint_eq(epoch, renewal_epoch(renewal));
    ck_assert_int_eq(deadline_ns, promised_ns);
    ck_assert_int_gt(deadline_ns, now_ns);
    note("prolong");
}

static void set_up_with(uint32_t epoch)
{
    static const struct quorum_limits limits = {
        .registers = 100, .agents = 4, .requests = 100, .shares = 64};
    struct quorum_config quorum_config = {.limits = limits,
                                          .membership = 1,
                                          .voter_count = 1,
                                          .store_id = {1, 2},
                                          .session_ttl_ns = 5000000000,
                                          .max_drift_percent = 10};
    struct renewal_config renewal_config = {.voter_count = 1,
                                            .session_ttl_ns = 5000000000,
                                            .grace_period_ns = 5000000000,
                                            .max_drift_percent = 10};
    struct message_agent self = {.length = 0};
    struct message_rules rules;
    struct message header;
    message_agent_set(&self, "dev", 3);
    quorum_config.voters[0] = renewal_config.voters[0] = self;
    quorum_rules(&quorum_config, &rules);
    renewal_config.rules = message_rules_digest(&rules);
    now_ns = 100000000000;
    memory[0] = calloc(1, names_size(1000));
    memory[1] = calloc(1, quorum_size(&limits));
    memory[2] = calloc(1, renewal_size());
    struct names *names = names_init(memory[0], 1000, 1);
    quorum = quorum_init(memory[1], &quorum_config, names);
    quorum_header(quorum, MESSAGE_RENEW, &header);
    renewal = renewal_init(memory[2], &renewal_config, &header);
    struct driver_config config = {.quorum = quorum,
                                   .renewal = renewal,
                                   .self = self,
                                   .store_id = {1, 2},
                                   .voter_count = 1,
                                   .voters = {self},
                                   .operations = {.act = act,
                                                  .send = send_none,
                                                  .commit = commit,
                                                  .log = ignore_log,
                                                  .promise = promise,
                                                  .session = session,
                                                  .stalled = stalled,
                                                  .lend = lend,
                                                  .take_back = take_back,
                                                  .prolong = prolong,
                                                  .now_ns = read_now,
                                                  .random = draw}};
    driver = driver_create(&config);
    ck_assert_ptr_nonnull(driver);
    memset(script, 0, sizeof(script));
    memset(&disk, 0, sizeof(disk));
    hang_up_on_reply = has_others = false;
    stalled_ns = held_up_ns = 0;
    grants = 0;
    trace[0] = '\0';
    driver_start(driver, epoch, false);
    ck_assert_ptr_null(driver_failed(driver));
    ck_assert(quorum_ready(quorum));
    ck_assert_int_eq(renewal_state(renewal, now_ns), RENEWAL_SAFE);
}

static void set_up(void)
{
    set_up_with(1);
}

static void tear_down(void)
{
    driver_destroy(driver);
    free(memory[0]);
    free(memory[1]);
    free(memory[2]);
}

static void frame(uint32_t client, const char *letters)
{
    struct host_event event = {.kind = HOST_FRAME, .client = client};
    script[client] = letters;
    driver_event(driver, &event);
}

static void begin(void)
{
    trace[0] = '\0';
    disk.commits = 0;
}

START_TEST(the_start_makes_the_session_safe)
{
    /* The driver promises the deadline, durably, before the host core publishes it. */
    const char *promised = strstr(trace, "promise");
    const char *told = strstr(trace, "lease1");
    ck_assert_ptr_nonnull(promised);
    ck_assert_ptr_nonnull(told);
    ck_assert(promised < told);
    ck_assert_ptr_nonnull(strstr(trace, "commit"));
    ck_assert(strstr(trace, "commit") < promised);
}
END_TEST

/* MESSAGE_EPOCH_LIMIT bounds the epochs in messages of other agents. The only voter's own host has
 * its epoch from its store, so the driver accepts a high epoch. */
START_TEST(a_high_epoch_of_its_own_is_believed)
{
    tear_down();
    set_up_with(MESSAGE_EPOCH_LIMIT - 1);
}
END_TEST

/* No epoch follows the last epoch. The driver ends, and stores no epoch that a start would
 * refuse. */
START_TEST(the_last_epoch_is_lost)
{
    tear_down();
    set_up_with(MESSAGE_EPOCH_LIMIT - 1);
    now_ns += 60000000000; /* after the deadline and the grace */
    begin();
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_ptr_nonnull(driver_failed(driver));
    ck_assert_ptr_nonnull(strstr(driver_failed(driver), "is used up"));
    ck_assert_uint_eq(disk.commits, 0);
}
END_TEST

START_TEST(what_depends_on_nothing_is_answered_at_once)
{
    begin();
    frame(1, "r");
    ck_assert_str_eq(trace, "reply1");
    driver_flush(driver);
    ck_assert_str_eq(trace, "reply1");
}
END_TEST

START_TEST(what_stands_behind_a_row_waits_for_its_commit)
{
    begin();
    frame(1, "rsr");
    ck_assert_str_eq(trace, "reply1");
    driver_flush(driver);
    ck_assert_str_eq(trace, "reply1 slot commit reply1");
}
END_TEST

START_TEST(a_turn_has_one_commit)
{
    begin();
    frame(1, "swr");
    frame(2, "r");
    frame(3, "dr");
    driver_flush(driver);
    ck_assert_str_eq(trace, "slot no-slot commit welcomed1 reply1 reply2 reply3");
    ck_assert_uint_eq(disk.commits, 1);
    frame(2, "r");
    driver_flush(driver);
    ck_assert_uint_eq(disk.commits, 1);
}
END_TEST

START_TEST(slot_and_grant_share_a_commit)
{
    begin();
    unsigned actions = disk.actions;
    frame(1, "sq");
    driver_flush(driver);
    ck_assert_str_eq(trace, "slot commit grant");
    ck_assert_uint_eq(disk.actions, actions + 1); /* one more row: the register */
}
END_TEST

START_TEST(requests_of_many_share_a_commit)
{
    begin();
    for (uint32_t client = 1; client <= 10; client++) {
        frame(client, "sqr");
    }
    driver_flush(driver);
    ck_assert_uint_eq(disk.commits, 1);
    ck_assert_uint_eq(grants, 10);
}
END_TEST

START_TEST(a_failed_commit_is_answered_to_nobody)
{
    begin();
    frame(1, "sqr");
    disk.fail_commit = true;
    driver_flush(driver);
    ck_assert_str_eq(trace, "slot commit");
    ck_assert_str_eq(driver_failed(driver), "store: disk on fire");
    frame(2, "r");
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_str_eq(trace, "slot commit");
}
END_TEST

START_TEST(what_an_action_posts_comes_after_the_others)
{
    begin();
    hang_up_on_reply = true;
    frame(1, "srr");
    driver_flush(driver);
    ck_assert_str_eq(trace, "slot commit reply1 reply1 hangup forget1 hangup forget1 "
                            "forgotten1 forgotten1");
}
END_TEST

/* The id of a client that is gone goes to another client only after FORGET is done. A FORGET that
 * follows a row waits until the row is durable. */
START_TEST(what_is_forgotten_behind_a_batch_is_told_behind_it)
{
    begin();
    frame(1, "s");
    struct host_event event = {.kind = HOST_HANGUP, .client = 2};
    driver_event(driver, &event);
    ck_assert_str_eq(trace, "hangup");
    driver_flush(driver);
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_str_eq(trace, "hangup slot commit forget2 forgotten2");
}
END_TEST

START_TEST(the_loop_goes_on_while_a_batch_is_on_its_way)
{
    begin();
    disk.slow = true;
    frame(1, "sr");
    driver_flush(driver);
    ck_assert_str_eq(trace, "");
    frame(2, "r"); /* the reply waits behind the row of client 1, which is not durable yet */
    frame(3, "sr");
    driver_flush(driver); /* this call begins no second batch */
    frame(4, "dr");
    driver_flush(driver);
    land();
    ck_assert_str_eq(trace, "slot commit reply1 reply2");
    ck_assert_uint_eq(disk.commits, 1);
    driver_flush(driver);
    land();
    ck_assert_str_eq(trace, "slot commit reply1 reply2 slot no-slot commit reply3 reply4");
    frame(1, "r");
    ck_assert_str_eq(trace, "slot commit reply1 reply2 slot no-slot commit reply3 reply4 reply1");
}
END_TEST

START_TEST(an_own_vote_is_counted_when_it_is_durable)
{
    begin();
    disk.slow = true;
    frame(1, "q");
    driver_flush(driver);
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_uint_eq(grants, 0);
    land();
    driver_flush(driver);
    ck_assert_uint_eq(grants, 1);
}
END_TEST

START_TEST(renewals_go_on)
{
    int64_t end_ns = now_ns + 60000000000;
    begin();
    while (now_ns < end_ns) {
        now_ns = driver_next_ns(driver);
        driver_tick(driver);
        driver_flush(driver);
        ck_assert_int_eq(renewal_state(renewal, now_ns), RENEWAL_SAFE);
    }
    ck_assert_uint_eq(disk.commits, 0); /* a renewal costs no flush */
    ck_assert_ptr_null(strstr(trace, "lost"));
}
END_TEST

/* A row waits for a flush for ten ttls. The agent's own vote for its session does not wait for that
 * flush. The host core gets the new lease before anything else. */
START_TEST(the_session_is_kept_while_the_host_core_is_held_up)
{
    begin();
    frame(1, "sq");
    held_up_ns = 50000000000;
    frame(2, "");
    ck_assert_ptr_nonnull(strstr(trace, "promise prolong promise prolong"));
    ck_assert_uint_eq(disk.commits, 0);
    trace[0] = '\0';
    frame(3, "");
    ck_assert_int_eq(strncmp(trace, "promise lease1", strlen("promise lease1")), 0);
    driver_flush(driver);
    ck_assert_ptr_null(strstr(trace, "lost"));
    ck_assert_uint_eq(renewal_epoch(renewal), 1);
}
END_TEST

START_TEST(a_lost_session_is_followed_by_a_durable_new_one)
{
    begin();
    now_ns += 3600000000000; /* the machine slept past the deadline and the grace */
    driver_stalled(driver);
    driver_tick(driver);
    driver_flush(driver);
    while (renewal_state(renewal, now_ns) != RENEWAL_SAFE) {
        now_ns = driver_next_ns(driver);
        driver_tick(driver);
        driver_flush(driver);
    }
    ck_assert_int_eq(strncmp(trace, "lease1lost epoch2 commit promise lease2",
                             strlen("lease1lost epoch2 commit promise lease2")),
                     0);
    ck_assert_uint_eq(renewal_epoch(renewal), 2);
}
END_TEST

/* Makes the host want a lock that another host has. */
static void other_has_lock(uint32_t number)
{
    struct message message;
    char name[16];
    has_others = true;
    quorum_header(quorum, MESSAGE_ACQUIRE, &message);
    message_agent_set(&message.from, "other", 5);
    struct message_acquire *acquire = &message.as.acquire;
    memset(acquire, 0, sizeof(*acquire));
    acquire->agent = message.from;
    acquire->epoch = 1;
    acquire->request_id = 1;
    acquire->mode = MESSAGE_MODE_EXCLUSIVE;
    message_name_set(&acquire->name, name,
                     (size_t)snprintf(name, sizeof(name), "lock%u", (unsigned)number));
    driver_received(driver, &message);
    driver_flush(driver);
    frame(number, "q");
    driver_flush(driver);
    ck_assert_uint_eq(grants, 0);
}

static void let_pass(int64_t ns)
{
    now_ns += ns;
    driver_tick(driver);
    driver_flush(driver);
}

/* Renewals that came in time may still be unread after a turn that stood still, so the voter marks
 * no session in that turn. */
START_TEST(a_stall_within_a_turn_spares_sessions)
{
    static const int64_t lapsed_ns = 6000000000;
    ck_assert(!driver_turn(driver, now_ns));
    other_has_lock(1);
    let_pass(lapsed_ns);
    ck_assert_int_eq(stalled_ns, lapsed_ns);
    ck_assert_uint_eq(disk.marks, 0);
    ck_assert(!driver_turn(driver, 0)); /* the turn is over */
    ck_assert_int_eq(stalled_ns, lapsed_ns);
    /* The voter marks the session later, if its agent stays silent. */
    for (unsigned i = 0; i < 60; i++) {
        driver_turn(driver, now_ns);
        let_pass(lapsed_ns / 30);
        ck_assert(!driver_turn(driver, 0));
    }
    ck_assert_int_eq(stalled_ns, lapsed_ns);
    ck_assert_uint_eq(disk.marks, 1);
    ck_assert_uint_eq(grants, 1);
}
END_TEST

/* A turn of a third of the ttl is no stall, and time between turns is no stall. A long turn is a
 * stall even if it has no step. */
START_TEST(what_is_a_stall_within_a_turn)
{
    driver_turn(driver, now_ns);
    let_pass(renewal_ttl_ns(renewal) / 3);
    ck_assert(!driver_turn(driver, 0));
    ck_assert_int_eq(stalled_ns, 0);
    other_has_lock(1);
    let_pass(6000000000);
    ck_assert(!driver_turn(driver, now_ns - 1000000000)); /* this turn began a second ago */
    ck_assert_int_eq(stalled_ns, 0);
    /* without a stall, the silent session is marked */
    ck_assert_uint_eq(disk.marks, 1);
    now_ns += 1000000000;
    ck_assert(driver_turn(driver, 0));
    ck_assert_int_eq(stalled_ns, 2000000000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver");
    TCase *order = tcase_create("order");
    tcase_add_checked_fixture(order, set_up, tear_down);
    tcase_add_test(order, the_start_makes_the_session_safe);
    tcase_add_test(order, a_high_epoch_of_its_own_is_believed);
    tcase_add_test(order, the_last_epoch_is_lost);
    tcase_add_test(order, what_depends_on_nothing_is_answered_at_once);
    tcase_add_test(order, what_stands_behind_a_row_waits_for_its_commit);
    tcase_add_test(order, a_turn_has_one_commit);
    tcase_add_test(order, slot_and_grant_share_a_commit);
    tcase_add_test(order, requests_of_many_share_a_commit);
    tcase_add_test(order, a_failed_commit_is_answered_to_nobody);
    tcase_add_test(order, what_an_action_posts_comes_after_the_others);
    tcase_add_test(order, what_is_forgotten_behind_a_batch_is_told_behind_it);
    tcase_add_test(order, the_loop_goes_on_while_a_batch_is_on_its_way);
    tcase_add_test(order, an_own_vote_is_counted_when_it_is_durable);
    tcase_add_test(order, renewals_go_on);
    tcase_add_test(order, the_session_is_kept_while_the_host_core_is_held_up);
    tcase_add_test(order, a_lost_session_is_followed_by_a_durable_new_one);
    tcase_add_test(order, a_stall_within_a_turn_spares_sessions);
    tcase_add_test(order, what_is_a_stall_within_a_turn);
    suite_add_tcase(suite, order);
    return suite_run(suite);
}
