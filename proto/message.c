/* Digests of a cell's rules and of its record of voters, and a text about how the rules of two
 * configurations differ: see voters.h. */
#include "proto/message.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
    unsigned char bytes[8];
    for (uint32_t i = 0; i < 8; i++) { /* the bytes are in little-endian order on every machine */
        bytes[i] = (unsigned char)(number >> (8 * i));
    }
    return mix(hash, bytes, sizeof(bytes));
}

uint64_t message_rules_digest(const struct message_rules *rules)
{
    uint64_t hash = mix_number(UINT64_C(0xcbf29ce484222325), rules->voter_count);
    for (uint32_t i = 0; i < rules->voter_count && i < MESSAGE_VOTERS_MAX; i++) {
        hash = mix_number(hash, rules->voters[i].length);
        hash = mix(hash, rules->voters[i].text, rules->voters[i].length);
    }
    hash = mix_number(hash, (uint64_t)rules->session_ttl_ns);
    hash = mix_number(hash, (uint64_t)rules->grace_ns);
    return mix_number(hash, rules->max_drift_percent);
}

uint64_t message_durations_digest(const struct message_rules *rules)
{
    uint64_t hash = mix_number(UINT64_C(0xcbf29ce484222325), (uint64_t)rules->session_ttl_ns);
    hash = mix_number(hash, (uint64_t)rules->grace_ns);
    hash = mix_number(hash, rules->max_drift_percent);
    return hash != 0 ? hash : 1;
}

/* ---- The record of voters ---- */

_Static_assert(offsetof(struct message, as.change.voters.of) <= MESSAGE_BASE_SIZE &&
                   offsetof(struct message, as.told.voters.of) <= MESSAGE_BASE_SIZE &&
                   sizeof(struct message_member_asked) <= sizeof(struct message_hello),
               "the part that is always zeroed has everything but the voters of a record");

bool message_agent_before(const struct message_agent *a, const struct message_agent *b)
{
    int order = memcmp(a->text, b->text, sizeof(a->text)); /* zero-padded */
    return order < 0 || (order == 0 && a->length < b->length);
}

void message_voters_begin(struct message_voters *voters, const struct message_agent *names,
                          const char (*addresses)[MESSAGE_ADDRESS_MAX], uint32_t count)
{
    memset(voters, 0, sizeof(*voters));
    voters->number = 1;
    voters->complete = true;
    voters->next_ballot_id = (uint16_t)(count + 1);
    for (uint32_t i = 0; i < count && i < MESSAGE_VOTERS_MAX; i++) {
        uint32_t at = voters->count++;
        for (; at > 0 && message_agent_before(&names[i], &voters->of[at - 1].name); at--) {
            voters->of[at] = voters->of[at - 1];
        }
        memset(&voters->of[at], 0, sizeof(voters->of[at]));
        voters->of[at].name = names[i];
        if (addresses != NULL) {
            memcpy(voters->of[at].address, addresses[i], MESSAGE_ADDRESS_MAX);
        }
    }
    for (uint32_t i = 0; i < voters->count; i++) {
        voters->of[i].ballot_id = (uint16_t)(i + 1);
    }
}

uint64_t message_voters_digest(const struct message_voters *voters)
{
    bool first = voters->number <= 1;
    uint64_t hash = mix_number(UINT64_C(0xcbf29ce484222325), voters->number);
    hash = mix_number(hash, voters->recoveries);
    hash = mix_number(hash, first ? 0 : voters->cell_id[0]);
    hash = mix_number(hash, first ? 0 : voters->cell_id[1]);
    hash = mix_number(hash, voters->next_ballot_id);
    hash = mix_number(hash, voters->act);
    hash = mix(hash, voters->changed.text, voters->changed.length);
    hash = mix_number(hash, voters->count);
    for (uint32_t i = 0; i < voters->count && i < MESSAGE_VOTERS_MAX; i++) {
        const struct message_voter *voter = &voters->of[i];
        hash = mix_number(hash, voter->name.length);
        hash = mix(hash, voter->name.text, voter->name.length);
        hash = mix_number(hash, voter->store_id[0]);
        hash = mix_number(hash, voter->store_id[1]);
        hash = mix_number(hash, voter->ballot_id);
        hash = mix(hash, voter->address, first ? 0 : strnlen(voter->address, MESSAGE_ADDRESS_MAX));
        hash = mix_number(hash, 0);
    }
    return hash;
}

bool message_voters_same_cell(const struct message_voters *a, const struct message_voters *b)
{
    bool unknown = (a->cell_id[0] | a->cell_id[1]) == 0;
    bool recovered = b->recoveries > a->recoveries && (b->cell_id[0] | b->cell_id[1]) == 0;
    return unknown || recovered ||
           (a->cell_id[0] == b->cell_id[0] && a->cell_id[1] == b->cell_id[1]);
}

void message_voters_copy(struct message_voters *to, const struct message_voters *from)
{
    size_t used = offsetof(struct message_voters, of) + from->count * sizeof(from->of[0]);
    memcpy(to, from, used);
    memset((char *)to + used, 0, sizeof(*to) - used);
}

uint32_t message_voters_find(const struct message_voters *voters, const struct message_agent *name)
{
    uint32_t at = 0;
    while (at < voters->count && memcmp(&voters->of[at].name, name, sizeof(*name)) != 0) {
        at++;
    }
    return at;
}

/* ---- the difference between two configurations, as a text ---- */

struct difference {
    char *text;
    size_t size;
    size_t used;
    bool any;
};

/* Appends formatted text, and cuts off what does not fit. */
__attribute__((format(printf, 2, 3))) static void add(struct difference *to, const char *format,
                                                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (to->used < to->size) {
        int length = vsnprintf(to->text + to->used, to->size - to->used, format, arguments);
        to->used += length > 0 ? (size_t)length : 0;
    }
    va_end(arguments);
}

static void begin(struct difference *to, const char *what)
{
    add(to, "%s%s: ", to->any ? "; " : "", what);
    to->any = true;
}

/* Appends a duration in the largest unit that gives a whole number, as in a configuration file. */
static void add_duration(struct difference *to, int64_t duration_ns)
{
    static const struct {
        int64_t ns;
        const char *text;
    } UNITS[] = {{INT64_C(3600000000000), "h"},
                 {INT64_C(60000000000), "m"},
                 {1000000000, "s"},
                 {1000000, "ms"}};
    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        if (duration_ns != 0 && duration_ns % UNITS[i].ns == 0) {
            add(to, "%" PRId64 "%s", duration_ns / UNITS[i].ns, UNITS[i].text);
            return;
        }
    }
    add(to, "%" PRId64 "ns", duration_ns);
}

static void compare_duration(struct difference *to, const char *what, int64_t here, int64_t there)
{
    if (here != there) {
        begin(to, what);
        add_duration(to, here);
        add(to, " here, ");
        add_duration(to, there);
        add(to, " there");
    }
}

static bool has_voter(const struct message_rules *rules, const struct message_agent *voter)
{
    for (uint32_t i = 0; i < rules->voter_count && i < MESSAGE_VOTERS_MAX; i++) {
        if (memcmp(&rules->voters[i], voter, sizeof(*voter)) == 0) {
            return true;
        }
    }
    return false;
}

/* Appends the voters that `of` has and `other` lacks. */
static void add_voters(struct difference *to, const struct message_rules *of,
                       const struct message_rules *other, const char *where)
{
    bool any = false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < of->voter_count && i < MESSAGE_VOTERS_MAX; i++) {
        if (has_voter(other, &of->voters[i])) {
            continue;
        }
        if (!any) {
            begin(to, "voters");
        }
        add(to, "%s%.*s", any ? ", " : "", (int)of->voters[i].length, of->voters[i].text);
        any = true;
        count++;
    }
    if (any) {
        add(to, " %s only %s", count == 1 ? "is" : "are", where);
    }
}

bool message_rules_differ(const struct message_rules *here, const struct message_rules *there,
                          char *text, size_t size)
{
    struct difference to = {.text = text, .size = size};
    if (size > 0) {
        text[0] = 0;
    }
    add_voters(&to, here, there, "here");
    add_voters(&to, there, here, "there");
    compare_duration(&to, "session_ttl", here->session_ttl_ns, there->session_ttl_ns);
    compare_duration(&to, "grace_period", here->grace_ns, there->grace_ns);
    if (here->max_drift_percent != there->max_drift_percent) {
        begin(&to, "max_drift");
        add(&to, "%" PRIu32 "%% here, %" PRIu32 "%% there", here->max_drift_percent,
            there->max_drift_percent);
    }
    if (!to.any && message_rules_digest(here) != message_rules_digest(there)) {
        begin(&to, "voters");
        add(&to, "listed in another order");
    }
    return to.any;
}
