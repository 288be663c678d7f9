/* Log lines, made without the C library's formatting. See step.h. */
#include <string.h>

#include "step.h"

struct action_log *step_log(struct quorum *quorum, const char *event,
                            const struct message_agent *agent, int64_t number)
{
    struct action_log *log = &step_emit(quorum, ACTION_LOG)->as.log;
    log->event = event;
    log->number = number;
    if (agent != NULL) {
        log->agent = *agent;
    }
    return log;
}

/* Returns the length of the text. memchr stops at the end of the array. A loop over the characters
 * would not do: the compiler would turn it into a call of strlen. */
static size_t used_of(const struct action_log *log)
{
    const char *end = memchr(log->text, 0, sizeof(log->text));
    return end != NULL ? (size_t)(end - log->text) : sizeof(log->text) - 1;
}

static void append(struct action_log *log, const char *text, size_t length)
{
    size_t used = used_of(log);
    size_t room = sizeof(log->text) - 1 - used;
    memcpy(log->text + used, text, length < room ? length : room);
}

void step_log_text(struct action_log *log, const char *text)
{
    for (size_t used = used_of(log); *text != 0 && used < sizeof(log->text) - 1; used++) {
        log->text[used] = *text++;
    }
}

void step_log_agent(struct action_log *log, const struct message_agent *agent)
{
    append(log, agent->text, agent->length);
}

void step_log_number(struct action_log *log, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    append(log, digits + at, sizeof(digits) - at);
}
