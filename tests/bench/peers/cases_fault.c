/*
 * Cases 7 to 11: what happens when something goes wrong, and what it costs to keep locks held. Each
 * starts and stops the peer itself, and does as often as it takes what it measures, so one
 * repetition is enough.
 */
#include "cases_fault.h"

const struct bench_case bench_cases_fault[] = {
    {"leader", "7. the leader or coordinator is killed (-9): the longest that any client waits",
     PEER_IS_SERVICE, true, 1, measure_leader},
    {"holder", "8. the holder is killed (-9): time until the next one has the lock", 0, true, 1,
     measure_holder},
    {"stopped", "9. the holder is stopped past its lease, then wakes", 0, true, 1, measure_stopped},
    {"restart", "10. the lock service is restarted under live holders", PEER_IS_SERVICE, true, 1,
     measure_restart},
    {"held", "11. 100,000 locks held: memory, and what keeps them held", PEER_IS_SERVICE, true, 1,
     measure_held},
    {NULL, NULL, 0, false, 0, NULL},
};
