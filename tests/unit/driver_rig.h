/*
 * Runs the driver in a cell of three voters, a to c, and two observers, o and p. The test plays the
 * quorum core, the host core and the disk. The tests check which actions wait for the disk. `trace`
 * has one word for each event and action. The driver is that of the voter a or of the observer o.
 */
#ifndef TESTS_UNIT_DRIVER_RIG_H
#define TESTS_UNIT_DRIVER_RIG_H

#include "driver/driver.h"

/* A step of the quorum core. p persists a register of the name x; q persists a register of the name
 * y; m persists a promise; s and l send a message to the agent in `to`; v makes the core use the
 * record in plan_record. */
struct step {
    char what; /* 'p', 'q', 'm', 's', 'v', or 'l': like 's', but the driver may delay the message */
    enum message_kind kind;
    uint32_t to;
    uint8_t relay;
};

struct driver_disk {
    const struct driver_batch *flying; /* NULL: no flush is under way */
    uint64_t commits;
};

/* make_driver() makes these anew for each test. */
extern struct driver *driver;
extern struct renewal *renewal;
extern int64_t now_ns;
extern struct message_agent names[5]; /* a, b, c are voters; o, p are observers */
extern struct driver_disk disk;
extern char trace[4096]; /* the events in their order, one word each */
extern struct message_voters plan_record;
extern struct message_voters shown_record; /* the record that the driver showed to the agent */
extern uint32_t
    shown_complete; /* the number of the last record that the driver showed as complete; 0: none */
extern struct message last_sent; /* the latest message to another agent */
extern uint64_t last_renewal_id;
extern int64_t logged_number; /* the number in the latest line of the log */
/* the first letters of the agents in the core's events QUORUM_REACHED, in the order of these
 * events */
extern char reached[8];
/* The answers of the fake cores to the driver. */
extern enum message_voter_status status_of_b;
extern enum message_voter_status own_status;
extern bool asks_only;
/* Whether the observer has only the voters of its configuration, which also names the voter x. */
extern bool unsure;
extern bool decides_only;

enum { NO = ACTION_NO_RELAY };

void make_driver(bool observer);
/* Makes the driver of the voter a. */
void set_up(void);
void tear_down(void);
/* Gives the driver a message of the agent with that index in names. */
void receive(enum message_kind kind, unsigned from);
/* Makes the record of that number in plan_record. Each letter is a voter's name. */
void make_record(uint32_t number, const char *letters);
/* Makes the quorum core do these steps. */
void do_plan(const struct step *steps, unsigned count);
/* Makes the quorum core do these steps without a message of b, so b need not be a voter. */
void do_plan_alone(const struct step *steps, unsigned count);
/* Makes the host core take one step for each letter: s persists a slot, A asks its own coordinator,
 * a asks b, r asks b through c, g gives a grant back to b. */
void do_frame(const char *what);
/* Ends the flush: the batch is durable, or has failed with this error (not NULL). */
void land(const char *error);
/* Returns the word for a message kind in the trace. */
const char *word_of(enum message_kind kind);

#endif
