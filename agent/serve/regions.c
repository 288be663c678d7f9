/*
 * The regions of the namespaces: adopting those that the previous agent left, giving up those that
 * are unusable, and making fresh ones.
 *
 * Namespaces do not depend on each other. A region that cannot be adopted, or that becomes unusable
 * while the agent runs, is given up, and the session goes on with the others. Its namespace is not
 * served until nobody can hold anything in the old region any more (core/host/regions.c says when,
 * and why that is safe). Then it begins anew with a fresh region. The notes beside the lease page
 * (io/lease_file.h), which no client maps, say whether a region was given up, until when, and which
 * incarnation is in use. Nothing that is read from a region decides about the store, the session or
 * another namespace.
 *
 * A new session begins only if no region at all can be adopted: then no process would lose a hold
 * by it.
 *
 *   found                      by                                                then
 *   truncated                  SIGBUS at the first touch; a look, each ttl/4     given up
 *   a hole was punched         the memory that the object has, each ttl/4        given up
 *   a hole, and no room        SIGBUS at the first touch                         given up
 *   header rewritten           a comparison, each ttl/4                          written again
 *   mapped so often that a hole which is punched makes each touch wait
 *                              the thread that prolongs its lease is stuck  abandoned: given up,
 *                              (serve/prolong.h)                            and never touched again
 *   not there, not ours, of another size or identity, its chains make no
 *   sense                      adopting it                                       given up
 *
 * All of these checks also run before a lock is given back to the quorum and before a process is
 * granted a lock of the region. So nothing is given back because of words in an unusable region,
 * and no process maps one.
 */
#include "serve/regions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "driver/disk.h"
#include "io/clock.h"
#include "proto/check.h"
#include "serve/memory.h"
#include "serve/prolong.h"
#include "turn.h"

enum { LOOK_MS = 50 }; /* the time between two checks of all regions at the begin of a turn */

__attribute__((format(printf, 2, 3))) static void set_error(struct agent *agent, const char *format,
                                                            ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(agent->error, sizeof(agent->error), format, arguments);
    va_end(arguments);
}

/* ---- the region that a namespace needs ---- */

static void identify(const struct agent *agent, uint32_t space, uint64_t incarnation,
                     struct hfi_region_identity *identity)
{
    *identity = (struct hfi_region_identity){.grace_ns = (uint64_t)agent->config.grace_ns,
                                             .incarnation = incarnation};
    memcpy(identity->store_id, agent->meta.store_id, sizeof(identity->store_id));
    memcpy(identity->boot_id, agent->boot_id, sizeof(identity->boot_id));
    snprintf(identity->cell, sizeof(identity->cell), "%s", agent->config.cell);
    snprintf(identity->agent, sizeof(identity->agent), "%s", agent->config.agent);
    snprintf(identity->namespace_name, sizeof(identity->namespace_name), "%s",
             agent->spaces[space]);
}

static struct hfi_region_sizes sizes_of(const struct agent *agent)
{
    return (struct hfi_region_sizes){.slot_count = agent->config.limits.locks,
                                     .holder_count = HFI_HOLDER_AGENT,
                                     .block_count = agent->config.limits.blocks};
}

static void note_incarnation(struct agent *agent, uint32_t space, uint64_t incarnation)
{
    atomic_store(&agent->notes[space]->incarnation, incarnation); /* seq_cst: the next agent reads
                                                                   * it */
}

static bool make_one(struct agent *agent, uint32_t space, char *error)
{
    const struct hfi_region_sizes sizes = sizes_of(agent);
    struct hfi_region_identity identity;
    identify(agent, space, clock_random() | 1 /* 0 is no incarnation */, &identity);
    if (!region_file_create(&agent->regions[space], agent->shm_fd, &sizes, &identity, error)) {
        return false;
    }
    note_incarnation(agent, space, identity.incarnation);
    return true;
}

/* ---- notes ---- */

void regions_forget_notes(struct agent *agent)
{
    const struct lease_file *file = &agent->lease_file;
    memset((void *)file->regions, 0, file->room.regions * sizeof(*file->regions));
}

void regions_take_notes(struct agent *agent)
{
    const struct lease_file *file = &agent->lease_file;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        uint64_t hash = hfi_name_hash(agent->spaces[i], strlen(agent->spaces[i]));
        struct host_region_note *note = NULL;
        for (uint32_t k = 0; k < file->room.regions; k++) {
            uint64_t seen = atomic_load(&file->regions[k].name_hash);
            if (seen == hash || (note == NULL && seen == 0)) {
                note = &file->regions[k];
            }
        }
        HF_CHECK(note != NULL); /* there are as many notes as there may be namespaces */
        atomic_store(&note->name_hash, hash);
        agent->notes[i] = note;
        host_set_region_note(agent->host, i, note);
    }
}

/* An older release kept no closing times. So each lock counts as just closed, with the longest
 * lock-delay. */
static void note_unknown_closings(struct agent *agent)
{
    int64_t longest_ns = MESSAGE_LOCK_DELAY_MAX_MS * INT64_C(1000000);
    longest_ns += longest_ns / 100 * agent->config.max_drift_percent;
    for (uint32_t i = 0; !agent->lease_file.regions_count && i < agent->config.namespace_count;
         i++) {
        atomic_store(&agent->notes[i]->closed_ns, clock_boottime_ns() + longest_ns);
    }
}

/* ---- adopting ---- */

/* Gives the namespace up at the start: this agent or an earlier one cannot use its region. */
static void bar(struct agent *agent, uint32_t space, const char *why)
{
    struct log_line line;
    agent->rubbish |= UINT64_C(1) << space;
    log_begin(&line, LOG_LEVEL_ERROR, "region_rubbish");
    log_text(&line, "namespace", agent->spaces[space]);
    log_text(&line, "text", why);
    log_end(&line);
}

static bool is_barred(const struct agent *agent, uint32_t space)
{
    return agent->rubbish >> space & 1;
}

static bool open_one(struct agent *agent, uint32_t space, char *error)
{
    const struct hfi_region_sizes sizes = sizes_of(agent);
    struct region_file *file = &agent->regions[space];
    struct hfi_region_identity identity;
    identify(agent, space, atomic_load(&agent->notes[space]->incarnation), &identity);
    if (identity.incarnation == 0) {
        snprintf(error, REGION_ERROR_MAX, "no region of it is noted in /dev/shm%s/lease",
                 agent->shm_folder);
        return false;
    }
    if (!memory_is_reached(agent, space, identity.incarnation, hfi_region_size(&sizes))) {
        snprintf(error, REGION_ERROR_MAX,
                 "a process of this namespace makes each access to its region take long");
        return false;
    }
    if (!region_file_adopt(file, agent->shm_fd, &sizes, &identity, error)) {
        return false;
    }
    const char *wrong = host_add_region(agent->host, space, &file->region, true);
    if (wrong != NULL) {
        snprintf(error, REGION_ERROR_MAX, "%s: %s", file->shm_name, wrong);
    }
    return wrong == NULL;
}

static bool load_slot(void *arg, const struct store_slot *slot)
{
    struct agent *agent = arg;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (strcmp(agent->spaces[i], slot->space) == 0) {
            return is_barred(agent, i) ||
                   host_load_slot(agent->host, i, slot->slot, slot->name, slot->length);
        }
    }
    return false;
}

static void load_grants(struct agent *agent)
{
    for (uint32_t name = names_next(agent->names, NAMES_NONE);
         agent->quorum != NULL && name != NAMES_NONE; name = names_next(agent->names, name)) {
        struct quorum_register reg;
        if (quorum_look(agent->quorum, name, &reg)) {
            host_load_grant(agent->host, &reg.name, &reg.value);
        }
    }
}

/* Returns why a region that was opened and loaded is unusable; NULL: it is usable. */
static const char *contradiction(struct agent *agent, uint32_t space)
{
    const char *wrong = host_check_region(agent->host, space);
    switch (region_file_fault(&agent->regions[space])) {
    case REGION_CUT:
        return "it was truncated";
    case REGION_PUNCHED:
        return "a process punched a hole into it";
    case REGION_ROOMLESS:
        return "/dev/shm has no room for a page of it";
    case REGION_SWOLLEN:
        return "a process allocated memory behind its end";
    case REGION_SOUND:
    case REGION_HEADER:
    case REGION_HELD:
        break;
    }
    return wrong;
}

/* Bars the regions that are unusable. Returns true if there was none. */
static bool check_all(struct agent *agent)
{
    uint64_t before = agent->rubbish;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        const char *wrong = is_barred(agent, i) ? NULL : contradiction(agent, i);
        if (wrong != NULL) {
            char why[REGION_ERROR_MAX + REGION_NAME_MAX];
            snprintf(why, sizeof(why), "%s: %s", agent->regions[i].shm_name, wrong);
            bar(agent, i, why);
        }
    }
    return agent->rubbish == before;
}

static bool open_all(struct agent *agent)
{
    uint64_t before = agent->rubbish;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        char error[REGION_ERROR_MAX];
        if (is_barred(agent, i)) {
            continue;
        }
        if (atomic_load(&agent->notes[i]->given_up) != 0) {
            bar(agent, i, "a previous agent gave its region up, and made no new one");
        } else if (!open_one(agent, i, error)) {
            bar(agent, i, error);
        }
    }
    return agent->rubbish == before;
}

static bool all_barred(const struct agent *agent)
{
    return (uint32_t)__builtin_popcountll(agent->rubbish) == agent->config.namespace_count;
}

/* Deletes the rows of regions that were given up: they name slots that nobody reads any more. */
static bool leave_rows(struct agent *agent)
{
    struct store *store = agent->store;
    uint64_t commit;
    if (!store_begin(store) || !disk_keep_opened(agent)) {
        return false;
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i) && !store_del_slots(store, agent->spaces[i])) {
            return false;
        }
    }
    if (!store_commit(store, &commit)) {
        return false;
    }
    disk_committed(agent, commit);
    return true;
}

/* The processes of a barred region notice it when the folder is removed (serve/memory.h). By then
 * the notes say that it was given up. */
static bool leave_barred(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i)) {
            agent->anew_ns[i] = host_give_up_region(agent->host, i, agent->left.deadline_ns);
            agent->given_up++;
        }
    }
    return agent->rubbish == 0 || leave_rows(agent);
}

enum regions_result regions_adopt(struct agent *agent)
{
    struct store_reader slots = {.arg = agent, .slot = load_slot};
    uint64_t seen = lease_file_commit(&agent->lease_file);
    if (seen > agent->meta.commit) {
        /* An old copy of the store may not know which lock each slot is now. */
        set_error(agent,
                  "%s/holdfast.db is an old copy: commit %" PRIu64 ", expected %" PRIu64
                  " at least",
                  agent->config.state_dir, agent->meta.commit, seen);
        return REGIONS_OVER;
    }
    regions_take_notes(agent);
    note_unknown_closings(agent);
    lease_file_count_notes(&agent->lease_file);
    bool opened = open_all(agent);
    if (all_barred(agent)) {
        set_error(agent, "no region of a namespace can be used any further");
        return REGIONS_OVER;
    }
    if (!opened) {
        return REGIONS_AGAIN;
    }
    if (!store_load(agent->store, &slots)) {
        set_error(agent, "%s", store_error(agent->store));
        return REGIONS_OVER;
    }
    load_grants(agent);
    if (!check_all(agent)) {
        return REGIONS_AGAIN;
    }
    if (!leave_barred(agent)) {
        set_error(agent, "%s", store_error(agent->store));
        return REGIONS_FAILED;
    }
    return REGIONS_ADOPTED;
}

/* A region that was adopted with holes in it is served as long as /dev/shm has room when a page is
 * touched. The log warns of that. */
void regions_log_holes(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        uint64_t missing = is_barred(agent, i) ? 0 : region_file_missing(&agent->regions[i]);
        if (missing > 0) {
            struct log_line line;
            log_begin(&line, LOG_LEVEL_WARN, "region_has_holes");
            log_text(&line, "namespace", agent->spaces[i]);
            log_unsigned(&line, "number", missing);
            log_text(
                &line, "text",
                "so many bytes of its region have no memory, and /dev/shm has no room for them: "
                "if it is still full when one of them is needed, the namespace is begun anew");
            log_end(&line);
        }
    }
}

/* ---- a new session ---- */

/* If one region cannot be made, those made before it are removed, so that they take up no room. */
bool regions_make(struct agent *agent)
{
    uint32_t count = agent->config.namespace_count;
    agent->rubbish = 0;
    for (uint32_t i = 0; i < count; i++) {
        char error[REGION_ERROR_MAX];
        if (!make_one(agent, i, error)) {
            for (uint32_t made = 0; made < i; made++) {
                region_file_drop(&agent->regions[made], agent->shm_fd);
            }
            if (count == 1) {
                set_error(agent, "%s", error);
            } else {
                set_error(agent, "%s (region %u of %u, all of one size)", error, i + 1, count);
            }
            return false;
        }
    }
    return true;
}

/* ---- while the agent runs ---- */

bool regions_are_sound(void *arg, uint32_t space)
{
    struct agent *agent = arg;
    uint64_t bit = UINT64_C(1) << space;
    enum region_fault fault = REGION_SOUND;
    agent->unsound |= agent->held & bit;
    if ((agent->unsound & bit) == 0) {
        agent_lend(agent);
        fault = region_file_fault(&agent->regions[space]);
        if (fault == REGION_HEADER) {
            region_file_mend(&agent->regions[space]);
        }
        agent_take_back(agent);
    }
    if (fault == REGION_HEADER) {
        agent->mended |= bit;
    } else if (fault != REGION_SOUND) {
        agent->unsound |= bit;
        agent->faults[space] = (uint8_t)fault;
    }
    return (agent->unsound & bit) == 0;
}

static const char *text_of(enum region_fault fault)
{
    switch (fault) {
    case REGION_CUT:
        return "a process of this namespace truncated its region";
    case REGION_ROOMLESS:
        return "a page of its region could not be allocated: /dev/shm is full, and the region had "
               "a hole there, left by an earlier release or made by a process of this namespace";
    case REGION_HELD:
        return "a process of this namespace held this agent up in its region, which it has mapped "
               "many times, with holes that it punches";
    case REGION_SWOLLEN:
        return "a process of this namespace allocated memory behind the end of its region";
    default:
        return "a process of this namespace punched a hole into its region";
    }
}

/* Abandons the region, so that no page of it is touched any more. If there is no memory for that,
 * the calls that follow may be held up. */
static void abandon(struct agent *agent, uint32_t space)
{
    struct region_file *file = &agent->regions[space];
    if (agent->abandoned[space] < REGION_ABANDONED_MAX && region_file_abandon(file)) {
        agent->abandoned[space]++;
        host_move_region(agent->host, space, &file->region);
    }
}

static enum region_fault fault_of(struct agent *agent, uint32_t space)
{
    if ((agent->held >> space & 1) != 0) {
        return REGION_HELD;
    }
    if (agent->faults[space] == REGION_SOUND) { /* a touch met a missing page */
        agent_lend(agent);
        agent->faults[space] = (uint8_t)region_file_fault(&agent->regions[space]);
        agent_take_back(agent);
    }
    return agent->faults[space];
}

static void give_up(struct agent *agent, uint32_t space, enum region_fault fault)
{
    struct log_line line;
    uint64_t bit = UINT64_C(1) << space;
    int64_t now_ns = clock_boottime_ns();
    agent->rubbish |= bit;
    agent->roomless = fault == REGION_ROOMLESS ? agent->roomless | bit : agent->roomless & ~bit;
    agent->given_up++;
    if (agent->prolong != NULL) {
        prolong_leave(agent->prolong, space);
    }
    if (fault == REGION_HELD) {
        abandon(agent, space);
    }
    int64_t promised_ns = agent->promised_ns; /* no further deadline is promised for it, see
                                               * serve/prolong.h */
    agent_lend(agent);
    int64_t anew_ns = host_give_up_region(agent->host, space, promised_ns);
    agent_take_back(agent);
    struct respite *respite = &agent->respites[space];
    int64_t respite_ns = now_ns + respite_count(respite, now_ns);
    agent->anew_ns[space] = anew_ns > respite_ns ? anew_ns : respite_ns;
    memory_remove(agent, space, REMOVER_EMPTIED, agent->regions[space].own_name);
    log_begin(&line, LOG_LEVEL_ERROR, "region_rubbish");
    log_text(&line, "namespace", agent->spaces[space]);
    log_seconds(&line, "anew_in", agent->anew_ns[space] - now_ns);
    log_number(&line, "times", respite->given_up);
    log_text(&line, "text", text_of(fault));
    log_end(&line);
}

/* Logs why no fresh region was made. The next try follows after a quarter of session_ttl. */
static void log_not_made(struct agent *agent, uint32_t space, const char *why)
{
    struct log_line line;
    int64_t now_ns = clock_boottime_ns();
    agent->anew_ns[space] = now_ns + agent->config.session_ttl_ns / 4;
    log_begin_limited(&line, LOG_LEVEL_ERROR, "region_not_made", &agent->region_limit, now_ns);
    log_text(&line, "namespace", agent->spaces[space]);
    log_text(&line, "text", why);
    log_end(&line);
}

/* Begins to make a fresh region. No process can hold a lock in the old one any more. */
static void begin_anew(struct agent *agent, uint32_t space)
{
    struct anew *work = &agent->anew_work;
    if (work->runs) {
        return; /* the turn after that attempt has ended tries again */
    }
    if (agent->abandoned[space] >= REGION_ABANDONED_MAX) {
        log_not_made(agent, space,
                     "its processes held this agent up in its regions too often: it is not served "
                     "before the next start of this agent");
        return;
    }
    if (agent->prolong != NULL && prolong_is_busy(agent->prolong, space)) {
        agent->anew_ns[space] = clock_boottime_ns() + agent->config.session_ttl_ns / 4;
        return; /* its thread is stuck in the old region, which must stay mapped */
    }
    if (memory_is_stuck(agent, space)) {
        /* Without this limit, a process that makes each region unusable, and keeps it open, would
         * use up the memory of one more region each time. */
        log_not_made(agent, space,
                     "its regions that were given up cannot be removed: a process keeps them "
                     "locked (docs/SECURITY.md, \"Locks of the kernel that a client can keep\")");
        return;
    }
    work->space = space;
    work->folder = agent->shm_fd;
    work->sizes = sizes_of(agent);
    identify(agent, space, clock_random() | 1, &work->identity);
    if (!anew_begin(work)) {
        log_not_made(agent, space, strerror(errno));
    }
}

/* Takes the fresh region over, or logs why there is none. */
static void end_anew(struct agent *agent)
{
    struct anew *work = &agent->anew_work;
    uint32_t space = work->space;
    uint64_t bit = UINT64_C(1) << space;
    struct log_line line;
    anew_end(work);
    if (!work->good) {
        log_not_made(agent, space, work->error);
        return;
    }
    agent_lend(agent);
    region_file_leave(&agent->regions[space]); /* unmapping may be held up, as a touch may */
    agent_take_back(agent);
    region_file_take(&agent->regions[space], &work->file);
    if (agent->prolong != NULL) {
        prolong_leave(agent->prolong, space); /* the checks of the old region do not count for the
                                               * new one */
    }
    note_incarnation(agent, space, work->identity.incarnation);
    /* The region is whole, and the note of the old one is cleared: the next agent may adopt it. */
    atomic_store(&agent->notes[space]->given_up, 0);
    const char *wrong = host_add_region(agent->host, space, &agent->regions[space].region, false);
    HF_CHECK(wrong == NULL);
    agent->rubbish &= ~bit;
    agent->roomless &= ~bit;
    agent->unsound &= ~bit;
    agent->held &= ~bit;
    agent->faults[space] = REGION_SOUND;
    agent->anew++;
    log_begin(&line, LOG_LEVEL_INFO, "region_begun_anew");
    log_text(&line, "namespace", agent->spaces[space]);
    log_end(&line);
}

/* Only begins a turn: its end calls regions_see(), which takes the region over. */
static void on_made(uv_async_t *async)
{
    agent_turn(async->data, TURN_END);
}

bool regions_set_up(struct agent *agent)
{
    uv_async_t *made = &agent->anew_work.made;
    made->data = agent;
    return uv_async_init(&agent->loop, made, on_made) == 0;
}

void regions_leave(struct agent *agent)
{
    struct anew *work = &agent->anew_work;
    if (work->runs) {
        anew_end(work);
        if (work->good) {
            region_file_drop(&work->file, work->folder);
        }
    }
}

static void log_mended(struct agent *agent)
{
    for (uint32_t i = 0; agent->mended != 0 && i < agent->config.namespace_count; i++) {
        struct log_line line;
        if ((agent->mended >> i & 1) != 0) {
            log_begin_limited(&line, LOG_LEVEL_WARN, "region_mended", &agent->region_limit,
                              clock_boottime_ns());
            log_text(&line, "namespace", agent->spaces[i]);
            log_end(&line);
        }
    }
    agent->mended = 0;
}

void regions_see(struct agent *agent)
{
    log_mended(agent);
    if (anew_is_done(&agent->anew_work)) {
        end_anew(agent);
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i)) {
            if (host_region_is_left(agent->host, i) && agent->anew_ns[i] <= clock_boottime_ns()) {
                begin_anew(agent, i);
            }
        } else if (region_file_is_rubbish(&agent->regions[i]) || (agent->unsound >> i & 1) != 0) {
            give_up(agent, i, fault_of(agent, i));
        }
    }
}

void regions_look(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (!is_barred(agent, i)) {
            (void)regions_are_sound(agent, i); /* an unusable region is given up when this turn
                                                * ends */
        }
    }
}

void regions_watch(struct agent *agent)
{
    if (agent->turn_ns - agent->regions_ns < LOOK_MS * INT64_C(1000000)) {
        return;
    }
    agent->regions_ns = agent->turn_ns;
    if (agent->prolong != NULL) {
        agent->held |= prolong_held(agent->prolong);
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (!is_barred(agent, i) && !regions_are_sound(agent, i)) {
            give_up(agent, i, fault_of(agent, i));
        }
    }
}

int64_t regions_next_ns(const struct agent *agent)
{
    int64_t due_ns = INT64_MAX;
    if (agent->anew_work.runs) {
        return due_ns; /* the callback `made` wakes the loop */
    }
    for (uint32_t i = 0; agent->rubbish != 0 && i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i) && agent->anew_ns[i] < due_ns) {
            due_ns = agent->anew_ns[i];
        }
    }
    return due_ns;
}
