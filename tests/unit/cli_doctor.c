/*
 * `holdfast doctor`: its findings from an agent's facts. Each test makes one thing wrong in a cell
 * that is otherwise well, and checks the finding's level and remedy and the exit status.
 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../suite_main.h"
#include "cli_run.h"

enum { FAKE_MAX = 256, LINE_MAX_SIZE = 256 };

static char folder[48];
static char path[64];

static void setup(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(folder, sizeof folder, "%s/doctor-XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/agent.sock", folder);
    memcpy(address.sun_path, path, strlen(path) + 1);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(chmod(path, 0600), 0);
    close(fd);
}

static void teardown(void)
{
    unlink(path);
    rmdir(folder);
}

static void run_doctor(const char *fake, const char *options, struct ran *ran)
{
    char line[LINE_MAX_SIZE];
    char settings[FAKE_MAX];

    snprintf(settings, sizeof settings, "uid=%u,state_dir_uid=%u,%s", (unsigned)getuid(),
             (unsigned)getuid(), fake);
    snprintf(line, sizeof line, "doctor -s %s %s", path, options);
    run_command(settings, line, ran);
}

START_TEST(all_is_well)
{
    struct ran ran;

    run_doctor("voters=uuu", "", &ran);
    ck_assert_msg(ran.status == 0, "%s", ran.out);
    ck_assert_ptr_null(strstr(ran.out, "warn "));
    ck_assert_ptr_null(strstr(ran.out, "remedy"));
    ck_assert_ptr_nonnull(strstr(ran.out, "ok     judgement    well\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "voters       3 of 3 answer"));
    ck_assert_ptr_nonnull(strstr(ran.out, "dev 86, b 85, c 85"));
    ck_assert_ptr_nonnull(strstr(ran.out, "b: its clock against this one: -20 to +30 ppm"));
    ck_assert_ptr_nonnull(strstr(ran.out, "the regions have all their 64 MiB; 512 MiB are free"));
    run_doctor("voters=uuu,shm_size=167936,shm_used=167936", "", &ran); /* profile = small */
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "the regions have all their 164 KiB; 512 MiB are free"));
    run_doctor("voters=uuu", "--json", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_eq(strstr(ran.out, "{\"agent\":\"dev\",\"level\":\"ok\",\"findings\":[{"),
                     ran.out);
}
END_TEST

static const struct {
    const char *fake;
    int status;
    const char *found; /* the finding's check and text, which follow the level in its line */
} wrongs[] = {
    {"voters=uud", 1, "voters       c: it cannot be reached: nobody listens there"},
    {"voters=udu", 1, "voters       b: connected, but it does not answer"},
    {"voters=udd", 2, "voters       1 of 3 answer"},
    {"voters=uru", 2, "voters       b: it does not vote"},
    {"voters=uru,b.starts_over=1", 1, "voters       b: it starts over, and does not vote before"},
    {"voters=rru,dev.starts_over=1,b.starts_over=1", 2,
     "voters       2 of 3 start over at the same time: they wait for each other"},
    {"voters=rru,b.starts_over=1", 2,
     "voters       2 of 3 stores are refused or start over: the others are no majority"},
    {"voters=rru", 2, "voters       2 of 3 stores are refused or start over"},
    {"voters=uuu,interrupted_age_ns=60000000000", 1, "session      safe, 4.2 s left; but until"},
    {"voters=uru,b.rules_differ=1", 2, "config       b: it has other voters or times"},
    {"voters=uuu,voters_number=3,voters_differ=1", 1,
     "config       [voters] differs from the voters of the cell (record 3)"},
    {"voters=uuu,voters_number=3,voters_complete=0", 1,
     "voters       the last change of the voters (record 3) is not complete yet"},
    {"voters=uuu,b.version=9.9.0", 1, "version      b: it runs 9.9.0, this agent 9.8.7"},
    {"voters=uuu,version=9.9.0", 1, "version      the agent is 9.9.0, this program 9.8.7"},
    {"voters=uuu,session=1", 2, "session      in jeopardy"},
    {"voters=uuu,session=2", 2, "session      lost"},
    {"voters=uuu,session=1,reason_session_none=1", 2,
     "session      none yet: no majority has answered: no hold on this host counts now"},
    {"voters=uuu,votes=0", 2, "store        this voter does not vote: its store is refused"},
    {"voters=uuu,votes=0,votes.text=listed", 1,
     "store        this voter does not vote yet: it waits until a majority of the voters"},
    {"voters=uuu,votes=0,votes.text=empty", 1,
     "store        this voter does not vote yet: its store is empty"},
    {"voters=uuu,votes=0,votes.text=recovering", 1,
     "store        the cell was recovered: this voter does not vote yet"},
    {"voters=uuu,votes=0,votes.text=rejoining", 1,
     "store        this voter does not vote yet: it starts over"},
    {"voters=uuu,votes=0,votes.text=new-to-this-one", 1,
     "store        this voter does not vote: its store is new-to-this-one"},
    {"voters=uud,tls=1,tls_end_s=@200,c.connected.text=no TLS handshake succeeds with it", 1,
     "tls          c: its certificate is not of this cell's CA, not its own, or not valid today"},
    {"voters=uuu,c.partitions=80", 1, "coordinators of 256 partitions"},
    {"voters=uuu,c.round_trip_worst_ns=700000000", 1, "renewals     c: an acknowledgement took"},
    {"voters=uuu,b.round_trip_worst_ns=2100000000,c.round_trip_worst_ns=2100000000", 2,
     "renewals     a majority took longer"},
    {"voters=uuu,b.clock_low_ppm=60000,b.clock_high_ppm=61000", 1,
     "clocks       b: its clock runs "
     "faster"},
    {"voters=uuu,b.clock_low_ppm=-130000,b.clock_high_ppm=-120000", 2,
     "clocks       b: its clock runs slower"},
    {"voters=uuu,flush_worst_ns=700000000", 1, "flush        the longest of the agent's own"},
    {"voters=uuu,flush_worst_ns=2100000000", 2, "flush        the longest of the agent's own"},
    {"voters=uuu,flush_pending_ns=3000000000", 2,
     "flush        a flush of the agent is under way, for 3.0 s"},
    {"voters=uuu,shm_used=1048576", 1, "memory       64512 KiB of the regions have no memory"},
    {"voters=uuu,leftovers=1,leftovers_size=28000000", 1,
     "memory       27 MiB are left of a replaced store (/dev/shm/holdfast.dev.dev.0f); the agent "
     "cannot know"},
    {"voters=uuu,leftovers=1,leftovers_size=28000000,leftovers_go_ns=-130000000000", 1,
     "memory       27 MiB are left of a replaced store (/dev/shm/holdfast.dev.dev.0f); the agent "
     "cannot remove"},
    {"voters=uuu,clients=3500", 1, "clients      3500 of 4096"},
    {"voters=uuu,clients=4000", 2, "clients      4000 of 4096"},
    {"voters=uuu,descriptors_used=19500", 2, "descriptors  19500 of 20000"},
    {"voters=uuu,descriptors_wanted=30000", 1, "descriptors  the agent may open 20000"},
    {"voters=uuu,state_dir_mode=493", 1, "state_dir    /nowhere: owner"},
    {"voters=uuu,state_dir_mode=511", 2, "state_dir    /nowhere: owner"},
    {"voters=uuu,state_dir_free=104857600", 1, "state_dir    100 MiB are free"},
    {"voters=uuu,state_dir_free=1048576", 2, "state_dir    1 MiB are free"},
    {"voters=uuu,files_gone=1", 2, "files        moved or removed: the folder /nowhere"},
    {"voters=uuu,survivors_unproven=1", 1,
     "clients      1 of the previous agent: this agent cannot see"},
    {"voters=uuu,stall_age_ns=60000000000,stall_ns=3", 1, "stalls       the agent stood still"},
    {"voters=uuu,agents_silent=1", 1, "agents       1 of 4 known"},
    {"voters=uuu,inbox_unreachable=1", 2, "inbox        this agent's inbox accepts no"},
    {"voters=uuu,refused_age_ns=60000000000", 1, "inbox        refused 1 m 00 s ago: 10.0.0.9"},
    {"voters=uuu,listens_local=0", 1, "tls          none: this agent trusts"},
    {"voters=uuu,tls=1,tls_end_s=@2,reason_certificate_ends=1", 1,
     "tls          a certificate ends in 40 h"},
    {"voters=uuu,tls=1,tls_end_s=1000000,reason_certificate_over=1", 2,
     "tls          a certificate has ended: no new connection comes up"},
    {"voters=uuu,tls=1,tls_end_s=@200,tls_begin_s=@1,reason_certificate_early=1", 2,
     "tls          by this host's clock a certificate is not valid yet"},
    {"voters=uuu,tls=1,tls_end_s=@200,tls_kept=1", 2,
     "tls          an agent could not start with the files of [tls] now: host"},
    {"voters=uuu,others_admitted=1", 2, "socket       "},
    {"voters=uuu,judgement=1,judgement.text=degraded,reason_http_down=1", 1,
     "judgement    degraded: http_down"},
    {"voters=uuu,judgement=1,judgement.text=degraded,reason_http_down=1", 1,
     "http         [http] does not listen: the port is taken"},
    {"voters=uuu,judgement=1,judgement.text=degraded,reason_disk_full=1", 2,
     "state_dir    3 more files can be made"},
    {"voters=uuu,judgement=2,judgement.text=failing,reason_session_lost=2,reason_http_down=1", 2,
     "judgement    failing: http_down, session_lost"},
    {"voters=uru,judgement=1,judgement.text=degraded,b.reason_voter_refused=1", 2,
     "voters       b: it is refused, the agent says"},
    {"voters=uuu,accounts_unknown=1", 1,
     "users        this host does not know 1 of the names in the configuration: [agent] users: b"},
    {"voters=uuu,facts=-15", 1, "agent        it does not report its state"},
};

START_TEST(each_thing_that_is_wrong_is_found)
{
    static const char *const levels[] = {"ok", "warn", "error"};
    char expected[LINE_MAX_SIZE];
    struct ran ran;

    run_doctor(wrongs[_i].fake, "", &ran);
    ck_assert_msg(ran.status == wrongs[_i].status, "%s: exit %d\n%s", wrongs[_i].fake, ran.status,
                  ran.out);
    snprintf(expected, sizeof expected, "%-6s %s", levels[wrongs[_i].status], wrongs[_i].found);
    ck_assert_msg(strstr(ran.out, expected) != NULL, "%s: %s", expected, ran.out);
    ck_assert_ptr_nonnull(strstr(ran.out, "  expected"));
    ck_assert_ptr_nonnull(strstr(ran.out, "  remedy"));
}
END_TEST

/* Without a majority the agent may have missed a change of the voters, so the doctor does not say
 * how [voters] should read. */
START_TEST(a_record_that_may_be_old)
{
    static const char old[] = "warn   config       [voters] is not this agent's record of voters "
                              "(record 3), which may be old: no majority answers\n";
    static const char lines[] = "dev = tcp://10.0.0.1:7411; b = ";
    struct ran ran;

    run_doctor("voters=udd,member=c,voters_number=3,voters_differ=1", "", &ran);
    ck_assert_msg(strstr(ran.out, old) != NULL, "%s", ran.out);
    ck_assert_ptr_null(strstr(ran.out, lines));
    run_doctor("voters=uud,member=c,voters_number=3,voters_differ=1", "", &ran);
    ck_assert_msg(strstr(ran.out, lines) != NULL, "%s", ran.out);
    ck_assert_ptr_null(strstr(ran.out, "may be old"));
}
END_TEST

/* The agent judges its certificates, and the doctor takes over the result. Only the agent knows
 * whether two days are much of a certificate's validity. */
START_TEST(the_agent_judges_certificates)
{
    struct ran ran;

    run_doctor("voters=uuu,tls=1,tls_end_s=@2", "", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "ok     tls          certificates are valid for "));
}
END_TEST

/* The agent removes these leftovers by itself, so the doctor finds nothing wrong. */
START_TEST(leftovers_that_go)
{
    struct ran ran;

    run_doctor("voters=uuu,leftovers=1,leftovers_size=28000000,leftovers_go_ns=12000000000", "",
               &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "ok     memory       27 MiB are left of a replaced store "
                                          "(/dev/shm/holdfast.dev.dev.0f); the agent removes these "
                                          "regions in 12.0 s\n"));
}
END_TEST

/* The doctor recommends a recovery only if a majority has been down for long, and names the steps
 * to try first. */
START_TEST(recovery_is_the_last_resort)
{
    static const char *const others[] = {
        /* half of the voters answer, so the others can start over */
        "voters=ur",
        "voters=ur,b.starts_over=1",
        "voters=ud,b.answered_age_ns=700000000000",
        "voters=uurr",
        "voters=urur,b.starts_over=1",
        "voters=uurd",
        "voters=uuurdd", /* it is not known when d, e and f answered: before this agent's start */
        "voters=udd",    /* the others went down a moment ago */
        "voters=udd,b.answered_age_ns=599000000000,c.answered_age_ns=599000000000",
        "voters=udu,b.answered_age_ns=700000000000",
        "voters=udd,b.answered_age_ns=700000000000", /* c answered a moment ago */
        "voters=udd,b.answered_age_ns=-1,c.answered_age_ns=-1,uptime_ns=599000000000",
        "voters=udd,b.answered_age_ns=700000000000,c.answered_age_ns=700000000000,b.starts_over=1",
    };
    static const char *const lost[] = {
        "voters=udd,b.answered_age_ns=600000000000,c.answered_age_ns=600000000000",
        "voters=udd,b.answered_age_ns=-1,c.answered_age_ns=-1,uptime_ns=600000000000",
        "voters=urd,c.answered_age_ns=600000000000",
        "voters=urdd,c.answered_age_ns=600000000000",
        "voters=ud,b.answered_age_ns=600000000000,voters_complete=0",
    };
    struct ran ran;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        run_doctor(others[i], "", &ran);
        ck_assert_msg(strstr(ran.out, "Two of three") == NULL, "%s: %s", others[i], ran.out);
    }
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        run_doctor(lost[i], "", &ran);
        ck_assert_int_eq(ran.status, 2);
        ck_assert_msg(strstr(ran.out, "remedy     start those that do not answer, with the "
                                      "state_dirs that they had") != NULL,
                      "%s: %s", lost[i], ran.out);
        ck_assert_ptr_nonnull(strstr(ran.out, "Two of three are gone"));
    }
}
END_TEST

/* If fewer stores than a majority remain, the doctor advises to undo a rejoin, as long as the undo
 * is possible. */
START_TEST(remedies_lead_out)
{
    struct ran ran;

    run_doctor("voters=rru,b.starts_over=1", "", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "holdfast member rejoin --undo"));
    ck_assert_ptr_null(strstr(ran.out, "rejoin --help"));
    run_doctor("voters=rru", "", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "Two of three are gone"));
    ck_assert_ptr_null(strstr(ran.out, "member rejoin"));
    run_doctor("voters=uru", "", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "member rejoin --help"));
    run_doctor("voters=urd,b.starts_over=1", "", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "or undo a rejoin"));
}
END_TEST

/* A voter that starts over needs more than half of the others: half of an even number of voters, if
 * they vote now. One of them that was restarted does not vote, and then no rejoin helps. */
START_TEST(half_of_the_voters_is_left)
{
    static const char *const half[] = {"voters=ur", "voters=uurr", "voters=uuurrr"};
    static const char *const less[] = {"voters=dr", "voters=udrr", "voters=urrr", "voters=uurrrr",
                                       "voters=rru,b.starts_over=1"};
    struct ran ran;

    for (size_t i = 0; i < sizeof half / sizeof *half; i++) {
        run_doctor(half[i], "", &ran);
        ck_assert_int_eq(ran.status, 2);
        ck_assert_msg(strstr(ran.out, "member rejoin --help. Restart none of the voters") != NULL,
                      "%s: %s", half[i], ran.out);
        ck_assert_ptr_nonnull(strstr(ran.out, "A voter whose store is lost can start over"));
        ck_assert_msg(strstr(ran.out, "cannot start over now") == NULL, "%s", ran.out);
    }
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        run_doctor(less[i], "", &ran);
        ck_assert_int_eq(ran.status, 2);
        ck_assert_msg(strstr(ran.out, "lost for good: OPERATIONS.md, \"Two of three") != NULL,
                      "%s: %s", less[i], ran.out);
        ck_assert_ptr_null(strstr(ran.out, "rejoin --help"));
        ck_assert_ptr_null(strstr(ran.out, "can start over ("));
    }
    run_doctor("voters=ur,b.starts_over=1", "", &ran); /* it only has to wait */
    ck_assert_ptr_null(strstr(ran.out, "--undo"));
    run_doctor("voters=dr,b.starts_over=1", "", &ran); /* each waits for the other */
    ck_assert_ptr_nonnull(strstr(ran.out, "rejoin --undo"));
    ck_assert_ptr_nonnull(strstr(ran.out, "If its old store is lost, too: OPERATIONS.md, \"Two"));
}
END_TEST

/* If no agent runs, the doctor reports this, says how to start an agent, and still makes the checks
 * that need no agent. */
START_TEST(without_an_agent)
{
    struct ran ran;

    run_command("connect=-9", "doctor -s /nowhere/agent.sock", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(
        strstr(ran.out, "error  agent        /nowhere/agent.sock (from --socket): "));
    ck_assert_ptr_nonnull(strstr(ran.out, "remedy     `ss -xlp src /nowhere/agent.sock`, as "
                                          "root, shows which process listens there"));
    ck_assert_ptr_nonnull(
        strstr(ran.out, "the socket's folder as --state-dir (holdfastd --dev)\n"));
    ck_assert_ptr_null(strstr(ran.out, "/etc/holdfast"));
    ck_assert_ptr_null(strstr(ran.out, "systemctl"));
    ck_assert_ptr_nonnull(strstr(ran.out, "ok     clock "));
    ck_assert_ptr_nonnull(strstr(ran.out, " memory "));
    run_command("connect=-9", "doctor -s /run/holdfast/agent.sock", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(strstr(ran.out, access("/etc/holdfast/holdfastd.ini", F_OK) == 0
                                              ? "start it (systemctl start holdfastd"
                                              : "which this host lacks (holdfast setup)"));
    run_command("connect=-10", "doctor -s /nowhere/agent.sock --json", &ran);
    ck_assert_int_eq(ran.status, 77);
    ck_assert_ptr_nonnull(strstr(ran.out, "{\"agent\":null,\"level\":\"error\""));
    ck_assert_ptr_nonnull(strstr(ran.out, "`users` or `groups`"));
    ck_assert_ptr_nonnull(strstr(ran.out, "the modes of the socket"));
    run_command("connect=-15", "doctor -s /nowhere/agent.sock", &ran); /* HF_EPROTO */
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(strstr(ran.out, "run both in one time namespace"));
    run_command("connect=-14", "doctor -s /nowhere/agent.sock", &ran); /* HF_EVERSION */
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(strstr(ran.out, "install the same version"));
}
END_TEST

START_TEST(a_socket_that_is_none)
{
    struct ran ran;
    char line[LINE_MAX_SIZE];

    snprintf(line, sizeof line, "doctor -s %s", folder);
    run_command("voters=uuu", line, &ran);
    ck_assert_int_eq(ran.status, 2);
    ck_assert_ptr_nonnull(strstr(ran.out, "is no socket"));
    ck_assert_int_eq(chmod(folder, 0777), 0);
    run_doctor("voters=uuu", "", &ran);
    ck_assert_int_eq(ran.status, 2);
    ck_assert_ptr_nonnull(strstr(ran.out, "users other than its owner may write to"));
    ck_assert_ptr_null(strstr(ran.out, "everybody may list"));
}
END_TEST

START_TEST(a_folder_that_everybody_may_list)
{
    struct ran ran;
    static const mode_t modes[] = {0711, 0700, 0750, 0755, 0704};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        bool listed = (modes[i] & 0004) != 0;
        ck_assert_int_eq(chmod(folder, modes[i]), 0);
        run_doctor("voters=uuu", "", &ran);
        ck_assert_int_eq(ran.status, listed ? 1 : 0);
        ck_assert_int_eq(strstr(ran.out, "everybody may list") != NULL, listed);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_doctor");
    TCase *tcase = tcase_create("cli_doctor");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, all_is_well);
    tcase_add_loop_test(tcase, each_thing_that_is_wrong_is_found, 0,
                        (int)(sizeof wrongs / sizeof wrongs[0]));
    tcase_add_test(tcase, a_record_that_may_be_old);
    tcase_add_test(tcase, the_agent_judges_certificates);
    tcase_add_test(tcase, leftovers_that_go);
    tcase_add_test(tcase, recovery_is_the_last_resort);
    tcase_add_test(tcase, remedies_lead_out);
    tcase_add_test(tcase, half_of_the_voters_is_left);
    tcase_add_test(tcase, without_an_agent);
    tcase_add_test(tcase, a_socket_that_is_none);
    tcase_add_test(tcase, a_folder_that_everybody_may_list);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
