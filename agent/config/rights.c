/*
 * The rights of each user, by the configuration: see config.h. Root and admins may do everything;
 * users and groups of a namespace replace those of [agent].
 */
#include "config/config.h"

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
    if (user->uid == 0 || (config->dev && user->uid == own) || is_admin(access, user) ||
        is_admin(&config->everywhere, user)) {
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
    bool others = names_others(&config->everywhere, own);
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        others = others || names_others(&config->namespaces[i].access, own);
    }
    return others;
}
