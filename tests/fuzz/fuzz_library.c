/*
 * The library between a hostile agent and a hostile region. The whole of libclient runs in one
 * thread. The input plays the agent: its frames and descriptors are right or wrong, or do not come.
 * Before any atomic operation another process may change the region. The fuzzer also has its own
 * clock. No call may crash, hang or leak a descriptor, and each call returns a defined code.
 *
 * An input is a sequence of calls. The agent's answer to each request is drawn from the input, too.
 */
#include "draw.h"
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "holdfast/admin.h"
#include "library_calls.h"
#undef syscall /* system calls that do not go to the agent are real */
#include "proto/check.h"
#include "proto/frame.h"
#include "proto/lockword.h"

enum { INPUT_MAX = 1024, CALLS_MAX = 120, SLOTS = 4, HOLDERS = 8, BLOCKS = 4, LOCKS = 5 };
enum { PACKETS = 16, FDS = 3, STRIKES = 6 };
#define MS INT64_C(1000000)

void sim_point(void);

struct packet {
    size_t size;
    uint32_t fd_count;
    int fds[FDS];
    uint8_t bytes[HFI_FRAME_MAX];
};

struct strike {
    uint32_t offset;
    uint64_t value;
};

static struct {
    struct draw draw;
    int64_t now_ns;
    int region_fd;
    int other_fd;
    uint8_t *memory; /* the agent's mapping of the region */
    struct hfi_region region;
    struct packet packets[PACKETS];
    uint32_t first;
    uint32_t last;
    bool hung_up;
    bool region_sent;
    uint32_t handles;
    uint64_t sleeps;
    struct strike strikes[STRIKES];
    uint32_t strike_count;
} world;

/* ---- the region ---- */

static void strike(const struct strike *what)
{
    memcpy(world.memory + what->offset / 8 * 8, &what->value, 8);
}

void sim_point(void)
{
    if (world.strike_count > 0) {
        strike(&world.strikes[--world.strike_count]);
    }
}

static struct strike draw_strike(void)
{
    const struct hfi_region *region = &world.region;
    const uint8_t *parts[] = {(const uint8_t *)region->words, (const uint8_t *)region->slots,
                              (const uint8_t *)region->blocks,
                              (const uint8_t *)&region->header->lease};
    static const uint32_t sizes[] = {SLOTS * 64, SLOTS * 48, BLOCKS * 512, 80};
    uint8_t what = draw_byte(&world.draw);
    uint32_t at = draw_below(&world.draw, sizes[what % 4]);
    struct strike made = {.value = draw_number(&world.draw)};
    if (what % 4 == 0) {
        at = at / 64 * 64;
        made.value = what & 64 ? made.value << 40 | draw_byte(&world.draw) : made.value;
    } else if (what % 4 == 3 && what & 32) { /* a lease in the form that an agent publishes */
        at = 0;
        made.value = hfi_lease(world.now_ns + (what & 64 ? -MS : 5000 * MS), 1 + (what >> 7));
    }
    made.offset = (uint32_t)(parts[what % 4] - world.memory) + at;
    return made;
}

static void kernel_nothing(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    (void)word;
    (void)count;
}

static int64_t kernel_now(void *arg)
{
    (void)arg;
    return world.now_ns;
}

/* ---- the kernel as the library sees it ---- */

static void pass(int64_t duration_ns)
{
    HF_CHECK(++world.sleeps < 100000); /* the limit is for one call of the library */
    world.now_ns += duration_ns > 0 && duration_ns < 1000 * MS ? duration_ns : MS;
}

int fuzz_clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    world.now_ns += 100000; /* time passes, so that a loop that only reads the clock reaches its
                             * deadline */
    *out = (struct timespec){.tv_sec = world.now_ns / 1000000000,
                             .tv_nsec = world.now_ns % 1000000000};
    return 0;
}

int fuzz_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                         struct timespec *left)
{
    (void)clock;
    (void)flags;
    (void)left;
    int64_t until_ns = until->tv_sec * INT64_C(1000000000) + until->tv_nsec;
    pass(until_ns - world.now_ns);
    return 0;
}

long fuzz_syscall(long number, ...)
{
    va_list arguments;
    HF_CHECK(number == SYS_futex);
    va_start(arguments, number);
    (void)va_arg(arguments, void *);
    int operation = va_arg(arguments, int);
    va_end(arguments);
    if ((operation & FUTEX_CMD_MASK) == FUTEX_WAIT) {
        if (draw_byte(&world.draw) % 4 == 0) { /* during the sleep another process may change the
                                                * region */
            struct strike made = draw_strike();
            strike(&made);
        }
        pass(20 * MS);
    }
    return 0;
}

int fuzz_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    (void)fd;
    HF_CHECK(address->sa_family == AF_UNIX && size <= sizeof(struct sockaddr_storage));
    if (draw_byte(&world.draw) == 255) {
        errno = ECONNREFUSED;
        return -1;
    }
    world.hung_up = false;
    world.region_sent = false;
    return 0;
}

static void drop_packets(void)
{
    for (; world.first != world.last; world.first++) {
        struct packet *packet = &world.packets[world.first % PACKETS];
        for (uint32_t i = 0; i < packet->fd_count; i++) {
            close(packet->fds[i]);
        }
    }
}

int fuzz_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
               const sigset_t *mask)
{
    (void)fds;
    (void)mask;
    HF_CHECK(count == 1 && timeout != NULL);
    if (world.first != world.last || world.hung_up) {
        return 1;
    }
    pass(timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec);
    return 0;
}

ssize_t fuzz_recvmsg(int fd, struct msghdr *message, int flags)
{
    (void)fd;
    (void)flags;
    if (world.first == world.last) {
        if (world.hung_up) {
            message->msg_controllen = 0;
            return 0;
        }
        errno = EAGAIN;
        return -1;
    }
    struct packet *packet = &world.packets[world.first++ % PACKETS];
    size_t size = packet->size < message->msg_iov->iov_len ? packet->size
                                                           : message->msg_iov->iov_len;
    memcpy(message->msg_iov->iov_base, packet->bytes, size);
    message->msg_flags = size < packet->size ? MSG_TRUNC : 0;
    if (packet->fd_count == 0) {
        message->msg_controllen = 0;
        return (ssize_t)size;
    }
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    HF_CHECK(message->msg_controllen >= CMSG_SPACE(FDS * sizeof(int)));
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(packet->fd_count * sizeof(int));
    memcpy(CMSG_DATA(header), packet->fds, packet->fd_count * sizeof(int));
    message->msg_controllen = CMSG_SPACE(packet->fd_count * sizeof(int));
    return (ssize_t)size;
}

/* ---- the agent ---- */

static struct packet *add_packet(void)
{
    if (world.last - world.first == PACKETS) {
        return NULL;
    }
    struct packet *packet = &world.packets[world.last++ % PACKETS];
    packet->size = 0;
    packet->fd_count = 0;
    return packet;
}

static void attach(struct packet *packet, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    HF_CHECK(copy >= 0);
    packet->fds[packet->fd_count++] = copy;
}

/* Makes the agent send a frame. The input may change the frame. */
static void say(const struct hfi_frame *frame, int first_fd, int second_fd)
{
    struct packet *packet = add_packet();
    uint8_t what = draw_byte(&world.draw);
    if (packet == NULL) {
        return;
    }
    packet->size = hfi_frame_encode(frame, packet->bytes, sizeof(packet->bytes));
    if (packet->size == 0) { /* the frame has a number that cannot be encoded */
        packet->size = 1;
        packet->bytes[0] = what;
    }
    if (first_fd >= 0 && what != 200) {
        attach(packet, what == 201 ? world.other_fd : first_fd);
    }
    if (second_fd >= 0 && what != 202) {
        attach(packet, second_fd);
    }
    if (what == 203) {
        attach(packet, world.other_fd);
    }
    for (uint32_t changes = what >= 204 ? what % 4 + 1u : 0; changes > 0; changes--) {
        packet->bytes[draw_byte(&world.draw) % packet->size] = draw_byte(&world.draw);
    }
}

static struct hfi_text text(const char *string)
{
    return (struct hfi_text){string, (uint32_t)strlen(string)};
}

static void say_done(uint64_t request)
{
    uint8_t what = draw_byte(&world.draw);
    struct hfi_frame done = {.kind = HFI_FRAME_DONE, .request = request};
    done.error = what < 160 ? 0 : -(int32_t)(what % 19);
    say(&done, -1, -1);
}

static void say_welcome(const struct hfi_frame *hello)
{
    uint8_t what = draw_byte(&world.draw);
    struct hfi_frame welcome = {.kind = HFI_FRAME_WELCOME, .request = hello->request};
    welcome.welcome = (struct hfi_welcome){.version = HFI_PROTOCOL_VERSION,
                                           .client = 1 + what % 4,
                                           .nonce = 7,
                                           .resumed = hello->hello.client != 0 && what & 8,
                                           .boottime_ns = (uint64_t)world.now_ns,
                                           .session_ttl_ns = 5000 * MS,
                                           .grace_ns = 5000 * MS,
                                           .cell = text("fuzz"),
                                           .agent = text("a"),
                                           .store = text("00112233445566778899aabbccddeeff")};
    if (what > 240) {
        welcome.welcome.boottime_ns = draw_number(&world.draw);
        welcome.welcome.session_ttl_ns = (int64_t)draw_number(&world.draw);
        welcome.welcome.grace_ns = (int64_t)draw_number(&world.draw);
    }
    say(&welcome, -1, -1);
}

static void say_region(uint64_t request)
{
    uint8_t what = draw_byte(&world.draw);
    struct hfi_frame region = {.kind = HFI_FRAME_REGION, .request = request};
    int second = what == 248 ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1; /* 248: one
                                                                             * descriptor more
                                                                             * than the frame
                                                                             * should have */
    region.region = (struct hfi_region_frame){.region = what > 250 ? 2 : 1,
                                              .incarnation = 9 + (what > 252),
                                              .namespace_name = text("default")};
    say(&region, what == 249 ? world.other_fd : world.region_fd, second);
    if (second >= 0) {
        close(second);
    }
    world.region_sent = true;
}

static void say_opened(const struct hfi_frame *open)
{
    uint8_t what = draw_byte(&world.draw);
    struct hfi_frame opened = {.kind = HFI_FRAME_OPENED, .request = open->request};
    uint32_t slot = what % SLOTS;
    uint32_t holder = 1 + world.handles % (HOLDERS - 1);
    if (!world.region_sent || what > 240) {
        say_region(open->request);
    }
    opened.opened = (struct hfi_opened){.handle = ++world.handles,
                                        .region = 1,
                                        .slot = slot,
                                        .holder = holder,
                                        .seat = slot * HFI_BLOCK_SEATS + holder - 1};
    if (what & 64 && !(open->open.flags & HFI_OPEN_SEAT)) {
        opened.opened.seat = HFI_SEAT_NONE;
    }
    if (what >= 248) {
        opened.opened.slot = (uint32_t)draw_number(&world.draw);
        opened.opened.seat = (uint32_t)draw_number(&world.draw);
        opened.opened.holder = (uint32_t)draw_number(&world.draw);
        opened.opened.region = what & 1 ? 1 : 77;
    }
    say(&opened, -1, -1);
}

static void say_page(uint64_t request)
{
    struct packet *packet = add_packet();
    struct hfi_listed_builder builder;
    struct hfi_party_frame parties[5] = {{.pid = 1, .uid = 2, .token = 3, .agent = text("a")}};
    struct hfi_lock_frame lock = {
        .name = text("n/1"), .state = HF_STATE_EXCLUSIVE, .holder_count = 1};
    uint8_t what = draw_byte(&world.draw);
    if (packet == NULL) {
        return;
    }
    lock.coordinator = text(what & 1 ? "a" : "");
    lock.waiter_count = what & 32 ? 4 : 0;
    for (uint32_t i = 1; i <= lock.waiter_count; i++) {
        parties[i] = (struct hfi_party_frame){.mode = HF_SHARED, .command = text("sleep 60")};
    }
    parties[0].note = text(what & 16 ? "a note" : "");
    hfi_listed_begin(&builder, packet->bytes, sizeof(packet->bytes), request);
    for (uint32_t i = 0; i < what % 4u; i++) {
        (void)!hfi_listed_add(&builder, &lock, parties);
    }
    packet->size = hfi_listed_finish(&builder, what >= 128);
    if (what & 64) {
        packet->bytes[draw_byte(&world.draw) % packet->size] = draw_byte(&world.draw);
    }
}

static void say_facts(uint64_t request)
{
    static const char *const keys[] = {"round_trip_ns", "up", "address"};
    struct packet *packet = add_packet();
    struct hfi_facts_builder builder;
    uint8_t what = draw_byte(&world.draw);
    if (packet == NULL) {
        return;
    }
    hfi_facts_begin(&builder, packet->bytes, sizeof(packet->bytes), request);
    for (uint32_t i = 0; i < what % 8u * 40; i++) { /* sometimes more facts than a packet can
                                                     * hold */
        struct hfi_fact_frame fact = {.subject = text(i % 2 != 0 ? "host-b" : ""),
                                      .key = text(keys[i % 3]),
                                      .value = (int64_t)((uint64_t)i << what % 64),
                                      .text = text(what & 8 ? "tcp://10.0.0.1:7411" : "")};
        (void)!hfi_facts_add(&builder, &fact);
    }
    packet->size = hfi_facts_finish(&builder);
    if (what & 64) {
        packet->bytes[draw_byte(&world.draw) % packet->size] = draw_byte(&world.draw);
    }
}

static void say_unasked(void)
{
    struct hfi_frame frame = {.kind = draw_bool(&world.draw) ? HFI_FRAME_CHANGED : HFI_FRAME_POKE};
    frame.text = frame.kind == HFI_FRAME_CHANGED ? text("n/1") : (struct hfi_text){0};
    say(&frame, -1, -1);
}

static void answer(const struct hfi_frame *asked)
{
    struct hfi_frame frame = {.request = asked->request};
    switch ((int)asked->kind) {
    case HFI_FRAME_HELLO:
        say_welcome(asked);
        break;
    case HFI_FRAME_OPEN:
        say_opened(asked);
        break;
    case HFI_FRAME_SEAT:
        frame.kind = HFI_FRAME_SEATED;
        frame.seated = draw_byte(&world.draw) % (BLOCKS * HFI_BLOCK_SEATS + 2);
        say(&frame, -1, -1);
        break;
    case HFI_FRAME_LIST:
    case HFI_FRAME_SHOW:
        say_page(asked->request);
        break;
    case HFI_FRAME_STATUS:
        frame.kind = HFI_FRAME_STATED;
        frame.stated = (struct hfi_stated){
            .agent = text("a"), .cell = text("c"), .role = text("voter"), .version = text("1")};
        frame.stated.session_remaining_ns = (int64_t)draw_number(&world.draw);
        say(&frame, -1, -1);
        break;
    case HFI_FRAME_FACTS:
        say_facts(asked->request);
        break;
    case HFI_FRAME_MAP:
        say_region(asked->request);
        say_done(asked->request);
        break;
    case HFI_FRAME_CLOSE:
    case HFI_FRAME_BYE:
    case HFI_FRAME_RING:
        break;
    default:
        say_done(asked->request);
    }
}

ssize_t fuzz_send(int fd, const void *bytes, size_t size, int flags)
{
    struct hfi_frame asked;
    struct hfi_frame_error error;
    uint8_t what = draw_byte(&world.draw);
    (void)fd;
    (void)flags;
    /* The library sends only well-formed frames. */
    HF_CHECK(hfi_frame_decode(bytes, size, &asked, NULL, &error) == 0);
    HF_CHECK(asked.kind < HFI_FRAME_WELCOME);
    if (what == 255) {
        errno = EPIPE;
        return -1;
    }
    if (what >= 240) {
        say_unasked();
    }
    if (what == 239) {
        world.hung_up = true;
    } else if (what != 238) { /* 238: the agent sends nothing */
        answer(&asked);
    }
    if (what == 237) { /* 237: the agent sends its answer twice */
        answer(&asked);
    }
    return (ssize_t)size;
}

/* ---- the program that calls the library ---- */

struct program {
    hf_client *client;
    hf_lock *locks[LOCKS];
};

static void check_code(int code)
{
    HF_CHECK(code <= 0 && hf_strerror(code) != NULL); /* an unknown code of a later agent has a
                                                       * text, too */
}

static int on_lock(const struct hf_lock_info *info, void *arg)
{
    (void)arg;
    HF_CHECK(info->name != NULL && strlen(info->name) <= 255);
    for (size_t i = 0; i < info->holder_count; i++) {
        HF_CHECK(info->holders[i]->command == NULL || strlen(info->holders[i]->command) <= 255);
    }
    return 0;
}

static void on_status(const struct hf_status *status, void *arg)
{
    (void)arg;
    HF_CHECK(strlen(status->agent) <= 32 && status->voter_count <= HFI_FRAME_VOTERS_MAX);
}

static int on_fact(const struct hf_fact *fact, void *arg)
{
    (void)arg;
    HF_CHECK(fact->subject == NULL || strlen(fact->subject) <= HFI_LABEL_MAX);
    HF_CHECK(fact->key != NULL && strlen(fact->key) <= 64);
    HF_CHECK(fact->text == NULL || strlen(fact->text) <= HFI_FRAME_COMMAND_MAX);
    return 0;
}

static void open_lock(struct program *program, uint32_t at, uint8_t more)
{
    static const char *const names[] = {"n/1", "a", "a", "", "\xc3\xa4", "\xff"};
    struct hf_lock_options options = {.size = sizeof(options), .flags = more & 3};
    options.lease_ns = more & 4 ? 30 * MS : 0;
    options.max_stall_ns = more & 8 ? 50 * MS : 0;
    if (program->locks[at] == NULL) {
        int code = hf_open(program->client, names[(more >> 4) % 6], &options, &program->locks[at]);
        check_code(code);
        if (code != 0) {
            program->locks[at] = NULL;
        }
    }
}

static void acquire(const struct program *program, hf_lock *lock, uint8_t more)
{
    struct hf_hold holds[LOCKS];
    hf_lock *locks[2] = {lock, program->locks[more % LOCKS]};
    enum hf_mode mode = more & 8 ? HF_SHARED : HF_EXCLUSIVE;
    int64_t timeout_ns = more & 16 ? 100 * MS : 0;
    if (more & 128 && locks[1] != NULL) {
        check_code(hf_acquire_all(locks, 2, mode, timeout_ns, holds));
    } else if (more & 64) {
        check_code(hf_acquire_start(lock, mode, timeout_ns));
    } else {
        check_code(hf_acquire(lock, mode, timeout_ns, holds));
    }
}

static void use_lock(const struct program *program, hf_lock *lock, uint8_t what, uint8_t more)
{
    char buffer[HF_SEQUENCER_MAX];
    switch (what % 8) {
    case 0:
    case 1:
    case 2:
        acquire(program, lock, more);
        break;
    case 3:
        check_code(hf_release(lock));
        break;
    case 4:
        check_code(hf_downgrade(lock));
        break;
    case 5:
        check_code(hf_progress(lock));
        (void)hf_remaining_ns(lock);
        break;
    case 6:
        check_code(hf_sequencer(lock, buffer, sizeof(buffer) >> more % 8));
        break;
    default:
        check_code(hf_cancel(lock));
    }
}

static void use_client(struct program *program, uint8_t more)
{
    static const char *const sequencers[] = {"hf1/fuzz/x/5/a.1.2/n/1", "hf1/fuzz/s/5/a.1.2.3.9/a",
                                             "rubbish", ""};
    struct hf_event event;
    hf_client *client = program->client;
    switch (more % 11) {
    case 0:
        (void)hf_event_fd(client);
        break;
    case 1:
    case 2:
        HF_CHECK(hf_next_event(client, &event) <= 1);
        break;
    case 3:
        check_code(hf_watch(client, more & 64 ? "" : "n/"));
        break;
    case 4:
        check_code(hf_list(client, "", on_lock, NULL));
        break;
    case 5:
        check_code(hf_show(client, "n/1", on_lock, NULL));
        break;
    case 6:
        check_code(hf_status(client, on_status, NULL));
        break;
    case 7:
        check_code(hf_check_sequencer(client, sequencers[more / 64]));
        break;
    case 8:
        check_code(hf_check_sequencer_local(client, sequencers[more / 64]));
        break;
    case 9:
        check_code(hf_break(client, "n/1", more / 64 % 2));
        break;
    default:
        check_code(hf_facts(client, on_fact, NULL));
    }
}

static void play(struct program *program)
{
    for (uint32_t i = 0; i < CALLS_MAX && world.draw.left > 0; i++) {
        uint8_t what = draw_byte(&world.draw);
        uint8_t more = draw_byte(&world.draw);
        uint32_t at = what / 16 % LOCKS;
        world.sleeps = 0;
        if (what % 16 < 2) {
            open_lock(program, at, more);
        } else if (what % 16 < 10 && program->locks[at] != NULL) {
            use_lock(program, program->locks[at], what, more);
        } else if (what % 16 == 10) {
            hf_close(program->locks[at]);
            program->locks[at] = NULL;
        } else if (what % 16 == 11) {
            world.strike_count = 0;
            while (world.strike_count < 1u + more % STRIKES) {
                world.strikes[world.strike_count++] = draw_strike();
            }
        } else if (what % 16 == 12) {
            world.hung_up = more > 200;
            say_unasked();
        } else if (what % 16 == 13) {
            struct strike made = draw_strike();
            strike(&made);
            world.now_ns += more * MS;
        } else {
            use_client(program, more);
        }
    }
}

static void make_region(void)
{
    static const struct hfi_region_sizes sizes = {SLOTS, HOLDERS, BLOCKS};
    static struct hfi_kernel kernel = {.wake = kernel_nothing,
                                       .now_ns = kernel_now}; /* the agent's kernel: the agent never
                                                        * sleeps or rings here */
    struct hfi_region_identity identity = {.cell = "fuzz", .agent = "a", .incarnation = 9};
    struct hfi_actor agent = {&world.region, &kernel, HFI_HOLDER_AGENT};
    uint64_t size = hfi_region_size(&sizes);
    if (world.memory == NULL) {
        world.region_fd = memfd_create("region", MFD_CLOEXEC);
        world.other_fd = memfd_create("other", MFD_CLOEXEC);
        HF_CHECK(world.region_fd >= 0 && ftruncate(world.region_fd, (off_t)size) == 0);
        HF_CHECK(world.other_fd >= 0 && ftruncate(world.other_fd, 100) == 0);
        world.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, world.region_fd, 0);
        HF_CHECK(world.memory != MAP_FAILED);
    }
    memset(world.memory, 0, size);
    hfi_region_format(world.memory, &sizes, &identity);
    HF_CHECK(hfi_region_attach(world.memory, size, &world.region) == NULL);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        atomic_store(&world.region.slots[slot].blocks, slot + 1);
        atomic_store(&world.region.blocks[slot].slot, slot + 1);
        for (uint32_t i = 0; i < HFI_BLOCK_SEATS; i++) {
            atomic_store(&hfi_seat(&world.region, slot * HFI_BLOCK_SEATS + i)->holder, i + 1);
        }
        if (slot != 3) { /* this host has no grant of slot 3 */
            hfi_grant(&agent, slot, HFI_GRANT_EXCLUSIVE, 1, 1000000);
        }
        atomic_fetch_or(&world.region.words[slot].word, HFI_W_CELLS);
    }
    hfi_publish(&agent, world.now_ns + 3600000 * MS, 1, 0);
}

static size_t library_seed(size_t index, uint8_t *bytes, size_t size)
{
    uint64_t state = 99 + index;
    size_t used = 30 + 25 * index;
    if (index >= 24 || used > size) {
        return 0;
    }
    for (size_t i = 0; i < used; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(state >> 56);
        if (bytes[i] > 200 && i % 3 != 0) { /* lets the agent mostly behave correctly */
            bytes[i] &= 0x7f;
        }
    }
    return used;
}

static int lowest_fd(void)
{
    int fd = fcntl(world.other_fd, F_DUPFD_CLOEXEC, 0);
    HF_CHECK(fd >= 0 && close(fd) == 0);
    return fd;
}

static void library_entry(const uint8_t *bytes, size_t size)
{
    struct program program = {.client = NULL};
    struct hf_options options = {
        .size = sizeof(options), .socket = "/nowhere", .connect_timeout_ns = 50 * MS};
    world.draw = (struct draw){bytes, size};
    world.now_ns = INT64_C(1) << 40;
    world.hung_up = world.region_sent = false;
    world.handles = world.strike_count = 0;
    world.sleeps = 0;
    make_region();
    int lowest = lowest_fd();
    int code = hf_connect(&options, &program.client);
    check_code(code);
    if (code == 0) {
        play(&program);
        world.sleeps = 0;
        hf_disconnect(program.client);
    }
    world.strike_count = 0;
    drop_packets();
    HF_CHECK(lowest_fd() == lowest); /* otherwise the library has not closed a descriptor */
}

const struct fuzz_target fuzz_target = {"library", library_entry, library_seed, INPUT_MAX};
