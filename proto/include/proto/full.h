/*
 * The tables because of which an agent refuses a request with HF_EFULL. A DONE carries the table's
 * number to the library, which makes a sentence of it, and the agent logs the table's name
 * (docs/LOG.md, `table_full`).
 */
#ifndef PROTO_FULL_H
#define PROTO_FULL_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers are part of the socket's protocol and of the messages between agents: a new one takes
 * the next number. A reader takes a number that it does not know as "not known". */
enum hfi_table {
    HFI_TABLE_UNKNOWN,
    /* tables whose sizes [limits] sets: */
    HFI_TABLE_LOCKS,
    HFI_TABLE_CLIENTS,
    HFI_TABLE_HANDLES,
    HFI_TABLE_BLOCKS,
    HFI_TABLE_HOLDERS,
    HFI_TABLE_WATCHES,
    /* tables of this host's agent with a fixed size: */
    HFI_TABLE_NAMES,     /* the lock names that this agent knows, as a host and as a voter */
    HFI_TABLE_INDEX,     /* the region's index of names */
    HFI_TABLE_OPENS,     /* opens that wait for grants */
    HFI_TABLE_QUESTIONS, /* breaks, listings or changes of voters under way */
    HFI_TABLE_REQUESTS,  /* requests that one namespace may have at the voters at a time */
    /* tables of a voter, whose profile sets the sizes: */
    HFI_TABLE_VOTER_VALUES,
    HFI_TABLE_VOTER_AGENTS,
    HFI_TABLE_VOTER_REQUESTS,
    HFI_TABLE_VOTER_SHARES,
    HFI_TABLE_VOTER_QUOTA,  /* requests that one host may have at a voter at a time */
    HFI_TABLE_VOTER_TOKENS, /* the tokens of one lock */
    /* resources that the system gives the agent: */
    HFI_TABLE_DESCRIPTORS,
    HFI_TABLE_MEMORY,
    HFI_TABLE_ENDED,     /* processes of one user that have ended, and are not cleared away yet */
    HFI_TABLE_GREETINGS, /* connections that have sent no HELLO, or ended with unread descriptors */
    HFI_TABLE_NOTES,     /* notes on holds; a note for which there is no room is dropped */
    HFI_TABLE_END,
};

/* Returns a word for the log, such as "locks"; "unknown" for a number that is not known. */
const char *hfi_table_name(uint32_t table);

#endif
