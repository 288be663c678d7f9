/* Client records: see io/client_record.h. */
#include "io/client_record.h"

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

enum { FILE_SIZE_MAX = 1 << 20, TEXT_MAX = 768, LINE_MAX_ADDED = 32 };

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

bool client_record_create(int directory, const struct client_record *record)
{
    char name[16];
    char boot[2 * sizeof(record->boot_id) + 1];
    char text[TEXT_MAX];
    name_of(record->client, name);
    for (size_t i = 0; i < sizeof(record->boot_id); i++) {
        snprintf(boot + 2 * i, 3, "%02x", record->boot_id[i]);
    }
    int size = snprintf(text, sizeof(text),
                        "pid %d\nuid %u\nnonce %016" PRIx64 "\ninode %" PRIu64 "\nstart %" PRIu64
                        "\nnumbers %" PRIu64 "\nboot %s\ncommand %s\nholder %" PRIu32 "\n",
                        (int)record->pid, (unsigned)record->uid, record->nonce,
                        record->process.inode, record->process.start, record->numbers, boot,
                        record->command, record->client);
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

/* Returns the end of the last whole line. An agent that was killed, or that failed to undo a write,
 * may have left half a line behind it. Returns -1 with errno on failure. */
static off_t end_of(int fd)
{
    char tail[LINE_MAX_ADDED];
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return -1;
    }
    off_t from = status.st_size > (off_t)sizeof(tail) ? status.st_size - (off_t)sizeof(tail) : 0;
    ssize_t got = pread(fd, tail, sizeof(tail), from);
    const char *newline = got > 0 ? memrchr(tail, '\n', (size_t)got) : NULL;
    if (newline == NULL) {
        errno = got < 0 ? errno : EINVAL;
        return -1;
    }
    return from + (newline - tail) + 1;
}

/* Appends the line. On failure returns false with errno, and the file is unchanged. */
static bool add_line(int fd, const char *text, size_t size)
{
    off_t end = end_of(fd);
    if (end < 0 || ftruncate(fd, end) != 0 || lseek(fd, end, SEEK_SET) != end) {
        return false;
    }
    if (write_all(fd, text, size)) {
        return true;
    }
    int error = errno;
    (void)!ftruncate(fd, end); /* if this fails, the next writer cuts the file */
    errno = error;
    return false;
}

bool client_record_add(int directory, uint32_t client, uint32_t holder)
{
    char name[16];
    char text[LINE_MAX_ADDED];
    name_of(client, name);
    int size = snprintf(text, sizeof(text), "holder %" PRIu32 "\n", holder);
    int fd = openat(directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return false;
    }
    bool good = add_line(fd, text, (size_t)size);
    int error = errno;
    close(fd);
    errno = error;
    return good;
}

void client_record_remove(int directory, uint32_t client)
{
    char name[16];
    name_of(client, name);
    unlinkat(directory, name, 0);
}

static bool take_boot(const char *value, uint8_t out[16])
{
    if (strspn(value, "0123456789abcdef") != 32 || value[32] != '\0') {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        const char pair[3] = {value[2 * i], value[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return true;
}

static bool take_number(const char *key, uint64_t number, struct client_record *out)
{
    if (strcmp(key, "nonce") == 0) {
        out->nonce = number;
    } else if (strcmp(key, "pid") == 0 && number <= INT32_MAX) {
        out->pid = (pid_t)number;
    } else if (strcmp(key, "uid") == 0) {
        out->uid = (uid_t)number;
    } else if (strcmp(key, "inode") == 0) {
        out->process.inode = number;
    } else if (strcmp(key, "start") == 0) {
        out->process.start = number;
    } else if (strcmp(key, "numbers") == 0) {
        out->numbers = number;
    } else if (strcmp(key, "holder") == 0 && number >= 1 && number <= HFI_HOLDER_MAX) {
        out->holders[out->holder_count++] = (uint32_t)number;
    } else {
        return false;
    }
    return true;
}

/* Reads one terminated line into *out. The caller has made room in holders. */
static bool take_line(char *line, struct client_record *out)
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
    if (strcmp(line, "boot") == 0) {
        return take_boot(value, out->boot_id);
    }
    char *end;
    errno = 0;
    unsigned long long number = strtoull(value, &end, strcmp(line, "nonce") == 0 ? 16 : 10);
    if (errno != 0 || end == value || *end != '\0') {
        return false;
    }
    return take_number(line, number, out);
}

static bool take_text(char *text, struct client_record *out)
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

bool client_record_read(int directory, uint32_t client, struct client_record *out)
{
    struct stat status;
    char *text = NULL;
    bool good = false;
    *out = (struct client_record){.client = client};
    char name[16];
    name_of(client, name);
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
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
    close(fd);
    if (!good) {
        client_record_free(out);
        errno = error;
    }
    return good;
}

void client_record_free(struct client_record *record)
{
    free(record->holders);
    record->holders = NULL;
    record->holder_count = 0;
}

bool client_record_each(int directory, void (*visit)(void *arg, uint32_t client), void *arg)
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
