/* Shared parts of the tests of changes of the voters: a rig, and an operator who asks its nodes for
 * changes. */
#ifndef TESTS_VOTERS_ASKS_H
#define TESTS_VOTERS_ASKS_H

#include "voters_rig.h"

extern struct rig *rig;

void begin(uint32_t voters, uint64_t seed);
void teardown(void);
/* Gives a node the record, as if it had just learned that the record was chosen. */
void choose(uint32_t node, const struct message_voters *voters);
/* Returns how many partitions the nodes coordinate in all. */
uint32_t coordinated(uint32_t mask);
/* Sends a request of an operator on node `asker` to a voter. Returns the answer. */
struct message_membered ask_from(uint32_t asker, uint32_t to, uint64_t id,
                                 enum message_member_act act, uint32_t voter, uint32_t number);
/* Calls ask_from() for an operator on the host of the voter that is asked. */
struct message_membered ask_with(uint32_t to, uint64_t id, enum message_member_act act,
                                 uint32_t voter, uint32_t number);
/* Asks for the change again and again, until it has reached that stage or is refused. Returns the
 * last answer. */
struct message_membered change(uint32_t to, enum message_member_act act, uint32_t voter,
                               enum message_change_stage stage);
void expect_complete(uint32_t to, enum message_member_act act, uint32_t voter);
/* Expects that exactly these nodes vote, all under that number, and coordinate everything. */
void expect_voters(uint32_t mask, uint32_t number);

#endif
