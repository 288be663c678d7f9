/* See cell_preload.h. Three processes write the three stores at the same time. */
#include "cell_preload.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/store.h"

enum { ROWS_A_COMMIT = 20000 };

static bool put_register(struct store *store, uint32_t index)
{
    static struct action action; /* static, because it is too large for the stack */
    struct message_value *value = &action.as.reg.value;
    char name[32];
    int length = snprintf(name, sizeof(name), "bench/preload/%09u", index);
    action.kind = ACTION_PERSIST_REGISTER;
    message_name_set(&action.as.reg.name, name, (size_t)length);
    action.as.reg.accepted = (struct message_order){.ballot = 1 << 16 | 1, .sequence = index + 1};
    *value = (struct message_value){.version = action.as.reg.accepted,
                                    .token_first = 1,
                                    .token_last = 1 << 20,
                                    .epoch = 1,
                                    .lock_delay_ms = 1000,
                                    .permits = 1,
                                    .mode = MESSAGE_MODE_EXCLUSIVE};
    message_agent_set(&value->owner, "gone", 4);
    return store_put_action(store, &action);
}

static bool fill(struct store *store, uint32_t registers)
{
    uint64_t commit;
    for (uint32_t i = 0; i < registers; i++) {
        if ((i % ROWS_A_COMMIT == 0 && !store_begin(store)) || !put_register(store, i) ||
            ((i % ROWS_A_COMMIT == ROWS_A_COMMIT - 1 || i + 1 == registers) &&
             !store_commit(store, &commit))) {
            return false;
        }
    }
    return true;
}

static int fill_store(const struct cell *cell, uint32_t host, uint32_t registers)
{
    struct store_identity identity = {.epoch = 0};
    struct store_meta meta;
    char path[AGENT_PATH_MAX + 32];
    char agent[8];
    char error[STORE_ERROR_MAX];
    snprintf(path, sizeof(path), "%s/state/holdfast.db", cell->agents[host].directory);
    snprintf(agent, sizeof(agent), "host-%c", 'a' + (int)host);
    message_agent_set(&identity.cell, "bench", 5);
    message_agent_set(&identity.agent, agent, 6);
    struct store *store = store_open(path, &identity, &meta, error);
    if (store == NULL) {
        return complain("%s", error);
    }
    int result = fill(store, registers) ? 0 : complain("%s", store_error(store));
    store_close(store);
    return result;
}

int cell_preload(struct cell *cell, const char *below, const char *ttl, uint32_t registers)
{
    pid_t pids[CELL_HOSTS];
    int result = cell_start(cell, below, ttl);
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        agent_end(&cell->agents[i]);
    }
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        fflush(NULL);
        pids[i] = result != 0 ? -1 : fork();
        if (pids[i] == 0) {
            _exit(fill_store(cell, i, registers) == 0 ? 0 : 1);
        }
    }
    for (uint32_t i = 0; i < CELL_HOSTS; i++) {
        int status = 1;
        if (pids[i] < 0 || waitpid(pids[i], &status, 0) != pids[i] || status != 0) {
            result = -1;
        }
    }
    return result;
}
