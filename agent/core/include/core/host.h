/*
 * The host core: what this agent decides for the processes of its own host.
 *
 * It knows the clients, their handles and seats, the locks that have a slot in a region, the grants
 * that the quorum gave to this host, and what to send to clients. It changes lock words through
 * proto/lockword.h (memory, not I/O; the futex call is injected). It asks the quorum for grants and
 * gives them back. It closes a lock behind a holder that vanished and opens it again in time, ends
 * holds whose limit is over, and adopts the regions of the previous agent.
 *
 *   host_step(host, event) -> actions, answers
 *
 * Like the quorum core it has no I/O, no clock, no allocation after start and no globals: now_ns
 * comes with each event. A step fills a list of actions. The driver first carries out all
 * HOST_PERSIST_... actions in one durable transaction, together with what the quorum core persists.
 * Then it carries out all other actions in order. An action that depends on a durable row stands
 * behind the action that persists the row.
 *
 * A HOST_REPLY action has an encoded frame.
 */
#ifndef CORE_HOST_H
#define CORE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/histogram.h"
#include "core/base/names.h"
#include "proto/frame.h"
#include "proto/lockword.h"
#include "proto/message.h"

struct host;
struct gossip;

enum {
    HOST_NAMESPACES_MAX = 64,
    HOST_STEP_ACTIONS = 192,    /* the room that a step needs in struct host_actions */
    HOST_OBSERVER = UINT32_MAX, /* host_config.self of an agent that is no voter */
    HOST_TO_AGENT = UINT32_MAX, /* host_send.to: the agent that message.to names */
    HOST_NO_RELAY = 0xff,
    HOST_REQUESTS_MAX = 65535,
    HOST_HOLDERS_MAX = 65534,
    HOST_DELAYS_MAX = 16384,
    /* the most handles whose lock-delays one step counts */
    HOST_DELAYS_PIECE = 16384,
};

struct host_limits {
    uint32_t locks;   /* slots of each region */
    uint32_t clients; /* the most clients connected at once */
    uint32_t handles; /* the most handles open at once, of all clients together */
    uint32_t blocks;  /* blocks of seven seats in each region */
    uint32_t watches; /* the most prefixes watched at once */
    /* The most unanswered requests to the quorum, at most HOST_REQUESTS_MAX. 0: as many as there
     * are locks, but at most HOST_REQUESTS_MAX. A request that finds no room is sent later. */
    uint32_t requests;
    /* Holder ids, at most HOST_HOLDERS_MAX: each region has a cache line for each of them. 0:
     * HOST_HOLDERS_MAX. */
    uint32_t holders;
};

struct host_config {
    struct host_limits limits;
    struct message_agent cell;
    struct message_agent agent;
    const char *role; /* "voter", "observer"; borrowed; HOST_RECORD changes it, like the voters */
    const char *version; /* borrowed */
    uint64_t store_id[2];
    uint8_t boot_id[16];
    int64_t session_ttl_ns;
    int64_t grace_ns;
    uint32_t max_drift_percent;
    uint32_t voters_number; /* the number of the record of voters */
    uint32_t voter_count;
    uint32_t self; /* this agent's index in voters, or HOST_OBSERVER */
    struct message_agent voters[MESSAGE_VOTERS_MAX]; /* the same order at every agent */
    const char *addresses[MESSAGE_VOTERS_MAX];       /* NULL: none; borrowed */
    /* the epoch of the session that this agent continues; 0: a new session begins */
    uint32_t continued_epoch;
    uint32_t namespace_count; /* the number of `namespaces`; namespaces[0] is "default" */
    char namespaces[HOST_NAMESPACES_MAX][HFI_LABEL_MAX + 1];
};

/* The rights of a client in a namespace, as bits. The driver derives them from the client's
 * credentials. HOST_MAY_CHANGE_VOTERS is a right in the cell, and the same in each namespace. */
enum { HOST_MAY_USE = 1, HOST_MAY_ADMIN = 2, HOST_MAY_CHANGE_VOTERS = 4 };

struct host_peer {
    /* the process id in the agent's pid namespace; 0: the process has no id in that namespace */
    int64_t pid;
    int64_t uid;
    int64_t account; /* the account whose quotas the client uses, usually the uid; 0: no quotas */
    char command[HFI_FRAME_COMMAND_MAX + 1];
    uint8_t rights[HOST_NAMESPACES_MAX];
};

enum host_event_kind {
    /* The first event, once. The caller has added the regions (host_add_region()), loaded the
     * quorum, and announced the previous agent's clients (host_load_survivor()). lease.epoch is the
     * epoch of the session, and durable. */
    HOST_START = 1,
    HOST_CONNECTED, /* a client sent HELLO, and the driver has accepted it; see `connected` */
    HOST_FRAME,     /* any other frame of a client that has sent HELLO */
    HOST_HANGUP,    /* the client's socket is closed; its process may still live */
    HOST_DIED,      /* the client's process is dead */
    /* HOST_FORGET was carried out: the client's ids may be given to another client */
    HOST_FORGOTTEN,
    HOST_DRAINED, /* the client's socket takes frames again, after unasked frames were dropped */
    HOST_RING,    /* a client sent RING: look at the region's locks that have their dirty bit set */
    HOST_MESSAGE, /* a message from the quorum or from another host, see message_is_for_host() */
    HOST_LEASE,   /* the session's state or deadline changed */
    /* the voters that can be reached changed, or a voter's link came up; before the first such
     * event the host core assumes that it can reach all voters */
    HOST_VOTERS,
    /* This agent now uses another record of voters. Sets of voters in later events, and indexes of
     * voters in later actions, are those of this record. Until the next HOST_VOTERS, the host core
     * assumes that it can reach the new voters. */
    HOST_RECORD,
    HOST_TICK,
};

/* The session, as core/session/renewal.h reports it. */
struct host_lease {
    int64_t deadline_ns;
    uint32_t epoch;
    bool lost; /* the session of this epoch is lost for good, and its grants with it */
};

struct host_event {
    enum host_event_kind kind;
    int64_t now_ns;
    uint64_t random;
    uint32_t client; /* HOST_FRAME to HOST_DRAINED: the client's first holder id, which the action
                      * HOST_WELCOMED gave the driver (identity.holder) */
    union {
        struct {
            const struct host_peer *peer;
            const struct hfi_hello *hello;
            uint64_t request;
            /* the driver's own number for the connection, which the actions repeat */
            uint32_t connection;
            bool resumed; /* the client hello.client is alive, and `hello` has its nonce */
        } connected;
        struct {
            const struct hfi_frame *frame;
            uint32_t missing; /* bit by voter: the voter is shown as down, see quorum_missing() */
        } frame;
        uint32_t region; /* RING */
        const struct message *message;
        struct host_lease lease; /* LEASE, START */
        struct {
            uint32_t up; /* bit by voter: requests may go to this voter */
            /* bit by voter: the voter answers renewals, and its link is not broken */
            uint32_t answering;
            uint32_t refused; /* bit by voter: the voter refuses this agent, see message_refused */
            /* bit by voter: the voter's link has come up since the last HOST_VOTERS. Messages that
             * were sent before may be lost, and the voter may have been restarted */
            uint32_t linked;
        } voters; /* VOTERS */
        /* HOST_RECORD. The caller keeps this record unchanged until the next HOST_RECORD: the host
         * core copies the voters' names, but keeps pointers to their addresses */
        const struct message_voters *record;
    } as;
};

enum host_action_kind {
    HOST_PERSIST_SLOT = 1, /* a row that says which slot of a region a name has */
    HOST_PERSIST_NO_SLOT,
    HOST_SEND,  /* a message to a voter, or to another agent */
    HOST_REPLY, /* a frame for a client; fds says which descriptors go with it */
    /* the connection belongs to this client: make the client's record; comes before the frame
     * WELCOME */
    HOST_WELCOMED,
    HOST_HANG_UP, /* close the client's socket: it broke the rules (text says how) */
    HOST_FORGET,  /* the client is gone and nothing refers to it any more: remove its record */
    HOST_ALIAS,   /* the client has one more holder id: add it to the client's record */
    HOST_LOG,     /* a log line */
    HOST_FACTS,   /* answer the client's request for facts (frame TOLD) */
    HOST_BACKUP,  /* answer the client's request for a backup of the store (frame TOLD) */
};

enum { HOST_FD_NONE = 0, HOST_FD_REGION };

/* Messages may be lost, repeated and reordered. A message to this agent itself is for its quorum
 * core, or for this core if message_is_for_host(). */
struct host_send {
    uint32_t to;            /* a voter's index, or HOST_TO_AGENT */
    uint8_t relay;          /* the voter that passes the message on, or HOST_NO_RELAY */
    struct message message; /* the driver fills in its header; with HOST_TO_AGENT, `to` is
                             * set already */
};

struct host_action {
    enum host_action_kind kind;
    uint32_t client;
    uint32_t connection;
    union {
        struct {
            uint32_t region;
            uint32_t slot;
            struct message_name name;
        } slot;
        struct {
            uint32_t fds;    /* HOST_FD_... */
            uint32_t region; /* with HOST_FD_REGION: the namespace whose region is sent */
            /* not 0: the number of the region that the reply is about, see host_reply_is_late() */
            uint32_t birth;
            uint64_t request; /* the request that this frame answers; 0: a later frame answers it */
            uint32_t offset;  /* the frame's offset in host_actions.output */
            uint32_t size;
            /* the frame may be dropped if the client does not read its socket (HOST_DRAINED) */
            bool unasked;
        } reply;
        struct {
            uint32_t holder;
            uint64_t nonce;
            bool resumed;
        } identity; /* WELCOMED, ALIAS, FORGET */
        struct {
            const char *event; /* a static string, for example "lock_closed" */
            uint32_t region;
            uint32_t slot; /* UINT32_MAX: none */
            bool whole;    /* there is no slot: the line is about the region */
            uint64_t token;
            int64_t number;           /* the event's number, see docs/LOG.md */
            struct message_name name; /* length 0: none */
            const char *reason;       /* a static string that says why a hold ended; NULL: none */
            bool broken;              /* an administrator broke the hold: `by` and `uid` say who */
            struct message_agent by;  /* the administrator's agent */
            int64_t uid;              /* the administrator's uid; -1: not known */
            /* The table that is full (host/full.h), a static string; NULL: the line is about
             * something else. `by` is the voter whose table is full. `pid` is the process with the
             * most handles, and `uid` is its user; handles == 0: that process is not known. */
            const char *table;
            uint32_t room;
            bool share;
            uint32_t handles;
            int64_t pid;
        } log;
        const char *text;      /* HANG_UP: a static string */
        uint64_t request;      /* FACTS */
        struct host_send send; /* the array of shares in its message is not initialised */
    } as;
};

/* The driver's lists. A step needs room for HOST_STEP_ACTIONS actions and HOST_STEP_OUTPUT bytes.
 * The driver empties both lists after it has carried out the actions. */
enum { HOST_STEP_OUTPUT = 4 * HFI_FRAME_MAX };

struct host_actions {
    struct host_action *items;
    uint32_t count;
    uint32_t capacity;
    unsigned char *output;
    size_t output_used;
    size_t output_size;
};

/* Returns how many bytes of memory host_init() needs with this configuration. Memory that no entry
 * uses is never touched. */
size_t host_size(const struct host_config *config);

/*
 * Makes the state in `memory`, which must be zeroed, host_size() bytes long and aligned to 64. The
 * host core borrows the memory for good. names is borrowed, and shared with the quorum core. kernel
 * is borrowed; the host core calls its wake and now_ns, but never its sleep and ring.
 */
struct host *host_init(void *memory, const struct host_config *config, struct names *names,
                       const struct hfi_kernel *kernel);

/* Before START: sets the gossip core (core/gossip.h), by which people see other hosts' locks.
 * Borrowed. The host core reads other hosts' locks from it, and publishes its own locks to it
 * (gossip_put_lock()). Without gossip, people see the locks of this host only. */
void host_set_gossip(struct host *host, struct gossip *gossip);

/* A note of an ACQUIRE that waits (host/kept.h), in memory that outlives the agent. All zeros at
 * first. */
struct host_kept {
    _Atomic int64_t since_ns; /* when this host first asked for the grant; 0: there is no note */
    uint64_t name_hash;
    /* If `known`, ballot and sequence are the version of the lock's last grant that went back.
     * Otherwise they are the request's id: the lower 48 bits in ballot, the other bits in
     * sequence. */
    uint64_t ballot : 48;
    uint64_t space : 16;
    uint64_t sequence : 40;
    uint64_t slot : 23;
    uint64_t known : 1;
};

/* Before START: sets the memory for notes of requests that the next agent of the session continues
 * (host/kept.h). The memory has the notes that the previous agent left. It is borrowed. A request
 * without a note loses its position in the queue when the next agent starts. */
void host_set_kept(struct host *host, struct host_kept *kept, uint32_t count);

/* Before START: sets the notes of lock-delays in milliseconds, as the previous agent left them
 * (host/delays.h). count is at most HOST_DELAYS_MAX. The memory outlives the agent, is all zeros at
 * first, and is borrowed. While clients of the previous agent may still open their locks again, a
 * grant covers the noted lock-delays. Without notes, the host assumes the API's default lock-delay
 * for handles that it does not know. */
void host_set_delays(struct host *host, _Atomic uint16_t *delays_ms, uint32_t count);

/* The note of a namespace's region, in memory that outlives the agent and that no client maps; all
 * zeros at first. */
struct host_region_note {
    _Atomic uint64_t name_hash;   /* set by the driver: a hash of the namespace's name; 0: no
                                   * namespace */
    _Atomic uint64_t incarnation; /* set by the driver; 0: not known */
    /* the time until which a lock of the namespace may be closed, or a hold may last in a region
     * that was given up */
    _Atomic int64_t closed_ns;
    /* the epoch of the session in which the namespace was given up; 0: in none */
    _Atomic uint32_t anew_epoch;
    /* the region was given up, and the namespace has no new region yet */
    _Atomic uint32_t given_up;
};

/* Before START: sets the note of a namespace's region, as the previous agent left it
 * (host/regions.c). Borrowed. If this function is not called, the next agent does not learn what
 * this agent notes of the region. */
void host_set_region_note(struct host *host, uint32_t space, struct host_region_note *note);

/*
 * Before START: sets the function that returns whether a region is still sound: it is not
 * truncated, has no hole, and its header is unchanged. The host core calls the function before it
 * sends a message that lets another host have a lock because of what was read in the region, and
 * before it answers a process for which it wrote into the region. If the function has returned
 * false for a region, it always does, and the driver gives the region up when the step is done.
 * Without this function every region is sound.
 */
typedef bool host_sound_fn(void *arg, uint32_t space);
void host_set_sound(struct host *host, host_sound_fn *sound, void *arg);

/*
 * Adds the region of a namespace. Before START, call it for each namespace in use whose region was
 * not given up. After START, call it between steps, to give a fresh region to a namespace for which
 * host_region_is_left() is true. `base` is the mapped region. It is borrowed until the region is
 * given up and left. The host core sets the own_... fields of its copy. `adopted` says that this is
 * the previous agent's region; otherwise it is fresh. Returns NULL, or what is wrong with the
 * region. In the second case the region is not used.
 */
const char *host_add_region(struct host *host, uint32_t space, const struct hfi_region *base,
                            bool adopted) __attribute__((warn_unused_result));

/* Before START: loads a row of the store, which says that the name has that slot. Returns false if
 * the row does not fit the limits or the region. */
bool host_load_slot(struct host *host, uint32_t space, uint32_t slot, const uint8_t *name,
                    size_t length) __attribute__((warn_unused_result));

/* Before START, when the session is continued: loads the value that this agent's own acceptor has
 * for a name. The host core ignores the value if it is not a grant of this agent and of that
 * session. */
void host_load_grant(struct host *host, const struct message_name *name,
                     const struct message_value *value);

/* Before START, when regions were adopted and all rows loaded: returns NULL, or why the space's
 * region cannot be adopted. In the second case the driver makes the host core anew, without that
 * region. */
const char *host_check_region(struct host *host, uint32_t space)
    __attribute__((warn_unused_result));

/* Before START: loads a client of the previous agent whose process still lives. Call it for each
 * holder id of the client, beginning with its first id (holder == client). When the process dies,
 * the driver reports that by HOST_DIED. Returns false if the table is full. */
bool host_load_survivor(struct host *host, uint32_t client, uint32_t holder, uint64_t nonce,
                        const struct host_peer *peer) __attribute__((warn_unused_result));

/*
 * Between steps, or before START: gives up the namespace's region, which became rubbish or was not
 * adopted (host/regions.c). From now on no lock of the namespace is opened: HF_EUNSERVED.
 * deadline_ns is the last deadline that may have been published in the region. If this host core
 * has published a later deadline, it uses the later deadline. Returns when another region may be
 * made for the namespace.
 */
int64_t host_give_up_region(struct host *host, uint32_t space, int64_t deadline_ns);
/* Between steps, before the region is given up: `base` replaces the region's memory, which must not
 * be touched any more. `base` is as large as the region, and zeroed behind the header. It is
 * borrowed until the region is given up and left. */
void host_move_region(struct host *host, uint32_t space, const struct hfi_region *base);
/* Returns whether a reply that had to wait for a commit is about a region that was given up since.
 * Do not send such a reply, because the client would believe that it is about the namespace's new
 * region. Answer the client's request with HF_EUNSERVED instead. */
bool host_reply_is_late(const struct host *host, const struct host_action *reply);
/* Returns whether the host core no longer refers to the region that was given up, so that it may be
 * unmapped. */
bool host_region_is_left(const struct host *host, uint32_t space);

void host_step(struct host *host, const struct host_event *event, struct host_actions *actions);

/* Returns the peer of the client with that first holder id (see HOST_WELCOMED); NULL: the client is
 * gone. */
const struct host_peer *host_peer_of(const struct host *host, uint32_t client);

/* Returns when the next TICK is wanted; INT64_MAX: never. A time that is not after now_ns means
 * that a TICK is wanted at once. */
int64_t host_next_tick_ns(const struct host *host);

/* Returns whether no request of the host core is under way, except perhaps one for that name. */
bool host_asks_only(const struct host *host, const struct message_name *name);

/* Returns the index of the configured namespace to which a lock name belongs; 0 is "default". */
uint32_t host_namespace(const struct host_config *config, const char *name, size_t size);

/* ---- for people: counts and figures ---- */

/* Why a hold was taken away. */
enum host_loss {
    HOST_LOSS_DEATH = 0, /* its process ended, or dropped the hold without a release */
    HOST_LOSS_BREAK,     /* an administrator broke it */
    HOST_LOSS_LEASE,     /* its fixed lease ended */
    HOST_LOSS_STALL,     /* its max_stall was exceeded */
    HOST_LOSS_LAPSE,     /* the session was lost; a shared hold with several readers counts once */
    HOST_LOSS_DAMAGE,    /* the region contradicted what this agent knows */
    HOST_LOSS_COUNT,
};

/* Counts since this agent started. */
struct host_counts {
    uint64_t opens;         /* OPENs of clients, including OPENs repeated after a restart */
    uint64_t opens_refused; /* OPENs that were answered with an error */
    uint64_t grants;        /* grants of the quorum that this host accepted */
    uint64_t recalls;       /* recalls of grants that this host had, each counted once */
    uint64_t handoffs;      /* grants given back because another host waits for the lock or tries
                             * it */
    uint64_t give_backs;    /* grants given back for any reason, acknowledged by the quorum */
    uint64_t ranges;        /* ranges of tokens that were leased to this host */
    uint64_t looks;         /* how often all lock words were looked at: once at each renewal */
    uint64_t sessions_lost;
    uint64_t losses[HOST_LOSS_COUNT];
    uint64_t repairs; /* repairs of a region that contradicted what this agent knows */
    uint64_t refused[MESSAGE_REFUSED_END]; /* by enum message_refusal; [0] is unused */
    /* the times from the first request for a grant to the grant */
    struct histogram acquire;
    /* Samples. Each renewal adds two ages of each lock: how long its exclusive hold has lasted, and
     * how long its first waiter has waited. */
    struct histogram hold_age;
    struct histogram wait_age;
};

const struct host_counts *host_counts(const struct host *host);

/* The present state in figures, for people. */
struct host_survey {
    uint32_t clients;
    uint32_t handles;
    uint32_t watches;
    uint32_t requests; /* requests to the quorum without an answer yet */
    uint64_t locks;    /* locks that have a slot */
    uint64_t granted;  /* locks with a slot whose grant is here */
    uint64_t held;
    uint64_t waiters;
    uint64_t closed; /* locks whose lock-delay is not over */
    uint64_t slots, slots_used;
    uint64_t seats, seats_used; /* all seats of a block that belongs to a lock count as used */
    int64_t oldest_hold_ns;     /* 0: there is no hold */
    int64_t oldest_wait_ns;
};

/* Fills in the survey. Looks at every lock. now_ns must not be earlier than that of the last
 * step. */
void host_survey(const struct host *host, int64_t now_ns, struct host_survey *out);

/* One host's part in a lock, for display. -1: the number is not known. */
struct host_part {
    struct message_agent agent;
    uint32_t holders;
    uint32_t waiters;
    int64_t hold_ns; /* how long the longest of its holds has lasted */
    int64_t wait_ns; /* how long its first waiter has waited */
    int64_t pid;     /* the process, the user, the command and the note of the first of its
                      * holders */
    int64_t uid;
    char command[HFI_FRAME_COMMAND_MAX + 1]; /* "": not known */
    char note[HFI_FRAME_NOTE_MAX + 1];       /* "": none, or not known */
};

/* One lock of the cell, for display, as far as this host knows it. */
struct host_overview {
    struct message_name name;
    bool shared;       /* its holders are readers */
    int64_t closed_ns; /* how much of a lock-delay is left; 0: the lock is not closed */
    uint32_t holders;
    uint32_t waiters;
    bool more;       /* there are more holders or waiters than are counted here */
    int64_t hold_ns; /* how long the longest hold has lasted; -1: none is known */
    int64_t wait_ns;
    uint32_t part_count;
    struct host_part parts[2 * HFI_FRAME_PARTIES_MAX]; /* hosts that hold the lock come first */
};

/* Finds the first lock, of all namespaces and hosts, whose name comes after `after` in byte order
 * (length 0: the very first). Returns false if there is none. The time it takes does not depend on
 * the number of locks. now_ns must not be earlier than that of the last step. */
bool host_overview_next(struct host *host, int64_t now_ns, const struct message_name *after,
                        struct host_overview *out);

/* Returns, as bits, the regions that were sent to a client over its present connection. A RING of
 * the client concerns these regions. */
uint64_t host_regions_of(const struct host *host, uint32_t client);
/* Returns how many dirty bits the agent has found in these regions (as bits) since it started. */
uint64_t host_causes(const struct host *host, uint64_t regions);

/* Returns whether every process that ever got a region is dead, as far as the host core knows. */
bool host_is_deserted(const struct host *host);

/* Fails (HF_CHECK) if the private state contradicts itself. For tests and the simulator. */
void host_check_invariants(const struct host *host);

#endif
