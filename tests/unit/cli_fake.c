/*
 * A libholdfast in memory, without an agent, for the tests of the command. The words of the
 * environment variable HOLDFAST_FAKE, separated by commas, set its behaviour:
 *
 * connect=E open=E acquire=E check=E break=E list=E   the call fails with error E
 *   ended=N         break ended N holds, at most 2
 *   ended_more=N    break ended N more
 *   closed=N        after the break the lock is closed for N ns
 *   unanswered=N    N agents, at most 2, have not answered the break
 *   block           hf_acquire waits until its timeout or hf_cancel; a start stays pending
 *   granted_ms=N    a start gets the lock after N ms
 *   lease_ms=N      a hold lasts for N ms, and then ends without an event
 *   lost_ms=N       an event LOST comes after N ms
 *   shaky           before LOST come the events JEOPARDY, SAFE and JEOPARDY
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
 *   start=E         hf_acquire_start fails with error E
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
 *   broken          the open locks have a hold that was broken without a lock-delay
 *   noted           the holder of "a", the hold of `behind`, the first that break ends, and the
 *                   reason of hf_why have notes
 *   more            two more locks: one is free, one is awaited and has long names
 *   log=PATH        every call is appended to that file, one in each line
 *
 * A number may be @N: the time in N days, in seconds since 1970.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cli_fake.h"

const char *fake_setting(const char *key, char *buffer, size_t size)
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

int64_t fake_number(const char *key)
{
    char buffer[256];
    const char *text = fake_setting(key, buffer, sizeof(buffer));

    if (text != NULL && text[0] == '@') { /* "@N": the time N days from now */
        return (int64_t)time(NULL) + 86400 * strtoll(text + 1, NULL, 10);
    }
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

bool fake_is_set(const char *key)
{
    char buffer[256];

    return fake_setting(key, buffer, sizeof(buffer)) != NULL;
}

void fake_log_call(const char *format, ...)
{
    char path[256];
    char line[600];
    va_list arguments;
    int fd;

    if (fake_setting("log", path, sizeof(path)) == NULL) {
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

int64_t fake_now_ns(void)
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

    fake_log_call("connect %s", options->socket == NULL ? "-" : options->socket);
    if (options->connect_timeout_ns != 0) {
        fake_log_call("connect timeout=%" PRId64, options->connect_timeout_ns);
    }
    if (options->command != NULL) {
        fake_log_call("connect command=%s", options->command);
    }
    if (fake_number("connect") != 0) {
        return (int)fake_number("connect");
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
    client->changes = fake_number("changes");
    client->away = fake_number("away");
    *out = client;
    return 0;
}

void hf_disconnect(hf_client *client)
{
    fake_log_call("disconnect");
    close(client->event_fd);
    free(client);
}

int hf_open(hf_client *client, const char *name, const struct hf_lock_options *options,
            hf_lock **out)
{
    hf_lock *lock = &client->locks[client->lock_count];

    fake_log_call("open %s delay=%" PRId64 " lease=%" PRId64 " stall=%" PRId64 "%s%s", name,
                  options->lock_delay_ns, options->lease_ns, options->max_stall_ns,
                  options->note != NULL ? " note=" : "",
                  options->note != NULL ? options->note : "");
    if (fake_number("open") != 0) {
        return (int)fake_number("open");
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
    int64_t lease_ms = fake_is_set("late") ? 0 : fake_number("lease_ms");

    set_hold(lock, true, fake_now_ns() + (lease_ms > 0 ? lease_ms : 3600000) * 1000000);
    if (out != NULL) {
        *out = (struct hf_hold){.token = lock->token, .deadline_ns = lock->end_ns};
    }
    if (fake_number("lost_ms") > 0) {
        timer_in(lock->client->event_fd, fake_number("lost_ms"));
    }
}

int hf_acquire(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out)
{
    fake_log_call("acquire %s mode=%d timeout=%" PRId64, lock->name, (int)mode, timeout_ns);
    if (fake_number("acquire") != 0) {
        return (int)fake_number("acquire");
    }
    if (fake_is_set("block")) {
        return block(lock, timeout_ns);
    }
    if (fake_is_set("awaits_why")) {
        await(lock->client, &lock->client->asked);
    }
    begin(lock, out);
    return 0;
}

int hf_acquire_start(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns)
{
    hf_client *client = lock->client;

    fake_log_call("acquire_start %s mode=%d timeout=%" PRId64, lock->name, (int)mode, timeout_ns);
    client->pending = true;
    client->start_error = (int)fake_number("acquire");
    if (fake_is_set("block") && client->start_error == 0 && timeout_ns >= 0) {
        client->start_error = timeout_ns == 0 ? HF_EBUSY : HF_ETIMEDOUT;
    }
    if (!fake_is_set("block") || timeout_ns >= 0) {
        timer_in(client->event_fd,
                 fake_is_set("block") ? timeout_ns / 1000000 : fake_number("granted_ms"));
    }
    return (int)fake_number("start");
}

int hf_acquire_all(hf_lock *const *locks, size_t count, enum hf_mode mode, int64_t timeout_ns,
                   struct hf_hold *out)
{
    fake_log_call("acquire_all %zu", count);
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

    fake_log_call("release %s", lock->name);
    if (lock->client->pending) {
        return HF_ENOTHELD;
    }
    set_hold(lock, false, lock->end_ns);
    move(lock->client, &lock->client->released);
    if (fake_is_set("slow")) {
        nanosleep(&pause, NULL);
    }
    if (fake_number("release") != 0) {
        return (int)fake_number("release");
    }
    return lock->end_ns <= fake_now_ns() ? HF_ELOST : 0;
}

int hf_progress(hf_lock *lock)
{
    fake_log_call("progress %s", lock->name);
    if (fake_is_set("stall") || fake_is_set("late")) {
        set_hold(lock, lock->held, fake_now_ns() + fake_number("lease_ms") * 1000000);
    }
    return 0;
}

int hf_cancel(hf_lock *lock)
{
    fake_log_call("cancel %s", lock->name);
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
    bool silent = fake_is_set("silent");
    bool slow = fake_is_set("slow");
    bool known = fake_is_set("why");
    enum hf_reason_kind kind = (enum hf_reason_kind)fake_number("why");

    fake_log_call("why %s", lock->name);
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
    snprintf(out->note, sizeof(out->note), "%s", fake_is_set("noted") ? "trial \"7\"" : "");
    return 0;
}

int64_t hf_remaining_ns(const hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->mutex);
    int64_t remaining_ns = lock->held ? lock->end_ns - fake_now_ns() : 0;
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
    fake_log_call("check %s", sequencer);
    return (int)fake_number("check");
}

int hf_watch(hf_client *client, const char *prefix)
{
    fake_log_call("watch %s", prefix);
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
        (void)fake_setting("changed", out->name, sizeof(out->name));
        if (fake_is_set("overflow")) {
            out->name[0] = '\0';
        }
        return 1;
    }
    if (read(client->event_fd, &count, sizeof(count)) < 0) {
        return 0;
    }
    if (client->pending) {
        client->pending = false;
        *out = (struct hf_event){.kind = HF_EVENT_FAILED, .error = client->start_error};
        if (client->start_error == 0) {
            begin(&client->locks[0], NULL);
            *out = (struct hf_event){.kind = HF_EVENT_GRANTED, .token = client->locks[0].token};
        }
        out->lock = &client->locks[0];
        return 1;
    }
    if (fake_is_set("shaky") && client->shakes < 3) {
        out->kind = client->shakes++ == 1 ? HF_EVENT_SAFE : HF_EVENT_JEOPARDY;
        out->lock = &client->locks[0];
        timer_in(client->event_fd, 20);
        return 1;
    }
    if (fake_number("lost_ms") == 0 || client->lost_told) {
        return 0;
    }
    client->lost_told = true;
    out->lock = &client->locks[0];
    set_hold(out->lock, out->lock->held, fake_now_ns());
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
    {"dev", 4242, 0, "job \"x\"\n\x1b[31m\xff end", HF_EXCLUSIVE, UINT64_MAX, 1234567890, 4999999,
     NULL},
};
static const struct hf_party noted[] = {
    {"dev", 4242, 0, "job", HF_EXCLUSIVE, 9, 1234567890, 4999999, "trial \x1b 7"},
};
/* the hold of this party began 100,000 days ago */
static const struct hf_party patient[] = {
    {"host-with-a-long-name", 5, 4294967294, "make report of a whole year of orders and returns",
     HF_EXCLUSIVE, 8, INT64_C(8640000000) * 1000000000, 1, NULL},
};
static const struct hf_party readers[] = {
    {"dev", 1, 0, "r1", HF_SHARED, 7, 0, 1, NULL},
    {NULL, -1, -1, NULL, HF_SHARED, 7, -1, -1, NULL},
};
static const struct hf_party waiters[] = {
    {"dev", 77, 0, NULL, HF_SHARED, 0, 2000000000, 0, NULL},
    {NULL, -1, -1, NULL, HF_EXCLUSIVE, 0, -1, 0, NULL},
};
static const struct hf_party *const holder_list[] = {&holders[0]};
static const struct hf_party *const noted_list[] = {&noted[0]};
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

/* Calls fn with the lock. If `behind` is set, the lock has the hold behind which it is closed. If
 * `broken` is set and the lock is open, it has a hold that was broken. */
static int tell(struct hf_lock_info info, hf_list_fn *fn, void *arg)
{
    const struct hf_behind behind = {"host-c",
                                     999,
                                     0,
                                     "job \x1b x",
                                     (enum hf_ending)fake_number("behind"),
                                     1700000000,
                                     "b",
                                     4294967294,
                                     fake_is_set("noted") ? "trial 8" : NULL};
    const struct hf_behind vague = {"host-c", -1, -1, NULL, HF_ENDING_UNKNOWN, -1, NULL, -1, NULL};
    const struct hf_behind broken = {"host-c",   999, 0,          "job", HF_ENDING_BROKEN,
                                     1700000000, "b", 4294967294, NULL};

    if (fake_is_set("noted") && info.holders == holder_list) {
        info.holders = noted_list;
    }

    if (has_changed && !fake_is_set("changed")) {
        info.waiter_count = 0;
    }
    if (has_changed && fake_is_set("moved")) {
        info.coordinator = "moved";
    }
    if (fake_is_set("unseen") && info.age_ns == -1) {
        info.closed_ns = 0;
    }
    if (fake_is_set("behind") && info.closed_ns > 0 && (has_changed || !fake_is_set("later"))) {
        info.behind = fake_number("behind") == 100 ? &vague : &behind;
    }
    if (fake_is_set("broken") && info.closed_ns == 0) {
        info.behind = &broken;
    }
    return fn(&info, arg);
}

int hf_list(hf_client *client, const char *prefix, hf_list_fn *fn, void *arg)
{
    const bool never = false;

    fake_log_call("list %s", prefix);
    if (fake_is_set("stuck") && client->lists++ >= fake_number("stuck")) {
        await(client, &never);
    }
    if (client->away > 0) {
        client->away--;
        return HF_ENOAGENT;
    }
    if (fake_number("list") != 0) {
        return (int)fake_number("list");
    }
    for (size_t index = 0; index < (fake_is_set("more") ? 5 : 3) && !fake_is_set("empty");
         index++) {
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
    fake_log_call("show %s", name);
    for (size_t index = 0; index < 3; index++) {
        if (strcmp(infos[index].name, name) == 0) {
            struct hf_lock_info info = infos[index];

            info.age_ns += fake_is_set("changed") ? 1000000000 : 0;
            info.closed_ns -= fake_is_set("changed") && info.closed_ns > 0 ? 1000000 : 0;
            return tell(info, fn, arg);
        }
    }
    return HF_EACCES;
}
