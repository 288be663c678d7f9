/*
 * `holdfast doctor`: its checks and findings. doctor.c has the command and its output.
 * doctor_silent.c finds out why no agent answers. doctor_host.c checks this host, with or without
 * an agent. doctor_agent.c checks the agent's facts about itself and its host, and doctor_cell.c
 * its facts about the cell.
 *
 * A finding has the state of one thing that was checked. If that state is not well, it also has the
 * expected state and a remedy. Each check adds at least one finding, so that the output shows all
 * that was checked.
 */
#ifndef HOLDFAST_CLI_DOCTOR_H
#define HOLDFAST_CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"
#include "judged.h"

enum {
    DOCTOR_FINDINGS_MAX = 128,
    DOCTOR_FACTS_MAX = 256,
    DOCTOR_TEXT_MAX = 320,
    DOCTOR_KEY_MAX = 65,
    DOCTOR_SUBJECT_MAX = 33,
    DOCTOR_VOTERS_MAX = 7,
};

enum finding_level { FINDING_OK, FINDING_WARN, FINDING_ERROR };

struct finding {
    enum finding_level level;
    const char *check; /* the name of the check, a static string */
    /* the agent that the finding is about; "": this agent, or its host */
    char subject[DOCTOR_SUBJECT_MAX];
    char found[DOCTOR_TEXT_MAX];
    char expected[DOCTOR_TEXT_MAX]; /* "" if the level is ok */
    char remedy[DOCTOR_TEXT_MAX];   /* "" if the level is ok */
};

struct fact {
    char subject[DOCTOR_SUBJECT_MAX];
    char key[DOCTOR_KEY_MAX];
    int64_t value;
    char text[DOCTOR_TEXT_MAX];
};

struct doctor_voter {
    char name[DOCTOR_SUBJECT_MAX];
    char address[DOCTOR_TEXT_MAX]; /* "": not known */
    enum hf_voter_state state;
};

/* The agent's answers, and the findings so far. */
struct doctor {
    char socket[DOCTOR_TEXT_MAX]; /* the path of the socket at which the agent should answer */
    /* where the path comes from, such as an option: a static string */
    const char *socket_from;
    bool socket_own; /* see struct socket_path */
    bool refused;    /* the agent, or a mode on its socket's path, does not let this user in */
    bool agent;      /* the agent answered: the fields below are filled in */
    bool answered;   /* the agent has sent facts */
    char name[DOCTOR_SUBJECT_MAX];
    enum hf_session_state session;
    int64_t session_remaining_ns;
    uint64_t clients;
    size_t voter_count;
    struct doctor_voter voters[DOCTOR_VOTERS_MAX];
    struct judged judged;
    size_t fact_count;
    struct fact facts[DOCTOR_FACTS_MAX];
    size_t finding_count;
    struct finding findings[DOCTOR_FINDINGS_MAX];
};

/* Returns the fact `key` about the agent `subject` (NULL: this agent), or NULL if the agent did not
 * send it. */
const struct fact *doctor_fact(const struct doctor *doctor, const char *subject, const char *key);
/* Returns the value of a fact, or `otherwise` if the agent did not send it. */
int64_t doctor_value(const struct doctor *doctor, const char *subject, const char *key,
                     int64_t otherwise);

/* Adds a finding. If the level is not ok, the caller also calls doctor_advise(). subject may be
 * NULL. */
struct finding *doctor_find(struct doctor *doctor, enum finding_level level, const char *check,
                            const char *subject, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void doctor_advise(struct finding *finding, const char *expected, const char *remedy);

/* These two calls add a finding when the agent could not be asked. doctor_no_agent(): error is the
 * error of hf_connect() or hf_status(), and why its text. doctor_path_too_long(): no socket can
 * have the path. */
struct socket_path;
void doctor_no_agent(struct doctor *doctor, int error, const char *why);
void doctor_path_too_long(struct doctor *doctor, const struct socket_path *found);

/* The checks, each of which adds its findings. */
void doctor_look_at_socket(struct doctor *doctor);
void doctor_look_at_clock(struct doctor *doctor);
void doctor_look_at_memory(struct doctor *doctor);
void doctor_look_at_disk(struct doctor *doctor);
void doctor_look_at_agent(struct doctor *doctor);
void doctor_look_at_cell(struct doctor *doctor);

#endif
