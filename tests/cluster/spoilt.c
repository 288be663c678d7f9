/*
 * A client writes rubbish into its namespace's region and ends (see docs/REGION.md). A holder in
 * the other namespace goes on holding, also across a restart of the agent. A client can take the
 * spoilt lock again within a quarter of session_ttl, or after the lock-delay of a hold that was
 * lost.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "proto/lockword.h"
#include "require.h"

enum { TTL_MS = 4000 };

static struct agent_process agent;
static struct hfi_region region; /* the region of "bad" */
static uint32_t slot;            /* the slot of "bad/lock" */
static hf_client *beside;        /* a client that holds "good/lock", and has a seat at "bad/lock" */
static hf_lock *held;
static hf_lock *seated;

static hf_client *connect_to_it(void)
{
    hf_client *client;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    return client;
}

/* A new client takes and releases the lock. Returns the time that it needed, in ms, and the hold's
 * token in *token. */
static int64_t have_it(uint64_t *token)
{
    hf_lock *lock;
    struct hf_hold hold;
    int64_t begin_ns = boottime_now();
    hf_client *client = connect_to_it();
    ck_assert_int_eq(hf_open(client, "bad/lock", NULL, &lock), 0);
    int result = hf_acquire(lock, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, &hold);
    int64_t end_ns = boottime_now();
    ck_assert_msg(result == 0, "%s; the word is %llx", hf_strerror(result),
                  (unsigned long long)atomic_load(&region.words[slot].word));
    ck_assert_int_eq(hf_release(lock), 0);
    hf_disconnect(client);
    *token = hold.token;
    return (end_ns - begin_ns) / MS;
}

/* Maps the region as a client does. */
static void map_region(void)
{
    char path[512];
    struct stat status;
    agent_region_path(&agent, "bad", path, sizeof(path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0 && fstat(fd, &status) == 0, "%s: %s", path, strerror(errno));
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    REQUIRE(memory != MAP_FAILED, "mmap");
    ck_assert_ptr_null(hfi_region_attach(memory, (uint64_t)status.st_size, &region));
    uint64_t hash = hfi_name_hash("bad/lock", strlen("bad/lock"));
    for (slot = 0; slot < region.slot_count && region.slots[slot].name_hash != hash; slot++) {
    }
    ck_assert_uint_lt(slot, region.slot_count);
}

static void start(void)
{
    uint64_t token;
    agent_create(&agent, "[agent]\nname = host-a\ncell = spoilt\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[cell]\nsession_ttl = 4s\n"
                         "[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[namespace.good]\n[namespace.bad]\n");
    agent_start(&agent);
    beside = connect_to_it();
    ck_assert_int_eq(hf_open(beside, "good/lock", NULL, &held), 0);
    ck_assert_int_eq(hf_acquire(held, HF_EXCLUSIVE, -1, NULL), 0);
    ck_assert_int_eq(hf_open(beside, "bad/lock", NULL, &seated), 0);
    ck_assert_int_eq(hf_acquire(seated, HF_SHARED, -1, NULL), 0);
    ck_assert_int_eq(hf_release(seated), 0);
    (void)have_it(&token);
    map_region();
}

static void stop(void)
{
    ck_assert_int_gt(hf_remaining_ns(held), 0);
    ck_assert_int_eq(hf_release(held), 0);
    hf_disconnect(beside);
    ck_assert(!agent_logged(&agent, "event=bug"));
    agent_destroy(&agent);
}

/* Each of these functions writes another kind of rubbish. */
static void closed_for_ever(void)
{
    atomic_store(&region.slots[slot].closed_until_ns, UINT64_C(1) << 62);
    atomic_fetch_or(&region.words[slot].word, HFI_W_CLOSED);
}

static void all_tokens_used(void)
{
    atomic_fetch_or(&region.words[slot].word, HFI_W_TOKEN);
}

static void no_tokens_used(void)
{
    atomic_fetch_and(&region.words[slot].word, ~HFI_W_TOKEN);
}

static void held_by_nobody(void)
{
    atomic_fetch_or(&region.words[slot].word, UINT64_C(60000) << HFI_W_HOLDER_SHIFT);
}

static void read_for_ever(void)
{
    uint64_t epoch = hfi_lease_epoch(atomic_load(&region.header->lease));
    atomic_fetch_or(&region.words[slot].word, HFI_W_CELLS | HFI_W_WAITERS);
    uint32_t block = atomic_load(&region.slots[slot].blocks);
    REQUIRE(block != 0, "the lock has no seats");
    for (uint32_t i = 0; i < HFI_BLOCK_SEATS; i++) {
        uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + i;
        if (atomic_load(&hfi_seat(&region, seat)->holder) == 0) {
            atomic_store(&hfi_seat(&region, seat)->reader, epoch << HFI_CELL_EPOCH_SHIFT | 1);
            atomic_store(hfi_seat_wait(&region, seat), HFI_WAIT_WAITING);
        }
    }
}

static void other_chains(void)
{
    uint32_t block = atomic_load(&region.slots[slot].blocks);
    atomic_store(&region.blocks[block - 1].slot, slot + 2);
    atomic_store(&region.blocks[block - 1].next, block);
    atomic_store(&region.blocks[block - 1].seats[0].holder, 7);
    atomic_store(&region.slots[slot].blocks, region.block_count + 1);
}

static void no_lease(void)
{
    atomic_store(&region.header->lease, 0);
    atomic_store(&region.header->abandoned, 1);
}

static void everything_at_once(void)
{
    closed_for_ever();
    read_for_ever();
    no_lease();
    atomic_store(&region.words[slot].word, UINT64_MAX);
    atomic_store(&region.slots[slot].token_top, UINT64_MAX);
    for (uint32_t id = 1; id < 1000; id++) {
        atomic_store(&region.holders[id].handing_to[id % HFI_HANDINGS], id);
    }
}

static void (*const lies[])(void) = {closed_for_ever, all_tokens_used, held_by_nobody,
                                     read_for_ever, no_lease, everything_at_once,
                                     /* the next agent cannot recognise these two lies: */
                                     no_tokens_used, other_chains};
enum { LIES = sizeof(lies) / sizeof(lies[0]), LIES_TO_THE_NEXT = LIES - 2 };

static void tell(unsigned lie)
{
    pid_t culprit = fork_tied();
    if (culprit == 0) {
        lies[lie]();
        _exit(0);
    }
    ck_assert_int_eq(wait_for(culprit), 0);
}

static bool has_token(void)
{
    return (atomic_load(&region.words[slot].word) & HFI_W_TOKEN) != 0;
}

/* Waits until the agent has put the token right, for five passes over the region at most: the agent
 * may have taken the grant back meanwhile, and then it has nothing to put right. */
static void await_repair(void)
{
    int64_t end_ns = boottime_now() + TTL_MS * MS;
    while (!has_token() && !agent_logged(&agent, "event=region_repaired") &&
           boottime_now() < end_ns) {
        sleep_ms(10);
    }
}

START_TEST(a_spoilt_lock_is_had_again)
{
    uint64_t before = 0;
    uint64_t after = 0;
    (void)have_it(&before);
    sleep_ms(TTL_MS / 4); /* in this time the agent looks at the region */
    bool had_token = has_token();
    tell((unsigned)_i);
    if (lies[_i] == no_tokens_used && had_token) {
        await_repair(); /* before the agent's next look a process could take the lock with an old
                         * token */
    }
    int64_t took_ms = have_it(&after);
    printf("lie %d: had again after %lld ms\n", _i, (long long)took_ms);
    ck_assert_uint_gt(after, before);
    ck_assert_int_gt(hf_remaining_ns(held), 0);
}
END_TEST

/* A process writes the rubbish while no agent runs. The next agent relies on no more of the region
 * than REGION.md allows. */
START_TEST(a_lie_to_the_next_agent)
{
    uint64_t before = 0;
    uint64_t after = 0;
    (void)have_it(&before);
    agent_kill(&agent);
    tell((unsigned)_i);
    agent_start(&agent);
    /* only the start of the first agent logged this line */
    ck_assert_uint_eq(agent_logged(&agent, "event=session_new"), 1);
    int64_t took_ms = have_it(&after);
    printf("lie %d: had again after %lld ms, by the next agent\n", _i, (long long)took_ms);
    ck_assert_uint_gt(after, before);
    ck_assert_int_gt(hf_remaining_ns(held), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("spoilt");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_spoilt_lock_is_had_again, 0, LIES);
    tcase_add_loop_test(tests, a_lie_to_the_next_agent, 0, LIES_TO_THE_NEXT);
    return suite_main("spoilt", tests);
}
