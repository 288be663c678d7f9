/*
 * What each user's connections have of a turn of the loop: SOCKET_TURN_MS.
 *
 * A turn in which everybody who has sent something is served may be a long one, if there are many
 * of them and what they ask for costs much; and meanwhile no lease is renewed. So time is counted,
 * by user, or else whoever comes behind a thousand others waits for them. And who is ready and did
 * not have his turn when the time was over has it before those who had theirs have the next one:
 * that is a round. (epoll tells the same ones first again.)
 *
 * Users whose numbers are equal in their low bits share. On the loop's thread.
 */
#ifndef IO_SOCKET_SHARE_H
#define IO_SOCKET_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { SOCKET_SHARES = 64 };

struct socket_share {
    int64_t spent_ns;
    uint32_t round; /* everybody who is ready is served once in each */
    bool cut;       /* the time was over before all had been */
};

struct socket_shares {
    struct socket_share of[SOCKET_SHARES];
    bool used; /* in this turn */
};

void socket_shares_init(struct socket_shares *shares);

/* The user's, who is ready: from now on this turn counts. */
struct socket_share *socket_share_of(struct socket_shares *shares, uid_t uid);

/* Whether it is the turn of a connection that is ready; then *served, the round in which it was
 * served last (0 at first), is this one. */
bool socket_share_turn(struct socket_share *share, uint32_t *served);

/* So much was spent. Whether anything is left. */
bool socket_share_spend(struct socket_share *share, int64_t took_ns);

/* The turn is over. */
void socket_shares_turned(struct socket_shares *shares);

#endif
