/* Users' shares of a turn of the loop: see io/socket_share.h. */
#include "io/socket_share.h"

#include <stdlib.h>

#include "io/clock.h"
#include "io/socket.h"

static const int64_t turn_ns = SOCKET_TURN_MS * INT64_C(1000000);
static const int64_t all_ns = SOCKET_TURN_ALL_MS * INT64_C(1000000);
static const int64_t call_free_ns = SOCKET_CALL_FREE_US * INT64_C(1000);
static const int64_t call_ns = SOCKET_CALL_MS * INT64_C(1000000);
static const int64_t debt_max_ns = SOCKET_DEBT_MAX_MS * INT64_C(1000000);

static bool is_kept(const struct socket_share *share, int64_t now_ns)
{
    return socket_share_owes(share, now_ns) != 0 || rings_owe(&share->rings, now_ns);
}

/* Frees the shares without members that were kept for a debt or for rings, if these are over. */
static void forget_paid(struct socket_share **link, int64_t now_ns)
{
    while (*link != NULL) {
        struct socket_share *share = *link;
        if (share->members == 0 && !is_kept(share, now_ns)) {
            *link = share->next;
            free(share);
        } else {
            link = &share->next;
        }
    }
}

struct socket_share *socket_share_find(const struct socket_shares *shares, uid_t uid)
{
    struct socket_share *share = shares->heads[uid % SOCKET_SHARE_HEADS];
    while (share != NULL && share->uid != uid) { /* at most one iteration per share */
        share = share->next;
    }
    return share;
}

struct socket_share *socket_share_join(struct socket_shares *shares, uid_t uid, uint32_t *served)
{
    struct socket_share **head = &shares->heads[uid % SOCKET_SHARE_HEADS];
    struct socket_share *share = socket_share_find(shares, uid);
    if (share == NULL) {
        forget_paid(head, clock_boottime_ns());
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
        rings_init(&share->rings);
        *head = share;
    }
    share->members++;
    *served = share->round;
    return share;
}

void socket_share_leave(struct socket_share *share)
{
    if (share == NULL || --share->members > 0 || is_kept(share, clock_boottime_ns())) {
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

/* ---- debts ---- */

void socket_shares_begin(struct socket_shares *shares, int64_t now_ns, int64_t cpu_ns)
{
    shares->sample_ns = now_ns;
    shares->sample_cpu_ns = cpu_ns;
}

void socket_share_charge(struct socket_share *share, int64_t cost_ns, int64_t now_ns)
{
    if (share->called_turn != share->shares->turn) {
        share->called_turn = share->shares->turn;
        share->called_ns = 0;
    }
    int64_t had_ns = share->called_ns > turn_ns ? share->called_ns : turn_ns;
    share->called_ns += cost_ns;
    int64_t beyond_ns = cost_ns > call_ns           ? cost_ns
                        : share->called_ns > had_ns ? share->called_ns - had_ns
                                                    : 0;
    if (beyond_ns > 0) {
        int64_t from_ns = share->owes_ns > now_ns ? share->owes_ns : now_ns;
        int64_t until_ns = from_ns + SOCKET_DEBT_TIMES * beyond_ns;
        share->owes_ns = until_ns < now_ns + debt_max_ns ? until_ns : now_ns + debt_max_ns;
    }
}

/* Reading the thread's processor time takes longer than an honest call. So it is read only at the
 * beginning of a turn, and after a call that took long. Before the call began, the thread can have
 * used at most as much processor time as wall time had passed since the last reading (sample_ns).
 * All further processor time was used by the call. */
int64_t socket_share_call(struct socket_share *share, int64_t began_ns, int64_t ended_ns)
{
    struct socket_shares *shares = share->shares;
    int64_t lasted_ns = ended_ns - began_ns;
    if (lasted_ns <= call_free_ns || shares->sample_ns == 0) {
        return 0;
    }
    int64_t cpu_ns = clock_thread_ns();
    int64_t cost_ns = cpu_ns - shares->sample_cpu_ns - (began_ns - shares->sample_ns);
    socket_shares_begin(shares, ended_ns, cpu_ns);
    cost_ns = cost_ns < lasted_ns ? cost_ns : lasted_ns;
    if (cost_ns <= call_free_ns) {
        return 0;
    }
    socket_share_charge(share, cost_ns - call_free_ns, ended_ns);
    return cost_ns;
}

int64_t socket_share_owes(const struct socket_share *share, int64_t now_ns)
{
    return share->owes_ns > now_ns ? share->owes_ns : 0;
}

static bool is_to_resume(const struct socket_share *share, int64_t now_ns)
{
    return share->rings.resume_ns != 0 && share->rings.resume_ns <= now_ns;
}

int64_t socket_shares_resume(struct socket_shares *shares, int64_t now_ns,
                             void (*resume)(void *arg, struct socket_share *share), void *arg)
{
    int64_t next_ns = INT64_MAX;
    for (uint32_t i = 0; i < SOCKET_SHARE_HEADS; i++) {
        struct socket_share *share = shares->heads[i];
        while (share != NULL) {
            bool now = is_to_resume(share, now_ns);
            if (now) {
                share->members++; /* keeps the share, even if resume() ends its last connection */
                resume(arg, share);
            }
            int64_t resume_ns = share->rings.resume_ns;
            next_ns = resume_ns != 0 && resume_ns < next_ns ? resume_ns : next_ns;
            struct socket_share *left = now ? share : NULL;
            share = share->next;
            socket_share_leave(left);
        }
    }
    return next_ns;
}

void socket_shares_forget(struct socket_shares *shares)
{
    for (uint32_t i = 0; i < SOCKET_SHARE_HEADS; i++) {
        forget_paid(&shares->heads[i], INT64_MAX);
    }
}

void socket_shares_turned(struct socket_shares *shares)
{
    shares->turn++;
    shares->lap += !shares->cut;
    shares->cut = false;
    shares->spent_ns = 0;
    shares->most_ns = 0;
}
