/* What the quorum core tells people: lines of log, put together without the C library. */
#include <string.h>

#include "state.h"

struct action_log *quorum_log(struct quorum *quorum, const char *event,
                              const struct message_agent *agent, int64_t number)
{
    struct action_log *log = &quorum_emit(quorum, ACTION_LOG)->as.log;
    log->event = event;
    log->number = number;
    if (agent != NULL) {
        log->agent = *agent;
    }
    return log;
}

static void append(struct action_log *log, const char *text, size_t length)
{
    size_t used = 0;
    while (log->text[used] != 0) {
        used++;
    }
    size_t room = sizeof(log->text) - 1 - used;
    memcpy(log->text + used, text, length < room ? length : room);
}

void log_add(struct action_log *log, const char *text)
{
    size_t length = 0;
    while (text[length] != 0) {
        length++;
    }
    append(log, text, length);
}

void log_add_agent(struct action_log *log, const struct message_agent *agent)
{
    append(log, agent->text, agent->length);
}

void log_add_number(struct action_log *log, uint64_t number)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    append(log, digits + at, sizeof(digits) - at);
}
