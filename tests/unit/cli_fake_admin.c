/*
 * The calls of the tests' library about the agent and the cell: see cli_fake.c, which lists the
 * settings.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_fake.h"

const char *hf_socket(const hf_client *client)
{
    const char *set = getenv("HOLDFAST_SOCKET");
    return client->socket != NULL ? client->socket
           : set != NULL && *set  ? set
                                  : "/run/holdfast/agent.sock";
}

/* The voters, if `member` is set. */
static struct {
    size_t count;
    char names[8][16];
    char addresses[8][64];
    struct hf_voter_info infos[8];
    const struct hf_voter_info *list[8];
    size_t calls;  /* of hf_member */
    int64_t facts; /* calls of hf_facts */
} cell;

static void make_cell(void)
{
    static const char *const names[] = {"dev", "b", "c", "d", "e", "f", "g"};
    char letters[8] = "";
    (void)fake_setting("voters", letters, sizeof(letters));
    for (; cell.calls == 0 && cell.count < strlen(letters); cell.count++) {
        size_t i = cell.count;
        snprintf(cell.names[i], sizeof(cell.names[i]), "%s", names[i]);
        snprintf(cell.addresses[i], sizeof(cell.addresses[i]), "tcp://10.0.0.%zu:7411", i + 1);
        cell.infos[i].state = letters[i] == 'u' ? HF_VOTER_UP : HF_VOTER_DOWN;
    }
    for (size_t i = 0; i < cell.count; i++) {
        cell.infos[i].name = cell.names[i];
        cell.infos[i].address = fake_is_set("nowhere") ? NULL : cell.addresses[i];
        cell.list[i] = &cell.infos[i];
    }
}

/* Changes the voters as the caller asks. */
static void apply(const struct hf_member_change *change)
{
    size_t i = 0;
    while (i < cell.count && strcmp(cell.names[i], change->name) != 0) {
        i++;
    }
    if (change->act == HF_MEMBER_REMOVE && i < cell.count) {
        cell.count--;
        memcpy(cell.names[i], cell.names[cell.count], sizeof(cell.names[i]));
        memcpy(cell.addresses[i], cell.addresses[cell.count], sizeof(cell.addresses[i]));
        cell.infos[i].state = cell.infos[cell.count].state;
        return;
    }
    if (change->act == HF_MEMBER_REMOVE) {
        return;
    }
    cell.count += i == cell.count;
    snprintf(cell.names[i], sizeof(cell.names[i]), "%s", change->name);
    snprintf(cell.addresses[i], sizeof(cell.addresses[i]), "%s", change->address);
    cell.infos[i].state = HF_VOTER_UP;
}

int hf_member(hf_client *client, struct hf_member_change *change, hf_member_fn *fn, void *arg)
{
    char script[64] = "";
    char subject[64] = "x";
    struct hf_member_info info = {.done = 3, .total = 257};
    (void)client;
    (void)fake_setting("member", script, sizeof(script));
    (void)fake_setting("subject", subject, sizeof(subject));
    size_t last = strlen(script) - 1;
    char letter = script[cell.calls < last ? cell.calls : last];
    cell.calls++;
    change->id = change->id != 0 ? change->id : cell.calls;
    change->number = change->number != 0 ? change->number : 1;
    fake_log_call("member %d %s %s %u", (int)change->act, change->name,
                  change->address != NULL ? change->address : "-", (unsigned)change->id);
    if (letter == 't' || letter == 'x') {
        return letter == 't' ? HF_ETIMEDOUT : HF_EACCES;
    }
    if (letter >= 'A' && letter <= 'P') {
        info.stage = HF_MEMBER_REFUSED;
        info.reason = (enum hf_member_reason)(letter - 'A' + 1);
        info.subject = subject[0] != '\0' ? subject : NULL;
    } else {
        bool silent = letter == 'v' || letter == 'w';
        info.stage = letter == 'l'                    ? HF_MEMBER_LEARNS
                     : letter == 'd' || letter == 'v' ? HF_MEMBER_DECIDES
                     : letter == 'h' || letter == 'w' ? HF_MEMBER_CHOSEN
                                                      : HF_MEMBER_COMPLETE;
        info.reason = silent ? HF_MEMBER_SILENT : HF_MEMBER_NO_REASON;
        info.subject = silent ? subject : NULL;
    }
    if (letter == 'c') {
        apply(change);
    }
    fn(&info, arg);
    return 0;
}

int hf_status(hf_client *client, hf_status_fn *fn, void *arg)
{
    static const struct hf_voter_info voters[] = {
        {"dev", NULL, HF_VOTER_UP},
        {"b", "tcp://10.0.0.2:7411", HF_VOTER_REFUSED},
    };
    static const char *const names[] = {"dev", "b", "c", "d", "e", "f", "g"};
    static const struct hf_voter_info *const voter_list[] = {&voters[0], &voters[1]};
    struct hf_voter_info drawn[7];
    const struct hf_voter_info *drawn_list[7];
    char letters[8] = "";
    size_t count = 0;

    (void)client;
    (void)fake_setting("voters", letters, sizeof(letters));
    for (; letters[count] != '\0'; count++) {
        drawn_list[count] = &drawn[count];
        drawn[count] = (struct hf_voter_info){names[count], NULL,
                                              letters[count] == 'u'   ? HF_VOTER_UP
                                              : letters[count] == 'd' ? HF_VOTER_DOWN
                                                                      : HF_VOTER_REFUSED};
    }
    make_cell();
    const struct hf_status status = {
        .agent = "dev",
        .cell = "dev",
        .role = "voter",
        .version = "9.8.7",
        .session_state = (enum hf_session_state)fake_number("session"),
        .session_epoch = 3,
        .session_remaining_ns = 4200000000,
        .voters = fake_is_set("member") ? cell.list
                  : count > 0           ? drawn_list
                                        : voter_list,
        .voter_count = fake_is_set("member") ? cell.count
                       : count > 0           ? count
                                             : 2,
        .clients = fake_is_set("clients") ? (uint64_t)fake_number("clients") : 1,
        .locks_held = 2,
        .waiters = 3,
    };

    fn(&status, arg);
    return 0;
}

/* The facts of a cell that is well: "SUBJECT.KEY", the value, the text. */
static const struct {
    const char *name;
    int64_t value;
    const char *text;
} facts[] = {
    {"judgement", 0, "well"},
    {"version", 0, "9.8.7"},
    {"wire_version", 3, NULL},
    {"uid", 0, NULL},
    {"session_ttl_ns", 6000000000, NULL},
    {"max_drift_percent", 10, NULL},
    {"others_admitted", 0, NULL},
    {"clock_ppm", 0, NULL},
    {"stalls", 0, NULL},
    {"stall_age_ns", -1, NULL},
    {"interrupted_age_ns", -1, NULL},
    {"shm_size", 64 << 20, NULL},
    {"shm_used", 64 << 20, NULL},
    {"shm_free", 512 << 20, NULL},
    {"descriptors_used", 20, NULL},
    {"descriptors_max", 20000, NULL},
    {"descriptors_wanted", 13000, NULL},
    {"clients_max", 4096, NULL},
    {"uptime_ns", INT64_C(3600000000000), NULL},
    {"state_dir", 0, "/nowhere"},
    {"state_dir_mode", 0700, NULL},
    {"state_dir_uid", 0, NULL},
    {"state_dir_free", INT64_C(1) << 40, NULL},
    {"files_gone", 0, "the folder /nowhere"},
    {"survivors_unproven", 0, "make (pid 0, uid 1000)"},
    {"flushes", 5, NULL},
    {"flush_worst_ns", 4000000, NULL},
    {"flush_pending_ns", -1, NULL},
    {"votes", 1, "refused"},
    {"voters_number", 1, NULL},
    {"voters_complete", 1, NULL},
    {"voters_differ", 0, NULL},
    {"dev.self", 1, NULL},
    {"dev.partitions", 86, NULL},
    {"dev.round_trip_worst_ns", 1000000, NULL},
    {"b.connected", 1, NULL},
    {"b.version", 0, "9.8.7"},
    {"b.partitions", 85, NULL},
    {"b.answered_age_ns", 1000000, NULL},
    {"b.round_trip_worst_ns", 2000000, NULL},
    {"b.clock_low_ppm", -20, NULL},
    {"b.clock_high_ppm", 30, NULL},
    {"b.rules_differ", 0, NULL},
    {"dev.starts_over", 0, NULL},
    {"b.starts_over", 0, NULL},
    {"c.connected", 0, "nobody listens there"},
    {"c.partitions", 85, NULL},
    {"c.answered_age_ns", 1000000, NULL},
    {"c.round_trip_worst_ns", 3000000, NULL},
    {"agents_known", 4, NULL},
    {"agents_silent", 0, NULL},
    {"observers", 3, NULL},
    {"obs-1.observer", 1, "tcp://10.0.0.9:7411"},
    {"obs-2.observer", 0, NULL},
    {"accounts_unknown", 0, "[agent] users: bob"},
    {"inbox_unreachable", 0, NULL},
    {"refused_age_ns", 3600000000000, "10.0.0.9: it belongs to another cell"},
    {"listens_local", 1, NULL},
    {"tls", 0, NULL},
    {"tls_begin_s", 0, NULL},
    {"tls_end_s", 0, NULL},
    {"tls_kept", 0, "host-a.key: found mode 0644"},
    /* Facts that hf_facts returns only if HOLDFAST_FAKE sets them. */
    {"x.removed", 1, NULL},
    {"leftovers", 1, "/dev/shm/holdfast.dev.dev.0f"},
    {"leftovers_size", 27 << 20, NULL},
    {"leftovers_go_ns", 12000000000, NULL},
    {"b.reason_voter_refused", 1, "it is refused, the agent says"},
    {"reason_http_down", 1, "[http] does not listen: the port is taken"},
    {"reason_disk_full", 1, "3 more files can be made"},
    {"reason_certificate_over", 1, "a certificate has ended: no new connection comes up"},
    {"reason_certificate_early", 1, "by this host's clock a certificate is not valid yet"},
    {"reason_certificate_ends", 1, "a certificate ends in 40 h"},
    {"reason_session_lost", 2, "the session is lost"},
    {"reason_session_none", 2, "no majority has answered"},
};

static bool is_optional(const char *name)
{
    return strstr(name, "reason_") != NULL || strstr(name, ".removed") != NULL ||
           strncmp(name, "leftovers", 9) == 0;
}

int hf_facts(hf_client *client, hf_fact_fn *fn, void *arg)
{
    bool unsettled = cell.facts++ < fake_number("unsettled");
    (void)client;
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]) && fake_number("facts") == 0; i++) {
        char subject[64];
        char text[128];
        char text_key[64];
        const char *dot = strchr(facts[i].name, '.');
        struct hf_fact fact = {
            .key = dot != NULL ? dot + 1 : facts[i].name,
            .value = fake_is_set(facts[i].name) ? fake_number(facts[i].name) : facts[i].value,
            .text = strstr(facts[i].name, "version") != NULL && fake_is_set(facts[i].name)
                        ? fake_setting(facts[i].name, text, sizeof(text))
                        : facts[i].text};

        if (strcmp(facts[i].name, "voters_complete") == 0 && unsettled) {
            fact.value = 0;
        }
        if (is_optional(facts[i].name) && !fake_is_set(facts[i].name)) {
            continue;
        }
        snprintf(text_key, sizeof(text_key), "%s.text", facts[i].name);
        if (fake_is_set(text_key)) {
            fact.text = fake_setting(text_key, text, sizeof(text));
        }
        if (dot != NULL) {
            snprintf(subject, sizeof(subject), "%.*s", (int)(dot - facts[i].name), facts[i].name);
            fact.subject = subject;
        }
        int result = fn(&fact, arg);
        if (result != 0) {
            return result;
        }
    }
    return (int)fake_number("facts");
}

int hf_backup(hf_client *client, int *fd, hf_backup_fn *fn, void *arg)
{
    static const char copy[] = "what a store looks like";
    char text[128];
    struct hf_backup_info info = {.stage = HF_BACKUP_COPIES, .done = 128, .total = 300};

    *fd = -1;
    client->lists++;
    fake_log_call("backup");
    if (fake_number("backup") != 0) {
        return (int)fake_number("backup");
    }
    if (fake_is_set("backup_text")) {
        info.stage = HF_BACKUP_FAILED;
        info.text = fake_setting("backup_text", text, sizeof(text));
    } else if (client->lists == 2) {
        info.stage = HF_BACKUP_CHECKS;
    } else if (client->lists == 3) {
        info = (struct hf_backup_info){.stage = HF_BACKUP_DONE,
                                       .commit = 8123,
                                       .locks = 412,
                                       .bytes = sizeof(copy) - 1 + fake_is_set("backup_short")};
        int pipes[2];
        if (pipe(pipes) != 0 || write(pipes[1], copy, sizeof(copy) - 1) < 0) {
            return HF_ENOMEM;
        }
        close(pipes[1]);
        *fd = pipes[0];
    }
    fn(&info, arg);
    return 0;
}

int hf_break_report(hf_client *client, const char *name, unsigned flags, hf_break_fn *fn, void *arg)
{
    static const struct hf_party holds[] = {
        {"host-a", 4242, 0, "./job --all", HF_SHARED, 17, 12300000000, 0, NULL},
        {"host-b", -1, -1, NULL, HF_SHARED, 17, -1, 0, NULL}};
    static const struct hf_party noted = {"host-a", 4242,        0, "./job --all", HF_SHARED,
                                          17,       12300000000, 0, "trial 9"};
    const struct hf_party *const ended[] = {fake_is_set("noted") ? &noted : &holds[0], &holds[1]};
    static const char *const silent[] = {"host-c", "host-d"};
    const struct hf_break_info info = {.name = name,
                                       .error = (int)fake_number("break"),
                                       .ended = ended,
                                       .ended_count = (size_t)fake_number("ended"),
                                       .more = (uint64_t)fake_number("ended_more"),
                                       .closed_ns = fake_number("closed"),
                                       .silent = silent,
                                       .silent_count = (size_t)fake_number("unanswered")};
    (void)client;
    fake_log_call("break %s %u", name, flags);
    if (info.error == 0 || info.error == HF_ETIMEDOUT || info.error == HF_EFULL) {
        fn(&info, arg);
    }
    return info.error;
}
