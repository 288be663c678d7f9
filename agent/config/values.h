/*
 * The values of keys in the configuration: one function for each kind of value.
 *
 * A function reads the text `value` into the field at `out`, which has the type that the comment
 * names. It returns false if the text is not such a value; the field may have changed then.
 */
#ifndef AGENT_CONFIG_VALUES_H
#define AGENT_CONFIG_VALUES_H

#include <stdbool.h>

/* char[HFI_LABEL_MAX + 1] */
bool value_label(const char *value, void *out);
/* int64_t, nanoseconds */
bool value_ttl(const char *value, void *out);
bool value_grace(const char *value, void *out);
/* uint32_t */
bool value_percent(const char *value, void *out);
bool value_protocol(const char *value, void *out);
bool value_locks(const char *value, void *out);
bool value_clients(const char *value, void *out);
bool value_handles(const char *value, void *out);
bool value_blocks(const char *value, void *out);
bool value_watches(const char *value, void *out);
bool value_holders(const char *value, void *out);
/* const struct profile * */
bool value_profile(const char *value, void *out);
/* char[PATH_MAX] */
bool value_path(const char *value, void *out);
/* char[CONFIG_SOCKET_MAX] */
bool value_socket(const char *value, void *out);
/* char[MESSAGE_ADDRESS_MAX] */
bool value_address(const char *value, void *out);
bool value_http(const char *value, void *out);
bool value_page(const char *value, void *out);
/* enum config_show */
bool value_show(const char *value, void *out);
/* bool */
bool value_yes(const char *value, void *out);
/* bool: whether the level is debug */
bool value_log_level(const char *value, void *out);
/* bool: whether it is an observer */
bool value_role(const char *value, void *out);

#endif
