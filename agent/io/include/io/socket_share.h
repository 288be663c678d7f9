/*
 * The account of what users make the agent do: what each has of a turn of the loop, SOCKET_TURN_MS,
 * and all users together, SOCKET_TURN_ALL_MS. Members are a user's connections, and its processes
 * that are known (agent/clients.c): what they ask for, that they come, hang up, or die.
 *
 * A turn in which everybody who has sent something is served may be a long one, if there are many
 * of them and what they ask for costs much; and meanwhile no lease is renewed. So time is counted,
 * by user, or else whoever comes behind a thousand others waits for them. And who is ready and did
 * not have his turn when the time was over has it before those who had theirs have the next one
 * (epoll tells the same ones first again): of one user's connections that is a round, of users a
 * lap. A round is mostly one turn, and so is a lap; each ends, since who comes while it is under
 * way joins as one who had his turn.
 *
 * Users are told apart by their whole number. On the loop's thread.
 */
#ifndef IO_SOCKET_SHARE_H
#define IO_SOCKET_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SOCKET_SHARE_HEADS = 256 };

struct socket_shares;

/* One user's, for as long as he has a connection. */
struct socket_share {
    struct socket_shares *shares;
    struct socket_share *next; /* of those with the same low bits */
    uid_t uid;
    uint32_t members;
    uint32_t greeting; /* of his connections those that have not greeted; the socket counts them */
    uint32_t turn;     /* of the loop, the latest that is counted here */
    uint32_t lap;      /* in which spent_ns was spent */
    uint32_t round;    /* each of his connections that is ready is served once in each */
    bool cut;          /* the time was over before all had been */
    int64_t spent_ns;
    uint32_t spent_turn; /* the turn of spent_in_turn_ns */
    int64_t spent_in_turn_ns;
};

struct socket_shares {
    struct socket_share *heads[SOCKET_SHARE_HEADS];
    /* Who spent most in this turn, for the log. */
    int64_t most_ns;
    uid_t most_uid;
    uint32_t turn;
    uint32_t lap;
    bool cut; /* the time of all was over before every user had his */
    int64_t spent_ns;
};

/* A connection of that user. *served: see socket_share_turn(). NULL: no memory. */
struct socket_share *socket_share_join(struct socket_shares *shares, uid_t uid, uint32_t *served);

/* That user's; NULL: nothing of his is here. */
struct socket_share *socket_share_find(const struct socket_shares *shares, uid_t uid);

/* It has gone. NULL is allowed. */
void socket_share_leave(struct socket_share *share);

/* Whether it is the turn of a connection that is ready; then *served, the round in which it was
 * served last, is this one. */
bool socket_share_turn(struct socket_share *share, uint32_t *served);

/* So much was spent. Whether anything is left. */
bool socket_share_spend(struct socket_share *share, int64_t took_ns);

/* The turn is over. */
void socket_shares_turned(struct socket_shares *shares);

#endif
