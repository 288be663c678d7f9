/* Deletion of idle registers. */
#include "proto/check.h"
#include "state.h"

bool quorum_load_checkpoint(struct quorum *quorum, const struct quorum_checkpoint *row)
{
    HF_CHECK(!quorum->started);
    const struct message_checkpoint *checkpoint = &row->checkpoint;
    if (row->partition >= MESSAGE_PARTITIONS || !order_valid(checkpoint->order) ||
        checkpoint->floor >= MESSAGE_TOKEN_LIMIT) {
        return false;
    }
    struct partition *partition = &quorum->partitions[row->partition];
    partition->checkpoint = *checkpoint;
    partition->floor = checkpoint->floor > partition->floor ? checkpoint->floor : partition->floor;
    return true;
}

void checkpoint_adopt(struct quorum *quorum, uint32_t partition,
                      const struct message_checkpoint *checkpoint, uint32_t listing)
{
    (void)quorum;
    (void)partition;
    (void)checkpoint;
    (void)listing;
}
