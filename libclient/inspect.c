/*
 * The calls of admin.h: the requests LIST, SHOW, STATUS, FACTS and BREAK, and their answers.
 *
 * Each call copies the answer out of the client's packet buffer and decodes the copy. So it holds
 * no mutex while the callback runs, and other threads can use the client meanwhile.
 */
#include "holdfast/admin.h"

#include "client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* One packet of an answer, and the values that the callback gets from the packet. A call allocates
 * one page and uses it for all packets. */
struct page {
    unsigned char packet[HFI_FRAME_MAX];
    struct hf_party parties[2 * HFI_FRAME_PARTIES_MAX];
    const struct hf_party *lists[2 * HFI_FRAME_PARTIES_MAX]; /* holders, then waiters */
    struct hf_behind behind;
    char strings[2 * HFI_FRAME_MAX]; /* terminated copies of one lock's texts */
    size_t strings_used;
    char last_name[HFI_NAME_MAX + 1];
    uint32_t last_name_size;
    bool more;
};

/* Sends the request, and copies the answer's packet. *size: the packet's length. *fd: the
 * descriptor that came with it; -1: none. */
static int packet_fetch(hf_client *client, struct hfi_frame *frame, enum hfi_frame_kind expected,
                        unsigned char *packet, size_t *size, int *fd)
{
    struct answer answer = {.fd = -1};
    pthread_mutex_lock(&client->socket_mutex);
    int error = client_request(client, frame, expected, &answer);
    if (error == 0) {
        memcpy(packet, client->packet, answer.size);
        *size = answer.size;
        *fd = answer.fd;
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

/* Returns a terminated copy of the text, or NULL if the text is empty. There is room for all texts
 * of one packet. */
static const char *page_string(struct page *page, struct hfi_text text)
{
    if (text.size == 0 || text.size >= sizeof(page->strings) - page->strings_used) {
        return NULL;
    }
    char *copy = page->strings + page->strings_used;
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = '\0';
    page->strings_used += text.size + 1;
    return copy;
}

static struct hf_party page_party(struct page *page, const struct hfi_party_frame *party)
{
    return (struct hf_party){
        .agent = page_string(page, party->agent),
        .pid = party->pid,
        .uid = party->uid,
        .command = page_string(page, party->command),
        .mode = (enum hf_mode)party->mode,
        .token = party->token,
        .elapsed_ns = party->elapsed_ns,
        .remaining_ns = party->remaining_ns,
        .note = page_string(page, party->note),
    };
}

/* Decodes the parties of one lock: first its holders, then its waiters. */
static void page_parties(struct page *page, struct hfi_listed_cursor *cursor,
                         struct hf_lock_info *info)
{
    struct hfi_party_frame party;
    size_t count = 0;
    while (count < 2 * HFI_FRAME_PARTIES_MAX && hfi_listed_next_party(cursor, &party)) {
        page->lists[count] = &page->parties[count];
        page->parties[count++] = page_party(page, &party);
    }
    info->holder_count = info->holder_count < count ? info->holder_count : count;
    info->waiter_count = info->waiter_count < count - info->holder_count
                             ? info->waiter_count
                             : count - info->holder_count;
    info->holders = page->lists;
    info->waiters = page->lists + info->holder_count;
}

/* Decodes the hold for which the lock is closed. It follows the lock's parties. */
static void page_behind(struct page *page, struct hfi_listed_cursor *cursor,
                        struct hf_lock_info *info)
{
    struct hfi_behind_frame behind;
    if (!hfi_listed_behind(cursor, &behind)) {
        return;
    }
    page->behind = (struct hf_behind){
        .agent = page_string(page, behind.agent),
        .pid = behind.pid,
        .uid = behind.uid,
        .command = page_string(page, behind.command),
        .ending = (enum hf_ending)behind.ending,
        .elapsed_ns = behind.elapsed_ns,
        .by_agent = page_string(page, behind.by_agent),
        .by_uid = behind.by_uid,
        .note = page_string(page, behind.note),
    };
    info->behind = &page->behind;
}

/* The function of a caller of hf_list() or hf_show(). */
struct reporter {
    hf_list_fn *fn;
    void *arg;
    bool stopped; /* fn has returned another value than 0 */
};

/* Calls the function for every lock of the page. Returns its first result that is not 0, or
 * HF_EPROTO. */
static int page_report(struct page *page, size_t size, struct reporter *reporter)
{
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    struct hfi_lock_frame lock;
    if (hfi_frame_decode(page->packet, size, &frame, &cursor, &error) != 0) {
        return HF_EPROTO;
    }
    page->more = frame.listed.more;
    int result = 0;
    while (result == 0 && hfi_listed_next_lock(&cursor, &lock)) {
        page->strings_used = 0;
        struct hf_lock_info info = {
            .name = page_string(page, lock.name),
            .state = (enum hf_state)lock.state,
            .closed_ns = lock.closed_ns,
            .coordinator = page_string(page, lock.coordinator),
            .age_ns = lock.age_ns,
            .holder_count = lock.holder_count,
            .waiter_count = lock.waiter_count,
        };
        if (info.name == NULL || lock.name.size > HFI_NAME_MAX) {
            return HF_EPROTO;
        }
        memcpy(page->last_name, lock.name.bytes, lock.name.size);
        page->last_name_size = lock.name.size;
        page_parties(page, &cursor, &info);
        page_behind(page, &cursor, &info);
        result = reporter->fn(&info, reporter->arg);
        reporter->stopped = result != 0;
    }
    return result;
}

/* Returns whether the last name of the page comes after the name `after` in byte order. In the
 * answer of a correct agent it does. */
static bool page_went_on(const struct page *page, const char *after, uint32_t after_size)
{
    uint32_t common = after_size < page->last_name_size ? after_size : page->last_name_size;
    int order = memcmp(page->last_name, after, common);
    return order > 0 || (order == 0 && page->last_name_size > after_size);
}

static int client_check(const hf_client *client)
{
    if (client == NULL) {
        return failure_null(NULL, "client");
    }
    return alive_here(client->alive) ? 0 : failure_forked(client);
}

/* Checks the arguments of a call about the lock of that name. */
static int name_arguments_check(const hf_client *client, const char *name, bool has_fn)
{
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    if (name == NULL || !has_fn) {
        return failure_null(client, name == NULL ? "name" : "fn");
    }
    error = hfi_name_check(name, strnlen(name, HFI_NAME_MAX + 1));
    return error == 0 ? 0 : failure_name(client, error, "lock's name", name);
}

/* Asks for page after page. The caller's struct page is all zeroes. */
static int list_pages(hf_client *client, struct hfi_text prefix, struct page *page,
                      struct reporter *reporter)
{
    int error;
    do { /* the loop ends: each page's last name comes after the previous page's */
        char after[HFI_NAME_MAX + 1];
        uint32_t after_size = page->last_name_size;
        memcpy(after, page->last_name, after_size);
        struct hfi_frame frame = {.kind = HFI_FRAME_LIST,
                                  .list = {.prefix = prefix, .after = text_of(after, after_size)}};
        size_t size;
        int none;
        error = packet_fetch(client, &frame, HFI_FRAME_LISTED, page->packet, &size, &none);
        if (error == 0) {
            error = page_report(page, size, reporter);
        }
        if (error == 0 && page->more && !page_went_on(page, after, after_size)) {
            error = HF_EPROTO; /* otherwise the listing would never end */
        }
    } while (error == 0 && page->more);
    return error;
}

HFI_PUBLIC int hf_list(hf_client *client, const char *prefix, hf_list_fn *fn, void *arg)
{
    struct reporter reporter = {.fn = fn, .arg = arg};
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    if (prefix == NULL || fn == NULL) {
        return failure_null(client, prefix == NULL ? "prefix" : "fn");
    }
    size_t prefix_size = strnlen(prefix, HFI_NAME_MAX + 1);
    if (prefix_size > 0 && hfi_name_check(prefix, prefix_size) != 0) {
        return failure_name(client, HF_EINVAL, "prefix", prefix);
    }
    struct page *page = calloc(1, sizeof(*page));
    if (page == NULL) {
        return failure(client, HF_ENOMEM, "no memory for the list of locks");
    }
    error = list_pages(client, text_of(prefix, prefix_size), page, &reporter);
    free(page);
    return error == 0 || reporter.stopped
               ? error
               : failure_ask(client, error, "list the locks under", prefix);
}

/* hf_show() without the check of its arguments. Writes no text for hf_error_text(). */
static int show(hf_client *client, const char *name, struct reporter *reporter)
{
    struct page *page = calloc(1, sizeof(*page));
    if (page == NULL) {
        return trouble_no_memory(client);
    }
    struct hfi_frame frame = {.kind = HFI_FRAME_SHOW, .text = text_of(name, strlen(name))};
    size_t size;
    int none;
    int error = packet_fetch(client, &frame, HFI_FRAME_LISTED, page->packet, &size, &none);
    if (error == 0) {
        error = page_report(page, size, reporter);
        if (error == 0 && page->last_name_size == 0) {
            /* the answer has no lock; a correct agent answers with a free lock for a name that was
             * never used */
            error = HF_EPROTO;
        }
    }
    free(page);
    return error;
}

int show_unsaid(hf_client *client, const char *name, hf_list_fn *fn, void *arg)
{
    return show(client, name, &(struct reporter){.fn = fn, .arg = arg});
}

HFI_PUBLIC int hf_show(hf_client *client, const char *name, hf_list_fn *fn, void *arg)
{
    struct reporter reporter = {.fn = fn, .arg = arg};
    int error = name_arguments_check(client, name, fn != NULL);
    if (error != 0) {
        return error;
    }
    error = show(client, name, &reporter);
    return error == 0 || reporter.stopped ? error
                                          : failure_ask(client, error, "show the lock", name);
}

/* Sends a request whose answer is one packet, and decodes the answer into *frame. The texts of
 * *frame point into *out. The caller frees *out, also after an error, and closes *fd if it is not
 * -1. */
static int page_ask_fd(hf_client *client, enum hfi_frame_kind answer, struct hfi_frame *frame,
                       struct hfi_listed_cursor *cursor, struct page **out, int *fd)
{
    *fd = -1;
    struct hfi_frame_error frame_error;
    size_t size;
    *out = calloc(1, sizeof(**out));
    if (*out == NULL) {
        return trouble_no_memory(client);
    }
    int error = packet_fetch(client, frame, answer, (*out)->packet, &size, fd);
    if (error == 0 && hfi_frame_decode((*out)->packet, size, frame, cursor, &frame_error) != 0) {
        error = HF_EPROTO;
    }
    return error;
}

/* page_ask_fd() for requests whose answer brings no descriptor. */
static int page_ask(hf_client *client, enum hfi_frame_kind answer, struct hfi_frame *frame,
                    struct hfi_listed_cursor *cursor, struct page **out)
{
    int none;
    return page_ask_fd(client, answer, frame, cursor, out, &none);
}

HFI_PUBLIC const char *hf_socket(const hf_client *client)
{
    return client != NULL ? client->path : NULL; /* hf_connect() has set the path for good */
}

int status_unsaid(hf_client *client, hf_status_fn *fn, void *arg)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS};
    struct hf_voter_info voters[HFI_FRAME_VOTERS_MAX];
    const struct hf_voter_info *list[HFI_FRAME_VOTERS_MAX];
    struct page *page;
    int error = page_ask(client, HFI_FRAME_STATED, &frame, NULL, &page);
    if (error == 0) {
        const struct hfi_stated *stated = &frame.stated;
        struct hf_status status = {
            .agent = page_string(page, stated->agent),
            .cell = page_string(page, stated->cell),
            .role = page_string(page, stated->role),
            .version = page_string(page, stated->version),
            .session_state = (enum hf_session_state)stated->session_state,
            .session_epoch = stated->session_epoch,
            .session_remaining_ns = stated->session_remaining_ns,
            .voters = list,
            .voter_count = stated->voter_count,
            .clients = stated->clients,
            .locks_held = stated->locks_held,
            .waiters = stated->waiters,
        };
        for (uint32_t i = 0; i < stated->voter_count; i++) {
            list[i] = &voters[i];
            voters[i] = (struct hf_voter_info){
                .name = page_string(page, stated->voters[i].name),
                .address = page_string(page, stated->voters[i].address),
                .state = (enum hf_voter_state)stated->voters[i].state,
            };
        }
        fn(&status, arg);
    }
    free(page);
    return error;
}

HFI_PUBLIC int hf_status(hf_client *client, hf_status_fn *fn, void *arg)
{
    int error = client_check(client);
    if (error == 0 && fn == NULL) {
        error = failure_null(client, "fn");
    }
    if (error != 0) {
        return error;
    }
    error = status_unsaid(client, fn, arg);
    return error == 0 ? 0 : failure_ask(client, error, "show the status of", client->agent);
}

HFI_PUBLIC int hf_facts(hf_client *client, hf_fact_fn *fn, void *arg)
{
    int error = client_check(client);
    if (error == 0 && fn == NULL) {
        error = failure_null(client, "fn");
    }
    if (error != 0) {
        return error;
    }
    struct hfi_frame frame = {.kind = HFI_FRAME_FACTS};
    struct hfi_listed_cursor cursor;
    struct hfi_fact_frame sent;
    struct page *page;
    error = page_ask(client, HFI_FRAME_TOLD, &frame, &cursor, &page);
    if (error != 0) {
        error = failure_ask(client, error, "show the facts of", client->agent);
    }
    while (error == 0 && hfi_facts_next(&cursor, &sent)) {
        page->strings_used = 0;
        struct hf_fact fact = {
            .subject = page_string(page, sent.subject),
            .key = page_string(page, sent.key),
            .value = sent.value,
            .text = page_string(page, sent.text),
        };
        error = fn(&fact, arg);
    }
    free(page);
    return error;
}

/* Calls fn with the outcome of the break. A page has room for all holds and texts of a BROKEN. */
static void page_report_break(struct page *page, const char *name, const struct hfi_frame *frame,
                              struct hfi_listed_cursor *cursor, hf_break_fn *fn, void *arg)
{
    const char *silent[HFI_FRAME_BROKEN_SILENT_MAX];
    struct hf_break_info info = {.name = name,
                                 .error = frame->broken.error,
                                 .ended = page->lists,
                                 .more = frame->broken.more,
                                 .closed_ns = frame->broken.closed_ns,
                                 .silent = silent};
    struct hfi_party_frame party;
    struct hfi_text agent;
    while (hfi_listed_next_party(cursor, &party)) {
        page->lists[info.ended_count] = &page->parties[info.ended_count];
        page->parties[info.ended_count++] = page_party(page, &party);
    }
    while (hfi_broken_next_silent(cursor, &agent)) {
        silent[info.silent_count++] = page_string(page, agent);
    }
    fn(&info, arg);
}

HFI_PUBLIC int hf_break_report(hf_client *client, const char *name, unsigned flags, hf_break_fn *fn,
                               void *arg)
{
    int error = name_arguments_check(client, name, fn != NULL);
    if (error != 0) {
        return error;
    }
    if ((flags & ~(unsigned)HF_BREAK_NOW) != 0) {
        return failure(client, HF_EINVAL, "the flags are %#x, expected 0 or HF_BREAK_NOW (%#x)",
                       flags, (unsigned)HF_BREAK_NOW);
    }
    struct hfi_frame frame = {
        .kind = HFI_FRAME_BREAK,
        .break_lock = {.name = text_of(name, strlen(name)),
                       .flags = flags & HF_BREAK_NOW ? HFI_BREAK_FRAME_NOW : 0},
    };
    struct hfi_listed_cursor cursor;
    struct page *page;
    error = page_ask(client, HFI_FRAME_BROKEN, &frame, &cursor, &page);
    if (error == 0 && frame.kind != HFI_FRAME_BROKEN) {
        error = HF_EPROTO;
    } else if (error == 0) {
        error = frame.broken.error;
        page_report_break(page, name, &frame, &cursor, fn, arg);
    }
    free(page);
    if (error == HF_EFULL && frame.kind == HFI_FRAME_BROKEN) {
        return failure(client, error,
                       "a host has more holds of the lock \"%s\" than it can end at once: break "
                       "the lock again",
                       name);
    }
    return error == 0 ? 0 : failure_ask(client, error, "break the lock", name);
}

static void report_to_nobody(const struct hf_break_info *info, void *arg)
{
    (void)info;
    (void)arg;
}

HFI_PUBLIC int hf_break(hf_client *client, const char *name, unsigned flags)
{
    return hf_break_report(client, name, flags, report_to_nobody, NULL);
}

/* Returns a number that no other change has; never 0. */
static uint64_t change_id(void)
{
    uint64_t id = 0;
    while (id == 0) {
        if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
            id = ((uint64_t)getpid() << 32) ^ (uint64_t)time(NULL);
        }
    }
    return id;
}

HFI_PUBLIC int hf_member(hf_client *client, struct hf_member_change *change, hf_member_fn *fn,
                         void *arg)
{
    if (client == NULL || change == NULL || change->name == NULL || fn == NULL) {
        return failure(
            client, HF_EINVAL,
            "a pointer is NULL, expected a client, a change with a name, and a function");
    }
    const char *address = change->address != NULL ? change->address : "";
    size_t size = strlen(change->name);
    if (!hfi_label_check(change->name, size)) {
        return failure(client, HF_EINVAL,
                       "the agent's name is \"%.64s\", expected 1 to 32 of [a-z0-9_-]",
                       change->name);
    }
    bool removes = change->act == HF_MEMBER_REMOVE;
    if (change->act < HF_MEMBER_ADD || change->act > HF_MEMBER_MOVE ||
        removes != (address[0] == '\0')) {
        return failure(client, HF_EINVAL,
                       "expected HF_MEMBER_REMOVE without an address, or HF_MEMBER_ADD or "
                       "HF_MEMBER_MOVE with one");
    }
    change->id = change->id != 0 ? change->id : change_id();
    struct hfi_frame frame = {.kind = HFI_FRAME_MEMBER,
                              .member = {.act = (uint32_t)change->act,
                                         .number = change->number,
                                         .id = change->id,
                                         .name = text_of(change->name, size),
                                         .address = text_of(address, strlen(address))}};
    struct hfi_listed_cursor cursor;
    struct page *page;
    int error = page_ask(client, HFI_FRAME_MEMBERED, &frame, &cursor, &page);
    if (error == 0 && frame.kind != HFI_FRAME_MEMBERED) {
        error = HF_EPROTO;
    } else if (error == 0) {
        change->number = frame.membered.number;
        const struct hf_member_info info = {.stage = (enum hf_member_stage)frame.membered.stage,
                                            .reason = (enum hf_member_reason)frame.membered.reason,
                                            .subject = page_string(page, frame.membered.subject),
                                            .done = frame.membered.done,
                                            .total = frame.membered.total};
        fn(&info, arg);
    }
    free(page);
    return error == 0 ? 0 : failure_ask(client, error, "change the voter", change->name);
}

/* Fills in *info from the facts of a TOLD. */
static void take_backup(struct page *page, struct hfi_listed_cursor *cursor,
                        struct hf_backup_info *info)
{
    struct hfi_fact_frame fact;
    while (hfi_facts_next(cursor, &fact)) {
        const char *key = page_string(page, fact.key);
        uint64_t value = fact.value >= 0 ? (uint64_t)fact.value : 0;
        const struct {
            const char *key;
            uint64_t *to;
        } known[] = {{"done", &info->done},
                     {"total", &info->total},
                     {"commit", &info->commit},
                     {"locks", &info->locks},
                     {"bytes", &info->bytes}};
        if (key != NULL && strcmp(key, "stage") == 0) {
            info->stage = (enum hf_backup_stage)value;
            info->text = page_string(page, fact.text);
        }
        for (size_t i = 0; key != NULL && i < sizeof(known) / sizeof(known[0]); i++) {
            if (strcmp(key, known[i].key) == 0) {
                *known[i].to = value;
            }
        }
    }
}

HFI_PUBLIC int hf_backup(hf_client *client, int *fd, hf_backup_fn *fn, void *arg)
{
    int error = client_check(client);
    if (error == 0 && (fd == NULL || fn == NULL)) {
        error = failure_null(client, fd == NULL ? "fd" : "fn");
    }
    if (error != 0) {
        return error;
    }
    struct hfi_frame frame = {.kind = HFI_FRAME_BACKUP};
    struct hfi_listed_cursor cursor;
    struct page *page;
    error = page_ask_fd(client, HFI_FRAME_TOLD, &frame, &cursor, &page, fd);
    if (error == 0) {
        struct hf_backup_info info = {.text = NULL};
        take_backup(page, &cursor, &info);
        bool whole = info.stage == HF_BACKUP_DONE;
        if (info.stage < HF_BACKUP_COPIES || info.stage > HF_BACKUP_FAILED || whole != (*fd >= 0)) {
            error = HF_EPROTO;
        } else {
            fn(&info, arg);
        }
    }
    if (error != 0 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    free(page);
    return error == 0 ? 0 : failure_ask(client, error, "back up the store of", client->agent);
}
