/*
 * Bounds: the highest numbers that a message may name. The cell keeps some numbers that only rise:
 * ballots, epochs, generations. After the last ballot the cell would stop for good. After a host's
 * last epoch that host would stop for good, and after a voter's last generation that voter would.
 * So a message of a faulty voter or of a liar must not raise a number to its end.
 *
 * A number in a message may be above the highest number that this voter knew when it started, by a
 * fixed distance at most. The distance is far more than a healthy cell uses between two restarts of
 * a voter. This voter drops a message that names a number beyond its bound, and logs it.
 *
 * Invariants: dropping endangers nothing, because a message may always be lost (the asynchronous
 * network that Paxos assumes). A bound never falls while this process runs, except that the bound
 * of rounds falls when a voter that started over begins to vote.
 */
#ifndef QUORUM_BOUNDS_H
#define QUORUM_BOUNDS_H

#include "agents.h"
#include "ballots.h"
#include "members.h"
#include "record.h"
#include "registers.h"
#include "sessions.h"
#include "step.h"

struct bounds;

struct bounds *bounds_lay_out(struct arena *arena, const struct quorum_limits *limits);
/* Sets the bounds by the numbers known now. Call it when everything is loaded from the store. */
void bounds_start(struct quorum *quorum);
/* Sets the bounds of the stores' generations. Call it when the voters have changed. */
void bounds_follow(struct quorum *quorum);
/* Sets the bound of rounds by the rounds known now. Call it when this voter has started over, and
 * votes from now on. */
void bounds_rounds(struct quorum *quorum);
/* Returns whether all numbers that a valid message names are within their bounds. If not, logs
 * that. */
bool bounds_allow(struct quorum *quorum, const struct message *message);

#endif
