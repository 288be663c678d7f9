/*
 * A client is killed after every instruction of its calls for a lock (scenarios.c). Afterwards
 * these statements must be true:
 *
 *  - Each waiter gets the lock within the lock-delay and a guard, and in the end the lock is free.
 *  - If the victim held the lock, no process gets it before the lock-delay is over.
 *  - Two processes never hold at once. The next holder's token is higher than each token of the
 *    victim.
 *  - hf_show() shows the holder, and in the end no holder.
 *
 * A first run of each scenario finds its kill points (step.h). By default these are all
 * instructions of the program's own text (libholdfast, the lock word's protocol and the test's few
 * lines), each at its first execution in a call of its function. So only the first round of a loop
 * has kill points, for example when the victim spins or scans a queue. A run takes every
 * sixteenth point. It begins with one of the first sixteen points, chosen anew for each run.
 *
 * A bystander may hold the lock when the victim stops at the point. At every second point that a
 * run takes, the bystander releases before the kill, so that the lock may be handed to a process
 * that is about to die. At the points between, it releases after the kill. With
 * HOLDFAST_TEST_DEEP=1 all rounds of loops have kill points, and a run takes each point twice: with
 * a release before the kill and with a release after it.
 *
 * Several workers take points at the same time, each with its own lock and bystanders.
 */
#include "scenarios.h"

#include "client.h"
#include "proto/region.h"
#include "require.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../suite_main.h"

enum {
    WORKERS = 6,
    SHORT_DELAY_MS = 20,
    DEFAULT_DELAY_MS = 1000,
    DEFAULT_DELAY_POINTS = 4,
    DEFAULT_STRIDE = 16
};

/* Each victim maps the region once more, so the region is small. On a busy machine the agent may
 * renew nothing for seconds, and a lease that is over is not what these tests are about. */
static const char config[] = "[agent]\nname = dev\ncell = dev\nstate_dir = %D/state\n"
                             "socket = %D/agent.sock\n[cell]\nsession_ttl = 10m\n"
                             "[limits]\nlocks = 1024\nblocks = 512\n";

static struct agent_process agent;

static void scene_create(struct scene *scene, const char *name, int64_t lock_delay_ms)
{
    *scene = (struct scene){.socket = agent.socket, .lock_delay_ms = lock_delay_ms};
    snprintf(scene->name, sizeof(scene->name), "%s", name);
    scene->notes = mmap(NULL, sizeof(*scene->notes), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(scene->notes != MAP_FAILED, "no memory");
    actor_ready(&scene->one.actor, agent.socket);
    actor_ready(&scene->two.actor, agent.socket);
    REQUIRE(actor_open(&scene->one.actor, 0, name, SHORT_DELAY_MS) == 0, "open");
    REQUIRE(actor_open(&scene->two.actor, 0, name, SHORT_DELAY_MS) == 0, "open");
}

static void scene_destroy(struct scene *scene)
{
    actor_end(&scene->one.actor);
    actor_end(&scene->two.actor);
    munmap(scene->notes, sizeof(*scene->notes));
}

/* Returns the present value of the lock's word. */
static uint64_t scene_word(const struct scene *scene)
{
    static struct hfi_region region;
    static uint32_t slot;
    uint64_t hash = hfi_name_hash(scene->name, strlen(scene->name));
    if (region.header == NULL) {
        char path[256];
        struct stat status;
        agent_region_path(&agent, "default", path, sizeof(path));
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        REQUIRE(fd >= 0 && fstat(fd, &status) == 0, "%s", path);
        void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
        REQUIRE(memory != MAP_FAILED, "no memory");
        close(fd);
        const char *wrong = hfi_region_attach(memory, (uint64_t)status.st_size, &region);
        REQUIRE(wrong == NULL, "%s", wrong);
    }
    if (atomic_load(&region.slots[slot].name_hash) != hash) {
        slot = 0;
        while (slot < region.slot_count && atomic_load(&region.slots[slot].name_hash) != hash) {
            slot++;
        }
        REQUIRE(slot < region.slot_count, "%s has no slot", scene->name);
    }
    return atomic_load(&region.words[slot].word);
}

/* ---- the victim ---- */

static void victim_run(const struct scenario *scenario, const struct scene *scene)
{
    struct victim victim = {.notes = scene->notes};
    const struct hf_options options = {
        .size = sizeof(options), .socket = scene->socket, .connect_timeout_ns = GUARD_MS * MS};
    const struct hf_lock_options lock_options = {.size = sizeof(lock_options),
                                                 .flags = scenario->flags,
                                                 .lock_delay_ns = scene->lock_delay_ms * MS,
                                                 .max_stall_ns = scenario->max_stall_ms * MS};
    int error = hf_connect(&options, &victim.client);
    REQUIRE(error == 0, "hf_connect: %s", hf_strerror(error));
    error = hf_open(victim.client, scene->name, &lock_options, &victim.lock);
    REQUIRE(error == 0, "hf_open: %s", hf_strerror(error));
    atomic_store_explicit(&scene->notes->holder, atomic_load(&victim.lock->binding)->holder,
                          memory_order_relaxed);
    scenario->prepare(&victim);
    step_traced();
    step_begin();
    scenario->act(&victim);
    step_end();
    _exit(0);
}

/* Starts the victim and stops it at step_begin(). At that time each bystander holds or waits as the
 * scenario says. */
static pid_t victim_start(const struct scenario *scenario, struct scene *scene)
{
    memset(scene->notes, 0, sizeof(*scene->notes));
    if (scenario->before) {
        scenario->before(scene);
    }
    pid_t pid = fork_tied();
    if (pid == 0) {
        victim_run(scenario, scene);
    }
    step_await_begin(pid);
    if (scenario->joined) {
        scenario->joined(scene);
    }
    return pid;
}

/* Kills the stopped victim, and notes what it held. */
static void victim_kill(struct scene *scene, pid_t pid)
{
    uint64_t word = scene_word(scene);
    uint64_t token = atomic_load(&scene->notes->token);
    scene->victim_held = atomic_load(&scene->notes->holds);
    scene->victim_token = token;
    if (hfi_word_holder(word) == atomic_load(&scene->notes->holder)) {
        uint64_t named = (token & ~HFI_W_TOKEN) | (word & HFI_W_TOKEN);
        scene->victim_token = named > token ? named : token;
    }
    scene->killed_ns = boottime_now();
    kill_process(pid);
}

/* ---- what must be true after a kill ---- */

/* Checks the hold of a bystander that has got the lock. */
static void granted(struct scene *scene, struct bystander *who, struct bystander *other,
                    const struct actor_reply *reply)
{
    REQUIRE(reply->result == 0, "a waiter got %s", hf_strerror(reply->result));
    REQUIRE(other->doing != HOLDS || (other->mode == HF_SHARED && who->mode == HF_SHARED),
            "two hold at once");
    bool together = scene->victim_held == 2 && who->mode == HF_SHARED; /* both may hold, because
                                                                        * both holds are shared */
    if (scene->victim_held && !together) {
        int64_t opened_ns = scene->killed_ns + scene->lock_delay_ms * MS;
        REQUIRE(reply->time_ns >= opened_ns, "passed on %lld ns before the lock-delay was over",
                (long long)(opened_ns - reply->time_ns));
    }
    if (who->mode == HF_EXCLUSIVE) {
        REQUIRE(reply->hold.token > scene->token, "the token did not rise");
        scene->token = reply->hold.token;
    }
    who->doing = HOLDS;
}

/* Checks that every waiter gets the lock, and lets it release. */
static void settle(struct scene *scene)
{
    struct bystander *all[2] = {&scene->one, &scene->two};
    int64_t end_ns = boottime_now() + (scene->lock_delay_ms + GUARD_MS) * MS;
    uint64_t before = scene->token;
    while (scene->one.doing != IDLE || scene->two.doing != IDLE) {
        for (int i = 0; i < 2; i++) {
            struct actor_reply reply;
            if (all[i]->doing == WAITS && actor_receive(&all[i]->actor, &reply, 0)) {
                granted(scene, all[i], all[1 - i], &reply);
            }
        }
        bool progress = false;
        for (int i = 0; i < 2; i++) {
            if (all[i]->doing == HOLDS) {
                bystander_release(all[i]);
                progress = true;
            }
        }
        REQUIRE(boottime_now() < end_ns, "a waiter is stuck (one %d, two %d, word %llx)",
                (int)scene->one.doing, (int)scene->two.doing,
                (unsigned long long)scene_word(scene));
        if (!progress) {
            struct actor_reply reply;
            struct bystander *waiter = scene->one.doing == WAITS ? &scene->one : &scene->two;
            if (waiter->doing == WAITS && actor_receive(&waiter->actor, &reply, 1)) {
                granted(scene, waiter, all[waiter == &scene->one], &reply);
            }
        }
    }
    REQUIRE(scene->token == before || scene->token > scene->victim_token,
            "token %llx after the dead one's %llx", (unsigned long long)scene->token,
            (unsigned long long)scene->victim_token);
}

/* Returns what the agent shows of the lock, after it has noticed that the victim is dead. A barging
 * victim keeps nobody waiting, so the lock can be taken before the agent notices the death. Until
 * then the agent shows the victim as a waiter. */
static struct actor_show show_without_victim(struct scene *scene)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    struct actor_show show = actor_show(&scene->two.actor, scene->name);
    while (show.waiters != 0 && boottime_now() < end_ns) {
        sleep_ms(1);
        show = actor_show(&scene->two.actor, scene->name);
    }
    return show;
}

/* Checks that the lock works like a new one. */
static void check_usable(struct scene *scene)
{
    struct hf_hold hold;
    int result = actor_acquire(&scene->one.actor, 0, HF_EXCLUSIVE, scene->lock_delay_ms + GUARD_MS,
                               &hold);
    int64_t now_ns = boottime_now();
    REQUIRE(result == 0, "the lock cannot be taken: %s (word %llx)", hf_strerror(result),
            (unsigned long long)scene_word(scene));
    REQUIRE(!scene->victim_held || now_ns >= scene->killed_ns + scene->lock_delay_ms * MS,
            "taken before the lock-delay was over");
    REQUIRE(hold.token > scene->token && hold.token > scene->victim_token,
            "token %llx after %llx and the dead one's %llx", (unsigned long long)hold.token,
            (unsigned long long)scene->token, (unsigned long long)scene->victim_token);
    scene->token = hold.token;
    struct actor_show show = show_without_victim(scene);
    REQUIRE(show.state == HF_STATE_EXCLUSIVE && show.holders == 1 && show.waiters == 0 &&
                show.holder_pid == scene->one.actor.pid && show.holder_token == hold.token &&
                show.closed_ns <= 0,
            "shown: state %d, %zu holders, %zu waiters, pid %lld, token %llx", (int)show.state,
            show.holders, show.waiters, (long long)show.holder_pid,
            (unsigned long long)show.holder_token);
    REQUIRE(actor_release(&scene->one.actor, 0) == 0, "release");
    show = actor_show(&scene->two.actor, scene->name);
    REQUIRE(show.state == HF_STATE_FREE && show.holders == 0, "shown held: state %d",
            (int)show.state);
}

/* ---- workers ---- */

struct work {
    const struct scenario *scenario;
    struct step_points points;
    int64_t lock_delay_ms;
    size_t begin; /* the first point that is taken */
    size_t stride;
    /* In a scenario with `before`, the bystander `one` releases its hold before the kill at every
     * second point of a worker. 1: the first worker begins with such a point; 0: with another. */
    unsigned way;
};

/* the argument of the hook `asleep` */
struct hook {
    const struct scenario *scenario;
    struct scene *scene;
};

static void hook_asleep(void *arg)
{
    struct hook *hook = arg;
    hook->scenario->asleep(hook->scene);
}

static struct step_plan plan_of(struct hook *hook)
{
    return (struct step_plan){.asleep = hook->scenario->asleep ? hook_asleep : NULL,
                              .arg = hook,
                              .threaded = hook->scenario->threaded,
                              .visits_per_call = test_is_deep() ? 0 : 1};
}

/* Starts a victim, kills it at the point, and checks what must be true afterwards. Returns false if
 * the victim did not reach the point. */
static bool run_point(const struct scenario *scenario, struct scene *scene, struct step_point point,
                      bool release_first)
{
    struct hook hook = {scenario, scene};
    struct step_plan plan = plan_of(&hook);
    bool asleep_called = false;
    pid_t pid = victim_start(scenario, scene);
    bool reached = step_to(pid, &plan, point, &asleep_called);
    if (release_first && scene->one.doing == HOLDS) {
        bystander_release(&scene->one);
    }
    victim_kill(scene, pid);
    settle(scene);
    check_usable(scene);
    return reached;
}

struct tally {
    _Atomic uint32_t done;
    _Atomic uint32_t missed;
};

static void worker_run(const struct work *work, struct tally *tally, unsigned number)
{
    struct scene scene;
    char name[64];
    snprintf(name, sizeof(name), "step/%u", number);
    scene_create(&scene, name, work->lock_delay_ms);
    bool two_ways = work->scenario->before != NULL;
    unsigned next_way = work->way + number;
    for (size_t i = work->begin + number * work->stride; i < work->points.count;
         i += WORKERS * work->stride, next_way++) {
        struct step_point point = work->points.items[i];
        for (int way = 0; way <= (int)two_ways; way++) {
            if (two_ways && !test_is_deep() && way != (int)(next_way & 1)) {
                continue;
            }
            snprintf(require_context, sizeof(require_context), "(%s, killed at +%llx visit %u%s)",
                     work->scenario->name, (unsigned long long)step_offset(point), point.visit,
                     way == 1 ? ", after a release" : "");
            bool reached = run_point(work->scenario, &scene, point, way == 1);
            atomic_fetch_add_explicit(reached ? &tally->done : &tally->missed, 1,
                                      memory_order_relaxed); /* relaxed: the counts are read only
                                                              * after the workers have ended */
        }
    }
    scene_destroy(&scene);
}

/* Makes the first run, which finds the points. */
static void find_points(struct work *work)
{
    struct scene scene;
    scene_create(&scene, "step/first", work->lock_delay_ms);
    struct hook hook = {work->scenario, &scene};
    struct step_plan plan = plan_of(&hook);
    pid_t pid = victim_start(work->scenario, &scene);
    step_find(pid, &plan, &work->points);
    victim_kill(&scene, pid);
    settle(&scene);
    check_usable(&scene);
    scene_destroy(&scene);
}

/* Runs the client once to find its points, and then kills it at them. Returns whether most of them
 * were reached. */
static bool run_round(const struct scenario *scenario, int64_t lock_delay_ms, size_t points)
{
    struct work work = {.scenario = scenario, .lock_delay_ms = lock_delay_ms, .stride = 1};
    struct tally *tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t workers[WORKERS];
    int64_t began_ns = boottime_now();
    REQUIRE(tally != MAP_FAILED, "no memory");
    find_points(&work);
    REQUIRE(work.points.count > 20, "%s: only %zu kill points", scenario->name, work.points.count);
    if (points != 0 && work.points.count > points) {
        work.stride = work.points.count / points;
    } else if (points == 0 && !test_is_deep()) {
        work.stride = DEFAULT_STRIDE;
    }
    uint64_t random = (uint64_t)(boottime_now() / MS);
    work.begin = random % work.stride;
    work.way = random / work.stride & 1;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = fork_tied();
        if (workers[i] == 0) {
            worker_run(&work, tally, i);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        int status = 0;
        REQUIRE(waitpid(workers[i], &status, 0) == workers[i], "waitpid");
        REQUIRE(status == 0, "%s: worker %u failed", scenario->name, i);
    }
    unsigned done = atomic_load(&tally->done);
    unsigned missed = atomic_load(&tally->missed);
    printf("%-46s %5zu points of %6llu own instructions: %5u kills, %u missed, %lld ms\n",
           scenario->name, work.points.count, (unsigned long long)work.points.own, done, missed,
           (long long)((boottime_now() - began_ns) / MS));
    munmap(tally, sizeof(*tally));
    free(work.points.items);
    return missed * 5 <= done;
}

/* The run that finds the points executes one instruction at a time. On a slow machine it may take
 * so long that the client takes other branches than in the later runs, which then miss many points.
 * So the points are searched anew, at most twice. */
static void run_scenario(const struct scenario *scenario, int64_t lock_delay_ms, size_t points)
{
    bool reached = false;
    for (int rounds = 0; rounds < 3 && !reached; rounds++) {
        reached = run_round(scenario, lock_delay_ms, points);
    }
    REQUIRE(reached, "%s: too many points were missed, three times", scenario->name);
}

static void start(void)
{
    agent_create(&agent, config);
    agent_start(&agent);
}

static void stop(void)
{
    agent_destroy(&agent);
}

START_TEST(client_killed_after_every_instruction)
{
    if (scenarios[_i].threaded && !step_watches()) {
        printf("left out: %s: this machine's debug registers stop no thread\n", scenarios[_i].name);
        return;
    }
    run_scenario(&scenarios[_i], SHORT_DELAY_MS, 0);
}
END_TEST

/* Kills the client at a few points only, because each costs the default lock-delay of a second. */
START_TEST(client_killed_with_the_default_lock_delay)
{
    run_scenario(&scenarios[_i], DEFAULT_DELAY_MS,
                 test_is_deep() ? 0 : WORKERS * DEFAULT_DELAY_POINTS);
}
END_TEST

/* An argument selects the scenarios whose name contains it. */
int main(int argc, char **argv)
{
    Suite *suite = suite_create("step_client");
    TCase *every = tcase_create("every instruction");
    tcase_add_checked_fixture(every, start, stop);
    tcase_set_timeout(every, test_is_deep() ? 3600 : 900);
    for (int i = 0; i < (int)scenario_count; i++) {
        if (argc < 2 || strstr(scenarios[i].name, argv[1])) {
            tcase_add_loop_test(every, client_killed_after_every_instruction, i, i + 1);
        }
    }
    if (argc < 2) {
        tcase_add_loop_test(every, client_killed_with_the_default_lock_delay, 0, 1);
    }
    suite_add_tcase(suite, every);
    return suite_run(suite);
}
