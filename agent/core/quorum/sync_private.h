/* Shared by sync.c and sync_deletion.c. */
#ifndef QUORUM_SYNC_PRIVATE_H
#define QUORUM_SYNC_PRIVATE_H

#include "sync.h"

enum {
    /* how many listings this voter reads at a time; if it starts over, how many from each voter */
    EXCHANGES_AT_ONCE = 8,
    EXCHANGES_MAX = EXCHANGES_AT_ONCE * (MESSAGE_VOTERS_MAX - 1),
};

/* Why this voter reads from another voter. */
enum exchange_purpose {
    EXCHANGE_NONE = 0,
    EXCHANGE_COMPLETE, /* a coordinator needs everything in its partition */
    EXCHANGE_CATCH_UP, /* a voter that does not coordinate the partition missed something */
    EXCHANGE_PROBE,    /* a voter that does not coordinate the partition only checks whether it
                        * missed anything */
    EXCHANGE_REJOIN,   /* a store that starts over, or that learns, needs everything */
    /* The next three are used while the record of voters is not complete. COMPARE: a coordinator
     * compares its registers with those on another voter's disk. GATHER: it adopts registers that
     * differ there. MARKS: it reads the voters' marks. */
    EXCHANGE_COMPARE,
    EXCHANGE_GATHER,
    EXCHANGE_MARKS,
};

/* A listing that this voter reads from another voter, with SYNC messages. */
struct exchange {
    uint8_t purpose; /* EXCHANGE_NONE: the entry is free */
    uint8_t voter;
    uint8_t what; /* enum message_sync_what */
    uint8_t partition;
    uint8_t tries;
    uint8_t silent;   /* how many of the last tries had no answer */
    bool began;       /* an answer came, so `checkpoint` is valid */
    bool lacking;     /* something could not be stored */
    uint8_t last;     /* the message_synced_kind of the last answer to this SYNC */
    uint64_t id;      /* this SYNC's id */
    uint64_t ballot;  /* COMPLETE, COMPARE, GATHER: the ballot under which the partition is
                       * prepared */
    uint64_t got;     /* the answers that arrived, by bit */
    uint32_t answers; /* how many answers this SYNC has in all; 0: not known yet */
    uint32_t after, next;
    uint32_t listing;
    int64_t resend_ns;
    struct message_checkpoint checkpoint;
};

/* Deletion: when to consider each partition, and the one checkpoint that may be under way. */
struct checkpoints {
    bool active;
    uint8_t mask;    /* the voters that accepted the checkpoint, by bit */
    uint8_t missing; /* the voters that could not accept the checkpoint, by bit */
    struct message_delete asked;
    int64_t began_ns;
    int64_t next_ns; /* when to send the checkpoint again, or to consider the next partition */
    uint32_t cursor; /* the partition to consider next */
    uint64_t digest[MESSAGE_PARTITIONS]; /* each partition's digest when it was last considered */
    int64_t changed_ns[MESSAGE_PARTITIONS];
    int64_t again_ns[MESSAGE_PARTITIONS];
};

/* The progress of a partition that this voter coordinates under a record that is not complete. */
struct settling {
    uint64_t ballot; /* the other members are about this ballot */
    uint8_t alike;   /* the voters whose disks had the same registers as this voter, by bit */
    uint8_t unlike;  /* how many comparisons in a row found other registers */
    int64_t next_ns; /* when to compare again */
};

struct sync {
    struct exchange exchanges[EXCHANGES_MAX];
    uint64_t exchange_id; /* the id of the last SYNC */
    uint32_t listing;     /* the number of the last listing */
    /* the partition at which the next search for incomplete partitions begins */
    uint32_t complete_next;
    uint32_t catch_next; /* the next partition to compare with its coordinator's registers */
    int64_t catch_ns;    /* when to compare the next partitions */
    struct message_partitions behind; /* the partitions to catch up with at once */
    /* how often in a row each partition differed from its coordinator's */
    uint8_t suspect[MESSAGE_PARTITIONS];
    struct checkpoints checkpoints;
    struct settling settling[MESSAGE_PARTITIONS];
    uint32_t settle_next; /* the partition at which the search for the next comparison begins */
};

/* ---- sync_deletion.c ---- */

/* Adopts another voter's checkpoint after its whole listing was read. Deletes every register here
 * that the listing lacked and that was accepted at or below the checkpoint. Returns false if the
 * partition has a round under way, or the step had no room for all deletions. Then the partition
 * has to be listed again. */
bool sync_adopt_checkpoint(struct quorum *quorum, uint32_t partition,
                           const struct message_checkpoint *checkpoint, uint32_t listing);

#endif
