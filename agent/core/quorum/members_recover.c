/*
 * The wait after a recovery of the cell: see members_private.h and docs/PROTOCOL.md, "Recovery".
 *
 * The store of a recovered cell knows no lock and no session from before the recovery. Agents that
 * renewed their sessions with the lost voters may still hold locks, and closed locks may still have
 * a lock-delay before them. So the only voter does not vote, and so grants nothing and acknowledges
 * no renewal, until all of that is over by its own clock. This wait cannot be measured with the
 * clock of another process, so a voter that is started again begins the wait anew.
 */
#include "members_private.h"

enum { LOG_AGAIN_MS = 10000 };

bool recover_waits(const struct quorum *quorum)
{
    return quorum->members->recover.votes_ns != 0;
}

int64_t recover_left_ns(const struct quorum *quorum)
{
    int64_t left_ns = quorum->members->recover.votes_ns - step_now_ns(quorum);
    return !recover_waits(quorum) ? 0 : left_ns > 0 ? left_ns : 1;
}

bool recover_start(struct quorum *quorum)
{
    struct recover *recover = &quorum->members->recover;
    if (quorum->config->recovery_wait_ns == 0) {
        return false;
    }
    recover->votes_ns = step_now_ns(quorum) + quorum->config->recovery_wait_ns;
    recover->log_ns = step_now_ns(quorum);
    step_schedule(quorum, step_now_ns(quorum));
    return true;
}

void recover_anew(struct quorum *quorum)
{
    if (recover_waits(quorum)) {
        (void)recover_start(quorum);
    }
}

bool recover_is_over(struct quorum *quorum)
{
    struct recover *recover = &quorum->members->recover;
    if (step_now_ns(quorum) < recover->votes_ns) {
        return false;
    }
    recover->votes_ns = 0;
    step_emit(quorum, ACTION_PERSIST_RECOVERED);
    struct action_log *log = step_log(quorum, "cell_recovered", NULL,
                                      quorum->members->voters.recoveries);
    log->well = true;
    step_log_text(log, "all sessions from before the recovery are over: locks are granted from "
                       "now on");
    return true;
}

int64_t recover_tick(struct quorum *quorum)
{
    struct recover *recover = &quorum->members->recover;
    if (step_now_ns(quorum) >= recover->log_ns) {
        int64_t left_ms = (recover->votes_ns - step_now_ns(quorum)) / MS_NS;
        struct action_log *log = step_log(quorum, "recovery_waits", NULL, left_ms);
        recover->log_ns = step_now_ns(quorum) + LOG_AGAIN_MS * MS_NS;
        step_log_text(log, "the cell was recovered: no lock is granted until all sessions and "
                           "lock-delays from before the recovery are over");
    }
    return recover->log_ns < recover->votes_ns ? recover->log_ns : recover->votes_ns;
}
