/*
 * Makes a sequencer from a hold, and has the two checks of a sequencer. hf_check_sequencer() asks
 * the agent. hf_check_sequencer_local() compares the token with the highest token of the lock that
 * this host has seen.
 *
 * The local check needs the region of the lock's namespace. The agent's configuration decides which
 * namespace a name belongs to. So the client asks the agent once for each text before a name's
 * first '/', and keeps the answers until it connects anew.
 */
#include "client.h"

#include <stdlib.h>
#include <string.h>

void namespaces_forget(hf_client *client)
{
    while (client->namespaces != NULL) {
        struct namespace_entry *entry = client->namespaces;
        client->namespaces = entry->next;
        free(entry);
    }
}

HFI_PUBLIC int hf_sequencer(hf_lock *lock, char *buf, size_t size)
{
    struct hold_view view;
    enum hold_worth worth;
    if (lock == NULL || buf == NULL) {
        return failure_null(lock != NULL ? lock->client : NULL, lock == NULL ? "lock" : "buf");
    }
    if (!alive_here(lock->alive)) {
        return failure_forked(lock->client);
    }
    if (!hold_look(lock, boottime_ns(), &view, &worth)) {
        return failure_unheld(lock);
    }
    if (worth != HOLD_COUNTS) {
        return failure_lost(lock);
    }
    struct hfi_sequencer sequencer = {
        .shared = view.mode == HF_SHARED,
        .token = view.held.token,
        .epoch = view.held.epoch,
        .holder = view.binding->holder,
        .cell_word = view.held.cell,
        .seat = view.mode == HF_SHARED ? view.binding->seat : 0,
        .name_size = lock->name_size,
    };
    memcpy(sequencer.cell, lock->client->cell, sizeof(sequencer.cell));
    memcpy(sequencer.agent, lock->client->agent, sizeof(sequencer.agent));
    memcpy(sequencer.name, lock->name, lock->name_size);
    size_t written = hfi_sequencer_format(&sequencer, buf, size);
    if (written == 0 || written >= size) {
        return failure(lock->client, HF_EINVAL,
                       "the buffer for the sequencer of \"%s\" has %zu bytes, which is too short; "
                       "HF_SEQUENCER_MAX (%d) bytes are enough",
                       lock->name, size, HF_SEQUENCER_MAX);
    }
    buf[written] = '\0';
    return 0;
}

/* Parses a sequencer, and checks that it is of this client's cell. Returns 0, HF_EINVAL or
 * HF_EFORKED. */
static int sequencer_read(hf_client *client, const char *text, struct hfi_sequencer *out)
{
    if (client == NULL || text == NULL) {
        return failure_null(client, client == NULL ? "client" : "sequencer");
    }
    if (!alive_here(client->alive)) {
        return failure_forked(client);
    }
    size_t size = strnlen(text, HF_SEQUENCER_MAX);
    if (size >= HF_SEQUENCER_MAX || hfi_sequencer_parse(text, size, out) != 0) {
        return failure(client, HF_EINVAL, "\"%.200s\" is no sequencer", text);
    }
    if (strcmp(out->cell, client->cell) != 0) {
        return failure(client, HF_EINVAL,
                       "the sequencer of \"%s\" is of cell %s, expected one of the agent's cell %s",
                       out->name, out->cell, client->cell);
    }
    return 0;
}

HFI_PUBLIC int hf_check_sequencer(hf_client *client, const char *text)
{
    struct hfi_sequencer sequencer;
    int error = sequencer_read(client, text, &sequencer);
    if (error != 0) {
        return error;
    }
    struct hfi_frame frame = {.kind = HFI_FRAME_CHECK, .text = text_of(text, strlen(text))};
    struct answer answer;
    pthread_mutex_lock(&client->socket_mutex);
    error = client_request(client, &frame, HFI_FRAME_DONE, &answer);
    pthread_mutex_unlock(&client->socket_mutex);
    switch (error) {
    case 0:
        return 0;
    case HF_ESTALE:
    case HF_EUNKNOWN:
        return failure(client, error, "%s: \"%s\" with token %llu", hf_strerror(error),
                       sequencer.name, (unsigned long long)sequencer.token);
    default:
        return failure_ask(client, error, "check a sequencer of the lock", sequencer.name);
    }
}

static size_t prefix_size(const struct hfi_sequencer *sequencer)
{
    const char *slash = memchr(sequencer->name, '/', sequencer->name_size);
    return slash == NULL ? 0 : (size_t)(slash - sequencer->name);
}

/* Returns the region for the prefix of the sequencer's name, or NULL if this client does not know
 * it. */
static struct region_map *namespace_known(hf_client *client, const struct hfi_sequencer *sequencer)
{
    size_t size = prefix_size(sequencer);
    struct region_map *map = NULL;
    pthread_mutex_lock(&client->list_mutex);
    for (struct namespace_entry *entry = client->namespaces; entry != NULL; entry = entry->next) {
        if (entry->size == size && memcmp(entry->prefix, sequencer->name, size) == 0) {
            map = entry->map;
            break;
        }
    }
    pthread_mutex_unlock(&client->list_mutex);
    if (map != NULL && atomic_load(&map->region.header->abandoned) != 0) {
        return NULL; /* the agent has abandoned this region, and uses another one */
    }
    return map;
}

static int namespace_remember(hf_client *client, const struct hfi_sequencer *sequencer,
                              struct region_map *map)
{
    struct namespace_entry *entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        return trouble_no_memory(client);
    }
    entry->map = map;
    entry->size = (uint32_t)prefix_size(sequencer);
    memcpy(entry->prefix, sequencer->name, entry->size);
    pthread_mutex_lock(&client->list_mutex);
    /* the entry becomes the first, so that a search finds it before an older one of the prefix */
    entry->next = client->namespaces;
    client->namespaces = entry;
    pthread_mutex_unlock(&client->list_mutex);
    return 0;
}

static int namespace_ask(hf_client *client, const struct hfi_sequencer *sequencer,
                         struct region_map **out)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_MAP,
                              .text = text_of(sequencer->name, sequencer->name_size)};
    struct answer answer;
    pthread_mutex_lock(&client->socket_mutex);
    int error = client_request(client, &frame, HFI_FRAME_DONE, &answer);
    if (error == 0 && answer.map == NULL) {
        error = HF_EPROTO;
    }
    if (error == 0) {
        *out = answer.map;
        error = namespace_remember(client, sequencer, answer.map);
    }
    pthread_mutex_unlock(&client->socket_mutex);
    return error;
}

HFI_PUBLIC int hf_check_sequencer_local(hf_client *client, const char *text)
{
    struct hfi_sequencer sequencer;
    int error = sequencer_read(client, text, &sequencer);
    if (error != 0) {
        return error;
    }
    struct region_map *map = namespace_known(client, &sequencer);
    if (map == NULL) {
        error = namespace_ask(client, &sequencer, &map);
        if (error != 0) {
            return failure_ask(client, error, "check a sequencer of the lock", sequencer.name);
        }
    }
    uint64_t hash = hfi_name_hash(sequencer.name, sequencer.name_size);
    uint64_t highest = hfi_index_token(&map->region, hash);
    if (highest <= sequencer.token) {
        return 0;
    }
    return failure(client, HF_ESTALE,
                   "the sequencer of \"%s\" has token %llu, and this host has seen token %llu",
                   sequencer.name, (unsigned long long)sequencer.token,
                   (unsigned long long)highest);
}
