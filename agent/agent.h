/*
 * The running agent: the state that the folders beside this file share. The state of one part alone
 * is in that part's own struct, which other parts see only through the functions of its header.
 *
 *   main.c      the command line
 *   run/        start (folders, files, store, cores), the event loop, the end
 *   config/     the configuration, rights, addresses
 *   driver/     events to the cores, their actions in the right order, batches into the store
 *   peers/      the other agents: packets to them and from them
 *   serve/      the clients: frames, processes, records, regions, and what clients may cost
 *   observe/    log, metrics, facts for `holdfast doctor`, HTTP, the watchdog of turns
 *
 * One libuv loop runs on one thread. The committer's thread, NNG's threads and the HTTP thread wake
 * it through descriptors. (If a write by the loop's thread gets stuck, the committer's thread takes
 * over the loop: io/commit.h.) In one turn the loop gives everything that is ready to the driver.
 * Then agent_turn_end() lets the driver commit and answer, and sends the packets for other agents.
 * Each callback of libuv calls agent_turn() first.
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
#include "io/store.h"

enum {
    AGENT_ERROR_MAX = 1024,
    AGENT_EPOCHS_FEW = 1 << 20, /* each start logs a warning if fewer session numbers are left */
};

/* Exit codes. */
enum {
    AGENT_EXIT_OK = 0,
    AGENT_EXIT_USAGE = 64,
    AGENT_EXIT_UNAVAILABLE = 69, /* the system lacks something that the agent needs */
    AGENT_EXIT_SOFTWARE = 70,    /* any failure that has no code of its own, such as another agent
                                  * that uses the folders or the socket */
    AGENT_EXIT_CONFIG = 78,
};

/* The parts of the agent. Each struct is opaque to every file except the file named beside it. */
struct agent_clients; /* serve/clients.c */
struct backups;       /* serve/backups.c */
struct agent_disk;    /* driver/disk.c */
struct files;         /* observe/files.c */
struct judgement_log; /* observe/judge.c */
struct keeper;        /* run/keeper.c */
struct leftovers;     /* serve/leftovers.c */
struct loop;          /* run/loop.c */
struct memory;        /* serve/memory.c */
struct peers;         /* peers/private.h */
struct processes;     /* serve/processes.c */
struct regions;       /* serve/regions.c */
struct serve;         /* serve/private.h */
struct start;         /* run/start.c */
struct users;         /* serve/users.c */
struct web;           /* observe/web.c */

/* The square brackets name who writes a field. "start" is agent_prepare() (run/start.h); a field
 * that only the start writes does not change while the agent runs. */
struct agent {
    /* The identity of the agent. */
    struct config config;    /* [main.c; serve/users.c enters the user and group ids of names that
                              * are found later] */
    const char *config_path; /* [main.c] NULL: --dev */
    struct closer *closer;   /* [main.c] NULL: this kernel needs no closer, or the closer could not
                              * be started */
    struct remover *remover; /* [main.c] NULL: the remover could not be started */
    struct accounts *accounts;   /* [main.c, serve/users.c] looks up users and groups; NULL: all
                                  * names are found */
    uid_t own;                   /* [start, folders_check()] the user that the agent runs as */
    char error[AGENT_ERROR_MAX]; /* [any function that fails before the agent runs] why it failed */
    /* [start; run/record.c while the agent runs] The record of voters that the agent uses.
     * host_config has the same voters, and voter_names has their names. */
    struct message_voters record;
    bool record_known; /* the record is in the store, or a voter sent it */
    char voter_names[MESSAGE_VOTERS_MAX][HFI_LABEL_MAX + 1];
    struct host_config host_config; /* [start; run/record.c: voters, addresses, self, role] */
    uint8_t boot_id[16];            /* [start] */
    uint64_t numbers;               /* [start] set by peer_numbers() */
    /* The durable state. */
    int state_fd;           /* [run/folders.c] state_dir */
    int clients_fd;         /* [run/folders.c] the folder in state_dir with the clients'
                                   * records */
    struct store *store;    /* [start] while a batch is being written, only driver/disk.c may
                                   * use the store */
    struct store_meta meta; /* [start; disk_committed() writes meta.commit] */
    /* [start; driver/disk.c] an observer's own row of `seen`; commit 0: its store has none yet */
    struct quorum_seen opened;
    struct lease_file lease_file; /* [start] the host core, run/loop.c and driver/disk.c write its
                                   * page */
    struct lease_record left;     /* [start] the lease record of the previous agent */
    bool adopted;                 /* [start] this agent continues the previous agent's session */
    /* The cores. Only the loop's thread uses them, or the keeper's thread at the times that
     * run/keeper.h names. */
    struct names *names;     /* [start] */
    struct quorum *quorum;   /* [start] NULL: an observer */
    struct host *host;       /* [start] */
    struct gossip *gossip;   /* [start] NULL: this agent does not listen */
    struct renewal *renewal; /* [start] */
    struct driver *driver;   /* [run/loop.c] */
    /* The parts. Only a part's own code writes the pointer to it. */
    struct loop *loop;
    struct start *start;
    struct agent_disk *disk;
    struct peers *peers;   /* NULL: this agent does not listen */
    struct keeper *keeper; /* NULL: the keeper does not run */
    struct memory *memory;
    struct leftovers *leftovers;
    struct regions *regions;
    struct agent_clients *clients;
    struct backups *backups;
    struct processes *processes;
    struct serve *serve;
    struct users *users;
    struct files *files;
    struct judgement_log *judged;
    struct web *web; /* NULL: no [http] */
};

#endif
