/* Put in front of agent/core/quorum/queues_plan.c when it is built for the simulator. */
#ifndef SIM_SHIM_PLAN_H
#define SIM_SHIM_PLAN_H

#include <stdint.h>

/* In faults.c: returns how many tokens the first range of a grant has in this cell. */
const uint64_t *sim_range_first(void);

#endif
