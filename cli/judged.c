/* Collects the agent's judgement: see judged.h. */
#include "judged.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

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

void judged_write_json(const struct judged *judged, struct json *json)
{
    json_text(json, "judgement", judged->word[0] != '\0' ? judged->word : NULL);
    json_open_array(json, "reasons");
    for (size_t index = 0; index < judged->count; index++) {
        const struct judged_reason *reason = &judged->reasons[index];

        json_open_object(json, NULL);
        json_text(json, "name", reason->name);
        json_text(json, "subject", reason->subject[0] != '\0' ? reason->subject : NULL);
        json_text(json, "level", reason->level >= JUDGED_FAILING ? "failing" : "degraded");
        json_text(json, "text", reason->text);
        json_close_object(json);
    }
    json_close_array(json);
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

const char *judged_session(const struct judged *judged, enum hf_session_state state)
{
    return judged_text(judged, "session_none", NULL, NULL) != NULL ? "none" : text_session(state);
}
