/*
 * Finding out that this process is the child of a fork, and the size rule of option structs.
 *
 * A page is marked MADV_WIPEONFORK: the kernel gives a child zeroes in its place. One load tells
 * parent from child, where getpid() would cost more than the lock. A vfork child shares the
 * memory and is taken for its parent; it may call nothing but _exit and exec anyway.
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
    if (size < first_size) { /* the first version is the smallest there ever was */
        return false;
    }
    const unsigned char *bytes = given;
    for (size_t i = known_size; i < size; i++) {
        if (bytes[i] != 0) { /* asks for something that this library does not know */
            return false;
        }
    }
    memcpy(known, given, size < known_size ? size : known_size);
    return true;
}
