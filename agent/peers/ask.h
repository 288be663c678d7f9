/*
 * Asks the voters of a cell whether they vote, while the agent of this host is stopped: for
 * `holdfastd --recover`.
 *
 * For some seconds the program takes the agent's place. It listens at the agent's address, because
 * an agent answers over a connection of its own, and it dials the voters of the record. It sends
 * each of them HELLO and ASK_VOTERS, in the name of this host's voter and with its store's id and
 * commit. The HELLO says that this voter has a store and does not vote, so it changes nothing at
 * the receiver. Every voter answers with its own status and the record that it uses. The program
 * answers nothing, and gives no vote.
 *
 * A voter answers at the address by which it knows this host's voter.
 */
#ifndef AGENT_PEERS_ASK_H
#define AGENT_PEERS_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/message.h"

struct agent;

enum {
    PEERS_ASK_MS = 10000, /* an agent connects anew at least every 4 s (io/transport.h) */
    PEERS_ENOUGH_MS = 1000,
    PEERS_ASKED_MAX = 4 * MESSAGE_VOTERS_MAX,
};

/* What is known of one voter. */
struct peers_answer {
    struct message_agent name;
    char address[MESSAGE_ADDRESS_MAX];
    /* an agent accepts connections at the address and, with TLS, shows the voter's certificate */
    bool connected;
    char why[64];    /* why the voter is not connected; "": not known */
    bool heard;      /* the voter has reported what it is: the members below count */
    uint8_t status;  /* enum message_voter_status */
    uint32_t number; /* the number of the voter's record; `digest` is 0 if not known */
    uint64_t digest;
    /* the voter knows that this host's store may not vote: its record has another store of this
     * host, or it has seen a commit that this store lacks */
    bool refuses;
};

struct peers_asked {
    /* The newest record that a voter has reported, of the generation of agent->record; count 0: no
     * voter has reported a newer one. The voters of this record were asked, too. */
    struct message_voters newest;
    uint32_t count;
    struct peers_answer of[PEERS_ASKED_MAX];
};

/* Asks the voters of agent->record, for up to PEERS_ASK_MS. Ends when all of them have answered, or
 * PEERS_ENOUGH_MS after enough(), which is called after each answer, has returned true. Needs
 * agent->config, record, meta, and the names in host_config. Returns AGENT_EXIT_OK, or an exit code
 * with one line in agent->error. */
int peers_ask(struct agent *agent, struct peers_asked *asked,
              bool (*enough)(void *arg, const struct peers_asked *asked), void *arg)
    __attribute__((warn_unused_result));

#endif
