/*
 * A host core between a fake quorum and fake sockets, for the unit tests: each step's actions are
 * sorted into lists, requests to the quorum are answered when the test says so, and clients act on
 * the region with the real code of the lock word. Time stands still unless the test moves it.
 */
#ifndef TESTS_UNIT_HOST_RIG_H
#define TESTS_UNIT_HOST_RIG_H

#include "core/host.h"
#include "holdfast/admin.h"

enum {
    RIG_LOCKS = 32,
    RIG_REPLIES = 256,
    RIG_SENDS = 512,
    RIG_ALL = 3,
    RIG_KEPT = 5,
    RIG_DELAYS = 7
};
#define RIG_MS INT64_C(1000000)

struct rig_reply {
    uint32_t client;
    bool unasked;
    uint32_t size;
    unsigned char bytes[HFI_FRAME_MAX];
    struct hfi_frame frame; /* its text points into bytes */
    struct hfi_listed_cursor cursor;
};

struct rig {
    struct host_config config;
    int64_t uid; /* of the client that connects next; 0 may have every client */
    void *names_memory;
    void *memory;
    struct names *names;
    struct host *host;
    void *region_memory;
    uint64_t region_size;
    struct hfi_region region; /* as clients see it */
    struct hfi_region agents; /* as the agent was given it */
    void *orders_memory;      /* rig_add_orders(): of the second namespace; else NULL */
    struct hfi_region orders;
    struct hfi_kernel kernel;
    int64_t now_ns;
    uint32_t wakes;
    uint32_t rings;
    uint64_t requests;
    uint64_t restarts;
    uint32_t connections;
    struct host_actions actions;
    struct rig_reply *replies;
    uint32_t reply_count;
    struct message sends[RIG_SENDS];
    struct host_send ways[RIG_SENDS]; /* of each: to, relay; the message is above */
    uint32_t send_count;
    uint32_t rows; /* PERSIST_SLOT so far */
    uint32_t rows_gone;
    uint32_t forgotten;
    bool forgets_late; /* the core has no notice that FORGET is done yet: rig_forget() gives it */
    uint32_t hang_ups;
    bool fresh;     /* the contents of grants */
    bool unchecked; /* checking the invariants after each step would take too long */
    uint64_t token_next;
    uint64_t version;
    uint32_t epoch; /* of the latest lease */
    struct host_kept kept[RIG_KEPT];
    _Atomic uint16_t delays_ms[RIG_DELAYS];
};

/* Makes an agent before START with an empty region and room for this many of everything. */
struct rig *rig_create(uint32_t locks, uint32_t clients, uint32_t handles, uint32_t blocks);
/* Makes such an agent in a cell of so many voters, named host-a and so on. It is host-a, or the
 * observer "host-x" if self is HOST_OBSERVER. requests: the limit. */
struct rig *rig_create_cell(uint32_t locks, uint32_t voters, uint32_t self, uint32_t requests);
/* Gives the namespace "orders" a region, too. To be called before rig_begin(). */
void rig_add_orders(struct rig *rig);
void rig_destroy(struct rig *rig);
/* Gives START, and a lease of ten seconds in epoch 1. */
void rig_begin(struct rig *rig);
/* The agent's process dies; another one takes the region, and the rows and grants that the test
 * gives it between rig_restart() and rig_begin(). */
void rig_restart(struct rig *rig, uint32_t epoch);
void rig_step(struct rig *rig, struct host_event event);
void rig_lease(struct rig *rig, uint32_t epoch, int64_t deadline_ns, bool lost);
/* Lets time pass, with all ticks that are due. */
void rig_pass(struct rig *rig, int64_t duration_ns);
void rig_ring(struct rig *rig);

uint32_t rig_connect(struct rig *rig, uint8_t rights);
void rig_hang_up(struct rig *rig, uint32_t client);
/* Connects an earlier client again, whose nonce was that. */
void rig_connect_again(struct rig *rig, uint32_t who, uint64_t nonce);
void rig_die(struct rig *rig, uint32_t client);
/* Notifies the core that the client's FORGET was carried out. */
void rig_forget(struct rig *rig, uint32_t client);
/* Sends a request. Returns the reply with its number; NULL: none yet. */
struct rig_reply *rig_ask(struct rig *rig, uint32_t client, struct hfi_frame *frame);
/* Opens again what the client had open with the previous agent, or before the agent hung up. */
struct rig_reply *rig_resume(struct rig *rig, uint32_t client, const char *name,
                             const struct hfi_opened *opened);
struct rig_reply *rig_find(struct rig *rig, uint32_t client, enum hfi_frame_kind kind);
struct rig_reply *rig_text(struct rig *rig, uint32_t client, enum hfi_frame_kind kind,
                           const char *text);
uint32_t rig_count(const struct rig *rig, uint32_t client, enum hfi_frame_kind kind);

/* Sends OPEN, which is answered if the grant is here. */
struct rig_reply *rig_open(struct rig *rig, uint32_t client, const char *name, int64_t delay_ns);
/* Sends OPEN and gives the grant at once. Returns the handle. */
struct hfi_opened rig_open_granted(struct rig *rig, uint32_t client, const char *name,
                                   int64_t delay_ns);
uint32_t rig_seat(struct rig *rig, uint32_t client, uint32_t handle, bool shared);
void rig_close(struct rig *rig, uint32_t client, uint32_t handle);

/* Returns the latest message of that kind that the host sent; NULL: none. */
const struct message *rig_sent(const struct rig *rig, enum message_kind kind);
uint32_t rig_sent_count(const struct rig *rig, enum message_kind kind);
/* Gives the host a message. */
void rig_hear(struct rig *rig, const struct message *message);
/* Answers an ACQUIRE or AMEND with exactly this. */
void rig_answer(struct rig *rig, const struct message *asked, enum message_mode mode,
                uint64_t version, uint64_t first, uint64_t last);
void rig_recall(struct rig *rig, const char *name, uint64_t version);
void rig_grant(struct rig *rig, const struct message *acquire, uint64_t first, uint64_t last);
void rig_refuse(struct rig *rig, const struct message *request, enum message_refusal reason);
void rig_returned(struct rig *rig, const struct message *give_back);

struct hfi_actor rig_actor(struct rig *rig, uint32_t holder);
/* Takes the lock, which is free, for that handle. Returns the hold. */
struct hfi_held rig_take(struct rig *rig, const struct hfi_opened *opened);
uint64_t rig_word(const struct rig *rig, uint32_t slot);

#endif
