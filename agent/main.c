/*
 * holdfastd: the command line.
 *
 * Exit codes:
 *   0   a signal ended the agent
 *   64  the command line is wrong
 *   69  the system lacks something that the agent needs, and may have it later
 *   70  any other failure, such as another agent that uses the same folder or socket
 *   78  a person has to edit the configuration
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "config/accounts.h"
#include "io/clock.h"
#include "io/closer.h"
#include "io/late_close.h"
#include "io/remover.h"
#include "io/sandbox.h"
#include "io/socket.h"
#include "io/subids.h"
#include "io/wake.h"
#include "observe/log.h"
#include "peers/peers.h"
#include "proto/check.h"
#include "run/certificates.h"
#include "run/folders.h"
#include "run/loop.h"
#include "run/recover.h"
#include "run/start.h"

static const char help[] =
    "holdfastd: the lock agent of this host\n"
    "\n"
    "  holdfastd --dev [--state-dir DIR]    run a cell of this one host; nothing else is needed\n"
    "  holdfastd --config FILE              run as FILE says (docs/CONFIG.md has every key)\n"
    "  holdfastd --config FILE --check-config\n"
    "                                       only check FILE, and the folders in it that exist:\n"
    "                                       exit with 0 if all is good, 78 if FILE is not, 69 if\n"
    "                                       a folder or a file of [tls] is not, or a certificate\n"
    "                                       has ended\n"
    "\n"
    "  holdfastd --config FILE --rejoin [--undo] --yes\n"
    "                                       let this voter start over with an empty store.\n"
    "                                       --undo takes that back, if no other voter knows of\n"
    "                                       it yet. (`holdfast member rejoin` explains this, and\n"
    "                                       does the same)\n"
    "\n"
    "  holdfastd --config FILE --recover\n"
    "                                       if a majority of the voters is lost for good: let the\n"
    "                                       cell begin anew with the store of this host, or with\n"
    "                                       a backup in its place (docs/OPERATIONS.md, \"Two of\n"
    "                                       three are gone\"). It refuses if the other voters\n"
    "                                       answer that a majority is alive. Otherwise it says\n"
    "                                       what will be lost, and asks for the cell's name\n"
    "  holdfastd --config FILE --backup OUT\n"
    "                                       write a backup of this host's store to OUT (the agent\n"
    "                                       is stopped; otherwise: `holdfast member backup`)\n"
    "\n"
    "The agent stays in the foreground and logs to standard error. SIGTERM ends it. Every hold\n"
    "stays as it is, and goes on if an agent is back before the lease is over (5 s by default).\n"
    "\n"
    "  --dev             cell dev, agent dev, session_ttl 5s; only you and root may use it\n"
    "  --state-dir DIR   with --dev: the folder of its state and its socket, agent.sock. A\n"
    "                    relative DIR is below the current folder; a missing one is made.\n"
    "                    Default: $XDG_RUNTIME_DIR/holdfast (for root without that variable:\n"
    "                    /run/holdfast)\n"
    "  --profile NAME    with --dev: standard (default), or small: tables for an embedded node\n"
    "  --config FILE     an INI file\n"
    "  --check-config    with --config: validate and exit\n"
    "  --rejoin          with --config: replace the store of this voter (the agent is stopped)\n"
    "  --undo            with --rejoin: put the replaced store back (the agent is stopped)\n"
    "  --yes             with --rejoin: do it\n"
    "  --recover         with --config: begin the cell anew (the agent is stopped). A person\n"
    "                    types the cell's name on the terminal; a script has --recover=CELL\n"
    "  --backup OUT      with --config: write a backup (the agent is stopped)\n"
    "  --force           with --backup: replace OUT if it exists\n"
    "  --version         print the version\n"
    "  --help            print this\n"
    "\n"
    "Try it:\n"
    "\n"
    "  holdfastd --dev --state-dir /tmp/cell &\n"
    "  export HOLDFAST_SOCKET=/tmp/cell/agent.sock\n"
    "  holdfast lock hello -- sh -c 'echo \"token $HOLDFAST_TOKEN\"'\n"
    "  holdfast status\n"
    "\n"
    "Exit status: 0 ended on a signal; 64 bad usage; 78 bad configuration: edit it; 69 the system\n"
    "lacks something now; 70 another agent uses the state_dir or socket, or any other failure.\n";

struct command_line {
    bool dev;
    bool check_only;
    bool rejoin;
    bool undo;
    bool yes;
    bool recover;
    bool force;
    const char *cell;   /* with recover: the name of the cell; NULL: ask for it */
    const char *backup; /* the file to write; NULL: none */
    const char *state_dir;
    const char *profile;
    const char *config;
};

static int usage(const char *what, const char *found, const char *expected)
{
    fprintf(stderr, "holdfastd: %s%s, expected %s (holdfastd --help)\n", what, found, expected);
    return AGENT_EXIT_USAGE;
}

static void print_version(void)
{
    const char *without = config_built_without();
    printf("holdfastd %s%s%s%s\n", HF_VERSION, without[0] != '\0' ? " (built without " : "",
           without, without[0] != '\0' ? ")" : "");
}

/* Reads the command line. Returns -1 if the agent goes on, else the exit code. */
static int read_options(int argc, char **argv, struct command_line *out)
{
    enum {
        DEV = 256,
        STATE_DIR,
        PROFILE,
        CONFIG,
        CHECK,
        REJOIN,
        UNDO,
        YES,
        RECOVER,
        BACKUP,
        FORCE,
        HELP,
        VERSION
    };
    static const struct option options[] = {
        {"dev", no_argument, NULL, DEV},
        {"state-dir", required_argument, NULL, STATE_DIR},
        {"profile", required_argument, NULL, PROFILE},
        {"config", required_argument, NULL, CONFIG},
        {"check-config", no_argument, NULL, CHECK},
        {"rejoin", no_argument, NULL, REJOIN},
        {"undo", no_argument, NULL, UNDO},
        {"yes", no_argument, NULL, YES},
        {"recover", optional_argument, NULL, RECOVER},
        {"backup", required_argument, NULL, BACKUP},
        {"force", no_argument, NULL, FORCE},
        {"help", no_argument, NULL, HELP},
        {"version", no_argument, NULL, VERSION},
        {NULL, 0, NULL, 0},
    };
    int option;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        switch (option) {
        case DEV:
            out->dev = true;
            break;
        case STATE_DIR:
            out->state_dir = optarg;
            break;
        case PROFILE:
            out->profile = optarg;
            break;
        case CONFIG:
            out->config = optarg;
            break;
        case CHECK:
            out->check_only = true;
            break;
        case REJOIN:
            out->rejoin = true;
            break;
        case UNDO:
            out->undo = true;
            break;
        case YES:
            out->yes = true;
            break;
        case RECOVER:
            out->recover = true;
            out->cell = optarg;
            break;
        case BACKUP:
            out->backup = optarg;
            break;
        case FORCE:
            out->force = true;
            break;
        case HELP:
        case 'h':
            fputs(help, stdout);
            return fflush(stdout) == 0 ? AGENT_EXIT_OK : AGENT_EXIT_SOFTWARE;
        case VERSION:
            print_version();
            return fflush(stdout) == 0 ? AGENT_EXIT_OK : AGENT_EXIT_SOFTWARE;
        case ':':
            return usage(argv[optind - 1], " without a value", "one");
        default:
            return usage("unknown option ", argv[optind - 1], "--dev or --config FILE");
        }
    }
    if (optind < argc) {
        return usage("found argument ", argv[optind], "options only");
    }
    return -1;
}

static int check_command_line(const struct command_line *line)
{
    if (line->dev == (line->config != NULL)) {
        return usage(line->dev ? "found --dev and --config" : "found neither", "",
                     line->dev ? "one of them" : "--dev or --config FILE");
    }
    if (line->state_dir != NULL && !line->dev) {
        return usage("found --state-dir with --config", "", "state_dir in the file's [agent]");
    }
    if (line->profile != NULL && !line->dev) {
        return usage("found --profile with --config", "", "profile in the file's [agent]");
    }
    if (line->check_only && line->config == NULL) {
        return usage("found --check-config", "", "--config FILE with it");
    }
    if (line->rejoin && (line->config == NULL || line->check_only)) {
        return usage("found --rejoin", "", "--config FILE with it, not --check-config");
    }
    if (line->recover && (line->config == NULL || line->check_only || line->rejoin)) {
        return usage("found --recover", "",
                     "--config FILE with it, not --check-config or --rejoin");
    }
    if (line->backup != NULL &&
        (line->config == NULL || line->check_only || line->rejoin || line->recover)) {
        return usage("found --backup", "",
                     "--config FILE with it, not --check-config, --rejoin or --recover");
    }
    if (line->force && line->backup == NULL) {
        return usage("found --force", "", "it with --backup OUT");
    }
    if (!line->rejoin && (line->undo || line->yes)) {
        return usage(line->undo ? "found --undo" : "found --yes", "", "it with --rejoin");
    }
    if (line->rejoin && !line->yes) {
        return usage("nothing was done: found --rejoin", " without --yes", "it with --yes");
    }
    return -1;
}

/*
 * Gives up the powers that the agent does not need, before it starts threads and serves clients. If
 * a power cannot be given up, the agent logs that and goes on: an agent that is easier to take over
 * is better than none.
 */
static void confine(struct agent *agent, char **arguments)
{
    const struct config *config = &agent->config;
    const char *kept = sandbox_drop();
    /* The filter of system calls forbids starting a process, so the helper processes start before
     * it. */
    agent->remover = remover_open(arguments);
    if (config->account_count > 0) {
        agent->accounts = accounts_open(config, "/etc", accounts_of_host, arguments);
        if (agent->accounts == NULL) {
            log_simple(LOG_LEVEL_WARN, "accounts_ended", strerror(errno));
            accounts_find_here(&agent->config, accounts_of_host);
        }
    }
    if (socket_needs_closer()) {
        agent->closer = closer_open(SOCKET_CLOSER_ROOM, arguments);
        if (agent->closer == NULL) {
            log_simple(LOG_LEVEL_WARN, "closer_ended", strerror(errno));
        }
    }
    if (!late_close_start()) {
        log_simple(LOG_LEVEL_WARN, "closes_here", strerror(errno));
    }
    if (!wake_start(NULL)) {
        log_simple(LOG_LEVEL_WARN, "wakes_here", strerror(errno));
    }
    /* The agent waits for none of its helper processes. With SIGCHLD ignored, the kernel removes
     * each one when it ends. */
    (void)signal(SIGCHLD, SIG_IGN);
    const char *open = config->seccomp ? sandbox_filter() : "[agent] seccomp = no";
    if (kept != NULL) {
        log_simple(LOG_LEVEL_WARN, "not_confined", kept);
    }
    if (open != NULL) {
        struct log_line line;
        char text[256];
        snprintf(text, sizeof(text), "no filter of system calls: %s", open);
        log_begin(&line, LOG_LEVEL_WARN, "not_confined");
        log_text(&line, "text", text);
        log_end(&line);
    } else {
        log_simple(LOG_LEVEL_INFO, "confined",
                   "a filter of system calls is on; no other program can be started");
    }
}

static void on_wrong_subids(void *arg, unsigned number, const char *why)
{
    static struct log_limit limit;
    struct log_line line;
    log_begin_limited(&line, LOG_LEVEL_WARN, "subuids_wrong", &limit, clock_boottime_ns());
    log_text(&line, "file", arg);
    if (number != 0) {
        log_unsigned(&line, "line", number);
    }
    log_text(&line, "text", why);
    log_end(&line);
}

/* Reads the subordinate numbers of users. Called before the filter of system calls is on, because
 * the filter forbids looking up user names. */
static void load_subids(struct config *config)
{
    if (!subids_load(config->subuids, on_wrong_subids, config->subuids)) {
        on_wrong_subids(config->subuids, 0, strerror(errno));
    }
}

/* Waits a moment for the name services. Names that are not found in that time are looked up again
 * while the agent serves. */
static void await_names(struct agent *agent)
{
    struct config *config = &agent->config;
    if (agent->accounts != NULL) {
        accounts_wait(agent->accounts, config, accounts_patience_ms(config->session_ttl_ns));
    }
    config->awaits_accounts = config_unknown_count(config) > 0;
    if (!config->awaits_accounts) {
        accounts_close(agent->accounts);
        agent->accounts = NULL;
    }
}

/* Warns of names that this host does not know, for --check-config. Such names do not make the file
 * wrong: an agent starts with them. */
static void warn_of_unknown(struct config *config, const char *path)
{
    char location[CONFIG_LOCATION_MAX];
    accounts_find_here(config, accounts_of_host);
    for (uint32_t i = 0; i < config->account_count; i++) {
        if (!config->accounts[i].found) {
            fprintf(stderr,
                    "holdfastd: warning: %s: %s: this host knows no %s now, nobody has rights by "
                    "that name\n",
                    path, config_location(config, &config->accounts[i], location),
                    config->accounts[i].name);
        }
    }
}

/* Returns whether the program only works on the store, and does not run as an agent. */
static bool works_on_store(const struct command_line *line)
{
    return line->rejoin || line->recover || line->backup != NULL;
}

/* For --check-config: warns if no cell could begin with the voters of the configuration. If the
 * agent has a store, that store knows the cell's voters, so the agent starts all the same. */
static void warn_of_voters(const struct config *config, const char *path)
{
    const char *why = config_voters_warning(config);
    if (why != NULL) {
        fprintf(stderr,
                "holdfastd: warning: %s: [voters]: %s; the agent uses the voters in its store, "
                "but with an empty state_dir it would not start\n",
                path, why);
    }
}

static int configure(const struct command_line *line, struct agent *agent, char **arguments)
{
    struct config *config = &agent->config;
    struct peers_tls_times times;
    char error[CONFIG_ERROR_MAX];
    enum config_result result = line->dev
                                    ? config_dev(config, line->state_dir, line->profile, error)
                                    : config_read(config, line->config, line->rejoin, error);
    if (result != CONFIG_OK) {
        fprintf(stderr, "holdfastd: %s\n", error);
        return line->dev                ? AGENT_EXIT_USAGE
               : result == CONFIG_WRONG ? AGENT_EXIT_CONFIG
                                        : AGENT_EXIT_UNAVAILABLE;
    }
    if (!line->check_only && !works_on_store(line)) {
        log_open_stderr();
        log_set_level(config->log_debug ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO);
        agent_raise_limits();
        load_subids(config);
        confine(agent, arguments);
        await_names(agent);
    }
    if (!peers_check_tls(config, &times, error)) { /* NNG may start threads here */
        /* Not AGENT_EXIT_CONFIG: the files may be right a moment later, because a program may be
         * replacing them one by one. */
        fprintf(stderr, "holdfastd: %s: [tls]: %s\n", line->config, error);
        return AGENT_EXIT_UNAVAILABLE;
    }
    if (line->check_only && !folders_check(agent)) {
        fprintf(stderr, "holdfastd: %s\n", agent->error);
        return AGENT_EXIT_UNAVAILABLE;
    }
    if (line->check_only && !certificates_check(&times, line->config)) {
        return AGENT_EXIT_UNAVAILABLE;
    }
    if (line->check_only) {
        warn_of_unknown(config, line->config);
        warn_of_voters(config, line->config);
        bool small = config->profile == &profile_small;
        printf("%s: good%s\n", line->config, small ? " (profile small)" : "");
        return fflush(stdout) == 0 ? AGENT_EXIT_OK : AGENT_EXIT_SOFTWARE;
    }
    return -1;
}

static int start_over(struct agent *agent, bool undo)
{
    char kept[STORE_KEPT_MAX];
    int code = undo ? agent_undo_start_over(agent, kept) : agent_start_over(agent, kept);
    if (code != AGENT_EXIT_OK) {
        fprintf(stderr, "holdfastd: %s\n", agent->error);
        return code;
    }
    if (undo) {
        printf("%s has its store back, from %s: start its agent\n", agent->config.agent, kept);
        return fflush(stdout) == 0 ? AGENT_EXIT_OK : AGENT_EXIT_SOFTWARE;
    }
    if (kept[0] != '\0') {
        printf("the old store is now %s\n", kept);
    }
    printf("%s starts over with an empty store: start its agent\n", agent->config.agent);
    return fflush(stdout) == 0 ? AGENT_EXIT_OK : AGENT_EXIT_SOFTWARE;
}

static int recover(struct agent *agent, const char *cell)
{
    int code = agent_recover(agent, cell);
    if (code != AGENT_EXIT_OK) {
        fprintf(stderr, "holdfastd: %s\n", agent->error);
    }
    return code;
}

static int back_up(struct agent *agent, const char *path, bool force)
{
    struct store_copied copied;
    int code = agent_back_up(agent, path, force, &copied);
    if (code != AGENT_EXIT_OK) {
        fprintf(stderr, "holdfastd: %s\n", agent->error);
        return code;
    }
    printf("%s: a backup of %s, as of commit %" PRIu64 ", with %" PRIu64
           " lock names; it was checked\n",
           path, agent->config.agent, copied.commit, copied.registers);
    return fflush(stdout) == 0 ? AGENT_EXIT_OK : AGENT_EXIT_SOFTWARE;
}

/* A failed HF_CHECK writes one line to the log and ends the agent with a core dump. */
void hfi_check_failed(const char *what, const char *file, int line)
{
    struct log_line text;
    log_begin(&text, LOG_LEVEL_ERROR, "bug");
    log_text(&text, "check", what);
    log_text(&text, "file", file);
    log_number(&text, "line", line);
    log_end(&text);
    abort();
}

/* If a standard stream is closed, the next descriptor that is opened gets its number, and the log
 * would go into that file. So this function opens /dev/null in place of each closed stream. */
static bool have_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct command_line line = {.dev = false};
    if (!have_standard_streams()) {
        fprintf(stderr, "holdfastd: /dev/null: %s\n", strerror(errno));
        return AGENT_EXIT_UNAVAILABLE;
    }
    int code = read_options(argc, argv, &line);
    if (code < 0) {
        code = check_command_line(&line);
    }
    if (code >= 0) {
        return code;
    }
    struct agent *agent = calloc(1, sizeof(*agent));
    if (agent == NULL) {
        fprintf(stderr, "holdfastd: out of memory\n");
        return AGENT_EXIT_UNAVAILABLE;
    }
    agent->config_path = line.config;
    code = configure(&line, agent, argv);
    if (code < 0 && works_on_store(&line)) {
        code = line.rejoin    ? start_over(agent, line.undo)
               : line.recover ? recover(agent, line.cell)
                              : back_up(agent, line.backup, line.force);
        agent_release(agent);
    } else if (code < 0) {
        code = agent_prepare(agent);
        if (code == AGENT_EXIT_OK) {
            code = agent_run(agent);
        } else {
            fprintf(stderr, "holdfastd: %s\n", agent->error);
        }
        agent_release(agent);
    }
    closer_close(agent->closer);
    remover_close(agent->remover);
    accounts_close(agent->accounts);
    config_free(&agent->config);
    free(agent);
    return code;
}
