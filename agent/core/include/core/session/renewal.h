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
 * Pure, as quorum.h says. Its only action is ACTION_SEND, to a voter's index. Time is
 * CLOCK_BOOTTIME in nanoseconds, never 0. It uses no memory beyond struct renewal.
 */
#ifndef CORE_RENEWAL_H
#define CORE_RENEWAL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/action.h"
#include "core/base/histogram.h"
#include "core/session/pace.h"
#include "proto/message.h"

enum renewal_state {
    RENEWAL_SAFE = 0, /* the lease is valid until renewal_deadline_ns() */
    /* the lease is not valid now, but may become valid again (or for the first time) later */
    RENEWAL_JEOPARDY,
    RENEWAL_LOST, /* the session is over: a majority marked it, or the grace period has passed */
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
    uint64_t rules; /* message_rules_digest() of the cell's rules as this agent is configured */
    char advertise[MESSAGE_ADDRESS_MAX];
    char release[MESSAGE_RELEASE_MAX]; /* sent to voters, for people */
};

enum { RENEWAL_REMEMBERED = 32, RENEWAL_ACTIONS = 2 * MESSAGE_VOTERS_MAX };

struct renewal_sent {
    uint64_t id;
    int64_t sent_ns;
};

struct renewal_voter {
    struct message_echo echo;
    /* the sending time of the latest renewal that this voter acknowledged as extended; 0: there is
     * none */
    int64_t extended_sent_ns;
    int64_t answered_ns;  /* when the voter last answered; 0: never */
    uint64_t answered_id; /* the id of the latest renewal that the voter answered */
    uint32_t dead_epoch;
    /* since the last round, an early renewal was sent because the voter answered "not extended" */
    bool hurried;
    /* since the last round, an early renewal was sent because the voter's connection came up */
    bool greeted;
    int64_t connected_ns; /* since when the voter is connected; 0: not reported yet */
    /* when to send the next early renewal to the voter, if it has not answered since it was
     * connected; 0: never */
    int64_t ask_ns;
    struct pace pace;
};

/* All fields are private: use the functions below. */
struct renewal {
    struct renewal_config config;
    struct message header; /* the fields that every message's header has */
    uint32_t epoch;        /* 0: not started */
    bool adopted;
    bool lost;
    bool astray; /* see renewal_clock() */
    /* renewals have epoch 0, which asks for the epochs that this agent had, until a majority has
     * answered */
    bool asking;
    uint32_t reported_epoch; /* the highest epoch that a voter has reported while `asking` is set */
    /* bit by voter: the voter has reported an epoch while `asking` is set */
    uint8_t reported;
    int64_t started_ns;
    int64_t counts_from_ns; /* renewals that were sent before this time extend nothing */
    int64_t next_round_ns;
    int64_t deadline_ns; /* 0: the lease was never safe */
    uint64_t last_id;
    struct renewal_sent sent[RENEWAL_REMEMBERED];
    struct renewal_voter voters[MESSAGE_VOTERS_MAX];
    /* the round trips of all acknowledgements that arrived, for people */
    struct histogram round_trip;
};

/* header is the result of quorum_header(); its kind is ignored. */
void renewal_init(struct renewal *renewal, const struct renewal_config *config,
                  const struct message *header);

/*
 * Starts the session of that epoch and sends the first renewals. The epoch is durable already, and
 * at least 1. It is higher than any that this agent had, or, if the session is adopted, the same as
 * before. `random` tells answers to this process from answers to an earlier process. If the voters
 * know an epoch as high as this one, the session is lost at once, and renewal_epoch() returns the
 * epoch that they know. An adopted session that no majority renews within ttl + grace is lost. A
 * new session has nothing to lose and waits for ever. This function and all functions below need
 * room for RENEWAL_ACTIONS more actions.
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

/* Returns when the next tick is due, for a renewal or a change of state; INT64_MAX: never. */
int64_t renewal_next_tick_ns(const struct renewal *renewal, int64_t now_ns);

enum renewal_state renewal_state(const struct renewal *renewal, int64_t now_ns);

/* Returns until when the lease counts; 0 if it was never safe. The deadline may be in the past. It
 * never falls while the epoch stays the same and the clock is right. */
int64_t renewal_deadline_ns(const struct renewal *renewal);

uint32_t renewal_epoch(const struct renewal *renewal);

/* Returns how fast that voter answers, and how fast its clock runs. For people. */
const struct pace *renewal_pace(const struct renewal *renewal, uint32_t voter);
/* Returns when that voter last answered; 0: never. */
int64_t renewal_answered_ns(const struct renewal *renewal, uint32_t voter);

/* Returns whether that voter has answered within the last ttl, and since its connection was made.
 * An answer from before the connection may be from a process that has ended. */
bool renewal_voter_up(const struct renewal *renewal, uint32_t voter, int64_t now_ns);

#endif
