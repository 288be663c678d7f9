/* Gossip packets of every shape, for the decoder's unit test and its fuzzer. */
#ifndef TESTS_UNIT_GOSSIP_SAMPLES_H
#define TESTS_UNIT_GOSSIP_SAMPLES_H

#include "proto/gossip.h"

enum { GOSSIP_SAMPLE_ITEMS = 12, GOSSIP_SAMPLE_PACKETS = GOSSIP_SAMPLE_ITEMS + 3 };

/* Fills in an item. Each kind occurs once small and once as large as it can be. index <
 * GOSSIP_SAMPLE_ITEMS. */
void gossip_sample_item(uint32_t index, struct gossip_item *item);

/* Writes a packet. The first GOSSIP_SAMPLE_ITEMS packets have one item each. Three more packets
 * follow: with all items, with digests, and with hashes. Returns the packet's size, or 0 if there
 * is no such packet. bytes has GOSSIP_PACKET_MAX bytes. */
size_t gossip_sample(uint32_t index, unsigned char *bytes);

/* Fills in `count` entries of a packet of hashes or digests. */
void gossip_sample_hashes(uint32_t count, struct gossip_hashes *hashes);

#endif
