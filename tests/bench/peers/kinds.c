/*
 * The peers in the order of the tables.
 */
#include "kinds.h"

const struct peer_kind *const peer_kinds[] = {
    &peer_flock,
    &peer_ofd,
    NULL,
};
