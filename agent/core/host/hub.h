/*
 * One step of the host core, as all its modules see it: the actions that it emits, how much of a
 * step is left, whether the lease is safe.
 *
 * A step emits a bounded number of actions. What might be many (watchers to notify, handles of a
 * dead client to bury) is noted, and done bit by bit for as long as hub_has_room(): the room that
 * one piece of work needs is HUB_PIECE_ACTIONS and HUB_PIECE_OUTPUT.
 *
 * Invariant: nothing is emitted without room for it (HF_CHECK), and none of this has I/O.
 */
#ifndef HOST_HUB_H
#define HOST_HUB_H

#include <string.h>

#include "core/host.h"
#include "core/quorum.h"
#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "proto/probe.h"

/* No index. */
#define NONE UINT32_MAX

static const int64_t MS = 1000000;

enum {
    HUB_HOLDER_IDS = 65535, /* ids 1 .. 65534 */
    HUB_PIECE_ACTIONS = 24, /* the room that one piece of work may need */
    HUB_PIECE_OUTPUT = 1024,
    /* From one tick to the next, however many steps that are: a turn of the loop may have thousands
     * of them. Of each kind of work, and of each namespace. */
    HUB_PIECES_MAX = 4096,
    HUB_WALK_MAX = 1 << 20, /* handles that are looked at; some milliseconds */
    HUB_WALK_PIECE = HUB_WALK_MAX / HUB_PIECES_MAX, /* so many count as a piece */
};

/* A lock, by where it is: its namespace and its slot there. */
struct lock_ref {
    uint32_t space;
    uint32_t slot;
};

struct host_action *hub_emit(struct host_actions *actions, enum host_action_kind kind);
/* A message to a voter, or HOST_TO_AGENT; the caller fills it in. */
struct message *hub_send(struct host_actions *actions, enum message_kind kind, uint32_t to,
                         uint8_t relay);
/* A line of the log that is about no lock. */
void hub_log(struct host_actions *actions, const char *event, int64_t number);
/* Whether one more piece of work fits in this step. */
bool hub_has_room(const struct host_actions *actions);
/* Whether the session's lease lasts now: only then anything is asked for or put in force. */
bool hub_lease_is_safe(const struct host *host);
/* One piece of work has begun when *walked was `before`: so many pieces does it count for. The
 * handles that it walked are then counted as pieces, no more as handles. */
uint32_t hub_pieces(struct host *host, uint32_t before);
/* The size of a terminated text of at most `max` bytes. */
uint32_t hub_text_size(const char *text, size_t max);

#endif
