/* The table of requests: for requests.c and its test. */
#ifndef HOST_REQUESTS_PRIVATE_H
#define HOST_REQUESTS_PRIVATE_H

#include "core/base/heap.h"
#include "requests.h"

struct request {
    uint64_t id; /* the low 16 bits are its index; 0: the entry is free */
    struct request_terms terms;
    int64_t since_ns;
    struct lock_ref at; /* slot NONE: the request is an orphan, and has a reference to its name */
    uint32_t name;
    uint32_t next; /* index + 1 of the next free request, or of the next orphan */
    uint32_t tries;
    uint8_t kind; /* enum message_kind */
    uint8_t partition;
    uint8_t sent_to;   /* the voter to which the last copy was sent */
    uint8_t redirects; /* the number of redirections since the last pause */
    bool asks;         /* the request is counted in `asks` of struct requests */
    bool continued;    /* the previous agent began it (request_keep()) */
};

struct requests {
    struct request *table;
    struct heap heap; /* requests under way, by the time at which they are sent again */
    uint32_t capacity;
    uint32_t used;                      /* requests from this index on were never used */
    uint32_t free;                      /* index + 1 of the first free request */
    uint32_t orphans;                   /* index + 1 of the first orphan */
    bool starved;                       /* a request found no room */
    uint32_t asks[HOST_NAMESPACES_MAX]; /* by namespace: the number of grants that it asks for
                                         * now */
};

#endif
