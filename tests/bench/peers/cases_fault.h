/*
 * The measure functions of cases 7 to 11 (see cases.h). The comment behind each names its file.
 */
#ifndef PEERS_CASES_FAULT_H
#define PEERS_CASES_FAULT_H

#include "cases.h"

int measure_leader(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                   struct results *results) MUST_CHECK; /* fault_leader.c */
int measure_holder(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                   struct results *results) MUST_CHECK; /* fault_holder.c */
int measure_stopped(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                    struct results *results) MUST_CHECK; /* fault_stopped.c */
int measure_restart(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                    struct results *results) MUST_CHECK; /* fault_restart.c */
int measure_held(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                 struct results *results) MUST_CHECK; /* fault_held.c */

#endif
