/* See lib_agent.h. */
#include "lib_agent.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../suite_main.h"

#define RENEW_MS 5

static int64_t now_ns(void *arg)
{
    (void)arg;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    (void)arg;
    (void)word;
    (void)expected;
    (void)timeout_ns;
    abort(); /* an agent never sleeps on a word of a region */
}

static void kernel_ring(void *arg)
{
    (void)arg;
}

void agent_publish(struct agent *agent, int64_t ttl_ns)
{
    hfi_publish(&agent->actor, now_ns(NULL) + ttl_ns, atomic_load(&agent->epoch), 0);
}

static void send_packet(int fd, const void *packet, size_t size, const int *fds, int fd_count)
{
    struct iovec part = {.iov_base = (void *)packet, .iov_len = size};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE((size_t)fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, (size_t)fd_count * sizeof(int));
    }
    ssize_t ignored = sendmsg(fd, &message, MSG_NOSIGNAL);
    (void)ignored; /* ignored: the client may have left */
}

static void send_frame(int fd, const struct hfi_frame *frame, const int *fds, int fd_count)
{
    unsigned char packet[HFI_FRAME_MAX];
    size_t size = hfi_frame_encode(frame, packet, sizeof(packet));
    ck_assert_uint_gt(size, 0);
    send_packet(fd, packet, size, fds, fd_count);
}

static void send_done(int fd, uint64_t request, int error)
{
    struct hfi_frame done = {.kind = HFI_FRAME_DONE, .request = request, .error = error};
    send_frame(fd, &done, NULL, 0);
}

static void send_full(struct agent *agent, int fd, uint64_t request)
{
    struct hfi_frame done = {.kind = HFI_FRAME_DONE, .request = request, .error = HF_EFULL};
    done.full = agent->full;
    send_frame(fd, &done, NULL, 0);
}

static struct hfi_text text(const char *string)
{
    return (struct hfi_text){.bytes = string, .size = (uint32_t)strlen(string)};
}

static void drop(struct agent *agent, int at)
{
    close(agent->connections[at]);
    agent->connections[at] = -1;
    agent->region_sent[at] = false;
}

static void answer_hello(struct agent *agent, int at, const struct hfi_frame *frame)
{
    struct hfi_text command = frame->hello.command;
    if (atomic_load(&agent->mood) == MOOD_OTHER) {
        send_done(agent->connections[at], frame->request, HF_EVERSION);
        return;
    }
    if (atomic_load(&agent->mood) == MOOD_FULL || atomic_load(&agent->mood) == MOOD_DISK_FULL) {
        send_done(agent->connections[at], 0, HF_EFULL);
        if (atomic_load(&agent->mood) == MOOD_DISK_FULL) {
            send_done(agent->connections[at], 0, HFI_DONE_DISK_FULL);
        } else if (agent->full.table != HFI_TABLE_UNKNOWN) {
            send_full(agent, agent->connections[at], 0);
        }
        drop(agent, at);
        return;
    }
    memcpy(agent->command, command.size > 0 ? command.bytes : "", command.size);
    agent->command[command.size] = '\0';
    bool known = frame->hello.client != 0 && frame->hello.client == frame->hello.nonce &&
                 frame->hello.nonce >= agent->nonce_first && frame->hello.nonce < agent->nonce_next;
    agent->nonces[at] = known ? frame->hello.nonce : agent->nonce_next++;
    int mood = atomic_load(&agent->mood);
    int64_t apart_ns = mood == MOOD_CLOCK ? atomic_load(&agent->clock_apart_ns) : 0;
    struct hfi_frame welcome = {
        .kind = HFI_FRAME_WELCOME,
        .request = frame->request,
        .welcome = {.version = mood == MOOD_OLD ? 1 : HFI_PROTOCOL_VERSION,
                    .client = (uint32_t)agent->nonces[at],
                    .nonce = agent->nonces[at],
                    .resumed = known,
                    .boottime_ns = (uint64_t)(now_ns(NULL) + apart_ns),
                    .session_ttl_ns = agent->ttl_ns,
                    .grace_ns = agent->ttl_ns,
                    .cell = text("test"),
                    .agent = text("fake"),
                    .store = text("00112233445566778899aabbccddeeff")},
    };
    send_frame(agent->connections[at], &welcome, NULL, 0);
}

static void send_region(struct agent *agent, int at, uint64_t request)
{
    int fd = agent->region_fd;
    int empty = -1;
    if (atomic_load(&agent->mood) == MOOD_NO_REGION) {
        empty = memfd_create("empty", MFD_CLOEXEC);
        fd = empty;
    }
    struct hfi_frame region = {
        .kind = HFI_FRAME_REGION,
        .request = request,
        .region = {.region = 3,
                   .incarnation = agent->incarnation,
                   .namespace_name = text("default")},
    };
    send_frame(agent->connections[at], &region, &fd, 1);
    agent->region_sent[at] = true;
    if (empty >= 0) {
        close(empty);
    }
}

uint32_t agent_slot(struct agent *agent, const char *name)
{
    pthread_mutex_lock(&agent->mutex);
    uint32_t slot = 0;
    while (slot < agent->name_count && strcmp(agent->names[slot], name) != 0) {
        slot++;
    }
    pthread_mutex_unlock(&agent->mutex);
    ck_assert_uint_lt(slot, agent->name_count);
    return slot;
}

uint64_t agent_word(struct agent *agent, const char *name)
{
    return atomic_load(&agent->region.words[agent_slot(agent, name)].word);
}

bool agent_evict(struct agent *agent, const char *name, int64_t closed_ns)
{
    uint32_t slot = agent_slot(agent, name);
    uint64_t word = atomic_load(&agent->region.words[slot].word);
    return hfi_evict(&agent->actor, slot, hfi_word_holder(word), hfi_token(0, word),
                     now_ns(NULL) + closed_ns);
}

static uint32_t name_slot(struct agent *agent, const struct hfi_text *name)
{
    for (uint32_t slot = 0; slot < agent->name_count; slot++) {
        if (strlen(agent->names[slot]) == name->size &&
            memcmp(agent->names[slot], name->bytes, name->size) == 0) {
            return slot;
        }
    }
    uint32_t slot = agent->name_count++;
    ck_assert_uint_lt(slot, AGENT_SLOTS);
    memcpy(agent->names[slot], name->bytes, name->size);
    ck_assert(hfi_index_put(&agent->region, slot, hfi_name_hash(name->bytes, name->size)));
    if (!atomic_load(&agent->ungranted)) {
        hfi_grant(&agent->actor, slot, HFI_GRANT_EXCLUSIVE, 1, UINT64_C(1) << 39);
    }
    return slot;
}

static uint32_t seat_give(struct agent *agent, uint32_t holder)
{
    struct agent_handle *handle = &agent->handles[holder];
    if (handle->seat != HFI_SEAT_NONE) {
        return handle->seat;
    }
    struct hfi_slot *slot = &agent->region.slots[handle->slot];
    uint32_t block = atomic_load(&slot->blocks);
    for (uint32_t at = block; at != 0; at = atomic_load(&agent->region.blocks[at - 1].next)) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint32_t seat = (at - 1) * HFI_BLOCK_SEATS + place;
            if (atomic_load(&hfi_seat(&agent->region, seat)->holder) == 0) {
                atomic_store(&hfi_seat(&agent->region, seat)->holder, holder);
                return handle->seat = seat;
            }
        }
    }
    uint32_t fresh = agent->block_used++;
    ck_assert_uint_lt(fresh, agent->region.block_count);
    atomic_store(&agent->region.blocks[fresh].slot, handle->slot + 1);
    atomic_store(&agent->region.blocks[fresh].next, block);
    atomic_store(&hfi_seat(&agent->region, fresh * HFI_BLOCK_SEATS)->holder, holder);
    atomic_store(&slot->blocks, fresh + 1);
    return handle->seat = fresh * HFI_BLOCK_SEATS;
}

static void answer_open(struct agent *agent, int at, const struct hfi_frame *frame)
{
    const struct hfi_open *open = &frame->open;
    int fd = agent->connections[at];
    int mood = atomic_load(&agent->mood);
    if (mood == MOOD_REFUSES) {
        send_done(fd, frame->request, HF_EACCES);
        return;
    }
    if (agent->full.table != HFI_TABLE_UNKNOWN) {
        send_full(agent, fd, frame->request);
        return;
    }
    pthread_mutex_lock(&agent->mutex);
    uint32_t slot = name_slot(agent, &open->name);
    uint32_t holder = open->holder;
    bool same = (open->flags & HFI_OPEN_RESUME) && holder < AGENT_HANDLES &&
                agent->handles[holder].open && agent->handles[holder].nonce == agent->nonces[at] &&
                agent->handles[holder].slot == slot && open->incarnation == agent->incarnation;
    if (!same) {
        holder = agent->holder_next++;
        ck_assert_uint_lt(holder, AGENT_HANDLES);
        agent->handles[holder] = (struct agent_handle){
            .open = true, .slot = slot, .seat = HFI_SEAT_NONE, .nonce = agent->nonces[at]};
    }
    if (open->flags & HFI_OPEN_SEAT) {
        seat_give(agent, holder);
    }
    pthread_mutex_unlock(&agent->mutex);
    if (!agent->region_sent[at]) {
        send_region(agent, at, frame->request);
    }
    struct hfi_frame opened = {
        .kind = HFI_FRAME_OPENED,
        .request = frame->request,
        .opened = {.handle = holder + 1000,
                   .region = 3,
                   .slot = mood == MOOD_WRONG_SLOT ? AGENT_SLOTS : slot,
                   .holder = holder,
                   .seat = agent->handles[holder].seat},
    };
    send_frame(fd, &opened, NULL, 0);
}

static void answer_seat(struct agent *agent, int at, const struct hfi_frame *frame)
{
    uint32_t holder = frame->seat.handle - 1000;
    pthread_mutex_lock(&agent->mutex);
    ck_assert(holder < AGENT_HANDLES && agent->handles[holder].open);
    struct hfi_frame seated = {
        .kind = HFI_FRAME_SEATED, .request = frame->request, .seated = seat_give(agent, holder)};
    if (frame->seat.flags & HFI_SEAT_SHARED) {
        atomic_fetch_or(&agent->region.words[agent->handles[holder].slot].word, HFI_W_CELLS);
    }
    pthread_mutex_unlock(&agent->mutex);
    send_frame(agent->connections[at], &seated, NULL, 0);
}

static void answer_close(struct agent *agent, const struct hfi_frame *frame)
{
    uint32_t holder = frame->handle - 1000;
    pthread_mutex_lock(&agent->mutex);
    ck_assert(holder < AGENT_HANDLES && agent->handles[holder].open);
    struct agent_handle *handle = &agent->handles[holder];
    if (handle->seat != HFI_SEAT_NONE) {
        atomic_store(&hfi_seat(&agent->region, handle->seat)->holder, 0);
    }
    handle->open = false;
    pthread_mutex_unlock(&agent->mutex);
    atomic_fetch_add(&agent->closes, 1);
}

/* Answers with pages of three locks each, so that a listing takes several pages. */
static void answer_list(struct agent *agent, int at, const struct hfi_frame *frame)
{
    unsigned char packet[HFI_FRAME_MAX];
    struct hfi_listed_builder builder;
    bool show = frame->kind == HFI_FRAME_SHOW;
    struct hfi_text prefix = show ? frame->text : frame->list.prefix;
    uint32_t told = 0;
    bool more = false;
    hfi_listed_begin(&builder, packet, sizeof(packet), frame->request);
    pthread_mutex_lock(&agent->mutex);
    for (uint32_t slot = 0; slot < agent->name_count; slot++) {
        /* the tests open names in byte order, so slots follow that order */
        const char *name = agent->names[slot];
        char after[256] = "";
        if (!show) {
            memcpy(after, frame->list.after.bytes, frame->list.after.size);
        }
        if (strncmp(name, prefix.bytes, prefix.size) != 0 ||
            (show && strlen(name) != prefix.size) || strcmp(name, after) <= 0) {
            continue;
        }
        if (told == 3) {
            more = true;
            break;
        }
        struct hfi_party_frame parties[] = {
            {.pid = 4711,
             .uid = -1,
             .elapsed_ns = 5,
             .remaining_ns = 7,
             .token = 9,
             .mode = HF_SHARED,
             .agent = text("fake"),
             .command = text("sleep 1")},
            {.pid = 4712, .token = 9, .mode = HF_SHARED, .command = text("sleep 2")},
            {.pid = 4713, .mode = HF_EXCLUSIVE},
            {.pid = 4714, .mode = HF_SHARED},
        };
        struct hfi_lock_frame lock = {.name = text(name),
                                      .state = HF_STATE_SHARED,
                                      .coordinator = text("fake"),
                                      .holder_count = 2,
                                      .waiter_count = 2};
        struct hfi_behind_frame behind = {.ending = (uint32_t)atomic_load(&agent->closed) - 1,
                                          .elapsed_ns = INT64_C(1700000000),
                                          .pid = 4715,
                                          .uid = -1,
                                          .agent = text("gone"),
                                          .command = text("sleep 3"),
                                          .by_uid = UINT32_MAX - 7,
                                          .by_agent = text("other")};
        if (atomic_load(&agent->noted)) {
            parties[0].note = text("trial 7");
            behind.note = text("trial 8");
        }
        if (atomic_load(&agent->closed) != 0) {
            lock.state = HF_STATE_FREE;
            lock.closed_ns = INT64_C(2300000000);
            lock.holder_count = 0;
            lock.waiter_count = 1;
            lock.behind = atomic_load(&agent->closed) < 0 ? NULL : &behind;
        }
        ck_assert(hfi_listed_add(&builder, &lock, parties));
        told++;
    }
    pthread_mutex_unlock(&agent->mutex);
    send_packet(agent->connections[at], packet, hfi_listed_finish(&builder, more), NULL, 0);
}

/* Answers with pages of one lock each that repeat for ever: a, b, a, b ... */
static void answer_in_circles(struct agent *agent, int at, const struct hfi_frame *frame)
{
    unsigned char packet[HFI_FRAME_MAX];
    struct hfi_listed_builder builder;
    struct hfi_text after = frame->list.after;
    bool last_was_a = after.size == 1 && after.bytes[0] == 'a';
    struct hfi_lock_frame lock = {.name = text(last_was_a ? "b" : "a"), .state = HF_STATE_FREE};
    hfi_listed_begin(&builder, packet, sizeof(packet), frame->request);
    ck_assert(hfi_listed_add(&builder, &lock, NULL));
    send_packet(agent->connections[at], packet, hfi_listed_finish(&builder, true), NULL, 0);
}

static void answer_status(struct agent *agent, int at, uint64_t request)
{
    struct hfi_frame stated = {
        .kind = HFI_FRAME_STATED,
        .request = request,
        .stated = {.agent = text("fake"),
                   .cell = text("test"),
                   .role = text("voter"),
                   .version = text("0.1.0"),
                   .session_state = (uint8_t)atomic_load(&agent->session_state),
                   .session_epoch = 1,
                   .session_remaining_ns = 5,
                   .voter_count = 2},
    };
    stated.stated.voters[0] = (struct hfi_voter_frame){
        .name = text("fake"), .address = text(""), .state = HF_VOTER_UP};
    stated.stated.voters[1] = (struct hfi_voter_frame){
        .name = text("other"),
        .address = text("tcp://b:1"),
        .state = atomic_load(&agent->closed) != 0 ? HF_VOTER_UP : HF_VOTER_DOWN};
    send_frame(agent->connections[at], &stated, NULL, 0);
}

static void answer_facts(struct agent *agent, int at, uint64_t request)
{
    unsigned char packet[HFI_FRAME_MAX];
    struct hfi_facts_builder told;
    struct hfi_fact_frame facts[] = {
        {.key = text("first"), .value = -7},
        {.subject = text("fake"), .key = text("second"), .value = 8, .text = text("words")},
    };
    hfi_facts_begin(&told, packet, sizeof(packet), request);
    ck_assert(hfi_facts_add(&told, &facts[0]) && hfi_facts_add(&told, &facts[1]));
    send_packet(agent->connections[at], packet, hfi_facts_finish(&told), NULL, 0);
}

static void answer_backup(struct agent *agent, int at, uint64_t request)
{
    unsigned char packet[HFI_FRAME_MAX];
    struct hfi_facts_builder told;
    struct hfi_fact_frame facts[] = {
        {.key = text("stage"), .value = atomic_load(&agent->backup), .text = text("no room")},
        {.key = text("total"), .value = 300},
        {.key = text("of_a_later_release"), .value = 1},
        {.key = text("locks"), .value = 412},
    };
    int fd = memfd_create("copy", MFD_CLOEXEC);
    hfi_facts_begin(&told, packet, sizeof(packet), request);
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        ck_assert(hfi_facts_add(&told, &facts[i]));
    }
    ck_assert_int_eq(write(fd, "copy", 4), 4);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    send_packet(agent->connections[at], packet, hfi_facts_finish(&told), &fd,
                atomic_load(&agent->backup_fd) ? 1 : 0);
    close(fd);
}

/* Reports two ended holds, five more without a description, and one agent that has not answered. */
static void answer_break(struct agent *agent, int at, uint64_t request)
{
    unsigned char packet[HFI_FRAME_MAX];
    const struct hfi_party_frame holds[] = {
        {.pid = 7,
         .uid = 8,
         .elapsed_ns = 9,
         .token = 10,
         .mode = HF_SHARED,
         .agent = {"host-a", 6},
         .command = {"job", 3}},
        {.pid = -1, .uid = -1, .elapsed_ns = -1, .token = 11, .agent = {"host-b", 6}}};
    const struct hfi_text silent[] = {{"host-c", 6}};
    const struct hfi_broken_frame broken = {.error = atomic_load(&agent->break_error),
                                            .closed_ns = 12,
                                            .more = 5,
                                            .hold_count = 2,
                                            .silent_count = 1};
    if (agent->full.table != HFI_TABLE_UNKNOWN) {
        send_full(agent, agent->connections[at], request);
        return;
    }
    send_packet(agent->connections[at], packet,
                hfi_broken_encode(&broken, holds, silent, request, packet, sizeof(packet)), NULL,
                0);
}

/* Answers that the change is chosen, and that the next change has to wait for "other". */
static void answer_member(struct agent *agent, int at, uint64_t request)
{
    const struct hfi_frame membered = {.kind = HFI_FRAME_MEMBERED,
                                       .request = request,
                                       .membered = {.stage = HF_MEMBER_CHOSEN,
                                                    .reason = HF_MEMBER_SILENT,
                                                    .subject = text("other"),
                                                    .number = 3,
                                                    .done = 1,
                                                    .total = 2}};
    send_frame(agent->connections[at], &membered, NULL, 0);
}

static void answer_note(struct agent *agent, int at, const struct hfi_frame *frame)
{
    int mood = atomic_load(&agent->mood);
    atomic_fetch_add(&agent->notes, 1);
    if (mood == MOOD_NOTELESS) {
        send_done(agent->connections[at], 0, HF_EPROTO);
        drop(agent, at);
        return;
    }
    pthread_mutex_lock(&agent->mutex);
    memcpy(agent->note, frame->note.note.bytes, frame->note.note.size);
    agent->note[frame->note.note.size] = '\0';
    pthread_mutex_unlock(&agent->mutex);
    atomic_store(&agent->note_flags, frame->note.flags);
    send_done(agent->connections[at], frame->request, mood == MOOD_NO_ROOM ? HF_EFULL : 0);
}

static void answer_good(struct agent *agent, int at, const struct hfi_frame *frame)
{
    switch (frame->kind) {
    case HFI_FRAME_HELLO:
        answer_hello(agent, at, frame);
        break;
    case HFI_FRAME_OPEN:
        atomic_store(&agent->lock_delay_ns, frame->open.lock_delay_ns);
        answer_open(agent, at, frame);
        break;
    case HFI_FRAME_SEAT:
        answer_seat(agent, at, frame);
        break;
    case HFI_FRAME_CLOSE:
        answer_close(agent, frame);
        break;
    case HFI_FRAME_NOTE:
        answer_note(agent, at, frame);
        break;
    case HFI_FRAME_MAP:
        send_region(agent, at, frame->request);
        send_done(agent->connections[at], frame->request, 0);
        break;
    case HFI_FRAME_CHECK:
        send_done(agent->connections[at], frame->request, HF_ESTALE);
        break;
    case HFI_FRAME_LIST:
    case HFI_FRAME_SHOW:
        answer_list(agent, at, frame);
        break;
    case HFI_FRAME_BACKUP:
        answer_backup(agent, at, frame->request);
        break;
    case HFI_FRAME_FACTS:
        answer_facts(agent, at, frame->request);
        break;
    case HFI_FRAME_BREAK:
        answer_break(agent, at, frame->request);
        break;
    case HFI_FRAME_MEMBER:
        answer_member(agent, at, frame->request);
        break;
    case HFI_FRAME_STATUS:
        answer_status(agent, at, frame->request);
        break;
    default:
        send_done(agent->connections[at], frame->request, 0);
        break;
    }
}

/* Sends a POKE if a polled waiter may go on, as the real agent does when it looks at a lock. */
static void poke_polled(struct agent *agent)
{
    const struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    for (uint32_t seat = 0; seat < agent->region.block_count * HFI_BLOCK_SEATS; seat++) {
        uint32_t slot = atomic_load(&agent->region.blocks[seat / HFI_BLOCK_SEATS].slot);
        if (slot > 0 && hfi_polled_may_go_on(&agent->region, slot - 1, seat)) {
            agent_send(agent, &poke);
            return;
        }
    }
}

static void answer(struct agent *agent, int at, const struct hfi_frame *frame)
{
    int fd = agent->connections[at];
    if (frame->kind == HFI_FRAME_RING) {
        atomic_fetch_add(&agent->rings, 1);
        poke_polled(agent);
        return;
    }
    atomic_fetch_add(&agent->requests, 1);
    atomic_store(&agent->last_kind, frame->kind);
    switch (atomic_load(&agent->mood)) {
    case MOOD_RUBBISH:
        send_packet(fd, "\x93\xff rubbish", 10, NULL, 0);
        break;
    case MOOD_WRONG_KIND:
        answer_status(agent, at, frame->request);
        break;
    case MOOD_WRONG_NUMBER:
        send_done(fd, frame->request + 1, 0);
        break;
    case MOOD_SILENT:
        break;
    case MOOD_IN_CIRCLES:
        answer_in_circles(agent, at, frame);
        break;
    default:
        answer_good(agent, at, frame);
        break;
    }
}

static void serve(struct agent *agent, int at)
{
    unsigned char packet[HFI_FRAME_MAX];
    char control[CMSG_SPACE(4 * sizeof(int))];
    struct iovec part = {.iov_base = packet, .iov_len = sizeof(packet)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t size = recvmsg(agent->connections[at], &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size <= 0) {
        drop(agent, at);
        return;
    }
    if (CMSG_FIRSTHDR(&message) != NULL) {
        fprintf(stderr, "client sent a descriptor\n");
        abort(); /* an agent accepts no descriptors */
    }
    struct hfi_frame frame;
    struct hfi_frame_error error;
    if (hfi_frame_decode(packet, (size_t)size, &frame, NULL, &error) != 0) {
        fprintf(stderr, "client sent: %s\n", error.text);
        abort(); /* libholdfast never sends what its own decoder refuses */
    }
    answer(agent, at, &frame);
}

static void accept_client(struct agent *agent)
{
    int fd = accept4(agent->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (int at = 0; fd >= 0 && at < AGENT_CONNECTIONS; at++) {
        if (agent->connections[at] < 0) {
            agent->connections[at] = fd;
            return;
        }
    }
    close(fd);
}

static void *agent_run(void *arg)
{
    struct agent *agent = arg;
    for (;;) {
        struct pollfd polled[AGENT_CONNECTIONS + 2];
        polled[0] = (struct pollfd){.fd = agent->stop_fd, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = agent->listen_fd, .events = POLLIN};
        for (int at = 0; at < AGENT_CONNECTIONS; at++) {
            polled[at + 2] = (struct pollfd){.fd = agent->connections[at], .events = POLLIN};
        }
        if (atomic_load(&agent->renews)) {
            agent_publish(agent, agent->ttl_ns);
        }
        poll(polled, AGENT_CONNECTIONS + 2, RENEW_MS);
        if (polled[0].revents != 0) {
            return NULL;
        }
        if (polled[1].revents != 0) {
            accept_client(agent);
        }
        for (int at = 0; at < AGENT_CONNECTIONS; at++) {
            if (polled[at + 2].fd >= 0 && polled[at + 2].revents != 0) {
                serve(agent, at);
            }
        }
    }
}

void agent_send(struct agent *agent, const struct hfi_frame *frame)
{
    for (int at = 0; at < AGENT_CONNECTIONS; at++) {
        if (agent->connections[at] >= 0) {
            send_frame(agent->connections[at], frame, NULL, 0);
        }
    }
}

static void agent_listen(struct agent *agent)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, agent->path, sizeof(agent->path));
    unlink(agent->path);
    agent->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(bind(agent->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(agent->listen_fd, 16), 0);
    agent->stop_fd = eventfd(0, EFD_CLOEXEC);
    for (int at = 0; at < AGENT_CONNECTIONS; at++) {
        agent->connections[at] = -1;
        agent->region_sent[at] = false;
    }
    ck_assert_int_eq(pthread_create(&agent->thread, NULL, agent_run, agent), 0);
}

void agent_create(struct agent *agent, int64_t ttl_ns)
{
    memset(agent, 0, sizeof(*agent));
    pthread_mutex_init(&agent->mutex, NULL);
    snprintf(agent->dir, sizeof(agent->dir), "%s/lib-XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(agent->dir));
    snprintf(agent->path, sizeof(agent->path), "%s/agent.sock", agent->dir);
    struct hfi_region_sizes sizes = {
        .slot_count = AGENT_SLOTS, .holder_count = AGENT_HANDLES, .block_count = 64};
    struct hfi_region_identity identity = {
        .cell = "test", .agent = "fake", .namespace_name = "default", .grace_ns = (uint64_t)ttl_ns};
    uint64_t size = hfi_region_size(&sizes);
    agent->region_fd = memfd_create("region", MFD_CLOEXEC);
    ck_assert_int_eq(ftruncate(agent->region_fd, (off_t)size), 0);
    agent->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, agent->region_fd, 0);
    ck_assert_ptr_ne(agent->memory, MAP_FAILED);
    hfi_region_format(agent->memory, &sizes, &identity);
    ck_assert_ptr_null(hfi_region_attach(agent->memory, size, &agent->region));
    agent->kernel = (struct hfi_kernel){
        .sleep = kernel_sleep, .wake = kernel_wake, .now_ns = now_ns, .ring = kernel_ring};
    agent->actor = (struct hfi_actor){
        .region = &agent->region, .kernel = &agent->kernel, .holder = HFI_HOLDER_AGENT};
    agent->ttl_ns = ttl_ns;
    atomic_store(&agent->clock_apart_ns, INT64_C(3600000000000));
    agent->holder_next = 1;
    agent->nonce_first = agent->nonce_next = 1;
    agent->incarnation = 77;
    atomic_store(&agent->epoch, 1);
    atomic_store(&agent->renews, true);
    agent_publish(agent, ttl_ns);
    agent_listen(agent);
}

void agent_stop(struct agent *agent)
{
    uint64_t one = 1;
    ck_assert_int_eq(write(agent->stop_fd, &one, sizeof(one)), sizeof(one));
    pthread_join(agent->thread, NULL);
    for (int at = 0; at < AGENT_CONNECTIONS; at++) {
        if (agent->connections[at] >= 0) {
            drop(agent, at);
        }
    }
    close(agent->listen_fd);
    close(agent->stop_fd);
    unlink(agent->path);
}

void agent_start(struct agent *agent, bool remember)
{
    if (!remember) {
        for (uint32_t slot = 0; slot < agent->name_count; slot++) {
            hfi_revoke(&agent->actor, slot, HFI_GRANT_EXCLUSIVE);
        }
        for (uint32_t holder = 0; holder < AGENT_HANDLES; holder++) {
            agent->handles[holder].open = false;
        }
        agent->nonce_first = agent->nonce_next;
        atomic_fetch_add(&agent->epoch, 1);
    }
    if (atomic_load(&agent->renews)) {
        agent_publish(agent, agent->ttl_ns);
    }
    agent_listen(agent);
}

void agent_destroy(struct agent *agent)
{
    agent_stop(agent);
    rmdir(agent->dir);
    munmap(agent->memory, agent->region.size);
    close(agent->region_fd);
    pthread_mutex_destroy(&agent->mutex);
}

/* For the C++ test: C++ does not know the C atomics in struct agent. */
struct agent *agent_new(int64_t ttl_ns)
{
    struct agent *agent = malloc(sizeof(*agent));
    ck_assert_ptr_nonnull(agent);
    agent_create(agent, ttl_ns);
    return agent;
}

const char *agent_path(const struct agent *agent)
{
    return agent->path;
}

void agent_delete(struct agent *agent)
{
    agent_destroy(agent);
    free(agent);
}
