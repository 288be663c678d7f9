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
 * One libuv loop runs on one thread. The threads of the committer, of NNG and of HTTP wake it
 * through descriptors. (If a write by the loop's thread gets stuck, the committer's thread runs the
 * loop on: io/commit.h.) In one turn the loop gives everything that is ready to the driver. Then
 * agent_turn_end() lets the driver commit and answer, and sends the packets for other agents. Each
 * callback of libuv calls agent_turn() first.
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
#include "serve/respite.h"

enum {
    AGENT_CLIENT_IDS = HFI_HOLDER_MAX + 1,
    AGENT_ERROR_MAX = 1024,
    AGENT_MISUSES = 64,         /* how many (user, event) pairs have their latest log lines kept */
    AGENT_MISUSES_LOGGED = 4,   /* lines a minute for each pair */
    AGENT_EPOCHS_FEW = 1 << 20, /* if so few session numbers are left, each start logs a warning */
};

/* Exit codes. */
enum {
    AGENT_EXIT_OK = 0,
    AGENT_EXIT_USAGE = 64,
    AGENT_EXIT_UNAVAILABLE = 69, /* the system lacks something that is needed */
    AGENT_EXIT_SOFTWARE = 70,    /* another agent uses it, or any other failure */
    AGENT_EXIT_CONFIG = 78,
};

struct accounts;
struct agent;
struct driver;
struct driver_batch;
struct peers;
struct process;
struct processes;
struct closer;
struct remover;
struct committer;
struct keeper;
struct prolong;
struct web;

/* A client that the host core knows: connected, disconnected, or left by the previous agent. */
struct agent_client {
    struct agent *agent;
    struct agent_client *next; /* the next client of the same process */
    struct process *process;   /* NULL: the process cannot be seen from here, or has ended */
    struct peer_process is;
    uint64_t nonce;
    uint32_t id;         /* its first holder id */
    uint32_t connection; /* 0: none */
    pid_t pid;           /* 0: it has no number that this agent sees */
    uid_t uid;
    bool unproven; /* it is from before this agent, which cannot know whether its process lives */
    bool dead;     /* the host core has received HOST_DIED */
};

/* The latest log lines about one event of one user's processes. */
struct misuse {
    uid_t account;
    const char *event; /* static; NULL: this entry is free */
    int64_t since_ns;  /* when its minute began */
    uint32_t logged;   /* lines that were logged in this minute */
    uint32_t left_out; /* lines left out since the last line */
    struct {
        pid_t pid;
        uint64_t why; /* a hash of the line's text */
    } of[AGENT_MISUSES_LOGGED];
};

/* A mapped block of zeroed memory. */
struct block {
    void *memory;
    size_t size;
};

struct agent {
    struct config config;
    struct closer *closer; /* main.c opens and closes both */
    struct remover *remover;
    struct accounts *accounts; /* looks names up; NULL: all are found. main.c opens it */
    int64_t accounts_ns;       /* when it was last told to look again */
    uid_t own;
    char error[AGENT_ERROR_MAX];
    /* Folders and locks. */
    int state_fd;
    int store_fd;            /* O_PATH: for fstat() only; -1: not known */
    int door_fd;             /* the same for the socket */
    int door_folder_fd;      /* and for its folder */
    bool door_told;          /* the log says why the socket's file is not made again */
    const char *config_path; /* NULL: --dev */
    int clients_fd;
    int shm_fd; /* the agent's folder in /dev/shm: serve/memory.h */
    char shm_folder[REGION_FOLDER_MAX];
    int lock_fd;
    int socket_lock_fd;
    /* The durable state. */
    struct store *store;
    struct store_meta meta;
    struct message_rules rules;  /* the rules of the cell, as configured */
    struct committer *committer; /* NULL: batches are written within the turn */
    uv_poll_t disk;
    bool may_write;                       /* the thread that runs the loop can be replaced:
                                           * io/commit.h */
    const struct driver_batch *unwritten; /* the batch to be written after the turn; NULL: none */
    struct peers *peers;                  /* NULL: this agent does not listen */
    struct lease_file lease_file;
    struct lease_record left; /* what the previous agent left */
    uint8_t boot_id[16];
    uint64_t numbers; /* set by peer_numbers() */
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
    struct keeper *keeper;   /* NULL: it does not exist yet, or no more */
    struct prolong *prolong; /* likewise */
    bool prolonged; /* its threads may read the regions until the process ends, so the regions stay
                     * mapped */
    /* Regions, by namespace. */
    struct region_file regions[HOST_NAMESPACES_MAX];
    const char *spaces[HOST_NAMESPACES_MAX];
    uint64_t region_rows; /* bit i: the store has a row for the region of namespace i */
    bool strange_region;  /* the store has a row for a namespace that is not configured */
    struct host_region_note *notes[HOST_NAMESPACES_MAX]; /* the notes in the lease page */
    uint64_t rubbish;  /* bit i: region i was given up and is not begun anew yet */
    uint64_t roomless; /* bit i of rubbish: a page of region i had no memory */
    uint64_t unsound;  /* bit i: found unusable, to be given up when the turn ends */
    uint64_t mended;   /* bit i: its header was written again in this turn */
    uint64_t held;     /* bit i: one of its processes holds up threads that touch region i */
    uint8_t faults[HOST_NAMESPACES_MAX];    /* enum region_fault: why the region is unsound */
    uint8_t abandoned[HOST_NAMESPACES_MAX]; /* how many of its regions were, by this agent */
    struct respite respites[HOST_NAMESPACES_MAX];
    int64_t anew_ns[HOST_NAMESPACES_MAX]; /* for regions of rubbish: when to begin anew */
    uint64_t given_up; /* how many regions were given up; anew counts those begun anew */
    uint64_t anew;
    struct anew anew_work;
    int64_t regions_ns;   /* when the regions were last looked at */
    bool removals_logged; /* the log has reported that files stay in /dev/shm */
    int64_t promised_ns;  /* the deadline that was promised last */
    bool adopted;
    bool unheard; /* this start began the epoch, and no other agent or client knows of it */
    uint32_t epoch;
    uint32_t survivors;
    /* The loop. */
    uv_loop_t loop;
    bool loop_open;
    uv_poll_t timer;
    uv_poll_t accounts_poll;
    uv_check_t check;
    uv_signal_t signals[4];
    int64_t rings_ns; /* when rings that wait are to be answered; INT64_MAX: none wait */
    int timer_fd;
    int64_t armed_ns;
    bool fired; /* the timer fired in this turn */
    bool in_turn;
    int64_t stops_ns; /* after SIGTERM: when the agent ends at the latest; 0: no SIGTERM */
    bool ending;
    int exit_code;
    /* The clients. */
    uint64_t costly;             /* how often a connection was logged as costly */
    struct socket_shares shares; /* how much of the agent's time each user costs */
    struct socket_server *server;
    struct agent_client **by_id; /* an array of AGENT_CLIENT_IDS */
    uint32_t id_high;            /* no client has a higher id */
    uint32_t unproven;           /* number of clients with unproven set */
    struct processes *processes;
    int64_t upkeep_ns;
    bool checkpoint_due;
    uint64_t idle_commits; /* commits at the last checkpoint */
    uint64_t seen_commits; /* commits at the last upkeep */
    int64_t alive_interval_ns;
    int64_t alive_ns;
    int64_t rate_ppm;    /* the rate of the clock that was logged last */
    uint32_t files_gone; /* the number of missing files that was logged last */
    bool session_logged; /* session_safe holds a logged state */
    bool session_safe;
    uint64_t
        interruptions; /* how often the session was interrupted; next: when the last one ended */
    int64_t interrupted_ns;
    uint64_t stalls;        /* how often this process stood still */
    int64_t stalled_ns;     /* when the last stall was seen */
    int64_t stall_ns;       /* how long it lasted */
    int64_t flush_begun_ns; /* when the batch on its way began; 0: none */
    struct recent flush;    /* durations of batches */
    /* For people. */
    int64_t room_ns;          /* when the disk's room was last looked at; 0: never */
    int64_t disk_free;        /* -1: not known */
    int64_t disk_inodes;      /* likewise */
    int64_t record_failed_ns; /* when a client's file could not be written; 0: one could since */
    int record_failed_why;    /* errno of that */
    char judged[512];         /* the reasons of the judgement that was logged last */
    struct log_limit judged_limit;
    struct web *web; /* NULL: no [http] */
    int64_t began_ns;
    int64_t turn_ns; /* when the present turn began */
    struct histogram turn;
    struct turns turns; /* the watchdog of turns */
    struct log_limit client_limit;
    struct log_limit rules_limit;
    struct misuse misuses[AGENT_MISUSES];
    struct log_limit cell_limit;
    struct log_limit lock_limit;
    struct log_limit stall_limit;
    struct log_limit region_limit;
    struct log_limit wake_limit;
};

#endif
