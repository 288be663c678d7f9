/*
 * While workers on every host of a cell use its locks, links between the hosts are cut in both
 * directions or in one, lose packets, or are slow. (crowd.h says what is recorded and checked.)
 */
#include "../emulation.h"
#include "crowd.h"
#include "require.h"

enum { CUT_MS = CELL_TTL_MS + CELL_GRACE_MS + 700 };

static const struct crowd_plan plan = {.workers_per_host = 2,
                                       .locks = 8,
                                       .shared_percent = 25,
                                       .lock_delay_ms = 50,
                                       .hold_ms = 30,
                                       .long_ms = 2500,
                                       .seed = 2};
static struct cell cell;
static struct crowd crowd;

static void start(void)
{
    cell_start(&cell, 3, 0);
    crowd_start(&crowd, &cell, &plan);
}

static void stop(void)
{
    cell_stop(&cell);
}

static void heal(void)
{
    network_heal(&cell.network);
    crowd_await_all(&crowd, 10);
}

START_TEST(a_host_is_cut_off)
{
    for (unsigned host = 0; host < cell.hosts; host++) {
        network_isolate(&cell.network, host);
        sleep_ms(CUT_MS);
        crowd_await_others(&crowd, host, 10);
        heal();
    }
    crowd_finish(&crowd, "cut off");
}
END_TEST

START_TEST(a_host_is_cut_off_for_a_moment)
{
    /* The cuts last half a lease, one lease, and one and a half leases. */
    for (unsigned host = 0; host < cell.hosts; host++) {
        network_isolate(&cell.network, host);
        sleep_ms(CELL_TTL_MS / 2 + host * (CELL_TTL_MS / 2));
        heal();
    }
    crowd_finish(&crowd, "cut off for a moment");
}
END_TEST

START_TEST(a_host_sends_and_receives_nothing)
{
    for (unsigned host = 0; host < 2; host++) {
        network_cut(&cell.network, 2, host);
        network_cut(&cell.network, 1 - host, host);
        sleep_ms(CUT_MS);
        crowd_await_others(&crowd, host, 10);
        heal();
    }
    crowd_finish(&crowd, "receives nothing");
}
END_TEST

START_TEST(a_host_receives_and_sends_in_vain)
{
    for (unsigned host = 0; host < 2; host++) {
        network_cut(&cell.network, host, 2);
        network_cut(&cell.network, host, 1 - host);
        sleep_ms(CUT_MS);
        crowd_await_others(&crowd, host, 10);
        heal();
    }
    crowd_finish(&crowd, "sends in vain");
}
END_TEST

/* Each of the two hosts is part of a majority with the third host, so all hosts must be served. */
START_TEST(two_hosts_do_not_reach_each_other)
{
    network_cut(&cell.network, 0, 1);
    network_cut(&cell.network, 1, 0);
    sleep_ms(CUT_MS);
    crowd_await_all(&crowd, 10);
    heal();
    network_cut(&cell.network, 2, 0); /* only packets from host 2 to host 0 are lost */
    sleep_ms(CUT_MS);
    crowd_await_all(&crowd, 10);
    heal();
    crowd_finish(&crowd, "two of three apart");
}
END_TEST

START_TEST(nobody_reaches_anybody)
{
    network_lose_everywhere(&cell.network, 100);
    sleep_ms(CUT_MS);
    heal();
    crowd_finish(&crowd, "all apart");
}
END_TEST

START_TEST(links_lose_packets)
{
    network_lose_everywhere(&cell.network, 20);
    sleep_ms(6000);
    network_lose_everywhere(&cell.network, 5);
    crowd_await_all(&crowd, 10);
    heal();
    crowd_finish(&crowd, "lossy");
}
END_TEST

START_TEST(links_are_slow)
{
    network_delay(&cell.network, 30);
    crowd_await_all(&crowd, 10);
    network_delay(&cell.network, 120);
    crowd_await_all(&crowd, 5);
    sleep_ms(2000);
    heal();
    crowd_finish(&crowd, "slow");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("links");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, a_host_is_cut_off);
    tcase_add_test(tests, a_host_is_cut_off_for_a_moment);
    tcase_add_test(tests, a_host_sends_and_receives_nothing);
    tcase_add_test(tests, a_host_receives_and_sends_in_vain);
    tcase_add_test(tests, two_hosts_do_not_reach_each_other);
    tcase_add_test(tests, nobody_reaches_anybody);
    tcase_add_test(tests, links_lose_packets);
    if (packet_options_are_known("links_are_slow")) {
        tcase_add_test(tests, links_are_slow);
    }
    return cell_main("links", tests);
}
