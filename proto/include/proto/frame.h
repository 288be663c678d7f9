/*
 * The frames between a client and its agent over the Unix socket (SOCK_SEQPACKET): one msgpack
 * array a packet, at most HFI_FRAME_MAX bytes. SCHEMA.md has every field.
 *
 * A frame is [kind, request, field...]. Every request of a client carries a number that its
 * answer repeats (0 in what the agent says unasked). Requests are answered in order. Descriptors
 * travel as SCM_RIGHTS with the agent's packets that the table names; the agent takes none.
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
 *   BREAK, RECALL                         DONE
 *   WATCH                                 DONE, then CHANGED ... (unasked)
 *   UNWATCH (ends a WATCH)                DONE, and no more CHANGED of it
 *   EVENTS (wants POKE)                   DONE, then POKE (unasked): look at your holds
 *   RESUMED (all is open again)           DONE
 *   BYE (touches nothing any more)        -
 *   RING (look at the dirty bits)         -
 *   any                                   DONE with an error, instead of the answer
 *
 * RING makes the agent look at the dirty bits of every region that it has sent over that
 * connection. Any thread sends it at any time, beside another thread's request: it has no number
 * and no answer.
 *
 * Decoding checks everything: kinds, counts, types, ranges, name lengths. The decoder never
 * allocates; strings in a decoded frame point into the packet and are not zero-terminated.
 */
#ifndef PROTO_FRAME_H
#define PROTO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HFI_PROTOCOL_VERSION = 3, /* any change of what is said moves it: test_frame has a sum */
    HFI_FRAME_MAX = 16384,
    HFI_FRAME_LOCKS_MAX = 64,   /* locks on a page of LISTED */
    HFI_FRAME_PARTIES_MAX = 64, /* holders or waiters of one lock on a page */
    HFI_FRAME_VOTERS_MAX = 7,
    HFI_FRAME_FACTS_MAX = 256,
    HFI_FRAME_COMMAND_MAX = 160, /* bytes of a holder's command line; longer ones are cut */
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
    HFI_FRAME_RECALL,
    HFI_FRAME_WATCH,
    HFI_FRAME_EVENTS,
    HFI_FRAME_BYE,     /* no answer: the client touches nothing any more */
    HFI_FRAME_RESUMED, /* it has opened again all that it had open */
    HFI_FRAME_FACTS,
    HFI_FRAME_RING, /* no answer: locks of its regions ask to be looked at */
    HFI_FRAME_UNWATCH,

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
};

struct hfi_text {
    const char *bytes;
    uint32_t size;
};

/* OPEN flags and SEAT flags */
enum {
    HFI_OPEN_BARGING = 1,
    HFI_OPEN_SEAT = 2,   /* with a seat at once: the handle has a limit */
    HFI_OPEN_RESUME = 4, /* the client had this handle before its agent went away: holder is it */
    HFI_SEAT_SHARED = 1, /* will read: the word's cells bit is to be set */
    HFI_BREAK_FRAME_NOW = 1,
};

struct hfi_hello {
    uint32_t version;        /* HFI_PROTOCOL_VERSION */
    int64_t pid;             /* in the client's own pid namespace; to be shown only */
    uint32_t client;         /* holder id that it has from before, 0: none */
    uint64_t nonce;          /* with client: as the WELCOME gave it */
    struct hfi_text library; /* its version */
    struct hfi_text command; /* its command line, for people; empty: not said (hfi_command_of) */
};

struct hfi_welcome {
    uint32_t version;
    uint32_t client; /* its first holder id */
    uint64_t nonce;
    bool resumed;         /* it is the client of HELLO, and what it held it holds */
    uint64_t boottime_ns; /* the agent's reading: a client of another time namespace is refused */
    int64_t session_ttl_ns;
    int64_t grace_ns;
    struct hfi_text cell;
    struct hfi_text agent;
    struct hfi_text store; /* store id, 32 hex digits */
};

struct hfi_open {
    uint32_t flags;
    int64_t lock_delay_ns; /* 0 .. 60 s */
    int64_t lease_ns;      /* 0: none */
    int64_t max_stall_ns;  /* 0: none */
    uint32_t holder;       /* with RESUME: its holder id, slot and seat */
    uint32_t slot;
    uint32_t seat;
    uint64_t incarnation; /* with RESUME: of the region */
    struct hfi_text name;
};

struct hfi_region_frame {
    uint32_t region;      /* number of the namespace's region with this agent */
    uint64_t incarnation; /* another one is another region */
    struct hfi_text namespace_name;
};

struct hfi_opened {
    uint32_t handle; /* the agent's number for the handle, for SEAT and CLOSE */
    uint32_t region;
    uint32_t slot;
    uint32_t holder; /* unique among the handles of this lock */
    uint32_t seat;   /* HFI_SEAT_NONE: none */
};

struct hfi_seat_frame {
    uint32_t handle;
    uint32_t flags;
};

struct hfi_list {
    struct hfi_text prefix;
    struct hfi_text after; /* the last name of the page before; empty: from the start */
};

struct hfi_party_frame {
    int64_t pid; /* -1: unknown, as below */
    int64_t uid;
    int64_t elapsed_ns;
    int64_t remaining_ns;
    uint64_t token;
    uint32_t mode; /* enum hf_mode */
    struct hfi_text agent;
    struct hfi_text command; /* empty: unknown */
};

/* One lock of a page. Its parties follow it in the frame; more_parties: they were cut. */
struct hfi_lock_frame {
    struct hfi_text name;
    uint32_t state; /* enum hf_state */
    int64_t closed_ns;
    int64_t age_ns;
    struct hfi_text coordinator;
    uint32_t holder_count;
    uint32_t waiter_count;
    bool more_parties;
};

/* One fact of TOLD. The agent's facts.c has all of them. */
struct hfi_fact_frame {
    struct hfi_text subject; /* the agent that it is about; empty: this one, or its cell */
    struct hfi_text key;     /* "round_trip_ns" */
    int64_t value;
    struct hfi_text text; /* empty: none */
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

/*
 * A decoded frame. kind says which member of the union counts. LISTED is read with a cursor
 * (hfi_listed_next_lock, hfi_listed_next_party) since a page has many parts.
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
            bool more; /* another page follows: ask with after = the last name */
        } listed;
        struct hfi_stated stated;
        uint32_t fact_count; /* TOLD */
        int32_t error;       /* DONE: 0 or HF_E... */
    };
};

/* ---- decoding ---- */

/*
 * The fault of a packet: what, where, what was expected. Fields are counted from 0, which is the
 * kind: "OPEN: field 3 (lock_delay_ns): found -1, expected integer 0..60000000000".
 */
struct hfi_frame_error {
    char text[160];
};

/* The locks and parties of a LISTED frame, or the facts of a TOLD, in order. Opaque; on the
 * caller's storage. */
struct hfi_listed_cursor {
    const unsigned char *at;
    const unsigned char *end;
    uint32_t locks_left;
    uint32_t parties_left;
    uint32_t facts_left;
};

/*
 * Decodes size bytes at packet. 0, or -1 with *error filled in; then out->kind and out->request
 * have what could be read of them, else 0, so that a DONE can name the request. For LISTED and TOLD
 * *cursor (may be NULL otherwise) is set to the first lock or fact; the whole frame has been
 * checked then.
 *
 * A HELLO or WELCOME of another protocol version is decoded up to its version and no further: look
 * at that first. Everything behind it is then zero.
 */
int hfi_frame_decode(const void *packet, size_t size, struct hfi_frame *out,
                     struct hfi_listed_cursor *cursor, struct hfi_frame_error *error)
    __attribute__((warn_unused_result));

/* The next lock / the next party of the lock (holders first, then waiters). false: no more. */
bool hfi_listed_next_lock(struct hfi_listed_cursor *cursor, struct hfi_lock_frame *out);
bool hfi_listed_next_party(struct hfi_listed_cursor *cursor, struct hfi_party_frame *out);
/* The next fact of TOLD. false: no more. */
bool hfi_told_next(struct hfi_listed_cursor *cursor, struct hfi_fact_frame *out);

/*
 * ---- encoding: into the caller's buffer; returns the size, or 0 if it does not fit, or if a field
 * is out of the range that the decoder allows ----
 */

size_t hfi_frame_encode(const struct hfi_frame *frame, void *buffer, size_t size)
    __attribute__((warn_unused_result)); /* every kind but LISTED and TOLD */

/*
 * LISTED is built step by step: begin, add locks with their parties (holders first) until one does
 * not fit any more, finish, saying whether any was left out. The first lock of a page always fits:
 * parties that find no room are cut and more_parties is set, as it is for more than
 * HFI_FRAME_PARTIES_MAX holders or waiters. Times below -1 are sent as 0; commands are cut to
 * HFI_FRAME_COMMAND_MAX bytes, and '?' stands for what is not UTF-8 or is a control character. The
 * buffer has at least 1 KiB; the request is not 0.
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
/* false: it does not fit any more, nothing was added. parties: holders, then waiters. */
bool hfi_listed_add(struct hfi_listed_builder *builder, const struct hfi_lock_frame *lock,
                    const struct hfi_party_frame *parties) __attribute__((warn_unused_result));
size_t hfi_listed_finish(struct hfi_listed_builder *builder, bool more);

/* TOLD likewise: begin, add facts, finish. The text of a fact is cut and cleaned as a command. */
struct hfi_told_builder {
    unsigned char *buffer;
    size_t size;
    size_t used;
    uint64_t request;
    uint32_t count;
};
void hfi_told_begin(struct hfi_told_builder *builder, void *buffer, size_t size, uint64_t request);
/* false: it does not fit any more, nothing was added. */
bool hfi_told_add(struct hfi_told_builder *builder, const struct hfi_fact_frame *fact)
    __attribute__((warn_unused_result));
size_t hfi_told_finish(struct hfi_told_builder *builder);

/* "HELLO", "OPEN", ...; "unknown". Static. */
const char *hfi_frame_name(enum hfi_frame_kind kind);

/* ---- command lines ---- */

/*
 * The form of a command line in HELLO: its words (each ended by a zero byte, as /proc/PID/cmdline
 * has them) joined by blanks, cut to HFI_FRAME_COMMAND_MAX bytes at a character, '?' for what is
 * not UTF-8 or is a control character. It lies in cleaned, which has room for so many bytes.
 */
struct hfi_text hfi_command_of(const char *words, size_t size, char *cleaned);

/* ---- names ---- */

/* 0, or HF_EINVAL / HF_ENAMETOOLONG: 1..255 bytes of UTF-8 without control characters. */
int hfi_name_check(const char *name, size_t size);
/* The same for a prefix of names, which may be empty. It ends where a character ends. */
int hfi_prefix_check(const char *prefix, size_t size);
/* Whether it may name a cell, an agent or a namespace: [a-z0-9_-]{1,32}. */
bool hfi_label_check(const char *label, size_t size);

/*
 * ---- sequencers: one word that names a hold and its place ----
 *
 *   exclusive  hf1/CELL/x/TOKEN/AGENT.EPOCH.HOLDER/NAME
 *   shared     hf1/CELL/s/TOKEN/AGENT.EPOCH.HOLDER.SEAT.CELLWORD/NAME
 *
 * Numbers are decimal. NAME comes last; a byte that is not in [A-Za-z0-9._~:/-] is %XX. A hold has
 * exactly one spelling: leading zeros, lower-case escapes and needless ones are no sequencers.
 */
struct hfi_sequencer {
    char cell[33];
    bool shared;
    uint64_t token; /* below 2^63; exclusive: not 0 */
    char agent[33];
    uint32_t epoch;
    uint32_t holder;    /* 1 .. HFI_HOLDER_MAX */
    uint64_t cell_word; /* a shared hold's reader cell; 0 exclusive */
    uint32_t seat;      /* a shared hold's; exclusive: not in the text, HFI_SEAT_NONE when parsed */
    char name[256];     /* zero-terminated */
    uint32_t name_size;
};

/*
 * Writes the sequencer and a final zero. The size without the zero, or 0: it does not fit into
 * size bytes (HF_SEQUENCER_MAX always do), or a member is out of its range.
 */
size_t hfi_sequencer_format(const struct hfi_sequencer *sequencer, char *buffer, size_t size)
    __attribute__((warn_unused_result));
/* 0, or -1: not a sequencer (*out is all zero then). */
int hfi_sequencer_parse(const char *text, size_t size, struct hfi_sequencer *out)
    __attribute__((warn_unused_result));

#endif
