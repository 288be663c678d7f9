/*
 * A ledger in a plain file. Eight processes work on it. Every second process is killed, if possible
 * in the middle of its work.
 *
 *     ledger [--seconds N] [--no-lock] FILE
 *
 * The processes move money between random accounts. Each transfer reads two rows and writes two
 * rows, with pauses in between. That is correct only if no other process makes a transfer at the
 * same time, so a process holds the lock "ledger" during a transfer. At the end the sum of all
 * accounts must be the sum at the beginning. Exit status: 0 the sum is right, 1 the sum is wrong
 * (as with --no-lock), 2 any other failure.
 *
 * A lock alone is not enough: a process that is killed (kill -9) between its two writes leaves half
 * a transfer. So before a process writes a row, it writes the new contents of both rows to
 * FILE.journal. The process that gets the lock next first finishes that transfer ("redo"). A
 * transfer can be finished twice without harm, because the record has the new balances, not the
 * difference.
 *
 * Two properties of the lock make this safe:
 *  - The lock-delay. After a holder has vanished, the lock stays closed for a while. So a write
 *    that the dead process had begun is over before the next holder reads, even if the kernel or a
 *    disk had to finish it.
 *  - The token. It rises with every hold. Each record carries its writer's token. A process that
 *    finds a record with a higher token than its own no longer holds the lock (it was stopped for
 *    longer than its lease, for example), and must not write anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

enum { WORKERS = 8, ACCOUNTS = 10, START_BALANCE = 1000, ROW_SIZE = 16, RECORD_SIZE = 160 };
enum { PAUSE_US = 500 };

struct ledger {
    int rows_fd;    /* ACCOUNTS rows of ROW_SIZE bytes, each with a balance as text */
    int journal_fd; /* the journal, with one record */
    hf_lock *lock;  /* NULL with --no-lock */
};

/* A transfer in the journal: pending until both rows are written. */
struct journal_record {
    bool pending;
    uint64_t token;
    int from;
    int to;
    int64_t from_balance; /* both balances are those after the transfer */
    int64_t to_balance;
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "ledger: %s: %s\n", what, strerror(errno));
    exit(2);
}

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "ledger: %s\n", what);
    exit(2);
}

static _Noreturn void fail_hf(const char *what, int error)
{
    fprintf(stderr, "ledger: %s: %s (%d)\n", what, hf_error_text(NULL), error);
    exit(2);
}

static void pause_us(long us)
{
    const struct timespec time = {.tv_nsec = us * 1000};

    nanosleep(&time, NULL);
}

/* Memory that the processes share, to show progress and to choose a process to kill. The ledger
 * itself does not depend on it. */
struct board {
    atomic_ulong done;   /* the number of finished transfers */
    atomic_int half_way; /* the PID of a process between its two writes; 0: none */
};

static struct board *board;

/* ---- the rows --------------------------------------------------------------------------- */

static int64_t row_read(const struct ledger *ledger, int account)
{
    char row[ROW_SIZE + 1] = "";

    if (pread(ledger->rows_fd, row, ROW_SIZE, (off_t)account * ROW_SIZE) != ROW_SIZE) {
        fail("reading a row");
    }
    return strtoll(row, NULL, 10);
}

static void row_write(const struct ledger *ledger, int account, int64_t balance)
{
    char row[ROW_SIZE + 1];

    snprintf(row, sizeof(row), "%*" PRId64 "\n", ROW_SIZE - 1, balance);
    if (pwrite(ledger->rows_fd, row, ROW_SIZE, (off_t)account * ROW_SIZE) != ROW_SIZE) {
        fail("writing a row");
    }
}

/* ---- the journal ------------------------------------------------------------------------ */

/* Writes one line of a fixed size. A kill cannot split a single small write to a local file. A
 * power cut can split it. A ledger that must survive a power cut needs a checksum in the record,
 * and an fsync before it writes the rows. */
static void record_write(const struct ledger *ledger, const struct journal_record *record)
{
    char line[RECORD_SIZE + 1];
    char text[RECORD_SIZE];

    snprintf(text, sizeof(text), "%s token=%" PRIu64 " %d=%" PRId64 " %d=%" PRId64,
             record->pending ? "pending" : "done", record->token, record->from,
             record->from_balance, record->to, record->to_balance);
    snprintf(line, sizeof(line), "%-*s\n", RECORD_SIZE - 1, text);
    if (pwrite(ledger->journal_fd, line, RECORD_SIZE, 0) != RECORD_SIZE) {
        fail("writing the journal");
    }
}

/* Reads the record of the journal. Returns false if there is no record yet. With --no-lock another
 * process may write at the same time, so the bytes may be parts of two records; the function
 * returns false in this case, too. */
static bool record_read(const struct ledger *ledger, struct journal_record *out)
{
    char line[RECORD_SIZE + 1] = "";
    char state[16];

    if (pread(ledger->journal_fd, line, RECORD_SIZE, 0) != RECORD_SIZE) {
        return false;
    }
    if (sscanf(line, "%15s token=%" SCNu64 " %d=%" SCNd64 " %d=%" SCNd64, state, &out->token,
               &out->from, &out->from_balance, &out->to, &out->to_balance) != 6) {
        if (ledger->lock != NULL) {
            give_up("the journal has a line that is no record");
        }
        return false;
    }
    out->pending = strcmp(state, "pending") == 0;
    return true;
}

/* Finishes a transfer that the last holder left half done. Returns false if the record has a higher
 * token than this process: in this case this process no longer holds the lock. */
static bool recover(const struct ledger *ledger, uint64_t token)
{
    struct journal_record record;

    if (!record_read(ledger, &record)) {
        return true;
    }
    if (record.token > token) {
        return false;
    }
    if (record.pending) {
        row_write(ledger, record.from, record.from_balance);
        row_write(ledger, record.to, record.to_balance);
        record.pending = false;
        record_write(ledger, &record);
    }
    return true;
}

/* ---- a transfer ------------------------------------------------------------------------- */

/* Makes one transfer; the caller holds the lock. The pauses make it likely that the process is
 * killed in the middle, or, with --no-lock, that another process interferes. */
static void transfer(const struct ledger *ledger, uint64_t token)
{
    struct journal_record record = {.pending = true, .token = token};
    int64_t amount = rand() % 100;

    record.from = rand() % ACCOUNTS;
    record.to = (record.from + 1 + rand() % (ACCOUNTS - 1)) % ACCOUNTS;
    record.from_balance = row_read(ledger, record.from) - amount;
    pause_us(PAUSE_US);
    record.to_balance = row_read(ledger, record.to) + amount;
    if (ledger->lock != NULL && hf_remaining_ns(ledger->lock) <= 0) {
        return; /* the hold is over, and nothing has been written yet */
    }
    record_write(ledger, &record);
    row_write(ledger, record.from, record.from_balance);
    /* relaxed, like all uses of the board, because no other memory depends on its values */
    atomic_store_explicit(&board->half_way, getpid(), memory_order_relaxed);
    pause_us(PAUSE_US);
    atomic_store_explicit(&board->half_way, 0, memory_order_relaxed);
    row_write(ledger, record.to, record.to_balance);
    record.pending = false;
    record_write(ledger, &record);
}

static void ledger_open(struct ledger *ledger, const char *path)
{
    char journal[4096];

    snprintf(journal, sizeof(journal), "%s.journal", path);
    ledger->rows_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ledger->journal_fd = open(journal, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (ledger->rows_fd < 0 || ledger->journal_fd < 0) {
        fail(path);
    }
}

/* Connects this process and opens its handle. Each process does this itself, because a child cannot
 * use the client and the handle of its parent. */
static void ledger_lock_open(struct ledger *ledger)
{
    /* A lock-delay of 200 ms instead of the default of 1 s, because no write of this program takes
     * longer. */
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    hf_client *client;
    int error = hf_connect(NULL, &client);

    options.lock_delay_ns = 200000000;
    if (error == 0) {
        error = hf_open(client, "ledger", &options, &ledger->lock);
    }
    if (error != 0) {
        fail_hf("opening the lock", error);
    }
}

static volatile sig_atomic_t stopping;

static void on_term(int signal_number)
{
    (void)signal_number;
    stopping = 1;
}

static _Noreturn void work(const char *path, bool locked, unsigned seed)
{
    struct ledger ledger = {.lock = NULL};

    srand(seed);
    ledger_open(&ledger, path);
    if (locked) {
        ledger_lock_open(&ledger);
    }
    while (!stopping) {
        struct hf_hold hold = {.token = 0};
        int error = locked ? hf_acquire(ledger.lock, HF_EXCLUSIVE, HF_FOREVER, &hold) : 0;

        if (error != 0) {
            fail_hf("acquire", error);
        }
        if (recover(&ledger, hold.token)) {
            transfer(&ledger, hold.token);
            atomic_fetch_add_explicit(&board->done, 1, memory_order_relaxed);
        }
        error = locked ? hf_release(ledger.lock) : 0;
        if (error != 0 && error != HF_ELOST) {
            fail_hf("release", error);
        }
    }
    exit(0); /* the end of the process closes its handles */
}

/* ---- the parent ------------------------------------------------------------------------- */

static pid_t spawn(const char *path, bool locked)
{
    static unsigned seed = 1;
    pid_t pid;

    seed++;
    pid = fork();
    if (pid < 0) {
        fail("fork");
    }
    if (pid == 0) {
        work(path, locked, seed);
    }
    return pid;
}

static void create(const char *path)
{
    struct ledger ledger = {.lock = NULL};

    ledger_open(&ledger, path);
    for (int account = 0; account < ACCOUNTS; account++) {
        row_write(&ledger, account, START_BALANCE);
    }
    close(ledger.rows_fd);
    close(ledger.journal_fd);
}

/* Checks once that there is an agent, so that not every worker reports a missing one. */
static void find_agent(void)
{
    hf_client *client;
    int error = hf_connect(NULL, &client);

    if (error != 0) {
        fail_hf("connecting (HOLDFAST_SOCKET names the agent's socket)", error);
    }
    hf_disconnect(client);
}

/* Returns the sum of all accounts. To be called when all workers have ended. The last worker may
 * have been killed during a transfer, so this function also takes the lock and finishes a pending
 * transfer first. */
static int64_t total(const char *path, bool locked)
{
    struct ledger ledger = {.lock = NULL};
    struct hf_hold hold = {.token = 0};
    int64_t sum = 0;

    ledger_open(&ledger, path);
    if (locked) {
        int error;

        ledger_lock_open(&ledger);
        error = hf_acquire(ledger.lock, HF_EXCLUSIVE, HF_FOREVER, &hold);
        if (error != 0) {
            fail_hf("acquire", error);
        }
    }
    if (!recover(&ledger, hold.token)) {
        give_up("a record from the future");
    }
    for (int account = 0; account < ACCOUNTS; account++) {
        sum += row_read(&ledger, account);
    }
    if (locked) {
        (void)hf_release(ledger.lock);
    }
    return sum;
}

/* Chooses the process to kill. Waits a while for a process that is between its two writes, because
 * a random choice would rarely find such a process. */
static int choose_victim(const pid_t *workers)
{
    for (int tries = 0; tries < 10000; tries++) {
        pid_t pid = atomic_load_explicit(&board->half_way, memory_order_relaxed);

        for (int index = 0; index < WORKERS; index++) {
            if (workers[index] == pid) {
                return index;
            }
        }
        pause_us(20);
    }
    return rand() % WORKERS;
}

static void run(const char *path, bool locked, long seconds)
{
    pid_t workers[WORKERS];
    int status;

    for (int index = 0; index < WORKERS; index++) {
        workers[index] = spawn(path, locked);
    }
    for (long second = 0; second < seconds && !stopping; second++) {
        int victim;

        sleep(1);
        victim = choose_victim(workers);
        kill(workers[victim], SIGKILL);
        if (waitpid(workers[victim], &status, 0) < 0 || !WIFSIGNALED(status)) {
            give_up("a worker ended by itself");
        }
        workers[victim] = spawn(path, locked);
    }
    for (int index = 0; index < WORKERS; index++) {
        kill(workers[index], SIGTERM);
    }
    for (int index = 0; index < WORKERS; index++) {
        if (waitpid(workers[index], &status, 0) < 0 || WIFEXITED(status) == 0 ||
            WEXITSTATUS(status) != 0) {
            give_up("a worker failed");
        }
    }
}

int main(int argc, char **argv)
{
    const int64_t expected = (int64_t)ACCOUNTS * START_BALANCE;
    const char *path = NULL;
    bool locked = true;
    long seconds = 30;
    int64_t sum;

    for (int index = 1; index < argc; index++) {
        if (strcmp(argv[index], "--no-lock") == 0) {
            locked = false;
        } else if (strcmp(argv[index], "--seconds") == 0 && index + 1 < argc) {
            seconds = strtol(argv[++index], NULL, 10);
        } else {
            path = argv[index];
        }
    }
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (path == NULL || board == MAP_FAILED) {
        fprintf(stderr, "usage: ledger [--seconds N] [--no-lock] FILE\n");
        return 2;
    }
    /* set before the first fork, so that each worker has the handler from its beginning */
    signal(SIGTERM, on_term);
    if (locked) {
        find_agent();
    }
    create(path);
    run(path, locked, seconds);
    sum = total(path, locked);
    printf("%s the lock: %lu transfers, %ld processes killed, sum %" PRId64 ", expected %" PRId64
           ": %s\n",
           locked ? "with" : "without", atomic_load_explicit(&board->done, memory_order_relaxed),
           seconds, sum, expected, sum == expected ? "exact" : "WRONG");
    return sum == expected ? 0 : 1;
}
