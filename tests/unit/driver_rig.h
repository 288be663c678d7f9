/*
 * The driver in a cell of three voters, a to c, and two observers, o and p, for the unit tests of
 * what waits for the disk: with a quorum core, a host core and a disk that the test plays. `trace`
 * has a word for each thing that happens. The agent is a, or the observer o.
 */
#ifndef TESTS_UNIT_DRIVER_RIG_H
#define TESTS_UNIT_DRIVER_RIG_H

#include "driver/driver.h"

/* p persists a register of the name x, q one of the name y, m persists a promise; s and l send a
 * message to the agent in `to`. */
struct step {
    char what; /* 'p', 'q', 'm', 's', or 'l': like 's', but the message may be sent later */
    enum message_kind kind;
    uint32_t to;
    uint8_t relay;
};

struct driver_disk {
    const struct driver_batch *flying; /* NULL: nothing is being flushed */
    uint64_t commits;
};

/* These belong to the test that runs: make_driver() makes them. */
extern struct driver *driver;
extern struct renewal renewal;
extern int64_t now_ns;
extern struct message_agent names[5]; /* a, b, c are voters; o, p are not */
extern struct driver_disk disk;
extern char trace[4096];         /* what happened, in order: one word each */
extern struct message last_sent; /* to another agent */
extern int64_t logged_number;    /* of the last line of the log */
extern char reached[8];          /* the agents in the core's events, by the letters of their
                                  * names */
/* What the cores report to the driver. */
extern enum message_voter_status status_of_b;
extern bool asks_only;
extern bool decides_only;

enum { NO = ACTION_NO_RELAY };

void make_driver(bool observer);
/* Makes a driver of a voter. */
void set_up(void);
void tear_down(void);
/* Gives the driver a message of the agent with that index in names. */
void receive(enum message_kind kind, unsigned from);
/* Makes the quorum core do these steps. */
void do_plan(const struct step *steps, unsigned count);
/* Makes the host core do what the letters say: s persists a slot; A asks its own coordinator; a
 * asks b; r asks b through c; g gives back to b. */
void do_frame(const char *what);
/* Ends the flush: the batch is durable, or has failed with that error. */
void land(const char *error);
/* Returns the kind's word in the trace. */
const char *word_of(enum message_kind kind);

#endif
