/* Whether a majority of the voters is alive: see alive.h. */
#include "run/alive.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fail.h"

enum { VOTERS_TEXT_MAX = 512 };

/* Returns the newest record that is known here. */
static const struct message_voters *newest(const struct alive_own *own,
                                           const struct peers_asked *asked)
{
    return asked->newest.count > 0 ? &asked->newest : own->record;
}

/* Returns what that voter has answered; NULL if it was not asked. */
static const struct peers_answer *answer_of(const struct peers_asked *asked,
                                            const struct message_agent *name)
{
    for (uint32_t i = 0; i < asked->count; i++) {
        if (memcmp(&asked->of[i].name, name, sizeof(*name)) == 0) {
            return &asked->of[i];
        }
    }
    return NULL;
}

static bool is_of_generation(const struct peers_answer *answer, uint32_t recoveries)
{
    return answer->number >= message_voters_first(recoveries) &&
           answer->number < message_voters_first(recoveries + 1);
}

/* Returns whether the voter uses another record of the same number. If so, the voter is of another
 * cell. */
static bool is_of_other_cell(const struct peers_answer *answer, const struct message_voters *record)
{
    return answer->number == record->number && answer->digest != 0 &&
           answer->digest != message_voters_digest(record);
}

static bool is_alive(const struct peers_answer *answer, const struct message_voters *record)
{
    return answer->heard && is_of_generation(answer, record->recoveries) &&
           !is_of_other_cell(answer, record) &&
           (answer->status == MESSAGE_STATUS_VOTING || answer->status == MESSAGE_STATUS_LISTED);
}

static bool is_recovered(const struct peers_answer *answer, const struct message_voters *record)
{
    return answer->heard && answer->number >= message_voters_first(record->recoveries + 1);
}

/* Returns whether this host's voter votes again once its agent is started, as far as is known. */
static bool own_can_vote(const struct alive_own *own, const struct peers_asked *asked)
{
    const struct message_voters *record = newest(own, asked);
    bool can = !own->backup && message_voters_find(record, &own->name) < record->count;
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct peers_answer *answer = &asked->of[i];
        can = can &&
              !(answer->heard && answer->refuses && is_of_generation(answer, record->recoveries));
    }
    return can;
}

/* Returns whether the other voters know this host's voter at another address than its own. */
static bool has_moved(const struct alive_own *own, const struct message_voters *record)
{
    uint32_t self = message_voters_find(record, &own->name);
    return self < record->count && record->of[self].address[0] != '\0' &&
           !config_is_same(record->of[self].address, own->advertise);
}

/* Counts of the other voters of the newest record. */
struct counts {
    uint32_t alive;
    uint32_t voting; /* those of the alive that vote now */
    uint32_t silent; /* connected, and they have not answered */
};

static struct counts count(const struct alive_own *own, const struct peers_asked *asked)
{
    const struct message_voters *record = newest(own, asked);
    struct counts counts = {0};
    for (uint32_t i = 0; i < record->count; i++) {
        const struct peers_answer *answer = answer_of(asked, &record->of[i].name);
        bool alive = answer != NULL && is_alive(answer, record);
        counts.alive += alive;
        counts.voting += alive && answer->status == MESSAGE_STATUS_VOTING;
        counts.silent += answer != NULL && answer->connected && !answer->heard;
    }
    return counts;
}

enum alive_verdict alive_judge(const struct alive_own *own, const struct peers_asked *asked)
{
    const struct message_voters *record = newest(own, asked);
    uint32_t majority = record->count / 2 + 1;
    struct counts counts = count(own, asked);
    bool can = own_can_vote(own, asked);
    for (uint32_t i = 0; i < asked->count; i++) {
        if (is_recovered(&asked->of[i], record)) {
            return ALIVE_RECOVERED;
        }
    }
    if (counts.alive + can >= majority) {
        return can ? ALIVE_WITH_OWN : ALIVE_WITHOUT_OWN;
    }
    if (counts.voting >= (record->count + 1) / 2) { /* what a voter needs to start over */
        return ALIVE_HALF;
    }
    return has_moved(own, record) && counts.alive + counts.silent + can >= majority ? ALIVE_UNSURE
                                                                                    : ALIVE_NO;
}

/* ---- Asking ---- */

static struct alive_own own_of(const struct agent *agent)
{
    return (struct alive_own){.record = &agent->record,
                              .name = agent->host_config.agent,
                              .backup = agent->meta.backup,
                              .advertise = agent->config.advertise};
}

static bool is_enough(void *arg, const struct peers_asked *asked)
{
    const struct alive_own *own = arg;
    enum alive_verdict verdict = alive_judge(own, asked);
    return verdict != ALIVE_NO && verdict != ALIVE_HALF && verdict != ALIVE_UNSURE;
}

enum chosen { CHOSEN_ALIVE, CHOSEN_SILENT, CHOSEN_RECOVERED };

static bool is_chosen(const struct peers_answer *answer, const struct message_voters *record,
                      enum chosen chosen)
{
    bool listed = message_voters_find(record, &answer->name) < record->count;
    return chosen == CHOSEN_RECOVERED ? is_recovered(answer, record)
           : chosen == CHOSEN_ALIVE
               ? listed && is_alive(answer, record)
               : listed && (is_alive(answer, record) || (answer->connected && !answer->heard));
}

/* Writes "host-a at tcp://10.0.0.1:7411, host-b at tcp://10.0.0.2:7411". */
static void write_chosen(const struct peers_asked *asked, const struct message_voters *record,
                         enum chosen chosen, char text[VOTERS_TEXT_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < asked->count && used < VOTERS_TEXT_MAX; i++) {
        const struct peers_answer *answer = &asked->of[i];
        if (is_chosen(answer, record, chosen)) {
            int more = snprintf(text + used, VOTERS_TEXT_MAX - used, "%s%.*s at %s",
                                used > 0 ? ", " : "", (int)answer->name.length, answer->name.text,
                                answer->address);
            used += more > 0 ? (size_t)more : 0;
        }
    }
}

/* Refuses the recovery: a majority is alive, and this store cannot vote. */
static int refuse_without_own(struct agent *agent, const struct message_voters *record,
                              const char *voters)
{
    if (message_voters_find(record, &agent->host_config.agent) == record->count) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE,
                          "nothing was done: a majority of the voters of record %" PRIu32
                          " is alive (%s), and %s is none of those voters: start this host's agent "
                          "as usual, or with an empty state_dir if its store is a backup",
                          record->number, voters, agent->config.agent);
    }
    return agent_fail(agent, AGENT_EXIT_SOFTWARE,
                      "nothing was done: a majority of the voters of record %" PRIu32
                      " is alive (%s) without this store, which cannot vote: let this voter start "
                      "over (holdfast member rejoin), or replace it (on one of their hosts: "
                      "holdfast member replace %s NEW ADDRESS)",
                      record->number, voters, agent->config.agent);
}

static int refuse_half(struct agent *agent, const struct message_voters *record, const char *voters)
{
    return agent_fail(agent, AGENT_EXIT_SOFTWARE,
                      "nothing was done: half of the voters of record %" PRIu32
                      " vote (%s), which is enough for the others to start over: on the host of a "
                      "voter that lost its store, holdfast member rejoin; restart none of those "
                      "that vote until then",
                      record->number, voters);
}

static int refuse_unsure(struct agent *agent, const struct message_voters *record,
                         const char *voters)
{
    uint32_t self = message_voters_find(record, &agent->host_config.agent);
    return agent_fail(agent, AGENT_EXIT_SOFTWARE,
                      "nothing was done: a majority of the voters of record %" PRIu32
                      " may be alive (%s): agents run there that cannot answer, because they know "
                      "%s at %s and not at %s. If they vote (on their hosts: holdfast member), the "
                      "cell is not lost; if they do not, stop them",
                      record->number, voters, agent->config.agent, record->of[self].address,
                      agent->config.advertise);
}

/* Returns AGENT_EXIT_OK if the recovery may go on. */
static int decide(struct agent *agent, const struct alive_own *own, const struct peers_asked *asked)
{
    const struct message_voters *record = newest(own, asked);
    char voters[VOTERS_TEXT_MAX];
    switch (alive_judge(own, asked)) {
    case ALIVE_NO:
        break;
    case ALIVE_WITH_OWN:
        write_chosen(asked, record, CHOSEN_ALIVE, voters);
        return agent_fail(agent, AGENT_EXIT_SOFTWARE,
                          "nothing was done: with this store, a majority of the voters of record "
                          "%" PRIu32 " is alive (%s): start this host's agent as usual",
                          record->number, voters);
    case ALIVE_WITHOUT_OWN:
        write_chosen(asked, record, CHOSEN_ALIVE, voters);
        return refuse_without_own(agent, record, voters);
    case ALIVE_HALF:
        write_chosen(asked, record, CHOSEN_ALIVE, voters);
        return refuse_half(agent, record, voters);
    case ALIVE_RECOVERED:
        write_chosen(asked, record, CHOSEN_RECOVERED, voters);
        return agent_fail(agent, AGENT_EXIT_SOFTWARE,
                          "nothing was done: the cell was recovered, and this store is from before "
                          "(%s): start this host's agent as usual, and it follows; to recover the "
                          "cell once more, use a store from after that recovery",
                          voters);
    case ALIVE_UNSURE:
        write_chosen(asked, record, CHOSEN_SILENT, voters);
        return refuse_unsure(agent, record, voters);
    }
    return AGENT_EXIT_OK;
}

int alive_check(struct agent *agent, struct peers_asked *asked)
{
    struct alive_own own = own_of(agent);
    memset(asked, 0, sizeof(*asked));
    if (own.record->count == 1) {
        return AGENT_EXIT_OK; /* there is nobody to ask */
    }
    if (agent->config.listen[0] == '\0') {
        return agent_fail(
            agent, AGENT_EXIT_CONFIG,
            "found no [cell] listen, expected one: the other voters of record %" PRIu32
            " are asked whether they vote, and answer there",
            own.record->number);
    }
    printf("Asking the other voters whether they vote, for up to %d s...\n", PEERS_ASK_MS / 1000);
    fflush(stdout);
    int code = peers_ask(agent, asked, is_enough, &own);
    return code == AGENT_EXIT_OK ? decide(agent, &own, asked) : code;
}

/* ---- Telling ---- */

static const char *status_text(const struct peers_answer *answer,
                               const struct message_voters *record)
{
    if (!is_of_generation(answer, record->recoveries)) {
        return "it runs, and knows of fewer recoveries of the cell than this store";
    }
    if (is_of_other_cell(answer, record)) {
        return "it runs, and uses other voters: it is of another cell";
    }
    switch ((enum message_voter_status)answer->status) {
    case MESSAGE_STATUS_VOTING:
        return "it votes";
    case MESSAGE_STATUS_LISTED:
        return "it runs, and votes once a majority answers";
    case MESSAGE_STATUS_REFUSED:
        return "it runs, and does not vote: its store was refused";
    case MESSAGE_STATUS_EMPTY:
        return "it runs, and does not vote: its store is empty";
    case MESSAGE_STATUS_REJOINING:
        return "it runs, and does not vote: it starts over";
    case MESSAGE_STATUS_OBSERVER:
    case MESSAGE_STATUS_RETIRED:
    case MESSAGE_STATUS_LEARNING:
    case MESSAGE_STATUS_END:
        break;
    }
    return "it runs, and is no voter";
}

static void print_answer(const struct peers_answer *answer, const struct message_voters *record)
{
    printf("  %-12.*s %s: ", (int)answer->name.length, answer->name.text, answer->address);
    if (answer->heard) {
        printf("%s\n", status_text(answer, record));
    } else if (answer->connected) {
        printf("an agent runs there, and does not answer: it may be an observer, or of another "
               "cell\n");
    } else {
        printf("not reached%s%s\n", answer->why[0] != '\0' ? ": " : "", answer->why);
    }
}

void alive_print(const struct agent *agent, const struct peers_asked *asked)
{
    const struct alive_own own = own_of(agent);
    const struct message_voters *record = newest(&own, asked);
    if (asked->count == 0) {
        return;
    }
    printf("\nThe other voters' answers:\n");
    for (uint32_t i = 0; i < asked->count; i++) {
        print_answer(&asked->of[i], record);
    }
    if (asked->newest.count > 0) {
        printf("One of them knows a newer record than this store, %" PRIu32 ", with the voters",
               asked->newest.number);
        for (uint32_t i = 0; i < asked->newest.count; i++) {
            const struct message_agent *name = &asked->newest.of[i].name;
            printf("%s %.*s", i > 0 ? "," : "", (int)name->length, name->text);
        }
        printf(".\nIf one of these voters still has its store, use that store.\n");
    }
}
