/*
 * The event stream into an agent. Each input is a sequence of events for the real driver with the
 * real cores (box.h). The seeds are random sequences of several lengths, for each shape of a cell.
 */
#include "box.h"
#include "fuzz.h"

#include <stdlib.h>

enum { EVENTS_MAX = 1500, SEEDS = 24, TICKS_MAX = 16 };

static size_t agent_seed(size_t index, uint8_t *bytes, size_t size)
{
    uint64_t state = 12345 + index;
    size_t used = 100 + 60 * index;
    if (index >= SEEDS || used > size) {
        return 0;
    }
    for (size_t i = 0; i < used; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(state >> 56);
    }
    bytes[0] = (uint8_t)index; /* one seed for each shape of a cell */
    return used;
}

/* Lets time pass. Meanwhile the agent does what comes due, at most TICKS_MAX times. */
static void pass(void)
{
    static const int64_t spans_ns[] = {0,
                                       BOX_MS,
                                       20 * BOX_MS,
                                       101 * BOX_MS,
                                       401 * BOX_MS,
                                       BOX_TTL_NS / 3,
                                       BOX_TTL_NS + 1,
                                       60001 * BOX_MS};
    uint8_t what = draw_byte(&box->draw);
    int64_t until_ns = box->now_ns + spans_ns[what % 8];
    if (what == 255 && box->now_ns < INT64_MAX / 4) {
        until_ns = box->now_ns + (INT64_C(1) << (30 + draw_byte(&box->draw) % 28));
    }
    for (uint32_t i = 0; i < TICKS_MAX; i++) {
        int64_t next_ns = driver_next_ns(box->driver);
        if (next_ns > until_ns) {
            break;
        }
        box->now_ns = next_ns > box->now_ns ? next_ns : box->now_ns;
        driver_tick(box->driver);
        driver_flush(box->driver);
    }
    box->now_ns = until_ns > box->now_ns ? until_ns : box->now_ns;
}

/* Gives the agent the answers of a healthy cell to its last messages. */
static void be_honest(void)
{
    static struct message message;
    uint64_t first = box->sent_count < BOX_SENT ? 0 : box->sent_count - BOX_SENT;
    uint64_t last = box->sent_count;
    for (uint64_t i = first; i < last && box->sent_count - i <= BOX_SENT; i++) {
        if (box_honest(&box->sent[i % BOX_SENT], &message)) {
            driver_received(box->driver, &message);
        }
    }
}

static void rare(uint8_t what)
{
    struct message_agent agent;
    switch (what % 8) {
    case 0:
        agent = box_draw_agent();
        driver_link(box->driver, &agent, draw_bool(&box->draw));
        break;
    case 1:
        driver_stalled(box->driver);
        break;
    case 2:
        driver_clock(box->driver, draw_bool(&box->draw));
        break;
    case 3:
        box->slow_disk = draw_bool(&box->draw);
        break;
    case 4:
        box->disk_fails = box->flying != NULL && draw_byte(&box->draw) == 1;
        box_land();
        break;
    case 5:
        box_restart();
        break;
    default:
        box_gossip();
    }
}

static void play_event(void)
{
    uint8_t what = draw_byte(&box->draw);
    switch (what % 16) {
    case 0:
    case 1:
        pass();
        break;
    case 2:
        box_connect();
        break;
    case 3:
    case 4:
    case 5:
        box_frame();
        break;
    case 6:
        box_end_process();
        break;
    case 7:
        box_act();
        break;
    case 8:
        box_scribble();
        break;
    case 9:
        be_honest();
        break;
    case 10:
        box_answer(false);
        break;
    case 11:
        box_answer(true);
        break;
    case 12:
    case 13:
        box_make_up();
        break;
    case 14:
        box_land();
        break;
    default:
        rare(what / 16);
    }
}

static void agent_entry(const uint8_t *bytes, size_t size)
{
    box_open((struct draw){bytes, size});
    for (uint32_t i = 0; i < EVENTS_MAX && box->draw.left > 0; i++) {
        play_event();
        if (driver_failed(box->driver) != NULL) {
            box_restart();
        }
        driver_flush(box->driver);
        box_check();
    }
    box_close();
}

const struct fuzz_target fuzz_target = {"agent", agent_entry, agent_seed, 2048};
