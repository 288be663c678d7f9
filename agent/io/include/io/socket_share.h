/*
 * The account of the time that users cost: each user has SOCKET_TURN_MS of a turn of the loop, and
 * all users together have SOCKET_TURN_ALL_MS. The members of a user's share are its connections,
 * and its known processes (agent/serve/clients.c). The agent charges the share for their requests,
 * connects, disconnects and ends.
 *
 * Without shares, a turn that serves every client with a packet could take long if there are many
 * clients with costly requests, and the agent renews no lease during a turn. Time is counted by
 * user, so that one user's connection need not wait for a thousand connections of another user.
 *
 * A member that is ready when the time of a turn is over is served before any other member is
 * served again (epoll alone would return the same members first again). A round ends when each
 * ready connection of one user has been served once, and a lap ends when each user has been served
 * once. A round or a lap mostly takes one turn. Rounds and laps always end, because a new member
 * counts as already served.
 *
 * **Debts.** One system call on a socket can take a second: the kernel calls all epoll entries with
 * which the peer watches its own end, and does so in the agent's time (docs/SECURITY.md). The call
 * cannot be cut short. So a user gets a debt for two things: the cost of calls on its sockets
 * beyond its share of a turn, and each call that takes longer than SOCKET_CALL_MS. The debt lasts
 * SOCKET_DEBT_TIMES as long as that time. Until the debt is over, the loop receives nothing from
 * this user's connections, sends nothing to them, and closes none. Only processor time makes a
 * debt, so a busy machine puts no user in debt. A debt outlives the connections that made it.
 *
 * Each user number has its own share, even if the low bits of two numbers are the same. Only the
 * loop's thread may call these functions.
 */
#ifndef IO_SOCKET_SHARE_H
#define IO_SOCKET_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/rings.h"

enum {
    SOCKET_SHARE_HEADS = 256,
    SOCKET_CALL_FREE_US = 20, /* the cost of a shorter call is not measured */
    SOCKET_CALL_MS = 2,       /* a longer call puts the user in debt; an honest call takes some
                               * microseconds */
    SOCKET_DEBT_TIMES = 20,   /* a user's costly calls take at most a twentieth of the loop's
                               * time */
    SOCKET_DEBT_MAX_MS = 60000,
};

struct socket_shares;

/* One user's share. It is kept while the user has a connection, a process, a debt or a waiting
 * ring. */
struct socket_share {
    struct socket_shares *shares;
    struct socket_share *next; /* the next share whose user number has the same low bits */
    uid_t uid;
    uint32_t members;
    uint32_t greeting; /* the user's connections that have sent no HELLO; the files in
                        * agent/io/socket count them */
    uint32_t behind;   /* the user's connections that ended with descriptors unread; socket/unread.c
                        * counts them */
    uint32_t turn;     /* the turn of the loop in which `round` and `cut` were last brought up to
                        * date */
    uint32_t lap;      /* the lap in which spent_ns was spent */
    uint32_t round;    /* the present round, in which every ready connection of the user is served
                        * once */
    bool cut;          /* the turn's time was over before all ready connections had been served */
    int64_t spent_ns;
    uint32_t spent_turn; /* the turn of spent_in_turn_ns */
    int64_t spent_in_turn_ns;
    uint32_t called_turn; /* the turn of called_ns */
    int64_t called_ns;    /* the cost of calls on the user's sockets in that turn */
    int64_t owes_ns;      /* when the debt is over, in CLOCK_BOOTTIME */
    struct rings rings;
};

struct socket_shares {
    struct socket_share *heads[SOCKET_SHARE_HEADS];
    /* The user that spent the most time in this turn, for the log. */
    int64_t most_ns;
    uid_t most_uid;
    uint32_t turn;
    uint32_t lap;
    bool cut; /* the time for all users was over before every user had been served */
    int64_t spent_ns;
    /* When the thread's processor time was last read (CLOCK_BOOTTIME; 0: not read yet), and that
     * processor time. */
    int64_t sample_ns;
    int64_t sample_cpu_ns;
};

/* Adds a member to that user's share. Returns the share; NULL: there is no memory. *served: see
 * socket_share_turn(). */
struct socket_share *socket_share_join(struct socket_shares *shares, uid_t uid, uint32_t *served);

/* Returns that user's share; NULL: the user has none. */
struct socket_share *socket_share_find(const struct socket_shares *shares, uid_t uid);

/* Removes one of the user's members from the share. NULL is allowed. */
void socket_share_leave(struct socket_share *share);

/* Returns whether a ready member may be served now. *served is the round in which it was last
 * served. If it may be served now, sets *served to the present round. */
bool socket_share_turn(struct socket_share *share, uint32_t *served);

/* Adds the time took_ns to the time that the user has spent in this turn. Returns whether the user
 * has time left in this turn. */
bool socket_share_spend(struct socket_share *share, int64_t took_ns);

/* Begins a turn. cpu_ns: the processor time that this thread had used at now_ns. */
void socket_shares_begin(struct socket_shares *shares, int64_t now_ns, int64_t cpu_ns);

/* Counts a call on one of this user's sockets, which began at began_ns. Returns the least processor
 * time that the call can have cost. socket_share_call() does not change the time that
 * socket_share_spend() adds up. */
int64_t socket_share_call(struct socket_share *share, int64_t began_ns, int64_t ended_ns);

/* Charges the user for a call of that cost. For socket_share_call() and tests. */
void socket_share_charge(struct socket_share *share, int64_t cost_ns, int64_t now_ns);

/* Returns when the user's debt is over; 0: it has none. */
int64_t socket_share_owes(const struct socket_share *share, int64_t now_ns);

/* Calls resume() for each user whose rings have waited long enough; resume() takes the rings
 * (rings_resume()). Returns when to call this again; INT64_MAX: no user's rings wait. */
int64_t socket_shares_resume(struct socket_shares *shares, int64_t now_ns,
                             void (*resume)(void *arg, struct socket_share *share), void *arg);

/* Frees the shares that are kept only for debts. Called at the agent's end. */
void socket_shares_forget(struct socket_shares *shares);

/* Ends the turn. */
void socket_shares_turned(struct socket_shares *shares);

#endif
