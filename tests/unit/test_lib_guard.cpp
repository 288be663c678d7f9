// holdfast.hpp: holds end with their scope and can be moved; failures are exceptions.
#include "holdfast/holdfast.hpp"

#include <check.h>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <thread>

#include "../suite_main.h"

extern "C" {
struct agent;
struct agent *agent_new(int64_t ttl_ns);
const char *agent_path(const struct agent *agent);
void agent_delete(struct agent *agent);
}

static const int64_t ttl_ns = INT64_C(60000000000);

static std::string last_what; /* what() of the last exception that code_of() saw */

static int code_of(void (*call)(holdfast::client &), holdfast::client &client)
{
    try {
        call(client);
    } catch (const holdfast::error &failure) {
        ck_assert_str_ne(failure.what(), "");
        last_what = failure.what();
        return failure.code();
    }
    return 0;
}

START_TEST(hold_ends_with_its_scope)
{
    struct agent *agent = agent_new(ttl_ns);
    {
        holdfast::client client{std::string(agent_path(agent))};
        holdfast::lock mine(client, "a");
        holdfast::lock theirs(client, "a");
        holdfast::lock from(client, "moved");
        holdfast::lock to(std::move(from));
        std::string moved_from = from.name();
        std::string moved_to = to.name();
        ck_assert_str_eq(moved_from.c_str(), "");
        ck_assert_str_eq(moved_to.c_str(), "moved");
        uint64_t token;
        {
            holdfast::hold hold(mine);
            token = hold.token();
            ck_assert(hold.remaining() > holdfast::nanoseconds(0));
            ck_assert(!hold.sequencer().empty());
            ck_assert(!holdfast::hold::try_to(theirs));
            ck_assert(!holdfast::hold::try_for(theirs, std::chrono::milliseconds(5)));
            holdfast::hold moved(std::move(hold));
            ck_assert(!hold);
            ck_assert(moved.token() == token);
            holdfast::hold again;
            again = std::move(moved);
            ck_assert(!holdfast::hold::try_to(theirs));
        }
        holdfast::hold hold = holdfast::hold::try_to(theirs);
        ck_assert(bool(hold));
        ck_assert(hold.token() > token);
        hold.downgrade();
        hold.progress();
        hold.release();
        ck_assert(!hold);
        ck_assert(hold.remaining() == holdfast::nanoseconds(0));
        ck_assert(bool(holdfast::hold::try_to(mine)));
    }
    agent_delete(agent);
}
END_TEST

START_TEST(failures_are_exceptions)
{
    struct agent *agent = agent_new(ttl_ns);
    {
        holdfast::client client{std::string(agent_path(agent))};
        ck_assert_int_eq(code_of([](holdfast::client &c) { holdfast::lock lock(c, ""); }, client),
                         HF_EINVAL);
        ck_assert_str_eq(last_what.c_str(), "the lock's name is empty, expected 1 to 255 bytes");
        ck_assert_int_eq(
            code_of([](holdfast::client &c) { holdfast::lock lock(c, std::string("a\0b", 3)); },
                    client),
            HF_EINVAL);
        ck_assert_int_eq(
            code_of([](holdfast::client &) { holdfast::client other{std::string("a\0b", 3)}; },
                    client),
            HF_EINVAL);
        ck_assert_int_eq(code_of([](holdfast::client &) { holdfast::hold().release(); }, client),
                         HF_ENOTHELD);
        /* the library was not called, so the text must not be that of an earlier failure */
        ck_assert_str_eq(last_what.c_str(), hf_strerror(HF_ENOTHELD));
        ck_assert_int_eq(code_of(
                             [](holdfast::client &c) {
                                 holdfast::lock lock(c, "a");
                                 holdfast::hold first(lock);
                                 holdfast::hold second(lock);
                             },
                             client),
                         HF_EALREADY);
        ck_assert(last_what.find("\"a\" holds the lock already, with token ") != std::string::npos);
        ck_assert_int_eq(code_of(
                             [](holdfast::client &c) {
                                 holdfast::lock lock(c, "a");
                                 lock.cancel();
                             },
                             client),
                         0);
    }
    agent_delete(agent);
}
END_TEST

/* The guards of the standard library hold the lock in their scope, and only there. */
START_TEST(guards_of_the_standard_library)
{
    struct agent *agent = agent_new(ttl_ns);
    {
        holdfast::client client{std::string(agent_path(agent))};
        holdfast::mutex a(client, "a");
        holdfast::mutex b(client, "b");
        holdfast::lock others_a(client, "a");
        holdfast::lock others_b(client, "b");
        uint64_t token;
        {
            std::lock_guard<holdfast::mutex> guard(a);
            token = a.token();
            ck_assert(a.remaining() > holdfast::nanoseconds(0));
            ck_assert(!holdfast::hold::try_to(others_a));
        }
        ck_assert(a.remaining() == holdfast::nanoseconds(0));
        {
            std::scoped_lock guard(a, b);
            ck_assert(a.token() > token);
            ck_assert(!holdfast::hold::try_to(others_a));
            ck_assert(!holdfast::hold::try_to(others_b));
        }
        holdfast::hold other(others_a);
        std::unique_lock<holdfast::mutex> guard(a, std::try_to_lock);
        ck_assert(!guard.owns_lock());
        other.release();
        ck_assert(guard.try_lock());
    }
    agent_delete(agent);
}
END_TEST

/* A set has all of its locks or none. */
START_TEST(set_has_all_or_none)
{
    struct agent *agent = agent_new(ttl_ns);
    {
        holdfast::client client{std::string(agent_path(agent))};
        holdfast::lock a(client, "a");
        holdfast::lock b(client, "b");
        holdfast::lock others_a(client, "a");
        holdfast::lock others_b(client, "b");
        {
            holdfast::hold_set all({b, a});
            ck_assert(bool(all));
            ck_assert(all.remaining() > holdfast::nanoseconds(0));
            ck_assert(all.token(0) > 0 && all.token(1) > 0);
            ck_assert(!holdfast::hold::try_to(others_a));
            ck_assert(!holdfast::hold_set::try_to({others_a, others_b}));
            holdfast::hold_set moved(std::move(all));
            ck_assert(!all);
            ck_assert(all.remaining() == holdfast::nanoseconds(0));
            ck_assert(!holdfast::hold::try_to(others_b));
        }
        holdfast::hold other(others_b);
        ck_assert(!holdfast::hold_set::try_for({a, b}, std::chrono::milliseconds(5)));
        ck_assert(bool(holdfast::hold::try_to(others_a))); /* so the set has kept nothing */
        other.release();
        holdfast::hold_set again = holdfast::hold_set::try_to({a, b}, HF_SHARED);
        ck_assert(bool(again));
        again.release();
        ck_assert(!again);
        ck_assert_int_eq(
            code_of([](holdfast::client &) { holdfast::hold_set().release(); }, client),
            HF_ENOTHELD);
        ck_assert_int_eq(code_of(
                             [](holdfast::client &c) {
                                 holdfast::lock lock(c, "c");
                                 holdfast::hold_set twice({lock, lock});
                             },
                             client),
                         HF_EINVAL);
        ck_assert(last_what.find("\"c\" twice") != std::string::npos);
    }
    agent_delete(agent);
}
END_TEST

static bool is_lost(const std::optional<holdfast::event> &event, const holdfast::lock &lock)
{
    return event && event->kind == HF_EVENT_LOST && event->handle == lock.get() &&
           event->name == "a" && event->token > 0 && event->why == HF_WHY_LEASE_OVER;
}

START_TEST(events_come_by_a_descriptor)
{
    struct agent *agent = agent_new(ttl_ns);
    {
        holdfast::client client{std::string(agent_path(agent))};
        struct pollfd polled = {client.event_fd(), POLLIN, 0};
        hf_lock_options options = HF_LOCK_OPTIONS_INIT;
        options.lease_ns = 20000000;
        holdfast::lock lock(client, "a", options);
        client.watch("a");
        client.unwatch("a");
        ck_assert_int_eq(code_of([](holdfast::client &c) { c.watch("a\n"); }, client), HF_EINVAL);
        holdfast::hold hold(lock);
        std::optional<holdfast::event> event;
        do { /* ends: Check has a timeout */
            ck_assert_int_ge(poll(&polled, 1, -1), 1);
            event = client.next_event();
        } while (!event);
        ck_assert(is_lost(event, lock));
        ck_assert(!client.next_event());
    }
    agent_delete(agent);
}
END_TEST

/* Threads that share one mutex exclude each other: no increment gets lost, and no call throws. */
START_TEST(threads_share_a_mutex)
{
    struct agent *agent = agent_new(ttl_ns);
    {
        holdfast::client client{std::string(agent_path(agent))};
        holdfast::mutex mutex(client, "a");
        int count = 0;
        auto work = [&] {
            for (int i = 0; i < 1000; i++) {
                std::lock_guard<holdfast::mutex> guard(mutex);
                count++;
            }
        };
        std::thread other(work);
        work();
        other.join();
        ck_assert_int_eq(count, 2000);
    }
    agent_delete(agent);
}
END_TEST

int main()
{
    TCase *tests = tcase_create("guard");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, hold_ends_with_its_scope);
    tcase_add_test(tests, failures_are_exceptions);
    tcase_add_test(tests, guards_of_the_standard_library);
    tcase_add_test(tests, set_has_all_or_none);
    tcase_add_test(tests, events_come_by_a_descriptor);
    tcase_add_test(tests, threads_share_a_mutex);
    return suite_main("lib_guard", tests);
}
