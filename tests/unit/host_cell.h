/*
 * Shared by the tests of the host core in a cell of several voters: a rig with two clients, and
 * their calls for the lock "a".
 */
#ifndef TESTS_UNIT_HOST_CELL_H
#define TESTS_UNIT_HOST_CELL_H

#include <check.h>

#include "host_rig.h"

enum { VOTERS = 3 };

/* These belong to the test that runs: cell_start() makes them. */
extern struct rig *rig;
extern uint32_t client; /* this client may administer */
extern uint32_t other;
extern uint32_t owner; /* the voter that is taken for the coordinator of "a" at first */

/* Makes an agent that is this voter, or an observer (HOST_OBSERVER). requests: the limit; 0: the
 * usual one. */
void cell_start(uint32_t self, uint32_t requests);
/* Makes an observer. */
void cell_setup(void);
void cell_teardown(void);
/* Makes a test case with set-up and tear-down around each test. */
TCase *cell_case(Suite *suite, const char *name);

enum hfi_outcome cell_try(const struct hfi_opened *opened, struct hfi_held *held);
enum hfi_outcome cell_read(const struct hfi_opened *opened, struct hfi_held *held);
void cell_release(const struct hfi_opened *opened, const struct hfi_held *held);
/* Returns the answer to this client's latest OPEN. */
struct hfi_opened cell_opened_by(uint32_t who);
/* Sends OPEN, and gives an exclusive grant: version 1, tokens 1 to 100. */
struct hfi_opened cell_open_granted(uint32_t who);
/* Takes a place in the queue, as queue_join() leaves it, and rings. */
void cell_wait_in_queue(struct hfi_opened *opened, uint32_t who, bool shared);
/* Returns where the host's latest message went. */
const struct host_send *cell_way(void);

#endif
