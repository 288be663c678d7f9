/*
 * See torture.h: the voters change. One change is under way at a time. If its command fails,
 * because of another fault, the same change is asked for again on another host, as an operator
 * would do.
 */
#include "torture.h"

#include "member.h"
#include "require.h"

enum act { ADD, REMOVE, MOVE };

enum { VOTERS_MIN = 3, WAIT_S = 5, COMPLETE_MS = 60000 };

static const char *const words[] = {[ADD] = "add", [REMOVE] = "remove", [MOVE] = "move"};

static bool is_voter(const struct torture *torture, unsigned host)
{
    return torture->change.voters >> host & 1;
}

/* Draws the next change at random. */
static void draw(struct torture *torture)
{
    struct torture_change *change = &torture->change;
    unsigned count = (unsigned)__builtin_popcount(change->voters);
    change->host = torture_draw(torture, torture->cell.hosts);
    if (!is_voter(torture, change->host)) {
        change->act = ADD;
    } else {
        /* a voter is down while it moves, so the others must be a majority */
        change->act = count <= VOTERS_MIN || torture_draw(torture, 3) == 0 ? MOVE : REMOVE;
    }
    if (change->act == MOVE) {
        cell_move(&torture->cell, change->host, torture->cell.ports[change->host] + 1);
        torture_restart(torture, change->host);
    }
    change->wanted = true;
}

/* Restarts a voter that was removed, until it has emptied its store. It empties the store only when
 * it knows that its removal is complete. */
static void empty(struct torture *torture, unsigned host)
{
    struct torture_change *change = &torture->change;
    const struct agent_process *agent = &torture->cell.agents[host];
    bool emptied = agent_logged(agent, "event=store_retired") >= change->removals[host];
    if (!emptied) {
        torture_restart(torture, host);
    }
}

/* Asks a host's agent for the change that is wanted. */
static void ask(struct torture *torture, unsigned asked)
{
    struct torture_change *change = &torture->change;
    if (change->act == ADD) {
        empty(torture, change->host);
    }
    torture_tell(torture, "host %u is asked: %s host %u", asked, words[change->act], change->host);
    change->command = member_begin(
        &torture->cell.agents[asked], "%s host-%c %s --wait %ds", words[change->act],
        'a' + (int)change->host,
        change->act == REMOVE ? "" : cell_address(&torture->cell, change->host), WAIT_S);
}

/* Waits for the command's end, and notes what it reports. */
static void hear(struct torture *torture)
{
    struct torture_change *change = &torture->change;
    unsigned host = 1U << change->host;
    int status = member_end(change->command);
    change->command = NULL;
    torture_tell(torture, "%s host %u: exit %d", words[change->act], change->host, status);
    if (status != 0) {
        return; /* a fault prevented the change, or the change takes longer */
    }
    change->wanted = false;
    change->done++;
    if (change->act == REMOVE) {
        change->voters &= ~host;
        change->removals[change->host]++;
    } else {
        change->voters |= host;
    }
}

/* Returns a voter's host, or now and then any host: observers have to refuse. */
static unsigned draw_voter(struct torture *torture)
{
    unsigned any = (unsigned)torture_draw(torture, torture->cell.hosts);
    unsigned host = any;
    while (torture_draw(torture, 8) != 0 && !(torture->change.voters >> host & 1)) {
        host = (host + 1) % torture->cell.hosts;
    }
    return host;
}

bool torture_change(struct torture *torture)
{
    struct torture_change *change = &torture->change;
    bool asks = false;
    if (change->command != NULL && member_has_ended(change->command)) {
        hear(torture);
    }
    if (change->command == NULL) {
        asks = !change->wanted;
        if (asks) {
            draw(torture);
        }
        ask(torture, draw_voter(torture));
    }
    return asks;
}

/* Waits until the change that is wanted is complete. */
static void complete(struct torture *torture)
{
    struct torture_change *change = &torture->change;
    int64_t end_ns = boottime_now() + (int64_t)COMPLETE_MS * MS;
    if (change->command != NULL) {
        hear(torture);
    }
    for (unsigned asked = 0; change->wanted; asked = (asked + 1) % torture->cell.hosts) {
        REQUIRE(boottime_now() < end_ns, "%s host-%c never completes: %s", words[change->act],
                'a' + (int)change->host, member_said);
        torture_revive(torture);
        ask(torture, asked);
        hear(torture);
    }
}

void torture_finish_move(struct torture *torture)
{
    if (torture->change.wanted && torture->change.act == MOVE) {
        complete(torture);
    }
}

void torture_settle(struct torture *torture)
{
    complete(torture);
    if (torture->weights[TORTURE_MEMBERS] != 0) {
        draw(torture);
        complete(torture);
    }
    for (unsigned i = 0; i < torture->cell.hosts; i++) {
        agent_await_socket(&torture->cell.agents[i]);
        member_await_voters(&torture->cell.agents[i], torture->change.voters);
    }
    torture_tell(torture, "%u changes of the voters", torture->change.done);
}
