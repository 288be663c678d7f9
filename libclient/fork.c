/*
 * How a process notices that it is a forked child. This file also has the rule for the sizes of
 * option structs.
 *
 * One page is marked MADV_WIPEONFORK, so the kernel gives a forked child a page of zeros instead.
 * One load of that page shows whether this process is such a child. A call of getpid() would cost
 * more than taking the lock. A child of vfork() shares the page with its parent, so it cannot
 * notice that it is a child. That does no harm, because such a child may only call _exit() and
 * exec().
 */
#include "client.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint32_t *alive_create(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return NULL;
    }
    uint32_t *alive = page;
    *alive = 1;
    return alive;
}

void alive_destroy(uint32_t *alive)
{
    munmap(alive, (size_t)sysconf(_SC_PAGESIZE));
}

bool options_copy(void *known, size_t known_size, size_t first_size, const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof(size));
    if (size < first_size) { /* no program has a smaller struct than the first version's */
        return false;
    }
    const unsigned char *bytes = given;
    for (size_t i = known_size; i < size; i++) {
        if (bytes[i] != 0) { /* a newer program sets a member that this library does not know */
            return false;
        }
    }
    memcpy(known, given, size < known_size ? size : known_size);
    return true;
}
