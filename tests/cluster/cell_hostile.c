/*
 * In a cell of three voters, a hostile process on one host writes rubbish into the region of its
 * namespace, while the host's agent runs or while the agent is down. The other hosts still get that
 * namespace's locks. The rubbish lets no process take a lock that another host holds. Locks of
 * another namespace are held on the same host and on another host, and none of these holds ends.
 * tests/cluster/spoilt.c has more such rubbish, on one host.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actor.h"
#include "cell.h"
#include "proto/region.h"
#include "require.h"

enum { HOSTS = 3, TTL_MS = 3000, DELAY_MS = 300, SPOILT = 0, OTHER = 1 };

static struct cell cell;
/* Clients on the host with the spoilt region: */
static struct actor good_here;
static struct actor user_here;
static struct actor waiter; /* waits for bad/held */
/* Clients on another host: */
static struct actor holder; /* holds good/b and bad/held */
static struct actor user_there;
static struct hf_hold held;
static struct hfi_region region; /* the region of the namespace "bad" on the first host */
static uint32_t lock_slot;       /* the slot of bad/lock */
static uint32_t held_slot;       /* the slot of bad/held; another host has the grant of that lock */

static uint32_t slot_of(const char *name)
{
    uint64_t hash = hfi_name_hash(name, strlen(name));
    uint32_t slot = 0;
    while (slot < region.slot_count && region.slots[slot].name_hash != hash) {
        slot++;
    }
    ck_assert_uint_lt(slot, region.slot_count);
    return slot;
}

/* Maps the region as a client does. */
static void map_region(void)
{
    char path[512];
    struct stat status;
    agent_region_path(&cell.agents[SPOILT], "bad", path, sizeof(path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0 && fstat(fd, &status) == 0, "%s: %s", path, strerror(errno));
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    REQUIRE(memory != MAP_FAILED, "mmap");
    ck_assert_ptr_null(hfi_region_attach(memory, (uint64_t)status.st_size, &region));
    lock_slot = slot_of("bad/lock");
    held_slot = slot_of("bad/held");
}

/* Takes and releases bad/lock. Returns the token of the hold. */
static uint64_t have_it(struct actor *who)
{
    struct hf_hold hold;
    int result = actor_acquire(who, 0, HF_EXCLUSIVE, GUARD_MS, &hold);
    ck_assert_msg(result == 0, "%s; the word is %llx", hf_strerror(result),
                  (unsigned long long)atomic_load(&region.words[lock_slot].word));
    ck_assert_int_eq(actor_release(who, 0), 0);
    return hold.token;
}

static void hold(struct actor *who, uint32_t lock, const char *name, struct hf_hold *of)
{
    ck_assert_int_eq(actor_open(who, lock, name, DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(who, lock, HF_EXCLUSIVE, GUARD_MS, of), 0);
}

static void start(void)
{
    cell_options.ttl_ms = TTL_MS;
    cell_options.grace_ms = 2 * TTL_MS;
    cell_options.sections = "[namespace.good]\n[namespace.bad]\n";
    cell_start(&cell, HOSTS, 0);
    actor_ready(&good_here, cell.agents[SPOILT].socket);
    actor_ready(&user_here, cell.agents[SPOILT].socket);
    actor_ready(&waiter, cell.agents[SPOILT].socket);
    actor_ready(&holder, cell.agents[OTHER].socket);
    actor_ready(&user_there, cell.agents[OTHER].socket);
    hold(&good_here, 0, "good/a", NULL);
    hold(&holder, 0, "good/b", NULL);
    hold(&holder, 1, "bad/held", &held);
    ck_assert_int_eq(actor_open(&user_there, 0, "bad/lock", DELAY_MS), 0);
    ck_assert_int_eq(actor_open(&user_here, 0, "bad/lock", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&user_here, 0, HF_SHARED, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_release(&user_here, 0), 0);
    ck_assert_int_eq(actor_open(&waiter, 0, "bad/held", DELAY_MS), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    actor_await_waiters(&good_here, "bad/held", 1);
    map_region();
}

static void stop(void)
{
    struct actor *actors[] = {&good_here, &user_here, &waiter, &holder, &user_there};
    for (unsigned i = 0; i < sizeof(actors) / sizeof(actors[0]); i++) {
        actor_end(actors[i]);
    }
    munmap(region.header, (size_t)region.size);
    cell_stop(&cell);
}

/* ---- rubbish that a process of the namespace writes before it ends ---- */

static void closed_for_ever(void)
{
    atomic_store(&region.slots[lock_slot].closed_until_ns, UINT64_C(1) << 62);
    atomic_fetch_or(&region.words[lock_slot].word, HFI_W_CLOSED);
}

static void all_tokens_used(void)
{
    atomic_fetch_or(&region.words[lock_slot].word, HFI_W_TOKEN);
}

static void held_by_nobody(void)
{
    atomic_fetch_or(&region.words[lock_slot].word, UINT64_C(60000) << HFI_W_HOLDER_SHIFT);
}

static void read_for_ever(void)
{
    uint64_t epoch = hfi_lease_epoch(atomic_load(&region.header->lease));
    atomic_fetch_or(&region.words[lock_slot].word, HFI_W_CELLS | HFI_W_WAITERS);
    uint32_t block = atomic_load(&region.slots[lock_slot].blocks);
    REQUIRE(block != 0, "the lock has no seats");
    for (uint32_t i = 0; i < HFI_BLOCK_SEATS; i++) {
        uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + i;
        if (atomic_load(&hfi_seat(&region, seat)->holder) == 0) {
            atomic_store(&hfi_seat(&region, seat)->reader, epoch << HFI_CELL_EPOCH_SHIFT | 1);
            atomic_store(hfi_seat_wait(&region, seat), HFI_WAIT_WAITING);
        }
    }
}

/* Forges a grant of bad/held in this host's region, although another host has the grant. The forged
 * lock word names a holder that does not exist, so no process hands the lock to the waiter. */
static void granted_here(void)
{
    atomic_store(&region.slots[held_slot].token_top, held.token + 1000);
    atomic_fetch_or(&region.words[held_slot].word,
                    (uint64_t)HFI_GRANT_EXCLUSIVE << HFI_W_MODE_SHIFT |
                        UINT64_C(60000) << HFI_W_HOLDER_SHIFT | ((held.token + 1) & HFI_W_TOKEN));
}

static void everything_of_both(void)
{
    closed_for_ever();
    read_for_ever();
    granted_here();
    atomic_store(&region.words[lock_slot].word, UINT64_MAX);
    atomic_store(&region.slots[lock_slot].token_top, UINT64_MAX);
    for (uint32_t id = 1; id < 1000; id++) {
        atomic_store(&region.holders[id].handing_to[id % HFI_HANDINGS], id);
    }
}

static void (*const lies[])(void) = {closed_for_ever, all_tokens_used, held_by_nobody,
                                     read_for_ever,   granted_here,    everything_of_both};
enum { LIES = sizeof(lies) / sizeof(lies[0]) };

static void tell(unsigned lie)
{
    pid_t culprit = fork_tied();
    if (culprit == 0) {
        lies[lie]();
        _exit(0);
    }
    ck_assert_int_eq(wait_for(culprit), 0);
}

/* ---- what must hold in spite of the rubbish ---- */

static void others_are_unharmed(void)
{
    ck_assert_int_gt(actor_remaining(&good_here, 0), 0);
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_int_gt(actor_remaining(&holder, 1), 0);
    for (unsigned host = 0; host < HOSTS; host++) {
        ck_assert_uint_eq(agent_logged(&cell.agents[host], "event=session_new"), 1);
        ck_assert_uint_eq(agent_logged(&cell.agents[host], "event=bug"), 0);
    }
}

/* The lock goes from host to host: the other host takes it, then this host, then the other host
 * again. Each hold has a higher token. */
static void had_by_both(uint64_t token)
{
    struct actor *turns[] = {&user_there, &user_here, &user_there};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t next = have_it(turns[i]);
        ck_assert_uint_gt(next, token);
        token = next;
    }
}

/* Only the holder has the lock. After the holder's release the waiter on the spoilt host gets
 * it. */
static void held_by_one(void)
{
    struct actor_reply reply;
    ck_assert(!actor_receive(&waiter, &reply, 0));
    others_are_unharmed();
    ck_assert_int_eq(actor_release(&holder, 1), 0);
    REQUIRE(actor_receive(&waiter, &reply, GUARD_MS), "the waiter waits for ever");
    ck_assert_msg(reply.result == 0, "%s", hf_strerror(reply.result));
    ck_assert_uint_gt(reply.hold.token, held.token);
    ck_assert_int_eq(actor_release(&waiter, 0), 0);
}

START_TEST(a_lock_of_the_spoilt_namespace_goes_from_host_to_host)
{
    uint64_t token = have_it(&user_here); /* the host of user_here keeps the grant */
    tell((unsigned)_i);
    had_by_both(token);
    held_by_one();
}
END_TEST

START_TEST(and_over_a_restart_of_that_hosts_agent)
{
    uint64_t token = have_it(&user_here);
    agent_kill(&cell.agents[SPOILT]);
    tell((unsigned)_i);
    agent_start(&cell.agents[SPOILT]);
    ck_assert_uint_eq(agent_logged(&cell.agents[SPOILT], "event=session_continued"), 1);
    had_by_both(token);
    held_by_one();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("hostile in a cell");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_lock_of_the_spoilt_namespace_goes_from_host_to_host, 0, LIES);
    tcase_add_loop_test(tests, and_over_a_restart_of_that_hosts_agent, 0, LIES);
    return cell_main("hostile in a cell", tests);
}
