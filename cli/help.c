/*
 * The texts of --help: each says what the command does, shows an example, and lists its exit
 * statuses.
 */
#include "help.h"

#include <stdio.h>
#include <string.h>

static const char program_help[] =
    "holdfast: only one of us at a time, for the programs of this host\n"
    "\n"
    "  holdfast lock NAME -- CMD [ARG...]   run CMD while holding the lock NAME\n"
    "  holdfast ls [PREFIX]                 list locks\n"
    "  holdfast show NAME                   who holds a lock, who waits for it\n"
    "  holdfast watch [PREFIX]              print every change of locks\n"
    "  holdfast status                      is the agent well?\n"
    "  holdfast doctor                      what is wrong here and in the cell, and the remedy\n"
    "  holdfast check SEQUENCER             is this hold still held?\n"
    "  holdfast break [--now] NAME          end the holds of a lock (administrators)\n"
    "  holdfast member [rejoin]             the voters of the cell; a voter that starts over\n"
    "\n"
    "Before or after the command word:\n"
    "  -s, --socket PATH   the agent's socket; else $HOLDFAST_SOCKET, else\n"
    "                      $XDG_RUNTIME_DIR/holdfast/agent.sock, else /run/holdfast/agent.sock\n"
    "  --json              answer in JSON\n"
    "  -h, --help          help; `holdfast lock --help` for one command\n"
    "  -V, --version       version\n"
    "\n"
    "Durations are a whole number and ms, s, m or h: 250ms, 30s, 5m, 1h.\n"
    "A lock needs no set-up: any name of 1 to 255 bytes, such as backup or orders/42.\n"
    "\n"
    "Try it:\n"
    "  holdfast lock hello -- sh -c 'echo I hold $HOLDFAST_LOCK, token $HOLDFAST_TOKEN'\n"
    "\n"
    "Exit status: 0 well; 64 bad usage or name; 69 no agent; 77 not allowed; 70 anything else;\n"
    "others are in each command's help.\n";

static const char lock_help[] =
    "holdfast lock [options] NAME [NAME...] -- CMD [ARG...]\n"
    "\n"
    "Takes the lock (several: all or none, always in the same order), runs CMD, and releases when\n"
    "CMD has ended. What CMD leaves running in the background does not hold the lock.\n"
    "\n"
    "  --no-wait          give up at once if the lock is not free\n"
    "  --wait DUR         give up after DUR; without either it waits for ever. Where no agent is,\n"
    "                     one is waited for first: 5s, or DUR if that is less, 1s at least;\n"
    "                     1s with --no-wait\n"
    "  -E N               exit status when it was not had in time (default 75)\n"
    "  --shared           beside other shared holders, never beside an exclusive one\n"
    "  --lease DUR        the hold ends DUR after it began, whether CMD has ended or not;\n"
    "                     default: it is renewed as long as CMD runs\n"
    "  --max-stall DUR    the hold ends when CMD reported no progress for DUR. CMD reports by\n"
    "                     writing anything to the descriptor in $HOLDFAST_PROGRESS_FD\n"
    "                     (in a shell: echo >/dev/fd/$HOLDFAST_PROGRESS_FD)\n"
    "  --lock-delay DUR   how long the lock stays closed if this holder vanishes without\n"
    "                     releasing (default 1s, at most 60s)\n"
    "  --kill-after DUR   see below (default 5s)\n"
    "\n"
    "CMD sees HOLDFAST_LOCK, HOLDFAST_TOKEN and HOLDFAST_SEQUENCER (of several locks: separated\n"
    "by spaces, in the order of the arguments; a space or % in a name is %20, %25). The token\n"
    "rises from one exclusive hold to the next for ever: hand it, or the sequencer, to what CMD\n"
    "writes to, and let that refuse lower ones.\n"
    "\n"
    "If the hold ends while CMD runs (lost, broken, --lease over, no progress), CMD and its\n"
    "process group get SIGTERM at that moment, and SIGKILL after --kill-after, but always before\n"
    "the lock-delay is over and somebody else can have the lock. What CMD started in a process\n"
    "group or session of its own is not reached by this, nor what became another user: say\n"
    "`sudo holdfast lock NAME -- CMD`, not `holdfast lock NAME -- sudo CMD`. Signals sent to\n"
    "holdfast are passed on to CMD. CMD is killed if holdfast is (SIGKILL), but not what it\n"
    "started, nor a program with setuid.\n"
    "\n"
    "Exit status: that of CMD; 128+n if signal n ended CMD or the waiting; 126 CMD cannot be run,\n"
    "127 CMD not found; 75 not had in time (-E changes it); 76 the hold ended while CMD ran;\n"
    "69 no agent at the start; 64 bad usage or name; 77 not allowed; 70 anything else.\n"
    "\n"
    "Examples:\n"
    "  holdfast lock --no-wait backup -- /usr/local/bin/backup      from cron\n"
    "  holdfast lock --wait 30s -E 0 report -- make report          skip quietly if it is busy\n"
    "  holdfast lock --shared data -- tar cf data.tar data/         readers together\n"
    "  holdfast lock acct/1 acct/2 -- ./transfer 1 2                both or none, no deadlock\n"
    "  holdfast lock --max-stall 1m feed -- sh -c \\\n"
    "    'while read l; do work \"$l\"; echo >/dev/fd/$HOLDFAST_PROGRESS_FD; done <queue'\n"
    "  (CMD's own output is all of stdout, so --json changes nothing here.)\n";

static const char ls_help[] =
    "holdfast ls [PREFIX]\n"
    "\n"
    "Lists the locks whose names begin with PREFIX, in byte order: how each is held, by which\n"
    "process, how many wait, and for how long it is still closed after its holder vanished.\n"
    "\n"
    "Examples:\n"
    "  holdfast ls\n"
    "  holdfast ls orders/\n"
    "  holdfast ls --json | jq -r '.[] | select(.mode != \"free\") | .name'\n"
    "\n"
    "Exit status: 0; 69 no agent; 64 bad usage or name; 77 not allowed; 70 anything else.\n";

static const char show_help[] =
    "holdfast show NAME\n"
    "\n"
    "Shows one lock: its holders (process, user, command, since when, token, how long the lease\n"
    "still lasts) and who waits, in the order in which they will be served. A name that nobody\n"
    "ever used is free.\n"
    "\n"
    "Examples:\n"
    "  holdfast show backup\n"
    "  holdfast show --json backup | jq '.holders[0].pid'\n"
    "\n"
    "Exit status: 0; 69 no agent; 64 bad usage or name; 77 not allowed; 70 anything else.\n";

static const char watch_help[] =
    "holdfast watch [PREFIX]\n"
    "\n"
    "Prints the locks whose names begin with PREFIX, then each of them again whenever it changes:\n"
    "one line a lock, with --json one object a line. Goes on when the agent is restarted. Ends\n"
    "with Ctrl-C, or when nobody reads its output any more. A lock that changes several times at\n"
    "once is printed once, as it is then.\n"
    "\n"
    "Examples:\n"
    "  holdfast watch orders/\n"
    "  holdfast watch --json backup | jq --unbuffered -r .mode\n"
    "\n"
    "Exit status: 0 when its output was closed; 69 no agent at the start; 64 bad usage or name;\n"
    "77 not allowed; 70 anything else.\n";

static const char status_help[] =
    "holdfast status\n"
    "\n"
    "Shows the agent of this host: its cell, whether its session is safe (in jeopardy or lost:\n"
    "its holds do not count now), and how many clients, held locks and waiters it has.\n"
    "\n"
    "Examples:\n"
    "  holdfast status\n"
    "  until holdfast status >/dev/null; do sleep 1; done       wait until the agent is ready\n"
    "\n"
    "Exit status: 0 the session is safe; 75 it is not; 69 no agent; 64 bad usage; 70 anything\n"
    "else.\n";

static const char doctor_help[] =
    "holdfast doctor\n"
    "\n"
    "Looks at this host, its agent and the cell as this agent sees it, and says of each thing how\n"
    "it is; if that is not well, what was expected and what to do. The worst comes first. Without\n"
    "an agent it looks at what needs none.\n"
    "\n"
    "  agent, session, version   does it answer, does its lease count, is it of this version?\n"
    "  voters, store, config     who answers, who may not vote, who is configured otherwise?\n"
    "  coordinators, agents      who decides about which locks, who was not heard of?\n"
    "  renewals, clock, clocks   how fast are leases renewed, how do clock rates differ?\n"
    "  flush, state_dir, files   how long does the disk take, who may write there, is there room,\n"
    "                            is all still where the agent put it?\n"
    "  memory, descriptors, clients   what is near its limit?\n"
    "  stalls                    did the agent stand still lately?\n"
    "  socket, inbox, tls        who may connect, who was refused, are certificates good?\n"
    "\n"
    "Its test flushes of the disk need write access to state_dir (root, or the agent's user):\n"
    "20 KiB in a file without a name. All else may be asked by whoever may use the agent.\n"
    "\n"
    "Examples:\n"
    "  holdfast doctor\n"
    "  holdfast doctor --json | jq '.findings[] | select(.level != \"ok\")'\n"
    "\n"
    "Exit status:\n"
    "   0   everything is well\n"
    "   1   warnings: somebody should look when there is time\n"
    "   2   errors: something is not served, or soon will not be\n"
    "  69   no agent answers (the checks that need none are made all the same)\n"
    "  64 bad usage; 70 anything else.\n";

static const char check_help[] =
    "holdfast check SEQUENCER\n"
    "\n"
    "Says whether the hold that this sequencer was made from is still held. A holder has its\n"
    "sequencer in $HOLDFAST_SEQUENCER and hands it to whom it asks for work. The answer is as of\n"
    "now: who must never serve an old holder also remembers the highest token that it has\n"
    "served, and refuses lower ones.\n"
    "\n"
    "Example:\n"
    "  holdfast lock a -- sh -c 'holdfast check \"$HOLDFAST_SEQUENCER\" && echo still mine'\n"
    "\n"
    "Prints held, stale or unknown.\n"
    "Exit status: 0 held; 1 not held any more; 75 it cannot be known now; 69 no agent; 64 bad\n"
    "usage or no sequencer of this cell; 77 not allowed; 70 anything else.\n";

static const char break_help[] =
    "holdfast break [--now] NAME\n"
    "\n"
    "Ends every hold of a lock; only root and the lock's administrators may. The holders are told\n"
    "(`holdfast lock` then ends its CMD), and the lock stays closed for their lock-delay so that\n"
    "they can stop before the next holder starts.\n"
    "\n"
    "  --now   without the lock-delay: the next holder starts at once, perhaps beside the old\n"
    "          one. For holders that are known to be gone.\n"
    "\n"
    "Example:\n"
    "  holdfast show backup && holdfast break backup\n"
    "\n"
    "Exit status: 0, also if nobody held it; 69 no agent; 64 bad usage or name; 77 not allowed;\n"
    "70 anything else.\n";

static const char member_help[] =
    "holdfast member\n"
    "holdfast member rejoin --config FILE [--undo] [--yes]\n"
    "\n"
    "Without a word: the voters of the cell and how each stands, as seen from this host: up,\n"
    "down, or refused: it answers, and may not vote (it starts over and is not done, or its store\n"
    "is not the one that the cell knows, or an old copy of it; `holdfast doctor` says which).\n"
    "\n"
    "rejoin has a voter start over, on its own host, with its agent stopped. A voter whose disk\n"
    "was lost, replaced, or put back from a backup must not vote with what it has: it may have\n"
    "promised what it no longer knows. The cell recognises such a store and refuses it. Starting\n"
    "over gives the voter an empty store with a new id; when its agent is started, it fetches\n"
    "everything from the other voters, and then votes again. The old store stays beside it, as\n"
    "holdfast.db.replaced-N.\n"
    "\n"
    "It needs more than half of all voters besides this one: of three both others, of five three\n"
    "others. Do it to one voter at a time, and go on to the next one when `holdfast member` calls\n"
    "this one up again: two of three that start over wait for each other, and no lock changes\n"
    "hands meanwhile. A cell of one voter cannot do it: nobody else has what its store had. Holds\n"
    "on this host end.\n"
    "\n"
    "--undo is for that case: on the voter that was told last, with its agent stopped, it puts\n"
    "the old store back. It does so only while no other voter knows of the new one, so nothing\n"
    "was promised with it; else it says so and changes nothing.\n"
    "\n"
    "  --config FILE   the configuration file of this host's agent\n"
    "  --undo          take it back\n"
    "  --yes           do it; without, it is only explained\n"
    "\n"
    "Examples:\n"
    "  holdfast member\n"
    "  systemctl stop holdfastd\n"
    "  holdfast member rejoin --config /etc/holdfast/holdfastd.ini --yes\n"
    "  systemctl start holdfastd\n"
    "\n"
    "Exit status: 0; 64 bad usage, or rejoin without --yes; 69 no agent (member), or holdfastd is\n"
    "not found; 78 the configuration is wrong or has no other voters; 70 the agent is running, or\n"
    "anything else.\n";

int help_show(const char *command)
{
    static const struct {
        const char *command;
        const char *text;
    } pages[] = {
        {"lock", lock_help},   {"ls", ls_help},         {"show", show_help},
        {"watch", watch_help}, {"status", status_help}, {"doctor", doctor_help},
        {"check", check_help}, {"break", break_help},   {"member", member_help},
    };

    for (size_t index = 0; command != NULL && index < sizeof(pages) / sizeof(pages[0]); index++) {
        if (strcmp(command, pages[index].command) == 0) {
            fputs(pages[index].text, stdout);
            return 0;
        }
    }
    fputs(program_help, stdout);
    return 0;
}
