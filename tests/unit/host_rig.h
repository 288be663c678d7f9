/*
 * A host core between a fake quorum and fake sockets, for the unit tests. The rig sorts the actions
 * of each step into lists. The rig answers requests to the quorum when the test says so. Clients
 * change the region with the real code of the lock word. Time stands still unless the test moves
 * it.
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
    struct hfi_frame frame; /* frame.text points into `bytes` */
    struct hfi_listed_cursor cursor;
};

struct rig {
    struct host_config config;
    /* the user of the client that connects next; only user 0 may fill the table of clients */
    int64_t uid;
    void *names_memory;
    void *memory;
    struct names *names;
    struct host *host;
    void *region_memory;
    uint64_t region_size;
    struct hfi_region region; /* the mapping that clients use */
    struct hfi_region agents; /* the mapping that the agent uses */
    void *orders_memory;      /* the memory of `orders`; NULL: there is no second namespace */
    struct hfi_region orders;
    struct hfi_kernel kernel;
    int64_t now_ns;
    int64_t slow_ns; /* the time from the beginning of a step until it acts */
    uint32_t wakes;
    uint32_t rings;
    uint64_t requests;
    uint64_t restarts;
    uint32_t connections;
    struct host_actions actions;
    struct rig_reply *replies;
    uint32_t reply_count;
    struct message sends[RIG_SENDS];
    struct host_send ways[RIG_SENDS]; /* for each message in `sends`: its receiver and relay */
    uint32_t send_count;
    uint32_t rows; /* how many PERSIST_SLOT actions came so far */
    uint32_t rows_gone;
    uint32_t forgotten;
    /* the core gets the notice that a FORGET is done only when the test calls rig_forget() */
    bool forgets_late;
    uint32_t hang_ups;
    bool fresh; /* the value of `fresh` in the next grants */
    /* leaves out the check of the invariants after each step, which would take too long */
    bool unchecked;
    uint64_t token_next;
    uint64_t version;
    uint32_t epoch; /* the epoch of the latest lease */
    struct host_kept kept[RIG_KEPT];
    _Atomic uint16_t delays_ms[RIG_DELAYS];
};

/* Makes an agent that has not received START. Its region is empty, and has room for these numbers
 * of locks, clients, handles and blocks. */
struct rig *rig_create(uint32_t locks, uint32_t clients, uint32_t handles, uint32_t blocks);
/* Makes an agent, like rig_create(), in a cell of `voters` voters, named host-a and so on. The
 * agent is the voter with the number `self`, or the observer "host-x" if self is HOST_OBSERVER.
 * `requests` is the limit of requests. */
struct rig *rig_create_cell(uint32_t locks, uint32_t voters, uint32_t self, uint32_t requests);
/* Adds a region for the namespace "orders". The test calls it before rig_begin(). */
void rig_add_orders(struct rig *rig);
void rig_destroy(struct rig *rig);
/* Gives the core START, and a lease of ten seconds in epoch 1. */
void rig_begin(struct rig *rig);
/* The agent's process dies, and another process takes over the region. Between rig_restart() and
 * rig_begin() the test gives the new process the rows and grants that it finds. */
void rig_restart(struct rig *rig, uint32_t epoch);
void rig_step(struct rig *rig, struct host_event event);
void rig_lease(struct rig *rig, uint32_t epoch, int64_t deadline_ns, bool lost);
/* Lets time pass, and gives the core all ticks that are due. */
void rig_pass(struct rig *rig, int64_t duration_ns);
void rig_ring(struct rig *rig);

uint32_t rig_connect(struct rig *rig, uint8_t rights);
void rig_hang_up(struct rig *rig, uint32_t client);
/* Connects again a client that had that nonce in its earlier connection. */
void rig_connect_again(struct rig *rig, uint32_t who, uint64_t nonce);
void rig_die(struct rig *rig, uint32_t client);
/* Notifies the core that the client's FORGET was carried out. */
void rig_forget(struct rig *rig, uint32_t client);
/* Sends a request. Returns the reply that has its number, or NULL if no reply came yet. */
struct rig_reply *rig_ask(struct rig *rig, uint32_t client, struct hfi_frame *frame);
/* Opens again a handle that the client had with the previous agent, or before the agent hung up. */
struct rig_reply *rig_resume(struct rig *rig, uint32_t client, const char *name,
                             const struct hfi_opened *opened);
struct rig_reply *rig_find(struct rig *rig, uint32_t client, enum hfi_frame_kind kind);
struct rig_reply *rig_text(struct rig *rig, uint32_t client, enum hfi_frame_kind kind,
                           const char *text);
uint32_t rig_count(const struct rig *rig, uint32_t client, enum hfi_frame_kind kind);

/* Sends OPEN. The host answers at once if it has the grant. */
struct rig_reply *rig_open(struct rig *rig, uint32_t client, const char *name, int64_t delay_ns);
/* Sends OPEN and gives the host the grant at once. Returns the handle. */
struct hfi_opened rig_open_granted(struct rig *rig, uint32_t client, const char *name,
                                   int64_t delay_ns);
uint32_t rig_seat(struct rig *rig, uint32_t client, uint32_t handle, bool shared);
void rig_close(struct rig *rig, uint32_t client, uint32_t handle);

/* Returns the latest message of that kind that the host sent, or NULL. */
const struct message *rig_sent(const struct rig *rig, enum message_kind kind);
uint32_t rig_sent_count(const struct rig *rig, enum message_kind kind);
/* Gives the host a message of another agent. */
void rig_receive(struct rig *rig, const struct message *message);
/* Answers an ACQUIRE or AMEND with exactly these values. */
void rig_answer(struct rig *rig, const struct message *asked, enum message_mode mode,
                uint64_t version, uint64_t first, uint64_t last);
void rig_recall(struct rig *rig, const char *name, uint64_t version);
void rig_grant(struct rig *rig, const struct message *acquire, uint64_t first, uint64_t last);
void rig_refuse(struct rig *rig, const struct message *request, enum message_refusal reason);
void rig_returned(struct rig *rig, const struct message *give_back);

struct hfi_actor rig_actor(struct rig *rig, uint32_t holder);
/* Takes the lock, which must be free, for that handle. Returns the hold. */
struct hfi_held rig_take(struct rig *rig, const struct hfi_opened *opened);
uint64_t rig_word(const struct rig *rig, uint32_t slot);

#endif
