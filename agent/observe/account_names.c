/* The names of users: see account_names.h. */
#include "observe/account_names.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

struct named_user {
    uint32_t uid;
    uint32_t place; /* its place in the file */
    char name[ACCOUNT_NAMES_LONGEST + 1];
};

struct account_names {
    const char *path;
    struct stat seen; /* the file when it was read; all 0: it was not read */
    uint32_t count;
    struct named_user users[ACCOUNT_NAMES_MAX]; /* by uid */
};

struct account_names *account_names_create(const char *path)
{
    struct account_names *names = calloc(1, sizeof(*names));
    if (names != NULL) {
        names->path = path;
    }
    return names;
}

void account_names_destroy(struct account_names *names)
{
    free(names);
}

/* Reads NAME:PASSWORD:UID:... from the line. Returns false if the line has another form. */
static bool read_user(const char *line, struct named_user *out)
{
    const char *password = strchr(line, ':');
    const char *uid = password != NULL ? strchr(password + 1, ':') : NULL;
    if (uid == NULL || password == line || password - line > ACCOUNT_NAMES_LONGEST ||
        uid[1] < '0' || uid[1] > '9') {
        return false;
    }
    char *end;
    unsigned long long number = strtoull(uid + 1, &end, 10);
    if (*end != ':' || number >= UINT32_MAX) {
        return false;
    }
    memcpy(out->name, line, (size_t)(password - line));
    out->name[password - line] = '\0';
    out->uid = (uint32_t)number;
    return true;
}

static int by_uid(const void *one, const void *other)
{
    const struct named_user *a = one;
    const struct named_user *b = other;
    if (a->uid != b->uid) {
        return a->uid < b->uid ? -1 : 1;
    }
    return a->place < b->place ? -1 : 1;
}

static void read_users(struct account_names *names, FILE *file)
{
    char line[LINE_MAX_BYTES];
    bool whole = true; /* the last line was not cut off, so this one begins a line of the file */
    names->count = 0;
    while (names->count < ACCOUNT_NAMES_MAX && fgets(line, sizeof(line), file) != NULL) {
        bool begins = whole;
        struct named_user *user = &names->users[names->count];
        whole = strchr(line, '\n') != NULL;
        if (begins && read_user(line, user)) {
            user->place = names->count++;
        }
    }
    qsort(names->users, names->count, sizeof(names->users[0]), by_uid);
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
           one->st_size == other->st_size && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

void account_names_look(struct account_names *names)
{
    struct stat now;
    /* O_NONBLOCK: the open of a FIFO would wait for a writer */
    int fd = open(names->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool good = fd >= 0 && fstat(fd, &now) == 0 && S_ISREG(now.st_mode);
    if (good && is_same(&now, &names->seen)) {
        close(fd);
        return;
    }
    FILE *file = good ? fdopen(fd, "r") : NULL;
    names->count = 0;
    names->seen = (struct stat){0};
    if (file != NULL) {
        read_users(names, file);
        names->seen = now;
        fclose(file);
    } else if (fd >= 0) {
        close(fd);
    }
}

const char *account_names_find(const struct account_names *names, int64_t uid)
{
    uint32_t first = 0;
    uint32_t end = names != NULL ? names->count : 0;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if ((int64_t)names->users[middle].uid < uid) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    bool found = names != NULL && first < names->count && (int64_t)names->users[first].uid == uid;
    return found ? names->users[first].name : NULL;
}
