/*
 * Burials: the end of a handle, and of a client.
 *
 * A client ends in steps. When its socket is closed its holds and waits are taken away (it is
 * "buried"), but its process may still have the region mapped, so its ids stay its own until the
 * process is dead. Then each handle goes as soon as no holder record names its id any more
 * (lockword.h, rule 5), and with the last of them the ids and the record. If it connects again its
 * handles stay until it has said that it has opened all that it has (RESUMED): other threads of it
 * wait and take locks by them meanwhile.
 *
 * A survivor is a client of the agent before this one. What it has open is known only when it has
 * connected and opened all of it again (RESUMED); then, or if it dies before, every slot is looked
 * at for what is left under its ids.
 *
 * A handle is buried in this order: its place in the queue first, then what it holds, then whatever
 * a dead process may have left half-done on that lock. It is freed when nothing can name it any
 * more; until then it is a zombie, and a sweep looks for it.
 */
#ifndef HOST_BURIALS_H
#define HOST_BURIALS_H

#include "core/base/arena.h"
#include "hub.h"

struct burials;

struct burials *burials_lay_out(struct arena *arena, const struct host_config *config);
void burials_init(struct host *host);

void burial_hangup(struct host *host, uint32_t client);
void burial_death(struct host *host, uint32_t client);
/* It has opened again all that it had open: what else is left under its ids is taken away. */
void burial_resumed(struct host *host, uint32_t client);
/* If it is gone and nothing names it any more: frees the record and its ids. */
void burial_forget_if_done(struct host *host, uint32_t client, struct host_actions *actions);
/* What a survivor has open is all known now. */
void burial_client_known(struct host *host, uint32_t client);
/* CLOSE: of a client's own handle. */
void burial_close(struct host *host, uint32_t handle, struct host_actions *actions);
/* Its client is gone or it was closed: takes away what it held and waited for. */
void burial_of_handle(struct host *host, uint32_t handle, struct host_actions *actions);
/* The same for a seat of a client whose handles are not known. */
void burial_of_seat(struct host *host, uint32_t client, struct lock_ref at, uint32_t seat,
                    struct host_actions *actions);
/* Forgets a handle that nothing can name, with all that is noted of it. */
void burial_free(struct host *host, uint32_t handle);
/* Its region was given up: it is no lock's any more, and no process can name it. */
void burial_region_left(struct host *host, uint32_t handle);
/* Pieces of burying, from where the last step stopped; and POKEs. */
void burials_work(struct host *host, struct host_actions *actions);
/* A tick: so many pieces may be done again. */
void burials_tick(struct host *host);
int64_t burials_due_ns(const struct host *host);
/* Frees the zombies that nothing names any more. */
void burials_sweep(struct host *host, struct host_actions *actions);
void burials_check(const struct host *host);

#endif
