/* The locks of the cell one by one: see overview.h. */
#include "overview.h"

#include "holdfast/admin.h"
#include "listing.h"
#include "merge.h"

static bool same_agent(const struct message_agent *agent, const struct hfi_text *name)
{
    return agent->length == name->size && memcmp(agent->text, name->bytes, name->size) == 0;
}

/* Returns that host's part in the lock. Adds it if it is missing. */
static struct host_part *part_of(struct host_overview *overview, const struct hfi_text *agent)
{
    for (uint32_t i = 0; i < overview->part_count; i++) {
        if (same_agent(&overview->parts[i].agent, agent)) {
            return &overview->parts[i];
        }
    }
    struct host_part *part = &overview->parts[overview->part_count++];
    *part = (struct host_part){.hold_ns = -1, .wait_ns = -1, .pid = -1, .uid = -1};
    message_agent_set(&part->agent, agent->bytes, agent->size);
    return part;
}

static int64_t longer(int64_t one_ns, int64_t other_ns)
{
    return one_ns > other_ns ? one_ns : other_ns;
}

static void add_holder(struct host_overview *overview, const struct hfi_party_frame *party)
{
    struct host_part *part = part_of(overview, &party->agent);
    part->hold_ns = longer(part->hold_ns, party->elapsed_ns);
    overview->hold_ns = longer(overview->hold_ns, party->elapsed_ns);
    overview->holders++;
    if (part->holders++ == 0) {
        uint32_t size = party->command.size < HFI_FRAME_COMMAND_MAX ? party->command.size
                                                                    : HFI_FRAME_COMMAND_MAX;
        part->pid = party->pid;
        part->uid = party->uid;
        if (size > 0) {
            memcpy(part->command, party->command.bytes, size);
        }
        size = party->note.size < HFI_FRAME_NOTE_MAX ? party->note.size : HFI_FRAME_NOTE_MAX;
        if (size > 0) {
            memcpy(part->note, party->note.bytes, size);
        }
    }
}

static void add_waiter(struct host_overview *overview, const struct hfi_party_frame *party)
{
    struct host_part *part = part_of(overview, &party->agent);
    part->wait_ns = longer(part->wait_ns, party->elapsed_ns);
    overview->wait_ns = longer(overview->wait_ns, party->elapsed_ns);
    part->waiters++;
    overview->waiters++;
}

static void fill(const struct merged *merged, struct host_overview *out)
{
    out->shared = merged->lock.state == HF_STATE_SHARED;
    out->closed_ns = merged->lock.closed_ns;
    out->more = merged->lock.more_parties;
    out->holders = out->waiters = out->part_count = 0;
    out->hold_ns = out->wait_ns = -1;
    for (uint32_t i = 0; i < merged->lock.holder_count; i++) {
        add_holder(out, &merged->parties[i]);
    }
    for (uint32_t i = 0; i < merged->lock.waiter_count; i++) {
        add_waiter(out, &merged->parties[merged->lock.holder_count + i]);
    }
}

bool host_overview_next(struct host *host, int64_t now_ns, const struct message_name *after,
                        struct host_overview *out)
{
    const struct hfi_list everything = {.prefix = {.size = 0}};
    struct merged merged;
    if (!listing_next(host, LISTING_AGENT, &everything, after, &out->name)) {
        return false;
    }
    /* A merge shows times as of the last step, which may be long ago. */
    int64_t step_ns = host->now_ns;
    host->now_ns = now_ns > step_ns ? now_ns : step_ns;
    merge_lock(host, out->name.bytes, out->name.length, NULL, &merged);
    host->now_ns = step_ns;
    fill(&merged, out);
    return true;
}
