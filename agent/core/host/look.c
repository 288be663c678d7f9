/* A lock as people see it: see look.h. */
#include "look.h"

#include "clients.h"
#include "handles.h"
#include "holdfast/admin.h"
#include "locks.h"
#include "seats.h"
#include "spaces.h"

uint64_t look_mark(const struct host *host, struct lock_ref at, uint32_t holder, uint32_t seat)
{
    uint64_t word = atomic_load(lock_word(host, at));
    uint64_t cell = seat != HFI_SEAT_NONE
                        ? atomic_load(&hfi_seat(space_region(host, at.space), seat)->reader)
                        : 0;
    return cell & HFI_CELL_COUNT                            ? handle_mark_of_cell(cell)
           : holder != 0 && hfi_word_holder(word) == holder ? handle_mark_of_word(word)
                                                            : 0;
}

void look_holder(const struct host *host, struct lock_ref at, uint32_t holder, uint32_t seat,
                 struct hfi_party_frame *out)
{
    const struct message_agent *agent = &host->config.agent;
    uint32_t client = client_of_id(host, holder);
    *out = (struct hfi_party_frame){
        .pid = -1,
        .uid = -1,
        .elapsed_ns = -1,
        .remaining_ns = -1,
        .agent = {agent->text, agent->length},
        .mode = HF_EXCLUSIVE,
    };
    if (client != NONE) {
        const struct host_peer *peer = client_peer(host, client);
        out->pid = peer->pid > 0 ? peer->pid : -1;
        out->uid = peer->uid;
        out->command = (struct hfi_text){peer->command,
                                         hub_text_size(peer->command, sizeof(peer->command))};
    }
    uint32_t named = handle_of(host, at, holder);
    if (named != NONE) {
        out->note = handle_note(host, named, look_mark(host, at, holder, seat));
    }
    out->remaining_ns = host->lease.deadline_ns - host->now_ns;
    if (seat != HFI_SEAT_NONE) {
        const struct hfi_seat *shared = hfi_seat(space_region(host, at.space), seat);
        uint32_t handle = seat_handle(host, at.space, seat);
        /* unsigned, so that rubbish in the region cannot overflow */
        int64_t own_ns = (int64_t)(atomic_load(&shared->deadline_ns) - (uint64_t)host->now_ns);
        bool limited = handle != NONE && (handle_flags(host, handle) & HANDLE_LIMITED);
        out->remaining_ns = limited && own_ns < out->remaining_ns ? own_ns : out->remaining_ns;
        out->elapsed_ns = look_elapsed_ns(host->now_ns, atomic_load(&shared->since));
    }
    out->remaining_ns = out->remaining_ns > 0 ? out->remaining_ns : 0;
}

uint64_t look_token(const struct host *host, struct lock_ref at, uint64_t word, bool shared)
{
    uint64_t token = hfi_token(lock_token_last(host, at), word);
    /* A process that the word names while readers hold the lock waits until they have left. The
     * word has its token already. */
    return shared && hfi_word_holder(word) != 0 && token > 0 ? token - 1 : token;
}

/* Fills in the readers that hold the lock. Returns how many there are. */
static uint32_t fill_readers(const struct host *host, struct lock_ref at, uint64_t token,
                             struct hfi_party_frame *parties, uint32_t room)
{
    uint32_t count = 0;
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        const struct hfi_seat *shared = hfi_seat(space_region(host, at.space), walk.seat);
        if (!(atomic_load(&shared->reader) & HFI_CELL_COUNT)) {
            continue;
        }
        if (count < room) {
            look_holder(host, at, seat_holder(host, at.space, walk.seat), walk.seat,
                        &parties[count]);
            parties[count].mode = HF_SHARED;
            parties[count].token = token;
        }
        count++;
    }
    return count;
}

/* Returns the seat of that holder id; HFI_SEAT_NONE: the id has no seat. */
static uint32_t seat_of_holder(const struct host *host, struct lock_ref at, uint32_t holder)
{
    struct seat_walk walk = seats_of(host, at);
    while (holder != 0 && seats_next(&walk)) {
        if (seat_holder(host, at.space, walk.seat) == holder) {
            return walk.seat;
        }
    }
    return HFI_SEAT_NONE;
}

void look_lock(const struct host *host, struct lock_ref at, struct hfi_lock_frame *lock,
               struct hfi_party_frame *parties)
{
    const struct hfi_region *region = space_region(host, at.space);
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word) == HFI_HOLDER_AGENT ? 0 : hfi_word_holder(word);
    uint32_t holder_seat = seat_of_holder(host, at, holder);
    uint32_t readers = fill_readers(host, at, look_token(host, at, word, true), parties,
                                    HFI_FRAME_PARTIES_MAX);
    uint32_t used = readers < HFI_FRAME_PARTIES_MAX ? readers : HFI_FRAME_PARTIES_MAX;
    lock->state = readers ? HF_STATE_SHARED : holder ? HF_STATE_EXCLUSIVE : HF_STATE_FREE;
    lock->holder_count = used;
    /* While readers hold the lock, the word may name a process in the queue, which is shown as a
     * waiter; or a reader that wants to write, which is shown once more, as the first waiter; or a
     * process that only tries, which is not shown. */
    bool upgrades = readers > 1 && holder_seat != HFI_SEAT_NONE &&
                    (atomic_load(&hfi_seat(region, holder_seat)->reader) & HFI_CELL_COUNT);
    bool apart = holder && (!readers || upgrades);
    if (apart && used < HFI_FRAME_PARTIES_MAX) {
        look_holder(host, at, holder, holder_seat, &parties[used]);
        parties[used].token = readers ? 0 : look_token(host, at, word, false);
        parties[used].elapsed_ns = look_elapsed_ns(host->now_ns,
                                                   atomic_load(&region->slots[at.slot].since));
        used++;
        lock->holder_count += readers ? 0 : 1;
    }
    uint32_t seats[HFI_FRAME_PARTIES_MAX];
    size_t queued = hfi_queue(region, at.slot, seats, HFI_FRAME_PARTIES_MAX);
    size_t known = queued < HFI_FRAME_PARTIES_MAX ? queued : HFI_FRAME_PARTIES_MAX;
    for (size_t i = 0; i < known && used < HFI_FRAME_PARTIES_MAX; i++) {
        uint32_t id = seat_holder(host, at.space, seats[i]);
        if (id != 0 && !(apart && id == holder)) {
            look_holder(host, at, id, seats[i], &parties[used]);
            uint64_t wait = atomic_load(hfi_seat_wait(region, seats[i]));
            parties[used].mode = wait & HFI_WAIT_SHARED ? HF_SHARED : HF_EXCLUSIVE;
            parties[used].remaining_ns = -1;
            parties[used].command = (struct hfi_text){NULL, 0};
            parties[used].note = (struct hfi_text){NULL, 0};
            used++;
        }
    }
    lock->waiter_count = used - lock->holder_count;
    lock->more_parties = used == HFI_FRAME_PARTIES_MAX && queued + readers > used;
    int64_t closed_ns = lock_closed_until_ns(host, at) - host->now_ns;
    if (closed_ns > 0) {
        lock->closed_ns = closed_ns;
    } else if (word & HFI_W_CLOSED) {
        lock->closed_ns = 1;
    }
}

int64_t look_elapsed_ns(int64_t now_ns, uint32_t since)
{
    uint32_t now = (uint32_t)((uint64_t)now_ns >> HFI_LEASE_UNIT_SHIFT);
    return (int64_t)((uint64_t)(now - since) << HFI_LEASE_UNIT_SHIFT);
}
