/*
 * Clients: which of them are connected, whose processes live, and which holder ids each has.
 * burials.h says how a client ends.
 *
 * Invariants: a holder id belongs to one client, or is leaving, or is free. An id is leaving if its
 * client is gone, but the driver still has a socket, a pidfd or a record under the id. A dead
 * client is not connected. One user other than root has at most half of the clients and of the ids,
 * so that no user can keep all others out; clients that are dead or hung up count.
 */
#ifndef HOST_CLIENTS_H
#define HOST_CLIENTS_H

#include "core/base/arena.h"
#include "hub.h"

struct clients;

enum {
    CLIENT_USED = 1,
    CLIENT_CONNECTED = 2,
    CLIENT_DEAD = 4, /* the client's process is gone, or the client sent BYE */
    /* a client of the previous agent that has not opened all its locks again yet */
    CLIENT_SURVIVOR = 8,
    CLIENT_EVENTS = 16,  /* the client wants POKE */
    CLIENT_BURYING = 32, /* a walk over the client's handles is under way */
    /* a walk over all slots is under way, because the client was a client of the previous agent,
     * too, and may have had any slot open then */
    CLIENT_SCANNING = 64,
    CLIENT_POKE = 128, /* the client has to be sent a POKE, so that it looks at its holds */
    /* a CHANGED was dropped over this connection; then the client was sent a CHANGED without a
     * name, so that it looks at everything */
    CLIENT_LAGGED = 256,
    /* the client connected again, but has not opened all its locks again yet */
    CLIENT_OPENING = 512,
};

/* Returns the size of the table: twice the limit, because dead and hung-up clients stay for a
 * while. */
static inline uint32_t clients_capacity(const struct host_config *config)
{
    return config->limits.clients * 2;
}

struct clients *clients_lay_out(struct arena *arena, const struct host_config *config);

void client_connected(struct host *host, const struct host_event *event,
                      struct host_actions *actions);
/* Notes that the client's connection is gone. */
void client_disconnected(struct host *host, uint32_t client);
/* Notes that all handles of a survivor are known. Returns false if they were known before. */
bool client_is_known_now(struct host *host, uint32_t client);
/* Frees the client's record. Its ids are leaving from now on. */
void client_forget(struct host *host, uint32_t client, struct host_actions *actions);
/* Frees the ids of a client, given its first id. Call it when the driver has carried out the
 * client's FORGET. */
void client_forgotten(struct host *host, uint32_t id);

/* client_flags() returns the client's CLIENT_... flags. client_set() and client_clear() set and
 * clear some of them. */
uint32_t client_flags(const struct host *host, uint32_t client);
void client_set(struct host *host, uint32_t client, uint32_t flags);
void client_clear(struct host *host, uint32_t client, uint32_t flags);
/* Returns the number of clients that are BURYING, SCANNING or to be POKEd. */
uint32_t clients_busy(const struct host *host);
uint32_t clients_connected(const struct host *host);
const struct host_peer *client_peer(const struct host *host, uint32_t client);
uint32_t client_connection(const struct host *host, uint32_t client);
bool client_lives(const struct host *host, uint32_t client);
/* Returns whether the client's process may still use handles that this agent has closed. This is so
 * while its connection is lost, and afterwards until it has opened all its locks again. */
bool client_may_use_closed(const struct host *host, uint32_t client);
/* Returns whether there is a survivor. A survivor may have any lock open, and its handles name
 * slots. So no slot may get another lock until all handles of all survivors are known. */
bool clients_unknown(const struct host *host);
/* Returns 0 if the client has at least one of these rights (HOST_MAY_..., as bits) in the
 * namespace, else HF_EACCES. */
int32_t client_rights_error(const struct host *host, uint32_t client, uint32_t space,
                            uint32_t right);

/* Returns the index of the client that has this holder id, or NONE. */
uint32_t client_of_id(const struct host *host, uint32_t id);
bool client_has_id(const struct host *host, uint32_t client, uint32_t id);
/* client_id() returns the client's first id. client_next_id() returns the id that follows `id` in
 * its client's list. 0: there is none. */
uint32_t client_id(const struct host *host, uint32_t client);
uint32_t client_next_id(const struct host *host, uint32_t id);
/* Returns the highest id that any client ever had. */
uint32_t clients_ids_high(const struct host *host);
/* Gives the client one more id, and returns it. Returns 0 if no id is free, or if the client's user
 * may have no more ids. */
uint32_t client_add_id(struct host *host, uint32_t client, struct host_actions *actions);

/* Returns the regions that were sent to the client over its present connection, as bits. */
uint64_t client_regions(const struct host *host, uint32_t client);
/* Notes that the region is sent to the client. Returns false if it was sent before. */
bool client_region_sent(struct host *host, uint32_t client, uint32_t space);
/* Makes the agent send the region again when the client asks for it next. */
void client_region_forget(struct host *host, uint32_t client, uint32_t space);
/* Set and return the request that the next REGION belongs to. */
void client_set_region_request(struct host *host, uint32_t client, uint64_t request);
uint64_t client_region_request(const struct host *host, uint32_t client);

/* Encodes and queues a frame for a connected client. */
void client_reply(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions);
/* Queues a frame that the caller has written into the unused part of the output. */
void client_reply_written(struct host *host, uint32_t client, size_t size,
                          struct host_actions *actions);
void client_reply_done(struct host *host, uint32_t client, uint64_t request, int32_t error,
                       struct host_actions *actions);
/* Asks the client to look at its holds (POKE), if it wants events. */
void client_poke(struct host *host, uint32_t client);
void clients_poke_all(struct host *host);
void clients_check(const struct host *host);

#endif
