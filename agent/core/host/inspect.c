/* Answers to clients that ask which locks, holders and waiters there are: see inspect.h. */
#include "inspect.h"

#include "clients.h"
#include "holdfast/admin.h"
#include "listing.h"
#include "locks.h"
#include "merge.h"
#include "routes.h"
#include "spaces.h"

enum { PAGE = 32 };

static struct hfi_text text_of(const char *text)
{
    return (struct hfi_text){text, hub_text_size(text, 256)};
}

/* Adds one lock to the page. Returns false if the page is full. The first lock of a page always
 * fits: parties that do not fit are left out. */
static bool list_lock(const struct host *host, const uint8_t *name, size_t size,
                      struct hfi_listed_builder *builder)
{
    struct merged merged;
    struct message_agent coordinator;
    merge_lock(host, name, size, &coordinator, &merged);
    return hfi_listed_add(builder, &merged.lock, merged.parties);
}

/* Makes one page of a LIST. Returns whether there are more locks. */
static bool list_page(const struct host *host, uint32_t client, const struct hfi_list *list,
                      struct hfi_listed_builder *builder)
{
    struct message_name name = {.length = (uint8_t)list->after.size};
    if (name.length > 0) {
        memcpy(name.bytes, list->after.bytes, name.length);
    }
    for (uint32_t shown = 0; listing_next(host, client, list, &name, &name); shown++) {
        if (shown == PAGE || !list_lock(host, name.bytes, name.length, builder)) {
            return true;
        }
    }
    return false;
}

void inspect_list(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions)
{
    struct hfi_listed_builder builder;
    bool more = false;
    hfi_listed_begin(&builder, actions->output + actions->output_used, HFI_FRAME_MAX,
                     frame->request);
    if (frame->kind == HFI_FRAME_SHOW) {
        uint32_t index = host_namespace(&host->config, frame->text.bytes, frame->text.size);
        int32_t error = client_rights_error(host, client, index, HOST_MAY_USE | HOST_MAY_ADMIN);
        if (error != 0) {
            client_reply_done(host, client, frame->request, error, actions);
            return;
        }
        (void)list_lock(host, (const uint8_t *)frame->text.bytes, frame->text.size, &builder);
    } else {
        more = list_page(host, client, &frame->list, &builder);
    }
    client_reply_written(host, client, hfi_listed_finish(&builder, more), actions);
}

static void count_locks(const struct host *host, uint32_t client, struct hfi_stated *out)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        for (uint32_t slot = 0; space_is_used(host, i) && slot < locks_end(host, i); slot++) {
            struct lock_ref at = {i, slot};
            if (!lock_is_named(host, at) ||
                client_rights_error(host, client, i, HOST_MAY_USE | HOST_MAY_ADMIN) != 0) {
                continue;
            }
            uint64_t word = atomic_load(lock_word(host, at));
            bool read = (word & HFI_W_CELLS) &&
                        hfi_has_readers(space_region(host, i), slot, HFI_SEAT_NONE);
            uint32_t holder = hfi_word_holder(word);
            out->locks_held += (holder != 0 && holder != HFI_HOLDER_AGENT) || read;
            if (word & (HFI_W_WAITERS | HFI_W_BARGERS)) {
                uint32_t first = 0;
                out->waiters += hfi_queue(space_region(host, i), slot, &first, 1);
            }
        }
    }
}

static enum hf_voter_state voter_state(const struct host *host, uint32_t voter, uint32_t missing)
{
    bool answers = route_answers(host, voter) && (missing >> voter & 1) == 0;
    return route_is_refused(host, voter) ? HF_VOTER_REFUSED : answers ? HF_VOTER_UP : HF_VOTER_DOWN;
}

void inspect_status(struct host *host, uint32_t client, const struct host_event *event,
                    struct host_actions *actions)
{
    const struct host_config *config = &host->config;
    struct hfi_frame answer = {.kind = HFI_FRAME_STATED, .request = event->as.frame.frame->request};
    struct hfi_stated *stated = &answer.stated;
    stated->agent = (struct hfi_text){config->agent.text, config->agent.length};
    stated->cell = (struct hfi_text){config->cell.text, config->cell.length};
    stated->role = text_of(config->role);
    stated->version = text_of(config->version);
    stated->session_state = host->lease.lost          ? HF_SESSION_LOST
                            : hub_lease_is_safe(host) ? HF_SESSION_SAFE
                                                      : HF_SESSION_JEOPARDY;
    stated->session_epoch = host->lease.epoch;
    stated->session_remaining_ns = host->lease.deadline_ns - host->now_ns;
    stated->clients = clients_connected(host);
    count_locks(host, client, stated);
    stated->voter_count = config->voter_count;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        stated->voters[i].name = (struct hfi_text){config->voters[i].text,
                                                   config->voters[i].length};
        stated->voters[i].address = config->addresses[i] ? text_of(config->addresses[i])
                                                         : (struct hfi_text){NULL, 0};
        stated->voters[i].state = voter_state(host, i, event->as.frame.missing);
    }
    client_reply(host, client, &answer, actions);
}
