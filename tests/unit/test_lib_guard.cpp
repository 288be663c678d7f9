// holdfast.hpp: holds end with their scope, move, and tell failures as exceptions.
#include "holdfast/holdfast.hpp"

#include <check.h>
#include <string>

#include "../suite_main.h"

extern "C" {
struct agent;
struct agent *agent_new(int64_t ttl_ns);
const char *agent_path(const struct agent *agent);
void agent_delete(struct agent *agent);
}

static const int64_t ttl_ns = INT64_C(60000000000);

static int code_of(void (*call)(holdfast::client &), holdfast::client &client)
{
    try {
        call(client);
    } catch (const holdfast::error &failure) {
        ck_assert_str_eq(failure.what(), hf_strerror(failure.code()));
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
        ck_assert_int_eq(
            code_of([](holdfast::client &c) { holdfast::lock lock(c, std::string("a\0b", 3)); },
                    client),
            HF_EINVAL);
        ck_assert_int_eq(code_of([](holdfast::client &) { holdfast::hold().release(); }, client),
                         HF_ENOTHELD);
        ck_assert_int_eq(code_of(
                             [](holdfast::client &c) {
                                 holdfast::lock lock(c, "a");
                                 holdfast::hold first(lock);
                                 holdfast::hold second(lock);
                             },
                             client),
                         HF_EALREADY);
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

int main()
{
    TCase *tests = tcase_create("guard");
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, hold_ends_with_its_scope);
    tcase_add_test(tests, failures_are_exceptions);
    return suite_main("lib_guard", tests);
}
