/*
 * A hostile region. The input is its header, the beginning of its index and the beginning of its
 * slots. The code refuses the region with a text, or every part lies inside the region and the
 * lookup of a name stays inside it.
 *
 * An input is HEADER_BYTES of the header, INDEX_BYTES of the index, and then bytes of the slots.
 */
#include "fuzz.h"

#include "proto/check.h"
#include "proto/region.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 448, INDEX_BYTES = 256, SLOT_BYTES = 192 };

static const struct hfi_region_sizes sizes = {.slot_count = 4, .holder_count = 4, .block_count = 2};

static void *region_new(uint64_t size)
{
    void *memory = aligned_alloc(HFI_HEADER_SIZE, size);

    if (memory == NULL) {
        abort();
    }
    memset(memory, 0, size);
    return memory;
}

static size_t region_seed(size_t index, uint8_t *bytes, size_t size)
{
    struct hfi_region_identity identity = {
        .cell = "dev", .agent = "dev", .namespace_name = "default", .grace_ns = 5};
    struct hfi_region region;
    uint8_t *memory;

    if (index > 1 || size < HEADER_BYTES + INDEX_BYTES + SLOT_BYTES) {
        return 0;
    }
    memory = region_new(hfi_region_size(&sizes));
    hfi_region_format(memory, &sizes, &identity);
    HF_CHECK(hfi_region_attach(memory, hfi_region_size(&sizes), &region) == NULL);
    if (index == 1) {
        HF_CHECK(hfi_index_put(&region, 0, hfi_name_hash("a", 1)));
        HF_CHECK(hfi_index_put(&region, 3, hfi_name_hash("b", 1)));
    }
    memcpy(bytes, memory, HEADER_BYTES);
    memcpy(bytes + HEADER_BYTES, memory + region.header->index_offset, INDEX_BYTES);
    memcpy(bytes + HEADER_BYTES + INDEX_BYTES, memory + region.header->slots_offset, SLOT_BYTES);
    free(memory);
    return HEADER_BYTES + INDEX_BYTES + SLOT_BYTES;
}

static void check_part(const struct hfi_region *region, const volatile void *part, uint64_t bytes)
{
    uintptr_t start = (uintptr_t)region->header;

    HF_CHECK((uintptr_t)part >= start + HFI_HEADER_SIZE && (uintptr_t)part % HFI_LINE == 0);
    HF_CHECK((uintptr_t)part - start <= region->size &&
             bytes <= region->size - ((uintptr_t)part - start));
}

static void check_attached(void *memory, uint64_t size)
{
    struct hfi_region region;
    const char *refused = hfi_region_attach(memory, size, &region);

    if (refused != NULL) {
        HF_CHECK(refused[0] != '\0');
        return;
    }
    HF_CHECK(region.size == size && region.header == memory);
    HF_CHECK(region.index_count > 0 && (region.index_count & (region.index_count - 1)) == 0);
    check_part(&region, region.words, (uint64_t)region.slot_count * sizeof *region.words);
    check_part(&region, region.slots, (uint64_t)region.slot_count * sizeof *region.slots);
    check_part(&region, region.index, (uint64_t)region.index_count * sizeof *region.index);
    check_part(&region, region.dirty, (uint64_t)(region.slot_count + 63) / 64 * 8);
    check_part(&region, region.holders, (uint64_t)region.holder_count * sizeof *region.holders);
    check_part(&region, region.blocks, (uint64_t)region.block_count * sizeof *region.blocks);
    (void)hfi_index_token(&region, hfi_name_hash("a", 1));
    (void)hfi_index_token(&region, hfi_name_hash("b", 1));
    (void)hfi_index_token(&region, 1);
    (void)hfi_index_token(&region, UINT64_MAX);
}

static size_t take(size_t *left, size_t most)
{
    size_t taken = *left < most ? *left : most;

    *left -= taken;
    return taken;
}

static void region_entry(const uint8_t *bytes, size_t size)
{
    uint64_t whole = hfi_region_size(&sizes);
    uint8_t *memory = region_new(whole);
    const struct hfi_header *header = (const void *)memory;
    struct hfi_region_identity identity = {.cell = "dev"};
    uint64_t index_offset;
    uint64_t slots_offset;
    size_t left = size;
    size_t taken;

    hfi_region_format(memory, &sizes, &identity);
    index_offset = header->index_offset;
    slots_offset = header->slots_offset;
    taken = take(&left, HEADER_BYTES);
    memcpy(memory, bytes, taken);
    bytes += taken;
    taken = take(&left, INDEX_BYTES);
    memcpy(memory + index_offset, bytes, taken);
    bytes += taken;
    taken = take(&left, SLOT_BYTES);
    memcpy(memory + slots_offset, bytes, taken);
    check_attached(memory, whole);
    check_attached(memory, whole - HFI_HEADER_SIZE);
    check_attached(memory, HFI_HEADER_SIZE);
    check_attached(memory, HFI_HEADER_SIZE - 1);
    check_attached(memory, 0);
    free(memory);
}

const struct fuzz_target fuzz_target = {"region", region_entry, region_seed,
                                        HEADER_BYTES + INDEX_BYTES + SLOT_BYTES};
