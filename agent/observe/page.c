/* The document of the status page, and its lists of locks and agents: see page.h. */
#include "observe/page_parts.h"

#include <inttypes.h>
#include <string.h>

void page_name(struct html *html, const struct message_agent *agent)
{
    html_text(html, agent->text, agent->length);
}

static void shape(struct html *html, const char *name)
{
    html_add(html, "<svg class=\"shape %s\" aria-hidden=\"true\"><use href=\"#%s\"/></svg>", name,
             name);
}

/* ---- the judgement ---- */

static const char *const verdicts[JUDGEMENT_LEVELS] = {
    [JUDGEMENT_WELL] = "Everything is served, and nothing is missing.",
    [JUDGEMENT_DEGRADED] = "Something is missing, so one more failure may do harm.",
    [JUDGEMENT_FAILING] = "Something is not served.",
};

void page_judgement(struct html *html, const struct judgement *judgement)
{
    const char *word = judgement_word(judgement->level);
    html_add(html,
             "<section class=\"verdict %s\" aria-labelledby=\"h-verdict\">\n<h2 "
             "id=\"h-verdict\">",
             word);
    shape(html, word);
    html_add(html, "%s</h2>\n<p>%s</p>\n", word, verdicts[judgement->level]);
    if (judgement->count > 0) {
        html_add(html, "<ul>\n");
    }
    for (uint32_t i = 0; i < judgement->count; i++) {
        const struct reason *reason = &judgement->reasons[i];
        const char *level = judgement_word(reason_level(reason->kind));
        html_add(html, "<li class=\"%s\">", level);
        shape(html, level);
        html_add(html, "<span><code>%s</code> <strong>", reason_name(reason->kind));
        html_string(html, reason->subject);
        html_add(html, "</strong>%s<br>", reason->subject[0] != '\0' ? ":" : "");
        html_string(html, reason->text);
        html_add(html, " <small>(%s)</small></span></li>\n", level);
    }
    html_add(html, "%s</section>\n", judgement->count > 0 ? "</ul>\n" : "");
}

/* ---- the session ---- */

static void term(struct html *html, const char *name)
{
    html_add(html, "<div><dt>%s</dt><dd>", name);
}

static void term_end(struct html *html)
{
    html_add(html, "</dd></div>\n");
}

static void session_state(struct html *html, const struct metrics *metrics)
{
    const char *word = metrics_session(metrics);
    html_add(html, "%s%s", word, strcmp(word, "none") == 0 ? " yet" : "");
    if (metrics->was_safe && metrics->session != RENEWAL_LOST) {
        bool over = metrics->remaining_ns < 0;
        html_add(html, "<br><small>%s", over ? "the lease ran out " : "");
        html_duration(html, over ? -metrics->remaining_ns : metrics->remaining_ns);
        html_add(html, "%s</small>", over ? " ago" : " of the lease left");
    }
}

void page_session(struct html *html, const struct metrics *metrics)
{
    html_add(html, "<section aria-labelledby=\"h-agent\">\n<h2 id=\"h-agent\">This agent</h2>\n"
                   "<dl>\n");
    term(html, "session");
    session_state(html, metrics);
    term_end(html);
    term(html, "processes");
    html_count(html, metrics->here->clients, false);
    term_end(html);
    term(html, "locks held here");
    html_count(html, metrics->here->held, false);
    term_end(html);
    term(html, "waiting here");
    html_count(html, metrics->here->waiters, false);
    term_end(html);
    if (metrics->voting != NULL) {
        term(html, "partitions");
        html_add(html, "%u <small>of %d</small>", metrics->voting->partitions, MESSAGE_PARTITIONS);
        term_end(html);
    }
    term(html, "running for");
    html_duration(html, metrics->uptime_ns);
    term_end(html);
    html_add(html,
             "</dl>\n<p class=\"soft\">The holds of this host count while its session is "
             "safe: a lease that a majority of the voters renews.%s</p>\n</section>\n",
             metrics->voting != NULL
                 ? " Partitions are the parts of the lock names that this voter coordinates."
                 : "");
}

/* ---- the locks ---- */

/* Adds the user's name, or the number of a user without a name. */
static void user(struct html *html, const struct page_view *page, int64_t uid)
{
    const char *name = account_names_find(page->users, uid);
    if (name != NULL) {
        html_string(html, name);
    } else {
        html_add(html, "%" PRId64, uid);
    }
}

static void holder(struct html *html, const struct host_part *part, const struct page_view *page)
{
    page_name(html, &part->agent);
    if (part->hold_ns >= 0) {
        html_add(html, " for ");
        html_duration(html, part->hold_ns);
    }
    if (page->show == CONFIG_SHOW_HOLDERS && (part->pid >= 0 || part->uid >= 0)) {
        html_add(html, "<br><small>");
        if (part->pid >= 0) {
            html_add(html, "process %" PRId64, part->pid);
        }
        if (part->uid >= 0) {
            html_add(html, " of user ");
            user(html, page, part->uid);
        }
        html_add(html, "%s</small>", part->holders > 1 ? " and others" : "");
        if (part->command[0] != '\0') {
            html_add(html, "<br><code><bdi>");
            html_string(html, part->command);
            html_add(html, "</bdi></code>");
        }
        if (part->note[0] != '\0') {
            html_add(html, "<br><bdi>");
            html_string(html, part->note);
            html_add(html, "</bdi>");
        }
    } else if (part->holders > 1) {
        html_add(html, " <small>(%u processes)</small>", part->holders);
    }
}

static uint32_t kept_parts(const struct census_lock *lock)
{
    return lock->part_count < CENSUS_PARTS ? lock->part_count : CENSUS_PARTS;
}

static void holders(struct html *html, const struct census_lock *lock, const struct page_view *page)
{
    uint32_t listed = 0;
    uint32_t others = lock->holders; /* holders on hosts that are not listed */
    html_add(html, "<td role=\"cell\" data-label=\"held by\">");
    for (uint32_t i = 0; i < kept_parts(lock); i++) {
        if (lock->parts[i].holders > 0) {
            html_add(html, listed > 0 ? ",<br>" : "");
            holder(html, &lock->parts[i], page);
            others -= lock->parts[i].holders;
            listed++;
        }
    }
    html_add(html, others > 0 ? ",<br>and other hosts" : "");
    html_add(html, listed == 0 ? "no process" : lock->shared ? "<br><small>shared</small>" : "");
    if (lock->closed_ns > 0) {
        html_add(html, "<br>closed for another ");
        html_duration(html, lock->closed_ns);
    }
    html_add(html, "</td>");
}

static void waiters(struct html *html, const struct census_lock *lock)
{
    uint32_t listed = 0;
    uint32_t others = lock->waiters; /* processes on hosts that are not listed */
    html_add(html, "<td role=\"cell\" data-label=\"awaited by\">");
    if (lock->waiters == 0) {
        html_add(html, "no process</td>");
        return;
    }
    html_count(html, lock->waiters, lock->more);
    html_add(html, " on ");
    for (uint32_t i = 0; i < kept_parts(lock); i++) {
        if (lock->parts[i].waiters > 0) {
            html_add(html, listed++ > 0 ? ", " : "");
            page_name(html, &lock->parts[i].agent);
            others -= lock->parts[i].waiters;
        }
    }
    html_add(html, "%s%s", others > 0 && listed > 0 ? " and " : "",
             others > 0 ? "other hosts" : "");
    if (lock->wait_ns >= 0) {
        html_add(html, "<br><small>the longest for ");
        html_duration(html, lock->wait_ns);
        html_add(html, "</small>");
    }
    html_add(html, "</td>");
}

static void lock_rows(struct html *html, const struct page_view *page)
{
    const struct census *census = page->census;
    html_add(html, "<table class=\"locks\" role=\"table\">\n<caption>Held and awaited locks, the "
                   "longest wait first</caption>\n<thead role=\"rowgroup\"><tr role=\"row\">"
                   "<th role=\"columnheader\" scope=\"col\">lock</th>"
                   "<th role=\"columnheader\" scope=\"col\">held by</th>"
                   "<th role=\"columnheader\" scope=\"col\">awaited by</th></tr></thead>\n"
                   "<tbody role=\"rowgroup\">\n");
    for (uint32_t i = 0; i < census->kept; i++) {
        const struct census_lock *lock = &census->locks[i];
        html_add(html, "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\"><bdi>");
        html_text(html, lock->name.bytes, lock->name.length);
        html_add(html, "</bdi></th>");
        holders(html, lock, page);
        waiters(html, lock);
        html_add(html, "</tr>\n");
    }
    html_add(html, "</tbody></table>\n");
    if (census->used > census->kept) {
        html_add(html, "<p class=\"soft\">");
        html_count(html, census->used - census->kept, false);
        html_add(html, " more locks are held, awaited or closed. On a host, <code>holdfast "
                       "ls</code> lists all.</p>\n");
    }
}

/* Returns whether other hosts may hold locks of which this agent knows nothing. Gossip forgets a
 * host that is silent. Such a host has no session any more, as far as a majority knows; without a
 * majority it may have one. */
static bool knows_little(const struct page_view *page)
{
    return page->metrics->session != RENEWAL_SAFE && page->agents_total > 1;
}

static void lock_notes(struct html *html, const struct page_view *page)
{
    if (knows_little(page)) {
        html_add(html, "<p class=\"soft\">The session of this host is not safe, so processes of "
                       "other hosts may hold locks that this agent does not know.</p>\n");
    }
    if (page->counting) {
        html_add(html, "<p class=\"soft\">The count goes on: these figures are of the first ");
        html_count(html, page->census->names, false);
        html_add(html, " names.</p>\n");
    } else if (page->census_age_ns >= INT64_C(1000000000)) {
        html_add(html, "<p class=\"soft\">Counted ");
        html_duration(html, page->census_age_ns);
        html_add(html, " ago.</p>\n");
    }
    if (page->gossip_age_ns >= 0) {
        html_add(html, "<p class=\"soft\">News of other hosts may be ");
        html_duration(html, page->gossip_age_ns);
        html_add(html, " old.</p>\n");
    }
}

void page_locks(struct html *html, const struct page_view *page)
{
    const struct census *census = page->census;
    html_add(html, "<section aria-labelledby=\"h-locks\">\n<h2 id=\"h-locks\">Locks of the cell"
                   "</h2>\n<dl>\n");
    term(html, "held");
    html_count(html, census->held, false);
    term_end(html);
    term(html, "awaited");
    html_count(html, census->awaited, false);
    term_end(html);
    term(html, "waiting processes");
    html_count(html, census->waiters, census->more);
    term_end(html);
    term(html, "closed");
    html_count(html, census->closed, false);
    term_end(html);
    html_add(html, "</dl>\n");
    if (census->closed > 0) {
        html_add(
            html,
            "<p class=\"soft\">The last hold of a closed lock was not released. The lock opens "
            "when its lock-delay is over.</p>\n");
    }
    if (page->show == CONFIG_SHOW_FIGURES) {
        html_add(html, "<p class=\"soft\">Names of locks are not shown here, because everybody who "
                       "can open this page would see them. On a host, <code>holdfast ls</code> "
                       "lists them; the key <code>show</code> of [http] shows them here.</p>\n");
    } else if (census->kept > 0) {
        lock_rows(html, page);
    } else {
        html_add(html, knows_little(page)
                           ? "<p>This agent knows of no process that holds a lock or waits for "
                             "one.</p>\n"
                           : "<p>No process holds a lock or waits for one.</p>\n");
    }
    lock_notes(html, page);
    html_add(html, "</section>\n");
}

/* ---- the agents ---- */

static void agent_state(struct html *html, const struct page_agent *agent)
{
    static const struct {
        const char *level;
        const char *word;
    } states[] = {
        [PAGE_UP] = {"well", "up"},
        [PAGE_JEOPARDY] = {"degraded", "up, session not safe"},
        [PAGE_REFUSED] = {"degraded", "refused"},
        [PAGE_DOWN] = {"failing", "down"},
    };
    shape(html, states[agent->state].level);
    html_add(html, " %s", states[agent->state].word);
    if (!agent->self) {
        html_add(html, "<br><small>%s", agent->age_ns >= 0 ? "answered " : "no answer yet");
        if (agent->age_ns >= 0) {
            html_duration(html, agent->age_ns);
            html_add(html, " ago");
        }
        html_add(html, "</small>");
    }
}

static void agent_row(struct html *html, const struct page_agent *agent)
{
    html_add(html, "<tr><th scope=\"row\">");
    if (agent->page[0] != '\0' && !agent->self) {
        html_add(html, "<a rel=\"noreferrer\" href=\"");
        html_string(html, agent->page);
        html_add(html, "\">");
        page_name(html, &agent->name);
        html_add(html, "</a>");
    } else {
        page_name(html, &agent->name);
    }
    html_add(html, "<br><small>%s%s</small></th><td>", agent->voter ? "voter" : "observer",
             agent->self ? ", this agent" : "");
    agent_state(html, agent);
    html_add(html, "</td><td class=\"number\">");
    html_count(html, agent->held, false);
    html_add(html, "</td><td class=\"number\">");
    html_count(html, agent->waiters, false);
    html_add(html, "</td></tr>\n");
}

void page_agents(struct html *html, const struct page_view *page)
{
    html_add(html, "<section aria-labelledby=\"h-agents\">\n<h2 id=\"h-agents\">Agents of the cell"
                   "</h2>\n<table class=\"agents\">\n<caption>As this agent sees them. A name is a "
                   "link if the page of that agent is known.</caption>\n"
                   "<thead><tr><th scope=\"col\">agent</th><th scope=\"col\">state</th>"
                   "<th scope=\"col\" class=\"number\">locks held</th>"
                   "<th scope=\"col\" class=\"number\">waiting</th></tr></thead>\n<tbody>\n");
    for (uint32_t i = 0; i < page->agent_count; i++) {
        agent_row(html, &page->agents[i]);
    }
    html_add(html, "</tbody></table>\n");
    if (page->agents_total > page->agent_count) {
        html_add(html, "<p class=\"soft\">");
        html_count(html, page->agents_total - page->agent_count, false);
        html_add(html, " more observers are known. Those that are down come first.</p>\n");
    }
    html_add(html, "</section>\n");
}

/* ---- the document ---- */

static void head(struct html *html, const struct page_view *page)
{
    const struct metrics *metrics = page->metrics;
    html_add(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    if (!page->still) {
        html_add(html, "<meta http-equiv=\"refresh\" content=\"%d\">\n", PAGE_REFRESH_S);
    }
    /* an empty icon, so that a browser does not ask for /favicon.ico */
    html_add(html, "<link rel=\"icon\" href=\"data:,\">\n<title>");
    html_string(html, judgement_word(metrics->judgement->level));
    html_add(html, ": ");
    html_string(html, metrics->agent);
    html_add(html, ", Holdfast</title>\n<style>\n%s</style>\n</head>\n<body>\n%s<header>\n<h1>",
             page_style(), page_shapes());
    html_string(html, metrics->agent);
    html_add(html, "</h1>\n<p>");
    html_string(html, metrics->role);
    html_add(html, " of cell ");
    html_string(html, metrics->cell);
    html_add(html, ", Holdfast ");
    html_string(html, metrics->version);
    html_add(html, "</p>\n</header>\n<main>\n");
}

static void foot(struct html *html, const struct page_view *page)
{
    html_add(html, "</main>\n<footer>\n<p>Made at ");
    html_string(html, page->time);
    html_add(html,
             page->still ? ". <a href=\".\">Refresh every %d&nbsp;s</a>"
                         : ", and every %d&nbsp;s again. <a href=\"still\">Stop that</a>",
             PAGE_REFRESH_S);
    html_add(html, "</p>\n<p><a href=\"metrics\">metrics</a> <a href=\"healthz\">healthz</a></p>\n"
                   "</footer>\n</body>\n</html>\n");
}

size_t page_write(const struct page_view *page, char *out)
{
    struct html html = {.bytes = out, .size = PAGE_TEXT_MAX};
    head(&html, page);
    page_judgement(&html, page->metrics->judgement);
    page_locks(&html, page);
    page_agents(&html, page);
    page_session(&html, page->metrics);
    page_history(&html, page->history);
    foot(&html, page);
    return html.used;
}
