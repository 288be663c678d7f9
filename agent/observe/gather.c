/* Gathers the contents of the status page from the agent's parts: see gather.h. */
#include "observe/gather.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/driver.h"
#include "io/clock.h"
#include "peers/peers.h"
#include "turn.h"

enum {
    PIECE_LOCKS = 16, /* how many locks are counted between two looks at the clock */
    PAUSE_MS = 20,    /* the pause between two pieces; see also piece_ns */
};

static const int64_t piece_ns = 1000000;
/* A new census begins if the last one was completed longer ago than this. */
static const int64_t census_every_ns = 1000000000;
/* If the last complete census is older than this, the page shows what the new census has counted so
 * far. */
static const int64_t census_old_ns = 60 * INT64_C(1000000000);

struct gather {
    struct agent *agent;
    struct history history;
    uv_timer_t timer;            /* fires when the next piece of the census is due */
    bool running;                /* a census is under way */
    struct message_name name;    /* the last name that this census has looked at */
    struct host_overview lock;   /* the lock that this census looks at */
    struct census *next;         /* the census that is under way, or the next one */
    struct census *done;         /* the last complete census */
    int64_t done_ns;             /* when `done` was completed; 0: there is no complete census */
    struct account_names *users; /* NULL if the page shows no users */
    uint32_t agent_count;
    uint32_t agents_total;
    struct page_agent agents[PAGE_AGENTS_MAX];
    char text[PAGE_TEXT_MAX];
};

struct gather *gather_create(struct agent *agent)
{
    struct gather *gather = calloc(1, sizeof(*gather));
    struct census *both = calloc(2, sizeof(*both));
    bool users = agent->config.http_show == CONFIG_SHOW_HOLDERS;
    struct account_names *names = users ? account_names_create("/etc/passwd") : NULL;
    if (gather == NULL || both == NULL || (users && names == NULL) ||
        uv_timer_init(agent_uv(agent), &gather->timer) != 0) {
        account_names_destroy(names);
        free(gather);
        free(both);
        return NULL;
    }
    gather->agent = agent;
    gather->users = names;
    gather->timer.data = gather;
    gather->next = both;
    gather->done = both + 1;
    history_init(&gather->history, agent->config.session_ttl_ns);
    return gather;
}

void gather_shut(struct gather *gather)
{
    if (gather != NULL) {
        uv_close((uv_handle_t *)&gather->timer, NULL);
    }
}

void gather_destroy(struct gather *gather)
{
    if (gather != NULL) {
        account_names_destroy(gather->users);
        free(gather->next < gather->done ? gather->next : gather->done);
    }
    free(gather);
}

void gather_look(struct gather *gather, int64_t now_ns)
{
    const struct host_counts *counts = host_counts(gather->agent->host);
    const struct history_counters counters = {
        .handovers = counts->handoffs, .looks = counts->looks, .awaited = counts->wait_age.count};
    history_note(&gather->history, now_ns, &counters);
}

/* ---- the census ---- */

static void on_timer(uv_timer_t *timer);

/* Looks at a few locks. Returns false if there are no more. */
static bool count_some(struct gather *gather)
{
    bool more = true;
    agent_lend(gather->agent);
    for (uint32_t i = 0; i < PIECE_LOCKS && more; i++) {
        more = host_overview_next(gather->agent->host, clock_boottime_ns(), &gather->name,
                                  &gather->lock);
        if (more) {
            gather->name = gather->lock.name;
            census_add(gather->next, &gather->lock);
        }
    }
    agent_take_back(gather->agent);
    return more;
}

/* Does one piece of the census that is under way. */
static void count_piece(struct gather *gather)
{
    int64_t end_ns = clock_boottime_ns() + piece_ns;
    while (count_some(gather)) { /* ends at end_ns */
        if (clock_boottime_ns() >= end_ns) {
            uv_timer_start(&gather->timer, on_timer, PAUSE_MS, 0);
            return;
        }
    }
    struct census *complete = gather->next;
    gather->next = gather->done;
    gather->done = complete;
    gather->done_ns = clock_boottime_ns();
    gather->running = false;
}

static void on_timer(uv_timer_t *timer)
{
    struct gather *gather = timer->data;
    agent_turn(gather->agent, TURN_WEB);
    count_piece(gather);
}

static void take_census(struct gather *gather)
{
    int64_t now_ns = clock_boottime_ns();
    if (gather->running || (gather->done_ns != 0 && now_ns - gather->done_ns < census_every_ns)) {
        return;
    }
    gather->running = true;
    gather->name = (struct message_name){.length = 0};
    census_begin(gather->next);
    count_piece(gather);
}

/* ---- the agents ---- */

static void count_locks(const struct census *census, struct page_agent *agent)
{
    const struct census_host *host = census_host(census, &agent->name);
    agent->held = host != NULL ? host->held : 0;
    agent->waiters = host != NULL ? host->waiters : 0;
}

static void add_voters(struct gather *gather, const struct metrics *metrics)
{
    const struct host_config *config = &gather->agent->host_config;
    for (uint32_t i = 0; i < metrics->voter_count; i++) {
        const struct metrics_voter *voter = &metrics->voters[i];
        bool safe = !voter->self || metrics->session == RENEWAL_SAFE;
        struct page_agent *agent = &gather->agents[gather->agent_count++];
        *agent = (struct page_agent){.name = config->voters[i],
                                     .voter = true,
                                     .self = voter->self,
                                     .state = !safe            ? PAGE_JEOPARDY
                                              : voter->refused ? PAGE_REFUSED
                                              : voter->up      ? PAGE_UP
                                                               : PAGE_DOWN,
                                     .age_ns = voter->answer_age_ns};
    }
}

static bool is_voter(const struct host_config *config, const struct message_agent *name)
{
    bool found = false;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        found = found || memcmp(&config->voters[i], name, sizeof(*name)) == 0;
    }
    return found;
}

/* Returns the state of an observer, as gossip reports it. */
static enum page_state state_of(const struct gossip_agent_view *view)
{
    if (view->silent || view->expired || view->age_ns < 0) {
        return PAGE_DOWN;
    }
    return view->agent.state == GOSSIP_SAFE ? PAGE_UP : PAGE_JEOPARDY;
}

static int by_name(const void *one, const void *other)
{
    const struct page_agent *a = one;
    const struct page_agent *b = other;
    size_t size = a->name.length < b->name.length ? a->name.length : b->name.length;
    int order = memcmp(a->name.text, b->name.text, size);
    return order != 0 ? order : (int)a->name.length - (int)b->name.length;
}

/* Adds the observers that are down if `down` is true, else the other observers, in the order of
 * their names. */
static void add_observers(struct gather *gather, bool down)
{
    uint32_t first = gather->agent_count;
    struct gossip_agent_view view;
    const struct agent *agent = gather->agent;
    int64_t now_ns = clock_boottime_ns();
    uint32_t at = 0;
    while (agent->gossip != NULL && gossip_agent_next(agent->gossip, now_ns, &at, &view)) {
        if (is_voter(&agent->host_config, &view.name) || (state_of(&view) == PAGE_DOWN) != down) {
            continue;
        }
        gather->agents_total++;
        if (gather->agent_count < PAGE_AGENTS_MAX) {
            gather->agents[gather->agent_count++] = (struct page_agent){
                .name = view.name,
                .voter = view.agent.voter,
                .self = memcmp(&view.name, &agent->host_config.agent, sizeof(view.name)) == 0,
                .state = state_of(&view),
                .age_ns = view.age_ns};
        }
    }
    qsort(gather->agents + first, gather->agent_count - first, sizeof(gather->agents[0]), by_name);
}

/* The voters come first, then the observers that are down, then the others. */
static void list_agents(struct gather *gather, const struct metrics *metrics,
                        const struct census *census)
{
    gather->agent_count = 0;
    add_voters(gather, metrics);
    gather->agents_total = gather->agent_count;
    add_observers(gather, true);
    add_observers(gather, false);
    for (uint32_t i = 0; i < gather->agent_count; i++) {
        struct page_agent *agent = &gather->agents[i];
        count_locks(census, agent);
        snprintf(agent->page, sizeof(agent->page), "%s", peers_page(gather->agent, &agent->name));
    }
}

/* ---- the page ---- */

/* Returns how old the information about other hosts may be; -1: there is no other host. */
static int64_t gossip_age(const struct agent *agent)
{
    return agent->gossip != NULL ? gossip_age_ns(agent->gossip, clock_boottime_ns()) : -1;
}

static void write_time(char out[PAGE_TIME_MAX])
{
    time_t now = time(NULL);
    struct tm parts;
    if (gmtime_r(&now, &parts) == NULL || strftime(out, PAGE_TIME_MAX, "%F %T UTC", &parts) == 0) {
        out[0] = '\0';
    }
}

const char *gather_page(struct gather *gather, const struct metrics *metrics, bool still,
                        size_t *size)
{
    const struct agent *agent = gather->agent;
    take_census(gather);
    int64_t age_ns = clock_boottime_ns() - gather->done_ns;
    bool part = gather->running && (gather->done_ns == 0 || age_ns > census_old_ns);
    const struct census *census = part ? gather->next : gather->done;
    list_agents(gather, metrics, census);
    if (gather->users != NULL) {
        account_names_look(gather->users);
    }
    struct page_view page = {.metrics = metrics,
                             .show = agent->config.http_show,
                             .still = still,
                             .census = census,
                             .counting = part,
                             .census_age_ns = age_ns,
                             .gossip_age_ns = gossip_age(agent),
                             .history = &gather->history,
                             .agent_count = gather->agent_count,
                             .agents_total = gather->agents_total,
                             .agents = gather->agents,
                             .users = gather->users};
    write_time(page.time);
    *size = page_write(&page, gather->text);
    return gather->text;
}
