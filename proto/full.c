/* The words for tables that can be full: see full.h. */
#include "proto/full.h"

static const char *const names[HFI_TABLE_END] = {
    [HFI_TABLE_UNKNOWN] = "unknown",
    [HFI_TABLE_LOCKS] = "locks",
    [HFI_TABLE_CLIENTS] = "clients",
    [HFI_TABLE_HANDLES] = "handles",
    [HFI_TABLE_BLOCKS] = "blocks",
    [HFI_TABLE_HOLDERS] = "holders",
    [HFI_TABLE_WATCHES] = "watches",
    [HFI_TABLE_NAMES] = "names",
    [HFI_TABLE_INDEX] = "index",
    [HFI_TABLE_OPENS] = "opens",
    [HFI_TABLE_QUESTIONS] = "questions",
    [HFI_TABLE_REQUESTS] = "requests",
    [HFI_TABLE_VOTER_VALUES] = "voter_values",
    [HFI_TABLE_VOTER_AGENTS] = "voter_agents",
    [HFI_TABLE_VOTER_REQUESTS] = "voter_requests",
    [HFI_TABLE_VOTER_SHARES] = "voter_shares",
    [HFI_TABLE_VOTER_QUOTA] = "voter_quota",
    [HFI_TABLE_VOTER_TOKENS] = "voter_tokens",
    [HFI_TABLE_DESCRIPTORS] = "descriptors",
    [HFI_TABLE_MEMORY] = "memory",
    [HFI_TABLE_ENDED] = "ended",
    [HFI_TABLE_GREETINGS] = "greetings",
    [HFI_TABLE_NOTES] = "notes",
};

const char *hfi_table_name(uint32_t table)
{
    return names[table < HFI_TABLE_END ? table : HFI_TABLE_UNKNOWN];
}
