/* Included before agent/core/quorum/queues_plan.c when it is built for the simulator. The cell then
 * chooses the size of a grant's first range. */
#ifndef SIM_SHIM_PLAN_H
#define SIM_SHIM_PLAN_H

#include <stdint.h>

/* Returns how many tokens the first range of a grant has in this cell. It is defined in
 * faults.c. */
const uint64_t *sim_range_first(void);

#endif
