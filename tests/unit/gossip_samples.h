/* Gossip packets of every shape, for the decoder's unit test and its fuzzer. */
#ifndef TESTS_UNIT_GOSSIP_SAMPLES_H
#define TESTS_UNIT_GOSSIP_SAMPLES_H

#include "proto/gossip.h"

enum { GOSSIP_SAMPLE_ITEMS = 8, GOSSIP_SAMPLE_PACKETS = GOSSIP_SAMPLE_ITEMS + 3 };

/* An item of each kind, small and as large as it can be; index below GOSSIP_SAMPLE_ITEMS. */
void gossip_sample_item(uint32_t index, struct gossip_item *item);

/* A packet with that item, then: with all of them, with digests, with hashes. Its size; 0: there is
 * none of that index. bytes has GOSSIP_PACKET_MAX. */
size_t gossip_sample(uint32_t index, unsigned char *bytes);

/* The kind of one entry of a hash or digest. */
void gossip_sample_hashes(uint32_t count, struct gossip_hashes *hashes);

#endif
