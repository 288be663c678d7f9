/*
 * Starts the agent: opens the folders, the store and the regions, loads the cores from the store,
 * and decides whether the session of the previous agent goes on.
 *
 * The session goes on if all of these hold: it is of the same boot and has the epoch in the store;
 * its last deadline is known, and the grace period after the deadline is not over; at least one
 * region can be adopted. A region that cannot be adopted is given up alone (regions.c).
 *
 * Otherwise a new epoch begins, in this order: the start deletes the rows of the old regions, makes
 * the regions anew, and stores the rows of the new regions and the new epoch in one commit. If the
 * agent is killed between these steps, the next start finds nothing that looks like the old
 * session. The next start begins the same epoch again, which is safe because nobody knows of that
 * epoch. So a start that fails again and again (for want of memory, say) uses up no epochs. There
 * are only 2^24 of them, and voters refuse a jump by 2^20.
 */
#include "run/start.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "driver/disk.h"
#include "driver/driver.h"
#include "fail.h"
#include "io/clock.h"
#include "io/peer.h"
#include "io/region.h"
#include "io/wake.h"
#include "observe/files.h"
#include "observe/judge.h"
#include "observe/log.h"
#include "peers/peers.h"
#include "proto/check.h"
#include "run/folders.h"
#include "run/loop.h"
#include "run/record.h"
#include "serve/backups.h"
#include "serve/clients.h"
#include "serve/memory.h"
#include "serve/processes.h"
#include "serve/regions.h"
#include "serve/serve.h"
#include "serve/users.h"

/* A mapped block of zeroed memory. */
struct block {
    void *memory;
    size_t size;
};

struct start {
    struct folders_locks locks;
    struct block names;
    struct block quorum;
    struct block host;
    struct block gossip;
    struct block renewal;
    struct message_rules rules; /* the rules of the cell, as configured */
    struct hfi_kernel kernel;   /* the host core's calls of the kernel */
    uint64_t region_rows;       /* bit i: the store has a row for the region of namespace i */
    bool has_voted;             /* the store has rows of a quorum core */
    bool strange_region;        /* the store has a row for a namespace that is not configured */
    uint32_t epoch;
    /* this start began the epoch, and no other agent and no client knows of it yet */
    bool epoch_unknown;
    struct log_limit wake_limit;
};

/* ---- the store ---- */

void agent_raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ---- the cores ---- */

static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    (void)arg;
    (void)word;
    (void)expected;
    (void)timeout_ns;
    HF_CHECK(!"the agent never waits in a region");
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    struct agent *agent = arg;
    struct log_line line;
    uint32_t space = regions_space_of(agent, word);
    int64_t cost_ns;
    wake_sleepers(space, word, count, &cost_ns);
    if (cost_ns != 0) {
        log_begin_limited(&line, LOG_LEVEL_WARN, "wake_costly", &agent->start->wake_limit,
                          clock_boottime_ns());
        log_text(&line, "namespace", agent->config.namespaces[space].name);
        log_seconds(&line, "took", cost_ns);
        log_end(&line);
    }
}

static int64_t kernel_now_ns(void *arg)
{
    (void)arg;
    return clock_boottime_ns();
}

static void kernel_ring(void *arg)
{
    (void)arg;
    HF_CHECK(!"the agent sends no ring");
}

/* Maps zeroed memory. Pages that are never touched take no memory. */
static void *map_block(struct block *block, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    *block = (struct block){.memory = memory, .size = size};
    return memory;
}

static void unmap_block(struct block *block)
{
    if (block->memory != NULL) {
        munmap(block->memory, block->size);
        *block = (struct block){.memory = NULL};
    }
}

static void release_cores(struct agent *agent)
{
    struct start *start = agent->start;
    unmap_block(&start->host);
    unmap_block(&start->quorum);
    unmap_block(&start->names);
    unmap_block(&start->gossip);
    unmap_block(&start->renewal);
    regions_close_files(agent);
}

static int fill_host_config(struct agent *agent)
{
    const struct config *config = &agent->config;
    struct host_config *host = &agent->host_config;
    *host = (struct host_config){
        .limits = config->limits,
        .version = HF_VERSION,
        .session_ttl_ns = config->session_ttl_ns,
        .grace_ns = config->grace_ns,
        .max_drift_percent = config->max_drift_percent,
        .namespace_count = config->namespace_count,
    };
    message_agent_set(&host->cell, config->cell, strlen(config->cell));
    message_agent_set(&host->agent, config->agent, strlen(config->agent));
    int code = record_begin(agent);
    memcpy(host->store_id, agent->meta.store_id, sizeof(host->store_id));
    memcpy(host->boot_id, agent->boot_id, sizeof(host->boot_id));
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        memcpy(host->namespaces[i], config->namespaces[i].name, sizeof(host->namespaces[i]));
    }
    return code;
}

static void expect_registers(void *arg, uint64_t count)
{
    names_expect(((struct agent *)arg)->names, count);
}

static bool load_promise(void *arg, const struct quorum_promise *promise)
{
    return quorum_load_promise(((struct agent *)arg)->quorum, promise);
}

static bool load_register(void *arg, const struct quorum_register *reg)
{
    return quorum_load_register(((struct agent *)arg)->quorum, reg);
}

static bool load_mark(void *arg, const struct message_session *mark)
{
    return quorum_load_mark(((struct agent *)arg)->quorum, mark);
}

static bool load_checkpoint(void *arg, const struct quorum_checkpoint *checkpoint)
{
    return quorum_load_checkpoint(((struct agent *)arg)->quorum, checkpoint);
}

static bool load_member(void *arg, const struct quorum_member *member)
{
    return quorum_load_member(((struct agent *)arg)->quorum, member);
}

static bool load_seen(void *arg, const struct quorum_seen *seen)
{
    return quorum_load_seen(((struct agent *)arg)->quorum, seen);
}

static bool load_region(void *arg, const char *space, const char *shm_name)
{
    struct agent *agent = arg;
    (void)shm_name; /* the configuration alone decides the name */
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (strcmp(agent->config.namespaces[i].name, space) == 0) {
            agent->start->region_rows |= UINT64_C(1) << i;
            return true;
        }
    }
    agent->start->strange_region = true;
    return true;
}

static void fill_rules(struct agent *agent)
{
    const struct host_config *host = &agent->host_config;
    struct message_rules *rules = &agent->start->rules;
    *rules = (struct message_rules){.voter_count = host->voter_count,
                                    .session_ttl_ns = host->session_ttl_ns,
                                    .grace_ns = host->grace_ns,
                                    .max_drift_percent = host->max_drift_percent};
    memcpy(rules->voters, host->voters, sizeof(rules->voters));
}

/* Returns for how many lock names the quorum core has room. The configuration may set more `locks`
 * than the profile. A cell of one host then has room for that many names, and for as many names
 * that were in use before. */
static uint32_t registers_max(const struct config *config)
{
    uint64_t wanted = (uint64_t)config->limits.locks * config->namespace_count * 2;
    uint32_t most = profile_standard.quorum.registers;
    uint32_t usual = config->profile->quorum.registers;
    wanted = wanted < most ? wanted : most;
    return wanted > usual ? (uint32_t)wanted : usual;
}

static void fill_quorum_config(const struct agent *agent, struct quorum_config *config)
{
    const struct host_config *host = &agent->host_config;
    *config = (struct quorum_config){
        .limits = agent->config.profile->quorum,
        .membership = agent->meta.membership,
        .voter_count = host->voter_count,
        .self = host->self == HOST_OBSERVER ? (uint32_t)QUORUM_NO_VOTER : host->self,
        .name = host->agent,
        .rejoin = agent->meta.rejoin,
        .recovery_wait_ns = (int64_t)agent->meta.recovery_wait_ms * 1000000,
        .session_ttl_ns = host->session_ttl_ns,
        .grace_ns = host->grace_ns,
        .max_drift_percent = host->max_drift_percent,
    };
    config->limits.registers = registers_max(&agent->config);
    memcpy(config->voters, host->voters, sizeof(config->voters));
    for (uint32_t i = 0; i < host->voter_count; i++) {
        memcpy(config->addresses[i], agent->record.of[i].address, sizeof(config->addresses[i]));
    }
    for (uint32_t i = 0; i < agent->config.voter_count; i++) {
        const char *name = agent->config.voters[i].name;
        message_agent_set(&config->trusted[config->trusted_count++], name, strlen(name));
    }
    memcpy(config->store_id, agent->meta.store_id, sizeof(config->store_id));
    memcpy(config->advertise, agent->config.advertise, sizeof(config->advertise));
    snprintf(config->release, sizeof(config->release), "%s", HF_VERSION);
    config_page(&agent->config, config->page);
}

/* Makes the gossip core. An agent that does not listen has none, because gossip needs other
 * agents. */
static bool map_gossip(struct agent *agent)
{
    const struct host_config *host = &agent->host_config;
    struct gossip_config config = {.limits = agent->config.profile->gossip,
                                   .self = host->agent,
                                   .voter = host->self != HOST_OBSERVER,
                                   .silent_ns = host->session_ttl_ns + host->grace_ns};
    if (agent->config.listen[0] == '\0') {
        agent->gossip = NULL;
        return true;
    }
    if (map_block(&agent->start->gossip, gossip_size(&config.limits)) == NULL) {
        return false;
    }
    memcpy(config.address, agent->config.advertise, sizeof(config.address));
    agent->gossip = gossip_init(agent->start->gossip.memory, &config, clock_random());
    host_set_gossip(agent->host, agent->gossip);
    return true;
}

/* Maps the table of names, the host core, the renewal and, for a voter, the quorum core. */
static int map_cores(struct agent *agent)
{
    struct quorum_config config;
    bool voter = agent->host_config.self != HOST_OBSERVER || agent->start->has_voted;
    uint32_t name_count = registers_max(&agent->config);
    fill_quorum_config(agent, &config);
    const char *wrong = voter ? quorum_config_error(&config) : NULL;
    if (wrong != NULL) {
        return agent_fail(agent, AGENT_EXIT_CONFIG, "%s", wrong);
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        uint32_t left = NAMES_COUNT_MAX - name_count;
        name_count += agent->config.limits.locks < left ? agent->config.limits.locks : left;
    }
    if (map_block(&agent->start->names, names_size(name_count)) == NULL ||
        (voter && map_block(&agent->start->quorum, quorum_size(&config.limits)) == NULL) ||
        map_block(&agent->start->host, host_size(&agent->host_config)) == NULL ||
        map_block(&agent->start->renewal, renewal_size()) == NULL) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "out of memory: %s", strerror(errno));
    }
    agent->names = names_init(agent->start->names.memory, name_count, clock_random());
    agent->quorum = voter ? quorum_init(agent->start->quorum.memory, &config, agent->names) : NULL;
    agent->host = host_init(agent->start->host.memory, &agent->host_config, agent->names,
                            &agent->start->kernel);
    const struct lease_file *file = &agent->lease_file;
    host_set_kept(agent->host, file->kept, file->room.kept);
    host_set_delays(agent->host, file->delays_ms, file->room.delays);
    host_set_sound(agent->host, regions_are_sound, agent);
    if (!map_gossip(agent)) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "out of memory: %s", strerror(errno));
    }
    return AGENT_EXIT_OK;
}

/* Loads the record of voters, and the register of the next one, into the quorum core. */
static int load_voters(struct agent *agent)
{
    struct message_voters voters;
    struct quorum_change change;
    bool found[2] = {false, false};
    if (!store_voters(agent->store, &voters, &found[0]) ||
        !store_change_of_voters(agent->store, &change, &found[1])) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    if ((found[0] && !quorum_load_voters(agent->quorum, &voters)) ||
        (found[1] && !quorum_load_change(agent->quorum, &change))) {
        return agent_fail(
            agent, AGENT_EXIT_SOFTWARE,
            "%s/holdfast.db: its record of voters does not fit; expected one that this "
            "agent writes",
            agent->config.state_dir);
    }
    return AGENT_EXIT_OK;
}

/* Makes the cores, and loads the promises and values from the store into the quorum core. */
static int make_cores(struct agent *agent)
{
    struct store_reader reader = {.arg = agent,
                                  .registers = expect_registers,
                                  .promise = load_promise,
                                  .reg = load_register,
                                  .mark = load_mark,
                                  .checkpoint = load_checkpoint,
                                  .member = load_member,
                                  .seen = load_seen};
    int code = map_cores(agent);
    if (code == AGENT_EXIT_OK && agent->quorum != NULL) {
        code = load_voters(agent);
    }
    if (code == AGENT_EXIT_OK && agent->quorum == NULL &&
        !store_opened(agent->store, &agent->host_config.agent, &agent->opened)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    if (code != AGENT_EXIT_OK || agent->quorum == NULL) {
        return code;
    }
    if (!quorum_load_round(agent->quorum, agent->meta.round)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE,
                          "%s/holdfast.db: found round %u, which no ballot can have",
                          agent->config.state_dir, agent->meta.round);
    }
    if (!store_load(agent->store, &reader)) {
        bool small = agent->config.profile == &profile_small;
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s%s", store_error(agent->store),
                          small ? " (profile small: with profile = standard there is more room)"
                                : "");
    }
    quorum_set_commit(agent->quorum, agent->meta.commit);
    return AGENT_EXIT_OK;
}

struct quorum *agent_learn(void *arg)
{
    struct agent *agent = arg;
    struct quorum_config config;
    fill_quorum_config(agent, &config);
    const char *wrong = quorum_config_error(&config);
    if (wrong == NULL && map_block(&agent->start->quorum, quorum_size(&config.limits)) == NULL) {
        wrong = "out of memory";
    }
    if (wrong != NULL) {
        log_simple(LOG_LEVEL_ERROR, "cannot_learn", wrong);
        return NULL;
    }
    agent->quorum = quorum_init(agent->start->quorum.memory, &config, agent->names);
    if (!quorum_load_voters(agent->quorum, &agent->record)) {
        log_simple(LOG_LEVEL_ERROR, "cannot_learn", "the record of voters does not fit");
        unmap_block(&agent->start->quorum);
        agent->quorum = NULL;
        return NULL;
    }
    HF_CHECK(agent->opened.commit == 0 || quorum_load_seen(agent->quorum, &agent->opened));
    quorum_set_commit(agent->quorum, agent->meta.commit);
    log_simple(LOG_LEVEL_INFO, "learning",
               "a voter asks this host to become a voter: its store copies what the voters have");
    return agent->quorum;
}

static void make_renewal(struct agent *agent)
{
    const struct host_config *host = &agent->host_config;
    struct renewal_config config = {.voter_count = host->voter_count,
                                    .session_ttl_ns = host->session_ttl_ns,
                                    .grace_period_ns = host->grace_ns,
                                    .max_drift_percent = host->max_drift_percent,
                                    .asks_epoch = host->voter_count > 1 ||
                                                  host->self == HOST_OBSERVER,
                                    .rules = message_rules_digest(&agent->start->rules),
                                    .durations = message_durations_digest(&agent->start->rules)};
    struct message header = {.membership = agent->meta.membership,
                             .number = agent->record.number,
                             .digest = message_voters_digest(&agent->record),
                             .from = host->agent,
                             .store_id = {agent->meta.store_id[0], agent->meta.store_id[1]}};
    memcpy(config.voters, host->voters, sizeof(config.voters));
    memcpy(config.advertise, agent->config.advertise, sizeof(config.advertise));
    snprintf(config.release, sizeof(config.release), "%s", HF_VERSION);
    config_page(&agent->config, config.page);
    if (agent->quorum != NULL) {
        quorum_header(agent->quorum, MESSAGE_RENEW, &header);
    }
    agent->renewal = renewal_init(agent->start->renewal.memory, &config, &header);
}

/* ---- regions ---- */

/* Returns why the previous session cannot go on, judged without its regions; NULL: it may go on. */
static const char *why_over(const struct agent *agent)
{
    uint64_t all = agent->config.namespace_count == 64
                       ? UINT64_MAX
                       : (UINT64_C(1) << agent->config.namespace_count) - 1;
    bool had_regions = agent->start->strange_region || agent->start->region_rows != 0;
    if (agent->meta.session_epoch == 0 || (agent->left.epoch == 0 && !had_regions)) {
        return "there was no session before";
    }
    if (!had_regions) {
        return "its store is lost, or its regions could not be made";
    }
    if (agent->left.epoch != 0 &&
        memcmp(agent->left.boot_id, agent->boot_id, sizeof(agent->boot_id)) != 0) {
        return "this host was booted again";
    }
    if (agent->left.epoch != agent->meta.session_epoch) {
        return "the previous session never became safe";
    }
    if (agent->start->strange_region || agent->start->region_rows != all) {
        return "other namespaces are configured";
    }
    if (!agent->lease_file.counts) {
        return "its last deadline is not known";
    }
    if (clock_boottime_ns() > agent->left.deadline_ns + agent->config.grace_ns) {
        return "its deadline and grace period were over before this agent started";
    }
    return NULL;
}

/* The regions for which the store has rows. */
struct old_regions {
    uint32_t count;
    struct {
        char space[HFI_LABEL_MAX + 1];
        char shm_name[REGION_NAME_MAX];
    } rows[HOST_NAMESPACES_MAX];
};

static bool collect_old(void *arg, const char *space, const char *shm_name)
{
    struct old_regions *old = arg;
    if (old->count == HOST_NAMESPACES_MAX || strlen(space) > HFI_LABEL_MAX ||
        strlen(shm_name) >= REGION_NAME_MAX) {
        return false;
    }
    memcpy(old->rows[old->count].space, space, strlen(space) + 1);
    memcpy(old->rows[old->count].shm_name, shm_name, strlen(shm_name) + 1);
    old->count++;
    return true;
}

/* Deletes the rows of the previous session, in one commit. This commit would make an old copy of
 * the store look newer, if the agent is killed before it votes. So until the store votes again, the
 * agent's messages report no newer commit than the store had when it was opened
 * (disk_keep_opened()). */
static bool leave_session(struct agent *agent)
{
    struct old_regions old = {.count = 0};
    struct store_reader reader = {.arg = &old, .region = collect_old};
    struct store *store = agent->store;
    uint64_t commit;
    if (!store_load(store, &reader) || !store_begin(store) || !disk_keep_opened(agent)) {
        return false;
    }
    for (uint32_t i = 0; i < old.count; i++) {
        if (!store_del_region(store, old.rows[i].space)) {
            return false;
        }
    }
    if (!store_commit(store, &commit)) {
        return false;
    }
    for (uint32_t i = 0; i < old.count; i++) {
        if (memory_is_flat(old.rows[i].shm_name)) {
            memory_remove_flat(agent, old.rows[i].shm_name);
        }
    }
    regions_remove_stale(agent, REMOVER_FOLDER);
    return true;
}

/* Makes the new session durable. */
static bool keep_session(struct agent *agent)
{
    struct store *store = agent->store;
    uint64_t commit;
    if (!store_begin(store) || !store_put_session_epoch(store, agent->start->epoch)) {
        return false;
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        char name[REGION_NAME_MAX];
        snprintf(name, sizeof(name), "%s/%s", memory_folder(agent),
                 agent->config.namespaces[i].name);
        if (!store_put_region(store, agent->config.namespaces[i].name, name)) {
            return false;
        }
    }
    if (!store_commit(store, &commit)) {
        return false;
    }
    agent->start->epoch_unknown = true;
    disk_committed(agent, commit);
    return true;
}

/* Begins a new epoch with new regions. */
static int begin_epoch(struct agent *agent)
{
    agent->start->epoch = agent->meta.session_epoch + 1;
    if (agent->start->epoch >= MESSAGE_EPOCH_LIMIT) {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "%s/holdfast.db: found session %" PRIu32 ", the last number that there is, "
            "and that session cannot go on: the name %s is used up (docs/OPERATIONS.md, "
            "\"Session numbers\"); nothing was changed",
            agent->config.state_dir, agent->meta.session_epoch, agent->config.agent);
    }
    if (!leave_session(agent)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    regions_forget_notes(agent);
    regions_take_notes(agent);
    int code = regions_make(agent);
    if (code == AGENT_EXIT_OK && !keep_session(agent)) {
        code = agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    return code;
}

void agent_give_epoch_back(struct agent *agent)
{
    struct store *store = agent->store;
    uint64_t commit;
    if (!agent->start->epoch_unknown || !store_begin(store) ||
        !store_put_session_epoch(store, agent->meta.session_epoch)) {
        return; /* on failure the epoch stays used up */
    }
    agent->start->epoch_unknown = false;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (!store_del_region(store, agent->config.namespaces[i].name)) {
            return;
        }
    }
    if (!store_commit(store, &commit)) {
        return;
    }
    regions_remove(agent);
}

void agent_epoch_known(struct agent *agent)
{
    agent->start->epoch_unknown = false;
}

bool agent_lock_socket_again(struct agent *agent)
{
    struct folders_locks *locks = &agent->start->locks;
    struct stat status;
    if (fstat(locks->socket_fd, &status) == 0 && status.st_nlink > 0) {
        return true;
    }
    int fd = folders_lock_socket(agent);
    if (fd < 0) {
        return false;
    }
    close(locks->socket_fd);
    locks->socket_fd = fd;
    return true;
}

uint32_t agent_epoch(const struct agent *agent)
{
    return agent->start->epoch;
}

const struct message_rules *agent_rules(const struct agent *agent)
{
    return &agent->start->rules;
}

/* Makes new cores, after the old ones were loaded in part from a region that cannot be adopted. */
static int make_cores_anew(struct agent *agent)
{
    release_cores(agent);
    return make_cores(agent);
}

/* Tries to continue the previous session. Each call of regions_adopt() that returns REGIONS_AGAIN
 * has found one more region that cannot be adopted. Sets *adopted if the session goes on, and
 * writes the reason to `why` if it does not. */
static int adopt_session(struct agent *agent, bool *adopted, char *why)
{
    enum regions_result result = REGIONS_AGAIN;
    int code = AGENT_EXIT_OK;
    regions_begin_adoption(agent);
    for (uint32_t i = 0; result == REGIONS_AGAIN && i <= agent->config.namespace_count; i++) {
        code = i == 0 ? code : make_cores_anew(agent);
        if (code != AGENT_EXIT_OK) {
            return code;
        }
        result = regions_adopt(agent);
    }
    *adopted = result == REGIONS_ADOPTED;
    if (result == REGIONS_FAILED) {
        return AGENT_EXIT_SOFTWARE;
    }
    if (!*adopted) {
        memcpy(why, agent->error, sizeof(agent->error));
        agent->host_config.continued_epoch = 0;
        code = make_cores_anew(agent);
    }
    return code;
}

/* Makes the cores and the session. Continues the previous agent's session if possible, and begins a
 * new one if not. */
static int make_session(struct agent *agent)
{
    char why[AGENT_ERROR_MAX] = "";
    struct store_reader reader = {.arg = agent, .region = load_region};
    if (!store_load(agent->store, &reader)) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
    }
    const char *over = why_over(agent);
    agent->host_config.continued_epoch = over == NULL ? agent->meta.session_epoch : 0;
    int code = make_cores(agent);
    if (code == AGENT_EXIT_OK && over == NULL) {
        code = adopt_session(agent, &agent->adopted, why);
    } else if (over != NULL) {
        snprintf(why, sizeof(why), "%s", over);
    }
    if (code != AGENT_EXIT_OK) {
        return code;
    }
    if (agent->adopted) {
        regions_remove_stale(agent, REMOVER_EMPTIED);
        agent->start->epoch = agent->meta.session_epoch;
        regions_promised(agent, agent->left.deadline_ns);
    } else {
        code = begin_epoch(agent);
    }
    if (code == AGENT_EXIT_OK) {
        make_renewal(agent);
        agent_log_start(agent, agent->adopted ? NULL : why);
        record_tell(agent);
        regions_log_holes(agent);
    }
    return code;
}

/* Sets the fields that agent_release() relies on. Returns false if there is no memory. */
static bool blank(struct agent *agent)
{
    agent->own = geteuid();
    umask(0077);
    agent->start = calloc(1, sizeof(*agent->start));
    if (agent->start != NULL) {
        folders_init(agent, &agent->start->locks);
    }
    return agent->start != NULL;
}

static int out_of_memory(struct agent *agent)
{
    return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "out of memory");
}

/* Makes the parts that need nothing but memory and the loop. */
static bool make_parts(struct agent *agent)
{
    if (!regions_create(agent) || !clients_create(agent) || !serve_create(agent)) {
        return false;
    }
    agent->processes = processes_create(agent);
    agent->backups = backups_create(agent);
    return agent->processes != NULL && agent->backups != NULL && judge_create(agent);
}

int agent_open_folders(struct agent *agent)
{
    if (!blank(agent)) {
        return out_of_memory(agent);
    }
    int code = folders_open(agent, &agent->start->locks);
    if (code == AGENT_EXIT_OK &&
        !lease_file_open(&agent->lease_file, agent->state_fd, &agent->left)) {
        code = agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "%s/lease: %s", agent->config.state_dir,
                          strerror(errno));
    }
    return code;
}

int agent_prepare(struct agent *agent)
{
    if (!blank(agent)) {
        return out_of_memory(agent);
    }
    agent->start->kernel = (struct hfi_kernel){.sleep = kernel_sleep,
                                               .wake = kernel_wake,
                                               .now_ns = kernel_now_ns,
                                               .ring = kernel_ring,
                                               .arg = agent};
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the size limit must fail, and not end the
                                     * process */
    if (!loop_create(agent) || !region_file_guard()) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "cannot set up the event loop");
    }
    agent->numbers = peer_numbers();
    if (!make_parts(agent)) {
        return out_of_memory(agent);
    }
    int code = folders_open(agent, &agent->start->locks);
    if (code == AGENT_EXIT_OK) {
        code = agent_open_store(agent);
    }
    if (code == AGENT_EXIT_OK) {
        code = fill_host_config(agent);
    }
    if (code == AGENT_EXIT_OK) {
        code = record_see_votes(agent, &agent->start->has_voted);
    }
    if (code == AGENT_EXIT_OK) {
        fill_rules(agent);
        code = record_check_rules(agent, &agent->start->rules);
    }
    if (code == AGENT_EXIT_OK) {
        code = peers_open(agent);
    }
    if (code == AGENT_EXIT_OK) {
        code = agent_open_lease_page(agent);
    }
    if (code == AGENT_EXIT_OK) {
        code = make_session(agent);
    }
    if (code == AGENT_EXIT_OK && !clients_load(agent)) {
        agent_give_epoch_back(agent);
        code = AGENT_EXIT_UNAVAILABLE;
    }
    return code;
}

void agent_release(struct agent *agent)
{
    agent_close_loop(agent);
    peers_close(agent);
    disk_close(agent);
    backups_destroy(agent->backups);
    agent->backups = NULL;
    driver_destroy(agent->driver);
    agent->driver = NULL;
    if (agent->start != NULL) {
        release_cores(agent);
    }
    store_close(agent->store);
    agent->store = NULL;
    lease_file_close(&agent->lease_file);
    regions_destroy(agent);
    clients_destroy(agent);
    serve_destroy(agent);
    users_destroy(agent);
    memory_close(agent);
    files_close(agent);
    judge_destroy(agent);
    loop_destroy(agent);
    if (agent->start != NULL) {
        folders_close(agent, &agent->start->locks);
    }
    free(agent->start);
    agent->start = NULL;
}
