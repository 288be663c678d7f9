/* Shared by sync.c and sync_deletion.c. */
#ifndef QUORUM_SYNC_PRIVATE_H
#define QUORUM_SYNC_PRIVATE_H

#include "sync.h"

enum { PULLS_MAX = 8 }; /* listings that are read at a time */

/* Why something is pulled from another voter. */
enum pull_purpose {
    PULL_NONE = 0,
    PULL_COMPLETE, /* the coordinator of a partition wants all that is in it */
    PULL_CATCH_UP, /* a voter that does not coordinate it wants what it missed */
    PULL_PROBE,    /* the same, but just to see whether anything is missing */
    PULL_REJOIN,   /* a store that starts over wants everything */
};

/* A listing of another voter that is being read. */
struct pull {
    uint8_t purpose; /* PULL_NONE: free */
    uint8_t voter;
    uint8_t what; /* enum message_pull_what */
    uint8_t partition;
    uint8_t tries;
    uint8_t silent;   /* of them, the last so many without an answer */
    bool began;       /* an answer came, so checkpoint is known */
    bool lacking;     /* something could not be stored */
    uint8_t last;     /* the message_pulled_kind of the last answer to this PULL */
    uint64_t id;      /* of this PULL */
    uint64_t ballot;  /* COMPLETE: under which it is prepared */
    uint64_t got;     /* answers to it, by index */
    uint32_t answers; /* how many they are; 0: not known yet */
    uint32_t after, next;
    uint32_t listing;
    int64_t resend_ns;
    struct message_checkpoint checkpoint;
};

/* Deletion: when which partition is looked at, and the one round that may be under way. */
struct checkpoints {
    bool active;
    uint8_t mask;    /* voters that follow */
    uint8_t missing; /* that cannot */
    struct message_delete asked;
    int64_t began_ns;
    int64_t next_ns;                     /* when to send it again, or to look at the partitions */
    uint32_t cursor;                     /* a partition: the next to be looked at */
    uint64_t digest[MESSAGE_PARTITIONS]; /* as they were looked at last */
    int64_t changed_ns[MESSAGE_PARTITIONS];
    int64_t again_ns[MESSAGE_PARTITIONS];
};

struct sync {
    struct pull pulls[PULLS_MAX];
    uint64_t pull_id;       /* of the last one */
    uint32_t listing;       /* the last one's number */
    uint32_t complete_next; /* a partition: where to look for what is incomplete */
    uint32_t catch_next;    /* a partition: the next one to compare with its coordinator's */
    int64_t catch_ns;       /* when */
    struct message_partitions behind;    /* partitions that are to be caught up with at once */
    uint8_t suspect[MESSAGE_PARTITIONS]; /* how often they were found different in a row */
    struct checkpoints checkpoints;
};

/* ---- sync_deletion.c ---- */

/* Adopts the checkpoint of another voter, of which everything was listed: what is here, bears
 * another listing's number and was accepted at or below the checkpoint is deleted. false: not all
 * of it could be; list again. */
bool sync_adopt_checkpoint(struct quorum *quorum, uint32_t partition,
                           const struct message_checkpoint *checkpoint, uint32_t listing);

#endif
