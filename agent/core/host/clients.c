/* Clients and their holder ids: see clients.h. */
#include "clients.h"

#include "full.h"
#include "spaces.h"

struct client {
    uint32_t flags;
    uint32_t connection;
    uint64_t nonce;
    uint64_t regions_sent;   /* bit by namespace */
    uint64_t region_request; /* the number of the request that the next REGION answers */
    uint32_t id_count;
    uint16_t id; /* the client's first holder id */
    struct host_peer peer;
};

/* The client that has a holder id, as index + 1, and the id that follows in that client's list.
 * ID_LEAVING: no client has the id any more, but the driver still has a socket, a pidfd or a record
 * under the id. */
enum { ID_LEAVING = UINT16_MAX };
struct holder_id {
    uint16_t client;
    uint16_t next;
};

struct clients {
    struct client *table;
    struct holder_id *ids;
    uint32_t capacity;
    uint32_t connected;
    uint32_t survivors; /* the number of clients with CLIENT_SURVIVOR set */
    uint32_t busy;      /* the number of clients with BURYING, SCANNING or POKE set */
    uint32_t id_count;
    uint32_t ids_high; /* highest id ever given */
};

struct clients *clients_lay_out(struct arena *arena, const struct host_config *config)
{
    struct clients *clients = arena_take(arena, 1, sizeof(*clients));
    ARENA_TAKE(arena, clients, table, clients_capacity(config));
    ARENA_TAKE(arena, clients, ids, hub_id_end(config));
    if (clients != NULL) {
        clients->capacity = clients_capacity(config);
    }
    return clients;
}

uint32_t client_of_id(const struct host *host, uint32_t id)
{
    if (id == 0 || id >= hub_id_end(&host->config) || host->clients->ids[id].client == 0 ||
        host->clients->ids[id].client == ID_LEAVING) {
        return NONE;
    }
    return host->clients->ids[id].client - 1u;
}

bool client_has_id(const struct host *host, uint32_t client, uint32_t id)
{
    return client_of_id(host, id) == client;
}

bool client_lives(const struct host *host, uint32_t client)
{
    const struct client *who = &host->clients->table[client];
    return (who->flags & CLIENT_USED) && !(who->flags & CLIENT_DEAD) &&
           (who->flags & (CLIENT_CONNECTED | CLIENT_SURVIVOR));
}

bool client_may_use_closed(const struct host *host, uint32_t client)
{
    uint32_t flags = host->clients->table[client].flags;
    return !(flags & CLIENT_DEAD) && (!(flags & CLIENT_CONNECTED) || (flags & CLIENT_OPENING));
}

/* Returns a bound: every region has a record for each id below it. */
static uint32_t id_limit(const struct host *host)
{
    uint32_t limit = hub_id_end(&host->config);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (space_is_used(host, i) && space_region(host, i)->holder_count < limit) {
            limit = space_region(host, i)->holder_count;
        }
    }
    return limit;
}

static void id_give(struct host *host, uint32_t client, uint32_t id)
{
    struct client *who = &host->clients->table[client];
    host->clients->ids[id].client = (uint16_t)(client + 1);
    who->id_count++;
    host->clients->id_count++;
    if (who->id == 0) {
        who->id = (uint16_t)id;
        host->clients->ids[id].next = 0;
    } else { /* the new id follows the client's first id */
        host->clients->ids[id].next = host->clients->ids[who->id].next;
        host->clients->ids[who->id].next = (uint16_t)id;
    }
    host->clients->ids_high = id > host->clients->ids_high ? id : host->clients->ids_high;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (space_is_used(host, i) && !(who->flags & CLIENT_SURVIVOR) &&
            id < space_region(host, i)->holder_count) {
            /* The last owner of this id may have died in a hand-over. The hand-over was finished
             * before the id became free, so its notes are removed here. */
            struct hfi_holder *record = &space_region(host, i)->holders[id];
            for (unsigned entry = 0; entry < HFI_HANDINGS; entry++) {
                atomic_store(&record->handing_to[entry], 0);
            }
        }
    }
}

/* Returns the lowest free id, so that few pages of the records are ever touched; 0: none is
 * free. */
static uint32_t id_find_free(const struct host *host)
{
    uint32_t limit = id_limit(host);
    for (uint32_t id = 1; id < limit; id++) {
        if (host->clients->ids[id].client == 0) {
            return id;
        }
    }
    return 0;
}

/* The numbers of clients and of holder ids that one account has. Dead and hung-up clients count. */
struct account_usage {
    uint32_t clients;
    uint32_t ids;
};

static struct account_usage usage_of(const struct host *host, int64_t account)
{
    struct account_usage usage = {0};
    for (uint32_t i = 0; i < host->clients->capacity; i++) {
        const struct client *who = &host->clients->table[i];
        if ((who->flags & CLIENT_USED) && who->peer.account == account) {
            usage.clients++;
            usage.ids += who->id_count;
        }
    }
    return usage;
}

/* Returns how many of `room` clients, or ids, one user other than root may have. So no user can
 * keep all others out. */
static uint32_t half(uint32_t room)
{
    return (room + 1) / 2;
}

/* Returns whether the account may have one more id. As long as less than half of all ids are used,
 * no account can have used up its half, so the account's ids need not be counted. */
static bool id_is_left(const struct host *host, int64_t account)
{
    uint32_t room = id_limit(host) - 1;
    return account == 0 || host->clients->id_count < half(room) ||
           usage_of(host, account).ids < half(room);
}

/* Notes that no holder id is left, for the account or at all. */
static void ids_are_full(struct host *host, int64_t account)
{
    bool share = !id_is_left(host, account);
    uint32_t room = id_limit(host) - 1;
    (void)full(host, HFI_TABLE_HOLDERS, share ? half(room) : room);
    full_last(host)->share = share;
}

uint32_t client_add_id(struct host *host, uint32_t client, struct host_actions *actions)
{
    int64_t account = host->clients->table[client].peer.account;
    uint32_t id = id_is_left(host, account) ? id_find_free(host) : 0;
    if (id == 0) {
        ids_are_full(host, account);
    }
    if (id != 0) {
        id_give(host, client, id);
        struct host_action *action = hub_emit(actions, HOST_ALIAS);
        action->client = host->clients->table[client].id;
        action->connection = host->clients->table[client].connection;
        action->as.identity.holder = id;
        action->as.identity.nonce = host->clients->table[client].nonce;
    }
    return id;
}

static uint32_t client_new(struct host *host)
{
    for (uint32_t i = 0; i < host->clients->capacity; i++) {
        if (!(host->clients->table[i].flags & CLIENT_USED)) {
            host->clients->table[i] = (struct client){.flags = CLIENT_USED};
            return i;
        }
    }
    return NONE;
}

bool host_load_survivor(struct host *host, uint32_t client, uint32_t holder, uint64_t nonce,
                        const struct host_peer *peer)
{
    if (holder == 0 || holder >= hub_id_end(&host->config) ||
        host->clients->ids[holder].client != 0) {
        return false;
    }
    uint32_t index = client_of_id(host, client);
    if (index == NONE) {
        index = client == holder ? client_new(host) : NONE;
        if (index == NONE) {
            return false;
        }
        host->clients->table[index].flags |= CLIENT_SURVIVOR;
        host->clients->survivors++;
        host->clients->table[index].nonce = nonce;
        host->clients->table[index].peer = *peer;
    }
    id_give(host, index, holder);
    return true;
}

const struct host_peer *host_peer_of(const struct host *host, uint32_t client)
{
    uint32_t index = client_of_id(host, client);
    return index != NONE ? &host->clients->table[index].peer : NULL;
}

/* Refuses a connection for which no client or no holder id is left. */
static void refuse(struct host *host, const struct host_event *event, struct host_actions *actions)
{
    int64_t account = event->as.connected.peer->account;
    uint32_t most = host->config.limits.clients;
    bool share = account != 0 && usage_of(host, account).clients >= half(most);
    struct hfi_frame frame = {
        .kind = HFI_FRAME_DONE, .request = event->as.connected.request, .error = HF_EFULL};
    if (share || host->clients->connected >= most) {
        (void)full(host, HFI_TABLE_CLIENTS, share ? half(most) : most);
        full_last(host)->share = share;
    } else if (id_find_free(host) == 0 || !id_is_left(host, account)) {
        ids_are_full(host, account);
    } else { /* a client that has ended stays in the table until its holds have ended */
        (void)full(host, HFI_TABLE_ENDED, 0);
    }
    full_tell(host, account, &frame.full, actions);
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
    struct client *who = &host->clients->table[client];
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
        resumed = client != NONE && !(host->clients->table[client].flags & CLIENT_DEAD) &&
                  !(host->clients->table[client].flags & CLIENT_CONNECTED) &&
                  host->clients->table[client].id == event->as.connected.hello->client &&
                  host->clients->table[client].nonce == event->as.connected.hello->nonce;
    }
    if (!resumed) {
        uint32_t id = id_find_free(host);
        int64_t account = event->as.connected.peer->account;
        uint32_t most = host->config.limits.clients;
        bool room = host->clients->connected < most && id != 0 && id_is_left(host, account) &&
                    (account == 0 || usage_of(host, account).clients < half(most));
        client = room ? client_new(host) : NONE;
        if (client == NONE) {
            refuse(host, event, actions);
            return;
        }
        id_give(host, client, id);
        /* in frames, a nonce of 0 means that there is none */
        host->clients->table[client].nonce = event->random ? event->random : 1;
    }
    struct client *who = &host->clients->table[client];
    who->flags = (who->flags | CLIENT_CONNECTED) & ~(uint32_t)CLIENT_EVENTS;
    who->flags |= resumed ? CLIENT_OPENING : 0;
    who->connection = event->as.connected.connection;
    who->peer = *event->as.connected.peer;
    who->regions_sent = 0;
    host->clients->connected++;
    welcome(host, client, event, resumed, actions);
}

void client_forgotten(struct host *host, uint32_t id)
{
    uint32_t end = hub_id_end(&host->config);
    for (uint32_t i = 0; id != 0 && id < end && i < end; i++) {
        if (host->clients->ids[id].client != ID_LEAVING) {
            return;
        }
        uint32_t next = host->clients->ids[id].next;
        host->clients->ids[id] = (struct holder_id){0};
        id = next;
    }
}

void client_reply(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions)
{
    const struct client *who = &host->clients->table[client];
    if (!(who->flags & CLIENT_CONNECTED)) {
        return;
    }
    size_t size = hfi_frame_encode(frame, actions->output + actions->output_used,
                                   actions->output_size - actions->output_used);
    client_reply_written(host, client, size, actions);
}

void client_reply_written(struct host *host, uint32_t client, size_t size,
                          struct host_actions *actions)
{
    const struct client *who = &host->clients->table[client];
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
    if (error == HF_EFULL) {
        full_tell(host, host->clients->table[client].peer.account, &frame.full, actions);
    }
    client_reply(host, client, &frame, actions);
}

int32_t client_rights_error(const struct host *host, uint32_t client, uint32_t space,
                            uint32_t right)
{
    return host->clients->table[client].peer.rights[space] & right ? 0 : HF_EACCES;
}

/* ---- flags ---- */

static const uint32_t CLIENT_BUSY = CLIENT_BURYING | CLIENT_SCANNING | CLIENT_POKE;

uint32_t client_flags(const struct host *host, uint32_t client)
{
    return host->clients->table[client].flags;
}

void client_set(struct host *host, uint32_t client, uint32_t flags)
{
    struct client *who = &host->clients->table[client];
    host->clients->busy += !(who->flags & CLIENT_BUSY) && (flags & CLIENT_BUSY);
    who->flags |= flags;
}

void client_clear(struct host *host, uint32_t client, uint32_t flags)
{
    struct client *who = &host->clients->table[client];
    bool was = who->flags & CLIENT_BUSY;
    who->flags &= ~flags;
    host->clients->busy -= was && !(who->flags & CLIENT_BUSY);
}

uint32_t clients_busy(const struct host *host)
{
    return host->clients->busy;
}

uint32_t clients_connected(const struct host *host)
{
    return host->clients->connected;
}

bool clients_unknown(const struct host *host)
{
    return host->clients->survivors > 0;
}

void client_disconnected(struct host *host, uint32_t client)
{
    client_clear(host, client, CLIENT_CONNECTED | CLIENT_EVENTS | CLIENT_OPENING);
    host->clients->connected--;
}

bool client_is_known_now(struct host *host, uint32_t client)
{
    if (!(client_flags(host, client) & CLIENT_SURVIVOR)) {
        return false;
    }
    client_clear(host, client, CLIENT_SURVIVOR);
    host->clients->survivors--;
    return true;
}

void client_forget(struct host *host, uint32_t client, struct host_actions *actions)
{
    struct client *who = &host->clients->table[client];
    struct host_action *action = hub_emit(actions, HOST_FORGET);
    action->client = who->id;
    action->as.identity.holder = who->id;
    action->as.identity.nonce = who->nonce;
    uint32_t id = who->id;
    for (uint32_t i = 0; id != 0 && i < HUB_HOLDER_IDS; i++) {
        host->clients->ids[id].client = ID_LEAVING;
        id = host->clients->ids[id].next;
    }
    host->clients->id_count -= who->id_count;
    client_clear(host, client, UINT32_MAX);
}

void client_poke(struct host *host, uint32_t client)
{
    uint32_t flags = client_flags(host, client);
    if ((flags & CLIENT_CONNECTED) && (flags & CLIENT_EVENTS)) {
        client_set(host, client, CLIENT_POKE);
    }
}

void clients_poke_all(struct host *host)
{
    for (uint32_t i = 0; i < host->clients->capacity; i++) {
        if (client_flags(host, i) & CLIENT_USED) {
            client_poke(host, i);
        }
    }
}

/* ---- what others ask of a client ---- */

const struct host_peer *client_peer(const struct host *host, uint32_t client)
{
    return &host->clients->table[client].peer;
}

uint32_t client_connection(const struct host *host, uint32_t client)
{
    return host->clients->table[client].connection;
}

uint32_t client_id(const struct host *host, uint32_t client)
{
    return host->clients->table[client].id;
}

uint32_t client_next_id(const struct host *host, uint32_t id)
{
    return host->clients->ids[id].next;
}

uint32_t clients_ids_high(const struct host *host)
{
    return host->clients->ids_high;
}

bool host_is_deserted(const struct host *host)
{
    return host->clients->id_count == 0;
}

uint64_t client_regions(const struct host *host, uint32_t client)
{
    return host->clients->table[client].regions_sent;
}

uint64_t host_regions_of(const struct host *host, uint32_t client)
{
    uint32_t index = client_of_id(host, client);
    return index != NONE ? client_regions(host, index) : 0;
}

bool client_region_sent(struct host *host, uint32_t client, uint32_t space)
{
    struct client *who = &host->clients->table[client];
    bool sent = who->regions_sent >> space & 1;
    who->regions_sent |= UINT64_C(1) << space;
    return !sent;
}

void client_region_forget(struct host *host, uint32_t client, uint32_t space)
{
    host->clients->table[client].regions_sent &= ~(UINT64_C(1) << space);
}

void client_set_region_request(struct host *host, uint32_t client, uint64_t request)
{
    host->clients->table[client].region_request = request;
}

uint64_t client_region_request(const struct host *host, uint32_t client)
{
    return host->clients->table[client].region_request;
}

static void check_flags(const struct host *host)
{
    uint32_t ids = 0;
    uint32_t connected = 0;
    uint32_t busy = 0;
    for (uint32_t i = 0; i < host->clients->capacity; i++) {
        const struct client *client = &host->clients->table[i];
        if (!(client->flags & CLIENT_USED)) {
            HF_CHECK(client->flags == 0);
            continue;
        }
        connected += (client->flags & CLIENT_CONNECTED) != 0;
        busy += (client->flags & CLIENT_BUSY) != 0;
        HF_CHECK(!(client->flags & CLIENT_DEAD) || !(client->flags & CLIENT_CONNECTED));
        HF_CHECK(client_has_id(host, i, client->id));
        ids += client->id_count;
    }
    HF_CHECK(ids == host->clients->id_count);
    HF_CHECK(connected == host->clients->connected);
    HF_CHECK(busy == host->clients->busy);
}

void clients_check(const struct host *host)
{
    uint32_t named = 0;
    uint32_t chained = 0;
    for (uint32_t id = 1; id <= host->clients->ids_high; id++) {
        if (host->clients->ids[id].client != 0 && host->clients->ids[id].client != ID_LEAVING) {
            HF_CHECK(host->clients->ids[id].client <= host->clients->capacity);
            HF_CHECK(host->clients->table[host->clients->ids[id].client - 1].flags & CLIENT_USED);
            named++;
        }
    }
    HF_CHECK(named == host->clients->id_count);
    for (uint32_t i = 0; i < host->clients->capacity; i++) {
        bool used = host->clients->table[i].flags & CLIENT_USED;
        for (uint32_t id = used ? host->clients->table[i].id : 0; id != 0;
             id = host->clients->ids[id].next) {
            HF_CHECK(id <= host->clients->ids_high && client_has_id(host, i, id));
            HF_CHECK(++chained <= named);
        }
    }
    HF_CHECK(chained == named);
    check_flags(host);
}
