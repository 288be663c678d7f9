/*
 * The simulated world: hosts with their agents, disks and clocks, the network between them,
 * processes with their handles, and the checks.
 *
 *   fiber.c    which fiber runs when; true time; randomness
 *   clock.c    a host's clock: it drifts, and each boot has a new one
 *   network.c  packets and connections between agents; cuts
 *   disk.c     what an agent's store keeps: exactly what was committed
 *   agent.c    an agent: the real driver and cores, their operations, crashes
 *   store.c    a store that is lost, replaced or emptied
 *   host.c     what a host keeps when its agent ends: regions, records of clients, the lease file
 *   voters.c   operators who change the voters
 *   recovery.c a majority that is lost for good, and the operator's recovery
 *   spoil.c    a region that becomes rubbish while the agent runs
 *   process.c  a process: runs the real lock word code, speaks frames, dies, stops, hangs up
 *   check.c    the invariants of holds, checked from outside
 *   watch.c    the invariants of messages and disks, checked from outside
 *   order.c    the order in which locks are served, checked from outside
 *   line.c     a rolling restart with a line of waiters, and the order of their turns
 *   faults.c   which faults a seed has, and when they happen; healing
 *   breaks.c   rules that are broken on purpose, to see the checks fail; also breaks_core.c,
 *              breaks_host.c and breaks_change.c
 *   main.c     seeds and the command line
 *   shrink.c   makes a failing run smaller
 *
 * The scheduler keeps true time. The code under test reads only its host's clock.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/host.h"
#include "core/quorum.h"
#include "core/session/renewal.h"
#include "driver/driver.h"
#include "fiber.h"

enum {
    AGENTS = 27, /* at most: seven voters and twenty observers */
    PROCESSES = 40,
    FIBERS = AGENTS + PROCESSES,
    HANDLES = 3, /* handles of one process */
    LOCKS = 8,
    RECORDS = 64, /* records of one host */
    IDS_MAX = 32, /* holder ids of one process */
    PACKETS = 32,
    PACKET_MAX = 2048, /* a BROKEN with as many holds as there are processes */
    SLOTS = 12,
    BLOCKS = 16,
    CLOCK_SEGMENTS = 32,
    KEPT = 8,        /* notes of waiting requests; fewer than the requests that a host may have at a
                 * time */
    DELAYS = 5,      /* notes of lock-delays; fewer than the locks */
    GENERATIONS = 4, /* generations of the cell: the recoveries of a run, plus one */
};
#define SIM_MS INT64_C(1000000)
/* With starved agents, and in a rolling restart, session_ttl is as long as the default of a real
 * cell. */
#define SIM_TTL_NS ((world.run.starved || world.run.rolling ? 5000 : 1000) * SIM_MS)
#define SIM_GRACE_NS SIM_TTL_NS
#define SIM_DRIFT_PERCENT 10

/* The faults that a seed allows. A number n means a chance of 1 in n scheduler turns; 0: never. */
struct faults {
    uint32_t kill, stop, hang_up, cancel, disturb; /* faults of processes */
    uint32_t crash, stall, reboot, recall;         /* faults of agents */
    uint32_t breaks;                               /* an administrator breaks locks */
    uint32_t held;                   /* a step of the host core stops the agent's loop; only with
                                      * --often */
    uint32_t crash_all, suspend;     /* crashes of all agents at once; stops of a whole host */
    uint32_t cut, reset, drift;      /* faults of links and of clocks */
    uint32_t restore, lose, mistake; /* faults of disks */
    uint32_t spoil;                  /* faults of regions */
    uint32_t change;                 /* operators change the voters (voters.c); only with --often */
    uint32_t recover;            /* a majority is lost for good (recovery.c); only with --often */
    uint32_t fail;               /* one commit in n fails */
    uint32_t loss, repeat, late; /* one packet in n is lost, repeated, or late */
    bool reorder, slow_disk;
    int64_t down_ns_max, stop_ns_max, cut_ns_max, delay_ns_max;
    bool shared, upgrade, downgrade, barging, limits, no_delay, timeouts, high_tokens;
    bool wide;       /* ranges of tokens are as large as in real cells; otherwise they are soon
                      * used up */
    bool starved;    /* some agents run only for some milliseconds now and then, until all faults
                      * heal */
    bool older;      /* some agents' processes know only the older version of the messages */
    bool rest;       /* processes close all handles and rest, so names are deleted */
    bool long_delay; /* lock-delays are longer than the difference that two clocks can reach within
                      * a ttl */
    bool rolling;    /* after healing, all agents are restarted one by one (line.c) */
    bool orderly;    /* agents get SIGTERM instead of a kill, also in a rolling restart */
    bool tries;      /* processes also try locks, without waiting for a holder */
};

/* The settings of a run besides its seed. The seed draws each number that is 0. */
struct run {
    uint64_t seed;
    uint64_t steps;
    uint32_t voters; /* 0: the seed draws the number */
    uint32_t observers;
    uint32_t processes;
    uint32_t locks;
    bool observers_set;
    bool starved;         /* all agents are starved for the whole run */
    bool rolling;         /* there is a rolling restart at the end of each cell */
    bool rolling_orderly; /* agents get SIGTERM in the rolling restart, and are not killed */
    uint64_t off;         /* bits of the faults that never happen, by fault_name()'s index */
    uint64_t often;       /* bits of the faults that happen often in each run; `off` overrides
                           * them */
};

/* ---- the socket between a process and its agent ---- */

struct packet {
    uint32_t size;
    int32_t region; /* the region whose descriptor came with an agent's frame; -1: none */
    unsigned char bytes[PACKET_MAX];
};

struct packets {
    uint32_t first;
    uint32_t count;
    struct packet ring[PACKETS];
};

struct connection {
    uint32_t number; /* 0: no connection */
    bool broken;     /* either end has broken the connection */
    bool welcomed;   /* the agent has sent WELCOME */
    bool told;       /* the agent was notified that the connection is broken */
    uint32_t client;
    struct packets to_agent;
    struct packets to_client;
};

/* ---- hosts ---- */

/* A part of a host's time. At true_ns its clock shows local_ns, and from then on it runs at
 * rate_ppm. */
struct clock_segment {
    int64_t true_ns;
    int64_t local_ns;
    int64_t rate_ppm;
    uint32_t boot;
};

struct host_clock {
    uint32_t count; /* the number of all segments so far; the last CLOCK_SEGMENTS of them are
                     * kept */
    uint32_t boot;
    struct clock_segment segments[CLOCK_SEGMENTS];
};

struct slot_row {
    bool used;
    struct message_name name;
};

struct disk_register {
    bool used;
    struct quorum_register reg;
};

/* what survives a crash of the agent and a reboot of its host */
struct disk {
    uint64_t store_id[2];
    uint64_t commit;
    bool rejoin;
    uint32_t round;
    uint32_t epoch;
    uint64_t promised[MESSAGE_PARTITIONS];
    struct message_checkpoint checkpoints[MESSAGE_PARTITIONS];
    struct disk_register registers[LOCKS];
    struct message_session marks[AGENTS];
    struct quorum_member members[AGENTS];
    struct quorum_seen seen[AGENTS];
    int64_t recovery_wait_ns;     /* the wait of a recovered cell's only voter; 0: none */
    struct message_voters voters; /* number 0: no row, so the agent uses number 1 */
    struct quorum_change change;  /* number 0: none */
    struct slot_row slots[SLOTS];
};

/* what survives a crash of the agent, but is lost in a reboot of its host */
struct lease_file {
    uint32_t epoch;
    int64_t deadline_ns;
    bool valid;
};

/* A client's record with the agent. Its file lock is held as long as the client's process lives. */
struct client_record {
    bool used;
    uint32_t client;
    uint64_t nonce;
    uint32_t ids[IDS_MAX];
    uint32_t id_count;
    uint32_t process;
    uint32_t generation;
    bool told_dead; /* the present agent process knows that the client is dead */
};

struct net_packet;

struct region_memory {
    void *memory;
    void *zeros;              /* the memory that the agent reads after the region was spoilt;
                               * NULL: the same memory as the processes */
    struct hfi_region region; /* the region as processes see it */
    struct hfi_trust trust;   /* what the processes know of the region */
    uint64_t store;           /* the store id of the agent that made the region, which is part of
                               * the region's name */
};

/* The state of a voter's store. Only the simulator knows it. */
enum store_state {
    STORE_GOOD = 0,
    STORE_WRONG, /* lost, or an old copy, and other voters can notice that; the voter must not
                  * vote */
};

enum { REGIONS_MAX = 1024 };

struct sim_agent {
    struct fiber fiber;
    uint32_t index;
    struct message_agent name;
    struct host_clock clock;
    bool up;
    bool serving;
    uint32_t version;  /* the newest version of messages that the agent knows */
    int64_t starts_ns; /* if the agent is down: when it starts again */
    uint32_t starts;
    struct disk disk;
    struct disk *copy; /* an old copy of the disk, if one is kept */
    bool copied;
    int64_t restores_ns;   /* if there is a copy: the earliest time to put it back */
    uint32_t starts_again; /* how often the agent is killed during its next starts with the copy */
    enum store_state store;
    bool lost; /* this store was left behind by a recovery; it is STORE_WRONG until the agent
                * learns of that */
    struct message_voters written; /* the voters in the configuration; count 0: the voters with
                                    * which the cell began */
    int64_t rejoins_ns; /* when an operator lets the voter start over; 0: there is no need */
    struct disk *old;   /* the store that the start-over replaced, which an operator may put
                         * back; old_store is its state */
    enum store_state old_store;
    int64_t undoes_ns; /* when the operator undoes the start-over, if that is still possible; 0:
                        * never */
    struct lease_file lease_file;
    struct host_kept kept[KEPT];
    _Atomic uint16_t delays_ms[DELAYS];
    struct host_region_note note; /* the agent's note of the region in use */
    bool spoilt;                  /* the region in use is spoilt, even if the agent does not know
                                   * it */
    uint64_t repairs;             /* how many repairs the agent has made so far */
    int64_t noticed_ns;           /* the time by which the agent knows that the region is spoilt */
    int64_t anew_ns;              /* when the agent may make the next region */
    struct client_record records[RECORDS];
    struct region_memory regions[REGIONS_MAX]; /* all regions so far; the last one is in use */
    uint32_t region_count;
    bool rung;
    int64_t stalled_ns; /* the time at which the agent was stopped; 0: the agent runs */
    int64_t starves_ns; /* when starvation next stops the agent */
    int64_t stops_ns;   /* after SIGTERM: when the agent ends at the latest; 0: it got no SIGTERM */
    int64_t down_ns;    /* how long the agent stays down after its end */
    bool resigns;       /* the driver has begun to resign */
    bool joins;         /* the agent has to restart, because its store votes from now on */
    /* The fields from here on are lost in a crash. */
    struct driver *driver;
    struct net_packet *taken;         /* the message that the agent is handling */
    const struct driver_batch *batch; /* the driver's batch that is being written */
    int64_t durable_ns;               /* when that batch becomes durable */
    bool batch_fails;
    struct hfi_region mapped;
    void *names_memory;
    void *quorum_memory;
    void *host_memory;
    void *gossip_memory;
    void *renewal_memory;
    size_t names_bytes, quorum_bytes, host_bytes, gossip_bytes, renewal_bytes;
    struct names *names;
    struct quorum *quorum; /* NULL: the agent is an observer */
    struct host *host;
    struct gossip *gossip; /* NULL: the cell has no gossip */
    struct renewal *renewal;
    struct hfi_kernel kernel;
};

/* ---- processes ---- */

struct sim_handle {
    bool open;
    uint32_t lock;
    uint32_t number; /* the agent's number for the handle */
    int32_t region;
    uint32_t slot;
    uint32_t holder;
    uint32_t seat;
    bool shared_ready;
    bool barging;
    int64_t limit_ns;
    uint32_t delay_ms;
    uint64_t ticket;
    int64_t takes_ns; /* when the present take began; 0: the process does not take the lock */
    int64_t left_ns;  /* when the process left its previous place in the queue; it had that place
                       * since left_takes_ns */
    int64_t left_takes_ns;
    uint64_t token_floor; /* the highest token of the holds that had begun before the present
                           * take */
    bool ticket_shared;
    bool holds;
    struct hfi_held held;
    uint32_t hold; /* the number of the hold's note in check.c */
    bool served;   /* after healing: the handle has held its lock once */
};

/* where a process is in the line (line.c) */
enum line_place { LINE_NONE = 0, LINE_COMES, LINE_WAITS, LINE_HOLDS, LINE_SERVED };

struct sim_process {
    struct fiber fiber;
    uint32_t index;
    struct sim_agent *agent; /* the agent of the process's host */
    uint32_t generation;
    bool alive;
    bool hung_up; /* the process is to hang up at the next occasion */
    int64_t starts_ns;
    struct connection connection;
    uint32_t client; /* the id that the agent gave the process; 0: none */
    uint64_t nonce;
    uint64_t last_request;
    int32_t refused;            /* the error of the last OPEN; 0: none */
    enum hfi_frame_kind asking; /* the kind of the request whose answer the process awaits; 0:
                                 * none */
    _Atomic uint32_t cancel;
    struct sim_handle handles[HANDLES];
    struct hfi_kernel kernel;
    int32_t region_came; /* the region that came with the latest frame REGION */
    bool done;           /* after healing: each handle of the process has held its lock once */
    enum line_place line;
    int64_t joins_ns; /* when the process comes for the line */
};

struct sim_world {
    struct run run;
    uint64_t turn;
    bool verbose;
    bool healing;
    int64_t healed_ns;
    int64_t rests_until_ns; /* the time until which all processes rest */
    bool rolling, orderly;
    bool lined_up;         /* the processes of the line come for lock 0 */
    int64_t goes_round_ns; /* the time from which each process of the line releases the lock that it
                            * has */
    struct faults faults;
    uint32_t voters;
    uint32_t agent_count; /* voters, then observers */
    uint32_t process_count;
    uint32_t lock_count;
    bool gossip; /* whether the cell has gossip */
    struct sim_agent agents[AGENTS];
    struct sim_process processes[PROCESSES];
    struct fiber *fibers[FIBERS];
    uint32_t fiber_count;
    uint32_t connections; /* connections so far */
    uint64_t holds;       /* holds so far */
    uint64_t breaks;      /* breaks that were reported as done so far */
    uint64_t messages;    /* messages between agents so far */
};

extern struct sim_world world;

/* Makes one turn of the scheduler: runs one of the fibers, and the network. */
void sim_turn(void);
/* Writes a line into the story, which --verbose prints. */
__attribute__((format(printf, 1, 2))) void sim_tell(const char *format, ...);
/* Reports a broken invariant, and ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void sim_fail(const char *format, ...);

/* ---- clock.c: all local times are those of one host's clock ---- */

void clock_boot(struct sim_agent *agent);
/* Changes the clock's rate from now on. Sleeping fibers of that host then look at the clock
 * again. */
void clock_drift(struct sim_agent *agent);
int64_t clock_now(const struct sim_agent *agent);
/* Returns the true time at which the clock of this boot shows local_ns, or showed it. For the
 * future it assumes the present rate. 0: the time is too long ago. INT64_MAX: never. */
int64_t clock_true(const struct sim_agent *agent, int64_t local_ns);
/* Returns the clock's reading at true_ns. 0: that is too long ago. */
int64_t clock_at(const struct sim_agent *agent, int64_t true_ns);

/* ---- network.c ---- */

enum net_kind { NET_MESSAGE = 1, NET_GOSSIP, NET_LINK };

struct net_packet {
    struct net_packet *next;
    enum net_kind kind;
    uint32_t from;
    int64_t due_ns;
    bool up; /* of NET_LINK */
    size_t size;
    _Alignas(8) unsigned char bytes[]; /* of NET_MESSAGE: only as much of the message as is used */
};

void net_reset(void);
/* Sends a copy of the message, which may be lost. The first packet opens the connection. */
void net_send(uint32_t from, uint32_t to, const struct message *message);
void net_send_gossip(uint32_t from, uint32_t to, const void *bytes, size_t size);
/* Opens a connection from one agent to another. Each agent does that at its start for each
 * voter. */
void net_dial(uint32_t from, uint32_t to);
/* Returns the next packet that has arrived, which the caller frees. NULL: there is none. */
struct net_packet *net_take(uint32_t agent);
/* Returns the time at which the next packet arrives. INT64_MAX: none is on its way. */
int64_t net_due_ns(uint32_t agent);
/* Must be called when the agent's process has ended. quiet: the whole host has ended, so no peer
 * notices the end. */
void net_gone(uint32_t agent, bool quiet);
/* Makes the connections that are due. Returns the time at which it must be called again. */
int64_t net_work(void);
/* Cuts some links in some directions for a while. */
void net_cut(void);
/* Breaks one connection. The packets on their way through it are lost. */
void net_break(void);
void net_heal(void);
void net_free(void);

/* ---- disk.c ---- */

void disk_new(struct sim_agent *agent);
/* Makes the rows of the batch durable. */
void disk_apply(struct sim_agent *agent, const struct driver_batch *batch);
void disk_load(const struct disk *disk, struct quorum *quorum);
void disk_preset_tokens(void);
/* Returns the lock with that name, or LOCKS if there is none. */
uint32_t disk_lock_of(const struct message_name *name);
void lock_name_of(uint32_t lock, char *name, size_t size);

/* ---- agent.c ---- */

void agent_start(struct sim_agent *agent);
void agent_crash(struct sim_agent *agent, int64_t down_ns);
/* Ends the agent by SIGTERM. */
void agent_stop(struct sim_agent *agent, int64_t down_ns);
/* Reboots the host, whose processes must be dead. Its shared memory and its lease file are lost. */
void agent_reboot(struct sim_agent *agent, int64_t down_ns);
void agent_free(struct sim_agent *agent);

/* ---- store.c ---- */

/* Returns whether the agent has a quorum core from its start even if it is no voter. It has one if
 * its store has voted, or has accepted a record (agent/run/record.c). */
bool store_has_voted(const struct sim_agent *agent);
/* Returns whether the store has any row that only a voter's store has. */
bool store_has_rows(const struct sim_agent *agent);
/* Must be called at the start of an agent whose voter was removed. Empties its store, as
 * agent/run/record.c does. */
void store_retire(struct sim_agent *agent);
/* agent_lose_disk() loses the store, agent_restore_disk() puts an old copy in its place, and
 * agent_rejoin() makes the voter start over, like an operator. */
void agent_lose_disk(struct sim_agent *agent);
void agent_restore_disk(struct sim_agent *agent);
void agent_rejoin(struct sim_agent *agent);
/* An operator gives the agent a new store, so that it can be added as a voter again. */
void agent_new_store(struct sim_agent *agent);
/* agent_rejoin_by_mistake() makes a voter start over without need, even if other voters start over,
 * too. agent_undo_rejoin() undoes the start-over, if no other voter knows of it. */
void agent_rejoin_by_mistake(struct sim_agent *agent);
void agent_undo_rejoin(struct sim_agent *agent);
/* ---- voters.c ---- */

void voters_reset(void);
/* Returns the record of voters on the agent's disk; the record of number 1 if the disk has none. */
const struct message_voters *voters_of(const struct sim_agent *agent);
/* Returns whether the agent is a voter of the record. */
bool voters_has(const struct message_voters *record, const struct sim_agent *agent);
const struct message_voters *voters_newest(void);
/* Returns the voters in the agent's configuration. */
const struct message_voters *voters_written(const struct sim_agent *agent);
/* Returns the record of that number, or NULL if no disk ever had it. */
const struct message_voters *voters_numbered(uint32_t number);
/* Returns the next record that any disk ever had; NULL as the argument means the first record; NULL
 * as the result means that there is no further one. */
const struct message_voters *voters_after(const struct message_voters *record);
/* Fills in the records that are in use. Returns how many: 1 or 2. */
uint32_t voters_in_use(const struct message_voters *out[2]);
/* Fills in the records that were in use when this generation of the cell ended. */
uint32_t voters_in_use_of(uint32_t generation, const struct message_voters *out[2]);
/* Returns the agent that is voter `at` of the record. */
struct sim_agent *voters_agent(const struct message_voters *record, uint32_t at);
/* Returns whether the agent is a voter of a record that is in use. */
bool voters_is_used(const struct sim_agent *agent);
/* Notes the record with which the cell begins anew. */
void voters_recovered(const struct message_voters *record);
bool voters_are_majority(const struct message_voters *record, const bool *yes);
void voters_durable(const struct sim_agent *agent, const struct message_voters *record);
void voters_voted(const struct sim_agent *from, const struct message *message);
bool voters_voted_with(const struct sim_agent *agent);
bool voters_are_done(void);
void voters_tell(void);
void voters_inject(void);

/* ---- recovery.c ---- */

void recovery_reset(void);
void recovery_inject(void);
/* Recovers the cell, if that is due. Returns the time at which it must be called again. */
int64_t recovery_due(void);
/* Recovers the cell now, if that is planned. */
void recovery_heal(void);
bool recovery_is_planned(void);
/* Returns whether the operator is about to recover the cell with that agent's store. */
bool recovery_needs(const struct sim_agent *agent);
/* Notes that the agent uses another record from now on. */
void recovery_follow(struct sim_agent *agent);

/* Returns the agent with that name, or AGENTS if there is none. */
uint32_t agent_of_name(const struct message_agent *name);

/* ---- host.c ---- */

/* Fills in the kernel for the processes on that agent's host. */
void kernel_fill(struct hfi_kernel *kernel, struct sim_agent *agent);
void region_make(struct sim_agent *agent);
/* Spoils the region in use. From now on the agent reads zeros, and processes read what they
 * wrote. */
void region_spoil(struct sim_agent *agent);
/* Makes the agent leave a spoilt region, and make a new one when it may (agent/serve/regions.c).
 * Returns false if neither is due. */
bool region_see(struct sim_agent *agent);
/* Returns whether the agent's host core has given its region up. */
bool region_is_given_up(const struct sim_agent *agent);
void host_make(struct sim_agent *agent, bool adopted);
void host_load(struct sim_agent *agent);
/* Carries out an action of the host core. */
void host_act(struct sim_agent *agent, const struct host_action *action,
              const unsigned char *bytes);
/* host_read_socket() gives the driver one event of a process's socket. host_look_for_dead() gives
 * the driver the death of one process. Both return false if they have nothing to give. */
bool host_read_socket(struct sim_agent *agent, struct sim_process *process);
bool host_look_for_dead(struct sim_agent *agent);

/* ---- process.c ---- */

void process_start(struct sim_process *process);
void process_kill(struct sim_process *process, int64_t down_ns);
void process_cancel(struct sim_process *process);
bool packets_put(struct packets *packets, const void *bytes, size_t size, int32_t region);
bool packets_take(struct packets *packets, struct packet *out);

/* ---- check.c ---- */

enum { HOLDS_MAX = 512 };

void check_reset(void);
/* Checks and notes a hold. A call must have just returned HELD. Returns the hold's number for the
 * other functions of check.c, or UINT32_MAX if the hold was already over and does not count. */
uint32_t check_held(struct sim_process *process, struct sim_handle *handle);
/* Notes the lowest token that the hold of a take may have. Must be called right before the take. */
void check_takes(struct sim_handle *handle);
/* Checks the duration of a try that has ended without the lock. refused: the agent answered that
 * another host uses the lock. */
void check_tried(const struct sim_process *process, const struct sim_handle *handle,
                 int64_t began_ns, bool refused);
/* Lets the process look whether it still holds the lock, and notes the deadline that the process
 * sees. Returns whether the process still holds the lock. */
bool check_looked(struct sim_process *process, struct sim_handle *handle);
/* Notes that the process is about to call release. */
void check_releases(uint32_t hold);
void check_released(uint32_t hold);
/* Notes that the process ends the hold without a release, because it noticed that the hold is over,
 * or because it hangs up. */
void check_gave_up(uint32_t hold);
/* Notes that an administrator's break has ended the hold; now: without a lock-delay. The agent
 * counts the lock-delay from the beginning of its step: step_ns by its host's clock. */
void check_broken(uint32_t hold, bool now, int64_t step_ns);
/* Notes that a host begins or has done a break of the lock; now: without a lock-delay, so the break
 * also opens a closed lock. During a break, a hold may have ended before its note says so. */
void check_breaking(uint32_t lock, bool begins, bool now);
/* The holds of a lock that counted when a break began. */
struct check_break {
    uint32_t lock;
    uint64_t numbers[HOLDS_MAX]; /* 0: the hold of this note did not count */
};
void check_breaks(struct check_break *before, uint32_t lock);
/* Checks that none of these holds counts any more. Must be called when the break is reported as
 * done. */
void check_break_done(const struct check_break *before);
void check_changed_mode(uint32_t hold, bool shared, uint64_t token);
/* Notes that the process has died or hung up, which ends its holds without a release. */
void check_vanished(const struct sim_process *process, bool dead);
/* Notes that the host is about to boot, which ends all of its holds. */
void check_reboots(const struct sim_agent *agent);
/* Checks that no process waits for a free lock. Must be called when no fiber can run. */
void check_quiet(void);

/* ---- watch.c ---- */

void watch_reset(void);
/* Checks and notes a message that an agent sends. */
void watch_sent(const struct sim_agent *from, uint32_t to, const struct message *message);
/* Writes a line about a message into the story. */
void watch_tell(const char *what, uint32_t from, uint32_t to, const struct message *message);
/* Checks and notes a row of an agent's disk that has become durable. */
void watch_durable(const struct sim_agent *agent, const struct action *action);
uint32_t partition_of(uint32_t lock);
/* Checks that the disk with which an agent starts has everything that the agent has reported. */
void watch_starts(const struct sim_agent *agent);
/* Notes that the agent's store is no longer the store that other voters know, so that the voter
 * must start over. */
void watch_forgot(const struct sim_agent *agent);
/* Notes that the store was emptied, because the voter was removed. */
void watch_retired(const struct sim_agent *agent);
/* Notes that the agent's store now belongs to a recovered cell. */
void watch_recovered(const struct sim_agent *agent);
/* Checks that the voters' disks have the grant under which a process of that agent holds the
 * lock. */
void watch_held(const struct sim_agent *agent, uint32_t lock, uint32_t epoch);
/* Notes a deadline of the session, by the clock of the agent's host. Must be called before any
 * process gets the deadline. */
void watch_promise(const struct sim_agent *agent, uint32_t epoch, int64_t deadline_ns);

/* ---- order.c ---- */

void order_reset(void);
/* Notes an ACQUIRE that a host sends or repeats. */
void order_asked(const struct message *message);
/* Notes that the agent's process ends without handing its queues over. */
void order_killed(const struct sim_agent *agent);
/* Returns the time at which the coordinator began its last round that granted the host the lock.
 * Returns the present time if that time is unknown. */
int64_t order_chosen_ns(uint32_t agent, uint32_t lock);
/* Notes the request `message`, which has arrived at a coordinator, and passes `changed` on to the
 * coordinator. */
void order_request(struct quorum *quorum, const struct message *message,
                   const struct message *changed);
/* Checks the order of a take that has just returned HELD. */
void order_took(const struct sim_process *process, const struct sim_handle *handle);
/* Notes that the process is about to release. */
void order_releases(const struct sim_process *process, const struct sim_handle *handle);

/* ---- line.c ---- */

bool line_is_drawn(void);
/* Lets processes of all hosts wait for one lock while all agents are restarted one by one. */
void line_play(void);
void line_took(struct sim_process *process);
void line_released(struct sim_process *process);

/* ---- faults.c ---- */

/* Returns the name of a fault, or NULL if the index is too high. */
const char *fault_name(uint32_t index);
void faults_draw(void);
/* Returns whether this run has no fault that loses or delays anything, and all agents have the same
 * release. */
bool faults_are_none(void);
/* Returns a number below limit that depends only on the seed, `what` and `time`. It does not change
 * any other draw. */
uint32_t faults_draw_beside(uint32_t what, uint32_t time, uint32_t limit);
/* Draws the cell: the numbers of voters, observers, processes and locks. */
void faults_draw_cell(void);
void faults_inject(void);
/* Stops starved agents. Returns the time at which it must be called again. */
int64_t faults_starve(void);
/* Starts the agents that are down and due. Returns the time at which the next one is due. */
int64_t faults_start_due(void);
void faults_heal(void);
/* Kills all processes of the agent's host. */
void faults_kill_all_of(const struct sim_agent *agent);

/* ---- shrink.c ---- */

/* Plays smaller runs in child processes until none of them fails, and prints the last run that
 * failed. */
int shrink(struct run run, uint64_t (*play)(struct run run));
void run_print(const struct run *run);

/* ---- breaks.c ---- */

/* The names of the rules that can be broken. NULL ends the list. */
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
    BREAK_TOLD_FIRST,      /* a vote is sent before it is durable */
    BREAK_OWN_VOTE,        /* the agent's own vote is counted before it is durable */
    BREAK_PROMISE,         /* a restart forgets promises */
    BREAK_BALLOT,          /* a restart forgets rounds, so a ballot is used again */
    BREAK_MAJORITY,        /* one vote less than a majority suffices */
    BREAK_READ,            /* a new coordinator does not ask which values exist */
    BREAK_ADOPT,           /* an acceptor takes over older values */
    BREAK_OLD_STORE,       /* a voter votes with any store */
    BREAK_LAPSE,           /* voters count a ttl without the margin for drift */
    BREAK_MARK,            /* a voter marks a session without a check that it has lapsed */
    BREAK_ACK,             /* a voter acknowledges a marked session */
    BREAK_LEASE,           /* a host counts its lease from the answer's arrival */
    BREAK_VERSION,         /* a give-back is accepted for any version */
    BREAK_DEATH_DELAY,     /* there is no lock-delay after an expired session */
    BREAK_FLOOR,           /* checkpoints forget their floor */
    BREAK_ORDER,           /* a coordinator serves the host that came last */
    BREAK_WAITED,          /* a coordinator ignores how long a host says that it has waited */
    BREAK_QUEUE,           /* a waiter on a host is put before the earlier waiters of that host */
    BREAK_FRESH,           /* a host treats each grant as fresh (message_grant.fresh) */
    BREAK_OPENED,          /* a start does not note which commit its store had before it makes
                        * further commits */
    BREAK_PLACE,           /* a restarted agent does not know for which locks its host waits */
    BREAK_HAND_OVERS,      /* a recalled lock is handed on as long as processes wait */
    BREAK_NOTES,           /* a restarted agent has no notes of lock-delays */
    BREAK_RESIGN,          /* an agent that gets SIGTERM ends without resigning */
    BREAK_SUCCESSOR,       /* a coordinator that resigns does not pass its waiters on */
    BREAK_DOWNGRADE,       /* a shared grant has the last token of the previous range */
    BREAK_LATE_SHARE,      /* a message about an earlier grant makes the present grant shared */
    BREAK_BARRED,          /* a spoilt namespace gets a new region at once */
    BREAK_ANEW,            /* the agent forgets that its namespace was given up in this session, and
                            * uses grants from before */
    BREAK_SOUND,           /* the agent trusts a spoilt region until it notices the fault */
    BREAK_IN_USE,          /* the coordinator ignores owners that report their grant in use */
    BREAK_ONE_OWNER,       /* a break is reported as done when one owner has answered */
    BREAK_CHANGE_STEP,     /* a change replaces a voter in one step */
    BREAK_CHANGE_IDS,      /* the number of a removed voter is used again in ballots */
    BREAK_CHANGE_EARLY,    /* a change begins before the previous one is complete */
    BREAK_CHANGE_ACCEPTED, /* a voter uses a record when it has accepted it */
    BREAK_CHANGE_DURABLE,  /* a voter may use a record that is not on its disk */
    BREAK_CHANGE_TOLD,     /* a vote for a record is sent before it is durable */
    BREAK_BALLOT_KEPT,     /* a coordinator keeps its ballots when the record changes */
    BREAK_RECOVERY_FLOOR,  /* the tokens of a recovered cell begin at 1 again */
    BREAK_RECOVERY_WAIT,   /* the voter of a recovered cell votes at once */
};
extern enum breaking broken;

#endif
