/*
 * holdfast-peers measures Holdfast and other lock services in one run, with one loop and one clock
 * (./dev bench peers). This file reads the command line, and goes through the repetitions, the
 * peers and the cases. Every repetition visits every peer, so that a change of the machine's speed
 * affects all peers.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"
#include "compare.h"

enum { EXIT_USAGE = 64, EXIT_MEASURING = 70, CHOICES_MAX = 24 };

static const char help[] =
    "Usage: holdfast-peers [OPTION...]\n"
    "       holdfast-peers compare A.json B.json\n"
    "\n"
    "Starts each lock service that is installed on the loopback, in a folder of its own, measures\n"
    "it with the same loop and clock as Holdfast, stops it and removes what it left. Prints\n"
    "Markdown; docs/results/method.md says what the numbers mean and what they do not.\n"
    "\n"
    "  --quick            one short repetition: a look, not a result. Of the cases 7 to 11, which\n"
    "                     wait for leases to end, only those that --case names\n"
    "  --repetitions N    how often every peer is visited (default 3)\n"
    "  --seconds N        how long each loop measures (default 0.7; --quick: 0.25)\n"
    "  --peer NAME        only this one; again for more\n"
    "  --case NAME        only this one; again for more\n"
    "  --list             the peers and the cases, and which can run here\n"
    "  --json FILE        all values, histograms and time lines\n"
    "  --markdown FILE    the tables to a file, not to standard output\n"
    "  --plots DIR        SVG plots into that folder, by gnuplot\n"
    "  --dir DIR          where the servers keep their files: the disk that is measured\n"
    "                     (default: ./build if there is one, else $TMPDIR, else /var/tmp)\n"
    "  --help             this\n"
    "\n"
    "compare shows what changed from A to B beyond the spread of their repetitions.\n"
    "\n"
    "Exit status: 0 all was measured or compared, whatever came out; 64 bad usage; 70 something\n"
    "failed (the tables say what), 66 a file to compare cannot be read.\n";

struct choice {
    const char *names[CHOICES_MAX];
    size_t count;
};

struct options {
    bool help;
    bool list;
    bool quick;
    long repetitions; /* 0: the option is absent */
    double seconds;   /* 0: the option is absent */
    const char *json;
    const char *markdown;
    const char *plots;
    const char *directory;
    struct choice peers;
    struct choice cases;
};

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "holdfast-peers: %s%s; try --help\n", what, value);
    return -1;
}

static bool is_chosen(const struct choice *choice, const char *name)
{
    for (size_t i = 0; i < choice->count; i++) {
        if (strcmp(choice->names[i], name) == 0) {
            return true;
        }
    }
    return choice->count == 0;
}

static int choose(struct choice *choice, const char *name)
{
    if (choice->count == CHOICES_MAX) {
        return usage_error("too many names", "");
    }
    choice->names[choice->count++] = name;
    return 0;
}

static const struct bench_case *find_case(const char *name)
{
    const struct bench_case *const lists[] = {bench_cases_load, bench_cases_fault};
    for (size_t l = 0; l < 2; l++) {
        for (const struct bench_case *each = lists[l]; each->name != NULL; each++) {
            if (strcmp(each->name, name) == 0) {
                return each;
            }
        }
    }
    return NULL;
}

static int take_option(struct options *options, int letter)
{
    char *end = NULL;
    switch (letter) {
    case 'h':
        options->help = true;
        return 0;
    case 'l':
        options->list = true;
        return 0;
    case 'q':
        options->quick = true;
        return 0;
    case 'r':
        options->repetitions = strtol(optarg, &end, 10);
        return *end == '\0' && options->repetitions >= 1 && options->repetitions <= 9
                   ? 0
                   : usage_error("expected 1 to 9 repetitions, not ", optarg);
    case 's':
        options->seconds = strtod(optarg, &end);
        return *end == '\0' && options->seconds >= 0.05 && options->seconds <= 60
                   ? 0
                   : usage_error("expected 0.05 to 60 seconds, not ", optarg);
    case 'p':
        return peer_find(optarg) != NULL ? choose(&options->peers, optarg)
                                         : usage_error("no peer ", optarg);
    case 'c':
        return find_case(optarg) != NULL ? choose(&options->cases, optarg)
                                         : usage_error("no case ", optarg);
    case 'j':
        options->json = optarg;
        return 0;
    case 'm':
        options->markdown = optarg;
        return 0;
    case 'g':
        options->plots = optarg;
        return 0;
    case 'd':
        options->directory = optarg;
        return 0;
    default:
        return usage_error("expected: holdfast-peers [options]", "");
    }
}

static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"help", no_argument, NULL, 'h'},           {"list", no_argument, NULL, 'l'},
        {"quick", no_argument, NULL, 'q'},          {"repetitions", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'},  {"peer", required_argument, NULL, 'p'},
        {"case", required_argument, NULL, 'c'},     {"json", required_argument, NULL, 'j'},
        {"markdown", required_argument, NULL, 'm'}, {"plots", required_argument, NULL, 'g'},
        {"dir", required_argument, NULL, 'd'},      {NULL, 0, NULL, 0},
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        if (take_option(options, letter) != 0) {
            return -1;
        }
    }
    return optind == argc ? 0 : usage_error("unexpected word ", argv[optind]);
}

static void print_list(void)
{
    const struct bench_case *const lists[] = {bench_cases_load, bench_cases_fault};
    printf("Peers:\n");
    for (size_t i = 0; peer_kinds[i] != NULL; i++) {
        char why[PEER_WHY_MAX] = "";
        bool runs = peer_kinds[i]->missing(why) == 0;
        printf("  %-14s %-38s %s\n", peer_kinds[i]->name, peer_kinds[i]->title, runs ? "" : why);
    }
    printf("\nCases:\n");
    for (size_t l = 0; l < 2; l++) {
        for (const struct bench_case *each = lists[l]; each->name != NULL; each++) {
            printf("  %-14s %s\n", each->name, each->title);
        }
    }
}

/* ---- the lines above the tables ---- */

static void processor_name(char *text, size_t size)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    snprintf(text, size, "unknown processor");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(text, size, "%s", colon + 2);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void describe(const struct bench_plan *plan, struct results *results)
{
    struct utsname system;
    char processor[160];
    char day[32] = "";
    time_t now = time(NULL);
    struct tm date;
    processor_name(processor, sizeof(processor));
    if (uname(&system) != 0) {
        snprintf(system.release, sizeof(system.release), "?");
    }
    if (gmtime_r(&now, &date) != NULL) {
        strftime(day, sizeof(day), "%Y-%m-%d", &date);
    }
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    results_say(results, "%s, %ld x %s, Linux %s; Holdfast %s", day, processors, processor,
                system.release, HF_VERSION);
    results_say(results,
                "%u repetition%s, each loop %.2g s after %.2g s of warm-up; leases "
                "%.2g s%s",
                plan->repetitions, plan->repetitions == 1 ? "" : "s that take turns",
                (double)plan->measure_ns / 1e9, (double)plan->warm_ns / 1e9,
                (double)plan->lease_ns / 1e9, plan->quick ? "; --quick: a look, no result" : "");
    results_say(results,
                "a reading of the clock takes %.0f ns (two and more are in each latency); the loop "
                "of own locks and its checks %.1f ns a pair (in the pairs of cases 1 and 2)",
                load_clock_cost_ns(), load_loop_cost_ns());
    results_say(results, "%s",
                processors >= 4 ? "clients are pinned to the upper half of the processors"
                                : "a lone client is pinned to the last processor, several are not "
                                  "pinned: there are too few processors");
}

static void describe_peers(const struct options *options, struct results *results)
{
    static const char name[] = "peers";
    results_case(results, name, "who was measured, and what is on the disk when a lock is had");
    for (size_t i = 0; peer_kinds[i] != NULL; i++) {
        const struct peer_kind *kind = peer_kinds[i];
        char why[PEER_WHY_MAX] = "";
        if (!is_chosen(&options->peers, kind->name)) {
            continue;
        }
        if (kind->missing(why) != 0) {
            results_word(results, name, kind->title, "durability", "left out: %s", why);
            continue;
        }
        results_word(results, name, kind->title, "durability", "%s", kind->durability);
        results_word(results, name, kind->title, "token", "%s",
                     (kind->features & PEER_HAS_TOKEN) != 0 ? "yes" : "no");
        results_word(results, name, kind->title, "lease", "%s",
                     (kind->features & PEER_HAS_LEASE) != 0 ? "yes" : "no");
        results_word(results, name, kind->title, "shared", "%s",
                     (kind->features & PEER_HAS_SHARED) != 0 ? "yes" : "no");
        if (kind->fairness != NULL) {
            results_note(results, name, kind->title, "%s", kind->fairness);
        }
    }
}

/* ---- the run ---- */

static bool means_something(const struct bench_case *each, const struct peer_kind *kind)
{
    return (kind->features & each->needs) == each->needs;
}

/* Runs one case of one peer. After a failure the peer is down. Returns -2 if the peer did not
 * start. */
static int visit_one(const struct bench_plan *plan, const struct bench_case *each,
                     struct peer_run *run, uint32_t repetition, struct results *results)
{
    const struct peer_kind *kind = run->kind;
    const bool is_up = run->directory[0] != '\0';
    int64_t begin_ns = now_ns();
    int result = 0;
    fprintf(stderr, "%u: %-14s %-10s", repetition + 1, kind->name, each->name);
    if (is_up && each->own_run) {
        peer_stop(run);
    }
    if (each->own_run) {
        *run = (struct peer_run){.kind = kind, .lease_ns = plan->lease_ns};
    } else if (!is_up) {
        result = peer_start(run, kind, plan->directory, plan->lease_ns) == 0 ? 0 : -2;
    }
    if (result == 0) {
        result = each->measure(plan, run, repetition, results);
    }
    if (result != 0) {
        results_note(results, each->name, kind->title, "failed in repetition %u", repetition + 1);
        peer_stop(run);
    }
    fprintf(stderr, " %5.1f s\n", (double)(now_ns() - begin_ns) / 1e9);
    return result;
}

/* Starts the peer and runs the cases of one list for it. Returns how many cases failed. */
static int visit(const struct bench_plan *plan, const struct options *options,
                 const struct bench_case *list, const struct peer_kind *kind, uint32_t repetition,
                 struct results *results)
{
    struct peer_run *run = calloc(1, sizeof(*run));
    int failed = 0;
    int status = 0;
    if (run == NULL) {
        complain("no memory");
        return 1;
    }
    run->kind = kind;
    for (const struct bench_case *each = list; each->name != NULL && status != -2 && !interrupted();
         each++) {
        if (is_chosen(&options->cases, each->name) && means_something(each, kind)) {
            status = visit_one(plan, each, run, repetition, results);
            failed += status != 0 ? 1 : 0;
        }
    }
    peer_stop(run);
    free(run);
    return failed;
}

/* A quick run of all cases leaves out cases 7 to 11, which take too long: there are 18 peers, and
 * leases have to end for each of them. */
static bool is_too_slow(const struct options *options)
{
    return options->quick && options->cases.count == 0;
}

static int measure_all(const struct bench_plan *plan, const struct options *options,
                       struct results *results)
{
    int failed = 0;
    for (uint32_t repetition = 0; repetition < plan->repetitions; repetition++) {
        for (size_t i = 0; peer_kinds[i] != NULL && !interrupted(); i++) {
            char why[PEER_WHY_MAX];
            const struct peer_kind *kind = peer_kinds[i];
            if (!is_chosen(&options->peers, kind->name) || kind->missing(why) != 0) {
                continue;
            }
            failed += visit(plan, options, bench_cases_load, kind, repetition, results);
            if (!is_too_slow(options)) {
                failed += visit(plan, options, bench_cases_fault, kind, repetition, results);
            }
        }
    }
    return failed == 0 && !interrupted() ? 0 : -1;
}

static void name_cases(struct results *results)
{
    const struct bench_case *const lists[] = {bench_cases_load, bench_cases_fault};
    for (size_t l = 0; l < 2; l++) {
        for (const struct bench_case *each = lists[l]; each->name != NULL; each++) {
            results_case(results, each->name, each->title);
        }
    }
}

static int write_all(const struct options *options, const struct results *results)
{
    int result = 0;
    FILE *out = options->markdown == NULL ? stdout : fopen(options->markdown, "we");
    if (out == NULL) {
        return complain("%s: %s", options->markdown, strerror(errno));
    }
    results_markdown(results, out);
    if (out != stdout && fclose(out) != 0) {
        result = complain("%s: %s", options->markdown, strerror(errno));
    }
    if (options->json != NULL && results_json(results, options->json) != 0) {
        result = -1;
    }
    if (options->plots != NULL && results_plot(results, options->plots) != 0) {
        result = -1;
    }
    return result;
}

/* Makes a folder for this run below the requested folder or the default one. */
static int make_directory(const struct options *options, char *path, size_t size)
{
    const char *below = options->directory;
    if (below == NULL) {
        below = access("build", W_OK) == 0 ? "build" : getenv("TMPDIR");
        below = below != NULL ? below : "/var/tmp";
    }
    char whole[PATH_MAX];
    if (realpath(below, whole) == NULL) {
        return complain("%s: %s", below, strerror(errno));
    }
    int needed = snprintf(path, size, "%s/peers.XXXXXX", whole);
    if (needed < 0 || needed > 60) { /* servers put sockets two folders below this folder */
        return complain("%s: too long for Unix sockets below it; choose another --dir", whole);
    }
    /* Servers that run as another user must be able to pass through this folder. */
    if (mkdtemp(path) == NULL || chmod(path, 0755) != 0) {
        return complain("%s: %s", path, strerror(errno));
    }
    return 0;
}

static int run_bench(const struct options *options)
{
    char directory[PATH_MAX] = "";
    struct bench_plan plan = {
        .directory = directory,
        .quick = options->quick,
        .repetitions = options->quick ? 1 : 3,
        .warm_ns = options->quick ? 50000000 : 200000000,
        .measure_ns = options->quick ? 250000000 : 700000000,
        .lease_ns = INT64_C(2000000000),
    };
    if (options->repetitions != 0) {
        plan.repetitions = (uint32_t)options->repetitions;
    }
    if (options->seconds > 0) {
        plan.measure_ns = (int64_t)(options->seconds * 1e9);
    }
    struct results *results = results_create();
    if (results == NULL || catch_interrupts() != 0 ||
        make_directory(options, directory, sizeof(directory)) != 0) {
        results_destroy(results);
        return -1;
    }
    describe(&plan, results);
    describe_peers(options, results);
    name_cases(results);
    int64_t begin_ns = now_ns();
    int result = measure_all(&plan, options, results);
    results_say(results, "the run took %.1f min", (double)(now_ns() - begin_ns) / 60e9);
    directory_remove(directory);
    if (write_all(options, results) != 0) {
        result = -1;
    }
    results_destroy(results);
    return result;
}

int main(int argc, char **argv)
{
    struct options options = {.help = false};
    if (argc > 1 && strcmp(argv[1], "compare") == 0) {
        if (argc != 4) {
            usage_error("expected: holdfast-peers compare A.json B.json", "");
            return EXIT_USAGE;
        }
        return compare_runs(argv[2], argv[3], stdout);
    }
    if (parse_options(argc, argv, &options) != 0) {
        return EXIT_USAGE;
    }
    if (options.help) {
        fputs(help, stdout);
        return 0;
    }
    if (options.list) {
        print_list();
        return 0;
    }
    return run_bench(&options) == 0 ? 0 : EXIT_MEASURING;
}
