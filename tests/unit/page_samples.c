/* Samples of the status page: see page_samples.h. */
#include "page_samples.h"

#include <stdio.h>
#include <string.h>

#include "core/base/message_check.h"

static const int64_t ms = 1000000;

const char *page_sample_name(enum page_sample_kind kind)
{
    static const char *const names[PAGE_SAMPLES] = {"well",    "degraded", "failing",
                                                    "hostile", "full",     "empty"};
    return names[kind];
}

static struct host_part *part_add(struct host_overview *lock, const char *agent, size_t length)
{
    struct host_part *part = &lock->parts[lock->part_count++];
    *part = (struct host_part){.hold_ns = -1, .wait_ns = -1, .pid = -1, .uid = -1};
    message_agent_set(&part->agent, agent, length);
    return part;
}

void page_sample_lock(struct page_sample *sample, const char *name, const char *holder,
                      int64_t hold_ms, const char *command, const char *waiters, int64_t wait_ms)
{
    struct host_overview lock = {.hold_ns = -1, .wait_ns = -1};
    lock.name.length = (uint8_t)strlen(name);
    memcpy(lock.name.bytes, name, lock.name.length);
    if (holder[0] != '\0') {
        struct host_part *part = part_add(&lock, holder, strlen(holder));
        part->hold_ns = lock.hold_ns = hold_ms * ms;
        part->holders = lock.holders = 1;
        part->pid = 4711;
        part->uid = 1000;
        snprintf(part->command, sizeof(part->command), "%s", command);
        /* a hostile command comes with such a note */
        if (command[0] == '<' || command[0] == '"') {
            snprintf(part->note, sizeof(part->note), "%s%s", command, command);
        }
    }
    while (waiters[0] != '\0') {
        size_t length = strcspn(waiters, " ");
        struct host_part *part = part_add(&lock, waiters, length);
        part->wait_ns = lock.wait_ns = wait_ms * ms;
        part->waiters = 1;
        lock.waiters++;
        waiters += length + strspn(waiters + length, " ");
    }
    census_add(&sample->census, &lock);
}

static void reason_add(struct page_sample *sample, enum reason_kind kind, const char *subject,
                       const char *text)
{
    struct reason *reason = &sample->judgement.reasons[sample->judgement.count++];
    reason->kind = kind;
    snprintf(reason->subject, sizeof(reason->subject), "%s", subject);
    snprintf(reason->text, sizeof(reason->text), "%s", text);
    if (reason_level(kind) > sample->judgement.level) {
        sample->judgement.level = reason_level(kind);
    }
}

static struct page_agent *agent_add(struct page_sample *sample, const char *name, bool voter,
                                    enum page_state state)
{
    struct page_agent *agent = &sample->agents[sample->page.agent_count++];
    *agent = (struct page_agent){.voter = voter,
                                 .state = state,
                                 .self = sample->page.agent_count == 1,
                                 .age_ns = state == PAGE_DOWN ? 72500 * ms : 340 * ms};
    message_agent_set(&agent->name, name, strlen(name));
    snprintf(agent->page, sizeof(agent->page), "http://%s.example:7412/", name);
    const struct census_host *host = census_host(&sample->census, &agent->name);
    agent->held = host != NULL ? host->held : 0;
    agent->waiters = host != NULL ? host->waiters : 0;
    sample->page.agents_total = sample->page.agent_count;
    return agent;
}

/* The history of a quarter of an hour. The host works, apart from a stall of half a minute. */
static void history_fill(struct page_sample *sample)
{
    struct history_counters counters = {.looks = 0};
    int64_t now_ns = 1;
    history_init(&sample->history, 5000 * ms);
    for (uint32_t i = 0; i < 180; i++) {
        if (i == 120) {
            now_ns += 30000 * ms;
        }
        history_note(&sample->history, now_ns, &counters);
        now_ns += 5000 * ms;
        counters.looks += 3;
        counters.handovers += i % 17 < 9 ? i * 7 % 12 : 0;
        counters.awaited += i % 23 < 12 ? 3 * (i * 5 % 4) : 0;
    }
}

static void usual_locks(struct page_sample *sample)
{
    page_sample_lock(sample, "orders/nightly-report", "host-b", 184300, "/usr/bin/report --all",
                     "host-a host-c", 12800);
    page_sample_lock(sample, "orders/invoice", "host-a", 2100, "python3 invoice.py 2026-11",
                     "observer-1", 900);
    page_sample_lock(sample, "backup", "host-c", 4520000, "restic backup /srv", "", -1);
    page_sample_lock(sample, "deploy/web", "observer-1", 65000, "ansible-playbook web.yml", "", -1);
}

static void usual(struct page_sample *sample)
{
    bool down = sample->judgement.level != JUDGEMENT_WELL;
    bool failing = sample->judgement.level == JUDGEMENT_FAILING;
    usual_locks(sample);
    agent_add(sample, "host-a", true, failing ? PAGE_JEOPARDY : PAGE_UP);
    agent_add(sample, "host-b", true, failing ? PAGE_DOWN : PAGE_UP);
    agent_add(sample, "host-c", true, down ? PAGE_DOWN : PAGE_UP);
    agent_add(sample, "observer-1", false, PAGE_UP);
    agent_add(sample, "observer-2", false, PAGE_UP)->page[0] = '\0';
    history_fill(sample);
}

static void hostile(struct page_sample *sample)
{
    static const char script[] = "</bdi></th><script>document.title='owned'</script>";
    reason_add(sample, REASON_HTTP_DOWN, "", "<img src=x onerror=\"alert(1)\"> & 'more'");
    page_sample_lock(sample, script, "host-a", 1000, "<b onclick='x'>\x1b[2J\xff\xc3 \"q\"",
                     "host-b", 500);
    page_sample_lock(sample, "right\xe2\x80\xae to left &lt;&#60;", "host-a", 1, "\xe2\x80\x8b", "",
                     -1);
    page_sample_lock(sample, "'\"><style>*{display:none}</style>", "host-a", 1, "", "", -1);
    agent_add(sample, "host-a", true, PAGE_UP);
    history_fill(sample);
}

static void full(struct page_sample *sample)
{
    static const char agent[] = "an-agent-whose-name-is-very-long-";
    static const char wide[] = "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"";
    char name[256] = "";
    char waiters[256] = "";
    char command[161] = "";
    char one[HFI_LABEL_MAX + 1];
    for (unsigned i = 0; i < REASONS_MAX; i++) {
        reason_add(sample, REASON_VOTER_DOWN, "an-agent-whose-name-is-very-long", "");
        memset(sample->judgement.reasons[i].text, '"', REASON_TEXT_MAX - 1);
    }
    memset(command, '"', 160);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(one, sizeof(one), "%.28s%03u", agent, i);
        snprintf(waiters + strlen(waiters), sizeof(waiters) - strlen(waiters), "%s ", one);
    }
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "%s%s%s%s%s%s%s%03u", wide, wide, wide, wide, wide, wide, wide,
                 i);
        page_sample_lock(sample, name, "an-agent-whose-name-is-very-long", i, command, waiters, i);
    }
    for (unsigned i = 0; i < PAGE_AGENTS_MAX; i++) {
        snprintf(one, sizeof(one), "%.28s%03u", agent, i);
        struct page_agent *last = agent_add(sample, one, i < 7, (enum page_state)(i % 4));
        memset(last->page + 7, 'a', sizeof(last->page) - 8);
    }
    sample->page.agents_total = 4000;
    history_fill(sample);
}

static void metrics_fill(enum page_sample_kind kind, struct page_sample *out)
{
    bool failing = kind == PAGE_SAMPLE_FAILING;
    out->here = (struct host_survey){.clients = 12, .held = 1, .waiters = 1};
    out->voting.partitions = failing ? 0 : 86;
    out->metrics = (struct metrics){.version = "0.1.0",
                                    .cell = "prod",
                                    .agent = "host-a",
                                    .role = "voter",
                                    .uptime_ns = 93784000 * ms,
                                    .session = failing ? RENEWAL_JEOPARDY : RENEWAL_SAFE,
                                    .was_safe = kind != PAGE_SAMPLE_EMPTY,
                                    .remaining_ns = failing ? -2300 * ms : 4100 * ms,
                                    .judgement = &out->judgement,
                                    .host = &out->host,
                                    .here = &out->here,
                                    .voting = &out->voting};
}

void page_sample_fill(enum page_sample_kind kind, struct page_sample *out)
{
    memset(out, 0, sizeof(*out));
    census_begin(&out->census);
    metrics_fill(kind, out);
    out->page = (struct page_view){.metrics = &out->metrics,
                                   .show = CONFIG_SHOW_HOLDERS,
                                   .time = "2026-11-27 10:15:30 UTC",
                                   .census = &out->census,
                                   .gossip_age_ns = 400 * ms,
                                   .history = &out->history,
                                   .agents = out->agents};
    history_init(&out->history, 5000 * ms);
    if (kind == PAGE_SAMPLE_FAILING) {
        reason_add(out, REASON_SESSION_JEOPARDY, "",
                   "in jeopardy: no majority of the voters has renewed the lease, which ran out "
                   "2.3 s ago");
        reason_add(out, REASON_VOTER_DOWN, "host-b", "it cannot be reached: connection refused");
    }
    if (kind == PAGE_SAMPLE_FAILING || kind == PAGE_SAMPLE_DEGRADED) {
        reason_add(out, REASON_VOTER_DOWN, "host-c", "it cannot be reached: connection refused");
    }
    if (kind == PAGE_SAMPLE_HOSTILE) {
        hostile(out);
    } else if (kind == PAGE_SAMPLE_FULL) {
        full(out);
    } else if (kind == PAGE_SAMPLE_EMPTY) {
        out->metrics.session = RENEWAL_JEOPARDY;
        out->page.gossip_age_ns = -1;
        reason_add(out, REASON_SESSION_NONE, "",
                   "no majority of the voters has answered since the start");
        agent_add(out, "host-a", true, PAGE_JEOPARDY);
    } else {
        usual(out);
    }
}
