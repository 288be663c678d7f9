/*
 * `holdfast member add`, `remove`, `replace` and `move`: see member_change.h.
 *
 * The command asks the agent again and again how far the change has come, until it is complete. It
 * keeps nothing: if it is interrupted, the same command on any voter's host goes on with the same
 * change. If the change is already made, that is no error. If the change has to wait for an earlier
 * one, the command asks for it again.
 */
#include "member_change.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

enum { VOTERS_MAX = 7, ADDRESS_MAX = 128, NAME_MAX_SIZE = 33 };
enum { NAMES_TEXT_MAX = VOTERS_MAX * (NAME_MAX_SIZE + 1) + 1 };

static const int64_t connect_timeout_ns = 1000000000;
static const int64_t second_ns = 1000000000;
static const int64_t pause_ns = 100000000;

/* One step: a change of one voter. */
struct change_step {
    enum hf_member_act act;
    const char *name;
    const char *address; /* NULL for a removal */
};

/* The voters of the cell, as the agent last showed them. */
struct cell_voters {
    size_t count;
    struct {
        char name[NAME_MAX_SIZE];
        char address[ADDRESS_MAX]; /* "": not known */
        enum hf_voter_state state;
    } of[VOTERS_MAX];
};

struct changing {
    struct cli *cli;
    hf_client *client;
    int64_t end_ns; /* when the wait is over; INT64_MAX: never */
    struct cell_voters voters;
    bool complete;               /* the record of voters is complete, as the agent last said */
    char removed[NAME_MAX_SIZE]; /* the voter that the last change removed; "": it removed none */
    /* the last answer */
    struct hf_member_info info;
    char subject[NAME_MAX_SIZE];
    const struct change_step *before; /* the earlier step, which is complete; NULL: none */
    bool lined;                       /* the line about the progress has no newline yet */
    enum hf_member_stage shown;
    char shown_silent[NAME_MAX_SIZE]; /* the voter that the last line says the change waits for */
};

static int64_t now_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * second_ns + time.tv_nsec;
}

static void rest(void)
{
    const struct timespec time = {.tv_nsec = pause_ns};
    (void)nanosleep(&time, NULL);
}

/* ---- messages ---- */

static void end_line(struct changing *changing)
{
    if (changing->lined) {
        fputc('\n', stderr);
        changing->lined = false;
    }
}

static const char *stage_text(enum hf_member_stage stage)
{
    switch (stage) {
    case HF_MEMBER_LEARNS:
        return "copies the cell's state";
    case HF_MEMBER_DECIDES:
        return "the voters decide";
    case HF_MEMBER_CHOSEN:
        return "decided; the cell settles";
    case HF_MEMBER_COMPLETE:
        return "complete";
    case HF_MEMBER_REFUSED:
        break;
    }
    return "refused";
}

/* Writes how far the change has come: on a terminal in one line that changes, else a line for each
 * stage, and for each voter that the change waits for. */
static void show_progress(struct changing *changing, const struct change_step *step)
{
    const struct hf_member_info *info = &changing->info;
    bool terminal = isatty(STDERR_FILENO) == 1;
    const char *silent = info->reason == HF_MEMBER_SILENT ? changing->subject : "";
    bool same = info->stage == changing->shown && strcmp(silent, changing->shown_silent) == 0;
    if (changing->cli->json || (!terminal && same)) {
        return;
    }
    changing->shown = info->stage;
    snprintf(changing->shown_silent, sizeof changing->shown_silent, "%s", silent);
    fprintf(stderr, "%s%s: %s", terminal ? "\r\033[K" : "", step->name, stage_text(info->stage));
    if (info->total > 0) {
        fprintf(stderr, ", %" PRIu64 " of %" PRIu64, info->done, info->total);
    }
    if (silent[0] != '\0') {
        fprintf(stderr, "; waits for %s", silent);
    }
    changing->lined = terminal;
    if (!terminal) {
        fputc('\n', stderr);
    }
    (void)fflush(stderr);
}

static const char *act_text(enum hf_member_act act)
{
    return act == HF_MEMBER_ADD ? "add" : act == HF_MEMBER_REMOVE ? "remove" : "move";
}

/* Why the voters refuse a change, and what to do. %s is the agent that the reason is about. */
static const struct {
    enum hf_member_reason reason;
    int status;
    const char *name; /* in JSON */
    const char *text;
} refusals[] = {
    {HF_MEMBER_NOT_VOTING, CLI_NOT_NOW, "not_voting", "the voter that was asked does not vote"},
    {HF_MEMBER_NUMBER, CLI_NOT_NOW, "number",
     "the voters have changed meanwhile: look at them "
     "with `holdfast member`, and begin again"},
    {HF_MEMBER_INCOMPLETE, CLI_NOT_NOW, "incomplete",
     "the change before this one is not complete yet"},
    {HF_MEMBER_BUSY, CLI_NOT_NOW, "busy", "another change is under way"},
    {HF_MEMBER_SILENT, CLI_NOT_NOW, "silent",
     "%s does not answer, and the change needs it: start its agent first"},
    {HF_MEMBER_OLDER, CLI_NOT_NOW, "older",
     "%s runs a release that cannot change voters: upgrade it first"},
    {HF_MEMBER_IS_VOTER, CLI_FAILED, "is_voter", "%s is a voter already"},
    {HF_MEMBER_NO_VOTER, CLI_FAILED, "no_voter", "%s is no voter"},
    {HF_MEMBER_MOST, CLI_FAILED, "most",
     "the cell has seven voters, the most that a cell may have: remove one first"},
    {HF_MEMBER_LAST, CLI_FAILED, "last", "%s is the only voter of the cell"},
    {HF_MEMBER_REJOINING, CLI_NOT_NOW, "rejoining",
     "%s starts over: wait until `holdfast member` shows it as up"},
    {HF_MEMBER_RIVAL, CLI_NOT_NOW, "rival", "another change was decided first"},
    {HF_MEMBER_SAME, CLI_FAILED, "same", "%s has that address already"},
    {HF_MEMBER_IDS, CLI_FAILED, "ids", "the cell has used up the numbers of its voters"},
    {HF_MEMBER_OBSERVER, CLI_NOT_ALLOWED, "observer",
     "this host's agent is no voter, and only voters may change the voters: give the command on "
     "the host of a voter (%s is one)"},
    {HF_MEMBER_TAKEN, CLI_FAILED, "taken", "%s has that address"},
};

static size_t refusal_of(enum hf_member_reason reason)
{
    size_t index = 0;
    while (index + 1 < sizeof refusals / sizeof refusals[0] && refusals[index].reason != reason) {
        index++;
    }
    return index;
}

static void write_json(const struct change_step *step, const char *stage, const char *reason,
                       const char *subject)
{
    struct json json;
    json_init(&json, stdout);
    json_open_object(&json, NULL);
    json_text(&json, "act", act_text(step->act));
    json_text(&json, "name", step->name);
    json_text(&json, "address", step->address);
    json_text(&json, "stage", stage);
    json_text(&json, "reason", reason);
    json_text(&json, "subject", subject != NULL && subject[0] != '\0' ? subject : NULL);
    json_close_object(&json);
    putchar('\n');
}

/* Writes the names of the voters to `text`, as in "a, b, c". Returns text. */
static const char *voter_names(const struct cell_voters *voters, char text[NAMES_TEXT_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < voters->count && used < NAMES_TEXT_MAX; i++) {
        int size = snprintf(text + used, NAMES_TEXT_MAX - used, "%s%s", i > 0 ? ", " : "",
                            voters->of[i].name);
        used += size > 0 ? (size_t)size : 0;
    }
    return text;
}

static int say_refused(struct changing *changing, const struct change_step *step)
{
    size_t index = refusal_of(changing->info.reason);
    const char *subject = changing->subject[0] != '\0' ? changing->subject : step->name;
    char names[NAMES_TEXT_MAX];
    end_line(changing);
    if (changing->cli->json) {
        write_json(step, "refused", refusals[index].name, changing->subject);
    }
    fprintf(stderr, "holdfast member %s: ", act_text(step->act));
    if (changing->info.reason == HF_MEMBER_SILENT && step->address != NULL &&
        strcmp(subject, step->name) == 0) {
        fprintf(stderr, "%s does not answer at %s: look at the address and at its agent", subject,
                step->address);
    } else if (changing->info.reason == HF_MEMBER_SILENT && changing->subject[0] == '\0') {
        fputs("the voters did not decide in time: give the command again", stderr);
    } else if (changing->info.reason == HF_MEMBER_SILENT && step->act == HF_MEMBER_REMOVE &&
               strcmp(subject, step->name) == 0) {
        fprintf(stderr,
                "%s does not answer, and the other voter alone is no majority of two: start its "
                "agent first; if its store is lost, let it start over (OPERATIONS.md, \"A voter's "
                "store\")",
                subject);
    } else {
        fprintf(stderr, refusals[index].text, subject);
    }
    if (changing->info.reason == HF_MEMBER_NO_VOTER) {
        fprintf(stderr, ", expected one of %s", voter_names(&changing->voters, names));
    }
    if (changing->before != NULL) {
        fprintf(stderr, "; %s is %s voter, and nothing else was changed\n", changing->before->name,
                changing->before->act == HF_MEMBER_ADD ? "a" : "no");
    } else {
        fputs("; nothing was changed\n", stderr);
    }
    return refusals[index].status;
}

static int say_late(struct changing *changing, const struct change_step *step)
{
    static const char *const names[] = {"waits",   "refused", "learns",
                                        "decides", "chosen",  "complete"};
    end_line(changing);
    if (changing->cli->json) {
        write_json(step, names[changing->info.stage], NULL, changing->subject);
    }
    fprintf(stderr,
            "holdfast member %s: %s: not complete in time; the change goes on, and the same "
            "command waits for it again\n",
            act_text(step->act), step->name);
    return CLI_NOT_NOW;
}

static void say_done(struct changing *changing, const struct change_step *step)
{
    end_line(changing);
    if (changing->cli->json) {
        write_json(step, "complete", NULL, NULL);
    } else if (step->act == HF_MEMBER_ADD) {
        printf("%s is a voter, at %s\n", step->name, step->address);
    } else if (step->act == HF_MEMBER_REMOVE) {
        printf("%s is no voter; its agent may be switched off\n", step->name);
    } else {
        printf("%s is at %s\n", step->name, step->address);
    }
}

/* The agent to remove is no voter, and the last change did not remove it: the name may be
 * mistyped. */
static void say_was_none(struct changing *changing, const struct change_step *step)
{
    char names[NAMES_TEXT_MAX];
    end_line(changing);
    if (changing->cli->json) {
        write_json(step, "complete", NULL, NULL);
    } else {
        printf("%s is no voter, and nothing was changed (the voters are %s)\n", step->name,
               voter_names(&changing->voters, names));
    }
}

/* ---- the present voters ---- */

static void take_status(const struct hf_status *status, void *arg)
{
    struct changing *changing = arg;
    struct cell_voters *voters = &changing->voters;
    voters->count = 0;
    for (size_t i = 0; i < status->voter_count && i < VOTERS_MAX; i++) {
        const struct hf_voter_info *voter = status->voters[i];
        snprintf(voters->of[i].name, sizeof voters->of[i].name, "%s",
                 voter->name != NULL ? voter->name : "");
        snprintf(voters->of[i].address, sizeof voters->of[i].address, "%s",
                 voter->address != NULL ? voter->address : "");
        voters->of[i].state = voter->state;
        voters->count++;
    }
}

static int take_fact(const struct hf_fact *fact, void *arg)
{
    struct changing *changing = arg;
    if (fact->subject == NULL && strcmp(fact->key, "voters_complete") == 0) {
        changing->complete = fact->value != 0;
    } else if (fact->subject != NULL && strcmp(fact->key, "removed") == 0) {
        snprintf(changing->removed, sizeof changing->removed, "%s", fact->subject);
    }
    return 0;
}

static int look(struct changing *changing)
{
    changing->complete = true;
    changing->removed[0] = '\0';
    int error = hf_status(changing->client, take_status, changing);
    error = error != 0 ? error : hf_facts(changing->client, take_fact, changing);
    return error == 0 ? 0 : cli_fail_call("member", "asking the agent", error);
}

/* Returns the index of the voter of that name; voters->count if there is none. */
static size_t find(const struct cell_voters *voters, const char *name)
{
    size_t index = 0;
    while (index < voters->count && strcmp(voters->of[index].name, name) != 0) {
        index++;
    }
    return index;
}

/* Returns whether the voters are already as the step makes them. */
static bool is_so(const struct changing *changing, const struct change_step *step)
{
    size_t index = find(&changing->voters, step->name);
    bool voter = index < changing->voters.count;
    if (step->act == HF_MEMBER_REMOVE) {
        return !voter;
    }
    return voter && strcmp(changing->voters.of[index].address, step->address) == 0;
}

/* ---- a step ---- */

static void take_info(const struct hf_member_info *info, void *arg)
{
    struct changing *changing = arg;
    changing->info = *info;
    snprintf(changing->subject, sizeof changing->subject, "%s",
             info->subject != NULL ? info->subject : "");
}

/* Returns whether a change that was refused for this reason may succeed later. */
static bool may_pass(enum hf_member_reason reason)
{
    return reason == HF_MEMBER_NOT_VOTING || reason == HF_MEMBER_NUMBER ||
           reason == HF_MEMBER_INCOMPLETE || reason == HF_MEMBER_BUSY || reason == HF_MEMBER_RIVAL;
}

static bool is_over(const struct changing *changing)
{
    return now_ns() >= changing->end_ns;
}

/* If no majority of the voters answers, notes one that does not answer: the record waits for it. */
static void note_silent(struct changing *changing)
{
    const struct cell_voters *voters = &changing->voters;
    size_t up = 0;
    size_t silent = 0;
    for (size_t i = 0; i < voters->count; i++) {
        up += voters->of[i].state == HF_VOTER_UP;
        silent = voters->of[i].state != HF_VOTER_UP ? i : silent;
    }
    if (up < voters->count / 2 + 1) {
        changing->info.reason = HF_MEMBER_SILENT;
        memcpy(changing->subject, voters->of[silent].name, sizeof changing->subject);
    }
}

/* Waits until the record that has the change is complete. */
static int settle(struct changing *changing, const struct change_step *step)
{
    int status = look(changing);
    while (status == 0 && !changing->complete) {
        changing->info = (struct hf_member_info){.stage = HF_MEMBER_CHOSEN};
        changing->subject[0] = '\0';
        note_silent(changing);
        show_progress(changing, step);
        if (is_over(changing)) {
            return say_late(changing, step);
        }
        rest();
        status = look(changing);
    }
    if (status != 0) {
        return status;
    }
    if (step->act == HF_MEMBER_REMOVE && strcmp(changing->removed, step->name) != 0) {
        say_was_none(changing, step);
    } else {
        say_done(changing, step);
    }
    return CLI_OK;
}

/* The agent to add is a voter already, but with another address. That is no success. */
static int say_elsewhere(struct changing *changing, const struct change_step *step)
{
    size_t index = find(&changing->voters, step->name);
    end_line(changing);
    return cli_fail_with(CLI_FAILED, "member add",
                         "%s is a voter already, at %s; `holdfast member move %s %s` changes its "
                         "address",
                         step->name, changing->voters.of[index].address, step->name, step->address);
}

static int take_step(struct changing *changing, const struct change_step *step)
{
    struct hf_member_change change = {
        .act = step->act, .name = step->name, .address = step->address};
    int status = look(changing);
    changing->shown = 0;
    changing->shown_silent[0] = '\0';
    if (status != 0 || is_so(changing, step)) {
        return status != 0 ? status : settle(changing, step);
    }
    if (step->act == HF_MEMBER_ADD &&
        find(&changing->voters, step->name) < changing->voters.count) {
        return say_elsewhere(changing, step);
    }
    changing->info = (struct hf_member_info){.stage = 0};
    for (;;) {
        int error = hf_member(changing->client, &change, take_info, changing);
        if (error != 0 && error != HF_ETIMEDOUT) {
            end_line(changing);
            return cli_fail_call("member", "changing the voters", error);
        }
        if (error == 0 && changing->info.stage == HF_MEMBER_COMPLETE) {
            say_done(changing, step);
            return CLI_OK;
        }
        if (error == 0 && changing->info.stage == HF_MEMBER_REFUSED) {
            /* an earlier call of this command, or another operator, may have made the change
             * already */
            status = look(changing);
            if (status != 0 || is_so(changing, step)) {
                return status != 0 ? status : settle(changing, step);
            }
            if (!may_pass(changing->info.reason) || is_over(changing)) {
                return say_refused(changing, step);
            }
            change.id = 0;
            change.number = 0;
        } else if (error == 0) {
            show_progress(changing, step);
        }
        if (is_over(changing)) {
            return say_late(changing, step);
        }
        rest();
    }
}

/* ---- the command line ---- */

static const struct {
    const char *word;
    size_t words; /* how many words the command line has, with `word` itself */
    const char *expected;
} changes[] = {
    {"add", 3, "NAME and ADDRESS"},
    {"remove", 2, "NAME"},
    {"replace", 4, "OLD, NEW and ADDRESS"},
    {"move", 3, "NAME and ADDRESS"},
};

enum { CHANGES = sizeof changes / sizeof changes[0] };

static size_t change_of(const char *word)
{
    size_t index = 0;
    while (index < CHANGES && strcmp(changes[index].word, word) != 0) {
        index++;
    }
    return index;
}

bool member_is_change(const char *word)
{
    return change_of(word) < CHANGES;
}

static bool is_tls(const char *address)
{
    return strncmp(address, "tls+tcp://", 10) == 0;
}

/* Returns whether the text is a port number that the agent's configuration accepts. */
static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 6 && text[digits] == '\0' && text[0] != '0' &&
           strtol(text, NULL, 10) <= UINT16_MAX;
}

static int check_address(const char *where, const char *address)
{
    size_t scheme = is_tls(address) ? 10 : strncmp(address, "tcp://", 6) == 0 ? 6 : 0;
    const char *port = strrchr(address, ':');
    if (scheme == 0 || strlen(address) >= ADDRESS_MAX || port == NULL || port <= address + scheme ||
        strpbrk(address, " \t\r\n") != NULL || !is_port(port + 1)) {
        return cli_usage_error(
            where, "found the address \"%s\", expected tcp://HOST:PORT or tls+tcp://HOST:PORT",
            address);
    }
    return 0;
}

/* Checks the names before the first step of a change, because the first step of `replace` may
 * remove a voter. An empty word and one of more than 32 bytes, for example, are no names of
 * agents. */
static int check_names(const char *where, char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(names[i]);
        if (size == 0 || size >= NAME_MAX_SIZE ||
            strspn(names[i], "abcdefghijklmnopqrstuvwxyz0123456789_-") != size) {
            return cli_usage_error(
                where, "found the name \"%.64s\", expected 1 to 32 of a-z 0-9 _ -", names[i]);
        }
    }
    if (count == 2 && strcmp(names[0], names[1]) == 0) {
        return cli_usage_error(where,
                               "found \"%s\" twice, expected two agents: `holdfast member move` "
                               "changes an address, and a lost store starts over (`holdfast "
                               "member rejoin`)",
                               names[0]);
    }
    return 0;
}

/* Checks three rules by the agent's status. A voter that listens nowhere cannot have other voters
 * beside it. Either all voters have TLS, or none has. Each voter has an address of its own. The
 * agent checks the last rule, too, but then the first step of `replace` may have removed a voter.
 * new: the voter that gets the address. old: the voter that it replaces; NULL: none. If the old one
 * does not answer, it is removed first, so the new one may have its address. */
static int check_cell(const struct changing *changing, const char *where, const char *old,
                      const char *new, const char *address)
{
    for (size_t i = 0; address != NULL && i < changing->voters.count; i++) {
        const char *known = changing->voters.of[i].address;
        const char *name = changing->voters.of[i].name;
        bool replaced = old != NULL && strcmp(name, old) == 0;
        bool leaves = replaced && changing->voters.of[i].state != HF_VOTER_UP;
        if (strcmp(known, address) == 0 && strcmp(name, new) != 0 && !leaves) {
            return cli_fail_with(CLI_FAILED, where,
                                 "%s has the address %s, and each voter needs one of its own%s; "
                                 "nothing was changed",
                                 name, address,
                                 replaced ? ": stop its agent first, and start the new one there"
                                          : "");
        }
        if (known[0] == '\0') {
            return cli_fail_with(
                CLI_FAILED, where,
                "%s listens nowhere, so no other agent can reach it: set listen and advertise in "
                "[cell] of its configuration, restart its agent, and begin again; nothing was "
                "changed",
                name);
        }
        if (is_tls(known) != is_tls(address)) {
            return cli_usage_error(where,
                                   "found the address \"%s\", expected %s, as the other voters",
                                   address, is_tls(known) ? "tls+tcp://" : "tcp://");
        }
    }
    return 0;
}

/* Checks that `replace` has a voter to replace: with a mistyped OLD it would only add NEW. After an
 * interrupted call of the same command, OLD may be the voter that the last change removed. */
static int check_replaced(const struct changing *changing, const char *where, char *const *words)
{
    const struct cell_voters *voters = &changing->voters;
    char names[NAMES_TEXT_MAX];
    if (strcmp(words[0], "replace") != 0 || find(voters, words[1]) < voters->count ||
        find(voters, words[2]) < voters->count || strcmp(changing->removed, words[1]) == 0) {
        return 0;
    }
    return cli_fail_with(CLI_FAILED, where,
                         "%s is no voter, expected one of %s (`holdfast member add %s %s` adds a "
                         "voter and removes none); nothing was changed",
                         words[1], voter_names(voters, names), words[2], words[3]);
}

/* Writes the steps of a change to steps (room for two). Returns how many there are. */
static size_t plan(const struct changing *changing, char *const *words, struct change_step *steps)
{
    const struct cell_voters *voters = &changing->voters;
    const struct change_step add = {HF_MEMBER_ADD, words[1], words[2]};
    const struct change_step remove = {HF_MEMBER_REMOVE, words[1], NULL};
    const struct change_step move = {HF_MEMBER_MOVE, words[1], words[2]};
    if (strcmp(words[0], "replace") != 0) {
        steps[0] = strcmp(words[0], "add") == 0      ? add
                   : strcmp(words[0], "remove") == 0 ? remove
                                                     : move;
        return 1;
    }
    /* A voter that does not answer is removed first: while it is missing, nobody can be added. A
     * voter that answers is removed last, so that the cell never has fewer voters than before. */
    size_t old = find(voters, words[1]);
    bool up = old < voters->count && voters->of[old].state == HF_VOTER_UP;
    size_t first = up && voters->count < VOTERS_MAX ? 0 : 1;
    steps[first] = (struct change_step){HF_MEMBER_ADD, words[2], words[3]};
    steps[1 - first] = remove;
    return 2;
}

int member_change(struct cli *cli, struct arguments *words, int64_t wait_ns)
{
    size_t index = change_of(words->plain[0]);
    char where[32];
    snprintf(where, sizeof where, "member %s", changes[index].word);
    if (words->plain_count != changes[index].words) {
        return cli_usage_error(where, "expected %s", changes[index].expected);
    }
    const char *address = strcmp(changes[index].word, "remove") == 0
                              ? NULL
                              : words->plain[changes[index].words - 1];
    size_t names = address != NULL ? words->plain_count - 2 : 1;
    struct changing changing = {.cli = cli, .end_ns = INT64_MAX};
    int status = check_names(where, &words->plain[1], names);
    status = status == 0 && address != NULL ? check_address(where, address) : status;
    status = status != 0 ? status
                         : cli_connect(cli, "member", connect_timeout_ns, &changing.client);
    if (status != 0) {
        return status;
    }
    if (wait_ns >= 0) {
        changing.end_ns = now_ns() + wait_ns;
    }
    struct change_step steps[2];
    status = look(&changing);
    const char *old = strcmp(changes[index].word, "replace") == 0 ? words->plain[1] : NULL;
    status = status != 0 ? status : check_cell(&changing, where, old, words->plain[names], address);
    status = status != 0 ? status : check_replaced(&changing, where, words->plain);
    size_t count = status == 0 ? plan(&changing, words->plain, steps) : 0;
    for (size_t i = 0; status == 0 && i < count; i++) {
        changing.before = i > 0 ? &steps[i - 1] : NULL;
        status = take_step(&changing, &steps[i]);
    }
    hf_disconnect(changing.client);
    return status;
}
