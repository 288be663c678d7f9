/*
 * Shared by the tests of the host core in a cell of several voters: a rig with two clients, and
 * calls of these clients for the lock "a".
 */
#ifndef TESTS_UNIT_HOST_CELL_H
#define TESTS_UNIT_HOST_CELL_H

#include <check.h>

#include "host_rig.h"

enum { VOTERS = 3 };

/* cell_start() makes these anew for each test. */
extern struct rig *rig;
extern uint32_t client; /* this client may administer */
extern uint32_t other;
extern uint32_t owner; /* the voter that the host believes at first to be the coordinator of "a" */

/* Makes an agent that is voter number `self`, or an observer (HOST_OBSERVER). `requests` is the
 * limit of requests; 0: the default. */
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
/* Sends OPEN, and gives the host an exclusive grant with version 1 and tokens 1 to 100. */
struct hfi_opened cell_open_granted(uint32_t who);
/* Puts the client into the lock's queue, as queue_join() does, and rings the agent. */
void cell_wait_in_queue(struct hfi_opened *opened, uint32_t who, bool shared);
/* Returns the way of the host's latest message: its receiver and its relay. */
const struct host_send *cell_way(void);

#endif
