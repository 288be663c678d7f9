/* Records which table is full: see full.h. */
#include "full.h"

#include "core/base/log_limit.h"

struct full {
    struct full_note note;
    struct full_note said; /* the note in the last answer, which points to its voter's name */
    struct log_limit limits[HFI_TABLE_END];
};

struct full *full_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct full));
}

int32_t full(struct host *host, enum hfi_table table, uint32_t room)
{
    host->full->note = (struct full_note){.table = table, .room = room, .space = NONE};
    return HF_EFULL;
}

struct full_note *full_last(struct host *host)
{
    return &host->full->note;
}

void full_restore(struct host *host, const struct full_note *note)
{
    host->full->note = *note;
}

static void log_full(struct host *host, struct host_actions *actions)
{
    const struct full_note *note = &host->full->said;
    uint32_t times = log_limit_add(&host->full->limits[note->table], &log_once_a_minute,
                                   host->now_ns);
    if (times == 0) {
        return;
    }
    struct host_action *action = hub_log(actions, "table_full", times);
    action->as.log.table = hfi_table_name(note->table);
    action->as.log.room = note->room;
    action->as.log.share = note->share;
    action->as.log.by = note->voter;
    if (note->space != NONE) {
        action->as.log.region = note->space;
        action->as.log.whole = true;
    }
    if (note->handles > 0) {
        action->as.log.handles = note->handles;
        action->as.log.pid = note->pid;
        action->as.log.uid = note->uid;
    }
}

void full_tell(struct host *host, int64_t account, struct hfi_full *out,
               struct host_actions *actions)
{
    struct full_note *note = &host->full->said;
    *note = host->full->note;
    host->full->note = (struct full_note){0};
    if (note->table == HFI_TABLE_UNKNOWN || note->table >= HFI_TABLE_END) {
        return;
    }
    bool may_know = note->handles > 0 && (account == 0 || account == note->account);
    *out = (struct hfi_full){.table = note->table,
                             .share = note->share,
                             .room = note->room,
                             .pid = may_know && note->pid > 0 ? note->pid : -1,
                             .handles = may_know ? note->handles : 0,
                             .voter = {note->voter.text, note->voter.length}};
    log_full(host, actions);
}
