/*
 * The regions of the namespaces: adopting the regions that the previous agent left, giving up
 * regions that are unusable, and making new ones.
 *
 * Namespaces do not depend on each other. A region that cannot be adopted, or that becomes unusable
 * while the agent runs, is given up, and the session goes on with the other regions. The namespace
 * of a region that was given up is not served until nobody can hold anything in that region any
 * more (core/host/regions.c says when, and why that is safe). Then the namespace begins anew with a
 * new region. The notes beside the lease page (io/lease_file.h), which no client maps, say whether
 * a region was given up, until when, and which incarnation is in use. Nothing that is read from a
 * region decides about the store, the session or another namespace.
 *
 * A new session begins only if no region at all can be adopted, because then no process loses a
 * hold by it.
 *
 *   fault of the region        found by                                          consequence
 *   truncated                  SIGBUS at the first touch; a look, each ttl/4     given up
 *   a hole was punched         the memory that the object has, each ttl/4        given up
 *   a hole, and no room        SIGBUS at the first touch                         given up
 *   header rewritten           a comparison, each ttl/4                          written again
 *   mapped so often that a punched hole makes each touch wait
 *                              the thread that prolongs its lease is stuck  abandoned: given up,
 *                              (serve/prolong.h)                            and never touched again
 *   missing, not ours, of another size or identity, or its chains make no
 *   sense                      adopting it                                       given up
 *
 * All of these checks also run before a lock is given back to the quorum and before a process is
 * granted a lock of the region. So no lock is given back because of words in an unusable region,
 * and no process maps such a region.
 */
#include "serve/regions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "driver/disk.h"
#include "io/clock.h"
#include "observe/log.h"
#include "proto/check.h"
#include "serve/anew.h"
#include "serve/leftovers.h"
#include "serve/memory.h"
#include "serve/prolong.h"
#include "serve/respite.h"
#include "turn.h"

enum {
    LOOK_MS = 50
}; /* the least time between two checks of all regions; a turn begins with a check that is due */

/* A field called a set has one bit for each namespace: bit i is the region of namespace i. */
struct regions {
    struct region_file files[HOST_NAMESPACES_MAX];
    struct host_region_note *notes[HOST_NAMESPACES_MAX]; /* the notes in the lease page */
    /* set: regions that were given up and not begun anew yet */
    uint64_t rubbish;
    /* set, a subset of rubbish: given up because a page had no memory */
    uint64_t roomless;
    uint64_t unsound;                       /* set: regions that are unusable, to be given up when
                                             * the turn ends */
    uint64_t mended;                        /* set: regions whose header was written again in this
                                             * turn */
    uint64_t held;                          /* set: a client holds up threads that touch the
                                             * region */
    uint8_t faults[HOST_NAMESPACES_MAX];    /* enum region_fault: why the region is unsound */
    uint8_t abandoned[HOST_NAMESPACES_MAX]; /* how many regions of each namespace this agent has
                                             * abandoned */
    struct respite respites[HOST_NAMESPACES_MAX];
    int64_t anew_ns[HOST_NAMESPACES_MAX]; /* for regions of rubbish: when to begin anew */
    struct regions_counts counts;
    struct anew work;
    int64_t looked_ns;       /* when all regions were last checked */
    int64_t promised_ns;     /* the last promised deadline */
    struct prolong *prolong; /* NULL: the threads that prolong leases do not run */
    bool prolonged; /* the threads that prolong leases were started; they may read the regions until
                     * the process ends, so the regions stay mapped */
    struct log_limit limit;
};

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
             agent->config.namespaces[space].name);
}

static struct hfi_region_sizes sizes_of(const struct agent *agent)
{
    return (struct hfi_region_sizes){.slot_count = agent->config.limits.locks,
                                     .holder_count = agent->config.limits.holders + 1,
                                     .block_count = agent->config.limits.blocks};
}

static void note_incarnation(struct agent *agent, uint32_t space, uint64_t incarnation)
{
    atomic_store(&agent->regions->notes[space]->incarnation,
                 incarnation); /* seq_cst: the next agent reads it */
}

static bool make_one(struct agent *agent, uint32_t space, char *error)
{
    const struct hfi_region_sizes sizes = sizes_of(agent);
    struct hfi_region_identity identity;
    identify(agent, space, clock_random() | 1 /* 0 means that no incarnation is noted */,
             &identity);
    if (!region_file_create(&agent->regions->files[space], memory_fd(agent), &sizes, &identity,
                            error)) {
        return false;
    }
    note_incarnation(agent, space, identity.incarnation);
    return true;
}

/* ---- all regions ---- */

bool regions_create(struct agent *agent)
{
    agent->regions = calloc(1, sizeof(*agent->regions));
    for (uint32_t i = 0; agent->regions != NULL && i < HOST_NAMESPACES_MAX; i++) {
        region_file_init(&agent->regions->files[i]);
    }
    return agent->regions != NULL && leftovers_create(agent);
}

void regions_close_files(struct agent *agent)
{
    struct regions *regions = agent->regions;
    for (uint32_t i = 0;
         regions != NULL && !regions->prolonged && i < agent->config.namespace_count; i++) {
        region_file_close(&regions->files[i]);
    }
}

void regions_destroy(struct agent *agent)
{
    leftovers_destroy(agent);
    if (agent->regions != NULL) {
        regions_close_files(agent);
        free(agent->regions);
        agent->regions = NULL;
    }
}

/* ---- for the other parts of the agent ---- */

struct region_view regions_view(const struct agent *agent, uint32_t space)
{
    const struct regions *regions = agent->regions;
    return (struct region_view){.fd = regions->files[space].fd,
                                .shm_name = regions->files[space].shm_name,
                                .given_up = (regions->rubbish >> space & 1) != 0,
                                .roomless = (regions->roomless >> space & 1) != 0};
}

uint64_t regions_given_up(const struct agent *agent)
{
    return agent->regions->rubbish;
}

struct regions_counts regions_counts(const struct agent *agent)
{
    return agent->regions->counts;
}

uint32_t regions_space_of(const struct agent *agent, const _Atomic uint32_t *word)
{
    uint32_t space = 0;
    for (; space < agent->config.namespace_count - 1; space++) {
        const struct region_file *file = &agent->regions->files[space];
        uintptr_t begin = (uintptr_t)file->region.header;
        if (file->memory != NULL && (uintptr_t)word >= begin &&
            (uintptr_t)word < begin + file->region.size) {
            break;
        }
    }
    return space;
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
        uint64_t hash = hfi_name_hash(agent->config.namespaces[i].name,
                                      strlen(agent->config.namespaces[i].name));
        struct host_region_note *note = NULL;
        for (uint32_t k = 0; k < file->room.regions; k++) {
            uint64_t seen = atomic_load(&file->regions[k].name_hash);
            if (seen == hash || (note == NULL && seen == 0)) {
                note = &file->regions[k];
            }
        }
        HF_CHECK(note != NULL); /* the lease page has as many notes as there may be namespaces */
        atomic_store(&note->name_hash, hash);
        agent->regions->notes[i] = note;
        host_set_region_note(agent->host, i, note);
    }
}

/* If the lease page is of an older release, it has no times of closed locks. So each lock counts as
 * just closed, with the longest lock-delay. */
static void note_unknown_closings(struct agent *agent)
{
    int64_t longest_ns = MESSAGE_LOCK_DELAY_MAX_MS * INT64_C(1000000);
    longest_ns += longest_ns / 100 * agent->config.max_drift_percent;
    for (uint32_t i = 0; !agent->lease_file.regions_count && i < agent->config.namespace_count;
         i++) {
        atomic_store(&agent->regions->notes[i]->closed_ns, clock_boottime_ns() + longest_ns);
    }
}

/* ---- adopting ---- */

/* Gives the namespace up at the start, because its region cannot be used. */
static void bar(struct agent *agent, uint32_t space, const char *why)
{
    struct log_line line;
    agent->regions->rubbish |= UINT64_C(1) << space;
    log_begin(&line, LOG_LEVEL_ERROR, "region_rubbish");
    log_text(&line, "namespace", agent->config.namespaces[space].name);
    log_text(&line, "text", why);
    log_end(&line);
}

static bool is_barred(const struct agent *agent, uint32_t space)
{
    return agent->regions->rubbish >> space & 1;
}

static bool open_one(struct agent *agent, uint32_t space, char *error)
{
    const struct hfi_region_sizes sizes = sizes_of(agent);
    struct region_file *file = &agent->regions->files[space];
    struct hfi_region_identity identity;
    identify(agent, space, atomic_load(&agent->regions->notes[space]->incarnation), &identity);
    if (identity.incarnation == 0) {
        snprintf(error, REGION_ERROR_MAX, "no region of it is noted in /dev/shm%s/lease",
                 memory_folder(agent));
        return false;
    }
    if (!memory_is_reached(agent, space, identity.incarnation, hfi_region_size(&sizes))) {
        snprintf(error, REGION_ERROR_MAX,
                 "a process of this namespace makes each access to its region take long");
        return false;
    }
    if (!region_file_adopt(file, memory_fd(agent), &sizes, &identity, error)) {
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
        if (strcmp(agent->config.namespaces[i].name, slot->space) == 0) {
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
    switch (region_file_fault(&agent->regions->files[space])) {
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

/* Bars the regions that are unusable. Returns true if all were usable. */
static bool check_all(struct agent *agent)
{
    uint64_t before = agent->regions->rubbish;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        const char *wrong = is_barred(agent, i) ? NULL : contradiction(agent, i);
        if (wrong != NULL) {
            char why[REGION_ERROR_MAX + REGION_NAME_MAX];
            snprintf(why, sizeof(why), "%s: %s", agent->regions->files[i].shm_name, wrong);
            bar(agent, i, why);
        }
    }
    return agent->regions->rubbish == before;
}

static bool open_all(struct agent *agent)
{
    uint64_t before = agent->regions->rubbish;
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        char error[REGION_ERROR_MAX];
        if (is_barred(agent, i)) {
            continue;
        }
        if (atomic_load(&agent->regions->notes[i]->given_up) != 0) {
            bar(agent, i, "a previous agent gave its region up, and made no new one");
        } else if (!open_one(agent, i, error)) {
            bar(agent, i, error);
        }
    }
    return agent->regions->rubbish == before;
}

static bool all_barred(const struct agent *agent)
{
    return (uint32_t)__builtin_popcountll(agent->regions->rubbish) == agent->config.namespace_count;
}

/* Deletes the rows of regions that were given up. Nobody needs the slots in these rows any more. */
static bool leave_rows(struct agent *agent)
{
    struct store *store = agent->store;
    uint64_t commit;
    if (!store_begin(store) || !disk_keep_opened(agent)) {
        return false;
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i) && !store_del_slots(store, agent->config.namespaces[i].name)) {
            return false;
        }
    }
    if (!store_commit(store, &commit)) {
        return false;
    }
    disk_committed(agent, commit);
    return true;
}

/* Gives up the barred regions. The processes of a barred region learn of its end when its folder is
 * removed (serve/memory.h). At that time the notes already say that the region was given up. */
static bool leave_barred(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i)) {
            agent->regions->anew_ns[i] = host_give_up_region(agent->host, i,
                                                             agent->left.deadline_ns);
            agent->regions->counts.given_up++;
        }
    }
    return agent->regions->rubbish == 0 || leave_rows(agent);
}

void regions_begin_adoption(struct agent *agent)
{
    agent->regions->rubbish = 0;
}

enum regions_result regions_adopt(struct agent *agent)
{
    struct store_reader slots = {.arg = agent, .slot = load_slot};
    uint64_t seen = lease_file_commit(&agent->lease_file);
    if (seen > agent->meta.commit) {
        /* An old copy of the store may not know the present lock of each slot. */
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

/* Warns of adopted regions that have holes. Such a region is served as long as /dev/shm has room
 * when a page is first touched. */
void regions_log_holes(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        uint64_t missing = is_barred(agent, i) ? 0 : region_file_missing(&agent->regions->files[i]);
        if (missing > 0) {
            struct log_line line;
            log_begin(&line, LOG_LEVEL_WARN, "region_has_holes");
            log_text(&line, "namespace", agent->config.namespaces[i].name);
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

/* Makes a region for each namespace. If a region cannot be made, removes the regions made before
 * it, so that they take up no room. */
static bool make_all(struct agent *agent)
{
    uint32_t count = agent->config.namespace_count;
    agent->regions->rubbish = 0;
    for (uint32_t i = 0; i < count; i++) {
        char error[REGION_ERROR_MAX];
        if (!make_one(agent, i, error)) {
            for (uint32_t made = 0; made < i; made++) {
                region_file_drop(&agent->regions->files[made], memory_fd(agent));
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

int regions_make(struct agent *agent)
{
    leftovers_clear(agent); /* the leftovers may take up the room that the regions need */
    if (!make_all(agent)) {
        leftovers_explain(agent);
        return AGENT_EXIT_UNAVAILABLE;
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        const struct region_file *file = &agent->regions->files[i];
        const char *wrong = host_add_region(agent->host, i, &file->region, false);
        if (wrong != NULL) {
            set_error(agent, "%s: %s", file->shm_name, wrong);
            return AGENT_EXIT_SOFTWARE;
        }
    }
    return AGENT_EXIT_OK;
}

/* ---- the regions' folders ---- */

static bool is_open(const struct agent *agent, uint32_t space, const char *own_name)
{
    return space < HOST_NAMESPACES_MAX && agent->regions->files[space].fd >= 0 &&
           !is_barred(agent, space) && strcmp(agent->regions->files[space].own_name, own_name) == 0;
}

void regions_remove_stale(struct agent *agent, enum remover_kind kind)
{
    memory_remove_stale(agent, kind, is_open);
}

void regions_remove(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (agent->regions->files[i].fd >= 0) {
            memory_remove(agent, i, REMOVER_FOLDER, agent->regions->files[i].own_name);
        }
    }
}

void regions_slim(const struct agent *agent)
{
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (agent->regions->files[i].fd >= 0 && !is_barred(agent, i)) {
            region_file_slim(&agent->regions->files[i]);
        }
    }
}

/* ---- the lease in the regions ---- */

void regions_promised(struct agent *agent, int64_t deadline_ns)
{
    agent->regions->promised_ns = deadline_ns;
}

bool regions_prolong_open(struct agent *agent)
{
    struct regions *regions = agent->regions;
    regions->prolong = prolong_open(agent->config.namespace_count);
    regions->prolonged = regions->prolonged || regions->prolong != NULL;
    return regions->prolong != NULL;
}

void regions_prolong_close(struct agent *agent)
{
    prolong_close(agent->regions->prolong);
    agent->regions->prolong = NULL;
}

static struct prolong_regions for_prolong(const struct regions *regions)
{
    return (struct prolong_regions){.files = regions->files, .given_up = regions->rubbish};
}

void regions_prolong(struct agent *agent, uint32_t epoch, int64_t deadline_ns)
{
    const struct prolong_regions in_use = for_prolong(agent->regions);
    prolong_leases(agent->regions->prolong, &in_use, epoch, deadline_ns);
}

void regions_touch(struct agent *agent)
{
    const struct prolong_regions in_use = for_prolong(agent->regions);
    prolong_touch(agent->regions->prolong, &in_use);
}

void regions_find_stuck(struct agent *agent)
{
    prolong_look(agent->regions->prolong);
}

/* ---- while the agent runs ---- */

bool regions_are_sound(void *arg, uint32_t space)
{
    struct agent *agent = arg;
    uint64_t bit = UINT64_C(1) << space;
    enum region_fault fault = REGION_SOUND;
    agent->regions->unsound |= agent->regions->held & bit;
    if ((agent->regions->unsound & bit) == 0) {
        agent_lend(agent);
        fault = region_file_fault(&agent->regions->files[space]);
        if (fault == REGION_HEADER) {
            region_file_mend(&agent->regions->files[space]);
        }
        agent_take_back(agent);
    }
    if (fault == REGION_HEADER) {
        agent->regions->mended |= bit;
    } else if (fault != REGION_SOUND) {
        agent->regions->unsound |= bit;
        agent->regions->faults[space] = (uint8_t)fault;
    }
    return (agent->regions->unsound & bit) == 0;
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
        return "a process of this namespace held this agent up: it mapped its region many times, "
               "and punches holes into it";
    case REGION_SWOLLEN:
        return "a process of this namespace allocated memory behind the end of its region";
    default:
        return "a process of this namespace punched a hole into its region";
    }
}

/* Abandons the region, so that the agent touches none of its pages any more. If there is no memory
 * for that, later touches of the region may be held up. */
static void abandon(struct agent *agent, uint32_t space)
{
    struct region_file *file = &agent->regions->files[space];
    if (agent->regions->abandoned[space] < REGION_ABANDONED_MAX && region_file_abandon(file)) {
        agent->regions->abandoned[space]++;
        host_move_region(agent->host, space, &file->region);
    }
}

static enum region_fault fault_of(struct agent *agent, uint32_t space)
{
    if ((agent->regions->held >> space & 1) != 0) {
        return REGION_HELD;
    }
    if (agent->regions->faults[space] == REGION_SOUND) { /* a touch met a missing page */
        agent_lend(agent);
        agent->regions->faults[space] = (uint8_t)region_file_fault(&agent->regions->files[space]);
        agent_take_back(agent);
    }
    return agent->regions->faults[space];
}

static void give_up(struct agent *agent, uint32_t space, enum region_fault fault)
{
    struct log_line line;
    uint64_t bit = UINT64_C(1) << space;
    int64_t now_ns = clock_boottime_ns();
    agent->regions->rubbish |= bit;
    agent->regions->roomless = fault == REGION_ROOMLESS ? agent->regions->roomless | bit
                                                        : agent->regions->roomless & ~bit;
    agent->regions->counts.given_up++;
    if (agent->regions->prolong != NULL) {
        prolong_leave(agent->regions->prolong, space);
    }
    if (fault == REGION_HELD) {
        abandon(agent, space);
    }
    int64_t promised_ns =
        agent->regions->promised_ns; /* the region gets no later deadline: serve/prolong.h */
    agent_lend(agent);
    int64_t anew_ns = host_give_up_region(agent->host, space, promised_ns);
    agent_take_back(agent);
    struct respite *respite = &agent->regions->respites[space];
    int64_t respite_ns = now_ns + respite_count(respite, now_ns);
    agent->regions->anew_ns[space] = anew_ns > respite_ns ? anew_ns : respite_ns;
    memory_remove(agent, space, REMOVER_EMPTIED, agent->regions->files[space].own_name);
    log_begin(&line, LOG_LEVEL_ERROR, "region_rubbish");
    log_text(&line, "namespace", agent->config.namespaces[space].name);
    log_seconds(&line, "anew_in", agent->regions->anew_ns[space] - now_ns);
    log_number(&line, "times", respite->given_up);
    log_text(&line, "text", text_of(fault));
    log_end(&line);
}

/* Logs why no new region was made. The next attempt follows after a quarter of session_ttl. */
static void log_not_made(struct agent *agent, uint32_t space, const char *why)
{
    struct log_line line;
    int64_t now_ns = clock_boottime_ns();
    agent->regions->anew_ns[space] = now_ns + agent->config.session_ttl_ns / 4;
    log_begin_limited(&line, LOG_LEVEL_ERROR, "region_not_made", &agent->regions->limit, now_ns);
    log_text(&line, "namespace", agent->config.namespaces[space].name);
    log_text(&line, "text", why);
    log_end(&line);
}

/* Begins to make a new region. At this time no process can hold a lock in the old region any
 * more. */
static void begin_anew(struct agent *agent, uint32_t space)
{
    struct anew *work = &agent->regions->work;
    if (work->runs) {
        return; /* another attempt is running: the turn after its end tries again */
    }
    if (agent->regions->abandoned[space] >= REGION_ABANDONED_MAX) {
        log_not_made(agent, space,
                     "its processes held this agent up in its regions too often: it is not served "
                     "before the next start of this agent");
        return;
    }
    if (agent->regions->prolong != NULL && prolong_is_busy(agent->regions->prolong, space)) {
        agent->regions->anew_ns[space] = clock_boottime_ns() + agent->config.session_ttl_ns / 4;
        return; /* the thread is stuck in the old region, which must stay mapped */
    }
    if (memory_is_stuck(agent, space)) {
        /* Without this limit, a process that spoils each region and keeps it open would use up the
         * memory of one more region each time. */
        log_not_made(agent, space,
                     "its regions that were given up cannot be removed: a process keeps them "
                     "locked (docs/SECURITY.md, \"Locks of the kernel that a client can keep\")");
        return;
    }
    work->space = space;
    work->folder = memory_fd(agent);
    work->sizes = sizes_of(agent);
    identify(agent, space, clock_random() | 1, &work->identity);
    if (!anew_begin(work)) {
        log_not_made(agent, space, strerror(errno));
    }
}

/* Takes the new region over, or logs why there is none. */
static void end_anew(struct agent *agent)
{
    struct anew *work = &agent->regions->work;
    uint32_t space = work->space;
    uint64_t bit = UINT64_C(1) << space;
    struct log_line line;
    anew_end(work);
    if (!work->good) {
        log_not_made(agent, space, work->error);
        return;
    }
    agent_lend(agent);
    region_file_leave(&agent->regions->files[space]); /* unmapping a region may be held up, like a
                                                       * touch */
    agent_take_back(agent);
    region_file_take(&agent->regions->files[space], &work->file);
    if (agent->regions->prolong != NULL) {
        prolong_leave(agent->regions->prolong,
                      space); /* clears what the keeper found about the old region */
    }
    note_incarnation(agent, space, work->identity.incarnation);
    /* The note of the old region is cleared when the new region is complete, so the next agent may
     * adopt the new region. */
    atomic_store(&agent->regions->notes[space]->given_up, 0);
    const char *wrong = host_add_region(agent->host, space, &agent->regions->files[space].region,
                                        false);
    HF_CHECK(wrong == NULL);
    agent->regions->rubbish &= ~bit;
    agent->regions->roomless &= ~bit;
    agent->regions->unsound &= ~bit;
    agent->regions->held &= ~bit;
    agent->regions->faults[space] = REGION_SOUND;
    agent->regions->counts.begun_anew++;
    log_begin(&line, LOG_LEVEL_INFO, "region_begun_anew");
    log_text(&line, "namespace", agent->config.namespaces[space].name);
    log_end(&line);
}

/* Begins a turn. The end of the turn calls regions_see(), which takes the region over. */
static void on_made(uv_async_t *async)
{
    agent_turn(async->data, TURN_END);
}

bool regions_set_up(struct agent *agent)
{
    uv_async_t *made = &agent->regions->work.made;
    made->data = agent;
    return uv_async_init(agent_uv(agent), made, on_made) == 0;
}

void regions_leave(struct agent *agent)
{
    struct anew *work = &agent->regions->work;
    if (work->runs) {
        anew_end(work);
        if (work->good) {
            region_file_drop(&work->file, work->folder);
        }
    }
}

static void log_mended(struct agent *agent)
{
    for (uint32_t i = 0; agent->regions->mended != 0 && i < agent->config.namespace_count; i++) {
        struct log_line line;
        if ((agent->regions->mended >> i & 1) != 0) {
            log_begin_limited(&line, LOG_LEVEL_WARN, "region_mended", &agent->regions->limit,
                              clock_boottime_ns());
            log_text(&line, "namespace", agent->config.namespaces[i].name);
            log_end(&line);
        }
    }
    agent->regions->mended = 0;
}

void regions_see(struct agent *agent)
{
    log_mended(agent);
    if (anew_is_done(&agent->regions->work)) {
        end_anew(agent);
    }
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i)) {
            if (host_region_is_left(agent->host, i) &&
                agent->regions->anew_ns[i] <= clock_boottime_ns()) {
                begin_anew(agent, i);
            }
        } else if (region_file_is_rubbish(&agent->regions->files[i]) ||
                   (agent->regions->unsound >> i & 1) != 0) {
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

void regions_watch(struct agent *agent, int64_t turn_ns)
{
    if (turn_ns - agent->regions->looked_ns < LOOK_MS * INT64_C(1000000)) {
        return;
    }
    agent->regions->looked_ns = turn_ns;
    if (agent->regions->prolong != NULL) {
        agent->regions->held |= prolong_held(agent->regions->prolong);
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
    if (agent->regions->work.runs) {
        return due_ns; /* the callback of `made` wakes the loop */
    }
    for (uint32_t i = 0; agent->regions->rubbish != 0 && i < agent->config.namespace_count; i++) {
        if (is_barred(agent, i) && agent->regions->anew_ns[i] < due_ns) {
            due_ns = agent->regions->anew_ns[i];
        }
    }
    return due_ns;
}
