/* What message_valid lets through: every kind in its good form, and none with one bad field. */
#include <check.h>
#include <string.h>

#include "core/quorum.h"

static struct message blank(enum message_kind kind)
{
    struct message message;
    memset(&message, 0, sizeof(message));
    message.kind = kind;
    message_agent_set(&message.from, "host-a", 6);
    return message;
}

static struct message acquire(void)
{
    struct message message = blank(MESSAGE_ACQUIRE);
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = 1;
    message_name_set(&message.as.acquire.name, "a", 1);
    message.as.acquire.mode = MESSAGE_MODE_SHARED;
    return message;
}

static struct message accept_grant(void)
{
    struct message message = blank(MESSAGE_ACCEPT);
    struct message_accept *accept = &message.as.accept;
    accept->order = (struct message_order){1 << 16 | 1, 1};
    message_name_set(&accept->name, "a", 1);
    accept->value.version = accept->order;
    accept->value.token_first = 1;
    accept->value.token_last = MESSAGE_TOKEN_RANGE;
    accept->value.owner = message.from;
    accept->value.epoch = 1;
    accept->value.permits = 1;
    accept->value.mode = MESSAGE_MODE_EXCLUSIVE;
    return message;
}

/* Sets a field of a good message to a bad value. */
#define BAD(good, field, bad)                                                                      \
    do {                                                                                           \
        struct message message = good();                                                           \
        ck_assert(message_valid(&message));                                                        \
        message.field = (bad);                                                                     \
        ck_assert_msg(!message_valid(&message), #field " = " #bad);                                \
    } while (0)

START_TEST(acquire_fields)
{
    BAD(acquire, kind, (enum message_kind)0);
    BAD(acquire, kind, MESSAGE_KIND_END);
    BAD(acquire, from.length, 0);
    BAD(acquire, from.length, MESSAGE_AGENT_MAX + 1);
    BAD(acquire, from.text[0], 'H');
    BAD(acquire, from.text[20], 'a');
    BAD(acquire, as.acquire.epoch, 0);
    BAD(acquire, as.acquire.name.length, 0);
    BAD(acquire, as.acquire.mode, MESSAGE_MODE_NONE);
    BAD(acquire, as.acquire.mode, 3);
    BAD(acquire, as.acquire.lock_delay_ms, MESSAGE_LOCK_DELAY_MAX_MS + 1);
}
END_TEST

START_TEST(value_fields)
{
    BAD(accept_grant, as.accept.order.ballot, 1);
    BAD(accept_grant, as.accept.order.ballot, 1 << 16);
    BAD(accept_grant, as.accept.order.ballot, MESSAGE_BALLOT_LIMIT | 1);
    BAD(accept_grant, as.accept.order.sequence, 0);
    BAD(accept_grant, as.accept.order.sequence, MESSAGE_SEQUENCE_LIMIT);
    BAD(accept_grant, as.accept.name.length, 0);
    BAD(accept_grant, as.accept.value.version.sequence, 0);
    BAD(accept_grant, as.accept.value.token_first, 0);
    BAD(accept_grant, as.accept.value.token_last, 0);
    BAD(accept_grant, as.accept.value.token_last, MESSAGE_TOKEN_RANGE + 1);
    BAD(accept_grant, as.accept.value.owner.length, 0);
    BAD(accept_grant, as.accept.value.successor.length, 1);
    BAD(accept_grant, as.accept.value.epoch, 0);
    BAD(accept_grant, as.accept.value.lock_delay_ms, MESSAGE_LOCK_DELAY_MAX_MS + 1);
    BAD(accept_grant, as.accept.value.permits, 2);
    BAD(accept_grant, as.accept.value.mode, 3);
    BAD(accept_grant, as.accept.value.mode, MESSAGE_MODE_NONE); /* an owner without a grant */
    BAD(accept_grant, as.accept.value.closing, 1);
}
END_TEST

START_TEST(address_is_terminated)
{
    struct message message = blank(MESSAGE_RENEW);
    message.as.renew.agent = message.from;
    message.as.renew.epoch = 1;
    ck_assert(message_valid(&message));
    memset(message.as.renew.advertise, 'x', sizeof(message.as.renew.advertise));
    ck_assert(!message_valid(&message));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message");
    TCase *tests = tcase_create("message");
    tcase_add_test(tests, acquire_fields);
    tcase_add_test(tests, value_fields);
    tcase_add_test(tests, address_is_terminated);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
