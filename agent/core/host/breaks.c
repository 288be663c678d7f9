/* Ends the holds of a lock for an administrator: see breaks.h. */
#include "breaks.h"

#include "attend.h"
#include "handles.h"
#include "locks.h"
#include "look.h"
#include "repair.h"
#include "seats.h"
#include "spaces.h"
#include "watches.h"

enum { BROKEN_MAX = 64 };

/* A break that this host has carried out. */
struct break_done {
    uint64_t id; /* 0: the entry is free */
    struct message_agent agent;
    int64_t closed_until_ns;
    struct message_broken broken;
};

struct breaks {
    int64_t former_until_ns; /* see knows_all_holds() */
    uint32_t next;
    struct break_done done[BROKEN_MAX];
};

struct breaks *breaks_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct breaks));
}

void breaks_start(struct host *host)
{
    host->breaks->former_until_ns = host->now_ns + host->config.session_ttl_ns;
}

/* Copies only the items that are used. */
static void broken_copy(struct message_broken *to, const struct message_broken *from)
{
    memcpy(to, from, (size_t)(message_broken_end(from) - (const char *)from));
}

/* Returns for how long the lock stays closed, rounded up, because 0 means that it is open. */
static uint32_t closed_ms(const struct host *host, int64_t until_ns)
{
    int64_t left_ns = until_ns - host->now_ns;
    return left_ns > 0 ? (uint32_t)((left_ns + MS - 1) / MS) : 0;
}

/* A hold that is about to end. */
struct described {
    struct message_hold hold; /* its note_size is not set yet */
    struct hfi_text note;     /* lies in `text` */
    char text[HFI_FRAME_NOTE_MAX];
};

/* Describes a hold that is about to end. The padding is zeroed, too, because messages are compared
 * as bytes. */
static void describe(const struct host *host, struct lock_ref at, uint32_t holder, uint32_t seat,
                     bool shared, struct described *out)
{
    struct message_hold *hold = &out->hold;
    struct hfi_party_frame party;
    look_holder(host, at, holder, seat, &party);
    uint64_t token = look_token(host, at, atomic_load(lock_word(host, at)), shared);
    uint32_t size = party.command.size < MESSAGE_COMMAND_MAX ? party.command.size
                                                             : MESSAGE_COMMAND_MAX;
    if (!shared) {
        party.elapsed_ns = look_elapsed_ns(
            host->now_ns, atomic_load(&space_region(host, at.space)->slots[at.slot].since));
    }
    memset(hold, 0, sizeof(*hold));
    hold->pid = party.pid;
    hold->uid = party.uid;
    hold->held_ms = party.elapsed_ns < 0 ? -1 : party.elapsed_ns / MS;
    hold->token = token < MESSAGE_TOKEN_LIMIT ? token : 0; /* a region may contain anything */
    hold->shared = shared;
    hold->command_size = (uint8_t)size;
    if (size > 0) {
        memcpy(hold->command, party.command.bytes, size);
    }
    out->note = hfi_note_shown(party.note, HFI_FRAME_NOTE_MAX, out->text);
}

/* Adds the hold to the report. If the holds have long notes, later ones are cut or left out. */
static void report(struct message_broken *broken, struct described *ended)
{
    char cut[HFI_FRAME_NOTE_MAX];
    broken->total++;
    if (broken->count < MESSAGE_HOLDS_MAX) {
        struct hfi_text note = hfi_note_shown(
            ended->note, MESSAGE_NOTES_MAX - message_broken_notes_size(broken), cut);
        ended->hold.note_size = (uint16_t)note.size;
        message_broken_add(broken, &ended->hold, note.bytes);
    }
}

/*
 * Returns whether the process that the word names has no hold yet, because it waits until the
 * readers have left. Its place in the queue shows that it is still taking the lock. The caller has
 * closed the lock, so the process cannot finish taking it while a reader's cell counts. (If the
 * process saw the last reader leave just before, its hold begins after this break.) A process
 * without a place in the queue may hold the lock, whatever the cells show: a late reader stores its
 * cell, too, and clears it again.
 */
static bool awaits_readers(const struct host *host, struct lock_ref at, uint32_t seat)
{
    return seat != HFI_SEAT_NONE && hfi_is_queued(space_region(host, at.space), seat) &&
           hfi_has_readers(space_region(host, at.space), at.slot, seat);
}

/* Ends the hold of the process that the word names, and reports it. That process may be a reader
 * that is upgrading its hold. In that case this returns the reader's seat, else HFI_SEAT_NONE. */
static uint32_t break_exclusive(struct host *host, struct lock_ref at, bool now,
                                const struct hold_breaker *by, struct message_broken *broken,
                                struct host_actions *actions)
{
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word);
    uint32_t handle = holder != 0 ? handle_of(host, at, holder) : NONE;
    uint32_t seat = handle != NONE ? handle_seat(host, handle) : HFI_SEAT_NONE;
    if (holder == 0 || holder == HFI_HOLDER_AGENT || awaits_readers(host, at, seat)) {
        return HFI_SEAT_NONE;
    }
    struct described hold;
    bool reads = seat != HFI_SEAT_NONE &&
                 (atomic_load(&hfi_seat(space_region(host, at.space), seat)->reader) &
                  HFI_CELL_COUNT);
    describe(host, at, holder, seat, reads, &hold);
    if (!hold_break(host, at, holder, word & HFI_W_TOKEN, now ? 0 : hold_delay_ms(host, at, holder),
                    by, actions)) {
        return HFI_SEAT_NONE;
    }
    report(broken, &hold);
    return reads ? seat : HFI_SEAT_NONE;
}

/* Returns false if there are more readers than one step can end. `reported`: the seat of a reader
 * whose hold is in the report already. */
static bool break_readers(struct host *host, struct lock_ref at, bool now, uint32_t reported,
                          const struct hold_breaker *by, struct message_broken *broken,
                          struct host_actions *actions)
{
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        uint32_t id = seat_holder(host, at.space, walk.seat);
        if (!hub_has_room(actions)) {
            return false;
        }
        if (id == 0) {
            continue;
        }
        struct described hold;
        describe(host, at, id, walk.seat, true, &hold);
        if (hold_break_reader(host, at, walk.seat, now ? 0 : hold_delay_ms(host, at, id), by,
                              actions) &&
            walk.seat != reported) {
            report(broken, &hold);
        }
    }
    return true;
}

/* Opens the lock again, unless its lock-delay runs. now: opens it in any case. */
static void open_again(struct host *host, struct lock_ref at, bool now, bool was_closed)
{
    bool runs = was_closed || lock_closed_until_ns(host, at) > host->now_ns;
    if (runs && !now) {
        return;
    }
    if (runs) {
        lock_close_and_write(host, at, 0);
        watch_changed(host, at);
    }
    hfi_open(lock_actor(host, at), at.slot);
}

/*
 * The break keeps the lock closed while it looks for holds, so that no hold begins or changes
 * meanwhile. Otherwise this could happen: the break has read the word, and has ended the holds of
 * some readers. Then the last reader, whose seat is still to be read, upgrades its hold and takes
 * the word. If the agent is killed meanwhile, the next agent opens the lock, which has no closing
 * time.
 */
void break_here(struct host *host, struct lock_ref at, bool now, const struct hold_breaker *by,
                struct message_broken *broken, struct host_actions *actions)
{
    memset(broken, 0, offsetof(struct message_broken, items));
    broken->part = MESSAGE_BROKEN_HOLDS;
    broken->owner = host->config.agent;
    repair_lock(host, at, actions);
    /* seq_cst: this bit is set before the word and the readers' cells are read. An upgrade takes
     * the word, and reads this bit before it clears its cell. */
    bool was_closed = atomic_fetch_or(lock_word(host, at), HFI_W_CLOSED) & HFI_W_CLOSED;
    uint32_t reported = break_exclusive(host, at, now, by, broken, actions);
    bool all = break_readers(host, at, now, reported, by, broken, actions);
    open_again(host, at, now && all, was_closed);
    if (all) {
        attend_lock(host, at, actions);
    } else {
        broken->result = HF_EFULL;
    }
    broken->closed_ms = closed_ms(host, lock_closed_until_ns(host, at));
    if (!space_is_sound(host, at.space)) {
        /* A region with a punched hole reads as if its locks were free, but processes may have
         * holds in it until it is given up. */
        broken->result = HF_EUNSERVED;
    }
}

/* Returns whether the lock has the grant of that version. An ADOPTED lock counts as having it: its
 * grant is not known yet, but it can only be a grant from before this agent's start. */
static bool is_meant(const struct host *host, struct lock_ref at, struct message_order version)
{
    return lock_state(host, at) == LOCK_ADOPTED ||
           (lock_is_granted(host, at) && message_order_equal(lock_version(host, at), version));
}

static struct break_done *done_before(struct host *host, const struct message_break *breaking)
{
    for (uint32_t i = 0; i < BROKEN_MAX; i++) {
        struct break_done *done = &host->breaks->done[i];
        if (done->id == breaking->request_id && done->id != 0 &&
            memcmp(&done->agent, &breaking->agent, sizeof(breaking->agent)) == 0) {
            return done;
        }
    }
    return NULL;
}

/*
 * Returns whether this host has no hold under the named grant except those that the break finds. A
 * process may still hold the lock in the region of an earlier session that this agent does not
 * know, for example because its store was lost. The lease in that region ends at most one ttl after
 * the last renewal of the earlier agent, which was before this agent started. If this agent knows a
 * grant for the lock, then no earlier session of this host has one.
 */
static bool knows_all_holds(const struct host *host, const struct message_break *breaking)
{
    struct lock_ref at = {0};
    return host->now_ns >= host->breaks->former_until_ns ||
           (lock_find(host, breaking->name.bytes, breaking->name.length, &at) &&
            lock_is_granted(host, at));
}

/* Carries out the break, and records it. */
static struct break_done *done_now(struct host *host, const struct message_break *breaking,
                                   struct host_actions *actions)
{
    struct lock_ref at = {0};
    struct break_done *done = &host->breaks->done[host->breaks->next++ % BROKEN_MAX];
    memset(done, 0, offsetof(struct break_done, broken.items));
    if (lock_find(host, breaking->name.bytes, breaking->name.length, &at) &&
        is_meant(host, at, breaking->version)) {
        const struct hold_breaker by = {.agent = breaking->agent,
                                        .uid = (int64_t)breaking->user - 1};
        break_here(host, at, breaking->now, &by, &done->broken, actions);
        done->closed_until_ns = lock_closed_until_ns(host, at);
    }
    done->id = breaking->request_id;
    done->agent = breaking->agent;
    done->broken.agent = breaking->agent;
    done->broken.request_id = breaking->request_id;
    done->broken.part = MESSAGE_BROKEN_HOLDS;
    done->broken.owner = host->config.agent;
    return done;
}

bool break_asked(struct host *host, const struct message_break *breaking,
                 struct message_broken *broken, struct host_actions *actions)
{
    if (space_bars_name(host, &breaking->name)) {
        return false;
    }
    struct break_done *done = done_before(host, breaking);
    if (done == NULL) {
        bool knows = knows_all_holds(host, breaking);
        done = done_now(host, breaking, actions);
        if (!knows && done->broken.total == 0) {
            done->id = 0;
            return false;
        }
    }
    if (done->broken.result == HF_EUNSERVED) {
        done->id = 0;
        return false;
    }
    broken_copy(broken, &done->broken);
    broken->meant = breaking->meant;
    broken->closed_ms = closed_ms(host, done->closed_until_ns);
    return true;
}
