/* The configuration: every key, every way to get a key wrong, and the rights that follow from the
 * configuration. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../suite_main.h"
#include "config/accounts.h"
#include "config/config.h"

static char folder[48];
static char file[64];
static char error[CONFIG_ERROR_MAX];
static struct config config;

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "%s/config-XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/c.ini", folder);
}

static void tear_down(void)
{
    config_free(&config);
    unlink(file);
    rmdir(folder);
}

static bool rejoins; /* as for config_read() */

static enum config_result read_text(const char *text)
{
    FILE *out = fopen(file, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    ck_assert_int_eq(fclose(out), 0);
    config_free(&config);
    return config_read(&config, file, rejoins, error);
}

/* Calls read_text(), and looks the names up among this host's users and groups. */
static enum config_result read_and_find(const char *text)
{
    enum config_result result = read_text(text);
    accounts_find_here(&config, accounts_of_host);
    return result;
}

static const char minimal[] = "[agent]\nname = a\ncell = c\n";

START_TEST(defaults)
{
    ck_assert_int_eq(read_text(minimal), CONFIG_OK);
    ck_assert_str_eq(config.agent, "a");
    ck_assert_str_eq(config.cell, "c");
    ck_assert_str_eq(config.state_dir, "/var/lib/holdfast");
    ck_assert_str_eq(config.socket, "/run/holdfast/agent.sock");
    ck_assert_int_eq(config.session_ttl_ns, 5000000000);
    ck_assert_int_eq(config.grace_ns, 5000000000);
    ck_assert_uint_eq(config.max_drift_percent, 10);
    ck_assert_uint_eq(config.protocol, 5);
    ck_assert_uint_eq(config.limits.locks, 131072);
    ck_assert_uint_eq(config.limits.clients, 4096);
    ck_assert_uint_eq(config.limits.handles, 1048576);
    ck_assert_uint_eq(config.limits.blocks, 16384);
    ck_assert_uint_eq(config.limits.watches, 1024);
    ck_assert_uint_eq(config.limits.holders, 65534);
    ck_assert_ptr_eq(config.profile, &profile_standard);
    ck_assert_str_eq(config.subuids, "/etc/subuid");
    ck_assert_uint_eq(config.namespace_count, 1);
    ck_assert_str_eq(config.namespaces[0].name, "default");
}
END_TEST

START_TEST(every_key)
{
    ck_assert_int_eq(read_and_find("; a comment\n"
                                   "[agent]\n"
                                   "name = host-a   ; unique\n"
                                   "cell = prod_1\n"
                                   "role = voter\n"
                                   "state_dir = /srv/state\n"
                                   "socket = /srv/run/a.sock\n"
                                   "users = root\n"
                                   "[cell]\n"
                                   "listen = tcp://0.0.0.0:7411\n"
                                   "insecure = yes\n"
                                   "advertise = tcp://10.0.0.1:7411\n"
                                   "session_ttl = 1500ms\n"
                                   "grace_period = 2m\n"
                                   "max_drift = 5%\n"
                                   "protocol = 3\n"
                                   "[voters]\n"
                                   "host-a = tcp://10.0.0.1:7411\n"
                                   "[limits]\n"
                                   "locks = 100\nclients = 200\nhandles = 300\nblocks = 400\n"
                                   "watches = 500\n"
                                   "[namespace.orders]\n"
                                   "users = root, 1234\n"
                                   "groups = root ,77\n"
                                   "admins = @root, 99\n"
                                   "[namespace.empty]\n"
                                   "[namespace.default]\n"
                                   "groups = 5\n"),
                     CONFIG_OK);
    ck_assert_str_eq(config.agent, "host-a");
    ck_assert_str_eq(config.state_dir, "/srv/state");
    ck_assert_str_eq(config.socket, "/srv/run/a.sock");
    ck_assert_str_eq(config.listen, "tcp://0.0.0.0:7411");
    ck_assert_str_eq(config.advertise, "tcp://10.0.0.1:7411");
    ck_assert(!config.observer);
    ck_assert(config.insecure);
    ck_assert_uint_eq(config.voter_count, 1);
    ck_assert_str_eq(config.voters[0].name, "host-a");
    ck_assert_int_eq(config.session_ttl_ns, 1500000000);
    ck_assert_int_eq(config.grace_ns, 120000000000);
    ck_assert_uint_eq(config.max_drift_percent, 5);
    ck_assert_uint_eq(config.protocol, 3);
    ck_assert_uint_eq(config.limits.locks, 100);
    ck_assert_uint_eq(config.limits.clients, 200);
    ck_assert_uint_eq(config.limits.handles, 300);
    ck_assert_uint_eq(config.limits.blocks, 400);
    ck_assert_uint_eq(config.limits.watches, 500);
    ck_assert_uint_eq(config.namespace_count, 3);
    const struct config_access *access = &config.namespaces[1].access;
    ck_assert_str_eq(config.namespaces[1].name, "orders");
    ck_assert_uint_eq(access->users.count, 2);
    ck_assert_uint_eq(access->users.ids[1], 1234);
    ck_assert_uint_eq(access->groups.count, 2);
    ck_assert_uint_eq(access->groups.ids[1], 77);
    ck_assert_uint_eq(access->admin_groups.count, 1);
    ck_assert_uint_eq(access->admin_users.ids[0], 99);
    ck_assert_str_eq(config.namespaces[2].name, "empty");
    ck_assert_uint_eq(config.namespaces[0].access.groups.ids[0], 5);
    ck_assert_uint_eq(config.everywhere.users.count, 1);
}
END_TEST

/* Lines that are appended to the minimal configuration, which has 3 lines, and the error that the
 * result must cause. */
static const struct {
    const char *text;
    const char *expected;
} wrongs[] = {
    {"nam = x\n", ":4: [agent] nam: found an unknown key, expected one of: name, cell, role, "
                  "state_dir, socket, seccomp, log_level, profile, users, groups, admins"},
    {"profile = tiny\n", ":4: [agent] profile: found \"tiny\", expected standard or small"},
    {"seccomp = on\n", ":4: [agent] seccomp: found \"on\", expected yes or no"},
    {"log_level = warn\n", ":4: [agent] log_level: found \"warn\", expected info or debug"},
    {"name = b\n", ":4: [agent] name: found it twice"},
    {"n\x1b[2Jme = x\n", ":4: [agent] n?[2Jme: found an unknown key"},
    {"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
     "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk = x\n",
     ":4: [agent] kkkk"},
    {"role = leader\n", ":4: [agent] role: found \"leader\", expected voter or observer"},
    {"state_dir = var\n", ":4: [agent] state_dir: found \"var\", expected a path"},
    {"socket = s\n", ":4: [agent] socket: found \"s\", expected a path"},
    {"[cell]\nlisten = udp://x:1\n", ":5: [cell] listen: found \"udp://x:1\", expected tcp://"},
    {"[cell]\nlisten = tcp://x\n", ":5: [cell] listen: found \"tcp://x\", expected tcp://"},
    {"[cell]\nadvertise = tcp://x:0\n", ":5: [cell] advertise: found \"tcp://x:0\", expected"},
    {"[cell]\nadvertise = tcp://x:70000\n", ":5: [cell] advertise: found"},
    {"[cell]\nsession_ttl = 5\n", ":5: [cell] session_ttl: found \"5\", expected a duration"},
    {"[cell]\nsession_ttl = 5 s\n", ":5: [cell] session_ttl: found \"5 s\", expected"},
    {"[cell]\nsession_ttl = 299ms\n", ":5: [cell] session_ttl: found \"299ms\", expected"},
    {"[cell]\nsession_ttl = 2h\n", ":5: [cell] session_ttl: found \"2h\", expected"},
    {"[cell]\nsession_ttl = 99999999999999999999s\n", ":5: [cell] session_ttl: found"},
    {"[cell]\nsession_ttl = -5s\n", ":5: [cell] session_ttl: found \"-5s\", expected"},
    {"[cell]\ngrace_period = 2h\n", ":5: [cell] grace_period: found \"2h\", expected"},
    {"[cell]\nmax_drift = 51%\n", ":5: [cell] max_drift: found \"51%\", expected"},
    {"[cell]\nprotocol = 2\n", ":5: [cell] protocol: found \"2\", expected 3, 4 or 5"},
    {"[cell]\nprotocol = 6\n", ":5: [cell] protocol: found \"6\", expected 3, 4 or 5"},
    {"[cell]\nmax_drift = 10\n", ":5: [cell] max_drift: found \"10\", expected"},
    {"[limits]\nlocks = 0\n", ":5: [limits] locks: found \"0\", expected a number of 1 to"},
    {"[limits]\nlocks = 4194305\n", ":5: [limits] locks: found"},
    {"[limits]\nclients = 16384\n", ":5: [limits] clients: found"},
    {"[limits]\nhandles = x\n", ":5: [limits] handles: found \"x\", expected"},
    {"[limits]\nblocks = 1048577\n", ":5: [limits] blocks: found"},
    {"[limits]\nwatches = 1s\n", ":5: [limits] watches: found"},
    {"[limits]\nholders = 65535\n", ":5: [limits] holders: found"},
    {"[limits]\nholders = 0\n", ":5: [limits] holders: found \"0\", expected a number of 1 to"},
    {"[limits]\nclients = 9\nholders = 8\n",
     ":6: [limits] holders: found 8, expected at least 9, as many as `clients`"},
    {"profile = small\n[limits]\nclients = 512\n",
     ":6: [limits] holders: found 511, expected at least 512, as many as `clients`"},
    {"[limits]\nfiles = 1\n", ":5: [limits] files: found an unknown key, expected one of: locks"},
    {"[voters]\nA = tcp://x:1\n", ":5: [voters] A: found no agent name"},
    {"[voters]\na = x:1\n", ":5: [voters] a: found \"x:1\", expected tcp://"},
    {"[voters]\nb = tcp://x:1\n", ":5: [voters]: found no a, expected the name of [agent]"},
    {"[voters]\na = tcp://x:1\nb = tcp://x:2\n", ":5: [voters]: found 2 of them, expected 1, 3"},
    {"[tls]\nca = x\n", ":5: [tls] ca: found \"x\", expected a path"},
    {"[tls]\ncipher = x\n", ":5: [tls] cipher: found an unknown key, expected one of: ca, cert"},
    {"[cell]\ninsecure = true\n", ":5: [cell] insecure: found \"true\", expected yes or no"},
    {"[voters]\na = tcp://10.0.0.1:1\nb = tcp://x:2\nc = tcp://x:3\n",
     ":5: [cell] listen: found \"tcp://10.0.0.1:1\", expected tls+tcp:// with [tls], or an address "
     "of the loopback (127.0.0.1, [::1]), or insecure = yes in [cell]"},
    {"[voters]\na = tcp://x:1\n[cell]\nlisten = tcp://0.0.0.0:1\n",
     ":7: [cell] listen: found \"tcp://0.0.0.0:1\", expected tls+tcp:// with [tls], or an address"},
    {"[voters]\na = tcp://x:1\n[cell]\nlisten = tcp://127.example.org:1\n",
     ":7: [cell] listen: found \"tcp://127.example.org:1\", expected tls+tcp:// with [tls], or"},
    {"[http]\nlisten = 80\n", ":5: [http] listen: found \"80\", expected http://HOST:PORT"},
    {"[http]\nlisten = http://localhost.example:80\n", ":5: [http] listen: found"},
    {"[http]\nlisten = http://[::1:80\n", ":5: [http] listen: found"},
    {"[http]\nlisten = http://127.0.0.1:0\n", ":5: [http] listen: found"},
    {"[http]\npublic = maybe\n", ":5: [http] public: found \"maybe\", expected yes or no"},
    {"[namespace.A]\n", ":4: [namespace.A]: found namespace \"A\", expected 1 to 32 of a-z"},
    {"[namespace.]\nusers = root\n", ":4: [namespace.]: found namespace \"\", expected"},
    {"[namespace.x]\nuser = root\n", ":5: [namespace.x] user: found an unknown key, expected "
                                     "users, groups or admins"},
    {"[namespace.x]\nadmins = root, @\n", ":5: [namespace.x] admins: found \"@\""},
    {"[namespace.x]\nusers = root,,root\n", ":5: [namespace.x] users: found \"root,,root\", "
                                            "expected names separated by commas"},
    {"[namespace.x]\nusers = root root\n", ":5: [namespace.x] users: found \"root root\""},
    {"[namespace.x]\nusers =\n", ":5: [namespace.x] users: found \"\", expected names"},
    {"[nonsense]\n", ":4: [nonsense]: found an unknown section, expected agent, cell"},
    {"[nonsense]\nx = 1\n", ":4: [nonsense]: found an unknown section"},
    {"just words\n", ":4: found neither, expected [section] or key = value"},
    {"[cell\n", ":4: found neither, expected [section] or key = value"},
    {"role = observer\n", ":4: [agent] role: found observer without [voters]"},
    {"role = observer\n[voters]\na = tcp://x:1\n", ":6: [voters]: found a, whose role is observer"},
    {"role = observer\n[voters]\nb = tcp://x:1\n", ":6: [cell] listen: found none, expected tcp:"},
    {"role = observer\n[voters]\nb = tcp://x:1\n[cell]\nlisten = tcp://x:2\ninsecure = yes\n",
     ":8: [cell] advertise: found \"tcp://x:2\", expected an IP address as HOST"},
    {"role = observer\n[voters]\nb = tcp://x:1\n[cell]\nlisten = tcp://[be.ef]:2\ninsecure = yes\n",
     ":8: [cell] advertise: found \"tcp://[be.ef]:2\", expected an IP address as HOST"},
    {"[voters]\na = tcp://x:1\nb = tcp://x:1\n", ":6: [voters] b: found the address of a"},
    {"[voters]\na = tcp://x:1\nb = tcp://X:01\n", ":6: [voters] b: found the address of a"},
    {"[voters]\na = tcp://[::ffff:10.0.0.1]:1\nb = tcp://10.0.0.1:1\n",
     ":6: [voters] b: found the address of a"},
    {"[voters]\na = tcp://[2001:DB8::1]:1\nb = tcp://[2001:db8:0::1]:1\n",
     ":6: [voters] b: found the address of a"},
    {"[voters]\na = tcp://0.0.0.0:1\n", ":5: [voters] a: found \"tcp://0.0.0.0:1\", expected an "},
    {"[voters]\na = tcp://x:1\nb = tcp://x:2\nc = tcp://x:3\nd = tcp://x:4\ne = tcp://x:5\n"
     "f = tcp://x:6\ng = tcp://x:7\nh = tcp://x:8\n",
     ":12: [voters] h: found one more, expected 1, 3, 5 or 7"},
    {"[voters]\na = tcp://x:1\n[cell]\nlisten = tcp://0.0.0.0:1\nadvertise = tcp://y:1\n",
     ":8: [cell] advertise: found \"tcp://y:1\", expected \"tcp://x:1\" as in [voters]"},
    {"[cell]\nlisten = tcp://0.0.0.0:1\n",
     ":5: [cell] advertise: found \"tcp://0.0.0.0:1\", expec"},
    {"[cell]\nadvertise = tcp://x:1\n", ":5: [cell] advertise: found it without listen"},
    {"[tls]\nca = /x\n", ":5: [tls]: found no cert, expected ca, cert and key"},
    {"[cell]\nlisten = tls+tcp://x:1\n", ":5: [cell] listen: found \"tls+tcp://x:1\", expected "
                                         "[tls] with ca"},
    {"[cell]\nlisten = tcp://x:1\n[tls]\nca = /x\ncert = /x\nkey = /x\n",
     ":5: [cell] listen: found \"tcp://x:1\", expected tls+tcp:// everywhere"},
    {"[voters]\na = tcp://x:1\nb = tls+tcp://x:2\nc = tcp://x:3\n",
     ":6: [voters] b: found \"tls+tcp://x:2\", expected [tls] with"},
    {"[http]\npublic = yes\n", ":5: [http] public: found it without listen, expected both"},
    {"[http]\nshow = locks\n", ":5: [http] show: found it without listen, expected both"},
    {"[http]\nadvertise = http://x/\n", ":5: [http] advertise: found it without listen"},
    {"[http]\nshow = all\n", ":5: [http] show: found \"all\", expected figures, locks or holders"},
    {"[http]\nadvertise = javascript:alert(1)\n", ":5: [http] advertise: found \"javascript:"},
    {"[http]\nadvertise = http://a:99999/\n",
     ":5: [http] advertise: found \"http://a:99999/\", expected http:// or https://, HOST or "
     "HOST:PORT (1 to 65535), and a path"},
    {"[http]\nlisten = http://0.0.0.0:7412\n",
     ":5: [http] listen: found \"http://0.0.0.0:7412\", expected an address of loopback"},
    {"[http]\nlisten = http://[2001:db8::1]:7412\npublic = no\n",
     ":5: [http] listen: found \"http://[2001:db8::1]:7412\", expected an address of loopback"},
};

START_TEST(http_is_answered_on_loopback_unless_it_is_public)
{
    static const char *const good[] = {
        "[http]\nlisten = http://127.0.0.1:7412\n", "[http]\nlisten = http://localhost:1\n",
        "[http]\nlisten = http://[::1]:7412\n", "[http]\nlisten = http://127.3.2.1:65535\n",
        "[http]\nlisten = http://0.0.0.0:7412\npublic = yes\n"};
    char text[256];
    ck_assert_int_eq(read_text(minimal), CONFIG_OK);
    ck_assert_str_eq(config.http_listen, "");
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "%s%s", minimal, good[i]);
        ck_assert_msg(read_text(text) == CONFIG_OK, "%s: %s", good[i], error);
        ck_assert(strncmp(config.http_listen, "http://", 7) == 0);
    }
}
END_TEST

/* Other agents' pages link to this page only if other hosts can reach it. The URLs that other
 * agents announce for their pages are checked in the same way. */
START_TEST(a_page_has_a_url_if_other_hosts_reach_it)
{
    static const struct {
        const char *lines;
        const char *url;
    } cases[] = {
        {"", ""},
        {"listen = http://127.0.0.1:7412\n", ""},
        {"listen = http://0.0.0.0:7412\npublic = yes\n", ""},
        {"listen = http://10.0.0.1:7412\npublic = yes\n", "http://10.0.0.1:7412"},
        {"listen = http://127.0.0.1:7412\nadvertise = https://a.example/holdfast/\n",
         "https://a.example/holdfast/"},
    };
    static const char *const bad[] = {"",
                                      "ftp://x/",
                                      "javascript:alert(1)//http://x/",
                                      "http://",
                                      "http://user@x/",
                                      "http:///x",
                                      "http://x/?a=b",
                                      "http://x/#a",
                                      "http://x/\"onclick=",
                                      "http://x/<b>",
                                      "http://x/ y",
                                      "http://a:65536/",
                                      "http://a:0/",
                                      "http://a:",
                                      "http://a:x/",
                                      "http://a:1:2/",
                                      "http://a:18446744073709551617/",
                                      "http://[::1]:65536/",
                                      "http://[::1/",
                                      "http://[::1]x/",
                                      "//x/"};
    char text[256];
    char url[MESSAGE_ADDRESS_MAX];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), "%s[http]\n%s", minimal, cases[i].lines);
        ck_assert_msg(read_text(text) == CONFIG_OK, "%s", error);
        config_page(&config, url);
        ck_assert_str_eq(url, cases[i].url);
        ck_assert(url[0] == '\0' || config_is_page(url));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!config_is_page(bad[i]), "%s", bad[i]);
    }
    ck_assert(config_is_page("http://[2001:db8::1]:7412/a~b/%20-_."));
    ck_assert(config_is_page("http://[::1]/"));
    ck_assert(config_is_page("http://a:65535"));
    ck_assert(config_is_page("https://a/b:99999"));
    memset(text, 'a', sizeof(text));
    memcpy(text, "http://", 7);
    text[MESSAGE_ADDRESS_MAX] = '\0';
    ck_assert(!config_is_page(text));
    text[MESSAGE_ADDRESS_MAX - 1] = '\0';
    ck_assert(config_is_page(text));
}
END_TEST

/* An observer may list any number of voters, also the two that a cell has between two changes. It
 * begins no cell. */
START_TEST(an_observer_lists_any_number_of_voters)
{
    char text[512];
    snprintf(text, sizeof(text),
             "[agent]\nname = o\ncell = c\nrole = observer\n[cell]\nlisten = tcp://127.0.0.1:4\n"
             "[voters]\na = tcp://127.0.0.1:1\nb = tcp://127.0.0.1:2\n");
    ck_assert_msg(read_text(text) == CONFIG_OK, "%s", error);
    ck_assert_uint_eq(config.voter_count, 2);
    ck_assert_ptr_null(config_voters_error(&config, false));
}
END_TEST

/* A voter that starts over begins no cell, so its file may list the two or four voters that the
 * cell has now. The voter itself must be one of them. */
START_TEST(who_starts_over_lists_any_number_of_voters)
{
    static const char *const voters[] = {"a = tcp://127.0.0.1:1\nb = tcp://127.0.0.1:2\n",
                                         "a = tcp://127.0.0.1:1\nb = tcp://127.0.0.1:2\n"
                                         "c = tcp://127.0.0.1:3\nd = tcp://127.0.0.1:4\n"};
    char text[512];
    for (size_t i = 0; i < sizeof(voters) / sizeof(voters[0]); i++) {
        snprintf(text, sizeof(text),
                 "[agent]\nname = a\ncell = c\nstate_dir = /nonexistent\n[voters]\n%s", voters[i]);
        rejoins = false;
        ck_assert_int_eq(read_text(text), CONFIG_WRONG);
        rejoins = true;
        ck_assert_msg(read_text(text) == CONFIG_OK, "%s", error);
        ck_assert_uint_eq(config.voter_count, 2 * (i + 1));
        ck_assert_ptr_null(config_voters_error(&config, true));
        ck_assert_ptr_nonnull(config_voters_error(&config, false));
        text[strlen("[agent]\nname = ")] = 'e';
        ck_assert_int_eq(read_text(text), CONFIG_WRONG);
        ck_assert_ptr_nonnull(strstr(error, "[voters]: found no e"));
    }
    rejoins = false;
}
END_TEST

START_TEST(the_page_shows_figures_only_unless_it_is_told_otherwise)
{
    static const char *const words[] = {"figures", "locks", "holders"};
    char text[256];
    ck_assert_int_eq(read_text(minimal), CONFIG_OK);
    ck_assert_int_eq(config.http_show, CONFIG_SHOW_FIGURES);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "%s[http]\nlisten = http://127.0.0.1:1\nshow = %s\n", minimal,
                 words[i]);
        ck_assert_msg(read_text(text) == CONFIG_OK, "%s", error);
        ck_assert_uint_eq(config.http_show, i);
    }
}
END_TEST

START_TEST(what_is_wrong_is_told_in_one_line)
{
    char text[512];
    char expected[512];
    snprintf(text, sizeof(text), "%s%s", minimal, wrongs[_i].text);
    ck_assert_int_eq(read_text(text), CONFIG_WRONG);
    snprintf(expected, sizeof(expected), "%s%s", file, wrongs[_i].expected);
    ck_assert_msg(strncmp(error, expected, strlen(expected)) == 0, "found    %s\nexpected %s",
                  error, expected);
    ck_assert_ptr_null(strchr(error, '\n'));
}
END_TEST

START_TEST(a_cell_of_three_and_its_observer)
{
    static const char others[] = "[voters]\nc = tls+tcp://x:3\na = tls+tcp://x:1\n"
                                 "b = tls+tcp://x:2\n[tls]\nca = /x/ca\ncert = /x/c\nkey = /x/k\n";
    char text[512];
    snprintf(text, sizeof(text), "%s%s", minimal, others);
    ck_assert_msg(read_text(text) == CONFIG_OK, "%s", error);
    ck_assert_uint_eq(config.voter_count, 3);
    for (unsigned i = 0; i < 3; i++) { /* every agent has the voters in the same order */
        ck_assert_int_eq(config.voters[i].name[0], (int)('a' + i));
        ck_assert_int_eq(config.voters[i].address[12], (int)('1' + i));
    }
    ck_assert_str_eq(config.listen, "tls+tcp://x:1");
    ck_assert_str_eq(config.advertise, "tls+tcp://x:1");
    ck_assert_str_eq(config.tls_key, "/x/k");
    snprintf(text, sizeof(text),
             "[agent]\nname = o\ncell = c\nrole = observer\n[cell]\nlisten = tls+tcp://0.0.0.0:4\n"
             "advertise = tls+tcp://10.0.0.4:4\n%s",
             others);
    ck_assert_msg(read_text(text) == CONFIG_OK, "%s", error);
    ck_assert(config.observer);
    ck_assert_uint_eq(config.voter_count, 3);
    ck_assert_str_eq(config.advertise, "tls+tcp://10.0.0.4:4");
}
END_TEST

/* Without TLS, an agent may listen on the loopback, and elsewhere only with `insecure`. */
START_TEST(where_it_may_listen)
{
    static const char *const good[] = {
        "[cell]\nlisten = tcp://127.0.0.1:1\n",
        "[cell]\nlisten = tcp://127.8.0.9:1\n",
        "[cell]\nlisten = tcp://[::1]:1\n",
        "[cell]\nlisten = tcp://localhost:1\n",
        "[cell]\nlisten = tcp://10.0.0.1:1\ninsecure = yes\n",
        "[cell]\nlisten = tls+tcp://10.0.0.1:1\n[tls]\nca = /x\ncert = /x\nkey = /x\n",
        "[voters]\na = tcp://10.0.0.1:1\n", /* a single voter does not listen */
    };
    char text[512];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "%s%s", minimal, good[i]);
        ck_assert_msg(read_text(text) == CONFIG_OK, "%s", error);
    }
    snprintf(text, sizeof(text), "%s[cell]\nlisten = tcp://10.0.0.1:1\ninsecure = no\n", minimal);
    ck_assert_int_eq(read_text(text), CONFIG_WRONG);
}
END_TEST

static void check_small(uint32_t locks)
{
    const struct host_limits *chosen = &profile_small.host;
    ck_assert_ptr_eq(config.profile, &profile_small);
    ck_assert_uint_eq(config.limits.locks, locks);
    ck_assert_uint_eq(config.limits.clients, chosen->clients);
    ck_assert_uint_eq(config.limits.handles, chosen->handles);
    ck_assert_uint_eq(config.limits.blocks, chosen->blocks);
    ck_assert_uint_eq(config.limits.watches, chosen->watches);
    ck_assert_uint_eq(config.limits.holders, chosen->holders);
}

/* A key in the file overrides the profile, whatever their order is. */
START_TEST(a_profile)
{
    ck_assert_int_eq(read_text("[agent]\nname = a\ncell = c\nprofile = small\n"), CONFIG_OK);
    check_small(profile_small.host.locks);
    ck_assert_int_eq(read_text("[agent]\nname = a\ncell = c\nprofile = small\n"
                               "[limits]\nlocks = 5000\n"),
                     CONFIG_OK);
    check_small(5000);
    ck_assert_int_eq(read_text("[limits]\nlocks = 5000\n"
                               "[agent]\nname = a\ncell = c\nprofile = small\n"),
                     CONFIG_OK);
    check_small(5000);
    ck_assert_int_eq(config_dev(&config, "/x", "small", error), CONFIG_OK);
    check_small(profile_small.host.locks);
    ck_assert_int_eq(config_dev(&config, "/x", NULL, error), CONFIG_OK);
    ck_assert_uint_eq(config.limits.locks, 131072);
    ck_assert_int_eq(config_dev(&config, "/x", "large", error), CONFIG_WRONG);
    ck_assert_str_eq(error, "--profile: found \"large\", expected standard or small");
}
END_TEST

/* A relative state_dir starts at the current folder. It becomes an absolute path, which the checks
 * of the folders above it need. */
START_TEST(a_relative_state_dir)
{
    char expected[PATH_MAX + 32];
    char here[PATH_MAX];
    ck_assert_int_eq(chdir(suite_folder()), 0);
    ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
    ck_assert_int_eq(config_dev(&config, "relative/", NULL, error), CONFIG_OK);
    snprintf(expected, sizeof(expected), "%s/relative", here);
    ck_assert_str_eq(config.state_dir, expected);
    snprintf(expected, sizeof(expected), "%s/relative/agent.sock", here);
    ck_assert_str_eq(config.socket, expected);
    ck_assert_int_eq(config_dev(&config, "/x//", NULL, error), CONFIG_OK);
    ck_assert_str_eq(config.state_dir, "/x");
    ck_assert_int_eq(config_dev(&config, "", NULL, error), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, "found a path of 0 bytes"));
}
END_TEST

START_TEST(what_must_be_there)
{
    ck_assert_int_eq(read_text(""), CONFIG_WRONG);
    ck_assert_str_eq(error + strlen(file),
                     ": [agent] name: found none, expected 1 to 32 of a-z 0-9 _ -");
    ck_assert_int_eq(read_text("# a comment\n\n"), CONFIG_WRONG);
    ck_assert_str_eq(error + strlen(file),
                     ": [agent] name: found none, expected 1 to 32 of a-z 0-9 _ -");
    ck_assert_int_eq(read_text("[agent]\nname = a\n"), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, "[agent] cell: found none"));
    ck_assert_int_eq(read_text("name = a\n"), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, ":1: name: found a key before any section"));
    ck_assert_int_eq(config_read(&config, "/nonexistent/x", false, error), CONFIG_WRONG);
    ck_assert_ptr_eq(strstr(error, "/nonexistent/x: No such file or directory. Write it: "), error);
    ck_assert_int_eq(config_read(&config, folder, false, error), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, "Is a directory"));
}
END_TEST

START_TEST(a_long_line_is_not_cut_silently)
{
    char text[1024];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s[namespace.x]\nusers = root", minimal);
    while (used < 400) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, ", root");
    }
    snprintf(text + used, sizeof(text) - used, "\n");
    ck_assert_int_eq(read_text(text), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, ":5: found a line of more than"));
}
END_TEST

START_TEST(only_the_first_error_is_told)
{
    ck_assert_int_eq(read_text("[agent]\nname = A\ncell = B\n[x]\n"), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, ":2: [agent] name: found \"A\""));
}
END_TEST

START_TEST(control_characters_are_not_repeated)
{
    ck_assert_int_eq(read_text("[agent]\nname = a\x1b[31m\n"), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, "found \"a?[31m\""));
}
END_TEST

START_TEST(too_many_namespaces)
{
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", minimal);
    for (unsigned i = 1; i < HOST_NAMESPACES_MAX; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "[namespace.n%d]\n", i);
    }
    ck_assert_int_eq(read_text(text), CONFIG_OK);
    ck_assert_uint_eq(config.namespace_count, HOST_NAMESPACES_MAX);
    snprintf(text + used, sizeof(text) - used, "[namespace.more]\n");
    ck_assert_int_eq(read_text(text), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, "expected at most 64 namespaces"));
}
END_TEST

static uint8_t rights(uint32_t space, uid_t uid, gid_t group)
{
    gid_t groups[] = {4000, group};
    struct config_user user = {.uid = uid, .groups = groups, .group_count = 2};
    return config_rights(&config, space, 50, &user);
}

enum {
    USE = HOST_MAY_USE,
    ADMIN = HOST_MAY_USE | HOST_MAY_ADMIN,
    CELL = ADMIN | HOST_MAY_CHANGE_VOTERS, /* an administrator of the cell */
};

START_TEST(who_may_do_what)
{
    ck_assert_int_eq(read_and_find("[agent]\nname = a\ncell = c\nusers = 10\nadmins = 11\n"
                                   "[namespace.orders]\nusers = 20\ngroups = 2000\n"
                                   "admins = 21, @2100\n"
                                   "[namespace.mine]\n"),
                     CONFIG_OK);
    ck_assert_uint_eq(rights(0, 0, 1), CELL); /* root has all rights in every namespace */
    ck_assert_uint_eq(rights(1, 0, 1), CELL);
    ck_assert_uint_eq(rights(0, 50, 1), USE); /* the agent's own user is no administrator */
    ck_assert_uint_eq(rights(1, 50, 1), USE);
    /* `users` in [agent] applies to a namespace that has no `users` */
    ck_assert_uint_eq(rights(0, 10, 1), USE);
    ck_assert_uint_eq(rights(2, 10, 1), USE);
    ck_assert_uint_eq(rights(1, 10, 1), 0);
    ck_assert_uint_eq(rights(1, 11, 1), CELL); /* `admins` in [agent] applies to every namespace */
    ck_assert_uint_eq(rights(1, 20, 1), USE);
    ck_assert_uint_eq(rights(0, 20, 1), 0);
    ck_assert_uint_eq(rights(1, 99, 2000), USE);
    ck_assert_uint_eq(rights(1, 99, 2001), 0);
    ck_assert_uint_eq(rights(1, 21, 1), ADMIN);
    ck_assert_uint_eq(rights(1, 99, 2100), ADMIN);
    ck_assert_uint_eq(rights(0, 99, 2100), 0);
    ck_assert(config_admits_others(&config, 50));
}
END_TEST

START_TEST(nobody_else_unless_named)
{
    ck_assert_int_eq(read_text(minimal), CONFIG_OK);
    ck_assert_uint_eq(rights(0, 50, 1), USE);
    ck_assert_uint_eq(rights(0, 51, 1), 0);
    ck_assert(!config_admits_others(&config, 50));
    ck_assert_int_eq(read_and_find("[agent]\nname = a\ncell = c\nadmins = root, 50\n"), CONFIG_OK);
    ck_assert(!config_admits_others(&config, 50));
    ck_assert(config_admits_others(&config, 51));
}
END_TEST

/* A name that nobody has may be found later, or never. The agent starts nevertheless, and nobody
 * gets rights by that name. */
START_TEST(names_that_nobody_has)
{
    char location[CONFIG_LOCATION_MAX];
    ck_assert_int_eq(read_and_find("[agent]\nname = a\ncell = c\nadmins = @no-such\n"
                                   "[namespace.x]\nusers = root, no-such-user\n"
                                   "[namespace.y]\ngroups = no-such-group\n"),
                     CONFIG_OK);
    ck_assert_uint_eq(config.account_count, 4);
    ck_assert_uint_eq(config_unknown_count(&config), 3);
    ck_assert_str_eq(config_location(&config, &config.accounts[0], location), "[agent] admins");
    ck_assert_str_eq(config_location(&config, &config.accounts[2], location),
                     "[namespace.x] users");
    ck_assert_uint_eq(rights(1, 70, 70), 0);
    ck_assert_uint_eq(rights(2, 70, 70), 0); /* no user gets a right by an unknown group */
    config_found(&config, 2, false, 70);
    config_found(&config, 2, false, 71); /* a later report of a name changes nothing */
    config_found(&config, 3, true, 72);
    config_found(&config, 0, true, 73);
    ck_assert_uint_eq(config_unknown_count(&config), 0);
    ck_assert_uint_eq(rights(1, 70, 1), USE);
    ck_assert_uint_eq(rights(1, 71, 1), 0);
    ck_assert_uint_eq(rights(2, 70, 1), 0);
    ck_assert_uint_eq(rights(2, 1, 72), USE);
    ck_assert_uint_eq(rights(0, 1, 73), CELL);
}
END_TEST

START_TEST(a_list_has_64_names_at_most)
{
    char text[512];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s[namespace.x]\nusers = 1", minimal);
    for (unsigned i = 1; i < CONFIG_IDS_MAX; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, ",%u", i % 10);
    }
    ck_assert_int_eq(read_and_find(text), CONFIG_OK);
    ck_assert_uint_eq(config.namespaces[1].access.users.count, CONFIG_IDS_MAX);
    snprintf(text + used, sizeof(text) - used, ",7");
    ck_assert_int_eq(read_text(text), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, "at most 64 of them"));
}
END_TEST

/* While a name is unknown, its user may appear at any moment, so the socket must admit other
 * users. */
START_TEST(who_is_awaited_is_one_of_the_others)
{
    ck_assert_int_eq(read_text("[agent]\nname = a\ncell = c\nusers = no-such-user\n"), CONFIG_OK);
    ck_assert(!config_admits_others(&config, 50));
    config.awaits_accounts = true;
    ck_assert(config_admits_others(&config, 50));
}
END_TEST

START_TEST(dev)
{
    ck_assert_int_eq(config_dev(&config, "/tmp/x///", NULL, error), CONFIG_OK);
    ck_assert_str_eq(config.state_dir, "/tmp/x");
    ck_assert_str_eq(config.socket, "/tmp/x/agent.sock");
    ck_assert_str_eq(config.agent, "dev");
    ck_assert_str_eq(config.cell, "dev");
    ck_assert_int_eq(config.session_ttl_ns, 5000000000);
    ck_assert_int_eq(config.grace_ns, 5000000000);
    ck_assert_uint_eq(rights(0, 50, 1), CELL);
    ck_assert_uint_eq(rights(0, 51, 1), 0);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    ck_assert_int_eq(config_dev(&config, NULL, NULL, error), CONFIG_OK);
    ck_assert_str_eq(config.state_dir, "/run/user/7/holdfast");
    unsetenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0) {
        ck_assert_int_eq(config_dev(&config, NULL, NULL, error), CONFIG_OK);
        ck_assert_str_eq(config.state_dir, "/run/holdfast");
    } else {
        ck_assert_int_eq(config_dev(&config, NULL, NULL, error), CONFIG_WRONG);
        ck_assert_ptr_nonnull(strstr(error, "XDG_RUNTIME_DIR"));
    }
    char path[200];
    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    ck_assert_int_eq(config_dev(&config, path, NULL, error), CONFIG_WRONG);
    ck_assert_ptr_nonnull(strstr(error, "found a path of 199 bytes"));
    ck_assert_int_eq(config_dev(&config, "", NULL, error), CONFIG_WRONG);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *files = tcase_create("files");
    tcase_add_checked_fixture(files, set_up, tear_down);
    tcase_add_test(files, defaults);
    tcase_add_test(files, every_key);
    tcase_add_test(files, http_is_answered_on_loopback_unless_it_is_public);
    tcase_add_test(files, a_page_has_a_url_if_other_hosts_reach_it);
    tcase_add_test(files, the_page_shows_figures_only_unless_it_is_told_otherwise);
    tcase_add_test(files, an_observer_lists_any_number_of_voters);
    tcase_add_test(files, who_starts_over_lists_any_number_of_voters);
    tcase_add_loop_test(files, what_is_wrong_is_told_in_one_line, 0,
                        (int)(sizeof(wrongs) / sizeof(wrongs[0])));
    tcase_add_test(files, where_it_may_listen);
    tcase_add_test(files, what_must_be_there);
    tcase_add_test(files, a_profile);
    tcase_add_test(files, a_relative_state_dir);
    tcase_add_test(files, a_cell_of_three_and_its_observer);
    tcase_add_test(files, a_long_line_is_not_cut_silently);
    tcase_add_test(files, only_the_first_error_is_told);
    tcase_add_test(files, control_characters_are_not_repeated);
    tcase_add_test(files, too_many_namespaces);
    tcase_add_test(files, who_may_do_what);
    tcase_add_test(files, nobody_else_unless_named);
    tcase_add_test(files, names_that_nobody_has);
    tcase_add_test(files, a_list_has_64_names_at_most);
    tcase_add_test(files, who_is_awaited_is_one_of_the_others);
    tcase_add_test(files, dev);
    suite_add_tcase(suite, files);
    return suite_run(suite);
}
