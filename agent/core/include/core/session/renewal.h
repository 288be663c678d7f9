/*
 * The host's side of its session. It renews the session with every voter, and knows until when the
 * lease counts.
 *
 * A renewal goes to every voter each third of the session time-to-live (ttl), with the echo of that
 * voter's last acknowledgement. Let t(v) be the sending time of the latest renewal that voter v
 * acknowledged as extended. The lease runs from the latest time T with t(v) >= T for a majority of
 * the voters. Its length is the ttl, shortened by max_drift. A voter that does not know the echo
 * answers "not extended", and the next renewal follows at once. So the first lease takes two
 * renewals.
 *
 * This module enforces the host's part of three rules of docs/PROTOCOL.md. Rule 13: a renewal
 * carries the voter's echo. Rule 14: the host counts its lease short, and from the time when it
 * sent the renewal. Rule 18: the session is in jeopardy, then it goes on or is lost. The sources
 * are Chubby (Burrows, OSDI 2006) 2.8 for sessions, jeopardy and grace period, and PaxosLease
 * (Trencseni et al. 2012) for when a lease begins.
 *
 * Invariants: the deadline is never later than T plus the shortened ttl. While the session lives
 * and the clock is right, the deadline never falls. A lost session has no deadline in the future,
 * and stays lost; only renewal_start(), with a higher epoch, begins another one. An answer to a
 * renewal that this process did not send, or has forgotten, changes nothing, and neither does an
 * answer under another record of voters.
 *
 * Pure, as quorum.h says. Its only action is ACTION_SEND, to a voter's index. Time is
 * CLOCK_BOOTTIME in nanoseconds, never 0. struct renewal is opaque (session/renewal_private.h).
 */
#ifndef CORE_RENEWAL_H
#define CORE_RENEWAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/action.h"
#include "core/base/histogram.h"
#include "core/session/pace.h"
#include "proto/message.h"

enum renewal_state {
    RENEWAL_SAFE = 0, /* the lease is valid until renewal_deadline_ns() */
    /* the lease is not valid now, but may become valid again (or for the first time) later */
    RENEWAL_JEOPARDY,
    RENEWAL_LOST, /* the session is over, for example because a majority marked it, or because the
                   * grace period has passed */
};

struct renewal_config {
    uint32_t voter_count;
    struct message_agent voters[MESSAGE_VOTERS_MAX];
    int64_t session_ttl_ns;
    int64_t grace_period_ns;
    uint32_t max_drift_percent;
    /* The first session of this process, if it is not adopted, waits until a majority has reported
     * which epochs this agent had. The agent's own store cannot say that, because the store may be
     * new or an old copy. */
    bool asks_epoch;
    uint64_t rules;     /* message_rules_digest() of the cell's rules as this agent is configured */
    uint64_t durations; /* message_durations_digest() of the same rules */
    char advertise[MESSAGE_ADDRESS_MAX];
    char release[MESSAGE_RELEASE_MAX]; /* this agent's release, sent to voters for display */
    char page[MESSAGE_ADDRESS_MAX];    /* sent likewise: the URL of this agent's status page */
};

enum { RENEWAL_ACTIONS = 2 * MESSAGE_VOTERS_MAX };

struct renewal;

/* Returns how many bytes of memory renewal_init() needs. */
size_t renewal_size(void);

/* Makes the state in `memory`, which is renewal_size() bytes long and aligned to 8, and which the
 * renewal borrows for good. The session has not started yet. header is the result of
 * quorum_header(); its kind is ignored. config and header are copied. */
struct renewal *renewal_init(void *memory, const struct renewal_config *config,
                             const struct message *header);

/*
 * Starts the session of that epoch and sends the first renewals. The epoch is durable already, and
 * at least 1. It is higher than any that this agent had, or, if the session is adopted, the same as
 * before. `random` tells answers to this process from answers to an earlier process. If the voters
 * know an epoch as high as this one, the session is lost at once, and renewal_epoch() returns the
 * epoch that they know. An adopted session that no majority renews within ttl + grace is lost. A
 * new session has no holds yet, so it may wait as long as no majority answers. If a majority
 * answers for a ttl, but no majority extends the session, it is lost. This function and all
 * functions below need room for RENEWAL_ACTIONS more actions.
 */
void renewal_start(struct renewal *renewal, uint32_t epoch, bool adopted, int64_t now_ns,
                   uint64_t random, struct actions *actions);

/* Handles a RENEW_ACK message that arrived. */
void renewal_acked(struct renewal *renewal, const struct message *message, int64_t now_ns,
                   struct actions *actions);

/* Sends the renewals that are due. Call it at renewal_next_tick_ns() or later. */
void renewal_tick(struct renewal *renewal, int64_t now_ns, struct actions *actions);

/*
 * Notes that the connection to a voter was made, or broke. When it is made, earlier messages may be
 * lost, and a voter that was restarted knows neither sessions nor the addresses of observers. So
 * the voter gets an early renewal, but only one between two rounds. Until the voter answers, it
 * gets another renewal every twelfth of the ttl, for at most a ttl. If the lease is not safe, a
 * round to all voters is due at once instead.
 */
void renewal_link(struct renewal *renewal, uint32_t voter, bool up, int64_t now_ns,
                  struct actions *actions);

/*
 * Call it when the driver finds that the clock runs at another rate than the lease assumes
 * (astray), or no longer does. When the clock is astray, the lease ends at once: its deadline falls
 * to now_ns, and no renewal extends it. When the clock is right again, the renewals sent from then
 * on extend the lease; the first of them is due at once. Nothing happens if `astray` has not
 * changed.
 */
void renewal_clock(struct renewal *renewal, bool astray, int64_t now_ns);

/* Sets the digest of the cell's rules and voters that renewals carry. Voters compare this digest
 * only under a record of number 1. Call it before renewal_set_voters(). */
void renewal_set_rules(struct renewal *renewal, uint64_t rules);

/*
 * Switches to another record of voters. Call it when the record is known to be chosen. The number
 * must not be lower than the present one.
 *
 * A lease that a majority of the previous voters has extended stays as it is. Acknowledgements
 * under different numbers are never counted together. From now on an acknowledgement counts only if
 * its header names this record, and the first renewals under it are due at once. The same holds for
 * the voters' reports of this agent's epochs. Tables that are indexed by voter are reordered, so
 * that each entry stays with its voter's name.
 */
void renewal_set_voters(struct renewal *renewal, const struct message_voters *voters,
                        int64_t now_ns, struct actions *actions);

/* Returns when the next tick is due, for a renewal or a change of state; INT64_MAX: never. */
int64_t renewal_next_tick_ns(const struct renewal *renewal, int64_t now_ns);

enum renewal_state renewal_state(const struct renewal *renewal, int64_t now_ns);

/* Returns until when the lease counts; 0 if it was never safe. The deadline may be in the past. It
 * never falls while the session lives and the clock is right. */
int64_t renewal_deadline_ns(const struct renewal *renewal);

uint32_t renewal_epoch(const struct renewal *renewal);

/* Returns the header that every message of this agent has. Its kind is MESSAGE_RENEW. */
const struct message *renewal_header(const struct renewal *renewal);

/* Returns the session time-to-live of the configuration. */
int64_t renewal_ttl_ns(const struct renewal *renewal);

/* Returns the round trips of all acknowledgements that arrived. For people. */
const struct histogram *renewal_round_trips(const struct renewal *renewal);

/* Returns how fast that voter answers, and how fast its clock runs. For people. */
const struct pace *renewal_pace(const struct renewal *renewal, uint32_t voter);
/* Returns when that voter last answered; 0: never. */
int64_t renewal_answered_ns(const struct renewal *renewal, uint32_t voter);

/* Returns whether that voter has answered within the last ttl, and since its connection was made.
 * An answer from before the connection may be from a process that has ended. */
bool renewal_voter_up(const struct renewal *renewal, uint32_t voter, int64_t now_ns);

#endif
