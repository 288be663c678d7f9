/* Users' shares of a turn of the loop: see socket_share.h. */
#include "socket_share.h"

#include "io/socket.h"

static const int64_t turn_ns = SOCKET_TURN_MS * INT64_C(1000000);

void socket_shares_init(struct socket_shares *shares)
{
    for (uint32_t i = 0; i < SOCKET_SHARES; i++) {
        shares->of[i] = (struct socket_share){.round = 1};
    }
    shares->used = false;
}

struct socket_share *socket_share_of(struct socket_shares *shares, uid_t uid)
{
    shares->used = true;
    return &shares->of[uid % SOCKET_SHARES];
}

bool socket_share_turn(struct socket_share *share, uint32_t *served)
{
    if (*served == share->round) {
        return false;
    }
    if (share->spent_ns >= turn_ns) {
        share->cut = true;
        return false;
    }
    *served = share->round;
    return true;
}

bool socket_share_spend(struct socket_share *share, int64_t took_ns)
{
    share->spent_ns += took_ns;
    return share->spent_ns < turn_ns;
}

void socket_shares_turned(struct socket_shares *shares)
{
    for (uint32_t i = 0; shares->used && i < SOCKET_SHARES; i++) {
        struct socket_share *share = &shares->of[i];
        share->spent_ns = 0;
        share->round += !share->cut;
        share->cut = false;
    }
    shares->used = false;
}
