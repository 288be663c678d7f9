/*
 * Cases 7 to 11: faults, and the cost of held locks. The cases share one start of the peer, and
 * each case leaves all servers of the peer running. Only case 11 starts the peer itself, because it
 * needs another lease.
 */
#include "cases_fault.h"

uint32_t rounds_of(const struct bench_plan *plan, uint32_t repetition, uint32_t total)
{
    uint32_t rounds = total * (repetition + 1) / plan->repetitions -
                      total * repetition / plan->repetitions;
    return rounds == 0 ? 1 : rounds;
}

const struct bench_case bench_cases_fault[] = {
    {"leader", "7. the leader or coordinator is killed (-9): the longest that any client waits",
     PEER_IS_SERVICE, false, measure_leader},
    {"holder", "8. the holder is killed (-9): time until the next one has the lock", 0, false,
     measure_holder},
    {"stopped", "9. the holder is stopped past its lease, then wakes", 0, false, measure_stopped},
    {"restart", "10. the lock service is restarted under live holders", PEER_IS_SERVICE, false,
     measure_restart},
    {"held", "11. 100,000 locks held: memory, and what keeps them held", PEER_IS_SERVICE, true,
     measure_held},
    {NULL, NULL, 0, false, NULL},
};
