/*
 * The users and groups that the configuration names, and the rights of each: see config.h. Root and
 * admins may do everything in their namespaces. Root and the admins of [agent] may also change the
 * voters. If a namespace has users or groups of its own, the users and groups of [agent] have no
 * rights there.
 */
#include "config/config.h"

#include <stdio.h>

#include "proto/check.h"

static struct config_ids *ids_of(struct config_access *access, enum config_list list, bool is_group)
{
    if (list == CONFIG_ADMINS) {
        return is_group ? &access->admin_groups : &access->admin_users;
    }
    return list == CONFIG_GROUPS ? &access->groups : &access->users;
}

void config_found(struct config *config, uint32_t account, bool is_group, uint32_t id)
{
    struct config_account *entry = &config->accounts[account];
    struct config_access *access = entry->space == CONFIG_EVERYWHERE
                                       ? &config->everywhere
                                       : &config->namespaces[entry->space].access;
    struct config_ids *ids = ids_of(access, entry->list, is_group);
    if (!entry->found) {
        HF_CHECK(ids->count < CONFIG_IDS_MAX); /* take_access() allows no more names in a list */
        ids->ids[ids->count++] = id;
        entry->found = true;
    }
}

uint32_t config_unknown_count(const struct config *config)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < config->account_count; i++) {
        count += !config->accounts[i].found;
    }
    return count;
}

const char *config_location(const struct config *config, const struct config_account *account,
                            char *out)
{
    static const char *const keys[] = {"users", "groups", "admins"};
    bool everywhere = account->space == CONFIG_EVERYWHERE;
    snprintf(out, CONFIG_LOCATION_MAX, "[%s%s] %s", everywhere ? "agent" : "namespace.",
             everywhere ? "" : config->namespaces[account->space].name, keys[account->list]);
    return out;
}

static bool has_user(const struct config_ids *ids, uint32_t id)
{
    for (uint32_t i = 0; i < ids->count; i++) {
        if (ids->ids[i] == id) {
            return true;
        }
    }
    return false;
}

static bool has_group(const struct config_ids *ids, const struct config_user *user)
{
    for (size_t i = 0; i < user->group_count; i++) {
        if (has_user(ids, user->groups[i])) {
            return true;
        }
    }
    return false;
}

static bool is_admin(const struct config_access *access, const struct config_user *user)
{
    return has_user(&access->admin_users, user->uid) || has_group(&access->admin_groups, user);
}

uint8_t config_rights(const struct config *config, uint32_t space, uid_t own,
                      const struct config_user *user)
{
    const struct config_access *access = &config->namespaces[space].access;
    if (user->uid == 0 || (config->dev && user->uid == own) ||
        is_admin(&config->everywhere, user)) {
        return HOST_MAY_USE | HOST_MAY_ADMIN | HOST_MAY_CHANGE_VOTERS;
    }
    if (is_admin(access, user)) {
        return HOST_MAY_USE | HOST_MAY_ADMIN;
    }
    const struct config_access *usage = access->limited ? access : &config->everywhere;
    bool may = user->uid == own || has_user(&usage->users, user->uid) ||
               has_group(&usage->groups, user);
    return may ? HOST_MAY_USE : 0;
}

static bool names_others(const struct config_access *access, uid_t own)
{
    const struct config_ids *lists[] = {&access->users, &access->admin_users};
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t j = 0; j < lists[i]->count; j++) {
            if (lists[i]->ids[j] != own && lists[i]->ids[j] != 0) {
                return true;
            }
        }
    }
    return access->groups.count > 0 || access->admin_groups.count > 0;
}

bool config_admits_others(const struct config *config, uid_t own)
{
    bool others = config->awaits_accounts || names_others(&config->everywhere, own);
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        others = others || names_others(&config->namespaces[i].access, own);
    }
    return others;
}
