/* Collects the agent's judgement: see judged.h. */
#include "judged.h"

#include <stdio.h>
#include <string.h>

static const char reason_key[] = "reason_";

void judged_take(struct judged *judged, const struct hf_fact *fact)
{
    if (fact->key == NULL) {
        return;
    }
    if (strcmp(fact->key, "judgement") == 0) {
        judged->level = (int)fact->value;
        snprintf(judged->word, sizeof judged->word, "%s", fact->text != NULL ? fact->text : "?");
    } else if (strncmp(fact->key, reason_key, strlen(reason_key)) == 0 &&
               judged->count < JUDGED_REASONS_MAX) {
        struct judged_reason *reason = &judged->reasons[judged->count++];

        reason->level = (int)fact->value;
        snprintf(reason->name, sizeof reason->name, "%s", fact->key + strlen(reason_key));
        snprintf(reason->subject, sizeof reason->subject, "%s",
                 fact->subject != NULL ? fact->subject : "");
        snprintf(reason->text, sizeof reason->text, "%s", fact->text != NULL ? fact->text : "");
    }
}

const char *judged_text(const struct judged *judged, const char *name, const char *subject,
                        const char *otherwise)
{
    for (size_t i = 0; i < judged->count; i++) {
        const struct judged_reason *reason = &judged->reasons[i];

        if (strcmp(reason->name, name) == 0 &&
            strcmp(reason->subject, subject != NULL ? subject : "") == 0) {
            return reason->text;
        }
    }
    return otherwise;
}
