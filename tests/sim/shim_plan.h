/* This header is included before agent/core/quorum/queues_plan.c when that file is built for the
 * simulator. The cell then chooses the size of a grant's first range. */
#ifndef SIM_SHIM_PLAN_H
#define SIM_SHIM_PLAN_H

#include <stdint.h>

/* Returns a pointer to the number of tokens in the first range of a grant in this cell. The
 * function is defined in faults.c. */
const uint64_t *sim_range_first(void);

#endif
