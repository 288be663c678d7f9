/*
 * Cases 7 to 11: what happens when something goes wrong, and what it costs to keep locks held.
 */
#include "cases.h"

const struct bench_case bench_cases_fault[] = {
    {NULL, NULL, 0, false, 0, NULL},
};
