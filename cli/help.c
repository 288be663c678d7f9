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
    "  holdfast show NAME                   show a lock's holders and waiters\n"
    "  holdfast watch [PREFIX]              print every change of locks\n"
    "  holdfast status                      show whether the agent is well\n"
    "  holdfast doctor                      show what is wrong here and in the cell, and the cure\n"
    "  holdfast check SEQUENCER             say whether a hold is still held\n"
    "  holdfast break [--now] NAME          end the holds of a lock (administrators)\n"
    "  holdfast member [rejoin]             list the cell's voters; let a voter start over\n"
    "\n"
    "Options, before or after the command word:\n"
    "  -s, --socket PATH   the agent's socket. Without it: $HOLDFAST_SOCKET if it is set, else\n"
    "                      /run/holdfast/agent.sock if an agent listens there, else\n"
    "                      $XDG_RUNTIME_DIR/holdfast/agent.sock\n"
    "  --json              answer in JSON\n"
    "  -h, --help          this help; `holdfast lock --help` shows that of one command\n"
    "  -V, --version       print the version\n"
    "\n"
    "A duration is a whole number with ms, s, m or h: 250ms, 30s, 5m, 1h.\n"
    "A lock needs no set-up. Any name of 1 to 255 bytes will do, such as backup or orders/42.\n"
    "\n"
    "Try it:\n"
    "  holdfast lock hello -- sh -c 'echo I hold $HOLDFAST_LOCK, token $HOLDFAST_TOKEN'\n"
    "\n"
    "Exit status: 0 success; 64 bad usage or name; 69 no agent; 77 not allowed; 70 any other\n"
    "failure. Each command's help lists further ones.\n";

static const char lock_help[] =
    "holdfast lock [options] NAME [NAME...] -- CMD [ARG...]\n"
    "holdfast lock [options] NAME CMD [ARG...]\n"
    "holdfast lock [options] NAME -c STRING\n"
    "\n"
    "Takes the lock, runs CMD, and releases the lock when CMD has ended. With several NAMEs it\n"
    "takes all of the locks or none, always in the same order. Processes that CMD leaves in the\n"
    "background do not hold the lock.\n"
    "\n"
    "Without -- the first word is the NAME and the rest is CMD, as in flock(1). Several NAMEs,\n"
    "and options behind a NAME, need the --. So does a CMD that has a word -- itself: its words\n"
    "before that would be read as NAMEs.\n"
    "\n"
    "  -n, --no-wait      give up at once if the lock is not free\n"
    "  --wait DUR         give up after DUR; without this and --no-wait, wait for ever. If no\n"
    "                     agent answers, first wait for one: 5s, or DUR if that is less, but at\n"
    "                     least 1s; with --no-wait 1s\n"
    "  -w SECONDS         --wait, with a number of seconds such as 10 or 1.5, as in flock(1)\n"
    "  -c STRING          CMD is sh -c STRING\n"
    "  -x, -e             take the lock for this holder alone, which is the default\n"
    "  -o                 no effect: CMD inherits no descriptor of the lock anyway\n"
    "  --nested           if this is run by the CMD of a `holdfast lock` that holds all of the\n"
    "                     NAMEs, run CMD under that hold, and take nothing; the other options\n"
    "                     then have no effect. If that hold is over, or has none of the NAMEs,\n"
    "                     take them as usual\n"
    "  -E N               the exit status if the lock was not had in time (default 75)\n"
    "  --shared           share the lock with other shared holders, not with an exclusive one\n"
    "                     (-s is not this, as it is in flock(1), but the agent's socket)\n"
    "  --lease DUR        the hold ends DUR after it began, even if CMD still runs; default: the\n"
    "                     hold is renewed as long as CMD runs\n"
    "  --max-stall DUR    the hold ends if CMD reports no progress for DUR. CMD reports it by\n"
    "                     writing anything to the descriptor in $HOLDFAST_PROGRESS_FD\n"
    "                     (in a shell: echo >/dev/fd/$HOLDFAST_PROGRESS_FD)\n"
    "  --lock-delay DUR   for how long the lock stays closed if this holder vanishes without\n"
    "                     releasing it (default 1s, at most 60s)\n"
    "  --kill-after DUR   if the hold ends, send CMD SIGKILL this long after SIGTERM (default 5s)\n"
    "\n"
    "A lock within the same lock would wait for itself. If HOLDFAST_LOCK has the NAME and that\n"
    "hold is still held, the exit status is 64 at once (see --nested).\n"
    "\n"
    "CMD has HOLDFAST_LOCK, HOLDFAST_TOKEN and HOLDFAST_SEQUENCER in its environment. For\n"
    "several locks the values are separated by spaces, in the order of the arguments; a space or\n"
    "% in a name is %20 or %25. The token rises from one exclusive hold to the next for ever.\n"
    "Pass the token, or the sequencer, to the resource that CMD writes to, and let the resource\n"
    "refuse lower ones.\n"
    "\n"
    "If the hold ends while CMD runs (lost, broken, --lease over, no progress), CMD and its\n"
    "process group get SIGTERM at once, and SIGKILL after --kill-after. SIGKILL always comes\n"
    "before the lock-delay is over, so before another holder can have the lock. Processes that\n"
    "CMD started in another process group or session get neither signal. holdfast cannot signal\n"
    "a command that became another user: write `sudo holdfast lock NAME -- CMD`, not `holdfast\n"
    "lock NAME -- sudo CMD`. holdfast passes signals on to CMD.\n"
    "\n"
    "If holdfast itself is killed (SIGKILL), a guard process (hf-guard) at once kills CMD's\n"
    "process group, before the lock-delay is over. With --lock-delay 0s the next holder may\n"
    "start some milliseconds earlier. If the guard is killed, holdfast kills the group. If both\n"
    "are killed at once, only CMD dies; the processes that it started go on.\n"
    "\n"
    "Exit status: that of CMD; 128+n if signal n ended CMD or the wait; 126 CMD cannot be run;\n"
    "127 CMD is not found; 75 the lock was not had in time (-E changes it); 76 the hold ended\n"
    "while CMD ran; 69 no agent at the start; 64 bad usage or name; 77 not allowed; 70 any other\n"
    "failure, or the guard was killed.\n"
    "\n"
    "Examples:\n"
    "  holdfast lock --no-wait backup -- /usr/local/bin/backup      from cron\n"
    "  holdfast lock --wait 30s -E 0 report -- make report          skip quietly if it is busy\n"
    "  holdfast lock --shared data -- tar cf data.tar data/         readers together\n"
    "  holdfast lock acct/1 acct/2 -- ./transfer 1 2                both or none, no deadlock\n"
    "  holdfast lock --max-stall 1m feed -- sh -c \\\n"
    "    'while read l; do work \"$l\"; echo >/dev/fd/$HOLDFAST_PROGRESS_FD; done <queue'\n"
    "  (stdout has only the output of CMD, so --json changes nothing here.)\n";

static const char ls_help[] =
    "holdfast ls [PREFIX]\n"
    "\n"
    "Lists the locks whose names begin with PREFIX, in byte order: how each is held, by which\n"
    "process, how many processes wait for it, and for how long it is still closed after its\n"
    "holder vanished.\n"
    "\n"
    "Examples:\n"
    "  holdfast ls\n"
    "  holdfast ls orders/\n"
    "  holdfast ls --json | jq -r '.[] | select(.mode != \"free\") | .name'\n"
    "\n"
    "Exit status: 0; 69 no agent; 64 bad usage or name; 77 not allowed; 70 any other failure.\n";

static const char show_help[] =
    "holdfast show NAME\n"
    "\n"
    "Shows one lock: its holders (process, user, command, since when, token, how long the lease\n"
    "still lasts) and its waiters, in the order in which they will get the lock. A name that was\n"
    "never used is shown as free.\n"
    "\n"
    "Examples:\n"
    "  holdfast show backup\n"
    "  holdfast show --json backup | jq '.holders[0].pid'\n"
    "\n"
    "Exit status: 0; 69 no agent; 64 bad usage or name; 77 not allowed; 70 any other failure.\n";

static const char watch_help[] =
    "holdfast watch [PREFIX]\n"
    "\n"
    "Prints the locks whose names begin with PREFIX, then each lock again whenever it changes:\n"
    "one line for each lock, or with --json one object in each line. It goes on when the agent\n"
    "is restarted. It ends with Ctrl-C, or when no process reads its output any more. If a lock\n"
    "changes several times in quick succession, only its last state is printed.\n"
    "\n"
    "Examples:\n"
    "  holdfast watch orders/\n"
    "  holdfast watch --json backup | jq --unbuffered -r .mode\n"
    "\n"
    "Exit status: 0 its output was closed; 69 no agent at the start; 64 bad usage or name; 77\n"
    "not allowed; 70 any other failure.\n";

static const char status_help[] =
    "holdfast status\n"
    "\n"
    "Shows the agent of this host: its cell, the state of its session, and how many clients,\n"
    "held locks and waiters it has. If the session is in jeopardy or lost, the holds of this\n"
    "host do not count now.\n"
    "\n"
    "Examples:\n"
    "  holdfast status\n"
    "  until holdfast status >/dev/null; do sleep 1; done       wait until the agent is ready\n"
    "\n"
    "Exit status: 0 the session is safe; 75 it is not; 69 no agent; 64 bad usage; 70 any other\n"
    "failure.\n";

static const char doctor_help[] =
    "holdfast doctor\n"
    "\n"
    "Looks at this host, at its agent, and at the cell as this agent sees it. It reports the\n"
    "state of each thing that it checks. If that state is bad, it also says what was expected\n"
    "and what to do. The worst findings come first. If no agent answers, it makes the checks\n"
    "that need none.\n"
    "\n"
    "  agent, session, version   does the agent answer, does its lease count, is it of the same\n"
    "                            version?\n"
    "  voters, store, config     which voters answer, may not vote, or are configured otherwise?\n"
    "  coordinators, agents      which voters decide about which locks, which agents are silent?\n"
    "  renewals, clock, clocks   how fast are leases renewed, how do the clocks' rates differ?\n"
    "  flush, state_dir, files   how long does the disk take, who may write there, is there room,\n"
    "                            are all files still where the agent put them?\n"
    "  memory, descriptors, clients   which of them are near their limit?\n"
    "  stalls                    did the agent stand still lately?\n"
    "  socket, inbox, tls        who may connect, who was refused, are certificates valid?\n"
    "\n"
    "Its test flushes of the disk write 20 KiB to a file without a name, and need write access\n"
    "to state_dir (root, or the agent's user). Every user of the agent may run the other checks.\n"
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
    "  64  bad usage; 70 any other failure.\n";

static const char check_help[] =
    "holdfast check SEQUENCER\n"
    "\n"
    "Says whether the hold that this sequencer was made from is still held. A holder has its\n"
    "sequencer in $HOLDFAST_SEQUENCER, and sends it along with its requests to a server. The\n"
    "answer is true now and may be outdated a moment later. So a server that must never serve an\n"
    "old holder also remembers the highest token that it has served, and refuses lower ones.\n"
    "\n"
    "Example:\n"
    "  holdfast lock a -- sh -c 'holdfast check \"$HOLDFAST_SEQUENCER\" && echo still mine'\n"
    "\n"
    "Prints held, stale or unknown.\n"
    "Exit status: 0 held; 1 not held any more; 75 it cannot be known now; 69 no agent; 64 bad\n"
    "usage, or no sequencer of this cell; 77 not allowed; 70 any other failure.\n";

static const char break_help[] =
    "holdfast break [--now] NAME\n"
    "\n"
    "Ends every hold of a lock. Only root and the administrators of the lock's namespace may do\n"
    "so. The agent notifies the holders (`holdfast lock` then ends its CMD). The lock stays\n"
    "closed for their lock-delay, so that they can stop before the next holder starts.\n"
    "\n"
    "  --now   without the lock-delay: the next holder may start at once, while the old holder\n"
    "          still works. Use it if you know that the old holder is gone.\n"
    "\n"
    "Example:\n"
    "  holdfast show backup && holdfast break backup\n"
    "\n"
    "Exit status: 0 success, also if the lock had no holder; 69 no agent; 64 bad usage or name;\n"
    "77 not allowed; 70 any other failure.\n";

static const char member_help[] =
    "holdfast member\n"
    "holdfast member rejoin --config FILE [--undo] [--yes]\n"
    "\n"
    "Without rejoin it lists the voters of the cell, each with its state as seen from this host:\n"
    "up, down or refused. A refused voter answers, but may not vote: it starts over and is not\n"
    "done, or its store is not the one that the cell knows, or its store is an old copy.\n"
    "`holdfast doctor` says which.\n"
    "\n"
    "rejoin lets a voter start over. Run it on the voter's host, with the voter's agent stopped.\n"
    "If a voter's disk was lost, replaced, or put back from a backup, its store may lack\n"
    "promises that the voter made, so the voter must not vote with that store. The cell\n"
    "recognises such a store and refuses it. rejoin gives the voter an empty store with a new\n"
    "id. When its agent is started, it fetches everything from the other voters, and then votes\n"
    "again. The old store stays beside the new one, as holdfast.db.replaced-N. The holds on this\n"
    "host end.\n"
    "\n"
    "The voter needs more than half of all voters besides itself: both others in a cell of\n"
    "three, three others in a cell of five. So let one voter at a time start over, and wait\n"
    "until `holdfast member` shows it as up before you go on. If two of three start over at\n"
    "once, they wait for each other, and no lock changes hands. A cell of one voter cannot start\n"
    "over, because no other voter has the contents of its store.\n"
    "\n"
    "--undo puts the old store back, for the case that two voters wait for each other. Run it on\n"
    "the voter that started over last, with its agent stopped. It puts the old store back only\n"
    "if no other voter knows of the new store yet, since nothing was promised with it then.\n"
    "Otherwise it says so and changes nothing.\n"
    "\n"
    "  --config FILE   the configuration file of this host's agent\n"
    "  --undo          put the old store back\n"
    "  --yes           do it; without --yes it only explains what it would do\n"
    "\n"
    "Examples:\n"
    "  holdfast member\n"
    "  systemctl stop holdfastd\n"
    "  holdfast member rejoin --config /etc/holdfast/holdfastd.ini --yes\n"
    "  systemctl start holdfastd\n"
    "\n"
    "Exit status: 0; 64 bad usage, or rejoin without --yes; 69 no agent (member), or holdfastd\n"
    "is not found; 78 the configuration is wrong or has no other voters; 70 the agent is\n"
    "running, or any other failure.\n";

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
