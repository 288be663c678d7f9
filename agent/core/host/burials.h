/*
 * Burials: the end of a handle, and of a client.
 *
 * Rule 33 (docs/PROTOCOL.md): a client ends in steps. When its socket is closed, the agent ends the
 * client's holds and its waiting for locks (the client is "buried"). The client's process may still
 * have the region mapped, so the client keeps its ids and seats until the process is dead. If the
 * process connects again, its old handles stay until it reports that it has opened all its locks
 * again (RESUMED), because other threads of the process may still wait and take locks by those
 * handles.
 *
 * Rule 30: a handle is freed only when no holder record names its id any more (lockword.h, rule 5).
 * The client's ids and record are freed with its last handle. Otherwise a hand-over that is under
 * way could give the lock to a new process with an old id.
 *
 * A survivor is a client of the previous agent. The host knows which locks a survivor has open only
 * when the survivor has connected and opened all of them again (RESUMED). After that, or when the
 * survivor dies, every slot is searched for seats and holds that the survivor's ids have without a
 * handle.
 *
 * A handle is buried in this order: it leaves the queue, it loses its hold, and a hand-over that a
 * dead process left unfinished on the lock is finished. After that the handle is a zombie. A walk
 * frees the zombie when nothing can name it any more.
 *
 * Invariants: no process holds or waits by a handle that is buried. No id is given to another
 * client while a handle, a seat or a holder record has it.
 */
#ifndef HOST_BURIALS_H
#define HOST_BURIALS_H

#include "core/base/arena.h"
#include "hub.h"

struct burials;

struct burials *burials_lay_out(struct arena *arena, const struct host_config *config);
void burials_init(struct host *host);

/* Begins the client's end: its connection is closed. */
void burial_hangup(struct host *host, uint32_t client);
/* Begins the client's end: its process is dead, or the client sent BYE. */
void burial_death(struct host *host, uint32_t client);
/* For a client that has opened all its locks again (RESUMED): takes away the seats and holds that
 * the client's ids have without a handle. */
void burial_resumed(struct host *host, uint32_t client);
/* Frees the client's record and ids, if the client is gone and nothing names its ids any more. */
void burial_forget_if_done(struct host *host, uint32_t client, struct host_actions *actions);
/* Notes that all handles of a survivor are known now. */
void burial_client_known(struct host *host, uint32_t client);
/* Ends a handle that its own client closes (CLOSE). */
void burial_close(struct host *host, uint32_t handle, struct host_actions *actions);
/* For a client whose handles are not known: ends the hold and the wait of this seat. */
void burial_of_seat(struct host *host, uint32_t client, struct lock_ref at, uint32_t seat,
                    struct host_actions *actions);
/* Frees a handle that nothing can name any more, and removes every note of it. */
void burial_free(struct host *host, uint32_t handle);
/* Takes the handle from its lock, whose region was given up. No process can use the handle any
 * more. */
void burial_region_left(struct host *host, uint32_t handle);
/* Buries clients in pieces, continuing where the last step stopped. Also sends POKEs. */
void burials_work(struct host *host, struct host_actions *actions);
/* Begins a new tick, in which burials_work() may do HUB_PIECES_MAX pieces again. */
void burials_tick(struct host *host);
/* Returns when burials_free_zombies() is due. */
int64_t burials_due_ns(const struct host *host);
/* Frees the zombies that nothing names any more. */
void burials_free_zombies(struct host *host, struct host_actions *actions);
void burials_check(const struct host *host);

#endif
