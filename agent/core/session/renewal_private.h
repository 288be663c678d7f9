/* The struct of renewal.c. It is in a header because the simulator breaks rule 14 by changing a
 * sending time. */
#ifndef SESSION_RENEWAL_PRIVATE_H
#define SESSION_RENEWAL_PRIVATE_H

#include "core/session/renewal.h"
#include "pace_private.h"

enum { RENEWAL_REMEMBERED = 32 };

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
    uint32_t ended_epoch;
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
    /* since when a majority of the voters answers although there is no lease; 0: that is not the
     * case */
    int64_t barren_since_ns;
    uint64_t last_id;
    struct renewal_sent sent[RENEWAL_REMEMBERED];
    struct renewal_voter voters[MESSAGE_VOTERS_MAX];
    /* the round trips of all acknowledgements that arrived, for display */
    struct histogram round_trip;
};

#endif
