/*
 * A FUSE server of one file, on a mount that is attached to no folder. It answers every request
 * that a process needs to map the file, and never answers READ.
 */
#include "fuse_page.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/mount.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent_process.h"
#include "require.h"

enum { FILE_NODE = 2, REQUEST_MAX = 1 << 17, FUSE_MAJOR = 10, FUSE_MINOR = 229 };

static const char file_name[] = "page";

/* ---- the server ---- */

static void reply(int device, uint64_t unique, int error, const void *body, size_t size)
{
    struct fuse_out_header header = {
        .len = (uint32_t)(sizeof(header) + size), .error = -error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)body, size}};
    ssize_t written = writev(device, parts, size != 0 ? 2 : 1);
    REQUIRE(written == (ssize_t)header.len || errno == ENOENT, "%s", strerror(errno));
}

static void reply_init(int device, uint64_t unique, const struct fuse_init_in *wish)
{
    struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                .minor = FUSE_KERNEL_MINOR_VERSION,
                                /* with this flag a process that waits for READ can be killed */
                                .flags = FUSE_ASYNC_READ,
                                .max_readahead = wish->max_readahead,
                                .max_write = 4096};
    if (wish->minor < out.minor) {
        out.minor = wish->minor;
    }
    reply(device, unique, 0, &out, sizeof(out));
}

static struct fuse_attr attributes_of(uint64_t node)
{
    struct fuse_attr attr = {.ino = node, .nlink = 1, .mode = S_IFDIR | 0755, .blksize = 4096};
    if (node == FILE_NODE) {
        attr.mode = S_IFREG | 0666;
        attr.size = FUSE_PAGE_BYTES;
    }
    return attr;
}

static void reply_lookup(int device, uint64_t unique, const char *name)
{
    struct fuse_entry_out out = {.nodeid = FILE_NODE,
                                 .entry_valid = 3600,
                                 .attr_valid = 3600,
                                 .attr = attributes_of(FILE_NODE)};
    bool found = strcmp(name, file_name) == 0;
    reply(device, unique, found ? 0 : ENOENT, &out, found ? sizeof(out) : 0);
}

static void reply_attributes(int device, uint64_t unique, uint64_t node)
{
    struct fuse_attr_out out = {.attr_valid = 3600, .attr = attributes_of(node)};
    reply(device, unique, 0, &out, sizeof(out));
}

static void serve_one(int device, const struct fuse_in_header *header, const void *body, int asked)
{
    struct fuse_open_out opened = {.fh = 1};
    switch (header->opcode) {
    case FUSE_INIT:
        reply_init(device, header->unique, body);
        break;
    case FUSE_LOOKUP:
        reply_lookup(device, header->unique, body);
        break;
    case FUSE_GETATTR:
        reply_attributes(device, header->unique, header->nodeid);
        break;
    case FUSE_OPEN:
        reply(device, header->unique, 0, &opened, sizeof(opened));
        break;
    case FUSE_READ: /* never answered */
        (void)!write(asked, "", 1);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: /* these requests have no answer */
        break;
    default:
        reply(device, header->unique, ENOSYS, NULL, 0);
    }
}

static void serve(int device, int asked)
{
    static union {
        struct fuse_in_header header;
        char bytes[REQUEST_MAX];
    } request;
    for (;;) {
        ssize_t size = read(device, &request, sizeof(request) - 1);
        if (size < (ssize_t)sizeof(request.header)) {
            if (size < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) {
                continue;
            }
            _exit(0); /* no process has the file open or mapped any more */
        }
        request.bytes[size] = '\0';
        serve_one(device, &request.header, request.bytes + sizeof(request.header), asked);
    }
}

/* ---- the mount ---- */

static int open_device(void)
{
    char folder[] = "/tmp/fuse_page-XXXXXX";
    char node[sizeof(folder) + 8];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd >= 0 || mkdtemp(folder) == NULL) {
        return fd;
    }
    snprintf(node, sizeof(node), "%s/fuse", folder);
    if (mknod(node, S_IFCHR | 0600, makedev(FUSE_MAJOR, FUSE_MINOR)) == 0) {
        fd = open(node, O_RDWR | O_CLOEXEC);
    }
    int error = errno;
    (void)unlink(node);
    (void)rmdir(folder);
    errno = error;
    return fd;
}

static bool set(int context, const char *key, const char *value)
{
    unsigned command = value != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
    return syscall(SYS_fsconfig, context, command, key, value, 0) == 0;
}

/* Makes a mount that is attached to no folder. Returns -1 on failure. */
static int make_mount(int device)
{
    char number[16];
    int mount = -1;
    int context = (int)syscall(SYS_fsopen, "fuse", FSOPEN_CLOEXEC);
    snprintf(number, sizeof(number), "%d", device);
    if (context >= 0 && set(context, "source", "fuse_page") && set(context, "fd", number) &&
        set(context, "rootmode", "40755") && set(context, "user_id", "0") &&
        set(context, "group_id", "0") && set(context, "allow_other", NULL) &&
        syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
        mount = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0);
    }
    int error = errno;
    if (context >= 0) {
        close(context);
    }
    errno = error;
    return mount;
}

/* ---- the calls for tests ---- */

static bool cannot(const char *what)
{
    fprintf(stderr, "skipped: memory that never comes needs FUSE: %s: %s\n", what, strerror(errno));
    return false;
}

static void start_server(struct fuse_page *page, int device)
{
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "%s", strerror(errno));
    page->server = fork_tied();
    REQUIRE(page->server >= 0, "%s", strerror(errno));
    if (page->server == 0) {
        serve(device, ends[1]);
    }
    close(ends[1]);
    /* Only the server keeps the device open. When it ends, the device closes, and the kernel ends
     * all waiting calls. */
    close(device);
    page->asked = ends[0];
}

bool fuse_page_create(struct fuse_page *page)
{
    *page = (struct fuse_page){.file = -1, .asked = -1};
    int device = open_device();
    if (device < 0) {
        return cannot("/dev/fuse");
    }
    int mount = make_mount(device);
    if (mount < 0) {
        close(device);
        return cannot("mount");
    }
    start_server(page, device);
    page->file = openat(mount, file_name, O_RDWR | O_CLOEXEC);
    close(mount);
    REQUIRE(page->file >= 0, "%s", strerror(errno));
    void *memory = mmap(NULL, FUSE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, page->file, 0);
    REQUIRE(memory != MAP_FAILED, "%s", strerror(errno));
    page->memory = memory;
    return true;
}

void fuse_page_await(struct fuse_page *page)
{
    struct pollfd waits = {.fd = page->asked, .events = POLLIN};
    char bytes[64];
    REQUIRE(poll(&waits, 1, GUARD_MS) == 1, "nobody waits for a page");
    while (read(page->asked, bytes, sizeof(bytes)) > 0) {
    }
}

void fuse_page_abort(struct fuse_page *page)
{
    if (page->server > 0) {
        kill_process(page->server);
        page->server = 0;
    }
}

void fuse_page_destroy(struct fuse_page *page)
{
    fuse_page_abort(page);
    if (page->memory != NULL) {
        munmap(page->memory, FUSE_PAGE_BYTES);
        close(page->file);
        close(page->asked);
    }
    *page = (struct fuse_page){.file = -1, .asked = -1};
}
