/*
 * Bounds: the numbers that a message may name. Numbers that only rise, and that are kept, must not
 * be driven to their end by one message: a ballot, an epoch or a generation that nothing could
 * follow would stop the cell, a host or a voter for good. A voter's own mistake or a liar could
 * name one.
 *
 * Each may be at most so far above what this voter knew when it started: far more than a healthy
 * cell gets through between two restarts of a voter. A message that is beyond is not read, and the
 * log says so.
 *
 * Invariants: nothing is unsafe by it, since a message may always be lost (the asynchronous network
 * that Paxos assumes). A bound never falls while this process runs.
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
/* Everything is loaded. */
void bounds_start(struct quorum *quorum);
/* This voter started over, and votes from now on: the rounds known now are what others are measured
 * by. */
void bounds_rounds(struct quorum *quorum);
/* Whether a (valid) message names nothing that no healthy cell gets to; else the log says so. */
bool bounds_allow(struct quorum *quorum, const struct message *message);

#endif
