/*
 * Quorum cores whose voters change, with an in-memory network and disk. A node is named by its
 * letter: node 0 is host-a. Every write is durable at once. The rig keeps the last message of each
 * kind to a host core.
 */
#ifndef TESTS_VOTERS_RIG_H
#define TESTS_VOTERS_RIG_H

#include "core/quorum.h"

enum { RIG_NODES = 8, RIG_ROWS = 64, RIG_PACKETS = 8192, RIG_TTL_MS = 4000 };
#define RIG_MS INT64_C(1000000)

struct rig_disk {
    uint64_t store_id;
    uint64_t commits;
    bool rejoin;
    int64_t recovery_wait_ns;
    struct message_voters voters; /* number 0: no row */
    struct quorum_change change;  /* number 0: no row */
    uint32_t round;
    uint64_t promised[MESSAGE_PARTITIONS];
    struct message_checkpoint checkpoints[MESSAGE_PARTITIONS];
    struct message_member members[RIG_NODES]; /* generation 0: no row */
    struct quorum_seen seen[RIG_NODES];       /* commit 0: no row */
    uint32_t marks[RIG_NODES];
    struct quorum_register registers[RIG_ROWS];
    uint32_t register_count;
};

struct rig_node {
    struct quorum *quorum; /* NULL: the node does not run */
    void *memory;
    struct names *names;
    void *names_memory;
    struct actions actions;
    struct rig_disk disk;
    bool cut;                              /* no message reaches or leaves this node */
    bool hidden;                           /* only nodes that seek this node reach it */
    struct quorum_seek sought;             /* from the last ACTION_SEEK */
    bool older;                            /* the node speaks version 4 of the wire */
    uint32_t kinds[MESSAGE_KIND_END];      /* how many messages of each kind the node sent to
                                            * others */
    struct message sent[MESSAGE_KIND_END]; /* the last message of each kind that the node sent to
                                            * others */
    struct message got[MESSAGE_KIND_END];  /* the last message of each kind for the node's host */
    struct message_voters go_by;           /* from the last ACTION_VOTERS; number 0: there was
                                           * none */
};

struct rig_packet {
    uint32_t to;
    int64_t arrives_ns;
    struct message message;
};

struct rig {
    uint32_t voters;  /* nodes 0 to voters - 1 are the voters of number 1 */
    bool no_probes;   /* comparisons of the registers of partition 200 are lost */
    bool no_voters;   /* VOTERS are lost */
    bool no_listings; /* SYNCED are lost */
    uint32_t trusts;  /* another node that is named in the configuration; 0: none */
    uint64_t random;
    int64_t now_ns;
    struct rig_node nodes[RIG_NODES];
    struct rig_packet *packets;
    uint32_t packet_count;
};

struct rig *rig_create(uint32_t voters, uint64_t seed);
void rig_destroy(struct rig *rig);
/* Starts the core of that node, from its disk. A node that is no voter of its record becomes a
 * learner. */
void rig_start(struct rig *rig, uint32_t node);
/* Starts all voters of number 1. */
void rig_start_all(struct rig *rig);
void rig_kill(struct rig *rig, uint32_t node);
void rig_run(struct rig *rig, int64_t ms);
struct message_agent rig_name(uint32_t node);
/* Returns a message of that kind, with the header of the node's core. If the node does not run, the
 * header names no record. */
struct message rig_message(struct rig *rig, uint32_t from, enum message_kind kind);
/* Gives a node a message at once. */
void rig_give(struct rig *rig, uint32_t to, const struct message *message);
/* Returns the record that follows that node's record. ADD: `voter` joins with its store. */
struct message_voters rig_next(struct rig *rig, uint32_t node, enum message_member_act act,
                               uint32_t voter);
uint32_t rig_number(struct rig *rig, uint32_t node);
enum message_voter_status rig_status(struct rig *rig, uint32_t node);

#endif
