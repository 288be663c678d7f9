/*
 * The host's side of its session: renews with every voter, and knows until when the lease counts.
 *
 * A renewal goes to every voter each ttl/3, with the echo of that voter's last acknowledgement. The
 * lease runs from the moment of sending, of the latest renewal that a majority acknowledged as
 * extended (for each voter its latest counts; the lease is what a majority of them reaches), and is
 * counted short by max_drift. A voter that does not know the echo answers "not extended"; then the
 * next renewal follows at once. So a start takes two.
 *
 * Pure, as quorum.h says: the same struct actions, of which it uses SEND to a voter's index. Time
 * is CLOCK_BOOTTIME, never 0. No memory beyond struct renewal.
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
    RENEWAL_SAFE = 0, /* the lease counts until renewal_deadline_ns() */
    RENEWAL_JEOPARDY, /* it does not count now (or not yet); it may again */
    RENEWAL_LOST,     /* it never will: a majority marked it, or the grace period is over */
};

struct renewal_config {
    uint32_t voter_count;
    struct message_agent voters[MESSAGE_VOTERS_MAX];
    int64_t session_ttl_ns;
    int64_t grace_period_ns;
    uint32_t max_drift_percent;
    bool asks_epoch; /* the first session, if it is a new one, waits for what a majority knows of
                        epochs that this agent had: its store may be new, or an old copy */
    uint64_t rules;  /* message_rules_digest() of what this agent takes the cell's rules for */
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
    int64_t extended_sent_ns; /* sending time of the latest renewal that it extended; else 0 */
    int64_t answered_ns;      /* when it last answered; 0: never */
    uint64_t answered_id;     /* the latest renewal that it answered */
    uint32_t dead_epoch;
    bool hurried;         /* was sent one out of turn since the last round, for its answer */
    bool greeted;         /* or for its connection */
    int64_t connected_ns; /* since when its connection is there; 0: this was never said */
    int64_t ask_ns;       /* connected, no answer since: when it is asked out of turn; 0: not */
    struct pace pace;
};

/* Use the functions below; the fields are theirs. */
struct renewal {
    struct renewal_config config;
    struct message header; /* the part that every message carries */
    uint32_t epoch;        /* 0: not started */
    bool adopted;
    bool lost;
    bool astray;         /* see renewal_clock() */
    bool asking;         /* the epochs that there were: sends epoch 0 until a majority has
                          * answered */
    uint32_t told_epoch; /* the highest in an answer */
    uint8_t told;        /* by which voters */
    int64_t started_ns;
    int64_t counts_from_ns; /* renewals that were sent before extend nothing */
    int64_t next_round_ns;
    int64_t deadline_ns; /* 0: never safe yet */
    uint64_t last_id;
    struct renewal_sent sent[RENEWAL_REMEMBERED];
    struct renewal_voter voters[MESSAGE_VOTERS_MAX];
    struct histogram round_trip; /* for people: of each acknowledgement that came */
};

/* header: the result of quorum_header() (kind is ignored). */
void renewal_init(struct renewal *renewal, const struct renewal_config *config,
                  const struct message *header);

/*
 * Starts session epoch (durable already, from 1; higher than any that this agent had, unless
 * adopted: the same as before) and sends the first renewals. random keeps answers to an earlier
 * process apart. If the voters know an epoch as high as this one, it is lost at once, and
 * renewal_epoch() is the one that they know. An adopted session that no majority renews within
 * ttl + grace is lost; a new one has nothing to lose and waits for ever. Needs RENEWAL_ACTIONS of
 * room, as all below.
 */
void renewal_start(struct renewal *renewal, uint32_t epoch, bool adopted, int64_t now_ns,
                   uint64_t random, struct actions *actions);

/* A MESSAGE_RENEW_ACK arrived. */
void renewal_acked(struct renewal *renewal, const struct message *message, int64_t now_ns,
                   struct actions *actions);

/* At renewal_next_tick_ns() or later: sends what is due. */
void renewal_tick(struct renewal *renewal, int64_t now_ns, struct actions *actions);

/*
 * The connection to a voter is there (again), or gone. When it comes, earlier messages are lost,
 * and a voter that was started anew knows neither sessions nor the addresses of observers. It gets
 * a renewal, once between two rounds, and one every twelfth of the ttl until it answers, for a ttl;
 * if the lease is not safe a round is due at once instead.
 */
void renewal_link(struct renewal *renewal, uint32_t voter, bool up, int64_t now_ns,
                  struct actions *actions);

/*
 * The clock is known to run at another rate than leases are counted with (astray), or not. Then
 * the lease ends at once: its deadline falls to now_ns, and no renewal extends it. When it is well
 * again, those extend it that are sent from then on; the first is due at once. Nothing happens
 * if it is as before.
 */
void renewal_clock(struct renewal *renewal, bool astray, int64_t now_ns);

/* When the next tick is due: a renewal, or a change of state by time alone. INT64_MAX: never. */
int64_t renewal_next_tick_ns(const struct renewal *renewal, int64_t now_ns);

enum renewal_state renewal_state(const struct renewal *renewal, int64_t now_ns);

/* Until when the lease counts; 0: it was never safe. May lie in the past. Never falls while the
 * epoch is the same and the clock is well. */
int64_t renewal_deadline_ns(const struct renewal *renewal);

uint32_t renewal_epoch(const struct renewal *renewal);

/* How fast that voter answers and its clock runs: for people. */
const struct pace *renewal_pace(const struct renewal *renewal, uint32_t voter);
/* When it answered last; 0: never. */
int64_t renewal_answered_ns(const struct renewal *renewal, uint32_t voter);

/* Whether that voter answered within the last ttl, and since its connection is there: an answer
 * from before says nothing of one that was started anew. */
bool renewal_voter_up(const struct renewal *renewal, uint32_t voter, int64_t now_ns);

#endif
