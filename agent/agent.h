/*
 * The running agent: the state that the folders beside this file share.
 *
 *   main.c      the command line
 *   run/        start (folders, files, store, cores), the event loop, the end
 *   config/     the configuration, rights, addresses
 *   driver/     events to the cores, their actions in the right order, batches into the store
 *   peers/      the other agents: packets to them and from them
 *   serve/      the clients: packets, processes, records, regions, and what they may cost
 *   observe/    log, metrics, facts for `holdfast doctor`, HTTP, the watchdog of turns
 *
 * One libuv loop on one thread; the committer's thread, NNG's and HTTP's wake it by descriptors.
 * (If a write of the loop's own gets stuck, the committer's thread goes on with it: io/commit.h.)
 * A turn of the loop is: whatever is ready is given to the driver, then agent_turn_end() lets it
 * commit and answer, and sends what is for other agents. Each callback of libuv calls agent_turn()
 * first.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "config/config.h"
#include "core/gossip.h"
#include "core/host.h"
#include "core/quorum.h"
#include "core/session/renewal.h"
#include "io/lease_file.h"
#include "io/region.h"
#include "io/socket.h"
#include "io/store.h"
#include "observe/log.h"
#include "observe/turns.h"
#include "serve/anew.h"

enum {
    AGENT_CLIENT_IDS = HFI_HOLDER_MAX + 1,
    AGENT_ERROR_MAX = 1024,
    AGENT_COMPLAINTS = 64,      /* users and events whose last line in the log is known */
    AGENT_COMPLAINTS_TOLD = 4,  /* a minute */
    AGENT_EPOCHS_FEW = 1 << 20, /* the log has a line when so many are left */
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
struct driver;
struct driver_batch;
struct peers;
struct process;
struct processes;
struct closer;
struct remover;
struct committer;
struct web;

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
    bool unproven; /* of before this agent, and it is not known whether its process lives */
    bool dead;     /* and the host core has had HOST_DIED */
};

/* The latest log lines about a user's processes. */
struct complaint {
    uid_t account;
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
    struct closer *closer; /* main.c's, both */
    struct remover *remover;
    uid_t own;
    char error[AGENT_ERROR_MAX];
    /* Folders and locks. */
    int state_fd;
    int store_fd;            /* names the store's file, and cannot read it; -1: not known */
    int door_fd;             /* likewise the socket's */
    const char *config_path; /* NULL: --dev */
    int clients_fd;
    int shm_fd; /* its folder in /dev/shm: serve/memory.h */
    char shm_folder[REGION_FOLDER_MAX];
    int lock_fd;
    int socket_lock_fd;
    /* The durable state. */
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
    struct anew anew_work;
    int64_t regions_ns;  /* when they were looked at last */
    bool removals_told;  /* that something stays in /dev/shm */
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
    int64_t rings_ns; /* when rings that wait are to be answered; INT64_MAX: none wait */
    int timer_fd;
    int64_t armed_ns;
    bool fired; /* the timer, in this turn */
    bool in_turn;
    int64_t stops_ns; /* it got SIGTERM, and ends at the latest then; 0: it did not */
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
    struct log_limit wake_limit;
};

#endif
