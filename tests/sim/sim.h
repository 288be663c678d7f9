/*
 * The simulated world: agents with their disks, processes with their handles, and what is watched.
 *
 *   fiber.c    who runs when; virtual time; randomness
 *   agent.c    an agent: drives the real cores as their headers say, crashes, starts again
 *   disk.c     what an agent's store keeps: exactly what was committed
 *   process.c  a process: runs the real lock word code, speaks frames, dies, stops, hangs up
 *   check.c    what must be true, told from outside
 *   breaks.c   rules that are broken on purpose, to see the checks fail
 *   main.c     seeds, faults, healing
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/host.h"
#include "core/quorum.h"
#include "core/renewal.h"
#include "fiber.h"

enum {
    AGENTS = 1,
    PROCESSES = 7,
    HANDLES = 3, /* of one process */
    LOCKS = 3,
    LIFELINES = 64,
    IDS_MAX = 32, /* holder ids of one process */
    PACKETS = 32,
    PACKET_MAX = 512,
    SLOTS = 8,
    BLOCKS = 16,
};
#define SIM_MS INT64_C(1000000)
#define SIM_TTL_NS (1000 * SIM_MS)
#define SIM_GRACE_NS (1000 * SIM_MS)

/* What a seed allows. A number is one chance in so many scheduler turns; 0 never. */
struct faults {
    uint32_t kill, stop, hang_up, cancel, disturb; /* of processes */
    uint32_t crash, stall, reboot, recall;         /* of agents */
    int64_t down_ns_max, stop_ns_max;
    bool shared, upgrade, downgrade, barging, limits, no_delay, timeouts, high_tokens;
};

/* ---- one process and its agent: the socket ---- */

struct packet {
    uint32_t size;
    int32_t region; /* of what an agent sends: the descriptor that came along; -1 none */
    unsigned char bytes[PACKET_MAX];
};

struct packets {
    uint32_t first;
    uint32_t count;
    struct packet ring[PACKETS];
};

struct connection {
    uint32_t number; /* 0: none */
    bool broken;     /* by either side */
    bool welcomed;   /* the agent knows its client */
    bool told;       /* the agent was told that it is broken */
    uint32_t client;
    struct packets to_agent;
    struct packets to_client;
};

/* ---- agents ---- */

struct slot_row {
    bool used;
    struct message_name name;
};

/* Survives a crash; the lease does not survive a reboot. */
struct disk {
    uint32_t round;
    uint64_t promised[MESSAGE_PARTITIONS];
    struct quorum_register registers[LOCKS];
    uint32_t register_count;
    struct message_session marks[AGENTS + 1];
    uint32_t mark_count;
    struct slot_row slots[SLOTS];
    uint32_t epoch;
};

struct lease_file {
    uint32_t epoch;
    int64_t deadline_ns;
    bool valid;
};

/* A process's file with the agent: its lock is held for as long as the process lives. */
struct lifeline {
    bool used;
    uint32_t client;
    uint64_t nonce;
    uint32_t ids[IDS_MAX];
    uint32_t id_count;
    uint32_t process;
    uint32_t generation;
    bool told_dead; /* this agent process was told */
};

struct region_memory {
    void *memory;
    struct hfi_region region; /* as processes see it */
};

enum { REGIONS_MAX = 256, OWN_MESSAGES = 256, AGENT_ACTIONS = 512 };

struct sim_agent {
    struct fiber fiber;
    uint32_t index;
    bool up;
    bool serving;
    int64_t starts_ns; /* when it is down: when it is started again */
    uint32_t starts;
    struct disk disk;
    struct disk uncommitted; /* what the next commit makes of it */
    struct lease_file lease_file;
    struct lifeline lifelines[LIFELINES];
    struct region_memory regions[REGIONS_MAX]; /* all there ever were; the last is in use */
    uint32_t region_count;
    bool bell;
    int64_t stalled_ns; /* the process stood still since; 0: it did not */
    /* What a crash loses. */
    struct hfi_region mapped;
    void *names_memory;
    void *quorum_memory;
    void *host_memory;
    size_t names_bytes, quorum_bytes, host_bytes;
    struct names *names;
    struct quorum *quorum;
    struct host *host;
    struct renewal renewal;
    struct host_lease told;
    bool told_any;
    struct message own[OWN_MESSAGES];
    uint32_t own_first;
    uint32_t own_count;
    struct actions actions;
    struct host_actions host_actions;
    struct hfi_kernel kernel;
};

/* ---- processes ---- */

struct hold_note; /* check.c */

struct sim_handle {
    bool open;
    uint32_t lock;
    uint32_t number; /* the agent's */
    int32_t region;
    uint32_t slot;
    uint32_t holder;
    uint32_t seat;
    bool shared_ready;
    bool barging;
    int64_t limit_ns;
    uint32_t delay_ms;
    uint64_t ticket;
    bool ticket_shared;
    bool holds;
    struct hfi_held held;
    uint32_t hold; /* its note in check.c */
    bool served;   /* after healing */
};

struct sim_process {
    struct fiber fiber;
    uint32_t index;
    uint32_t generation;
    bool alive;
    bool hung_up; /* is to hang up as soon as it can */
    int64_t starts_ns;
    struct connection connection;
    uint32_t client; /* its identity with the agent; 0: none */
    uint64_t nonce;
    uint64_t last_request;
    enum hfi_frame_kind asking; /* for what it waits; 0: for nothing */
    _Atomic uint32_t cancel;
    struct sim_handle handles[HANDLES];
    struct hfi_kernel kernel;
    int32_t region_came; /* with the latest REGION */
    bool done;           /* after healing: was served everything */
};

struct sim_world {
    uint64_t seed;
    uint64_t steps;
    uint64_t turn;
    bool verbose;
    bool healing;
    struct faults faults;
    struct sim_agent agents[AGENTS];
    struct sim_process processes[PROCESSES];
    struct fiber *fibers[AGENTS + PROCESSES];
    uint32_t connections; /* ever */
    uint64_t holds;       /* ever */
};

extern struct sim_world world;

/* A line of the story, with --verbose. */
__attribute__((format(printf, 1, 2))) void sim_tell(const char *format, ...);
/* Something that must be true is not. */
__attribute__((noreturn, format(printf, 1, 2))) void sim_fail(const char *format, ...);

/* ---- disk.c ---- */

void disk_write(struct disk *disk, const struct action *action);
void disk_write_host(struct disk *disk, const struct host_action *action);
void disk_load(const struct disk *disk, struct quorum *quorum);
void disk_preset_tokens(struct disk *disk);

/* ---- agent.c ---- */

void agent_start(struct sim_agent *agent);
void agent_crash(struct sim_agent *agent, int64_t down_ns);
/* All processes are dead already; memory that is shared goes, and so does the lease file. */
void agent_reboot(struct sim_agent *agent, int64_t down_ns);
void agent_free(struct sim_agent *agent);
void agent_bell(void *arg);
/* The kernel for whoever acts on that agent's host. */
void kernel_fill(struct hfi_kernel *kernel, struct sim_agent *agent);

/* ---- process.c ---- */

void process_start(struct sim_process *process);
void process_kill(struct sim_process *process, int64_t down_ns);
void process_cancel(struct sim_process *process);
bool packets_put(struct packets *packets, const void *bytes, size_t size, int32_t region);
bool packets_take(struct packets *packets, struct packet *out);
void lock_name_of(uint32_t lock, char *name, size_t size);

/* ---- check.c ---- */

enum { HOLDS_MAX = 256 };

void check_reset(void);
/* A call returned HELD. The number to be given to the others; UINT32_MAX: the hold was over by
 * then, and is none. */
uint32_t check_held(struct sim_process *process, struct sim_handle *handle);
/* The process looks whether it still holds. */
bool check_looked(struct sim_process *process, struct sim_handle *handle);
/* Before it calls release. */
void check_releases(uint32_t hold);
void check_released(uint32_t hold);
/* It gave the hold up without releasing it: it was told that it is over, or it hangs up. */
void check_gave_up(uint32_t hold);
void check_changed_mode(uint32_t hold, bool shared, uint64_t token);
/* The process died (or hung up): its holds end now without being released. */
void check_vanished(const struct sim_process *process, bool dead);
/* Nobody can run at this instant: nobody may wait for what is free. */
void check_quiet(void);

/* ---- breaks.c ---- */

/* The names of the rules that can be broken, NULL at the end. */
extern const char *const break_names[];
bool breaks_choose(const char *name);
enum breaking {
    BREAK_NOTHING = 0,
    BREAK_LOCK_DELAY,
    BREAK_TOKENS,
    BREAK_DEAD_HOLDERS,
    BREAK_WAKE,
    BREAK_COMMIT,
    BREAK_READERS,
};
extern enum breaking broken;

#endif
