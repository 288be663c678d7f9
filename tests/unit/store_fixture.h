/*
 * A store in a folder of its own, for the tests of the store. The variables are static: each test
 * program has its own.
 */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "../suite_main.h"
#include "io/store.h"

static char folder[64];
static char path[96]; /* the path of the store's file */
static char error[STORE_ERROR_MAX];
static struct store_identity identity;
static struct store_meta meta;

/* Makes the folder. Each program has its own teardown(), which checks what is left in the
 * folder. */
static void setup(void)
{
    snprintf(folder, sizeof(folder), "%s/store.XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/holdfast.db", folder);
    message_agent_set(&identity.cell, "prod", 4);
    message_agent_set(&identity.agent, "host-a", 6);
    error[0] = 0;
}

static struct store *open_store(void)
{
    struct store *store = store_open(path, &identity, &meta, error);
    ck_assert_msg(store != NULL, "%s", error);
    return store;
}

#endif
