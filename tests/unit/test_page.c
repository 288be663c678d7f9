/* The status page and its parts: the census, the history, and the writer of HTML. */
#include <check.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"
#include "observe/html.h"
#include "page_samples.h"

static struct page_sample sample;
static char text[PAGE_TEXT_MAX];
static const int64_t s_ns = 1000000000;

static const char *write_page(void)
{
    text[page_write(&sample.page, text)] = '\0';
    return text;
}

static const char *sample_page(enum page_sample_kind kind)
{
    page_sample_fill(kind, &sample);
    return write_page();
}

static bool has(const char *what)
{
    return strstr(text, what) != NULL;
}

static unsigned count_of(const char *what)
{
    unsigned count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        count++;
    }
    return count;
}

/* ---- the document ---- */

/* Returns the element's name, in lower case. */
static void name_of(const char *at, char out[16])
{
    size_t length = strcspn(at, " >/");
    ck_assert_uint_lt(length, 16);
    for (size_t i = 0; i < length; i++) {
        out[i] = (char)tolower((unsigned char)at[i]);
    }
    out[length] = '\0';
}

/* Checks that each element is closed, in the right order, and is one that the page may have. */
static void check_elements(void)
{
    static const char *const known[] = {
        "html",   "link", "head",   "meta",       "title",  "style",   "body",  "svg", "defs",
        "symbol", "path", "use",    "header",     "main",   "section", "h1",    "h2",  "p",
        "ul",     "li",   "span",   "code",       "strong", "br",      "small", "dl",  "div",
        "dt",     "dd",   "table",  "caption",    "thead",  "tbody",   "tr",    "th",  "td",
        "bdi",    "a",    "figure", "figcaption", "footer"};
    static char open[64][16];
    unsigned depth = 0;
    for (const char *at = strchr(text + 1, '<'); at != NULL; at = strchr(at + 1, '<')) {
        char name[16];
        bool ends = at[1] == '/';
        name_of(at + 1 + ends, name);
        const char *close = strchr(at, '>');
        ck_assert_ptr_nonnull(close);
        bool found = false;
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
            found = found || strcmp(known[i], name) == 0;
        }
        ck_assert_msg(found, "an element %s", name);
        if (ends) {
            ck_assert_uint_gt(depth, 0);
            ck_assert_str_eq(open[--depth], name);
        } else if (close[-1] != '/' && strcmp(name, "br") != 0 && strcmp(name, "meta") != 0 &&
                   strcmp(name, "link") != 0) {
            ck_assert_uint_lt(depth, 64);
            strcpy(open[depth++], name);
        }
    }
    ck_assert_uint_eq(depth, 0);
}

START_TEST(every_page_is_whole_and_has_no_scripts)
{
    sample_page((enum page_sample_kind)_i);
    check_elements();
    ck_assert(has("</footer>\n</body>\n</html>\n"));
    ck_assert(has("<meta name=\"viewport\" content=\"width=device-width"));
    ck_assert(!has("<script"));
    ck_assert(!has(" onerror=\""));
    ck_assert(!has("url("));
    ck_assert(!has("@import"));
    ck_assert_uint_eq(count_of("<h1>"), 1);
    ck_assert_uint_eq(count_of("<table"), count_of("<caption>"));
    ck_assert_uint_eq(count_of("role=\"img\""), count_of("aria-label=\""));
}
END_TEST

START_TEST(the_judgement_has_a_word_a_shape_and_its_reasons)
{
    sample_page(PAGE_SAMPLE_WELL);
    ck_assert(has("<title>well: host-a, Holdfast</title>"));
    ck_assert(has("<use href=\"#well\"/></svg>well</h2>"));
    ck_assert(!has("<li "));
    sample_page(PAGE_SAMPLE_DEGRADED);
    ck_assert(has("<title>degraded: host-a, Holdfast</title>"));
    ck_assert(has("<use href=\"#degraded\"/></svg>degraded</h2>"));
    ck_assert(has("<code>voter_down</code> <strong>host-c</strong>:<br>it cannot be reached: "
                  "connection refused <small>(degraded)</small>"));
    sample_page(PAGE_SAMPLE_FAILING);
    ck_assert(has("<use href=\"#failing\"/></svg>failing</h2>"));
    ck_assert(has("<code>session_jeopardy</code>"));
    ck_assert_uint_eq(count_of("<li "), 3);
    for (unsigned i = 0; i < 3; i++) {
        char symbol[32];
        snprintf(symbol, sizeof(symbol), "<symbol id=\"%s\"",
                 judgement_word((enum judgement_level)i));
        ck_assert(has(symbol));
    }
}
END_TEST

START_TEST(the_session_has_its_state)
{
    sample_page(PAGE_SAMPLE_WELL);
    ck_assert(has("<dt>session</dt><dd>safe<br><small>4.1&nbsp;s of the lease left"));
    sample_page(PAGE_SAMPLE_FAILING);
    ck_assert(has("<dt>session</dt><dd>jeopardy<br><small>the lease ran out 2.3&nbsp;s ago"));
    sample_page(PAGE_SAMPLE_EMPTY);
    ck_assert(has("<dt>session</dt><dd>none yet</dd>"));
    sample.host.sessions_lost = 1; /* a new session after a lost one */
    write_page();
    ck_assert(has("<dt>session</dt><dd>lost</dd>"));
    sample.metrics.session = RENEWAL_LOST;
    sample.metrics.was_safe = true;
    write_page();
    ck_assert(has("<dt>session</dt><dd>lost</dd>"));
    sample.metrics.voting = NULL; /* an observer */
    ck_assert(has("partitions"));
    write_page();
    ck_assert(!has("partitions"));
}
END_TEST

START_TEST(locks_are_shown_as_far_as_the_configuration_allows)
{
    sample_page(PAGE_SAMPLE_WELL);
    ck_assert(has("<dt>held</dt><dd>4</dd>"));
    ck_assert(has("<dt>waiting processes</dt><dd>3</dd>"));
    ck_assert(has("orders/nightly-report"));
    ck_assert(has("host-b for 3&nbsp;min 4&nbsp;s"));
    ck_assert(has("2 on host-a, host-c<br><small>the longest for 12.8&nbsp;s"));
    ck_assert(has("process 4711 of user 1000"));
    ck_assert(has("/usr/bin/report --all"));
    sample.page.show = CONFIG_SHOW_LOCKS;
    write_page();
    ck_assert(has("orders/nightly-report"));
    ck_assert(has("host-b for 3&nbsp;min 4&nbsp;s"));
    ck_assert(!has("4711"));
    ck_assert(!has("user 1000"));
    ck_assert(!has("report --all"));
    sample.page.show = CONFIG_SHOW_FIGURES;
    write_page();
    ck_assert(!has("orders"));
    ck_assert(!has("4711"));
    ck_assert(!has("report --all"));
    ck_assert(has("<dt>held</dt><dd>4</dd>"));
    ck_assert(has("the key <code>show</code> of [http]"));
}
END_TEST

static const char *user_file(const char *content)
{
    static char path[256];
    static char made[256];
    snprintf(path, sizeof(path), "%s/passwd", suite_folder());
    snprintf(made, sizeof(made), "%s/passwd-new", suite_folder());
    FILE *file = fopen(made, "we");
    ck_assert_ptr_nonnull(file);
    fputs(content, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(rename(made, path), 0); /* as passwd(1) does */
    return path;
}

/* The page has the user's name, escaped, and the number of a user that has no name. It follows the
 * file. */
START_TEST(users_are_shown_by_name)
{
    struct account_names *names = account_names_create(user_file("root:x:0:0::/:/bin/sh\n"));
    ck_assert_ptr_nonnull(names);
    page_sample_fill(PAGE_SAMPLE_WELL, &sample);
    sample.page.users = names;
    account_names_look(names);
    write_page();
    ck_assert(has("process 4711 of user 1000"));
    (void)user_file("root:x:0:0::/:/bin/sh\n<b>app:x:1000:1000::/:/bin/sh\n");
    write_page();
    ck_assert(has("process 4711 of user 1000")); /* not read again yet */
    account_names_look(names);
    write_page();
    ck_assert(has("process 4711 of user &lt;b&gt;app"));
    account_names_look(names);
    ck_assert_str_eq(account_names_find(names, 0), "root");
    sample.page.users = NULL;
    account_names_destroy(names);
}
END_TEST

/* Lines that are not those of a user, and a file that is none, do no harm. */
START_TEST(a_user_file_may_have_anything)
{
    char lines[8192] = "first:x:7:7:::\nsecond:x:7:7:::\n:x:8::::\nx\n+::::::\nneg:x:-1:1:::\n"
                       "all:x:4294967295:1:::\nword:x:9x:1:::\n"
                       "of-more-than-thirty-two-characters:x:10:1:::\nlong:x:11:1:";
    size_t size = strlen(lines);
    memset(lines + size, 'y', 2000);
    strcat(lines, "\nnext:x:12:1:::");
    const char *path = user_file(lines);
    struct account_names *names = account_names_create(path);
    ck_assert_ptr_nonnull(names);
    ck_assert_ptr_null(account_names_find(names, 7));
    account_names_look(names);
    ck_assert_str_eq(account_names_find(names, 7), "first");
    ck_assert_str_eq(account_names_find(names, 11), "long");
    ck_assert_str_eq(account_names_find(names, 12), "next");
    for (int64_t uid = -1; uid <= 13; uid++) {
        bool known = uid == 7 || uid == 11 || uid == 12;
        ck_assert_int_eq(account_names_find(names, uid) != NULL, known);
    }
    ck_assert_ptr_null(account_names_find(names, UINT32_MAX));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    account_names_look(names); /* does not wait for a writer */
    ck_assert_ptr_null(account_names_find(names, 7));
    ck_assert_int_eq(unlink(path), 0);
    account_names_look(names);
    ck_assert_ptr_null(account_names_find(names, 7));
    ck_assert_ptr_null(account_names_find(NULL, 7));
    account_names_destroy(names);
}
END_TEST

/* The table is full: the first users have their names. */
START_TEST(a_user_file_may_be_long)
{
    char *lines = calloc(ACCOUNT_NAMES_MAX + 1, 32);
    size_t used = 0;
    for (int i = ACCOUNT_NAMES_MAX; i >= 0; i--) {
        used += (size_t)snprintf(lines + used, 32, "u%d:x:%d:1:::\n", i, i);
    }
    struct account_names *names = account_names_create(user_file(lines));
    account_names_look(names);
    for (int i = 1; i <= ACCOUNT_NAMES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "u%d", i);
        ck_assert_str_eq(account_names_find(names, i), name);
    }
    ck_assert_ptr_null(account_names_find(names, 0));
    account_names_destroy(names);
    free(lines);
}
END_TEST

/* An agent without a majority does not know which locks other hosts hold. Its page says so. */
START_TEST(an_agent_that_may_be_cut_off_does_not_call_locks_free)
{
    sample_page(PAGE_SAMPLE_WELL);
    ck_assert(!has("that this agent does not know"));
    sample.census.kept = 0;
    write_page();
    ck_assert(has("<p>No process holds a lock or waits for one."));
    sample.metrics.session = RENEWAL_JEOPARDY;
    write_page();
    ck_assert(!has("No process holds a lock"));
    ck_assert(has("This agent knows of no process that holds a lock or waits for one."));
    ck_assert(has("other hosts may hold locks that this agent does not know"));
    sample.page.agents_total = 1;
    write_page();
    ck_assert(has("<p>No process holds a lock or waits for one."));
    ck_assert(!has("that this agent does not know"));
}
END_TEST

/* Adds one host's part to the lock. */
static void add_part(struct host_overview *lock, const char *agent, uint32_t holders,
                     uint32_t waiters)
{
    struct host_part *part = &lock->parts[lock->part_count++];
    *part = (struct host_part){
        .holders = holders, .waiters = waiters, .hold_ns = -1, .wait_ns = -1, .pid = -1, .uid = -1};
    part->agent.length = (uint8_t)strlen(agent);
    memcpy(part->agent.text, agent, part->agent.length);
    lock->holders += holders;
    lock->waiters += waiters;
}

/* The page lists only a few hosts of a lock. If there are more, it mentions them. */
START_TEST(more_hosts_of_a_lock_are_not_kept_secret)
{
    static struct host_overview lock;
    page_sample_fill(PAGE_SAMPLE_EMPTY, &sample);
    lock = (struct host_overview){.shared = true, .hold_ns = -1, .wait_ns = -1};
    memcpy(lock.name.bytes, "wide", lock.name.length = 4);
    for (unsigned i = 0; i < CENSUS_PARTS; i++) {
        char agent[16];
        snprintf(agent, sizeof(agent), "reader-%u", i);
        add_part(&lock, agent, 1, 0);
    }
    add_part(&lock, "writer", 0, 2);
    census_add(&sample.census, &lock);
    write_page();
    ck_assert(has("<br>reader-5<br><small>shared</small></td>"));
    ck_assert(has(">2 on other hosts</td>"));
    census_begin(&sample.census);
    lock.parts[0].waiters++;
    lock.parts[CENSUS_PARTS].holders++;
    lock.holders++;
    lock.waiters++;
    census_add(&sample.census, &lock);
    write_page();
    ck_assert(has("<br>reader-5,<br>and other hosts<br><small>shared</small></td>"));
    ck_assert(has(">3 on reader-0 and other hosts</td>"));
    ck_assert(!has("writer"));
}
END_TEST

START_TEST(agents_have_a_state_and_a_link_if_their_page_is_known)
{
    sample_page(PAGE_SAMPLE_FAILING);
    ck_assert(has("<th scope=\"row\">host-a<br><small>voter, this agent</small>"));
    ck_assert(has("<a rel=\"noreferrer\" href=\"http://host-b.example:7412/\">host-b</a>"));
    ck_assert(has("#degraded\"/></svg> up, session not safe</td>"));
    ck_assert(has("#failing\"/></svg> down<br><small>answered 1&nbsp;min 12&nbsp;s ago"));
    ck_assert(has("<th scope=\"row\">observer-2<br><small>observer</small>"));
    ck_assert_uint_eq(count_of("<a rel=\"noreferrer\""), 3);
}
END_TEST

START_TEST(what_comes_from_outside_adds_nothing_to_the_page)
{
    sample_page(PAGE_SAMPLE_HOSTILE);
    ck_assert(has("&lt;/bdi&gt;&lt;/th&gt;&lt;script&gt;document.title=&#39;owned&#39;"));
    ck_assert(has("&lt;b onclick=&#39;x&#39;&gt;\xef\xbf\xbd[2J\xef\xbf\xbd\xef\xbf\xbd "
                  "&quot;q&quot;"));
    ck_assert(has("right&lt;U+202E&gt; to left &amp;lt;&amp;#60;"));
    ck_assert(has("&lt;U+200B&gt;"));
    ck_assert(has("&#39;&quot;&gt;&lt;style&gt;"));
    ck_assert(has("&lt;img src=x onerror=&quot;alert(1)&quot;&gt; &amp; &#39;more&#39;"));
    ck_assert_uint_eq(count_of("<style>"), 1);
    ck_assert_uint_eq(count_of("<img"), 0);
}
END_TEST

START_TEST(a_page_is_bounded_however_much_there_is)
{
    sample_page(PAGE_SAMPLE_FULL);
    ck_assert_uint_lt(strlen(text) + 4096, PAGE_TEXT_MAX);
    ck_assert_uint_eq(count_of("<th role=\"rowheader\""), CENSUS_LOCKS);
    ck_assert(has("<dt>held</dt><dd>1&#8239;000</dd>"));
    ck_assert(has("980 more locks are held, awaited or closed. On a host, <code>holdfast ls"));
    ck_assert_uint_eq(count_of("<th scope=\"row\">"), PAGE_AGENTS_MAX);
    ck_assert(has("3&#8239;900 more observers are known."));
    ck_assert(has("6+ on ") || has("6 on "));
    sample.page.counting = true;
    write_page();
    ck_assert(has("these figures are of the first 1&#8239;000 names"));
}
END_TEST

START_TEST(a_page_refreshes_itself_unless_it_is_still)
{
    sample_page(PAGE_SAMPLE_WELL);
    ck_assert(has("<meta http-equiv=\"refresh\" content=\"5\">"));
    ck_assert(has("<a href=\"still\">"));
    sample.page.still = true;
    write_page();
    ck_assert(!has("http-equiv=\"refresh\""));
    ck_assert(has("<a href=\".\">"));
}
END_TEST

/* Every label of the page has a row in docs/METRICS.md, and the shapes' words too. */
START_TEST(every_word_is_in_the_documentation)
{
    static const struct {
        const char *begin;
        const char *end;
    } labels[] = {{"<dt>", "</dt>"},
                  {"scope=\"col\">", "</th>"},
                  {"scope=\"col\" class=\"number\">", "</th>"},
                  {"<figcaption><strong>", "</strong>"}};
    static char docs[131072];
    FILE *file = fopen(HF_METRICS_PAGE, "re");
    unsigned found = 0;
    ck_assert_ptr_nonnull(file);
    docs[fread(docs, 1, sizeof(docs) - 1, file)] = '\0';
    ck_assert(feof(file));
    fclose(file);
    sample_page(PAGE_SAMPLE_WELL);
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        for (const char *at = strstr(text, labels[i].begin); at != NULL;
             at = strstr(at + 1, labels[i].begin)) {
            char row[128];
            const char *label = at + strlen(labels[i].begin);
            int length = (int)(strstr(label, labels[i].end) - label);
            snprintf(row, sizeof(row), "\n| %.*s |", length, label);
            ck_assert_msg(strstr(docs, row) != NULL, "docs/METRICS.md has no row%s", row);
            found++;
        }
    }
    ck_assert_uint_gt(found, 15);
}
END_TEST

/* ---- the writer ---- */

START_TEST(a_full_buffer_takes_nothing_more)
{
    char small[16];
    struct html html = {.bytes = small, .size = sizeof(small)};
    html_add(&html, "0123456789");
    html_string(&html, "<<");
    ck_assert(html.full);
    ck_assert_str_eq(small, "0123456789&lt;");
    ck_assert_uint_eq(html.used, 14);
    html_add(&html, "x"); /* this would fit, but an earlier part was left out */
    ck_assert_str_eq(small, "0123456789&lt;");
}
END_TEST

START_TEST(durations_and_counts_read_well)
{
    static const struct {
        int64_t tenths;
        const char *text;
    } durations[] = {{-5, "0.0&nbsp;s"},
                     {599, "59.9&nbsp;s"},
                     {600, "1&nbsp;min"},
                     {36009, "1&nbsp;h"},
                     {37800, "1&nbsp;h 3&nbsp;min"},
                     {864000 + 36000 * 5, "1&nbsp;d 5&nbsp;h"}};
    char small[64];
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        struct html html = {.bytes = small, .size = sizeof(small)};
        html_duration(&html, durations[i].tenths * (s_ns / 10));
        ck_assert_str_eq(small, durations[i].text);
    }
    struct html html = {.bytes = small, .size = sizeof(small)};
    html_count(&html, 1234567, true);
    ck_assert_str_eq(small, "1&#8239;234&#8239;567+");
    html.used = 0;
    html_count(&html, 999, false);
    ck_assert_str_eq(small, "999");
}
END_TEST

/* ---- the census ---- */

START_TEST(a_census_keeps_what_matters_most)
{
    static struct host_overview lock;
    page_sample_fill(PAGE_SAMPLE_EMPTY, &sample);
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof(name), "lock-%u", i);
        page_sample_lock(&sample, name, "host-a", i, "", i % 10 == 3 ? "host-b" : "",
                         (int64_t)(i * 37 % 100));
    }
    lock = (struct host_overview){.hold_ns = -1, .wait_ns = -1};
    census_add(&sample.census, &lock); /* a free lock */
    lock.closed_ns = 1;
    census_add(&sample.census, &lock);
    const struct census *census = &sample.census;
    ck_assert_uint_eq(census->names, 102);
    ck_assert_uint_eq(census->used, 101);
    ck_assert_uint_eq(census->held, 100);
    ck_assert_uint_eq(census->awaited, 10);
    ck_assert_uint_eq(census->closed, 1);
    ck_assert_uint_eq(census->kept, CENSUS_LOCKS);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_uint_eq(census->locks[i].waiters, 1);
        ck_assert(i == 0 || census->locks[i - 1].wait_ns >= census->locks[i].wait_ns);
    }
    ck_assert_int_eq(census->locks[10].closed_ns, 1);
    ck_assert_uint_eq(census->locks[11].name.length, 7);
    ck_assert_int_eq(memcmp(census->locks[11].name.bytes, "lock-99", 7), 0);
    struct message_agent name = {.length = 6, .text = "host-a"};
    ck_assert_uint_eq(census_host(census, &name)->held, 100);
    ck_assert_uint_eq(census_host(census, &name)->waiters, 0);
    name.text[5] = 'b';
    ck_assert_uint_eq(census_host(census, &name)->waiters, 10);
    name.text[5] = 'c';
    ck_assert_ptr_null(census_host(census, &name));
}
END_TEST

/* A process with the right to speak as any agent can invent names. The table of hosts must stay
 * half empty. */
START_TEST(a_census_of_too_many_hosts_ends)
{
    page_sample_fill(PAGE_SAMPLE_EMPTY, &sample);
    for (unsigned i = 0; i < CENSUS_HOSTS + 10; i++) {
        char agent[16];
        snprintf(agent, sizeof(agent), "h%u", i);
        page_sample_lock(&sample, "a", agent, 1, "", "", -1);
    }
    ck_assert_uint_eq(sample.census.host_count, CENSUS_HOSTS / 2);
    struct message_agent name = {.length = 2, .text = "h0"};
    ck_assert_ptr_nonnull(census_host(&sample.census, &name));
    name.text[1] = 'x';
    ck_assert_ptr_null(census_host(&sample.census, &name));
}
END_TEST

START_TEST(a_census_begins_anew)
{
    page_sample_fill(PAGE_SAMPLE_WELL, &sample);
    struct message_agent name = {.length = 6, .text = "host-b"};
    ck_assert_ptr_nonnull(census_host(&sample.census, &name));
    census_begin(&sample.census);
    static const struct census none;
    ck_assert_mem_eq(&sample.census, &none, sizeof(none));
}
END_TEST

/* ---- the history ---- */

START_TEST(a_history_has_a_point_for_each_interval)
{
    struct history history;
    struct history_counters counters = {.looks = 10, .handovers = 5, .awaited = 7};
    history_init(&history, s_ns);
    history_note(&history, 100 * s_ns, &counters);
    counters = (struct history_counters){.looks = 12, .handovers = 8, .awaited = 10};
    history_note(&history, 104 * s_ns, &counters);
    ck_assert_uint_eq(history.count, 0);
    history_note(&history, 105 * s_ns, &counters);
    ck_assert_uint_eq(history.count, 1);
    ck_assert(history.points[0].known);
    ck_assert_uint_eq(history.points[0].handovers, 3);
    ck_assert_uint_eq(history.points[0].awaited, 2); /* 3 waits in 2 looks: 1.5 rounded up */
    history_note(&history, 111 * s_ns, &counters);   /* no look */
    ck_assert_uint_eq(history.count, 2);
    ck_assert(!history.points[1].known);
    counters.looks++;
    history_note(&history, 126 * s_ns, &counters); /* the agent stood still */
    ck_assert_uint_eq(history.count, 5);
    ck_assert(!history.points[2].known && !history.points[3].known && history.points[4].known);
    ck_assert_int_eq(history.end_ns, 125 * s_ns);
}
END_TEST

START_TEST(a_history_is_bounded)
{
    struct history history;
    struct history_counters counters = {.looks = 1};
    history_init(&history, 30 * s_ns);
    ck_assert_int_eq(history.interval_ns, 30 * s_ns);
    for (unsigned i = 0; i < 200; i++) {
        counters.looks++;
        counters.handovers += i;
        history_note(&history, (1 + 30 * (int64_t)i) * s_ns, &counters);
    }
    ck_assert_uint_eq(history.count, HISTORY_POINTS);
    ck_assert_uint_eq(history.points[HISTORY_POINTS - 1].handovers, 199);
    ck_assert_uint_eq(history.points[0].handovers, 80);
    history_note(&history, INT64_C(3600) * 24 * 365 * s_ns, &counters);
    ck_assert_uint_eq(history.count, HISTORY_POINTS);
    ck_assert(!history.points[0].known);
}
END_TEST

START_TEST(the_drawing_has_a_bar_for_each_point)
{
    sample_page(PAGE_SAMPLE_WELL);
    ck_assert_uint_eq(sample.history.count, HISTORY_POINTS);
    ck_assert(has("Hand-overs to other hosts"));
    ck_assert(has("in one bar"));
    ck_assert(has("at once"));
    ck_assert(has("This host, the last 10&nbsp;min"));
    const char *gaps = strstr(text, "class=\"gap\"");
    ck_assert_ptr_nonnull(gaps);
    ck_assert_ptr_nonnull(strstr(gaps, "M"));
    sample_page(PAGE_SAMPLE_EMPTY);
    ck_assert_uint_eq(count_of("<path d=\"\"/>"), 2);
    ck_assert(has("Where nothing is drawn, the agent did not run yet."));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("page");
    tcase_add_loop_test(tests, every_page_is_whole_and_has_no_scripts, 0, PAGE_SAMPLES);
    tcase_add_test(tests, the_judgement_has_a_word_a_shape_and_its_reasons);
    tcase_add_test(tests, the_session_has_its_state);
    tcase_add_test(tests, locks_are_shown_as_far_as_the_configuration_allows);
    tcase_add_test(tests, users_are_shown_by_name);
    tcase_add_test(tests, a_user_file_may_have_anything);
    tcase_add_test(tests, a_user_file_may_be_long);
    tcase_add_test(tests, an_agent_that_may_be_cut_off_does_not_call_locks_free);
    tcase_add_test(tests, more_hosts_of_a_lock_are_not_kept_secret);
    tcase_add_test(tests, agents_have_a_state_and_a_link_if_their_page_is_known);
    tcase_add_test(tests, what_comes_from_outside_adds_nothing_to_the_page);
    tcase_add_test(tests, a_page_is_bounded_however_much_there_is);
    tcase_add_test(tests, a_page_refreshes_itself_unless_it_is_still);
    tcase_add_test(tests, every_word_is_in_the_documentation);
    tcase_add_test(tests, a_full_buffer_takes_nothing_more);
    tcase_add_test(tests, durations_and_counts_read_well);
    tcase_add_test(tests, a_census_keeps_what_matters_most);
    tcase_add_test(tests, a_census_of_too_many_hosts_ends);
    tcase_add_test(tests, a_census_begins_anew);
    tcase_add_test(tests, a_history_has_a_point_for_each_interval);
    tcase_add_test(tests, a_history_is_bounded);
    tcase_add_test(tests, the_drawing_has_a_bar_for_each_point);
    return suite_main("page", tests);
}
