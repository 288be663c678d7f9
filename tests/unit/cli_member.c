/* `holdfast member add`, `remove`, `replace` and `move`, with a library that simulates the
 * voters. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "cli_run.h"

static struct ran ran;

#define SAYS(text, part) ck_assert_msg(strstr(text, part) != NULL, "found \"%s\"", text)

/* An ADD from beginning to end: the command repeats the same request until the change is
 * complete. */
START_TEST(add_until_it_is_complete)
{
    run_command("voters=uuu,member=tlldhhc", "member add d tcp://10.0.0.4:7411", &ran);
    ck_assert_msg(ran.status == 0, "%s", ran.err);
    ck_assert_str_eq(ran.out, "d is a voter, at tcp://10.0.0.4:7411\n");
    SAYS(ran.err, "d: copies the cell's state, 3 of 257\n");
    SAYS(ran.err, "d: the voters decide");
    SAYS(ran.err, "d: decided; the cell settles");
    ck_assert_ptr_nonnull(strstr(ran.log, "member 1 d tcp://10.0.0.4:7411 1\n"));
    ck_assert_ptr_null(strstr(ran.log, "7411 2")); /* each repeat has the same id */
    run_command("voters=uuu,member=lc", "member add d tcp://10.0.0.4:7411 --json", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "{\"act\":\"add\",\"name\":\"d\",\"address\":\"tcp://10.0.0.4:7411\","
                              "\"stage\":\"complete\",\"reason\":null,\"subject\":null}\n");
    ck_assert_str_eq(ran.err, "");
}
END_TEST

/* It is no error if the change was made already. The command still waits until the cell has
 * settled. */
START_TEST(what_is_so_already)
{
    static const char *const lines[] = {"member add b tcp://10.0.0.2:7411", "member remove d",
                                        "member move b tcp://10.0.0.2:7411",
                                        "member replace d b tcp://10.0.0.2:7411"};
    for (size_t i = 0; i < 4; i++) {
        run_command("voters=uuu,member=A,unsettled=4", lines[i], &ran);
        ck_assert_msg(ran.status == 0, "%s: %s", lines[i], ran.err);
        ck_assert_ptr_null(strstr(ran.log, "member"));
        SAYS(ran.err, "decided; the cell settles");
    }
    run_command("voters=uuu,member=A", "member add b tcp://10.0.0.9:7411", &ran);
    ck_assert_int_eq(ran.status, 70);
    SAYS(ran.err, "b is a voter already, at tcp://10.0.0.2:7411; `holdfast member move b ");
}
END_TEST

/* The command waits while a reason may pass. Any other reason ends it. */
START_TEST(refusals)
{
    static const struct {
        const char *fake;
        int status;
        const char *told;
    } all[] = {
        {"voters=uuu,member=E", 75, "x does not answer, and the change needs it: start its agent"},
        {"voters=uuu,member=F", 75, "x runs a release that cannot change voters: upgrade it first"},
        {"voters=uuuuuuu,member=I", 70, "the cell has seven voters"},
        {"voters=u,member=J", 70, "x is the only voter of the cell"},
        {"voters=uuu,member=K", 75, "x starts over: wait"},
        {"voters=uuu,member=N", 70, "used up the numbers"},
        {"voters=uuu,member=O", 77, "give the command on the host of a voter (x is one)"},
        {"voters=uuu,member=P", 70, "x has that address"},
        {"voters=uuu,member=x", 77, ""},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        run_command(all[i].fake, "member add y tcp://10.0.0.8:7411", &ran);
        ck_assert_msg(ran.status == all[i].status, "%s: %d %s", all[i].fake, ran.status, ran.err);
        SAYS(ran.err, all[i].told);
    }
    run_command("voters=uuu,member=E", "member add y tcp://10.0.0.8:7411 --json", &ran);
    SAYS(ran.out, "\"stage\":\"refused\",\"reason\":\"silent\",\"subject\":\"x\"");
    /* After each refusal the command asks for a new change: the voter's store does not vote, the
     * voter has another number, the last change is incomplete, the voter is busy, or another change
     * was chosen. */
    run_command("voters=uuu,member=ABCDLc", "member remove b", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "b is no voter; its agent may be switched off\n");
    ck_assert_ptr_nonnull(strstr(ran.log, "member 2 b - 6\n"));
}
END_TEST

/* Voters fail while the change is made. A line names the voter that the change waits for, and so
 * does the refusal. */
START_TEST(the_silent_voter_is_named)
{
    run_command("voters=uuu,member=dvvhwwc,subject=b", "member add d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 0);
    SAYS(ran.err, "d: the voters decide, 3 of 257\nd: the voters decide, 3 of 257; waits for b\n"
                  "d: decided; the cell settles, 3 of 257\n"
                  "d: decided; the cell settles, 3 of 257; waits for b\n");
    run_command("voters=uud,member=A,unsettled=4", "member add b tcp://10.0.0.2:7411", &ran);
    SAYS(ran.err, "b: decided; the cell settles\n");
    run_command("voters=udd,member=A,unsettled=4", "member add b tcp://10.0.0.2:7411", &ran);
    SAYS(ran.err, "b: decided; the cell settles; waits for c\n");
    run_command("voters=uuud,member=E,subject=c", "member remove d", &ran);
    ck_assert_int_eq(ran.status, 75);
    SAYS(ran.err, "c does not answer, and the change needs it: start its agent first");
    run_command("voters=ud,member=E,subject=b", "member remove b", &ran);
    ck_assert_int_eq(ran.status, 75);
    SAYS(ran.err, "b does not answer, and the other voter alone is no majority of two: start its "
                  "agent first; if its store is lost, let it start over");
    run_command("voters=uuu,member=E,subject=", "member remove b", &ran);
    ck_assert_int_eq(ran.status, 75);
    SAYS(ran.err, "the voters did not decide in time: give the command again; nothing was changed");
}
END_TEST

START_TEST(the_wait_is_over)
{
    run_command("voters=uuu,member=lh", "member add d tcp://10.0.0.4:7411 --wait 300ms", &ran);
    ck_assert_int_eq(ran.status, 75);
    SAYS(ran.err, "d: not complete in time; the change goes on");
    ck_assert_int_ge(ran.took_ms, 290);
    run_command("voters=uuu,member=C", "member remove b --wait 200ms --json", &ran);
    ck_assert_int_eq(ran.status, 75);
    SAYS(ran.out, "\"reason\":\"incomplete\"");
    run_command("voters=uuu,member=t", "member remove b --wait 200ms", &ran);
    ck_assert_int_eq(ran.status, 75);
}
END_TEST

/* To replace a voter that answers, the command first adds the new one. To replace one that does
 * not, it first removes the old one. */
START_TEST(replace)
{
    run_command("voters=uuu,member=c", "member replace c d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert(strstr(ran.log, "member 1 d") < strstr(ran.log, "member 2 c"));
    run_command("voters=uud,member=c", "member replace c d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert(strstr(ran.log, "member 2 c") < strstr(ran.log, "member 1 d"));
    ck_assert_str_eq(ran.out, "c is no voter; its agent may be switched off\n"
                              "d is a voter, at tcp://10.0.0.4:7411\n");
    run_command("voters=uuuuuuu,member=c", "member replace c x tcp://10.0.0.8:7411", &ran);
    ck_assert(strstr(ran.log, "member 2 c") < strstr(ran.log, "member 1 x"));
    run_command("voters=uuu,member=E", "member replace c d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_ptr_null(strstr(ran.log, "member 2 c")); /* nothing is removed */
    SAYS(ran.err, "; nothing was changed\n");
    run_command("voters=uud,member=cE", "member replace c d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 75);
    SAYS(ran.err, "start its agent first; c is no voter, and nothing else was changed\n");
    run_command("voters=uuu,member=cJ", "member replace c d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 70);
    SAYS(ran.err, "; d is a voter, and nothing else was changed\n");
}
END_TEST

START_TEST(move)
{
    run_command("voters=uuu,member=dhc", "member move b tcp://10.0.9.2:7411", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "b is at tcp://10.0.9.2:7411\n");
    run_command("voters=uuu,member=H", "member move x tcp://10.0.9.2:7411", &ran);
    ck_assert_int_eq(ran.status, 70);
    SAYS(ran.err, "x is no voter, expected one of dev, b, c; nothing was changed\n");
}
END_TEST

/* A mistyped name removes nobody. `replace` with a mistyped OLD adds nobody. It goes on if the last
 * change has removed OLD. */
START_TEST(the_old_voter_is_none)
{
    run_command("voters=uuu,member=c", "member remove x", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out,
                     "x is no voter, and nothing was changed (the voters are dev, b, c)\n");
    ck_assert_ptr_null(strstr(ran.log, "member"));
    run_command("voters=uuu,member=c", "member remove x --json", &ran);
    SAYS(ran.out, "\"stage\":\"complete\"");
    run_command("voters=uuu,member=c,x.removed=1", "member remove x", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "x is no voter; its agent may be switched off\n");
    run_command("voters=uuu,member=c", "member replace x d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 70);
    SAYS(ran.err,
         "member replace: x is no voter, expected one of dev, b, c (`holdfast member add d "
         "tcp://10.0.0.4:7411` adds a voter and removes none); nothing was changed\n");
    ck_assert_ptr_null(strstr(ran.log, "member"));
    run_command("voters=uuu,member=c,x.removed=1", "member replace x d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "x is no voter; its agent may be switched off\n"
                              "d is a voter, at tcp://10.0.0.4:7411\n");
    run_command("voters=uuu,member=c", "member replace x c tcp://10.0.0.3:7411", &ran);
    ck_assert_int_eq(ran.status, 0); /* c has already replaced x */
    ck_assert_str_eq(ran.out, "x is no voter, and nothing was changed (the voters are dev, b, c)\n"
                              "c is a voter, at tcp://10.0.0.3:7411\n");
    ck_assert_ptr_null(strstr(ran.log, "member"));
}
END_TEST

START_TEST(usage)
{
    static const struct {
        const char *line;
        const char *told;
    } all[] = {
        {"member add", "expected NAME and ADDRESS"},
        {"member add d", "expected NAME and ADDRESS"},
        {"member remove", "expected NAME"},
        {"member replace a b", "expected OLD, NEW and ADDRESS"},
        {"member move b", "expected NAME and ADDRESS"},
        {"member add d 10.0.0.4:7411", "expected tcp://HOST:PORT"},
        {"member add d tcp://10.0.0.4", "expected tcp://HOST:PORT"},
        {"member add d tcp://:7411", "expected tcp://HOST:PORT"},
        {"member add d tcp://h:0", "expected tcp://HOST:PORT"},
        {"member add d tcp://h:65536", "expected tcp://HOST:PORT"},
        {"member add d tcp://h:99999999999", "expected tcp://HOST:PORT"},
        {"member add Host tcp://h:7411", "found the name \"Host\", expected 1 to 32 of a-z"},
        {"member remove dddddddddddddddddddddddddddddddddd", "expected 1 to 32 of a-z 0-9 _ -"},
        /* an error in a later step is found before the first step removes a voter */
        {"member replace c D tcp://h:7411", "found the name \"D\", expected 1 to 32 of a-z"},
        {"member replace c c tcp://10.0.0.3:7411", "found \"c\" twice, expected two agents"},
        {"member add d tls+tcp://h:7411", "expected tcp://, as the other voters"},
        {"member list --wait 1s", "found --wait, expected it after add"},
        {"member add d tcp://h:1 --yes", "expected them after rejoin"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        run_command("voters=uuu,member=c", all[i].line, &ran);
        ck_assert_msg(ran.status == 64, "%s: %d %s", all[i].line, ran.status, ran.err);
        SAYS(ran.err, all[i].told);
        ck_assert_ptr_null(strstr(ran.log, "member"));
    }
    static const char *const taken[] = {"member add d tcp://10.0.0.2:7411",
                                        "member move c tcp://10.0.0.2:7411",
                                        "member replace c d tcp://10.0.0.2:7411"};
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        run_command("voters=uud,member=c", taken[i], &ran);
        ck_assert_int_eq(ran.status, 70);
        SAYS(ran.err, "b has the address tcp://10.0.0.2:7411, and each voter needs one of its own");
        ck_assert_ptr_null(strstr(ran.log, "member"));
    }
    /* a dead voter leaves its address to the one that replaces it; a voter that answers does not */
    run_command("voters=uud,member=c", "member replace c d tcp://10.0.0.3:7411", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "c is no voter; its agent may be switched off\n"
                              "d is a voter, at tcp://10.0.0.3:7411\n");
    static const char *const full[] = {"voters=uuu,member=c", "voters=uuuuuuu,member=c"};
    for (size_t i = 0; i < sizeof(full) / sizeof(full[0]); i++) {
        run_command(full[i], "member replace c x tcp://10.0.0.3:7411", &ran);
        ck_assert_int_eq(ran.status, 70);
        SAYS(ran.err, "c has the address tcp://10.0.0.3:7411, and each voter needs one of its own: "
                      "stop its agent first, and start the new one there; nothing was changed");
        ck_assert_ptr_null(strstr(ran.log, "member"));
    }
    run_command("voters=u,member=c,nowhere", "member add d tcp://10.0.0.4:7411", &ran);
    ck_assert_int_eq(ran.status, 70);
    SAYS(ran.err, "dev listens nowhere");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cli_member");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, add_until_it_is_complete);
    tcase_add_test(tests, what_is_so_already);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, the_wait_is_over);
    tcase_add_test(tests, the_silent_voter_is_named);
    tcase_add_test(tests, replace);
    tcase_add_test(tests, move);
    tcase_add_test(tests, the_old_voter_is_none);
    tcase_add_test(tests, usage);
    return suite_main("cli_member", tests);
}
