/* See member_load.h. */
#include "member_load.h"

#include "actor.h"
#include "require.h"

#include <check.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The memory that the loading processes share. */
static struct shared {
    _Atomic bool stop;
    _Atomic int32_t holder; /* the pid of the holder; 0: none */
    _Atomic uint64_t token;
    _Atomic uint64_t holds[MEMBER_HOSTS_MAX];
    _Atomic int64_t longest_ns; /* the longest wait for the lock */
} * shared;

static pid_t loaders[MEMBER_HOSTS_MAX];

/* Takes one lock again and again, and checks that nobody else holds it. */
static void load(const struct agent_process *agent, unsigned host)
{
    const struct hf_options options = {.size = sizeof(options), .socket = agent->socket};
    hf_client *client = NULL;
    hf_lock *lock = NULL;
    struct hf_hold hold;
    REQUIRE(hf_connect(&options, &client) == 0, "%s", hf_error_text(client));
    REQUIRE(hf_open(client, "load", NULL, &lock) == 0, "%s", hf_error_text(client));
    while (!atomic_load(&shared->stop)) {
        int64_t asked_ns = boottime_now();
        int error = hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, &hold);
        int64_t took_ns = boottime_now() - asked_ns;
        REQUIRE(error == 0, "host %u, after %lld ms: %s", host, (long long)(took_ns / MS),
                hf_error_text(client));
        int32_t before = atomic_exchange(&shared->holder, (int32_t)getpid());
        REQUIRE(before == 0, "%d holds beside host %u", (int)before, host);
        REQUIRE(hold.token > atomic_load(&shared->token), "a token fell on host %u", host);
        atomic_store(&shared->token, hold.token);
        if (took_ns > atomic_load(&shared->longest_ns)) {
            atomic_store(&shared->longest_ns, took_ns);
        }
        atomic_fetch_add(&shared->holds[host], 1);
        sleep_ms(1);
        atomic_store(&shared->holder, 0);
        error = hf_release(lock);
        REQUIRE(error == 0, "host %u: the hold was lost: %s", host, hf_strerror(error));
    }
    hf_disconnect(client);
}

void member_load_start(const struct agent_process *agents, unsigned hosts)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    for (unsigned i = 0; i < MEMBER_HOSTS_MAX; i++) {
        loaders[i] = 0;
        if (hosts >> i & 1) {
            loaders[i] = fork();
            if (loaders[i] == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                load(&agents[i], i);
                _exit(0);
            }
        }
    }
}

void member_load_await(void)
{
    uint64_t before[MEMBER_HOSTS_MAX];
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    for (unsigned i = 0; i < MEMBER_HOSTS_MAX; i++) {
        before[i] = atomic_load(&shared->holds[i]);
    }
    for (unsigned i = 0; i < MEMBER_HOSTS_MAX; i++) {
        while (loaders[i] != 0 && atomic_load(&shared->holds[i]) < before[i] + 3) {
            ck_assert_msg(boottime_now() < end_ns, "host %u gets nothing", i);
            sleep_ms(10);
        }
    }
}

void member_load_end(void)
{
    atomic_store(&shared->stop, true);
    for (unsigned i = 0; i < MEMBER_HOSTS_MAX; i++) {
        int status = 0;
        if (loaders[i] != 0) {
            ck_assert_int_eq(waitpid(loaders[i], &status, 0), loaders[i]);
            ck_assert_msg(status == 0, "the load on host %u failed", i);
        }
    }
    munmap(shared, sizeof(*shared));
}
