/*
 * torture [--minutes N] [--seed S] ...: plays rounds of torture.h until the time is over, and
 * prints a table.
 *
 * Each round is a process with a folder of its own. The folder has the agents' folders with their
 * logs, the workers' record, and `story`, a list of what happened when. A good round removes its
 * folder. A failed round leaves it, and prints the command that repeats the round with its seed.
 */
#include "torture.h"

#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
    EXIT_USAGE = 64,
    ROUND_S = 120,
    ROUND_S_MIN = 5,
    ROUND_GUARD_S = 600, /* a round fails if it runs this many seconds longer than its faults */
    STEP_MS = 20,
};

static const char help[] =
    "Real cells under all faults that a kernel can make, drawn from a seed.\n"
    "\n"
    "  --minutes N        go on for so long (default 10)\n"
    "  --seconds N        the same in seconds\n"
    "  --seed S           of the first round; the next one has S + 1 (default: from the clock)\n"
    "  --voters 3|5       how many (default: as the seed says); observers come on top\n"
    "  --round-seconds N  how long each cell suffers (default 120, or the whole time if less)\n"
    "  --rounds N         end after so many rounds, whatever the time\n"
    "  --only LIST        no faults but these, with commas between them: kill, terminate, stop,\n"
    "                     kill-worker, stop-worker, isolate, one-way, lose, slow-links,\n"
    "                     rough-links, alter (with TLS), stall-disk, slow-disk, flush-error,\n"
    "                     write-error, full-disk, no-memory, no-files, kill-all, roll, upgrade,\n"
    "                     members, clock\n"
    "\n"
    "Needs root, or a kernel that gives users namespaces of their own; else exit status 77.\n"
    "HOLDFAST_TEST_KEEP=1 keeps what rounds leave that went well, too.\n"
    "Exit status: 0 every round went well; 1 not: the folder of each that failed is named, with\n"
    "the command that plays its seed again (the same faults; when exactly they hit is chance).\n";

struct command_line {
    unsigned seconds;
    unsigned round_s;
    unsigned rounds;
    unsigned voters;
    uint64_t seed;
    const char *only_given; /* the argument of --only; NULL: there is none */
    uint32_t only;          /* a bit for each kind of fault that --only names; 0: all kinds */
};

struct session {
    struct command_line line;
    struct torture_totals *totals;
    char folder[32];
    unsigned rounds;
    unsigned failed;
    bool keep; /* the folders of good rounds stay, too */
    int64_t start_ns;
};

static volatile sig_atomic_t interrupted; /* a signal asks for the table at once */

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    remove(path);
    return 0;
}

static unsigned read_number(const char *option, const char *text, unsigned min)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < min || value > 1000000) {
        fprintf(stderr, "torture: --%s \"%s\", expected a number from %u\n", option, text, min);
        exit(EXIT_USAGE);
    }
    return (unsigned)value;
}

/* Returns a bit for each kind of fault that the list names. Ends the program if a kind is unknown,
 * or if the list has only kinds that cannot come alone (clock, alter). */
static uint32_t read_kinds(const char *text)
{
    uint32_t kinds = 0;
    for (const char *at = text; at != NULL;) {
        size_t size = strcspn(at, ",");
        unsigned kind = 0;
        while (kind < TORTURE_FAULTS && (strlen(torture_fault_word(kind)) != size ||
                                         memcmp(torture_fault_word(kind), at, size) != 0)) {
            kind++;
        }
        if (kind == TORTURE_FAULTS) {
            fprintf(stderr, "torture: --only \"%s\", expected kinds of faults (--help)\n", text);
            exit(EXIT_USAGE);
        }
        kinds |= UINT32_C(1) << kind;
        at = at[size] == ',' ? at + size + 1 : NULL;
    }
    if ((kinds & ~(UINT32_C(1) << TORTURE_CLOCK | UINT32_C(1) << TORTURE_ALTER)) == 0) {
        fprintf(stderr, "torture: --only \"%s\", expected one that comes by itself, too\n", text);
        exit(EXIT_USAGE);
    }
    return kinds;
}

static void read_options(int argc, char **argv, struct command_line *line)
{
    static const struct option options[] = {
        {"minutes", required_argument, NULL, 'm'},
        {"seconds", required_argument, NULL, 's'},
        {"seed", required_argument, NULL, 'S'},
        {"voters", required_argument, NULL, 'v'},
        {"round-seconds", required_argument, NULL, 'r'},
        {"rounds", required_argument, NULL, 'n'},
        {"only", required_argument, NULL, 'o'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;
    int which = 0;
    while ((option = getopt_long(argc, argv, "h", options, &which)) != -1) {
        const char *name = options[which].name;
        switch (option) {
        case 'm':
            line->seconds = 60 * read_number(name, optarg, 1);
            break;
        case 's':
            line->seconds = read_number(name, optarg, ROUND_S_MIN);
            break;
        case 'S':
            line->seed = strtoull(optarg, NULL, 10);
            break;
        case 'v':
            line->voters = read_number(name, optarg, 1);
            break;
        case 'r':
            line->round_s = read_number(name, optarg, ROUND_S_MIN);
            break;
        case 'n':
            line->rounds = read_number(name, optarg, 1);
            break;
        case 'o':
            line->only_given = optarg;
            line->only = read_kinds(optarg);
            break;
        case 'h':
            fputs(help, stdout);
            exit(0);
        default:
            exit(EXIT_USAGE);
        }
    }
    if (optind < argc || (line->voters != 0 && line->voters != 3 && line->voters != 5)) {
        fprintf(stderr, "torture: found %s, expected options and 3 or 5 voters (--help)\n",
                optind < argc ? argv[optind] : "other voters");
        exit(EXIT_USAGE);
    }
    line->round_s = line->round_s < line->seconds ? line->round_s : line->seconds;
}

/* Waits for a round's end. Returns its status, or -1 if the round hangs. A signal to this program
 * kills the round. */
static int await_round(pid_t pid, unsigned round_s)
{
    int64_t end_ns = boottime_now() + (int64_t)(round_s + ROUND_GUARD_S) * 1000 * MS;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (interrupted || boottime_now() > end_ns) {
            kill_process(pid);
            return interrupted ? 0 : -1;
        }
        sleep_ms(STEP_MS);
    }
    return status;
}

static void print_end(const char *path)
{
    char command[128];
    snprintf(command, sizeof(command), "tail -n 12 %s", path);
    fflush(stdout);
    if (system(command) != 0) {
        printf("(%s cannot be read)\n", path);
    }
}

static void play(struct session *session)
{
    char folder[40];
    char story[64];
    const struct command_line *line = &session->line;
    snprintf(folder, sizeof(folder), "%s/%u", session->folder, session->rounds);
    snprintf(story, sizeof(story), "%s/story", folder);
    REQUIRE(mkdir(folder, 0700) == 0, "%s: %s", folder, strerror(errno));
    setenv("HOLDFAST_TEST_BASE", folder, 1);
    const struct torture_plan plan = {.seed = line->seed + session->rounds,
                                      .voters = line->voters,
                                      .duration_s = line->round_s,
                                      .folder = folder,
                                      .only = line->only,
                                      .totals = session->totals};
    printf("round %u, seed %llu\n", session->rounds + 1, (unsigned long long)plan.seed);
    pid_t pid = fork_tied();
    if (pid == 0) {
        signal(SIGINT, SIG_IGN); /* the parent handles SIGINT, and ends the round */
        signal(SIGTERM, SIG_DFL);
        int file = open(story, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        dup2(file, 1);
        dup2(file, 2);
        torture_round(&plan);
    }
    int status = await_round(pid, line->round_s);
    session->rounds++;
    if (status == 0 && session->keep) {
        printf("went well; everything: %s\n", folder);
        return;
    }
    if (status == 0) {
        nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
        return;
    }
    session->failed++;
    printf("FAILED (%s); its end:\n", status < 0 ? "it hangs" : "see the story");
    print_end(story);
    printf("everything: %s\nagain: ./dev torture --rounds 1 --seed %llu --seconds %u", folder,
           (unsigned long long)plan.seed, line->round_s);
    if (line->voters != 0) {
        printf(" --voters %u", line->voters);
    }
    printf("%s%s\n", line->only_given ? " --only " : "", line->only_given ? line->only_given : "");
}

static void print_table(const struct session *session)
{
    const struct torture_totals *totals = session->totals;
    double minutes = (double)(boottime_now() - session->start_ns) / (60e3 * (double)MS);
    uint64_t sum = 0;
    for (unsigned i = 0; i < TORTURE_FAULTS; i++) {
        uint64_t count = atomic_load(&totals->faults[i]);
        sum += count;
        printf("%8llu  %s\n", (unsigned long long)count, torture_fault_name(i));
    }
    printf("%8llu  faults in all, in %.1f minutes and %u rounds, %u of which failed\n",
           (unsigned long long)sum, minutes, session->rounds, session->failed);
    printf("%8llu  agents that ended by themselves because of one\n",
           (unsigned long long)atomic_load(&totals->ends));
    printf("%8llu  holds, of which %llu were lost; %llu attempts were given up\n",
           (unsigned long long)atomic_load(&totals->holds),
           (unsigned long long)atomic_load(&totals->lost),
           (unsigned long long)atomic_load(&totals->gave_up));
    printf("%8lld  ms was the longest wait for a lock; %lld ms from the end of all faults until "
           "every host was served\n",
           (long long)(atomic_load(&totals->longest_wait_ns) / MS),
           (long long)(atomic_load(&totals->healing_ns) / MS));
    printf("%8llu  flushes, %llu of them slow or stalled; %llu writes and flushes failed\n",
           (unsigned long long)atomic_load(&totals->flushes),
           (unsigned long long)atomic_load(&totals->slow_flushes),
           (unsigned long long)atomic_load(&totals->failed_writes));
    printf("%8llu  packets over bad links: %llu lost, %llu doubled, %llu overtaken, %llu damaged, "
           "%llu altered, %llu resets\n",
           (unsigned long long)atomic_load(&totals->packets.frames),
           (unsigned long long)atomic_load(&totals->packets.lost),
           (unsigned long long)atomic_load(&totals->packets.doubled),
           (unsigned long long)atomic_load(&totals->packets.late),
           (unsigned long long)atomic_load(&totals->packets.corrupted),
           (unsigned long long)atomic_load(&totals->packets.altered),
           (unsigned long long)atomic_load(&totals->packets.reset));
}

int main(int argc, char **argv)
{
    static struct session session = {.line = {.seconds = 600, .round_s = ROUND_S},
                                     .folder = "/tmp/hf-torture-XXXXXX"};
    const char *given = getenv("HOLDFAST_TEST_SEED");
    session.line.seed = given ? strtoull(given, NULL, 10) : (uint64_t)boottime_now() / MS;
    read_options(argc, argv, &session.line);
    network_need();
    REQUIRE(mkdtemp(session.folder), "mkdtemp: %s", strerror(errno));
    session.totals = mmap(NULL, sizeof(*session.totals), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(session.totals != MAP_FAILED, "no memory");
    setvbuf(stdout, NULL, _IOLBF, 0);
    session.keep = getenv("HOLDFAST_TEST_KEEP") != NULL;
    setenv("HOLDFAST_TEST_KEEP", "1", 1);
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    session.start_ns = boottime_now();
    int64_t end_ns = session.start_ns + (int64_t)session.line.seconds * 1000 * MS;
    do {
        play(&session);
    } while (!interrupted && boottime_now() < end_ns &&
             (session.line.rounds == 0 || session.rounds < session.line.rounds));
    print_table(&session);
    rmdir(session.folder); /* works only if no failed round left its folder */
    return session.failed != 0;
}
