/* The table of subordinate numbers: see io/subids.h. */
#include "io/subids.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 512 };

static const uint64_t number_max = UINT32_MAX - 1; /* UINT32_MAX is no user's number */

struct range {
    uint32_t first;
    uint32_t last;
    uid_t account;  /* 0: the range is root's */
    uint32_t begin; /* the first number of the line in the file; the range's blocks are counted from
                     * here */
};

static struct {
    struct range *ranges; /* in ascending order; no two of them have a number in common */
    uint32_t count;
} own;

/* A user in this host's own /etc/passwd. */
struct user {
    char *name;
    uid_t uid;
};

struct subids_reading {
    subids_wrong_fn *wrong;
    void *arg;
    unsigned line;
    struct user *users; /* sorted by name */
    size_t user_count;
};

static void report(const struct subids_reading *reading, const char *why)
{
    reading->wrong(reading->arg, reading->line, why);
}

/* Reads a number that consists of digits alone. */
static bool read_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    size_t size = strlen(text);
    if (size == 0 || size > 10) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (!isdigit((unsigned char)text[i])) {
            return false;
        }
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *out = value;
    return value <= number_max;
}

/* Returns the index of the first range that ends at or after that number. */
static uint32_t find(uint32_t number)
{
    uint32_t low = 0;
    uint32_t high = own.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (own.ranges[middle].last < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool insert(uint32_t at, const struct range *range)
{
    if (own.count == SUBIDS_RANGES_MAX) {
        return false;
    }
    memmove(&own.ranges[at + 1], &own.ranges[at], (own.count - at) * sizeof(own.ranges[0]));
    own.ranges[at] = *range;
    own.count++;
    return true;
}

/* Adds the parts of the range that no earlier line has. */
static void add(const struct subids_reading *reading, struct range range)
{
    uint32_t last = range.last;
    for (uint32_t at = find(range.first);; at++) { /* ends at the first stored range behind the new
                                                    * one */
        bool more = at < own.count && own.ranges[at].first <= last;
        uint32_t next = more ? own.ranges[at].first : last + 1;
        if (range.first < next) {
            range.last = next - 1;
            if (!insert(at, &range)) {
                report(reading,
                       "found more ranges than the agent has room for; it ignores this one and the "
                       "ones that follow");
                return;
            }
            at++;
        }
        if (!more) {
            return;
        }
        if (own.ranges[at].account != range.account) {
            report(reading,
                   "found numbers that an earlier line gives to another user; the earlier line "
                   "counts");
        }
        if (own.ranges[at].last >= last) {
            return;
        }
        range.first = own.ranges[at].last + 1;
    }
}

static int compare_users(const void *a, const void *b)
{
    return strcmp(((const struct user *)a)->name, ((const struct user *)b)->name);
}

/* Reads all users of /etc/passwd at once. Looking up thousands of owners by name would read the
 * file as many times. If there is no memory for all users, find_owner() looks the other users up by
 * name. */
static void take_users(struct subids_reading *reading)
{
    const struct passwd *user;
    size_t room = 0;
    FILE *file = fopen("/etc/passwd", "re");
    while (file != NULL && (user = fgetpwent(file)) != NULL) {
        if (reading->user_count == room) {
            room = room * 2 + 64;
            struct user *more = realloc(reading->users, room * sizeof(*more));
            if (more == NULL) {
                break;
            }
            reading->users = more;
        }
        char *name = strdup(user->pw_name);
        if (name == NULL) {
            break;
        }
        reading->users[reading->user_count++] = (struct user){.name = name, .uid = user->pw_uid};
    }
    if (file != NULL) {
        fclose(file);
    }
    if (reading->user_count > 0) {
        qsort(reading->users, reading->user_count, sizeof(struct user), compare_users);
    }
}

static void free_users(struct subids_reading *reading)
{
    for (size_t i = 0; i < reading->user_count; i++) {
        free(reading->users[i].name);
    }
    free(reading->users);
}

static bool find_owner(const struct subids_reading *reading, char *name, uid_t *out)
{
    uint64_t number;
    const struct user key = {.name = name};
    const struct user *known = reading->user_count == 0
                                   ? NULL
                                   : bsearch(&key, reading->users, reading->user_count,
                                             sizeof(struct user), compare_users);
    if (known != NULL) {
        *out = known->uid;
        return true;
    }
    if (read_number(name, &number)) {
        *out = (uid_t)number;
        return true;
    }
    const struct passwd *user = getpwnam(name); /* finds a user of a directory service */
    if (user == NULL) {
        return false;
    }
    *out = user->pw_uid;
    return true;
}

static void take_line(const struct subids_reading *reading, char *line)
{
    char *fields[3] = {line};
    uint64_t first;
    uint64_t count;
    struct range range;
    unsigned field = 0;
    for (char *at = line; *at != '\0'; at++) {
        if (*at == ':' && ++field < 3) {
            *at = '\0';
            fields[field] = at + 1;
        }
    }
    if (field != 2) {
        report(reading, "expected NAME:FIRST:COUNT");
        return;
    }
    if (!read_number(fields[1], &first) || !read_number(fields[2], &count) || count == 0 ||
        first + count - 1 > number_max) {
        report(reading, "expected a first user number and a count, all numbers below 4294967295");
        return;
    }
    if (!find_owner(reading, fields[0], &range.account)) {
        report(reading, "found an unknown user, expected a user of this host");
        return;
    }
    uint32_t least = range.account == 0 ? SUBIDS_BLOCK : 1;
    range.begin = first < least ? least : (uint32_t)first;
    range.first = range.begin;
    range.last = (uint32_t)(first + count - 1);
    if (range.first <= range.last) {
        add(reading, range);
    }
}

static void take_file(struct subids_reading *reading, FILE *file)
{
    char line[LINE_SIZE];
    bool goes_on = false; /* the text that is read next is the rest of a line that was too long */
    while (fgets(line, sizeof(line), file) != NULL) {
        size_t size = strlen(line);
        bool whole = size > 0 && line[size - 1] == '\n';
        reading->line += !goes_on;
        if (whole) {
            line[size - 1] = '\0';
        }
        if (!goes_on && !whole && !feof(file)) {
            report(reading, "expected NAME:FIRST:COUNT");
        } else if (!goes_on && line[0] != '\0' && line[0] != '#') {
            take_line(reading, line);
        }
        goes_on = !whole;
    }
}

bool subids_load(const char *path, subids_wrong_fn *wrong, void *arg)
{
    struct subids_reading reading = {.wrong = wrong, .arg = arg};
    own.count = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return errno == ENOENT;
    }
    if (own.ranges == NULL) {
        own.ranges = calloc(SUBIDS_RANGES_MAX, sizeof(own.ranges[0]));
    }
    if (own.ranges == NULL) {
        fclose(file);
        errno = ENOMEM;
        return false;
    }
    take_users(&reading);
    take_file(&reading, file);
    free_users(&reading);
    bool good = !ferror(file);
    own.count = good ? own.count : 0;
    int error = good ? 0 : errno;
    fclose(file);
    errno = error;
    return good;
}

uid_t subids_account(uid_t uid)
{
    uint32_t at = find(uid);
    if (at == own.count || own.ranges[at].first > uid) {
        return uid;
    }
    const struct range *range = &own.ranges[at];
    return range->account != 0 ? range->account
                               : range->begin + (uid - range->begin) / SUBIDS_BLOCK * SUBIDS_BLOCK;
}
