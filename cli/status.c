/*
 * `holdfast status` and `holdfast check`. Each makes one call of the library.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "help.h"
#include "json.h"
#include "judged.h"
#include "options.h"
#include "socket_path.h"
#include "text.h"

/* The command waits for an absent agent only this long, because its user wants the status now. */
static const int64_t status_timeout_ns = 1000000000;

enum { OBSERVERS_MAX = 256 }; /* an agent sends at most this many observers */

/* An observer, as this host's agent knows it. */
struct observer {
    enum hf_voter_state state; /* up, or down: silent for too long, or its session is over */
    char name[64];
    char address[160];
};

struct observers {
    bool known;     /* false: an older agent, which does not report observers */
    uint64_t total; /* number of observers that the agent knows; the list may have fewer */
    size_t count;
    struct observer list[OBSERVERS_MAX];
};

static void observers_json(struct json *json, const struct observers *observers)
{
    if (!observers->known) {
        json_null(json, "observers");
        json_null(json, "observer_count");
        return;
    }
    json_open_array(json, "observers");
    for (size_t index = 0; index < observers->count; index++) {
        const struct observer *observer = &observers->list[index];

        json_open_object(json, NULL);
        json_text(json, "name", observer->name);
        json_text(json, "address", observer->address[0] != '\0' ? observer->address : NULL);
        json_text(json, "state", text_voter(observer->state));
        json_close_object(json);
    }
    json_close_array(json);
    json_unsigned(json, "observer_count", observers->total);
}

static void observers_show(const struct observers *observers)
{
    for (size_t index = 0; index < observers->count; index++) {
        const struct observer *observer = &observers->list[index];
        bool known = observer->address[0] != '\0';

        printf("observer %s %s%s%s\n", observer->name, text_voter(observer->state),
               known ? " at " : "", observer->address);
    }
    if (observers->total > observers->count) {
        printf("observer and %" PRIu64 " more\n", observers->total - observers->count);
    }
}

static void status_json(const struct hf_status *status, const struct socket_path *socket,
                        const struct judged *judged, const struct observers *observers)
{
    struct json json;

    json_init(&json, stdout);
    json_open_object(&json, NULL);
    json_text(&json, "agent", status->agent);
    json_text(&json, "cell", status->cell);
    json_text(&json, "role", status->role);
    json_text(&json, "version", status->version);
    json_open_object(&json, "session");
    json_text(&json, "state", judged_session(judged, status->session_state));
    json_unsigned(&json, "epoch", status->session_epoch);
    json_ms_or_null(&json, "remaining_ms", status->session_remaining_ns);
    json_close_object(&json);
    json_open_array(&json, "voters");
    for (size_t index = 0; index < status->voter_count; index++) {
        const struct hf_voter_info *voter = status->voters[index];

        json_open_object(&json, NULL);
        json_text(&json, "name", voter->name);
        json_text(&json, "address", voter->address);
        json_text(&json, "state", text_voter(voter->state));
        json_close_object(&json);
    }
    json_close_array(&json);
    json_unsigned(&json, "clients", status->clients);
    json_unsigned(&json, "locks_held", status->locks_held);
    json_unsigned(&json, "waiters", status->waiters);
    json_text(&json, "socket", socket->path);
    json_text(&json, "socket_why", socket->from);
    judged_write_json(judged, &json);
    observers_json(&json, observers);
    json_close_object(&json);
    putchar('\n');
}

static const char *text_or_unknown(const char *text)
{
    return text != NULL ? text : "?";
}

static void judged_show(const struct judged *judged)
{
    if (judged->word[0] != '\0') {
        printf("state    %s\n", judged->word);
    }
    for (size_t index = 0; index < judged->count; index++) {
        const struct judged_reason *reason = &judged->reasons[index];

        printf("reason   %s%s%s: ", reason->name, reason->subject[0] != '\0' ? " " : "",
               reason->subject);
        (void)text_write_clean(stdout, reason->text, 0);
        putchar('\n');
    }
}

static void status_text(const struct hf_status *status, const struct socket_path *socket,
                        const struct judged *judged, const struct observers *observers)
{
    char left[TEXT_DURATION_SIZE];

    printf("agent    %s (%s) of cell %s, version %s\n", text_or_unknown(status->agent),
           text_or_unknown(status->role), text_or_unknown(status->cell),
           text_or_unknown(status->version));
    printf("socket   ");
    (void)text_write_clean(stdout, socket->path, 0);
    printf(" (%s)\n", socket->from);
    judged_show(judged);
    printf("session  %s, epoch %" PRIu64 ", %s left\n",
           judged_session(judged, status->session_state), status->session_epoch,
           text_duration(left, status->session_remaining_ns));
    for (size_t index = 0; index < status->voter_count; index++) {
        const struct hf_voter_info *voter = status->voters[index];

        printf("voter    %s %s%s%s\n", text_or_unknown(voter->name), text_voter(voter->state),
               voter->address != NULL ? " at " : "", voter->address != NULL ? voter->address : "");
    }
    observers_show(observers);
    printf("clients  %" PRIu64 "\nheld     %" PRIu64 "\nwaiters  %" PRIu64 "\n", status->clients,
           status->locks_held, status->waiters);
}

struct status_answer {
    struct socket_path socket;
    struct judged judged;
    struct observers observers;
    bool json;
    bool safe;
};

static void status_show(const struct hf_status *status, void *arg)
{
    struct status_answer *answer = arg;

    answer->safe = status->session_state == HF_SESSION_SAFE;
    if (answer->json) {
        status_json(status, &answer->socket, &answer->judged, &answer->observers);
    } else {
        status_text(status, &answer->socket, &answer->judged, &answer->observers);
    }
}

static int take_fact(const struct hf_fact *fact, void *arg)
{
    struct status_answer *answer = arg;
    struct observers *observers = &answer->observers;

    judged_take(&answer->judged, fact);
    if (fact->key != NULL && strcmp(fact->key, "observers") == 0) {
        observers->known = true;
        observers->total = fact->value > 0 ? (uint64_t)fact->value : 0;
    } else if (fact->key != NULL && strcmp(fact->key, "observer") == 0 && fact->subject != NULL &&
               observers->count < OBSERVERS_MAX) {
        struct observer *observer = &observers->list[observers->count++];

        observer->state = fact->value != 0 ? HF_VOTER_UP : HF_VOTER_DOWN;
        snprintf(observer->name, sizeof(observer->name), "%s", fact->subject);
        snprintf(observer->address, sizeof(observer->address), "%s",
                 fact->text != NULL ? fact->text : "");
    }
    return 0;
}

int command_status(struct cli *cli, int argc, char **argv)
{
    struct status_answer answer = {.json = false};
    struct arguments words;
    hf_client *client = NULL;
    int error;
    int status = options_parse(cli, "status", NULL, 0, argc, argv, &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "status");
    }
    status = status != 0 ? status : words_expect("status", &words, 0, 0, "no argument");
    status = status != 0 ? status : cli_connect(cli, "status", status_timeout_ns, &client);
    if (status != 0) {
        return status;
    }
    answer.json = cli->json;
    (void)socket_path_used(cli, hf_socket(client), &answer.socket);
    /* If hf_facts() fails, the command shows the status without the judgement and observers. */
    (void)!hf_facts(client, take_fact, &answer);
    error = hf_status(client, status_show, &answer);
    hf_disconnect(client);
    if (error != 0) {
        return cli_fail_call("status", "asking the agent", error);
    }
    return answer.safe ? CLI_OK : CLI_NOT_NOW;
}

int command_check(struct cli *cli, int argc, char **argv)
{
    struct arguments words;
    hf_client *client = NULL;
    const char *answer;
    int error;
    int status = options_parse(cli, "check", NULL, 0, argc, argv, &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "check");
    }
    status = status != 0 ? status : words_expect("check", &words, 1, 1, "one SEQUENCER");
    status = status != 0 ? status : cli_connect(cli, "check", 0, &client);
    if (status != 0) {
        return status;
    }
    error = hf_check_sequencer(client, words.plain[0]);
    hf_disconnect(client);
    if (error == 0) {
        status = CLI_OK;
        answer = "held";
    } else if (error == HF_ESTALE) {
        status = CLI_NOT_HELD;
        answer = "stale";
    } else if (error == HF_EUNKNOWN) {
        status = CLI_NOT_NOW;
        answer = "unknown";
    } else {
        return cli_fail_call("check", words.plain[0], error);
    }
    if (cli->json) {
        struct json json;

        json_init(&json, stdout);
        json_open_object(&json, NULL);
        json_text(&json, "sequencer", words.plain[0]);
        json_text(&json, "state", answer);
        json_close_object(&json);
        putchar('\n');
    } else {
        puts(answer);
    }
    return status;
}
