/* Deletion of idle registers by partition checkpoints. */
#include "state.h"

void checkpoint_adopt(struct quorum *quorum, uint32_t partition,
                      const struct message_checkpoint *checkpoint, uint32_t listing)
{
    (void)quorum;
    (void)partition;
    (void)checkpoint;
    (void)listing;
}
