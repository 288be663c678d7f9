/*
 * The sentence about a full table, because of which an agent has refused a request with HF_EFULL.
 * It says what is full, how much it has room for, which process has most of it, and what helps.
 *
 * The answer that refuses a request arrives in the thread that asked, and the call that fails
 * returns in that thread. So each thread has its own note of the last such answer.
 */
#include "client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The words for one table. With a key in [limits], the sentence is "the agent has no NOUN left:
 * ...". */
struct table_text {
    const char *noun; /* stands after the table's size: "all 512 NOUN are in use" */
    const char *key;  /* the key in [limits]; NULL: none, and `advice` says what helps */
    const char *advice;
};

static const struct table_text texts[HFI_TABLE_END] = {
    [HFI_TABLE_LOCKS] = {"places for locks of this namespace", "locks", NULL},
    [HFI_TABLE_CLIENTS] = {"places for connected processes", "clients", NULL},
    [HFI_TABLE_HANDLES] = {"handles of open locks", "handles", NULL},
    [HFI_TABLE_BLOCKS] = {"blocks of seats for waiters and readers of this namespace", "blocks",
                          NULL},
    [HFI_TABLE_HOLDERS] = {"holder ids", "holders", NULL},
    [HFI_TABLE_WATCHES] = {"watched prefixes", "watches", NULL},
    [HFI_TABLE_NAMES] = {"places for names of locks", NULL,
                         "raise locks in [limits] of its holdfastd.ini, or set profile = standard"},
    [HFI_TABLE_INDEX] = {"places in the index of names", "locks", NULL},
    [HFI_TABLE_OPENS] = {"places for locks that wait for the voters", NULL, "try again soon"},
    [HFI_TABLE_QUESTIONS] = {"places for breaks and changes of voters under way", NULL,
                             "try again soon"},
    [HFI_TABLE_REQUESTS] = {"requests to the voters that one namespace may have", NULL,
                            "try again soon"},
    [HFI_TABLE_VOTER_VALUES] = {"places for names of locks", NULL,
                                "give the voters profile = standard"},
    [HFI_TABLE_VOTER_AGENTS] = {"places for agents", NULL, "give the voters profile = standard"},
    [HFI_TABLE_VOTER_REQUESTS] = {"places for requests", NULL,
                                  "try again soon, or give the voters profile = standard"},
    [HFI_TABLE_VOTER_SHARES] = {"places for hosts that share locks", NULL,
                                "give the voters profile = standard"},
    [HFI_TABLE_VOTER_QUOTA] = {"requests that one host may have there", NULL, "try again soon"},
    [HFI_TABLE_VOTER_TOKENS] = {"tokens of this lock", NULL, "use another name"},
    [HFI_TABLE_DESCRIPTORS] = {"descriptors of the agent", NULL,
                               "raise LimitNOFILE of its service, or end processes"},
    [HFI_TABLE_MEMORY] = {"memory of the agent", NULL, "give the agent or /dev/shm more memory"},
    [HFI_TABLE_ENDED] = {"places for processes of this user that have just ended", NULL,
                         "try again soon"},
    [HFI_TABLE_GREETINGS] = {"places for connections that have sent nothing yet", NULL,
                             "try again soon"},
    [HFI_TABLE_NOTES] = {"places for notes on holds", NULL, "listings show this hold without it"},
};

static _Thread_local struct {
    struct hfi_full full;
    char voter[HFI_LABEL_MAX + 1];
} note;

void full_note(const struct hfi_full *full)
{
    note.full = *full;
    memcpy(note.voter, full->voter.bytes != NULL ? full->voter.bytes : "", full->voter.size);
    note.voter[full->voter.size] = '\0';
}

void full_forget(void)
{
    note.full.table = HFI_TABLE_UNKNOWN;
}

/* Writes what is full: "all 512 places for locks of this namespace are in use". */
static void say_what(const struct table_text *text, char *out, size_t size)
{
    if (note.full.room == 0) {
        snprintf(out, size, "no %s are left", text->noun);
    } else if (note.full.share) {
        snprintf(out, size, "of the %s one user may have half, and this user has its %" PRIu64,
                 text->noun, note.full.room);
    } else {
        snprintf(out, size, "all %" PRIu64 " %s are in use", note.full.room, text->noun);
    }
}

bool full_text(char *out, size_t size)
{
    char what[256];
    char most[128] = "";
    char where[64] = "";
    if (note.full.table == HFI_TABLE_UNKNOWN || note.full.table >= HFI_TABLE_END) {
        return false;
    }
    const struct table_text *text = &texts[note.full.table];
    say_what(text, what, sizeof(what));
    if (note.voter[0] != '\0') {
        snprintf(where, sizeof(where), "at the voter %s ", note.voter);
    }
    if (note.full.pid > 0) {
        snprintf(most, sizeof(most), "; process %" PRId64 " has most open handles, %" PRIu64,
                 note.full.pid, note.full.handles);
    }
    if (text->key != NULL) {
        snprintf(out, size, "%s%s%s; raise %s in [limits] of holdfastd.ini, or end what needs them",
                 where, what, most, text->key);
    } else {
        snprintf(out, size, "%s%s%s; %s", where, what, most, text->advice);
    }
    return true;
}
