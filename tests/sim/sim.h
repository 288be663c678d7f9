/*
 * The simulated world: hosts with their agents, disks and clocks, the network between them,
 * processes with their handles, and what is watched.
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
    HANDLES = 3, /* of one process */
    LOCKS = 8,
    RECORDS = 64, /* of one host */
    IDS_MAX = 32, /* holder ids of one process */
    PACKETS = 32,
    PACKET_MAX = 512,
    SLOTS = 12,
    BLOCKS = 16,
    CLOCK_SEGMENTS = 32,
    KEPT = 8,   /* fewer than requests that may be under way */
    DELAYS = 5, /* fewer than locks */
};
#define SIM_MS INT64_C(1000000)
/* Starved agents need the time that a real cell has by default. */
#define SIM_TTL_NS ((world.run.starved || world.run.rolling ? 5000 : 1000) * SIM_MS)
#define SIM_GRACE_NS SIM_TTL_NS
#define SIM_DRIFT_PERCENT 10

/* The faults that a seed allows. A number is one chance in so many scheduler turns; 0 never. */
struct faults {
    uint32_t kill, stop, hang_up, cancel, disturb; /* of processes */
    uint32_t crash, stall, reboot, recall;         /* of agents */
    uint32_t held;                   /* of agents, in a step of the host core; with --often only */
    uint32_t crash_all, suspend;     /* of all agents at once; of a whole host */
    uint32_t cut, reset, drift;      /* of links; of clocks */
    uint32_t restore, lose, mistake; /* of disks */
    uint32_t spoil;                  /* of regions */
    uint32_t fail;                   /* one commit in so many fails */
    uint32_t loss, repeat, late;     /* one packet in so many */
    bool reorder, slow_disk;
    int64_t down_ns_max, stop_ns_max, cut_ns_max, delay_ns_max;
    bool shared, upgrade, downgrade, barging, limits, no_delay, timeouts, high_tokens;
    bool wide;       /* ranges of tokens as they are outside; else they are used up soon */
    bool starved;    /* some agents run for some milliseconds now and then, until all heals */
    bool older;      /* some agents' processes speak only the older version of the messages */
    bool rest;       /* processes close what they opened, and rest: names are deleted */
    bool long_delay; /* lock-delays longer than what clocks may differ by in a ttl */
    bool rolling;    /* when all is well, all agents are restarted one by one (line.c) */
    bool orderly;    /* agents get SIGTERM where they would be killed; there too */
    bool tries;      /* processes try locks, too: they do not wait while another host has it */
};

/* The settings of a run, beside its seed. A number that is not set is drawn from the seed. */
struct run {
    uint64_t seed;
    uint64_t steps;
    uint32_t voters; /* 0: drawn */
    uint32_t observers;
    uint32_t processes;
    uint32_t locks;
    bool observers_set;
    bool starved;         /* all agents are starved, to the end */
    bool rolling;         /* a rolling restart at the end of each cell, */
    bool rolling_orderly; /* and agents get SIGTERM, and are not killed */
    uint64_t off;         /* faults that are off, by fault_name()'s index */
    uint64_t often;       /* and those that are there in each run, often; off counts more */
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
    bool told;       /* the agent learned that it is broken */
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
    uint32_t count; /* ever; the last CLOCK_SEGMENTS are kept */
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

/* Survives a crash, and a reboot. */
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

/* Survives a crash of the agent, not a reboot of its host. */
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
    bool told_dead; /* this agent process knows it */
};

struct net_packet;

struct region_memory {
    void *memory;
    void *zeros;              /* the memory that the agent reads since it was spoilt; NULL: the
                               * same */
    struct hfi_region region; /* as processes see it */
    struct hfi_trust trust;   /* theirs */
    uint64_t store;           /* of the agent that made it: part of the region's name */
};

/* How a voter's store stands, as the simulator knows it. */
enum store_state {
    STORE_GOOD = 0,
    STORE_WRONG, /* lost, or an old copy: somebody knows; must not vote */
};

enum { REGIONS_MAX = 256 };

struct sim_agent {
    struct fiber fiber;
    uint32_t index;
    struct message_agent name;
    struct host_clock clock;
    bool up;
    bool serving;
    uint32_t version;  /* of messages: the newest that it speaks */
    int64_t starts_ns; /* when it is down: when it is started again */
    uint32_t starts;
    struct disk disk;
    struct disk *copy; /* an old copy of it, if one is kept */
    bool copied;
    int64_t restores_ns;   /* copied: it comes back then at the earliest */
    uint32_t starts_again; /* so often it is killed as it comes up with that copy */
    enum store_state store;
    int64_t rejoins_ns; /* when an operator has it start over; 0: there is no need */
    struct disk *old;   /* the store that was replaced, and may come back; and how it stood */
    enum store_state old_store;
    int64_t undoes_ns; /* when that is taken back, if it still can be; 0: never */
    struct lease_file lease_file;
    struct host_kept kept[KEPT];
    _Atomic uint16_t delays_ms[DELAYS];
    struct host_region_note note; /* of the region in use */
    bool spoilt;                  /* that one is rubbish, whether the agent knows it or not */
    uint64_t repairs;             /* while it was: the agent's repairs there */
    int64_t noticed_ns;           /* when it knows at the latest */
    int64_t anew_ns;              /* when the next one may be made */
    struct client_record records[RECORDS];
    struct region_memory regions[REGIONS_MAX]; /* all there ever were; the last is in use */
    uint32_t region_count;
    bool rung;
    int64_t stalled_ns; /* the process stood still since; 0: it did not */
    int64_t starves_ns; /* when it is next kept from running */
    int64_t stops_ns;   /* it got SIGTERM, and ends at the latest then; 0: it did not */
    int64_t down_ns;    /* for so long */
    bool resigns;       /* its driver knows */
    /* The state that a crash loses. */
    struct driver *driver;
    struct net_packet *taken;         /* the message that it is reading */
    const struct driver_batch *batch; /* on its way to the disk; the driver's */
    int64_t durable_ns;               /* when it is there */
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
    int64_t takes_ns; /* since when it takes; 0: it does not wait its turn */
    int64_t left_ns;  /* when it gave up the place that it had since left_takes_ns */
    int64_t left_takes_ns;
    uint64_t token_floor; /* the highest of all holds that had begun when it began to take */
    bool ticket_shared;
    bool holds;
    struct hfi_held held;
    uint32_t hold; /* its note in check.c */
    bool served;   /* after healing */
};

/* Where a process stands in the line (line.c). */
enum line_place { LINE_NONE = 0, LINE_COMES, LINE_WAITS, LINE_HOLDS, LINE_SERVED };

struct sim_process {
    struct fiber fiber;
    uint32_t index;
    struct sim_agent *agent; /* of its host */
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
    enum line_place line;
    int64_t joins_ns; /* the line */
};

struct sim_world {
    struct run run;
    uint64_t turn;
    bool verbose;
    bool healing;
    int64_t healed_ns;
    int64_t rests_until_ns; /* everybody rests */
    bool rolling, orderly;
    bool lined_up;         /* everybody comes for lock 0 */
    int64_t goes_round_ns; /* and is released from then on */
    struct faults faults;
    uint32_t voters;
    uint32_t agent_count; /* voters, then observers */
    uint32_t process_count;
    uint32_t lock_count;
    bool gossip; /* there is any */
    struct sim_agent agents[AGENTS];
    struct sim_process processes[PROCESSES];
    struct fiber *fibers[FIBERS];
    uint32_t fiber_count;
    uint32_t connections; /* ever */
    uint64_t holds;       /* ever */
    uint64_t messages;    /* between agents, ever */
};

extern struct sim_world world;

/* One turn of the scheduler. */
void sim_turn(void);
/* A line of the story, with --verbose. */
__attribute__((format(printf, 1, 2))) void sim_tell(const char *format, ...);
/* Something that must be true is not. */
__attribute__((noreturn, format(printf, 1, 2))) void sim_fail(const char *format, ...);

/* ---- clock.c: all local times are of one host ---- */

void clock_boot(struct sim_agent *agent);
/* From now on at another rate; sleepers on that host look at their clocks again. */
void clock_drift(struct sim_agent *agent);
int64_t clock_now(const struct sim_agent *agent);
/* When, in true time, the clock of this boot shows local_ns, if nothing changes its rate; or when
 * it did. 0: long ago. INT64_MAX: never. */
int64_t clock_true(const struct sim_agent *agent, int64_t local_ns);
/* Its reading then. 0: that is long ago. */
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
    _Alignas(8) unsigned char bytes[]; /* MESSAGE: as much of it as counts */
};

void net_reset(void);
/* Sends a copy; may be lost. A first packet opens the connection. */
void net_send(uint32_t from, uint32_t to, const struct message *message);
void net_send_gossip(uint32_t from, uint32_t to, const void *bytes, size_t size);
/* Opens the connection, as an agent does to each voter at its start. */
void net_dial(uint32_t from, uint32_t to);
/* The next packet that has arrived, to be freed; NULL: none has. */
struct net_packet *net_take(uint32_t agent);
/* When the next one arrives; INT64_MAX: none is on its way. */
int64_t net_due_ns(uint32_t agent);
/* The agent's process is gone; its host too, if quiet: then no peer learns it. */
void net_gone(uint32_t agent, bool quiet);
/* Connects what can be connected by now; when it is to be called again. */
int64_t net_work(void);
/* Some connections stop to carry anything, in some directions, for a while. */
void net_cut(void);
/* One connection breaks, and what is in it is lost. */
void net_break(void);
void net_heal(void);
void net_free(void);

/* ---- disk.c ---- */

void disk_new(struct sim_agent *agent);
/* The rows of the batch are durable now. */
void disk_apply(struct sim_agent *agent, const struct driver_batch *batch);
void disk_load(const struct disk *disk, struct quorum *quorum);
void disk_preset_tokens(void);
/* LOCKS: it is none that the simulator knows. */
uint32_t disk_lock_of(const struct message_name *name);
void lock_name_of(uint32_t lock, char *name, size_t size);

/* ---- agent.c ---- */

void agent_start(struct sim_agent *agent);
void agent_crash(struct sim_agent *agent, int64_t down_ns);
/* Has it end in order. */
void agent_stop(struct sim_agent *agent, int64_t down_ns);
/* All its processes are dead already; memory that is shared goes, and so does the lease file. */
void agent_reboot(struct sim_agent *agent, int64_t down_ns);
void agent_free(struct sim_agent *agent);
/* The store is lost; an old copy of it is there; an operator has the voter start over. */
void agent_lose_disk(struct sim_agent *agent);
void agent_restore_disk(struct sim_agent *agent);
void agent_rejoin(struct sim_agent *agent);
/* Without need, also if others do so at that time; and back, unless others know of it. */
void agent_rejoin_by_mistake(struct sim_agent *agent);
void agent_undo_rejoin(struct sim_agent *agent);
/* AGENTS: nobody of that name. */
uint32_t agent_of_name(const struct message_agent *name);

/* ---- host.c ---- */

/* The kernel for the processes on that agent's host. */
void kernel_fill(struct hfi_kernel *kernel, struct sim_agent *agent);
void region_make(struct sim_agent *agent);
/* A process spoils the region in use: the agent reads zeros from now on, others what they wrote. */
void region_spoil(struct sim_agent *agent);
/* The agent gives up what is spoilt, and makes another one in its time (agent/serve/regions.c).
 * false: there is nothing to do now. */
bool region_see(struct sim_agent *agent);
/* The region is not to be adopted; that of another namespace, which nobody uses here, is. */
bool region_is_barred(const struct sim_agent *agent);
void host_make(struct sim_agent *agent, bool adopted);
void host_load(struct sim_agent *agent);
/* Carries out what the host core wants done. */
void host_act(struct sim_agent *agent, const struct host_action *action,
              const unsigned char *bytes);
/* Something for the driver of a process's socket, or its death. false: there is nothing. */
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
/* A call returned HELD. The number to be given to the others; UINT32_MAX: the hold was over by
 * then, and is none. */
uint32_t check_held(struct sim_process *process, struct sim_handle *handle);
/* Right before it begins to take: which tokens its hold may not be below. */
void check_takes(struct sim_handle *handle);
/* A try has ended without the lock. refused: its agent said that it is in use elsewhere. */
void check_tried(const struct sim_process *process, const struct sim_handle *handle,
                 int64_t began_ns, bool refused);
/* The process looks whether it still holds. */
bool check_looked(struct sim_process *process, struct sim_handle *handle);
/* Before it calls release. */
void check_releases(uint32_t hold);
void check_released(uint32_t hold);
/* It gave the hold up without releasing it: it learned that it is over, or it hangs up. */
void check_gave_up(uint32_t hold);
void check_changed_mode(uint32_t hold, bool shared, uint64_t token);
/* The process died (or hung up): its holds end now without being released. */
void check_vanished(const struct sim_process *process, bool dead);
/* Before a host boots: its processes are dead. */
void check_reboots(const struct sim_agent *agent);
/* Nobody can run at this instant: nobody may wait for what is free. */
void check_quiet(void);

/* ---- watch.c ---- */

void watch_reset(void);
/* An agent sends this, now. */
void watch_sent(const struct sim_agent *from, uint32_t to, const struct message *message);
/* A line of the story about a message. */
void watch_tell(const char *what, uint32_t from, uint32_t to, const struct message *message);
/* A row of an agent's disk is durable, now. */
void watch_durable(const struct sim_agent *agent, const struct action *action);
uint32_t partition_of(uint32_t lock);
/* The agent starts with the disk that it has. */
void watch_starts(const struct sim_agent *agent);
/* Its store is not what others know of it any more, and it has to start over. */
void watch_forgot(const struct sim_agent *agent);
/* A process holds a lock under a grant of that agent. */
void watch_held(const struct sim_agent *agent, uint32_t lock);
/* Called before anybody gets this deadline, by the agent's clock. */
void watch_promise(const struct sim_agent *agent, uint32_t epoch, int64_t deadline_ns);

/* ---- order.c ---- */

void order_reset(void);
/* A host sends this ACQUIRE, perhaps again. */
void order_asked(const struct message *message);
/* That agent's process ends, and hands its queues to nobody. */
void order_killed(const struct sim_agent *agent);
/* When the round began by which that host was granted the lock last; now, if that is not known. */
int64_t order_chosen_ns(uint32_t agent, uint32_t lock);
/* A request comes to a coordinator, which gets the changed one. */
void order_request(struct quorum *quorum, const struct message *message,
                   const struct message *changed);
/* A call returned HELD. */
void order_took(const struct sim_process *process, const struct sim_handle *handle);
/* Is about to release. */
void order_releases(const struct sim_process *process, const struct sim_handle *handle);

/* ---- line.c ---- */

bool line_is_drawn(void);
/* All hosts' processes wait for one lock while all agents are restarted one by one. */
void line_play(void);
void line_took(struct sim_process *process);
void line_released(struct sim_process *process);

/* ---- faults.c ---- */

/* NULL: there are no more. */
const char *fault_name(uint32_t index);
void faults_draw(void);
/* Returns whether this run has no fault that loses or delays anything, and all agents run one
 * release. */
bool faults_are_none(void);
/* A number below limit that follows from the seed, what it is for and when; other draws go on as if
 * there were none. */
uint32_t faults_draw_beside(uint32_t what, uint32_t time, uint32_t limit);
/* Draws the cell too: how many voters, observers, processes, locks. */
void faults_draw_cell(void);
void faults_inject(void);
/* Keeps starved agents from running; when it is to be called again. */
int64_t faults_starve(void);
/* Starts what is down and whose time has come; when the next one's comes. */
int64_t faults_start_due(void);
void faults_heal(void);

/* ---- shrink.c ---- */

/* Plays runs in child processes until none that is smaller fails; prints what is left. */
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
    BREAK_MAJORITY,    /* one vote less will do */
    BREAK_READ,        /* a new coordinator asks nobody what there is */
    BREAK_ADOPT,       /* older values are taken over */
    BREAK_OLD_STORE,   /* any store votes */
    BREAK_LAPSE,       /* voters count the ttl short */
    BREAK_MARK,        /* a session is marked without a look whether it has lapsed */
    BREAK_ACK,         /* a marked session is acknowledged */
    BREAK_LEASE,       /* a lease runs from the answer */
    BREAK_VERSION,     /* a give-back's version is ignored */
    BREAK_DEATH_DELAY, /* no lock-delay behind a dead session */
    BREAK_FLOOR,       /* checkpoints forget their floor */
    BREAK_ORDER,       /* a coordinator serves the host that came last */
    BREAK_WAITED,      /* it ignores how long a host says that it has waited */
    BREAK_QUEUE,       /* a waiter on a host is put before those that wait there already */
    BREAK_FRESH,       /* each grant counts as made for the host just now */
    BREAK_OPENED,      /* a start does not keep what its store had, before it commits more */
    BREAK_PLACE,       /* a restarted agent does not know for what its host waits */
    BREAK_HAND_OVERS,  /* a recalled lock is handed on for as long as somebody waits */
    BREAK_NOTES,       /* a restarted agent finds no lock-delays noted */
    BREAK_RESIGN,      /* an agent that gets SIGTERM just ends */
    BREAK_SUCCESSOR,   /* a coordinator does not hand its waiters on */
    BREAK_DOWNGRADE,   /* a shared grant has the last token of the range before it */
    BREAK_LATE_SHARE,  /* a grant is made shared by a message of before */
    BREAK_BARRED,      /* a spoilt namespace is begun anew at once */
    BREAK_ANEW,        /* and what is granted there under grants of before is taken */
    BREAK_SOUND,       /* bytes of a spoilt region are believed until the fault is known */
    BREAK_IN_USE,      /* no owner is heard that says that its grant is in use */
};
extern enum breaking broken;

#endif
