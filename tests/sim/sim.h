/*
 * The simulated world: hosts with their agents, disks and clocks, the network between them,
 * processes with their handles, and the checks.
 *
 *   fiber.c    who runs when; true time; randomness
 *   clock.c    a host's clock: drifts, begins anew with each boot
 *   network.c  packets and connections between agents; cuts
 *   disk.c     what an agent's store keeps: exactly what was committed
 *   agent.c    an agent: the real driver and cores, their operations, crashes
 *   host.c     what outlives an agent on its host: regions, records of clients, the lease file
 *   spoil.c    a region that becomes rubbish under the agent
 *   process.c  a process: runs the real lock word code, speaks frames, dies, stops, hangs up
 *   check.c    what must be true of holds, told from outside
 *   watch.c    what must be true of messages and disks, told from outside
 *   order.c    in which order locks are to be served, told from outside
 *   line.c     a rolling restart with a line of waiters, and who has his turn when
 *   faults.c   what a seed allows, and when it happens; healing
 *   breaks.c   rules that are broken on purpose, to see the checks fail; breaks_core.c
 *   main.c     seeds and the command line
 *   shrink.c   makes a failing run smaller
 *
 * True time is the scheduler's. Nobody in the world can read it; the checkers do.
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
    AGENTS = 27, /* at most: seven voters, twenty observers */
    PROCESSES = 40,
    FIBERS = AGENTS + PROCESSES,
    HANDLES = 3, /* handles of one process */
    LOCKS = 8,
    RECORDS = 64, /* records of one host */
    IDS_MAX = 32, /* holder ids of one process */
    PACKETS = 32,
    PACKET_MAX = 512,
    SLOTS = 12,
    BLOCKS = 16,
    CLOCK_SEGMENTS = 32,
    KEPT = 8,   /* fewer than the requests that may be under way */
    DELAYS = 5, /* fewer than there are locks */
};
#define SIM_MS INT64_C(1000000)
/* Starved agents need a session_ttl as long as a real cell has by default. */
#define SIM_TTL_NS ((world.run.starved || world.run.rolling ? 5000 : 1000) * SIM_MS)
#define SIM_GRACE_NS SIM_TTL_NS
#define SIM_DRIFT_PERCENT 10

/* The faults that a seed allows. A number is one chance in so many scheduler turns; 0 never. */
struct faults {
    uint32_t kill, stop, hang_up, cancel, disturb; /* faults of processes */
    uint32_t crash, stall, reboot, recall;         /* faults of agents */
    uint32_t held;                   /* agents held up in a step of the host core; with --often
                                      * only */
    uint32_t crash_all, suspend;     /* all agents at once; a whole host */
    uint32_t cut, reset, drift;      /* faults of links; of clocks */
    uint32_t restore, lose, mistake; /* faults of disks */
    uint32_t spoil;                  /* faults of regions */
    uint32_t fail;                   /* one commit in so many fails */
    uint32_t loss, repeat, late;     /* one packet in so many */
    bool reorder, slow_disk;
    int64_t down_ns_max, stop_ns_max, cut_ns_max, delay_ns_max;
    bool shared, upgrade, downgrade, barging, limits, no_delay, timeouts, high_tokens;
    bool wide;       /* ranges of tokens are as large as in real cells; otherwise they are used up
                      * soon */
    bool starved;    /* some agents run for some milliseconds now and then, until all heals */
    bool older;      /* some agents' processes speak only the older version of the messages */
    bool rest;       /* processes close what they opened, and rest: names are deleted */
    bool long_delay; /* lock-delays are longer than the difference that clocks may have in a ttl */
    bool rolling;    /* when all is well, all agents are restarted one by one (line.c) */
    bool orderly;    /* agents get SIGTERM where they would be killed, also in a rolling restart */
    bool tries;      /* processes try locks, too: they do not wait while another host has it */
};

/* The settings of a run, besides its seed. A number that is not set is drawn from the seed. */
struct run {
    uint64_t seed;
    uint64_t steps;
    uint32_t voters; /* 0: the seed draws the number */
    uint32_t observers;
    uint32_t processes;
    uint32_t locks;
    bool observers_set;
    bool starved;         /* all agents are starved until the end */
    bool rolling;         /* a rolling restart at the end of each cell, */
    bool rolling_orderly; /* and agents get SIGTERM, and are not killed */
    uint64_t off;         /* faults that are off, by fault_name()'s index */
    uint64_t often;       /* faults that happen often in each run; `off` overrules this */
};

/* ---- one process and its agent: the socket ---- */

struct packet {
    uint32_t size;
    int32_t region; /* in a frame of an agent: the descriptor that came with it; -1: none */
    unsigned char bytes[PACKET_MAX];
};

struct packets {
    uint32_t first;
    uint32_t count;
    struct packet ring[PACKETS];
};

struct connection {
    uint32_t number; /* 0: none */
    bool broken;     /* broken by either side */
    bool welcomed;   /* the agent knows its client */
    bool told;       /* the agent was notified that it is broken */
    uint32_t client;
    struct packets to_agent;
    struct packets to_client;
};

/* ---- hosts ---- */

/* A piece of a host's time: from true_ns on its clock shows local_ns and goes at rate_ppm. */
struct clock_segment {
    int64_t true_ns;
    int64_t local_ns;
    int64_t rate_ppm;
    uint32_t boot;
};

struct host_clock {
    uint32_t count; /* of all segments so far; the last CLOCK_SEGMENTS are kept */
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

/* This survives a crash, and a reboot. */
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
    struct quorum_member members[MESSAGE_VOTERS_MAX];
    struct quorum_seen seen[MESSAGE_VOTERS_MAX];
    struct slot_row slots[SLOTS];
};

/* This survives a crash of the agent, but not a reboot of its host. */
struct lease_file {
    uint32_t epoch;
    int64_t deadline_ns;
    bool valid;
};

/* A process's file with the agent: its lock is held for as long as the process lives. */
struct client_record {
    bool used;
    uint32_t client;
    uint64_t nonce;
    uint32_t ids[IDS_MAX];
    uint32_t id_count;
    uint32_t process;
    uint32_t generation;
    bool told_dead; /* this agent's process knows it */
};

struct net_packet;

struct region_memory {
    void *memory;
    void *zeros;              /* the memory that the agent reads since the region was spoilt; NULL:
                               * the same as processes */
    struct hfi_region region; /* the region as processes see it */
    struct hfi_trust trust;   /* theirs */
    uint64_t store;           /* the store of the agent that made it: part of the region's name */
};

/* The state of a voter's store, as the simulator knows it. */
enum store_state {
    STORE_GOOD = 0,
    STORE_WRONG, /* lost, or an old copy, and other voters can notice that; must not vote */
};

enum { REGIONS_MAX = 256 };

struct sim_agent {
    struct fiber fiber;
    uint32_t index;
    struct message_agent name;
    struct host_clock clock;
    bool up;
    bool serving;
    uint32_t version;  /* the newest version of messages that it speaks */
    int64_t starts_ns; /* if it is down: when it is started again */
    uint32_t starts;
    struct disk disk;
    struct disk *copy; /* an old copy of the disk, if one is kept */
    bool copied;
    int64_t restores_ns;   /* if there is a copy: when it is put back at the earliest */
    uint32_t starts_again; /* how often the agent is killed when it comes up with that copy */
    enum store_state store;
    int64_t rejoins_ns; /* when an operator lets it start over; 0: there is no need */
    struct disk *old;   /* the store that was replaced, and may be put back, and its state */
    enum store_state old_store;
    int64_t undoes_ns; /* when that is undone, if it still can be; 0: never */
    struct lease_file lease_file;
    struct host_kept kept[KEPT];
    _Atomic uint16_t delays_ms[DELAYS];
    struct host_region_note note; /* the note of the region in use */
    bool spoilt;                  /* the region in use is spoilt, whether the agent knows it or
                                   * not */
    uint64_t repairs;             /* the agent's repairs while the region was spoilt */
    int64_t noticed_ns;           /* when the agent knows of that at the latest */
    int64_t anew_ns;              /* when the next region may be made */
    struct client_record records[RECORDS];
    struct region_memory regions[REGIONS_MAX]; /* all regions so far; the last one is in use */
    uint32_t region_count;
    bool rung;
    int64_t stalled_ns; /* since when the process has stood still; 0: it runs */
    int64_t starves_ns; /* when it is next kept from running */
    int64_t stops_ns;   /* after SIGTERM: when the agent ends at the latest; 0: it got no SIGTERM */
    int64_t down_ns;    /* how long it stays down */
    bool resigns;       /* its driver has begun to resign */
    /* The state that a crash loses. */
    struct driver *driver;
    struct net_packet *taken;         /* the message that it is handling */
    const struct driver_batch *batch; /* the driver's batch that is being written */
    int64_t durable_ns;               /* when that batch is durable */
    bool batch_fails;
    struct hfi_region mapped;
    void *names_memory;
    void *quorum_memory;
    void *host_memory;
    void *gossip_memory;
    size_t names_bytes, quorum_bytes, host_bytes, gossip_bytes;
    struct names *names;
    struct quorum *quorum; /* NULL: an observer */
    struct host *host;
    struct gossip *gossip; /* NULL: none */
    struct renewal renewal;
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
    int64_t takes_ns; /* since when it takes the lock; 0: it waits for no turn */
    int64_t left_ns;  /* when it gave up the place that it had since left_takes_ns */
    int64_t left_takes_ns;
    uint64_t token_floor; /* the highest token of all holds that had begun when this take began */
    bool ticket_shared;
    bool holds;
    struct hfi_held held;
    uint32_t hold; /* the hold's note in check.c */
    bool served;   /* served after healing */
};

/* Where a process stands in the line (line.c). */
enum line_place { LINE_NONE = 0, LINE_COMES, LINE_WAITS, LINE_HOLDS, LINE_SERVED };

struct sim_process {
    struct fiber fiber;
    uint32_t index;
    struct sim_agent *agent; /* the agent of its host */
    uint32_t generation;
    bool alive;
    bool hung_up; /* the process is to hang up as soon as it can */
    int64_t starts_ns;
    struct connection connection;
    uint32_t client; /* its id with the agent; 0: none */
    uint64_t nonce;
    uint64_t last_request;
    enum hfi_frame_kind asking; /* the request whose answer it awaits; 0: none */
    _Atomic uint32_t cancel;
    struct sim_handle handles[HANDLES];
    struct hfi_kernel kernel;
    int32_t region_came; /* the region that came with the latest REGION */
    bool done;           /* after healing: it has had every lock */
    enum line_place line;
    int64_t joins_ns; /* when it joins the line */
};

struct sim_world {
    struct run run;
    uint64_t turn;
    bool verbose;
    bool healing;
    int64_t healed_ns;
    int64_t rests_until_ns; /* until when all processes rest */
    bool rolling, orderly;
    bool lined_up;         /* all processes come for lock 0 */
    int64_t goes_round_ns; /* from then on the lock is released */
    struct faults faults;
    uint32_t voters;
    uint32_t agent_count; /* voters, then observers */
    uint32_t process_count;
    uint32_t lock_count;
    bool gossip; /* whether there is any gossip */
    struct sim_agent agents[AGENTS];
    struct sim_process processes[PROCESSES];
    struct fiber *fibers[FIBERS];
    uint32_t fiber_count;
    uint32_t connections; /* ever */
    uint64_t holds;       /* ever */
    uint64_t messages;    /* messages between agents so far */
};

extern struct sim_world world;

/* Runs one turn of the scheduler. */
void sim_turn(void);
/* Writes a line of the story, with --verbose. */
__attribute__((format(printf, 1, 2))) void sim_tell(const char *format, ...);
/* Reports that an invariant does not hold. */
__attribute__((noreturn, format(printf, 1, 2))) void sim_fail(const char *format, ...);

/* ---- clock.c: all local times are of one host ---- */

void clock_boot(struct sim_agent *agent);
/* Changes the rate from now on; sleepers on that host look at their clocks again. */
void clock_drift(struct sim_agent *agent);
int64_t clock_now(const struct sim_agent *agent);
/* Returns when, in true time, the clock of this boot shows local_ns if its rate does not change, or
 * when it showed it. 0: long ago. INT64_MAX: never. */
int64_t clock_true(const struct sim_agent *agent, int64_t local_ns);
/* Returns the clock's reading at that time. 0: that is long ago. */
int64_t clock_at(const struct sim_agent *agent, int64_t true_ns);

/* ---- network.c ---- */

enum net_kind { NET_MESSAGE = 1, NET_GOSSIP, NET_LINK };

struct net_packet {
    struct net_packet *next;
    enum net_kind kind;
    uint32_t from;
    int64_t due_ns;
    bool up; /* LINK */
    size_t size;
    _Alignas(8) unsigned char bytes[]; /* MESSAGE: as much of it as is used */
};

void net_reset(void);
/* Sends a copy, which may be lost. A first packet opens the connection. */
void net_send(uint32_t from, uint32_t to, const struct message *message);
void net_send_gossip(uint32_t from, uint32_t to, const void *bytes, size_t size);
/* Opens the connection, as an agent does to each voter at its start. */
void net_dial(uint32_t from, uint32_t to);
/* Returns the next packet that has arrived, to be freed; NULL: none has. */
struct net_packet *net_take(uint32_t agent);
/* Returns when the next packet arrives; INT64_MAX: none is on its way. */
int64_t net_due_ns(uint32_t agent);
/* To be called when the agent's process has ended. quiet: its host is gone, too, so no peer
 * notices. */
void net_gone(uint32_t agent, bool quiet);
/* Makes the connections that are due. Returns when it is to be called again. */
int64_t net_work(void);
/* Makes some connections carry nothing, in some directions, for a while. */
void net_cut(void);
/* Breaks one connection; what is under way on it is lost. */
void net_break(void);
void net_heal(void);
void net_free(void);

/* ---- disk.c ---- */

void disk_new(struct sim_agent *agent);
/* To be called when the rows of the batch are durable. */
void disk_apply(struct sim_agent *agent, const struct driver_batch *batch);
void disk_load(const struct disk *disk, struct quorum *quorum);
void disk_preset_tokens(void);
/* Returns LOCKS if the simulator knows no such lock. */
uint32_t disk_lock_of(const struct message_name *name);
void lock_name_of(uint32_t lock, char *name, size_t size);

/* ---- agent.c ---- */

void agent_start(struct sim_agent *agent);
void agent_crash(struct sim_agent *agent, int64_t down_ns);
/* Lets the agent end in order. */
void agent_stop(struct sim_agent *agent, int64_t down_ns);
/* Its processes are dead already; the shared memory and the lease file are lost. */
void agent_reboot(struct sim_agent *agent, int64_t down_ns);
void agent_free(struct sim_agent *agent);
/* The first loses the store, the second puts an old copy in its place, and the third lets an
 * operator make the voter start over. */
void agent_lose_disk(struct sim_agent *agent);
void agent_restore_disk(struct sim_agent *agent);
void agent_rejoin(struct sim_agent *agent);
/* The first lets a voter start over without need, even if others do so at that time; the second
 * undoes that, unless others know of it. */
void agent_rejoin_by_mistake(struct sim_agent *agent);
void agent_undo_rejoin(struct sim_agent *agent);
/* Returns AGENTS if no agent has that name. */
uint32_t agent_of_name(const struct message_agent *name);

/* ---- host.c ---- */

/* The kernel for the processes on that agent's host. */
void kernel_fill(struct hfi_kernel *kernel, struct sim_agent *agent);
void region_make(struct sim_agent *agent);
/* A process spoils the region in use: from now on the agent reads zeros, and processes read what
 * they wrote. */
void region_spoil(struct sim_agent *agent);
/* Lets the agent give up spoilt regions, and make new ones in due time (agent/serve/regions.c).
 * Returns false if there is nothing to do now. */
bool region_see(struct sim_agent *agent);
/* The region must not be adopted; the region of another namespace, which no process uses here, is
 * adopted. */
bool region_is_barred(const struct sim_agent *agent);
void host_make(struct sim_agent *agent, bool adopted);
void host_load(struct sim_agent *agent);
/* Carries out what the host core wants done. */
void host_act(struct sim_agent *agent, const struct host_action *action,
              const unsigned char *bytes);
/* Gives the driver an event of a process's socket, or its death. Returns false if there is none. */
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
/* To be called when a call returned HELD. Returns the hold's number for the other calls;
 * UINT32_MAX: the hold was over by then, and does not count. */
uint32_t check_held(struct sim_process *process, struct sim_handle *handle);
/* To be called right before a take begins. Returns the token below which its hold must not be. */
void check_takes(struct sim_handle *handle);
/* To be called when a try has ended without the lock. refused: its agent answered that it is in use
 * elsewhere. */
void check_tried(const struct sim_process *process, const struct sim_handle *handle,
                 int64_t began_ns, bool refused);
/* To be called when the process looks whether it still holds. */
bool check_looked(struct sim_process *process, struct sim_handle *handle);
/* To be called before it calls release. */
void check_releases(uint32_t hold);
void check_released(uint32_t hold);
/* To be called when it gave the hold up without a release: it noticed that the hold is over, or it
 * hangs up. */
void check_gave_up(uint32_t hold);
void check_changed_mode(uint32_t hold, bool shared, uint64_t token);
/* To be called when the process died or hung up: its holds end now without a release. */
void check_vanished(const struct sim_process *process, bool dead);
/* To be called before a host boots: its processes are dead. */
void check_reboots(const struct sim_agent *agent);
/* To be called when no fiber can run at this instant: then no process may wait for a free lock. */
void check_quiet(void);

/* ---- watch.c ---- */

void watch_reset(void);
/* To be called when an agent sends this message. */
void watch_sent(const struct sim_agent *from, uint32_t to, const struct message *message);
/* Writes a line of the story about a message. */
void watch_tell(const char *what, uint32_t from, uint32_t to, const struct message *message);
/* To be called when a row of an agent's disk is durable. */
void watch_durable(const struct sim_agent *agent, const struct action *action);
uint32_t partition_of(uint32_t lock);
/* To be called when the agent starts with the disk that it has. */
void watch_starts(const struct sim_agent *agent);
/* To be called when its store is not what others know of it any more, so that it has to start
 * over. */
void watch_forgot(const struct sim_agent *agent);
/* To be called when a process holds a lock under a grant of that agent. */
void watch_held(const struct sim_agent *agent, uint32_t lock);
/* To be called before any process gets this deadline, by the agent's clock. */
void watch_promise(const struct sim_agent *agent, uint32_t epoch, int64_t deadline_ns);

/* ---- order.c ---- */

void order_reset(void);
/* To be called when a host sends this ACQUIRE, perhaps again. */
void order_asked(const struct message *message);
/* To be called when that agent's process ends without handing its queues over. */
void order_killed(const struct sim_agent *agent);
/* Returns when the round began in which that host was last granted the lock; now, if that is not
 * known. */
int64_t order_chosen_ns(uint32_t agent, uint32_t lock);
/* To be called when a request comes to a coordinator, which gets the changed request. */
void order_request(struct quorum *quorum, const struct message *message,
                   const struct message *changed);
/* To be called when a call returned HELD. */
void order_took(const struct sim_process *process, const struct sim_handle *handle);
/* To be called when a process is about to release. */
void order_releases(const struct sim_process *process, const struct sim_handle *handle);

/* ---- line.c ---- */

bool line_is_drawn(void);
/* All hosts' processes wait for one lock while all agents are restarted one by one. */
void line_play(void);
void line_took(struct sim_process *process);
void line_released(struct sim_process *process);

/* ---- faults.c ---- */

/* Returns NULL if there are no more. */
const char *fault_name(uint32_t index);
void faults_draw(void);
/* Returns whether this run has no fault that loses or delays anything, and all agents run one
 * release. */
bool faults_are_none(void);
/* Returns a number below limit that follows from the seed, the purpose and the time; other draws
 * are not affected. */
uint32_t faults_draw_beside(uint32_t what, uint32_t time, uint32_t limit);
/* Also draws the cell: how many voters, observers, processes, locks. */
void faults_draw_cell(void);
void faults_inject(void);
/* Keeps starved agents from running. Returns when it is to be called again. */
int64_t faults_starve(void);
/* Starts agents that are down and whose time has come. Returns when the next one's time comes. */
int64_t faults_start_due(void);
void faults_heal(void);

/* ---- shrink.c ---- */

/* Plays runs in child processes until no smaller one fails; prints what is left. */
int shrink(struct run run, uint64_t (*play)(struct run run));
void run_print(const struct run *run);

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
    BREAK_TOLD_FIRST,  /* a vote is sent before it is durable */
    BREAK_OWN_VOTE,    /* the own vote is counted before it is durable */
    BREAK_PROMISE,     /* promises are forgotten by a restart */
    BREAK_BALLOT,      /* so are rounds: a ballot is used again */
    BREAK_MAJORITY,    /* one vote less is enough */
    BREAK_READ,        /* a new coordinator does not ask which values exist */
    BREAK_ADOPT,       /* older values are taken over */
    BREAK_OLD_STORE,   /* any store votes */
    BREAK_LAPSE,       /* voters count the ttl short */
    BREAK_MARK,        /* a session is marked without a check whether it has lapsed */
    BREAK_ACK,         /* a marked session is acknowledged */
    BREAK_LEASE,       /* a lease is counted from the answer */
    BREAK_VERSION,     /* a give-back's version is ignored */
    BREAK_DEATH_DELAY, /* no lock-delay behind a dead session */
    BREAK_FLOOR,       /* checkpoints forget their floor */
    BREAK_ORDER,       /* a coordinator serves the host that came last */
    BREAK_WAITED,      /* a coordinator ignores how long a host says that it has waited */
    BREAK_QUEUE,       /* a waiter on a host is put before those that wait there already */
    BREAK_FRESH,       /* each grant counts as fresh */
    BREAK_OPENED,      /* a start does not note which commit its store had, before it commits
                        * more */
    BREAK_PLACE,       /* a restarted agent does not know for which locks its host waits */
    BREAK_HAND_OVERS,  /* a recalled lock is handed on as long as processes wait */
    BREAK_NOTES,       /* a restarted agent finds no lock-delays noted */
    BREAK_RESIGN,      /* an agent that gets SIGTERM just ends */
    BREAK_SUCCESSOR,   /* a coordinator does not hand its waiters on */
    BREAK_DOWNGRADE,   /* a shared grant has the last token of the previous range */
    BREAK_LATE_SHARE,  /* a grant is made shared by a message about an earlier grant */
    BREAK_BARRED,      /* a spoilt namespace is begun anew at once */
    BREAK_ANEW,        /* and grants that are made there under earlier grants are taken */
    BREAK_SOUND,       /* bytes of a spoilt region are believed until the fault is known */
    BREAK_IN_USE,      /* the coordinator ignores owners that report their grant in use */
};
extern enum breaking broken;

#endif
