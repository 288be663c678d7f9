/*
 * A libholdfast in memory, without an agent, for the tests of the command. The words of the
 * environment variable HOLDFAST_FAKE, separated by commas, set its behaviour:
 *
 * connect=E open=E acquire=E check=E break=E list=E   the call fails with error E
 *   ended=N         break ended N holds, at most 2
 *   ended_more=N    break ended N more
 *   closed=N        after the break the lock is closed for N ns
 *   unanswered=N    N agents, at most 2, have not answered the break
 *   block           hf_acquire waits until its timeout or hf_cancel
 *   lease_ms=N      a hold lasts for N ms, and then ends without an event
 *   lost_ms=N       an event LOST comes after N ms
 *   why=K           hf_why returns kind K, with a control character in the text; else it fails
 *   awaits_why      hf_acquire waits until hf_why was called
 *   silent          hf_why never returns, as with an agent that does not answer
 *   slow            hf_why returns only after hf_release was called, and hf_release takes 300 ms
 *   stall           lease_ms starts again at each hf_progress
 *   late            lease_ms starts at the first hf_progress
 *   release=E       hf_release fails with error E
 *   session=N       the enum hf_session_state
 *   voters=S        one voter for each letter: up, down, refused; unset: two, one refused
 *   member=S        the answers of hf_member, one letter for each call; later calls get the last
 *                   one again: l learns, d decides, h chosen, c complete, t no voter answers, A to
 *                   P refused for enum hf_member_reason 1 to 16, about the agent of `subject`, x
 *                   not allowed; v and w: as d and h, and the change waits for that agent. After c
 *                   the change has taken place. The voters of `voters` have addresses,
 *                   tcp://10.0.0.1:7411 and so on
 *   subject=NAME    unset: "x"
 *   unsettled=N     the fact voters_complete is 0 in the first N calls of hf_facts
 *   facts=E         hf_facts fails with error E
 *   KEY=N           the fact KEY has the value N; also SUBJECT.KEY=N
 *   KEY.text=TEXT   the fact KEY has that text; without it, the fact votes has the text "refused"
 *   backup=E        hf_backup fails with error E
 *   backup_text=T   hf_backup reports that the agent failed, with that text
 *   backup_short    the copy has fewer bytes than hf_backup reports
 *   changes=N       watch: N events at once, all for the lock "a", whose waiters have gone by then
 *   changed=NAME    these events are for the lock NAME, whose state stays the same except for its
 *                   durations
 *   moved           since these events the locks have another coordinator
 *   unseen          the lock that looks free is open
 *   later           behind=N counts only since these events
 *   overflow        the events of `changes` name no lock: any lock may have changed
 *   away=N          the first N calls of hf_list fail with HF_ENOAGENT
 *   stuck=N         after N calls hf_list never returns, as with an agent that does not answer
 *   empty           there is nothing to list
 *   behind=N        the closed locks are closed behind a hold that ended as enum hf_ending N says;
 *                   100: nothing but the host is known
 *   more            two more locks: one is free, one is awaited and has long names
 *   log=PATH        every call is appended to that file, one in each line
 *
 * A number may be @N: the time in N days, in seconds since 1970.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/admin.h>

enum { LOCKS_MAX = 16 };

struct hf_lock {
    hf_client *client;
    char name[256];
    struct hf_lock_options options;
    bool held;
    bool canceled;
    uint64_t token;
    int64_t end_ns; /* CLOCK_BOOTTIME */
};

struct hf_client {
    const char *socket;
    pthread_mutex_t mutex;
    pthread_cond_t canceled;
    pthread_cond_t moved; /* `asked` or `released` has changed */
    bool asked;           /* hf_why was called */
    bool released;        /* hf_release was called */
    int event_fd;
    int64_t changes;
    int64_t away;
    int64_t lists; /* calls of hf_list */
    bool lost_told;
    size_t lock_count;
    hf_lock locks[LOCKS_MAX];
};

static const char *setting(const char *key, char *buffer, size_t size)
{
    const char *text = getenv("HOLDFAST_FAKE");
    size_t key_size = strlen(key);

    while (text != NULL && *text != '\0') {
        size_t word_size = strcspn(text, ",");

        if (word_size >= key_size && strncmp(text, key, key_size) == 0 &&
            (text[key_size] == '=' || word_size == key_size)) {
            const char *value = text + key_size + (text[key_size] == '=');

            snprintf(buffer, size, "%.*s", (int)(text + word_size - value), value);
            return buffer;
        }
        text += word_size + (text[word_size] == ',');
    }
    return NULL;
}

static int64_t number(const char *key)
{
    char buffer[256];
    const char *text = setting(key, buffer, sizeof(buffer));

    if (text != NULL && text[0] == '@') { /* "@N": the time N days from now */
        return (int64_t)time(NULL) + 86400 * strtoll(text + 1, NULL, 10);
    }
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

static bool is_set(const char *key)
{
    char buffer[256];

    return setting(key, buffer, sizeof(buffer)) != NULL;
}

static void log_call(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void log_call(const char *format, ...)
{
    char path[256];
    char line[600];
    va_list arguments;
    int fd;

    if (setting("log", path, sizeof(path)) == NULL) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        dprintf(fd, "%s\n", line);
        close(fd);
    }
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void timer_in(int fd, int64_t delay_ms)
{
    const struct itimerspec when = {
        .it_value = {.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000 + 1},
    };

    timerfd_settime(fd, 0, &when, NULL);
}

int hf_connect(const struct hf_options *options, hf_client **out)
{
    hf_client *client;

    log_call("connect %s", options->socket == NULL ? "-" : options->socket);
    if (options->connect_timeout_ns != 0) {
        log_call("connect timeout=%" PRId64, options->connect_timeout_ns);
    }
    if (options->command != NULL) {
        log_call("connect command=%s", options->command);
    }
    if (number("connect") != 0) {
        return (int)number("connect");
    }
    client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return HF_ENOMEM;
    }
    pthread_mutex_init(&client->mutex, NULL);
    pthread_cond_init(&client->canceled, NULL);
    pthread_cond_init(&client->moved, NULL);
    client->event_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    client->socket = options->socket;
    client->changes = number("changes");
    client->away = number("away");
    *out = client;
    return 0;
}

void hf_disconnect(hf_client *client)
{
    log_call("disconnect");
    close(client->event_fd);
    free(client);
}

int hf_open(hf_client *client, const char *name, const struct hf_lock_options *options,
            hf_lock **out)
{
    hf_lock *lock = &client->locks[client->lock_count];

    log_call("open %s delay=%" PRId64 " lease=%" PRId64 " stall=%" PRId64, name,
             options->lock_delay_ns, options->lease_ns, options->max_stall_ns);
    if (number("open") != 0) {
        return (int)number("open");
    }
    if (client->lock_count == LOCKS_MAX) {
        return HF_EFULL;
    }
    client->lock_count++;
    lock->client = client;
    lock->options = *options;
    lock->token = 40 + client->lock_count;
    snprintf(lock->name, sizeof(lock->name), "%s", name);
    *out = lock;
    return 0;
}

void hf_close(hf_lock *lock)
{
    (void)lock;
}

/* Waits until hf_cancel() is called for the lock, or timeout_ns is over. */
static int block(hf_lock *lock, int64_t timeout_ns)
{
    hf_client *client = lock->client;
    struct timespec end;
    int problem = 0;

    if (timeout_ns == 0) {
        return HF_EBUSY;
    }
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += timeout_ns < 0 ? 3600 : timeout_ns / 1000000000;
    end.tv_nsec += timeout_ns < 0 ? 0 : timeout_ns % 1000000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&client->mutex);
    lock->canceled = false; /* a cancel ends only a wait that has begun */
    while (!lock->canceled && problem == 0) {
        problem = pthread_cond_timedwait(&client->canceled, &client->mutex, &end);
    }
    problem = lock->canceled ? HF_ECANCELED : HF_ETIMEDOUT;
    pthread_mutex_unlock(&client->mutex);
    return problem;
}

/* Sets the flag, and wakes await(). */
static void move(hf_client *client, bool *flag)
{
    pthread_mutex_lock(&client->mutex);
    *flag = true;
    pthread_cond_broadcast(&client->moved);
    pthread_mutex_unlock(&client->mutex);
}

/* Waits until the flag is set. */
static void await(hf_client *client, const bool *flag)
{
    pthread_mutex_lock(&client->mutex);
    while (!*flag) {
        pthread_cond_wait(&client->moved, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* Says whether the lock is held, and until when. Another thread may be in hf_remaining_ns(). */
static void set_hold(hf_lock *lock, bool held, int64_t end_ns)
{
    pthread_mutex_lock(&lock->client->mutex);
    lock->held = held;
    lock->end_ns = end_ns;
    pthread_mutex_unlock(&lock->client->mutex);
}

static void begin(hf_lock *lock, struct hf_hold *out)
{
    int64_t lease_ms = is_set("late") ? 0 : number("lease_ms");

    set_hold(lock, true, now_ns() + (lease_ms > 0 ? lease_ms : 3600000) * 1000000);
    if (out != NULL) {
        *out = (struct hf_hold){.token = lock->token, .deadline_ns = lock->end_ns};
    }
    if (number("lost_ms") > 0) {
        timer_in(lock->client->event_fd, number("lost_ms"));
    }
}

int hf_acquire(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out)
{
    log_call("acquire %s mode=%d timeout=%" PRId64, lock->name, (int)mode, timeout_ns);
    if (number("acquire") != 0) {
        return (int)number("acquire");
    }
    if (is_set("block")) {
        return block(lock, timeout_ns);
    }
    if (is_set("awaits_why")) {
        await(lock->client, &lock->client->asked);
    }
    begin(lock, out);
    return 0;
}

int hf_acquire_all(hf_lock *const *locks, size_t count, enum hf_mode mode, int64_t timeout_ns,
                   struct hf_hold *out)
{
    log_call("acquire_all %zu", count);
    for (size_t index = 0; index < count; index++) {
        int error = hf_acquire(locks[index], mode, timeout_ns, &out[index]);

        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int hf_release(hf_lock *lock)
{
    const struct timespec pause = {.tv_nsec = 300000000};

    log_call("release %s", lock->name);
    set_hold(lock, false, lock->end_ns);
    move(lock->client, &lock->client->released);
    if (is_set("slow")) {
        nanosleep(&pause, NULL);
    }
    if (number("release") != 0) {
        return (int)number("release");
    }
    return lock->end_ns <= now_ns() ? HF_ELOST : 0;
}

int hf_progress(hf_lock *lock)
{
    log_call("progress %s", lock->name);
    if (is_set("stall") || is_set("late")) {
        set_hold(lock, lock->held, now_ns() + number("lease_ms") * 1000000);
    }
    return 0;
}

int hf_cancel(hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    lock->canceled = true;
    pthread_cond_broadcast(&lock->client->canceled);
    pthread_mutex_unlock(&lock->client->mutex);
    return 0;
}

int hf_why(hf_lock *lock, struct hf_reason *out)
{
    const bool never = false;
    /* These settings are read before hf_acquire can return, because the caller may change the
     * environment afterwards. */
    bool silent = is_set("silent");
    bool slow = is_set("slow");
    bool known = is_set("why");
    enum hf_reason_kind kind = (enum hf_reason_kind)number("why");

    log_call("why %s", lock->name);
    move(lock->client, &lock->client->asked);
    if (silent) {
        await(lock->client, &never);
    }
    if (slow) {
        await(lock->client, &lock->client->released);
    }
    if (!known) {
        return HF_EPROTO;
    }
    out->kind = kind;
    snprintf(out->text, sizeof(out->text), "because\33[1m");
    return 0;
}

int64_t hf_remaining_ns(const hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    int64_t remaining_ns = lock->held ? lock->end_ns - now_ns() : 0;
    pthread_mutex_unlock(&lock->client->mutex);
    return remaining_ns;
}

int hf_sequencer(hf_lock *lock, char *buf, size_t size)
{
    snprintf(buf, size, "dev:%s:%" PRIu64, strcmp(lock->name, "a b%") == 0 ? "ab" : lock->name,
             lock->token);
    return 0;
}

int hf_check_sequencer(hf_client *client, const char *sequencer)
{
    (void)client;
    log_call("check %s", sequencer);
    return (int)number("check");
}

int hf_watch(hf_client *client, const char *prefix)
{
    log_call("watch %s", prefix);
    if (client->changes > 0) {
        timer_in(client->event_fd, 50);
    }
    return 0;
}

int hf_event_fd(hf_client *client)
{
    return client->event_fd;
}

static bool has_changed; /* hf_next_event() has reported a change */

int hf_next_event(hf_client *client, struct hf_event *out)
{
    uint64_t count;

    *out = (struct hf_event){.kind = HF_EVENT_LOST};
    if (client->changes > 0) {
        client->changes--;
        has_changed = true;
        *out = (struct hf_event){.kind = HF_EVENT_CHANGED, .name = "a"};
        (void)setting("changed", out->name, sizeof(out->name));
        if (is_set("overflow")) {
            out->name[0] = '\0';
        }
        return 1;
    }
    if (read(client->event_fd, &count, sizeof(count)) < 0) {
        return 0;
    }
    if (number("lost_ms") == 0 || client->lost_told) {
        return 0;
    }
    client->lost_told = true;
    out->lock = &client->locks[0];
    set_hold(out->lock, out->lock->held, now_ns());
    return 1;
}

const char *hf_strerror(int error)
{
    static char texts[2][32]; /* a command may need two texts at a time */
    static unsigned next;
    char *text = texts[next++ % 2];

    snprintf(text, sizeof(texts[0]), "fake error %d", error);
    return text;
}

/* This text differs from every text of hf_strerror(). So a test sees which of the two functions a
 * command prints. */
const char *hf_error_text(const hf_client *client)
{
    (void)client;
    return "fake failure\x1b with its value";
}

const char *hf_version(void)
{
    return "9.8.7";
}

static const struct hf_party holders[] = {
    {"dev", 4242, 0, "job \"x\"\n\x1b[31m\xff end", HF_EXCLUSIVE, UINT64_MAX, 1234567890, 4999999},
};
/* the hold of this party began 100,000 days ago */
static const struct hf_party patient[] = {
    {"host-with-a-long-name", 5, 4294967294, "make report of a whole year of orders and returns",
     HF_EXCLUSIVE, 8, INT64_C(8640000000) * 1000000000, 1},
};
static const struct hf_party readers[] = {
    {"dev", 1, 0, "r1", HF_SHARED, 7, 0, 1},
    {NULL, -1, -1, NULL, HF_SHARED, 7, -1, -1},
};
static const struct hf_party waiters[] = {
    {"dev", 77, 0, NULL, HF_SHARED, 0, 2000000000, 0},
    {NULL, -1, -1, NULL, HF_EXCLUSIVE, 0, -1, 0},
};
static const struct hf_party *const holder_list[] = {&holders[0]};
static const struct hf_party *const reader_list[] = {&readers[0], &readers[1]};
static const struct hf_party *const patient_list[] = {&patient[0]};
static const struct hf_party *const waiter_list[] = {&waiters[0], &waiters[1]};
static const struct hf_party *const long_queue[] = {&waiters[0], &waiters[1], &waiters[0]};
static const struct hf_lock_info infos[] = {
    {"a", HF_STATE_EXCLUSIVE, 0, "dev", 0, holder_list, 1, waiter_list, 2, NULL},
    {"free/\xc3\xbc", HF_STATE_FREE, 1, NULL, -1, NULL, 0, NULL, 0, NULL},
    {"many", HF_STATE_SHARED, 2500000000, "dev", 3000000, reader_list, 2, NULL, 0, NULL},
    {"idle", HF_STATE_FREE, 0, "dev", 0, NULL, 0, NULL, 0, NULL},
    {"orders/of-\xc3\xbc/reports", HF_STATE_EXCLUSIVE, 0, "dev", 0, patient_list, 1, long_queue, 3,
     NULL},
};

/* Calls fn with the lock. If `behind` is set, the lock has the hold behind which it is closed. */
static int tell(struct hf_lock_info info, hf_list_fn *fn, void *arg)
{
    const struct hf_behind behind = {
        "host-c",   999, 0,         "job \x1b x", (enum hf_ending)number("behind"),
        1700000000, "b", 4294967294};
    const struct hf_behind vague = {"host-c", -1, -1, NULL, HF_ENDING_UNKNOWN, -1, NULL, -1};

    if (has_changed && !is_set("changed")) {
        info.waiter_count = 0;
    }
    if (has_changed && is_set("moved")) {
        info.coordinator = "moved";
    }
    if (is_set("unseen") && info.age_ns == -1) {
        info.closed_ns = 0;
    }
    if (is_set("behind") && info.closed_ns > 0 && (has_changed || !is_set("later"))) {
        info.behind = number("behind") == 100 ? &vague : &behind;
    }
    return fn(&info, arg);
}

int hf_list(hf_client *client, const char *prefix, hf_list_fn *fn, void *arg)
{
    const bool never = false;

    log_call("list %s", prefix);
    if (is_set("stuck") && client->lists++ >= number("stuck")) {
        await(client, &never);
    }
    if (client->away > 0) {
        client->away--;
        return HF_ENOAGENT;
    }
    if (number("list") != 0) {
        return (int)number("list");
    }
    for (size_t index = 0; index < (is_set("more") ? 5 : 3) && !is_set("empty"); index++) {
        int stop = tell(infos[index], fn, arg);

        if (stop != 0) {
            return stop;
        }
    }
    return 0;
}

int hf_show(hf_client *client, const char *name, hf_list_fn *fn, void *arg)
{
    (void)client;
    log_call("show %s", name);
    for (size_t index = 0; index < 3; index++) {
        if (strcmp(infos[index].name, name) == 0) {
            struct hf_lock_info info = infos[index];

            info.age_ns += is_set("changed") ? 1000000000 : 0;
            info.closed_ns -= is_set("changed") && info.closed_ns > 0 ? 1000000 : 0;
            return tell(info, fn, arg);
        }
    }
    return HF_EACCES;
}

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
    (void)setting("voters", letters, sizeof(letters));
    for (; cell.calls == 0 && cell.count < strlen(letters); cell.count++) {
        size_t i = cell.count;
        snprintf(cell.names[i], sizeof(cell.names[i]), "%s", names[i]);
        snprintf(cell.addresses[i], sizeof(cell.addresses[i]), "tcp://10.0.0.%zu:7411", i + 1);
        cell.infos[i].state = letters[i] == 'u' ? HF_VOTER_UP : HF_VOTER_DOWN;
    }
    for (size_t i = 0; i < cell.count; i++) {
        cell.infos[i].name = cell.names[i];
        cell.infos[i].address = is_set("nowhere") ? NULL : cell.addresses[i];
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
    (void)setting("member", script, sizeof(script));
    (void)setting("subject", subject, sizeof(subject));
    size_t last = strlen(script) - 1;
    char letter = script[cell.calls < last ? cell.calls : last];
    cell.calls++;
    change->id = change->id != 0 ? change->id : cell.calls;
    change->number = change->number != 0 ? change->number : 1;
    log_call("member %d %s %s %u", (int)change->act, change->name,
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
    (void)setting("voters", letters, sizeof(letters));
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
        .session_state = (enum hf_session_state)number("session"),
        .session_epoch = 3,
        .session_remaining_ns = 4200000000,
        .voters = is_set("member") ? cell.list
                  : count > 0      ? drawn_list
                                   : voter_list,
        .voter_count = is_set("member") ? cell.count
                       : count > 0      ? count
                                        : 2,
        .clients = is_set("clients") ? (uint64_t)number("clients") : 1,
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
    bool unsettled = cell.facts++ < number("unsettled");
    (void)client;
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]) && number("facts") == 0; i++) {
        char subject[64];
        char text[128];
        char text_key[64];
        const char *dot = strchr(facts[i].name, '.');
        struct hf_fact fact = {
            .key = dot != NULL ? dot + 1 : facts[i].name,
            .value = is_set(facts[i].name) ? number(facts[i].name) : facts[i].value,
            .text = strstr(facts[i].name, "version") != NULL && is_set(facts[i].name)
                        ? setting(facts[i].name, text, sizeof(text))
                        : facts[i].text};

        if (strcmp(facts[i].name, "voters_complete") == 0 && unsettled) {
            fact.value = 0;
        }
        if (is_optional(facts[i].name) && !is_set(facts[i].name)) {
            continue;
        }
        snprintf(text_key, sizeof(text_key), "%s.text", facts[i].name);
        if (is_set(text_key)) {
            fact.text = setting(text_key, text, sizeof(text));
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
    return (int)number("facts");
}

int hf_backup(hf_client *client, int *fd, hf_backup_fn *fn, void *arg)
{
    static const char copy[] = "what a store looks like";
    char text[128];
    struct hf_backup_info info = {.stage = HF_BACKUP_COPIES, .done = 128, .total = 300};

    *fd = -1;
    client->lists++;
    log_call("backup");
    if (number("backup") != 0) {
        return (int)number("backup");
    }
    if (is_set("backup_text")) {
        info.stage = HF_BACKUP_FAILED;
        info.text = setting("backup_text", text, sizeof(text));
    } else if (client->lists == 2) {
        info.stage = HF_BACKUP_CHECKS;
    } else if (client->lists == 3) {
        info = (struct hf_backup_info){.stage = HF_BACKUP_DONE,
                                       .commit = 8123,
                                       .locks = 412,
                                       .bytes = sizeof(copy) - 1 + is_set("backup_short")};
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
        {"host-a", 4242, 0, "./job --all", HF_SHARED, 17, 12300000000, 0},
        {"host-b", -1, -1, NULL, HF_SHARED, 17, -1, 0}};
    static const struct hf_party *const ended[] = {&holds[0], &holds[1]};
    static const char *const silent[] = {"host-c", "host-d"};
    const struct hf_break_info info = {.name = name,
                                       .error = (int)number("break"),
                                       .ended = ended,
                                       .ended_count = (size_t)number("ended"),
                                       .more = (uint64_t)number("ended_more"),
                                       .closed_ns = number("closed"),
                                       .silent = silent,
                                       .silent_count = (size_t)number("unanswered")};
    (void)client;
    log_call("break %s %u", name, flags);
    if (info.error == 0 || info.error == HF_ETIMEDOUT || info.error == HF_EFULL) {
        fn(&info, arg);
    }
    return info.error;
}
