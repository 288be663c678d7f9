/*
 * An agent in a box, for the fuzzer of the event stream. The box has the real driver with the real
 * cores, and one region. The fuzzer's input decides everything around them. It can cause every
 * event that can reach an agent: frames of clients, decodable messages of other agents (which may
 * lie), links, time, a disk that is slow or fails, and processes that act on the region or write
 * rubbish into it.
 *
 * The box checks these rules for every input. No HF_CHECK of the agent fails. The cores' invariants
 * hold. The messages that the agent sends can be encoded, and make sense to their receiver. A row
 * that the agent stores never takes back what was durable before, and the agent accepts it at its
 * next start.
 */
#ifndef TESTS_FUZZ_BOX_H
#define TESTS_FUZZ_BOX_H

#include "draw.h"
#include "driver/driver.h"
#include "proto/check.h"

enum {
    BOX_SLOTS = 8,
    BOX_BLOCKS = 6,
    BOX_REGISTERS = 10,
    BOX_AGENTS = 9,
    BOX_VOTERS = 3,
    BOX_NAMES = 14, /* how many lock names an input can use */
    BOX_PROCESSES = 4,
    BOX_HANDLES = 6, /* how many handles a process remembers */
    BOX_IDS = 16,
    BOX_SENT = 16,
    BOX_STRIKES = 8,
};

#define BOX_MS INT64_C(1000000)
#define BOX_TTL_NS (3000 * BOX_MS)
#define BOX_GRACE_NS (3000 * BOX_MS)

struct box_disk {
    uint64_t store_id[2];
    bool rejoin;
    uint32_t round;
    uint64_t promised[MESSAGE_PARTITIONS];
    struct message_checkpoint checkpoints[MESSAGE_PARTITIONS];
    struct quorum_register registers[BOX_REGISTERS];
    uint32_t register_count;
    struct message_session marks[BOX_AGENTS];
    uint32_t mark_count;
    struct quorum_member members[BOX_VOTERS];
    struct quorum_seen seen[BOX_VOTERS];
    struct message_name slots[BOX_SLOTS]; /* length 0: the slot has no name */
    uint32_t epoch;
    uint64_t commit;
    uint32_t lease_epoch; /* the content of the lease file; 0: there is none */
    int64_t lease_ns;
};

struct box_handle {
    bool used;
    bool holds;
    struct hfi_opened opened;
    struct hfi_held held;
};

/* a process of this host, and what it remembers */
struct box_process {
    bool alive;
    uint32_t connection; /* 0: it has no connection */
    uint32_t client;     /* 0: the agent has not welcomed it yet */
    uint64_t nonce;
    uint32_t ids[BOX_IDS];
    uint32_t id_count;
    struct box_handle handles[BOX_HANDLES];
};

/* a change of the region by a process that writes rubbish */
struct box_strike {
    uint32_t offset; /* from the start of the region; it lies behind the header's fixed part */
    uint32_t width;  /* 1, 4 or 8 bytes */
    uint64_t value;
};

/* A message that the agent sent to another agent. */
struct box_sent {
    struct message_agent to;
    struct message message;
};

struct box {
    struct draw draw;
    uint32_t voter_count;
    uint32_t self; /* this agent's number among the voters; HOST_OBSERVER: it is no voter */
    struct message_agent name;
    struct message_agent voters[BOX_VOTERS];
    struct box_disk disk;
    void *region_memory;
    uint64_t region_size;
    struct hfi_region client_region;
    struct hfi_region agent_region;
    struct hfi_kernel kernel;        /* the kernel as the agent sees it */
    struct hfi_kernel client_kernel; /* the kernel as the clients see it; a sleep lets time pass */
    void *names_memory;
    void *host_memory;
    void *quorum_memory;
    void *gossip_memory;
    void *renewal_memory;
    struct names *names;
    struct host *host;
    struct quorum *quorum;
    struct gossip *gossip;
    struct renewal *renewal;
    struct driver *driver;
    const struct driver_batch *flying;
    bool slow_disk;
    bool disk_fails; /* the batch on its way to the disk will fail */
    int64_t now_ns;
    uint64_t random;
    uint64_t requests;
    uint32_t connections;
    struct box_process processes[BOX_PROCESSES];
    struct box_sent sent[BOX_SENT];
    uint64_t sent_count;
    uint64_t versions; /* how many versions other agents have given to this agent so far */
    uint64_t tokens;
    /* no agent could have left the region in its present state */
    bool adopts_badly;
    /* each of the agent's next atomic operations is preceded by one of these strikes */
    struct box_strike strikes[BOX_STRIKES];
    uint32_t strike_count;
};

/* the box that runs now */
extern struct box *box;

static inline bool box_same_agent(const struct message_agent *a, const struct message_agent *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

/* ---- defined in box.c ---- */

/* Makes an agent with an empty disk and starts it. */
void box_open(struct draw draw);
void box_close(void);
/* Kills the agent and starts it again, with the present region. */
void box_restart(void);
/* Makes the batch on its way to the disk durable, or makes it fail. */
void box_land(void);
void box_strike(const struct box_strike *strike);
void box_check(void);

/* ---- defined in box_clients.c ---- */

void box_connect(void);
void box_frame(void);
void box_end_process(void);
void box_act(void);
void box_scribble(void);
/* Carries out the agent's action for a client. */
void box_take_action(const struct host_action *action, const unsigned char *bytes);
struct message_name box_draw_name(void);

/* ---- defined in box_messages.c ---- */

/* Gives the agent an answer of another agent to one of its messages. If `lie` is set, one value of
 * the answer is wrong. */
void box_answer(bool lie);
void box_make_up(void);
void box_gossip(void);
struct message_agent box_draw_agent(void);
/* Makes the answer that a correct agent gives to a sent message. Returns false if it gives none. */
bool box_honest(const struct box_sent *sent, struct message *out);

#endif
