/*
 * Whatever may happen to a cell, in an order drawn from a seed: five voters and an observer,
 * workers on all of them. (crowd.h says what is recorded and checked.)
 *
 * The seed is printed; HOLDFAST_TEST_SEED=N draws the same faults again (what comes of them also
 * depends on when they hit). HOLDFAST_TEST_DEEP=1 goes on for longer.
 */
#include "../suite_main.h"
#include "crowd.h"
#include "require.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUN_MS = 30000,
    RUN_DEEP_MS = 300000,
    VOTERS = 5,
    OBSERVERS = 1,
    HEAL_ONE_OF = 8,
    ALL_ONE_OF = 16
};

static struct cell cell;
static struct crowd crowd;
static uint64_t random_state;
static bool stopped[NETWORK_HOSTS_MAX];
static char last[128];

static unsigned draw(unsigned below)
{
    return (unsigned)crowd_draw(&random_state, below);
}

static void start_what_is_dead(void)
{
    for (unsigned i = 0; i < cell.hosts; i++) {
        if (cell.agents[i].pid == 0) {
            agent_launch(&cell.agents[i]);
        }
    }
}

static void heal(void)
{
    for (unsigned i = 0; i < cell.hosts; i++) {
        if (stopped[i]) {
            cell_continue(&cell, i);
            stopped[i] = false;
        }
    }
    start_what_is_dead();
    network_heal(&cell.network);
    cell_await(&cell);
}

static void hurt_an_agent(unsigned host)
{
    unsigned kind = draw(3);
    if (cell.agents[host].pid == 0) {
        snprintf(last, sizeof(last), "start %u", host);
        agent_launch(&cell.agents[host]);
    } else if (kind == 0 && !stopped[host]) {
        snprintf(last, sizeof(last), "stop %u", host);
        cell_pause(&cell, host);
        stopped[host] = true;
    } else if (kind == 1 && stopped[host]) {
        snprintf(last, sizeof(last), "continue %u", host);
        cell_continue(&cell, host);
        stopped[host] = false;
    } else {
        snprintf(last, sizeof(last), "kill %u", host);
        agent_kill(&cell.agents[host]);
        stopped[host] = false;
    }
}

static void hurt_a_link(unsigned host, unsigned other)
{
    switch (draw(4)) {
    case 0:
        snprintf(last, sizeof(last), "isolate %u", host);
        network_isolate(&cell.network, host);
        break;
    case 1:
        snprintf(last, sizeof(last), "cut %u to %u", host, other);
        network_cut(&cell.network, host, other);
        break;
    case 2:
        snprintf(last, sizeof(last), "lose from %u to %u", host, other);
        network_lose(&cell.network, host, other, (uint8_t)(10 + draw(40)));
        break;
    default:
        snprintf(last, sizeof(last), "slow links");
        network_delay(&cell.network, draw(2) ? 1 + draw(40) : 0);
        break;
    }
}

static void disturb(void)
{
    unsigned host = draw(cell.hosts);
    unsigned other = (host + 1 + draw(cell.hosts - 1)) % cell.hosts;
    if (draw(HEAL_ONE_OF) == 0) {
        snprintf(last, sizeof(last), "heal");
        heal();
        return;
    }
    if (draw(ALL_ONE_OF) == 0) {
        snprintf(last, sizeof(last), "kill all");
        cell_kill_all(&cell);
        memset(stopped, 0, sizeof(stopped));
        start_what_is_dead();
        return;
    }
    switch (draw(8)) {
    case 0:
    case 1:
        snprintf(last, sizeof(last), "kill a worker");
        crowd_replace(&crowd, draw(crowd.count));
        break;
    case 2:
    case 3:
    case 4:
        hurt_an_agent(host);
        break;
    default:
        hurt_a_link(host, other);
        break;
    }
}

static uint64_t choose_seed(void)
{
    const char *given = getenv("HOLDFAST_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)boottime_now() / 1000;
    printf("seed %llu (HOLDFAST_TEST_SEED=%llu repeats it)\n", (unsigned long long)seed,
           (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

START_TEST(anything_may_happen)
{
    uint64_t seed = choose_seed();
    const struct crowd_plan plan = {.workers_per_host = 2,
                                    .locks = 10,
                                    .shared_percent = 25,
                                    .lock_delay_ms = 50,
                                    .hold_ms = 30,
                                    .long_ms = 2500,
                                    .seed = seed};
    unsigned faults = 0;
    random_state = seed * 0x9e3779b97f4a7c15 | 1;
    cell_start(&cell, VOTERS, OBSERVERS);
    crowd_start(&crowd, &cell, &plan);
    int64_t end_ns = boottime_now() + (test_is_deep() ? RUN_DEEP_MS : RUN_MS) * MS;
    while (boottime_now() < end_ns) {
        disturb();
        faults++;
        snprintf(require_context, sizeof(require_context), "(seed %llu, fault %u: %.60s)",
                 (unsigned long long)seed, faults, last);
        if (getenv("HOLDFAST_TEST_TELL")) {
            printf("%lld %s\n", (long long)(boottime_now() / MS), last);
            fflush(stdout);
        }
        sleep_ms(50 + draw(900));
    }
    heal();
    crowd_await_all(&crowd, 5);
    printf("%u faults; ", faults);
    crowd_finish(&crowd, "anything");
    cell_stop(&cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("mix");
    tcase_add_test(tests, anything_may_happen);
    network_need();
    tcase_set_timeout(tests, 540); /* a guard against hanging */
    return suite_main("mix", tests);
}
