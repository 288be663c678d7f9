/*
 * Full: records which table was full when a client is refused with HF_EFULL.
 *
 * The function that finds a table full notes it by full() and returns HF_EFULL, which goes up to
 * the function that answers the client. client_reply_done() puts the note into the answer. An OPEN
 * that is answered later keeps a copy of the note (pending.h).
 *
 * Invariant: a note was made in the same step as the answer, or full_restore() restored it. It is
 * for display only: no decision depends on it.
 */
#ifndef HOST_FULL_H
#define HOST_FULL_H

#include "core/base/arena.h"
#include "hub.h"

struct full;

struct full_note {
    uint32_t table; /* enum hfi_table */
    uint32_t room;  /* the table's size; 0: not known */
    uint32_t space; /* the namespace of the table; NONE: the table is not of one namespace */
    bool share;     /* `room` is the most that one user may have */
    struct message_agent voter; /* the voter that has the table; length 0: this agent */
    /* the process with the most open handles, and their number; handles == 0: not looked for */
    uint32_t handles;
    int64_t pid;
    int64_t uid;
    int64_t account;
};

struct full *full_lay_out(struct arena *arena);

/* Notes that the table is full, and returns HF_EFULL. */
int32_t full(struct host *host, enum hfi_table table, uint32_t room);
/* Returns the note, which the caller may change. */
struct full_note *full_last(struct host *host);
void full_restore(struct host *host, const struct full_note *note);
/* Fills in the part of a DONE that says which table is full, for a client of that account. Names
 * another user's process only to root (account 0). Emits a line of the log, at most one a minute
 * for each table. Clears the note. The voter's name in *out is valid until the next call. */
void full_tell(struct host *host, int64_t account, struct hfi_full *out,
               struct host_actions *actions);

#endif
