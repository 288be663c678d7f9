/*
 * Lays out a new region, checks the header of a mapped region, and has the index from name hashes
 * to slots.
 *
 * The index is a hash table with open addressing and linear probing. An entry is a slot's number +
 * 1; the slot has the hash itself. Only the agent writes the index. Readers need no lock: a wrong
 * answer is possible only if the slot gets another name meanwhile, so a reader reads the hash again
 * after the token.
 */
#include "proto/region.h"

#include <string.h>

enum { SLOT_COUNT_MAX = 1 << 22, BLOCK_COUNT_MAX = 1 << 20, INDEX_PROBES_MAX = 512 };

#define INDEX_GONE UINT32_MAX /* a removed entry, after which probing goes on */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Computes the counts and offsets of a header for these sizes. Returns false if a size is out of
 * its range. */
static bool plan(const struct hfi_region_sizes *sizes, struct hfi_header *header)
{
    if (sizes->slot_count < 1 || sizes->slot_count > SLOT_COUNT_MAX || sizes->holder_count < 2 ||
        sizes->holder_count > HFI_HOLDER_AGENT || sizes->block_count < 1 ||
        sizes->block_count > BLOCK_COUNT_MAX) {
        return false;
    }
    uint32_t index_count = 64;
    while (index_count < sizes->slot_count + sizes->slot_count / 2) {
        /* the loop ends after at most 17 rounds, because slot_count is at most 2^22 */
        index_count *= 2;
    }
    header->slot_count = sizes->slot_count;
    header->index_count = index_count;
    header->holder_count = sizes->holder_count;
    header->block_count = sizes->block_count;
    uint64_t at = HFI_HEADER_SIZE;
    header->words_offset = at;
    at = round_up(at + (uint64_t)sizes->slot_count * sizeof(struct hfi_word), HFI_HEADER_SIZE);
    header->slots_offset = at;
    at = round_up(at + (uint64_t)sizes->slot_count * sizeof(struct hfi_slot), HFI_HEADER_SIZE);
    header->index_offset = at;
    at = round_up(at + (uint64_t)index_count * sizeof(uint32_t), HFI_HEADER_SIZE);
    header->dirty_offset = at;
    at = round_up(at + (uint64_t)(sizes->slot_count + 63) / 64 * sizeof(uint64_t), HFI_HEADER_SIZE);
    header->holders_offset = at;
    at = round_up(at + (uint64_t)sizes->holder_count * sizeof(struct hfi_holder), HFI_HEADER_SIZE);
    header->blocks_offset = at;
    at = round_up(at + (uint64_t)sizes->block_count * sizeof(struct hfi_block), HFI_HEADER_SIZE);
    header->size = at;
    return true;
}

uint64_t hfi_region_size(const struct hfi_region_sizes *sizes)
{
    struct hfi_header header = {0};
    return plan(sizes, &header) ? header.size : 0;
}

void hfi_region_format(void *memory, const struct hfi_region_sizes *sizes,
                       const struct hfi_region_identity *identity)
{
    struct hfi_header *header = memory;
    if (!plan(sizes, header)) {
        return;
    }
    header->header_size = HFI_HEADER_SIZE;
    header->grace_ns = identity->grace_ns;
    header->incarnation = identity->incarnation;
    memcpy(header->store_id, identity->store_id, sizeof(header->store_id));
    memcpy(header->boot_id, identity->boot_id, sizeof(header->boot_id));
    memcpy(header->cell, identity->cell, sizeof(header->cell));
    memcpy(header->agent, identity->agent, sizeof(header->agent));
    memcpy(header->namespace_name, identity->namespace_name, sizeof(header->namespace_name));
    header->version = HFI_REGION_VERSION;
    /* written last, so that an incomplete region has no magic number */
    header->magic = HFI_REGION_MAGIC;
}

const char *hfi_region_attach(void *memory, uint64_t size, struct hfi_region *out)
{
    if (size < HFI_HEADER_SIZE) {
        return "region: smaller than its header, expected at least 4096 bytes";
    }
    struct hfi_header seen;
    /* a private copy, which no other process can change after the check */
    memcpy(&seen, memory, offsetof(struct hfi_header, lease));
    if (seen.magic != HFI_REGION_MAGIC) {
        return "region: the magic number is wrong, expected a Holdfast region";
    }
    if (seen.version != HFI_REGION_VERSION) {
        return "region: another layout version, expected 1";
    }
    struct hfi_region_sizes sizes = {.slot_count = seen.slot_count,
                                     .holder_count = seen.holder_count,
                                     .block_count = seen.block_count};
    struct hfi_header want = {0};
    if (!plan(&sizes, &want)) {
        return "region: a count is out of range";
    }
    if (seen.header_size != HFI_HEADER_SIZE || want.size != size || seen.size != size ||
        want.index_count != seen.index_count || want.words_offset != seen.words_offset ||
        want.slots_offset != seen.slots_offset || want.index_offset != seen.index_offset ||
        want.dirty_offset != seen.dirty_offset || want.holders_offset != seen.holders_offset ||
        want.blocks_offset != seen.blocks_offset) {
        return "region: its parts do not lie where its counts say";
    }
    unsigned char *base = memory;
    *out = (struct hfi_region){
        .header = memory,
        .words = (struct hfi_word *)(base + want.words_offset),
        .slots = (struct hfi_slot *)(base + want.slots_offset),
        .index = (_Atomic uint32_t *)(base + want.index_offset),
        .dirty = (_Atomic uint64_t *)(base + want.dirty_offset),
        .holders = (struct hfi_holder *)(base + want.holders_offset),
        .blocks = (struct hfi_block *)(base + want.blocks_offset),
        .slot_count = want.slot_count,
        .index_count = want.index_count,
        .holder_count = want.holder_count,
        .block_count = want.block_count,
        .size = size,
    };
    return NULL;
}

uint64_t hfi_name_hash(const char *name, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (unsigned char)name[i]) * UINT64_C(0x100000001b3);
    }
    /* the low bits choose the entry of the index; they are the weakest bits of FNV, so the high
     * bits are mixed into them */
    hash ^= hash >> 32;
    return hash ? hash : 1;
}

bool hfi_index_put(const struct hfi_region *region, uint32_t slot, uint64_t hash)
{
    atomic_store_explicit(&region->slots[slot].name_hash, hash, memory_order_release);
    uint32_t at = (uint32_t)hash & (region->index_count - 1);
    for (unsigned probe = 0; probe < INDEX_PROBES_MAX; probe++) {
        uint32_t entry = atomic_load_explicit(&region->index[at], memory_order_relaxed);
        if (entry == 0 || entry == INDEX_GONE || entry == slot + 1) {
            /* release: pairs with the acquire in hfi_index_token(); the slot's hash was stored
             * before the entry */
            atomic_store_explicit(&region->index[at], slot + 1, memory_order_release);
            return true;
        }
        at = (at + 1) & (region->index_count - 1);
    }
    return false;
}

void hfi_index_remove(const struct hfi_region *region, uint32_t slot, uint64_t hash)
{
    atomic_store_explicit(&region->slots[slot].name_hash, 0, memory_order_release);
    uint32_t at = (uint32_t)hash & (region->index_count - 1);
    for (unsigned probe = 0; probe < INDEX_PROBES_MAX; probe++) {
        uint32_t entry = atomic_load_explicit(&region->index[at], memory_order_relaxed);
        if (entry == 0) {
            return;
        }
        if (entry == slot + 1) {
            atomic_store_explicit(&region->index[at], INDEX_GONE, memory_order_release);
            return;
        }
        at = (at + 1) & (region->index_count - 1);
    }
}

bool hfi_index_mend(const struct hfi_region *region, uint32_t slot, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (region->index_count - 1);
    bool named = atomic_load_explicit(&region->slots[slot].name_hash, memory_order_relaxed) == hash;
    for (unsigned probe = 0; named && probe < INDEX_PROBES_MAX; probe++) {
        uint32_t entry = atomic_load_explicit(&region->index[at], memory_order_relaxed);
        if (entry == slot + 1) {
            return false;
        }
        named = entry != 0;
        at = (at + 1) & (region->index_count - 1);
    }
    return hfi_index_put(region, slot, hash);
}

bool hfi_index_entry(const struct hfi_region *region, uint32_t entry, uint32_t *slot)
{
    /* relaxed: only this agent writes the index, apart from a process that damages the region */
    uint32_t found = atomic_load_explicit(&region->index[entry], memory_order_relaxed);
    *slot = found - 1;
    return found != 0 && found != INDEX_GONE;
}

void hfi_index_drop(const struct hfi_region *region, uint32_t entry)
{
    atomic_store_explicit(&region->index[entry], INDEX_GONE, memory_order_release);
}

uint64_t hfi_index_token(const struct hfi_region *region, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (region->index_count - 1);
    for (unsigned probe = 0; probe < INDEX_PROBES_MAX; probe++) {
        /* acquire: pairs with the release in hfi_index_put() */
        uint32_t entry = atomic_load_explicit(&region->index[at], memory_order_acquire);
        if (entry == 0) {
            return 0;
        }
        if (entry <= region->slot_count) {
            const struct hfi_slot *slot = &region->slots[entry - 1];
            if (atomic_load_explicit(&slot->name_hash, memory_order_acquire) == hash) {
                uint64_t word = atomic_load_explicit(&region->words[entry - 1].word,
                                                     memory_order_acquire);
                uint64_t top = atomic_load_explicit(&slot->token_top, memory_order_acquire);
                /* This load comes after the acquire loads above. If the hash is still the same,
                 * the slot belonged to that lock during all these loads. */
                if (atomic_load_explicit(&slot->name_hash, memory_order_acquire) == hash) {
                    return hfi_token(top, word);
                }
            }
        }
        at = (at + 1) & (region->index_count - 1);
    }
    return 0;
}

int64_t hfi_lease_doubt(struct hfi_trust *trust, uint64_t lease)
{
    int64_t left_ns = hfi_lease_deadline_ns(lease) - trust->now_ns(trust->arg);
    /* relaxed, all: hfi_lease_counts() explains why that is enough */
    if (left_ns <= 0) {
        return left_ns;
    }
    if (left_ns > atomic_load_explicit(&trust->ahead_max_ns, memory_order_relaxed)) {
        atomic_store_explicit(&trust->disbelieved, lease, memory_order_relaxed);
    }
    return lease == atomic_load_explicit(&trust->disbelieved, memory_order_relaxed) ? 0 : left_ns;
}
