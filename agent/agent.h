/*
 * The running agent: what the folders beside this file share.
 *
 *   main.c      the command line
 *   run/        start (folders, files, store, cores), the event loop, the end
 *   config/     the configuration, rights, addresses
 *   driver/     events to the cores, their actions in the right order, batches into the store
 *   peers/      the other agents: packets to them and from them
 *   serve/      the clients: packets, processes, records, regions, and what they may cost
 *   observe/    log, metrics, facts for `holdfast doctor`, HTTP, the watchdog of turns
 *
 * One libuv loop on one thread; the committer's thread and NNG's wake it by descriptors. (If a
 * write of the loop's own gets stuck, the committer's thread goes on with it: io/commit.h.) A turn
 * of the loop is: whatever is ready is given to the driver, then agent_turn_end() lets it commit
 * and answer, and sends what is for other agents. Each callback of libuv calls agent_turn() first.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "core/gossip.h"
#include "core/host.h"
#include "core/pace.h"
#include "core/quorum.h"
#include "core/renewal.h"
#include "driver/driver.h"
#include "io/commit.h"
#include "io/lease_file.h"
#include "io/region.h"
#include "io/socket.h"
#include "io/store.h"
#include "observe/log.h"
#include "observe/turns.h"
#include "peers/peers.h"
#include "serve/bells.h"
#include "serve/processes.h"

enum {
    AGENT_CLIENT_IDS = HFI_HOLDER_MAX + 1,
    AGENT_ERROR_MAX = 1024,
    AGENT_COMPLAINTS = 64,      /* users and events of which it is known when they were told last */
    AGENT_COMPLAINTS_TOLD = 4,  /* a minute */
    AGENT_EPOCHS_FEW = 1 << 20, /* so many left are told */
};

/* Exit codes. */
enum {
    AGENT_EXIT_OK = 0,
    AGENT_EXIT_USAGE = 64,
    AGENT_EXIT_UNAVAILABLE = 69, /* something of the system's is missing */
    AGENT_EXIT_SOFTWARE = 70,    /* in use by another agent, or anything else */
    AGENT_EXIT_CONFIG = 78,
};

struct agent;

/* A client that is known to the host core: connected, or hung up, or from before this agent. */
struct client {
    struct agent *agent;
    struct client *next;     /* of its process */
    struct process *process; /* NULL: it cannot be seen from here, or it has ended */
    struct peer_process is;
    uint64_t nonce;
    uint32_t id;         /* its first holder id */
    uint32_t connection; /* 0: none */
    pid_t pid;           /* 0: no number that this agent sees */
    uid_t uid;
    bool unproven; /* of before this agent, and whether its process lives cannot be told */
    bool dead;     /* and the host core has had HOST_DIED */
};

/* What was told of a user's processes lately. */
struct complaint {
    uid_t uid;
    const char *event; /* static; NULL: this place is free */
    int64_t since_ns;  /* when its minute began */
    uint32_t told;     /* in it */
    uint32_t left_out; /* since the last line */
    struct {
        pid_t pid;
        uint64_t why; /* its hash */
    } of[AGENT_COMPLAINTS_TOLD];
};

/* A mapped block of zeroed memory. */
struct block {
    void *memory;
    size_t size;
};

struct agent {
    struct config config;
    struct closer *closer; /* main.c's */
    uid_t own;
    char error[AGENT_ERROR_MAX];
    /* Folders and locks. */
    int state_fd;
    int store_fd;            /* names the store's file, and cannot read it; -1: not known */
    int door_fd;             /* likewise the socket's */
    const char *config_path; /* NULL: --dev */
    int clients_fd;
    int bells_fd;
    int lock_fd;
    int socket_lock_fd;
    /* What is durable. */
    struct store *store;
    struct store_meta meta;
    struct message_rules rules;  /* of the cell, as configured */
    struct committer *committer; /* NULL: batches are written within the turn */
    uv_poll_t disk;
    bool may_write;                       /* the loop is one that another thread can go on with */
    const struct driver_batch *unwritten; /* to be written behind the turn; NULL: none */
    struct peers *peers;                  /* NULL: this agent does not listen */
    struct lease_file lease_file;
    struct lease_record left; /* by the agent before */
    uint8_t boot_id[16];
    uint64_t numbers; /* peer_numbers() */
    /* The cores. */
    struct block names_block;
    struct block quorum_block;
    struct block host_block;
    struct block gossip_block;
    struct names *names;
    struct quorum *quorum; /* NULL: an observer */
    struct host *host;
    struct gossip *gossip; /* NULL: this agent does not listen */
    struct renewal renewal;
    struct host_config host_config;
    struct hfi_kernel kernel;
    struct driver *driver;
    /* Regions, by namespace. */
    struct region_file regions[HOST_NAMESPACES_MAX];
    const char *spaces[HOST_NAMESPACES_MAX];
    uint64_t region_rows; /* bits: the store has a region of that namespace */
    bool strange_region;  /* and of one that is not configured */
    struct host_region_note *notes[HOST_NAMESPACES_MAX]; /* in the lease page */
    uint64_t rubbish;  /* bits: given up, and not begun anew yet */
    uint64_t roomless; /* bits, of these: for a page that could not be had */
    uint64_t unsound;  /* bits: found to be rubbish in this turn, or given up for it */
    uint64_t mended;   /* bits: its header was written again in this turn */
    int64_t anew_ns[HOST_NAMESPACES_MAX]; /* of these: when it is to be begun anew */
    uint64_t given_up; /* how often that was done, and how often one was begun anew */
    uint64_t anew;
    int64_t promised_ns; /* the last deadline */
    bool adopted;
    bool unheard; /* this start began the epoch, and no other agent or client knows of it */
    uint32_t epoch;
    uint32_t survivors;
    /* The loop. */
    uv_loop_t loop;
    bool loop_open;
    uv_poll_t timer;
    uv_check_t check;
    uv_signal_t signals[4];
    uv_poll_t bells[HOST_NAMESPACES_MAX];
    struct bell bell_accounts[HOST_NAMESPACES_MAX];
    int64_t bells_ns; /* when one is to be listened to again; INT64_MAX: all are */
    int timer_fd;
    int64_t armed_ns;
    bool fired; /* the timer, in this turn */
    bool in_turn;
    int64_t stops_ns; /* it was told to end, and does at the latest then; 0: it was not */
    bool told_to_end;
    int exit_code;
    /* The clients. */
    uint64_t costly;             /* connections that were set aside */
    struct socket_shares shares; /* the account of what users make this agent do */
    struct socket_server *server;
    struct client **by_id; /* AGENT_CLIENT_IDS of them */
    uint32_t id_high;      /* no client has a higher one */
    uint32_t unproven;     /* how many clients are */
    struct processes *processes;
    int64_t upkeep_ns;
    bool checkpoint_due;
    uint64_t idle_commits; /* how many there were at the last checkpoint */
    uint64_t seen_commits; /* and at the last upkeep */
    int64_t alive_interval_ns;
    int64_t alive_ns;
    int64_t rate_ppm;    /* as last complained of */
    uint32_t files_gone; /* likewise: how many */
    bool session_told;   /* how it stands, and that was: */
    bool session_safe;
    uint64_t interruptions; /* how often it was safe no more, and when it was again, last */
    int64_t interrupted_ns;
    uint64_t stalls;        /* how often this process stood still */
    int64_t stalled_ns;     /* when last, and */
    int64_t stall_ns;       /* for how long */
    int64_t flush_begun_ns; /* of the batch that is on its way; 0: none is */
    struct recent flush;    /* batches to the disk */
    /* For people. */
    struct web *web; /* NULL: no [http] */
    int64_t began_ns;
    int64_t turn_ns; /* when the present turn began */
    struct histogram turn;
    struct turns turns; /* its watchdog */
    struct log_limit client_limit;
    struct log_limit rules_limit;
    struct complaint complaints[AGENT_COMPLAINTS];
    struct log_limit cell_limit;
    struct log_limit lock_limit;
    struct log_limit stall_limit;
    struct log_limit region_limit;
};

/* ---- start.c ---- */

/* As many descriptors as the process may have. Before the filter of system calls. */
void agent_raise_limits(void);
/* Everything up to a loaded and adopted state, not yet started. AGENT_EXIT_OK, or the exit code,
 * and agent->error is one line. */
int agent_prepare(struct agent *agent) __attribute__((warn_unused_result));
/* If nobody has heard of the epoch that this start began, the next one begins it anew: a start that
 * fails each time uses up none. The store is not the committer's any more, nor is it used after. */
void agent_give_epoch_back(struct agent *agent);
/* Within a batch before the first one of this process's own: this voter's store tells others no
 * newer commit than it was opened with until it votes again. */
bool agent_keep_opened(struct agent *agent) __attribute__((warn_unused_result));
/* A commit of the start is durable. */
void agent_committed(struct agent *agent, uint64_t commit);
/* Replaces this voter's store by an empty one that starts over (store_start_over()); kept (of
 * STORE_KEPT_MAX bytes) is where the old one is now. Instead of agent_prepare(). */
int agent_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* Takes that back (store_undo_start_over()). */
int agent_undo_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* Whose store it is, by the configuration and the lease file. */
void agent_store_identity(const struct agent *agent, struct store_identity *identity);
/* Opens the store, the lease file first; fills in meta, left and boot_id. An AGENT_EXIT code:
 * CONFIG also if regions of another layout are in use. */
int agent_open_store(struct agent *agent) __attribute__((warn_unused_result));
/* Closes and frees what agent_prepare() made; what is durable and the regions stay. */
void agent_release(struct agent *agent);

/* ---- regions.c ---- */

enum regions_result {
    REGIONS_ADOPTED,
    REGIONS_AGAIN,  /* some cannot be: with new cores, again without them */
    REGIONS_OVER,   /* the session cannot go on: agent->error */
    REGIONS_FAILED, /* the store: agent->error */
};

/* Opens what the agent before left and loads what is known of it, into new cores. */
enum regions_result regions_adopt(struct agent *agent) __attribute__((warn_unused_result));
void regions_tell_of_holes(const struct agent *agent);
/* Forgets the notes, which are of the session before. The other binds them to this session. */
void regions_forget_notes(struct agent *agent);
void regions_take_notes(struct agent *agent);
/* Fresh ones for all. false: agent->error. */
bool regions_make(struct agent *agent) __attribute__((warn_unused_result));
/* host_sound_fn: arg is the agent. */
bool regions_are_sound(void *arg, uint32_t space);
/* At the end of a turn: gives up what is rubbish, begins anew what is due. */
void regions_see(struct agent *agent);
/* Each quarter of the ttl: looks whether they are what they were, at a constant cost. */
void regions_look(struct agent *agent);
/* When regions_see() has something to do; INT64_MAX: no time is known. */
int64_t regions_next_ns(const struct agent *agent);

/* ---- folders.c ---- */

/* Opens and locks them. AGENT_EXIT_OK, or the exit code, and agent->error is one line. */
int folders_open(struct agent *agent) __attribute__((warn_unused_result));

/* For --check-config: looks at those that are there already, changes nothing. false: a start would
 * refuse one, by whichever user; agent->error is one line. Uses agent->config alone. */
bool folders_check(struct agent *agent) __attribute__((warn_unused_result));

/* ---- clients.c ---- */

/* Announces to the host core whoever is left of the agent before; what may stay in folder clients
 * if the session does not go on is removed. false: agent->error. */
bool clients_load(struct agent *agent) __attribute__((warn_unused_result));
/* Removes the records of the dead, after the start. */
void clients_sweep(struct agent *agent);
/* Whether that process is the client that its HELLO says it was. */
bool clients_resumes(const struct agent *agent, const struct hfi_hello *hello,
                     const struct peer *peer, const struct process *process);
/* The host core let it in (HOST_WELCOMED). NULL: it could not be noted, errno says why. */
struct client *clients_welcome(struct agent *agent, const struct host_action *action,
                               const struct peer *peer, struct process *process);
void clients_forget(struct agent *agent, uint32_t id);
/* Its process has ended. Not within an action. */
void clients_died(struct client *client, const char *how);
void clients_close(struct agent *agent);

/* ---- serve.c ---- */

struct socket_handler serve_handler(struct agent *agent);
/* The frame for who is refused before anything is read of him. Its size. */
size_t serve_refusal(unsigned char *bytes, size_t size);
void serve_act(void *arg, const struct host_action *action, const unsigned char *bytes);

/* ---- facts.c ---- */

/* Writes a TOLD that answers request. The size; 0: none. buffer: HFI_FRAME_MAX bytes. */
size_t facts_tell(struct agent *agent, uint64_t request, unsigned char *buffer);

/* ---- disk.c ---- */

/* From now on the store is the committer's, if there is one. */
bool disk_open(struct agent *agent) __attribute__((warn_unused_result));
/* Waits for the batch that is on its way. The store is the caller's again. */
void disk_close(struct agent *agent);
/* driver_operations.commit: arg is the agent. */
void disk_commit(void *arg, const struct driver_batch *batch);
/* Writes what is to be written behind the turn. false: another thread has the loop now, nothing of
 * the agent may be touched any more. */
bool disk_write(struct agent *agent) __attribute__((warn_unused_result));
/* Tells the driver of the batch, if it is done. */
void disk_done(struct agent *agent);
/* A checkpoint of the store. */
void disk_idle(struct agent *agent);
/* At the end: flushes what can be flushed. */
void disk_settle(struct agent *agent);

/* ---- files.c ---- */

enum { FILES_TEXT_MAX = 300 };

/* Notes which file the store is, and which the socket, once there is one. */
void files_open(struct agent *agent);
void files_open_socket(struct agent *agent);
/* Whether somebody else than root and the agent's user may write to the configuration. */
bool files_config_is_loose(const struct agent *agent);
/* How many of the folder, the store, the regions and the socket are not where they were any more;
 * which: text, of FILES_TEXT_MAX bytes. by_name: also a folder that was moved, for which the disk
 * may have to be read. */
uint32_t files_gone(const struct agent *agent, bool by_name, char *text);
/* Now and then: tells of them in the log. */
void files_look(struct agent *agent);

/* ---- agent.c ---- */

/* Runs until it is told to end, or must. The exit code. */
int agent_run(struct agent *agent) __attribute__((warn_unused_result));
/* Goes on with the loop, on either thread (io/commit.h): true when it has ended. arg: the agent. */
bool agent_loop(void *arg) __attribute__((warn_unused_result));
/* The first thing of each callback. */
void agent_turn(struct agent *agent, enum turn_part part);
/* The last thing of a turn; libuv calls it for those that it began. */
void agent_turn_end(struct agent *agent);
/* Closes what libuv knows of this agent, and lets it call back. */
void agent_close_loop(struct agent *agent);
/* Watches a descriptor. */
bool agent_poll(struct agent *agent, uv_poll_t *poll, int fd, uv_poll_cb callback)
    __attribute__((warn_unused_result));
/* How many descriptors this agent may need, by its configuration. */
int64_t agent_descriptors_wanted(const struct agent *agent);
/* uv_poll_cb of the bells. */
void agent_on_bell(uv_poll_t *poll, int status, int events);
/* Ends the loop. */
void agent_end(struct agent *agent, int exit_code);

#endif
