/* Users' shares of a turn of the loop: see io/socket_share.h. */
#include "io/socket_share.h"

#include <stdlib.h>

#include "io/socket.h"

static const int64_t turn_ns = SOCKET_TURN_MS * INT64_C(1000000);
static const int64_t all_ns = SOCKET_TURN_ALL_MS * INT64_C(1000000);

struct socket_share *socket_share_find(const struct socket_shares *shares, uid_t uid)
{
    struct socket_share *share = shares->heads[uid % SOCKET_SHARE_HEADS];
    while (share != NULL && share->uid != uid) { /* at most as many as there are members */
        share = share->next;
    }
    return share;
}

struct socket_share *socket_share_join(struct socket_shares *shares, uid_t uid, uint32_t *served)
{
    struct socket_share **head = &shares->heads[uid % SOCKET_SHARE_HEADS];
    struct socket_share *share = socket_share_find(shares, uid);
    if (share == NULL) {
        share = malloc(sizeof(*share));
        if (share == NULL) {
            return NULL;
        }
        *share = (struct socket_share){.shares = shares,
                                       .next = *head,
                                       .uid = uid,
                                       .turn = shares->turn,
                                       .lap = shares->lap,
                                       .spent_ns = turn_ns};
        *head = share;
    }
    share->members++;
    *served = share->round;
    return share;
}

void socket_share_leave(struct socket_share *share)
{
    if (share == NULL || --share->members > 0) {
        return;
    }
    struct socket_share **link = &share->shares->heads[share->uid % SOCKET_SHARE_HEADS];
    while (*link != share) {
        link = &(*link)->next;
    }
    *link = share->next;
    free(share);
}

bool socket_share_turn(struct socket_share *share, uint32_t *served)
{
    struct socket_shares *shares = share->shares;
    if (share->turn != shares->turn) {
        share->turn = shares->turn;
        share->round += !share->cut;
        share->cut = false;
    }
    if (share->lap != shares->lap) {
        share->lap = shares->lap;
        share->spent_ns = 0;
    }
    if (*served == share->round) {
        return false;
    }
    if (share->spent_ns >= turn_ns) {
        share->cut = true;
        return false;
    }
    if (shares->spent_ns >= all_ns) {
        share->cut = true;
        shares->cut = true;
        return false;
    }
    *served = share->round;
    return true;
}

bool socket_share_spend(struct socket_share *share, int64_t took_ns)
{
    struct socket_shares *shares = share->shares;
    if (share->spent_turn != shares->turn) {
        share->spent_turn = shares->turn;
        share->spent_in_turn_ns = 0;
    }
    share->spent_in_turn_ns += took_ns;
    if (share->spent_in_turn_ns > shares->most_ns) {
        shares->most_ns = share->spent_in_turn_ns;
        shares->most_uid = share->uid;
    }
    share->spent_ns += took_ns;
    shares->spent_ns += took_ns;
    return share->spent_ns < turn_ns && shares->spent_ns < all_ns;
}

void socket_shares_turned(struct socket_shares *shares)
{
    shares->turn++;
    shares->lap += !shares->cut;
    shares->cut = false;
    shares->spent_ns = 0;
    shares->most_ns = 0;
}
