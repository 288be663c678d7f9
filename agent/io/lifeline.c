/* Lifeline files: see io/lifeline.h. */
#include "io/lifeline.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/region.h"

enum { FILE_SIZE_MAX = 1 << 20, TEXT_MAX = 512 };

static const char new_name[] = "new";

static void name_of(uint32_t client, char name[16])
{
    snprintf(name, 16, "%" PRIu32, client);
}

static bool write_all(int fd, const char *text, size_t size)
{
    ssize_t wrote = write(fd, text, size);
    if (wrote >= 0 && (size_t)wrote != size) {
        errno = ENOSPC;
    }
    return wrote == (ssize_t)size;
}

bool lifeline_create(int directory, const struct lifeline *lifeline)
{
    char name[16];
    char text[TEXT_MAX];
    name_of(lifeline->client, name);
    int size = snprintf(text, sizeof(text),
                        "pid %d\nuid %u\nnonce %016" PRIx64 "\ncommand %s\nholder %" PRIu32 "\n",
                        (int)lifeline->pid, (unsigned)lifeline->uid, lifeline->nonce,
                        lifeline->command, lifeline->client);
    int fd = openat(directory, new_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                    0600);
    if (fd < 0) {
        return false;
    }
    bool good = write_all(fd, text, (size_t)size) &&
                renameat(directory, new_name, directory, name) == 0;
    int error = errno;
    close(fd);
    if (!good) {
        unlinkat(directory, new_name, 0);
    }
    errno = error;
    return good;
}

bool lifeline_add(int directory, uint32_t client, uint32_t holder)
{
    char name[16];
    char text[32];
    name_of(client, name);
    int size = snprintf(text, sizeof(text), "holder %" PRIu32 "\n", holder);
    int fd = openat(directory, name, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    bool good = write_all(fd, text, (size_t)size);
    int error = errno;
    close(fd);
    errno = error;
    return good;
}

int lifeline_open(int directory, uint32_t client)
{
    char name[16];
    name_of(client, name);
    return openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

void lifeline_remove(int directory, uint32_t client)
{
    char name[16];
    name_of(client, name);
    unlinkat(directory, name, 0);
}

/* Takes one line (terminated) into *out; holders has room. */
static bool take_line(char *line, struct lifeline *out)
{
    char *value = strchr(line, ' ');
    if (value == NULL) {
        return false;
    }
    *value++ = '\0';
    if (strcmp(line, "command") == 0) {
        snprintf(out->command, sizeof(out->command), "%s", value);
        return true;
    }
    char *end;
    bool nonce = strcmp(line, "nonce") == 0;
    errno = 0;
    unsigned long long number = strtoull(value, &end, nonce ? 16 : 10);
    if (errno != 0 || end == value || *end != '\0') {
        return false;
    }
    if (nonce) {
        out->nonce = number;
    } else if (strcmp(line, "pid") == 0) {
        out->pid = (pid_t)number;
    } else if (strcmp(line, "uid") == 0) {
        out->uid = (uid_t)number;
    } else if (strcmp(line, "holder") == 0 && number >= 1 && number <= HFI_HOLDER_MAX) {
        out->holders[out->holder_count++] = (uint32_t)number;
    } else {
        return false;
    }
    return true;
}

static bool take_text(char *text, struct lifeline *out)
{
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    out->holders = calloc(lines + 1, sizeof(uint32_t));
    if (out->holders == NULL) {
        return false;
    }
    char *line = text;
    for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (!take_line(line, out)) {
            return false;
        }
    }
    return out->holder_count > 0 && out->holders[0] == out->client;
}

bool lifeline_read(int directory, uint32_t client, struct lifeline *out)
{
    struct stat status;
    char *text = NULL;
    bool good = false;
    *out = (struct lifeline){.client = client};
    int fd = lifeline_open(directory, client);
    if (fd < 0) {
        return false;
    }
    errno = EINVAL;
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= FILE_SIZE_MAX) {
        text = calloc(1, (size_t)status.st_size + 1);
    }
    if (text != NULL) {
        ssize_t size = read(fd, text, (size_t)status.st_size);
        good = size == status.st_size && memchr(text, '\0', (size_t)size) == NULL &&
               take_text(text, out);
    }
    int error = errno == ENOMEM ? ENOMEM : EINVAL;
    free(text);
    /* The agent's own POSIX locks would go with this; it has none on these files. */
    close(fd);
    if (!good) {
        lifeline_free(out);
        errno = error;
    }
    return good;
}

void lifeline_free(struct lifeline *lifeline)
{
    free(lifeline->holders);
    lifeline->holders = NULL;
    lifeline->holder_count = 0;
}

enum lifeline_lock lifeline_look(int directory, uint32_t client, pid_t *pid)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    *pid = 0;
    int fd = lifeline_open(directory, client);
    if (fd < 0) {
        /* Out of descriptors, say: who cannot be checked keeps what it has. */
        return errno == ENOENT ? LIFELINE_MISSING : LIFELINE_LOCKED;
    }
    int result = fcntl(fd, F_GETLK, &lock);
    close(fd);
    if (result != 0) {
        return LIFELINE_LOCKED;
    }
    if (lock.l_type == F_UNLCK) {
        return LIFELINE_FREE;
    }
    *pid = lock.l_pid > 0 ? lock.l_pid : 0;
    return LIFELINE_LOCKED;
}

bool lifeline_each(int directory, void (*visit)(void *arg, uint32_t client), void *arg)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (entries == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        char *end;
        unsigned long number = strtoul(entry->d_name, &end, 10);
        if (isdigit((unsigned char)entry->d_name[0]) && *end == '\0' && number >= 1 &&
            number <= HFI_HOLDER_MAX) {
            visit(arg, (uint32_t)number);
        }
    }
    closedir(entries);
    return true;
}
