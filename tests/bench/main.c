/*
 * holdfast-bench prints what Holdfast costs on this machine, and beside each figure the value that
 * it is compared with. figures.h lists the figures. This file reads the command line, describes the
 * machine and the filesystem, runs the requested figures and prints them.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <holdfast/holdfast.h>

#include "figures.h"

enum { EXIT_USAGE = 64, EXIT_MEASURING = 70 };

static const struct entry {
    const char *name;
    const char *what;
    figure_fn *run;
} local_entries[] = {
    {"exclusive", "acquire + release of a cached lock, exclusive, uncontended, one thread",
     figure_exclusive},
    {"shared", "the same, shared", figure_shared},
    {"flock", "the same, exclusive, against flock(2)", figure_flock},
    {"barging-2", "barging, 2 processes on one lock", figure_barging_2},
    {"barging-8", "barging, 8 processes on one lock", figure_barging_8},
    {"fcfs-2", "first come first served, 2 processes on one lock", figure_fcfs_2},
    {"fcfs-8", "first come first served, 8 processes on one lock", figure_fcfs_8},
    {"first", "first acquire of a name never used", figure_first},
    {"idle", "an agent that nobody asks anything", figure_idle},
    {"memory-closed", "memory of a further lock, its handle closed", figure_memory_closed},
    {"memory-open", "memory of a further lock, its handle open", figure_memory_open},
    {NULL, NULL, NULL},
};

static const struct entry cell_entries[] = {
    {"cached", "acquire + release of a name that this host used before", figure_cell_cached},
    {"first", "acquire of a name never used, coordinated here and elsewhere", figure_cell_first},
    {"clients", "16 clients, names never used", figure_cell_clients},
    {"alternate", "two hosts alternating on one lock, nobody waiting", figure_cell_alternate},
    {"waiting", "hand-over to a host that waits already", figure_cell_waiting},
    {"tries", "a try on a lock that another host holds", figure_cell_tries},
    {"killed", "a voter is killed under load: what the others' clients notice", figure_cell_killed},
    {"vanished", "the holder's host is gone: until the next one has the lock",
     figure_cell_vanished},
    {"replaced",
     "a voter is replaced by another under load: what clients notice, how long it takes",
     figure_cell_replaced},
    {"tokens", "tokens that a hand-over to another host loses, clean and unclean",
     figure_cell_tokens},
    {"renewals", "what an agent sends in rest, with 1 lock held and with 100,000",
     figure_cell_renewals},
    {"million", "a voter with 1,000,000 registers: memory, restart", figure_cell_million},
    {"observers", "gossip of 3 voters and 100 observers, simulated", figure_cell_observers},
    {NULL, NULL, NULL},
};

enum { ENTRIES_MAX = 16 };

static const char help[] =
    "Usage: holdfast-bench local|cell [--quick] [--json] [--dir DIR] [NAME]\n"
    "\n"
    "Measures what locks cost, of one host (local) or of a cell of three voters on this machine\n"
    "(cell), each figure in one run beside what it is to be compared with, in short alternating\n"
    "rounds, and says whether its target is met. It starts agents of its own (the holdfastd\n"
    "beside this program) and needs no other; it leaves nothing behind. Close other programs\n"
    "first: everything here is time.\n"
    "\n"
    "  --quick      fewer and shorter rounds: a look, not a result\n"
    "  --json       one JSON object on standard output instead of the tables\n"
    "  NAME, --only NAME  only the figures whose name begins with NAME\n"
    "  --dir DIR    where the agents keep their state: the disk that is measured. Default:\n"
    "               ./build if there is one, else $TMPDIR, else /var/tmp. On a tmpfs a flush is\n"
    "               free and the figure `first` has no verdict.\n"
    "  --help       this\n"
    "";

static const char help_end[] =
    "\n"
    "Exit status: 0 all was measured, whatever came out; 64 bad usage; 70 something failed.\n"
    "docs/results/method.md says what each line means and how the peers are built.\n";

struct options {
    bool help;
    bool json;
    bool quick;
    const char *only;
    const char *directory;
    const struct entry *entries; /* ends with an entry whose name is NULL */
};

/* The machine and the filesystem, for the heading above the figures. */
struct surroundings {
    char directory[PATH_MAX];
    char filesystem[64];
    char device[PATH_MAX];
    char kernel[160];
    char processor[128];
    long processors;
};

static void print_entries(const char *title, const struct entry *entries)
{
    printf("\n%s\n", title);
    for (size_t i = 0; entries[i].name != NULL; i++) {
        printf("  %-14s %s\n", entries[i].name, entries[i].what);
    }
}

static void print_help(void)
{
    fputs(help, stdout);
    print_entries("Figures of one host (local):", local_entries);
    print_entries("Figures of a cell (cell):", cell_entries);
    fputs(help_end, stdout);
}

static bool is_asked_for(const struct entry *entry, const char *only)
{
    return only == NULL || strncmp(entry->name, only, strlen(only)) == 0;
}

static int usage_error(const char *what, const char *value)
{
    fprintf(stderr, "holdfast-bench: %s%s; try --help\n", what, value);
    return -1;
}

static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        {"quick", no_argument, NULL, 'q'},      {"json", no_argument, NULL, 'j'},
        {"only", required_argument, NULL, 'o'}, {"dir", required_argument, NULL, 'd'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
    };
    int letter;
    while ((letter = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        switch (letter) {
        case 'q':
            options->quick = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 'o':
            options->only = optarg;
            break;
        case 'd':
            options->directory = optarg;
            break;
        case 'h':
            options->help = true;
            return 0;
        default:
            return usage_error("expected: holdfast-bench local|cell [options] [NAME]", "");
        }
    }
    if (argc - optind < 1 || argc - optind > 2) {
        return usage_error("expected one word, local or cell, and perhaps a figure's name", "");
    }
    if (strcmp(argv[optind], "local") != 0 && strcmp(argv[optind], "cell") != 0) {
        return usage_error("expected `local` or `cell`, not ", argv[optind]);
    }
    options->entries = strcmp(argv[optind], "local") == 0 ? local_entries : cell_entries;
    options->only = argc - optind == 2 ? argv[optind + 1] : options->only;
    for (size_t i = 0; options->entries[i].name != NULL; i++) {
        if (is_asked_for(&options->entries[i], options->only)) {
            return 0;
        }
    }
    return usage_error("no figure's name begins with ", options->only);
}

/* Chooses the directory to measure in, as an absolute path: the requested one, else ./build if it
 * exists, else $TMPDIR if it is set, else /var/tmp. Returns -1 if the chosen directory cannot be
 * used. */
static int choose_directory(const char *asked, char out[PATH_MAX])
{
    struct stat status;
    const char *chosen = asked;
    if (chosen == NULL && stat("build", &status) == 0 && S_ISDIR(status.st_mode)) {
        chosen = "build";
    }
    if (chosen == NULL) {
        chosen = getenv("TMPDIR");
    }
    if (chosen == NULL || chosen[0] == '\0') {
        chosen = "/var/tmp";
    }
    if (realpath(chosen, out) == NULL || access(out, W_OK | X_OK) != 0) {
        return complain("%s: %s", chosen, strerror(errno));
    }
    return 0;
}

/* Finds in mountinfo the type and the device of the directory's filesystem, by its device
 * number. */
static void find_filesystem(const char *directory, struct surroundings *out)
{
    snprintf(out->filesystem, sizeof(out->filesystem), "unknown");
    snprintf(out->device, sizeof(out->device), "unknown");
    struct stat status;
    FILE *file = fopen("/proc/self/mountinfo", "re");
    if (file == NULL || stat(directory, &status) != 0) {
        if (file != NULL) {
            fclose(file);
        }
        return;
    }
    char line[2 * PATH_MAX];
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned mount_major;
        unsigned mount_minor;
        const char *after = strstr(line, " - ");
        if (after != NULL && sscanf(line, "%*d %*d %u:%u", &mount_major, &mount_minor) == 2 &&
            mount_major == major(status.st_dev) && mount_minor == minor(status.st_dev) &&
            sscanf(after, " - %63s %4095s", out->filesystem, out->device) == 2) {
            break;
        }
    }
    fclose(file);
}

static void find_processor(struct surroundings *out)
{
    snprintf(out->processor, sizeof(out->processor), "unknown processor");
    out->processors = sysconf(_SC_NPROCESSORS_ONLN);
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL) {
        return;
    }
    char line[4096];
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "model name : %127[^\n]", out->processor) == 1) {
            break;
        }
    }
    fclose(file);
}

static int find_surroundings(const char *asked, struct surroundings *out)
{
    struct utsname system;
    *out = (struct surroundings){.processors = 0};
    if (choose_directory(asked, out->directory) != 0) {
        return -1;
    }
    find_filesystem(out->directory, out);
    find_processor(out);
    if (uname(&system) == 0) {
        snprintf(out->kernel, sizeof(out->kernel), "%s %s", system.sysname, system.release);
    }
    if (strcmp(out->filesystem, "tmpfs") == 0) {
        complain("%s is a tmpfs, where a flush is free: `first` has no verdict there",
                 out->directory);
    }
    return 0;
}

static void print_heading(const struct surroundings *here, const struct options *options)
{
    const char *effort = options->quick ? "quick: a look, not a result" : "full";
    if (options->json) {
        printf("{\"version\":\"%s\",\"effort\":\"%s\",\"processor\":\"%s\",\"processors\":%ld,"
               "\"kernel\":\"%s\",\"filesystem\":\"%s\",\"figures\":[",
               hf_version(), options->quick ? "quick" : "full", here->processor, here->processors,
               here->kernel, here->filesystem);
        return;
    }
    printf("Holdfast %s, %s\n%ld x %s, %s\n", hf_version(), effort, here->processors,
           here->processor, here->kernel);
    printf("state in %s: %s on %s\n\n", here->directory, here->filesystem, here->device);
    fflush(stdout);
}

static void print_summary(const struct figure *figures, size_t count)
{
    printf("%-14s %-36s %12s   %-16s %s\n", "figure", "value", "", "target", "");
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < figures[i].verdict_count; j++) {
            const struct verdict *verdict = &figures[i].verdicts[j];
            printf("%-14s %-36s %12.3g   %s %-7g %s\n", figures[i].name, verdict->text,
                   verdict->value, verdict->kind == BOUND_AT_MOST ? "at most " : "at least",
                   verdict->bound, verdict_met(verdict) ? "met" : "MISSED");
        }
    }
}

/* Runs and prints the figures one by one; returns the exit status. */
static int run_all(const struct bench *bench, const struct options *options)
{
    static struct figure figures[ENTRIES_MAX];
    const struct entry *entries = options->entries;
    size_t done = 0;
    int status = EXIT_SUCCESS;
    for (size_t i = 0; entries[i].name != NULL && !interrupted(); i++) {
        if (!is_asked_for(&entries[i], options->only)) {
            continue;
        }
        struct figure *figure = &figures[done];
        *figure = (struct figure){.name = entries[i].name, .what = entries[i].what};
        if (entries[i].run(bench, figure) != 0) {
            complain("%s could not be measured", entries[i].name);
            status = EXIT_MEASURING;
            continue;
        }
        if (options->json) {
            printf("%s", done == 0 ? "" : ",");
            figure_print_json(figure);
        } else {
            figure_print_text(figure);
        }
        done++;
    }
    if (options->json) {
        printf("]}\n");
    } else {
        print_summary(figures, done);
    }
    return interrupted() ? EXIT_MEASURING : status;
}

int main(int argc, char **argv)
{
    struct options options = {.help = false};
    struct surroundings here;
    if (parse_options(argc, argv, &options) != 0) {
        return EXIT_USAGE;
    }
    if (options.help) {
        print_help();
        return EXIT_SUCCESS;
    }
    if (catch_interrupts() != 0 || find_surroundings(options.directory, &here) != 0) {
        return EXIT_MEASURING;
    }
    const struct bench bench = {
        .directory = here.directory,
        .effort = {.quick = options.quick,
                   .rounds = options.quick ? 5 : 15,
                   .round_ns = options.quick ? INT64_C(20000000) : INT64_C(100000000)},
    };
    print_heading(&here, &options);
    return run_all(&bench, &options);
}
