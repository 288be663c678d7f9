/*
 * `holdfast doctor`: asks the agent for its status and its facts, runs all checks (doctor.h), and
 * prints the findings, the worst first.
 */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "help.h"
#include "json.h"
#include "options.h"
#include "socket_path.h"
#include "text.h"

/* The command waits for an absent agent only this long, as `holdfast status` does. */
static const int64_t doctor_timeout_ns = 1000000000;

static const char *const level_names[] = {"ok", "warn", "error"};

/* ---- facts and findings ---- */

const struct fact *doctor_fact(const struct doctor *doctor, const char *subject, const char *key)
{
    for (size_t i = 0; i < doctor->fact_count; i++) {
        const struct fact *fact = &doctor->facts[i];

        if (strcmp(fact->key, key) == 0 &&
            strcmp(fact->subject, subject == NULL ? "" : subject) == 0) {
            return fact;
        }
    }
    return NULL;
}

int64_t doctor_value(const struct doctor *doctor, const char *subject, const char *key,
                     int64_t otherwise)
{
    const struct fact *fact = doctor_fact(doctor, subject, key);

    return fact == NULL ? otherwise : fact->value;
}

struct finding *doctor_find(struct doctor *doctor, enum finding_level level, const char *check,
                            const char *subject, const char *format, ...)
{
    /* When the array is full, a further finding replaces the last one. The checks of a cell of
     * seven voters, the largest, cannot fill it. */
    size_t found = doctor->finding_count < DOCTOR_FINDINGS_MAX ? doctor->finding_count++
                                                               : DOCTOR_FINDINGS_MAX - 1;
    struct finding *finding = &doctor->findings[found];
    va_list arguments;

    memset(finding, 0, sizeof *finding);
    finding->level = level;
    finding->check = check;
    snprintf(finding->subject, sizeof finding->subject, "%s", subject == NULL ? "" : subject);
    va_start(arguments, format);
    vsnprintf(finding->found, sizeof finding->found, format, arguments);
    va_end(arguments);
    return finding;
}

void doctor_advise(struct finding *finding, const char *expected, const char *remedy)
{
    snprintf(finding->expected, sizeof finding->expected, "%s", expected);
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy);
}

/* ---- asking ---- */

static void take_status(const struct hf_status *status, void *arg)
{
    struct doctor *doctor = arg;

    snprintf(doctor->name, sizeof doctor->name, "%s", status->agent != NULL ? status->agent : "?");
    doctor->session = status->session_state;
    doctor->session_remaining_ns = status->session_remaining_ns;
    doctor->clients = status->clients;
    for (size_t i = 0; i < status->voter_count && i < DOCTOR_VOTERS_MAX; i++) {
        struct doctor_voter *voter = &doctor->voters[doctor->voter_count++];

        snprintf(voter->name, sizeof voter->name, "%s",
                 status->voters[i]->name != NULL ? status->voters[i]->name : "?");
        snprintf(voter->address, sizeof voter->address, "%s",
                 status->voters[i]->address != NULL ? status->voters[i]->address : "");
        voter->state = status->voters[i]->state;
    }
}

static int take_fact(const struct hf_fact *sent, void *arg)
{
    struct doctor *doctor = arg;
    struct fact *fact = &doctor->facts[doctor->fact_count];

    judged_take(&doctor->judged, sent);
    if (doctor->fact_count == DOCTOR_FACTS_MAX || sent->key == NULL) {
        return 0;
    }
    snprintf(fact->subject, sizeof fact->subject, "%s", sent->subject == NULL ? "" : sent->subject);
    snprintf(fact->key, sizeof fact->key, "%s", sent->key);
    snprintf(fact->text, sizeof fact->text, "%s", sent->text == NULL ? "" : sent->text);
    fact->value = sent->value;
    doctor->fact_count++;
    return 0;
}

/* Asks the agent for its status and its facts. */
static void ask(struct cli *cli, struct doctor *doctor)
{
    char why[DOCTOR_TEXT_MAX] = "";
    struct hf_options options = {.size = sizeof options,
                                 .socket = cli->socket,
                                 .connect_timeout_ns = doctor_timeout_ns,
                                 .why = why,
                                 .why_size = sizeof why};
    struct socket_path found;
    hf_client *client = NULL;
    int error = hf_connect(&options, &client);

    if (error == 0) {
        error = hf_status(client, take_status, doctor);
    }
    if (error != 0) {
        doctor->refused = error == HF_EACCES;
        doctor_no_agent(doctor, error, client == NULL && why[0] != '\0' ? why : hf_strerror(error));
        if (client != NULL) {
            hf_disconnect(client);
        }
        return;
    }
    doctor->agent = true;
    (void)socket_path_used(cli, hf_socket(client), &found);
    snprintf(doctor->socket, sizeof doctor->socket, "%s", found.path);
    doctor->socket_from = found.from;
    doctor->socket_own = found.own;
    error = hf_facts(client, take_fact, doctor);
    doctor->answered = error == 0;
    hf_disconnect(client);
    if (error != 0) {
        struct finding *finding = doctor_find(doctor, FINDING_WARN, "agent", NULL,
                                              "it does not report its state: %s",
                                              hf_strerror(error));
        doctor_advise(finding, "an agent that answers this version of `holdfast doctor`",
                      "run the agent of the same version, then restart it");
    } else {
        doctor_find(doctor, FINDING_OK, "agent", NULL, "%s answers at %s", doctor->name,
                    doctor->socket);
    }
}

/* ---- printing ---- */

static enum finding_level worst_of(const struct doctor *doctor)
{
    enum finding_level worst = FINDING_OK;

    for (size_t i = 0; i < doctor->finding_count; i++) {
        worst = doctor->findings[i].level > worst ? doctor->findings[i].level : worst;
    }
    return worst;
}

static void print_json(const struct doctor *doctor)
{
    struct json json;

    json_init(&json, stdout);
    json_open_object(&json, NULL);
    json_text(&json, "agent", doctor->agent ? doctor->name : NULL);
    json_text(&json, "level", level_names[worst_of(doctor)]);
    json_open_array(&json, "findings");
    for (size_t i = 0; i < doctor->finding_count; i++) {
        const struct finding *finding = &doctor->findings[i];

        json_open_object(&json, NULL);
        json_text(&json, "level", level_names[finding->level]);
        json_text(&json, "check", finding->check);
        json_text(&json, "subject", finding->subject[0] != '\0' ? finding->subject : NULL);
        json_text(&json, "found", finding->found);
        json_text(&json, "expected", finding->expected[0] != '\0' ? finding->expected : NULL);
        json_text(&json, "remedy", finding->remedy[0] != '\0' ? finding->remedy : NULL);
        json_close_object(&json);
    }
    json_close_array(&json);
    json_close_object(&json);
    putchar('\n');
}

static void print_line(const char *first, const char *second, const char *text)
{
    printf("%-6s %-12s ", first, second);
    (void)text_write_clean(stdout, text, 0);
    putchar('\n');
}

static void print_text(const struct doctor *doctor)
{
    for (int level = FINDING_ERROR; level >= FINDING_OK; level--) {
        for (size_t i = 0; i < doctor->finding_count; i++) {
            const struct finding *finding = &doctor->findings[i];
            char found[DOCTOR_TEXT_MAX + DOCTOR_SUBJECT_MAX + 2];

            if ((int)finding->level != level) {
                continue;
            }
            snprintf(found, sizeof found, "%s%s%s", finding->subject,
                     finding->subject[0] != '\0' ? ": " : "", finding->found);
            print_line(level_names[level], finding->check, found);
            if (finding->expected[0] != '\0') {
                print_line("", "  expected", finding->expected);
                print_line("", "  remedy", finding->remedy);
            }
        }
    }
}

int command_doctor(struct cli *cli, int argc, char **argv)
{
    static const int codes[] = {CLI_OK, CLI_DOCTOR_WARNS, CLI_DOCTOR_FINDS};
    struct doctor *doctor;
    struct arguments words;
    struct socket_path found;
    int status = options_parse(cli, "doctor", NULL, 0, argc, argv, &words);

    if (status == 0 && help_is_wanted(cli)) {
        return help_answer(cli, "doctor");
    }
    status = status != 0 ? status : words_expect("doctor", &words, 0, 0, "no argument");
    if (status != 0) {
        return status;
    }
    doctor = calloc(1, sizeof *doctor);
    if (doctor == NULL) {
        return cli_fail("doctor", "looking", HF_ENOMEM);
    }
    socket_path_find(cli, &found);
    snprintf(doctor->socket, sizeof doctor->socket, "%s", found.path);
    doctor->socket_from = found.from;
    doctor->socket_own = found.own;
    if (found.size > found.size_max) {
        doctor_path_too_long(doctor, &found);
    } else {
        ask(cli, doctor);
    }
    doctor_look_at_socket(doctor);
    doctor_look_at_clock(doctor);
    doctor_look_at_memory(doctor);
    if (doctor->agent) {
        doctor_look_at_agent(doctor);
        doctor_look_at_cell(doctor);
    }
    doctor_look_at_disk(doctor);
    if (cli->json) {
        print_json(doctor);
    } else {
        print_text(doctor);
    }
    if (doctor->agent) {
        status = codes[worst_of(doctor)];
    } else {
        status = doctor->refused ? CLI_NOT_ALLOWED : CLI_NO_AGENT;
    }
    free(doctor);
    return status;
}
