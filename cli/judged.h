/*
 * The agent judges itself, and sends the judgement among its facts. The fact "judgement" has the
 * level and its word, and each fact "reason_NAME" has a reason. This program only shows the
 * judgement, so all commands, the agent's page and its metrics say the same.
 */
#ifndef HOLDFAST_CLI_JUDGED_H
#define HOLDFAST_CLI_JUDGED_H

#include <stddef.h>

#include <holdfast/admin.h>
#include <holdfast/holdfast.h>

#include "json.h"

enum { JUDGED_REASONS_MAX = 64, JUDGED_TEXT_MAX = 256, JUDGED_NAME_MAX = 65 };

/* The levels, as the agent numbers them. */
enum { JUDGED_WELL, JUDGED_DEGRADED, JUDGED_FAILING };

struct judged_reason {
    int level;
    char name[JUDGED_NAME_MAX]; /* such as "voter_refused" */
    /* the voter or the namespace that the reason is about; "": the agent or its host */
    char subject[JUDGED_NAME_MAX];
    char text[JUDGED_TEXT_MAX];
};

/* The judgement. The caller sets all bytes to 0 at first. */
struct judged {
    char word[16]; /* "well", "degraded", "failing"; "": an older agent, which does not judge */
    int level;
    size_t count;
    struct judged_reason reasons[JUDGED_REASONS_MAX];
};

/* Adds the fact to *judged if it belongs to the judgement. */
void judged_take(struct judged *judged, const struct hf_fact *fact);

/* Writes the members "judgement" and "reasons" of an object. For an older agent, which does not
 * judge, "judgement" is null and "reasons" is empty. */
void judged_write_json(const struct judged *judged, struct json *json);

/* Returns the text of a reason, or `otherwise` if there is no such reason. */
const char *judged_text(const struct judged *judged, const char *name, const char *subject,
                        const char *otherwise);

/* Returns the word for the session that the agent's page and metrics have, too: "safe", "jeopardy",
 * "lost", or "none" if no majority of the voters has answered since the agent's start. An agent
 * reports such a session as one in jeopardy, because older programs do not know a fourth state. */
const char *judged_session(const struct judged *judged, enum hf_session_state state);

#endif
