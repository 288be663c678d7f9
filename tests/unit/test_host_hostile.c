/*
 * A hostile region: between the steps of a host that serves clients, the test writes random bytes
 * over words, slots, seats, records and dirty bits. The host must not fail a check, must not read
 * outside of its memory (AddressSanitizer reports it), and must not need long for a step. When the
 * writing ends and the processes are dead, the host recovers within a quarter of session_ttl and
 * the lock-delays: each lock can be taken, with tokens of its grant. The seeds are fixed, and the
 * test takes two seconds.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../suite_main.h"
#include "host_rig.h"

enum { ROUNDS = 400, STEP_LIMIT_MS = 200, HEAL_MS = 1250, DELAY_MS = 1 };

static uint64_t state;

static uint32_t draw(uint32_t limit)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % limit;
}

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Writes one to eight bytes somewhere behind the header's fixed fields, most often where they do
 * harm. */
static void scribble(struct rig *rig)
{
    unsigned char *base = rig->region_memory;
    unsigned char *parts[] = {
        (unsigned char *)rig->region.words,       (unsigned char *)rig->region.slots,
        (unsigned char *)rig->region.blocks,      (unsigned char *)rig->region.blocks,
        (unsigned char *)rig->region.holders,     (unsigned char *)rig->region.dirty,
        base + offsetof(struct hfi_header, lease)};
    uint32_t sizes[] = {RIG_LOCKS * 64, RIG_LOCKS * 48, 8 * 512, 8 * 512, 20 * 64, 8, 128};
    for (uint32_t i = draw(40); i > 0; i--) {
        uint32_t part = draw(7);
        uint32_t at = draw(sizes[part]);
        parts[part][at] = draw(3) == 0 ? 0xff : (unsigned char)draw(256);
    }
}

static void act(struct rig *rig, uint32_t *clients)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    uint32_t *client = &clients[draw(4)];
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){names[draw(5)], 1};
    frame.break_lock.flags = draw(2);
    rig->reply_count = 0;
    if (*client == 0) {
        *client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
        return;
    }
    switch (draw(12)) {
    case 0:
        rig_die(rig, *client);
        *client = 0;
        break;
    case 1:
        (void)rig_ask(rig, *client, &frame);
        break;
    case 2:
        (void)rig_text(rig, *client, HFI_FRAME_RECALL, names[draw(5)]);
        break;
    case 3:
        (void)rig_text(rig, *client, HFI_FRAME_SHOW, names[draw(5)]);
        break;
    case 4:
        (void)rig_seat(rig, *client, draw(16), draw(2));
        break;
    case 5:
        rig_close(rig, *client, draw(16));
        break;
    case 6:
        (void)rig_text(rig, *client, HFI_FRAME_WATCH, "");
        break;
    case 7:
        frame.kind = HFI_FRAME_STATUS;
        (void)rig_ask(rig, *client, &frame);
        break;
    default:
        (void)rig_open(rig, *client, names[draw(5)], draw(2) * DELAY_MS * RIG_MS);
        break;
    }
}

/* Lets the quorum answer some of the requests. */
static void answer(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->send_count; i++) {
        struct message asked = rig->sends[i];
        if (asked.kind == MESSAGE_GIVE_BACK) {
            rig_returned(rig, &asked);
        } else if (asked.kind == MESSAGE_BREAK) {
            asked.kind = MESSAGE_BREAK_HOLD;
            rig_receive(rig, &asked);
        } else if (asked.kind == MESSAGE_BROKEN) {
            rig_receive(rig, &asked);
        } else if (draw(5) == 0) {
            rig_refuse(rig, &asked,
                       asked.kind == MESSAGE_AMEND ? MESSAGE_REFUSED_VERSION
                                                   : MESSAGE_REFUSED_FULL);
        } else {
            rig_grant(rig, &asked, 0, 0);
        }
        if (i > 200) { /* some frames cause further frames without end */
            break;
        }
    }
    rig->send_count = 0;
}

/* Lets the quorum grant all requests. */
static void answer_all(struct rig *rig)
{
    for (uint32_t sent = 0; sent < rig->send_count; sent++) {
        struct message asked = rig->sends[sent];
        if (asked.kind == MESSAGE_GIVE_BACK) {
            rig_returned(rig, &asked);
        } else if (asked.kind == MESSAGE_ACQUIRE || asked.kind == MESSAGE_AMEND) {
            rig_grant(rig, &asked, 0, 0);
        }
    }
    rig->send_count = 0;
}

/* Lets time pass. */
static void rest(struct rig *rig, int64_t duration_ms)
{
    for (int64_t i = 0; i < duration_ms; i += 50) {
        rig_pass(rig, 50 * RIG_MS);
        rig_lease(rig, 1, rig->now_ns + 5000 * RIG_MS, false);
        answer_all(rig);
        rig->reply_count = 0;
    }
}

/* Opens and tries the lock as a new client. */
static enum hfi_outcome open_and_try(struct rig *rig, uint32_t client, const char *name,
                                     struct hfi_held *held)
{
    const struct rig_reply *reply = rig_open(rig, client, name, 0);
    for (uint32_t turn = 0; reply == NULL && turn < 20; turn++) {
        answer_all(rig);
        reply = rig_find(rig, client, HFI_FRAME_OPENED);
        rig_pass(rig, reply == NULL ? 50 * RIG_MS : 0);
    }
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->frame.kind, HFI_FRAME_OPENED);
    struct hfi_actor actor = rig_actor(rig, reply->frame.opened.holder);
    struct hfi_request request = {.slot = reply->frame.opened.slot, .seat = HFI_SEAT_NONE};
    enum hfi_outcome outcome = hfi_try_exclusive(&actor, &request, held);
    if (outcome != HFI_HELD) {
        hfi_ring(&actor, request.slot);
        rig_ring(rig);
        answer_all(rig);
    }
    rig->reply_count = 0;
    return outcome;
}

/* Checks that the region has recovered. No process writes rubbish any more, and the earlier clients
 * are dead. */
static void assert_healed(struct rig *rig, const uint32_t *clients, uint64_t seed)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    for (uint32_t i = 0; i < 4; i++) {
        if (clients[i] != 0) {
            rig_die(rig, clients[i]);
        }
    }
    rig->send_count = 0;
    rest(rig, HEAL_MS + DELAY_MS);
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    for (uint32_t i = 0; i < 5; i++) {
        struct hfi_held held = {0};
        int outcome = HFI_UNGRANTED;
        /* One try may fail: the token range may be used up, the grant may have just gone back, or
         * the lock may have moved to another slot. */
        for (uint32_t turn = 0; turn < 3 && outcome != HFI_HELD; turn++) {
            outcome = open_and_try(rig, client, names[i], &held);
        }
        ck_assert_msg(outcome == HFI_HELD, "seed %llu: %s: outcome %d", (unsigned long long)seed,
                      names[i], outcome);
        ck_assert_uint_lt(held.token, rig->token_next);
    }
}

static void play(uint64_t seed)
{
    uint32_t clients[4] = {0};
    struct rig *rig = rig_create(RIG_LOCKS, 8, 64, 8);
    state = seed;
    rig_begin(rig);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        int64_t before_ms = clock_ms();
        scribble(rig);
        memset(rig->region.dirty, 0xff, 4);
        act(rig, clients);
        rig->reply_count = 0;
        rig_ring(rig);
        rig->reply_count = 0;
        answer(rig);
        rig->reply_count = 0;
        rig->now_ns += draw(100) * RIG_MS;
        rig_step(rig, (struct host_event){.kind = HOST_TICK});
        rig_lease(rig, 1, rig->now_ns + 5000 * RIG_MS, false);
        ck_assert_int_lt(clock_ms() - before_ms, STEP_LIMIT_MS * 10);
    }
    assert_healed(rig, clients, seed);
    rig_destroy(rig);
}

START_TEST(nothing_in_a_region_harms_the_host)
{
    int64_t until_ms = clock_ms() + 2000;
    uint64_t seed = 1;
    for (; seed <= 10 || (clock_ms() < until_ms && seed < 1000); seed++) {
        play(seed);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("host_hostile");
    tcase_set_timeout(tests, 100);
    tcase_add_test(tests, nothing_in_a_region_harms_the_host);
    return suite_main("host_hostile", tests);
}
