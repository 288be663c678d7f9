/*
 * The driver: see driver.h. This file has the events, the messages and the batches, and decides
 * which message waits for which batch. The session is in session.c, gossip in gossip.c.
 */
#include <stdio.h>
#include <string.h>

#include "driver/private.h"
#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "proto/probe.h"

enum {
    WAITING_MAX = 4096, /* a turn with more waiting items is flushed early */
    WAITING_BYTES_MAX = 1 << 22,
    DEFER_MS = 20,  /* rows for which nothing waits are written after this time, or together with
                     * rows for which something waits */
    LATER_MS = 20,  /* messages that are not urgent wait for this time at most */
    LATER_MAX = 64, /* when this many of them wait, they are all sent */
};

void driver_fail(struct driver *driver, const char *what, const char *why)
{
    if (driver->failed[0] == '\0') {
        snprintf(driver->failed, sizeof(driver->failed), "%s: %s", what, why);
    }
}

bool driver_kept(struct driver *driver, bool good)
{
    if (!good) {
        driver_fail(driver, "driver", "out of memory");
    }
    return good;
}

/* ---- which batch a message waits for ---- */

/* quorum_batch(), promise_batch() and host_batch() return the newest batch that is not durable yet
 * and has such rows: rows of the quorum core, promises, or rows of the host core. They return NULL
 * if there is no such batch. */
static struct driver_batch *quorum_batch(struct driver *driver)
{
    if (driver->open->quorum_rows > 0) {
        return driver->open;
    }
    return driver->flying != NULL && driver->flying->quorum_rows > 0 ? driver->flying : NULL;
}

static struct driver_batch *promise_batch(struct driver *driver)
{
    if (driver->open->promises > 0) {
        return driver->open;
    }
    return driver->flying != NULL && driver->flying->promises > 0 ? driver->flying : NULL;
}

static struct driver_batch *host_batch(struct driver *driver)
{
    if (driver->open->host_rows > 0) {
        return driver->open;
    }
    return driver->flying != NULL && driver->flying->host_rows > 0 ? driver->flying : NULL;
}

/* Returns the batch for which a message to this agent's host core has to wait. A grant waits for
 * the rows of slots. A message after a grant waits for that grant, so that no recall overtakes it
 * here. */
static struct driver_batch *host_message_batch(struct driver *driver, enum message_kind kind)
{
    if (driver->open->grants > 0) {
        return driver->open;
    }
    bool grant = kind == MESSAGE_GRANT || kind == MESSAGE_AMENDED;
    struct driver_batch *rows = grant ? host_batch(driver) : NULL;
    if (rows == NULL && driver->flying != NULL && driver->flying->grants > 0) {
        return driver->flying;
    }
    return rows;
}

/* ---- time, randomness ---- */

int64_t driver_clock_ns(struct driver *driver)
{
    int64_t now_ns = driver->config.operations.now_ns(driver->config.operations.arg);
    if (now_ns > driver->last_ns) {
        driver->last_ns = now_ns;
    }
    return driver->last_ns;
}

uint64_t driver_draw(struct driver *driver)
{
    return driver->config.operations.random(driver->config.operations.arg);
}

/* ---- messages ---- */

static void deliver_to_quorum(struct driver *driver, const struct message *message)
{
    if (driver->config.quorum == NULL && !driver_is_of_record(message->kind)) {
        return;
    }
    void *item = fifo_push(&driver->quorum_inbox, message_size(message));
    if (driver_kept(driver, item != NULL)) {
        message_copy(item, message);
    }
}

static void deliver_to_host(struct driver *driver, const struct message *message)
{
    size_t size = offsetof(struct inbox_item, message) + message_size(message);
    struct inbox_item *item = fifo_push(&driver->host_inbox, size);
    if (driver_kept(driver, item != NULL)) {
        item->kind = HOST_MESSAGE;
        item->client = 0;
        message_copy(&item->message, message);
    }
}

/* Gives the message to the core of this agent that handles messages of its kind. */
static void deliver(struct driver *driver, const struct message *message)
{
    if (message_is_for_host(message->kind) && !driver_is_of_record(message->kind)) {
        deliver_to_host(driver, message);
    } else {
        deliver_to_quorum(driver, message);
    }
}

static void deliver_after(struct driver *driver, struct driver_batch *batch,
                          const struct message *message)
{
    if (batch == NULL) {
        deliver(driver, message);
    } else {
        driver_kept(driver, batch_wait_message(batch, NULL, message));
    }
}

/* Returns whether the renewal or session.c handles this kind of message, which is an answer. */
static bool is_of_session(enum message_kind kind)
{
    return kind == MESSAGE_RENEW_ACK || kind == MESSAGE_HELLO_ACK;
}

/*
 * Gives the message to a core of this agent when the rows that it depends on are durable. The
 * answer of this agent's acceptor to a read waits only for the promise under which it was read. The
 * answer may contain a value that the disk then loses. This voter has not voted for that value yet,
 * so treating it as proposed is safe.
 */
static void send_to_self(struct driver *driver, const struct message *message)
{
    struct driver_batch *batch = NULL;
    if (message->kind == MESSAGE_VALUE) {
        batch = promise_batch(driver);
    } else if (quorum_waits_for_disk(message->kind)) {
        batch = quorum_batch(driver);
    } else if (message_is_for_host(message->kind)) {
        batch = host_message_batch(driver, message->kind);
    } else if (message->kind == MESSAGE_GIVE_BACK) {
        batch = host_batch(driver);
    }
    deliver_after(driver, batch, message);
}

/* Sends the messages that send_later() has kept. */
static void send_waiting(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct waiting_item *waiting;
    size_t size;
    while ((waiting = fifo_first(&driver->later.waiting, &size)) != NULL) {
        struct message *message = (void *)((unsigned char *)waiting + WAITING_BODY);
        message->commit = quorum_reported_commit(driver->config.quorum);
        operations->send(operations->arg, &waiting->to, message);
        fifo_drop(&driver->later.waiting);
    }
}

static void send_to_peer(struct driver *driver, const struct message_agent *to,
                         const struct message *message)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct driver_batch *batch = NULL;
    if (quorum_waits_for_disk(message->kind)) {
        batch = quorum_batch(driver);
    } else if (message->kind == MESSAGE_ACCEPT) {
        /* This agent's own row goes into the next batch, so the proposal waits for the batch that
         * is being written. More proposals may arrive until then; all of them share one packet, and
         * one flush at the other voter. */
        batch = driver->flying;
    } else if (message->kind == MESSAGE_GIVE_BACK) {
        batch = host_batch(driver);
    } else if (message->kind == MESSAGE_SYNC &&
               driver_find_voter(driver, &driver->config.self) == driver->config.voter_count) {
        /* A store that learns asks for more only when it has stored what it got. Otherwise a slow
         * commit would be followed by a bigger one, for which this host's clients wait. */
        batch = quorum_batch(driver);
    } else if (message->kind == MESSAGE_CHECKPOINT) {
        /* a voter that lacks earlier chosen values cannot accept the checkpoint, so the chosen
         * values go first */
        send_waiting(driver);
    }
    if (batch == NULL) {
        operations->send(operations->arg, to, message);
    } else {
        driver_kept(driver, batch_wait_message(batch, to, message));
    }
}

/* relay: the index of the voter that passes the message on; voter_count or more: nobody does. */
static void send_message(struct driver *driver, const struct message_agent *to, uint32_t relay,
                         struct message *message)
{
    if (driver_is_self(driver, to) && driver_keeps(driver, message)) {
        driver_keep_own(driver, message);
    } else if (driver_is_self(driver, to)) {
        send_to_self(driver, message);
    } else if (relay < driver->config.voter_count &&
               !driver_is_self(driver, &driver->config.voters[relay])) {
        message->to = *to;
        send_to_peer(driver, &driver->config.voters[relay], message);
    } else {
        send_to_peer(driver, to, message);
    }
}

/* Keeps a chosen value for a voter that the value's round left out. */
static void send_later(struct driver *driver, const struct message_agent *to,
                       const struct message *message)
{
    HF_CHECK(message->kind == MESSAGE_ACCEPT && !driver_is_self(driver, to));
    if (driver->later.waiting.count == 0) {
        driver->later_ns = driver_clock_ns(driver) + LATER_MS * INT64_C(1000000);
    }
    driver_kept(driver, batch_wait_message(&driver->later, to, message));
}

/* Sends a message of the quorum core or of the renewal. */
static void take_send(struct driver *driver, struct action_send *send)
{
    const struct driver_config *config = &driver->config;
    struct message_agent to;
    if (send->message.kind == MESSAGE_HEARTBEAT) {
        driver_gossip_owned(driver, &send->message);
    }
    if (send->to == ACTION_STRANGER) {
        to = send->message.as.refused.agent;
    } else if ((send->to & ACTION_VOTER) != 0) {
        to = config->voters[send->to & ~(uint32_t)ACTION_VOTER];
    } else {
        to = *quorum_agent_name(config->quorum, send->to);
    }
    if (send->later) {
        send_later(driver, &to, &send->message);
    } else {
        send_message(driver, &to, send->relay, &send->message);
    }
}

struct message *driver_with_header(struct driver *driver, const struct message *message)
{
    struct message *copy = &driver->request;
    size_t body_at = offsetof(struct message, as);
    if (driver->config.quorum != NULL) {
        quorum_header(driver->config.quorum, message->kind, copy);
    } else {
        message_copy(copy, renewal_header(driver->config.renewal));
        copy->kind = message->kind;
    }
    memcpy((unsigned char *)copy + body_at, (const unsigned char *)message + body_at,
           message_size(message) - body_at);
    return copy;
}

static void take_request(struct driver *driver, const struct host_send *send)
{
    struct message *message = driver_with_header(driver, &send->message);
    if (send->to == HOST_TO_AGENT) {
        send_message(driver, &send->message.to, send->relay, message);
    } else if (send->to < driver->config.voter_count) {
        send_message(driver, &driver->config.voters[send->to], send->relay, message);
    }
}

/* ---- actions ---- */

void driver_take_actions(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct actions *actions = &driver->quorum_actions;
    for (uint32_t i = 0; i < actions->count && !driver_has_failed(driver); i++) {
        struct action *action = &actions->items[i];
        driver_count_action(driver, action);
        if (action->kind == ACTION_SEND) {
            take_send(driver, &action->as.send);
        } else if (action->kind == ACTION_LOG) {
            operations->log(operations->arg, &action->as.log);
        } else if (action->kind == ACTION_VOTERS) {
            driver_take_record(driver, &action->as.voters);
        } else if (action->kind == ACTION_SEEK) {
            if (operations->seek != NULL) {
                operations->seek(operations->arg, &action->as.seek.voter, action->as.seek.address);
            }
        } else if (action->kind == ACTION_PERSIST_VOTERS &&
                   action->as.voters.number < driver->record.number) {
            /* A new quorum core, made from the rows on the disk, goes through records that this
             * driver already knows. The row of the newest one is in a batch already. */
            continue;
        } else {
            driver_kept(driver, batch_add_action(driver->open, action));
            /* changes of this agent's own session reach gossip through driver_see_session() */
            if (action->kind == ACTION_PERSIST_MARK &&
                !driver_is_self(driver, &action->as.mark.agent)) {
                driver_gossip_session(driver, &action->as.mark.agent, action->as.mark.epoch,
                                      GOSSIP_LOST);
            }
        }
    }
    actions->count = 0;
}

/* Refuses a request whose reply is about a region that was given up while the reply waited. */
static void refuse_late(struct driver *driver, const struct host_action *action)
{
    const struct driver_operations *operations = &driver->config.operations;
    unsigned char bytes[64];
    struct hfi_frame frame = {
        .kind = HFI_FRAME_DONE, .request = action->as.reply.request, .error = HF_EUNSERVED};
    if (frame.request != 0) {
        struct host_action *refusal = &driver->late;
        refusal->kind = HOST_REPLY;
        refusal->client = action->client;
        refusal->connection = action->connection;
        refusal->as.reply.fds = HOST_FD_NONE;
        refusal->as.reply.size = (uint32_t)hfi_frame_encode(&frame, bytes, sizeof(bytes));
        operations->act(operations->arg, refusal, bytes);
    }
}

/* Carries out an action. The socket of a client that is gone is still read until the client's
 * HOST_FORGET. Packets that are read until then must not be taken for another client's, so the
 * client's number stays in use until HOST_FORGOTTEN. */
static void act(struct driver *driver, const struct host_action *action, const unsigned char *bytes)
{
    const struct driver_operations *operations = &driver->config.operations;
    if (host_reply_is_late(driver->config.host, action)) {
        refuse_late(driver, action);
        return;
    }
    operations->act(operations->arg, action, bytes);
    if (action->kind == HOST_FORGET) {
        driver_post(driver, HOST_FORGOTTEN, action->client);
    }
}

static void take_host_actions(struct driver *driver)
{
    struct host_actions *actions = &driver->host_actions;
    for (uint32_t i = 0; i < actions->count && !driver_has_failed(driver); i++) {
        const struct host_action *action = &actions->items[i];
        const unsigned char *bytes = action->kind == HOST_REPLY
                                         ? actions->output + action->as.reply.offset
                                         : NULL;
        struct driver_batch *batch = host_batch(driver);
        if (action->kind == HOST_PERSIST_SLOT || action->kind == HOST_PERSIST_NO_SLOT) {
            driver_kept(driver, batch_add_slot(driver->open, action));
        } else if (action->kind == HOST_SEND) {
            take_request(driver, &action->as.send);
        } else if (batch != NULL) {
            driver_kept(driver, batch_wait_action(batch, action, bytes));
        } else {
            act(driver, action, bytes);
        }
    }
    actions->count = 0;
    actions->output_used = 0;
}

/* ---- steps ---- */

static void make_step(struct driver *driver, struct quorum_event *event, int64_t now_ns)
{
    event->now_ns = now_ns;
    event->random = driver_draw(driver);
    quorum_step(driver->config.quorum, event, &driver->quorum_actions);
    driver_take_actions(driver);
}

/* Returns whether the turn has lasted so long that it is a stall. Reports each stall once. */
static bool is_stalled(struct driver *driver, int64_t now_ns)
{
    const struct driver_operations *operations = &driver->config.operations;
    int64_t took_ns = now_ns - driver->turn_ns;
    if (driver->turn_ns == 0 || took_ns <= renewal_ttl_ns(driver->config.renewal) / 3) {
        return false;
    }
    driver->turn_ns = now_ns;
    operations->stalled(operations->arg, took_ns);
    return true;
}

/*
 * Makes a step of the quorum core. A voter decides about sessions only in its steps, and reads the
 * clock once for each step. The same reading shows whether this process stopped since the turn
 * began. If it did, renewals that arrived in time may be unread, and the core must know that before
 * the step.
 */
void driver_step_quorum(struct driver *driver, struct quorum_event *event)
{
    if (driver->config.quorum == NULL) {
        return;
    }
    int64_t now_ns = driver_clock_ns(driver);
    if (is_stalled(driver, now_ns)) {
        struct quorum_event stalled = {.kind = QUORUM_STALLED};
        make_step(driver, &stalled, now_ns);
    }
    make_step(driver, event, now_ns);
}

static void make_host_step(struct driver *driver, struct host_event *event)
{
    const struct driver_operations *operations = &driver->config.operations;
    event->now_ns = driver_clock_ns(driver);
    event->random = driver_draw(driver);
    if (event->kind == HOST_FRAME) {
        event->as.frame.missing = driver_missing(driver);
    }
    if (operations->lend != NULL) {
        HF_CHECK(!driver->receiving);
        operations->lend(operations->arg);
    }
    host_step(driver->config.host, event, &driver->host_actions);
    if (operations->lend != NULL) {
        operations->take_back(operations->arg);
    }
    take_host_actions(driver);
}

void driver_step_host(struct driver *driver, struct host_event *event)
{
    if (driver->kept) {
        driver->kept = false;
        driver_see_session(driver);
    }
    if (driver->record_new && event->kind != HOST_START) {
        struct host_event record = {.kind = HOST_RECORD, .as.record = &driver->record};
        driver->record_new = false;
        make_host_step(driver, &record);
    }
    make_host_step(driver, event);
}

/* ---- the queues of messages ---- */

static void take_host_item(struct driver *driver, const struct inbox_item *item)
{
    struct host_event event = {.kind = item->kind, .client = item->client};
    if (item->kind == HOST_MESSAGE) {
        if (is_of_session(item->message.kind)) {
            driver_take_answer(driver, &item->message);
            return;
        }
        event.as.message = &item->message;
    }
    driver_step_host(driver, &event);
}

/* Gives the cores all messages, and the messages that result from them. The loop ends, because
 * every request is answered a bounded number of times. While driver->receiving is set, messages for
 * the host core wait. */
void driver_drain(struct driver *driver)
{
    while (!driver_has_failed(driver)) {
        size_t size;
        const void *first = fifo_first(&driver->quorum_inbox, &size);
        if (first != NULL) {
            memcpy(&driver->message, first, size); /* a copy, because the step may make the queue
                                                    * grow */
            fifo_drop(&driver->quorum_inbox);
            struct quorum_event event = {.kind = QUORUM_MESSAGE, .as.message = &driver->message};
            if (driver->config.quorum == NULL) {
                driver_record_message(driver, &driver->message);
                continue;
            }
            bool hello = driver->message.kind == MESSAGE_HELLO;
            uint32_t voter = hello ? driver_find_voter(driver, &driver->message.from) : 0;
            driver_step_quorum(driver, &event);
            if (hello) {
                driver_note_status(driver, voter);
            }
            continue;
        }
        first = driver->receiving ? NULL : fifo_first(&driver->host_inbox, &size);
        if (first == NULL) {
            break;
        }
        memcpy(&driver->item, first, size);
        fifo_drop(&driver->host_inbox);
        take_host_item(driver, &driver->item);
    }
}

/* ---- batches ---- */

/* Carries out everything that waited for the batch, in order. This adds to the inboxes only, not to
 * the batch. */
static void carry_out(struct driver *driver, struct driver_batch *batch)
{
    const struct driver_operations *operations = &driver->config.operations;
    struct waiting_item *waiting;
    size_t size;
    while ((waiting = fifo_first(&batch->waiting, &size)) != NULL && !driver_has_failed(driver)) {
        void *body = (unsigned char *)waiting + WAITING_BODY;
        struct message *message = body;
        if (waiting->what == WAITING_OWN) {
            deliver(driver, message);
        } else if (waiting->what == WAITING_PEER) {
            if (driver->config.quorum != NULL) {
                /* the rows that the message depends on are in the last commit */
                message->commit = quorum_reported_commit(driver->config.quorum);
            }
            operations->send(operations->arg, &waiting->to, message);
        } else {
            act(driver, body, (unsigned char *)body + (waiting->body_size + 7) / 8 * 8);
        }
        fifo_drop(&batch->waiting);
    }
}

/* Sends the messages that send_later() has kept, when later_ns has come or LATER_MAX messages have
 * collected. */
static void send_late(struct driver *driver)
{
    uint32_t count = driver->later.waiting.count;
    if (count >= LATER_MAX || (count > 0 && driver->later_ns <= driver->last_ns)) {
        send_waiting(driver);
    }
}

/* When the flying batch is durable: reports the commit, carries out what waited for the batch. */
static void land(struct driver *driver)
{
    struct driver_batch *batch = driver->flying;
    HF_PROBE2(commit_end, driver->commit, batch->records.count);
    driver->landed = false;
    driver->flying = NULL;
    driver->commits++;
    histogram_add(&driver->counts.flush, driver_clock_ns(driver) - driver->flying_since_ns);
    if (driver->config.quorum != NULL) {
        quorum_set_commit(driver->config.quorum, driver->commit);
    }
    carry_out(driver, batch);
    if (batch->complete != 0 && driver->config.operations.complete != NULL) {
        driver->config.operations.complete(driver->config.operations.arg, batch->complete);
    }
    if (batch->epoch && !driver_has_failed(driver)) {
        uint32_t epoch = driver->next_epoch;
        driver->next_epoch = 0;
        driver_start_session(driver, epoch, false);
    }
    batch_clear(batch);
    driver_drain(driver);
}

void driver_committed(struct driver *driver, uint64_t commit, const char *error)
{
    HF_CHECK(driver->flying != NULL && !driver->landed);
    if (error != NULL) {
        driver_fail(driver, "store", error);
        return;
    }
    driver->commit = commit;
    driver->landed = true;
    if (!driver->handing_over) {
        land(driver);
    }
}

/* Returns whether to hand over the open batch now. Some rows, for example a slot's, can wait for
 * the register's row. That row follows a moment later with the coordinator's decision, and one
 * commit then has both rows. */
static bool is_wanted(struct driver *driver)
{
    const struct driver_batch *open = driver->open;
    if (open->records.count == 0) {
        driver->open_since_ns = 0;
        return false;
    }
    if (driver->session_later) {
        return false; /* the row of the next session has to be in this batch */
    }
    if (open->waiting.count > 0 || open->epoch || driver->config.voter_count <= 1) {
        return true;
    }
    int64_t now_ns = driver_clock_ns(driver);
    if (driver->open_since_ns == 0) {
        driver->open_since_ns = now_ns;
    }
    return now_ns - driver->open_since_ns >= DEFER_MS * INT64_C(1000000);
}

void driver_flush(struct driver *driver)
{
    const struct driver_operations *operations = &driver->config.operations;
    driver_take_kept_links(driver);
    driver_drain(driver);
    send_late(driver);
    /* if commit() makes the batch durable within the call, each pass of this loop carries out what
     * waited */
    while (!driver_has_failed(driver) && driver->flying == NULL && is_wanted(driver)) {
        driver->open_since_ns = 0;
        driver->flying = driver->open;
        driver->open = driver->flying == &driver->batches[0] ? &driver->batches[1]
                                                             : &driver->batches[0];
        if (driver->config.quorum != NULL) {
            quorum_committing(driver->config.quorum);
        }
        driver->flying_since_ns = driver_clock_ns(driver);
        HF_PROBE1(commit_begin, driver->flying->records.count);
        driver->handing_over = true;
        operations->commit(operations->arg, driver->flying);
        driver->handing_over = false;
        if (driver->landed) {
            land(driver);
        }
    }
}

/* Handles all messages, and flushes if too much waits already. */
static void settle(struct driver *driver)
{
    driver_drain(driver);
    const struct driver_batch *open = driver->open;
    if (driver->receiving) {
        return;
    }
    if (open->waiting.count > WAITING_MAX ||
        open->waiting.used + open->records.used > WAITING_BYTES_MAX) {
        driver_flush(driver);
    }
}

/* Returns when to look at the renewal. If the session is lost and the driver has not handled the
 * loss yet, the time is now, because a lost renewal asks for no tick. */
static int64_t renewal_due_ns(const struct driver *driver, int64_t now_ns)
{
    const struct renewal *renewal = driver->config.renewal;
    if (driver->next_epoch == 0 && renewal_state(renewal, now_ns) == RENEWAL_LOST) {
        return now_ns;
    }
    return renewal_next_tick_ns(renewal, now_ns);
}

/* ---- events from outside ---- */

void driver_event(struct driver *driver, struct host_event *event)
{
    if (!driver_has_failed(driver)) {
        driver_step_host(driver, event);
        settle(driver);
    }
}

void driver_post(struct driver *driver, enum host_event_kind kind, uint32_t client)
{
    struct inbox_item *item = fifo_push(&driver->host_inbox, offsetof(struct inbox_item, message));
    if (driver_kept(driver, item != NULL)) {
        item->kind = kind;
        item->client = client;
    }
}

void driver_tick(struct driver *driver)
{
    int64_t now_ns = driver_clock_ns(driver);
    if (driver_has_failed(driver) || !driver->started) {
        return;
    }
    if (renewal_due_ns(driver, now_ns) <= now_ns) {
        renewal_tick(driver->config.renewal, now_ns, &driver->quorum_actions);
        driver_take_actions(driver);
        driver_see_session(driver);
        driver_see_voters(driver);
    }
    driver_record_tick(driver);
    if (driver->config.quorum != NULL && quorum_next_tick_ns(driver->config.quorum) <= now_ns) {
        struct quorum_event event = {.kind = QUORUM_TICK};
        driver_step_quorum(driver, &event);
    }
    if (!driver_has_failed(driver) && host_next_tick_ns(driver->config.host) <= now_ns) {
        struct host_event event = {.kind = HOST_TICK};
        driver_step_host(driver, &event);
    }
    if (driver->config.gossip != NULL && gossip_next_tick_ns(driver->config.gossip) <= now_ns) {
        struct gossip_event event = {.kind = GOSSIP_TICK};
        driver_gossip_step(driver, &event);
    }
    settle(driver);
}

void driver_stalled(struct driver *driver)
{
    if (!driver_has_failed(driver) && driver->started) {
        struct quorum_event event = {.kind = QUORUM_STALLED};
        driver_step_quorum(driver, &event);
        driver_drain(driver);
        driver_see_session(driver);
    }
}

bool driver_turn(struct driver *driver, int64_t since_ns)
{
    bool stalled = is_stalled(driver, driver_clock_ns(driver));
    driver->turn_ns = since_ns;
    if (stalled) {
        driver_stalled(driver);
    }
    return stalled;
}

/* Passes a message on to its receiver, directly. A message is passed on only once. */
static void pass_on(struct driver *driver, const struct message *message)
{
    const struct driver_operations *operations = &driver->config.operations;
    if (message->relayed || !message_is_relayed(message->kind)) {
        return;
    }
    struct message *copy = driver_with_header(driver, message);
    copy->to = message->to;
    copy->relayed = true;
    operations->send(operations->arg, &message->to, copy);
}

static void learn_address(struct driver *driver, const struct message *message)
{
    const struct driver_operations *operations = &driver->config.operations;
    const char *address = message->kind == MESSAGE_RENEW   ? message->as.renew.advertise
                          : message->kind == MESSAGE_HELLO ? message->as.hello.advertise
                                                           : "";
    if (address[0] != '\0') {
        operations->address(operations->arg, &message->from, address);
        driver_gossip_peer(driver, &message->from, address, true);
    }
}

void driver_received(struct driver *driver, const struct message *message)
{
    if (driver_has_failed(driver) || !driver->started || driver_is_self(driver, &message->from) ||
        !message_valid(message)) {
        return;
    }
    if (driver->config.quorum == NULL && !driver->keeping) {
        driver_compare_record(driver, message);
    }
    if (!driver_admits(driver, message)) {
        return;
    }
    if (driver->keeping) {
        driver_keep_received(driver, message);
        return;
    }
    if (message->to.length > 0 && !driver_is_self(driver, &message->to)) {
        pass_on(driver, message);
        return;
    }
    learn_address(driver, message);
    bool for_host = message_is_for_host(message->kind) && !is_of_session(message->kind) &&
                    !driver_is_of_record(message->kind);
    deliver_after(driver, for_host ? host_message_batch(driver, message->kind) : NULL, message);
    settle(driver);
}

void driver_received_gossip(struct driver *driver, const struct message_agent *from,
                            const void *bytes, size_t size)
{
    struct gossip_event event = {.kind = GOSSIP_RECEIVED, .agent = *from};
    event.as.received.bytes = bytes;
    event.as.received.size = size;
    if (!driver->keeping && !driver_has_failed(driver) && driver->started &&
        !driver_is_self(driver, from)) {
        driver_gossip_step(driver, &event);
    }
}

void driver_link(struct driver *driver, const struct message_agent *agent, bool up)
{
    uint32_t voter = driver_find_voter(driver, agent);
    if (driver_has_failed(driver) || !driver->started || driver_is_self(driver, agent)) {
        return;
    }
    if (driver->keeping) {
        driver_keep_link(driver, agent, up);
        return;
    }
    if (voter < driver->config.voter_count) {
        struct quorum_event event = {.kind = QUORUM_LINK};
        event.as.link.voter = voter;
        event.as.link.up = up;
        driver->links_down = up ? driver->links_down & ~(1U << voter)
                                : driver->links_down | 1U << voter;
        driver->links_new |= (uint32_t)up << voter;
        driver->statuses[voter] = MESSAGE_STATUS_OBSERVER;
        driver_step_quorum(driver, &event);
        renewal_link(driver->config.renewal, voter, up, driver_clock_ns(driver),
                     &driver->quorum_actions);
        driver_take_actions(driver);
        driver_see_voters(driver);
    }
    if (up) {
        driver_ask_linked(driver, agent);
    }
    if (up && driver->config.quorum != NULL) {
        struct quorum_event event = {.kind = QUORUM_REACHED, .as.reached = agent};
        driver_step_quorum(driver, &event);
    }
    driver_gossip_peer(driver, agent, NULL, up);
    settle(driver);
}

void driver_receiving(struct driver *driver, bool on)
{
    HF_CHECK(!driver->keeping);
    driver->receiving = on;
    if (!on && driver->session_later) {
        driver->session_later = false;
        driver_see_session(driver);
    }
    if (!on && driver->voters_later) {
        driver_see_voters(driver);
    }
    if (!on && !driver_has_failed(driver)) {
        settle(driver);
    }
}

int64_t driver_renewal_ns(const struct driver *driver)
{
    return renewal_due_ns(driver, driver->last_ns);
}

int64_t driver_next_ns(const struct driver *driver)
{
    int64_t due_ns = renewal_due_ns(driver, driver->last_ns);
    int64_t host_ns = host_next_tick_ns(driver->config.host);
    if (driver->config.quorum != NULL) {
        int64_t quorum_ns = quorum_next_tick_ns(driver->config.quorum);
        due_ns = quorum_ns < due_ns ? quorum_ns : due_ns;
    }
    if (driver->config.gossip != NULL) {
        int64_t gossip_ns = gossip_next_tick_ns(driver->config.gossip);
        due_ns = gossip_ns < due_ns ? gossip_ns : due_ns;
    }
    if (driver->flying == NULL && driver->open_since_ns != 0) {
        int64_t flush_ns = driver->open_since_ns + DEFER_MS * INT64_C(1000000);
        due_ns = flush_ns < due_ns ? flush_ns : due_ns;
    }
    if (driver->later.waiting.count > 0 && driver->later_ns < due_ns) {
        due_ns = driver->later_ns;
    }
    return host_ns < due_ns ? host_ns : due_ns;
}

uint64_t driver_commits(const struct driver *driver)
{
    return driver->commits;
}

const char *driver_failed(const struct driver *driver)
{
    return driver_has_failed(driver) ? driver->failed : NULL;
}

/* ---- start ---- */

void driver_start(struct driver *driver, uint32_t epoch, bool adopted)
{
    struct quorum_event start = {.kind = QUORUM_START};
    struct host_event event = {.kind = HOST_START, .as.lease = {.epoch = epoch}};
    driver_step_quorum(driver, &start);
    driver_step_host(driver, &event);
    driver->notified = event.as.lease;
    driver->notified_state = RENEWAL_JEOPARDY;
    driver->started_ns = driver_clock_ns(driver);
    for (uint32_t i = 0; i < MESSAGE_VOTERS_MAX; i++) {
        driver->voters_since_ns[i] = driver->started_ns;
    }
    /* driver_see_voters() replaces this value */
    driver->voters_up = (1U << driver->config.voter_count) - 1;
    driver_gossip_start(driver, epoch);
    driver->started = true;
    driver_start_session(driver, epoch, adopted);
    driver_flush(driver);
}
