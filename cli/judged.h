/*
 * The agent's judgement about itself, which it sends among its facts: "judgement" has the level and
 * its word, and each "reason_NAME" has a reason. The agent judges, and this program only shows it:
 * so all commands, the agent's page and its metrics say the same.
 */
#ifndef HOLDFAST_CLI_JUDGED_H
#define HOLDFAST_CLI_JUDGED_H

#include <stddef.h>

#include <holdfast/admin.h>
#include <holdfast/holdfast.h>

enum { JUDGED_REASONS_MAX = 64, JUDGED_TEXT_MAX = 256, JUDGED_NAME_MAX = 65 };

/* The levels, as the agent numbers them. */
enum { JUDGED_WELL, JUDGED_DEGRADED, JUDGED_FAILING };

struct judged_reason {
    int level;
    char name[JUDGED_NAME_MAX];    /* such as "voter_refused" */
    char subject[JUDGED_NAME_MAX]; /* a voter or a namespace; "": the agent or its host */
    char text[JUDGED_TEXT_MAX];
};

/* All 0 at first. */
struct judged {
    char word[16]; /* "well", "degraded", "failing"; "": the agent is older, and does not judge */
    int level;
    size_t count;
    struct judged_reason reasons[JUDGED_REASONS_MAX];
};

/* Takes a fact if it belongs to the judgement. */
void judged_take(struct judged *judged, const struct hf_fact *fact);

/* The text of a reason; otherwise if there is no such reason. */
const char *judged_text(const struct judged *judged, const char *name, const char *subject,
                        const char *otherwise);

#endif
