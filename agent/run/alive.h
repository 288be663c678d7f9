/*
 * Finds out for --recover, from the voters that answer, whether a majority of the cell's voters is
 * alive. If so, the cell is not recovered (docs/PROTOCOL.md, "Recovery").
 *
 * A voter is alive if it says that it votes, or that it will vote as soon as others have answered,
 * under a record of the same generation. An agent whose store is refused, empty or starting over,
 * an observer, and an agent of another cell do not count. The voters are those of the newest record
 * that any of them knows.
 *
 * Half of an even number of voters is no majority, but it is enough for the others to start over,
 * if all of the half vote. This store's voter is not of the half: its agent was stopped, and after
 * a start it does not vote before a majority answers (docs/PROTOCOL.md, rule 26).
 */
#ifndef AGENT_RUN_ALIVE_H
#define AGENT_RUN_ALIVE_H

#include <stdbool.h>

#include "agent.h"
#include "peers/ask.h"

/* This host's store and its voter. */
struct alive_own {
    const struct message_voters *record; /* the record of voters in the store */
    struct message_agent name;
    bool backup;           /* the store is a backup, with which no agent can vote */
    const char *advertise; /* where this host's agent is reached, as its configuration says */
};

enum alive_verdict {
    ALIVE_NO = 0,
    /* The voters that answered are a majority together with this store, so this host's agent only
     * has to be started. */
    ALIVE_WITH_OWN,
    ALIVE_WITHOUT_OWN, /* the voters that answered are a majority, and this store cannot vote */
    ALIVE_HALF,        /* half of the voters vote, so the others can start over */
    ALIVE_RECOVERED,   /* a voter that answered knows of a recovery that this store lacks */
    /* Some voters are connected but cannot answer, because they know this host's voter at another
     * address. With these voters there may be a majority. */
    ALIVE_UNSURE,
};

/* Decides from the answers that have arrived so far. */
enum alive_verdict alive_judge(const struct alive_own *own, const struct peers_asked *asked);

/* Asks the other voters of agent->record. Returns AGENT_EXIT_OK if no majority is alive, and no
 * half of the voters. Otherwise returns an exit code with one line in agent->error. */
int alive_check(struct agent *agent, struct peers_asked *asked) __attribute__((warn_unused_result));

/* Prints to standard output what each voter has answered. */
void alive_print(const struct agent *agent, const struct peers_asked *asked);

#endif
