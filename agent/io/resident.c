/* Unmaps pages of program files: see io/resident.h. */
#include "io/resident.h"

#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PIECE = 256, /* pages that one read looks at */
    SEGMENTS_MAX = 128,
};

/* Bits of an entry of pagemap (Documentation/admin-guide/mm/pagemap.rst). */
#define PAGE_IS_FILES (UINT64_C(1) << 61) /* the page is the file's own, not a written copy */
#define PAGE_IS_PRESENT (UINT64_C(1) << 63)

struct segment {
    uintptr_t begin;
    uintptr_t end;
};

/* The segments are collected before any of them is unmapped. The list of a library's segments lies
 * in the library's own first page, so reading it later would map that page and its neighbours. */
struct trimming {
    int pagemap;
    uintptr_t page_size;
    uint32_t count;
    struct segment segments[SEGMENTS_MAX];
};

/* Unmaps those pages of one piece that are unchanged pages of the file. One call unmaps a run of
 * adjacent pages. */
static void trim_piece(const struct trimming *trimming, uintptr_t begin, size_t count)
{
    uint64_t entries[PIECE];
    const uint64_t wanted = PAGE_IS_PRESENT | PAGE_IS_FILES;
    ssize_t size = (ssize_t)(count * sizeof(entries[0]));
    off_t at = (off_t)(begin / trimming->page_size * sizeof(entries[0]));
    size_t run = 0;
    if (pread(trimming->pagemap, entries, (size_t)size, at) != size) {
        return;
    }
    for (size_t i = 0; i <= count; i++) {
        if (i < count && (entries[i] & wanted) == wanted) {
            run++;
        } else if (run > 0) {
            (void)madvise((void *)(begin + (i - run) * trimming->page_size),
                          run * trimming->page_size, MADV_DONTNEED);
            run = 0;
        }
    }
}

static int collect(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct trimming *trimming = arg;
    uintptr_t mask = trimming->page_size - 1;
    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum && trimming->count < SEGMENTS_MAX; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && (header->p_flags & PF_W) == 0) {
            trimming->segments[trimming->count++] = (struct segment){
                .begin = begin & ~mask, .end = (begin + header->p_filesz + mask) & ~mask};
        }
    }
    return 0;
}

static void trim_segment(const struct trimming *trimming, const struct segment *segment)
{
    size_t left = (segment->end - segment->begin) / trimming->page_size;
    uintptr_t at = segment->begin;
    while (left > 0) {
        size_t count = left < PIECE ? left : PIECE;
        trim_piece(trimming, at, count);
        at += count * trimming->page_size;
        left -= count;
    }
}

void resident_trim(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
    struct trimming trimming = {.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
                                .page_size = (uintptr_t)sysconf(_SC_PAGESIZE)};
    if (trimming.pagemap >= 0) {
        (void)dl_iterate_phdr(collect, &trimming);
        for (uint32_t i = 0; i < trimming.count; i++) {
            trim_segment(&trimming, &trimming.segments[i]);
        }
        close(trimming.pagemap);
    }
}
