/*
 * A small cell in one process for the unit tests: N voters with their quorum cores, disks that keep
 * exactly the committed rows, a network that loses, repeats and reorders messages, and one virtual
 * clock. A node is driven as core/quorum.h says: first one commit persists all rows of a turn, then
 * the messages are sent. A node gets its messages to itself at once.
 */
#ifndef TESTS_UNIT_QUORUM_CELL_H
#define TESTS_UNIT_QUORUM_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/quorum.h"

enum { CELL_NODES = 7, CELL_PACKETS = 8192, CELL_INBOX = 256, CELL_ACTIONS = 512 };
#define CELL_MS INT64_C(1000000)
#define CELL_TTL_NS (3000 * CELL_MS)

struct cell_disk {
    uint32_t round;
    uint64_t promised[MESSAGE_PARTITIONS];
    struct quorum_register *registers;
    uint32_t register_count;
    struct message_session marks[64];
    uint32_t mark_count;
    uint64_t commits;
    uint64_t store_id; /* 0: the disk has no store yet */
    bool rejoin;
    int64_t recovery_wait_ns;
    struct message_voters voters; /* count 0: the disk has no record of voters */
    struct message_member members[CELL_NODES];
    struct quorum_seen seen[CELL_NODES];
    struct message_checkpoint checkpoints[MESSAGE_PARTITIONS];
};

struct cell_node {
    bool up;
    bool fail_commit; /* the next commit fails, which ends the node */
    void *memory;
    void *names_memory;
    struct names *names;
    struct quorum *quorum;
    struct cell_disk disk;
    struct action *items;
    struct actions actions;
    char last_log[64];                /* the event of the node's latest line of log */
    char log_text[256];               /* the text of the node's latest line of log */
    struct message inbox[CELL_INBOX]; /* messages for the host, if cell.host is NULL */
    uint32_t inbox_count;
    struct message_grant last_grant; /* the latest grant of the node's host */
};

struct cell_packet {
    int64_t arrives_ns;
    uint32_t to;
    /* the packet is no message, but tells of a change of the link to `from`; the link's state is
     * read when the packet arrives */
    bool is_link;
    uint32_t from;
    struct message message;
};

struct cell {
    struct quorum_config config;
    int64_t now_ns;
    uint64_t seed;
    uint32_t loss_percent;
    uint32_t repeat_percent;
    int64_t delay_max_ns;
    uint64_t late_kinds; /* messages of these kinds (bits) take late_ns longer */
    int64_t late_ns;
    /* A node with little processor time runs for the first runs_ns of each of_ns, shifted by
     * shift_ns. With of_ns 0, it runs all the time. */
    int64_t runs_ns[CELL_NODES], of_ns[CELL_NODES], shift_ns[CELL_NODES];
    bool tick_first;                  /* a node runs its timers before it takes messages */
    bool cut[CELL_NODES][CELL_NODES]; /* [from][to]: no packet arrives */
    /* [from][to], also from a node to itself: kinds (bits) that are lost */
    uint64_t drop[CELL_NODES][CELL_NODES];
    bool silent; /* no node learns that a link broke or works again */
    /* If natural, a node that starts must learn from the others whether it may vote. Otherwise all
     * other nodes seem to answer at once that it may vote, so that a test about something else need
     * not run them. */
    bool natural;
    struct cell_node nodes[CELL_NODES];
    struct cell_packet *packets;
    uint32_t packet_count;
    /* the latest CELL_INBOX messages to agents that are no voters */
    struct message *others;
    uint32_t other_count;            /* the number of all such messages */
    struct message *own;             /* messages of one step from a node to itself */
    uint64_t sent[MESSAGE_KIND_END]; /* messages by kind, with those from a node to itself */
    uint64_t later[CELL_NODES];      /* by receiver: messages that the driver might have delayed */
    /* Called for every message that is sent, after the rows for which it waits are durable. */
    void (*tap)(void *arg, uint32_t from, uint32_t to, const struct message *message);
    void *tap_arg;
    /* Called with each message for the host of a node. It may call cell_send(). */
    void (*host)(void *arg, uint32_t node, const struct message *message);
    void *host_arg;
};

/* Makes a cell. All nodes are down, and the disks are empty. */
struct cell *cell_create(uint32_t voters, uint64_t seed);
void cell_destroy(struct cell *cell);
uint64_t cell_random(struct cell *cell);

/* Starts a node from its disk. */
void cell_start(struct cell *cell, uint32_t node);
void cell_start_all(struct cell *cell);
/* Starts a node's agent, which commits a new epoch, and kills the agent before its core starts. */
void cell_start_killed(struct cell *cell, uint32_t node);
void cell_kill(struct cell *cell, uint32_t node);
/* Gives a node an empty disk with a new store. If `rejoin`, the node starts over. */
void cell_wipe(struct cell *cell, uint32_t node, bool rejoin);

/* Lets time pass until all running nodes have a majority and have prepared their partitions. */
void cell_run_ready(struct cell *cell);

/* Gives a node an event, and does all that follows from it at once. */
void cell_step(struct cell *cell, uint32_t node, struct quorum_event event);

/* Sends a message of that node's agent to a voter. A message to the node itself arrives at once. */
void cell_send(struct cell *cell, uint32_t from, uint32_t to, const struct message *message);

/* Lets time pass: packets arrive, and ticks come. */
void cell_run(struct cell *cell, int64_t duration_ns);

/* Fills in a header for a message of that node's agent. */
void cell_header(struct cell *cell, uint32_t node, enum message_kind kind, struct message *message);

/* Returns the latest message of that kind in the node's inbox, or NULL. */
const struct message *cell_got(struct cell *cell, uint32_t node, enum message_kind kind);
/* Like cell_got(), for an agent that is no voter. */
const struct message *cell_other_got(const struct cell *cell, const char *agent,
                                     enum message_kind kind);
uint32_t cell_got_count(struct cell *cell, uint32_t node, enum message_kind kind);

/* These send a request of a node's host to a coordinator. */
void cell_acquire(struct cell *cell, uint32_t node, uint32_t to, const char *name, uint64_t id,
                  uint32_t epoch, enum message_mode mode, uint16_t lock_delay_ms);
/* Sends an exclusive ACQUIRE (epoch 1) every ask_ms until it is granted. The request goes to the
 * voter that node `host` believes to be the coordinator. Returns how long the host waited for the
 * grant. */
int64_t cell_served_ns(struct cell *cell, uint32_t host, const char *name, uint64_t id,
                       uint32_t ask_ms);
void cell_give_back(struct cell *cell, uint32_t node, uint32_t to, const char *name, uint64_t id,
                    uint32_t epoch, struct message_order version, uint64_t token_used);
void cell_renew(struct cell *cell, uint32_t node, uint32_t to, uint32_t epoch, uint64_t id,
                struct message_echo echo);
/* Extends the session at that voter by two renewals. The second renewal brings back the echo of the
 * first one's acknowledgement. */
void cell_extend(struct cell *cell, uint32_t node, uint32_t to, uint32_t epoch);

/* These send, over the network, a request of an agent that is no voter. */
void cell_other_acquire(struct cell *cell, const char *agent, uint32_t to, const char *name,
                        uint64_t id, uint32_t epoch, enum message_mode mode);
void cell_other_give_back(struct cell *cell, const char *agent, uint32_t to, const char *name,
                          uint64_t id, uint32_t epoch, struct message_order version);

/* Returns the voter that, in the view of that node, coordinates a partition. */
uint32_t cell_coordinator_of(const struct cell *cell, uint32_t node, uint32_t partition);
/* Returns the voter that coordinates a name. */
uint32_t cell_coordinator(const struct cell *cell, const char *name);
/* Returns the voter that, in the view of that node, coordinates a name. */
uint32_t cell_coordinator_at(const struct cell *cell, uint32_t node, const char *name);

/* Makes a cell in which every partition has its coordinator. */
struct cell *cell_ready(uint32_t voters);

/* Lets 20 ms pass: enough for all requests under way and their answers, if none gets lost. */
void cell_settle(struct cell *cell);

#endif
