/*
 * The frames between a client and its agent over the Unix socket (SOCK_SEQPACKET): each packet is
 * one msgpack array of at most HFI_FRAME_MAX bytes. SCHEMA.md has every field.
 *
 * A frame is [kind, request, field...]. Every request of a client has a number, which the answer
 * repeats. The number is 0 in packets that the agent sends without a request. The agent answers
 * requests in order. It sends a descriptor (SCM_RIGHTS) with the packets that have "+ region" in
 * this table, and accepts none.
 *
 *   client                                agent
 *   HELLO                                 WELCOME
 *   OPEN                                  OPENED, before it REGION + region (once)
 *   SEAT (a place to wait or read)        SEATED
 *   CLOSE                                 -
 *   MAP (the region of a lock name)       REGION + region; DONE
 *   CHECK (a sequencer)                   DONE (0, HF_ESTALE, HF_EUNKNOWN, ...)
 *   LIST, SHOW                            LISTED: a page of locks
 *   STATUS                                STATED
 *   FACTS                                 TOLD: facts for `holdfast doctor`
 *   BREAK                                 BROKEN: the holds that ended
 *   BACKUP (of the voter's store)         TOLD: how far it has come; with the copy when it is done
 *   NOTE (on a handle's next holds)       DONE
 *   MEMBER (a change of the voters)       MEMBERED: how far the change has come
 *   RECALL                                DONE
 *   WATCH                                 DONE, then CHANGED ... (unasked)
 *   UNWATCH (ends a WATCH)                DONE, and no more CHANGED of it
 *   EVENTS (wants POKE)                   DONE, then POKE (unasked): look at your holds
 *   RESUMED (all is open again)           DONE
 *   BYE (touches nothing any more)        -
 *   RING (look at the dirty bits)         -
 *   any                                   DONE with an error, instead of the answer
 *
 * RING makes the agent look at the dirty bits of every region that it has sent over this
 * connection. It has no number and no answer. So any thread can send it at any time, even while
 * another thread waits for an answer.
 *
 * The decoder checks all kinds, counts, types, ranges and name lengths. It never allocates memory.
 * Strings in a decoded frame point into the packet and are not zero-terminated.
 */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include "proto/full.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* raise it with each change of a frame; test_frame checks by a checksum that it was raised */
    HFI_PROTOCOL_VERSION = 5,
    HFI_FRAME_MAX = 16384,
    HFI_FRAME_LOCKS_MAX = 64,   /* locks on a page of LISTED */
    HFI_FRAME_PARTIES_MAX = 64, /* holders or waiters of one lock on a page */
    HFI_FRAME_VOTERS_MAX = 7,
    HFI_FRAME_FACTS_MAX = 256,
    HFI_FRAME_BROKEN_HOLDS_MAX = 32,  /* ended holds that BROKEN describes */
    HFI_FRAME_BROKEN_SILENT_MAX = 64, /* agents that BROKEN names */
    HFI_FRAME_COMMAND_MAX = 160, /* bytes of a holder's command line; a longer one is cut off */
    HFI_FRAME_NOTE_MAX = 256,    /* bytes of a note: HF_NOTE_MAX */
};

enum hfi_frame_kind {
    HFI_FRAME_HELLO = 1,
    HFI_FRAME_OPEN,
    HFI_FRAME_SEAT,
    HFI_FRAME_CLOSE,
    HFI_FRAME_MAP,
    HFI_FRAME_CHECK,
    HFI_FRAME_LIST,
    HFI_FRAME_SHOW,
    HFI_FRAME_STATUS,
    HFI_FRAME_BREAK,
    HFI_FRAME_RECALL, /* only tests send it, to have a recall at a chosen moment (SCHEMA.md) */
    HFI_FRAME_WATCH,
    HFI_FRAME_EVENTS,
    HFI_FRAME_BYE,     /* no answer: from now on the client does not touch the region */
    HFI_FRAME_RESUMED, /* the client has opened again all handles that it had */
    HFI_FRAME_FACTS,
    HFI_FRAME_RING, /* no answer: look at the dirty bits of the client's regions */
    HFI_FRAME_UNWATCH,
    HFI_FRAME_MEMBER,
    HFI_FRAME_BACKUP,
    HFI_FRAME_NOTE,

    HFI_FRAME_WELCOME = 64,
    HFI_FRAME_REGION,
    HFI_FRAME_OPENED,
    HFI_FRAME_SEATED,
    HFI_FRAME_LISTED,
    HFI_FRAME_STATED,
    HFI_FRAME_DONE,
    HFI_FRAME_CHANGED,
    HFI_FRAME_POKE,
    HFI_FRAME_TOLD,
    HFI_FRAME_BROKEN,
    HFI_FRAME_MEMBERED,
};

struct hfi_text {
    const char *bytes;
    uint32_t size;
};

/* the flags of OPEN, SEAT, BREAK and NOTE */
enum {
    HFI_OPEN_BARGING = 1,
    HFI_OPEN_SEAT = 2, /* open with a seat at once, because the handle has a limit */
    /* the client had this handle before, with an earlier agent or connection */
    HFI_OPEN_RESUME = 4,
    /* the handle will take shared holds: the agent sets the word's cells bit */
    HFI_SEAT_SHARED = 1,
    HFI_BREAK_FRAME_NOW = 1,
    HFI_NOTE_NOW = 1, /* the note is also that of the hold which the handle has now */
};

struct hfi_hello {
    uint32_t version; /* HFI_PROTOCOL_VERSION */
    int64_t pid;      /* the pid in the client's own PID namespace; the agent only shows it */
    uint32_t client;  /* the client's first holder id from an earlier WELCOME; 0: none */
    uint64_t nonce;   /* the nonce from the WELCOME that had this client id */
    /* The library's version. No agent reads it. The field is on the wire so that a later agent can
     * tell which library has a fault, and so that a person who looks at the bytes can. */
    struct hfi_text library;
    struct hfi_text command; /* the client's command line, for people; empty: not reported */
};

struct hfi_welcome {
    uint32_t version;
    uint32_t client; /* the client's first holder id */
    uint64_t nonce;
    /* the agent knows the client that HELLO names, and the client keeps its holds */
    bool resumed;
    /* the agent's CLOCK_BOOTTIME, from which a client sees whether it is in another time
     * namespace */
    uint64_t boottime_ns;
    int64_t session_ttl_ns;
    int64_t grace_ns;
    struct hfi_text cell;
    struct hfi_text agent;
    struct hfi_text store; /* the store id of the agent, 32 hex digits */
};

struct hfi_open {
    uint32_t flags;
    int64_t lock_delay_ns; /* 0 .. 60 s */
    int64_t lease_ns;      /* 0: none */
    int64_t max_stall_ns;  /* 0: none */
    /* with RESUME: the handle's holder id, and in the next two members its slot and its seat */
    uint32_t holder;
    uint32_t slot;
    uint32_t seat;
    uint64_t incarnation; /* with RESUME: the incarnation of the handle's region */
    struct hfi_text name;
};

struct hfi_region_frame {
    uint32_t region;      /* the agent's number for the namespace's region */
    uint64_t incarnation; /* identifies the region: a new region has a new incarnation */
    struct hfi_text namespace_name;
};

struct hfi_opened {
    uint32_t handle; /* the agent's number for the handle, for SEAT and CLOSE */
    uint32_t region;
    uint32_t slot;
    uint32_t holder; /* the handle's holder id, unique among the handles of this lock */
    uint32_t seat;   /* HFI_SEAT_NONE: none */
};

struct hfi_seat_frame {
    uint32_t handle;
    uint32_t flags;
};

/* The note on the handle's next holds. */
struct hfi_note_frame {
    uint32_t handle;
    uint32_t flags;
    struct hfi_text note; /* empty: none */
};

struct hfi_list {
    struct hfi_text prefix;
    struct hfi_text after; /* the last name of the page before; empty: the first page */
};

struct hfi_party_frame {
    int64_t pid; /* -1: unknown, here and in the three fields below */
    int64_t uid;
    int64_t elapsed_ns;
    int64_t remaining_ns;
    uint64_t token;
    uint32_t mode; /* enum hf_mode */
    struct hfi_text agent;
    struct hfi_text command; /* empty: unknown */
    struct hfi_text note;    /* empty: none, or unknown. It is optional in the frame */
};

/* The ended hold for which a lock-delay keeps a lock closed. If the lock is open: the hold that an
 * administrator broke a moment ago without a lock-delay. As far as it is known: a number that is
 * not known is -1, and a text that is not known is empty. */
struct hfi_behind_frame {
    uint32_t ending;    /* enum hfi_ending_kind, or the number of a later release */
    int64_t elapsed_ns; /* how long ago the hold ended */
    int64_t pid;
    int64_t uid;
    struct hfi_text agent; /* the agent of the hold's host */
    struct hfi_text command;
    int64_t by_uid; /* the administrator that broke the hold, and the agent of that host */
    struct hfi_text by_agent;
    struct hfi_text note; /* the note on the hold; it is optional in the frame */
};

/* One lock of a page. Its parties follow it in the frame. more_parties: the agent left some out. */
struct hfi_lock_frame {
    struct hfi_text name;
    uint32_t state; /* enum hf_state */
    int64_t closed_ns;
    int64_t age_ns;
    struct hfi_text coordinator;
    uint32_t holder_count;
    uint32_t waiter_count;
    bool more_parties;
    /* for hfi_listed_add(), which borrows it; NULL: none. A reader calls hfi_listed_behind() */
    const struct hfi_behind_frame *behind;
};

/* One fact of TOLD. agent/observe/facts.c has the list of them. */
struct hfi_fact_frame {
    struct hfi_text subject; /* the agent that the fact is about; empty: this agent, or its cell */
    struct hfi_text key;     /* "round_trip_ns" */
    int64_t value;
    struct hfi_text text; /* empty: none */
};

/* The outcome of a BREAK. The holds that ended follow, then the agents that have not answered. */
struct hfi_broken_frame {
    /* 0; HF_ETIMEDOUT: the agents named may still have holds; or another error of an agent */
    int32_t error;
    int64_t closed_ns; /* for how long the lock stays closed */
    uint32_t more;     /* holds that ended and are not in the frame */
    uint32_t hold_count;
    uint32_t silent_count;
};

/* A change of the voters. A client asks again and again, each time with the same id and number,
 * until the change is complete or refused. */
struct hfi_member_frame {
    uint32_t act;    /* enum hf_member_act */
    uint32_t number; /* the number of the record to change; 0: the present one */
    uint64_t id;     /* names the change; never 0 */
    struct hfi_text name;
    struct hfi_text address; /* ADD and MOVE: the voter's address; else empty */
};

/* How far a change has come. */
struct hfi_membered_frame {
    uint32_t stage;  /* enum hf_member_stage */
    uint32_t reason; /* enum hf_member_reason */
    uint32_t number; /* the number of the record that the change changes, for the next MEMBER */
    uint32_t done;   /* how much of the stage is done, of `total` */
    uint32_t total;
    struct hfi_text subject; /* the agent that `reason` is about; empty: none */
};

struct hfi_voter_frame {
    struct hfi_text name;
    struct hfi_text address;
    uint32_t state;
};

struct hfi_stated {
    struct hfi_text agent;
    struct hfi_text cell;
    struct hfi_text role;
    struct hfi_text version;
    uint32_t session_state;
    uint64_t session_epoch;
    int64_t session_remaining_ns;
    uint64_t clients;
    uint64_t locks_held;
    uint64_t waiters;
    uint32_t voter_count;
    struct hfi_voter_frame voters[HFI_FRAME_VOTERS_MAX];
};

/* The table that is full, in a DONE whose error is HF_EFULL. */
struct hfi_full {
    uint32_t table; /* enum hfi_table; HFI_TABLE_UNKNOWN: the frame does not have these fields */
    bool share;     /* `room` is what one user may have of the table */
    uint64_t room;  /* how much the table has room for; 0: not known */
    /* The process that has most open handles, and how many it has. -1: not known, or the agent does
     * not tell this user. */
    int64_t pid;
    uint64_t handles;
    struct hfi_text voter; /* the voter whose table it is; empty: this host's agent has it */
};

/*
 * A decoded frame. kind says which member of the union is set. The elements of LISTED, TOLD and
 * BROKEN are read with a cursor (such as hfi_listed_next_lock), because there are many.
 */
struct hfi_frame {
    enum hfi_frame_kind kind;
    uint64_t request;
    union {
        struct hfi_hello hello;
        struct hfi_welcome welcome;
        struct hfi_open open;
        struct hfi_region_frame region;
        struct hfi_opened opened;
        struct hfi_seat_frame seat; /* SEAT */
        struct hfi_note_frame note; /* NOTE */
        uint32_t handle;            /* CLOSE */
        uint32_t seated;            /* SEATED: the seat's number */
        struct hfi_text text;       /* MAP, SHOW, RECALL, CHANGED: lock name; CHECK: sequencer;
                                        WATCH, UNWATCH: prefix */
        struct {
            struct hfi_text name;
            uint32_t flags;
        } break_lock; /* BREAK */
        struct hfi_list list;
        struct {
            uint32_t lock_count;
            bool more; /* there is another page, which LIST asks for with after = the last name */
        } listed;
        struct hfi_stated stated;
        uint32_t fact_count; /* TOLD */
        struct hfi_broken_frame broken;
        struct hfi_member_frame member;
        struct hfi_membered_frame membered;
        struct {
            int32_t error; /* DONE: 0 or HF_E... */
            struct hfi_full full;
        };
    };
};

/* ---- decoding ---- */

/*
 * The fault of an invalid packet: where it is, what was found, and what was expected. The numbers
 * of fields begin with 0, the kind: "OPEN: field 3 (lock_delay_ns): found -1, expected integer
 * 0..60000000000".
 */
struct hfi_frame_error {
    char text[160];
};

/* A position among the locks and parties of a LISTED frame, the facts of a TOLD frame, or the holds
 * and agents of a BROKEN frame. The struct is opaque, and the caller owns its memory. */
struct hfi_listed_cursor {
    const unsigned char *at;
    const unsigned char *end;
    uint32_t locks_left;
    uint32_t parties_left;
    uint32_t further_left;
    uint32_t facts_left;
    uint32_t agents_left;
};

/*
 * Decodes size bytes at packet. Returns 0, or -1 with *error filled in. After an error out->kind
 * and out->request are set if they could be read, so that a DONE can repeat the request's number;
 * otherwise they are 0. For LISTED, TOLD and BROKEN the call checks the whole frame and sets
 * *cursor to the first lock, fact or hold. For other kinds cursor may be NULL.
 *
 * A HELLO or WELCOME of another protocol version is decoded only up to its version; all fields
 * after it are zero. So the caller must look at the version first.
 */
int hfi_frame_decode(const void *packet, size_t size, struct hfi_frame *out,
                     struct hfi_listed_cursor *cursor, struct hfi_frame_error *error)
    __attribute__((warn_unused_result));

/* hfi_listed_next_lock() returns the next lock, and hfi_listed_next_party() the next party of that
 * lock (holders first, then waiters). Both return false if there are no more. */
bool hfi_listed_next_lock(struct hfi_listed_cursor *cursor, struct hfi_lock_frame *out);
bool hfi_listed_next_party(struct hfi_listed_cursor *cursor, struct hfi_party_frame *out);
/* Returns the ended hold for which the lock is closed. Skips the parties that the caller has not
 * read. Returns false if the agent has not sent it. */
bool hfi_listed_behind(struct hfi_listed_cursor *cursor, struct hfi_behind_frame *out);
/* Returns the next agent of BROKEN; false if there are no more. Its holds are parties, which
 * hfi_listed_next_party() returns first. */
bool hfi_broken_next_silent(struct hfi_listed_cursor *cursor, struct hfi_text *out);
/* Returns the next fact of TOLD; false if there are no more. */
bool hfi_facts_next(struct hfi_listed_cursor *cursor, struct hfi_fact_frame *out);

/*
 * ---- encoding into the caller's buffer: returns the frame's size, or 0 if the frame does not fit
 * or a field is out of the range that the decoder allows ----
 */

size_t hfi_frame_encode(const struct hfi_frame *frame, void *buffer, size_t size)
    __attribute__((warn_unused_result)); /* encodes every kind except LISTED, TOLD and BROKEN */

/* Encodes BROKEN with its holds and agents. The buffer must have HFI_FRAME_MAX bytes, in which all
 * of them fit. Commands and notes are cut and cleaned as in LISTED. If there are more than half as
 * many holds as there may be, notes are cut to half their length. */
size_t hfi_broken_encode(const struct hfi_broken_frame *broken, const struct hfi_party_frame *holds,
                         const struct hfi_text *silent, uint64_t request, void *buffer, size_t size)
    __attribute__((warn_unused_result));

/*
 * The caller builds LISTED step by step: begin, then add locks with their parties (holders first)
 * until one does not fit, then finish, with `more` set if a lock was left out. The first lock of a
 * page always fits, because the builder leaves out parties for which there is no room, and sets
 * more_parties. It also leaves out parties if there are more than HFI_FRAME_PARTIES_MAX holders or
 * waiters. Times below -1 are sent as 0. Commands are cut to HFI_FRAME_COMMAND_MAX bytes, notes to
 * HFI_FRAME_NOTE_MAX bytes, and '?' replaces what is not UTF-8 or is a control character. The
 * buffer must have at least 1 KiB, and the request must not be 0.
 */
struct hfi_listed_builder {
    unsigned char *buffer;
    size_t size;
    size_t used;
    uint64_t request;
    uint32_t lock_count;
};
void hfi_listed_begin(struct hfi_listed_builder *builder, void *buffer, size_t size,
                      uint64_t request);
/* Returns false, and adds nothing, if the lock does not fit. parties: its holders, then its
 * waiters. */
bool hfi_listed_add(struct hfi_listed_builder *builder, const struct hfi_lock_frame *lock,
                    const struct hfi_party_frame *parties) __attribute__((warn_unused_result));
size_t hfi_listed_finish(struct hfi_listed_builder *builder, bool more);

/* The caller builds TOLD as it builds LISTED: begin, add facts, finish. The builder cuts and cleans
 * a fact's text as hfi_listed_add() does with commands. */
struct hfi_facts_builder {
    unsigned char *buffer;
    size_t size;
    size_t used;
    uint64_t request;
    uint32_t count;
};
void hfi_facts_begin(struct hfi_facts_builder *builder, void *buffer, size_t size,
                     uint64_t request);
/* Returns false, and adds nothing, if the fact does not fit. */
bool hfi_facts_add(struct hfi_facts_builder *builder, const struct hfi_fact_frame *fact)
    __attribute__((warn_unused_result));
size_t hfi_facts_finish(struct hfi_facts_builder *builder);

/* Returns the name of the kind, such as "HELLO" or "OPEN", or "unknown" if there is no such kind.
 * The string is static. Only the simulator calls this function: its traces name each frame. The
 * names stay here because they are in the same table as the kinds. */
const char *hfi_frame_name(enum hfi_frame_kind kind);

/* ---- refusals ---- */

/* A DONE with request 0 and HF_EFULL refuses a connection before HELLO. A second DONE follows,
 * which says why there is no room: with this error if the agent's disk is full, else with HF_EFULL
 * and the table. A library that does not know the second DONE has already closed the connection. */
enum { HFI_DONE_DISK_FULL = -98 };

/* ---- command lines and notes ---- */

/*
 * Converts a command line to its form in HELLO: the words joined by blanks, cut off at
 * HFI_FRAME_COMMAND_MAX bytes or less, at the end of a character. In `words` each word ends with a
 * zero byte, as in /proc/PID/cmdline. '?' replaces control characters and bytes that are not UTF-8.
 * The result lies in `cleaned`, which must have HFI_FRAME_COMMAND_MAX bytes.
 */
struct hfi_text hfi_command_of(const char *words, size_t size, char *cleaned);

/* Cuts a note at the end of a character, to max bytes and HFI_FRAME_NOTE_MAX bytes at most. '?'
 * replaces control characters and bytes that are not UTF-8. The result lies in `cleaned`, which
 * must have that many bytes. */
struct hfi_text hfi_note_shown(struct hfi_text note, uint32_t max, char *cleaned);

/* ---- names ---- */

/* Returns 0, HF_EINVAL or HF_ENAMETOOLONG. A name is 1..255 bytes of UTF-8 without control
 * characters. */
int hfi_name_check(const char *name, size_t size);
/* Checks a prefix of lock names in the same way. A prefix may be empty, and must end where a
 * character ends. */
int hfi_prefix_check(const char *prefix, size_t size);
/* Returns whether the label may name a cell, an agent or a namespace: [a-z0-9_-]{1,32}. */
bool hfi_label_check(const char *label, size_t size);
/* Returns the size of the UTF-8 character at bytes, where size bytes are readable. Returns 0 if
 * there is no valid character, or if it is a control character. */
size_t hfi_utf8_size(const char *bytes, size_t size);

/*
 * ---- sequencers: one word that identifies a hold and says where it is ----
 *
 *   exclusive  hf1/CELL/x/TOKEN/AGENT.EPOCH.HOLDER/NAME
 *   shared     hf1/CELL/s/TOKEN/AGENT.EPOCH.HOLDER.SEAT.CELLWORD/NAME
 *
 * Numbers are decimal. In NAME, each byte that is not in [A-Za-z0-9._~:/-] is written as %XX. Each
 * hold has exactly one sequencer: a text with leading zeros, lower-case escapes or needless escapes
 * is invalid.
 */
struct hfi_sequencer {
    char cell[33];
    bool shared;
    uint64_t token; /* below 2^63; not 0 for an exclusive hold */
    char agent[33];
    uint32_t epoch;
    uint32_t holder;    /* 1 .. HFI_HOLDER_MAX */
    uint64_t cell_word; /* the reader's cell of a shared hold; 0 for an exclusive one */
    /* the seat of a shared hold; HFI_SEAT_NONE for an exclusive one, whose text has no seat */
    uint32_t seat;
    char name[256]; /* zero-terminated */
    uint32_t name_size;
};

/*
 * Writes the sequencer and a final zero. Returns the size without the zero. Returns 0 if a member
 * is out of its range, or if size bytes are too few (HF_SEQUENCER_MAX bytes are always enough).
 */
size_t hfi_sequencer_format(const struct hfi_sequencer *sequencer, char *buffer, size_t size)
    __attribute__((warn_unused_result));
/* Returns 0. If the text is not a sequencer, returns -1 and sets *out to zeros. */
int hfi_sequencer_parse(const char *text, size_t size, struct hfi_sequencer *out)
    __attribute__((warn_unused_result));

#endif
