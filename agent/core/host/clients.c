/*
 * Clients: who is connected, whose process lives, which holder ids they have.
 *
 * A client ends in steps. When its socket is closed its holds and waits are taken away (it is
 * "buried"), but its process may still have the region mapped, so its ids stay its own until the
 * process is dead. Then each handle goes as soon as no holder record names its id any more
 * (lockword.h, rule 5), and with the last of them the ids and the record. If it connects again its
 * handles stay until it has said that it has opened all that it has (RESUMED): other threads of it
 * wait and take locks by them meanwhile.
 *
 * A survivor is a client of the agent before this one. What it has open is known only when it has
 * connected and opened all of it again (RESUMED); then, or if it dies before, every slot is looked
 * at for what is left under its ids.
 */
#include "hub.h"
#include "state.h"

uint32_t client_of_id(const struct host *host, uint32_t id)
{
    if (id == 0 || id >= HUB_HOLDER_IDS || host->ids[id].client == 0 ||
        host->ids[id].client == ID_LEAVING) {
        return NONE;
    }
    return host->ids[id].client - 1u;
}

bool client_has_id(const struct host *host, uint32_t client, uint32_t id)
{
    return client_of_id(host, id) == client;
}

bool client_lives(const struct host *host, uint32_t client)
{
    const struct client *who = &host->clients[client];
    return (who->flags & CLIENT_USED) && !(who->flags & CLIENT_DEAD) &&
           (who->flags & (CLIENT_CONNECTED | CLIENT_SURVIVOR));
}

bool client_may_use_closed(const struct host *host, uint32_t client)
{
    uint32_t flags = host->clients[client].flags;
    return !(flags & CLIENT_DEAD) && (!(flags & CLIENT_CONNECTED) || (flags & CLIENT_OPENING));
}

/* The highest id that every region has a record for. */
static uint32_t id_limit(const struct host *host)
{
    uint32_t limit = HUB_HOLDER_IDS;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (host->spaces[i].used && host->spaces[i].region.holder_count < limit) {
            limit = host->spaces[i].region.holder_count;
        }
    }
    return limit;
}

static void id_give(struct host *host, uint32_t client, uint32_t id)
{
    struct client *who = &host->clients[client];
    host->ids[id].client = (uint16_t)(client + 1);
    who->id_count++;
    host->id_count++;
    if (who->id == 0) {
        who->id = (uint16_t)id;
        host->ids[id].next = 0;
    } else { /* behind the first */
        host->ids[id].next = host->ids[who->id].next;
        host->ids[who->id].next = (uint16_t)id;
    }
    host->ids_high = id > host->ids_high ? id : host->ids_high;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (host->spaces[i].used && !(who->flags & CLIENT_SURVIVOR) &&
            id < host->spaces[i].region.holder_count) {
            /* what its owner before left unfinished when it died; that was healed */
            struct hfi_holder *record = &host->spaces[i].region.holders[id];
            for (unsigned entry = 0; entry < HFI_HANDINGS; entry++) {
                atomic_store(&record->handing_to[entry], 0);
            }
        }
    }
}

/* The lowest free id, so that few pages of the records are ever touched. 0: none. */
static uint32_t id_find_free(const struct host *host)
{
    uint32_t limit = id_limit(host);
    for (uint32_t id = 1; id < limit; id++) {
        if (host->ids[id].client == 0) {
            return id;
        }
    }
    return 0;
}

/* What all users share, and how much of it one of them has. Dead and hung-up clients count. */
struct share {
    uint32_t clients;
    uint32_t ids;
    uint32_t handles;
};

static struct share share_of(const struct host *host, int64_t account)
{
    struct share share = {0};
    for (uint32_t i = 0; i < host->client_capacity; i++) {
        const struct client *who = &host->clients[i];
        if ((who->flags & CLIENT_USED) && who->peer.account == account) {
            share.clients++;
            share.ids += who->id_count;
            share.handles += who->handle_count;
        }
    }
    return share;
}

/* What all but root may have of it, so that nobody can keep all others out. */
static uint32_t half(uint32_t room)
{
    return (room + 1) / 2;
}

/* Whose share is left as long as half of everything is: only then are all clients counted. */
static bool id_is_left(const struct host *host, int64_t account)
{
    uint32_t room = id_limit(host) - 1;
    return account == 0 || host->id_count < half(room) || share_of(host, account).ids < half(room);
}

bool client_may_open(const struct host *host, uint32_t client)
{
    int64_t account = host->clients[client].peer.account;
    uint32_t room = host->config.limits.handles;
    return account == 0 || host->handle_count < half(room) ||
           share_of(host, account).handles < half(room);
}

uint32_t client_add_id(struct host *host, uint32_t client, struct host_actions *actions)
{
    uint32_t id = id_is_left(host, host->clients[client].peer.account) ? id_find_free(host) : 0;
    if (id != 0) {
        id_give(host, client, id);
        struct host_action *action = hub_emit(actions, HOST_ALIAS);
        action->client = host->clients[client].id;
        action->connection = host->clients[client].connection;
        action->as.identity.holder = id;
        action->as.identity.nonce = host->clients[client].nonce;
    }
    return id;
}

static uint32_t client_new(struct host *host)
{
    for (uint32_t i = 0; i < host->client_capacity; i++) {
        if (!(host->clients[i].flags & CLIENT_USED)) {
            host->clients[i] = (struct client){
                .flags = CLIENT_USED, .handles = NONE, .bury_next = NONE};
            return i;
        }
    }
    return NONE;
}

bool host_load_survivor(struct host *host, uint32_t client, uint32_t holder, uint64_t nonce,
                        const struct host_peer *peer)
{
    if (holder == 0 || holder >= HUB_HOLDER_IDS || host->ids[holder].client != 0) {
        return false;
    }
    uint32_t index = client_of_id(host, client);
    if (index == NONE) {
        index = client == holder ? client_new(host) : NONE;
        if (index == NONE) {
            return false;
        }
        host->clients[index].flags |= CLIENT_SURVIVOR;
        host->survivor_count++;
        host->clients[index].nonce = nonce;
        host->clients[index].peer = *peer;
    }
    id_give(host, index, holder);
    return true;
}

const struct host_peer *host_peer_of(const struct host *host, uint32_t client)
{
    uint32_t index = client_of_id(host, client);
    return index != NONE ? &host->clients[index].peer : NULL;
}

/* Says no before there is a client. */
static void refuse(const struct host_event *event, int32_t error, struct host_actions *actions)
{
    struct hfi_frame frame = {
        .kind = HFI_FRAME_DONE, .request = event->as.connected.request, .error = error};
    size_t size = hfi_frame_encode(&frame, actions->output + actions->output_used,
                                   actions->output_size - actions->output_used);
    struct host_action *action = hub_emit(actions, HOST_REPLY);
    action->connection = event->as.connected.connection;
    action->as.reply.offset = (uint32_t)actions->output_used;
    action->as.reply.size = (uint32_t)size;
    actions->output_used += size;
    action = hub_emit(actions, HOST_HANG_UP);
    action->connection = event->as.connected.connection;
    action->as.text = "the table of clients is full";
}

static void welcome(struct host *host, uint32_t client, const struct host_event *event,
                    bool resumed, struct host_actions *actions)
{
    static const char digits[] = "0123456789abcdef";
    struct client *who = &host->clients[client];
    struct host_action *action = hub_emit(actions, HOST_WELCOMED);
    action->client = who->id;
    action->connection = who->connection;
    action->as.identity.holder = who->id;
    action->as.identity.nonce = who->nonce;
    action->as.identity.resumed = resumed;
    char store[32];
    for (unsigned i = 0; i < 32; i++) {
        store[i] = digits[host->config.store_id[i / 16] >> (60 - 4 * (i % 16)) & 15];
    }
    const struct message_agent *cell = &host->config.cell;
    const struct message_agent *agent = &host->config.agent;
    struct hfi_frame frame = {.kind = HFI_FRAME_WELCOME, .request = event->as.connected.request};
    frame.welcome = (struct hfi_welcome){
        .version = HFI_PROTOCOL_VERSION,
        .client = who->id,
        .nonce = who->nonce,
        .resumed = resumed,
        .boottime_ns = (uint64_t)host->now_ns,
        .session_ttl_ns = host->config.session_ttl_ns,
        .grace_ns = host->config.grace_ns,
        .cell = {cell->text, cell->length},
        .agent = {agent->text, agent->length},
        .store = {store, sizeof(store)},
    };
    client_reply(host, client, &frame, actions);
}

void client_connected(struct host *host, const struct host_event *event,
                      struct host_actions *actions)
{
    uint32_t client = NONE;
    bool resumed = false;
    if (event->as.connected.resumed) {
        client = client_of_id(host, event->as.connected.hello->client);
        resumed = client != NONE && !(host->clients[client].flags & CLIENT_DEAD) &&
                  !(host->clients[client].flags & CLIENT_CONNECTED) &&
                  host->clients[client].id == event->as.connected.hello->client &&
                  host->clients[client].nonce == event->as.connected.hello->nonce;
    }
    if (!resumed) {
        uint32_t id = id_find_free(host);
        int64_t account = event->as.connected.peer->account;
        uint32_t most = host->config.limits.clients;
        bool room = host->connected_count < most && id != 0 && id_is_left(host, account) &&
                    (account == 0 || share_of(host, account).clients < half(most));
        client = room ? client_new(host) : NONE;
        if (client == NONE) {
            refuse(event, HF_EFULL, actions);
            return;
        }
        id_give(host, client, id);
        /* not 0, which is "none" on the wire */
        host->clients[client].nonce = event->random ? event->random : 1;
    }
    struct client *who = &host->clients[client];
    who->flags = (who->flags | CLIENT_CONNECTED) & ~(uint32_t)(CLIENT_EVENTS | CLIENT_LAGGED);
    who->flags |= resumed ? CLIENT_OPENING : 0;
    who->connection = event->as.connected.connection;
    who->peer = *event->as.connected.peer;
    who->regions_sent = 0;
    host->connected_count++;
    welcome(host, client, event, resumed, actions);
}

void client_forgotten(struct host *host, uint32_t id)
{
    for (uint32_t i = 0; id != 0 && id < HUB_HOLDER_IDS && i < HUB_HOLDER_IDS; i++) {
        if (host->ids[id].client != ID_LEAVING) {
            return;
        }
        uint32_t next = host->ids[id].next;
        host->ids[id] = (struct holder_id){0};
        id = next;
    }
}

void client_reply(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions)
{
    const struct client *who = &host->clients[client];
    if (!(who->flags & CLIENT_CONNECTED)) {
        return;
    }
    size_t size = hfi_frame_encode(frame, actions->output + actions->output_used,
                                   actions->output_size - actions->output_used);
    HF_CHECK(size > 0);
    struct host_action *action = hub_emit(actions, HOST_REPLY);
    action->client = who->id;
    action->connection = who->connection;
    action->as.reply.offset = (uint32_t)actions->output_used;
    action->as.reply.size = (uint32_t)size;
    actions->output_used += size;
}

void client_reply_done(struct host *host, uint32_t client, uint64_t request, int32_t error,
                       struct host_actions *actions)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_DONE, .request = request, .error = error};
    client_reply(host, client, &frame, actions);
}

void client_busy_set(struct host *host, struct client *client, uint32_t flag)
{
    const uint32_t busy = CLIENT_BURYING | CLIENT_SCANNING | CLIENT_POKE;
    host->clients_busy += !(client->flags & busy);
    client->flags |= flag;
}

void client_busy_clear(struct host *host, struct client *client, uint32_t flag)
{
    const uint32_t busy = CLIENT_BURYING | CLIENT_SCANNING | CLIENT_POKE;
    bool was = client->flags & busy;
    client->flags &= ~flag;
    host->clients_busy -= was && !(client->flags & busy);
}

int32_t client_rights_error(const struct host *host, uint32_t client, uint32_t space,
                            uint32_t right)
{
    return host->clients[client].peer.rights[space] & right ? 0 : HF_EACCES;
}

void client_poke(struct host *host, uint32_t client)
{
    struct client *who = &host->clients[client];
    if ((who->flags & CLIENT_CONNECTED) && (who->flags & CLIENT_EVENTS)) {
        client_busy_set(host, who, CLIENT_POKE);
    }
}

void clients_poke_all(struct host *host)
{
    for (uint32_t i = 0; i < host->client_capacity; i++) {
        if (host->clients[i].flags & CLIENT_USED) {
            client_poke(host, i);
        }
    }
}

uint64_t client_regions(const struct host *host, uint32_t client)
{
    return host->clients[client].regions_sent;
}

uint64_t host_regions_of(const struct host *host, uint32_t client)
{
    uint32_t index = client_of_id(host, client);
    return index != NONE ? client_regions(host, index) : 0;
}
