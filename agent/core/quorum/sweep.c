/*
 * Completeness: whether the coordinator of a partition has all that is in it.
 */
#include "state.h"

bool sweep_complete(const struct quorum *quorum, uint32_t partition)
{
    return quorum->partitions[partition].complete;
}
