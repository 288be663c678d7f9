/*
 * The account of the work that users cause: each has SOCKET_TURN_MS of a turn of the loop, and all
 * users together SOCKET_TURN_ALL_MS. Members of a share are a user's connections, and its known
 * processes (agent/serve/clients.c). Their requests, connects, hang-ups and deaths are charged.
 *
 * A turn that serves every client with a packet may be a long one, if there are many of them and
 * their requests cost much; and meanwhile no lease is renewed. So time is counted, by user; else a
 * connection behind a thousand others waits for them. A member that is ready and had no turn when
 * the time was over has its turn before the others have their next one (epoll returns the same ones
 * first again). Of one user's connections that is a round, of users a lap. A round is mostly one
 * turn, and so is a lap. Each ends, since a newcomer joins as one that had its turn.
 *
 * **Debts.** One system call on a socket can take a second, since the kernel calls, in the agent,
 * all epoll entries by which the peer watches its own end (docs/SECURITY.md). It cannot be cut
 * short. So what calls on a user's sockets cost beyond its share of a turn, and each call above
 * SOCKET_CALL_MS, is a debt of SOCKET_DEBT_TIMES that time: until it is over nothing is received
 * from, sent to or closed of this user's connections on the loop. Processor time counts, so a busy
 * machine blames nobody. A debt outlives the connections that made it.
 *
 * Users are distinguished by their whole number. Only the loop's thread may call these functions.
 */
#ifndef IO_SOCKET_SHARE_H
#define IO_SOCKET_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/rings.h"

enum {
    SOCKET_SHARE_HEADS = 256,
    SOCKET_CALL_FREE_US = 20, /* how long a call may take without a look at its cost */
    SOCKET_CALL_MS = 2,       /* an honest one takes some microseconds */
    SOCKET_DEBT_TIMES = 20,   /* so a user's costly calls have a twentieth of the loop */
    SOCKET_DEBT_MAX_MS = 60000,
};

struct socket_shares;

/* One user's, for as long as it has a connection, a process, or a debt, or a ring waits. */
struct socket_share {
    struct socket_shares *shares;
    struct socket_share *next; /* of those with the same low bits */
    uid_t uid;
    uint32_t members;
    uint32_t greeting; /* its connections that have not greeted; the socket counts them */
    uint32_t behind;   /* of them, those that ended with descriptors unread; likewise */
    uint32_t turn;     /* of the loop, the latest that is counted here */
    uint32_t lap;      /* in which spent_ns was spent */
    uint32_t round;    /* each connection of the user that is ready is served once in each */
    bool cut;          /* the time was over before all had been */
    int64_t spent_ns;
    uint32_t spent_turn; /* the turn of spent_in_turn_ns */
    int64_t spent_in_turn_ns;
    uint32_t called_turn; /* the turn of called_ns */
    int64_t called_ns;    /* the cost of calls on its sockets in that turn */
    int64_t owes_ns;      /* until then, by the boot's clock */
    struct rings rings;
};

struct socket_shares {
    struct socket_share *heads[SOCKET_SHARE_HEADS];
    /* The user that spent most in this turn, for the log. */
    int64_t most_ns;
    uid_t most_uid;
    uint32_t turn;
    uint32_t lap;
    bool cut; /* the time of all was over before every user had its turn */
    int64_t spent_ns;
    /* The thread's processor time at a moment of the boot's clock; 0: not known yet. */
    int64_t sample_ns;
    int64_t sample_cpu_ns;
};

/* Adds a connection of that user to its share, and returns the share; NULL: no memory. *served: see
 * socket_share_turn(). */
struct socket_share *socket_share_join(struct socket_shares *shares, uid_t uid, uint32_t *served);

/* Returns that user's share; NULL: it has none. */
struct socket_share *socket_share_find(const struct socket_shares *shares, uid_t uid);

/* Takes one of the user's connections out of the share. NULL is allowed. */
void socket_share_leave(struct socket_share *share);

/* Returns whether a ready connection may be served now. *served is the round in which it was last
 * served; if it may be served, sets *served to the present round. */
bool socket_share_turn(struct socket_share *share, uint32_t *served);

/* Counts processor time that was spent on the user. Returns whether any is left in this turn. */
bool socket_share_spend(struct socket_share *share, int64_t took_ns);

/* Begins a turn. cpu_ns is the processor time that this thread has had at now_ns. */
void socket_shares_begin(struct socket_shares *shares, int64_t now_ns, int64_t cpu_ns);

/* Counts a call on one of this user's sockets. Returns the least processor time that the call can
 * have cost. The user's part of the turn is another account: socket_share_spend(). */
int64_t socket_share_call(struct socket_share *share, int64_t began_ns, int64_t ended_ns);

/* Charges the user for a call of that cost. For socket_share_call(), and for tests. */
void socket_share_charge(struct socket_share *share, int64_t cost_ns, int64_t now_ns);

/* Returns until when the user has a debt; 0: it has none. */
int64_t socket_share_owes(const struct socket_share *share, int64_t now_ns);

/* Calls resume() for each user whose rings have waited long enough; resume() takes the rings
 * (rings_resume()). Returns when this is to be called again; INT64_MAX: no user's rings wait. */
int64_t socket_shares_resume(struct socket_shares *shares, int64_t now_ns,
                             void (*resume)(void *arg, struct socket_share *share), void *arg);

/* Frees what is kept for debts alone, at the end. */
void socket_shares_forget(struct socket_shares *shares);

/* Ends the turn. */
void socket_shares_turned(struct socket_shares *shares);

#endif
